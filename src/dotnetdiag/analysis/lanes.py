"""Intervals side by side: in which lane each is drawn, so that none covers another."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


def lanes(begin: Array, end: Array) -> Array:
    """Of each interval the number of its lane, no more lanes than intervals at one time, but for some without length. One that begins
    where another ends may follow it.

    Lanes that become free wait in a queue: the k-th to begin takes the lane that became free as the (k - n)-th, of n lanes. Which that was
    is known from the order of ends alone.
    """
    count = len(begin)
    if not count:
        return np.zeros(0, np.int64)
    by_begin = np.lexsort((end, begin))
    by_end = by_begin[np.argsort(end[by_begin], kind="stable")]
    ended = np.searchsorted(end[by_end], begin[by_begin], "right")
    # of those that have no length, some count as ended before they began
    most = int((np.arange(1, count + 1) - np.minimum(ended, np.arange(count))).max())
    place = np.empty(count, np.int64)
    place[by_begin] = np.arange(count)
    before = np.arange(count)
    before[most:] = place[by_end[: count - most]]
    before = _roots(np.where(before < np.arange(count), before, np.arange(count)))
    made = np.empty(count, np.int64)
    made[by_begin] = np.unique(before, return_inverse=True)[1].reshape(-1)
    return made


def tops(parent: Array, begin: Array, end: Array) -> Array:
    """Of each interval the one in whose lane it is drawn, as it lies within it and beside no other: itself where that is not so.

    ``parent`` is the row of what it belongs to, -1 for none; parents begin before what is in them.
    """
    count = len(parent)
    own = np.arange(count)
    if not count:
        return own
    fits = (parent >= 0) & (begin >= begin[parent]) & (end <= end[parent]) & (parent != own)
    rows = np.flatnonzero(fits)
    rows = rows[np.lexsort((end[rows], begin[rows], parent[rows]))]
    if len(rows):
        group = np.unique(parent[rows], return_inverse=True)[1].reshape(-1)
        # the order of times in their place: those of one group lie behind those of all groups before it
        times = np.unique(np.concatenate([begin[rows], end[rows]]), return_inverse=True)[1].reshape(-1)
        first, last = (part + group * (int(times.max()) + 1) for part in (times[: len(rows)], times[len(rows) :]))
        beside = np.append(False, first[1:] < np.maximum.accumulate(last)[:-1])
        fits[rows[beside]] = False
    return _roots(np.where(fits, parent, own))


def _roots(above: Array) -> Array:
    """Where the way up ends."""
    while True:
        further = above[above]
        if (further == above).all():
            return above
        above = further
