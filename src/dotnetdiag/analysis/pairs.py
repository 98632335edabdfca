"""What begins and ends: which stop is of which start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace.distinct import distinct, ranked

Array: TypeAlias = "np.ndarray[Any, Any]"


_SLICE = 1 << 16
"""Rows that are looked for at once."""
_MOST = 1 << 62
_SPREAD = 0x9E3779B97F4A7C15
"""Times this, numbers that have a step between them go to all parts."""


def parts_of(numbers: Array, parts: int) -> Array:
    """In which of so many parts each number is (u64), about as many in each."""
    hashed = numbers.astype(np.uint64)
    hashed *= np.uint64(_SPREAD)
    hashed >>= np.uint64(32)
    hashed *= np.uint64(parts)
    hashed >>= np.uint64(32)
    return hashed


def pairs(start_ms: Array, start_keys: Sequence[Array], stop_ms: Array, stop_keys: Sequence[Array]) -> Array:
    """Of each start the row of its stop, -1 where there is none: of those with equal keys (columns of numbers), a stop ends the start that came
    last and is still open. Where a start and a stop have one time, they are in the order of :func:`in_order`.
    """
    codes = np.zeros(len(start_ms) + len(stop_ms), np.int64)
    for columns in zip(start_keys, stop_keys, strict=True):
        codes = combined_codes(codes, np.concatenate(columns))
    is_stop = np.arange(len(codes)) >= len(start_ms)
    return nested(codes, in_order(codes, np.concatenate([start_ms, stop_ms]), is_stop), len(start_ms))


def in_order(codes: Array, ms: Array, is_stop: Array) -> Array:
    """The order of starts and stops, by code and then by time. Of those of one time stops are first, as many as there are starts of before that are
    open: what follows what ended at the same tick of a clock is far more frequent than what takes no time within another of the same key. Then
    come starts, and then the stops that are left.
    """
    order = np.lexsort((is_stop, ms, codes))
    code, time, stops = codes[order], ms[order], is_stop[order]
    same = (code[1:] == code[:-1]) & (time[1:] == time[:-1])
    if not (same & (stops[1:] != stops[:-1])).any():
        return order
    begins = np.append(True, ~same)  # of a group: one code and one time
    group, firsts = np.cumsum(begins) - 1, np.flatnonzero(begins)
    change = np.add.reduceat(np.where(stops, -1, 1), firsts)
    before = np.cumsum(change) - change
    of_code = np.cumsum(np.append(True, code[firsts[1:]] != code[firsts[:-1]])) - 1
    at = np.flatnonzero(np.append(True, of_code[1:] != of_code[:-1]))
    before -= before[at][of_code]
    opened = _never_below_nothing(before, of_code)
    rank = np.cumsum(stops) - stops
    rank -= rank[firsts][group]
    place = np.where(~stops, 1, np.where(rank < opened[group], 0, 2))
    return np.asarray(order[np.lexsort((place, group))])


def open_at_once(codes: Array, is_stop: Array) -> Array:
    """Of starts and stops in the order of :func:`in_order`, and their codes: how many of the code are open behind each. A stop that nothing is open
    for ends nothing.
    """
    change = np.where(is_stop, -1, 1)
    level = np.cumsum(change)
    firsts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])) if len(codes) else np.zeros(0, np.int64)
    group = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(codes))))
    return _never_below_nothing(level - (level[firsts] - change[firsts])[group], group)


def _never_below_nothing(level: Array, group: Array) -> Array:
    """Of each group how many are open, where a stop that nothing is open for ends nothing: ``level`` are sums of starts and stops."""
    deep = (2 * int(np.abs(level).max(initial=0)) + 1) * group  # no minimum of a group is one of those before
    return np.asarray(level - np.minimum(np.minimum.accumulate(level - deep) + deep, 0))


def combined_codes(codes: Array, column: Array) -> Array:
    """A number for each combination of a code and a value of the column."""
    which = ranked(column)[1].astype(np.int64, copy=False)
    if not codes.any():  # as of the first column
        return which
    both = ranked(codes)[1].astype(np.int64, copy=False)
    both *= int(which.max(initial=0)) + 1
    both += which
    return ranked(both)[1].astype(np.int64, copy=False)


def nested(codes: Array, order: Array, starts: int) -> Array:
    """The same, of codes of starts and the stops behind them, and their order: by code and then by time.

    Of one code, a stop ends what is open at its depth: sorted by code, depth and time, a start stands in front of its stop.
    """
    made = np.full(starts, -1)
    if not starts or starts == len(codes):
        return made
    code, is_stop = codes[order], order >= starts
    # a stop that nothing is open for goes below all depths before it: no start is in front of it at its own
    level = np.cumsum(np.where(is_stop, -1, 1)) + is_stop
    by = np.lexsort((np.arange(len(code)), level, code))
    code, level, is_stop, rows = code[by], level[by], is_stop[by], order[by]
    follows = ~is_stop[:-1] & is_stop[1:] & (code[1:] == code[:-1]) & (level[1:] == level[:-1])
    at = np.flatnonzero(follows)
    made[rows[at]] = rows[at + 1] - starts
    return made


Timed: TypeAlias = "tuple[Array, Sequence[Array]]"
"""Times, and keys: columns of numbers."""


def under_way(starts: Timed, asked: Timed, stops: Timed) -> Array:
    """For each that is asked the start with equal keys that was open by then and came last, as :func:`pairs` ends them; -1 for none."""
    parts = (starts, asked, stops)
    kind = np.repeat([0, 1, 2], [len(ms) for ms, _ in parts])
    codes = np.zeros(len(kind), np.int64)
    for columns in zip(*(keys for _, keys in parts), strict=True):
        codes = combined_codes(codes, np.concatenate(columns))
    order = np.lexsort((kind, np.concatenate([ms for ms, _ in parts]), codes))
    # sorted by code, depth and time, what is under way is the start in front
    level = np.cumsum(np.array([1, 0, -1])[kind[order]])
    own = np.flatnonzero(kind[order] < 2)
    order, level = order[own], level[own]
    by = np.lexsort((np.arange(len(order)), level, codes[order]))
    order, level = order[by], level[by]
    latest = np.maximum.accumulate(np.where(kind[order] == 0, np.arange(len(order)), -1))
    at = np.flatnonzero(kind[order] == 1)
    found = latest[at]
    fits = (found >= 0) & (codes[order[found]] == codes[order[at]]) & (level[found] == level[at])
    made = np.full(len(asked[0]), -1)
    made[order[at[fits]] - len(starts[0])] = order[found[fits]]
    return made


def rest_of_overlaps(begin: Array, end: Array) -> tuple[Array, Array]:
    """Spans, in the order of their begins, so that no time is in two: of what others before have reached, the rest."""
    begin = np.maximum(begin, np.append(-np.inf, np.maximum.accumulate(end))[: len(end)])
    return begin, np.maximum(end, begin)


def last_of_threads(rows: Array, most: int) -> Array:
    """Of rows with ``pid``, ``tid`` and ``ms`` the last of each thread, so many, by threads."""
    rows = rows[np.lexsort((rows["ms"], rows["tid"], rows["pid"]))]
    return rows[~is_followed(rows, most)]


def is_followed(rows: Array, by: int = 1) -> Array:
    """Of rows that are in the order of threads whether so many of the same follow."""
    made = np.zeros(len(rows), np.bool_)
    made[:-by] = (rows["tid"][by:] == rows["tid"][:-by]) & (rows["pid"][by:] == rows["pid"][:-by])
    return made


def picked(values: Array, rows: Array, missing: float) -> Array:
    """Values by rows, as what is told here; ``missing`` where the row is -1."""
    return Picked(rows).of(values, missing)


class Picked:
    """Values by rows, for who asks for those of many columns: nearly always each has one, and mostly its own, in order."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.is_there: Array = rows >= 0
        """Of which there is one."""
        self._are_all = bool(self.is_there.all())
        self._are_in_order = self._are_all and bool((rows == np.arange(len(rows))).all())

    def of(self, values: Array, missing: float) -> Array:
        """``missing`` where the row is -1. A copy, of the same kind as values where none is missing."""
        if not len(values):
            return np.full(len(self.rows), missing)
        if self._are_in_order:
            return values[: len(self.rows)].copy()
        found: Array = values[self.rows]
        return found if self._are_all else np.where(self.is_there, found, missing)


