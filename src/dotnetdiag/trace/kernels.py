"""The loops over the frames of all stacks and the exceptions of all threads, compiled or not, with arrays in and arrays out.

Nodes, frames and codes are i32, addresses u64, offsets i64. The numbers that are given are those of the order in which things
are first seen, in both forms.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace import fallback

Array: TypeAlias = "np.ndarray[Any, Any]"


def _compiled() -> ModuleType | None:
    try:
        from dotnetdiag.trace import _kernels  # type: ignore[attr-defined]  # it is no Python file
    except ImportError:
        return None
    module: ModuleType = _kernels
    return module


KERNELS: ModuleType | None = _compiled()
"""The compiled loops; None where there are none, and numpy does all."""
COMPILED = KERNELS is not None

_KEYS = np.frombuffer(bytearray(os.urandom(3 * 8)), np.uint64)
"""Of the hashes of addresses and nodes: nobody can write a file whose addresses meet."""
_LEAST_SLOTS = 1 << 12
MOST_OPEN, OPEN_PARTS = 1 << 12, 7
"""Exceptions and filters of a thread that are open at a time; of more than that no more than the last are followed."""


def _slots(count: int) -> int:
    """How many slots of a hash table so many numbers need, at least."""
    return max(_LEAST_SLOTS, 1 << (2 * count).bit_length())


def _longer(array: Array, count: int, length: int) -> Array:
    """With the first ``count`` items of another."""
    longer = np.empty(length, array.dtype)
    longer[:count] = array[:count]
    return longer


def intern_addresses(addresses: Array, offsets: Array, kernel: int) -> tuple[Array, Array, Array]:
    """The distinct addresses of stacks: (code of each address, address of each code, whether that one is exact).

    An address that is exact (of a leaf, or of user code under the kernel's, whose addresses begin at ``kernel``) and
    the same one as a return address are two.
    """
    if KERNELS is None:
        return fallback.intern_addresses(addresses, offsets, kernel)
    codes = np.empty(len(addresses), np.int32)
    unique, exact = np.empty(0, np.uint64), np.empty(0, np.uint8)
    slots, done, count = _LEAST_SLOTS, 0, 0
    while True:
        unique, exact = _longer(unique, count, slots // 2), _longer(exact, count, slots // 2)
        table = np.zeros(slots, np.int32)
        done, count, _ = KERNELS.intern_addresses(
            addresses, offsets, kernel, done, count, codes, unique, exact, table, _KEYS
        )
        if done == len(offsets) - 1:
            return codes, unique[:count], exact[:count].view(np.bool_)
        slots = max(4 * slots, _slots(count + int(offsets[done + 1] - offsets[done])))


def intern_paths(
    parent: Array, frame: Array, codes: Array, frame_of_code: Array, offsets: Array
) -> tuple[Array, Array, Array]:
    """Put paths of codes, leaf first, into a tree: (parents, frames, node of each path). Frames below 0 are left out."""
    if KERNELS is None:
        return fallback.intern_paths(parent, frame, codes, frame_of_code, offsets)
    leaves = np.empty(len(offsets) - 1, np.int32)
    slots, done, count = _slots(len(parent)), 0, len(parent)
    while True:
        # 100,000 stacks of 60 frames in 3 million nodes take 0.25 s, of which growing by four takes 0.06
        parent, frame = _longer(parent, count, slots // 2), _longer(frame, count, slots // 2)
        table = np.zeros(slots, np.int32)
        done, count, _ = KERNELS.intern_paths(
            codes, frame_of_code, offsets, done, count, leaves, parent, frame, table, _KEYS
        )
        if done == len(leaves):
            return parent[:count].copy(), frame[:count].copy(), leaves
        slots = max(4 * slots, _slots(count + int(offsets[done + 1] - offsets[done])))


def remap(parent: Array, frame: Array, new_frame: Array, merge: bool) -> tuple[Array, Array, Array]:
    """The tree with ``new_frame[frame]`` for each frame: (parents, frames, new node of each old one).

    Nodes whose new frame is below 0 are left out; with ``merge`` a frame that calls itself at once is one.
    """
    if KERNELS is None:
        return fallback.remap(parent, frame, new_frame, merge)
    new_parent, new_frames, new_node = (np.empty(len(parent), np.int32) for _ in range(3))
    table = np.zeros(_slots(len(parent)), np.int32)
    count = KERNELS.remap(parent, frame, new_frame, merge, new_parent, new_frames, new_node, table, _KEYS)
    return new_parent[:count], new_frames[:count], new_node  # what was never written to takes no memory


def add_to_parents(parent: Array, weights: Array) -> None:
    """Exclusive weights (f64) become inclusive ones, in place."""
    (KERNELS or fallback).add_to_parents(parent, weights)


def depths(parent: Array) -> Array:
    """How many frames stand above each node, itself included; 0 for the root."""
    if KERNELS is None:
        return fallback.depths(parent)
    depth = np.zeros(len(parent), np.int32)
    KERNELS.depths(parent, depth)
    return depth


def levels(above: Array, depth: Array, rows: slice[int, int, None], deepest: int) -> None:
    """Write down, for these rows at least, how deep they are (i32, 0 until it is known), where a row may be below any other: 1 at the top (-1),
    below ``deepest`` 1 again, and -1 for those that are below themselves, or below such. ValueError where a row is below one that is not there.
    """
    if KERNELS is None:
        fallback.levels(above, depth, deepest)
    else:
        KERNELS.levels(above, depth, rows.start, rows.stop, deepest)


def children(parent: Array) -> tuple[Array, Array]:
    """First child and next sibling of each node, in the order of their numbers; 0 where there is none."""
    if KERNELS is None:
        return fallback.children(parent)
    child, sibling = np.zeros(len(parent), np.int32), np.zeros(len(parent), np.int32)
    KERNELS.children(parent, child, sibling)
    return child, sibling


def outermost(parent: Array, frame: Array, child: Array, sibling: Array) -> Array:
    """A mask of the nodes with no caller of the same frame; ``child`` and ``sibling`` are those of :func:`children`."""
    if KERNELS is None:
        return fallback.outermost(parent, frame)
    marks = np.zeros(len(parent), np.uint8)
    open_frames = np.zeros(int(frame.max()) + 1, np.int32)
    KERNELS.outermost(parent, frame, child, sibling, open_frames, marks)
    return marks.view(np.bool_)


def expand(parent: Array, frame: Array, nodes: Array, offsets: Array) -> Array:
    """The frames from each node up to the root, one path behind another; path ``i`` ends at ``offsets[i + 1]``."""
    if KERNELS is None:
        return fallback.expand(parent, frame, nodes, offsets)
    frames = np.empty(int(offsets[-1]), np.int32)
    KERNELS.expand(parent, frame, nodes, offsets, frames)
    return frames


def follow_exceptions(thread: Array, kind: Array, method: Array, frames: Array) -> tuple[Array, Array, Array]:
    """Of events of exceptions, by thread (i64) and then in the order of time, three columns of rows (-1 for none): which throw each is of; what ends
    it, of a throw the first catch that had it, of a catch its end, of a filter what tells that it is over; and of a catch, filter or block of finally
    the filter in which it is, unless that was left, where nothing tells whether it was. What each is says ``kind`` (u8): 0 a throw, 1 a throw when
    nothing else was handled by the thread, 2 a catch, 3 its end, 4 a filter, 5 its end, 6 a block of finally. ``method`` (i64): where a catch or
    filter is, below 0 where that is not known. ``frames`` (i64): how many the event's stack has; 0 where it has none, and -n where it is cut, and has
    n at least.

    A catch that comes again without a throw (``throw;`` of 9 and later) is of the same throw. What was thrown in a filter and not caught there is
    over with the filter. Up to .NET 8 no event says so, but the next one does: a filter runs on top of the stack of the throw that it looks at, and
    so what has no more frames than the filter's event is outside, and what has more is inside. Where that is not known, the filter is over with the
    next filter or catch of its method, and all others are taken for those of what was thrown in it.
    """
    owner, partner, within = (np.empty(len(thread), np.int64) for _ in range(3))
    opened = np.empty((MOST_OPEN, OPEN_PARTS), np.int64)
    (KERNELS or fallback).follow_exceptions(thread, kind, method, frames, owner, partner, within, opened)
    return owner, partner, within


RISEN, HELD, FILTERED = range(3)
"""What is open: an exception that nobody has caught, one that a catch has, a filter."""


def open_exceptions(kind: Array, method: Array, frames: Array) -> Array:
    """Of events of one thread, as :func:`follow_exceptions` takes them, what is open behind the last: a row for each, the oldest first, of its
    throw, what it is (:data:`RISEN`, :data:`HELD`, :data:`FILTERED`), its method, and the last catch that has it, -1 for none, or the filter.
    """
    count = len(kind)
    owner, partner, within = (np.empty(count + 1, np.int64) for _ in range(3))
    opened = np.full((MOST_OPEN, OPEN_PARTS), -1, np.int64)
    # where a throw behind all others lies is told, and so how much there is below it
    last, nowhere = np.zeros(1, np.uint8), np.full(1, -1, np.int64)
    (KERNELS or fallback).follow_exceptions(
        np.zeros(count + 1, np.int64),
        np.append(kind, last),
        np.append(method, nowhere),
        np.append(frames, np.zeros(1, np.int64)),
        owner,
        partner,
        within,
        opened,
    )
    return opened[: int(np.flatnonzero(opened[:, 0] == count)[0]), :4]


def rank(items: Array, ranks: Array, before: tuple[int, int], first: int, out: Array, at: int) -> None:
    """Items in columns (``Passed.amounts`` or ``marks``) into those of ``out`` from ``at`` on, with an order among all: that of the ``ranks`` of
    their runs, from 1 on, or 0 where they are sorted, and then that of the file. ``before``: how many runs and events come before these in the orders
    that they have; ``first``: how many events before all of them.
    """
    (KERNELS or fallback).rank(items, ranks, *before, first, out, at)


def add_between(amounts: Array, count: int, marks: Array, until: int, sums: Array) -> int:
    """Add the first so many amounts, as :func:`rank` gives them, of times before ``until`` to the ``sums`` of the marks before them; the others
    become the first: how many. Marks ascend by time and order; there is a sum more than marks.
    """
    left: int = (KERNELS or fallback).add_between(amounts, count, marks, until, sums)
    return left


def rank_between(
    items: Array,
    sums_of: tuple[Array, int],
    ranks: Array,
    before: tuple[int, int],
    first: int,
    marks: Array,
    until: int,
    sums: Array,
    out: Array,
    at: int,
) -> int:
    """What :func:`rank` and then :func:`add_between` of its items do, of which the others stand in ``out`` from ``at`` on: how many. ``sums_of``:
    what is known of many of them together (``Passed.sums``).
    """
    left: int = (KERNELS or fallback).rank_between(items, *sums_of, ranks, *before, first, marks, until, sums, out, at)
    return left
