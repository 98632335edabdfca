"""nettrace 4, 5 and 6 written: blocks in the order in which runtimes flush them, events from columns or one by one.

Rule 1: what events refer to is written before them (Metadata, Thread, LabelList, Stack, then Event; nettrace.md §5.9).
Rule 2: nothing is written that the version cannot say: UsageError from the call that asks for it, and the writer is as
it was before. What was accepted can be written.
Rule 3: bytes go to ``file.write`` in order, all of them; nothing is sought or read back. After an error of ``file.write``
nothing more is written.
Rule 4: readers find the order of events and what was lost by ``is_sorted`` (nettrace.md §8). What they would misread is
not written: the events of a call, and those held back, are arranged (``blobs.arranged``), and an event that comes too
late for that is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Self, SupportsIndex
from uuid import UUID

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import blobs
from dotnetdiag.nettrace.arguments import REFUSED, bytes_of, check_kind, whole_number
from dotnetdiag.nettrace.columns import COLUMN_TYPES, HeaderColumns
from dotnetdiag.nettrace.constants import (
    MAGIC,
    OBJECT_KINDS,
    SERIALIZATION,
    SUPPORTED_VERSIONS,
    THREADS_LIMIT,
    TYPE_NAME_LIMIT,
    UNKNOWN_PROCESSOR,
    V6_BLOCK_LIMIT,
    BlockKind,
)
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.info import TraceInfo, stated_keys
from dotnetdiag.nettrace.label_table import are_lists
from dotnetdiag.nettrace.labels import LabelList, pack_label_list, parse_label_list
from dotnetdiag.nettrace.metadata import Metadata
from dotnetdiag.nettrace.opening import object_head, pack_trace
from dotnetdiag.nettrace.output import Output, Sink
from dotnetdiag.nettrace.readable import pack_readable
from dotnetdiag.nettrace.threads import ThreadInfo, pack_thread, parse_thread
from dotnetdiag.wire import Cursor, Packer

if TYPE_CHECKING:
    from dotnetdiag.nettrace.scanning import Buffer

_ROW_TYPE = np.dtype([(name, np.dtype(kind).newbyteorder("<")) for name, kind in COLUMN_TYPES.items()])
_ROW = struct.Struct("<IIQQIIqIIqI?I")
"""The same, to pack one row: what does not fit its column is refused here."""
_THREAD = struct.Struct("<QI")
_LONGEST_THREAD = 15
"""Bytes of a thread and its number in a sequence point, as varuints of 64 and 32 bits."""
_NO_THREAD = -1
_OBJECT_LIMIT = 0x7FFFFFFF
_DROPPED_LIMIT = (1 << 31) - 1
"""A number that is further ahead counts as one that fell back (nettrace.md §8)."""
PAYLOAD_LIMIT = 0xFFFF
"""A runtime's largest payload; larger ones are written, but readers need not take them."""
BLOCK_BYTES = {4: 100_000, 5: 100_000, 6: 1 << 20}
OBJECT_NAMES = {kind: name for name, kind in OBJECT_KINDS.items()}
SINGLE_EVENTS_HELD = 10_000


