"""The keys of dependent handles: what such a handle refers to is alive as long as its key is. The runtime tells of them, a ``.gcdump`` does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.events import Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.heap.holders import DEPENDENT, KIND_OF_NAME

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

_CHUNK = 1 << 20
MOST_TYPES = 3
"""Of the keys of a way that are named."""


class DependentKeys:
    """The objects of dependent handles and the types of their keys."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def put_into(self, path: list[str], nodes: Callable[[], Array]) -> None:
        """Behind the handles in a path: the types of their keys. ``nodes`` gives the objects that the handles refer to."""
        if DEPENDENT not in path[:-1] or not len(self._pairs[0]):
            return
        objects, keys = self._pairs
        kinds = Counter(keys[np.isin(objects, nodes())].tolist())
        names = [name for kind, _ in kinds.most_common() if (name := self._graph.type_name.item(kind))]
        if names:
            more = ", …" if len(names) > MOST_TYPES else ""
            path.insert(path.index(DEPENDENT) + 1, f"[key {', '.join(names[:MOST_TYPES])}{more}]")

    @cached_property
    def _pairs(self) -> tuple[Array, Array]:
        """(the object of each handle, the type of its key), of those whose key is an object that is there."""
        nothing = np.zeros(0, np.int64), np.zeros(0, np.int64)
        kinds, nodes, ids = (self._graph.roots.get(name) for name in ("kind", "node", "root_id"))
        if not (isinstance(kinds, Coded) and isinstance(nodes, Scalar) and isinstance(ids, Scalar)):
            return nothing
        own = [number for number, name in enumerate(kinds.texts.to_pylist()) if name == KIND_OF_NAME[DEPENDENT]]
        rows = np.flatnonzero(np.isin(kinds.which, own) & (ids.values != 0))
        if not len(rows):
            return nothing
        distinct, which = np.unique(ids.values[rows], return_inverse=True)
        types = np.full(len(distinct), -1, np.int64)
        addresses = self._graph.node_address
        for first in range(0, len(addresses), _CHUNK):
            part = addresses[first : first + _CHUNK]
            at = np.minimum(np.searchsorted(distinct, part), len(distinct) - 1)
            is_key = distinct[at] == part
            types[at[is_key]] = self._graph.node_type[first : first + _CHUNK][is_key]
        known = types[which] >= 0
        return nodes.values[rows][known].astype(np.int64), types[which][known]
