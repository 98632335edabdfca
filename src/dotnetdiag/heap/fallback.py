"""What ``_kernels.pyx`` does, by numpy: slower, and the same to the last number."""

from __future__ import annotations

from collections.abc import Iterator
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


_CHUNK = 1 << 18


def steps(address: Array, bounds: Array, values: Array) -> Array:
    """By a search for each address."""
    found = np.empty(len(address), np.int8)
    for first in range(0, len(address), _CHUNK):
        at = np.searchsorted(bounds, address[first : first + _CHUNK], side="right")
        found[first : first + _CHUNK] = values[at]
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


_BINCOUNT_ROWS = 1 << 20


def sums(which: Array, sizes: Array, count: int) -> tuple[Array, Array]:
    """By ``bincount``, some rows at a time."""
    number, size = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    for first in range(0, len(which), _BINCOUNT_ROWS):
        groups, values = which[first : first + _BINCOUNT_ROWS], sizes[first : first + _BINCOUNT_ROWS]
        number += np.bincount(groups, minlength=count)
        if values.dtype.itemsize <= 4:  # sums of so few 32-bit numbers are exact in a double
            size += np.bincount(groups, values, minlength=count).astype(np.uint64)
        else:
            np.add.at(size, groups, values)
    return number, size


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


# records of nodes -----------------------------------------------------------------------------------------------------

_LONGEST, _LARGEST = 5, 0x7FFFFFFF


def _number(data: bytes, position: int) -> tuple[int, int]:
    """(the number, where it ends), -1 where there is none."""
    if position >= len(data):
        return 0, -1
    byte = data[position]
    value = (byte & 0x7F) - (0x80 if byte & 0x40 else 0)
    last = position + _LONGEST
    position += 1
    while byte & 0x80:
        if position >= min(len(data), last):
            return 0, -1
        byte = data[position]
        position += 1
        value = value << 7 | (byte & 0x7F)
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000, position


def read_nodes(
    blob: Array, offsets: Array, type_sizes: Array, types: Array, sizes: Array, starts: Array, targets: Array
) -> tuple[int, int, int, int]:
    """Record by record."""
    data, known, nodes, room = blob.tobytes(), type_sizes.tolist(), len(offsets), len(targets)
    wrong = astray = used = 0
    references: list[int] = []
    types[:], sizes[:], starts[0] = 0, 0, 0
    for node, offset in enumerate(offsets.tolist()):
        kind, position = _number(data, offset) if offset else (0, 0)
        if offset and (position < 0 or kind < 0 or kind >> 1 >= len(known)):
            wrong += 1
        elif offset:
            size, count = max(known[kind >> 1], 0), 0
            if kind & 1:
                size, position = _number(data, position)
            if position >= 0:
                count, position = _number(data, position)
            if position < 0 or size < 0 or not 0 <= count <= min(len(data) - position, room - len(references)):
                wrong += 1
            else:
                types[node], sizes[node] = kind >> 1, size
                lost, position = _references(data, position, count, node, nodes, references)
                astray += lost
                used += position - offset
        starts[node + 1] = len(references)
    targets[: len(references)] = references
    return len(references), wrong, astray, used


def _references(
    data: bytes, position: int, count: int, node: int, nodes: int, references: list[int]
) -> tuple[int, int]:
    """Append those that can be read; (how many cannot, where they end)."""
    astray = 0
    for left in range(count, 0, -1):
        distance, position = _number(data, position)
        if position < 0:
            return astray + left, len(data)
        if 0 <= node + distance < nodes:
            references.append(node + distance)
        else:
            astray += 1
    return astray, position


def _number_size(value: int) -> int:
    value = ~value if value < 0 else value
    return next(size for size in range(1, _LONGEST + 1) if value < 1 << (7 * size - 1) or size == _LONGEST)


def _packed(value: int) -> list[int]:
    size = _number_size(value)
    return [value >> (7 * place) & 0x7F | (0x80 if place else 0) for place in range(size - 1, -1, -1)]


def _records(
    first: int, types: Array, sizes: Array, type_sizes: Array, starts: Array, targets: Array
) -> Iterator[list[int]]:
    """The numbers of each record; none for a node of which nothing is known."""
    for node, (kind, size) in enumerate(zip(types.tolist(), np.minimum(sizes, _LARGEST).tolist(), strict=True)):
        children = targets[int(starts[first + node]) : int(starts[first + node + 1])].tolist()
        if not kind and not size and not children:
            yield []
            continue
        if type_sizes[kind] < 0:
            type_sizes[kind] = size
        own = bool(type_sizes[kind] != size)
        yield [
            2 * kind + own,
            *([size] if own else []),
            len(children),
            *(child - (first + node) for child in children),
        ]


def first_sizes(types: Array, sizes: Array, type_sizes: Array) -> None:
    kinds, first = np.unique(types, return_index=True)
    new = [(kind, row) for kind, row in zip(kinds.tolist(), first.tolist(), strict=True) if kind < len(type_sizes)]
    for kind, row in new:
        if type_sizes[kind] < 0:
            type_sizes[kind] = min(int(sizes[row]), (1 << 31) - 1)


def measure_nodes(
    first: int, types: Array, sizes: Array, type_sizes: Array, starts: Array, targets: Array, place: int, offsets: Array
) -> int:
    for node, record in enumerate(_records(first, types, sizes, type_sizes, starts, targets)):
        offsets[node] = place if record else 0
        place += sum(map(_number_size, record))
    return place


def write_nodes(
    first: int, types: Array, sizes: Array, type_sizes: Array, starts: Array, targets: Array, out: Array
) -> int:
    packed = bytes(
        byte
        for record in _records(first, types, sizes, type_sizes, starts, targets)
        for number in record
        for byte in _packed(number)
    )
    out[: len(packed)] = np.frombuffer(packed, np.uint8)
    return len(packed)


# ways of types --------------------------------------------------------------------------------------------------------


def group_ways(order: Array, parent: Array, types: Array, most_steps: int, way: Array) -> tuple[list[int], list[int]]:
    """(of each way the one before, plus 1, in the high half, and the type; how many steps it has)."""
    known: dict[int, int] = {}
    steps: list[int] = []
    above, kinds, found = parent.tolist(), types.tolist(), way.tolist()
    type_of: list[int] = []
    for node in order.tolist():
        kind, step, value = kinds[node], 0, kinds[node]
        if above[node] != NONE:
            before = found[above[node]]
            if before == NONE:
                continue
            if type_of[before] == kind:
                found[node] = before
                continue
            step, value = steps[before] + 1, value | (before + 1) << 32
        if step > most_steps:
            continue
        found[node] = known.setdefault(value, len(known))
        if found[node] == len(steps):
            steps.append(step)
            type_of.append(kind)
    way[:] = found
    return list(known), steps


def mark_below(order: Array, parent: Array, marks: Array) -> None:
    """In the order given."""
    above, found = parent.tolist(), marks.tolist()
    for node in order.tolist():
        if above[node] != NONE and found[above[node]]:
            found[node] = 1
    marks[:] = found
