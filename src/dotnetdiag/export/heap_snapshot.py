"""A heap as a ``.heapsnapshot``, which Chrome DevTools open (Memory, Load profile).

Written as V8 writes its own: numbers of nodes and edges in one array each, seven for a node and three for an edge, names as places in
``strings``. The first node is the root. Objects are of the kind ``object``, whose name DevTools take for their class; pseudo-nodes are
``synthetic``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any, TypeAlias

import numpy as np

from dotnetdiag.export.texts import clean
from dotnetdiag.heap.heap import Heap

Array: TypeAlias = "np.ndarray[Any, Any]"

_CHUNK = 1 << 16
_OBJECT, _SYNTHETIC = 3, 9
_ELEMENT = 1
_META: dict[str, Any] = {
    "node_fields": ["type", "name", "id", "self_size", "edge_count", "trace_node_id", "detachedness"],
    "node_types": [
        [
            "hidden", "array", "string", "object", "code", "closure", "regexp", "number", "native", "synthetic",
            "concatenated string", "sliced string", "symbol", "bigint", "object shape",
        ],
        "string", "number", "number", "number", "number", "number",
    ],
    "edge_fields": ["type", "name_or_index", "to_node"],
    "edge_types": [
        ["context", "element", "property", "internal", "hidden", "shortcut", "weak"], "string_or_number", "node",
    ],
    "trace_function_info_fields": ["function_id", "name", "script_name", "script_id", "line", "column"],
    "trace_node_fields": ["id", "function_info_index", "count", "size", "children"],
    "sample_fields": ["timestamp_us", "last_assigned_id"],
    "location_fields": ["object_index", "script_id", "line", "column"],
}  # fmt: skip
_NODE_FIELDS = len(_META["node_fields"])


def write(heap: Heap, file: IO[bytes]) -> None:
    """Write the snapshot."""
    head = {"meta": _META, "node_count": heap.nodes, "edge_count": heap.edges, "trace_function_count": 0}
    file.write(b'{"snapshot":' + json.dumps(head, separators=(",", ":")).encode() + b',\n"nodes":[')
    _write_numbers(file, _nodes(heap))
    file.write(b'],\n"edges":[')
    _write_numbers(file, _edges(heap))
    file.write(b'],\n"trace_function_infos":[],\n"trace_tree":[],\n"samples":[],\n"locations":[],\n"strings":[')
    names = [json.dumps(clean(name or "")) for name in heap.type_name.to_pylist()]
    file.write(",\n".join(names).encode("ascii"))
    file.write(b"]}\n")


def _write_numbers(file: IO[bytes], pieces: Iterator[Array]) -> None:
    comma = b""
    for piece in pieces:
        if len(piece):
            file.write(comma + ",".join(map(str, piece.ravel().tolist())).encode("ascii"))
            comma = b",\n"


def _order(heap: Heap) -> Iterator[Array]:
    """The nodes, the root first, and the one in whose place it stands where it was."""
    for first in range(0, heap.nodes, _CHUNK):
        nodes = np.arange(first, min(first + _CHUNK, heap.nodes))
        yield _exchanged(nodes, heap.root)


def _exchanged(nodes: Array, root: int) -> Array:
    """The root and the first node take each other's places."""
    return np.where(nodes == 0, root, np.where(nodes == root, 0, nodes))


def _nodes(heap: Heap) -> Iterator[Array]:
    for nodes in _order(heap):
        rows = np.zeros((len(nodes), _NODE_FIELDS), np.uint64)
        is_pseudo = (heap.node_address[nodes] == 0) & (heap.node_size[nodes] == 0)
        rows[:, 0] = np.where(is_pseudo, _SYNTHETIC, _OBJECT)
        rows[:, 1] = heap.node_type[nodes]
        rows[:, 2] = 2 * nodes + 1
        rows[:, 3] = heap.node_size[nodes]
        rows[:, 4] = heap.edge_start[nodes + 1].astype(np.int64) - heap.edge_start[nodes].astype(np.int64)
        yield rows


def _edges(heap: Heap) -> Iterator[Array]:
    for nodes in _order(heap):
        starts = heap.edge_start[nodes].astype(np.int64)
        counts = heap.edge_start[nodes + 1].astype(np.int64) - starts
        before = np.cumsum(counts) - counts
        index = np.arange(int(counts.sum())) - np.repeat(before, counts)
        rows = np.empty((len(index), 3), np.int64)
        rows[:, 0] = _ELEMENT
        rows[:, 1] = index
        targets = heap.edge_target[np.repeat(starts, counts) + index].astype(np.int64)
        rows[:, 2] = _exchanged(targets, heap.root) * _NODE_FIELDS
        yield rows
