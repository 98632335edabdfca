"""The threads that have had an id, one after the other: systems give the id of one that has ended again.

A thread writes its Thread/Created itself, as the first of its events (seen on 8 to 10): what has its id and comes before is of one that had the id
before. Thread/Terminated no runtime from 8 on was seen to write.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.kept_events import Kept, KeptEvents, having
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

CREATED = 85
"""AppDomainResourceManagement/ThreadCreated."""
EARLY_MS = 20.0
"""A sampler may see a thread before it has told of itself: what comes so shortly before the first of an id is no other thread's."""


class ThreadLives:
    """Takes windows; tells of events by process, id and time which of the threads with that id they are of."""

    def __init__(self) -> None:
        self._events = KeptEvents(having(CREATED), ("ManagedThreadID", "Flags", "OSThreadID"))
        self._sorted: _Sorted | None = None
        self.wants = self._events.wants

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        if len(self._events.feed(window)):
            self._sorted = None

    def created(self) -> Kept:
        """Thread/Created of each, by process and id, and then in the order of time."""
        return self._ordered().created

    def number(self, pid: Array, tid: Array, ms: Array) -> Array:
        """Of each event how many threads of its id were created until then: 0 for one that was there before, and for an id that none was created
        with.
        """
        return self._ordered().number(pid, tid, ms)

    def next_ms(self, pid: Array, tid: Array, number: Array) -> Array:
        """Of some threads, by the numbers that :meth:`number` gives, when the next was created with the id: what they did was over then. Infinite
        where none was.
        """
        return self._ordered().next_ms(pid, tid, number)

    def numbers(self) -> Array:
        """The same of each that was created: 1 for the first of its id."""
        made = self._ordered()
        numbers: Array = np.arange(len(made.created)) - made.first[made.key] + 1
        return numbers

    def _ordered(self) -> _Sorted:
        if self._sorted is None:
            created = self._events.all()
            self._sorted = _Sorted(
                created.of(np.flatnonzero(created["OSThreadID"] >= 0))
            )  # one of a damaged block names nobody
        return self._sorted


class _Sorted:
    def __init__(self, created: Kept) -> None:
        order = np.lexsort((created.ms, created["OSThreadID"], created.pid))
        self.created = created = created.of(order)
        pid, tid = created.pid.astype(np.int64), created["OSThreadID"].astype(np.int64)
        begins = np.ones(len(created), np.bool_)
        begins[1:] = (np.diff(pid) != 0) | (np.diff(tid) != 0)
        self.key = np.cumsum(begins) - 1
        self.first = np.flatnonzero(begins)
        self._pids, which = np.unique(pid, return_inverse=True)
        self._tids, who = np.unique(tid, return_inverse=True)
        self._codes = (which.reshape(-1) * len(self._tids) + who.reshape(-1))[self.first]
        since = created.ms - np.where(begins, EARLY_MS, 0.0)
        self._times = np.sort(since)
        self._places = self.key * (len(since) + 1) + np.searchsorted(self._times, since, side="right")

    def number(self, pid: Array, tid: Array, ms: Array) -> Array:
        if not len(self.created):
            return np.zeros(len(ms), np.int64)
        key, is_known = self._key(pid, tid)
        place = key * (len(self._times) + 1) + np.searchsorted(self._times, ms, side="right")
        number = np.searchsorted(self._places, place, side="right") - self.first[key]
        made: Array = np.where(is_known, np.maximum(number, 0), 0)
        return made

    def next_ms(self, pid: Array, tid: Array, number: Array) -> Array:
        if not len(self.created):
            return np.full(len(pid), np.inf)
        key, is_known = self._key(pid, tid)
        place = self.first[key] + number
        is_known &= place < np.append(self.first, len(self.created))[key + 1]
        made: Array = np.where(is_known, self.created.ms[np.where(is_known, place, 0)], np.inf)
        return made

    def _key(self, pid: Array, tid: Array) -> tuple[Array, Array]:
        """Of each its place in ``first``, and whether one was created with its id."""
        process, is_process = _found(self._pids, pid.astype(np.int64))
        thread, is_thread = _found(self._tids, tid.astype(np.int64))
        key, is_key = _found(self._codes, process * len(self._tids) + thread)
        return key, is_process & is_thread & is_key


def _found(known: Array, values: Array) -> tuple[Array, Array]:
    """The places of values among sorted ones (0 where there is none), and whether they are there."""
    place = np.searchsorted(known, values)
    place[place == len(known)] = 0
    is_there = known[place] == values
    return np.where(is_there, place, 0), is_there
