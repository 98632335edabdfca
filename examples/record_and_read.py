"""Record a running .NET process for two seconds, and say what is in the recording.

python examples/record_and_read.py PID
"""

import sys
import tempfile
from pathlib import Path

import dotnetdiag as dd


def main(pid: int) -> None:
    client = dd.Client(pid)  # or dd.Client.connect("/path,connect"), or dd.AsyncClient(pid)
    path = Path(tempfile.mkdtemp()) / "app.nettrace"
    with client.trace("Microsoft-Windows-DotNETRuntime:GC+Exception:Informational", duration="2s") as session:
        session.save(path)

    trace = dd.open(path)
    print(trace)
    print("lost:", trace.lost.total)
    for provider, events in trace.counts().items():
        for name, count in sorted(events.items(), key=lambda row: -row[1])[:5]:
            print(f"{count:>8}  {provider}  {name}")
    if "GC/Start" in trace:
        for event in trace["GC/Start"]:
            print(event.time_ns, event["Reason"])


if __name__ == "__main__":
    main(int(sys.argv[1]))
