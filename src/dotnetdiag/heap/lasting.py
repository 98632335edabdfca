"""The order in which nodes are reached from the root: what lasts holds an object rather than a variable of a method that will return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.heap import kernels
from dotnetdiag.heap.holders import LOCALS, PINNED_LOCALS, STATICS, THREAD_STATICS
from dotnetdiag.heap.scratch import empty
from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"


def lasting_first(
    starts: Array, edges: Array, root: int, types: Array, names: Sequence[str | None]
) -> tuple[Array, Array]:
    """(the nodes that are reached from the root; the node from which each was reached first, ``kernels.NONE`` of the root and of what is not
    reached): first over statics, handles and the finalizer, nearest first, and statics first of what is as near; then what only stacks reach,
    from the nearest stack.
    A node stands behind all nodes that dominate it. ``types`` are those of nodes, as numbers of ``names``.
    """
    first, last = int(starts[root]), int(starts[root + 1])
    children = edges[first:last]
    stacks, lasting = _by_kind(children, types, names)
    if not len(stacks) and np.array_equal(lasting, children):
        return kernels.breadth_first(starts, edges, root)
    targets = empty(len(edges), edges.dtype)
    targets[:] = edges
    targets[first:last] = root
    targets[first : first + len(lasting)] = lasting
    order, parent = kernels.breadth_first(starts, targets, root)
    if not len(stacks):
        return order, parent
    is_reached = parent != kernels.NONE
    is_reached[root] = True
    targets[first : first + len(lasting)] = root
    targets[first : first + len(stacks)] = stacks
    below, before = kernels.breadth_first(starts, targets, root)
    del targets
    below = below[~is_reached[below]]
    parent[below] = before[below]
    return np.concatenate([order, below]), parent


def _by_kind(children: Array, types: Array, names: Sequence[str | None]) -> tuple[Array, Array]:
    """(what is of stacks, all other children: statics first)."""
    rank = {STATICS: 0, THREAD_STATICS: 1, LOCALS: 3, PINNED_LOCALS: 3}
    by_type = np.array([rank.get(name or "", 2) for name in names], np.int8)
    ranks = by_type[types[children]]
    rest = children[ranks < 3]
    return distinct(children[ranks == 3]), rest[np.argsort(ranks[ranks < 3], kind="stable")]
