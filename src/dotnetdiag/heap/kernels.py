"""The loops over objects and references, compiled or by numpy, with arrays in and arrays out.

Addresses and ids are u64, nodes u32 (:data:`NONE`: none).
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.heap import fallback
from dotnetdiag.heap.compiled import compiled
from dotnetdiag.heap.scratch import empty
from dotnetdiag.heap.sharing import Shared, by_oneself

Array: TypeAlias = "np.ndarray[Any, Any]"


KERNELS: ModuleType | None = compiled()
"""The compiled loops; None where there are none, and numpy does all."""
COMPILED = KERNELS is not None

NONE = fallback.NONE
_KEY = int.from_bytes(os.urandom(8), "little") | 1
"""Of the hash of ids: nobody can write a file whose ids meet."""
_LEAST_IDS = 1 << 10


Window: TypeAlias = tuple[Array, Array, Array, Array, bool]
"""Bytes, where the payload of each event begins (i64) and how long it is (i64), its kind (u8: 1 objects, 2 references, 0 what is to be passed
over), whether pointers have 8 bytes.
"""


class Interner:
    """Numbers u64 values in the order in which they are first seen, block after block."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._ids: Array = np.empty(_LEAST_IDS, np.uint64)
        self._slots: Array = np.full(4 * _LEAST_IDS, -1, np.int32)
        self._count = 0

    def codes(self, values: Array) -> Array:
        """The number of each value, u32."""
        if KERNELS is None:
            return fallback.intern(values, self._known)
        values = np.ascontiguousarray(values, np.uint64)
        codes = np.empty(len(values), np.uint32)
        done = 0
        while True:
            done, self._count = KERNELS.intern(values, done, self._slots, self._ids, self._count, _KEY, codes)
            if done == len(values):
                return codes
            self._grow()

    def take_nodes(
        self, rows: Array, told: int, address: Array, sizes: Array, codes: Array, ends: Array
    ) -> tuple[int, int]:
        """Columns of rows of GC/BulkNode, of which ``told`` references came before; ``codes`` are the numbers of their types. (how many rows were
        taken, how many references are told of then): fewer than all before one whose numbers do not fit into the columns of 32 bits, and
        none where nothing is compiled.
        """
        done = 0
        if KERNELS is None:
            return done, told
        is_wide, flat = rows.dtype["address"].itemsize == 8, rows.view(np.uint8)
        while True:
            done, told, self._count = KERNELS.take_nodes(
                flat, is_wide, done, told, address, sizes, codes, ends, self._slots, self._ids, self._count, _KEY
            )
            if done == len(rows) or self._count < len(self._ids):
                return done, told
            self._grow()

    def take_blocks(
        self, window: Window, done: int, states: Array, told: int, *columns: Array
    ) -> tuple[int, int, int, int]:
        """Blocks of objects and of references from an event of a window on, into ``address``, ``sizes``, ``codes``, ``ends`` and ``targets``;
        ``states`` are four numbers of each stream. (the first event that was not taken, objects, references, ``told`` then).
        """
        assert KERNELS is not None
        data, offsets, lengths, kinds, is_wide = window
        *taken, self._count = KERNELS.take_blocks(
            data,
            offsets,
            lengths,
            kinds,
            is_wide,
            done,
            states,
            told,
            *columns,
            self._slots,
            self._ids,
            self._count,
            _KEY,
        )
        return taken[0], taken[1], taken[2], taken[3]

    def _grow(self) -> None:
        assert KERNELS is not None
        ids = self._ids[: self._count]
        self._ids = np.empty(2 * len(self._ids), np.uint64)
        self._slots = np.full(2 * len(self._slots), -1, np.int32)
        again = np.empty(len(ids), np.uint32)
        KERNELS.intern(ids.copy(), 0, self._slots, self._ids, 0, _KEY, again)

    @property
    def values(self) -> list[int]:
        """The values by their numbers."""
        return list(self._known) if KERNELS is None else self._ids[: self._count].tolist()


def take_targets(rows: Array, targets: Array) -> None:
    """The addresses that rows of GC/BulkEdge lead to, u64."""
    if KERNELS is None:
        targets[:] = rows["target"]
    else:
        KERNELS.take_targets(rows.view(np.uint8), rows.dtype["target"].itemsize == 8, targets)


def steps(address: Array, bounds: Array, values: Array) -> Array:
    """Of each address the value (i8) between the two bounds that it lies between; ``values`` has one more than bounds, which ascend."""
    if KERNELS is None:
        return fallback.steps(address, bounds, values)
    found = np.empty(len(address), np.int8)
    KERNELS.steps(np.ascontiguousarray(address, np.uint64), bounds, values, found)
    return found


