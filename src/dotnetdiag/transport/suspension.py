"""Whether a .NET runtime waits at startup, by its threads, without asking it anything (ipc-protocol.md §21.3).

A runtime that waits has only its first threads. Measured on Linux with 8.0.33, 9.0.22, 10.0.14 and NativeAOT 9:

=========  =============================================  ===================================================
runtime    suspended                                      running, besides
=========  =============================================  ===================================================
CoreCLR    main, ``.NET SynchManag``, ``.NET EventPipe``  ``.NET Finalizer``, mostly ``.NET DebugPipe`` and more
NativeAOT  main and another of its name                   a third of its name, mostly ``.NET SigHandler``
=========  =============================================  ===================================================

Every runtime looks like this for 1 to 3 ms, at its start and when it has been resumed, and for longer where its threads wait for
a processor. So one that waits is known by threads that all sleep, and go on sleeping.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from dotnetdiag.transport import processes
from dotnetdiag.transport.processes import PROC

PAUSE_S = 0.02
"""How long all threads must sleep on."""
LOOKS = 50

_EVENT_PIPE, _SYNCH_MANAGER = ".NET EventPipe", ".NET SynchManag"


def is_suspended(pid: int, proc: Path = PROC, *, timeout_s: float = 1.0) -> bool | None:
    """Whether the runtime of a .NET process, known by its diagnostic socket, waits at startup. None: it cannot be told (in time).

    It cannot without ``/proc``, for .NET 5 and older (their threads have no names), for NativeAOT that handles no signal,
    and where a native host has threads of its own. True takes ``PAUSE_S``; a process that is just starting, a second at most.
    """
    before = None
    looks = LOOKS if timeout_s >= LOOKS * PAUSE_S else math.ceil(timeout_s / PAUSE_S)
    for _ in range(looks):
        names = processes.thread_names(pid, proc)
        verdict = _verdict(names)
        is_starting = verdict is None and _SYNCH_MANAGER in names and _EVENT_PIPE not in names
        if not verdict and not is_starting:
            return verdict
        sleeps = _sleeps(pid, proc)
        if verdict and before == (names, sleeps) and all(state == b"S" for state, _ in sleeps):
            return True
        before = names, sleeps
        time.sleep(PAUSE_S)
    return None


def _sleeps(pid: int, proc: Path) -> list[tuple[bytes, bytes]]:
    """The state of every thread, and how often it has gone to sleep."""
    tasks = processes.task_ids(pid, proc)
    statuses = [processes.read(pid, f"task/{task}/status", proc) or b"" for task in tasks]
    return [(_field(status, b"State:"), _field(status, b"voluntary_ctxt_switches:")) for status in statuses if status]


def _field(status: bytes, name: bytes) -> bytes:
    """The first word of one line of ``/proc/PID/status``."""
    return next((line.split()[1] for line in status.split(b"\n") if line.startswith(name)), b"")


def _verdict(names: tuple[str, ...]) -> bool | None:
    """What one look at the names says; the first is that of the main thread."""
    others = names[1:]
    if any(name.startswith(".NET ") and name not in (_EVENT_PIPE, _SYNCH_MANAGER) for name in others):
        return False  # also when a program renames its threads: it cannot rename all of these
    if _EVENT_PIPE in others:
        return True if set(others) <= {_EVENT_PIPE, _SYNCH_MANAGER} else None
    return True if others and others == names[:1] else None
