"""The loops over every event without a compiler: Python steps through the headers, numpy makes the columns.

Only *changes* are noted row by row and spread over the rows by ``np.repeat``. A run of events that state nothing but
the time (the most frequent form by far in a flood) is cut out by one regular expression, at the speed of C.
The results equal those of ``_kernels.py``, which the tests hold against each other.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.columns import COLUMN_NAMES, HeaderColumns
from dotnetdiag.nettrace.kernels import BAD_SIZE, BROKEN_HEADER, CUT_PAYLOAD, NO_PROBLEM

_M64 = (1 << 64) - 1
_M32 = (1 << 32) - 1
_VARUINT64 = rb"(?:[\x80-\xff]{0,8}+[\x00-\x7f]|[\x80-\xff]{9}[\x00\x01])"
RUN_AFTER = 3
"""Bare events in a row before the regular expression is tried: starting it costs as much as two or three of them."""


class _Broken(Exception):
    """A header does not end in the block."""


@lru_cache(maxsize=512)
def _run_pattern(size: int) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """(a whole run, one event of it with its header in group 1) of events with payloads of ``size`` bytes."""
    one = rb"([\x00\x40]" + _VARUINT64 + rb")(?s:.{%d})" % size
    return re.compile(rb"(?:" + one.replace(b"([", b"(?:[", 1) + rb")++"), re.compile(one)


def _varuint(data: Any, at: int, end: int, limit: int) -> tuple[int, int]:
    """(value, position behind it)."""
    value = shift = 0
    stop = min(end, at + limit)
    while at < stop:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> (32 if limit == 5 else 64):
                raise _Broken
            return value, at
        shift += 7
    raise _Broken


def _run(found: list[bytes], at: int, size: int) -> tuple[Any, Any, Any, int]:
    """(time deltas, payload offsets, sorted flags, position behind) of the run whose headers are ``found``."""
    count = len(found)
    lengths = np.fromiter(map(len, found), np.int64, count)
    joined = np.frombuffer(b"".join(found), np.uint8)
    starts = np.zeros(count, np.int64)
    np.cumsum(lengths[:-1], out=starts[1:])
    deltas = np.zeros(count, np.uint64)
    longest = int(lengths.max())
    for step in range(1, longest):
        if step == 1:
            deltas |= joined[starts + 1].astype(np.uint64) & np.uint64(0x7F)
        else:
            rows = np.flatnonzero(lengths > step)
            more = joined[starts[rows] + step].astype(np.uint64) & np.uint64(0x7F)
            deltas[rows] |= more << np.uint64(7 * (step - 1))
    behind = at + np.cumsum(lengths + size)
    return deltas, behind - size, joined[starts] == 0x40, int(behind[-1])


class _Changes:
    """Values that hold from a row on."""

    __slots__ = ("rows", "values")

    def __init__(self) -> None:
        self.rows: list[int] = [0]
        self.values: list[int] = [0]

    def spread(self, count: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        rows = np.array(self.rows, np.int64)
        lengths = np.diff(np.append(np.minimum(rows, count), count))
        return np.repeat(np.array(self.values, np.uint64), lengths).astype(kind)


def decode(
    data: memoryview, start: int, end: int, *, v6: bool
) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64], int, int, int]:
    """Compressed blobs of one block, with ids as they stand in the file.

    Returns (columns, runs, positions of stated GUIDs, position behind the last good blob, problem, bytes missing), with
    ``activity`` and ``related`` as 1 + index into the positions and payload offsets as positions in ``data``.
    """
    meta, thread, stack, size, label = _Changes(), _Changes(), _Changes(), _Changes(), _Changes()
    capture, processor, activity, related = _Changes(), _Changes(), _Changes(), _Changes()
    run_rows: list[int] = [0]
    run_sequences: list[int] = []
    guids: list[int] = []
    deltas: list[int] = []
    offsets: list[int] = []
    sorted_rows: list[int] = []
    pieces: list[tuple[Any, Any]] = []
    sorted_pieces: list[Any] = []
    row = seq = size_now = meta_now = bare = 0
    problem, detail = NO_PROBLEM, 0
    at = start
    while at < end:
        begin = at
        flags = data[at]
        at += 1
        try:
            if not flags & 0xBF:
                bare += 1
                if bare > RUN_AFTER and row:
                    whole, one = _run_pattern(size_now)
                    match = whole.match(data, begin, end)
                    if match is not None:
                        found = one.findall(data, begin, match.end())
                        run_deltas, run_offsets, run_sorted, at = _run(found, begin, size_now)
                        pieces.append((np.array(deltas, np.uint64), np.array(offsets, np.int64)))
                        pieces.append((run_deltas, run_offsets))
                        deltas, offsets = [], []
                        sorted_pieces.append(row + np.flatnonzero(run_sorted))
                        row += len(found)
                        if meta_now or v6:
                            seq = seq + len(found) & _M32
                        continue
            else:
                bare = 0
            new_meta, new_size = meta_now, size_now
            stated = 0
            if flags & 15:
                if flags & 1:
                    new_meta, at = _varuint(data, at, end, 5)
                if flags & 2:
                    new_delta, at = _varuint(data, at, end, 5)
                    new_capture, at = _varuint(data, at, end, 10)
                    new_processor, at = _varuint(data, at, end, 5)
                if flags & 4:
                    new_thread, at = _varuint(data, at, end, 10)
                if flags & 8:
                    new_stack, at = _varuint(data, at, end, 5)
            if at < end and (byte := data[at]) < 0x80:
                delta = byte
                at += 1
            elif at + 1 < end and (second := data[at + 1]) < 0x80:
                delta = byte & 0x7F | second << 7
                at += 2
            else:
                delta, at = _varuint(data, at, end, 10)
            if flags & 0xB0:
                if v6:
                    if flags & 16:
                        new_label, at = _varuint(data, at, end, 5)
                elif flags & 48:
                    stated = at
                    at += 32 if flags & 48 == 48 else 16
                if flags & 128:
                    new_size, at = _varuint(data, at, end, 5)
        except _Broken:
            at, problem = begin, BROKEN_HEADER
            break
        if at + new_size > end:
            problem = CUT_PAYLOAD if at <= end else BROKEN_HEADER
            detail = at + new_size - end if at <= end else new_size + at - end
            at = begin
            break
        if new_meta != meta_now:
            meta_now = new_meta
            meta.rows.append(row)
            meta.values.append(new_meta)
        if flags & 2:
            seq = seq + new_delta + 1 & _M32
            if row:
                run_rows.append(row)
            run_sequences.append(seq)
            capture.rows.append(row)
            capture.values.append(new_capture)
            processor.rows.append(row)
            processor.values.append(new_processor)
        else:
            if meta_now or v6:
                seq = seq + 1 & _M32
            if not row:
                run_sequences.append(seq)
        if flags & 4:
            thread.rows.append(row)
            thread.values.append(new_thread)
        if flags & 8:
            stack.rows.append(row)
            stack.values.append(new_stack)
        if flags & 48:
            if v6:
                if flags & 16:
                    label.rows.append(row)
                    label.values.append(new_label)
            else:
                if flags & 16:
                    guids.append(stated)
                    stated += 16
                    activity.rows.append(row)
                    activity.values.append(len(guids))
                if flags & 32:
                    guids.append(stated)
                    related.rows.append(row)
                    related.values.append(len(guids))
        if flags & 64:
            sorted_rows.append(row)
        if new_size != size_now:
            size_now = new_size
            size.rows.append(row)
            size.values.append(new_size)
        deltas.append(delta)
        offsets.append(at)
        at += new_size
        row += 1
    pieces.append((np.array(deltas, np.uint64), np.array(offsets, np.int64)))
    sorted_pieces.append(np.array(sorted_rows, np.int64))
    metadata_id = meta.spread(row, np.uint32)
    runs = np.array(run_rows if row else [], np.int64)
    steps = np.cumsum(np.ones(row, np.uint32) if v6 else metadata_id != 0, dtype=np.uint32)
    base = np.array(run_sequences, np.uint32) - steps[runs]
    is_sorted = np.zeros(row, np.bool_)
    is_sorted[np.concatenate(sorted_pieces)] = True
    columns = HeaderColumns(
        metadata_id=metadata_id,
        sequence=np.repeat(base, np.diff(np.append(runs, row))) + steps if row else np.zeros(0, np.uint32),
        capture_thread=capture.spread(row, np.uint64),
        thread=thread.spread(row, np.uint64),
        processor=processor.spread(row, np.uint32),
        stack=stack.spread(row, np.uint32),
        time=np.cumsum(np.concatenate([piece[0] for piece in pieces]), dtype=np.uint64).view(np.int64),
        activity=activity.spread(row, np.uint32),
        related=related.spread(row, np.uint32),
        payload_offset=np.concatenate([piece[1] for piece in pieces]),
        payload_length=size.spread(row, np.uint32),
        is_sorted=is_sorted,
        label_list=label.spread(row, np.uint32),
    )
    return columns, runs, np.array(guids, np.int64), at, problem, detail


def walk(
    data: memoryview, start: int, end: int, *, header: int, size_at: int, trailing: bool
) -> tuple[npt.NDArray[np.int64], int, int]:
    """Positions of uncompressed blobs, the position behind the last good one, and the problem there."""
    found: list[int] = []
    word = int.from_bytes
    at = start
    while at < end:
        if end - at < header:
            return np.array(found, np.int64), at, BROKEN_HEADER
        extent = 4 + word(data[at : at + 4], "little")
        if extent > end - at:
            return np.array(found, np.int64), at, CUT_PAYLOAD
        behind = header + word(data[at + size_at : at + size_at + 4], "little")
        if behind > extent:
            return np.array(found, np.int64), at, BAD_SIZE
        if trailing:
            if behind + 4 > extent:
                return np.array(found, np.int64), at, BAD_SIZE
            if behind + 4 + word(data[at + behind : at + behind + 4], "little") > extent:
                return np.array(found, np.int64), at, BAD_SIZE
        found.append(at)
        at += extent
    return np.array(found, np.int64), at, NO_PROBLEM


def encode(
    headers: HeaderColumns, first: int, guids: bytes, payload: npt.NDArray[np.uint8], room: int, *, v6: bool
) -> tuple[int, bytes]:
    """(rows, blobs): as many rows from ``first`` as fit ``room`` bytes, compressed from zero state."""
    out = bytearray()
    meta = seq = capture = thread = cpu = stack = now = act = rel = size = label = 0
    rows = slice(first, first + max(1, room))
    columns = [getattr(headers, name)[rows].tolist() for name in COLUMN_NAMES]
    written = 0
    for values in zip(*columns, strict=True):
        m, s, c, t, p, k, time, a, r, start, length, is_sorted, lab = values
        if room - len(out) < 96 + length:
            break
        begin = len(out)
        out.append(0)
        flags = 0
        if m != meta:
            flags |= 1
            _put(out, m)
            meta = m
        follow = seq + 1 & _M32 if meta or v6 else seq
        if s != follow or c != capture or p != cpu:
            flags |= 2
            _put(out, s - seq - 1 & _M32)
            _put(out, c)
            _put(out, p)
            capture, cpu = c, p
        seq = s
        if t != thread:
            flags |= 4
            _put(out, t)
            thread = t
        if k != stack:
            flags |= 8
            _put(out, k)
            stack = k
        _put(out, time - now & _M64)
        now = time
        if v6:
            if lab != label:
                flags |= 16
                _put(out, lab)
                label = lab
        else:
            if a != act:
                flags |= 16
                out += guids[16 * a : 16 * a + 16]
                act = a
            if r != rel:
                flags |= 32
                out += guids[16 * r : 16 * r + 16]
                rel = r
        if is_sorted:
            flags |= 64
        if length != size:
            flags |= 128
            _put(out, length)
            size = length
        out += payload[start : start + length].tobytes()
        out[begin] = flags
        written += 1
    return written, bytes(out)


def _put(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
