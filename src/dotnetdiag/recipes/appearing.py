"""Wait for a process that is not there yet: its socket is what tells that a runtime has begun."""

from __future__ import annotations

import time
from collections.abc import Callable

from dotnetdiag.client import Client
from dotnetdiag.errors import AmbiguousName, DiagnosticsError, UnsupportedCommand, UsageError
from dotnetdiag.recipes.processes import entry_assembly_of, is_called, program_of
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
    """The pid of the first runtime whose program or entry assembly is ``name`` (in any case), once it answers; one that is there already is
    taken at once. Its command line says the name, or it does so itself (a Python program is called as its script). ``waiting`` is told the
    name when there is none yet; ``check`` is called several times a second, and may raise to end the wait. Raises AmbiguousName when several
    are there already, UsageError for an empty name.
    """
    if not name:
        raise UsageError("an empty name means no process")
    with Arrivals((tool_tmpdir(), DEFAULT_TMPDIR)) as arrivals:
        newcomers = _Newcomers(name, check)
        is_first, looked = True, float("-inf")
        while True:
            check()
            if (
                arrivals.wait(0 if is_first else LOOK_S)
                or time.monotonic() - looked > EVERYWHERE_S
                or not arrivals.is_told
            ):
                looked = time.monotonic()
                pids = newcomers.called()
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


class _Newcomers:
    """Processes with a socket that were not there before, and what they are called."""

    def __init__(self, name: str, check: Callable[[], None]) -> None:
        self._name = name
        self._check = check
        self._known: dict[int, int | None] = {}
        """When each that was looked at started: a number that was used again is new."""
        self._silent: dict[int, float] = {}
        """Since when those do not answer that nobody has named."""

    def called(self) -> list[int]:
        """Those that have come since the last call, have the name, and answer. Who does not answer is looked at again; of those whose command
        line does not say the name, which are asked for it when nobody else has it, for some seconds only.
        """
        there = {pid: processes.start_time_ticks(pid) for pid in {one.pid for one in endpoints()}}
        new = [pid for pid, started in there.items() if self._known.get(pid, -1) != started]
        self._known = there
        self._silent = {pid: since for pid, since in self._silent.items() if pid in there}
        named = [pid for pid in new if self._is_named(pid)]
        found = [pid for pid in named if _answer(pid, ANSWER_S, self._check) is not None]
        for pid in set(named).difference(found):
            del self._known[pid]
        return found or [pid for pid in new if pid not in named and self._calls_itself(pid)]

    def _is_named(self, pid: int) -> bool:
        argv = processes.argv(pid) or ()
        return is_called(self._name, (program_of(pid, argv), entry_assembly_of(argv)))

    def _calls_itself(self, pid: int) -> bool:
        entry = _answer(pid, LOOK_S, self._check)
        if entry is None and time.monotonic() - self._silent.setdefault(pid, time.monotonic()) < ANSWER_S:
            self._known.pop(pid, None)
        return entry is not None and is_called(self._name, (entry,))


def _answer(pid: int, within_s: float, check: Callable[[], None]) -> str | None:
    """What a process says that it runs, ``""`` where it cannot say it; None where it does not answer."""
    ends = time.monotonic() + within_s
    while time.monotonic() < ends and processes.exists(pid):
        check()
        try:
            return Client(pid, timeout_s=LOOK_S).process_info().entry_assembly
        except UnsupportedCommand:
            return ""  # .NET Core 3.x
        except DiagnosticsError:
            time.sleep(PAUSE_S)
    return None
