"""Rows below rows: of each, the row that it belongs to, -1 for none."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


_MOST = (1 << 31) - 1
_SLICE = 1 << 16
"""Rows that are looked at at once."""


def levels(parent: Array, deepest: int) -> tuple[Array, Array]:
    """Parents, and how deep each row is: 1 for one without. What is deeper than ``deepest`` is cut off there, and its depth begins anew; so is what
    is in the end below itself.
    """
    order = np.flatnonzero(parent >= 0).astype(np.int32 if len(parent) <= _MOST else np.int64)
    order = order[np.argsort(parent[order], kind="stable")]
    above, begins = parent[order], np.empty(len(parent) + 1, order.dtype)
    for first in range(0, len(begins), _SLICE):
        some = begins[first : first + _SLICE]
        some[:] = np.searchsorted(above, np.arange(first, first + len(some)))
    del above
    depth = np.zeros(len(parent), np.int16 if deepest < 1 << 15 else np.int32)
    rows, level, cuts = np.flatnonzero(parent < 0), 0, [np.zeros(0, order.dtype)]
    while len(rows):
        level += 1
        if level > deepest:
            level = 1
            cuts.append(rows)
        depth[rows] = level
        lengths = begins[rows + 1] - begins[rows]
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows = order[np.repeat(begins[rows], lengths) + within]
    cut = depth == 0
    depth[cut] = 1
    for rows in cuts:
        cut[rows] = True
    return np.where(cut, -1, parent), depth


def summed_by_parent(parent: Array, values: Array) -> Array:
    """Of each row the sum of those right below it."""
    made = np.zeros(len(parent))
    for first in range(0, len(parent), _SLICE):
        own, some = parent[first : first + _SLICE], values[first : first + _SLICE]
        has = own >= 0
        np.add.at(made, own[has], some[has])
    return made