def first_rows(pid: Array, number: Array, of_pid: Array, of: Array) -> Array:
    """Of each pair in the last two columns the first row of the first two that has it; -1 for none, and for the number 0."""
    count, pids = len(pid), distinct(pid)
    if count and len(of) and int(number.max()) >= _MOST // (len(pids) * count):  # of a damaged file
        known, number = ranked(np.where(number > 0, number, 0))
        place = np.minimum(np.searchsorted(known, of), len(known) - 1)
        of = np.where((known[place] == of) & (of > 0), place + 1, 0)
        number = np.where(known[number] > 0, number + 1, 0)
    made = np.empty(len(of), np.int32 if count <= np.iinfo(np.int32).max else np.int64)
    found = FirstRows(pids, count, [(pid, number)])
    for first in range(0, len(of), _SLICE):
        some = slice(first, first + _SLICE)
        made[some] = found.of(of_pid[some], of[some])
    return made


class FirstRows:
    """Of pairs of a process and a number above 0 the first row that has them. Of each row it has one number, its keys before its place; with
    ``parts`` only of those that belong to this ``part``, so that one after the other may be asked where all do not fit into memory. Numbers so
    large that keys would not fit, as of damaged files, are none.
    """

    def __init__(
        self, pids: Array, count: int, pieces: Iterable[tuple[Array, Array]], part: int = 0, parts: int = 1
    ) -> None:
        self._pids, self._count, self._part, self._parts = pids, count, part, parts
        self._most = _MOST // max(len(pids) * count, 1)
        held, before = [np.zeros(0, np.int64)], 0
        for pid, number in pieces:
            own = np.flatnonzero(self.is_own(number))
            keys = _keys_of(pids, pid[own], number[own])
            keys *= count
            keys += own
            keys += before
            held.append(keys)
            before += len(pid)
        self._sorted = np.concatenate(held) if len(held) > 2 else held[-1]
        del held
        self._sorted.sort()

    def is_own(self, number: Array) -> Array:
        """Which numbers this may know."""
        own = (number > 0) & (number < self._most)
        if self._parts > 1:
            own &= parts_of(number, self._parts) == self._part
        return np.asarray(own)

    def of(self, pid: Array, number: Array) -> Array:
        """Of each its row (i64); -1 for none."""
        if not len(self._sorted):
            return np.full(len(number), -1)
        own = np.flatnonzero(self.is_own(number))
        key = _keys_of(self._pids, pid[own], number[own]) * self._count
        found = self._sorted[np.minimum(np.searchsorted(self._sorted, key), len(self._sorted) - 1)] - key
        made = np.full(len(number), -1)
        made[own] = np.where((key >= 0) & (found >= 0) & (found < self._count), found, -1)
        return made


