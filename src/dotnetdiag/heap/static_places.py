"""The places of static variables in the runtime's own arrays, which are the variables: what is told of a variable is there twice.

The runtime keeps what static variables refer to in arrays of its own (.NET Core 3.1 to .NET 10): ``System.Object[]`` of 1,020 places or more,
large or pinned objects, which handles alone refer to, and now and then what a method that runs has left on its stack (9 and 10). The reference of
a variable that it tells of, and that of its place in such an array, are one and the same. Measured of 3.1, 8, 9 and 10: each object that variables
refer to has as many places as variables, no more and no fewer.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.heap.holders import KIND_OF_NAME, STATIC, THREAD_STATICS
from dotnetdiag.heap.kernels import reference_places
from dotnetdiag.heap.scratch import empty
from dotnetdiag.trace.distinct import is_among

Array: TypeAlias = "np.ndarray[Any, Any]"

ARRAY, LEAST_PLACES = "System.Object[]", 1020
"""Of the runtime's arrays; those of thread statics and of a few literals are smaller."""
_GENERATIONS = (3, 4, -1)
"""Large objects, pinned ones, and what is not told."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """What is needed of a :class:`graph.Graph`, under the same names; ``parent`` is by ``breadth_first``."""

    node_type: Array
    node_size: Array
    node_address: Array
    node_generation: Array
    edge_start: Array
    edge_target: Array
    parent: Array
    names: list[str]
    pointer_size: int


def array_places(sizes: Array, pointer_size: int) -> Array:
    """How many places for references arrays of some sizes have: beside them are the type, the length, and the header before."""
    places: Array = sizes.astype(np.int64) // pointer_size - 3
    return places


def without_places(graph: Columns) -> Array | None:
    """``edge_target``, but that the places of static variables refer to their own array, which changes no dominator; None where there are none.

    An object that has more places than variables are told of is held by one that is not told of: its places stay. So does a place over which
    :attr:`graph.Graph.breadth_first` reaches an object: that order serves without those that are taken out.
    """
    variables = _variables(graph)
    arrays = _arrays(graph) if len(variables) else variables
    if not len(arrays):
        return None
    _, at = reference_places(graph.edge_start, variables)
    held, named = np.unique(graph.edge_target[at], return_counts=True)
    owners, at = reference_places(graph.edge_start, arrays)
    objects = graph.edge_target[at]
    kept, places = np.unique(objects, return_counts=True)
    is_told = np.isin(objects, kept[places <= _counts_of(kept, held, named)])
    is_told &= graph.parent[objects] != owners
    if not is_told.any():
        return None
    targets = empty(len(graph.edge_target), graph.edge_target.dtype)
    targets[:] = graph.edge_target
    targets[at[is_told]] = owners[is_told]
    return targets


def _counts_of(wanted: Array, values: Array, counts: Array) -> Array:
    """The counts of wanted values, 0 of those that are not among the values, which ascend."""
    at = np.minimum(np.searchsorted(values, wanted), max(len(values) - 1, 0))
    return np.where(values[at] == wanted, counts[at], 0) if len(values) else np.zeros(len(wanted), np.int64)


def _named(graph: Columns, wanted: set[str]) -> Array:
    """The pseudo-nodes of some names."""
    kinds = [number for number, name in enumerate(graph.names) if name in wanted]
    return (
        np.flatnonzero(np.isin(graph.node_type, kinds) & (graph.node_address == 0)) if kinds else np.zeros(0, np.int64)
    )


def _held(graph: Columns, kind: str) -> tuple[Array, Array]:
    """What roots of a kind refer to, and how many of them."""
    holders = _named(graph, {name for name, its in KIND_OF_NAME.items() if its == kind})
    _, at = reference_places(graph.edge_start, holders)
    return np.unique(graph.edge_target[at].astype(np.int64), return_counts=True)


def _variables(graph: Columns) -> Array:
    """Static variables; those of threads have other places."""
    variables = _named(graph, {name for name in graph.names if name.startswith(STATIC)})
    _, at = reference_places(graph.edge_start, _named(graph, {THREAD_STATICS}))
    return variables[~is_among(variables, np.sort(graph.edge_target[at]))]


def _arrays(graph: Columns) -> Array:
    """The runtime's arrays."""
    nodes, held = _held(graph, "handle")
    held += _counts_of(nodes, *_held(graph, "stack"))
    kinds = [number for number, name in enumerate(graph.names) if name == ARRAY]
    places = array_places(graph.node_size[nodes], graph.pointer_size)
    fits = np.isin(graph.node_type[nodes], kinds) & (places >= LEAST_PLACES)
    fits &= np.isin(graph.node_generation[nodes], _GENERATIONS)
    nodes, held = nodes[fits], held[fits]
    if not len(nodes):
        return nodes
    number = np.zeros(len(graph.node_type), np.uint32)
    number[nodes] = np.arange(1, len(nodes) + 1)
    references = np.zeros(len(nodes) + 1, np.int64)
    for first in range(0, len(graph.edge_target), _CHUNK):
        found = number[graph.edge_target[first : first + _CHUNK]]
        references += np.bincount(found[found > 0], minlength=len(references))
    own: Array = nodes[references[1:] == held]
    return own
