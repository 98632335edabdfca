"""Rows of many columns, of which there may be millions: beyond some megabytes they lie in a file that has no name.

Who looks at one column reads that alone, as of rows that lie side by side (:mod:`dotnetdiag.trace.spilled`) nobody can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace.scratch import UnnamedFile

Array: TypeAlias = "np.ndarray[Any, Any]"

HELD_BYTES = 12 << 20
"""What is kept in memory, of 25,000 collections; when there is more, all that is held goes to the file."""


class SpilledColumns:
    """Rows in the order in which they were appended, some at a time, each time with the same columns."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[np.dtype[Any], int]] = {}
        """Of each column its kind, and the bytes of a row that are before it."""
        self._held: list[Mapping[str, Array]] = []
        self._held_bytes = 0
        self._file: UnnamedFile | None = None
        self._written: list[tuple[int, int]] = []
        """Of each part in the file how many rows it and those before it have, and where it begins."""
        self._end = 0
        self._is_refused = False

    def __len__(self) -> int:
        return self._written_rows + sum(map(_rows_of, self._held))

    def __reduce__(self) -> tuple[Any, ...]:
        """The rows go along in parts, and lie in a file of their own where they arrive."""
        return type(self), (), None, self._parts()

    @property
    def is_held(self) -> bool:
        """Whether all of them are in memory."""
        return not self._written

    @property
    def _written_rows(self) -> int:
        return self._written[-1][0] if self._written else 0

    def append(self, columns: Mapping[str, Array]) -> None:
        """Rows behind all others; they belong to this from now on. Columns are of the kinds that they had first."""
        if not self._kinds:
            place = 0
            for name, values in columns.items():
                self._kinds[name] = values.dtype, place
                place += values.itemsize
        self._held.append({name: columns[name].astype(kind, copy=False) for name, (kind, _) in self._kinds.items()})
        self._held_bytes += sum(values.nbytes for values in self._held[-1].values())
        if self._held_bytes > (HELD_BYTES if self.is_held else 0) and not self._is_refused:
            self._write()

    def column(self, name: str, first: int, last: int) -> Array:
        """One column of the rows from one to before another."""
        found = list(self._found(name, first, last))
        return found[0] if len(found) == 1 else np.concatenate(found) if found else np.zeros(0)

    def _found(self, name: str, first: int, last: int) -> Iterator[Array]:
        begin = 0
        kind, before = self._kinds.get(name, (np.dtype(np.float64), 0))
        for end, place in self._written:
            low, high = max(first, begin), min(last, end)
            if low < high and self._file is not None:
                made = np.empty(high - low, kind)
                self._file.read_into(place + (end - begin) * before + (low - begin) * kind.itemsize, made)
                yield made
            begin = end
        for part in self._held:
            end = begin + _rows_of(part)
            if max(first, begin) < min(last, end):
                yield part[name][max(first - begin, 0) : last - begin]
            begin = end

    def _parts(self) -> Iterator[Mapping[str, Array]]:
        """All rows, as they were appended."""
        begin = 0
        for end, _ in self._written:
            yield {name: self.column(name, begin, end) for name in self._kinds}
            begin = end
        yield from self._held

    def _write(self) -> None:
        """All that is held, into the file; it stays in memory where that has no place."""
        try:
            if self._file is None:
                self._file = UnnamedFile()
            while self._held:
                part = self._held[0]
                rows = _rows_of(part)
                for name, (_, before) in self._kinds.items():
                    self._file.write(self._end + rows * before, part[name])
                self._written.append((self._written_rows + rows, self._end))
                self._end += sum(values.nbytes for values in part.values())
                del self._held[0]
        except OSError:
            self._is_refused = True
        self._held_bytes = sum(values.nbytes for part in self._held for values in part.values())


def _rows_of(part: Mapping[str, Array]) -> int:
    return len(next(iter(part.values())))
