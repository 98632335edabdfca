"""The heaps of a recording or a session, as a fold over its events: one for each walk that the runtime has made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.events import EventSchema, ListOf, Struct, Text
from dotnetdiag.heap import bulk_events as ids
from dotnetdiag.heap.building import build
from dotnetdiag.heap.facts import HeapFacts, Segment
from dotnetdiag.heap.moments import Moment, Moments
from dotnetdiag.heap.sharing import Shared, by_oneself
from dotnetdiag.heap.type_names import TypeRows
from dotnetdiag.heap.walk import KINDS, OTHER_KIND, BlockRuns, Walk
from dotnetdiag.heap.walks import WalkRoom, Walks

if TYPE_CHECKING:
    from dotnetdiag.events import Column
    from dotnetdiag.heap.heap import Heap
    from dotnetdiag.heap.kernels import Window
    from dotnetdiag.trace.context import Context
    from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

_BLOCKING, _INDUCED, _OLDEST = 0, 1, 2
_OF_WALKS = {ids.STATICS, ids.CCWS, ids.RCWS}
_MS = 1e6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HeapFold:
    """``for window in trace.windows(fold.wants): fold.feed(window)``, then ``fold.result()``: the heaps in the order of time.

    ``objects`` and ``edges`` tell how many have come, and ``stopped`` how many walks are at their end, for who shows progress.
    """

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._context: Context | None = None
        self._room = WalkRoom()

    def have_ready(self, objects: int, goes_on: Callable[[], bool]) -> None:
        """Before anything comes, and as long as it ``goes_on``: have memory at hand for so many objects of the first walk, where the system can.
        What is not used is given back.
        """
        self._room.ready = Walk(8)
        if objects:
            self._room.ready.have_ready(objects, goes_on)

    def wants(self, schema: EventSchema) -> bool:
        """Events of the walk, of types and modules, and of the collection that makes it."""
        return ids.role(schema) is not None

    def wants_beside(self, schema: EventSchema) -> bool:
        """What another session than that of the walk may tell of: modules."""
        return ids.role(schema) in (ids.MODULE, ids.PROCESS)

    def feed(self, window: EventTable, *, is_beside: bool = False) -> None:
        """Take the next window. Nothing of it is held. ``is_beside``: one of another session, which has lost nothing of a walk."""
        if not is_beside:
            self._context = window.trace
        roles = {number: found for number, schema in window.schemas.items() if (found := ids.role(schema)) is not None}
        events = _Events(window, roles)
        pids = window.numpy("pid") if len(window) else np.zeros(0, np.int64)
        order = np.argsort(pids, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(pids[order])) + 1) if len(pids) else ():
            pid = int(pids[rows[0]])
            process = self._processes.get(pid)
            if process is None:
                info = window.trace.meaning.info
                process = self._processes[pid] = _Process(pid, 4 if info.pointer_size == 4 else 8, self._room)
            process.feed(events, rows)

    @property
    def objects(self) -> int:
        """How many objects have come."""
        return sum(walk.objects for one in self._processes.values() for walk in one.walks)

    @property
    def edges(self) -> int:
        """How many references have come."""
        return sum(walk.edges for one in self._processes.values() for walk in one.walks)

    @property
    def stopped(self) -> int:
        """How many walks have come to their end."""
        return sum(walk.stopped and walk.has_any for one in self._processes.values() for walk in one.walks)

    def pauses(self) -> tuple[tuple[float, bool], ...]:
        """How long the program stood still for each walk, in ms, and whether that is known: else until the last object that came, at least. To be
        asked before :meth:`result`. Of a collection without objects only where no object came at all.
        """
        walks = [(one, walk) for one in self._processes.values() for walk in one.walks]
        told = [pair for pair in walks if pair[1].has_any] or [pair for pair in walks if pair[1].number is not None][
            -1:
        ]
        return tuple(one.pause(walk) for one, walk in told)

    def prepare(self, shared: Shared = by_oneself) -> None:
        """What can be done of walks at whose end nothing is missing, before the session's end comes: a third of what :meth:`result` and a file
        take. What comes of such a walk nevertheless is another one. ``shared`` acts on pieces in their order, perhaps with others' help.
        """
        for process in self._processes.values():
            for walk in process.walks:
                if walk.resolved is None and walk.is_settled and not walk.problems():
                    walk.resolve(shared)

    @property
    def is_resolved(self) -> bool:
        """Whether there is a walk, and :meth:`prepare` was done for each."""
        walks = [walk for one in self._processes.values() for walk in one.walks if walk.has_any]
        return bool(walks) and all(walk.resolved is not None for walk in walks)

    @property
    def dumps(self) -> int:
        """How many heaps there are as yet."""
        return sum(walk.has_any for one in self._processes.values() for walk in one.walks)

    def result(self, dump: int | None = None) -> tuple[Heap, ...]:
        """The heaps, in the order of their walks, or the ``dump``-th alone, counted from 1; to be asked for once. None where no event told of
        objects, or there are not so many. UsageError before the first window.
        """
        if self._context is None:
            raise UsageError("no window was fed")
        losses = self._context.losses
        problems = [f"{losses.lost:,} events were lost"] if losses.lost else []
        if losses.damage:
            problems.append(losses.damage)
        if self._room.is_over:
            problems.append(f"more than {self._room.most:,} heaps: those beyond were left out")
        made, number, dumps = [], 0, self.dumps
        for process in self._processes.values():
            walks = process.settled()[::-1]
            while walks:
                walk = walks.pop()  # what it has is given back when its heap is built
                number += walk.has_any
                if walk.has_any and dump in (None, number):
                    facts = replace(process.facts(walk), dump=number, dumps=dumps)
                    made.append(build(walk, process.types, process.modules, facts, problems))
        return tuple(made)


class _Process:
    """The events of one process."""

    def __init__(self, pid: int, pointer_size: int, room: WalkRoom) -> None:
        self.pid, self._pointer_size = pid, pointer_size
        self.types = TypeRows()
        self.modules: dict[int, str] = {}
        self.walks = Walks(room, pointer_size)
        self._command_line: str | None = None
        self._moments = Moments()
        self._latest_ns = 0

    # events -----------------------------------------------------------------------------------------------------------

    def feed(self, events: _Events, rows: Array) -> None:
        """Events of a window are in the order of time, and may be older than those of windows before: each goes to the walk of its time."""
        headers, data = events.table.headers, events.table.trace.buffer
        numbers, offsets, lengths, times = (
            column[rows]
            for column in (headers.metadata_id, headers.payload_offset, headers.payload_length, headers.time)
        )
        kinds = events.kinds[rows]
        blocks = data, offsets.astype(np.int64), lengths.astype(np.int64), kinds, self._pointer_size == 8
        runs = BlockRuns(blocks)
        at, limit = 0, 0
        while at < len(rows):
            if at >= limit:
                limit = self._turn(times, at)
            if kinds[at] != OTHER_KIND:
                done = self._taken(blocks, runs, at, limit)
                if done > at:
                    self._begins(events, rows, times, at, kinds[at:done])
                    at = done
                    continue
            number, row = int(numbers[at]), int(rows[at])
            role = events.roles.get(number, 0)
            if role in ids.INDEXED:
                self._block(role, data, int(offsets[at]), int(lengths[at]), int(times[at]))
                self._begins(events, rows, times, at)
            elif role:
                self._event(role, _Row(events, number, row))
                if role in _OF_WALKS:
                    self._begins(events, rows, times, at)
                limit = at  # there may be another walk now
            at += 1
        of_objects = np.flatnonzero((kinds != 0) & (kinds != OTHER_KIND))
        if len(of_objects):
            self._latest_ns = max(self._latest_ns, int(events.elapsed_ns[rows[of_objects[-1]]]))

    def _turn(self, times: Array, at: int) -> int:
        """Go on with the walk of an event: the first event that is of the next walk."""
        following = self.walks.turn(int(times[at]))
        return len(times) if following is None else at + max(int(np.searchsorted(times[at:], following)), 1)

    def _begins(self, events: _Events, rows: Array, times: Array, at: int, kinds: Array | None = None) -> None:
        """Have the walk know when its first block came: this event, or the first that is of a kind."""
        walk = self.walks.current
        if walk.first is not None and times[at] >= walk.first:
            return
        if kinds is not None:
            own = np.flatnonzero(kinds)
            if not len(own):
                return
            at += int(own[0])
        walk.begins(_Row(events, 0, int(rows[at])).moment(0))

    def _taken(self, blocks: Window, runs: BlockRuns, at: int, limit: int) -> int:
        """Have a compiled loop take blocks from an event on, where it is one: the first event that is left."""
        if not self.walks or self.walks.current.resolved is not None:
            return at
        data, offsets, lengths, kinds, is_wide = blocks
        end = runs.end(at, limit)
        return self.walks.current.take_blocks(
            (data, offsets[:end], lengths[:end], kinds[:end], is_wide), at, runs.most(at, end)
        )

    def _block(self, number: int, data: Array, offset: int, length: int, time: int) -> None:
        read = ids.read_block(data, offset, length, number, self._pointer_size)
        walk = self.walks.current
        if read is None:
            walk.damaged += 1
            return
        index, rows = read
        if walk.begins_again(number, index):
            walk = self.walks.begin_again(time)
        walk.overlong += rows.nbytes < length - ids.HEADER_BYTES
        walk.take(number, index, rows)

    def _event(self, role: int, row: _Row) -> None:
        if role == ids.GC_START:
            self._start(row)
        elif role in (ids.GC_STOP, ids.SUSPENDING, ids.RESTARTED, ids.HEAP_STATS):
            value = 0
            if role == ids.GC_STOP:
                value = row.value("Count")
            elif role == ids.HEAP_STATS:
                value = sum(row.value(f"GenerationSize{number}") for number in range(5))
            self._moments.add(role, row.moment(value))
            self._settle()
        elif role == ids.PROCESS:
            self._command_line = row.text("CommandLine")
        elif role == ids.MODULE:
            path = row.text("ModuleILPath")
            if path:
                self.modules.setdefault(row.value("ModuleID"), path)
        elif role == ids.RANGE:
            self._range(row)
        else:
            self._listed(role, row)

    def _start(self, row: _Row) -> None:
        """Only a blocking collection of everything walks the heap, and only one that was asked for."""
        if row.value("Depth") < _OLDEST or row.value("Type") != _BLOCKING:
            return
        self.walks.start(row.moment(row.value("Count")), row.utc_ns)
        self._settle()

    def _settle(self) -> None:
        for walk in self.walks.near:
            walk.settle(self._moments)

    def settled(self) -> list[Walk]:
        """All walks, when all that came has come: none are left here."""
        for walk in self.walks:
            walk.settle(self._moments)
        return self.walks.taken()

    def _range(self, row: _Row) -> None:
        if self.walks:
            start = row.value("RangeStart")
            end = min(start + row.value("RangeUsedLength"), (1 << 64) - 1)
            self.walks.current.take_range(row.time, Segment.of(row.value("Generation"), start, end))

    def _listed(self, role: int, row: _Row) -> None:
        fields = row.fields()
        if self.walks:
            self.walks.current.damaged += fields is None
            self.walks.current.overlong += row.has_more
        if fields is None:
            return
        if role == ids.TYPES:
            self.types.take(fields)
        elif role == ids.STATICS:
            self.walks.current.take_statics(fields)
        elif role == ids.CCWS:
            self.walks.current.take_ccws(fields)
        else:
            self.walks.current.take_rcws(fields)

    def pause(self, walk: Walk) -> tuple[float, bool]:
        """(ms, whether that is known)."""
        walk.settle(self._moments)
        begin = walk.suspended or walk.begun
        end_ns = self._latest_ns if walk.restarted is None else walk.restarted.elapsed_ns
        known = walk.suspended is not None and walk.restarted is not None
        return (0.0 if begin is None else max(end_ns - begin.elapsed_ns, 0) / _MS), known

    def facts(self, walk: Walk) -> HeapFacts:
        """What is known of a dump beside its objects."""
        pause_ms, known = self.pause(walk)
        collected = None
        if walk.started_ns is not None:
            collected = _EPOCH + timedelta(microseconds=walk.started_ns // 1000)
        first = (self._command_line or "").split(" ")[0].replace("\\", "/").rpartition("/")[2]
        return HeapFacts(
            pointer_size=walk.pointer_size,
            pid=self.pid,
            process=first or None,
            command_line=self._command_line,
            collected=collected,
            pause_ms=pause_ms if known else None,
            heap_bytes=walk.heap_bytes,
            creation_tool="dotnetdiag",
        )


def _kinds(numbers: Array, roles: Mapping[int, int]) -> Array:
    """Of each event what :meth:`Walk.take_blocks` takes it for: 0 where it is nothing to a dump."""
    made = np.zeros(len(numbers), np.uint8)
    own = {number: kind for kind, number in KINDS.items()}
    for number, role in roles.items():
        if role:
            made[numbers == number] = own.get(role, OTHER_KIND)
    return made


class _Events:
    """The events of a window: what is worked out for all of them when it is first asked for."""

    def __init__(self, table: EventTable, roles: Mapping[int, int]) -> None:
        self.table, self.roles = table, roles
        self.kinds = _kinds(table.headers.metadata_id, roles)
        self._rows: dict[int, Array] = {}
        self._columns: dict[tuple[int, str], Column | None] = {}

    def place(self, number: int, row: int) -> int:
        """Which of its type's events one is."""
        if number not in self._rows:
            self._rows[number] = np.asarray(self.table.rows_of(number))
        return int(self._rows[number].searchsorted(row))

    def column(self, number: int, name: str) -> Column | None:
        """A field of a type's events, decoded for the whole window."""
        if (number, name) not in self._columns:
            self._columns[number, name] = self.table.part(number).flat.get(name)
        return self._columns[number, name]

    @cached_property
    def elapsed_ns(self) -> Array:
        """Since the start of the recording."""
        return np.asarray(self.table.trace.meaning.elapsed_ns(self.table.headers))

    @cached_property
    def utc_ns(self) -> Array:
        """Since 1970."""
        return np.asarray(self.table.trace.meaning.utc_ns(self.table.headers))