_FIRST_SHIFT, _LAST_SHIFT = 7, 63
_GAPS = (1 << 63, 1 << 20, 1 << 16, 1 << 12)
"""What ends a run, tried one after the other: a lower address, or so many bytes left out."""
_CHUNK = 1 << 18
_RUN_ROWS = 64
"""Of runs shorter than this on average the addresses are sorted instead."""
_MOST_SHARED = 64
"""Runs that are given out one by one."""


def _breaks(address: Array, gap: int, shared: Shared) -> Array | None:
    """Where an address is not higher than the one before, or so much higher; None of more than a table is worth."""
    assert KERNELS is not None
    compiled, most = KERNELS, 1024 + len(address) // _RUN_ROWS

    def find(first: int) -> tuple[Array, int]:
        some = address[first : first + _CHUNK + 1]
        found = np.empty(min(most, len(some)), np.int64)
        return found, compiled.breaks(some, gap, found)

    parts, count = [np.zeros(0, np.int64)], 0
    for first, (found, own) in shared(range(0, max(len(address) - 1, 0), _CHUNK), find):
        count += own
        if count > most:
            return None
        parts.append(found[:own] + first)
    return np.concatenate(parts)


def recode(codes: Array, table: Array) -> None:
    """Put what a table has for each code (u32) in its place."""
    if KERNELS is None:
        for first in range(0, len(codes), _CHUNK):
            codes[first : first + _CHUNK] = table[codes[first : first + _CHUNK]]
    else:
        KERNELS.recode(codes, table)


class AddressIndex:
    """Finds rows by address. The runtime tells of objects in runs of ascending addresses, one for each region of its heap: where they do not
    overlap, a table of every few objects' places is enough; else the addresses are sorted.

    ``address`` must not change as long as the index is in use. ``duplicates`` counts addresses that an earlier row has too.
    """

    def __init__(self, address: Array, shared: Shared = by_oneself) -> None:
        self._address = address
        self._runs: tuple[Array, Array, Array, int, Array] | None = None
        self._order: Array | None = None
        self.duplicates = 0
        if KERNELS is None or not self._by_runs(shared):
            self._order = np.argsort(address, kind="stable")
            ordered = address[self._order]
            self.duplicates = int((ordered[1:] == ordered[:-1]).sum())

    def _by_runs(self, shared: Shared) -> bool:
        """Regions of different ages lie between each other: a run ends where so many bytes are left out. A look at all addresses finds the ends for
        any number of them: it is 3 ms for two million.
        """
        if not len(self._address):
            return True
        ends = _breaks(self._address, _GAPS[-1], shared)
        left_out = None if ends is None else self._address[ends] - self._address[ends - 1] - np.uint64(1)
        for gap in _GAPS:
            if ends is None or left_out is None:
                breaks = _breaks(self._address, gap, shared)
            else:
                breaks = ends[left_out >= np.uint64(gap)]
            if breaks is not None and self._by_runs_with(breaks, shared):
                return True
        return False

    def _by_runs_with(self, breaks: Array, shared: Shared) -> bool:
        address = self._address
        first = np.concatenate([[0], breaks]).astype(np.int64)
        last = np.append(breaks, len(address)).astype(np.int64)
        order = np.argsort(address[first], kind="stable")
        first, last = first[order], last[order]
        if (address[first[1:]] <= address[last[:-1] - 1]).any():
            return False
        shift, spans = _FIRST_SHIFT, address[last - 1] - address[first]
        while int((spans >> np.uint64(shift)).sum()) > len(address) // 4 + 1024 and shift < _LAST_SHIFT:
            shift += 1
        bucket_at = np.concatenate([[0], np.cumsum((spans >> np.uint64(shift)).astype(np.int64) + 1)]).astype(np.int64)
        buckets = np.empty(int(bucket_at[-1]), np.uint32)
        assert KERNELS is not None
        fill_buckets = KERNELS.fill_buckets

        def fill(run: int) -> None:
            only = slice(run, run + 1)
            fill_buckets(address, first[only], last[only], bucket_at[run : run + 2], shift, buckets)

        if len(first) <= _MOST_SHARED:
            for _ in shared(range(len(first)), fill):
                pass
        else:
            fill_buckets(address, first, last, bucket_at, shift, buckets)
        self._runs = first, last, bucket_at, shift, buckets
        return True

    def find(self, wanted: Array) -> Array:
        """The row of each address, u32; :data:`NONE` where there is none."""
        wanted = np.ascontiguousarray(wanted, np.uint64)
        if not len(self._address):
            return np.full(len(wanted), NONE, np.uint32)
        if self._runs is None:
            assert self._order is not None
            return fallback.find(wanted, self._address, self._order)
        first, last, bucket_at, shift, buckets = self._runs
        assert KERNELS is not None
        found = np.empty(len(wanted), np.uint32)
        KERNELS.find(wanted, self._address, first, last, bucket_at, shift, buckets, found)
        return found


