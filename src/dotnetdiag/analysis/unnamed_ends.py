"""Which end is of which begin where events have no ids of activities.

Threads do not wait for what they began (``await``), and ends come on any of them. So it is known where one alone was under way in the process, and
of several at once it is not: taken by threads, 49 of 60 requests, made one after the other, had the durations and statuses of others.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.pairs import in_order
from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ends:
    """Rows of begins: those that ended, ``first``, and the end of each, ``last``; those of which nobody knows which end is theirs, ``unknown``, and
    as many of these as are still under way, ``kept``. ``loose``: ends that are of one of the unknown. Of failures that are told here (``asked``)
    the number ``of`` the row that each is of (their ``row``), -1 where that is not known.
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
NOBODY = -1


class UnnamedEnds:
    """Of one kind. Where a process gives ids it gives them to nearly all: then those without are not told here."""

    def __init__(self) -> None:
        self._named: frozenset[int] = frozenset()
        self._last: dict[int, int] = {}
        """Of each process what ended last, :data:`NOBODY` where that is not known."""

    def passes_over(self, events: Array) -> Array:
        """Which events are not told here (bool): those with an id, and those of processes that give ids."""
        made: Array = (events["activity"] > 0) | np.isin(events["pid"], np.fromiter(self._named, np.int64))
        return made

    def copy(self) -> UnnamedEnds:
        """One that goes on by itself."""
        made = UnnamedEnds()
        made._named, made._last = self._named, {**self._last}
        return made

    def of(self, starts: Array, stops: Array, failures: Array) -> Ends:
        """What is open, and what came since, as rows with ``pid``, ``ms`` and ``activity``; ``is_unknown``, of starts, are those that were ``kept``
        before. Of events of which none has an id it is the same in how many parts ever they come, each of which begins later than the last.
        """
        for some in (starts, stops):
            if (some["activity"] > 0).any():
                self._named |= frozenset(distinct(some["pid"][some["activity"] > 0]).tolist())
        pids = np.concatenate([some["pid"][some["activity"] == 0] for some in (starts, stops, failures)])
        parts = []
        for pid in distinct(pids).tolist():
            if pid not in self._named:
                parts.append(self._alone(pid, starts, stops, failures))
        if not parts:
            return NOTHING
        return Ends(**{name: np.concatenate(rows) for name, rows in zip(_NAMES, zip(*parts, strict=True), strict=True)})

    def _alone(self, pid: int, starts: Array, stops: Array, failures: Array) -> tuple[Array, ...]:
        """As :class:`Ends`, of one process: what was alone under way from its begin to its end. A *stretch* is from a begin when nothing was under
        way until nothing is again.
        """
        own, ends, fails = (np.flatnonzero(some["pid"] == pid) for some in (starts, stops, failures))
        rows, ms = np.append(own, ends), np.append(starts["ms"][own], stops["ms"][ends])
        order = in_order(np.zeros(len(rows), np.int64), ms, np.arange(len(rows)) >= len(own))
        is_stop, rows, ms = order >= len(own), rows[order], ms[order]
        level = np.cumsum(np.where(is_stop, -1, 1))
        level -= (
            np.minimum(np.minimum.accumulate(level), 0) if len(level) else 0
        )  # an end of which no begin was seen is of none
        before = np.append(0, level)[: len(level)]
        begins, closes = ~is_stop, is_stop & (before > 0)
        opens = begins & (before == 0)
        stretch = np.cumsum(opens)
        count = int(opens.sum()) + 1
        begun, ended = (np.bincount(stretch[some], minlength=count) for some in (begins, closes))
        was_unknown = np.zeros(len(rows), np.bool_)
        was_unknown[begins] = starts["is_unknown"][rows[begins]] > 0
        is_mixed = (begun > 1) & (ended > 0)
        is_mixed[stretch[was_unknown]] = True
        single = (begun == 1) & (ended == 1) & ~is_mixed
        unknown = rows[is_mixed[stretch] & begins]
        left = int(level[-1]) if is_mixed[-1] and len(level) else 0
        # what a failure is of that comes behind each event: what is alone under way, or was last
        sole = begins & opens & ~was_unknown
        of_start = np.full(len(rows) + 1, NOBODY)
        of_start[:-1][sole] = starts["row"][rows[sole]]
        of_start[-1] = self._last.get(pid, NOBODY)
        first_of = np.maximum.accumulate(np.where(opens, np.arange(len(rows)), -1))
        behind = np.where(
            (level <= 1) & (np.cumsum(begins) - np.cumsum(begins)[first_of] == 0), of_start[first_of], NOBODY
        )
        over = np.flatnonzero(closes & (level == 0))
        behind[over] = np.where(single[stretch[over]], of_start[first_of[over]], NOBODY)
        behind[(first_of < 0)] = of_start[-1]
        told = failures["ms"][fails]
        at = (
            np.searchsorted(ms, told)
            + np.searchsorted(ms[begins], told, "right")
            - np.searchsorted(ms[begins], told)
            - 1
        )
        of = np.append(behind, of_start[-1])[at]
        if len(behind):
            self._last[pid] = int(behind[-1]) if level[-1] == 0 else NOBODY
        return (
            rows[single[stretch] & begins],
            rows[single[stretch] & closes],
            unknown,
            unknown[len(unknown) - left :],
            rows[is_mixed[stretch] & closes],
            fails,
            of,
        )
