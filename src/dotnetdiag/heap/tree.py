"""Who keeps what alive: the tree of dominators, what has the same type under the same one in one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.events import Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.graph import row_count
from dotnetdiag.heap.holders import STATIC
from dotnetdiag.heap.kernels import NONE, Ways, sums
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

MINIMUM_SHARE = 0.001
_DEEPEST = 1 << 31
"""There are not so many objects."""


@dataclass(frozen=True, slots=True)
class Branches:
    """The ways of types in the tree of dominators, to a depth: of each how many objects end there, their bytes, and what they keep alive."""

    ways: Ways
    count: Array
    bytes: Array
    retained: Array

    @classmethod
    def of(cls, graph: Graph, depth: int) -> Branches:
        """Those of a heap."""
        order, above, retained = _named(graph)
        ways = Ways(order, above, graph.node_type, most_steps=depth)
        rows = np.flatnonzero(ways.of_node != NONE)
        of = ways.of_node[rows]
        count, size = sums(of, graph.node_size[rows], len(ways))
        enters = np.ones(len(rows), np.bool_)
        inside = np.flatnonzero(above[rows] >= 0)
        enters[inside] = ways.of_node[above[rows[inside]]] != of[inside]
        _, kept = sums(of[enters], retained[rows[enters]], len(ways))
        return cls(ways, count, size, kept)


def _named(graph: Graph) -> tuple[Array, Array, Array]:
    """(nodes, each behind the one above it; the node above each; what each keeps alive): the tree of dominators, but that what a static variable
    refers to and nothing but the root dominates hangs under the variable. The runtime keeps statics in arrays of its own too, so that none of
    their names would be left.

    What is dominated is farther from the root, so that the order of nearness serves here too.
    """
    order, _ = graph.breadth_first
    above, retained = graph.dominators, graph.retained
    holders, held = _statics(graph)
    loose = above[held] == graph.root
    held, first = np.unique(held[loose], return_index=True)
    if not len(held):
        return order, above, retained
    holders = holders[loose][first]
    size = retained[held]
    above, retained = above.copy(), retained.copy()
    above[held] = holders
    node = holders
    while (node != graph.root).any():  # a variable, and what it is under
        inside = node != graph.root
        np.add.at(retained, node[inside], size[inside])
        node = np.where(inside, graph.dominators[node], graph.root)
    first_nodes = np.concatenate([[graph.root], _above_statics(graph, holders), np.unique(holders)]).astype(np.uint32)
    is_first = np.zeros(graph.nodes, np.bool_)
    is_first[first_nodes] = True
    return np.concatenate([first_nodes, order[~is_first[order]]]), above, retained


def _statics(graph: Graph) -> tuple[Array, Array]:
    """(static variable, what it refers to), as far as all variables are dominated by two nodes that are pseudo-nodes themselves."""
    kinds = [number for number, name in enumerate(graph.type_name.to_pylist()) if (name or "").startswith(STATIC)]
    nodes = (
        np.flatnonzero(np.isin(graph.node_type, kinds) & (graph.node_address == 0)) if kinds else np.zeros(0, np.int64)
    )
    over = graph.dominators[nodes]
    nodes = nodes[(over >= 0) & (graph.dominators[np.maximum(over, 0)] == graph.root)]
    counts = graph.edge_start[nodes + 1].astype(np.int64) - graph.edge_start[nodes].astype(np.int64)
    targets = [graph.references(node) for node in nodes.tolist()]
    return np.repeat(nodes, counts), np.concatenate([np.zeros(0, np.int64), *targets]).astype(np.int64)


def _above_statics(graph: Graph, holders: Array) -> Array:
    return np.unique(graph.dominators[holders])


def tree_table(graph: Graph, depth: int, minimum: int | None) -> Table:
    """Rows in the order in which a tree is printed: each behind the one above it, the largest first."""
    depth = min(row_count(depth, "levels"), _DEEPEST)
    if minimum is not None:
        minimum = row_count(minimum, "bytes")
    found = Branches.of(graph, depth)
    least = int(graph.bytes * MINIMUM_SHARE) if minimum is None else minimum
    below: dict[int, list[int]] = {}
    shown = np.flatnonzero(found.retained >= least)
    for way in shown[np.argsort(~found.retained[shown], kind="stable")].tolist():
        below.setdefault(int(found.ways.before[way]), []).append(way)
    ways: list[int] = []
    parents: list[int] = []
    waiting = [(way, -1) for way in reversed(below.get(-1, []))]
    while waiting:
        way, parent = waiting.pop()
        row = len(ways)
        ways.append(way)
        parents.append(parent)
        waiting += [(child, row) for child in reversed(below.get(way, []))]
    rows, above = np.array(ways, np.int64), np.array(parents, np.int64)
    kinds = found.ways.type[rows]
    return Table(
        {
            "level": Scalar(found.ways.steps[rows].astype(np.int64), None, Kind.I8),
            "parent": Scalar(above, above >= 0, Kind.I8),
            "type": graph.type_name.take(kinds),
            "module": graph.type_module.take(kinds),
            "count": Scalar(found.count[rows], None, Kind.I8),
            "bytes": Scalar(found.bytes[rows], None, Kind.U8),
            "retained_bytes": Scalar(found.retained[rows], None, Kind.U8),
        },
        title="dominators",
        units={"bytes": "bytes", "retained_bytes": "bytes"},
        notes=_notes(graph, least),
    )


def _notes(graph: Graph, least: int) -> tuple[str, ...]:
    notes = [f"rows that keep less than {least:,} bytes alive are left out"] if least > 0 else []
    reached = len(graph.breadth_first[0])
    if reached < graph.nodes:
        left = graph.bytes - int(graph.retained[graph.root])
        unknown = "" if graph.has_roots and graph.completeness.complete else f": {graph.means_unreached}"
        notes.append(f"{graph.nodes - reached:,} objects of {left:,} bytes are not reached from any root{unknown}")
    return tuple(notes)


def largest_table(graph: Graph, limit: int) -> Table:
    """The objects that keep most alive."""
    retained = graph.retained
    count = min(row_count(limit, "objects"), len(retained))
    rows = np.argpartition(retained, len(retained) - count)[len(retained) - count :] if count else np.zeros(0, np.int64)
    rows = rows[np.lexsort((rows, ~retained[rows]))]
    above = graph.dominators[rows]
    holders = graph.type_name.take(graph.node_type[np.maximum(above, 0)])
    return Table(
        {
            "node": Scalar(rows.astype(np.uint32), None, Kind.U4),
            "address": Scalar(graph.node_address[rows], None, Kind.U8),
            "type": graph.type_name.take(graph.node_type[rows]),
            "module": graph.type_module.take(graph.node_type[rows]),
            "bytes": Scalar(graph.node_size[rows].astype(np.uint64), None, Kind.U8),
            "retained_bytes": Scalar(retained[rows], None, Kind.U8),
            "held_by": Text(holders.offsets, holders.data, None if (above >= 0).all() else above >= 0),
        },
        title="objects",
        units={"bytes": "bytes", "retained_bytes": "bytes"},
    )
