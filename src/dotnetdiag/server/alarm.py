"""What wakes the one thread of a :class:`~dotnetdiag.server.periodic.Periodic` when its time has come.

``_kernels.Alarm`` does the same for the sampler, and more: this one gets the interpreter's lock when the thread that holds it waits for
something, or after 5 ms. So a sampler sees a thread that computes for less than that where it waits, and not where it computed.
"""

from __future__ import annotations

import threading
import time


class Alarm:
    """Waited for by one thread, ended by another."""

    def __init__(self) -> None:
        self._ends = threading.Lock()  # no Event: in a child after a fork its own lock may stay taken for ever
        self._ends.acquire()
        self._clocks: list[int] = []

    def wait(self, timeout_ns: int) -> bool:
        """True at once when :meth:`end` is called, False after so long."""
        return self._ends.acquire(timeout=max(0, timeout_ns) / 1e9)

    def end(self) -> None:
        """Once only."""
        self._ends.release()

    def watch(self, numbers: list[int]) -> None:
        """These clocks of threads from now on."""
        self._clocks = numbers

    def used_then(self) -> list[int]:
        """Processor time in ns by clock, when the alarm went off, before another thread was asked to stand still. Empty: nobody knows."""
        return []

    def used_now(self) -> list[int]:
        """The same of now. -1: the thread has ended."""
        return [_used_ns(number) for number in self._clocks]


def _used_ns(number: int) -> int:
    try:
        return time.clock_gettime_ns(number)
    except OSError:
        return -1
