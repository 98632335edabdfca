"""The part of a profile that matters, for other tools: python formats.py FILE."""

import sys

import dotnetdiag as dd

profile = dd.cpu(dd.open(sys.argv[1])).in_states("cpu").focus("Demo")
print(dd.write(profile, "demo.speedscope.json"))  # the format from the suffix
print(dd.write(profile, "demo.html"))  # a flame graph
print(dd.write(profile.methods(), "demo.csv"))  # a table
