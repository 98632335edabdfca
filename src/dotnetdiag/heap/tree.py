"""Who keeps what alive: the tree of dominators, what has the same type under the same one in one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.events import Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.graph import is_object, row_count
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
        order, _ = graph.breadth_first  # what is dominated is farther from the root
        above, retained = graph.tree_dominators, graph.tree_retained
        ways = Ways(order, above, graph.node_type, most_steps=depth)
        rows = np.flatnonzero(ways.of_node != NONE)
        of = ways.of_node[rows]
        count, size = sums(of, graph.node_size[rows], len(ways))
        enters = np.ones(len(rows), np.bool_)
        inside = np.flatnonzero(above[rows] >= 0)
        enters[inside] = ways.of_node[above[rows[inside]]] != of[inside]
        _, kept = sums(of[enters], retained[rows[enters]], len(ways))
        return cls(ways, count, size, kept)


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
    less = "nothing" if least == 1 else f"less than {least:,} bytes"
    notes = [f"rows that keep {less} alive are left out"] if least > 0 else []
    reached = len(graph.breadth_first[0])
    if reached < graph.nodes:
        left = graph.bytes - int(graph.tree_retained[graph.root])
        unknown = "" if graph.has_roots and graph.completeness.complete else f": {graph.means_unreached}"
        lost = graph.nodes - reached
        objects = "1 object of" if lost == 1 else f"{lost:,} objects of"
        is_not = "is" if lost == 1 else "are"
        notes.append(f"{objects} {left:,} bytes {is_not} not reached from any root{unknown}")
    return tuple(notes)


def largest_table(graph: Graph, limit: int) -> Table:
    """The objects that keep most alive, and what holds each in the tree; what holds roots is none."""
    there = np.flatnonzero(is_object(graph))
    retained = graph.tree_retained[there]
    count = min(row_count(limit, "objects"), len(there))
    rows = np.argpartition(retained, len(there) - count)[len(there) - count :] if count else np.zeros(0, np.int64)
    rows = there[rows[np.lexsort((rows, ~retained[rows]))]]
    above = graph.tree_dominators[rows]
    holders = graph.type_name.take(graph.node_type[np.maximum(above, 0)])
    return Table(
        {
            "node": Scalar(rows.astype(np.uint32), None, Kind.U4),
            "address": Scalar(graph.node_address[rows], None, Kind.U8),
            "type": graph.type_name.take(graph.node_type[rows]),
            "module": graph.type_module.take(graph.node_type[rows]),
            "bytes": Scalar(graph.node_size[rows].astype(np.uint64), None, Kind.U8),
            "retained_bytes": Scalar(graph.tree_retained[rows], None, Kind.U8),
            "held_by": Text(holders.offsets, holders.data, None if (above >= 0).all() else above >= 0),
        },
        title="objects",
        units={"bytes": "bytes", "retained_bytes": "bytes"},
    )
