"""How long collections hold up the process, measured while somebody asks: Python itself does not keep it."""

from __future__ import annotations

import gc
from contextlib import suppress
from time import perf_counter_ns


class GcPauses:
    """Hooked into the collector between :meth:`begin` and :meth:`end`, which may be nested. Not while one of them runs: by one thread at a
    time. A program that empties ``gc.callbacks`` meanwhile ends the measuring, until somebody begins anew.
    """

    def __init__(self) -> None:
        self.total_ns = 0
        """Of all collections that were measured."""
        self.last_share = 0.0
        """The last collection's part (0 to 1) of the time since the one before it; 0 before the second."""
        self._users = 0
        self._began_ns = self._ended_ns = 0
        self._hook = self._collected  # one object, to be found again in gc.callbacks

    def begin(self) -> None:
        """Measure from now on."""
        self._users += 1
        if self._users == 1:
            self._began_ns = self._ended_ns = 0
        if self._hook not in gc.callbacks:  # a program may have taken it away, or put back a list that had it
            gc.callbacks.append(self._hook)

    def end(self) -> None:
        """Whoever began needs it no more."""
        self._users -= 1
        if not self._users:
            with suppress(ValueError):
                gc.callbacks.remove(self._hook)

    def _collected(self, phase: str, _: dict[str, int]) -> None:
        now = perf_counter_ns()
        if phase == "start":
            self._began_ns = now
        elif self._began_ns:
            pause_ns = now - self._began_ns
            self.total_ns += pause_ns
            if self._ended_ns:
                self.last_share = pause_ns / max(1, now - self._ended_ns)
            self._ended_ns = now


GC_PAUSES = GcPauses()
"""That of the process."""
