"""How a recording went: whether the file has its end, what was lost, whether the target is still there."""

from __future__ import annotations

import mmap
import time
from dataclasses import dataclass
from pathlib import Path

from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.transport import processes

LARGEST_BYTES = 1 << 30
"""A larger file is not read again only to count what was lost."""
EXIT_WAIT_S = 1.0
"""A process that has closed its end of the stream is gone within this, if it is about to go."""
PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``complete``: the stream came to its end, with the names of methods if there was a rundown. ``lost_events`` is a number that the
    runtime itself counted. Both are None where the file was not read (it is too large, or no trace).
    """

    complete: bool | None
    lost_events: int | None


def outcome_of(path: Path) -> Outcome:
    """What the file says."""
    from dotnetdiag.nettrace import scan

    unknown = Outcome(complete=None, lost_events=None)
    try:
        size = path.stat().st_size
        if not path.is_file() or size > LARGEST_BYTES:
            return unknown
        if not size:
            return Outcome(complete=False, lost_events=0)
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        found = scan(memoryview(data))
        for _ in found.iter_batches():
            pass  # losses are counted on the way
    except (OSError, DiagnosticsError):
        return unknown
    return Outcome(complete=found.complete, lost_events=found.lost.total if found.lost.known else None)


def has_exited(pid: int | None, started_ticks: int | None, *, wait_s: float) -> bool:
    """Whether the process that was recorded has gone, or goes within ``wait_s``."""
    if pid is None or started_ticks is None:
        return False
    ends = time.monotonic() + wait_s
    while processes.start_time_ticks(pid) == started_ticks and not processes.is_zombie(pid):
        if time.monotonic() >= ends:
            return False
        time.sleep(PAUSE_S)
    return True
