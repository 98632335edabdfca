"""What a trace has said so far: metadata, stacks, threads, labels, losses, and what was wrong.

Shared by the streaming reader and the whole-file reader: both show it the blocks in file order.

Rule: what is damaged costs the smallest unit around it (row, event, block) and is recorded; nothing here raises.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.batch import Passed
from dotnetdiag.nettrace.block import Block, BlockRun
from dotnetdiag.nettrace.budget import BEYOND, Budget
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import (
    FILE_TABLES_LIMIT,
    GUIDS_LIMIT,
    STACK_BYTES_LIMIT,
    STREAM_TABLES_LIMIT,
    THREADS_LIMIT,
    BlockKind,
)
from dotnetdiag.nettrace.container import ContainerKind
from dotnetdiag.nettrace.decode import decode_all
from dotnetdiag.nettrace.group import EventRun, Form
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.ids import IdMap
from dotnetdiag.nettrace.info import TraceInfo, parse_flat, parse_trace, parse_trace_v6
from dotnetdiag.nettrace.kernel_types import UNKNOWN
from dotnetdiag.nettrace.kernels import BAD_SIZE, BROKEN_HEADER, CUT_PAYLOAD
from dotnetdiag.nettrace.label_table import LabelTable
from dotnetdiag.nettrace.loss import LossAccount
from dotnetdiag.nettrace.metadata_table import MetadataTable
from dotnetdiag.nettrace.part_range import AHEAD_LIMIT
from dotnetdiag.nettrace.remarks import Remarks
from dotnetdiag.nettrace.rows import Rows
from dotnetdiag.nettrace.stacks import STACK_COST, StackTable, parse_stacks
from dotnetdiag.nettrace.thread_table import ThreadTable
from dotnetdiag.nettrace.translation import Translation
from dotnetdiag.wire import Cursor

_EVENT_HEADER = struct.Struct("<hhqq")
_COMPRESSED = 1
_UNTRANSLATED = Translation()
_PROBLEMS = {
    BROKEN_HEADER: "an event header is broken or cut",
    CUT_PAYLOAD: "an event reaches beyond the block",
    BAD_SIZE: "the sizes of an event disagree",
}
_UNKNOWN_TEXTS = (
    "events with an unknown metadata id",
    "events with a stack id that is not there",
    "events with a label list that is not there",
)
RESET_THREADS = 1
RESET_METADATA = 2


class TraceState:
    """The accumulated meaning of the blocks seen. ``keep`` = a whole file: nothing is ever dropped."""

    def __init__(self, *, keep: bool) -> None:
        self.keep = keep
        self.format = ""
        self.major = 0
        self.container: ContainerKind | None = None
        self.info: TraceInfo | None = None
        self.remarks = Remarks()
        self._budget = Budget(FILE_TABLES_LIMIT if keep else STREAM_TABLES_LIMIT, self.remarks)
        self.metadata = MetadataTable(self._budget, self.remarks)
        self.threads = ThreadTable(self._budget, self.remarks)
        self.labels = LabelTable(self._budget, self.remarks)
        self.stacks = StackTable()
        self.guids = GuidTable()
        self.has_activities = True
        """False for a pass over events whose activity ids nobody asks for: see ``Scan.iter_batches``."""
        self.lost = LossAccount()
        self.segment = 0
        self.ahead: list[int] = []
        """Times of the sequence points before the start that are ahead of all else (``part_range``)."""
        self.sequence_points: list[tuple[int, bool, Rows[tuple[int, int]]]] = []
        self.removals = Rows[tuple[int, int, int]]("QQI")
        self._stack_ids = IdMap()
        self._latest_time = 0
        self._translated: tuple[tuple[int, ...], Translation] | None = None
        self.postponed: list[Callable[[], None]] | None = None
        """With a list, losses are not counted now: what is to be done stands there in file order."""

    def opened(self, text: str, container: ContainerKind, major: int) -> None:
        """The format is known."""
        self.format, self.container, self.major = text, container, major
        self.lost = LossAccount(
            known=container is ContainerKind.NUMBERED or major >= 4, starts_at_one=container is ContainerKind.OBJECTS
        )

    @property
    def _v6(self) -> bool:
        return self.container is ContainerKind.NUMBERED

    # blocks -------------------------------------------------------------------------------------------------------

    def take(self, block: Block, data: memoryview, base: int) -> None:
        """Read a block that holds no events; ``data[0]`` stands at ``base``."""
        start = block.start - base
        cursor = Cursor(data, position=start, end=start + block.present, base=base, where=block.name)
        try:
            if block.kind is BlockKind.TRACE:
                self._trace(block, cursor)
            elif self.info is None:
                raise cursor.fail("the block stands before the Trace object")
            elif block.kind is BlockKind.METADATA:
                self._metadata_block(block, cursor)
            elif block.kind is BlockKind.STACK:
                self._stacks(block, cursor)
            elif block.kind is BlockKind.SEQUENCE_POINT:
                self._sequence_point(cursor)
            elif block.kind is BlockKind.THREAD:
                self.threads.take(cursor, self._renumber_thread)
            elif block.kind is BlockKind.REMOVE_THREAD:
                self._remove_threads(cursor)
            elif block.kind is BlockKind.LABEL_LIST:
                self.labels.take(cursor)
            elif block.kind is BlockKind.UNKNOWN:
                self.remarks.skip(block.name)
        except FormatError as error:
            if block.whole or block.kind is BlockKind.TRACE:
                self.remarks.add_damage(error)

    def _trace(self, block: Block, cursor: Cursor) -> None:
        if self.info is not None:
            self.remarks.warn("Trace objects after the first", block.offset)
            return
        flat = self.container is ContainerKind.FLAT
        self.info = (parse_flat if flat else parse_trace_v6 if self._v6 else parse_trace)(cursor)
        self.stacks = StackTable(self.info.pointer_size)
        if self.info.start_ns is None:
            self.remarks.warn("the start date is none", block.start)

    def _metadata_block(self, block: Block, cursor: Cursor) -> None:
        if self._v6:
            cursor.skip(cursor.u16("header size"), "header")
            while cursor.left:
                self.metadata.take(cursor.child(cursor.u16("row size"), "metadata row"), v6=True)
            return
        data, base = cursor.data, cursor.base
        for piece in decode_all(self._event_run(block, data, base), data, base):
            columns = piece.headers.payload_offset.tolist(), piece.headers.payload_length.tolist()
            for start, size in zip(*columns, strict=True):
                record = Cursor(data, position=start, end=start + size, base=base, where="metadata record")
                self.metadata.take(record, v6=False)
            self.check(block, piece.blocks[0], base, piece.place.rows)

    def _stacks(self, block: Block, cursor: Cursor) -> None:
        count, size = len(self._stack_ids), self.stacks.size_bytes
        try:
            clashes, refused = parse_stacks(cursor, self.stacks, self._stack_ids, self._budget.left)
        finally:
            self._budget.add("ids", STACK_COST * (len(self._stack_ids) - count) + self.stacks.size_bytes - size)
        if refused:
            self.remarks.warn(BEYOND, block.offset, refused)
        if clashes:
            self.remarks.warn("stack ids given twice", block.offset, clashes)

    # sequence points ----------------------------------------------------------------------------------------------

    def _sequence_point(self, cursor: Cursor) -> None:
        time = cursor.i64("timestamp")
        flags = cursor.u32("flags") if self._v6 else 0
        count = cursor.u32("thread count")
        rows = Rows[tuple[int, int]]("QI")
        try:
            for row in self._thread_rows(cursor, count):
                rows.append(row)
        finally:
            segment, forget = self.segment, bool(flags & RESET_THREADS)
            before_start = self.info is not None and time < self.info.sync_ticks
            if before_start and segment == len(self.ahead) < AHEAD_LIMIT:
                self.ahead.append(time)
            self._account(
                partial(self.lost.add_sequence_point, segment, time, rows, forget=forget, before_start=before_start)
            )
            self.segment += 1
            if self.keep:
                self.sequence_points.append((time, forget, rows))
            self._forget(flags)

    def _thread_rows(self, cursor: Cursor, count: int) -> Iterator[tuple[int, int]]:
        """(thread, number of its last attempted event) of a sequence point."""
        if count > cursor.left // (2 if self._v6 else 12):
            raise cursor.fail(f"{count} threads in {cursor.left} bytes")
        if count > THREADS_LIMIT:
            beyond = count - THREADS_LIMIT
            self.remarks.warn("threads of sequence points beyond what a reader follows", cursor.offset, beyond)
        for _ in range(min(count, THREADS_LIMIT)):
            if self._v6:
                thread = self.threads.number(cursor.varuint(64, "thread index"))
                yield thread, cursor.varuint(32, "sequence number")
            else:
                yield cursor.u64(), cursor.u32()

    def _forget(self, flags: int) -> None:
        """At a sequence point ids end (nettrace.md §5.8, §6.5); a stream drops what has grown."""
        self._stack_ids = IdMap()
        self.labels.forget()
        if not self.keep and self.stacks.size_bytes > STACK_BYTES_LIMIT:
            self.stacks = StackTable(self.stacks.pointer_size)
        self._budget.set("stacks", self.stacks.size_bytes + STACK_COST * len(self.stacks))
        self._budget.set("ids")
        if not self.keep and len(self.labels.lists) > GUIDS_LIMIT:
            self.labels.reset()
            self.guids = GuidTable()
        if flags & RESET_THREADS:
            self.threads.forget(keep=self.keep)
        if flags & RESET_METADATA:
            self.metadata.forget(keep=self.keep)

    def _remove_threads(self, cursor: Cursor) -> None:
        first = len(self.removals)
        try:
            while cursor.left:
                index, number = cursor.varuint(64, "thread index"), cursor.varuint(32, "sequence number")
                thread = self.threads.remove(index, cursor.offset)
                if self.keep:
                    self.removals.append((self.segment, thread, number))
                else:
                    self.lost.remove_thread(self.segment, self._latest_time, thread, number)
        finally:
            if len(self.removals) > first:
                self._account(partial(self._removed, first, len(self.removals)))

    def _removed(self, first: int, last: int) -> None:
        for row in range(first, last):
            segment, thread, number = self.removals[row]
            self.lost.remove_thread(segment, self._latest_time, thread, number)

    def _renumber_thread(self, number: int, other: int) -> None:
        self._account(partial(self.lost.renumber_thread, number, other))

    def _account(self, action: Callable[[], None]) -> None:
        if self.postponed is None:
            action()
        else:
            self.postponed.append(action)

    # events -------------------------------------------------------------------------------------------------------

    def translation(self) -> Translation:
        """What ids stand for now; the same object until something changes."""
        stacks, labels, metadata = self._stack_ids, self.labels.ids, self.metadata.ids
        key = id(stacks), len(stacks), id(labels), len(labels), id(metadata), len(metadata)
        if self._translated is None or self._translated[0] != key:
            self._translated = key, Translation(stacks.snapshot(), labels.snapshot(), metadata.snapshot())
        return self._translated[1]

    def event_runs(self, part: Block | BlockRun, data: memoryview, base: int) -> Iterator[EventRun]:
        """The events of an EventBlock or of several; ``data[0]`` stands at ``base``. What cannot be decoded is recorded."""
        if isinstance(part, BlockRun) and self.info is not None:
            form = Form.COMPRESSED_V6 if part.is_numbered else Form.COMPRESSED
            starts, sizes, headers = part.rows[:, 1], part.rows[:, 2], part.rows[:, 3]
            moves = self.threads.moves.position
            yield EventRun(part, form, starts + headers, starts + sizes, self.translation(), self.segment, moves)
            return
        for block in (part,) if isinstance(part, Block) else part:
            try:
                if self.info is None:
                    raise FormatError("the block stands before the Trace object", offset=block.start, where=block.name)
                run = self._event_run(block, data, base)
            except FormatError as error:
                if block.whole:
                    self.remarks.add_damage(error)
            else:
                yield run

    def _event_run(self, block: Block, data: memoryview, base: int) -> EventRun:
        """The events of an EventBlock or MetadataBlock. FormatError when its header is broken."""
        form, header = Form.NETPERF, 0
        if self._v6 or self.major == 4:
            form, header = self._form(block, data, base)
        starts = np.array([block.start + header], np.int64)
        ends = np.array([block.start + block.present], np.int64)
        has_ids = block.kind is BlockKind.EVENT and form is not Form.NETPERF
        translation = self.translation() if has_ids else _UNTRANSLATED
        return EventRun((block,), form, starts, ends, translation, self.segment, self.threads.moves.position)

    def _form(self, block: Block, data: memoryview, base: int) -> tuple[Form, int]:
        """How the events are written, and the size of the block's header."""
        if block.present < _EVENT_HEADER.size:
            raise FormatError(f"{block.present} bytes hold no header", offset=block.start, where=block.name)
        size, flags, _, _ = _EVENT_HEADER.unpack_from(data, block.start - base)
        if size < _EVENT_HEADER.size or size > block.present:
            problem = f"a block header of {size} bytes in {block.present}"
            raise FormatError(problem, offset=block.start, where=block.name)
        if flags & ~_COMPRESSED:
            self.remarks.warn("block header flags of unknown meaning", block.offset)
        if self._v6:
            return Form.COMPRESSED_V6 if flags & _COMPRESSED else Form.UNCOMPRESSED_V6, size
        return Form.COMPRESSED if flags & _COMPRESSED else Form.UNCOMPRESSED, size

    def check(self, block: Block, found: npt.NDArray[np.void], base: int, before: int) -> None:
        """Record what was wrong in a piece of a block that stands behind so many events of it, as a row of ``BLOCK`` says."""
        problem, missing = int(found["problem"]), int(found["missing"])
        if problem and block.whole:
            text = _PROBLEMS[problem] + (f" by {missing} bytes" if problem == CUT_PAYLOAD and missing else "")
            where = f"{block.name} at 0x{block.offset:x}, event {before + int(found['rows']) + 1}"
            self.remarks.add_damage(FormatError(text, offset=int(found["stop"]) + base, where=where))
        if block.kind is not BlockKind.EVENT:
            return
        for name, text in zip(UNKNOWN, _UNKNOWN_TEXTS, strict=True):
            if found[name]:
                undefined = int(found["undefined_id"]) if name == "unknown_metadata" else 0
                detail = f" (id {undefined})" if undefined else ""
                self.remarks.warn(text, block.offset, int(found[name]), detail)

    def intern_guids(self, data: memoryview, headers: HeaderColumns, guids: npt.NDArray[np.int64]) -> None:
        """Activity ids by the table of this trace. ``activity`` and ``related`` come as 1 + index into ``guids``."""
        if len(guids) and not self.has_activities:
            headers.activity[:] = 0
            headers.related[:] = 0
        elif len(guids):
            interned = np.zeros(len(guids) + 1, np.uint32)
            interned[1:] = self.guids.intern_at(data, guids)
            for column in (headers.activity, headers.related):
                rows = np.flatnonzero(column)
                column[rows] = interned[column[rows]]
        if len(self.labels.lists) > 1 and self._v6 and headers.label_list.any():
            pairs = self.labels.guids(self.guids) if self.has_activities else None
            if pairs is not None:
                headers.activity[:] = pairs[headers.label_list, 0]
                headers.related[:] = pairs[headers.label_list, 1]

    def renew_guids(self) -> None:
        """Begin a new table of activity ids in a stream when the old one has grown."""
        if not self.keep and len(self.guids) > GUIDS_LIMIT and not self._v6:
            self.guids = GuidTable()

    def account(self, headers: HeaderColumns, jumps: npt.NDArray[np.int64], segment: int) -> None:
        """Count losses of the events of one block or several, in file order."""
        if self.lost.known and len(headers):
            self.lost.add_block(segment, headers.capture_thread, headers.sequence, headers.time, jumps)
            self._latest_time = int(headers.time[-1])

    def account_passed(self, passed: Passed, segment: int) -> None:
        """The same where few of them have rows."""
        _, first, last, begin, end = passed.runs
        self.lost.add_runs(segment, passed.threads, (first, last), (begin, end))
        self._latest_time = int(end[-1])

    @property
    def pointer_size(self) -> int:
        """Of the process, 8 until it is known."""
        return self.info.pointer_size if self.info else 8

    def has_room(self, cost: int, offset: int) -> bool:
        """Whether a definition may cost so much."""
        return self._budget.has_room(cost, offset)
