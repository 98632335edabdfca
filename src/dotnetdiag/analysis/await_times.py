"""What awaits took but for what was awaited below them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.await_rows import LOOKED_UP, AwaitRows
from dotnetdiag.analysis.trees import sum_by_parent
from dotnetdiag.trace.distinct import distinct, is_among

Array: TypeAlias = "np.ndarray[Any, Any]"

_SLICE = 1 << 16
"""Rows that are looked at at once."""


def own_times(awaits: AwaitRows) -> Array:
    """What each took, but for what its own awaits took meanwhile."""
    made = awaits.held.zeros("f8")  # first what is below
    sum_by_parent(awaits.caller, partial(_within_caller, awaits), made, awaits.held)
    for shared in _shared(awaits):
        below = _Below(awaits, distinct(awaits.first[shared]))
        for begin in range(0, len(shared), _SLICE):
            rows = shared[begin : begin + _SLICE]
            since, first = awaits.ms[rows], awaits.first[rows]
            made[rows] = below.taken_until(since + awaits.lasted(rows), first) - below.taken_until(since, first)
            awaits.held.release()
    for some in awaits.held.slices():
        own = np.maximum(awaits.lasted(some) - made[some], 0.0)
        own[np.isnan(awaits.duration[some])] = 0.0
        made[some] = own
    return made


def _within_caller(awaits: AwaitRows, some: slice[int, int, None]) -> Array:
    """How much of each is within what its caller took: that task may have begun before it was awaited."""
    taken, caller = awaits.lasted(some), awaits.caller[some]
    has = np.flatnonzero((caller >= 0) & (taken > 0))
    begin, above = awaits.ms[some][has], awaits.ms[caller[has]]
    end, last = begin + taken[has], above + awaits.lasted(caller[has])
    inside = np.minimum(end, last) - np.maximum(begin, above)
    taken[has] = np.where((begin >= above) & (end <= last), taken[has], np.maximum(inside, 0.0))
    return taken


def _shared(awaits: AwaitRows) -> Iterator[Array]:
    """Those that await a task that another awaited first, which is the caller of what this one awaits; some at a time."""
    is_any = False
    for some in awaits.held.slices():
        is_any = is_any or bool((awaits.first[some] != np.arange(some.start, some.stop)).any())
    parts = -(-len(awaits.first) // LOOKED_UP) if is_any else 0
    for part in range(parts):
        held = [np.zeros(0, np.int32)]
        for some in awaits.held.slices():
            first = awaits.first[some]
            rows = np.flatnonzero((first != np.arange(some.start, some.stop)) & (first % parts == part))
            rows = rows[(awaits.duration[some][rows] > 0) & awaits.has_below[first[rows]]]
            held.append(rows.astype(np.int32) + some.start)
        rows = np.concatenate(held)
        if len(rows):
            yield rows


class _Below:
    """What some tasks awaited, for those that await them too: how much of that had been taken by some time."""

    def __init__(self, awaits: AwaitRows, callers: Array) -> None:
        rows = _of_callers(awaits, callers)
        caller, self._ms, self._lasted = awaits.caller[rows], awaits.ms[rows], awaits.lasted(rows)
        del rows
        awaits.held.release()
        self._callers, self._edges = callers, np.searchsorted(caller, np.append(callers, np.iinfo(np.int32).max))
        self._before = np.cumsum(self._lasted)
        self._before -= self._lasted

    def taken_until(self, until_ms: Array, caller: Array) -> Array:
        """By each of these callers until these times, and all that those before it took."""
        of = np.searchsorted(self._callers, caller)
        first, last = self._edges[of], self._edges[of + 1]
        low, high = first.copy(), last.copy()
        while (open_ := low < high).any():  # the first that begins later
            middle = (low + high) // 2
            is_before = open_ & (self._ms[np.minimum(middle, len(self._ms) - 1)] <= until_ms)
            low[is_before] = middle[is_before] + 1
            is_behind = open_ & ~is_before
            high[is_behind] = middle[is_behind]
        at = np.maximum(low - 1, 0)
        taken = self._before[at] + np.minimum(until_ms - self._ms[at], self._lasted[at])
        return np.where(low > first, taken, np.append(self._before, 0.0)[first])


def _of_callers(awaits: AwaitRows, callers: Array) -> Array:
    """The rows whose callers are these, which ascend, by their callers and begins."""
    held = [np.zeros(0, np.int32)]
    for some in awaits.held.slices():
        held.append((np.flatnonzero(is_among(awaits.caller[some], callers)) + some.start).astype(np.int32))
    rows = np.concatenate(held)
    del held
    ms = awaits.ms[rows]
    if (ms[1:] < ms[:-1]).any():
        rows = rows[np.argsort(ms, kind="stable")]
    del ms
    caller = awaits.caller[rows]
    if len(callers) > 1:
        rows = rows[np.argsort(caller, kind="stable")]
    awaits.held.release()
    return rows
