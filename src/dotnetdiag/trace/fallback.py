"""The loops over the frames of all stacks without a compiler: by numpy, all nodes of one depth at once.

Gives what those of ``_kernels.pyx`` give, which the tests hold against each other.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

LEAST_WIDTH = 48
"""Nodes per depth, on average, below which Python node by node is faster than numpy (measured: at 32 it takes half as long, at
64 twice as long).
"""


def intern_addresses(addresses: Array, offsets: Array, kernel: int) -> tuple[Array, Array, Array]:
    """See ``kernels.intern_addresses``."""
    exact = np.zeros(len(addresses), np.bool_)
    exact[1:] = (addresses[:-1] >= np.uint64(kernel)) & (addresses[1:] < np.uint64(kernel))
    exact[offsets[:-1][offsets[:-1] < offsets[1:]]] = True
    _, code = np.unique(addresses, return_inverse=True)
    _, first, code = np.unique(code * 2 + exact, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    return number[code], addresses[first[order]], exact[first[order]]


# nodes ----------------------------------------------------------------------------------------------------------------


def intern_paths(
    parent: Array, frame: Array, codes: Array, frame_of_code: Array, offsets: Array
) -> tuple[Array, Array, Array]:
    """See ``kernels.intern_paths``: every path becomes a branch of its own, then equal ones are merged."""
    nodes, lengths = len(parent), np.diff(offsets)
    from_root = np.repeat(offsets[:-1] + offsets[1:] - 1, lengths) - np.arange(offsets[0], offsets[-1])
    frames = frame_of_code[codes[from_root]]
    kept = frames >= 0
    ends = np.append(0, np.cumsum(kept))[offsets - offsets[0]]
    used = ends[:-1] < ends[1:]
    above = np.arange(nodes - 1, nodes - 1 + int(ends[-1]), dtype=np.int32)
    above[ends[:-1][used]] = 0
    parent, frame, number = _merge(np.append(parent, above), np.append(frame, frames[kept]))
    return parent, frame, np.where(used, number[nodes - 1 + ends[1:]], 0)


def remap(parent: Array, frame: Array, new_frame: Array, merge: bool) -> tuple[Array, Array, Array]:
    """See ``kernels.remap``."""
    wanted = np.append(np.int32(-1), new_frame[frame[1:]])
    above = _nearest(wanted >= 0, parent)
    if merge:
        above = _nearest((wanted >= 0) & (wanted != wanted[above[parent]]), parent)
    kept = np.flatnonzero(above == np.arange(len(parent)))
    place = np.empty(len(parent), np.int32)
    place[kept] = np.arange(len(kept))
    new_parent, new_frames, number = _merge(np.append(np.int32(-1), place[above[parent[kept[1:]]]]), wanted[kept])
    return new_parent, new_frames, number[place[above]]


def _nearest(marks: Array, parent: Array) -> Array:
    """The nearest marked node at or above each node; else the root."""
    _check_parents(parent)
    above = np.where(marks, np.arange(len(parent)), parent)
    above[0] = 0
    while not np.array_equal(further := above[above], above):
        above = further
    return above


def _merge(parent: Array, frame: Array) -> tuple[Array, Array, Array]:
    """The tree with equal paths as one: (parents, frames, new node of each old one). Found by sorting: no hashes to meet."""
    levels = _levels(parent)
    if levels is None:
        number = np.array(_merge_one_by_one(parent, frame), np.int32)
        first = np.unique(number, return_index=True)[1]
    else:
        equal = np.zeros(len(parent), np.int64)  # the first node of the same path
        for level in levels:
            keys = equal[parent[level]] << 32 | frame[level]
            _, places, which = np.unique(keys, return_index=True, return_inverse=True)
            equal[level] = level[places[which]]
        first = np.flatnonzero(equal == np.arange(len(parent)))
        number = np.empty(len(parent), np.int32)
        number[first] = np.arange(len(first))
        number = number[equal]
    return np.append(np.int32(-1), number[parent[first[1:]]]), frame[first], number


def _merge_one_by_one(parent: Array, frame: Array) -> list[int]:
    """The new node of each old one. A dict looks at all 64 bits of its hashes: a file cannot make many pairs meet."""
    nodes: dict[tuple[int, int], int] = {}
    numbers = [0]
    for above, wanted in zip(parent[1:].tolist(), frame[1:].tolist(), strict=True):
        numbers.append(nodes.setdefault((numbers[above], wanted), len(nodes) + 1))
    return numbers


# the shape of a tree --------------------------------------------------------------------------------------------------


def _check_parents(parent: Array) -> None:
    if not ((parent[1:] >= 0) & (parent[1:] < np.arange(1, len(parent)))).all():
        raise ValueError("a node stands before its parent")


def _levels(parent: Array) -> list[Array] | None:
    """The nodes of each depth from 1 on, ascending; None for a tree that is deep rather than wide."""
    depth = depths(parent)
    counts = np.bincount(depth)
    if len(counts) * LEAST_WIDTH > len(parent):
        return None
    return np.split(np.argsort(depth, kind="stable"), np.cumsum(counts)[:-1])[1:]


def add_to_parents(parent: Array, weights: Array) -> None:
    """See ``kernels.add_to_parents``; the sums are those of the kernels to the last bit."""
    levels = _levels(parent)
    if levels is not None:
        for level in reversed(levels):
            np.add.at(weights, parent[level[::-1]], weights[level[::-1]])
        return
    above, sums = parent.tolist(), weights.tolist()
    for node in range(len(above) - 1, 0, -1):
        sums[above[node]] += sums[node]
    weights[:] = sums


def levels(above: Array, depth: Array, deepest: int) -> None:
    """See ``kernels.levels``, of all rows: level by level."""
    if len(above) and int(above.max()) >= len(above):
        raise ValueError(f"a row that is below one that is not among {len(above)}")
    if not (depth == 0).any():
        return
    depth[:] = -1
    order = np.flatnonzero(above >= 0)
    order = order[np.argsort(above[order], kind="stable")]
    begins = np.searchsorted(above[order], np.arange(len(above) + 1))
    rows, level = np.flatnonzero(above < 0), 0
    while len(rows):
        depth[rows] = level + 1
        level = (level + 1) % deepest
        lengths = begins[rows + 1] - begins[rows]
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows = order[np.repeat(begins[rows], lengths) + within]


def depths(parent: Array) -> Array:
    """See ``kernels.depths``."""
    return _add_from_root(parent, np.ones(len(parent), np.int32))


def _add_from_root(parent: Array, values: Array) -> Array:
    """The sum of the values from below the root to each node, in as many steps as the logarithm of the depth."""
    _check_parents(parent)
    sums, above = values.copy(), np.maximum(parent, 0)
    sums[0] = 0
    while above.any():
        sums += sums[above]
        above = above[above]
    return sums


def children(parent: Array) -> tuple[Array, Array]:
    """See ``kernels.children``."""
    _check_parents(parent)
    child, sibling = np.zeros(len(parent), np.int32), np.zeros(len(parent), np.int32)
    order = np.argsort(parent[1:], kind="stable") + 1
    same = parent[order[1:]] == parent[order[:-1]]
    sibling[order[:-1][same]] = order[1:][same]
    first = order[np.append(True, ~same)[: len(order)]]
    child[parent[first]] = first
    return child, sibling


def outermost(parent: Array, frame: Array) -> Array:
    """See ``kernels.outermost``: each node is a span of the nodes in depth-first order, and those of one frame that lie in
    another span of it are not marked.
    """
    sizes = np.ones(len(parent))
    add_to_parents(parent, sizes)
    order = np.argsort(parent[1:], kind="stable") + 1
    before = np.append(0, np.cumsum(sizes[order])).astype(np.int64)  # of nodes whose parent, or sibling, stands before
    offset = np.zeros(len(parent), np.int64)
    offset[order] = before[:-1] - before[np.searchsorted(parent[order], parent[order])] + 1
    begins = _add_from_root(parent, offset) + frame.astype(np.int64) * len(parent)  # frames apart from each other
    ends = begins + sizes.astype(np.int64)
    order = np.argsort(begins[1:]) + 1
    marks = np.zeros(len(parent), np.bool_)
    marks[order[:1]] = True
    marks[order[1:]] = begins[order[1:]] >= np.maximum.accumulate(ends[order])[:-1]
    return marks


def expand(parent: Array, frame: Array, nodes: Array, offsets: Array) -> Array:
    """See ``kernels.expand``."""
    frames = np.empty(int(offsets[-1]), np.int32)
    places, nodes = offsets[:-1][nodes > 0], nodes[nodes > 0]
    while len(nodes):
        frames[places] = frame[nodes]
        nodes = parent[nodes]
        places, nodes = places[nodes > 0] + 1, nodes[nodes > 0]
    return frames


def follow_exceptions(
    thread: Array,
    kind: Array,
    method: Array,
    frames: Array,
    owner: Array,
    partner: Array,
    within: Array,
    opened: Array,
) -> None:
    """See ``kernels.follow_exceptions``: what is open decides, so each event is looked at."""
    owner[:] = partner[:] = within[:] = -1
    stack: list[_Open] = []
    before = None
    columns = (column.tolist() for column in (thread, kind, method, frames))
    for i, (own, what, where, deep) in enumerate(zip(*columns, strict=True)):
        if own != before or what == _ALONE or len(stack) == len(opened):
            stack = []
        before = own
        last_filter = _last_filter(stack)
        while last_filter >= 0 and 0 < deep <= abs(stack[last_filter].frames) - (what == _FILTER_OVER):
            partner[stack[last_filter].filter] = i
            del stack[last_filter:]
            last_filter = _last_filter(stack)
        is_inside = last_filter >= 0 and 0 < stack[last_filter].frames < abs(deep)
        held = [place for place, one in enumerate(stack) if one.catch >= 0]
        if what == _FILTER_OVER and last_filter >= 0 and not is_inside:
            owner[i], partner[stack[last_filter].filter] = stack[last_filter].thrown, i
            del stack[last_filter:]
        elif what == _CATCH_OVER and held and held[-1] > last_filter:
            one = stack[held[-1]]
            owner[i], partner[one.catch] = one.thrown, i
            del stack[held[-1] :]
        elif (
            what in (_CAUGHT, _FILTER)
            and last_filter >= 0
            and not is_inside
            and 0 <= where == stack[last_filter].method
        ):
            partner[stack[last_filter].filter] = i
            del stack[last_filter:]
        is_strange = is_inside and last_filter == len(stack) - 1
        if is_strange and what in (_CAUGHT, _FINALLY):
            continue
        if what == _CAUGHT:
            while stack and stack[-1].filter >= 0:
                stack.pop()
            if stack:
                owner[i] = stack[-1].thrown
                if stack[-1].catch < 0:
                    partner[owner[i]] = i
                stack[-1].catch = i
        elif what in (_FINALLY, _FILTER):
            owner[i] = stack[-1].thrown if stack and not is_strange else -1
        last_filter = _last_filter(stack)
        if what in (_CAUGHT, _FINALLY, _FILTER) and 0 <= last_filter < len(stack) - 1 and not is_inside:
            within[i] = stack[last_filter].filter
        if what == _FILTER:
            stack.append(_Open(int(owner[i]), where, filter=i, frames=deep))
        elif what in (_THROWN, _ALONE):
            owner[i] = i
            stack.append(_Open(i, where))
    for row, one in zip(opened, stack, strict=False):
        state = _FILTERED if one.filter >= 0 else _RISEN if one.catch < 0 else _HELD
        row[:4] = one.thrown, state, one.method, max(one.catch, one.filter)


_THROWN, _ALONE, _CAUGHT, _CATCH_OVER, _FILTER, _FILTER_OVER, _FINALLY = range(7)
_RISEN, _HELD, _FILTERED = range(3)


class _Open:
    """An exception, or a filter, that is not over yet: the catch that has it, or the event of the filter, -1 for none."""

    def __init__(self, thrown: int, method: int, *, filter: int = -1, frames: int = 0) -> None:
        self.thrown, self.method, self.filter, self.frames = thrown, method, filter, frames
        self.catch = -1


def _last_filter(stack: list[_Open]) -> int:
    return max((place for place, one in enumerate(stack) if one.filter >= 0), default=-1)


def rank(items: Array, ranks: Array, run: int, event: int, first: int, out: Array, at: int) -> None:
    """See ``kernels.rank``."""
    runs, places = items[1] >> 32, items[1] & 0xFFFFFFFF
    ranked = np.append(0, ranks)[np.where(runs > 0, runs - run, 0)]
    here = slice(at, at + items.shape[1])
    out[:, here] = items
    out[1, here] = (ranked << 40) + first + places - event


def rank_between(
    items: Array,
    together: Array,  # noqa: ARG001 - it adds up again
    skipped: int,  # noqa: ARG001 - the same
    ranks: Array,
    run: int,
    event: int,
    first: int,
    marks: Array,
    until: int,
    sums: Array,
    out: Array,
    at: int,
) -> int:
    """See ``kernels.rank_between``."""
    rank(items, ranks, run, event, first, out, at)
    made = out[:, at : at + items.shape[1]]
    return add_between(made, made.shape[1], marks, until, sums)


def add_between(amounts: Array, count: int, marks: Array, until: int, sums: Array) -> int:
    """See ``kernels.add_between``."""
    some = amounts[:, :count]
    early, marked = np.flatnonzero(some[0] < until), len(marks[0])
    order = np.lexsort([np.concatenate([marks[row], some[row, early]]) for row in (1, 0)])
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(order < marked)
    np.add.at(sums, before[marked:], some[2, early])
    left = some[:, some[0] >= until]
    amounts[:, : left.shape[1]] = left
    return int(left.shape[1])