# graphs ---------------------------------------------------------------------------------------------------------------


def dominators(starts: Array, targets: Array, root: int, sizes: Array) -> tuple[Array, Array]:
    """(the immediate dominator of each node, i32, -1 of the root and of what is not reached; what each node keeps alive, u64: itself and all
    that it dominates; what is not reached keeps itself).
    """
    n = len(sizes)
    if KERNELS is None:
        return fallback.dominators(starts, targets, root, sizes)
    order, number, parent = (empty(n, np.uint32) for _ in range(3))
    cursor = empty(n, starts.dtype)
    sources, reached = (
        empty(len(targets), np.uint32),
        empty(len(targets), np.uint32),
    )  # few of them are written to
    count, others = KERNELS.depth_first(starts, targets, root, order, number, parent, cursor, sources, reached)
    first, before = empty(count + 2, np.uint32), empty(others, np.uint32)
    KERNELS.predecessors(sources[:others], reached[:others], first, before)
    del sources, reached
    semi = cursor if cursor.dtype == np.uint32 else empty(count, np.uint32)
    label, dominator = empty(count, np.uint32), empty(count, np.uint32)
    KERNELS.semi_nca(count, parent, first, before, semi, label, number, dominator)
    del semi, cursor, label, number, first, before, parent
    by_node, retained, by_number = empty(n, np.int32), empty(n, np.uint64), empty(count, np.uint64)
    KERNELS.add_up(count, order, dominator, sizes, by_number, by_node, retained)
    return by_node, retained


def sums(which: Array, sizes: Array, count: int) -> tuple[Array, Array]:
    """(how many, u64 bytes) of each of ``count`` groups; ``which`` is the group of each node. Exact, and in bounded memory beside it."""
    if KERNELS is None:
        return fallback.sums(which, sizes, count)
    counts, totals = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    KERNELS.add_by_group(np.ascontiguousarray(which, np.uint32), np.ascontiguousarray(sizes), counts, totals)
    return counts, totals


def retained_by_type(dominator: Array, types: Array, retained: Array, kinds: int) -> Array:
    """What the nodes of each type keep alive together, u64: a node that another of its type dominates adds nothing."""
    if KERNELS is None:
        return fallback.retained_by_type(dominator, types, retained, kinds)
    child, sibling = np.empty(len(types), np.uint32), np.empty(len(types), np.uint32)
    opened, totals = np.empty(kinds, np.uint32), np.empty(kinds, np.uint64)
    KERNELS.retained_by_type(dominator, types, retained, child, sibling, opened, totals)
    return totals


def breadth_first(starts: Array, targets: Array, root: int) -> tuple[Array, Array]:
    """(what is reached from the root, nearest first; of each node that from which it was reached first, :data:`NONE` of the root and what is
    not reached).
    """
    n = len(starts) - 1
    if KERNELS is None:
        return fallback.breadth_first(starts, targets, root)
    order, parent = np.empty(n, np.uint32), np.empty(n, np.uint32)
    count = KERNELS.breadth_first(starts, targets, root, order, parent)
    return order[:count], parent


def reference_places(starts: Array, nodes: Array) -> tuple[Array, Array]:
    """(the node, the place among all references) of each reference of some nodes."""
    first = starts[nodes].astype(np.int64)
    counts = starts[nodes + 1].astype(np.int64) - first
    behind = np.cumsum(counts)
    places = np.arange(int(counts.sum()), dtype=np.int64) + np.repeat(first - (behind - counts), counts)
    return np.repeat(nodes, counts), places


# records of nodes -----------------------------------------------------------------------------------------------------


