"""On which way the objects of a type are held that an earlier heap did not have: the first one may hold more, and be of the same size for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.heap.kernels import Ways, sums
from dotnetdiag.heap.paths import BETWEEN, MOST_STEPS

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_WAYS = 1 << 20
"""Of a heap that are remembered, those of most bytes: 16 MB."""
_BASE = 0x9E3779B97F4A7C15
"""Odd: the key of a way is the sum of the keys of its types, each multiplied by this as often as steps follow, in 64 bits."""


@dataclass(frozen=True, slots=True)
class BytesByWay:
    """``keys`` ascend, one for each way of names of types; ``sizes`` are the bytes of the objects at its end."""

    keys: Array
    sizes: Array

    @classmethod
    def of(cls, graph: Graph) -> BytesByWay:
        """What is left to compare when a heap is gone."""
        keys, sizes, _ = _by_way(graph)
        distinct, which = np.unique(keys, return_inverse=True)  # types of one name in several modules
        _, totals = sums(which, sizes, len(distinct))
        if len(distinct) > MOST_WAYS:
            kept = np.sort(np.argpartition(totals, -MOST_WAYS)[-MOST_WAYS:])
            distinct, totals = distinct[kept], totals[kept]
        return cls(distinct, totals)


class GrownWays:
    """The ways of a heap, compared with those of an earlier one."""

    def __init__(self, before: BytesByWay, after: Graph) -> None:
        keys, sizes, self._ways = _by_way(after)
        at = np.minimum(np.searchsorted(before.keys, keys), max(len(before.keys) - 1, 0))
        known = before.keys[at] == keys if len(before.keys) else np.zeros(len(keys), np.bool_)
        earlier = np.where(known, before.sizes[at] if len(before.keys) else 0, 0)
        self._grown: Array = sizes.astype(np.int64) - earlier.astype(np.int64)
        self._names = after.type_name.to_pylist()

    def path(self, name: str) -> tuple[str, ...] | None:
        """The types from the root on, on which most bytes of a type are held that were not there before; None where none are."""
        kinds = [number for number, own in enumerate(self._names) if own == name]
        ways = np.flatnonzero(np.isin(self._ways.type, kinds))
        if not len(ways):
            return None
        way = int(ways[np.argmax(self._grown[ways])])
        if self._grown[way] <= 0:
            return None
        return tuple(BETWEEN if kind < 0 else self._names[kind] or "" for kind in self._ways.types_of(way, MOST_STEPS))


def _by_way(graph: Graph) -> tuple[Array, Array, Ways]:
    """(the key of each way, the bytes at its end, the ways)."""
    order, parent = graph.breadth_first
    ways = Ways(order, parent, graph.node_type)
    rows = np.minimum(ways.of_node, len(ways)).astype(np.uint32)  # what is not reached is behind all ways
    _, sizes = sums(rows, graph.node_size, len(ways) + 1)
    names = graph.type_name.to_pylist()
    types = np.array([hash(name) & 0xFFFFFFFFFFFFFFFF for name in names], np.uint64)
    return _keys(ways, types), sizes[:-1], ways


def _keys(ways: Ways, types: Array) -> Array:
    """Each round has twice as many steps of each way in its key: as many rounds as the number of the longest way's steps has bits."""
    keys = np.append(types[ways.type], np.uint64(0))
    over = np.append(np.where(ways.before < 0, len(ways), ways.before), len(ways))
    factor = _BASE
    while (over < len(ways)).any():
        keys = keys + np.uint64(factor) * keys[over]
        over = over[over]
        factor = factor * factor & 0xFFFFFFFFFFFFFFFF
    return keys[:-1]
