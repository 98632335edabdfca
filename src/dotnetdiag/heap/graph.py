"""The columns of a heap, and what follows from them alone. :class:`heap.Heap` adds the questions."""

from __future__ import annotations

from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UsageError
from dotnetdiag.heap import kernels
from dotnetdiag.heap.facts import Completeness, HeapFacts
from dotnetdiag.heap.lasting import lasting_first
from dotnetdiag.heap.static_places import Columns, without_places

if TYPE_CHECKING:
    from dotnetdiag.events.columns import Text
    from dotnetdiag.table import Table

Array: TypeAlias = "np.ndarray[Any, Any]"
_COLUMNS = ("node_type", "node_size", "node_address", "node_generation", "edge_start", "edge_target")


def _read_only(array: Array) -> Array:
    """The same numbers, which nobody can write to by way of it."""
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """Nodes and references, as :class:`heap.Heap` says."""

    node_type: Array
    node_size: Array
    node_address: Array
    node_generation: Array
    edge_start: Array
    edge_target: Array
    type_name: Text
    type_module: Text
    root: int
    roots: Table
    facts: HeapFacts
    completeness: Completeness

    def __post_init__(self) -> None:
        for name in _COLUMNS:
            object.__setattr__(self, name, _read_only(getattr(self, name)))

    @property
    def nodes(self) -> int:
        """Objects and pseudo-nodes, and what was referred to and never described."""
        return len(self.node_type)

    @cached_property
    def objects(self) -> int:
        """Objects alone, each of which has an address; COM wrappers are some."""
        return int(np.count_nonzero(is_object(self)))

    @property
    def edges(self) -> int:
        """References, those of pseudo-nodes too."""
        return len(self.edge_target)

    @property
    def has_roots(self) -> bool:
        """Whether it is known what holds objects: of a file whose end is missing it may not be, and then nothing is known of what they keep alive."""
        return self.nodes < 2 or len(self.references(self.root)) > 0

    @property
    def means_unreached(self) -> str:
        """What it means that an object is reached from no root."""
        if not self.has_roots:
            return "what holds objects is missing, and which are alive is not known"
        if not self.completeness.complete:
            return "garbage, or what held them is missing"
        return "garbage, or what the runtime keeps without a root, as literal strings since .NET 8"

    @cached_property
    def bytes(self) -> int:
        """Of all objects together."""
        sizes = self.node_size
        if sizes.dtype.itemsize <= 4:
            return int(sizes.sum(dtype=np.uint64))
        return (int((sizes >> 32).sum()) << 32) + int((sizes & 0xFFFFFFFF).sum())  # without a carry out of 64 bits

    @cached_property
    def _dominated(self) -> tuple[Array, Array]:
        above, kept = kernels.dominators(self.edge_start, self.edge_target, self.root, self.node_size)
        return _read_only(above), _read_only(kept)

    @property
    def dominators(self) -> Array:
        """The immediate dominator of each node: the nearest through which all ways from the root go. i32, -1 of the root and of what is not
        reached from it.
        """
        return self._dominated[0]

    @property
    def retained(self) -> Array:
        """Bytes that would be free without the node: its own and those of all that it dominates. u64; what is not reached has its own."""
        return self._dominated[1]

    @cached_property
    def _dominated_in_tree(self) -> tuple[Array, Array]:
        columns = {name: getattr(self, name) for name in _COLUMNS}
        names = [name or "" for name in self.type_name.to_pylist()]
        parent, pointer_size = self.breadth_first[1], self.facts.pointer_size
        targets = without_places(Columns(**columns, parent=parent, names=names, pointer_size=pointer_size))
        if targets is None:
            return self._dominated
        above, kept = kernels.dominators(self.edge_start, targets, self.root, self.node_size)
        return _read_only(above), _read_only(kept)

    @property
    def tree_dominators(self) -> Array:
        """As :attr:`dominators`, but that a static variable and its place in an array of the runtime's own hold an object once: what nothing else
        holds is dominated by the variable. See :mod:`static_places`.
        """
        return self._dominated_in_tree[0]

    @property
    def tree_retained(self) -> Array:
        """As :attr:`retained`, by :attr:`tree_dominators`: the same of each object, and more of static variables."""
        return self._dominated_in_tree[1]

    @cached_property
    def retained_by_type(self) -> Array:
        """Bytes that objects keep alive each by itself, added up by type: so many at least would be free without those of a type. What is inside of
        another object of the type counts once; what several hold together and none of them alone does not count.
        """
        kept = kernels.retained_by_type(self.dominators, self.node_type, self.retained, len(self.type_name))
        return _read_only(kept)

    @cached_property
    def breadth_first(self) -> tuple[Array, Array]:
        """(the nodes that are reached from the root, nearest first, but those behind all others that only stacks reach; the node from which each
        was reached first, ``kernels.NONE`` of the root and of what is not reached): see :func:`lasting.lasting_first`.
        """
        names = self.type_name.to_pylist()
        order, parent = lasting_first(self.edge_start, self.edge_target, self.root, self.node_type, names)
        return _read_only(order), _read_only(parent)

    def type_of(self, node: int) -> str:
        """The name of a node's type."""
        return self.type_name.item(int(self.node_type[node])) or ""

    def references(self, node: int) -> Array:
        """The nodes that a node refers to."""
        return self.edge_target[int(self.edge_start[node]) : int(self.edge_start[node + 1])]


def is_object(graph: Graph) -> Array:
    """Of each node, whether it is an object: no pseudo-node, and nothing that was only referred to."""
    made: Array = (graph.node_address != 0) & (graph.node_type != 0)
    if not graph.completeness.complete:  # addresses may be what is missing
        names = [name or "" for name in graph.type_name.to_pylist()]
        made |= np.array([number > 0 and not name.startswith("[") for number, name in enumerate(names)])[
            graph.node_type
        ]
    return made


def row_count(value: int, what: str) -> int:
    """How many rows are asked for. UsageError for what is no count."""
    try:
        count = index(value)
    except TypeError:
        count = -1
    if count < 0:
        raise UsageError(f"{value!r} {what}: give a number, 0 or more")
    return count
