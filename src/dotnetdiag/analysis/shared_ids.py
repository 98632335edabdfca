"""Ids of activities that several of a kind have at once, which tell them apart no better than none.

.NET 10 gives all requests that begin at once one id, from the eleventh or so on, where a recording has its sockets too: paired by it, 14 of 30 had
the durations and statuses of others, and the parts of twenty stood under one. Where such an id is seen, from the second begin on, it is nobody's;
begins and ends are told as of those without one, from the begin of the first on.
"""

from __future__ import annotations

from copy import copy
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.pairs import in_order, open_at_once
from dotnetdiag.trace.distinct import is_among

Array: TypeAlias = "np.ndarray[Any, Any]"

_ACTIVITY_BITS = 40
NO_KEY = -1


def keys_of(process: Array, activity: Array) -> Array:
    """A number for each pair of a process (its number) and an activity, :data:`NO_KEY` without one."""
    made: Array = process.astype(np.int64) << _ACTIVITY_BITS | activity.astype(np.int64)
    return np.where(activity > 0, made, NO_KEY)


class SharedIds:
    """By keys of :func:`keys_of`, and times."""

    def __init__(self) -> None:
        self._keys: Array = np.zeros(0, np.int64)
        self._begun_ms: Array = np.zeros(0)
        self._since_ms: Array = np.zeros(0)

    def __len__(self) -> int:
        return len(self._keys)

    def copy(self) -> SharedIds:
        """One that goes on by itself."""
        return copy(self)

    def learn(self, starts: Array, start_ms: Array, stops: Array, stop_ms: Array) -> None:
        """Of one kind: keys of what is open and what begins, and of what ends."""
        known, count = np.unique(starts[starts != NO_KEY], return_counts=True)
        several = known[count > 1]
        if not len(several):
            return
        own, ends = (np.flatnonzero(is_among(some, several)) for some in (starts, stops))
        codes, ms = np.append(starts[own], stops[ends]), np.append(start_ms[own], stop_ms[ends])
        order = in_order(codes, ms, np.arange(len(codes)) >= len(own))
        codes, ms, is_stop = codes[order], ms[order], order >= len(own)
        level = open_at_once(codes, is_stop)
        begun = np.maximum.accumulate(np.where(~is_stop & (level == 1), np.arange(len(codes)), 0))
        second = np.flatnonzero(~is_stop & (level == 2))
        found, first = np.unique(codes[second], return_index=True)
        is_new = ~is_among(found, self._keys)
        at = second[first[is_new]]
        place = np.searchsorted(self._keys, found[is_new])
        self._keys = np.insert(self._keys, place, found[is_new])
        self._begun_ms = np.insert(self._begun_ms, place, ms[begun[at]])
        self._since_ms = np.insert(self._since_ms, place, ms[at])

    def are_nobodys(self, keys: Array, ms: Array) -> Array:
        """Whether what has these at those times is nobody's (bool)."""
        return self._from(self._since_ms, keys, ms)

    def tell_nothing(self, keys: Array, ms: Array) -> Array:
        """Whether which end is of which begin is not told by them (bool)."""
        return self._from(self._begun_ms, keys, ms)

    def _from(self, when: Array, keys: Array, ms: Array) -> Array:
        if not len(self._keys):
            return np.zeros(len(keys), np.bool_)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.asarray((self._keys[at] == keys) & (ms >= when[at]))
