"""Which end is of which begin where events have no ids of activities.

Threads do not wait for what they began (``await``), and ends come on any of them. So it is known where one alone was under way in the process, and
of several at once it is not: taken by threads, 49 of 60 requests, made one after the other, had the durations and statuses of others.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ends:
    """Rows of begins: those that ended, ``first``, and the end of each, ``last``; those of which nobody knows which end is theirs, ``unknown``, and
    as many of these as are still under way, ``kept``. ``loose``: ends that are of one of the unknown. Of failures that are told here (``asked``)
    the begin that each is of, ``of``, -1 where that is not known.
    """

    first: Array
    last: Array
    unknown: Array
    kept: Array
    loose: Array
    asked: Array
    of: Array


_NAMES = ("first", "last", "unknown", "kept", "loose", "asked", "of")
NOTHING = Ends(**dict.fromkeys(_NAMES, np.zeros(0, np.int64)))


def unnamed_ends(starts: Array, stops: Array, failures: Array) -> Ends:
    """What is open, and what came since, as rows with ``pid``, ``ms`` and ``activity``; ``is_unknown``, of starts, are those that were ``kept``
    before. What has an activity is passed over. It is the same in how many parts ever the events come, of which each begins later than the last.
    """
    own = np.flatnonzero(starts["activity"] == 0)
    if not len(own):
        return NOTHING
    parts = []
    for pid in distinct(starts["pid"][own]).tolist():
        rows = [np.flatnonzero((some["activity"] == 0) & (some["pid"] == pid)) for some in (starts, stops, failures)]
        parts.append(_alone(starts, stops, failures, *rows))
    return Ends(**{name: np.concatenate(rows) for name, rows in zip(_NAMES, zip(*parts, strict=True), strict=True)})


def _alone(starts: Array, stops: Array, failures: Array, own: Array, ends: Array, fails: Array) -> tuple[Array, ...]:
    """As :class:`Ends`, of rows of one process: what was alone under way from its begin to its end. A *stretch* is from a begin when nothing was
    under way until nothing is again.
    """
    rows, ms = np.append(own, ends), np.append(starts["ms"][own], stops["ms"][ends])
    order = np.lexsort((np.arange(len(rows)) >= len(own), ms))
    is_stop, rows, ms = order >= len(own), rows[order], ms[order]
    level = np.cumsum(np.where(is_stop, -1, 1))
    level -= np.minimum(np.minimum.accumulate(level), 0)  # an end of which no begin was seen is of none
    before = np.append(0, level[:-1])
    opens = ~is_stop & (before == 0)
    stretch = np.cumsum(opens)
    begins, closes = ~is_stop, is_stop & (before > 0)
    begun, ended = (np.bincount(stretch[some], minlength=int(stretch[-1]) + 1) for some in (begins, closes))
    was_unknown = np.zeros(len(rows), np.bool_)
    was_unknown[begins] = starts["is_unknown"][rows[begins]] > 0
    is_mixed = (begun > 1) & (ended > 0)
    is_mixed[stretch[was_unknown]] = True
    single = (begun == 1) & (ended == 1) & ~is_mixed
    unknown = rows[is_mixed[stretch] & begins]
    left = int(level[-1]) if is_mixed[-1] else 0
    at = np.searchsorted(ms, failures["ms"][fails]) - 1
    at, asked = at[at >= 0], fails[at >= 0]
    at, asked = at[level[at] > 0], asked[level[at] > 0]  # others are told behind the end
    latest = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), -1))[at]
    is_sole = (level[at] == 1) & opens[latest] & ~was_unknown[latest]
    return (
        rows[single[stretch] & begins],
        rows[single[stretch] & closes],
        unknown,
        unknown[len(unknown) - left :],
        rows[is_mixed[stretch] & closes],
        asked,
        np.where(is_sole, rows[latest], -1),
    )
