"""The threads of a process as the system knows them: their names, and the processor time they have used (Linux).

.NET 6 and newer give ``Thread.Name`` to the kernel, cut to 15 bytes, and names of their own to the runtime's threads;
threads without one are called as the thread that started them.
"""

from __future__ import annotations

import os
from pathlib import Path

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.transport import processes


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemThread:
    """``name`` is None for the process's own name. It ran for ``cpu_ns``, and waited for a processor for ``queued_ns``: both None where the
    kernel does not count (proc(5), ``schedstat``).
    """

    name: str | None
    cpu_ns: int | None
    queued_ns: int | None


def system_threads(pid: int, proc: Path = processes.PROC) -> dict[int, SystemThread]:
    """By thread id as the process itself sees it (in its own pid namespace). Empty where nothing can be read."""
    own = processes.comm(pid, proc)
    try:
        tasks = os.listdir(f"{proc}/{pid}/task")
    except (OSError, ValueError):
        return {}
    inner = len(processes.namespace_pids(pid, proc) or ()) > 1
    found: dict[int, SystemThread] = {}
    for task in tasks:
        comm = processes.read(pid, f"task/{task}/comm", proc)
        if comm is None or not task.isdecimal():
            continue
        name = os.fsdecode(comm.removesuffix(b"\n"))
        times = (processes.read(pid, f"task/{task}/schedstat", proc) or b"").split()[:2]
        ran, queued = map(int, times) if len(times) == 2 and all(map(bytes.isdigit, times)) else (None, None)
        number = _inner(processes.read(pid, f"task/{task}/status", proc), int(task)) if inner else int(task)
        found[number] = SystemThread(name=None if name == own else name or None, cpu_ns=ran, queued_ns=queued)
    return found


def _inner(status: bytes | None, task: int) -> int:
    """The thread's id in its innermost pid namespace."""
    for line in (status or b"").split(b"\n"):
        if line.startswith(b"NSpid:"):
            last = line.split()[-1]
            return int(last) if last.isdigit() else task
    return task
