"""Event blobs as writers make them: header columns and payloads -> the contents of blocks (nettrace.md §5.4, §6.2)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.columns import COLUMN_TYPES, HeaderColumns
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.wire import Packer

HEADER_SIZE = 20
"""Bytes in front of the blobs of a block."""
BLOB_BYTES = 96
"""A blob needs at most 88 bytes beside its payload: flags 1, five varuints of 32 bits 25, three of 64 bits 30, two GUIDs
32; the long form 80. The kernels know this number too."""
_HEADER = struct.Struct("<hhqq")
_COMPRESSED = 1


def check_columns(headers: HeaderColumns) -> None:
    """The kernels take types and lengths for granted."""
    columns = {name: getattr(headers, name) for name in COLUMN_TYPES}
    for name, column in columns.items():
        if not isinstance(column, np.ndarray):
            raise UsageError(f"column {name} is needed as an array, not {type(column).__name__}")
    for name, kind in COLUMN_TYPES.items():
        column = columns[name]
        if column.dtype != kind or column.shape != headers.time.shape or column.ndim != 1:
            raise UsageError(
                f"column {name}: {column.dtype} of shape {column.shape}, not {len(headers)} of {np.dtype(kind)}"
            )


def arranged(headers: HeaderColumns, last_capture: int | None, before: int | None = None) -> HeaderColumns:
    """The same events as readers understand them (nettrace.md §8): ``is_sorted`` is true where the capture thread is not
    that of the event before (``last_capture`` before the first), and false where an event that follows is older.

    Readers put what is not sorted in the queue of the thread that the last sorted event had, and count its numbers with
    that thread's. Where a thread would begin later than an event that follows, the runs of threads are put in the order
    of their first events. ``before``: the earliest time of what follows these.
    """
    is_sorted, later, begins = _marks(headers, headers.time, last_capture, before)
    if (headers.time[begins] <= later[begins]).all():
        return headers if np.array_equal(is_sorted, headers.is_sorted) else replace(headers, is_sorted=is_sorted)
    moments = _moments(headers)
    is_sorted, _, begins = _marks(headers, moments, last_capture, before)
    heads = np.union1d([0], np.flatnonzero(begins | is_sorted))
    sizes = np.diff(np.append(heads, len(headers)))
    runs = np.argsort(moments[heads], kind="stable")
    order = np.repeat(heads[runs] - (np.cumsum(sizes[runs]) - sizes[runs]), sizes[runs]) + np.arange(len(headers))
    headers = headers[order]
    return replace(headers, is_sorted=_marks(headers, moments[order], last_capture, before)[0])


def _marks(
    headers: HeaderColumns, moments: npt.NDArray[np.int64], last_capture: int | None, before: int | None
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """What is sorted, the earliest of what follows each event, and which have another capture thread than the last."""
    capture = headers.capture_thread
    begins = np.empty(len(headers), np.bool_)
    begins[0] = last_capture is not None and int(capture[0]) != last_capture
    np.not_equal(capture[1:], capture[:-1], out=begins[1:])
    later = np.empty_like(moments)
    later[-1] = np.iinfo(np.int64).max if before is None else before
    later[:-1] = moments[1:]
    later = np.minimum.accumulate(later[::-1])[::-1]
    return headers.is_sorted & (moments <= later) | begins, later, begins


def _moments(headers: HeaderColumns) -> npt.NDArray[np.int64]:
    """The time of each event, or that of the latest before it of its capture thread, when that is later."""
    _, thread = np.unique(headers.capture_thread, return_inverse=True)
    times, rank = np.unique(headers.time, return_inverse=True)
    order = np.argsort(thread, kind="stable")
    moments = np.empty(len(headers), np.int64)
    moments[order] = times[np.maximum.accumulate(thread[order] * len(times) + rank[order]) % len(times)]
    return moments


def kernel_columns(headers: HeaderColumns) -> tuple[npt.NDArray[np.generic], ...]:
    return (
        headers.metadata_id, headers.sequence, headers.capture_thread, headers.thread, headers.processor, headers.stack,
        headers.time, headers.activity, headers.related, headers.payload_offset, headers.payload_length,
        headers.is_sorted.view(np.uint8), headers.label_list,
    )  # fmt: skip


def compressed(
    headers: HeaderColumns, payload: npt.NDArray[np.uint8], guids: GuidTable, *, v6: bool, block_bytes: int
) -> Iterator[bytes]:
    """Blobs that leave out what has not changed, cut into blocks; a payload that is larger than a block has one of its own."""
    raw = np.ascontiguousarray(guids.bytes())
    payload = np.ascontiguousarray(payload)
    room = max(block_bytes, int(headers.payload_length.max()) + BLOB_BYTES)
    out = np.empty(room, np.uint8)
    columns = [np.ascontiguousarray(column) for column in kernel_columns(headers)]
    first, total = 0, len(headers)
    while first < total:
        if kernels.KERNELS is not None:
            count, size = kernels.KERNELS.encode(first, total, v6, *columns, raw, payload, out)
            blobs = out[:size].tobytes()
        else:
            from dotnetdiag.nettrace import fallback  # many programs never need it

            count, blobs = fallback.encode(headers, first, raw.tobytes(), payload, room, v6=v6)
        if not count:
            raise UsageError("the columns changed while they were written")
        times = headers.time[first : first + count]
        yield _HEADER.pack(HEADER_SIZE, _COMPRESSED, int(times.min()), int(times.max())) + blobs
        first += count


def uncompressed(
    headers: HeaderColumns, payload: npt.NDArray[np.uint8], guids: GuidTable, *, v6: bool, block_bytes: int
) -> Iterator[bytes]:
    """Blobs that say everything. Payloads are not padded: TraceEvent reads on right behind them."""
    raw = guids.bytes().tobytes()
    fixed = 52 if v6 else 80
    out = Packer()
    low = high = 0
    for values in zip(*(column.tolist() for column in kernel_columns(headers)), strict=True):
        meta, seq, capture, thread, cpu, stack, time, act, rel, start, size, is_sorted, label = values
        if len(out) and len(out) + fixed + size > block_bytes:
            yield _HEADER.pack(HEADER_SIZE, 0, low, high) + bytes(out)
            out = Packer()
        low, high = (min(low, time), max(high, time)) if len(out) else (time, time)
        out.u32(fixed - 4 + size).u32(meta | (0 if is_sorted else 0x80000000)).u32(seq).u64(thread)
        out.u64(capture).u32(cpu).u32(stack).i64(time)
        if v6:
            out.u32(label)
        else:
            out.raw(raw[16 * act : 16 * act + 16]).raw(raw[16 * rel : 16 * rel + 16])
        out.u32(size).raw(payload[start : start + size].tobytes())
    if len(out):
        yield _HEADER.pack(HEADER_SIZE, 0, low, high) + bytes(out)
