"""Different texts of columns, numbered: bytes are looked up by compiled code, and nothing is made of a row."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events.columns import Text
from dotnetdiag.nettrace import StackTable
from dotnetdiag.nettrace.room import NEVER

Array: TypeAlias = "np.ndarray[Any, Any]"


class TextIds:
    """Numbers from 0 on, in the order in which texts come. No text is as an empty one. From ``in_file`` bytes on they lie in a file: for those that
    come once, and are seldom looked at.
    """

    def __init__(self, *, in_file: int = NEVER) -> None:
        self._table = StackTable(in_file=in_file)  # which has whatever bytes it is given

    def __len__(self) -> int:
        return len(self._table) - 1

    @property
    def size_bytes(self) -> int:
        """Of all texts."""
        return self._table.size_bytes

    def of(self, column: Text) -> Array:
        """The number of each row's text."""
        starts = column.offsets[:-1].astype(np.int64, copy=False)
        data = np.ascontiguousarray(column.data).data if len(column.data) else memoryview(bytes(1))
        return self._table.intern_many(data, starts, np.diff(column.offsets)).astype(np.int64) - 1

    def text(self, number: int) -> str:
        """One of them; empty for a number that none has."""
        return self._table.raw(number + 1).decode("utf-8", "surrogatepass")

    def raw(self, kind: Any) -> Array:
        """All, where they are bytes of one size: an array of that dtype, which is only to be read, and only until more come."""
        return np.frombuffer(self._table.pieces(1)[1], kind)

    def let_go(self) -> None:
        """What was looked at goes from memory, where it lies in a file."""
        self._table.let_go()

    def texts(self, first: int = 0) -> list[str]:
        """Those from a number on."""
        offsets, pool = self._table.pieces(first + 1)
        raw, bounds = pool.tobytes(), (offsets - offsets[0]).tolist()
        if raw.isascii():  # one decode, then slices
            text = raw.decode("ascii")
            return [text[begin:end] for begin, end in pairwise(bounds)]
        return [raw[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairwise(bounds)]
