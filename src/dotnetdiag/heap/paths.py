"""Why objects are alive: the ways on which they are reached from the roots, those over the same types in one row."""

from __future__ import annotations

import re
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.errors import UnknownName, UsageError, near
from dotnetdiag.events import ListOf, Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.graph import row_count
from dotnetdiag.heap.kernels import NONE, Ways, mark_below, sums
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_STEPS = 64
"""Of a way that is shown: of longer ones the first and the last half."""
BETWEEN = "…"
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}")
_CHUNK = 1 << 20


def find_nodes(graph: Graph, what: str | int) -> Array:
    """The nodes of a type (its name, or a part of it in any case), or the one at an address. UnknownName where there is none, UsageError for
    what is neither.
    """
    address = _address(what)
    if address is not None:
        rows = (
            np.flatnonzero(graph.node_address == np.uint64(address)) if 0 < address < 1 << 64 else np.zeros(0, np.int64)
        )
        if not len(rows):
            raise UnknownName("object", f"{address:#x}", where="in the heap")
        return rows
    assert isinstance(what, str)
    names = [name or "" for name in graph.type_name.to_pylist()]
    kinds = [number for number, name in enumerate(names) if name == what and number]
    if not kinds:
        kinds = [number for number, name in enumerate(names) if what.lower() in name.lower() and number]
    if not kinds or not what:
        raise UnknownName("type", what, near(what, names[1:]), where="in the heap")
    return np.flatnonzero(np.isin(graph.node_type, kinds))


def _address(what: str | int) -> int | None:
    """The number that it is, None of a type; UsageError for what is neither."""
    if isinstance(what, str):
        return int(what, 16) if _ADDRESS.fullmatch(what) else None
    try:
        if not isinstance(what, bool):
            return index(what)  # numpy's numbers too
    except TypeError:
        pass
    raise UsageError(f"{what!r} is neither a type nor an address")


def path_table(graph: Graph, what: str | int, limit: int) -> Table:
    """The shortest way to each of the objects, and one over each other object that refers to it and is not itself reached by way of one of them.
    Shortest ways first, and then those of most objects.
    """
    wanted = find_nodes(graph, what)
    limit = row_count(limit, "ways")
    order, parent = graph.breadth_first
    ways = Ways(order, parent, graph.node_type)
    way, node, is_shortest = _ways(graph, ways, wanted)
    found, which = np.unique(way, return_inverse=True)
    pairs, first = np.unique(which * np.int64(graph.nodes) + node, return_index=True)
    which, node, is_shortest = pairs // graph.nodes, pairs % graph.nodes, is_shortest[first]
    count, size = sums(which, graph.node_size[node], len(found))
    shortest = np.bincount(which, is_shortest, len(found)) > 0
    before, kinds = (found >> 32) - 1, found & 0xFFFFFFFF
    steps = np.where(before >= 0, ways.steps[np.maximum(before, 0)].astype(np.int64) + 1, 0)
    rows = np.lexsort((steps, -count, ~shortest))[:limit]
    names = graph.type_name.to_pylist()
    texts = [_texts(ways, names, int(before[row]), int(kinds[row])) for row in rows.tolist()]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in texts])]).astype(np.int64)
    unreached = int((ways.of_node[wanted] == NONE).sum())
    return Table(
        {
            "count": Scalar(count[rows], None, Kind.I8),
            "bytes": Scalar(size[rows], None, Kind.U8),
            "steps": Scalar(steps[rows], None, Kind.I8),
            "is_shortest": Scalar(shortest[rows], None, Kind.BOOL),
            "path": ListOf(offsets, Text.from_pylist([text for one in texts for text in one])),
        },
        title="ways from the roots",
        units={"bytes": "bytes"},
        notes=(f"{unreached:,} of {len(wanted):,} objects are not reached from any root",) if unreached else (),
    )


def _ways(graph: Graph, ways: Ways, wanted: Array) -> tuple[Array, Array, Array]:
    """(way, object, whether it is the shortest to it); a way is that before the last step, plus 1, in the high half, and the type of the last."""
    order, parent = graph.breadth_first
    is_wanted = np.zeros(graph.nodes, np.uint8)
    is_wanted[wanted] = 1
    through = is_wanted.copy()
    mark_below(order, parent, through)
    sources, targets = _references_to(graph, is_wanted)
    usable = (ways.of_node[sources] != NONE) & (through[sources] == 0) & (parent[targets] != sources)
    over, others = ways.of_node[sources[usable]].astype(np.int64), targets[usable]
    kinds = graph.node_type[others].astype(np.int64)
    over = np.where(ways.type[over] == kinds, ways.before[over], over)
    reached = wanted[ways.of_node[wanted] != NONE]
    own = ways.of_node[reached]
    return (
        np.concatenate([(ways.before[own] + 1) << 32 | ways.type[own].astype(np.int64), (over + 1) << 32 | kinds]),
        np.concatenate([reached, others]),
        np.concatenate([np.ones(len(reached), np.bool_), np.zeros(len(others), np.bool_)]),
    )


def _references_to(graph: Graph, is_wanted: Array) -> tuple[Array, Array]:
    """(from, to) of all references to some nodes."""
    places = [
        np.flatnonzero(is_wanted[graph.edge_target[first : first + _CHUNK]]) + first
        for first in range(0, graph.edges, _CHUNK)
    ]
    rows = np.concatenate([np.zeros(0, np.int64), *places])
    sources = np.searchsorted(graph.edge_start, rows.astype(graph.edge_start.dtype), side="right") - 1
    return sources, graph.edge_target[rows].astype(np.int64)


def _texts(ways: Ways, names: list[str | None], before: int, kind: int) -> list[str]:
    steps = [*(ways.types_of(before, MOST_STEPS) if before >= 0 else []), kind]
    return [BETWEEN if step < 0 else names[step] or "" for step in steps]
