"""What wakes a thread of ours when its time has come, or when it is rung.

``_kernels.Alarm`` does the same, and more: this one gets the interpreter's lock when the thread that holds it waits for something, or after
5 ms, and later where it gives the lock up for moments. So a sampler sees a thread that computes for less than that where it waits, and not where
it computed.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from selectors import BaseSelector, SelectorKey
from types import FrameType

from dotnetdiag.server import kernels
from dotnetdiag.server.promptness import prompt


class Alarm:
    """Waited for by one thread, rung by any, in a signal handler and in a collection too."""

    def __init__(self) -> None:
        self._bell = SimpleQueue[None]()
        self._clocks: list[int] = []

    def wait(self, timeout_ns: int = -1) -> bool:
        """True at once when it is rung, False after so long (-1: never)."""
        try:
            self._bell.get(timeout=None if timeout_ns < 0 else timeout_ns / 1e9)
        except Empty:
            return False
        with suppress(Empty):  # once is enough
            while True:
                self._bell.get_nowait()
        return True

    def frames(self) -> dict[int, FrameType]:
        """The innermost frames of all other threads that run Python code, by ident."""
        made = sys._current_frames()
        made.pop(threading.get_ident(), None)  # it would have what it is kept in
        return made

    def ring(self) -> None:
        """End the wait of now, or else the next one."""
        self._bell.put(None)

    def watch(self, numbers: list[int]) -> None:
        """These clocks of threads from now on."""
        self._clocks = numbers

    def moved_then(self) -> list[bool]:
        """By clock, whether it was moving when the alarm went off: its thread was running. Empty: nobody knows."""
        return []

    def holder_then(self) -> int:
        """The ident of the thread that held the interpreter's lock when the alarm went off. 0: none did, or nobody knows."""
        return 0

    def used_now(self) -> list[int]:
        """By clock, the processor time in ns. -1: the thread has ended."""
        return [_used_ns(number) for number in self._clocks]

    def native_ids(self) -> dict[int, int]:
        """What the system calls the threads that run Python code, by ident: those that :mod:`threading` has begun or met."""
        return {one.ident: one.native_id for one in threading.enumerate() if one.ident and one.native_id}


def new_alarm() -> Alarm:
    """The better one, where it is compiled."""
    made: Alarm = Alarm() if kernels.KERNELS is None else kernels.KERNELS.Alarm()
    return made


def select_promptly(
    selector: BaseSelector, timeout_s: float | None, *, is_awaited: bool = True
) -> list[tuple[SelectorKey, int]]:
    """What ``selector.select`` gives, without waiting for a thread that gives up the interpreter's lock for moments only: where something has
    come, or somebody waits for us anyway (``is_awaited``).
    """
    descriptor = getattr(selector, "fileno", None)  # those of epoll and kqueue have one
    if kernels.KERNELS is None or descriptor is None:
        return selector.select(timeout_s)
    if timeout_s is None or timeout_s > 0:
        timeout_ms = -1 if timeout_s is None else min(int(timeout_s * 1000) + 1, _LONGEST_MS)
        kernels.KERNELS.wait_readable(descriptor(), timeout_ms)
    with prompt() if is_awaited or timeout_s != 0 else nullcontext():
        return selector.select(0)


if kernels.KERNELS is not None:
    atexit.register(kernels.KERNELS.be_patient)

_LONGEST_MS = 1 << 30


def _used_ns(number: int) -> int:
    try:
        return time.clock_gettime_ns(number)
    except OSError:
        return -1
