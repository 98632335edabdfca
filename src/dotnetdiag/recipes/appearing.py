"""Wait for a process that is not there yet: its socket is what tells that a runtime has begun."""

from __future__ import annotations

import time
from collections.abc import Callable

from dotnetdiag.client import Client
from dotnetdiag.errors import AmbiguousName, DiagnosticsError, UnsupportedCommand, UsageError
from dotnetdiag.recipes.processes import entry_assembly_of, program_of
from dotnetdiag.transport import processes
from dotnetdiag.transport.arrivals import Arrivals
from dotnetdiag.transport.discovery import DEFAULT_TMPDIR, endpoints, tool_tmpdir

EVERYWHERE_S = 1.0
"""How often all processes are looked at: those of containers, or with a TMPDIR of their own, have their sockets in other folders."""
ANSWER_S = 5.0
"""A socket has its name some microseconds before somebody listens there."""
LOOK_S = 0.2
"""How often it is looked whether the wait is still wanted."""
PAUSE_S = 0.005


def wait_for_process(
    name: str,
    *,
    waiting: Callable[[str], None] = lambda _: None,
    check: Callable[[], None] = lambda: None,
) -> int:
    """The pid of the first runtime whose program or entry assembly is ``name`` (in any case), as its command line says, once it answers;
    one that is there already is taken at once. ``waiting`` is told the name when there is none yet; ``check`` is called several times a
    second, and may raise to end the wait. Raises AmbiguousName when several are there already, UsageError for an empty name.
    """
    if not name:
        raise UsageError("an empty name means no process")
    with Arrivals((tool_tmpdir(), DEFAULT_TMPDIR)) as arrivals:
        known: dict[int, int | None] = {}
        is_first, looked = True, float("-inf")
        while True:
            check()
            if (
                arrivals.wait(0 if is_first else LOOK_S)
                or time.monotonic() - looked > EVERYWHERE_S
                or not arrivals.is_told
            ):
                looked = time.monotonic()
                called = [pid for pid in _new(known) if _is_called(pid, name)]
                pids = [pid for pid in called if _answers(pid, check)]
                for pid in set(called).difference(pids):  # it may answer later: it is stopped, or slow
                    known.pop(pid, None)
                if is_first and len(pids) > 1:
                    listed = ", ".join(map(str, sorted(pids)))
                    raise AmbiguousName(
                        f"There are more than one active processes with the given name: {name} ({listed})",
                        pids=tuple(pids),
                    )
                if pids:
                    return pids[0]
            if is_first:
                waiting(name)
            is_first = False


def _new(known: dict[int, int | None]) -> list[int]:
    """Those with a socket that were not there at the last look; a number that was used again is new."""
    there = {pid: processes.start_time_ticks(pid) for pid in {one.pid for one in endpoints()}}
    new = [pid for pid, started in there.items() if pid not in known or known[pid] != started]
    known.clear()
    known.update(there)
    return new


def _is_called(pid: int, name: str) -> bool:
    argv = processes.argv(pid) or ()
    return name.casefold() in {one.casefold() for one in (program_of(pid, argv), entry_assembly_of(argv)) if one}


def _answers(pid: int, check: Callable[[], None]) -> bool:
    ends = time.monotonic() + ANSWER_S
    while time.monotonic() < ends and processes.exists(pid):
        check()
        try:
            Client(pid, timeout_s=LOOK_S).process_info()
        except UnsupportedCommand:
            return True  # .NET Core 3.x
        except DiagnosticsError:
            time.sleep(PAUSE_S)
        else:
            return True
    return False
