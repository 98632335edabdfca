"""The .NET processes of this machine, and why one does not answer: python who_is_there.py."""

import dotnetdiag as dd

for process in dd.processes():
    print(process.pid, process.entry_assembly, process.runtime_version, process.problem or "answers")
