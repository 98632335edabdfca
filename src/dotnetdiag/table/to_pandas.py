"""Columns as a pandas data frame. Needs pandas (extra ``pandas``).

Numbers keep their width (the nullable kind where values are missing), texts are objects (those that say what kind an event or a value
is: categories), times are timestamps in ns, dates of payloads in µs; lists and structures are Python objects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dotnetdiag.errors import MissingDependency
from dotnetdiag.events import Column, Scalar, Text
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.table.arrow import AS_TEXT, FILETIME_EPOCH_US

if TYPE_CHECKING:
    import pandas


def data_frame(columns: Mapping[str, Column], own: Collection[str] = ()) -> pandas.DataFrame:
    """The frame of these columns. It takes the arrays of its ``own``, those that nobody else holds; others are copied."""
    try:
        import pandas
    except ImportError as error:
        raise MissingDependency("pandas", extra="pandas", purpose="a data frame") from error
    made = {name: _values(pandas, column, is_own=name in own) for name, column in columns.items()}
    return pandas.DataFrame(made, copy=False)  # one block of all would take as much again


def _values(pd: Any, column: Column, *, is_own: bool) -> Any:
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
        known = column.texts.to_pylist()  # of several types, one may have the name of another
        codes, names = pd.factorize(np.array(known, object))
        which = codes[column.which] if column.valid is None else np.where(column.valid, codes[column.which], -1)
        return pd.Categorical.from_codes(which, names)
    made = np.full(len(column), None, object)
    if column.valid is not None and not column.valid.any():
        return pd.Series(made, dtype=object)
    items: list[Any] = column.to_pylist()
    if isinstance(column, Text):
        same: dict[str | None, str | None] = {}
        made[:] = list(map(same.setdefault, items, items))  # equal texts as one object: most occur often
    else:
        made[:] = [str(value) if isinstance(column, Scalar) and value is not None else value for value in items]
    return pd.Series(made, dtype=object)
