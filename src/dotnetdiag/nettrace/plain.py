"""The loops over every event without a compiler: Python steps through the headers, numpy makes the columns.

Only *changes* are noted row by row and spread over the rows by ``np.repeat``. A run of events that state nothing but
the time (the most frequent form by far in a flood) is cut out by one regular expression, at the speed of C.
The results equal those of ``_kernels.py``, which the tests hold against each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What holds between two events of a block; ``position`` of the next, ``activity_at`` and ``related_at`` of ids, -1: none."""

    position: int = 0
    metadata_id: int = 0
    sequence: int = 0
    capture_thread: int = 0
    processor: int = 0
    thread: int = 0
    stack: int = 0
    size: int = 0
    label: int = 0
    time: int = 0
    activity_at: int = -1
    related_at: int = -1


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


def _spread(rows: list[int], values: list[int], count: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Values that hold from a row on, the first from row 0, for each of ``count`` rows."""
    lengths = np.diff(np.append(np.array(rows, np.int64), count))
    return np.repeat(np.array(values, np.uint64), lengths).astype(kind)


def decode(
    data: memoryview, start: int, end: int, *, v6: bool, most_rows: int = 1 << 62, state: State | None = None
) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64], int, int, int, State | None]:
    """Compressed blobs of one block, at most ``most_rows``, with ids as they stand in the file.

    Returns (columns, runs, positions of stated GUIDs, position behind the last good blob, problem, bytes missing, state to
    go on with), with ``activity`` and ``related`` as 1 + index into the positions and payload offsets as positions in
    ``data``.

    One long loop with everything in local names: calls and attributes would cost more than the work.
    """
    began, from_state = State() if state is None else state, state is not None
    start = began.position if from_state else start
    raw = bytes(data[start:end])
    limit = len(raw)
    meta_rows: list[int] = [0]
    metas: list[int] = [began.metadata_id]
    thread_rows: list[int] = [0]
    threads: list[int] = [began.thread]
    stack_rows: list[int] = [0]
    stacks: list[int] = [began.stack]
    size_rows: list[int] = [0]
    sizes: list[int] = [began.size]
    label_rows: list[int] = [0]
    labels: list[int] = [began.label]
    switch_rows: list[int] = [0]
    captures: list[int] = [began.capture_thread]
    processors: list[int] = [began.processor]
    guids: list[int] = [at for at in (began.activity_at, began.related_at) if at >= 0]
    activity_rows: list[int] = [0]
    activities: list[int] = [int(began.activity_at >= 0)]
    related_rows: list[int] = [0]
    relateds: list[int] = [len(guids) if began.related_at >= 0 else 0]
    run_rows: list[int] = [0]
    run_sequences: list[int] = []
    deltas: list[int] = []
    offsets: list[int] = []
    sorted_rows: list[int] = []
    pieces: list[tuple[Any, Any]] = []
    sorted_pieces: list[Any] = []
    add_delta, add_offset = deltas.append, offsets.append
    row = bare = 0
    seq, size_now, meta_now = began.sequence, began.size, began.metadata_id
    new_delta = new_capture = new_processor = new_thread = new_stack = new_label = 0
    states_number = False
    problem, detail = NO_PROBLEM, 0
    at = 0
    while at < limit and row < most_rows:
        begin = at
        flags = raw[at]
        at += 1
        new_meta, new_size, stated = meta_now, size_now, 0
        try:
            if flags & 0xBF:
                bare = 0
            else:
                bare += 1
                if bare > RUN_AFTER and row:
                    whole, one = _run_pattern(size_now)
                    match = whole.match(raw, begin, min(limit, begin + (most_rows - row) * (size_now + 2)))
                    if match is not None:
                        found = one.findall(raw, begin, match.end())
                        run_deltas, run_offsets, run_sorted, at = _run(found, begin, size_now)
                        pieces.append((np.array(deltas, np.uint64), np.array(offsets, np.int64)))
                        pieces.append((run_deltas, run_offsets))
                        deltas, offsets = [], []
                        add_delta, add_offset = deltas.append, offsets.append
                        sorted_pieces.append(row + np.flatnonzero(run_sorted))
                        row += len(found)
                        if meta_now or v6:
                            seq = seq + len(found) & _M32
                        continue
            if flags & 15:
                if flags & 1:
                    new_meta = raw[at]
                    at += 1
                    if new_meta > 0x7F:
                        new_meta, at = _varuint(raw, at - 1, limit, 5)
                if flags & 2:
                    new_delta, at = _varuint(raw, at, limit, 5)
                    new_capture, at = _varuint(raw, at, limit, 10)
                    new_processor, at = _varuint(raw, at, limit, 5)
                if flags & 4:
                    new_thread, at = _varuint(raw, at, limit, 10)
                if flags & 8:
                    new_stack = raw[at]
                    at += 1
                    if new_stack > 0x7F:
                        second = raw[at]
                        if second > 0x7F:
                            new_stack, at = _varuint(raw, at - 1, limit, 5)
                        else:
                            new_stack += (second << 7) - 0x80
                            at += 1
            delta = raw[at]
            at += 1
            if delta > 0x7F:
                second = raw[at]
                at += 1
                if second < 0x80:
                    delta += (second << 7) - 0x80
                else:
                    third = raw[at]
                    at += 1
                    if third < 0x80:
                        delta += (second << 7) + (third << 14) - 0x4080
                    else:
                        delta, at = _varuint(raw, at - 3, limit, 10)
            if flags & 0xB0:
                if flags & 48:
                    if not v6:
                        stated = at
                        at += 32 if flags & 48 == 48 else 16
                    elif flags & 16:
                        new_label, at = _varuint(raw, at, limit, 5)
                if flags & 128:
                    new_size = raw[at]
                    at += 1
                    if new_size > 0x7F:
                        second = raw[at]
                        if second > 0x7F:
                            new_size, at = _varuint(raw, at - 1, limit, 5)
                        else:
                            new_size += (second << 7) - 0x80
                            at += 1
        except (_Broken, IndexError):  # a header that ends outside of the block
            at, problem = begin, BROKEN_HEADER
            break
        behind = at + new_size
        if behind > limit:
            problem, detail = CUT_PAYLOAD if at <= limit else BROKEN_HEADER, behind - limit
            at = begin
            break
        if flags & 15:
            if new_meta != meta_now:
                meta_now = new_meta
                meta_rows.append(row)
                metas.append(new_meta)
            if flags & 2:
                seq = seq + new_delta + 1 & _M32
                if row:
                    run_rows.append(row)
                else:
                    states_number = True
                run_sequences.append(seq)
                switch_rows.append(row)
                captures.append(new_capture)
                processors.append(new_processor)
            elif meta_now or v6:
                seq = seq + 1 & _M32
            if flags & 4:
                thread_rows.append(row)
                threads.append(new_thread)
            if flags & 8:
                stack_rows.append(row)
                stacks.append(new_stack)
        elif meta_now or v6:
            seq = seq + 1 & _M32
        if not row and not flags & 2:
            run_sequences.append(seq)
        if flags & 0xF0:
            if flags & 48:
                if not v6:
                    if flags & 16:
                        guids.append(stated + start)
                        stated += 16
                        activity_rows.append(row)
                        activities.append(len(guids))
                    if flags & 32:
                        guids.append(stated + start)
                        related_rows.append(row)
                        relateds.append(len(guids))
                elif flags & 16:
                    label_rows.append(row)
                    labels.append(new_label)
            if flags & 64:
                sorted_rows.append(row)
            if new_size != size_now:
                size_now = new_size
                size_rows.append(row)
                sizes.append(new_size)
        add_delta(delta)
        add_offset(at)
        at = behind
        row += 1
    pieces.append((np.array(deltas, np.uint64), np.array(offsets, np.int64)))
    sorted_pieces.append(np.array(sorted_rows, np.int64))
    metadata_id = _spread(meta_rows, metas, row, np.uint32)
    runs = np.array(run_rows if row else [], np.int64)
    steps = np.cumsum(np.ones(row, np.uint32) if v6 else metadata_id != 0, dtype=np.uint32)
    base = np.array(run_sequences, np.uint32) - steps[runs]
    time = np.cumsum(np.concatenate([piece[0] for piece in pieces]), dtype=np.uint64) + np.uint64(began.time)
    is_sorted = np.zeros(row, np.bool_)
    is_sorted[np.concatenate(sorted_pieces)] = True
    columns = HeaderColumns(
        metadata_id=metadata_id,
        sequence=np.repeat(base, np.diff(np.append(runs, row))) + steps if row else np.zeros(0, np.uint32),
        capture_thread=_spread(switch_rows, captures, row, np.uint64),
        thread=_spread(thread_rows, threads, row, np.uint64),
        processor=_spread(switch_rows, processors, row, np.uint32),
        stack=_spread(stack_rows, stacks, row, np.uint32),
        time=time.view(np.int64),
        activity=_spread(activity_rows, activities, row, np.uint32),
        related=_spread(related_rows, relateds, row, np.uint32),
        payload_offset=np.concatenate([piece[1] for piece in pieces]) + start,
        payload_length=_spread(size_rows, sizes, row, np.uint32),
        is_sorted=is_sorted,
        label_list=_spread(label_rows, labels, row, np.uint32),
    )
    if from_state and not states_number:
        runs = runs[1:]
    rest = None
    if at < limit and not problem:
        rest = State(
            position=at + start,
            metadata_id=meta_now,
            sequence=seq,
            capture_thread=captures[-1],
            processor=processors[-1],
            thread=threads[-1],
            stack=stacks[-1],
            size=size_now,
            label=labels[-1],
            time=int(time[-1]),
            activity_at=guids[activities[-1] - 1] if activities[-1] else -1,
            related_at=guids[relateds[-1] - 1] if relateds[-1] else -1,
        )
    return columns, runs, np.array(guids, np.int64), at + start, problem, detail, rest


def walk(
    data: memoryview, start: int, end: int, *, header: int, size_at: int, trailing: bool, most_rows: int
) -> tuple[npt.NDArray[np.int64], int, int]:
    """Positions of uncompressed blobs, at most ``most_rows``, the position behind the last good one, and the problem there."""
    found: list[int] = []
    word = int.from_bytes
    at = start
    while at < end and len(found) < most_rows:
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


# stacks ---------------------------------------------------------------------------------------------------------------


def split_stacks(
    data: memoryview, position: int, cost: int, pointer: int, most: int, room: int
) -> tuple[list[int], list[int], tuple[int, int, int, int]]:
    """(starts, sizes, result) as ``_kernels.split_stacks`` fills them."""
    starts: list[int] = []
    sizes: list[int] = []
    refused = 0
    while len(starts) < most and len(data) - position >= 4:
        size = int.from_bytes(data[position : position + 4], "little")
        if size > len(data) - position - 4:
            break
        starts.append(position + 4)
        if cost + size > room:
            sizes.append(-1)
            refused += 1
        else:
            sizes.append(size - size % pointer)
            room -= cost + size
        position += 4 + size
    return starts, sizes, (len(starts), position, refused, room)


def intern_stacks(
    data: memoryview, starts: list[int], sizes: list[int], ids: dict[bytes, int]
) -> tuple[list[int], list[bytes]]:
    """(id of each stack, those that are new); ``ids`` has all that were seen. An id of 0 as in ``_kernels.intern_stacks``."""
    found, fresh = [], []
    for start, size in zip(starts, sizes, strict=True):
        if size < 0 or start < 0 or start > len(data) - size:
            found.append(0)
            continue
        raw = bytes(data[start : start + size])
        if raw not in ids:
            ids[raw] = len(ids) + 1
            fresh.append(raw)
        found.append(ids[raw])
    return found, fresh
