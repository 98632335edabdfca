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
    from io import FileIO

Array: TypeAlias = "np.ndarray[Any, Any]"

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
