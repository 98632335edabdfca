"""Why objects are alive: the ways on which they are reached from the roots, those over the same types in one row.

Other ways are sought at every step: to the objects themselves, and to what those of each shown way are reached over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UnknownName, UsageError, near
from dotnetdiag.events import ListOf, Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.dependent_keys import DependentKeys
from dotnetdiag.heap.graph import row_count
from dotnetdiag.heap.holders import DEPENDENT
from dotnetdiag.heap.kernels import NONE, Ways, mark_below, sums
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import is_among

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_STEPS = 64
"""Of a way that is shown: of longer ones the first and the last half."""
BETWEEN = "…"
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}")
_CHUNK = 1 << 20
MOST_NAMES = 5
"""Types that are told where a part of a name meant them."""
_MOST_REFERENCES, _MOST_WAYS, _MOST_CLIMB = 1 << 16, 64, 256
"""Of other ways to what objects are reached over: how many references are looked at, how many ways, and how far from the root they may be."""


def find_nodes(graph: Graph, what: str | int) -> Array:
    """The nodes of a type, or the one at an address; :func:`meant_types` says which types are meant. A type whose whole name reads as an address
    is meant before that. UnknownName where there is none, UsageError for what is neither.
    """
    return _find(graph, what)[0]


def _find(graph: Graph, what: str | int) -> tuple[Array, tuple[str, ...]]:
    """(nodes, what is to be told of how they were found)."""
    address = _address(what)
    names = [name or "" for name in graph.type_name.to_pylist()] if isinstance(what, str) else []
    if address is not None and what not in names[1:]:
        rows = _at_address(graph, address)
        if not len(rows):
            raise UnknownName("object", f"{address:#x}", where="in the heap")
        return rows, ()
    assert isinstance(what, str)
    kinds = meant_types(names, what)
    if not kinds:
        raise UnknownName("type", what, near(what, names[1:]), where="in the heap")
    rows = _of_types(graph, kinds)
    if address is not None:
        hidden = f"{what} is the name of a type here; {_other_form(what)} is the object at that address"
        return rows, (hidden,) if len(_at_address(graph, address)) else ()
    there = np.unique(graph.node_type[rows]).tolist()
    matched = list(dict.fromkeys(names[kind] for kind in there if names[kind] != what))
    more = f" and {len(matched) - MOST_NAMES:,} more" if len(matched) > MOST_NAMES else ""
    return rows, (f"matched: {', '.join(matched[:MOST_NAMES])}{more}",) if matched else ()


def _at_address(graph: Graph, address: int) -> Array:
    return np.flatnonzero(graph.node_address == np.uint64(address)) if 0 < address < 1 << 64 else np.zeros(0, np.int64)


def _of_types(graph: Graph, kinds: Sequence[int]) -> Array:
    return np.flatnonzero(is_among(graph.node_type, np.array(kinds, np.int64)))


def _other_form(address: str) -> str:
    """The same number, in figures that are no type's name by the same chance."""
    return hex(int(address)) if address.isdecimal() else str(int(address, 16))


def meant_types(names: Sequence[str], what: str) -> list[int]:
    """The numbers of the types that a name means: of that name; else with that last part (``Ring`` of ``App.Ring``); else with that in their
    names, in any case. What holds roots is meant by a name with ``[`` at its begin alone. The first of ``names`` is of what nothing is known of.
    """
    if not what:
        return []
    lower = what.lower()
    tests: tuple[Callable[[str], bool], ...] = (
        lambda name: name == what,
        lambda name: name.endswith((f".{what}", f"+{what}")) and not name.startswith("["),
        lambda name: lower[0] == "[" and name.lower().startswith(lower),
        lambda name: lower in name.lower() and (lower[0] == "[" or not name.startswith("[")),
    )
    for is_meant in tests:
        if kinds := [number for number, name in enumerate(names) if number and is_meant(name)]:
            return kinds
    return []


