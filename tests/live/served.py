"""A Python process that serves: who it is, its environment, and each session a recording; a program for tests to start.

    python served.py RECORDING [AGE]

It opens what its environment says. Says ``ready PID`` once it serves, and ``resumed`` once it may go on; it
ends when its input does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.server.sources import FakeSource

from dotnetdiag.ipc.tracing import CollectTracing6
from dotnetdiag.server import Age, Caller, DiagnosticServer, ProcessCommands, Streaming


class Replaying(ProcessCommands):
    """Half of the recording at once, the other half as the rundown."""

    data = b""

    def collect(self, request: CollectTracing6, caller: Caller) -> Streaming:
        half = len(self.data) // 2
        return Streaming(source=FakeSource(self.data[:half], self.data[half:]))


def main(recording: str, age: str = "11") -> None:
    Replaying.data = Path(recording).read_bytes()
    with DiagnosticServer(Replaying(), age=Age(age), problem=lambda line, error: print("problem", line)) as server:
        server.open_environment()
        print("ready", os.getpid(), flush=True)
        server.wait_until_resumed()
        print("resumed", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
