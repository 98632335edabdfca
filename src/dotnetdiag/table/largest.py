"""The rows of a table that come first by a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dotnetdiag.table.sliced import SlicedTable

if TYPE_CHECKING:
    from dotnetdiag.table.table import Table


def largest(rows: Table, by: str, number: int) -> list[dict[str, Any]]:
    """The ``number`` rows with the largest values of a column, the largest first; those without are none of them. Of a table of a million rows no
    others become Python's values.
    """
    values, valid = rows.numpy(by), rows[by].valid
    if values.dtype.kind not in "iuf":  # a column of no values at all
        values = values.astype(np.float64)
    told = ~np.isnan(values)
    known = np.flatnonzero(told if valid is None else told & valid)
    rising = np.argsort(
        values[known][::-1], kind="stable"
    )  # from the end, so that of equal ones the first stays the first
    order = (len(known) - 1 - rising[::-1])[: max(number, 0)]
    places = known[order].tolist()
    if isinstance(rows, SlicedTable):  # its columns are made of rows that follow each other
        return [rows.row(place) for place in places]
    values_of = [rows[name].take(places).to_pylist() for name in rows.columns]
    return [dict(zip(rows.columns, row, strict=True)) for row in zip(*values_of, strict=True)]
