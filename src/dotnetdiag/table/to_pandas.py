"""Columns as a pandas data frame. Needs pandas (extra ``pandas``).

Numbers keep their width (the nullable kind where values are missing), texts are objects (those that say what kind an event or a value
is: categories), times are timestamps in ns, dates of payloads in µs; lists and structures are Python objects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dotnetdiag.errors import MissingDependency
from dotnetdiag.events import Bytes, Column, Scalar, Text
from dotnetdiag.events.columns import Coded, Enumerated
from dotnetdiag.events.layout import Kind
from dotnetdiag.table.arrow import AS_TEXT, FILETIME_EPOCH_US, texts, valid_names

if TYPE_CHECKING:
    import pandas


CHUNK_ROWS = 1 << 16
"""Rows that are decoded and become objects together: of many equal objects few are there at once."""


def data_frame(columns: Mapping[str, Column | Objects], own: Collection[str] = ()) -> pandas.DataFrame:
    """The frame of these columns. It takes the arrays of its ``own``, those that nobody else holds; others are copied."""
    try:
        import pandas
    except ImportError as error:
        raise MissingDependency("pandas", extra="pandas", purpose="a data frame") from error
    labels = valid_names(columns)
    made = {
        label: _values(pandas, column, is_own=name in own)
        for label, (name, column) in zip(labels, columns.items(), strict=True)
    }
    return pandas.DataFrame(made, copy=False)  # one block of all would take as much again


class Objects:
    """Python's values of a column that comes piece by piece; equal texts are one object, as long as most of them occur often."""

    def __init__(self, rows: int) -> None:
        self.values = np.full(rows, None, object)
        self._same: dict[Any, Any] | None = {}

    def add(self, at: int, column: Column) -> None:
        """The rows from ``at`` on."""
        if column.valid is not None and not column.valid.any():
            return
        items: list[Any] = column.to_pylist()
        if isinstance(column, Scalar):
            items = [value if value is None else str(value) for value in items]
        if isinstance(column, (Text, Bytes, Scalar)) and self._same is not None:
            items = list(map(self._same.setdefault, items, items))
            if len(self._same) > max(at, CHUNK_ROWS) // 2:
                self._same = None
        boxed = np.empty(len(items), object)  # assigned at once, lists of one length would be a matrix
        boxed[:] = items
        self.values[at : at + len(items)] = boxed


class Gathered:
    """A column that comes piece by piece, as one: numbers as an array of their own, all else as objects."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._scalar: Scalar | None = None
        self._objects: Objects | None = None

    def add(self, at: int, column: Column) -> None:
        """The rows from ``at`` on; all pieces are of one kind."""
        if not isinstance(column, Scalar) or column.kind in AS_TEXT:
            self._objects = self._objects or Objects(self._rows)
            self._objects.add(at, column)
            return
        if self._scalar is None:
            self._scalar = Scalar(np.empty(self._rows, column.values.dtype), None, column.kind)
        rows = slice(at, at + len(column))
        self._scalar.values[rows] = column.values
        if column.valid is not None:
            if self._scalar.valid is None:
                self._scalar.valid = np.ones(self._rows, np.bool_)
            self._scalar.valid[rows] = column.valid

    def column(self) -> Scalar | Objects:
        """All of it."""
        return self._scalar or self._objects or Objects(self._rows)


def _values(pd: Any, column: Column | Objects, *, is_own: bool) -> Any:
    if isinstance(column, Objects):
        return pd.Series(column.values, dtype=object)
    if isinstance(column, Enumerated):
        column = column.coded()
    if isinstance(column, Scalar) and column.kind not in AS_TEXT:
        values = column.values
        if column.kind in (Kind.TIMESTAMP, Kind.DATETIME):
            unit, ticks = ("ns", values) if column.kind == Kind.TIMESTAMP else ("us", values // 10 - FILETIME_EPOCH_US)
            dates = ticks.astype(f"datetime64[{unit}]", copy=not is_own)
            if column.valid is not None:
                dates[~column.valid] = np.datetime64("NaT")
            return pd.DatetimeIndex(dates).tz_localize("UTC")
        if column.valid is None:
            return values if is_own else values.copy()
        if values.dtype.kind == "f":
            return np.where(column.valid, values, np.nan)
        kind = pd.arrays.BooleanArray if values.dtype.kind == "b" else pd.arrays.IntegerArray
        return kind(values.copy(), ~column.valid)
    if isinstance(column, Coded):
        known = texts(column.texts)  # of several types, one may have the name of another
        codes, names = pd.factorize(np.array(known, object))
        which = codes[column.which] if column.valid is None else np.where(column.valid, codes[column.which], -1)
        return pd.Categorical.from_codes(which, names)
    made = Objects(len(column))
    for first in range(0, len(column), CHUNK_ROWS):
        made.add(first, _part(column, first, min(first + CHUNK_ROWS, len(column))))
    return pd.Series(made.values, dtype=object)


def _part(column: Column, first: int, last: int) -> Column:
    if not isinstance(column, (Text, Bytes)) or isinstance(column, Coded):
        return column.take(np.arange(first, last))
    offsets = column.offsets[first : last + 1]
    valid = None if column.valid is None else column.valid[first:last]
    return type(column)(offsets - offsets[0], column.data[offsets[0] : offsets[-1]], valid)
