"""Values of one field for many events, as arrays.

==========  ==============================================================================================
column      arrays
Scalar      ``values`` (one number per row; 16 bytes per row for GUID and decimal), ``valid``
Enumerated  the same, of numbers that have names: its values as Python has them are the names
Text        ``offsets`` (i64, rows + 1) into ``data`` (UTF-8; a lone surrogate stays as its three bytes), ``valid``
Bytes       ``offsets`` (i64, rows + 1) into ``data``, ``valid``
ListOf      ``offsets`` (i64, rows + 1) into the rows of ``child``, ``valid``
Maps        the same, of texts by texts; ``maps`` and ``which`` say of each row which of few different ones it has
Struct      ``fields`` (name → column, each of as many rows), ``valid``
==========  ==============================================================================================

``valid`` is None when every row has a value, else one bool per row. ``len()``, ``item(row)`` (a Python value or None),
``to_pylist()``, ``take(rows)`` (numbers or a mask), iteration, ``column[0]`` and ``column[:3]`` work on all of them, ``numpy()`` gives
an array; :func:`concat` joins columns of one kind. What compares columns is numpy, or a filter. ``number_columns`` and ``text_columns``
have those of one value per row, which are found here, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.events.number_columns import (
    Mask,
    Narrow,
    NoOperator,
    Rows,
    Scalar,
    datetime_text,
    picked,
    rows_of,
    with_nulls,
)
from dotnetdiag.events.text_columns import Bytes, Coded, Enumerated, EnumValue, Names, Spans, Text

__all__ = [
    "Bytes",
    "Coded",
    "Column",
    "EnumValue",
    "Enumerated",
    "ListOf",
    "Maps",
    "Mask",
    "Names",
    "Narrow",
    "NoOperator",
    "Scalar",
    "Spans",
    "Struct",
    "Text",
    "concat",
    "datetime_text",
    "json_value",
    "nulls",
    "numbers_of",
]

Array: TypeAlias = "np.ndarray[Any, Any]"


class ListOf(Rows):
    """A list per row: ``child[offsets[row]:offsets[row + 1]]``."""

    __slots__ = ("child", "offsets", "valid")

    def __init__(self, offsets: Array, child: Column, valid: Mask | None = None) -> None:
        self.offsets, self.child, self.valid = offsets, child, valid

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.offsets.nbytes + self.child.nbytes

    def item(self, row: int) -> list[Any] | None:
        """The list of one row."""
        if self.valid is not None and not self.valid[row]:
            return None
        row = range(len(self))[row]
        return self.child.take(np.arange(self.offsets[row], self.offsets[row + 1])).to_pylist()

    def to_pylist(self) -> list[list[Any] | None]:
        """All lists."""
        values, bounds = self.child.to_pylist(), self.offsets.tolist()
        return with_nulls([values[start:end] for start, end in pairwise(bounds)], self.valid)

    def take(self, rows: Array | Sequence[int]) -> ListOf:
        """The column of some rows."""
        rows = rows_of(rows)
        starts = self.offsets[:-1][rows]
        lengths = self.offsets[1:][rows] - starts
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        inner = np.arange(offsets[-1], dtype=np.int64) + np.repeat(starts - offsets[:-1], lengths)
        return ListOf(offsets, self.child.take(inner), picked(self.valid, rows))


class Maps(ListOf):
    """Texts by name in each row, other names in each: ``which`` says which of ``maps`` a row has. As a list it is of structures of ``key``
    and ``value``, written out when it is asked for.
    """

    __slots__ = ("_written", "maps", "which")

    def __init__(self, maps: Sequence[Mapping[str, str]], which: Array, valid: Mask | None = None) -> None:
        self.maps, self.which, self.valid = tuple(maps), which, valid
        self._written: ListOf | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.maps, self.which, self.valid)

    def _list(self) -> ListOf:
        if self._written is None:
            bounds = np.zeros(len(self.maps) + 1, np.int64)
            np.cumsum([len(one) for one in self.maps], out=bounds[1:])
            pairs = {
                "key": Text.from_pylist([key for one in self.maps for key in one]),
                "value": Text.from_pylist([value for one in self.maps for value in one.values()]),
            }
            self._written = ListOf(bounds, Struct(pairs, int(bounds[-1]))).take(self.which)
        return self._written

    @property
    def offsets(self) -> Array:  # type: ignore[override]
        """Row → first pair, i64, one more than rows."""
        return self._list().offsets

    @property
    def child(self) -> Column:  # type: ignore[override]
        """The pairs of all rows."""
        return self._list().child

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the maps."""
        return int(self.which.nbytes)

    def __len__(self) -> int:
        return len(self.which)

    def item(self, row: int) -> dict[str, str] | None:  # type: ignore[override]
        """The texts of one row by name."""
        if self.valid is not None and not self.valid[row]:
            return None
        return dict(self.maps[int(self.which[row])])

    def to_pylist(self) -> list[dict[str, str] | None]:  # type: ignore[override]
        """All rows; equal ones are one object."""
        known = [dict(one) for one in self.maps]
        return with_nulls([known[number] for number in self.which.tolist()], self.valid)

    def take(self, rows: Array | Sequence[int]) -> Maps:
        """The column of some rows."""
        rows = rows_of(rows)
        return Maps(self.maps, self.which[rows], picked(self.valid, rows))