def _keys_of(pids: Array, pid: Array, number: Array) -> Array:
    """A number for both, of processes that are sorted; -1 where it is none of these, or the number is below 0."""
    if not len(pids):
        return np.full(len(pid), -1)
    which = np.minimum(np.searchsorted(pids, pid), len(pids) - 1)
    return np.where((pids[which] == pid) & (number >= 0), number.astype(np.int64) * len(pids) + which, -1)


class LatestRows:
    """Answers as :func:`latest_rows` of rows that are in the order of time, some at a time. Of each row it has one number: its keys, which are a
    process and a number above 0 (rows without one are never found), before its place.
    """

    def __init__(self, pid: Array, number: Array, ms: Array) -> None:
        self._ms, self._pids = ms, distinct(pid)
        rows = np.flatnonzero(number > 0)
        self._sorted = _keys_of(self._pids, pid[rows], number[rows])
        self._sorted *= max(len(ms), 1)
        self._sorted += rows
        self._sorted.sort()

    def of(self, pid: Array, number: Array, ms: Array) -> Array:
        """Of each the row (i32, or i64 where there are so many); -1 for none."""
        made = np.full(len(ms), -1, np.int32 if len(self._ms) <= np.iinfo(np.int32).max else np.int64)
        if not len(self._sorted):
            return made
        for first in range(0, len(ms), _SLICE):
            some = slice(first, first + _SLICE)
            key = _keys_of(self._pids, pid[some], number[some])
            key[number[some] <= 0] = -1
            key *= len(self._ms)
            # those that came before are the rows below a place, for rows are in the order of time
            at = np.searchsorted(self._sorted, key + np.searchsorted(self._ms, ms[some], "right")) - 1
            found = self._sorted[at] - key
            made[some] = np.where((at >= 0) & (key >= 0) & (found >= 0), found, -1)
        return made


def latest_rows(keys: Sequence[Array], ms: Array, of_keys: Sequence[Array], of_ms: Array) -> Array:
    """For each row of the last columns the latest of the first that has equal keys and came before it, or with it; -1 where there is none."""
    first = len(ms)
    codes = np.zeros(first + len(of_ms), np.int64)
    for columns in zip(keys, of_keys, strict=True):
        codes = combined_codes(codes, np.concatenate(columns))
    is_asked = np.arange(len(codes)) >= first
    order = np.lexsort((is_asked, np.append(ms, of_ms), codes))
    latest = np.maximum.accumulate(np.where(is_asked[order], -1, np.arange(len(order))))
    asked = np.flatnonzero(is_asked[order])
    found = latest[asked]
    same = (found >= 0) & (codes[order][found] == codes[order][asked])
    made = np.full(len(of_ms), -1)
    made[order[asked] - first] = np.where(same, order[found], -1)
    return made
