"""A column that grows row by row of blocks, and is never there twice.

``realloc`` moves the pages of a large array and copies nothing (on Linux), so growing costs only what is written: a list of pieces that are
joined at the end would be twice as large at that moment.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

_LEAST_ROWS, _MOST_SPARE_ROWS = 1 << 12, 1 << 18
"""Spare rows are written to (they are zeroed), and so cost memory: no more of them than these."""
_FEW_ROWS = 1 << 16
_ROOM_BYTES = 33 << 20
"""Of a column that is not small. The system gives memory when it is written to; and an array above 32 MB is one of its own to the allocator,
beside no other, so that it can grow where it is, and leaves no holes when it has moved.
"""
_WIDER = {np.dtype(np.uint32): np.dtype(np.uint64)}


class Growing:
    """Numbers of one type. A column of u32 becomes one of u64 when a value comes that needs it. Nobody else may hold its array while it grows."""

    def __init__(self, kind: Any) -> None:
        self._array: Array = np.empty(0, kind)
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def extend(self, values: Array) -> None:
        """Append them."""
        if not len(values):
            return
        kind = self._array.dtype
        if kind in _WIDER and values.dtype.itemsize > kind.itemsize and int(values.max()) > np.iinfo(kind).max:
            self._array = self._array.astype(_WIDER[kind])
        rows = self._rows + len(values)
        if rows > len(self._array) and rows >= _FEW_ROWS and self._array.nbytes < _ROOM_BYTES:
            self._array, before = (
                np.empty(max(rows, _ROOM_BYTES // self._array.itemsize), self._array.dtype),
                self._array,
            )
            self._array[: self._rows] = before[: self._rows]
        elif rows > len(self._array):
            self._array.resize(rows + max(_LEAST_ROWS, min(rows, _MOST_SPARE_ROWS) // 2), refcheck=False)
        self._array[self._rows : rows] = values
        self._rows = rows

    def append(self, value: int) -> None:
        """One more row."""
        self.extend(np.array([value], np.uint64 if value >= 0 else np.int64))

    @property
    def rows(self) -> Array:
        """What was appended: a view, to be let go before the next is appended."""
        return self._array[: self._rows]

    def taken(self) -> Array:
        """The column, which is empty from here on."""
        array, self._array = self._array, np.empty(0, self._array.dtype)
        array.resize(self._rows, refcheck=False)
        self._rows = 0
        return array

    def cut(self, rows: int) -> None:
        """Forget what is behind so many rows."""
        self._rows = min(rows, self._rows)
