"""The rows of a table that come first by a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
    return [rows.row(place) for place in known[order].tolist()]