def _address(what: str | int) -> int | None:
    """The number that it is, None of a type; UsageError for what is neither."""
    if isinstance(what, str):
        if what.isascii() and what.isdecimal():  # as tables have addresses
            return int(what)
        return int(what, 16) if _ADDRESS.fullmatch(what) else None
    try:
        if not isinstance(what, bool):
            return index(what)  # numpy's numbers too
    except TypeError:
        pass
    raise UsageError(f"{what!r} is neither a type nor an address")


@dataclass(frozen=True, slots=True)
class _Row:
    count: int
    bytes: int
    steps: int
    is_first: bool
    path: list[str]


def path_table(graph: Graph, what: str | int, limit: int) -> Table:
    """The way to each of the objects, from what lasts where it is reached from there; then others: over each other object that refers to it, or to
    one before it, and is not itself reached by way of one of them. First ways first, the shortest first, and then those of most objects.
    """
    wanted, notes = _find(graph, what)
    return _table(graph, wanted, notes, limit)


def ways_to_types(graph: Graph, kinds: Sequence[int], limit: int) -> Table:
    """As :func:`path_table`, to the objects of types by their numbers: names may be several types', and anything."""
    return _table(graph, _of_types(graph, kinds), (), limit)


def _table(graph: Graph, wanted: Array, notes: tuple[str, ...], limit: int) -> Table:
    limit = row_count(limit, "ways")
    found = _Search(graph, wanted)
    rows = found.rows(limit)
    offsets = np.concatenate([[0], np.cumsum([len(row.path) for row in rows])]).astype(np.int64)
    return Table(
        {
            "count": Scalar(np.array([row.count for row in rows], np.int64), None, Kind.I8),
            "bytes": Scalar(np.array([row.bytes for row in rows], np.uint64), None, Kind.U8),
            "steps": Scalar(np.array([row.steps for row in rows], np.int64), None, Kind.I8),
            "is_shortest": Scalar(np.array([row.is_first for row in rows], np.bool_), None, Kind.BOOL),
            "path": ListOf(offsets, Text.from_pylist([text for row in rows for text in row.path])),
        },
        title="ways from the roots",
        units={"bytes": "bytes"},
        notes=(*notes, *_unreached(graph, len(wanted), len(wanted) - len(found.reached)), *found.left_out),
    )


def paths_to(graph: Graph, nodes: Array, limit: int) -> list[list[str]]:
    """The types on the ways to some nodes, from the root on, as :func:`path_table` has them."""
    return [row.path for row in _Search(graph, nodes).rows(limit)]


def _unreached(graph: Graph, wanted: int, unreached: int) -> tuple[str, ...]:
    if not unreached:
        return ()
    objects = "1 object is" if wanted == 1 else f"{wanted:,} objects are"
    return (f"{unreached:,} of {objects} not reached from any root: {graph.means_unreached}",)


