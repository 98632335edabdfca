"""Of routes the tail: requests that took far longer than most of theirs do, and what took most of the time of those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.request_costs import COSTS
from dotnetdiag.analysis.request_kinds import KINDS
from dotnetdiag.analysis.running_groups import KeyedGroups
from dotnetdiag.trace.scratch import MappedArrays
from dotnetdiag.trace.spilled import SpilledRows

Array: TypeAlias = "np.ndarray[Any, Any]"

TAIL_MS, LONGER = 40.0, 5.0
"""From here on a request counts, and from so many times the median of its route on."""
ONE_IN, TAIL_SHARE = 20, 0.95
"""More than one in so many requests of a route are its tail: that quantile has to be as long."""
MOST = 0.5
"""Of the time of a tail: what is within it is named before what it spent by itself from here on."""
LEAST_SHARE = 0.1
"""What took less of it is not named."""
_SPENT = {"queue_ms": "queue", **{name: name.removesuffix("_ms") for name in COSTS if name.endswith("_ms")}}
HAS_TAIL = np.array([kind.name in ("server", "grpc server", "client", "grpc client", "sql") for kind in KINDS])
"""Of each kind whether the tail of its routes is told."""
_IS_AROUND = np.array([kind.name in ("kestrel", "connection", "grpc server") for kind in KINDS])
"""Kinds that say the same as the request that they are within: what is within them is within that."""


class RequestTails:
    """Goes through the rows of a report twice at most. By the numbers of routes: ``count`` of requests in the tail, their ``total`` in ms, and
    the ``largest`` part of it.

    ``least_ms``: from when on a request of the route is in its tail, infinite where it has none. ``warm_ms``: those that began until then do not
    count, for the first of a route, and what comes with it, waits for the compiler.
    """

    def __init__(self, rows: SpilledRows, least_ms: Array, warm_ms: Array) -> None:
        self._least_ms, self._warm_ms = least_ms, warm_ms
        self.count: Array = np.zeros(len(least_ms), np.int64)
        self.total: Array = np.zeros(len(least_ms))
        self._spent = {name: np.zeros(len(least_ms)) for name in _SPENT}
        self._within = KeyedGroups(2)
        if np.isfinite(least_ms).any():
            held = MappedArrays(len(rows), each=4)
            owner = held.zeros(np.int32)
            for first, some in rows.slices():
                self._add(first, some, owner)
                held.release()

    def _add(self, first: int, some: Array, owner: Array) -> None:
        """Rows, and those in ``owner``: the number behind that of the tail that each is within, 0 for none."""
        group, ms = some["group"], some["duration_ms"]
        is_slow = (ms >= self._least_ms[group]) & (some["start_ms"] > self._warm_ms[group])
        slow = np.flatnonzero(is_slow)
        self.count += np.bincount(group[slow], minlength=len(self.count))
        np.add.at(self.total, group[slow], ms[slow])
        for name, sums in self._spent.items():
            np.add.at(sums, group[slow], np.nan_to_num(some[name][slow]))
        is_around = _IS_AROUND[some["kind"]]
        for level in range(1, int(some["depth"].max(initial=0)) + 1):  # what something is within stands before it
            at = np.flatnonzero(some["depth"] == level)
            above = np.where(some["parent"][at] >= 0, owner[some["parent"][at]], np.int32(0)) - 1
            is_own = is_slow[at] & ~((above >= 0) & is_around[at])
            owner[first + at] = np.where(is_own, group[at], above) + 1
            told = np.flatnonzero((above >= 0) & ~is_around[at] & (ms[at] > 0))
            inside = at[told]
            self._within.add([above[told], group[inside]], first + inside, ms[inside])

    def largest(self, spent: Mapping[str, bool], name_of: Callable[[int], str]) -> Mapping[int, tuple[str, float]]:
        """Of tails what took most of their time, and for how long: a route within it by its name, or one of the costs (``queue``, ``cpu``, ``gc``,
        ``lock``) that are known to be ``spent``. Those of which nothing did are not there.
        """
        made: dict[int, tuple[str, float]] = {}
        (owner, route), found, order = self._within.told()
        within: dict[int, int] = {}
        for one in order.tolist():  # the largest first, of a few
            within.setdefault(int(owner[one]), one)
        for group in np.flatnonzero(self.count).tolist():
            total = float(self.total[group])
            parts = [(float(self._spent[name][group]), word) for name, word in _SPENT.items() if spent.get(name, True)]
            if (one := within.get(group)) is not None:
                inside = float(found.total[one])
                parts = [*(parts if inside < MOST * total else []), (inside, name_of(int(route[one])))]
            ms, word = max(parts)
            if ms >= LEAST_SHARE * total:
                made[group] = word, ms
        return made


def least_of_tails(kind: Array, median: Array, tail_ms: Array) -> Array:
    """From when on requests of routes are in the tail of theirs, by their kinds, medians and :data:`TAIL_SHARE` quantiles; infinite where there
    is none.
    """
    least = np.maximum(TAIL_MS, LONGER * np.nan_to_num(median))
    with_tail = HAS_TAIL[kind] & (np.nan_to_num(tail_ms) >= least)
    return np.where(with_tail, least, np.inf)
