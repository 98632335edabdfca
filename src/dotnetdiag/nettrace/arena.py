"""Memory for header columns, used again: fresh pages cost more than decoding into them.

Rule 1: memory comes back when nothing refers to its arrays any more (a finalizer of theirs says so), and only then is it
given out again, to whoever decodes next in this process.
Rule 2: columns that are nearly always zero stay so where nothing was written to them, and then nobody else may write to them.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.columns import COLUMN_TYPES, SPARSE_COLUMNS, HeaderColumns
from dotnetdiag.nettrace.constants import BATCH_ROWS

LEAST_EVENT = 2
"""Bytes of the smallest event: flags and time."""
USUAL_EVENT = 10
"""Bytes of an event when nothing is known of them: few have fewer, and so the first memory will do for all that follow."""
MOST_IDLE, MOST_IDLE_BYTES = 16, 48 << 20
"""Memory that waits to be used again: so many pieces, and bytes."""
SPARE = 0.8
"""Events are expected to be smaller by this than any were: too little room makes a second piece."""

# columns in the order in which the kernel is told where they begin
_ORDER: tuple[str, ...] = (
    *("metadata_id", "sequence", "processor", "stack", "activity", "related", "payload_length", "label_list"),
    *("capture_thread", "thread", "time", "payload_offset", "is_sorted"),
)

Bounds = tuple[int, int]


class Arena:
    """Memory for the columns of so many events, for the rows where numbers may jump and for the places of GUIDs."""

    __slots__ = ("_memory", "layout", "rows", "zeroed")

    def __init__(self, rows: int, runs: int | None = None, guids: int | None = None) -> None:
        """``runs`` and ``guids``: room for those, where their number is known."""
        self.rows = rows
        self.zeroed = True
        """Whether the columns that are nearly always zero are so in every row."""
        kinds: list[tuple[int, Any]] = [(rows, COLUMN_TYPES[name]) for name in _ORDER]
        kinds += [(rows if runs is None else runs, np.int64), (2 * rows + 2 if guids is None else guids, np.int64)]
        at = 0
        self.layout: list[tuple[int, int, np.dtype[Any]]] = []
        """(first byte, items, type) of each column, of the rows where numbers may jump, and of the places of GUIDs."""
        for count, kind in kinds:
            self.layout.append((at, count, np.dtype(kind)))
            at += -(-count * np.dtype(kind).itemsize // 64) * 64
        self._memory = np.zeros(at // 8 + 1, np.uint64)

    @property
    def size_bytes(self) -> int:
        """All of it; only what was written to takes memory."""
        return self._memory.nbytes

    def lend(self, window: tuple[Bounds, Bounds, Bounds] | None = None) -> Lent:
        """Its arrays, under a name of their own; with a window those rows, runs and GUIDs alone."""
        if window is None:
            window = (0, self.rows), (0, self.layout[-2][1]), (0, self.layout[-1][1])
        return Lent(np.frombuffer(self._memory.data, np.uint64), self, window)


class Lent:
    """One use of an arena. All views hold ``words``, and nothing else does when this is gone."""

    __slots__ = ("arena", "outs", "window", "words", "zeroed")

    def __init__(self, words: npt.NDArray[np.uint64], arena: Arena, window: tuple[Bounds, Bounds, Bounds]) -> None:
        self.words, self.arena, self.window = words, arena, window
        self.zeroed = arena.zeroed
        self.outs = (words.view(np.uint8), words.view(np.uint32), words)

    @property
    def starts(self) -> list[int]:
        """Where each column begins, in its own items, then runs and GUIDs."""
        firsts = [self.window[0][0]] * len(_ORDER) + [self.window[1][0], self.window[2][0]]
        return [
            start // kind.itemsize + first for first, (start, _, kind) in zip(firsts, self.arena.layout, strict=True)
        ]

    @property
    def limits(self) -> list[int]:
        """How many rows, runs and GUIDs there may be."""
        return [last - first for first, last in self.window]

    def views(
        self, rows: int, runs: int, guids: int
    ) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(headers, rows where numbers may jump, places of GUIDs): the first so many of each."""
        raw, counts = self.outs[0], [rows] * len(_ORDER) + [runs, guids]
        arrays = [
            raw[start * kind.itemsize : (start + count) * kind.itemsize].view(kind)
            for start, count, (_, _, kind) in zip(self.starts, counts, self.arena.layout, strict=True)
        ]
        named = dict(zip(_ORDER, arrays, strict=False))
        if self.zeroed:
            for name in SPARSE_COLUMNS:
                named[name].flags.writeable = False
        return HeaderColumns(**named), arrays[-2], arrays[-1]


_IDLE: list[Arena] = []


class Arenas:
    """Gives out the memory for one pass. Threads may share it."""

    def __init__(self) -> None:
        self.bytes_per_event = 0.0
        """As few as any piece had; 0 before the first."""

    def take(self, size_bytes: int) -> Lent:
        """Room for the events of blocks of that size, as far as can be told from those before."""
        rows = int(size_bytes / (self.bytes_per_event or USUAL_EVENT)) + 64
        rows = min(rows, size_bytes // LEAST_EVENT + 1, BATCH_ROWS)
        # the smallest that will do, or the large ones are gone when they are needed; of equals the latest, still cached
        latest_first = _IDLE[::-1]
        for arena in sorted(latest_first, key=lambda arena: arena.rows):
            if arena.rows >= rows:
                try:
                    _IDLE.remove(arena)
                except ValueError:  # another thread was quicker
                    continue
                break
        else:
            arena = Arena(rows + rows // 8)
        most = min(arena.rows, BATCH_ROWS)
        lent = arena.lend(((0, most), (0, most), (0, 2 * most + 2)))
        weakref.finalize(lent.words, _give_back, arena).atexit = False
        return lent

    def expect(self, rows: int, size_bytes: int) -> None:
        """So many events were seen in so many bytes."""
        if rows:
            seen = max(float(LEAST_EVENT), SPARE * size_bytes / rows)
            self.bytes_per_event = min(self.bytes_per_event or seen, seen)


def _give_back(arena: Arena) -> None:
    _IDLE.append(arena)
    while len(_IDLE) > MOST_IDLE or sum(one.size_bytes for one in _IDLE[:]) > MOST_IDLE_BYTES:
        del _IDLE[:1]  # the longest unused; other threads may do the same
