"""Parts of a stream, each a valid trace by itself.

Rule 1: what a part needs of what came before is repeated at its head: the Trace object, all metadata, and of version 6 the threads that live.
Rule 2: stacks and label lists hold until the next sequence point, so a part begins behind one, or repeats the stacks since the last.
Rule 3: in nettrace 4 and 5 numbers begin at 1 for each thread. A part says with a sequence point whose time is before that of the trace
which numbers came before it (``loss``), and when it begins (``part_range``); readers that do not know of that take the first number that they see.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.info import TraceInfo
from dotnetdiag.nettrace.last_numbers import LastNumbers
from dotnetdiag.nettrace.loss_count import LossCount, LossCounter, Unusual, metadata_records
from dotnetdiag.nettrace.part_range import mark, moment
from dotnetdiag.nettrace.stream_blocks import NUMBERED_END, OBJECT_END, StreamBlock
from dotnetdiag.wire import Cursor

if TYPE_CHECKING:
    from dotnetdiag.nettrace.reader_counter import ReaderCounter

METADATA_LIMIT = 64 << 20
"""Bytes of event types that are repeated; runtimes write less than 100 KB of them."""
_TIME = struct.Struct("<q")
_POINT = struct.Struct("<qI")
_POINT_V6 = struct.Struct("<qII")
_POINT_ROW = struct.Struct("<QI")
_RESET_THREADS, _RESET_METADATA = 1, 2
UNREAD_ID = 1 << 24
"""Beyond all ids of metadata that is not read here."""


class Sink(Protocol):
    """Where bytes go: a file opened for binary writing."""

    def write(self, data: bytes, /) -> object: ...


class Head:
    """What is to be repeated, followed over a stream: show it every block."""

    def __init__(self, opening: bytes, info: TraceInfo, *, is_numbered: bool) -> None:
        self.opening, self.info, self.is_numbered = opening, info, is_numbered
        self.metadata: list[StreamBlock] = []
        self.largest_id = 0
        """Of the metadata, in nettrace 4 and 5."""
        self.point: StreamBlock | None = None
        """The last sequence point."""
        self.part_ticks: tuple[int, int] | None = None
        """From when to when a part is, where that is known ahead of it."""
        self._threads: dict[int, bytes] = {}
        self._metadata_bytes = 0

    def follow(self, block: StreamBlock) -> None:
        """Raises FormatError for damage to what has to be repeated, or too much of it."""
        if block.kind is BlockKind.METADATA:
            self._metadata_bytes += block.size_bytes
            if self._metadata_bytes > METADATA_LIMIT:
                raise FormatError(f"more than {METADATA_LIMIT} bytes", offset=0, where="MetadataBlock")
            self.metadata.append(block)
            if not self.is_numbered:
                self.largest_id = max(self.largest_id, _largest_id(block))
        elif block.kind is BlockKind.SEQUENCE_POINT:
            self.point = block
            if self.is_numbered:
                self._forget(Cursor(block.content, where="SequencePoint"))
        elif block.kind is BlockKind.THREAD:
            rows = Cursor(block.content, where="ThreadBlock")
            while rows.left:
                start = rows.position
                row = rows.child(rows.u16("row size"), "thread row")
                self._threads[row.varuint(64, "thread index")] = block.content[start : row.end]
        elif block.kind is BlockKind.REMOVE_THREAD:
            removed = Cursor(block.content, where="RemoveThread")
            while removed.left:
                self._threads.pop(removed.varuint(64, "thread index"), None)
                removed.varuint(32, "sequence number")

    def _forget(self, point: Cursor) -> None:
        point.skip(8)
        flags = point.u32("flags")
        if flags & _RESET_THREADS:
            self._threads.clear()
        if flags & _RESET_METADATA:
            self.metadata, self._metadata_bytes = [], 0

    def blocks(self, numbers: LastNumbers | None) -> Iterable[StreamBlock]:
        """Those of a part that begins behind the last sequence point (where it ``numbers`` the threads, anywhere)."""
        yield from self.metadata
        if not self.is_numbered:
            numbers = numbers or LastNumbers(live={}, ended={})
            if numbers.live or numbers.ended or self.part_ticks is not None:
                early, sync_ticks = mark(self.info.sync_ticks), self.info.sync_ticks
                yield point_block(early, {**numbers.live, **numbers.ended})
                if numbers.ended:
                    yield point_block(early, numbers.live)
                told = [] if self.point is None else [self._begin(self.point)]
                if self.part_ticks is not None:
                    told = [moment(ticks, sync_ticks) for ticks in self.part_ticks]
                for time in told:
                    yield point_block(time, numbers.live)
            return
        if self.point is not None:
            for time in mark(self.info.sync_ticks), self._begin(self.point):
                yield _numbered_point(_POINT_V6.pack(time, 0, 0))
        if self._threads:
            content = b"".join(self._threads.values())
            yield StreamBlock(kind=BlockKind.THREAD, number=BlockKind.THREAD, content=content)
        if self.point is not None:
            time, flags, _ = _POINT_V6.unpack_from(self.point.content)
            if not flags & _RESET_THREADS:
                yield _numbered_point(_POINT_V6.pack(time, 0, 0)[:12] + self.point.content[12:])

    def _begin(self, point: StreamBlock) -> int:
        """The time that says: the part begins behind that sequence point."""
        (ticks,) = _TIME.unpack_from(point.content)
        return moment(ticks, self.info.sync_ticks)


def _numbered_point(content: bytes) -> StreamBlock:
    return StreamBlock(kind=BlockKind.SEQUENCE_POINT, number=BlockKind.SEQUENCE_POINT, content=content)


def point_block(time: int, numbers: Mapping[int, int]) -> StreamBlock:
    """A sequence point of nettrace 4 and 5."""
    content = _POINT.pack(time, len(numbers)) + b"".join(_POINT_ROW.pack(*row) for row in numbers.items())
    return StreamBlock(kind=BlockKind.SEQUENCE_POINT, name="SPBlock", content=content)


def listed_numbers(point: StreamBlock) -> LastNumbers:
    """What a sequence point of nettrace 4 and 5 says. Raises FormatError."""
    cursor = Cursor(point.content, where="SPBlock")
    cursor.skip(8)
    count = cursor.u32("thread count")
    if count > cursor.left // _POINT_ROW.size:
        raise cursor.fail(f"{count} threads in {cursor.left} bytes")
    return LastNumbers(live={cursor.u64(): cursor.u32() for _ in range(count)}, ended={})


def _largest_id(block: StreamBlock) -> int:
    try:
        return max((record.u32() for record in metadata_records(memoryview(block.content))), default=0)
    except (Unusual, FormatError):
        return UNREAD_ID


def _reader_counter() -> ReaderCounter:
    from dotnetdiag.nettrace.reader_counter import ReaderCounter  # with numpy, which is not needed otherwise

    return ReaderCounter()


class Part:
    """One part that is written, and counted as it is: ``file`` gets its bytes. None: it is only counted."""

    def __init__(self, head: Head, file: Sink | None, *, numbers: LastNumbers | None = None) -> None:
        """Behind this the head is written; blocks that it was shown before are not to be written."""
        self.position = 0
        """Bytes written."""
        self._file, self._is_numbered = file, head.is_numbered
        self._losses = LossCounter() if kernels.KERNELS is not None else _reader_counter()
        self._point: StreamBlock | None = None
        self._put(head.opening)
        for block in head.blocks(numbers):
            self.write(block)
        self._point = None
        self.head_bytes = self.position

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written behind the head."""
        return self.position == self.head_bytes

    def write(self, block: StreamBlock) -> None:
        """Write a block of the stream."""
        if block.kind is BlockKind.SEQUENCE_POINT:
            self._point = block
        self._put(block.framed(self.position))

    def last_numbers(self) -> LastNumbers | None:
        """Where the threads' numbers stand. Where events are not of the usual form, as the last sequence point says; None without one."""
        if self._is_numbered:
            return None
        counted = self._losses.last_numbers()
        if counted is None and self._point is not None:
            return listed_numbers(self._point)
        return counted

    def close(self, *, complete: bool = True) -> LossCount | None:
        """Write the end marker, unless the stream had none. What was lost; None where that has to be read (``count_losses``)."""
        if complete:
            self._put(NUMBERED_END if self._is_numbered else OBJECT_END)
        return self._losses.close()

    def _put(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)
        self.position += len(data)
        self._losses.feed(data)
