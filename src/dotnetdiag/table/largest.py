"""The rows of a table that come first by a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dotnetdiag.table.parts import parts, rows_at

if TYPE_CHECKING:
    import numpy.typing as npt

    from dotnetdiag.events import Column
    from dotnetdiag.table.table import Table


def largest(rows: Table, by: str, number: int, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The ``number`` rows with the largest values of a column, the largest first; those without are none of them. They have the columns of these
    ``names``, or all. Of a table of a million rows no
    others become Python's values, and no more of the column is in memory than some rows.
    """
    places, values, first = np.zeros(0, np.int64), np.zeros(0), 0
    for part in parts(rows, [by]):
        known, given = _known(part[by])
        places = np.append(places, first + known)
        values = np.append(values, given) if len(values) else given
        best = np.sort(_first(values, number))  # in the order of the table still
        places, values, first = places[best], values[best], first + len(part[by])
    found = rows_at(rows, places[_first(values, number)], names)
    columns = {name: column.to_pylist() for name, column in found.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _known(column: Column) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Where a column has a value, and these."""
    values = column.numpy()
    if values.dtype.kind not in "iuf":  # a column of no values at all
        values = values.astype(np.float64)
    told = ~np.isnan(values)
    known = np.flatnonzero(told if column.valid is None else told & column.valid)
    return known, values[known]


def _first(values: npt.NDArray[Any], number: int) -> npt.NDArray[np.int64]:
    """The places of the largest values, of equal ones that which comes first."""
    rising = np.argsort(values[::-1], kind="stable")  # from the end, so that of equal ones the first stays the first
    found: npt.NDArray[np.int64] = (len(values) - 1 - rising[::-1])[: max(number, 0)]
    return found
