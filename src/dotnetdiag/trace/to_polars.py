"""Columns as a polars data frame. Needs polars (extra ``polars``).

Types as in ``to_arrow``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dotnetdiag.errors import MissingDependency
from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Struct, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.trace.to_arrow import AS_TEXT, FILETIME_EPOCH_US, TIME

if TYPE_CHECKING:
    import polars


def polars_frame(columns: Mapping[str, Column]) -> polars.DataFrame:
    """The frame of these columns."""
    try:
        import polars
    except ImportError as error:
        raise MissingDependency("polars", extra="polars", purpose="a polars data frame") from error
    return polars.DataFrame([_series(polars, name, column) for name, column in columns.items()])


def _series(pl: Any, name: str, column: Column) -> Any:
    if isinstance(column, Scalar) and column.kind not in AS_TEXT:
        values = column.values
        if column.kind == Kind.DATETIME:
            values = values // 10 - FILETIME_EPOCH_US
        made = pl.Series(name, values)
        if name == TIME or column.kind == Kind.DATETIME:
            made = made.cast(pl.Datetime("ns" if name == TIME else "us", "UTC"))
        if column.valid is not None:
            made = pl.select(pl.when(pl.Series(column.valid)).then(made).alias(name)).to_series()
        return made
    return pl.Series(name, _plain(column), dtype=_type(pl, column), strict=False)


def _plain(column: Column) -> list[Any]:
    if isinstance(column, Scalar):
        return [None if value is None else str(value) for value in column.to_pylist()]
    if isinstance(column, Text):
        return [None if text is None else text.encode("utf-8", "replace").decode() for text in column.to_pylist()]
    return list(column.to_pylist())


def _type(pl: Any, column: Column) -> Any:
    """The polars type; members of lists and structures that are dates or ids are texts."""
    if isinstance(column, Text):
        return pl.String
    if isinstance(column, Bytes):
        return pl.Binary
    if isinstance(column, ListOf):
        return pl.List(_type(pl, column.child))
    if isinstance(column, Struct):
        return pl.Struct({name: _type(pl, inner) for name, inner in column.fields.items()})
    if column.kind in AS_TEXT or column.kind == Kind.DATETIME:
        return pl.String
    return pl.Series(column.values[:0]).dtype
