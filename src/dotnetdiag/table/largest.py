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
    values, valid = rows.numpy(by).astype(np.float64), rows[by].valid
    told = ~np.isnan(values)
    known = np.flatnonzero(told if valid is None else told & valid)
    order = np.argsort(-values[known], kind="stable")[:number]
    return [rows.row(place) for place in known[order].tolist()]
