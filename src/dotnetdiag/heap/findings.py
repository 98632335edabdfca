"""A row of :attr:`heap.Heap.advice`, and what its sentences have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.heap.kernels import NONE

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class Finding:
    """What it is about (``kind``, ``subject``), how many objects and bytes, and the sentence about it."""

    kind: str
    subject: str
    count: int
    bytes: int
    text: str


def share_text(size: int, graph: Graph) -> str:
    """Of the bytes of a heap."""
    return f"{100 * size / max(graph.bytes, 1):.1f} %"


def alive_text(size: int, graph: Graph) -> str:
    """What something keeps alive, in words."""
    return f"{size:,} bytes alive, {share_text(size, graph)} of the heap"


def type_names(graph: Graph) -> list[str]:
    """The name of each type, "" of one that has none."""
    return [name or "" for name in graph.type_name.to_pylist()]


def reached_nodes(graph: Graph) -> Array:
    """Of each node, whether it is alive."""
    reached: Array = graph.dominators >= 0
    reached[graph.root] = True
    return reached


def holders_of(graph: Graph, nodes: Array) -> Array:
    """What each is held by: its dominator, and where that is the root, what it is reached over from there: a static variable first."""
    above = graph.dominators[nodes].astype(np.int64)
    parent = graph.breadth_first[1][nodes]
    known = np.where(parent == NONE, -1, parent.astype(np.int64))
    return np.where(above == graph.root, known, above)
