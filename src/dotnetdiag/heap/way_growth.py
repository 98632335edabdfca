"""On which way the objects of a type are held that an earlier heap did not have: the first one may hold more, and be of the same size for ever."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.heap.difference import module_file
from dotnetdiag.heap.kernels import Ways, sums
from dotnetdiag.heap.paths import BETWEEN, MOST_STEPS
from dotnetdiag.trace.distinct import is_among

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_WAYS = 1 << 20
"""Of a heap that are remembered, those of most bytes: 20 MB."""
_BASE = 0x9E3779B97F4A7C15
"""Odd: the key of a way is the sum of the keys of its types, each multiplied by this as often as steps follow, in 64 bits."""


@dataclass(frozen=True, slots=True)
class BytesByWay:
    """``keys`` ascend, one for each way of names of types, and of each the ``files`` of the type at its end: a number for each name of a module's
    file, 0 where no module is told. ``sizes`` are the bytes of the objects there.
    """

    keys: Array
    files: Array
    sizes: Array

    @classmethod
    def of(cls, graph: Graph) -> BytesByWay:
        """What is left to compare when a heap is gone."""
        keys, sizes, ways = _by_way(graph)
        files = _files(graph)[ways.type]
        if len(keys) > MOST_WAYS:
            kept = np.argpartition(sizes, -MOST_WAYS)[-MOST_WAYS:]
            keys, files, sizes = keys[kept], files[kept], sizes[kept]
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], files[order], sizes[order])


class GrownWays:
    """The ways of a heap, compared with those of an earlier one."""

    def __init__(self, before: BytesByWay, after: Graph) -> None:
        self._before = before
        self._keys, self._sizes, self._ways = _by_way(after)
        self._names, self._files = after.type_name.to_pylist(), _files(after)

    def path(self, name: str, module: str | None = None) -> tuple[str, ...] | None:
        """The types from the root on, on which most bytes of a type are held that were not there before; None where are none. Of several types of
        one name those of a ``module`` count, by the name of its file; all of them without one, and where a heap tells no module of one of them.
        """
        file = _number_of(module)
        kinds = [number for number, own in enumerate(self._names) if own == name]
        if file and not all(self._files[kinds]):
            return self.path(name)
        kinds = [number for number in kinds if file in (0, self._files[number])]
        rows = np.flatnonzero(is_among(self._ways.type, np.array(kinds, np.int64)))
        if not len(rows):
            return None
        keys, first, which = np.unique(self._keys[rows], return_index=True, return_inverse=True)
        known = self._before
        at = np.searchsorted(keys, known.keys)
        earlier = np.flatnonzero(keys[np.minimum(at, len(keys) - 1)] == known.keys)
        if file and not known.files[earlier].all():
            return self.path(name)
        if file:
            earlier = earlier[known.files[earlier] == file]
        grown = _sums(which, self._sizes[rows], len(keys)) - _sums(at[earlier], known.sizes[earlier], len(keys))
        most = int(np.argmax(grown))
        if grown[most] <= 0:
            return None
        way = int(rows[first[most]])
        return tuple(BETWEEN if kind < 0 else self._names[kind] or "" for kind in self._ways.types_of(way, MOST_STEPS))


def _sums(which: Array, sizes: Array, count: int) -> Array:
    return sums(which, sizes, count)[1].astype(np.int64)


def _files(graph: Graph) -> Array:
    """Of each type the number of its module's file."""
    return np.array([_number_of(module) for module in graph.type_module.to_pylist()], np.uint32)


def _number_of(module: str | None) -> int:
    file = module_file(module)
    return 0 if file is None else zlib.crc32(file.encode("utf-8", "surrogatepass")) | 1


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
