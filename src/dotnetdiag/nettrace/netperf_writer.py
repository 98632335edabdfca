"""NetPerf 3 written: what a runtime of any age sends to who asks for format 0 (nettrace.md §4).

Rule 1: an event carries its stack, its activities and its whole thread number itself. Capture threads, numbers, processors and labels
have no place in the format and are left out, so that readers cannot know what was lost.
Rule 2: an event's metadata comes before it, as an event of its own.
Rule 3: readers take the events as they stand, and expect them in the order of time: those of a call are sorted, calls are not.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import blobs
from dotnetdiag.nettrace.arguments import bytes_of, check_kind, whole_number
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import SERIALIZATION
from dotnetdiag.nettrace.guids import ZERO, GuidTable
from dotnetdiag.nettrace.metadata import Metadata
from dotnetdiag.nettrace.opening import object_head, pack_trace
from dotnetdiag.nettrace.output import Output, Sink
from dotnetdiag.nettrace.readable import pack_readable

if TYPE_CHECKING:
    from dotnetdiag.nettrace.scanning import Buffer

BLOCK_BYTES = 100_000
_TAG = 4
_HEADER = np.dtype(
    [
        ("size", "<u4"),
        ("metadata_id", "<u4"),
        ("thread", "<u4"),
        ("time", "<i8"),
        ("activity", "u1", 16),
        ("related", "u1", 16),
        ("payload", "<u4"),
    ]
)
_STACK_BYTES = 4
"""The size of the stack, behind the payload."""
_SIZE_BYTES = 4
"""The size of an event is without itself."""
_LARGEST = 0x7FFFFFFF


class NetPerfWriter:
    """Writes one trace of NetPerf 3, a file or a stream. Has the part of :class:`Writer` that this format can say.

    ``start_ns`` (UTC, cut to milliseconds), ``sync_ticks`` and ``frequency`` fix the clock; times of events are in its ticks. Raises
    UsageError for what does not fit; the writer is then as it was.
    """

    version = 3

    def __init__(
        self,
        file: Sink,
        *,
        pointer_size: int = 8,
        start_ns: int | None = 0,
        sync_ticks: int = 0,
        frequency: int = 1_000_000_000,
        process_id: int | None = None,
        processors: int | None = None,
        sampling_ns: int | None = 1_000_000,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        if whole_number(pointer_size, "pointer_size") not in (4, 8):
            raise UsageError(f"pointers have 4 or 8 bytes, not {pointer_size}")
        if whole_number(frequency, "frequency") <= 0:
            raise UsageError(f"{frequency} ticks per second")
        if whole_number(block_bytes, "block_bytes") <= 0:
            raise UsageError(f"blocks of {block_bytes} bytes")
        self._out = Output(file)
        self._block_bytes = block_bytes
        self.pointer_size = pointer_size
        self._latest = whole_number(sync_ticks, "sync_ticks")
        self._metadata: dict[int, Metadata] = {}
        self._records: list[tuple[int, bytes]] = []
        self._stacks: dict[bytes, int] = {}
        body = pack_trace(
            version=self.version,
            start_ns=start_ns,
            sync_ticks=sync_ticks,
            frequency=frequency,
            pointer_size=pointer_size,
            process_id=process_id,
            processors=processors,
            sampling_ns=sampling_ns,
        )
        self._out.write_first(SERIALIZATION + object_head("Trace", 3, 0, tag=_TAG) + body + b"\x06")

    @property
    def position(self) -> int:
        """Bytes written."""
        return self._out.position

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def add_metadata(self, metadata: Metadata) -> None:
        """Define an event type before its first event. The same record twice is written once. Fields may be of the types of nettrace 5."""
        self._out.check_open()
        check_kind(metadata, Metadata)
        number = whole_number(metadata.metadata_id, "metadata_id")
        there = self._metadata.get(number)
        if there is not None:
            if there != metadata:
                raise UsageError(f"metadata id {number} stands for another event type")
            return
        if not 0 < number <= _LARGEST:
            raise UsageError(f"{number} cannot be a metadata id")
        self._records.append((number, pack_readable(metadata, version=5)))
        self._metadata[number] = metadata

    def add_stack(self, frames: bytes) -> int:
        """The id of a stack (pointers, leaf first) for :meth:`write_events`, until the next :meth:`write_sequence_point`."""
        self._out.check_open()
        raw = bytes_of(frames)
        if len(raw) % self.pointer_size:
            raise UsageError(f"a stack of {len(raw)} bytes is not made of pointers of {self.pointer_size}")
        return self._stacks.setdefault(raw, len(self._stacks) + 1)

    def write_sequence_point(self, time: int | None = None, threads: Mapping[int, int] | None = None) -> None:  # noqa: ARG002
        """The format has none: nothing is written. Stack ids begin anew."""
        self._out.check_open()
        self._stacks = {}

    def write_events(self, headers: HeaderColumns, payload: Buffer, *, guids: GuidTable | None = None) -> None:
        """Events in bulk, sorted by time and written at once; ``payload_offset`` counts from the start of ``payload``, ``activity`` and
        ``related`` index ``guids``, ``stack`` is 0 or an id of :meth:`add_stack`.
        """
        self._out.check_open()
        check_kind(headers, HeaderColumns)
        blobs.check_columns(headers)
        if not len(headers):
            return
        data = payload if isinstance(payload, np.ndarray) else np.frombuffer(bytes_of(payload), np.uint8)
        guids = guids or GuidTable()
        self._check(headers, data, guids)
        if (headers.time[1:] < headers.time[:-1]).any():
            headers = headers[np.argsort(headers.time, kind="stable")]
        self._define(int(headers.time[0]))
        self._latest = max(self._latest, int(headers.time[-1]))
        stacks = [b"", *self._stacks]
        self._write(headers, data, guids.bytes().reshape(-1, len(ZERO)), stacks)

    def close(self, *, sequence_point: bool = True) -> None:  # noqa: ARG002 - as of Writer
        """Write the end. The file stays open; to close the writer again does nothing."""
        if self._out.is_closed:
            return
        self._out.check_open()
        self._define(self._latest)
        self._out.write_last(b"\x01")

    def _check(self, headers: HeaderColumns, data: npt.NDArray[np.uint8], guids: GuidTable) -> None:
        offsets, lengths = headers.payload_offset, headers.payload_length.astype(np.int64)
        if int(offsets.min()) < 0 or (offsets > len(data) - lengths).any():
            raise UsageError("payloads reach beyond the buffer given")
        unknown = [number for number in np.unique(headers.metadata_id).tolist() if number not in self._metadata]
        if unknown:
            raise UsageError(f"events of metadata ids that were not defined: {unknown[:5]}")
        if int(headers.thread.max()) > 0xFFFFFFFF:
            raise UsageError(f"thread {int(headers.thread.max())} does not fit the 32 bits that NetPerf has")
        if int(max(headers.activity.max(), headers.related.max())) >= len(guids):
            raise UsageError("activity indices beyond the table of GUIDs given")
        if int(headers.stack.max()) > len(self._stacks):
            raise UsageError(f"event with stack {int(headers.stack.max())}, which was not added")

    def _define(self, time: int) -> None:
        """The metadata that was added, as events of this time."""
        records, self._records = self._records, []
        if not records:
            return
        headers = HeaderColumns.allocate(len(records))
        for name in ("metadata_id", "thread", "activity", "related", "stack"):
            getattr(headers, name)[:] = 0
        sizes = np.array([len(record) for _, record in records], np.int64)
        headers.time[:] = time
        headers.payload_length[:] = sizes
        headers.payload_offset[:] = np.cumsum(sizes) - sizes
        data = np.frombuffer(b"".join(record for _, record in records), np.uint8)
        self._write(headers, data, np.zeros((1, len(ZERO)), np.uint8), [b""])

    def _write(
        self,
        headers: HeaderColumns,
        data: npt.NDArray[np.uint8],
        guids: npt.NDArray[np.uint8],
        stacks: list[bytes],
    ) -> None:
        lengths = headers.payload_length.astype(np.int64)
        stack_sizes = np.array([len(raw) for raw in stacks], np.int64)[headers.stack]
        fixed = _HEADER.itemsize + _STACK_BYTES
        sizes = (fixed + lengths + stack_sizes + 3) // 4 * 4
        ends = np.cumsum(sizes)
        first, start = 0, 0
        while first < len(headers):
            last = max(first + 1, int(np.searchsorted(ends, start + self._block_bytes, "right")))
            rows = slice(first, last)
            block = np.zeros(int(ends[last - 1]) - start, np.uint8)
            at = ends[rows] - sizes[rows] - start
            head = np.zeros(last - first, _HEADER)
            head["size"] = sizes[rows] - _SIZE_BYTES
            for name in ("metadata_id", "thread", "time"):
                head[name] = getattr(headers, name)[rows]
            for name in ("activity", "related"):
                head[name] = guids[getattr(headers, name)[rows]]
            head["payload"] = lengths[rows]
            _scatter(block, at, head.view(np.uint8).reshape(len(head), -1))
            behind = at + _HEADER.itemsize
            _copy(block, behind, data, headers.payload_offset[rows], lengths[rows])
            behind = behind + lengths[rows]
            _scatter(block, behind, stack_sizes[rows].astype("<u4").view(np.uint8).reshape(-1, _STACK_BYTES))
            frames, where = _joined(stacks, headers.stack[rows])
            _copy(block, behind + _STACK_BYTES, frames, where, stack_sizes[rows])
            self._block(block.tobytes())
            first, start = last, int(ends[last - 1])

    def _block(self, content: bytes) -> None:
        head = object_head("EventBlock", 1, 0, tag=_TAG) + struct.pack("<i", len(content))
        self._out.write(head + bytes(-(self._out.position + len(head)) % 4) + content + b"\x06")


def _scatter(block: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], rows: npt.NDArray[np.uint8]) -> None:
    """Rows of one width to where each begins."""
    block[at[:, None] + np.arange(rows.shape[1])] = rows


def _copy(
    block: npt.NDArray[np.uint8],
    at: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> None:
    """Pieces of their own sizes, from ``starts`` in ``data`` to ``at``."""
    steps = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    block[np.repeat(at, sizes) + steps] = data[np.repeat(starts, sizes) + steps]


def _joined(stacks: list[bytes], ids: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The stacks of these ids one after another, and where that of each begins."""
    used, which = np.unique(ids, return_inverse=True)
    parts = [stacks[number] for number in used.tolist()]
    sizes = np.array([len(raw) for raw in parts], np.int64)
    return np.frombuffer(b"".join(parts), np.uint8), (np.cumsum(sizes) - sizes)[which.reshape(-1)]
