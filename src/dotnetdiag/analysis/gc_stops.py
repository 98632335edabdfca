"""What is kept of the events that tell when a program was stopped: all, but for those of threads that stop it for others than the collector.

The sampler of the runtime stops it a thousand times in a second, on a thread of its own: an hour of the default profile were 700 MB of what tells of
no collection, and the report on 20 minutes with a hundred of them took 300.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.gc_pauses import are_for_gc
from dotnetdiag.analysis.kept_events import Kept, KeptEvents
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"
_Thread: TypeAlias = tuple[int, int]
"""Its process, and its id."""

MOST_FOREIGN = 1 << 6
"""Threads that are passed over: each session with a sampler has one."""


class GcStops:
    """Takes windows for the keepers of suspensions, and of what follows each on its thread.

    What comes of a thread before its first suspension for the collector is the end of none: which restart is of which suspension is told by what
    follows it, and not by what was before.
    """

    def __init__(self, suspending: KeptEvents, *following: KeptEvents) -> None:
        self._suspending, self._keepers = suspending, (suspending, *following)
        self._foreign, self._own = set[_Thread](), set[_Thread]()
        """Threads that have stopped the program for others alone, and such that have for the collector too."""

    def feed(self, window: EventTable) -> None:
        """Keep what is needed of it."""
        came = [keeper.of(events) if len(events := keeper.events_of(window)) else None for keeper in self._keepers]
        if came[0] is not None:
            self._learn(came[0])
        for keeper, kept in zip(self._keepers, came, strict=True):
            if kept is not None:
                keeper.add(self._without_foreign(kept))

    def pids(self) -> Array:
        """The processes that were stopped, for whatever (i64, ascending)."""
        kept = self._suspending.all().pid.astype(np.int64)
        return distinct(np.append(kept, np.array([pid for pid, _ in self._foreign], np.int64)))

    def _learn(self, suspending: Kept) -> None:
        is_own = are_for_gc(suspending)
        for thread in [one for one in self._foreign if (_are_of(suspending, one) & is_own).any()]:
            self._foreign.remove(thread)
            self._own.add(thread)
        rows = np.flatnonzero(~is_own & ~self._are_foreign(suspending))
        if not len(rows):
            return
        others = suspending.of(rows)
        first, _ = combined([others.pid, others.tid], len(others))
        for thread in zip(others.pid[first].tolist(), others.tid[first].tolist(), strict=True):
            if thread in self._own or len(self._foreign) == MOST_FOREIGN:
                continue
            kept = self._suspending.all()
            has_own = (_are_of(suspending, thread) & is_own).any() or (_are_of(kept, thread) & are_for_gc(kept)).any()
            (self._own if has_own else self._foreign).add(thread)

    def _are_foreign(self, kept: Kept) -> Array:
        made = np.zeros(len(kept), np.bool_)
        for thread in self._foreign:
            made |= _are_of(kept, thread)
        return made

    def _without_foreign(self, kept: Kept) -> Kept:
        is_foreign = self._are_foreign(kept) if self._foreign else np.zeros(0, np.bool_)
        return kept.of(np.flatnonzero(~is_foreign)) if is_foreign.any() else kept


def _are_of(kept: Kept, thread: _Thread) -> Array:
    """Whether each is of that thread (bool)."""
    made: Array = (kept.tid == thread[1]) & (kept.pid == thread[0])
    return made
