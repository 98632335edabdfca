"""Set a variable in a running .NET process (.NET 6): python set_a_variable.py PID."""

import sys

import dotnetdiag as dd

client = dd.Client(int(sys.argv[1]))
try:
    client.set_environment_variable("LOG_LEVEL", "debug")
    print(client.environment()["LOG_LEVEL"])
except dd.UnsupportedCommand as error:
    print(error)
