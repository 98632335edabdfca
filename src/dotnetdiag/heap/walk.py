"""What the runtime tells of one walk over its heap, as it comes: objects, references and roots in compact columns.

Objects and references are two streams. Each object has the next so many references: nothing else joins them, so where a block of either is
missing, what follows it belongs to nothing that is known, and is cut off (gcdump.md §7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.events import Column
from dotnetdiag.heap import kernels
from dotnetdiag.heap.bulk_events import (
    DEPENDENT,
    EDGES,
    GC_STOP,
    HEAP_STATS,
    INDEXED,
    NODES,
    RESTARTED,
    ROOTS,
    SUSPENDING,
    layout,
)
from dotnetdiag.heap.facts import MOST_BYTES, Segment
from dotnetdiag.heap.growing import Growing
from dotnetdiag.heap.kernels import NONE, AddressIndex, Interner, Window, take_targets
from dotnetdiag.heap.moments import Moment, Moments
from dotnetdiag.heap.sharing import Shared, by_oneself
from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_NODES = (1 << 31) - 1024
"""Numbers of objects are 31 bits, in files too."""
_CHUNK = 1 << 17
_READY_ROWS = 1 << 19
"""Of a piece of memory that is had at hand: 2 or 4 MB of each column, the size of large pages."""
_MOST_REFERENCES = 1 << 32
"""Of one object; no sum of so many of so many objects is too large for 64 bits."""
KINDS = {1: NODES, 2: EDGES}
"""Those of :meth:`Walk.take_blocks`, which a compiled loop takes."""
OTHER_KIND = 255
BLOCK_NAMES = {
    ROOTS: "GC/BulkRootEdge",
    DEPENDENT: "GC/BulkRootConditionalWeakTableElementEdge",
    NODES: "GC/BulkNode",
    EDGES: "GC/BulkEdge",
}


@dataclass(slots=True)
class _Blocks:
    """The numbered blocks of one event: the next number, and the rows of the first and of the last."""

    expected: int = 0
    full: int = -1
    last: int = -1
    uneven: int = 0
    missing: list[tuple[int, int]] = field(default_factory=list)

    def take(self, index: int, rows: int) -> None:
        if index != self.expected and len(self.missing) < 4:
            self.missing.append((self.expected, index))
        if self.last >= 0 and self.last != self.full:
            self.uneven += 1
        self.full = rows if self.full < 0 else self.full
        self.last, self.expected = rows, index + 1


class BlockRuns:
    """Of the events of a window: up to where blocks are of one walk, as far as their numbers tell, and how many rows they may have. What a walk
    has room for follows the blocks that may be its own, and not all that come.
    """

    def __init__(self, window: Window) -> None:
        data, offsets, lengths, kinds, is_wide = window
        is_block = (kinds != 0) & (kinds != OTHER_KIND) & (lengths >= 4) & (offsets >= 0) & (offsets <= len(data) - 4)
        blocks = np.flatnonzero(is_block)
        at, is_first = offsets[blocks], np.ones(len(blocks), np.bool_)
        for byte in range(4):
            is_first &= data[at + byte] == 0
        self._stops = distinct(np.append(blocks[is_first], np.flatnonzero(kinds == OTHER_KIND)))
        self._rows = [
            np.cumsum(np.where(kinds == kind, lengths // layout(number, 8 if is_wide else 4).itemsize, 0))
            for kind, number in KINDS.items()
        ]

    def end(self, at: int, limit: int) -> int:
        """The next event behind one that may be of another walk, or is no block."""
        found = int(np.searchsorted(self._stops, at, side="right"))
        return min(int(self._stops[found]), limit) if found < len(self._stops) else limit

    def most(self, at: int, end: int) -> tuple[int, int]:
        """How many rows the blocks from one event to before another may have: of objects, of references."""
        objects, references = (int(rows[end - 1] - (rows[at - 1] if at else 0)) for rows in self._rows)
        return objects, references


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A static variable, or a COM object, that holds an object."""

    address: int
    type_id: int
    flags: int
    root_id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Of a walk whose ``target`` has rows in the place of addresses: how many references it has, where each address is, and those that are
    nowhere.
    """

    edges: int
    index: AddressIndex
    lost: Array


class Walk:
    """One dump while it comes. ``number`` is that of the collection, None as long as its begin was not seen; ``start``, ``first`` and ``end`` are
    when the collection began, the first block came and the collection ended, in ticks of the recording's clock.
    """

    def __init__(self, pointer_size: int) -> None:
        self.pointer_size = pointer_size
        self.number: int | None = None
        self.start: int | None = None
        self.first: int | None = None
        self.end: int | None = None
        self.begun: Moment | None = None
        """The earliest that is known of it."""
        self.thread: int | None = None
        self.end_thread: int | None = None
        self.started_ns: int | None = None
        self.suspended: Moment | None = None
        self.restarted: Moment | None = None
        self.heap_bytes: int | None = None
        self.address, self.size, self.type_code = Growing(np.uint64), Growing(np.uint32), Growing(np.uint32)
        self.target = Growing(np.uint32)  # two for each address, whose place a row takes later
        self._has_edges = self._has_statics = False
        self.root_object, self.root_kind = Growing(np.uint64), Growing(np.uint8)
        self.root_flags, self.root_id = Growing(np.uint32), Growing(np.uint64)
        self.dependent_key, self.dependent_object = Growing(np.uint64), Growing(np.uint64)
        self.statics: list[Root] = []
        self.ccws: list[Root] = []
        self.rcws: dict[int, int] = {}
        self._ranges: list[tuple[int, Segment]] = []
        self.blocks = {number: _Blocks() for number in INDEXED}
        self.damaged = self.overlong = 0
        self.is_cut = False
        self._oversized = 0
        self._wide_bytes = 0
        self._edges_told = 0
        self._nodes_trusted: int | None = None
        self._edges_trusted: int | None = None
        self.resolved: Resolved | None = None

    @cached_property
    def edge_start(self) -> Growing:
        """Where the references of each object begin. As :attr:`types` made when it is asked for: most collections have no objects."""
        made = Growing(np.uint32)
        made.append(0)
        return made

    @cached_property
    def types(self) -> Interner:
        """The ids of types by their codes."""
        return Interner()

    def have_ready(self, objects: int, goes_on: Callable[[], bool]) -> None:
        """Have memory at hand for so many objects and as many references, a piece at a time, and as long as it ``goes_on``."""
        columns = ((self.address, 1), (self.size, 1), (self.type_code, 1), (self.edge_start, 1), (self.target, 2))
        for column, each in columns:
            column.reserve(each * objects)
        for first in range(0, objects, _READY_ROWS):
            last = min(first + _READY_ROWS, objects)
            for column, each in columns:
                if not (goes_on() and column.have_ready(each * first, each * last)):
                    return

    @property
    def stopped(self) -> bool:
        """Whether the end of the collection was seen."""
        return self.end is not None

    @property
    def begin(self) -> int:
        """From when on events are of this walk."""
        if self.start is not None:
            return self.start
        return 0 if self.first is None else self.first

    @property
    def is_settled(self) -> bool:
        """Whether nothing more can come of it: events of one thread come in their order."""
        return self.stopped and self.has_any and self.end_thread == self.thread

    def begins(self, moment: Moment) -> None:
        """Its first block, or one before that."""
        if self.first is None or moment.time < self.first:
            self.first, self.thread = moment.time, moment.thread
            if self.start is None:
                self.begun = moment

    def starts(self, moment: Moment, utc_ns: int) -> None:
        """The begin of its collection, which has the number that is the moment's value."""
        self.number, self.start, self.started_ns, self.begun = moment.value, moment.time, utc_ns, moment
        self.end = self.suspended = self.restarted = self.heap_bytes = None

    def may_start(self, time: int) -> bool:
        """Whether a collection that began then can be its own: the last one before its first block."""
        if self.first is None:
            return self.number is None
        return time <= self.first and (self.start is None or self.start < time)

    def settle(self, moments: Moments) -> None:
        """Take what of the moments belongs to it."""
        if self.start is None and self.first is None:
            return
        stopped = moments.first_after(GC_STOP, self.begin, self.number) if self.end is None else None
        if stopped is not None:
            self.end, self.end_thread = stopped.time, stopped.thread
        suspended = None if self.start is None else moments.last_before(SUSPENDING, self.start)
        if suspended is not None and (self.suspended is None or suspended.time > self.suspended.time):
            self.suspended = suspended
        after = self.begin if self.end is None else self.end
        restarted = moments.first_after(RESTARTED, after)
        if restarted is not None and (self.restarted is None or restarted.time < self.restarted.time):
            self.restarted = restarted
        if self.heap_bytes is None and self.end is not None and self.has_any:
            stats = moments.first_after(HEAP_STATS, after)
            self.heap_bytes = None if stats is None else stats.value

    def take_range(self, time: int, segment: Segment) -> None:
        """A range of addresses, which is of the heap as it was before the collection where it comes before the first object."""
        if self.end is None or time <= self.end:
            self._ranges.append((time, segment))

    @property
    def segments(self) -> list[Segment]:
        """Ranges of the heap as it was walked."""
        return [one for time, one in self._ranges if self.first is not None and time >= self.first]

    @property
    def has_any(self) -> bool:
        """Whether anything of the heap itself was told."""
        return len(self.address) > 0 or len(self.target) > 0

    @property
    def objects(self) -> int:
        """How many have come."""
        return len(self.address)

    @property
    def edges(self) -> int:
        """How many references have come."""
        return len(self.target) // 2 if self.resolved is None else self.resolved.edges

    def begins_again(self, number: int, index: int) -> bool:
        """Whether this block is of another walk, the first of which is told of."""
        return self.resolved is not None or (index == 0 and self.blocks[number].expected > 0)

    def take_blocks(self, window: Window, done: int, most: tuple[int, int]) -> int:
        """Blocks of objects and references from an event on, as long as each is whole, and the next; the first event that is anything else.
        ``most``: the objects and the references that the events may have.
        """
        columns = self.address, self.size, self.type_code, self.edge_start
        if kernels.KERNELS is None or self.size.kind != np.uint32 or self.edge_start.kind != np.uint32:
            return done
        objects, references = most
        objects = max(min(objects, MOST_NODES - len(self.address)), 0)
        both = self.blocks[NODES], self.blocks[EDGES]
        states = np.array([(one.expected, one.full, one.last, one.uneven) for one in both], np.int64).reshape(-1)
        places = [column.room(objects) for column in columns]
        targets = self.target.room(2 * references).view(np.uint64)
        done, objects, references, self._edges_told = self.types.take_blocks(
            window, done, states, self._edges_told, *places, targets
        )
        for column in columns:
            column.grow(objects)
        self.target.grow(2 * references)
        for one, state in zip(both, states.reshape(2, 4).tolist(), strict=True):
            one.expected, one.full, one.last, one.uneven = state
        return done

    def take(self, number: int, index: int, rows: Array) -> None:
        """A numbered block."""
        blocks = self.blocks[number]
        gap = index != blocks.expected
        blocks.take(index, len(rows))
        if number == NODES:
            if gap and self._nodes_trusted is None:
                self._nodes_trusted = len(self.address)
            self._nodes(rows)
        elif number == EDGES:
            if gap and self._edges_trusted is None:
                self._edges_trusted = self.edges
            take_targets(rows, self.target.room(2 * len(rows)).view(np.uint64))
            self.target.grow(2 * len(rows))
        elif number == ROOTS:
            self._has_edges = True
            self.root_object.extend(rows["object"])
            self.root_kind.extend(rows["kind"])
            self.root_flags.extend(rows["flags"])
            self.root_id.extend(rows["id"])
        else:
            self.dependent_key.extend(rows["key"])
            self.dependent_object.extend(rows["object"])

    def _nodes(self, rows: Array) -> None:
        room = MOST_NODES - len(self.address)
        if len(rows) > room:
            self.is_cut, rows = True, rows[: max(room, 0)]
        rows = rows[self._narrow(rows) :]
        if not len(rows):
            return
        self.address.extend(rows["address"])
        self.size.extend(self._possible(rows["size"]))
        self.type_code.extend(self.types.codes(rows["type"]))
        ends = np.cumsum(np.minimum(rows["edges"], _MOST_REFERENCES)) + np.uint64(self._edges_told)
        self._edges_told = int(ends[-1])
        self.edge_start.extend(ends)

    def _possible(self, sizes: Array) -> Array:
        """The sizes of a block, 0 in place of those that no object can have; what is left has a sum of 64 bits."""
        wrong = sizes >= MOST_BYTES
        total = int(sizes[~wrong].sum(dtype=np.uint64))
        if self._wide_bytes + total >= 1 << 62:
            wrong, total = np.ones(len(sizes), np.bool_), 0
        self._wide_bytes += total
        self._oversized += int(wrong.sum())
        return np.where(wrong, np.uint64(0), sizes) if wrong.any() else sizes

    def _narrow(self, rows: Array) -> int:
        """Take rows whose numbers fit into 32 bits, as long as all have: how many."""
        columns = self.address, self.size, self.type_code, self.edge_start
        if not len(rows) or self.size.kind != np.uint32 or self.edge_start.kind != np.uint32:
            return 0
        places = [column.room(len(rows)) for column in columns]
        taken, self._edges_told = self.types.take_nodes(rows, self._edges_told, *places)
        for column in columns:
            column.grow(taken)
        return taken

    def take_statics(self, fields: Mapping[str, Column]) -> None:
        """Rows of GC/BulkRootStaticVar."""
        self._has_statics = True
        names = ("ObjectID", "TypeID", "Flags", "GCRootID", "FieldName")
        for row in zip(*(fields[name].to_pylist() for name in names), strict=True):
            self.statics.append(Root(address=row[0], type_id=row[1], flags=int(row[2]), root_id=row[3], name=row[4]))

    def take_ccws(self, fields: Mapping[str, Column]) -> None:
        """Rows of GC/BulkRootCCW."""
        names = ("ObjectID", "TypeID", "Flags", "IUnknown")
        for row in zip(*(fields[name].to_pylist() for name in names), strict=True):
            self.ccws.append(Root(address=row[0], type_id=row[1], flags=int(row[2]), root_id=row[3], name=""))

    def take_rcws(self, fields: Mapping[str, Column]) -> None:
        """Rows of GC/BulkRCW."""
        objects, unknown = (fields[name].numpy().tolist() for name in ("ObjectID", "IUnknown"))
        self.rcws.update(zip(objects, unknown, strict=True))

    def resolve(self, shared: Shared = by_oneself) -> Resolved:
        """Put the row of each reference in the place of its address, of which it takes half: nothing can come behind it."""
        if self.resolved is None:
            index, edges = AddressIndex(self.address.rows, shared), self.edges
            self.resolved = Resolved(edges=edges, index=index, lost=self._find_targets(index, shared))
        return self.resolved

    def _find_targets(self, index: AddressIndex, shared: Shared) -> Array:
        narrow = self.target.rows
        count = len(narrow) // 2
        lost = []

        def find(first: int) -> tuple[Array, Array]:
            wanted = self.target.rows[2 * first : 2 * min(first + _CHUNK, count)].view(
                np.uint64
            )  # which nobody holds then
            rows = index.find(wanted)
            return rows, wanted[rows == NONE]

        # what is written is behind what anybody still looks at: the first half of those before, once they were looked at
        for first, (rows, missing) in shared(range(0, count, _CHUNK), find):
            if len(missing):
                lost.append(missing)
            narrow[first : first + len(rows)] = rows
        del narrow
        self.target.cut(count)
        self.target.shrink()
        return np.concatenate([np.zeros(0, np.uint64), *lost])

    # what can be checked ----------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """What is missing of the streams; to be asked before :meth:`trim`."""
        found = []
        if self.number is None:
            found.append("the begin of the collection was not seen")
        if not self.stopped:
            found.append("the end of the collection was not seen")
        for number, blocks in self.blocks.items():
            name = BLOCK_NAMES[number]
            for expected, came in blocks.missing:
                found.append(f"{name}: block {expected:,} was expected, {came:,} came")
            if number in (NODES, EDGES) and blocks.uneven:
                found.append(f"{name}: {blocks.uneven:,} blocks have not as many rows as the first, {blocks.full:,}")
        if len(self.address) and not self._has_edges:  # every heap has some: each process has handles
            and_statics = "" if self._has_statics else " and no GC/BulkRootStaticVar"
            of_which = "which stacks and handles hold" if self._has_statics else "what holds the"
            found.append(f"no GC/BulkRootEdge{and_statics} came: {of_which} objects is not known")
        if self.damaged:
            found.append(f"{self.damaged:,} events were shorter than they say")
        if self.overlong:
            found.append(f"{self.overlong:,} events have more bytes than they say: rows of them are missing")
        if self.is_cut:
            found.append(f"more than {MOST_NODES:,} objects: those beyond were left out")
        if self._oversized:
            found.append(f"{self._oversized:,} objects have sizes that cannot be: they are taken for 0 bytes")
        if self._edges_told != self.edges:
            found.append(f"objects have {self._edges_told:,} references by their own account, {self.edges:,} came")
        return found

    def trim(self) -> int:
        """Cut off references whose objects are not certain; how many objects lack theirs."""
        starts = self.edge_start.rows
        trusted = self.edges if self._edges_trusted is None else self._edges_trusted
        nodes = len(self.address)
        if self._nodes_trusted is not None:
            trusted = min(trusted, int(starts[self._nodes_trusted]))
            nodes = self._nodes_trusted
        if trusted == self._edges_told == self.edges:
            return 0
        whole = min(int(np.searchsorted(starts, trusted, side="right")) - 1, nodes)
        limit = int(starts[whole])
        lacking = int((np.diff(starts[whole:]) > 0).sum())
        np.minimum(starts, limit, out=starts)
        self.target.cut(2 * limit)
        return lacking
