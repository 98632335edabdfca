"""How many objects there are of each type, of each module, namespace and generation, and how many bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.events import Scalar
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

_CHUNK = 1 << 20


def sums(which: Array, sizes: Array, count: int) -> tuple[Array, Array]:
    """(how many, u64 bytes) of each of ``count`` groups; ``which`` is the group of each node. Exact, and in bounded memory beside it."""
    number, size = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    for first in range(0, len(which), _CHUNK):
        groups, values = which[first : first + _CHUNK], sizes[first : first + _CHUNK]
        number += np.bincount(groups, minlength=count)
        if values.dtype.itemsize <= 4:  # sums of so few 32-bit numbers are exact in a double
            size += np.bincount(groups, values, minlength=count).astype(np.uint64)
        else:
            np.add.at(size, groups, values)
    return number, size


def type_table(graph: Graph) -> Table:
    """A row for each type that nodes have, but for those of which nothing is known."""
    count, size = sums(graph.node_type, graph.node_size, len(graph.type_name))
    rows = np.flatnonzero(count[1:]) + 1
    rows = rows[np.lexsort((-count[rows], ~size[rows]))]
    return Table(
        {
            "type": graph.type_name.take(rows),
            "module": graph.type_module.take(rows),
            "count": Scalar(count[rows], None, Kind.I8),
            "bytes": Scalar(size[rows], None, Kind.U8),
            "retained_bytes": Scalar(graph.retained_by_type[rows], None, Kind.U8),
        },
        title="types",
        units={"bytes": "bytes", "retained_bytes": "bytes"},
    )
