"""Memory that grows in its place."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt


class Room:
    """Bytes that are zero until something is written there. Where the system can (Linux), more of them are had without copying those that are there,
    which for a moment takes both; not while somebody has an array of them.
    """

    __slots__ = ("_map",)

    def __init__(self, size_bytes: int) -> None:
        self._map = pages(size_bytes)

    def array(self, kind: Any = np.uint8) -> npt.NDArray[Any]:
        """All of them."""
        return np.frombuffer(self._map, kind)

    def grow(self, size_bytes: int) -> None:
        """Have so many, those that are there at their front."""
        try:
            self._map.resize(size_bytes)
        except (SystemError, OSError, ValueError, BufferError):
            made = pages(size_bytes)
            made[: len(self._map)] = self._map[:]
            self._map = made


def pages(size_bytes: int) -> mmap.mmap:
    """Pages of the system's, for this process alone."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    return mmap.mmap(-1, size_bytes, **private)
