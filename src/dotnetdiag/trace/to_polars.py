"""Columns as a polars data frame. Needs polars (extra ``polars``).

Types as in ``to_arrow``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dotnetdiag.errors import MissingDependency
from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Struct, Text
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.trace.to_arrow import AS_TEXT, FILETIME_EPOCH_US, TIME, texts, valid_names

if TYPE_CHECKING:
    import polars


def polars_frame(columns: Mapping[str, Column]) -> polars.DataFrame:
    """The frame of these columns."""
    try:
        import polars
    except ImportError as error:
        raise MissingDependency("polars", extra="polars", purpose="a polars data frame") from error
    named = zip(valid_names(columns), columns.items(), strict=True)
    return polars.DataFrame([_series(polars, name, column, is_time=key == TIME) for name, (key, column) in named])


def _series(pl: Any, name: str, column: Column, *, is_time: bool) -> Any:
    if isinstance(column, Scalar) and column.kind not in AS_TEXT:
        values = column.values
        if column.kind == Kind.DATETIME:
            values = values // 10 - FILETIME_EPOCH_US
        made = pl.Series(name, values)
        if is_time or column.kind == Kind.DATETIME:
            made = made.cast(pl.Datetime("ns" if is_time else "us", "UTC"))
        if column.valid is not None:
            made = pl.select(pl.when(pl.Series(column.valid)).then(made).alias(name)).to_series()
        return made
    if isinstance(column, Coded) and column.valid is None:
        return pl.Series(name, texts(column.texts), dtype=pl.String).gather(column.which)
    if column.valid is not None and not column.valid.any():
        return pl.Series(name, [None], dtype=_type(pl, column)).new_from_index(0, len(column))
    return pl.Series(name, _values(column), dtype=_type(pl, column), strict=False)


def _values(column: Column) -> list[Any]:
    """What polars takes for the rows of a column of :func:`_type`."""
    if isinstance(column, Text) or (isinstance(column, Scalar) and _is_text(column)):
        return texts(column)
    if isinstance(column, ListOf):
        inner = _values(column.child)
        made: list[Any] = [inner[first:last] for first, last in pairwise(column.offsets.tolist())]
    elif isinstance(column, Struct):
        names, members = valid_names(column.fields), [_values(member) for member in column.fields.values()]
        rows = zip(*members, strict=True) if members else [()] * len(column)
        made = [dict(zip(names, row, strict=True)) for row in rows]
    else:
        return list(column.to_pylist())
    if column.valid is None:
        return made
    return [value if valid else None for value, valid in zip(made, column.valid.tolist(), strict=True)]


def _is_text(column: Scalar) -> bool:
    return column.kind in AS_TEXT or column.kind == Kind.DATETIME


def _type(pl: Any, column: Column) -> Any:
    """The polars type; members of lists and structures that are dates or ids are texts."""
    if isinstance(column, Text):
        return pl.String
    if isinstance(column, Bytes):
        return pl.Binary
    if isinstance(column, ListOf):
        return pl.List(_type(pl, column.child))
    if isinstance(column, Struct):
        inner = zip(valid_names(column.fields), column.fields.values(), strict=True)
        return pl.Struct({name: _type(pl, member) for name, member in inner})
    if _is_text(column):
        return pl.String
    return pl.Series(column.values[:0]).dtype
