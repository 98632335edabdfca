"""Rows of numbers of which there may be millions: beyond some megabytes they lie in a file that has no name.

Who goes through them does so slice by slice, and has no more of them at once than that. Where nothing can be written, it is memory as any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace.scratch import UnnamedFile

Array: TypeAlias = "np.ndarray[Any, Any]"

HELD_BYTES = 1 << 20
"""What is kept in memory of rows, of 16,000 exceptions; when there are more, all that is held goes to the file."""
SLICE_ROWS = 1 << 15
"""Rows that are looked at together: with a dozen columns made of them they stay below 10 MB."""
_BLOCK_ROWS = 1 << 12
"""Rows that are read and written back for some of them to be changed."""


class SpilledRows:
    """Rows of one structured type, in the order in which they were appended."""

    def __init__(self, kind: Any) -> None:
        self.kind = np.dtype(kind)
        self._held: list[Array] = []
        self._held_rows = self._written = 0
        self._file: UnnamedFile | None = None
        self._is_refused = False

    def __len__(self) -> int:
        return self._written + self._held_rows

    @property
    def held_bytes(self) -> int:
        """What of them is in memory."""
        return self._held_rows * int(self.kind.itemsize)

    def __reduce__(self) -> tuple[Any, ...]:
        """The rows go along in parts, and lie in a file of their own where they arrive."""
        return type(self), (self.kind,), None, (rows for _, rows in self.slices())

    def append(self, rows: Array) -> None:
        """Rows behind all others; they belong to this from now on."""
        self._held.append(rows)
        self._held_rows += len(rows)
        if self.held_bytes > HELD_BYTES and not self._is_refused:
            self._write()

    def read(self, first: int, last: int) -> Array:
        """A copy of the rows from ``first`` to before ``last``."""
        made = np.empty(last - first, self.kind)
        on_disk = max(min(last, self._written) - first, 0)
        if on_disk:
            self._read_into(made[:on_disk], first)
        if on_disk < len(made):
            begins = first + on_disk - self._written
            made[on_disk:] = self._together()[begins : last - self._written]
        return made

    def slices(self, rows: int | None = None) -> Iterator[tuple[int, Array]]:
        """The first ``rows`` (None: all) in parts of :data:`SLICE_ROWS`: where each begins, and a copy."""
        end = len(self) if rows is None else rows
        for first in range(0, end, SLICE_ROWS):
            yield first, self.read(first, min(first + SLICE_ROWS, end))

    def column(self, name: str, first: int, last: int) -> Array:
        """One column of these rows, without the others beside it."""
        made = np.empty(last - first, self.kind[name])
        for begin in range(first, last, SLICE_ROWS):
            end = min(begin + SLICE_ROWS, last)
            made[begin - first : end - first] = self.read(begin, end)[name]
        return made

    def gather(self, name: str | None, places: Array) -> Array:
        """One column of the rows at some places, or the rows."""
        made = np.empty(len(places), self.kind if name is None else self.kind[name])
        order = np.argsort(places)
        slices = places[order] // SLICE_ROWS
        edges = np.flatnonzero(np.append(True, slices[1:] != slices[:-1])) if len(order) else order
        for begin, end in zip(edges.tolist(), [*edges[1:].tolist(), len(order)], strict=False):
            own, first = order[begin:end], int(slices[begin]) * SLICE_ROWS
            rows = self.read(first, min(first + SLICE_ROWS, len(self)))
            made[own] = (rows if name is None else rows[name])[places[own] - first]
        return made

    def changing(self, places: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Rows that are to be changed, ``places`` ascending, some of them at a time: rows to write to, the places in these, and which of
        ``places`` they are. What was written is kept when the next are asked for.
        """
        disk = int(np.searchsorted(places, self._written))
        block_of = places[:disk] // _BLOCK_ROWS
        edges = np.flatnonzero(np.append(True, block_of[1:] != block_of[:-1])) if disk else np.zeros(0, np.int64)
        done = 0
        for begin, end in zip(edges.tolist(), [*edges[1:].tolist(), disk], strict=False):
            first = int(block_of[begin]) * _BLOCK_ROWS
            block = self.read(first, min(first + _BLOCK_ROWS, self._written))
            yield block, places[begin:end] - first, np.arange(begin, end)
            done = end
            try:
                self._write_at(first, block)
            except OSError:  # as where files are copied when they are written to
                self._take_back()
                self._held[0][first : first + len(block)] = block
                break
        if done < len(places):
            yield self._together(), places[done:] - self._written, np.arange(done, len(places))

    def copy(self) -> SpilledRows:
        """The same rows, of which those here may then change."""
        made = SpilledRows(self.kind)
        for _, rows in self.slices():
            made.append(rows)
        return made

    def _take_back(self) -> None:
        """All into memory, where it stays."""
        self._held, self._held_rows = [self.read(0, len(self))], len(self)
        self._written, self._file, self._is_refused = 0, None, True

    def _together(self) -> Array:
        if len(self._held) != 1:
            self._held = [np.concatenate([np.zeros(0, self.kind), *self._held])]
        return self._held[0]

    def _write(self) -> None:
        """All that is held, into the file; it stays in memory where that has no place."""
        try:
            if self._file is None:
                self._file = UnnamedFile()
            place = self._written
            for rows in self._held:
                self._write_at(place, rows)
                place += len(rows)
        except OSError:
            self._is_refused = True
            return
        self._written += self._held_rows
        self._held, self._held_rows = [], 0

    def _write_at(self, first: int, rows: Array) -> None:
        assert self._file is not None
        self._file.write(first * self.kind.itemsize, rows)

    def _read_into(self, rows: Array, first: int) -> None:
        assert self._file is not None
        self._file.read_into(first * self.kind.itemsize, rows)
