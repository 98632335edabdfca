"""The next three exceptions of a .NET process, as they are thrown: python watch_exceptions.py NAME."""

import sys

import dotnetdiag as dd

process = next(one for one in dd.processes() if sys.argv[1] in (one.entry_assembly, str(one.pid)))
client = dd.Client(process.pid)
for event in dd.watch(
    client, "Microsoft-Windows-DotNETRuntime:Exception", events="Exception/Start", limit=3, duration="30s"
):
    print(event["ExceptionType"], event["ExceptionMessage"])
