"""What a trace has said so far: metadata, stacks, threads, labels, losses, and what was wrong.

Shared by the streaming reader and the whole-file reader: both show it the blocks in file order.

Rule 1: what is damaged costs the smallest unit around it (row, blob, block) and is recorded; nothing here raises.
Rule 2: ids handed out stay valid: an id that a version 6 file uses again for something else gets another number.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.blocks import FLAT, OBJECTS, PLAIN, Block
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import (
    FILE_TABLES_LIMIT,
    GUIDS_LIMIT,
    STACK_BYTES_LIMIT,
    STREAM_TABLES_LIMIT,
    THREADS_LIMIT,
    WARNINGS_LIMIT,
    BlockKind,
)
from dotnetdiag.nettrace.decode import decode_all
from dotnetdiag.nettrace.group import EventRun, Form
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.ids import FreeNumbers, IdMap
from dotnetdiag.nettrace.info import TraceInfo, parse_flat, parse_trace, parse_trace_v6
from dotnetdiag.nettrace.kernel_types import UNKNOWN
from dotnetdiag.nettrace.kernels import BAD_SIZE, BROKEN_HEADER, CUT_PAYLOAD
from dotnetdiag.nettrace.labels import LabelList, parse_label_list
from dotnetdiag.nettrace.loss import LossAccount
from dotnetdiag.nettrace.metadata import Metadata
from dotnetdiag.nettrace.piece import Piece
from dotnetdiag.nettrace.records import parse_flat_record, parse_record, parse_row
from dotnetdiag.nettrace.stacks import STACK_COST, StackTable, parse_stacks
from dotnetdiag.nettrace.threads import ThreadInfo, ThreadMoves, parse_thread
from dotnetdiag.nettrace.translation import Translation
from dotnetdiag.wire import Cursor

_EVENT_HEADER = struct.Struct("<hhqq")
_UNTRANSLATED = Translation()
COST, PARSED_COST, ID_COST = 600, 32, 160
"""Bytes that a definition takes, each byte of it once it is a tree of values, and an id for it: about."""
BEYOND = "definitions beyond what a reader keeps"
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
        self.container = ""
        self.info: TraceInfo | None = None
        self.metadata: dict[int, Metadata] = {}
        self.threads: dict[int, ThreadInfo] = {}
        self.stacks = StackTable()
        self.guids = GuidTable()
        self.labels: list[LabelList] = [LabelList()]
        self.lost = LossAccount()
        self.segment = 0
        self.sequence_points: list[tuple[int, bool, list[tuple[int, int]]]] = []
        self.skipped: Counter[str] = Counter()
        self.skipped_bytes = 0
        self.broke: FormatError | None = None
        self._warned: dict[str, tuple[int, int]] = {}
        self._metadata_ids = IdMap()
        self._stack_ids = IdMap()
        self._label_ids = IdMap()
        self._label_numbers: dict[LabelList, int] = {}
        self._label_guids: list[tuple[int, int]] = [(0, 0)]
        self._thread_numbers: dict[int, int] = {}
        self.thread_moves = ThreadMoves()
        self._left = FILE_TABLES_LIMIT if keep else STREAM_TABLES_LIMIT
        self._spent: Counter[str] = Counter()
        self._free_metadata = FreeNumbers(0xFFFFFFFF)
        self._free_threads = FreeNumbers(0xFFFFFFFFFFFFFFFF)
        self._now = 0
        self._translation: Translation | None = None
        self.postponed: list[Callable[[], None]] | None = None
        """With a list, losses are not counted now: what is to be done stands there in file order."""

    def opened(self, text: str, container: str, major: int) -> None:
        """The format is known."""
        self.format, self.container, self.major = text, container, major
        self.lost = LossAccount(known=container == PLAIN or major >= 4, starts_at_one=container == OBJECTS)

    # findings -----------------------------------------------------------------------------------------------------

    def stopped(self, error: FormatError) -> None:
        """The containers cannot be followed any more, or end too early."""
        error.__traceback__ = error.__context__ = None  # they hold the bytes that were read
        if self.broke is None or (error.offset or 0) < (self.broke.offset or 0):
            self.broke = error

    def damage(self, error: FormatError) -> None:
        """Something in a block is broken; the first place in the file counts."""
        self.stopped(error)
        self.warn(f"damaged {error.where.split(' at ')[0]}" if error.where else "damaged", error.offset or 0)

    def warn(self, text: str, offset: int, count: int = 1) -> None:
        """Something is odd: counted, with the first place."""
        if text in self._warned or len(self._warned) < WARNINGS_LIMIT:
            seen, first = self._warned.get(text, (0, offset))
            self._warned[text] = (seen + count, min(first, offset))

    @property
    def warnings(self) -> list[str]:
        """One line for each kind of oddity, with how often and where first."""
        found = sorted(self._warned.items(), key=lambda item: (item[1][1], item[0]))
        return [f"{text}: {count}, first at 0x{first:x}" for text, (count, first) in found]

    def _affords(self, what: str, cost: int, offset: int) -> bool:
        """Whether one more definition fits the budget; otherwise it is not kept."""
        if cost <= self._left:
            self._left -= cost
            self._spent[what] += cost
            return True
        self.warn(BEYOND, offset)
        return False

    def _has_room(self, size: int, offset: int) -> bool:
        """Whether so many bytes may become a tree of values at all."""
        if COST + PARSED_COST * size <= self._left:
            return True
        self.warn(BEYOND, offset)
        return False

    def _spend(self, what: str, cost: int = 0) -> None:
        """What is left of such definitions takes so much."""
        self._left += self._spent[what] - cost
        self._spent[what] = cost

    # blocks -------------------------------------------------------------------------------------------------------

    def take(self, block: Block, data: memoryview, base: int) -> None:
        """Read a block that holds no events; ``data[0]`` stands at ``base``."""
        cursor = Cursor(
            data,
            position=block.start - base,
            end=block.start - base + block.present,
            base=base,
            where=block.name,
        )
        try:
            if block.kind is BlockKind.TRACE:
                self._trace(block, cursor)
            elif self.info is None:
                raise cursor.fail("the block stands before the Trace object")
            elif block.kind is BlockKind.METADATA:
                self._metadata_block(block, cursor)
            elif block.kind is BlockKind.STACK:
                self._translation = None
                clashes, refused = self._stacks(cursor)
                if refused:
                    self.warn(BEYOND, block.offset, refused)
                if clashes:
                    self.warn("stack ids given twice", block.offset, clashes)
            elif block.kind is BlockKind.SEQUENCE_POINT:
                self._sequence_point(cursor)
            elif block.kind is BlockKind.THREAD:
                self._threads(cursor)
            elif block.kind is BlockKind.REMOVE_THREAD:
                self._remove_threads(cursor)
            elif block.kind is BlockKind.LABEL_LIST:
                self._labels(cursor)
            elif block.kind is BlockKind.UNKNOWN:
                named = block.name in self.skipped or len(self.skipped) < WARNINGS_LIMIT
                self.skipped[block.name if named else "others"] += 1
                self.skipped_bytes += block.present
        except FormatError as error:
            self._translation = None
            if block.whole or block.kind is BlockKind.TRACE:
                self.damage(error)

    def _trace(self, block: Block, cursor: Cursor) -> None:
        if self.info is not None:
            self.warn("Trace objects after the first", block.offset)
            return
        parse = parse_flat if self.container == FLAT else parse_trace_v6 if self.container == PLAIN else parse_trace
        self.info = parse(cursor)
        self.stacks = StackTable(self.info.pointer_size)
        if self.info.start_ns is None:
            self.warn("the start date is none", block.start)

    # metadata -----------------------------------------------------------------------------------------------------

    def define(self, made: Metadata, offset: int, size: int) -> None:
        """Add a metadata record of that size found at ``offset``."""
        number = made.metadata_id
        if not number:
            self.warn("metadata with id 0", offset)
            return
        there = self._metadata_ids.get(number)
        if there:
            if replace(made, metadata_id=there) != self.metadata.get(there):
                self.warn("metadata ids defined twice, differently: the first counts", offset)
            return
        kept, other = number, self.metadata.get(number)
        if made != other and not self._affords("metadata", COST + PARSED_COST * size, offset):
            return
        self._free_metadata.see(number)
        if other is not None and made != other:
            kept = self._free_metadata.take(self.metadata)
        self.metadata[kept] = made if made.metadata_id == kept else replace(made, metadata_id=kept)
        self._metadata_ids.define(number, kept)
        self._translation = None

    def _metadata_block(self, block: Block, cursor: Cursor) -> None:
        if self.container == PLAIN:
            cursor.skip(cursor.u16("header size"), "header")
            while cursor.left:
                row = cursor.child(cursor.u16("row size"), "metadata row")
                self._record(row, v6=True)
            return
        for piece in decode_all(self.event_run(block, cursor.data, cursor.base), cursor.data, cursor.base):
            columns = piece.headers.payload_offset.tolist(), piece.headers.payload_length.tolist()
            for start, size in zip(*columns, strict=True):
                row = Cursor(cursor.data, position=start, end=start + size, base=cursor.base, where="metadata record")
                self._record(row, v6=False)
            self.check(block, piece.blocks[0], cursor.base, piece.place.rows)

    def _record(self, row: Cursor, *, v6: bool) -> None:
        offset, size = row.offset, row.left
        if not self._has_room(size, offset):
            return
        try:
            made = parse_row(row) if v6 else parse_record(row)
        except FormatError as error:
            self.damage(error)
            return
        self.define(made, offset, size)

    # stacks, sequence points, threads, labels -----------------------------------------------------------------------

    def _stacks(self, cursor: Cursor) -> tuple[int, int]:
        count, size = len(self._stack_ids), self.stacks.size_bytes
        try:
            return parse_stacks(cursor, self.stacks, self._stack_ids, self._left)
        finally:
            cost = STACK_COST * (len(self._stack_ids) - count) + self.stacks.size_bytes - size
            self._spend("ids", self._spent["ids"] + cost)

    def _sequence_point(self, cursor: Cursor) -> None:
        time = cursor.i64("timestamp")
        flags = cursor.u32("flags") if self.container == PLAIN else 0
        count = cursor.u32("thread count")
        wide = self.container != PLAIN
        rows: list[tuple[int, int]] = []
        broken: FormatError | None = None
        try:
            if count > cursor.left // (12 if wide else 2):
                raise cursor.fail(f"{count} threads in {cursor.left} bytes")
            if count > THREADS_LIMIT:
                self.warn(
                    "threads of sequence points beyond what a reader follows", cursor.offset, count - THREADS_LIMIT
                )
            for _ in range(min(count, THREADS_LIMIT)):
                rows.append(
                    (cursor.u64(), cursor.u32())
                    if wide
                    else (self._thread(cursor.varuint(64, "thread index")), cursor.varuint(32, "sequence number"))
                )
        except FormatError as error:
            broken = error
        segment, forget = self.segment, bool(flags & RESET_THREADS)
        self._account(lambda: self.lost.add_sequence_point(segment, time, rows, forget=forget))
        self.segment += 1
        if self.keep:
            self.sequence_points.append((time, forget, rows))
        self._stack_ids = IdMap()
        self._label_ids = IdMap()
        self._translation = None
        if not self.keep and self.stacks.size_bytes > STACK_BYTES_LIMIT:
            self.stacks = StackTable(self.stacks.pointer_size)
        self._spend("stacks", self.stacks.size_bytes + STACK_COST * len(self.stacks))
        self._spend("ids")
        if not self.keep and len(self.labels) > GUIDS_LIMIT:
            self.labels, self._label_numbers, self._label_guids = [LabelList()], {}, [(0, 0)]
            self._spend("labels")
            self.guids = GuidTable()
        if flags & RESET_THREADS:
            self._thread_numbers = {}
            self.thread_moves.reset()
            if not self.keep:
                self.threads = {}
                self._spend("threads")
        if flags & RESET_METADATA:
            self._metadata_ids = IdMap()
            if not self.keep:
                self.metadata = {}
                self._spend("metadata")
        if broken is not None:
            raise broken

    def _thread(self, index: int) -> int:
        return self._thread_numbers.get(index, index)

    def _threads(self, cursor: Cursor) -> None:
        while cursor.left:
            row = cursor.child(cursor.u16("row size"), "thread row")
            size = row.left
            try:
                made = parse_thread(row)
            except FormatError as error:
                self.damage(error)
                continue
            there = self._thread_numbers.get(made.index)
            if there is not None:
                if replace(made, index=there) != self.threads.get(there):
                    self.warn("thread indices defined twice, differently: the first counts", row.offset)
                continue
            kept, other = made.index, self.threads.get(made.index)
            if made != other and not self._affords("threads", COST + PARSED_COST * size, row.offset):
                continue
            self._free_threads.see(made.index)
            if other is not None and made != other:
                kept = self._free_threads.take(self.threads)
                self.thread_moves.note(made.index, kept)
            self.threads[kept] = replace(made, index=kept)
            self._thread_numbers[made.index] = kept

    def _remove_threads(self, cursor: Cursor) -> None:
        while cursor.left:
            index, number = cursor.varuint(64, "thread index"), cursor.varuint(32, "sequence number")
            thread = self._thread(index)
            if index not in self._thread_numbers:
                self.warn("threads removed that were not there", cursor.offset)
            self._account(partial(self._removed, self.segment, thread, number))
            self._thread_numbers.pop(index, None)
            if thread != index:
                self.thread_moves.note(index, None)

    def _removed(self, segment: int, thread: int, number: int) -> None:
        self.lost.remove_thread(segment, self._now, thread, number)

    def _account(self, act: Callable[[], None]) -> None:
        if self.postponed is None:
            act()
        else:
            self.postponed.append(act)

    def _labels(self, cursor: Cursor) -> None:
        first, count = cursor.u32("first label list"), cursor.u32("label list count")
        if not first or count > cursor.left:
            raise cursor.fail(f"{count} label lists from {first} in {cursor.left} bytes")
        for number in range(first, first + count):
            offset = cursor.offset
            made = parse_label_list(cursor)
            kept = self._label_numbers.get(made)
            size = cursor.offset - offset
            if not self._affords(*("ids", ID_COST) if kept else ("labels", COST + PARSED_COST * size), offset):
                continue
            if kept is None:
                kept = self._label_numbers[made] = len(self.labels)
                self.labels.append(made)
                self._label_guids.append(
                    (
                        self.guids.intern(made.activity.bytes_le) if made.activity else 0,
                        self.guids.intern(made.related.bytes_le) if made.related else 0,
                    )
                )
            if not self._label_ids.define(number, kept):
                self.warn("label lists given twice", cursor.offset)
            self._translation = None

    # events -------------------------------------------------------------------------------------------------------

    def translation(self) -> Translation:
        """What ids stand for now; the same object until something changes."""
        if self._translation is None:
            self._translation = Translation(
                self._stack_ids.snapshot(),
                self._label_ids.snapshot(),
                self._metadata_ids.snapshot(),
            )
        return self._translation

    def event_run(self, block: Block, data: memoryview, base: int) -> EventRun:
        """The events of an EventBlock or MetadataBlock; ``data[0]`` stands at ``base``. FormatError when its header is broken."""
        form, header = Form.NETPERF, 0
        if self.container != FLAT and self.major != 3:
            form, header = self._form(block, data, base)
        starts = np.array([block.start + header], np.int64)
        ends = np.array([block.start + block.present], np.int64)
        has_ids = block.kind is BlockKind.EVENT and form is not Form.NETPERF
        translation = self.translation() if has_ids else _UNTRANSLATED
        return EventRun((block,), form, starts, ends, translation, self.segment, self.thread_moves.position)

    def _form(self, block: Block, data: memoryview, base: int) -> tuple[Form, int]:
        """How the events are written, and the size of the block's header."""
        if block.present < _EVENT_HEADER.size:
            raise FormatError(f"{block.present} bytes hold no header", offset=block.start, where=block.name)
        size, flags, _, _ = _EVENT_HEADER.unpack_from(data, block.start - base)
        if size < _EVENT_HEADER.size or size > block.present:
            problem = f"a block header of {size} bytes in {block.present}"
            raise FormatError(problem, offset=block.start, where=block.name)
        if flags & ~1:
            self.warn("block header flags of unknown meaning", block.offset)
        if self.container == PLAIN:
            return Form.COMPRESSED_V6 if flags & 1 else Form.UNCOMPRESSED_V6, size
        return Form.COMPRESSED if flags & 1 else Form.UNCOMPRESSED, size

    def maybe_event_run(self, block: Block, data: memoryview, base: int) -> EventRun | None:
        """As :meth:`event_run`; None when that cannot be told, which is recorded."""
        try:
            if self.info is None:
                raise FormatError("the block stands before the Trace object", offset=block.start, where=block.name)
            return self.event_run(block, data, base)
        except FormatError as error:
            if block.whole:
                self.damage(error)
            return None

    def check(self, block: Block, found: npt.NDArray[np.void], base: int, before: int) -> None:
        """Record what was wrong in a piece of a block that stands behind so many events of it, as a row of ``BLOCK`` says."""
        problem, missing = int(found["problem"]), int(found["missing"])
        if problem and block.whole:
            text = _PROBLEMS[problem] + (f" by {missing} bytes" if problem == CUT_PAYLOAD and missing else "")
            where = f"{block.name} at 0x{block.offset:x}, event {before + int(found['rows']) + 1}"
            self.damage(FormatError(text, offset=int(found["stop"]) + base, where=where))
        if block.kind is not BlockKind.EVENT:
            return
        for name, text in zip(UNKNOWN, _UNKNOWN_TEXTS, strict=True):
            if found[name]:
                self.warn(text, block.offset, int(found[name]))

    def intern_guids(self, data: memoryview, headers: HeaderColumns, guids: npt.NDArray[np.int64]) -> None:
        """Activity ids by the table of this trace. ``activity`` and ``related`` come as 1 + index into ``guids``."""
        if len(guids):
            raw = sliding_window_view(np.frombuffer(data, np.uint8), 16)[guids]
            interned = np.zeros(len(guids) + 1, np.uint32)
            interned[1:] = self.guids.intern_many(raw)
            for name in ("activity", "related"):
                column = getattr(headers, name)
                rows = np.flatnonzero(column)
                column[rows] = interned[column[rows]]
        if len(self.labels) > 1 and self.container == PLAIN:
            pairs = np.array(self._label_guids, np.uint32)
            if pairs.any() and headers.label_list.any():
                headers.activity[:] = pairs[headers.label_list, 0]
                headers.related[:] = pairs[headers.label_list, 1]

    def renew_guids(self) -> None:
        """Begin a new table of activity ids in a stream when the old one has grown."""
        if not self.keep and len(self.guids) > GUIDS_LIMIT and self.container != PLAIN:
            self.guids = GuidTable()

    def account(self, headers: HeaderColumns, runs: npt.NDArray[np.int64], segment: int) -> None:
        """Count losses of the events of one block or several, in file order."""
        if self.lost.known and len(headers):
            self.lost.add_block(segment, headers.capture_thread, headers.sequence, headers.time, runs)
            self._now = int(headers.time[-1])

    def netperf(self, block: Block, data: memoryview, base: int, found: Piece) -> HeaderColumns:
        """Events of a NetPerf block: its metadata events become metadata, its stacks interned."""
        assert found.frames is not None
        assert found.positions is not None
        headers = found.headers
        meta_rows = np.flatnonzero(headers.metadata_id == 0)
        for row in meta_rows.tolist():
            start = int(headers.payload_offset[row])
            end = start + int(headers.payload_length[row])
            if not self._has_room(end - start, base + start):
                continue
            cursor = Cursor(data, position=start, end=end, base=base, where="metadata record")
            try:
                if self.container == FLAT:
                    number = int(found.positions[row]) + base & 0xFFFFFFFF
                    made = parse_flat_record(cursor, number, major=self.major)
                else:
                    made = parse_record(cursor)
            except FormatError as error:
                self.damage(error)
                continue
            self.define(made, base + start, end - start)
        pointer = self.info.pointer_size if self.info else 8
        starts, sizes = found.frames
        column = self.stacks.intern_many(data, starts, np.where(sizes >= pointer, sizes - sizes % pointer, -1))
        headers = replace(headers, stack=column)
        if len(meta_rows):
            headers = headers[headers.metadata_id != 0]
        ids, counts = np.unique(headers.metadata_id, return_counts=True)
        unknown = sum(
            count for number, count in zip(ids.tolist(), counts.tolist(), strict=True) if number not in self.metadata
        )
        if unknown:
            self.warn("events with an unknown metadata id", block.offset, unknown)
        return headers
