"""When a session that somebody else has asked for has begun."""

from __future__ import annotations

import time
from pathlib import Path

from tests.live.runtimes import Target

PATIENCE_S = 60


def until_sessions(target: Target, count: int) -> None:
    """Wait until that many sessions stream: a runtime has a thread for each, once all providers know that they are listened to. It has the name of
    the one that answers us, which begins it.
    """
    ends = time.monotonic() + PATIENCE_S
    while True:
        names = [(task / "comm").read_text() for task in Path(f"/proc/{target.pid}/task").iterdir()]
        if sum(name.startswith(".NET EventPipe") for name in names) > count:
            return
        assert time.monotonic() < ends, names
        time.sleep(0.02)
