"""One step of a pass over a file: blocks of events that are decoded together, and what is to be done between them."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace.batch import NEVER, Passed
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.group import Group
from dotnetdiag.nettrace.resolving import Resolved


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Step:
    """Event blocks that are decoded together. ``postponed``: what is to be done, and how many of the runs stand before it."""

    group: Group
    postponed: deque[tuple[int, Callable[[], None]]]

    def due(self, resolved: Resolved) -> tuple[int, Callable[[], None] | None]:
        """Up to which run nothing is to be done, and what is to be done there, which is for the caller now; None: all are resolved."""
        if self.postponed and self.postponed[0][0] <= resolved.complete:
            return self.postponed.popleft()
        return len(resolved.firsts) - 1, None

    def segment(self, resolved: Resolved, run: int) -> int:
        """The segment of the first event from a run on."""
        events = resolved.events
        return self.group.runs[bisect_right(events, events[run]) - 1].segment


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Part:
    """Events of a step for one batch, as it tells of them."""

    headers: HeaderColumns
    segment: int
    passed: Passed | None = None
    points: int = 0
    ended: int = NEVER