class _Row:
    """One event of a window."""

    __slots__ = ("_events", "_number", "_place", "_row")

    def __init__(self, events: _Events, number: int, row: int) -> None:
        self._events, self._number, self._row = events, number, row
        self._place = events.place(number, row) if number else 0

    def value(self, name: str) -> int:
        """A number; 0 where this version of the event has none."""
        column = self._events.column(self._number, name)
        found = None if column is None else column.item(self._place)
        return int(found) if isinstance(found, int) else 0

    def text(self, name: str) -> str | None:
        """A text."""
        column = self._events.column(self._number, name)
        return column.item(self._place) if isinstance(column, Text) else None

    def fields(self) -> Mapping[str, Column] | None:
        """The columns of its list of rows; None where it cannot be read."""
        column = self._events.column(self._number, "Values")
        if not isinstance(column, ListOf) or not isinstance(column.child, Struct):
            return None
        if column.valid is not None and not column.valid[self._place]:
            return None
        rows = np.arange(column.offsets[self._place], column.offsets[self._place + 1])
        return {name: child.take(rows) for name, child in column.child.fields.items()}

    @property
    def has_more(self) -> bool:
        """Whether there are bytes behind its fields."""
        remainder = self._events.table.part(self._number).remainder
        return remainder is not None and bool(remainder.offsets[self._place + 1] > remainder.offsets[self._place])

    @property
    def time(self) -> int:
        """In ticks of the recording's clock."""
        return int(self._events.table.headers.time[self._row])

    def moment(self, value: int) -> Moment:
        """When it was."""
        thread = int(self._events.table.headers.thread[self._row])
        elapsed_ns = int(self._events.elapsed_ns[self._row])
        return Moment(time=self.time, elapsed_ns=elapsed_ns, value=value, thread=thread)

    @property
    def utc_ns(self) -> int:
        """Since 1970."""
        return int(self._events.utc_ns[self._row])
