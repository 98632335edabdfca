"""How many objects there are of each type, of each module, namespace and generation, and how many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.events import Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.generations import NAMES
from dotnetdiag.heap.graph import is_object
from dotnetdiag.heap.holders import is_pseudo_node
from dotnetdiag.heap.kernels import retained_by_type, sums
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"


def type_table(graph: Graph) -> Table:
    """A row for each type that nodes have, but for those of which nothing is known, not how large they are either."""
    count, size = sums(graph.node_type, graph.node_size, len(graph.type_name))
    count[0] = count[0] if size[0] else 0
    rows = np.flatnonzero(count)
    rows = rows[np.lexsort((-count[rows], ~size[rows]))]
    return Table(
        {
            "type": graph.type_name.take(rows),
            "module": graph.type_module.take(rows),
            "count": Scalar(count[rows], None, Kind.I8),
            "bytes": Scalar(size[rows], None, Kind.U8),
            "retained_bytes": _retained(graph, graph.retained_by_type[rows]),
        },
        title="types",
        units={"bytes": "bytes", "retained_bytes": "bytes"},
    )


def _retained(graph: Graph, values: Array) -> Scalar:
    """None of a graph of which it is not known what holds objects."""
    return Scalar(values, None if graph.has_roots else np.zeros(len(values), np.bool_), Kind.U8)


def by_retained(types: Table) -> Table:
    """The rows of :func:`type_table` in another order, without those of pseudo-nodes."""
    order = np.argsort(~types.numpy("retained_bytes"), kind="stable")
    is_pseudo = np.array([is_pseudo_node(name) for name in types.values("type")], np.bool_) & (
        types.numpy("bytes") == 0
    )
    rows = order[~is_pseudo[order]]
    columns = {name: types[name].take(rows) for name in types.columns}
    return Table(columns, title=types.title, units=types.units)


def module_table(graph: Graph) -> Table:
    """A row for each module; None is what has none, such as pseudo-nodes."""
    return _grouped(graph, [name or "" for name in graph.type_module.to_pylist()], "module", "modules")


def namespace_of(name: str) -> str:
    """``System.Collections.Generic`` of ``System.Collections.Generic.List<System.String>[]``; the runtime tells none of a type inside of another."""
    return "" if name.startswith("[") else name.partition("<")[0].rpartition(".")[0]


def namespace_table(graph: Graph) -> Table:
    """A row for each namespace, one for types of which none is told, and none for pseudo-nodes."""
    names = [None if is_pseudo_node(name) else namespace_of(name or "") for name in graph.type_name.to_pylist()]
    return _grouped(graph, names, "namespace", "namespaces")


def _grouped(graph: Graph, names: Sequence[str | None], column: str, title: str) -> Table:
    """A row for each name; None is of types that are in no row."""
    numbers: dict[str | None, int] = {}
    groups = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.uint32)
    which = groups[graph.node_type]
    count, size = sums(which, graph.node_size, len(numbers))
    retained = retained_by_type(graph.dominators, which, graph.retained, len(numbers))
    if None in numbers:
        count[numbers[None]] = 0
    rows = np.flatnonzero(count)
    rows = rows[np.lexsort((-count[rows], ~size[rows]))]
    texts = [name or None for name in numbers]
    return Table(
        {
            column: Text.from_pylist([texts[row] for row in rows.tolist()]),
            "count": Scalar(count[rows], None, Kind.I8),
            "bytes": Scalar(size[rows], None, Kind.U8),
            "retained_bytes": _retained(graph, retained[rows]),
        },
        title=title,
        units={"bytes": "bytes", "retained_bytes": "bytes"},
    )


def generation_table(graph: Graph) -> Table:
    """A row for each generation that objects are in, the youngest first: all of :attr:`Graph.objects`. Pseudo-nodes are in none."""
    there = np.flatnonzero(is_object(graph))
    count, size = sums(graph.node_generation[there].astype(np.int64) + 1, graph.node_size[there], 6)
    rows = [row for row in (1, 2, 3, 4, 5, 0) if count[row]]
    return Table(
        {
            "generation": [NAMES[row - 1] for row in rows],
            "count": Scalar(count[rows], None, Kind.I8),
            "bytes": Scalar(size[rows], None, Kind.U8),
        },
        title="generations",
        units={"bytes": "bytes"},
    )
