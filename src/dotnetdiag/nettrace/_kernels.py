# mypy: disable-error-code="valid-type,untyped-decorator,import-untyped,import-not-found"
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops over every event: count, fill, walk, encode. Plain Python that Cython compiles (without the GIL).

Rule 1: a *check* pass (:func:`count`) tests every bound and says where the good blobs of a block end;
        a *fill* pass runs only over what the check pass passed, with the same state machine, and tests nothing again.
Rule 2: every block starts from zero state (nettrace.md §5.5), so blocks can be given to several threads.
Rule 3: callers hand in buffers, never allocate here. Input bytes come as ``memoryview`` (plain ints when uncompiled).

One row per block of the ``table`` that :func:`count` fills (the names stand in ``kernels.py``; a compiled loop without
the GIL knows no module names, hence the bare numbers):

======  ==========================================================================================
column  meaning
0       events in the block
1       rows where the sequence number and capture thread were stated (row 0 always)
2       stated activity and related activity ids together
3       position behind the last good blob
4       problem there: 0 none, 1 header broken or cut, 2 payload reaches beyond the block, 3 sizes disagree
5       events whose metadata id did not fit the tally
6       for problem 2: bytes missing
======  ==========================================================================================
"""

from __future__ import annotations

import cython

compiled: bool = cython.compiled


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _length(
    data: cython.const[cython.uchar][::1], position: cython.longlong, end: cython.longlong, limit: cython.int
) -> cython.int:
    """Bytes of the varuint at ``position``, or 0 when it does not end in the block or does not fit 32 (5)
    or 64 (10) bits.
    """
    n: cython.int = 0
    while n < limit and position + n < end:
        byte: cython.int = data[position + n]
        n += 1
        if byte < 0x80:
            if n == limit and byte > (0x0F if limit == 5 else 0x01):
                return 0
            return n
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _value(data: cython.const[cython.uchar][::1], position: cython.longlong) -> cython.ulonglong:
    """The varuint at ``position``, which :func:`_length` has passed."""
    value: cython.ulonglong = 0
    shift: cython.int = 0
    byte: cython.ulonglong = data[position]
    while byte >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        byte = data[position]
    return value | byte << shift


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _skip(data: cython.const[cython.uchar][::1], position: cython.longlong) -> cython.longlong:
    """Position behind the varuint at ``position``, which :func:`_length` has passed."""
    while data[position] >= 0x80:
        position += 1
    return position + 1


def count(
    data: cython.const[cython.uchar][::1],
    starts: cython.longlong[::1],
    ends: cython.longlong[::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    v6: cython.bint,
    table: cython.longlong[:, ::1],
    tally: cython.longlong[:, ::1],
) -> None:
    """Check the compressed blobs of blocks ``first`` to ``last`` (exclusive) and fill their rows of ``table``.

    ``starts`` and ``ends`` bound the blobs of each block in ``data``. ``tally`` (2 x ids, may have no column) is
    incremented: row 0 events, row 1 payload bytes per metadata id.
    """
    ids: cython.longlong = tally.shape[1]
    with cython.nogil:
        for block in range(first, last):
            _count_block(data, starts[block], ends[block], v6, table, block, tally, ids)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _count_block(
    data: cython.const[cython.uchar][::1],
    position: cython.longlong,
    end: cython.longlong,
    v6: cython.bint,
    table: cython.longlong[:, ::1],
    block: cython.Py_ssize_t,
    tally: cython.longlong[:, ::1],
    ids: cython.longlong,
) -> cython.void:
    rows: cython.longlong = 0
    runs: cython.longlong = 0
    guids: cython.longlong = 0
    wide: cython.longlong = 0
    problem: cython.longlong = 0
    detail: cython.longlong = 0
    size: cython.longlong = 0
    metadata_id: cython.longlong = 0
    at: cython.longlong = position
    n: cython.int = 0
    step: cython.int = 0
    flags: cython.int = 0
    new_size: cython.longlong = 0
    new_id: cython.longlong = 0
    stated: cython.int = 0
    while position < end:
        at = position
        flags = data[at]
        at += 1
        new_size = size
        new_id = metadata_id
        stated = 0
        if flags & 0x0F:
            if flags & 1:
                n = _length(data, at, end, 5)
                if n == 0:
                    problem = 1
                    break
                new_id = cython.cast(cython.longlong, _value(data, at))
                at += n
            if flags & 2:
                for step in range(3):
                    n = _length(data, at, end, 10 if step == 1 else 5)
                    if n == 0:
                        break
                    at += n
                if n == 0:
                    problem = 1
                    break
            if flags & 4:
                n = _length(data, at, end, 10)
                if n == 0:
                    problem = 1
                    break
                at += n
            if flags & 8:
                n = _length(data, at, end, 5)
                if n == 0:
                    problem = 1
                    break
                at += n
        n = _length(data, at, end, 10)
        if n == 0:
            problem = 1
            break
        at += n
        if flags & 0xB0:
            if v6:
                if flags & 16:
                    n = _length(data, at, end, 5)
                    if n == 0:
                        problem = 1
                        break
                    at += n
            else:
                if flags & 16:
                    stated += 1
                if flags & 32:
                    stated += 1
                at += 16 * stated
            if flags & 128:
                n = 0
                if at < end:
                    n = _length(data, at, end, 5)
                if n == 0:
                    problem = 1
                    break
                new_size = cython.cast(cython.longlong, _value(data, at))
                at += n
        if new_size > end - at:
            problem = 2
            detail = new_size - (end - at)
            if at > end:
                problem = 1
            break
        at += new_size
        size = new_size
        metadata_id = new_id
        guids += stated
        if flags & 2 or rows == 0:
            runs += 1
        rows += 1
        if ids:
            if metadata_id < ids:
                tally[0, metadata_id] += 1
                tally[1, metadata_id] += size
            else:
                wide += 1
        position = at
    table[block, 0] = rows
    table[block, 1] = runs
    table[block, 2] = guids
    table[block, 3] = position
    table[block, 4] = problem
    table[block, 5] = wide
    table[block, 6] = detail


def fill(
    data: cython.const[cython.uchar][::1],
    starts: cython.longlong[::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    v6: cython.bint,
    table: cython.longlong[:, ::1],
    places: cython.longlong[:, ::1],
    shift: cython.longlong,
    stack_ids: cython.uint[::1],
    label_ids: cython.uint[::1],
    metadata_ids: cython.uint[::1],
    strays: cython.longlong[:, ::1],
    metadata_id: cython.uint[::1],
    sequence: cython.uint[::1],
    capture_thread: cython.ulonglong[::1],
    thread: cython.ulonglong[::1],
    processor: cython.uint[::1],
    stack: cython.uint[::1],
    time: cython.ulonglong[::1],
    activity: cython.uint[::1],
    related: cython.uint[::1],
    payload_offset: cython.longlong[::1],
    payload_length: cython.uint[::1],
    is_sorted: cython.uchar[::1],
    label_list: cython.uint[::1],
    runs: cython.longlong[::1],
    guids: cython.longlong[::1],
) -> None:
    """Header columns of blocks ``first`` to ``last``, which :func:`count` has checked.

    ``places`` has per block: first row, first run, first guid, and three times (start in the table, length, first
    id) for ``stack_ids``, ``label_ids`` and ``metadata_ids``, which translate ids (0 = not defined; such a metadata
    id is kept). ``strays[block]`` becomes the number of events with an undefined metadata id, stack and label list.
    ``runs`` receives absolute rows, ``guids`` positions in ``data``; ``activity``/``related`` become 1 + index into
    ``guids``. ``activity, related, is_sorted, label_list`` must be zero before. ``shift`` is added to payload offsets.
    """
    with cython.nogil:
        for block in range(first, last):
            _fill_block(
                data, starts[block], table[block, 3], v6, places, block, shift, stack_ids, label_ids, metadata_ids,
                strays,
                metadata_id, sequence, capture_thread, thread, processor, stack, time, activity, related,
                payload_offset, payload_length, is_sorted, label_list, runs, guids,
            )  # fmt: skip


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_block(
    data: cython.const[cython.uchar][::1],
    at: cython.longlong,
    stop: cython.longlong,
    v6: cython.bint,
    places: cython.longlong[:, ::1],
    block: cython.Py_ssize_t,
    shift: cython.longlong,
    stack_ids: cython.uint[::1],
    label_ids: cython.uint[::1],
    metadata_ids: cython.uint[::1],
    strays: cython.longlong[:, ::1],
    metadata_id: cython.uint[::1],
    sequence: cython.uint[::1],
    capture_thread: cython.ulonglong[::1],
    thread: cython.ulonglong[::1],
    processor: cython.uint[::1],
    stack: cython.uint[::1],
    time: cython.ulonglong[::1],
    activity: cython.uint[::1],
    related: cython.uint[::1],
    payload_offset: cython.longlong[::1],
    payload_length: cython.uint[::1],
    is_sorted: cython.uchar[::1],
    label_list: cython.uint[::1],
    runs: cython.longlong[::1],
    guids: cython.longlong[::1],
) -> cython.void:
    row: cython.longlong = places[block, 0]
    run: cython.longlong = places[block, 1]
    guid: cython.longlong = places[block, 2]
    stack_start: cython.longlong = places[block, 3]
    stack_count: cython.longlong = places[block, 4]
    stack_base: cython.longlong = places[block, 5]
    label_start: cython.longlong = places[block, 6]
    label_count: cython.longlong = places[block, 7]
    label_base: cython.longlong = places[block, 8]
    metadata_start: cython.longlong = places[block, 9]
    metadata_count: cython.longlong = places[block, 10]
    metadata_base: cython.longlong = places[block, 11]
    opening: cython.longlong = row
    meta: cython.uint = 0
    seq: cython.uint = 0
    capture: cython.ulonglong = 0
    tid: cython.ulonglong = 0
    cpu: cython.uint = 0
    frames: cython.uint = 0
    now: cython.ulonglong = 0
    act: cython.uint = 0
    rel: cython.uint = 0
    size: cython.uint = 0
    label: cython.uint = 0
    flags: cython.int = 0
    shifted: cython.int = 0
    byte: cython.ulonglong = 0
    delta: cython.ulonglong = 0
    word: cython.ulonglong = 0x7FFFFFFF + cython.cast(cython.ulonglong, 0x7FFFFFFF) + 1
    half: cython.ulonglong = 0x7FFFFFFFFFFFFFFF
    mask: cython.ulonglong = half + half + 1
    raw: cython.longlong = 0
    shown: cython.uint = 0
    unknown: cython.longlong = 1  # until an id is stated it is 0, which nothing defines
    lost_stack: cython.longlong = 0
    lost_label: cython.longlong = 0
    unknown_rows: cython.longlong = 0
    lost_stack_rows: cython.longlong = 0
    lost_label_rows: cython.longlong = 0
    while at < stop:
        flags = data[at]
        at += 1
        if flags & 0x0F:
            if flags & 1:
                meta = cython.cast(cython.uint, _value(data, at))
                at = _skip(data, at)
                shown = 0
                raw = cython.cast(cython.longlong, meta) - metadata_base
                if 0 <= raw < metadata_count:
                    shown = metadata_ids[metadata_start + raw]
                unknown = 0
                if shown == 0:
                    shown = meta
                    unknown = 1
            if flags & 2:
                seq = cython.cast(cython.uint, (seq + _value(data, at) + 1) & word)
                at = _skip(data, at)
                capture = _value(data, at)
                at = _skip(data, at)
                cpu = cython.cast(cython.uint, _value(data, at))
                at = _skip(data, at)
                runs[run] = row
                run += 1
            else:
                if meta != 0 or v6:
                    seq = cython.cast(cython.uint, (seq + 1) & word)
                if row == opening:
                    runs[run] = row
                    run += 1
            if flags & 4:
                tid = _value(data, at)
                at = _skip(data, at)
            if flags & 8:
                raw = cython.cast(cython.longlong, _value(data, at))
                at = _skip(data, at)
                frames = 0
                if stack_base <= raw < stack_base + stack_count:
                    frames = stack_ids[stack_start + raw - stack_base]
                lost_stack = 1 if raw != 0 and frames == 0 else 0
        else:
            if meta != 0 or v6:
                seq = cython.cast(cython.uint, (seq + 1) & word)
            if row == opening:
                runs[run] = row
                run += 1
        byte = data[at]
        at += 1
        delta = byte & 0x7F
        shifted = 7
        while byte >= 0x80:
            byte = data[at]
            at += 1
            delta |= (byte & 0x7F) << shifted
            shifted += 7
        now = (now + delta) & mask
        if flags & 0xF0:
            if flags & 0x30:
                if v6:
                    if flags & 16:
                        raw = cython.cast(cython.longlong, _value(data, at))
                        at = _skip(data, at)
                        label = 0
                        if label_base <= raw < label_base + label_count:
                            label = label_ids[label_start + raw - label_base]
                        lost_label = 1 if raw != 0 and label == 0 else 0
                else:
                    if flags & 16:
                        guids[guid] = at
                        guid += 1
                        act = cython.cast(cython.uint, guid)
                        at += 16
                    if flags & 32:
                        guids[guid] = at
                        guid += 1
                        rel = cython.cast(cython.uint, guid)
                        at += 16
            if flags & 64:
                is_sorted[row] = 1
            if flags & 128:
                size = cython.cast(cython.uint, _value(data, at))
                at = _skip(data, at)
        metadata_id[row] = shown
        sequence[row] = seq
        capture_thread[row] = capture
        thread[row] = tid
        processor[row] = cpu
        stack[row] = frames
        time[row] = now
        payload_offset[row] = at + shift
        payload_length[row] = size
        if act:
            activity[row] = act
        if rel:
            related[row] = rel
        if label:
            label_list[row] = label
        unknown_rows += unknown
        lost_stack_rows += lost_stack
        lost_label_rows += lost_label
        at += size
        row += 1
    strays[block, 0] = unknown_rows
    strays[block, 1] = lost_stack_rows
    strays[block, 2] = lost_label_rows


def walk(
    data: cython.const[cython.uchar][::1],
    position: cython.longlong,
    end: cython.longlong,
    header: cython.longlong,
    size_at: cython.longlong,
    trailing: cython.bint,
    positions: cython.longlong[::1],
    result: cython.longlong[::1],
) -> None:
    """Positions of uncompressed blobs: u32 size (excluding itself) first, u32 payload size at ``size_at``.

    ``header`` is the length of the blob before its payload. With ``trailing`` an i32 stack size and that many bytes
    follow the payload (NetPerf). ``result`` becomes (count, position behind the last good blob, problem). Writes
    positions only while there is room, so a first call with an empty ``positions`` counts.
    """
    found: cython.longlong = 0
    room: cython.longlong = positions.shape[0]
    problem: cython.longlong = 0
    extent: cython.longlong = 0
    payload: cython.longlong = 0
    frames: cython.longlong = 0
    at: cython.longlong = 0
    with cython.nogil:
        while position < end:
            if end - position < header:
                problem = 1
                break
            extent = 4 + _u32(data, position)
            payload = _u32(data, position + size_at)
            if extent > end - position:
                problem = 2
                break
            if header + payload > extent:
                problem = 3
                break
            if trailing:
                at = position + header + payload
                if at + 4 > position + extent:
                    problem = 3
                    break
                frames = _u32(data, at)
                if at + 4 + frames > position + extent:
                    problem = 3
                    break
            if found < room:
                positions[found] = position
            found += 1
            position += extent
        result[0] = found
        result[1] = position
        result[2] = problem


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _u32(data: cython.const[cython.uchar][::1], position: cython.longlong) -> cython.longlong:
    value: cython.longlong = data[position + 3]
    value = value << 8 | data[position + 2]
    value = value << 8 | data[position + 1]
    return value << 8 | data[position]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(out: cython.uchar[::1], at: cython.longlong, value: cython.ulonglong) -> cython.longlong:
    """Write a varuint; the position behind it."""
    while value >= 0x80:
        out[at] = cython.cast(cython.uchar, (value & 0x7F) | 0x80)
        value >>= 7
        at += 1
    out[at] = cython.cast(cython.uchar, value)
    return at + 1


def encode(
    first: cython.longlong,
    last: cython.longlong,
    v6: cython.bint,
    metadata_id: cython.const[cython.uint][::1],
    sequence: cython.const[cython.uint][::1],
    capture_thread: cython.const[cython.ulonglong][::1],
    thread: cython.const[cython.ulonglong][::1],
    processor: cython.const[cython.uint][::1],
    stack: cython.const[cython.uint][::1],
    time: cython.const[cython.ulonglong][::1],
    activity: cython.const[cython.uint][::1],
    related: cython.const[cython.uint][::1],
    payload_offset: cython.const[cython.longlong][::1],
    payload_length: cython.const[cython.uint][::1],
    is_sorted: cython.const[cython.uchar][::1],
    label_list: cython.const[cython.uint][::1],
    guids: cython.const[cython.uchar][::1],
    payload: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
    result: cython.longlong[::1],
) -> None:
    """Compressed blobs of one block: as many of rows ``first`` to ``last`` as fit ``out``, from zero state.

    A row needs at most 96 bytes beside its payload. ``guids`` holds 16 bytes per index of ``activity``/``related``.
    ``result`` becomes (rows written, bytes written).
    """
    row: cython.longlong = first
    at: cython.longlong = 0
    room: cython.longlong = out.shape[0]
    meta: cython.uint = 0
    seq: cython.uint = 0
    follow: cython.uint = 0
    capture: cython.ulonglong = 0
    tid: cython.ulonglong = 0
    cpu: cython.uint = 0
    frames: cython.uint = 0
    now: cython.ulonglong = 0
    act: cython.uint = 0
    rel: cython.uint = 0
    size: cython.uint = 0
    label: cython.uint = 0
    flags: cython.int = 0
    begin: cython.longlong = 0
    source: cython.longlong = 0
    i: cython.longlong = 0
    word: cython.ulonglong = 0x7FFFFFFF + cython.cast(cython.ulonglong, 0x7FFFFFFF) + 1
    half: cython.ulonglong = 0x7FFFFFFFFFFFFFFF
    mask: cython.ulonglong = half + half + 1
    with cython.nogil:
        while row < last:
            if room - at < 96 + payload_length[row]:
                break
            begin = at
            at += 1
            flags = 0
            if metadata_id[row] != meta:
                flags |= 1
                meta = metadata_id[row]
                at = _put(out, at, meta)
            follow = seq
            if meta != 0 or v6:
                follow = cython.cast(cython.uint, (seq + 1) & word)
            if sequence[row] != follow or capture_thread[row] != capture or processor[row] != cpu:
                flags |= 2
                at = _put(out, at, (sequence[row] - seq - 1) & word)
                capture = capture_thread[row]
                at = _put(out, at, capture)
                cpu = processor[row]
                at = _put(out, at, cpu)
            seq = sequence[row]
            if thread[row] != tid:
                flags |= 4
                tid = thread[row]
                at = _put(out, at, tid)
            if stack[row] != frames:
                flags |= 8
                frames = stack[row]
                at = _put(out, at, frames)
            at = _put(out, at, (time[row] - now) & mask)
            now = time[row]
            if v6:
                if label_list[row] != label:
                    flags |= 16
                    label = label_list[row]
                    at = _put(out, at, label)
            else:
                if activity[row] != act:
                    flags |= 16
                    act = activity[row]
                    source = 16 * cython.cast(cython.longlong, act)
                    for i in range(16):
                        out[at + i] = guids[source + i]
                    at += 16
                if related[row] != rel:
                    flags |= 32
                    rel = related[row]
                    source = 16 * cython.cast(cython.longlong, rel)
                    for i in range(16):
                        out[at + i] = guids[source + i]
                    at += 16
            if is_sorted[row]:
                flags |= 64
            if payload_length[row] != size:
                flags |= 128
                size = payload_length[row]
                at = _put(out, at, size)
            source = payload_offset[row]
            for i in range(size):
                out[at + i] = payload[source + i]
            at += size
            out[begin] = cython.cast(cython.uchar, flags)
            row += 1
        result[0] = row - first
        result[1] = at
