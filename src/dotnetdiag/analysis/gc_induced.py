"""Who asks for collections: the stacks of those events, of which most programs have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.condemned import INDUCED
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, Places, having
from dotnetdiag.analysis.origin import Origin, origin_of
from dotnetdiag.analysis.pool_threads import PoolThreads
from dotnetdiag.errors import UsageError
from dotnetdiag.trace.stack_ids import StackIds
from dotnetdiag.trace.table import EventTable

if TYPE_CHECKING:
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.analysis.stacked import Stacked, StackedEvents

Array: TypeAlias = "np.ndarray[Any, Any]"

TRIGGERED = 35
"""Id of GC/Triggered."""
_NONE = np.zeros(0, np.int64)
NAME, UNIT = "Induced collections", "collections"


@dataclass(frozen=True, slots=True)
class NoStacks:
    """In place of a profile without samples, which is made when somebody asks: what it is made by is 3 % of a report on 8,000 collections."""

    origin: Origin

    def profile(self) -> StackProfile:
        """That one."""
        from dotnetdiag.analysis.rows import profile_of_none

        return profile_of_none(self.origin, NAME, UNIT)


class InducedEvents:
    """Takes windows; :attr:`kept` and :meth:`result` are what came of those that a program asks for."""

    def __init__(self, places: Places) -> None:
        self._events = KeptEvents(having(TRIGGERED), ("Reason",), places=places)
        self._pool, self._seen = PoolThreads(), StackIds()
        self._stacked: StackedEvents | None = None

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        if self._stacked is None and self._are_in(window):
            from dotnetdiag.analysis.stacked import StackedEvents

            self._stacked = StackedEvents(self._events, _induced, self._pool)
        self._seen.look_at(window.trace)
        if self._stacked is None:
            self._pool.look_at(window)
        else:
            self._stacked.feed(window)

    def _are_in(self, window: EventTable) -> bool:
        found = self._events.events_of(window)
        return len(found) > 0 and len(_induced(self._events.of(found), _NONE)[0]) > 0

    @property
    def count(self) -> int:
        """How many were kept."""
        return len(self.kept)

    @property
    def kept(self) -> Kept:
        """The events, in the order in which they came."""
        return self._events.all()

    def result(self) -> Stacked | NoStacks:
        """A profile of them. Raises UsageError before the first window."""
        if self._stacked is not None:
            return self._stacked.result(NAME, UNIT, np.ones(self.count))
        if self._seen.context is None:
            raise UsageError("a result of no window: feed one first")
        return NoStacks(origin_of(self._seen.context))


def _induced(asked: Kept, _: Array) -> tuple[Array, Kept]:
    """Those that a program asks for."""
    rows = np.flatnonzero(np.isin(asked["Reason"], INDUCED))
    return rows, asked if len(rows) == len(asked) else asked.of(rows)
