"""The columns and tables of answers: numbers that may be unknown, texts by number, units by the ends of names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded, Narrow, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Losses, Table
from dotnetdiag.table.losses import NONE as NO_LOSSES
from dotnetdiag.table.sliced import Gathered, Made, SlicedTable

Array: TypeAlias = "np.ndarray[Any, Any]"

_UNITS = {"_ms": "ms", "bytes": "bytes", "percent": "%", "second": "s"}
"""By the end of a column's name."""


DIGITS = 6
"""Of fractions: of milliseconds these are ns, which is what clocks tell. What is behind is noise of sums and differences: 4.641174000000319."""
_ROUNDED = 1e15
"""Fractions below it: more have no such places, and what a damaged file claims may have no room for them."""
_MOST = float((1 << 63) - 1024)
"""What a damaged file claims may be more than a column of whole numbers holds: this is the largest fraction that it does."""


_MANY = 1 << 12
"""Rows from which on a column is kept in few bytes."""
_WHOLE = (np.int8, np.int16, np.int32)


def number(values: Array, known: Array | None = None) -> Scalar:
    """A column of fractions, to :data:`DIGITS` places; None where they are not ``known`` (a mask; without it: where they are NaN or infinite)."""
    is_finite = np.isfinite(values)
    known = is_finite if known is None else known
    values = values.astype(np.float64, copy=False)
    if np.abs(np.where(is_finite, values, 0.0)).max(initial=0.0) < _ROUNDED:
        values = np.round(values, DIGITS)
    return narrowed(values if is_finite.all() else np.nan_to_num(values), mask(known), Kind.F8)


def whole(values: Array, known: Array | None = None) -> Scalar:
    """A column of whole numbers, rounded; None where they are not ``known``, as for :func:`number`."""
    if values.dtype.kind == "f":
        known = ~np.isnan(values) if known is None else known
        values = np.clip(np.round(np.nan_to_num(values)), -_MOST, _MOST)
    return narrowed(values, None if known is None else mask(known), Kind.I8)


def told_number(values: Array) -> Scalar:
    """A column of whole numbers that events tell, none of them below 0: None where an event lacks its own, as in damaged blocks."""
    return whole(values, values >= 0)


def narrowed(values: Array, known: Array | None, kind: Kind) -> Scalar:
    """A column of f64 or, of whole numbers, of i64, which is kept in fewer bytes where it has many rows."""
    dtype = np.dtype(np.float64 if kind is Kind.F8 else np.int64)
    if len(values) < _MANY:
        return Scalar(values.astype(dtype, copy=False), known, kind)
    if known is not None and not known.any():
        known = np.broadcast_to(np.zeros(1, np.bool_), len(values))
    bits = values.view(np.int64) if values.dtype == np.float64 else values  # 0.0 is not -0.0
    if bits.min() == bits.max():
        return Narrow(np.broadcast_to(values[:1].astype(dtype), len(values)), known, kind, dtype)
    if kind is Kind.I8:
        return Narrow(compact(values.astype(dtype) if values.dtype.kind == "f" else values), known, kind, dtype)
    return Scalar(values, known, kind)


def compact(values: Array) -> Array:
    """Whole numbers in as few bytes as they fit; fractions as they are."""
    if values.dtype.kind == "f":
        return values
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for kind in _WHOLE:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind, copy=False)
    return values.astype(np.int64, copy=False)


def texts(names: Sequence[str], which: Array) -> Coded:
    """A column of texts by their numbers; None where the number is negative."""
    known = which >= 0
    return Coded(Text.from_pylist([*names, ""]), which, mask(known))


def mask(known: Array) -> Array | None:
    """As columns have it: None where all are known."""
    return None if known.all() else known


def answer_table(
    title: str, columns: Mapping[str, Column], notes: Sequence[str] = (), losses: Losses | None = None
) -> Table:
    """A table whose columns have the units that their names end with."""
    losses = NO_LOSSES if losses is None else losses
    return Table(dict(columns), title=title, units=_units(columns), notes=notes, losses=losses)


def answer_sliced(
    title: str,
    columns: Sequence[str],
    rows: int,
    made: Made,
    notes: Sequence[str] = (),
    losses: Losses | None = None,
    *,
    gathered: Gathered | None = None,
) -> SlicedTable:
    """The same of so many rows that their columns are ``made``, or ``gathered``, when somebody asks."""
    losses = NO_LOSSES if losses is None else losses
    units = _units(columns)
    return SlicedTable(columns, rows, made, gathered=gathered, title=title, units=units, notes=notes, losses=losses)


def _units(columns: Iterable[str]) -> dict[str, str]:
    return {name: unit for name in columns for end, unit in _UNITS.items() if name.endswith(end) or f"_{name}" == end}
