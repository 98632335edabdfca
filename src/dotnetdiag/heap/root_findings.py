"""Roots that keep much alive: static variables, each by itself and several together, variables of threads, the queue of the finalizer; and those
of a kind that have no names, such as variables of methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.heap.findings import Finding, alive_text, reached_nodes, type_names
from dotnetdiag.heap.framework import is_for_own_use, is_framework_type, is_framework_variable
from dotnetdiag.heap.holders import DIAGNOSTICS, FINALIZER, KIND_OF_NAME, ROOTS, STATIC, STATICS, is_pseudo_node
from dotnetdiag.heap.kernels import mark_below, reference_places, sums
from dotnetdiag.heap.paths import paths_to
from dotnetdiag.heap.static_places import ARRAY, LEAST_PLACES, array_places

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

STATIC_SHARE, STATIC_BYTES = 0.01, 64 << 10
"""Of all bytes, and in bytes: what a static variable keeps alive at least to be told of. A program that does nothing has 0.1 to 0.3 MB in all."""
TOGETHER_SHARE, TOGETHER_BYTES = 0.05, 256 << 10
"""The same of what several hold together, or variables of threads, or the finalizer's queue, of which something is in every program."""
ROOTS_SHARE = 0.2
"""Of all bytes: what roots of one kind keep alive at least, beside TOGETHER_BYTES."""
MOST_STATICS = MOST_TOGETHER = 10
_MOST_WAYS, _MOST_NAMES = 16, 4
_MOST_LOOKED_AT = 1 << 16
"""Of objects that are held together, for the names of the variables that hold them."""
_ARRAYS_OF_THREAD = 2
"""One inside of the other."""
_OF_DIAGNOSTICS = "descriptions of the runtime's own events, which the first session of diagnostics leaves: no leak"
_OF_FRAMEWORK = "by its name it is one of the framework's own"
_OF_FRAMEWORK_TYPES = (
    "it is of a type of the framework's, as all that it keeps alive, and likely to be the framework's own"
)
_OF_FRAMEWORK_TOGETHER = "by their names these are the framework's own"
_OF_PROGRAM = "if it only grows, it is a leak"
_OF_KIND = {
    "stack": "variables of methods that run, and of threads",
    "handle": "handles of the program's and of the runtime's, which keeps static variables of generic classes so too",
    "dependent": "what is attached to other objects, as by a ConditionalWeakTable, for as long as these are alive",
    "com": "what native code holds",
    "other": "handles of other kinds",
}
"""Of roots that have no names; what waits for its finalizer is told by itself."""


def root_findings(graph: Graph) -> Iterator[Finding]:
    """Of each kind the largest first."""
    named = _Statics(graph)
    yield from named.alone()
    yield from named.together()
    of_threads = _in_arrays_of_threads(graph, named.held)
    yield from _of_threads(graph, of_threads)
    yield from _of_finalizer(graph)
    yield from _of_kinds(graph, of_threads)
    yield from _of_several(graph, np.concatenate([named.held, of_threads]))


def _least_together(graph: Graph) -> float:
    return max(TOGETHER_BYTES, TOGETHER_SHARE * graph.bytes)


def _pseudo_nodes(graph: Graph, names: set[str]) -> Array:
    """What holds roots of some kinds."""
    kinds = [number for number, name in enumerate(type_names(graph)) if name in names]
    return np.flatnonzero(np.isin(graph.node_type, kinds) & reached_nodes(graph)) if kinds else np.zeros(0, np.int64)


def _without(graph: Graph, nodes: Array, others: Array) -> Array:
    is_other = np.zeros(graph.nodes, np.bool_)
    is_other[others] = True
    left: Array = nodes[~is_other[nodes]]
    return left