def read_nodes(blob: Array, offsets: Array, type_sizes: Array) -> tuple[Array, Array, Array, Array, int, int, int]:
    """(type, size, first reference, references by node; how many nodes are no records, how many references lead nowhere, bytes of records) of a
    ``.gcdump``. A node that is no record is of type 0; a reference that leads nowhere is left out.
    """
    n = len(offsets)
    types, sizes, starts = np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n + 1, np.uint32)
    # records do not overlap, and have two bytes beside their references, of a byte at least
    room = max(len(blob) - 2 * int(np.count_nonzero(offsets)), 0)
    targets = np.empty(room, np.uint32)  # as much as is written to takes memory
    loops = fallback if KERNELS is None else KERNELS
    total, wrong, astray, used = loops.read_nodes(blob, offsets, type_sizes, types, sizes, starts, targets)
    targets.resize(total, refcheck=False)
    return types, sizes, starts, targets, wrong, astray, used


def first_sizes(types: Array, sizes: Array, type_sizes: Array) -> None:
    """The size of the first node of each type into ``type_sizes`` (i32), where it is -1; of those above 2^31 - 1 that."""
    (fallback if KERNELS is None else KERNELS).first_sizes(types, sizes, type_sizes)


def measure_nodes(
    first: int, types: Array, sizes: Array, type_sizes: Array, starts: Array, targets: Array, place: int
) -> tuple[Array, int]:
    """(where in the blob the record of each node begins, 0 of those of which nothing is known; where the last one ends)."""
    offsets = np.empty(len(types), np.uint32)
    loops = fallback if KERNELS is None else KERNELS
    return offsets, loops.measure_nodes(first, types, sizes, type_sizes, starts, targets, place, offsets)


_SPARE_BYTES = 16


def write_nodes(
    first: int, types: Array, sizes: Array, type_sizes: Array, starts: Array, targets: Array, size: int
) -> Array:
    """The records of some nodes, which take ``size`` bytes."""
    out = np.empty(size + _SPARE_BYTES, np.uint8)
    loops = fallback if KERNELS is None else KERNELS
    written = loops.write_nodes(first, types, sizes, type_sizes, starts, targets, out)
    assert written == size
    return out[:size]


# ways of types --------------------------------------------------------------------------------------------------------

_LEAST_WAYS = 1 << 12
_ENDLESS = 1 << 40


class Ways:
    """The ways of types on which nodes are reached from the root; steps to the same type again are none, so that a list is one step.

    ``of_node`` is the way of each node, :data:`NONE` where it has more steps than ``most_steps`` or is not reached. ``before`` and ``type`` are
    by way: that without the last step (-1: there is none), and the type of the last step; ``steps`` is how many it has.
    """

    def __init__(self, order: Array, parent: Array, types: Array, *, most_steps: int = _ENDLESS) -> None:
        self.of_node = np.full(len(parent), NONE, np.uint32)
        parent = parent.view(np.uint32)
        if KERNELS is None:
            found, counted = fallback.group_ways(order, parent, types, most_steps, self.of_node)
            ways, self.steps = np.array(found, np.uint64), np.array(counted, np.uint32)
        else:
            ways, self.steps = self._compiled(order, parent, types, most_steps)
        self.before = (ways >> np.uint64(32)).astype(np.int64) - 1
        self.type = ways.astype(np.uint32)

    def _compiled(self, order: Array, parent: Array, types: Array, most_steps: int) -> tuple[Array, Array]:
        assert KERNELS is not None
        room, done, count = _LEAST_WAYS, 0, 0
        ways, steps = np.empty(room, np.uint64), np.empty(room, np.uint32)
        slots = np.full(4 * room, -1, np.int32)
        while True:
            done, count = KERNELS.group_ways(
                order, done, parent, types, most_steps, slots, ways, steps, count, _KEY, self.of_node
            )
            if done == len(order):
                return ways[:count], steps[:count]
            room *= 2
            ways.resize(room, refcheck=False)
            steps.resize(room, refcheck=False)
            slots = np.full(4 * room, -1, np.int32)
            KERNELS.intern(ways[:count].copy(), 0, slots, ways.copy(), 0, _KEY, np.empty(count, np.uint32))

    def __len__(self) -> int:
        return len(self.steps)

    def types_of(self, way: int, most: int) -> list[int]:
        """The types of a way, from the root on, -1 in the place of those between where it has more than ``most``."""
        steps: list[int] = []
        total = int(self.steps[way]) + 1
        half = most // 2
        place = total
        while way >= 0:
            place -= 1
            if total <= most or place >= total - half or place < half:
                steps.append(int(self.type[way]))
            elif steps[-1] >= 0:
                steps.append(-1)
            way = int(self.before[way])
        return steps[::-1]


def mark_below(order: Array, parent: Array, marks: Array) -> None:
    """Mark (u8) what is reached by way of what is marked; ``order`` has a node behind its parent."""
    loops = fallback if KERNELS is None else KERNELS
    loops.mark_below(order, parent, marks)
