"""When events came that nobody took in time, and so were dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.nettrace.constants import GAPS_LIMIT
from dotnetdiag.trace.gaps import NEVER

if TYPE_CHECKING:
    from dotnetdiag.trace.table import EventTable


class Dropped:
    """Windows that were dropped: those that follow each other are one gap. Of more than 10,000 the last has no end."""

    def __init__(self) -> None:
        self.total = 0
        self._gaps: list[tuple[int, int, int]] = []
        self._goes_on = False

    def drop(self, window: EventTable) -> None:
        """This one, which is not empty."""
        self.total += len(window)
        ns = window.trace.meaning.elapsed_ns(window.headers)
        gap = int(ns.min()), int(ns.max()), len(window)
        if self._goes_on or len(self._gaps) >= GAPS_LIMIT:
            first, last, count = self._gaps.pop()
            last = max(last, gap[1]) if self._goes_on else NEVER
            gap = min(first, gap[0]), last, count + gap[2]
        self._gaps.append(gap)
        self._goes_on = True

    def took(self) -> None:
        """The next was taken."""
        self._goes_on = False

    def gaps(self) -> tuple[tuple[int, int, int], ...]:
        """From when to when so many events were dropped, in ns since the session began."""
        return tuple(self._gaps)
