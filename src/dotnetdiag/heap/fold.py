"""The heaps of a recording or a session, as a fold over its events: one for each walk that the runtime has made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.events import EventSchema, ListOf, Struct, Text
from dotnetdiag.heap import bulk_events as ids
from dotnetdiag.heap.building import build
from dotnetdiag.heap.facts import HeapFacts, Segment
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

    def prepare(self) -> None:
        """What can be done of walks at whose end nothing is missing, before the session's end comes: a third of what :meth:`result` and a file
        take. What comes of such a walk nevertheless is another one.
        """
        for process in self._processes.values():
            for walk in process.walks:
                if walk.stopped and walk.has_any and not walk.problems():
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
            while process.walks:
                walk = process.walks.pop(0)
                if walk.has_any:
                    made.append(build(walk, process.types, process.modules, process.facts(walk), problems))
        return tuple(made)


class _Process:
    """The events of one process."""

    def __init__(self, pid: int, pointer_size: int, make: Callable[[int], Walk]) -> None:
        self.pid, self._pointer_size, self._make = pid, pointer_size, make
        self.types = TypeRows()
        self.modules: dict[int, str] = {}
        self.walks: list[Walk] = []
        self._command_line: str | None = None
        self._suspended_ns: int | None = None

    # events -----------------------------------------------------------------------------------------------------------

    def feed(self, window: EventTable, roles: Mapping[int, int], own: Array | None) -> None:
        headers, data = window.headers, window.trace.buffer
        rows = np.arange(len(window)) if own is None else np.flatnonzero(own)
        numbers, offsets, lengths = (
            column[rows] for column in (headers.metadata_id, headers.payload_offset, headers.payload_length)
        )
        kinds = _kinds(numbers, roles)
        blocks = data, offsets.astype(np.int64), lengths.astype(np.int64), kinds, self._pointer_size == 8
        at, places = 0, dict[int, Array]()
        while at < len(rows):
            at = self._taken(blocks, at)
            if at == len(rows):
                return
            number, row = int(numbers[at]), int(rows[at])
            role = roles.get(number, 0)
            if role in ids.INDEXED:
                self._block(role, data, int(offsets[at]), int(lengths[at]))
            elif role:
                if number not in places:
                    places[number] = np.asarray(window.rows_of(number))
                self._event(role, _Row(window, number, int(np.searchsorted(places[number], row)), row))
            at += 1

    def _taken(self, blocks: Window, at: int) -> int:
        """Have a compiled loop take blocks from an event on, where it is one: the first event that is left."""
        is_next = self.walks and self.walks[-1].resolved is None and blocks[3][at] != OTHER_KIND
        return self.walks[-1].take_blocks(blocks, at) if is_next else at

    def _walk(self) -> Walk:
        """The walk that goes on; a new one where none was seen to begin."""
        if not self.walks:
            self.walks.append(self._make(self._pointer_size))
        return self.walks[-1]

    def _block(self, number: int, data: Array, offset: int, length: int) -> None:
        read = ids.read_block(data, offset, length, number, self._pointer_size)
        if read is None:
            self._walk().damaged += 1
            return
        index, rows = read
        if self._walk().begins_again(number, index):
            self.walks.append(self._make(self._pointer_size))
        self.walks[-1].take(number, index, rows)

    def _event(self, role: int, row: _Row) -> None:
        if role == ids.GC_START:
            self._start(row)
        elif role == ids.GC_STOP:
            for walk in self.walks[-1:]:
                walk.stopped |= walk.number is None or walk.number == row.value("Count")
        elif role == ids.SUSPENDING:
            self._suspended_ns = row.elapsed_ns
        elif role == ids.RESTARTED:
            for walk in self.walks[-1:]:
                if walk.stopped and walk.restarted_ns is None:
                    walk.restarted_ns = row.elapsed_ns
        elif role == ids.HEAP_STATS:
            for walk in self.walks[-1:]:
                if walk.has_any and walk.heap_bytes is None:
                    walk.heap_bytes = sum(row.value(f"GenerationSize{number}") for number in range(5))
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
        if not self.walks or self.walks[-1].has_any or self.walks[-1].number is not None:
            if self.walks and not self.walks[-1].has_any:
                self.walks.pop()
            self.walks.append(self._make(self._pointer_size))
        walk = self.walks[-1]
        walk.number, walk.started_ns, walk.suspended_ns = row.value("Count"), row.utc_ns, self._suspended_ns

    def _range(self, row: _Row) -> None:
        """Those before the first object are of the heap as it was before the collection."""
        for walk in self.walks[-1:]:
            if walk.has_any:
                start = row.value("RangeStart")
                end = min(start + row.value("RangeUsedLength"), (1 << 64) - 1)
                walk.segments.append(Segment.of(row.value("Generation"), start, end))

    def _listed(self, role: int, row: _Row) -> None:
        fields = row.fields()
        if fields is None:
            if self.walks:
                self.walks[-1].damaged += 1
        elif role == ids.TYPES:
            self.types.take(fields)
        elif role == ids.STATICS:
            self._walk().take_statics(fields)
        elif role == ids.CCWS:
            self._walk().take_ccws(fields)
        else:
            self._walk().take_rcws(fields)

    def facts(self, walk: Walk) -> HeapFacts:
        """What is known of a dump beside its objects."""
        paused = walk.suspended_ns is not None and walk.restarted_ns is not None
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
            pause_ms=(walk.restarted_ns - walk.suspended_ns) / _MS if paused else None,  # type: ignore[operator]
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
    def elapsed_ns(self) -> int:
        """Since the start of the recording."""
        headers = self._window.headers[self._row : self._row + 1]
        return int(self._window.trace.meaning.elapsed_ns(headers)[0])

    @property
    def utc_ns(self) -> int:
        """Since 1970."""
        return int(self._window.trace.meaning.utc_ns(self._window.headers[self._row : self._row + 1])[0])
