"""The loops over every event without a compiler: Python steps through the headers, numpy makes the columns.

Only *changes* are noted row by row and spread over the rows by ``np.repeat``. A run of events that state nothing but
the time (the most frequent form by far in a flood) is cut out by one regular expression, at the speed of C.
The results equal those of ``_kernels.pyx``, which the tests hold against each other.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.columns import COLUMN_NAMES, HeaderColumns
from dotnetdiag.nettrace.constants import BATCH_ROWS
from dotnetdiag.nettrace.group import Form
from dotnetdiag.nettrace.kernel_types import BLOCK
from dotnetdiag.nettrace.kernels import BAD_SIZE, BROKEN_HEADER, CUT_PAYLOAD, NO_PROBLEM
from dotnetdiag.nettrace.piece import Piece, Place

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
    """The values of a column that change now and then, from the first row on."""

    __slots__ = ("rows", "values")

    def __init__(self, value: int) -> None:
        self.rows, self.values = [0], [value]

    def note(self, row: int, value: int) -> None:
        """From this row on it is another."""
        self.rows.append(row)
        self.values.append(value)

    @property
    def latest(self) -> int:
        return self.values[-1]

    def column(self, count: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
        """The value of each of ``count`` rows."""
        lengths = np.diff(np.append(np.array(self.rows, np.int64), count))
        return np.repeat(np.array(self.values, np.uint64), lengths).astype(kind)


class _Noted:
    """What the headers of a block state, as far as it was stepped through, or what holds behind the last event ``before``.

    ``guids`` and ``position``, which is behind the last good event, count from the block's first byte. ``runs`` are the rows
    where numbers may jump, and the numbers there; ``states_number``: the first row states its own.
    """

    def __init__(self, before: _Noted | None = None) -> None:
        latest = [0] * 7 if before is None else [change.latest for change in before._changes]
        self._changes: tuple[_Changes, ...] = tuple(map(_Changes, latest))
        self.metadata, self.capture_thread, self.processor, self.thread, self.stack, self.size, self.labels = (
            self._changes
        )
        self.activity, self.related, self.guids = _Changes(0), _Changes(0), list[int]()
        self.sequence = self.time = self.position = self.rows = self.missing = 0
        self.runs: tuple[list[int], list[int]] = [0], []
        self.states_number = False
        self.times: list[Any] = []
        self.offsets: list[Any] = []
        self.is_sorted: list[Any] = []
        self.problem = NO_PROBLEM
        if before is not None:
            self.sequence, self.time, self.position = before.sequence, before.time, before.position
            for change, was in ((self.activity, before.activity), (self.related, before.related)):
                if was.latest:
                    self.guids.append(before.guids[was.latest - 1])
                    change.values[0] = len(self.guids)


def decode(data: memoryview, start: int, end: int, form: Form, place: Place) -> Piece:
    """Compressed events of one block, or as many as fit a batch, from ``place`` on, with ids as they stand in the file."""
    noted = _Noted(place.state)
    v6, raw = form is Form.COMPRESSED_V6, bytes(data[start:end])
    _step_through(raw, noted, v6, BATCH_ROWS)
    rows = noted.rows
    metadata_id = noted.metadata.column(rows, np.uint32)
    jumps = np.array(noted.runs[0] if rows else [], np.int64)
    steps = np.cumsum(np.ones(rows, np.uint32) if v6 else metadata_id != 0, dtype=np.uint32)
    origin = np.array(noted.runs[1], np.uint32) - steps[jumps]
    time = np.cumsum(np.concatenate(noted.times), dtype=np.uint64) + np.uint64(noted.time)
    is_sorted = np.zeros(rows, np.bool_)
    is_sorted[np.concatenate(noted.is_sorted)] = True
    headers = HeaderColumns(
        metadata_id=metadata_id,
        sequence=np.repeat(origin, np.diff(np.append(jumps, rows))) + steps if rows else np.zeros(0, np.uint32),
        capture_thread=noted.capture_thread.column(rows, np.uint64),
        thread=noted.thread.column(rows, np.uint64),
        processor=noted.processor.column(rows, np.uint32),
        stack=noted.stack.column(rows, np.uint32),
        time=time.view(np.int64),
        activity=noted.activity.column(rows, np.uint32),
        related=noted.related.column(rows, np.uint32),
        payload_offset=np.concatenate(noted.offsets) + start,
        payload_length=noted.size.column(rows, np.uint32),
        is_sorted=is_sorted,
        label_list=noted.labels.column(rows, np.uint32),
    )
    noted.time = int(time[-1]) if rows else noted.time
    if place.state is not None and not noted.states_number:
        jumps = jumps[1:]
    guids = np.array(noted.guids, np.int64) + start
    block = np.zeros(1, BLOCK)
    for name, value in (
        *(("rows", rows), ("runs", len(jumps)), ("guids", len(guids))),
        *(("stop", noted.position + start), ("problem", noted.problem), ("missing", noted.missing)),
    ):
        block[name] = value
    remainder = Place(0, rows, _Noted(noted)) if noted.position < len(raw) and not noted.problem else None
    return Piece(place, remainder, headers, jumps, guids, block)


def _step_through(raw: bytes, noted: _Noted, v6: bool, most_rows: int) -> None:
    """Note what each event states, in one long loop over local names: calls and attributes would cost more than the work."""
    limit, at = len(raw), noted.position
    deltas: list[int] = []
    offsets: list[int] = []
    sorted_rows: list[int] = []
    add_delta, add_offset = deltas.append, offsets.append
    row = bare = 0
    seq, size_now, meta_now = noted.sequence, noted.size.latest, noted.metadata.latest
    new_delta = new_capture = new_processor = new_thread = new_stack = new_label = 0
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
                        noted.times += (np.array(deltas, np.uint64), run_deltas)
                        noted.offsets += (np.array(offsets, np.int64), run_offsets)
                        deltas, offsets = [], []
                        add_delta, add_offset = deltas.append, offsets.append
                        noted.is_sorted.append(row + np.flatnonzero(run_sorted))
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
            at, noted.problem = begin, BROKEN_HEADER
            break
        behind = at + new_size
        if behind > limit:
            noted.problem = CUT_PAYLOAD if at <= limit else BROKEN_HEADER
            noted.missing = behind - limit if at <= limit else 0
            at = begin
            break
        if flags & 15:
            if new_meta != meta_now:
                meta_now = new_meta
                noted.metadata.note(row, new_meta)
            if flags & 2:
                seq = seq + new_delta + 1 & _M32
                if row:
                    noted.runs[0].append(row)
                else:
                    noted.states_number = True
                noted.runs[1].append(seq)
                noted.capture_thread.note(row, new_capture)
                noted.processor.note(row, new_processor)
            elif meta_now or v6:
                seq = seq + 1 & _M32
            if flags & 4:
                noted.thread.note(row, new_thread)
            if flags & 8:
                noted.stack.note(row, new_stack)
        elif meta_now or v6:
            seq = seq + 1 & _M32
        if not row and not flags & 2:
            noted.runs[1].append(seq)
        if flags & 0xF0:
            if flags & 48:
                if not v6:
                    for bit, change in ((16, noted.activity), (32, noted.related)):
                        if flags & bit:
                            noted.guids.append(stated)
                            stated += 16
                            change.note(row, len(noted.guids))
                elif flags & 16:
                    noted.labels.note(row, new_label)
            if flags & 64:
                sorted_rows.append(row)
            if new_size != size_now:
                size_now = new_size
                noted.size.note(row, new_size)
        add_delta(delta)
        add_offset(at)
        at = behind
        row += 1
    noted.times.append(np.array(deltas, np.uint64))
    noted.offsets.append(np.array(offsets, np.int64))
    noted.is_sorted.append(np.array(sorted_rows, np.int64))
    noted.sequence, noted.rows, noted.position = seq, row, at


def walk(
    data: memoryview, start: int, end: int, header: int, size_at: int, trailing: bool, most_rows: int
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
        if trailing and behind + 4 + word(data[at + behind : at + behind + 4], "little") > extent:
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
    data: memoryview, position: int, cost: int, pointer_size: int, room: int, most: int
) -> tuple[list[int], list[int], tuple[int, int, int, int]]:
    """(starts, sizes, what the kernel returns)."""
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
            sizes.append(size - size % pointer_size)
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


# label lists ----------------------------------------------------------------------------------------------------------

_FIXED = {1: 16, 2: 16, 3: 16, 4: 8, 7: 1, 8: 8, 9: 1, 10: 1}
"""Bytes of labels by their code; 5 and 6 are texts."""


def split_labels(
    data: memoryview, position: int, values_limit: int, most: int
) -> tuple[list[tuple[int, int, int, int, int]], int]:
    """(a row for each list: its begin, its size, the places of its activity and of the related one, its codes; the position behind them)."""
    found: list[tuple[int, int, int, int, int]] = []
    while len(found) < most:
        try:
            row = _label_list(data, position, values_limit)
        except _Broken:
            break
        found.append(row)
        position += row[1]
    return found, position


def _label_list(data: memoryview, begin: int, values_limit: int) -> tuple[int, int, int, int, int]:
    at, codes, values, places, end = begin, 0, 0, [-1, -1], len(data)
    while at < end:
        kind, at = data[at], at + 1
        code = kind & 0x7F
        if code in (1, 2):
            places[code - 1] = at
        if code in _FIXED:
            at += _FIXED[code]
        elif code in (5, 6):
            for is_text in (True, code == 5):
                size, at = _varuint(data, at, end, 5 if is_text else 10)
                at += size if is_text else 0
            values += 1
        else:
            raise _Broken
        if at > end or values > values_limit:
            raise _Broken
        codes |= 1 << code
        if kind & 0x80:
            return begin, at - begin, places[0], places[1], codes
    raise _Broken
