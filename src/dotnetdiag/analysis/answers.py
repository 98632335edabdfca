"""The columns and tables of answers: numbers that may be unknown, texts by number, units by the ends of names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Losses, Table
from dotnetdiag.table.losses import NONE as NO_LOSSES
from dotnetdiag.table.sliced import Made, SlicedTable

Array: TypeAlias = "np.ndarray[Any, Any]"

_UNITS = {"_ms": "ms", "bytes": "bytes", "percent": "%", "second": "s"}
"""By the end of a column's name."""


_MOST = float((1 << 63) - 1024)
"""What a damaged file claims may be more than a column of whole numbers holds: this is the largest fraction that it does."""


def number(values: Array, known: Array | None = None) -> Scalar:
    """A column of fractions; None where they are not ``known`` (a mask; without it: where they are NaN or infinite)."""
    known = np.isfinite(values) if known is None else known
    return Scalar(np.nan_to_num(values.astype(np.float64, copy=False)), mask(known), Kind.F8)


def whole(values: Array, known: Array | None = None) -> Scalar:
    """A column of whole numbers, rounded; None where they are not ``known``, as for :func:`number`."""
    if values.dtype.kind == "f":
        known = ~np.isnan(values) if known is None else known
        values = np.clip(np.round(np.nan_to_num(values)), -_MOST, _MOST)
    return Scalar(values.astype(np.int64), None if known is None else mask(known), Kind.I8)


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
    title: str, columns: Sequence[str], rows: int, made: Made, notes: Sequence[str] = (), losses: Losses | None = None
) -> SlicedTable:
    """The same of so many rows that their columns are ``made`` when somebody asks."""
    losses = NO_LOSSES if losses is None else losses
    return SlicedTable(columns, rows, made, title=title, units=_units(columns), notes=notes, losses=losses)


def _units(columns: Iterable[str]) -> dict[str, str]:
    return {name: unit for name in columns for end, unit in _UNITS.items() if name.endswith(end)}
