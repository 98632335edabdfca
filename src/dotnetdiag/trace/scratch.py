"""What folds keep of events waits for the end in a file that has no name: while windows come a report on a million messages needs no more memory than
one on ten thousand.

Read again it is an array as any other, so who reads takes one column, or one part, at a time. The pages of a mapped file would count as this
program's as soon as they are looked at; what is written and read does not. Where no file can be written, arrays stay in memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._temporary import unnamed_file
from dotnetdiag.nettrace.room import Room

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO

Array: TypeAlias = "np.ndarray[Any, Any]"

_LEAST_ROWS = 1 << 10
MAPPED_ROWS = 1 << 18
"""So many numbers, and mapped arrays are in a file: ten arrays of fewer are some 10 MB."""
MAPPED_SLICE = 1 << 16
"""Rows of mapped arrays that are looked at at once."""
PART_BYTES = 1 << 18
"""So much of one kind of events is kept in memory before it is written: there are some fifty kinds in a report on requests."""


class Scratch:
    """A file for what several keepers have. It is made when something is first put there, and gone with the last array in it."""

    def __init__(self) -> None:
        self._file: UnnamedFile | None = None
        self._is_full = False
        self._end = 0

    def put(self, values: Array) -> Stored:
        """Keep an array there, in memory where there is no room."""
        if self._is_full or not values.nbytes:
            return Stored(values)
        try:
            if self._file is None:
                self._file = UnnamedFile()
            self._file.write(self._end, values)
        except OSError:
            self._is_full = True
            return Stored(values)
        place, self._end = self._end, self._end + values.nbytes
        return Stored(np.empty(0, values.dtype), self._file, place, values.shape)


class Stored:
    """An array that waits, in a file or in memory."""

    __slots__ = ("_file", "_place", "_shape", "_values")

    def __init__(
        self, values: Array, file: UnnamedFile | None = None, place: int = 0, shape: tuple[int, ...] = ()
    ) -> None:
        self._values, self._file, self._place, self._shape = values, file, place, shape

    def __len__(self) -> int:
        return len(self._values) if self._file is None else self._shape[0]

    def read(self) -> Array:
        """The values."""
        if self._file is None:
            return self._values
        made = np.empty(self._shape, self._values.dtype)
        self._file.read_into(self._place, made)
        return made


class MappedArrays:
    """Arrays of so many numbers each that all of them together do not fit into memory; who goes through them does so some at a time, in any order,
    and lets go of what was looked at. Few are plain memory, as are those for which there is no room elsewhere. ``each``: bytes that all of a row
    may take, which are one file.
    """

    def __init__(self, rows: int, each: int = 8) -> None:
        self._rows, self._each = rows, each
        self._room: Room | None = None
        self._taken = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrays go elsewhere as all do, in memory."""
        return type(self), (self._rows, self._each)

    def zeros(self, kind: Any) -> Array:
        """A new one."""
        size = self._rows * np.dtype(kind).itemsize
        if self._rows < MAPPED_ROWS or not self._rows:
            return np.zeros(self._rows, kind)
        if self._room is None:  # each array begins at a whole number
            self._room = Room(self._rows * self._each + 8 * self._each, in_file=0, grows=False)
        if not self._room.is_in_file or self._taken + size > self._room.size_bytes:
            return np.zeros(self._rows, kind)
        made: Array = self._room.array()[self._taken : self._taken + size].view(kind)
        self._taken += -(-size // 8) * 8
        return made

    def release(self) -> None:
        """Let go of what was looked at: it is in the file, and comes back when it is looked at again."""
        if self._room is not None:
            self._room.let_go()

    def slices(self) -> Iterator[slice[int, int, None]]:
        """All rows, some of them at a time; what is looked at meanwhile is let go."""
        for first in range(0, self._rows, MAPPED_SLICE):
            yield slice(first, min(first + MAPPED_SLICE, self._rows))
            self.release()


class GrownArray:
    """An array to whose end more is appended, in memory until there is much of it, as :class:`MappedArrays` are. ``fill`` is what :meth:`extend`
    puts there.
    """

    def __init__(self, kind: Any, *, fill: int = 0) -> None:
        self._kind, self._fill, self._count = np.dtype(kind), fill, 0
        size = self._kind.itemsize
        self._room = Room(_LEAST_ROWS * size, in_file=MAPPED_ROWS * size)

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> tuple[Any, ...]:
        """The values go elsewhere."""
        return _grown, (self._kind, self._fill, self.values.copy())

    @property
    def values(self) -> Array:
        """All that there is. What is written to it stays there."""
        return self._room.array(self._kind)[: self._count]

    def append(self, values: Array) -> None:
        """These too."""
        first = self._count
        self._reach(first + len(values))
        self.values[first:] = values

    def extend(self, count: int) -> None:
        """Have so many at least."""
        first = self._count
        self._reach(max(count, first))
        for some in range(first, self._count if self._fill else first, MAPPED_SLICE):
            self.values[some : some + MAPPED_SLICE] = self._fill

    def copy(self) -> GrownArray:
        """The same values, where they are: good until something is appended to this."""
        made = GrownArray.__new__(GrownArray)  # copy() would take all of them along, as to elsewhere
        made._kind, made._fill, made._count, made._room = self._kind, self._fill, self._count, self._room
        return made

    def release(self) -> None:
        """Let go of what was looked at."""
        self._room.let_go()

    def _reach(self, count: int) -> None:
        held = self._room.size_bytes // self._kind.itemsize
        if count > held:
            self._room.grow(max(count, held * 5 // 4) * self._kind.itemsize)
        self._count = count


def _grown(kind: Any, fill: int, values: Array) -> GrownArray:
    made = GrownArray(kind, fill=fill)
    made.append(values)
    return made


class UnnamedFile:
    """Gone when nobody has it any more. Several threads may read at a time."""

    def __init__(self) -> None:
        self._raw = _unnamed()

    def __del__(self) -> None:
        if hasattr(self, "_raw"):
            self._raw.close()

    def write(self, place: int, values: Array) -> None:
        """All of an array; OSError where there is no room."""
        self._raw.seek(place)
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        while data:
            data = data[self._raw.write(data) :]

    def read_into(self, place: int, values: Array) -> None:
        """The bytes of a contiguous array, as they were written there."""
        data = values.reshape(-1).view(np.uint8).data
        while data:
            if hasattr(os, "preadv"):
                count = os.preadv(self._raw.fileno(), [data], place)
            else:
                self._raw.seek(place)
                count = self._raw.readinto(data)
            if not count:
                raise OSError(f"{len(data)} bytes of a temporary file are gone")
            place, data = place + count, data[count:]


def _unnamed() -> FileIO:
    return unnamed_file()
