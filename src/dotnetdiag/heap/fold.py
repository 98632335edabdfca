"""The heaps of a recording or a session, as a fold over its events: one for each walk that the runtime has made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.events import EventSchema, ListOf, Struct, Text
from dotnetdiag.heap import bulk_events as ids
from dotnetdiag.heap.building import build
from dotnetdiag.heap.facts import HeapFacts, Segment
from dotnetdiag.heap.moments import Moment, Moments
from dotnetdiag.heap.type_names import TypeRows
from dotnetdiag.heap.walk import KINDS, OTHER_KIND, Walk

if TYPE_CHECKING:
    from dotnetdiag.events import Column
    from dotnetdiag.heap.heap import Heap
    from dotnetdiag.heap.kernels import Window
    from dotnetdiag.trace.context import Context
    from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

_BLOCKING, _INDUCED, _OLDEST = 0, 1, 2
_OF_WALKS = {ids.STATICS, ids.CCWS, ids.RCWS}
_MOST_EMPTY = 8
"""Collections without objects that are kept: these may still come."""
_MS = 1e6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HeapFold:
    """``for window in trace.windows(fold.wants): fold.feed(window)``, then ``fold.result()``: the heaps in the order of time.

    ``objects`` and ``edges`` tell how many have come, and ``stopped`` how many walks are at their end, for who shows progress.
    """

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._context: Context | None = None
        self._ready: Walk | None = None

    def have_ready(self, objects: int, goes_on: Callable[[], bool]) -> None:
        """Before anything comes, and as long as it ``goes_on``: have memory at hand for so many objects of the first walk, where the system can.
        What is not used is given back.
        """
        self._ready = Walk(8)
        if objects:
            self._ready.have_ready(objects, goes_on)

    def _walk(self, pointer_size: int) -> Walk:
        """A new one."""
        made, self._ready = self._ready, None
        return made if made is not None and made.pointer_size == pointer_size else Walk(pointer_size)

    def wants(self, schema: EventSchema) -> bool:
        """Events of the walk, of types and modules, and of the collection that makes it."""
        return ids.role(schema) is not None

    def feed(self, window: EventTable) -> None:
        """Take the next window. Nothing of it is held."""
        self._context = window.trace
        roles = {number: found for number, schema in window.schemas.items() if (found := ids.role(schema)) is not None}
        pids = window.numpy("pid") if len(window) else np.zeros(0, np.int64)
        for pid in np.unique(pids).tolist():
            process = self._processes.get(pid)
            if process is None:
                info = window.trace.meaning.info
                process = self._processes[pid] = _Process(pid, 4 if info.pointer_size == 4 else 8, self._walk)
            process.feed(window, roles, None if len(pids) == int((pids == pid).sum()) else pids == pid)

    @property
    def objects(self) -> int:
        """How many objects have come."""
        return sum(len(walk.address) for one in self._processes.values() for walk in one.walks)

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

    def prepare(self) -> None:
        """What can be done of walks at whose end nothing is missing, before the session's end comes: a third of what :meth:`result` and a file
        take. What comes of such a walk nevertheless is another one.
        """
        for process in self._processes.values():
            for walk in process.walks:
                if walk.is_settled and not walk.problems():
                    walk.resolve()

    def result(self) -> tuple[Heap, ...]:
        """The heaps, in the order of their walks; to be asked for once. None where no event told of objects. UsageError before the first window."""
        if self._context is None:
            raise UsageError("no window was fed")
        losses = self._context.losses
        problems = [f"{losses.lost:,} events were lost"] if losses.lost else []
        if losses.damage:
            problems.append(losses.damage)
        made = []
        for process in self._processes.values():
            process.settle()
            while process.walks:
                walk = process.walks.pop(0)
                if walk.has_any:
                    made.append(build(walk, process.types, process.modules, process.facts(walk), problems))
        facts = [replace(heap.facts, dump=number, dumps=len(made)) for number, heap in enumerate(made, 1)]
        return tuple(replace(heap, facts=own) for heap, own in zip(made, facts, strict=True))


class _Process:
    """The events of one process."""

    def __init__(self, pid: int, pointer_size: int, make: Callable[[int], Walk]) -> None:
        self.pid, self._pointer_size, self._make = pid, pointer_size, make
        self.types = TypeRows()
        self.modules: dict[int, str] = {}
        self.walks: list[Walk] = []
        self._command_line: str | None = None
        self._moments = Moments()
        self._now = 0
        self._latest_ns = 0

    # events -----------------------------------------------------------------------------------------------------------

    def feed(self, window: EventTable, roles: Mapping[int, int], own: Array | None) -> None:
        """Events of a window are in the order of time, and may be older than those of windows before: each goes to the walk of its time."""
        headers, data = window.headers, window.trace.buffer
        rows = np.arange(len(window)) if own is None else np.flatnonzero(own)
        numbers, offsets, lengths, times = (
            column[rows]
            for column in (headers.metadata_id, headers.payload_offset, headers.payload_length, headers.time)
        )
        kinds = _kinds(numbers, roles)
        blocks = data, offsets.astype(np.int64), lengths.astype(np.int64), kinds, self._pointer_size == 8
        at, limit, places = 0, 0, dict[int, Array]()
        while at < len(rows):
            if at >= limit:
                limit = self._turn(times, at)
            if kinds[at] != OTHER_KIND:
                done = self._taken(blocks, at, limit)
                if done > at:
                    self._begins(window, rows, times, at, kinds[at:done])
                    at = done
                    continue
            number, row = int(numbers[at]), int(rows[at])
            role = roles.get(number, 0)
            if role in ids.INDEXED:
                self._block(role, data, int(offsets[at]), int(lengths[at]))
                self._begins(window, rows, times, at)
            elif role:
                if number not in places:
                    places[number] = np.asarray(window.rows_of(number))
                self._event(role, _Row(window, number, int(np.searchsorted(places[number], row)), row))
                if role in _OF_WALKS:
                    self._begins(window, rows, times, at)
                limit = at  # there may be another walk now
            at += 1
        of_objects = np.flatnonzero((kinds != 0) & (kinds != OTHER_KIND))
        if len(of_objects):
            self._latest_ns = max(self._latest_ns, _Row(window, 0, 0, int(rows[of_objects[-1]])).elapsed_ns)

    def _turn(self, times: Array, at: int) -> int:
        """Go on with the walk of an event: the first event that is of the next walk."""
        time = int(times[at])
        following = (number for number, walk in enumerate(self.walks) if walk.begin > time)
        self._now = max(next(following, len(self.walks)) - 1, 0)
        if self._now + 1 >= len(self.walks):
            return len(times)
        return at + max(int(np.searchsorted(times[at:], self.walks[self._now + 1].begin)), 1)

    def _begins(self, window: EventTable, rows: Array, times: Array, at: int, kinds: Array | None = None) -> None:
        """Have the walk know when its first block came: this event, or the first that is of a kind."""
        walk = self._walk()
        if walk.first is not None and times[at] >= walk.first:
            return
        if kinds is not None:
            own = np.flatnonzero(kinds)
            if not len(own):
                return
            at += int(own[0])
        walk.begins(_Row(window, 0, 0, int(rows[at])).moment(0))

    def _taken(self, blocks: Window, at: int, limit: int) -> int:
        """Have a compiled loop take blocks from an event on, where it is one: the first event that is left."""
        if not self.walks or self._walk().resolved is not None:
            return at
        data, offsets, lengths, kinds, is_wide = blocks
        return self._walk().take_blocks((data, offsets[:limit], lengths[:limit], kinds[:limit], is_wide), at)

    def _walk(self) -> Walk:
        """The walk of this time; a new one where none was seen to begin."""
        if not self.walks:
            self.walks.append(self._make(self._pointer_size))
        return self.walks[self._now]

    def _block(self, number: int, data: Array, offset: int, length: int) -> None:
        read = ids.read_block(data, offset, length, number, self._pointer_size)
        if read is None:
            self._walk().damaged += 1
            return
        index, rows = read
        walk = self._walk()
        if walk.begins_again(number, index):
            walk = self._make(self._pointer_size)
            self._now += 1
            self.walks.insert(self._now, walk)
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
        moment = row.moment(row.value("Count"))
        near = self.walks[self._now : self._now + 2]
        walk = next((one for one in near if one.may_start(moment.time)), None)
        if walk is None:
            empty = [one for one in self.walks if not one.has_any]
            for one in empty[:-_MOST_EMPTY]:
                self.walks.remove(one)
            walk = self._make(self._pointer_size)
            self.walks.append(walk)
        walk.starts(moment, row.utc_ns)
        self.walks.sort(key=lambda one: one.begin)
        self._now = self.walks.index(walk)
        self._settle()

    def _settle(self) -> None:
        for walk in self.walks[max(self._now - 1, 0) : self._now + 2]:
            walk.settle(self._moments)

    def settle(self) -> None:
        """All that came has come."""
        for walk in self.walks:
            walk.settle(self._moments)

    def _range(self, row: _Row) -> None:
        if self.walks:
            start = row.value("RangeStart")
            end = min(start + row.value("RangeUsedLength"), (1 << 64) - 1)
            self._walk().take_range(row.time, Segment.of(row.value("Generation"), start, end))

    def _listed(self, role: int, row: _Row) -> None:
        fields = row.fields()
        if fields is None:
            if self.walks:
                self._walk().damaged += 1
        elif role == ids.TYPES:
            self.types.take(fields)
        elif role == ids.STATICS:
            self._walk().take_statics(fields)
        elif role == ids.CCWS:
            self._walk().take_ccws(fields)
        else:
            self._walk().take_rcws(fields)

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


class _Row:
    """One event of a window; its type is decoded for the whole window when a first value is asked for."""

    __slots__ = ("_number", "_place", "_row", "_window")

    def __init__(self, window: EventTable, number: int, place: int, row: int) -> None:
        self._window, self._number, self._place, self._row = window, number, place, row

    def _column(self, name: str) -> Column | None:
        return self._window.part(self._number).flat.get(name)

    def value(self, name: str) -> int:
        """A number; 0 where this version of the event has none."""
        column = self._column(name)
        found = None if column is None else column.item(self._place)
        return int(found) if isinstance(found, int) else 0

    def text(self, name: str) -> str | None:
        """A text."""
        column = self._column(name)
        return column.item(self._place) if isinstance(column, Text) else None

    def fields(self) -> Mapping[str, Column] | None:
        """The columns of its list of rows; None where it cannot be read."""
        column = self._column("Values")
        if not isinstance(column, ListOf) or not isinstance(column.child, Struct):
            return None
        if column.valid is not None and not column.valid[self._place]:
            return None
        rows = np.arange(column.offsets[self._place], column.offsets[self._place + 1])
        return {name: child.take(rows) for name, child in column.child.fields.items()}

    @property
    def time(self) -> int:
        """In ticks of the recording's clock."""
        return int(self._window.headers.time[self._row])

    def moment(self, value: int) -> Moment:
        """When it was."""
        thread = int(self._window.headers.thread[self._row])
        return Moment(time=self.time, elapsed_ns=self.elapsed_ns, value=value, thread=thread)

    @property
    def elapsed_ns(self) -> int:
        """Since the start of the recording."""
        headers = self._window.headers[self._row : self._row + 1]
        return int(self._window.trace.meaning.elapsed_ns(headers)[0])

    @property
    def utc_ns(self) -> int:
        """Since 1970."""
        return int(self._window.trace.meaning.utc_ns(self._window.headers[self._row : self._row + 1])[0])
