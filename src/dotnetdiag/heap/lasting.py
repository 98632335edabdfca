"""The order in which nodes are reached from the root: what lasts holds an object rather than a variable of a method that will return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.heap import kernels
from dotnetdiag.heap.pseudo_nodes import LOCALS, PINNED_LOCALS, STATICS, THREAD_STATICS
from dotnetdiag.heap.scratch import empty

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"


def lasting_first(graph: Graph) -> tuple[Array, Array]:
    """(the nodes that are reached from the root; the node from which each was reached first, ``kernels.NONE`` of the root and of what is not
    reached): first over statics, handles and the finalizer, nearest first, and statics first of what is as near; then what only stacks reach.
    A node stands behind all nodes that dominate it.
    """
    starts, root = graph.edge_start, graph.root
    first, last = int(starts[root]), int(starts[root + 1])
    children = graph.edge_target[first:last]
    stacks, lasting = _by_kind(graph, children)
    if not len(stacks) and np.array_equal(lasting, children):
        return kernels.breadth_first(starts, graph.edge_target, root)
    targets = empty(graph.edges, graph.edge_target.dtype)
    targets[:] = graph.edge_target
    targets[first:last] = root
    targets[first : first + len(lasting)] = lasting
    order, parent = kernels.breadth_first(starts, targets, root)
    del targets
    is_reached = parent != kernels.NONE
    is_reached[root] = True
    orders = [order]
    for stack in stacks.tolist():
        if is_reached[stack]:
            continue
        below, before = kernels.breadth_first(starts, graph.edge_target, stack)
        below = below[~is_reached[below]]
        parent[below] = before[below]
        parent[stack] = root
        is_reached[below] = True
        orders.append(below)
    return np.concatenate(orders), parent


def _by_kind(graph: Graph, children: Array) -> tuple[Array, Array]:
    """(what is of stacks, all other children: statics first)."""
    names = graph.type_name.to_pylist()
    rank = {STATICS: 0, THREAD_STATICS: 1, LOCALS: 3, PINNED_LOCALS: 3}
    by_type = np.array([rank.get(name or "", 2) for name in names], np.int8)
    ranks = by_type[graph.node_type[children]]
    ranks[graph.node_address[children] != 0] = 2
    rest = children[ranks < 3]
    return np.unique(children[ranks == 3]), rest[np.argsort(ranks[ranks < 3], kind="stable")]
