"""A stack tree as a walk: in which order nodes are entered and left, and what is between two of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.trace.stack_tree import StackTree

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Walk:
    """Some nodes of a tree, each behind its parent and before its siblings' descendants; the root is the first.

    Columns by place in the walk: ``node`` (in the tree), ``depth`` (0 of the root), ``size`` (nodes at and below it),
    ``frame``. What is below place ``i`` are the places from ``i + 1`` up to ``i + size[i]``. ``parent`` is a place.
    """

    node: Array
    parent: Array
    depth: Array
    size: Array
    frame: Array

    def __len__(self) -> int:
        return len(self.node)

    def spans(self, weights: Array) -> tuple[Array, Array]:
        """(begin, end) of each place when all is laid out side by side: its own weight first, then its children.

        ``weights`` are exclusive, per node of the tree. Spans are within those of their parents exactly.
        """
        edges = np.zeros(len(self) + 1)
        np.cumsum(weights[self.node], out=edges[1:])
        return edges[:-1], edges[np.arange(len(self)) + self.size]

    def steps(self) -> tuple[Array, Array]:
        """(place, whether it is entered) of each step of a walk that enters and leaves all places but the root."""
        place = np.arange(1, len(self))
        enter = 2 * place - self.depth[1:] - 1
        steps = np.empty(2 * len(place), np.int64)
        entered = np.zeros(2 * len(place), np.bool_)
        steps[enter] = place
        steps[enter + 2 * self.size[1:] - 1] = place
        entered[enter] = True
        return steps, entered


def walk(tree: StackTree, used: Array) -> Walk:
    """The walk over the nodes that ``used`` marks, whose parents must be marked too; siblings in order of number."""
    marks = used.copy()
    marks[0] = True
    node = np.flatnonzero(marks)
    local = np.zeros(len(tree), np.int32)
    local[node] = np.arange(len(node), dtype=np.int32)
    parent = local[np.maximum(tree.parent[node], 0)]
    parent[0] = -1
    part = StackTree(np.ascontiguousarray(parent), np.ascontiguousarray(tree.frame[node]))
    size = part.inclusive(np.ones(len(node))).astype(np.int64)
    depth = part.depth
    # how much of the walk lies between a node and its parent: all of its elder siblings
    order = np.argsort(parent, kind="stable")
    total = np.cumsum(size[order]) - size[order]
    first = np.flatnonzero(np.diff(parent[order], prepend=-2))
    elder = np.empty(len(node), np.int64)
    elder[order] = total - np.repeat(total[first], np.diff(np.append(first, len(order))))
    place = np.zeros(len(node), np.int64)
    by_depth = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[by_depth], np.arange(1, int(depth.max()) + 2))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        level = by_depth[begin:end]
        place[level] = place[parent[level]] + 1 + elder[level]
    back = np.empty(len(node), np.int64)
    back[place] = np.arange(len(node))
    return Walk(
        node=node[back],
        parent=np.append(np.int64(-1), place[parent[back[1:]]]),
        depth=depth[back],
        size=size[back],
        frame=part.frame[back],
    )


def numbers(column: Array) -> memoryview:
    """A column whose items are plain ints, five times as fast to look up as those of an array."""
    return memoryview(np.ascontiguousarray(column))  # type: ignore[arg-type]


# time -----------------------------------------------------------------------------------------------------------------

_GAP = 0.001
"""Of its length, that the next sample may begin after a sample's end and still continue it (dotnet-tools.md §1.2)."""


def runs(start_ns: Array, length_ns: Array, value: Array) -> tuple[Array, Array, Array, Array]:
    """(begin, end, value, whether the next one continues it) of each time that a thread's value stayed the same.

    The samples are one thread's, in order of time. Equal values without a gap between them are one run; what has no
    length is left out.
    """
    long = length_ns > 0
    if not long.all():
        start_ns, length_ns, value = start_ns[long], length_ns[long], value[long]
    if not len(value):
        return start_ns, start_ns, value, long[:0]
    end = start_ns + length_ns
    joined = start_ns[1:] - end[:-1] <= length_ns[:-1] * _GAP
    firsts = np.flatnonzero(np.append(True, ~joined | (value[1:] != value[:-1])))
    lasts = np.append(firsts[1:], len(value)) - 1
    return start_ns[firsts], end[lasts], value[firsts], np.append(joined[firsts[1:] - 1], False)


def changes(start_ns: Array, length_ns: Array, node: Array) -> Iterator[tuple[int, int, int]]:
    """(time, node before, node after) whenever a thread's stack changed; node 0 where it has none.

    The samples are as for :func:`runs`. The last change is to node 0.
    """
    before = 0
    columns = (column.tolist() for column in runs(start_ns, length_ns, node))
    for begin, finish, this, goes_on in zip(*columns, strict=True):
        yield begin, before, this
        before = this
        if not goes_on:
            yield finish, this, 0
            before = 0


class Paths:
    """What is left and what is entered between two nodes."""

    def __init__(self, tree: StackTree) -> None:
        self._parent, self._depth = numbers(tree.parent), numbers(tree.depth)

    def between(self, before: int, after: int) -> tuple[list[int], list[int]]:
        """(nodes that are left, innermost first; nodes that are entered, outermost first)."""
        parent, depth = self._parent, self._depth
        left, entered = [], []
        while before != after:
            if depth[before] >= depth[after]:
                left.append(before)
                before = parent[before]
            else:
                entered.append(after)
                after = parent[after]
        entered.reverse()
        return left, entered
