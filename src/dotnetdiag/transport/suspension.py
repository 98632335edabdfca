"""Whether a runtime waits at startup, by its threads, without asking it anything (ipc-protocol.md §21.3).

A runtime that waits has only its first threads. Measured on Linux with 8.0.33, 9.0.22, 10.0.14 and NativeAOT 9:

=========  =============================================  ===================================================
runtime    suspended                                      running, besides
=========  =============================================  ===================================================
CoreCLR    main, ``.NET SynchManag``, ``.NET EventPipe``  ``.NET Finalizer``, mostly ``.NET DebugPipe`` and more
NativeAOT  main and another of its name                   a third of its name, mostly ``.NET SigHandler``
=========  =============================================  ===================================================

Every runtime looks like this for 1 to 3 ms, at its start and when it has been resumed, and for longer where its threads wait for
a processor. So one that waits is known by threads that all sleep, and go on sleeping.

A Python program that serves (:mod:`dotnetdiag.server`) says so itself: the name of its server's thread is ``SERVING`` or ``WAITING``. One that
serves from an asyncio loop has no such thread, and may look like NativeAOT that waits: of a Python interpreter nothing is concluded
from threads of one name.
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
OWN_LOOKS = 2
"""At Python that does not wait: it opens its ports before it does."""

SERVING, WAITING, HELD = "dotnetdiag serv", "dotnetdiag wait", "dotnetdiag held"
"""The names of a server's thread in a Python process: of one that runs, of one that waits at its start, and of one that was not resumed, and
does not wait, or not yet.
"""

_EVENT_PIPE, _SYNCH_MANAGER = ".NET EventPipe", ".NET SynchManag"
_INTERPRETERS = ("python", "libpython", "pypy", "libpypy")


def is_suspended(pid: int, proc: Path = PROC, *, timeout_s: float = 1.0) -> bool | None:
    """Whether the runtime of a process, known by its diagnostic socket, waits at startup. None: it cannot be told (in time).

    It cannot without ``/proc``, for .NET 5 and older (their threads have no names), for NativeAOT that handles no signal,
    where a native host has threads of its own, and for Python that serves from asyncio. True takes ``PAUSE_S``, and so does False of Python; a
    process that is just starting, a second at most.
    """
    before, own = None, 0
    looks = LOOKS if timeout_s >= LOOKS * PAUSE_S else math.ceil(timeout_s / PAUSE_S)
    for _ in range(looks):
        names = processes.thread_names(pid, proc)
        if _tells_itself(names):
            own += 1
            if WAITING in names or own == OWN_LOOKS:
                return True if WAITING in names else False if SERVING in names else None
            time.sleep(PAUSE_S)
            continue
        verdict = _verdict(names)
        is_starting = verdict is None and _SYNCH_MANAGER in names and _EVENT_PIPE not in names
        if not verdict and not is_starting:
            return verdict
        if verdict and _EVENT_PIPE not in names and _is_interpreter(pid, names[0], proc):
            return None
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


def _tells_itself(names: tuple[str, ...]) -> bool:
    """Whether it is a Python program that serves, and does not host .NET."""
    return not {SERVING, WAITING, HELD}.isdisjoint(names) and not any(name.startswith(".NET ") for name in names)


def _is_interpreter(pid: int, name: str, proc: Path) -> bool:
    """Whether a process is Python, by its name, its program or a library of it."""
    files = (name, processes.link(pid, "exe", proc) or "", *(processes.mapped_files(pid, proc) or ()))
    return any(file.rpartition("/")[2].startswith(_INTERPRETERS) for file in files)


def _verdict(names: tuple[str, ...]) -> bool | None:
    """What one look at the names says; the first is that of the main thread."""
    others = names[1:]
    if any(name.startswith(".NET ") and name not in (_EVENT_PIPE, _SYNCH_MANAGER) for name in others):
        return False  # also when a program renames its threads: it cannot rename all of these
    if _EVENT_PIPE in others:
        return True if set(others) <= {_EVENT_PIPE, _SYNCH_MANAGER} else None
    return True if others and others == names[:1] else None
