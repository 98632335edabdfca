"""Memory that grows in its place, and lies in a file when it is told to."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dotnetdiag._temporary import reserve, unnamed_file

if TYPE_CHECKING:
    from io import FileIO

NEVER = 1 << 62


class Room:
    """Bytes that are zero until something is written there. Where the system can (Linux), more of them are had without copying those that are there,
    which for a moment takes both; not while somebody has an array of them.

    From ``in_file`` bytes on they lie in a file that has no name, if there is place for it: then what is looked at is in memory until it is
    :meth:`let_go`, and arrays of before stay good, with what is written to newer ones. One that never ``grows`` has one descriptor open, others two.
    """

    __slots__ = ("_file", "_from", "_map", "is_in_file")

    def __init__(self, size_bytes: int, *, in_file: int = NEVER, grows: bool = True) -> None:
        self._from, self._file = in_file, None if size_bytes < in_file else _file(size_bytes)
        self.is_in_file = self._file is not None
        """Whether it is."""
        self._map = pages(size_bytes) if self._file is None else mmap.mmap(self._file.fileno(), size_bytes)
        if self._file is not None and not grows:
            self._file.close()

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()  # what is mapped stays

    @property
    def size_bytes(self) -> int:
        """How many."""
        return len(self._map)

    def array(self, kind: Any = np.uint8) -> npt.NDArray[Any]:
        """All of them."""
        return np.frombuffer(self._map, kind)

    def grow(self, size_bytes: int) -> None:
        """Have so many, those that are there at their front."""
        before = self._map
        if self._file is not None:
            try:
                reserve(self._file, len(before), size_bytes)
            except OSError:
                self._from = NEVER
                self._file.close()
                self._file, self.is_in_file = None, False
            else:
                self._map = mmap.mmap(self._file.fileno(), size_bytes)
                return
        elif size_bytes >= self._from:
            self._file = _file(size_bytes)
            if self._file is not None:
                self.is_in_file, self._map = True, mmap.mmap(self._file.fileno(), size_bytes)
                self._map[: len(before)] = before[:]
                return
            self._from = NEVER
        else:
            try:
                self._map.resize(size_bytes)
                return
            except (SystemError, OSError, ValueError, BufferError):
                pass
        self._map = pages(size_bytes)
        self._map[: len(before)] = before[:]

    def let_go(self) -> None:
        """What was looked at is in the file alone, and comes back when it is looked at again."""
        if self.is_in_file and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


def pages(size_bytes: int) -> mmap.mmap:
    """Pages of the system's, for this process alone."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    return mmap.mmap(-1, size_bytes, **private)


def _file(size_bytes: int) -> FileIO | None:
    """One without a name, all of which has its place on the disk. None without room."""
    try:
        file = unnamed_file()
    except OSError:
        return None
    try:
        reserve(file, 0, size_bytes)
    except OSError:
        file.close()
        return None
    return file
