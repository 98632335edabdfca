"""What this process uses, as the system and the interpreter say it."""

from __future__ import annotations

import gc
import os

from dotnetdiag.server.thread_names import program_threads

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def working_set_bytes() -> int | None:
    """Memory of the process that is in RAM; None where the platform does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def cpu_seconds() -> dict[str, float]:
    """Processor time of the process since it began, by mode: ``user`` and ``system``."""
    if resource is None:
        times = os.times()
        return {"user": times.user, "system": times.system}
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"user": usage.ru_utime, "system": usage.ru_stime}


def processor_count() -> int:
    """How many processors the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count() -> int:
    """Threads of the program, as far as :mod:`threading` knows them."""
    return sum(1 for _ in program_threads())


def by_generation(what: str) -> list[int]:
    """``collections``, ``collected`` or ``uncollectable``, of each generation, the youngest first."""
    return [one[what] for one in gc.get_stats()]
