"""Memory for header columns, used again: fresh pages cost more than decoding into them (36-42 ms against 51-71 for 4 million
events). The columns of payloads are not worth it.

Rule 1: memory comes back when nothing refers to its arrays any more (a finalizer of theirs says so), and only then is it
given out again, to whoever decodes next in this process.
Rule 2: columns that are nearly always zero stay so where nothing was written to them, and then nobody else may write to them.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.columns import COLUMN_NAMES, COLUMN_TYPES, SPARSE_COLUMNS, HeaderColumns
from dotnetdiag.nettrace.constants import BATCH_ROWS
from dotnetdiag.nettrace.room import pages

LEAST_EVENT = 2
"""Bytes of the smallest event: flags and time."""
USUAL_EVENT = 10
"""Bytes of an event when nothing is known of them: few have fewer, and so the first memory will do for all that follow."""
MOST_IDLE, MOST_IDLE_BYTES = 16, 80 << 20
"""Memory that waits to be used again: so many pieces, and bytes, of which some 60 % are ever touched. Six pieces of a pass with threads fit."""
SPARE = 0.8
"""Events are expected to be smaller by this than any were: too little room makes a second piece."""
_CACHE_LINE = 64

Bounds = tuple[int, int]


class Arena:
    """Memory for the columns of so many events, for the rows where numbers may jump and for the places of GUIDs."""

    __slots__ = ("_layout", "_memory", "guids", "rows", "runs", "spare", "zeroed")

    def __init__(self, rows: int, runs: int | None = None, guids: int | None = None, spare: int = 0) -> None:
        """``runs`` and ``guids``: room for those, where their number is known; ``spare``: for so many words that anybody uses."""
        self.rows, self.spare = rows, spare
        self.runs = rows if runs is None else runs
        self.guids = 2 * rows + 2 if guids is None else guids
        self.zeroed = True
        """Whether the columns that are nearly always zero are so in every row."""
        kinds: list[tuple[int, Any]] = [(rows, COLUMN_TYPES[name]) for name in COLUMN_NAMES]
        kinds += [(self.runs, np.int64), (self.guids, np.int64), (spare, np.int64)]
        at = 0
        self._layout: list[tuple[int, np.dtype[Any]]] = []
        """(first byte, type) of each column, of the rows where numbers may jump, of the places of GUIDs, and of the spare words."""
        for count, kind in kinds:
            self._layout.append((at, np.dtype(kind)))
            at += -(-count * np.dtype(kind).itemsize // _CACHE_LINE) * _CACHE_LINE
        self._memory = _zeroed(at // 8 + 1)

    @property
    def size_bytes(self) -> int:
        """All of it; only what was written to takes memory."""
        return self._memory.nbytes

    def lend(self, rows: Bounds | None = None, runs: Bounds | None = None, guids: Bounds | None = None) -> Lent:
        """Its arrays, or those rows, runs and GUIDs of them, under a name of their own."""
        windows = rows or (0, self.rows), runs or (0, self.runs), guids or (0, self.guids)
        words = np.frombuffer(self._memory.data, np.uint64)
        raw = words.view(np.uint8)
        arrays = [
            raw[start + first * kind.itemsize : start + last * kind.itemsize].view(kind)
            for (start, kind), (first, last) in zip(
                self._layout, [windows[0]] * len(COLUMN_NAMES) + [*windows[1:], (0, self.spare)], strict=True
            )
        ]
        return Lent(self, words, HeaderColumns(*arrays[:-3]), *arrays[-3:])


class Lent:
    """One use of an arena. All its arrays hold ``words``, and nothing else does when this is gone."""

    __slots__ = ("arena", "guids", "headers", "runs", "spare", "words", "zeroed")

    def __init__(
        self,
        arena: Arena,
        words: npt.NDArray[np.uint64],
        headers: HeaderColumns,
        runs: npt.NDArray[np.int64],
        guids: npt.NDArray[np.int64],
        spare: npt.NDArray[np.int64],
    ) -> None:
        self.arena, self.words, self.headers, self.runs, self.guids = arena, words, headers, runs, guids
        self.spare = spare
        self.zeroed = arena.zeroed

    def touched(self) -> None:
        """The columns that are nearly always zero were written to."""
        self.zeroed = self.arena.zeroed = False

    def first(self, rows: int) -> HeaderColumns:
        """The first so many events."""
        headers = self.headers[:rows]
        if self.zeroed:
            for name in SPARSE_COLUMNS:
                getattr(headers, name).flags.writeable = False
        return headers


def _zeroed(words: int) -> npt.NDArray[np.uint64]:
    """Pages of the system's, which go back to it: what the allocator takes back it may keep, 60 MB of a report's 150."""
    return np.frombuffer(pages(8 * words), np.uint64)


_IDLE: list[Arena] = []


def let_go_of_idle() -> None:
    """Give back the memory that waits: who has passed over a file, and now makes something of what was found, needs it more."""
    _IDLE.clear()


class Arenas:
    """Gives out the memory for one pass. Threads may share it."""

    def __init__(self) -> None:
        self.bytes_per_event = 0.0
        """As few as any piece had; 0 before the first."""

    def take(self, size_bytes: int, spare: int = 0) -> Lent:
        """Room for the events of blocks of that size, as far as can be told from those before, and ``spare`` words for each."""
        rows = int(size_bytes / (self.bytes_per_event or USUAL_EVENT)) + 64
        rows = min(rows, size_bytes // LEAST_EVENT + 1, BATCH_ROWS)
        # the smallest that will do, or the large ones are gone when they are needed; of equals the latest, still cached
        latest_first = _IDLE[::-1]
        for arena in sorted(latest_first, key=lambda arena: arena.rows):
            if arena.rows >= rows and arena.spare >= spare * rows:
                try:
                    _IDLE.remove(arena)
                except ValueError:  # another thread was quicker
                    continue
                break
        else:
            rows += rows // 8
            arena = Arena(rows, spare=spare * rows)
        most = min(arena.rows, BATCH_ROWS)
        lent = arena.lend((0, most), (0, most), (0, 2 * most + 2))
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
