"""Names of the threads of a process, as the system has them.

.NET 6 and newer give ``Thread.Name`` to the kernel, cut to 15 bytes, and names of their own to the runtime's threads;
threads without one are called as the thread that started them.
"""

from __future__ import annotations

import os
from pathlib import Path

from dotnetdiag.transport import processes


def thread_names(pid: int, proc: Path = processes.PROC) -> dict[int, str]:
    """Names by thread id (of the process's own pid namespace), only of threads that have one beside the process's own."""
    own = processes.comm(pid, proc)
    try:
        tasks = os.listdir(f"{proc}/{pid}/task")
    except (OSError, ValueError):
        return {}
    found: dict[int, str] = {}
    for task in tasks:
        comm = processes.read(pid, f"task/{task}/comm", proc)
        if comm is None or not task.isdecimal():
            continue
        name = os.fsdecode(comm.removesuffix(b"\n"))
        if name and name != own:
            found[_inner(processes.read(pid, f"task/{task}/status", proc), int(task))] = name
    return found


def _inner(status: bytes | None, task: int) -> int:
    """The thread's id in its innermost pid namespace."""
    for line in (status or b"").split(b"\n"):
        if line.startswith(b"NSpid:"):
            last = line.split()[-1]
            return int(last) if last.isdigit() else task
    return task
