"""Start a .NET program and record it from its first instruction: python start_and_record.py COMMAND ..."""

import sys

import dotnetdiag as dd

done = dd.collect(output="start.nettrace", clr_events="loader", duration="2s", command=sys.argv[1:])
trace = dd.open(done.path)
for event in trace["Loader/AssemblyLoad"]:
    print(event["FullyQualifiedAssemblyName"].partition(",")[0])