class Writer:
    """Writes one trace. Use as a context manager, or call :meth:`close`: it writes what is held back and the end
    marker.

    ``start_ns`` (UTC, cut to milliseconds), ``sync_ticks`` and ``frequency`` fix the clock; times of events are in
    its ticks. Versions 4 and 5 differ in what metadata may say only. ``compressed=False`` writes the long form of
    events.

    Readers find the order of events and their losses by ``is_sorted`` (``HeaderColumns``). What callers say of it is a
    wish: it is set where the capture thread is another than that of the event before, and not set where an event that
    is held back or given in the same call is older. Give events in the order of time, or those of one thread after
    those of another, with ``is_sorted=False`` where there are more than are held back (10,000 single events, or a block).
    """

    def __init__(
        self,
        file: Sink,
        *,
        version: int = 5,
        pointer_size: int = 8,
        start_ns: int | None = 0,
        sync_ticks: int = 0,
        frequency: int = 1_000_000_000,
        process_id: int | None = None,
        processors: int | None = None,
        sampling_ns: int | None = 1_000_000,
        key_values: Iterable[tuple[str, str]] = (),
        compressed: bool = True,
        block_bytes: int | None = None,
    ) -> None:
        self._out = Output(file)
        if type(version) is not int or version not in BLOCK_BYTES:
            raise UsageError(f"nettrace version {version!r} cannot be written; the numbers 4, 5 and 6 can")
        if whole_number(pointer_size, "pointer_size") not in (4, 8):
            raise UsageError(f"pointers have 4 or 8 bytes, not {pointer_size}")
        if whole_number(frequency, "frequency") <= 0:
            raise UsageError(f"{frequency} ticks per second")
        if block_bytes is not None and whole_number(block_bytes, "block_bytes") <= 0:
            raise UsageError(f"blocks of {block_bytes} bytes")
        whole_number(sync_ticks, "sync_ticks")
        try:
            pairs = tuple(key_values)
        except TypeError as error:
            raise UsageError(f"keys and values are pairs of text, not {type(key_values).__name__}") from error
        self.version = version
        self.pointer_size = pointer_size
        self._compressed = compressed
        self._room = (V6_BLOCK_LIMIT if version == 6 else _OBJECT_LIMIT) - blobs.HEADER_SIZE
        self._block_bytes = min(block_bytes or BLOCK_BYTES[version], self._room, V6_BLOCK_LIMIT)
        self._sync_ticks = sync_ticks
        self._metadata: dict[int, Metadata] = {}
        self._records: list[bytes] = []
        self._threads: dict[int, ThreadInfo] = {}
        self._new_threads: list[bytes] = []
        self._removed: set[int] = set()
        self._stacks: dict[bytes, int] = {}
        self._new_stacks: list[bytes] = []
        self._labels: dict[LabelList, int] = {}
        self._packed_labels: dict[bytes, int] = {}
        self._label_lists: list[bytes] = []
        self._new_labels: list[bytes] = []
        self._last: dict[int, int] = {}
        self._dropped: dict[int, int] = {}
        self._latest = sync_ticks
        self._rows = bytearray()
        self._row_payloads = bytearray()
        self._row_guids = GuidTable()
        self._last_capture: int | None = None
        """That of the last event written; ``_NO_THREAD`` when threads were forgotten since."""
        self._sorted_time: int | None = None
        """The latest event written as sorted since the last sequence point."""
        self._point_time: int | None = None
        self._latest_event: int | None = None
        self._latest_of: dict[int, int] = {}
        """The same by capture thread, of single events since the last sequence point."""
        body = pack_trace(
            version=version,
            start_ns=start_ns,
            sync_ticks=sync_ticks,
            frequency=frequency,
            pointer_size=pointer_size,
            process_id=process_id,
            processors=processors,
            sampling_ns=sampling_ns,
            key_values=pairs,
        )
        self._check_size("the Trace block", len(body))
        if version == 6:
            opening = MAGIC + struct.pack("<III", 0, 6, 0) + _numbered_block(BlockKind.TRACE, body)
        else:
            opening = MAGIC + SERIALIZATION + object_head("Trace", 4, 4) + body + b"\x06"
        self._out.write_first(opening)

    @classmethod
    def like(cls, file: Sink, info: TraceInfo, *, version: int = 5, compressed: bool = True) -> Self:
        """A writer with the clock, machine and process of a trace that was read.

        Versions 4 and 5 have fields for what the usual keys of version 6 say, and no room for others: UsageError.
        """
        check_kind(info, TraceInfo)
        said = () if version == 6 else stated_keys(info.process_id, info.processors, info.sampling_ns)
        return cls(
            file,
            version=version,
            pointer_size=info.pointer_size,
            start_ns=info.start_ns,
            sync_ticks=info.sync_ticks,
            frequency=info.frequency,
            process_id=info.process_id,
            processors=info.processors,
            sampling_ns=info.sampling_ns,
            key_values=[pair for pair in info.key_values if pair not in said],
            compressed=compressed,
        )

    @property
    def position(self) -> int:
        """Bytes written."""
        return self._out.position

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    # the container ------------------------------------------------------------------------------------------------

    def _check_size(self, what: str, size: int) -> None:
        if size > self._room - blobs.BLOB_BYTES:
            raise UsageError(f"{what} of {size} bytes does not fit a block of nettrace {self.version}")

    def _block(self, kind: int, content: bytes | bytearray) -> None:
        if self.version < 6:
            self.write_object(OBJECT_NAMES[BlockKind(kind)], content)
        else:
            self._out.write(_numbered_block(kind, content))

    def write_object(
        self, name: str, content: bytes | bytearray | memoryview, *, version: int = 2, min_reader: int = 2
    ) -> None:
        """An object of versions 4 and 5 with any name but Trace: how a rewrite keeps blocks that this version does not know."""
        self._out.check_open()
        if self.version == 6:
            raise UsageError("nettrace 6 has numbered blocks, not named objects")
        content = bytes_of(content)
        try:
            if not 0 < len(name.encode()) <= TYPE_NAME_LIMIT:
                raise ValueError(f"names have 1 to {TYPE_NAME_LIMIT} bytes")
            if name == "Trace":
                raise ValueError("there is one, and it has another form")
            if min_reader > SUPPORTED_VERSIONS.get(name, min_reader):
                raise ValueError(
                    f"readers of version {min_reader} would be needed, and know {SUPPORTED_VERSIONS[name]}"
                )
            head = object_head(name, version, min_reader) + struct.pack("<i", len(content))
        except REFUSED as error:
            raise UsageError(f"{name!r} of {len(content)} bytes does not fit the format: {error}") from error
        padding = -(self._out.position + len(head)) % 4
        self._out.write(head + bytes(padding) + content + b"\x06")

    def write_block(self, number: int, content: bytes | bytearray | memoryview) -> None:
        """A block of version 6 of any kind but the first and the last of a file."""
        self._out.check_open()
        if self.version != 6:
            raise UsageError(f"nettrace {self.version} has named objects, not numbered blocks")
        content = bytes_of(content)
        number = whole_number(number, "block")
        if len(content) > V6_BLOCK_LIMIT or not BlockKind.TRACE < number < 0x100:
            raise UsageError(f"block {number} of {len(content)} bytes does not fit the format")
        self._block(number, content)

    # what events refer to -----------------------------------------------------------------------------------------

    def add_metadata(self, metadata: Metadata) -> None:
        """Define an event type before its first event. The same record twice is written once."""
        self._out.check_open()
        check_kind(metadata, Metadata)
        there = self._metadata.get(whole_number(metadata.metadata_id, "metadata_id"))
        if there is not None:
            if there != metadata:
                raise UsageError(f"metadata id {metadata.metadata_id} stands for another event type")
            return
        # the long form keeps a bit for is_sorted
        if not 0 < metadata.metadata_id < 1 << (32 if self.version == 6 and self._compressed else 31):
            raise UsageError(f"{metadata.metadata_id} cannot be a metadata id")
        record = pack_readable(metadata, version=self.version)
        self._check_size("metadata", len(record))
        self._metadata[metadata.metadata_id] = metadata
        self._records.append(record)

    def add_thread(self, thread: ThreadInfo) -> None:
        """A thread row (version 6). Events of versions 4 and 5 name OS threads themselves."""
        self._out.check_open()
        if self.version != 6:
            raise UsageError(f"nettrace {self.version} has no thread rows")
        check_kind(thread, ThreadInfo)
        whole_number(thread.index, "index")
        if thread.index in self._removed:
            raise UsageError(f"thread index {thread.index} was removed; it cannot stand for another thread")
        there = self._threads.get(thread.index)
        if there is not None:
            if there != thread:
                raise UsageError(f"thread index {thread.index} stands for another thread")
            return
        try:
            row = pack_thread(thread)
            same = parse_thread(Cursor(row[2:])) == thread
        except REFUSED as error:
            raise UsageError(f"{thread} does not fit the format: {error}") from error
        if not same:
            raise UsageError(f"{thread} would be read as something else")
        self._threads[thread.index] = thread
        self._new_threads.append(row)

    def add_stack(self, frames: bytes | bytearray | memoryview | Sequence[int] | npt.NDArray[np.uint64]) -> int:
        """The id of a stack (leaf first) until the next sequence point; bytes are taken as whole pointers."""
        self._out.check_open()
        if isinstance(frames, np.ndarray) and frames.dtype.itemsize == 1:
            frames = frames.tobytes()
        if isinstance(frames, bytes | bytearray | memoryview):
            raw = bytes_of(frames)
            if len(raw) % self.pointer_size:
                raise UsageError(f"a stack of {len(raw)} bytes is not made of pointers of {self.pointer_size}")
        else:
            if not isinstance(frames, Sequence | np.ndarray):
                raise UsageError(f"a stack is bytes or a sequence of addresses, not {type(frames).__name__}")
            try:
                raw = struct.pack(f"<{len(frames)}{'Q' if self.pointer_size == 8 else 'I'}", *frames)
            except REFUSED as error:
                raise UsageError(f"an address does not fit {self.pointer_size} bytes: {error}") from error
        self._check_size("a stack", len(raw))
        found = self._stacks.get(raw)
        if found is None:
            found = self._stacks[raw] = len(self._stacks) + 1
            self._new_stacks.append(raw)
        return found

    def add_labels(self, labels: LabelList) -> int:
        """The index of a label list (version 6) until the next sequence point; 0 for one that says nothing."""
        self._out.check_open()
        if self.version != 6:
            raise UsageError(f"nettrace {self.version} has no label lists")
        check_kind(labels, LabelList)
        if labels == LabelList():
            return 0
        try:
            found = self._labels.get(labels)
        except TypeError as error:
            raise UsageError(f"{labels} does not fit the format: {error}") from error
        if found is None:
            try:
                packed = pack_label_list(labels)
                same = parse_label_list(Cursor(packed)) == labels
            except REFUSED as error:
                raise UsageError(f"{labels} does not fit the format: {error}") from error
            if not same:
                raise UsageError(f"{labels} would be read as something else")
            found = self._labels[labels] = self._add_packed(packed)
        return found

    def add_label_lists(self, lists: Sequence[bytes]) -> list[int]:
        """The same of many as they stand in files (``LabelLists.raw``, ``activity_lists``). Raises UsageError, and none is added, where one is not
        made of labels.
        """
        self._out.check_open()
        if self.version != 6:
            raise UsageError(f"nettrace {self.version} has no label lists")
        if not are_lists(lists):
            raise UsageError("these bytes are no label lists")
        return [self._add_packed(raw) if raw else 0 for raw in lists]

    def _add_packed(self, packed: bytes) -> int:
        found = self._packed_labels.get(packed)
        if found is None:
            self._check_size("a label list", len(packed))
            found = self._packed_labels[packed] = len(self._packed_labels) + 1
            self._label_lists.append(packed)
            self._new_labels.append(packed)
        return found

    # events -------------------------------------------------------------------------------------------------------

    def write_event(
        self,
        metadata_id: int,
        time: int,
        payload: bytes | bytearray | memoryview = b"",
        *,
        thread: int,
        capture_thread: int | None = None,
        sequence: int | None = None,
        processor: int = UNKNOWN_PROCESSOR,
        stack: int = 0,
        activity: UUID | None = None,
        related: UUID | None = None,
        is_sorted: bool = True,
        labels: int = 0,
    ) -> None:
        """One event. Without ``sequence`` it gets the capture thread's next number. Held back until a block is full.

        ``is_sorted`` as in ``HeaderColumns``: the class says what becomes of it. UsageError for an event that is older
        than another of its capture thread, than the last sequence point, or than one that was written as sorted.
        In version 6 ``activity`` and ``related`` are written as labels, together with those given.
        """
        self._out.check_open()
        raw = bytes_of(payload)
        capture = thread if capture_thread is None else capture_thread
        for guid in (activity, related):
            if guid is not None:
                check_kind(guid, UUID)
        guids = [None if guid is None else guid.bytes_le for guid in (activity, related)]
        try:
            sequence = self._last.get(capture, 0) + 1 & 0xFFFFFFFF if sequence is None else index(sequence)
            fields = metadata_id, sequence, capture, thread, processor, stack, time
            _ROW.pack(*fields, 0, 0, 0, len(raw), is_sorted, labels)
        except REFUSED as error:
            raise UsageError(f"a value of an event does not fit its field: {error}") from error
        if metadata_id not in self._metadata:
            raise UsageError(f"event of metadata id {metadata_id}, which was not defined")
        self._check_references(stack, labels)
        self._check_threads((thread, capture))
        self._check_size("a payload", len(raw))
        self._check_time(capture, time)
        if self.version == 6:
            if guids != [None, None]:
                labels = self._with_activities(labels, activity, related)
            guids = [None, None]
        indices = [0 if guid is None else self._row_guids.intern(guid) for guid in guids]
        self._last[capture] = sequence
        self._latest_of[capture] = time
        self._latest_event = time if self._latest_event is None else max(time, self._latest_event)
        self._dropped.pop(capture, None)
        self._rows += _ROW.pack(*fields, *indices, len(self._row_payloads), len(raw), is_sorted, labels)
        self._row_payloads += raw
        if len(self._rows) >= SINGLE_EVENTS_HELD * _ROW.size or len(self._row_payloads) >= self._block_bytes:
            self._flush_rows()

    def _with_activities(self, labels: int, activity: UUID | None, related: UUID | None) -> int:
        """The index of a label list with these activities besides."""
        old = parse_label_list(Cursor(self._label_lists[labels - 1])) if labels else LabelList()
        new = replace(old, activity=activity or old.activity, related=related or old.related)
        if (old.activity or new.activity, old.related or new.related) != (new.activity, new.related):
            raise UsageError(f"activities {activity}, {related} beside labels that say {old.activity}, {old.related}")
        return self.add_labels(new)

    def _check_references(self, stack: int, labels: int) -> None:
        if stack > len(self._stacks):
            raise UsageError(f"event with stack {stack}, which was not added since the last sequence point")
        if labels > len(self._label_lists):
            raise UsageError(f"event with labels {labels}, which were not added since the last sequence point")

    def _check_threads(self, threads: Iterable[int]) -> None:
        if self.version == 6 and (missing := [thread for thread in threads if thread not in self._threads]):
            raise UsageError(f"thread indices without a row since threads were forgotten or removed: {missing[:5]}")

    def _check_time(self, capture: int, time: int) -> None:
        for what, least in (
            ("the last event of its thread", self._latest_of.get(capture)),
            ("the last sequence point", self._point_time),
            ("an event that was written as sorted", self._sorted_time),
        ):
            if least is not None and time < least:
                raise UsageError(f"an event at {time} cannot follow {what}, at {least}")

    def _flush_rows(self, before: int | None = None) -> None:
        """``before``: the earliest time of what is known to follow."""
        if not self._rows:
            return
        rows, payloads, guids = np.frombuffer(self._rows, _ROW_TYPE), self._row_payloads, self._row_guids
        self._rows, self._row_payloads, self._row_guids = bytearray(), bytearray(), GuidTable()
        headers = HeaderColumns(*(np.array(rows[name], kind) for name, kind in COLUMN_TYPES.items()))
        headers = blobs.arranged(headers, self._last_capture, before)
        self._events(headers, np.frombuffer(payloads, np.uint8), guids)

    def write_events(
        self,
        headers: HeaderColumns,
        payload: Buffer,
        *,
        guids: GuidTable | None = None,
        arrange: bool = True,
    ) -> None:
        """Events in bulk; ``payload_offset`` counts from the start of ``payload``.

        They are written in the order given, unless readers would misread it: then the runs of threads are put in the
        order of time (a thread's own events never change places). UsageError where one is older than what was written
        as sorted since the last sequence point. A thread whose own times go back, and events older than the sequence
        point, are taken, as files have them: readers give them in the order given. ``arrange=False`` takes all as it
        is: of a whole file, which is then read as that one is.

        Stack and label ids are those that :meth:`add_stack` and :meth:`add_labels` gave; ``activity`` and ``related``
        index ``guids`` (versions 4 and 5; in version 6 activities are labels and the columns are not looked at).
        """
        self._out.check_open()
        check_kind(headers, HeaderColumns)
        if guids is not None:
            check_kind(guids, GuidTable)
        data = payload if isinstance(payload, np.ndarray) else np.frombuffer(bytes_of(payload), np.uint8)
        if data.dtype != np.uint8 or data.ndim != 1:
            raise UsageError(f"payloads in an array of {data.dtype} with {data.ndim} dimensions, not of bytes")
        blobs.check_columns(headers)
        if not len(headers):
            return
        offsets = headers.payload_offset
        # a sum of offset and length could wrap
        if int(offsets.min()) < 0 or (offsets > len(data) - headers.payload_length.astype(np.int64)).any():
            raise UsageError("payloads reach beyond the buffer given")
        self._check_size("a payload", int(headers.payload_length.max()))
        unknown = [number for number in np.unique(headers.metadata_id).tolist() if number not in self._metadata]
        if unknown:
            raise UsageError(f"events of metadata ids that were not defined: {unknown[:5]}")
        guids = guids or GuidTable()
        if self.version < 6 and int(max(headers.activity.max(), headers.related.max())) >= len(guids):
            raise UsageError("activity indices beyond the table of GUIDs given")
        self._check_references(int(headers.stack.max()), int(headers.label_list.max()))
        # the last number of each capture thread: what sequence points say by themselves
        threads, last = np.unique(headers.capture_thread[::-1], return_index=True)
        self._check_threads(threads.tolist())
        self._check_threads(np.unique(headers.thread[headers.thread != headers.capture_thread]).tolist())
        earliest = int(headers.time.min())
        self._flush_rows(earliest)
        if arrange and self._sorted_time is not None and earliest < self._sorted_time:
            raise UsageError(f"an event at {earliest} cannot follow an event written as sorted, at {self._sorted_time}")
        latest = int(headers.time.max())
        self._latest_event = latest if self._latest_event is None else max(latest, self._latest_event)
        numbers = headers.sequence[::-1][last]
        self._last.update(zip(threads.tolist(), numbers.tolist(), strict=True))
        for thread in self._dropped.keys() & set(threads.tolist()):
            del self._dropped[thread]
        self._events(blobs.arranged(headers, self._last_capture) if arrange else headers, data, guids)

    def _events(self, headers: HeaderColumns, payload: npt.NDArray[np.uint8], guids: GuidTable) -> None:
        self._flush_references()
        self._last_capture = int(headers.capture_thread[-1])
        if headers.is_sorted.any():
            self._sorted_time = int(headers.time[headers.is_sorted].max())
        self._latest = max(self._latest, int(headers.time.max()))
        self._encode(BlockKind.EVENT, headers, payload, guids)

    def _encode(
        self, kind: BlockKind, headers: HeaderColumns, payload: npt.NDArray[np.uint8], guids: GuidTable
    ) -> None:
        form = blobs.compressed if self._compressed else blobs.uncompressed
        for content in form(headers, payload, guids, v6=self.version == 6, block_bytes=self._block_bytes):
            self._block(kind, content)

    def _flush_references(self) -> None:
        """Write metadata, threads, labels and stacks that were added since."""
        if self._records:
            records, self._records = self._records, []
            if self.version == 6:
                self._rows_of(BlockKind.METADATA, records, b"\0\0")
            else:
                self._metadata_block(records)
        if self._new_threads:
            threads, self._new_threads = self._new_threads, []
            self._rows_of(BlockKind.THREAD, threads, b"")
        if self._new_labels:
            labels, self._new_labels = self._new_labels, []
            self._numbered(BlockKind.LABEL_LIST, labels, len(self._label_lists) - len(labels) + 1)
        if self._new_stacks:
            stacks, self._new_stacks = self._new_stacks, []
            parts = [struct.pack("<I", len(raw)) + raw for raw in stacks]
            self._numbered(BlockKind.STACK, parts, len(self._stacks) - len(stacks) + 1)

    def _rows_of(self, kind: BlockKind, rows: list[bytes], head: bytes) -> None:
        for part in _parts(rows, self._block_bytes):
            self._block(kind, head + b"".join(part))

    def _numbered(self, kind: BlockKind, rows: list[bytes], first: int) -> None:
        for part in _parts(rows, self._block_bytes):
            self._block(kind, struct.pack("<II", first, len(part)) + b"".join(part))
            first += len(part)

    def _metadata_block(self, records: list[bytes]) -> None:
        rows = len(records)
        headers = HeaderColumns.allocate(rows)
        for name in ("metadata_id", "sequence", "capture_thread", "thread", "stack"):
            getattr(headers, name)[:] = 0
        headers.processor[:] = UNKNOWN_PROCESSOR
        headers.time[:] = self._latest
        headers.is_sorted[:] = True
        sizes = np.array([len(record) for record in records], np.int64)
        headers.payload_length[:] = sizes
        headers.payload_offset[:] = np.cumsum(sizes) - sizes
        self._encode(BlockKind.METADATA, headers, np.frombuffer(b"".join(records), np.uint8), GuidTable())

    # sequence points ----------------------------------------------------------------------------------------------

    def add_dropped(self, capture_thread: int, count: SupportsIndex) -> None:
        """Say that the thread attempted ``count`` more events, which are not in the file: they take numbers.

        Between two events or sequence points, fewer than 2**31 of a thread can be told from none. Version 6 begins
        numbering anywhere: there a sequence point with the thread's number, or an event, must come first.
        """
        self._out.check_open()
        self._pack_thread_number(capture_thread, 0)
        if self.version == 6 and capture_thread not in self._last:
            raise UsageError(f"nettrace 6 cannot say what thread {capture_thread} dropped before its first number")
        count, dropped = whole_number(count, "count"), self._dropped.get(capture_thread, 0)
        if not 0 <= count <= _DROPPED_LIMIT - dropped:
            raise UsageError(f"{count} events cannot be dropped" + (f" beside {dropped}" if dropped else ""))
        self._dropped[capture_thread] = dropped + count
        self._last[capture_thread] = self._last.get(capture_thread, 0) + count & 0xFFFFFFFF

    def _pack_thread_number(self, thread: int, number: int) -> bytes:
        """A thread and its last number, as sequence points and removals hold them."""
        try:
            row = _THREAD.pack(thread, number)
        except REFUSED as error:
            raise UsageError(f"number {number} of thread {thread} does not fit the format: {error}") from error
        return row if self.version < 6 else bytes(Packer().varuint(thread).varuint(number))

    def flush(self) -> None:
        """Write everything held back as blocks. The file is readable up to here, though without an end."""
        self._out.check_open()
        self._flush_rows()
        self._flush_references()

    def write_sequence_point(
        self, time: int | None = None, threads: Mapping[int, int] | None = None, *, forget_threads: bool = False
    ) -> None:
        """All events so far are not later than ``time`` (default: the latest), and none that follows is earlier; stack
        and label ids begin anew. UsageError for a time before that of an event so far.

        ``threads``: last attempted number by capture thread (default: what was written, and :meth:`add_dropped`). More
        of them than a reader follows are written as several sequence points.
        ``forget_threads`` (version 6): numbering begins anew, and threads have to be added again.
        """
        self._out.check_open()
        if threads is not None:
            check_kind(threads, Mapping)
        if forget_threads and self.version != 6:
            raise UsageError(f"nettrace {self.version} has no sequence points that forget threads")
        numbers = self._last if threads is None else threads
        rows = [self._pack_thread_number(thread, number) for thread, number in numbers.items()]
        self._check_threads(numbers)
        try:
            stamp = None if time is None else struct.pack("<q", time)
        except struct.error as error:
            raise UsageError(f"{time} cannot be the time of a sequence point: {error}") from error
        if time is not None and self._latest_event is not None and time < self._latest_event:
            raise UsageError(f"a sequence point at {time} cannot follow an event at {self._latest_event}")
        self.flush()
        stamp = stamp or struct.pack("<q", self._latest)
        most = min(THREADS_LIMIT, (self._room - blobs.BLOB_BYTES) // _LONGEST_THREAD)
        for first in range(0, len(rows) or 1, most):
            part = rows[first : first + most]
            head = struct.pack("<I", len(part))
            if self.version == 6:
                head = struct.pack("<I", bool(forget_threads) and first + most >= len(rows)) + head
            self._block(BlockKind.SEQUENCE_POINT, stamp + head + b"".join(part))
        self._stacks, self._dropped = {}, {}
        self._labels, self._packed_labels, self._label_lists = {}, {}, []
        self._sorted_time, self._point_time = None, self._latest if time is None else time
        self._latest_of = {}
        self._last.update({thread: int(number) for thread, number in numbers.items()})
        if forget_threads:
            self._last, self._threads, self._removed = {}, {}, set()
            self._last_capture = _NO_THREAD

    def remove_thread(self, index: int, sequence: int | None = None) -> None:
        """Say that a thread ended after its event ``sequence`` (version 6).

        Its index is not free before a sequence point that forgets threads: TraceEvent calls it a duplicate.
        """
        self._out.check_open()
        if self.version != 6:
            raise UsageError(f"nettrace {self.version} cannot remove threads")
        row = self._pack_thread_number(index, self._last.get(index, 0) if sequence is None else sequence)
        self._check_threads([index])
        self.flush()
        self._block(BlockKind.REMOVE_THREAD, row)
        self._last.pop(index, None)
        self._dropped.pop(index, None)
        del self._threads[index]
        self._removed.add(index)

    def close(self, *, sequence_point: bool = True) -> None:
        """Write what is held back, a last sequence point (unless told not to) and the end marker.

        The file stays open. A closed writer takes nothing more: UsageError; to close it again does nothing.
        """
        if self._out.is_closed:
            return
        self.flush()
        if sequence_point:
            self.write_sequence_point()
        self._out.write_last(b"\x01" if self.version < 6 else bytes(4))


def _parts(rows: list[bytes], limit: int) -> Iterable[list[bytes]]:
    """Rows in order, cut where a block would grow over the limit."""
    part: list[bytes] = []
    size = 0
    for row in rows:
        if part and size + len(row) > limit:
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row)
    if part:
        yield part


def _numbered_block(kind: int, content: bytes | bytearray) -> bytes:
    return struct.pack("<I", kind << 24 | len(content)) + content
