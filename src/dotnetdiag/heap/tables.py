"""A heap as three tables, for databases and for libraries of data frames: nodes, edges, types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dotnetdiag.events import Scalar
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.kernels import sums
from dotnetdiag.heap.libraries import sources
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.events import Column
    from dotnetdiag.heap.graph import Graph


def node_table(graph: Graph) -> Table:
    """``node``, ``type_id`` (a row of :func:`kind_table`), ``bytes``, ``address``, ``generation`` (0 to 2, 3 large objects, 4 pinned), ``dominator``
    (None of the root, and of what is not reached), ``retained_bytes``.
    """
    told = graph.node_generation >= 0
    above = graph.dominators
    return Table(
        {
            "node": Scalar(np.arange(graph.nodes, dtype=np.uint32), None, Kind.U4),
            "type_id": Scalar(graph.node_type, None, Kind.U4),
            "bytes": Scalar(graph.node_size.astype(np.uint64), None, Kind.U8),
            "address": Scalar(graph.node_address, None, Kind.U8),
            "generation": Scalar(np.ascontiguousarray(graph.node_generation), None if told.all() else told, Kind.I1),
            "dominator": Scalar(above, above >= 0, Kind.I4),
            "retained_bytes": Scalar(graph.retained, None, Kind.U8),
        },
        title="nodes",
        units={"bytes": "bytes", "retained_bytes": "bytes"},
    )


def with_signed_addresses(nodes: Table) -> Table:
    """The rows of :func:`node_table` for databases whose numbers have a sign: the same 64 bits."""
    columns: dict[str, Column] = {name: nodes[name] for name in nodes.columns}
    columns["address"] = Scalar(np.ascontiguousarray(nodes.numpy("address")).view(np.int64), None, Kind.I8)
    return Table(columns, title=nodes.title, units=nodes.units)


def edge_table(graph: Graph) -> Table:
    """``source`` and ``target``, both nodes: a row for each reference, in the order of their sources."""
    return Table(
        {
            "source": Scalar(sources(graph), None, Kind.U4),
            "target": Scalar(graph.edge_target, None, Kind.U4),
        },
        title="edges",
    )


def kind_table(graph: Graph) -> Table:
    """``type_id``, ``type``, ``module``, ``count``, ``bytes``, ``retained_bytes``, by their numbers."""
    count, size = sums(graph.node_type, graph.node_size, len(graph.type_name))
    return Table(
        {
            "type_id": Scalar(np.arange(len(count), dtype=np.uint32), None, Kind.U4),
            "type": graph.type_name,
            "module": graph.type_module,
            "count": Scalar(count, None, Kind.I8),
            "bytes": Scalar(size, None, Kind.U8),
            "retained_bytes": Scalar(graph.retained_by_type, None, Kind.U8),
        },
        title="types",
        units={"bytes": "bytes", "retained_bytes": "bytes"},
    )


def all_tables(graph: Graph) -> tuple[Table, Table, Table]:
    """Nodes, edges, types."""
    return node_table(graph), edge_table(graph), kind_table(graph)
