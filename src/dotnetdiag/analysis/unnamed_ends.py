"""Which end is of which begin where events have no ids of activities, or ids that several have at once (``shared_ids``).

Threads do not wait for what they began (``await``), and ends come on any of them. So it is known where one alone was under way in the process, or
with its id, and of several at once it is not: taken by threads, 49 of 60 requests, made one after the other, had the durations and statuses of
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.pairs import combined_codes, in_order, open_at_once
from dotnetdiag.trace.distinct import distinct, ranked

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ends:
    """Rows of begins: those that ended, ``first``, and the end of each, ``last``; those of which nobody knows which end is theirs, ``unknown``, and
    as many of these as are still under way, ``kept``. ``loose``: ends that are of one of the unknown. Of failures that are told here (``asked``)
    the number ``of`` the row that each is of (their ``row``), -1 where that is not known. ``starts`` and ``stops``: which are told here (bool).
    """

    first: Array
    last: Array
    unknown: Array
    kept: Array
    loose: Array
    asked: Array
    of: Array
    starts: Array
    stops: Array


_NONE = np.zeros(0, np.int64)
NOBODY = -1


def nothing_of(starts: Array, stops: Array) -> Ends:
    """None of them is told here."""
    masks = {"starts": np.zeros(len(starts), np.bool_), "stops": np.zeros(len(stops), np.bool_)}
    return Ends(first=_NONE, last=_NONE, unknown=_NONE, kept=_NONE, loose=_NONE, asked=_NONE, of=_NONE, **masks)


class UnnamedEnds:
    """Of one kind. Where a process gives ids it gives them to nearly all: from the first on those without are not told here."""

    def __init__(self) -> None:
        self._named: dict[int, float] = {}
        """Of processes that give ids when they first did."""
        self._last: dict[tuple[int, int], int] = {}
        """Of each process and id what ended last, :data:`NOBODY` where that is not known."""

    def copy(self) -> UnnamedEnds:
        """One that goes on by itself."""
        made = UnnamedEnds()
        made._named, made._last = {**self._named}, {**self._last}
        return made

    def of(self, starts: Array, stops: Array, failures: Array, shared: Sequence[Array]) -> Ends:
        """What is open, and what came since, as rows with ``pid``, ``ms`` and ``activity``; ``is_unknown``, of starts, are those that were ``kept``
        before; ``shared``: of which of all of these the ids tell nothing (bool). Of events of which none has an id it is the same in how many
        parts ever they come, each of which begins later than the last.
        """
        for some in (starts, stops):
            self._note_named(some)
        masks = [
            is_shared | self._are_nameless(some)
            for some, is_shared in zip((starts, stops, failures), shared, strict=True)
        ]
        rows = [np.flatnonzero(mask) for mask in masks]
        if not sum(map(len, rows)):
            return nothing_of(starts, stops)
        told = [some[own] for some, own in zip((starts, stops, failures), rows, strict=True)]
        codes = np.zeros(sum(map(len, told)), np.int64)
        for name in ("pid", "activity"):
            codes = combined_codes(codes, np.concatenate([some[name] for some in told]))
        made = self._alone(codes, *told, rows=rows, masks=masks)
        # what no end is here for may have one that lacks its id, of its thread, where the process gives ids
        left = np.setdiff1d(rows[0], np.append(made.first, made.unknown))
        made.starts[left] = np.isinf(self._named_since(starts["pid"][left]))
        return made

    def _are_nameless(self, events: Array) -> Array:
        """Which have no id (bool), and come before their process gives any."""
        made: Array = events["activity"] == 0
        rows = np.flatnonzero(made)
        made[rows] = events["ms"][rows] < self._named_since(events["pid"][rows])
        return made

    def _note_named(self, events: Array) -> None:
        pids = distinct(events["pid"]) if len(events) else events["pid"]
        if self._named.keys() >= set(pids.tolist()):
            return
        events = events[events["activity"] > 0]
        kinds, which = ranked(events["pid"])
        first = np.full(len(kinds), np.inf)
        np.minimum.at(first, which, events["ms"])
        for pid, ms in zip(kinds.tolist(), first.tolist(), strict=True):
            self._named[pid] = min(ms, self._named.get(pid, np.inf))

    def _named_since(self, pid: Array) -> Array:
        kinds, which = ranked(pid)
        return np.array([self._named.get(one, np.inf) for one in kinds.tolist()], np.float64)[which]

    def _alone(
        self, codes: Array, starts: Array, stops: Array, failures: Array, *, rows: list[Array], masks: list[Array]
    ) -> Ends:
        """Of those of one code: what was alone under way from its begin to its end. A *stretch* is from a begin when nothing was under way until
        nothing is again.
        """
        count, both = len(starts), len(starts) + len(stops)
        ms = np.append(starts["ms"], stops["ms"])
        order = in_order(codes[:both], ms, np.arange(both) >= count)
        is_stop, code, ms = order >= count, codes[order], ms[order]
        at = np.where(is_stop, order - count, order)
        level = open_at_once(code, is_stop)
        firsts = np.flatnonzero(np.append(True, code[1:] != code[:-1])) if both else _NONE
        lasts = np.append(firsts[1:], both)[: len(firsts)] - 1
        group = np.repeat(np.arange(len(firsts)), lasts - firsts + 1)
        before = np.append(0, level)[:both]  # an end of which no begin was seen is of none
        before[firsts] = 0
        begins, closes = ~is_stop, is_stop & (before > 0)
        opens = begins & (before == 0)
        stretch = np.cumsum(opens)
        stretches = int(opens.sum()) + 1
        begun, ended = (np.bincount(stretch[some], minlength=stretches) for some in (begins, closes))
        was_unknown = np.zeros(both, np.bool_)
        was_unknown[begins] = starts["is_unknown"][at[begins]] > 0
        is_mixed = (begun > 1) & (ended > 0)
        is_mixed[stretch[was_unknown]] = True
        single = (begun == 1) & (ended == 1) & ~is_mixed
        unknown = np.flatnonzero(is_mixed[stretch] & begins)
        left = np.where(is_mixed[stretch[lasts]], level[lasts], 0)
        behind = np.cumsum(np.bincount(group[unknown], minlength=len(firsts)))[group[unknown]] - np.arange(len(unknown))
        # what a failure is of that comes behind each event: what is alone under way, or was last
        sole = begins & opens & ~was_unknown
        of_start = np.full(both, NOBODY)
        of_start[sole] = starts["row"][at[sole]]
        first_of = np.maximum.accumulate(np.where(opens, np.arange(both), -1))
        first_of[first_of < firsts[group]] = -1
        is_alone = (level <= 1) & (np.cumsum(begins) == np.cumsum(begins)[first_of]) & (first_of >= 0)
        of = np.where(is_alone, of_start[first_of], NOBODY)
        over = np.flatnonzero(closes & (level == 0))
        of[over] = np.where(single[stretch[over]], of_start[first_of[over]], NOBODY)
        keys = _keys(np.append(starts, stops)[order[firsts]])
        earlier = np.array([self._last.get(key, NOBODY) for key in keys], np.int64)
        of[first_of < 0] = earlier[group][first_of < 0]
        asked = self._asked(codes[both:], failures, code, ms, begins, of, firsts, earlier)
        self._last |= zip(keys, np.where(level[lasts] == 0, of[lasts], NOBODY).tolist(), strict=True)
        return Ends(
            first=rows[0][at[single[stretch] & begins]],
            last=rows[1][at[single[stretch] & closes]],
            unknown=rows[0][at[unknown]],
            kept=rows[0][at[unknown[behind <= left[group[unknown]]]]],
            loose=rows[1][at[is_mixed[stretch] & closes]],
            asked=rows[2],
            of=asked,
            starts=masks[0],
            stops=masks[1],
        )

    def _asked(
        self,
        codes: Array,
        failures: Array,
        code: Array,
        ms: Array,
        begins: Array,
        of: Array,
        firsts: Array,
        earlier: Array,
    ) -> Array:
        """The row that each failure is of: the one that counts behind the last event of its code before it, and behind begins of its time."""
        made = np.array([self._last.get(key, NOBODY) for key in _keys(failures)], np.int64)
        if not len(code) or not len(failures):
            return made
        moments = distinct(np.append(ms, failures["ms"]))
        place = np.minimum(np.searchsorted(code[firsts], codes), len(firsts) - 1)
        own = np.flatnonzero(code[firsts][place] == codes)
        place = place[own]
        events = np.cumsum(np.append(False, code[1:] != code[:-1])) * len(moments) + np.searchsorted(moments, ms)
        when = place * len(moments) + np.searchsorted(moments, failures["ms"][own])
        at_once = np.searchsorted(events[begins], when, "right") - np.searchsorted(events[begins], when)
        at = np.searchsorted(events, when) + at_once - 1
        made[own] = np.where(at < firsts[place], earlier[place], of[at])
        return made


def _keys(events: Array) -> list[tuple[int, int]]:
    return list(zip(events["pid"].tolist(), events["activity"].tolist(), strict=True))
