"""What holds the roots: nodes without size and address, named as dotnet-gcdump names them, for PerfView ranks them by name (gcdump.md §5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.events import Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.holders import (
    COM,
    DEPENDENT,
    FINALIZER,
    KIND_OF_NAME,
    LOCALS,
    OTHER_HANDLES,
    OTHERS,
    PINNING,
    ROOTS,
    STATIC,
    STATICS,
    STRONG,
    THREAD_STATICS,
    is_holder_of_roots,
)
from dotnetdiag.heap.kernels import NONE
from dotnetdiag.heap.type_names import TypeTable
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.heap.walk import Root, Walk

Array: TypeAlias = "np.ndarray[Any, Any]"

WEAK, REFCOUNTED, PINNED = 2, 8, 1
_STACK, _FINALIZER, _HANDLE = 0, 1, 2
_THREAD = 1
KINDS = ("stack", "finalizer", "handle", "static", "thread static", "dependent", "com", "other")


class PseudoNodes:
    """They and their children, numbered from ``first`` on; the first is ``[.NET Roots]``."""

    def __init__(self, first: int, types: TypeTable) -> None:
        self._first, self._types = first, types
        self._names: list[str] = []
        self._held: list[tuple[Array, Array]] = []
        """(who holds, what is held), row by row."""
        self._below: dict[int, dict[str, int]] = {}
        self._names.append(ROOTS)
        self._under(0, STATICS)

    def __len__(self) -> int:
        return len(self._names)

    def _under(self, parent: int, name: str) -> int:
        below = self._below.setdefault(parent, {})
        number = below.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return number

    def _hold(self, number: int, nodes: Array) -> None:
        self._held.append((np.full(len(nodes), number, np.uint32), nodes))

    def add_roots(self, nodes: Array, kinds: Array, flags: Array) -> None:
        """Roots of the stack, of handles, of the finalizer; weak ones hold nothing."""
        kept = flags & WEAK == 0
        is_stack, is_counted = kept & (kinds == _STACK), kept & (kinds != _STACK) & (flags & REFCOUNTED != 0)
        rest = kept & ~is_stack & ~is_counted
        is_handle = rest & (kinds == _HANDLE)
        for name, rows in (
            (LOCALS, is_stack),
            (COM, is_counted),
            (FINALIZER, rest & (kinds == _FINALIZER)),
            (STRONG, is_handle & (flags != PINNED)),
            (PINNING, is_handle & (flags == PINNED)),
            (OTHER_HANDLES, rest & (kinds > _HANDLE)),
        ):
            if rows.any():
                parent = 0 if name == LOCALS else self._under(0, OTHERS)
                self._hold(self._under(parent, name), nodes[rows])

    def add_dependent(self, nodes: Array) -> None:
        """Values of dependent handles whose keys are there."""
        if len(nodes):
            self._hold(self._under(self._under(0, OTHERS), DEPENDENT), nodes)

    def add_statics(self, statics: Sequence[Root], nodes: Array) -> None:
        """Static variables, one node for each name."""
        numbers = np.zeros(len(statics), np.uint32)
        for row, root in enumerate(statics):
            parent = self._under(0, THREAD_STATICS if root.flags & _THREAD else STATICS)
            numbers[row] = self._under(parent, f"[static var {self._types.name_of(root.type_id)}.{root.name}]")
        self._held.append((numbers, nodes))

    def add_com(self, wrappers: range) -> None:
        """COM wrappers, which are nodes already."""
        self._hold(self._under(0, COM), np.arange(wrappers.start, wrappers.stop, dtype=np.uint32))

    @property
    def types(self) -> Array:
        """The type of each: one for each name."""
        return np.array([self._types.add(name, None) for name in self._names], np.uint32)

    @property
    def children(self) -> tuple[Array, Array]:
        """(how many each has, those of one after the other): other pseudo-nodes first."""
        below = [
            (np.full(len(names), number, np.uint32), np.fromiter(names.values(), np.uint32) + np.uint32(self._first))
            for number, names in self._below.items()
        ]
        holders, held = (np.concatenate(parts) for parts in zip(*below, *self._held, strict=True))
        is_there = held != NONE
        holders, held = holders[is_there], held[is_there]
        return np.bincount(holders, minlength=len(self)), held[np.argsort(holders, kind="stable")].astype(np.uint32)


def root_table(walk: Walk, ccws: Sequence[Root], nodes_of: Sequence[Array]) -> Table:
    """A row for each root that the runtime told of; ``nodes_of`` has the nodes of plain roots, dependent handles, statics and COM wrappers.

    ``root_id`` is as told: of one on the stack the id of the method, whose name is not told, the address of a handle or of a static variable, the
    key of a dependent handle.
    """
    told, dependent, static, ccw = nodes_of
    by_kind = np.full(256, KINDS.index("other"), np.int64)
    by_kind[[_STACK, _FINALIZER, _HANDLE]] = [0, 1, 2]
    statics = walk.statics
    count_of = (len(told), len(dependent), len(static), len(ccw))
    kinds = np.concatenate(
        [
            by_kind[walk.root_kind.rows],
            np.full(len(dependent), KINDS.index("dependent")),
            np.array(
                [KINDS.index("thread static" if root.flags & _THREAD else "static") for root in statics], np.int64
            ),
            np.full(len(ccw), KINDS.index("com")),
        ]
    ).astype(np.int64)
    flags = [walk.root_flags.rows, [0] * len(dependent), [r.flags for r in statics], [r.flags for r in ccws]]
    ids = [walk.root_id.rows, walk.dependent_key.rows, [r.root_id for r in statics], [r.root_id for r in ccws]]
    names = Text.from_pylist(["", *(root.name for root in statics)])
    which = np.concatenate(
        [np.zeros(sum(count_of[:2]), np.int64), np.arange(1, len(statics) + 1), np.zeros(len(ccw), np.int64)]
    )
    nodes = np.concatenate([told, dependent, static, ccw]).astype(np.uint32)
    return Table(
        {
            "node": Scalar(nodes, None if (nodes != NONE).all() else nodes != NONE, Kind.U4),
            "kind": Coded(Text.from_pylist(KINDS), kinds),
            "flags": Scalar(_u64(flags).astype(np.uint32), None, Kind.U4),
            "root_id": Scalar(_u64(ids), None, Kind.U8),
            "name": Coded(names, which, which > 0),
        },
        title="roots",
    )


def _u64(parts: Sequence[Any]) -> Array:
    return np.concatenate([np.asarray(part, np.uint64) for part in parts])


MAX_DEPTH = 6


def _holds(name: str) -> bool:
    return (name != ROOTS and is_holder_of_roots(name)) or name.startswith(STATIC)


def roots_of_pseudo_nodes(names: Sequence[str], types: Array, starts: Array, targets: Array, root: int) -> Table:
    """What a file says of roots by the names of what holds them: the columns of :func:`root_table`, without numbers."""
    nodes: list[Array] = []
    kinds: list[Array] = []
    labels: list[Array] = []
    texts = [""]
    is_holder = np.array([_holds(name) for name in names], np.bool_)
    waiting, seen = [(root, "other", 0)], {root}
    while waiting:
        node, kind, depth = waiting.pop()
        children = targets[int(starts[node]) : int(starts[node + 1])]
        held = is_holder[types[children]]
        for child in children[held].tolist():
            if child not in seen and depth < MAX_DEPTH:
                seen.add(child)
                name = names[int(types[child])]
                inherited = {STATICS: "static", THREAD_STATICS: "thread static"}.get(name, kind)
                waiting.append((child, KIND_OF_NAME.get(name, inherited), depth + 1))
        if depth:
            own, name = children[~held], names[int(types[node])]
            texts.append(name[len(STATIC) : -1] if name.startswith(STATIC) else "")
            nodes.append(own)
            kinds.append(np.full(len(own), KINDS.index(kind)))
            labels.append(np.full(len(own), len(texts) - 1 if texts[-1] else 0))
    count = sum(map(len, nodes))
    which = np.concatenate([np.zeros(0, np.int64), *labels]).astype(np.int64)
    return Table(
        {
            "node": Scalar(np.concatenate([np.zeros(0, np.uint32), *nodes]).astype(np.uint32), None, Kind.U4),
            "kind": Coded(Text.from_pylist(KINDS), np.concatenate([np.zeros(0, np.int64), *kinds]).astype(np.int64)),
            "flags": Scalar(np.zeros(count, np.uint32), np.zeros(count, np.bool_), Kind.U4),
            "root_id": Scalar(np.zeros(count, np.uint64), np.zeros(count, np.bool_), Kind.U8),
            "name": Coded(Text.from_pylist(texts), which, which > 0),
        },
        title="roots",
    )
