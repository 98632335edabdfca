"""A column that grows row by row of blocks, and is never there twice.

Pages that nobody has written to cost nothing, and where the system can move those of a mapping (Linux), a longer one costs no copy: a list of
pieces that are joined at the end would be twice as large at that moment, and a column that the C library moves leaves holes.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.heap.pages import have_ready
from dotnetdiag.heap.scratch import Mapping

Array: TypeAlias = "np.ndarray[Any, Any]"

_LEAST_BYTES = 1 << 16
_WIDER = {np.dtype(np.uint32): np.dtype(np.uint64)}


class Growing:
    """Numbers of one type. A column of u32 becomes one of u64 when a value comes that needs it. Nobody else may hold its rows while it grows
    (BufferError, where the system moves it).
    """

    def __init__(self, kind: Any) -> None:
        self._array: Array = np.empty(0, kind)
        self._mapping: Mapping | None = None
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def extend(self, values: Array) -> None:
        """Append them."""
        if not len(values):
            return
        kind = self._array.dtype
        if kind in _WIDER and values.dtype.itemsize > kind.itemsize and int(values.max()) > np.iinfo(kind).max:
            self._widen(_WIDER[kind])
        self.room(len(values))[:] = values
        self.grow(len(values))

    def append(self, value: int) -> None:
        """One more row."""
        self.extend(np.array([value], np.uint64))

    def add(self, places: Array, value: int) -> None:
        """Add to some rows, each once."""
        found = self.rows[places].astype(np.uint64) + np.uint64(value)
        if self._array.dtype in _WIDER and len(found) and int(found.max()) > np.iinfo(self._array.dtype).max:
            self._widen(_WIDER[self._array.dtype])
        self.rows[places] = found

    @property
    def kind(self) -> np.dtype[Any]:
        """What its numbers are."""
        kind: np.dtype[Any] = self._array.dtype
        return kind

    def room(self, rows: int) -> Array:
        """Place for so many more, to be written to and then told of by :meth:`grow`: a view, to be let go before the next is appended."""
        rows += self._rows
        if rows > len(self._array):
            self._reserve(2 * rows)
        return self._array[self._rows : rows]

    def reserve(self, rows: int) -> None:
        """Place for so many in all, which takes no memory before it is written to."""
        if rows > len(self._array):
            self._reserve(rows)

    def have_ready(self, first: int, last: int) -> bool:
        """Have memory at hand for rows that are not there yet, from one to before another; False where the system cannot."""
        self.reserve(last)
        size = self._array.itemsize
        return self._mapping is not None and have_ready(self._mapping.map, first * size, last * size)

    def grow(self, rows: int) -> None:
        """So many of :meth:`room` are written."""
        self._rows = min(self._rows + rows, len(self._array))

    @property
    def rows(self) -> Array:
        """What was appended: a view, to be let go before the next is appended."""
        return self._array[: self._rows]

    def taken(self) -> Array:
        """The column, which is empty from here on."""
        self.shrink()
        array, self._array, self._mapping = self._array, np.empty(0, self._array.dtype), None
        rows, self._rows = self._rows, 0
        return array[:rows]

    def cut(self, rows: int) -> None:
        """Forget what is behind so many rows."""
        self._rows = min(rows, self._rows)

    def shrink(self) -> None:
        """Give back the memory behind the last row."""
        self._reserve(self._rows)

    def _widen(self, kind: np.dtype[Any]) -> None:
        wide = self.rows.astype(kind)
        self._array, self._mapping, self._rows = np.empty(0, kind), None, 0
        self.extend(wide)

    def _reserve(self, rows: int) -> None:
        if sys.platform != "linux":
            self._array.resize(rows, refcheck=False)
            return
        kind = self._array.dtype
        size = max(rows * kind.itemsize, _LEAST_BYTES)
        self._array = np.empty(0, kind)  # a mapping that is looked at is not moved
        if self._mapping is None:
            self._mapping = Mapping(size)
        else:
            self._mapping.resize(size)
        self._array = np.frombuffer(self._mapping.map, kind, size // kind.itemsize)