def _by_type(graph: Graph, nodes: Array) -> list[tuple[int, int, int]]:
    """(type, how many, what they keep alive) of some nodes, none of which dominates another: what keeps most first."""
    count, kept = sums(graph.node_type[nodes], graph.tree_retained[nodes], len(graph.type_name))
    return [
        (kind, int(count[kind]), int(kept[kind]))
        for kind in np.argsort(-kept.astype(np.int64), kind="stable").tolist()
        if count[kind]
    ]


class _Statics:
    """Static variables that are alive; ``held`` is what they refer to."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._names = type_names(graph)
        self._modules = graph.type_module.to_pylist()
        kinds = [number for number, name in enumerate(self._names) if name.startswith(STATIC)]
        self._nodes = np.flatnonzero(np.isin(graph.node_type, kinds) & reached_nodes(graph))
        self._held = [np.unique(graph.references(node)) for node in self._nodes.tolist()]
        self.held = np.unique(np.concatenate([np.zeros(0, np.int64), *self._held])).astype(np.int64)

    def alone(self) -> Iterator[Finding]:
        """What each keeps alive by itself."""
        graph = self._graph
        # not what the variable's own node dominates: the runtime keeps statics in arrays of its own too
        retained = np.array([int(graph.retained[one].sum(dtype=np.uint64)) for one in self._held], np.int64)
        for row in np.argsort(-retained, kind="stable")[:MOST_STATICS].tolist():
            size = int(retained[row])
            if size < max(STATIC_BYTES, STATIC_SHARE * graph.bytes):
                return
            name = self._variable(row)
            yield Finding(
                "static", name, len(self._held[row]), size,
                f"what the static variable {name} refers to keeps {alive_text(size, graph)}: {self._meaning(row)}",
            )  # fmt: skip

    def _variable(self, row: int) -> str:
        return self._names[int(self._graph.node_type[self._nodes[row]])][len(STATIC) : -1]

    def _meaning(self, row: int) -> str:
        name = self._variable(row)
        if f"{STATIC}{name}]" == DIAGNOSTICS:
            return _OF_DIAGNOSTICS
        if is_framework_variable(name):
            return _OF_FRAMEWORK
        kinds = self._graph.node_type[self._held[row]].tolist()
        if all(is_for_own_use(self._names[kind], self._modules[kind]) for kind in kinds) and self._is_framework_below(
            row
        ):
            return _OF_FRAMEWORK_TYPES
        return _OF_PROGRAM

    def _is_framework_below(self, row: int) -> bool:
        """Whether all that is free without what a variable refers to is of the framework's types."""
        graph = self._graph
        marks = np.zeros(graph.nodes, np.uint8)
        marks[self._held[row]] = 1
        mark_below(graph.breadth_first[0], graph.dominators.view(np.uint32), marks)
        kinds = np.unique(graph.node_type[marks != 0]).tolist()
        return all(is_framework_type(self._names[kind], self._modules[kind]) for kind in kinds)

    def together(self) -> Iterator[Finding]:
        """What is reached through several and through nothing else, by its type; what one refers to itself is told of that one."""
        graph = self._graph
        holders = _pseudo_nodes(graph, {STATICS})
        nodes = np.flatnonzero(np.isin(graph.tree_dominators, holders)) if len(holders) else holders
        nodes = _without(graph, nodes, np.concatenate([self._nodes, self.held]))
        by_type, least = _by_type(graph, nodes), _least_together(graph)
        for kind, count, size in by_type[:MOST_TOGETHER]:
            if size >= least:
                own = nodes[graph.node_type[nodes] == kind]
                yield self._shared(f"{count:,} {self._names[kind]}", self._names[kind], own, size)
        total = sum(size for _, _, size in by_type)
        if by_type and by_type[0][2] < least <= total:
            name = self._names[by_type[0][0]]
            yield self._shared(
                f"{len(nodes):,} objects of {len(by_type):,} types (most of it: {name})", name, nodes, total
            )

    def _shared(self, what: str, subject: str, nodes: Array, size: int) -> Finding:
        ways = paths_to(self._graph, nodes[:: len(nodes) // _MOST_LOOKED_AT + 1], _MOST_WAYS)
        steps = dict.fromkeys(step for path in ways for step in path if step.startswith(STATIC))
        variables = [step[len(STATIC) : -1] for step in steps]
        is_own = bool(steps) and all(
            step == DIAGNOSTICS or is_framework_variable(step[len(STATIC) : -1]) for step in steps
        )
        return Finding(
            "static", subject, len(nodes), size,
            f"{what} {'keeps' if len(nodes) == 1 else 'keep'} {alive_text(size, self._graph)}, and can be reached only "
            f"through several static variables{_listed(variables)}: {_OF_FRAMEWORK_TOGETHER if is_own else _OF_PROGRAM}",
        )  # fmt: skip


def _listed(names: list[str]) -> str:
    """Of those that hold something: of many the first, and never that these are all."""
    if not names:
        return ""
    shown = names[:_MOST_NAMES]
    return f", such as {shown[0]}" if len(shown) == 1 else f", such as {', '.join(shown[:-1])} and {shown[-1]}"


def _in_arrays_of_threads(graph: Graph, held_by_statics: Array) -> Array:
    """What [ThreadStatic] variables are likely to hold. The runtime does not tell of them: it keeps those of a thread in an array of objects that
    a handle refers to (.NET Core 3.1, .NET 8), or in one of such arrays, of which it tells as of a variable of a method (.NET 9 and 10).
    """
    kinds = [number for number, name in enumerate(type_names(graph)) if name == ARRAY]
    holders = _pseudo_nodes(graph, {name for name, kind in KIND_OF_NAME.items() if kind in ("stack", "handle")})
    nodes, at = np.zeros(0, np.int64), holders
    for _ in range(1 + _ARRAYS_OF_THREAD):
        _, places = reference_places(graph.edge_start, at)
        held = np.unique(graph.edge_target[places].astype(np.int64))
        is_array = np.isin(graph.node_type[held], kinds)
        is_array &= array_places(graph.node_size[held], graph.facts.pointer_size) < LEAST_PLACES
        if at is not holders:
            nodes = np.concatenate([nodes, held[~is_array]])
        at = held[is_array]
    return _without(graph, np.unique(nodes), held_by_statics)


def _much(graph: Graph, nodes: Array) -> list[tuple[int, int, int]]:
    """:func:`_by_type` of what is to be told of."""
    least = _least_together(graph)
    return [row for row in _by_type(graph, nodes)[:MOST_TOGETHER] if row[2] >= least]


def _kept(count: int, name: str, size: int, graph: Graph) -> str:
    return f"{count:,} {name} {'keeps' if count == 1 else 'keep'} {alive_text(size, graph)}"


def _of_threads(graph: Graph, nodes: Array) -> Iterator[Finding]:
    """Of what is in the arrays of threads."""
    for kind, count, size in _much(graph, nodes):
        name = graph.type_name.item(kind) or ""
        yield Finding(
            "thread static", name, count, size,
            f"{_kept(count, name, size, graph)}, in arrays of objects that "
            f"are roots themselves, as the runtime keeps [ThreadStatic] variables: {_OF_PROGRAM}",
        )  # fmt: skip


def _of_finalizer(graph: Graph) -> Iterator[Finding]:
    """What nothing but the finalizer's queue holds."""
    holders = _pseudo_nodes(graph, {name for name, kind in KIND_OF_NAME.items() if kind == "finalizer"})
    nodes = np.flatnonzero(np.isin(graph.tree_dominators, holders)) if len(holders) else holders
    found = _by_type(graph, nodes)
    size = sum(kept for _, _, kept in found)
    if found and size >= _least_together(graph):
        name = graph.type_name.item(found[0][0]) or ""
        objects = (
            "1 object waits for its finalizer and keeps"
            if len(nodes) == 1
            else f"{len(nodes):,} objects wait for their finalizers and keep"
        )
        yield Finding(
            "finalizer", FINALIZER, len(nodes), size,
            f"{objects} {alive_text(size, graph)}, that nothing else holds, most of it by {name}: who disposes of "
            "them spares them that; where it only grows, a finalizer takes long, or waits",
        )  # fmt: skip


def _of_kinds(graph: Graph, of_threads: Array) -> Iterator[Finding]:
    """What roots of one kind, which have no names, keep alive: without what is told of as variables of threads."""
    told = of_threads[np.isin(graph.node_type[of_threads], [kind for kind, _, _ in _much(graph, of_threads)])]
    least = max(TOGETHER_BYTES, ROOTS_SHARE * graph.bytes)
    found = []
    for name, kind in KIND_OF_NAME.items():
        holders = _pseudo_nodes(graph, {name}) if kind in _OF_KIND else told[:0]
        size = int(graph.tree_retained[holders].sum(dtype=np.uint64))
        if size < least:
            continue
        held = _held_over_arrays(graph, holders)
        nodes = _without(graph, held, told)
        size -= int(graph.tree_retained[_without(graph, held, nodes)].sum(dtype=np.uint64))
        if size >= least:
            found.append((size, name, nodes))
    for size, name, nodes in sorted(found, key=lambda row: -row[0]):
        most = _by_type(graph, nodes)[:1]
        by = f", most of it by {graph.type_name.item(most[0][0])}" if most else ""
        yield Finding(
            "roots", name, len(nodes), size,
            f"{name} keep {alive_text(size, graph)}{by}: {_OF_KIND[KIND_OF_NAME[name]]}; tree shows what they hold",
        )  # fmt: skip


def _of_several(graph: Graph, others: Array) -> Iterator[Finding]:
    """What is reached from roots of several kinds, as from a static variable and a method's, so that nothing below the root keeps it alive alone."""
    is_of_roots = np.array([is_pseudo_node(name) for name in type_names(graph)], np.bool_)
    nodes = np.flatnonzero(graph.tree_dominators == graph.root)
    nodes = nodes[~is_of_roots[graph.node_type[nodes]]]
    nodes = _without(graph, nodes, np.concatenate([others, graph.references(graph.root).astype(np.int64)]))
    for kind, count, size in _much(graph, nodes):
        own = nodes[graph.node_type[nodes] == kind]
        ways = paths_to(graph, own[:: len(own) // _MOST_LOOKED_AT + 1], _MOST_WAYS)
        roots = [step for path in ways for step in path if is_pseudo_node(step) and step not in (ROOTS, STATICS)]
        names = [*dict.fromkeys(sorted(roots, key=lambda step: not step.startswith(STATIC)))]
        name = graph.type_name.item(kind) or ""
        yield Finding(
            "roots", name, count, size,
            f"{_kept(count, name, size, graph)}, and can be reached from several roots{_listed(names)}, none of which alone "
            f"keeps that alive: {_OF_PROGRAM}; paths shows the ways",
        )  # fmt: skip


def _held_over_arrays(graph: Graph, holders: Array) -> Array:
    """What stands under what holds roots in the tree: in place of arrays of objects, as the runtime keeps variables, what stands under these."""
    kinds = [number for number, name in enumerate(type_names(graph)) if name == ARRAY]
    held, at = np.zeros(0, np.int64), holders
    for left in range(_ARRAYS_OF_THREAD, -1, -1):
        is_above = np.zeros(graph.nodes, np.bool_)
        is_above[at] = True
        at = np.flatnonzero(is_above[graph.tree_dominators] & (graph.tree_dominators >= 0))
        is_array = np.isin(graph.node_type[at], kinds)
        is_array &= 2 * graph.node_size[at].astype(np.uint64) <= graph.tree_retained[at]
        held = np.concatenate([held, at[~is_array] if left else at])
        at = at[is_array]
    return held