class _Search:
    """The ways to some nodes."""

    def __init__(self, graph: Graph, wanted: Array) -> None:
        self._graph = graph
        self._names = graph.type_name.to_pylist()
        order, self._parent = graph.breadth_first
        self._ways = Ways(order, self._parent, graph.node_type)
        self._is_wanted = np.zeros(graph.nodes, np.uint8)
        self._is_wanted[wanted] = 1
        self._through = self._is_wanted.copy()
        mark_below(order, self._parent, self._through)
        self.reached: Array = wanted[self._ways.of_node[wanted] != NONE]
        self._keys = DependentKeys(graph)
        self.left_out: tuple[str, ...] = ()
        """What :meth:`rows` left out."""

    def rows(self, limit: int) -> list[_Row]:
        """The first ways, those of most objects first, and others while there are fewer than the limit."""
        way, first, which = np.unique(self._ways.of_node[self.reached], return_index=True, return_inverse=True)
        count, size = sums(which, self._graph.node_size[self.reached], len(way))
        steps = self._ways.steps[way].astype(np.int64)
        chosen = np.lexsort((steps, -count))[:limit].tolist()
        texts = [self._texts(int(self._ways.before[one]), [int(self._ways.type[one])]) for one in way[chosen].tolist()]
        for row, text in zip(chosen, texts, strict=True):
            self._keys.put_into(text, partial(self._below_dependent, self.reached, which, row))
        made = [
            _Row(int(count[row]), int(size[row]), int(steps[row]), True, text)
            for row, text in zip(chosen, texts, strict=True)
        ]
        if len(way) > limit:
            shown = sum(row.count for row in made)
            ways = f"{len(way) - limit:,} more {'way is' if len(way) == limit + 1 else 'ways are'} left out"
            self.left_out = (f"these are the ways to {shown:,} of {len(self.reached):,} objects: {ways}",)
        elif len(made) < limit:
            chains = self._chains(self.reached[first])
            marks = self._is_wanted.copy()
            marks[chains[chains >= 0]] = 1
            sources, targets = _references_to(self._graph, marks)
            usable = (
                (self._ways.of_node[sources] != NONE)
                & (self._through[sources] == 0)
                & (self._parent[targets] != sources)
            )
            sources, targets = sources[usable], targets[usable]
            is_last = self._is_wanted[targets] != 0
            others = self._over_others(sources[is_last], targets[is_last], limit)
            known = {tuple(row.path) for row in (*made, *others)}
            before = self._before(chains, which, sources[~is_last], targets[~is_last])
            rows = others + list(
                {path: row for row in reversed(before) if (path := tuple(row.path)) not in known}.values()
            )
            room = limit - len(made)
            if len(rows) > room:
                self.left_out = ("more other ways are left out",)
            made += sorted(rows, key=lambda row: (-row.count, row.steps, row.path))[:room]
        return made

    def _over_others(self, sources: Array, targets: Array, limit: int) -> list[_Row]:
        """What else refers to the objects themselves."""
        ways, graph = self._ways, self._graph
        kinds = graph.node_type[targets].astype(np.int64)
        over = ways.of_node[sources].astype(np.int64)
        over = np.where(ways.type[over] == kinds, ways.before[over], over)
        own = ways.of_node[targets]
        is_other = (ways.before[own] != over) | (ways.type[own] != kinds)
        over, kinds, targets = over[is_other], kinds[is_other], targets[is_other]
        found, which = np.unique((over + 1) << 32 | kinds, return_inverse=True)
        pairs = np.unique(which * np.int64(graph.nodes) + targets)
        which, nodes = pairs // graph.nodes, pairs % graph.nodes
        count, size = sums(which, graph.node_size[nodes], len(found))
        before = (found >> 32) - 1
        steps = np.where(before >= 0, ways.steps[np.maximum(before, 0)].astype(np.int64) + 1, 0)
        made = []
        for row in np.lexsort((steps, -count))[: 2 * limit].tolist():
            text = self._texts(int(before[row]), [int(found[row] & 0xFFFFFFFF)])
            if text[-2:-1] == [DEPENDENT]:
                self._keys.put_into(text, partial(_of_row, nodes, which, row))
            made.append(_Row(int(count[row]), int(size[row]), int(steps[row]), False, text))
        return made

    def _below_dependent(self, nodes: Array, which: Array, row: int) -> Array:
        """The objects of dependent handles over which the nodes of a row are reached, as far as they are not far from them."""
        nodes = _of_row(nodes, which, row)
        kinds = [number for number, name in enumerate(self._names) if name == DEPENDENT]
        at, found = nodes[:_MOST_REFERENCES].astype(np.int64), []
        for _ in range(_MOST_CLIMB):
            at = np.unique(at[at >= 0])
            above = self._above(at)
            is_below = np.isin(self._graph.node_type[np.maximum(above, 0)], kinds) & (above >= 0)
            found.append(at[is_below])
            at = above[~is_below]
            if not len(at):
                break
        return np.concatenate([np.zeros(0, np.int64), *found])

    def _chains(self, nodes: Array) -> Array:
        """The nodes over which each is reached, the nearest first, -1 behind the last one: without the root, and what is wanted itself."""
        steps = []
        at = nodes.astype(np.int64)
        for _ in range(MOST_STEPS):
            at = np.where(at >= 0, self._above(np.maximum(at, 0)), -1)
            at = np.where((at == self._graph.root) | (self._is_wanted[np.maximum(at, 0)] != 0), -1, at)
            if (at < 0).all():
                break
            steps.append(at)
        return np.array(steps, np.int64).reshape(len(steps), len(nodes))

    def _above(self, nodes: Array) -> Array:
        above = self._parent[nodes].astype(np.int64)
        return np.where(above == NONE, -1, above)

    def _before(self, chains: Array, which: Array, sources: Array, targets: Array) -> list[_Row]:
        """What else refers to what the objects are reached over, but is not reached over it."""
        sources, targets = sources[:_MOST_REFERENCES], targets[:_MOST_REFERENCES]
        apart = self._is_apart(sources, targets)
        sources, targets = sources[apart], targets[apart]
        ways = self._ways.of_node[sources].astype(np.int64)
        pairs = np.unique(targets << 32 | ways)
        steps = self._ways.steps[pairs & 0xFFFFFFFF]
        at, made = self.reached.astype(np.int64), []
        chosen = [(int(pair) >> 32, int(pair) & 0xFFFFFFFF) for pair in pairs[np.argsort(steps, kind="stable")]]
        by_target: dict[int, list[int]] = {}
        for target, way in chosen[:_MOST_WAYS]:
            by_target.setdefault(target, []).append(way)
        for place, chain in enumerate(chains):
            at = np.where(at >= 0, self._above(np.maximum(at, 0)), -1)
            for group in np.flatnonzero(np.isin(chain, list(by_target))).tolist():
                target = int(chain[group])
                of = self.reached[(at == target) & (which == group)]
                below = [int(self._graph.node_type[node]) for node in (*chains[place::-1, group], of[0])]
                size = int(self._graph.node_size[of].sum(dtype=np.uint64))
                made += [self._over(way, below, len(of), size) for way in by_target[target]]
        return made

    def _over(self, way: int, below: list[int], count: int, size: int) -> _Row:
        kinds = [
            kind for place, kind in enumerate(below) if kind != (below[place - 1] if place else self._ways.type[way])
        ]
        return _Row(count, size, int(self._ways.steps[way]) + len(kinds), False, self._texts(way, kinds))

    def _is_apart(self, sources: Array, targets: Array) -> Array:
        """Of each reference whether its source is reached without its target; of one that is far from the root that is not looked at."""
        apart = np.zeros(len(sources), np.bool_)
        rows, at = np.arange(len(sources)), sources.astype(np.int64)
        for _ in range(_MOST_CLIMB):
            apart[rows[at == self._graph.root]] = True
            going = (at != self._graph.root) & (at != targets[rows])
            rows, at = rows[going], self._above(at[going])
            if not len(rows):
                break
        return apart

    def _texts(self, way: int, kinds: Sequence[int] = ()) -> list[str]:
        steps = [*(self._ways.types_of(way, MOST_STEPS) if way >= 0 else []), *kinds]
        return [BETWEEN if step < 0 else self._names[step] or "" for step in steps]


def _of_row(values: Array, which: Array, row: int) -> Array:
    """Those whose number in ``which`` is that one."""
    found: Array = values[which == row]
    return found


def _references_to(graph: Graph, is_wanted: Array) -> tuple[Array, Array]:
    """(from, to) of all references to some nodes."""
    places = [
        np.flatnonzero(is_wanted[graph.edge_target[first : first + _CHUNK]]) + first
        for first in range(0, graph.edges, _CHUNK)
    ]
    rows = np.concatenate([np.zeros(0, np.int64), *places])
    sources = np.searchsorted(graph.edge_start, rows.astype(graph.edge_start.dtype), side="right") - 1
    return sources, graph.edge_target[rows].astype(np.int64)
