"""What the workload does while it is recorded, from its first instruction to its last, on any runtime."""

from __future__ import annotations

import time
from pathlib import Path

from tests.live.runtimes import workload

from dotnetdiag.client import Client

SETTLED_S = 0.2
"""It says that it is done a moment before it is: the thread that waited for it has its last event to write."""


def record(runtime: str, path: Path, providers: str, mode: str, *arguments: str) -> dict[str, str]:
    """Record a mode of the workload into a file. Returns what it says of itself when it is done: ``done gc gen0=3``."""
    with workload(runtime, mode, *arguments, "wait=stdin", "linger=stdin") as target:
        with Client(target.pid).trace(providers) as session:
            target.say()
            assert target.process.stdout is not None
            said = target.process.stdout.readline().decode().split()
            time.sleep(SETTLED_S)
            session.stop()
            path.write_bytes(b"".join(session))
        target.say()
    assert said[:2] == ["done", mode], said
    return dict(word.split("=", 1) for word in said[2:])
