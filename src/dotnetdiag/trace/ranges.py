"""Which row owns an address at a time: half-open address ranges that may overlap and take turns.

Rule 1: of the rows whose time covers the moment, the one that began last owns the address (nettrace.md §11); of equals
the one that ended first, then the one given first.
Rule 2: where no row covers the moment, the next one to begin owns it (its event came late), else the last one.

The ranges are cut at every start and end. A piece with one owner, which is nearly every piece, costs one
``searchsorted``; a piece with several gets a timeline when somebody asks for it. Where many ranges lie in each other,
that would be as many timelines of as many ranges: there a segment tree over the pieces holds each range in a few nodes,
each of which has a timeline, and the best answer of the nodes above a piece counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace.bounds import ALWAYS, FOREVER
from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"

_DEPTH_LIMIT = 64
"""Ranges of a piece that have a timeline of their own; more of them are asked node by node."""
_NOBODY, _SEVERAL, _MANY = -1, -2, -3
_NONE = np.iinfo(np.int64).max


class RangeIndex:
    """Rows by address and time: row ``i`` is ``[starts[i], ends[i])`` (u64) while ``begins[i] <= time < ends_at[i]``.

    Times are in ticks, ``ALWAYS`` and ``FOREVER`` where they are not known. Empty and reversed ranges own nothing.
    """

    __slots__ = ("_begins", "_cuts", "_ends_at", "_owner", "_timelines", "_tree")

    def __init__(self, starts: Array, ends: Array, begins: Array, ends_at: Array) -> None:
        self._begins, self._ends_at = begins, ends_at
        rows = np.flatnonzero(ends > starts)
        starts, ends = starts[rows], ends[rows]
        self._cuts: Array = distinct(np.concatenate([starts, ends]))
        first, last = np.searchsorted(self._cuts, starts), np.searchsorted(self._cuts, ends)
        pieces = max(len(self._cuts), 1)  # [-1]: behind the last cut, nobody
        counts = np.cumsum(np.bincount(first, minlength=pieces) - np.bincount(last, minlength=pieces))
        sums = np.zeros(pieces, np.int64)
        np.add.at(sums, first, rows)
        np.subtract.at(sums, last, rows)
        self._owner: Array = np.where(counts == 1, np.cumsum(sums), _NOBODY)
        self._owner[counts > 1] = _SEVERAL
        self._owner[counts > _DEPTH_LIMIT] = _MANY
        self._timelines: dict[int, tuple[Array, Array]] = {}
        shared = np.append(0, np.cumsum(counts > 1))
        several = shared[last] > shared[first]
        self._tree = _Tree(rows[several], first[several], last[several], begins, ends_at) if several.any() else None

    def lookup(self, addresses: Array, times: Array | None = None) -> Array:
        """The owner of each address (u64) at its time, -1 where there is none. Without times: the last owner."""
        piece = np.searchsorted(self._cuts, addresses, side="right") - 1
        owner: Array = self._owner[piece]
        if self._tree is None:
            return owner
        for queries, number in _grouped(np.flatnonzero(owner == _SEVERAL), piece):
            moments, rows = self._timeline(number)
            if times is None:
                owner[queries] = rows[-1]
            else:
                owner[queries] = rows[np.searchsorted(moments, times[queries], side="right")]
        many = np.flatnonzero(owner == _MANY)
        if len(many):
            when = np.full(len(many), FOREVER - 1) if times is None else times[many]
            owner[many] = self._tree.lookup(piece[many], when)
        return owner

    def changes(self, addresses: Array) -> tuple[Array, Array]:
        """(mask of the addresses whose owner changes, the moments at which any of those changes, sorted).

        Where many ranges lie in each other, both may say too much.
        """
        mask = np.zeros(len(addresses), np.bool_)
        if self._tree is None:
            return mask, np.zeros(0, np.int64)
        piece = np.searchsorted(self._cuts, addresses, side="right") - 1
        owner = self._owner[piece]
        moments = [np.zeros(0, np.int64)]
        for queries, number in _grouped(np.flatnonzero(owner == _SEVERAL), piece):
            found, _ = self._timeline(number)
            if len(found):
                moments.append(found)
                mask[queries] = True
        many = np.flatnonzero(owner == _MANY)
        for nodes in self._tree.above(piece[many]):
            for queries, node in _grouped(np.flatnonzero(nodes >= 0), nodes):
                found = self._tree.moments(node)
                if len(found):
                    moments.append(found)
                    mask[many[queries]] = True
        return mask, distinct(np.concatenate(moments))

    def _timeline(self, piece: int) -> tuple[Array, Array]:
        """(moments, rows): ``rows[k]`` owns the piece from ``moments[k - 1]`` on; one row more than moments."""
        found = self._timelines.get(piece)
        if found is None:
            assert self._tree is not None
            rows = self._tree.rows_above(piece)
            found = _timeline(rows.tolist(), self._begins[rows].tolist(), self._ends_at[rows].tolist())
            self._timelines[piece] = found
        return found


class _Tree:
    """A segment tree: each row, which covers some pieces, stands in the few nodes that cover them together.

    The nodes above piece ``p`` are ``p + size`` and its halves; those that have rows are numbered.
    """

    def __init__(self, rows: Array, first: Array, last: Array, begins: Array, ends_at: Array) -> None:
        self._begins, self._ends_at = begins, ends_at
        self._size = size = 1 << int(last.max()).bit_length()
        left, right = first + size, last + size
        parts: list[tuple[Array, Array]] = []
        while len(rows):
            odd = left & 1 == 1
            parts.append((left[odd], rows[odd]))
            left = left + odd
            odd = right & 1 == 1
            right = right - odd
            parts.append((right[odd], rows[odd]))
            left, right = left >> 1, right >> 1
            active = left < right
            left, right, rows = left[active], right[active], rows[active]
        nodes = np.concatenate([nodes for nodes, _ in parts])
        members = np.concatenate([rows for _, rows in parts])
        order = np.lexsort((members, nodes))
        self._rows: Array = members[order]
        self._nodes: Array = distinct(nodes)
        self._bounds: Array = np.append(np.searchsorted(nodes[order], self._nodes), len(order))
        self._shifts: list[int] = distinct(size.bit_length() - np.frexp(self._nodes)[1]).tolist()
        self._answers: dict[int, _Answers] = {}

    def above(self, pieces: Array) -> Iterator[Array]:
        """For each level that has nodes, the node above each piece, -1 where there is none."""
        for shift in self._shifts:
            wanted = (pieces + self._size) >> shift
            nodes = np.minimum(np.searchsorted(self._nodes, wanted), len(self._nodes) - 1)
            yield np.where(self._nodes[nodes] == wanted, nodes, -1)

    def _rows_in(self, node: int) -> Array:
        rows: Array = self._rows[self._bounds[node] : self._bounds[node + 1]]
        return rows

    def rows_above(self, piece: int) -> Array:
        """All rows that cover a piece, ascending."""
        nodes = [int(found[0]) for found in self.above(np.array([piece]))]
        return np.sort(np.concatenate([self._rows_in(node) for node in nodes if node >= 0]))

    def moments(self, node: int) -> Array:
        """When its rows begin and end."""
        rows = self._rows_in(node)
        times = distinct(np.concatenate([self._begins[rows], self._ends_at[rows]]))
        finite: Array = times[(times != ALWAYS) & (times != FOREVER)]
        return finite

    def lookup(self, pieces: Array, times: Array) -> Array:
        """The owner of each piece at its time, as the two rules have it."""
        best = np.full((3, 3, len(pieces)), _NONE)  # owner now, next, last: its rank by two times, and its row
        for nodes in self.above(pieces):
            for queries, node in _grouped(np.flatnonzero(nodes >= 0), nodes):
                found = self._answer(node).at(times[queries])
                for kind in range(3):
                    better = _before(found[kind], best[kind][:, queries])
                    best[kind][:, queries[better]] = found[kind][:, better]
        now, following, last = best[:, 2]
        owner = np.where(now != _NONE, now, np.where(following != _NONE, following, last))
        return np.where(owner == _NONE, _NOBODY, owner)

    def _answer(self, node: int) -> _Answers:
        found = self._answers.get(node)
        if found is None:
            rows = self._rows_in(node)
            found = self._answers[node] = _Answers(rows, self._begins[rows], self._ends_at[rows])
        return found


def _before(one: Array, other: Array) -> Array:
    """Which columns of (rank, rank, row) come before those of another."""
    less, equal = one < other, one == other
    result: Array = less[0] | equal[0] & (less[1] | equal[1] & less[2])
    return result


class _Answers:
    """What the rows of one node say of a time: columns of (rank, rank, row), of which the least counts."""

    def __init__(self, rows: Array, begins: Array, ends_at: Array) -> None:
        moments, places = _owners(begins.tolist(), ends_at.tolist())
        self._moments = np.array(moments, np.int64)
        owned = np.array(places, np.int64)
        self._now = np.where(owned < 0, _NONE, np.stack([~begins, ends_at, rows])[:, owned])
        alive = begins < ends_at
        rows, begins, ends_at = rows[alive], begins[alive], ends_at[alive]
        order = np.lexsort((rows, ends_at, begins))
        nobody = np.full((3, 1), _NONE)
        self._next_begins = begins[order]
        self._next = np.concatenate([np.stack([begins, ends_at, rows])[:, order], nobody], axis=1)
        order = np.lexsort((rows, ~begins, ~ends_at))[:1]
        self._last = np.stack([~ends_at, ~begins, rows])[:, order] if len(order) else nobody

    def at(self, times: Array) -> tuple[Array, Array, Array]:
        """(who owns the moment, who begins next, who was last)."""
        now = self._now[:, np.searchsorted(self._moments, times, side="right")]
        following = self._next[:, np.searchsorted(self._next_begins, times, side="right")]
        return now, following, np.repeat(self._last, len(times), axis=1)


def _grouped(places: Array, keys: Array) -> Iterator[tuple[Array, int]]:
    """The places that have the same key, and that key."""
    if len(places):
        order = places[np.argsort(keys[places], kind="stable")]
        different, firsts = np.unique(keys[order], return_index=True)
        yield from zip(np.split(order, firsts[1:]), different.tolist(), strict=True)


def _owners(begins: list[int], ends_at: list[int]) -> tuple[list[int], list[int]]:
    """(moments, places): who is the owner by rule 1 before the first moment and from each one on, or nobody."""
    points = sorted({time for time in begins + ends_at if time not in (ALWAYS, FOREVER)})
    waiting = sorted(range(len(begins)), key=begins.__getitem__)
    alive: list[tuple[int, int, int]] = []
    at, owners = 0, []
    for point in [ALWAYS, *points]:
        while at < len(waiting) and begins[waiting[at]] <= point:
            which = waiting[at]
            heappush(alive, (-begins[which], ends_at[which], which))
            at += 1
        while alive and alive[0][1] <= point:
            heappop(alive)
        owners.append(alive[0][2] if alive else _NOBODY)
    return points, owners


def _timeline(rows: list[int], begins: list[int], ends_at: list[int]) -> tuple[Array, Array]:
    """As :meth:`RangeIndex._timeline`: rule 2 fills what rule 1 leaves."""
    points, places = _owners(begins, ends_at)
    owners = [rows[place] if place >= 0 else _NOBODY for place in places]
    for k in reversed(range(len(owners) - 1)):
        if owners[k] == _NOBODY:
            owners[k] = owners[k + 1]
    for k in range(1, len(owners)):
        if owners[k] == _NOBODY:
            owners[k] = owners[k - 1]
    kept = [0] + [k for k in range(1, len(owners)) if owners[k] != owners[k - 1]]
    moments = np.array([points[k - 1] for k in kept[1:]], np.int64)
    return moments, np.array([owners[k] for k in kept], np.int64)
