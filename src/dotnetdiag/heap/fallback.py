"""What ``_kernels.pyx`` does, by numpy: slower, and the same to the last number."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

NONE = 0xFFFFFFFF


def intern(values: Array, known: dict[int, int]) -> Array:
    """Numbers of the values, in the order in which they are first seen; new ones come into ``known``."""
    distinct, firsts, which = np.unique(values, return_index=True, return_inverse=True)
    codes = np.empty(len(distinct), np.uint32)
    order = np.argsort(firsts, kind="stable")
    for place, value in zip(order.tolist(), distinct[order].tolist(), strict=True):
        codes[place] = known.setdefault(value, len(known))
    return codes[which.reshape(-1)]


def find(wanted: Array, address: Array, order: Array) -> Array:
    """The row of each wanted address, or ``NONE``; ``order`` sorts the addresses."""
    found = np.full(len(wanted), NONE, np.uint32)
    if len(address):
        at = np.searchsorted(address, wanted, sorter=order)
        row = order[np.minimum(at, len(order) - 1)]
        there = address[row] == wanted
        found[there] = row[there]
    return found


# graphs ---------------------------------------------------------------------------------------------------------------


def _children(starts: Array, targets: Array) -> tuple[list[int], list[int]]:
    return np.clip(starts.astype(np.int64), 0, len(targets)).tolist(), targets.tolist()


def dominators(starts: Array, targets: Array, root: int, sizes: Array) -> tuple[Array, Array]:
    """By Cooper, Harvey and Kennedy: the common dominator of all that refer to a node, until nothing changes."""
    n = len(sizes)
    bounds, children = _children(starts, targets)
    number, order, parent = [-1] * n, [root], [0] * n
    cursor = bounds[:-1]
    number[root], current = 0, root
    finished: list[int] = []
    while True:
        while cursor[current] < bounds[current + 1]:
            child = children[cursor[current]]
            cursor[current] += 1
            if child < n and number[child] < 0:
                number[child], parent[child] = len(order), current
                order.append(child)
                current = child
                break
        else:
            finished.append(current)
            if current == root:
                break
            current = parent[current]
    rank = {node: place for place, node in enumerate(finished)}  # the root has the highest
    before: dict[int, list[int]] = {}
    for node in order:
        for child in children[bounds[node] : bounds[node + 1]]:
            if child < n:
                before.setdefault(child, []).append(node)
    dominator = {root: root}
    changed = True
    while changed:
        changed = False
        for node in finished[-2::-1]:
            found = -1
            for other in before[node]:
                if other in dominator:
                    found = other if found < 0 else _common(dominator, rank, found, other)
            if dominator.get(node) != found:
                dominator[node], changed = found, True
    retained = sizes.astype(np.uint64)
    by_node = np.full(n, -1, np.int32)
    # what is dominated was reached behind its dominator
    for node in order[:0:-1]:
        by_node[node] = dominator[node]
        retained[dominator[node]] += retained[node]
    return by_node, retained


def _common(dominator: dict[int, int], rank: dict[int, int], one: int, other: int) -> int:
    while one != other:
        while rank[one] < rank[other]:
            one = dominator[one]
        while rank[other] < rank[one]:
            other = dominator[other]
    return one


def retained_by_type(dominator: Array, types: Array, retained: Array, kinds: int) -> Array:
    """A walk in depth that knows of which types it is inside."""
    below: dict[int, list[int]] = {}
    kind_of, above, sizes = types.tolist(), dominator.tolist(), retained.tolist()
    for node, over in enumerate(above):
        below.setdefault(over, []).append(node)
    totals, opened = [0] * kinds, [0] * kinds
    waiting = [(node, False) for node in below.get(-1, [])]
    while waiting:
        node, is_left = waiting.pop()
        kind = kind_of[node]
        if is_left:
            opened[kind] -= 1
            continue
        if not opened[kind]:
            totals[kind] += sizes[node]
        opened[kind] += 1
        waiting.append((node, True))
        waiting += [(child, False) for child in below.get(node, ())]
    return np.array(totals, np.uint64)


def breadth_first(starts: Array, targets: Array, root: int) -> tuple[Array, Array]:
    """Level by level."""
    n = len(starts) - 1
    bounds, children = _children(starts, targets)
    order, parent = [root], np.full(n, NONE, np.uint32)
    seen = bytearray(n)
    seen[root] = 1
    for node in order:  # grows
        for child in children[bounds[node] : bounds[node + 1]]:
            if child < n and not seen[child]:
                seen[child] = 1
                parent[child] = node
                order.append(child)
    return np.array(order, np.uint32), parent
