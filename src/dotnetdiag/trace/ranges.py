"""Which row owns an address at a time: half-open address ranges that may overlap and take turns.

Rule 1: of the rows whose time covers the moment, the one that began last owns the address (nettrace.md §11); of equals
the one that ended first, then the one given first.
Rule 2: where no row covers the moment, the next one to begin owns it (its event came late), else the last one.

The ranges are cut at every start and end. A piece with one owner, which is nearly every piece, costs one
``searchsorted``; a piece with several gets a timeline when somebody asks for it.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"

ALWAYS = int(np.iinfo(np.int64).min)
"""Begins before the trace."""
FOREVER = int(np.iinfo(np.int64).max)
"""Does not end within the trace."""
_PIECES_LIMIT = 1 << 22
"""Pieces that need no reason: ranges nested in each other by the thousand are cut off, not multiplied out."""
_NOBODY, _SEVERAL = -1, -2


class RangeIndex:
    """Rows by address and time: row ``i`` is ``[starts[i], ends[i])`` (u64) while ``begins[i] <= time < ends_at[i]``.

    Times are in ticks, ``ALWAYS`` and ``FOREVER`` where they are not known. Empty and reversed ranges own nothing.
    """

    __slots__ = ("_begins", "_cuts", "_ends_at", "_firsts", "_owner", "_rows", "_shared", "_timelines")

    def __init__(self, starts: Array, ends: Array, begins: Array, ends_at: Array) -> None:
        self._begins, self._ends_at = begins, ends_at
        rows = np.flatnonzero(ends > starts)
        starts, ends = starts[rows], ends[rows]
        self._cuts: Array = distinct(np.concatenate([starts, ends]))
        first = np.searchsorted(self._cuts, starts)
        spans = np.searchsorted(self._cuts, ends) - first
        if int(spans.sum()) > len(rows) + _PIECES_LIMIT:
            spans = np.minimum(spans, 1 + _PIECES_LIMIT // len(rows))
        within = np.arange(int(spans.sum())) - np.repeat(np.cumsum(spans) - spans, spans)
        piece = np.repeat(first, spans) + within
        order = np.argsort(piece, kind="stable")
        self._rows: Array = np.repeat(rows, spans)[order]
        self._firsts: Array = np.searchsorted(piece[order], np.arange(len(self._cuts) + 1))
        counts = np.diff(self._firsts)
        self._owner: Array = np.full(max(len(self._cuts), 1), _NOBODY, np.int64)  # [-1]: behind the last cut, nobody
        alone = np.flatnonzero(counts == 1)
        self._owner[alone] = self._rows[self._firsts[alone]]
        self._owner[np.flatnonzero(counts > 1)] = _SEVERAL
        self._shared = bool((counts > 1).any())
        self._timelines: dict[int, tuple[Array, Array]] = {}

    def lookup(self, addresses: Array, times: Array | None = None) -> Array:
        """The owner of each address (u64) at its time, -1 where there is none. Without times: the last owner."""
        piece = np.searchsorted(self._cuts, addresses, side="right") - 1
        owner: Array = self._owner[piece]
        several = np.flatnonzero(owner == _SEVERAL)
        if len(several):
            order = several[np.argsort(piece[several], kind="stable")]
            pieces, firsts = np.unique(piece[order], return_index=True)
            for number, queries in zip(pieces.tolist(), np.split(order, firsts[1:]), strict=True):
                moments, rows = self._timeline(number)
                if times is None:
                    owner[queries] = rows[-1]
                else:
                    owner[queries] = rows[np.searchsorted(moments, times[queries], side="right")]
        return owner

    def changes(self, addresses: Array) -> tuple[Array, Array]:
        """(mask of the addresses whose owner changes, the moments at which any of those changes, sorted)."""
        mask = np.zeros(len(addresses), np.bool_)
        if not self._shared:
            return mask, np.zeros(0, np.int64)
        piece = np.searchsorted(self._cuts, addresses, side="right") - 1
        several = np.flatnonzero(self._owner[piece] == _SEVERAL)
        moments = []
        for number in distinct(piece[several]).tolist():
            found, _ = self._timeline(number)
            if len(found):
                moments.append(found)
                mask[several[piece[several] == number]] = True
        return mask, distinct(np.concatenate(moments)) if moments else np.zeros(0, np.int64)

    def _timeline(self, piece: int) -> tuple[Array, Array]:
        """(moments, rows): ``rows[k]`` owns the piece from ``moments[k - 1]`` on; one row more than moments."""
        found = self._timelines.get(piece)
        if found is None:
            rows = self._rows[self._firsts[piece] : self._firsts[piece + 1]]
            found = self._timelines[piece] = _timeline(
                rows.tolist(), self._begins[rows].tolist(), self._ends_at[rows].tolist()
            )
        return found


def _timeline(rows: list[int], begins: list[int], ends_at: list[int]) -> tuple[Array, Array]:
    points = sorted({time for time in begins + ends_at if time not in (ALWAYS, FOREVER)})
    waiting = sorted(range(len(rows)), key=begins.__getitem__)
    alive: list[tuple[int, int, int]] = []
    at, owners = 0, []
    for point in [ALWAYS, *points]:
        while at < len(waiting) and begins[waiting[at]] <= point:
            which = waiting[at]
            heappush(alive, (-begins[which], ends_at[which], which))
            at += 1
        while alive and alive[0][1] <= point:
            heappop(alive)
        owners.append(rows[alive[0][2]] if alive else _NOBODY)
    for k in reversed(range(len(owners) - 1)):
        if owners[k] == _NOBODY:
            owners[k] = owners[k + 1]
    for k in range(1, len(owners)):
        if owners[k] == _NOBODY:
            owners[k] = owners[k - 1]
    kept = [0] + [k for k in range(1, len(owners)) if owners[k] != owners[k - 1]]
    moments = np.array([points[k - 1] for k in kept[1:]], np.int64)
    return moments, np.array([owners[k] for k in kept], np.int64)
