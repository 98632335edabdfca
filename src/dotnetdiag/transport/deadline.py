"""How long an operation may still take, over all the steps it is made of."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from dotnetdiag.errors import TimedOut, UsageError

FOR_EVER_S = 1e10
"""So many seconds, three centuries, and more are no limit. A clock could not take all of them: an int may be larger than any float."""
LONGEST_WAIT_S = 86400.0
"""The longest wait that a system call is asked for. ``poll`` and Windows count milliseconds in 31 bits: 24.8 days."""


class Deadline:
    """``timeout_s`` seconds from now; ``None`` and ``FOR_EVER_S`` are for ever. ``clock`` gives seconds that never go back."""

    __slots__ = ("_clock", "_end", "timeout_s")

    def __init__(self, timeout_s: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        if timeout_s is not None and not timeout_s >= 0:  # also refuses NaN
            raise UsageError(f"a timeout of {timeout_s} s: must be 0 or more")
        self.timeout_s = timeout_s
        self._clock = clock
        self._end = None if timeout_s is None or timeout_s >= FOR_EVER_S else clock() + timeout_s

    @property
    def left_s(self) -> float:
        """Seconds left: 0 when it is over, infinity for ever."""
        return math.inf if self._end is None else max(0.0, self._end - self._clock())

    @property
    def is_over(self) -> bool:
        return not self.left_s

    def wait_s(self, problem: str = "nothing happened", *, address: str = "") -> float:
        """As ``left_s``, but at most ``LONGEST_WAIT_S``: who waits so long in vain asks again. Raises ``TimedOut`` when it is over."""
        left_s = self.left_s
        if not left_s:
            raise TimedOut(problem, address=address, timeout_s=self.timeout_s)
        return min(left_s, LONGEST_WAIT_S)
