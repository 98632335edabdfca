"""Record a program and everything .NET that it starts: python follow_a_build.py COMMAND ..."""

import sys

import dotnetdiag as dd

done = dd.follow(sys.argv[1:], "traces", providers="Microsoft-Windows-DotNETRuntime:Loader:Informational")
for one in done.recordings:
    with dd.open(one.path) as trace:
        print(one.pid, one.path.name, len(trace["Loader/AssemblyLoad"]), "assemblies")
