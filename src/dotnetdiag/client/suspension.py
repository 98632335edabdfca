"""What must not be done to a runtime that is suspended at startup, remembered for this process.

A session that is started and stopped there, and then another one before ResumeRuntime, kills .NET 8, 9 and 10 in most cases and breaks
the second stream in all (ipc-protocol.md §21.1). So the first is let go, and the second refused.
"""

from __future__ import annotations

from collections import deque

from dotnetdiag.errors import DangerousRequest
from dotnetdiag.transport import processes
from dotnetdiag.transport.suspension import is_suspended

MOST_REMEMBERED = 256

_stopped_while_suspended: deque[tuple[int, int | None]] = deque(maxlen=MOST_REMEMBERED)
"""(pid, start time) of runtimes that had a session stopped before they were resumed."""


def note_stop(pid: int | None) -> None:
    """StopTracing goes to the process now."""
    if pid is not None and is_suspended(pid):
        _stopped_while_suspended.append((pid, processes.start_time_ticks(pid)))


def has_notes() -> bool:
    """Whether there is anything to ask :func:`refuse_second_session` about."""
    return bool(_stopped_while_suspended)


def refuse_second_session(pid: int | None) -> None:
    """Raise DangerousRequest when a session of ours was stopped there, and the runtime still waits to be resumed."""
    if pid is None or (pid, processes.start_time_ticks(pid)) not in _stopped_while_suspended:
        return
    if is_suspended(pid) is not False:
        raise DangerousRequest(
            "CollectTracing",
            f"a session was stopped while process {pid} is suspended at startup; a second one before it is resumed kills it: "
            "resume it first",
        )
