"""A heap as GraphML, for Gephi, yEd, networkx and igraph: nodes with type, module, bytes, address and generation, and directed edges. The graph
of a heap that is not complete has ``problems``, a line for each.
"""

from __future__ import annotations

from typing import IO
from xml.sax.saxutils import escape

import numpy as np

from dotnetdiag.export.texts import clean
from dotnetdiag.heap.heap import Heap

_CHUNK = 1 << 14
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="t" for="node" attr.name="type" attr.type="string"/>
<key id="m" for="node" attr.name="module" attr.type="string"/>
<key id="b" for="node" attr.name="bytes" attr.type="long"/>
<key id="a" for="node" attr.name="address" attr.type="string"/>
<key id="g" for="node" attr.name="generation" attr.type="int"/>
<key id="p" for="graph" attr.name="problems" attr.type="string"/>
<graph id="heap" edgedefault="directed">
"""
_NODE = (
    '<node id="n%d"><data key="t">%s</data><data key="m">%s</data><data key="b">%d</data>'
    '<data key="a">0x%x</data><data key="g">%d</data></node>\n'
)
_EDGE = '<edge source="n%d" target="n%d"/>\n'


def write(heap: Heap, file: IO[bytes]) -> None:
    """Write the graph."""
    file.write(_HEAD.encode())
    if not heap.completeness.complete:
        (problems,) = _texts(["\n".join(heap.completeness.problems)])
        file.write(f'<data key="p">{problems}</data>\n'.encode())
    names, modules = (_texts(column.to_pylist()) for column in (heap.type_name, heap.type_module))
    for first in range(0, heap.nodes, _CHUNK):
        last = min(first + _CHUNK, heap.nodes)
        kinds = heap.node_type[first:last]
        cells = np.empty((last - first, 6), object)
        cells[:, 0] = np.arange(first, last)
        cells[:, 1], cells[:, 2] = names[kinds], modules[kinds]
        columns = (heap.node_size, heap.node_address, heap.node_generation)
        for place, column in enumerate(columns):
            cells[:, 3 + place] = column[first:last].tolist()
        file.write((_NODE * (last - first) % tuple(cells.ravel().tolist())).encode("utf-8"))
    from dotnetdiag.heap.libraries import sources

    over = sources(heap)
    for first in range(0, heap.edges, _CHUNK):
        pairs = np.stack([over[first : first + _CHUNK], heap.edge_target[first : first + _CHUNK]], axis=1)
        file.write((_EDGE * len(pairs) % tuple(pairs.ravel().tolist())).encode("ascii"))
    file.write(b"</graph>\n</graphml>\n")


def _texts(values: list[str | None]) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """Each as XML has it: without the characters that it cannot hold."""
    made = np.empty(len(values), object)
    made[:] = ["".join(one if _is_xml(one) else "\ufffd" for one in escape(clean(value or ""))) for value in values]
    return made


def _is_xml(character: str) -> bool:
    code = ord(character)
    return code in (9, 10, 13) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
