"""What folds keep of events waits for the end in a file that has no name: while windows come a report on a million messages needs no more memory than
one on ten thousand.

Read again it is an array as any other, so who reads takes one column, or one part, at a time. The pages of a mapped file would count as this
program's as soon as they are looked at; what is written and read does not. Where no file can be written, arrays stay in memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.trace.temporary import folder_on_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO
    from mmap import mmap

Array: TypeAlias = "np.ndarray[Any, Any]"

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

    def read(self) -> Array:
        """The values."""
        if self._file is None:
            return self._values
        made = np.empty(self._shape, self._values.dtype)
        self._file.read_into(self._place, made)
        return made


class MappedArrays:
    """Arrays of so many numbers each that all of them together do not fit into memory; who goes through them does so some at a time, in any order,
    and lets go of what was looked at. Few are plain memory, as are those for which there is no room elsewhere.
    """

    def __init__(self, rows: int) -> None:
        self._rows, self._is_small = rows, rows < MAPPED_ROWS
        self._maps: list[mmap] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrays go elsewhere as all do, in memory."""
        return type(self), (self._rows,)

    def zeros(self, kind: Any) -> Array:
        """A new one."""
        if not self._is_small:
            try:
                mapped = _mapped(self._rows * np.dtype(kind).itemsize)
            except OSError:
                self._is_small = True
            else:
                self._maps.append(mapped)
                return np.frombuffer(mapped, kind)
        return np.zeros(self._rows, kind)

    def release(self) -> None:
        """Let go of what was looked at: it is in the file, and comes back when it is looked at again."""
        for mapped in self._maps:
            _let_go(mapped)

    def slices(self) -> Iterator[slice[int, int, None]]:
        """All rows, some of them at a time; what is looked at meanwhile is let go."""
        for first in range(0, self._rows, MAPPED_SLICE):
            yield slice(first, min(first + MAPPED_SLICE, self._rows))
            self.release()


def _mapped(size: int) -> mmap:
    """Zeros in a file without a name, all of which have their place on the disk: a write to memory that finds none would end the program."""
    from mmap import mmap

    with _unnamed() as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            for first in range(0, size, PART_BYTES):
                file.write(bytes(min(PART_BYTES, size - first)))
        return mmap(file.fileno(), size)


def _let_go(mapped: mmap) -> None:
    import mmap

    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


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
    import tempfile  # brings all ways of packing with it

    return tempfile.TemporaryFile(buffering=0, dir=folder_on_disk())
