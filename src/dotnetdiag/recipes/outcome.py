"""How a recording went: whether the file has its end, what was lost, whether the target is still there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.nettrace.loss_count import LossCount, count_losses
from dotnetdiag.transport import processes

if TYPE_CHECKING:
    from dotnetdiag.client import Client

LARGEST_BYTES = 1 << 30
"""A larger file is not read again only to count what was lost."""
EXIT_WAIT_S = 1.0
"""A process that has closed its end of the stream is gone within this, if it is about to go."""
PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``complete``: the stream came to its end, with the names of methods if there was a rundown. ``lost_events`` is a number that the
    runtime itself counted. Both are None where that is not known: a large trace of unusual form is not read again for it.
    """

    complete: bool | None
    lost_events: int | None


def outcome_of(path: Path, counted: LossCount | None = None) -> Outcome:
    """What was counted while the file was written; without that, what the file says."""
    try:
        if counted is None and path.is_file() and path.stat().st_size <= LARGEST_BYTES:
            with open(path, "rb", buffering=0) as file:
                counted = count_losses(file)
    except (OSError, DiagnosticsError):
        pass
    if counted is None:
        return Outcome(complete=None, lost_events=None)
    return Outcome(complete=counted.complete, lost_events=counted.lost)


def exit_of(client: Client) -> Callable[..., int | None]:
    """To be asked later: the pid of the client's process, once that has gone (within ``wait_s``)."""
    pid = client.target_pid()
    started_ticks = None if pid is None else processes.start_time_ticks(pid)
    return lambda wait_s: pid if has_exited(pid, started_ticks, wait_s=wait_s) else None


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