class Struct(Rows):
    """Named columns of as many rows; ``count`` says how many where there is no column."""

    __slots__ = ("count", "fields", "valid")

    def __init__(self, fields: Mapping[str, Column], count: int, valid: Mask | None = None) -> None:
        self.fields, self.count, self.valid = dict(fields), count, valid

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(column.nbytes for column in self.fields.values())

    def item(self, row: int) -> dict[str, Any] | None:
        """The fields of one row."""
        if self.valid is not None and not self.valid[row]:
            return None
        row = range(len(self))[row]
        return {name: column.item(row) for name, column in self.fields.items()}

    def to_pylist(self) -> list[dict[str, Any] | None]:
        """All rows."""
        names = list(self.fields)
        if not names:
            return with_nulls([{} for _ in range(self.count)], self.valid)
        columns = [column.to_pylist() for column in self.fields.values()]
        return with_nulls([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)], self.valid)

    def take(self, rows: Array | Sequence[int]) -> Struct:
        """The column of some rows."""
        rows = rows_of(rows)
        fields = {name: column.take(rows) for name, column in self.fields.items()}
        return Struct(fields, len(rows), picked(self.valid, rows))


Column: TypeAlias = Scalar | Text | Bytes | ListOf | Struct


def nulls(like: Column, count: int) -> Column:
    """A column of ``count`` rows without a value, of the kind of ``like``."""
    valid = np.zeros(count, np.bool_)
    offsets = np.zeros(count + 1, np.int64)
    if isinstance(like, Scalar):
        return Scalar(np.zeros(count, like.values.dtype), valid, like.kind)
    if isinstance(like, ListOf):
        return ListOf(offsets, like.child.take(np.zeros(0, np.int64)), valid)
    if isinstance(like, Struct):
        return Struct({name: nulls(column, count) for name, column in like.fields.items()}, count, valid)
    return (Text if isinstance(like, Text) else Bytes)(offsets, np.zeros(0, np.uint8), valid)


def concat(columns: Sequence[Column]) -> Column:
    """The rows of all columns, one after another. :class:`UsageError` when their kinds differ."""
    first = columns[0]
    if len(columns) == 1:
        return first
    if len({next((one for one in (Text, Scalar) if isinstance(column, one)), type(column)) for column in columns}) > 1:
        raise UsageError("columns of different kinds cannot be joined")
    valid: Mask | None = None
    if any(column.valid is not None for column in columns):
        valid = np.concatenate(
            [column.valid if column.valid is not None else np.ones(len(column), np.bool_) for column in columns]
        )
    if isinstance(first, Scalar):
        return Scalar(np.concatenate([column.values for column in columns]), valid, first.kind)  # type: ignore[union-attr]
    if isinstance(first, Struct):
        fields = {name: concat([column.fields[name] for column in columns]) for name in first.fields}  # type: ignore[union-attr]
        return Struct(fields, sum(len(column) for column in columns), valid)
    bounds = [column.offsets for column in columns]  # type: ignore[union-attr]
    bases = np.cumsum([0] + [int(bound[-1] - bound[0]) for bound in bounds])
    parts = [bound[1:] - bound[0] + base for bound, base in zip(bounds, bases, strict=False)]
    offsets = np.concatenate([np.zeros(1, np.int64), *parts])
    if isinstance(first, ListOf):
        return ListOf(offsets, concat([column.child for column in columns]), valid)  # type: ignore[union-attr]
    data = np.concatenate([column.data[bound[0] : bound[-1]] for column, bound in zip(columns, bounds, strict=True)])  # type: ignore[union-attr]
    return (Text if isinstance(first, Text) else Bytes)(offsets, data, valid)


def numbers_of(column: Column) -> Column:
    """The column with numbers, where they have names."""
    return column.numbers if isinstance(column, Enumerated) else column


def json_value(value: Any) -> Any:
    """The value in the forms of JSON: bytes as ``hex:…``, GUIDs as text, NaN and infinities by name."""
    if isinstance(value, bytes):
        return "hex:" + value.hex()
    if isinstance(value, float) and value * 0 != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {name: json_value(item) for name, item in value.items()}
    return value if value is None or isinstance(value, str | int | float) else str(value)
