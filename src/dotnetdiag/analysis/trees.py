"""Rows below rows: of each, the row that it belongs to, -1 for none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace import kernels
from dotnetdiag.trace.scratch import MappedArrays

Array: TypeAlias = "np.ndarray[Any, Any]"


def levels(parent: Array, deepest: int) -> tuple[Array, Array]:
    """Parents (i32), and how deep each row is: 1 for one without. What is deeper than ``deepest`` is cut off there, and its depth begins anew; so is
    what is in the end below itself.
    """
    made = MappedArrays(len(parent), each=4)
    parent, depth = parent.astype(np.int32), made.zeros(np.int32)
    cut_levels(parent, depth, deepest, made)
    return parent, depth


def cut_levels(parent: Array, depth: Array, deepest: int, of: MappedArrays) -> bool:
    """The same of arrays (i32) that lie there, in place, depths where there is 0; whether anything was deeper than ``deepest``."""
    is_deeper = False
    for some in of.slices():
        kernels.levels(parent, depth, some, deepest)
    for some in of.slices():
        own = depth[some]
        again = (own == 1) & (parent[some] >= 0)
        is_deeper = is_deeper or bool(again.any())
        parent[some][again | (own < 0)] = -1
        own[own < 0] = 1
    return is_deeper


def sum_by_parent(
    parent: Array, values: Callable[[slice[int, int, None]], Array], made: Array, of: MappedArrays
) -> None:
    """Add to each row the values of those right below it."""
    for some in of.slices():
        own = parent[some]
        has = own >= 0
        np.add.at(made, own[has], values(some)[has])
