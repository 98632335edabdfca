# mypy: disable-error-code="valid-type,untyped-decorator,import-untyped,import-not-found"
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops over every event: count, fill, follow, walk, encode. Plain Python that Cython compiles (without the GIL).

Rule 1: every bound is tested before anything is read or written: whatever the bytes are, and though they change meanwhile
(a mapped file that somebody writes to).
Rule 2: every block starts from zero state (nettrace.md §5.5), so blocks can be given to several threads.
Rule 3: callers hand in buffers, never allocate here. Input bytes come as ``memoryview`` (plain ints when uncompiled).

One row per block of the ``table`` that both fill (the names stand in ``kernels.py``; a compiled loop without
the GIL knows no module names, hence the bare numbers):

======  ==========================================================================================
column  meaning
0       events in the block
1       rows where the sequence number and capture thread were stated (row 0 always)
2       stated activity and related activity ids together
3       position behind the last good blob
4       problem there: 0 none, 1 header broken or cut, 2 payload reaches beyond the block, 3 sizes disagree
5       (only ``count``, with a tally) events with an undefined metadata id
6       for problem 2: bytes missing
7       (only ``fill``) events with an undefined metadata id
8       (only ``fill``) events with an undefined stack
9       (only ``fill``) events with an undefined label list
======  ==========================================================================================
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.dotnetdiag.wire.prefetch import prefetch_once

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
def _value(data: cython.const[cython.uchar][::1], position: cython.longlong, n: cython.int) -> cython.ulonglong:
    """The varuint of ``n`` bytes at ``position``: :func:`_length` has told how many."""
    value: cython.ulonglong = 0
    byte: cython.ulonglong = 0
    i: cython.int = 0
    for i in range(n):
        byte = data[position + i]
        value |= (byte & 0x7F) << 7 * i
    return value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _far(
    table: cython.uint[::1],
    start: cython.longlong,
    bits: cython.longlong,
    defined: cython.longlong,
    number: cython.longlong,
) -> cython.longlong:
    """Where in ``table`` the entry of an id stands in the hash table at ``start`` (``ids.Snapshot``), -1 when it is not
    defined.
    """
    mask: cython.longlong = (cython.cast(cython.longlong, 1) << bits) - 1
    odd: cython.ulonglong = 0x1E3779B97F4A7C15
    half: cython.ulonglong = 0x7FFFFFFFFFFFFFFF
    all_bits: cython.ulonglong = half + half + 1
    at: cython.longlong = 0
    slot: cython.longlong = 0
    n: cython.int = 0
    if bits == 0:
        return -1
    at = cython.cast(cython.longlong, ((cython.cast(cython.ulonglong, number) * odd) & all_bits) >> (64 - bits))
    while n < 128:
        slot = start + 4 * at
        if table[slot] == 0:
            return -1
        if table[slot + 2] == number:
            return slot if table[slot + 1] <= defined else -1
        at = (at + 1) & mask
        n += 1
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find(
    table: cython.uint[::1],
    start: cython.longlong,
    base: cython.longlong,
    near: cython.longlong,
    bits: cython.longlong,
    defined: cython.longlong,
    number: cython.longlong,
) -> cython.longlong:
    """Where in ``table`` the entry of an id stands (``ids.Snapshot``), -1 when it is not defined."""
    at: cython.longlong = number - base
    if 0 <= at < near and table[start + 2 * at] != 0:
        return start + 2 * at if table[start + 2 * at + 1] <= defined else -1
    return _far(table, start + 2 * near, bits, defined, number)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word(data: cython.const[cython.uchar][::1], position: cython.longlong, end: cython.longlong) -> cython.longlong:
    """The varuint of 32 bits at ``position``, and its bytes << 40; 0 when it does not end or does not fit.

    Tested and read at once: the branches of two loops over its bytes would be guessed wrong twice.
    """
    n: cython.longlong = 1
    value: cython.longlong = 0
    byte: cython.longlong = 0
    if position >= end:
        return 0
    byte = data[position]
    if byte < 0x80:
        return n << 40 | byte
    value = byte & 0x7F
    while n < 5 and position + n < end:
        byte = data[position + n]
        value |= (byte & 0x7F) << 7 * n
        n += 1
        if byte < 0x80:
            if n == 5 and byte > 0x0F:
                return 0
            return n << 40 | value
    return 0


def frame(
    data: cython.const[cython.uchar][::1],
    position: cython.longlong,
    base: cython.longlong,
    v6: cython.bint,
    limit: cython.longlong,
    usual: cython.const[cython.uchar][::1],
    kind: cython.longlong,
    rows: cython.longlong[:, ::1],
) -> cython.longlong:
    """Event blocks in their usual form that follow each other from ``position`` on; how many, at most ``rows`` hold.

    ``usual`` is how such an object opens (nettrace 4 and 5), ``kind`` the number of such a block (6). ``data[0]`` stands
    at ``base``. A row becomes (offset, start of the content, its size), absolute, and the size of the block's header.
    The first block that is cut, larger than ``limit``, or odd in any way ends it, so that somebody else may look at it.
    """
    found: cython.longlong = 0
    room: cython.longlong = rows.shape[0]
    end: cython.longlong = data.shape[0]
    opening: cython.longlong = usual.shape[0]
    at: cython.longlong = position
    start: cython.longlong = 0
    size: cython.longlong = 0
    header: cython.longlong = 0
    behind: cython.longlong = 0
    i: cython.longlong = 0
    same: cython.bint = True
    with cython.nogil:
        while found < room:
            if v6:
                if end - at < 4:
                    break
                size = _u32(data, at)
                if size >> 24 != kind:
                    break
                size = size & 0xFFFFFF
                start = at + 4
                behind = start + size
            else:
                if end - at < opening + 4:
                    break
                same = True
                for i in range(opening):
                    if data[at + i] != usual[i]:
                        same = False
                        break
                if not same:
                    break
                size = _u32(data, at + opening)
                start = at + opening + 4
                start += (4 - (start + base) % 4) % 4
                behind = start + size + 1
            if size < 20 or size > limit or behind > end:
                break
            if not v6 and data[behind - 1] != 6:
                break
            header = data[start] | data[start + 1] << 8
            if header < 20 or header > 0x7FFF or header > size or data[start + 2] != 1 or data[start + 3] != 0:
                break
            rows[found, 0] = at + base
            rows[found, 1] = start + base
            rows[found, 2] = size
            rows[found, 3] = header
            found += 1
            at = behind
    return found


@cython.cfunc
@cython.exceptval(check=False)
def _fits(
    data: cython.const[cython.uchar][::1],
    starts: cython.longlong[::1],
    ends: cython.longlong[::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    table: cython.longlong[:, ::1],
    places: cython.longlong[:, ::1],
) -> cython.bint:
    """Whether the blocks lie in ``data`` and have rows in the arrays."""
    block: cython.Py_ssize_t = first
    if first < 0 or last > starts.shape[0] or last > ends.shape[0] or last > table.shape[0] or table.shape[1] < 10:
        return False
    if places.shape[1] < 15 or places.shape[0] < 1 or (places.shape[0] > 1 and places.shape[0] < last):
        return False
    while block < last and starts[block] >= 0 and ends[block] <= data.shape[0]:
        block += 1
    return block >= last


def count(
    data: cython.const[cython.uchar][::1],
    starts: cython.longlong[::1],
    ends: cython.longlong[::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    v6: cython.bint,
    table: cython.longlong[:, ::1],
    places: cython.longlong[:, ::1],
    metadata_ids: cython.uint[::1],
    tally: cython.longlong[:, ::1],
) -> None:
    """Check the compressed blobs of blocks ``first`` to ``last`` (exclusive) and fill their rows of ``table``.

    ``starts`` and ``ends`` bound the blobs of each block in ``data``. ``tally`` (2 rows, may have no column) is
    incremented: row 0 events, row 1 payload bytes, for each metadata id in the order of their definitions, from 1 on.
    For ``places`` and ``metadata_ids`` see :func:`fill`.
    """
    block: cython.Py_ssize_t = 0
    if not _fits(data, starts, ends, first, last, table, places):
        return
    with cython.nogil:
        for block in range(first, last):
            _count_block(data, starts[block], ends[block], v6, table, block, places, metadata_ids, tally)


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
    places: cython.longlong[:, ::1],
    metadata_ids: cython.uint[::1],
    tally: cython.longlong[:, ::1],
) -> cython.void:
    ids: cython.longlong = tally.shape[1]
    place: cython.Py_ssize_t = block if places.shape[0] > 1 else 0
    order: cython.longlong = 0  # that of the metadata id; 0 is undefined
    rows: cython.longlong = 0
    safe: cython.longlong = 0
    counted: cython.longlong = 0
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
    slot: cython.longlong = 0
    stated: cython.int = 0
    while position < end:
        if rows:
            # nothing but the time is stated: most events, and no check but one as long as they cannot reach the end
            safe = end - 4 - size
            while position <= safe and data[position] & 0xBF == 0:
                if data[position + 1] < 0x80:
                    position += 2 + size
                elif data[position + 2] < 0x80:
                    position += 3 + size
                elif data[position + 3] < 0x80:
                    position += 4 + size
                else:
                    break
                rows += 1
            if position >= end:
                break
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
                new_id = cython.cast(cython.longlong, _value(data, at, n))
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
                new_size = cython.cast(cython.longlong, _value(data, at, n))
                at += n
        if new_size > end - at:
            problem = 2
            detail = new_size - (end - at)
            if at > end:
                problem = 1
            break
        if ids and (new_id != metadata_id or new_size != size):
            if 0 < order < ids:
                tally[0, order] += rows - counted
                tally[1, order] += (rows - counted) * size
            else:
                wide += rows - counted
            counted = rows
            if new_id != metadata_id or rows == 0:
                order = 0
                slot = _find(
                    metadata_ids, places[place, 10], places[place, 11], places[place, 12], places[place, 13], places[place, 14],
                    new_id,
                )  # fmt: skip
                if slot >= 0:
                    order = metadata_ids[slot + 1]
        at += new_size
        size = new_size
        metadata_id = new_id
        guids += stated
        if flags & 2 or rows == 0:
            runs += 1
        rows += 1
        position = at
    if ids:
        if 0 < order < ids:
            tally[0, order] += rows - counted
            tally[1, order] += (rows - counted) * size
        else:
            wide += rows - counted
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
    ends: cython.longlong[::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    v6: cython.bint,
    table: cython.longlong[:, ::1],
    places: cython.longlong[:, ::1],
    cursor: cython.longlong[::1],
    state: cython.ulonglong[::1],
    stack_ids: cython.uint[::1],
    label_ids: cython.uint[::1],
    metadata_ids: cython.uint[::1],
    out8: cython.uchar[::1],
    out32: cython.uint[::1],
    out64: cython.ulonglong[::1],
) -> cython.longlong:
    """Header columns of blocks ``first`` to ``last`` (exclusive), their rows of ``table``, and how many blocks it did;
    -1, and nothing is written, when arrays do not fit each other.

    When the columns are full it stops between two events: ``state[0]`` becomes 1, the row of ``table`` speaks of what was
    done of the block, and a call with that ``state`` (otherwise all zeros) and this block as the first goes on there.
    ``out8`` to ``out64`` all view one memory. ``cursor`` says where in it each column begins (in its own items), and
    what comes next::

        0 next row      1 next run      2 next guid     3 rows there may be     21 runs         22 guids
        4 1: the columns marked * are zeros already; becomes 2 when one was written to
        5 blocks in which something is wrong, counted up
        6 metadata_id   7 sequence      8 processor     9 stack                10 activity*         11 related*
        12 payload_length               13 label_list*  14 capture_thread      15 thread            16 time
        17 payload_offset               18 is_sorted    19 runs                20 guids

    ``places`` has one row, or one per block: three times (start in the table, then ``ids.Snapshot``) for ``stack_ids``,
    ``label_ids`` and ``metadata_ids``, which translate ids (0 = not defined; such a metadata id is kept). ``runs``
    receives the rows where the numbers may jump, ``guids`` positions in ``data``; ``activity`` and ``related`` become
    1 + index into ``guids``.
    """
    block: cython.Py_ssize_t = first
    i: cython.Py_ssize_t = 0
    if not _fits(data, starts, ends, first, last, table, places) or cursor.shape[0] < 23 or state.shape[0] < 18:
        return -1
    for i in range(6):
        if cursor[i] < 0:
            return -1
    for i in range(6, 21):
        if cursor[i] < 0:
            return -1
        if i < 14 and cursor[i] + cursor[3] > out32.shape[0]:
            return -1
        if 14 <= i < 18 and cursor[i] + cursor[3] > out64.shape[0]:
            return -1
    if cursor[18] + cursor[3] > out8.shape[0]:
        return -1
    if cursor[19] + cursor[21] > out64.shape[0] or cursor[20] + cursor[22] > out64.shape[0]:
        return -1
    with cython.nogil:
        while block < last:
            if not _fill_block(
                data, starts[block], ends[block], v6, table, places, block, cursor, state, stack_ids, label_ids,
                metadata_ids, out8, out32, out64,
            ):  # fmt: skip
                break
            block += 1
    return block - first


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_block(
    data: cython.const[cython.uchar][::1],
    position: cython.longlong,
    end: cython.longlong,
    v6: cython.bint,
    table: cython.longlong[:, ::1],
    places: cython.longlong[:, ::1],
    block: cython.Py_ssize_t,
    cursor: cython.longlong[::1],
    state: cython.ulonglong[::1],
    stack_ids: cython.uint[::1],
    label_ids: cython.uint[::1],
    metadata_ids: cython.uint[::1],
    out8: cython.uchar[::1],
    out32: cython.uint[::1],
    out64: cython.ulonglong[::1],
) -> cython.bint:
    """False when the columns are full. What changes rarely is written a run of equal values at a time: rows ``mark`` on."""
    opening: cython.longlong = cursor[0]
    run: cython.longlong = cursor[1]
    guid: cython.longlong = cursor[2]
    limit: cython.longlong = cursor[3]
    run_limit: cython.longlong = cursor[21]
    guid_limit: cython.longlong = cursor[22]
    zeroed: cython.bint = cursor[4] != 0
    row: cython.longlong = opening
    mark: cython.longlong = opening
    r: cython.longlong = 0
    c_metadata: cython.longlong = cursor[6]
    c_sequence: cython.longlong = cursor[7]
    c_processor: cython.longlong = cursor[8]
    c_stack: cython.longlong = cursor[9]
    c_activity: cython.longlong = cursor[10]
    c_related: cython.longlong = cursor[11]
    c_length: cython.longlong = cursor[12]
    c_label: cython.longlong = cursor[13]
    c_capture: cython.longlong = cursor[14]
    c_thread: cython.longlong = cursor[15]
    c_time: cython.longlong = cursor[16]
    c_offset: cython.longlong = cursor[17]
    c_sorted: cython.longlong = cursor[18]
    c_runs: cython.longlong = cursor[19]
    c_guids: cython.longlong = cursor[20]
    place: cython.Py_ssize_t = block if places.shape[0] > 1 else 0
    stack_start: cython.longlong = places[place, 0]
    stack_base: cython.longlong = places[place, 1]
    stack_near: cython.longlong = places[place, 2]
    stack_bits: cython.longlong = places[place, 3]
    stack_defined: cython.longlong = places[place, 4]
    label_start: cython.longlong = places[place, 5]
    label_base: cython.longlong = places[place, 6]
    label_near: cython.longlong = places[place, 7]
    label_bits: cython.longlong = places[place, 8]
    label_defined: cython.longlong = places[place, 9]
    metadata_start: cython.longlong = places[place, 10]
    metadata_base: cython.longlong = places[place, 11]
    metadata_near: cython.longlong = places[place, 12]
    metadata_bits: cython.longlong = places[place, 13]
    metadata_defined: cython.longlong = places[place, 14]
    meta: cython.uint = 0
    seq: cython.uint = 0
    increment: cython.uint = 1 if v6 else 0
    capture: cython.ulonglong = 0
    tid: cython.ulonglong = 0
    cpu: cython.uint = 0
    frames: cython.uint = 0
    now: cython.ulonglong = 0
    act: cython.uint = 0
    rel: cython.uint = 0
    size: cython.uint = 0
    label: cython.uint = 0
    in_order: cython.uchar = 0
    flags: cython.int = 0
    stated: cython.int = 0
    n: cython.int = 0
    byte: cython.ulonglong = 0
    more: cython.ulonglong = 0
    delta: cython.ulonglong = 0
    safe: cython.longlong = 0
    ahead: cython.longlong = 0
    first_seq: cython.uint = 0
    word: cython.ulonglong = 0x7FFFFFFF + cython.cast(cython.ulonglong, 0x7FFFFFFF) + 1
    half: cython.ulonglong = 0x7FFFFFFFFFFFFFFF
    mask: cython.ulonglong = half + half + 1
    raw: cython.longlong = 0
    at: cython.longlong = position
    shown: cython.uint = 0
    unknown: cython.longlong = 1  # until an id is stated it is 0, which nothing defines
    lost_stack: cython.longlong = 0
    lost_label: cython.longlong = 0
    unknown_rows: cython.longlong = 0
    lost_stack_rows: cython.longlong = 0
    lost_label_rows: cython.longlong = 0
    problem: cython.longlong = 0
    detail: cython.longlong = 0
    first_run: cython.longlong = run
    first_guid: cython.longlong = guid
    slot: cython.longlong = 0
    act_at: cython.ulonglong = 0  # 1 + the position of the activity id that holds; 0 for none
    rel_at: cython.ulonglong = 0
    started: cython.bint = False
    bare: cython.bint = False  # the row at `mark` has no header that states a number
    full: cython.bint = False
    if state[0]:
        position = cython.cast(cython.longlong, state[1])
        meta = cython.cast(cython.uint, state[2])
        shown = cython.cast(cython.uint, state[3])
        unknown = cython.cast(cython.longlong, state[4])
        seq = cython.cast(cython.uint, state[5])
        capture = state[6]
        tid = state[7]
        cpu = cython.cast(cython.uint, state[8])
        frames = cython.cast(cython.uint, state[9])
        lost_stack = cython.cast(cython.longlong, state[10])
        now = state[11]
        act_at = state[12]
        rel_at = state[13]
        size = cython.cast(cython.uint, state[14])
        label = cython.cast(cython.uint, state[15])
        lost_label = cython.cast(cython.longlong, state[16])
        started = bare = state[17] != 0
        increment = 1 if meta != 0 or v6 else 0
        state[0] = 0
        if act_at != 0 and guid < guid_limit:
            out64[c_guids + guid] = act_at - 1
            guid += 1
            act = cython.cast(cython.uint, guid)
        if rel_at != 0 and guid < guid_limit:
            out64[c_guids + guid] = rel_at - 1
            guid += 1
            rel = cython.cast(cython.uint, guid)
    while True:
        at = position
        if started:
            # nothing but the time is stated: most events, and no check but one as long as they cannot reach the end
            safe = end - 4 - size
            # the processor looks ahead by itself, but not beyond a page of 4 KB: a sixth of all time, without this
            ahead = 16 * (size + 3)
            while at <= safe and row < limit and data[at] == 0:
                if cython.compiled:
                    prefetch_once(cython.address(data[at + ahead]))
                byte = data[at + 1]
                if byte < 0x80:
                    now = (now + byte) & mask
                    at += 2
                else:
                    more = data[at + 2]
                    delta = (byte & 0x7F) | (more & 0x7F) << 7
                    if more < 0x80:
                        at += 3
                    else:
                        more = data[at + 3]
                        if more >= 0x80:
                            break
                        delta |= more << 14
                        at += 4
                    now = (now + delta) & mask
                out64[c_time + row] = now
                out64[c_offset + row] = at
                row += 1
                at += size
            position = at
        flags = 0x100
        if at < end:
            full = row >= limit or run >= run_limit or guid + 2 > guid_limit
            if not full:
                flags = data[at]
        # the end, or something else is stated: first write what held until here
        if row > mark:
            if zeroed and (act != 0 or rel != 0 or label != 0):
                cursor[4] = 2
            if bare:
                seq = cython.cast(cython.uint, (seq + increment) & word)
                bare = False
            # the numbers of rows behind the first count up
            first_seq = seq
            if row - mark < 6:
                for r in range(mark, row):
                    out32[c_sequence + r] = seq
                    seq = cython.cast(cython.uint, (seq + increment) & word)
                    out32[c_metadata + r] = shown
                    out64[c_capture + r] = capture
                    out64[c_thread + r] = tid
                    out32[c_processor + r] = cpu
                    out32[c_stack + r] = frames
                    out32[c_length + r] = size
            else:
                for r in range(mark, row):
                    out32[c_sequence + r] = seq
                    seq = cython.cast(cython.uint, (seq + increment) & word)
                for r in range(mark, row):
                    out32[c_metadata + r] = shown
                for r in range(mark, row):
                    out64[c_capture + r] = capture
                for r in range(mark, row):
                    out64[c_thread + r] = tid
                for r in range(mark, row):
                    out32[c_processor + r] = cpu
                for r in range(mark, row):
                    out32[c_stack + r] = frames
                for r in range(mark, row):
                    out32[c_length + r] = size
            seq = cython.cast(cython.uint, (first_seq + increment * cython.cast(cython.uint, row - mark - 1)) & word)
            for r in range(mark, row):
                out8[c_sorted + r] = 0
            if act != 0 or not zeroed:
                for r in range(mark, row):
                    out32[c_activity + r] = act
            if rel != 0 or not zeroed:
                for r in range(mark, row):
                    out32[c_related + r] = rel
            if label != 0 or not zeroed:
                for r in range(mark, row):
                    out32[c_label + r] = label
            if in_order:
                out8[c_sorted + mark] = 1
            raw = row - mark
            unknown_rows += unknown * raw
            lost_stack_rows += lost_stack * raw
            lost_label_rows += lost_label * raw
            mark = row
        if flags == 0x100:
            break
        # values are taken as they are read: when the event turns out broken, nothing comes after it
        if cython.compiled:
            prefetch_once(cython.address(data[at + 1024]))
        at += 1
        stated = 0
        bare = False
        if flags & 0x0F:
            if flags & 1:
                raw = _word(data, at, end)
                if raw == 0:
                    problem = 1
                    break
                meta = cython.cast(cython.uint, raw & word)
                at += raw >> 40
                slot = cython.cast(cython.longlong, meta) - metadata_base
                shown = 0
                if 0 <= slot < metadata_near:
                    slot = metadata_start + 2 * slot
                    if metadata_ids[slot + 1] <= metadata_defined:
                        shown = metadata_ids[slot]
                if shown == 0 and metadata_bits:
                    slot = metadata_start + 2 * metadata_near
                    slot = _far(metadata_ids, slot, metadata_bits, metadata_defined, meta)
                    if slot >= 0:
                        shown = metadata_ids[slot]
                unknown = 0
                if shown == 0:
                    shown = meta
                    unknown = 1
                increment = 1 if meta != 0 or v6 else 0
            if flags & 2:
                raw = _word(data, at, end)
                if raw == 0:
                    problem = 1
                    break
                seq = cython.cast(cython.uint, (seq + raw + 1) & word)
                at += raw >> 40
                n = _length(data, at, end, 10)
                if n == 0:
                    problem = 1
                    break
                capture = _value(data, at, n)
                at += n
                raw = _word(data, at, end)
                if raw == 0:
                    problem = 1
                    break
                cpu = cython.cast(cython.uint, raw & word)
                at += raw >> 40
            else:
                seq = cython.cast(cython.uint, (seq + increment) & word)
            if flags & 4:
                n = _length(data, at, end, 10)
                if n == 0:
                    problem = 1
                    break
                tid = _value(data, at, n)
                at += n
            if flags & 8:
                raw = _word(data, at, end)
                if raw == 0:
                    problem = 1
                    break
                at += raw >> 40
                raw &= word
                slot = raw - stack_base
                frames = 0
                if 0 <= slot < stack_near:
                    slot = stack_start + 2 * slot
                    if stack_ids[slot + 1] <= stack_defined:
                        frames = stack_ids[slot]
                if frames == 0 and stack_bits:
                    slot = _far(stack_ids, stack_start + 2 * stack_near, stack_bits, stack_defined, raw)
                    if slot >= 0:
                        frames = stack_ids[slot]
                lost_stack = 1 if raw != 0 and frames == 0 else 0
        else:
            seq = cython.cast(cython.uint, (seq + increment) & word)
        raw = _word(data, at, end)  # five bytes have room for half a minute
        if raw != 0:
            now = (now + cython.cast(cython.ulonglong, raw & word)) & mask
            at += raw >> 40
        else:
            n = _length(data, at, end, 10)
            if n == 0:
                problem = 1
                break
            now = (now + _value(data, at, n)) & mask
            at += n
        if flags & 0xB0:
            if v6:
                if flags & 16:
                    raw = _word(data, at, end)
                    if raw == 0:
                        problem = 1
                        break
                    at += raw >> 40
                    raw &= word
                    slot = _find(label_ids, label_start, label_base, label_near, label_bits, label_defined, raw)
                    label = 0 if slot < 0 else label_ids[slot]
                    lost_label = 1 if raw != 0 and slot < 0 else 0
            else:
                if flags & 16:
                    out64[c_guids + guid] = at
                    stated += 1
                    act = cython.cast(cython.uint, guid + stated)
                    act_at = at + 1
                    at += 16
                if flags & 32:
                    out64[c_guids + guid + stated] = at
                    stated += 1
                    rel = cython.cast(cython.uint, guid + stated)
                    rel_at = at + 1
                    at += 16
            if flags & 128:
                raw = _word(data, at, end)
                if raw == 0:
                    problem = 1
                    break
                size = cython.cast(cython.uint, raw & word)
                at += raw >> 40
        raw = size
        if raw > end - at:
            problem = 2
            detail = raw - (end - at)
            if at > end:
                problem = 1
            break
        guid += stated
        if flags & 2 or not started:
            started = True
            out64[c_runs + run] = row
            run += 1
        in_order = 1 if flags & 64 else 0
        out64[c_time + row] = now
        out64[c_offset + row] = at
        row += 1
        position = at + raw
    table[block, 0] = row - opening
    table[block, 1] = run - first_run
    table[block, 2] = guid - first_guid
    table[block, 3] = position
    table[block, 4] = problem
    table[block, 5] = 0
    table[block, 6] = detail
    table[block, 7] = unknown_rows
    table[block, 8] = lost_stack_rows
    table[block, 9] = lost_label_rows
    if problem or unknown_rows or lost_stack_rows or lost_label_rows:
        cursor[5] += 1
    cursor[0] = row
    cursor[1] = run
    cursor[2] = guid
    if full:
        state[0] = 1
        state[1] = position
        state[2] = meta
        state[3] = shown
        state[4] = unknown
        state[5] = seq
        state[6] = capture
        state[7] = tid
        state[8] = cpu
        state[9] = frames
        state[10] = lost_stack
        state[11] = now
        state[12] = act_at
        state[13] = rel_at
        state[14] = size
        state[15] = label
        state[16] = lost_label
        state[17] = started
    return not full


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
    follow the payload (NetPerf). ``result`` becomes (count, position behind the last good blob, problem). It stops when
    ``positions`` is full.
    """
    found: cython.longlong = 0
    room: cython.longlong = positions.shape[0]
    problem: cython.longlong = 0
    extent: cython.longlong = 0
    payload: cython.longlong = 0
    frames: cython.longlong = 0
    at: cython.longlong = 0
    if position < 0 or end > data.shape[0] or header < size_at + 4 or size_at < 0 or result.shape[0] < 3:
        return
    with cython.nogil:
        while position < end and found < room:
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


def follow(
    data: cython.const[cython.uchar][::1],
    position: cython.longlong,
    base: cython.longlong,
    usual: cython.const[cython.uchar][::1],
    walk: cython.longlong[::1],
    threads: cython.ulonglong[::1],
    numbers: cython.longlong[::1],
) -> cython.longlong:
    """Follow the sequence numbers of compressed events of nettrace 4 and 5 from ``position`` on, and count gaps.

    Returns where it stopped: at the end of ``data``, at a header that is cut, or where no event block in its usual form
    (:func:`frame`) begins. ``data`` may be any piece of a trace, ``data[0]`` stands at ``base``; ``walk`` goes with it::

        0 1 behind the first event of the block         1 metadata id   2 sequence      3 slot of the capture thread
        4 payload size  5 lost          6 slots in use  7 becomes 1: it cannot go on, all is worth nothing
        8 bytes of the block that are to come; -1: it stands between blocks
        9 how many of them are payload of the last event: with it, 10 were lost

    ``threads`` and ``numbers`` are a hash table of capture threads, all zero at first, its length a power of two. A
    number is the last of that thread, plus 1 << 32 while it lives, or 2 << 32 when it has ended (``LossAccount``).
    """
    started: cython.bint = False
    metadata_id: cython.longlong = 0
    sequence: cython.longlong = 0
    slot: cython.longlong = 0
    size: cython.longlong = 0
    lost: cython.longlong = 0
    left: cython.longlong = 0
    missing: cython.longlong = 0
    loss: cython.longlong = 0
    new_id: cython.longlong = 0
    new_size: cython.longlong = 0
    number: cython.longlong = 0
    block_end: cython.longlong = 0
    stop: cython.longlong = 0
    safe: cython.longlong = 0
    bare: cython.longlong = 0
    at: cython.longlong = 0
    raw: cython.longlong = 0
    entry: cython.longlong = 0
    end: cython.longlong = data.shape[0]
    capture: cython.ulonglong = 0
    n: cython.int = 0
    i: cython.longlong = 0
    flags: cython.int = 0
    same: cython.bint = True
    word: cython.longlong = 0xFFFFFFFF
    half: cython.longlong = 0x80000000
    live: cython.longlong = 1
    live = live << 32
    if walk.shape[0] < 11 or position < 0 or position > end or threads.shape[0] != numbers.shape[0]:
        return position
    started = walk[0] != 0
    metadata_id = walk[1]
    sequence = walk[2]
    slot = walk[3]
    size = walk[4]
    lost = walk[5]
    left = walk[8]
    missing = walk[9]
    if walk[7] or slot < 0 or slot >= numbers.shape[0] or size < 0 or size > word or missing < 0:
        return position
    with cython.nogil:
        while True:
            if left < 0:
                # the opening of a block, as in `frame`
                if end - position < usual.shape[0] + 27:
                    break
                same = True
                for i in range(usual.shape[0]):
                    if data[position + i] != usual[i]:
                        same = False
                        break
                if not same:
                    break
                at = position + usual.shape[0] + 4
                new_size = _u32(data, at - 4)
                at += (4 - (at + base) % 4) % 4
                raw = data[at] | data[at + 1] << 8
                if raw < 20 or raw > 0x7FFF or raw > new_size or raw > end - at or new_size > 0x7FFFFFFF:
                    break
                if data[at + 2] != 1 or data[at + 3] != 0:
                    break
                left = new_size - raw
                position = at + raw
                started = False
                metadata_id = sequence = slot = size = missing = 0
            if missing:
                raw = missing if missing < end - position else end - position
                position += raw
                left -= raw
                missing -= raw
            block_end = position + left
            stop = block_end if block_end < end else end
            while position < stop:
                if started:
                    # nothing but the time is stated: see `_count_block`
                    safe = stop - 4 - size
                    bare = 0
                    while position <= safe and data[position] & 0xBF == 0:
                        if data[position + 1] < 0x80:
                            position += 2 + size
                        elif data[position + 2] < 0x80:
                            position += 3 + size
                        elif data[position + 3] < 0x80:
                            position += 4 + size
                        else:
                            break
                        bare += 1
                    if metadata_id != 0:
                        sequence = (sequence + bare) & word
                    if position >= stop:
                        break
                at = position
                flags = data[at]
                at += 1
                new_size = size
                new_id = metadata_id
                capture = 0
                if flags & 1:
                    raw = _word(data, at, stop)
                    if raw == 0:
                        break
                    new_id = raw & word
                    at += raw >> 40
                number = sequence + 1 if new_id != 0 else sequence
                if flags & 2:
                    raw = _word(data, at, stop)
                    if raw == 0:
                        break
                    number = sequence + (raw & word) + 1
                    at += raw >> 40
                    n = _length(data, at, stop, 10)
                    if n == 0:
                        break
                    capture = _value(data, at, n)
                    at += n
                    n = _length(data, at, stop, 5)
                    if n == 0:
                        break
                    at += n
                number &= word
                if flags & 4:
                    n = _length(data, at, stop, 10)
                    if n == 0:
                        break
                    at += n
                if flags & 8:
                    n = _length(data, at, stop, 5)
                    if n == 0:
                        break
                    at += n
                n = _length(data, at, stop, 10)
                if n == 0:
                    break
                at += n
                if flags & 16:
                    at += 16
                if flags & 32:
                    at += 16
                if flags & 128:
                    raw = _word(data, at, stop)
                    if raw == 0:
                        break
                    new_size = raw & word
                    at += raw >> 40
                if at > stop:
                    break
                if new_size > block_end - at:
                    walk[7] = 1
                    break
                loss = 0
                if flags & 2 or not started:
                    if started:
                        numbers[slot] = sequence | live
                    raw = _slot(threads, numbers, capture, walk)
                    if raw < 0:
                        break
                    slot = raw
                    entry = numbers[slot]
                    raw = (number - entry) & word
                    if entry >> 32 == 1 and 0 < raw < half:
                        loss = raw - 1
                    elif not (entry >> 32 == 2 and raw == 1) and 0 < number < half:
                        loss = number - 1
                    lost += loss
                    started = True
                sequence = number
                metadata_id = new_id
                size = new_size
                position = at + new_size
                if position > stop:  # only behind `end`: it is in the block
                    missing = position - stop
                    position = stop
                    walk[10] = loss
            left = block_end - position
            if started:
                numbers[slot] = sequence | live
            if position < stop and stop == block_end:
                walk[7] = 1  # a header does not end in the block
            if walk[7] or left or position >= end:
                break
            if data[position] != 6:
                walk[7] = 1
                break
            position += 1
            left = -1
        walk[0] = started
        walk[1] = metadata_id
        walk[2] = sequence
        walk[3] = slot
        walk[4] = size
        walk[5] = lost
        walk[8] = left
        walk[9] = missing
    return position


def settle(
    data: cython.const[cython.uchar][::1],
    position: cython.longlong,
    count: cython.longlong,
    walk: cython.longlong[::1],
    threads: cython.ulonglong[::1],
    numbers: cython.longlong[::1],
) -> None:
    """Take the ``count`` threads of a sequence point (nettrace 4 and 5), which stand at ``position``: see :func:`follow`.

    A thread that is not listed has ended. When the table is full before all were taken, ``walk[7]`` becomes 1.
    """
    row: cython.longlong = 0
    at: cython.longlong = 0
    slot: cython.longlong = 0
    entry: cython.longlong = 0
    before: cython.longlong = 0
    number: cython.longlong = 0
    delta: cython.longlong = 0
    thread: cython.ulonglong = 0
    word: cython.longlong = 0xFFFFFFFF
    half: cython.longlong = 0x80000000
    live: cython.longlong = 1
    live = live << 32
    if walk.shape[0] < 11 or threads.shape[0] != numbers.shape[0] or numbers.shape[0] == 0:
        return
    if position < 0 or count < 0 or count > (data.shape[0] - position) // 12:
        walk[7] = 1
        return
    with cython.nogil:
        for row in range(count):
            at = position + 12 * row
            thread = _u32(data, at + 4)
            thread = thread << 32 | cython.cast(cython.ulonglong, _u32(data, at))
            number = _u32(data, at + 8)
            slot = _slot(threads, numbers, thread, walk)
            if slot < 0:
                break
            entry = numbers[slot]
            before = entry & word
            delta = (number - before) & word
            if 0 < delta < half:
                walk[5] += delta
                before = number
            numbers[slot] = before | live << 2  # listed
        for row in range(numbers.shape[0]):
            entry = numbers[row]
            if entry >> 32 == 4:
                numbers[row] = entry & word | live
            elif entry >> 32 == 1:
                numbers[row] = entry & word | live << 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _slot(
    threads: cython.ulonglong[::1],
    numbers: cython.longlong[::1],
    thread: cython.ulonglong,
    walk: cython.longlong[::1],
) -> cython.longlong:
    """Where a thread stands in the table of :func:`follow`, from now on if need be.

    -1 when it is half full, or ids were chosen to meet: 256 steps are the most that one of them may cost.
    """
    mask: cython.longlong = numbers.shape[0] - 1
    odd: cython.ulonglong = 0x1E3779B97F4A7C15
    half: cython.ulonglong = 0x7FFFFFFFFFFFFFFF
    all_bits: cython.ulonglong = half + half + 1
    # the high bits of a product depend on all bits of its factors
    first: cython.longlong = cython.cast(cython.longlong, ((thread * odd) & all_bits) >> 33)
    at: cython.longlong = 0
    n: cython.int = 0
    for n in range(256):
        at = (first + n) & mask
        if numbers[at] == 0:
            if 2 * walk[6] >= numbers.shape[0]:
                break
            walk[6] += 1
            threads[at] = thread
            return at
        if threads[at] == thread:
            return at
    walk[7] = 1
    return -1


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

    A row needs at most 88 bytes beside its payload (96 are asked for): flags 1, five varuints of 32 bits 25, three of
    64 bits 30, two GUIDs 32. ``guids`` holds 16 bytes per index of ``activity``/``related``. A row whose payload or
    GUID is not there ends the block. ``result`` becomes (rows written, bytes written).
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
    act: cython.longlong = 0
    rel: cython.longlong = 0
    own: cython.longlong = 0
    other: cython.longlong = 0
    size: cython.longlong = 0
    label: cython.uint = 0
    flags: cython.int = 0
    begin: cython.longlong = 0
    source: cython.longlong = 0
    length: cython.longlong = 0
    known: cython.longlong = guids.shape[0] // 16
    i: cython.longlong = 0
    word: cython.ulonglong = 0x7FFFFFFF + cython.cast(cython.ulonglong, 0x7FFFFFFF) + 1
    half: cython.ulonglong = 0x7FFFFFFFFFFFFFFF
    mask: cython.ulonglong = half + half + 1
    with cython.nogil:
        while row < last:
            # once, and used below: the caller may change the column meanwhile
            length = payload_length[row]
            source = payload_offset[row]
            if room - at < 96 + length or source < 0 or source > payload.shape[0] - length:
                break
            own = activity[row]
            other = related[row]
            if not v6 and (own >= known or other >= known):
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
                if own != act:
                    flags |= 16
                    act = own
                    for i in range(16):
                        out[at + i] = guids[16 * own + i]
                    at += 16
                if other != rel:
                    flags |= 32
                    rel = other
                    for i in range(16):
                        out[at + i] = guids[16 * other + i]
                    at += 16
            if is_sorted[row]:
                flags |= 64
            if length != size:
                flags |= 128
                size = length
                at = _put(out, at, cython.cast(cython.ulonglong, length))
            for i in range(length):
                out[at + i] = payload[source + i]
            at += length
            out[begin] = cython.cast(cython.uchar, flags)
            row += 1
        result[0] = row - first
        result[1] = at


# stacks ---------------------------------------------------------------------------------------------------------------


def split_stacks(
    data: cython.const[cython.uchar][::1],
    position: cython.longlong,
    cost: cython.longlong,
    pointer: cython.longlong,
    starts: cython.longlong[::1],
    sizes: cython.longlong[::1],
    result: cython.longlong[::1],
) -> None:
    """Where stacks lie that follow each other from ``position`` on, each behind its size (u32): as many as ``starts`` holds.

    ``sizes`` are those of whole pointers, -1 where the size and ``cost`` are more than there is room for. ``result`` has
    the room for all in [3] and becomes (stacks, position behind them, stacks without room, room that is left).
    """
    found: cython.longlong = 0
    refused: cython.longlong = 0
    size: cython.longlong = 0
    room: cython.longlong = 0
    end: cython.longlong = data.shape[0]
    most: cython.longlong = min(starts.shape[0], sizes.shape[0])
    if position < 0 or pointer < 1 or result.shape[0] < 4:
        return
    room = result[3]
    with cython.nogil:
        while found < most and end - position >= 4:
            size = data[position] | data[position + 1] << 8 | data[position + 2] << 16
            size |= cython.cast(cython.longlong, data[position + 3]) << 24
            if size > end - position - 4:
                break
            starts[found] = position + 4
            if cost + size > room:
                sizes[found] = -1
                refused += 1
            else:
                sizes[found] = size - size % pointer
                room -= cost + size
            position += 4 + size
            found += 1
        result[0] = found
        result[1] = position
        result[2] = refused
        result[3] = room


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hash(
    data: cython.const[cython.uchar][::1],
    position: cython.longlong,
    size: cython.longlong,
    keys: cython.ulonglong[::1],
) -> cython.uint:
    """32 bits: the sum of the words of 4 bytes, each multiplied by a random key (multilinear hashing), which nobody can foresee.

    What is longer than the keys is hashed piece by piece, each with the hash of the one before.
    """
    half: cython.ulonglong = 0x7FFFFFFFFFFFFFFF
    mask: cython.ulonglong = half + half + 1
    total: cython.ulonglong = 0
    word: cython.ulonglong = 0
    key: cython.Py_ssize_t = 2
    end: cython.longlong = position + size
    i: cython.int = 0
    total = (keys[0] + keys[1] * cython.cast(cython.ulonglong, size)) & mask
    while position < end:
        if key == keys.shape[0]:
            total = (keys[0] + keys[1] * (total >> 32)) & mask
            key = 2
        word = 0
        if end - position >= 4:
            word = data[position] | data[position + 1] << 8 | data[position + 2] << 16
            word |= cython.cast(cython.ulonglong, data[position + 3]) << 24
        else:
            for i in range(end - position):
                word |= cython.cast(cython.ulonglong, data[position + i]) << 8 * i
        total = (total + keys[key] * word) & mask
        key += 1
        position += 4
    return cython.cast(cython.uint, total >> 32)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_same(
    data: cython.const[cython.uchar][::1],
    position: cython.longlong,
    pool: cython.uchar[::1],
    start: cython.longlong,
    size: cython.longlong,
) -> cython.bint:
    differs: cython.int = 0
    i: cython.longlong = 0
    for i in range(size):  # to the end: many bytes are compared at once
        differs |= data[position + i] ^ pool[start + i]
    return differs == 0


def intern_stacks(
    data: cython.const[cython.uchar][::1],
    starts: cython.longlong[::1],
    sizes: cython.longlong[::1],
    first: cython.longlong,
    keys: cython.ulonglong[::1],
    state: cython.longlong[::1],
    offsets: cython.longlong[::1],
    hashes: cython.uint[::1],
    slots: cython.uint[::1],
    pool: cython.uchar[::1],
    ids: cython.uint[::1],
) -> cython.longlong:
    """The ids of the stacks from number ``first`` on; how many it got to, fewer than there are when a table is full. 0 is the
    id of those with a size below 0 or that do not lie in ``data``. -1, and nothing is written, when arrays do not fit.

    ``state`` is the number of ids, 0 included, and of bytes in ``pool``: stack ``i`` is its bytes from ``offsets[i]`` to
    ``offsets[i + 1]``. ``slots`` is a hash table of ids, a power of two, at most half full.
    """
    at: cython.longlong = first
    count: cython.longlong = 0
    used: cython.longlong = 0
    size: cython.longlong = 0
    start: cython.longlong = 0
    slot: cython.longlong = 0
    found: cython.longlong = 0
    begin: cython.longlong = 0
    i: cython.longlong = 0
    hashed: cython.uint = 0
    mask: cython.longlong = slots.shape[0] - 1
    most: cython.longlong = min(hashes.shape[0], offsets.shape[0] - 1, slots.shape[0] // 2)
    if first < 0 or starts.shape[0] != sizes.shape[0] or ids.shape[0] != starts.shape[0] or state.shape[0] < 2:
        return -1
    count = state[0]
    used = state[1]
    if (
        keys.shape[0] < 3
        or mask < 0
        or slots.shape[0] & mask
        or count < 1
        or count > most
        or used < 0
        or used > pool.shape[0]
    ):
        return -1
    with cython.nogil:
        while at < starts.shape[0]:
            start = starts[at]
            size = sizes[at]
            if size < 0 or start < 0 or start > data.shape[0] - size:
                ids[at] = 0
                at += 1
                continue
            if count >= most or size > pool.shape[0] - used:
                break
            hashed = _hash(data, start, size, keys)
            slot = hashed & mask
            found = slots[slot]
            while found != 0:
                begin = offsets[found]
                if (
                    hashes[found] == hashed
                    and offsets[found + 1] - begin == size
                    and _is_same(data, start, pool, begin, size)
                ):
                    break
                slot = (slot + 1) & mask
                found = slots[slot]
            if found == 0:
                found = count
                for i in range(size):
                    pool[used + i] = data[start + i]
                used += size
                hashes[found] = hashed
                slots[slot] = cython.cast(cython.uint, found)
                count += 1
                offsets[count] = used
            ids[at] = cython.cast(cython.uint, found)
            at += 1
        state[0] = count
        state[1] = used
    return at


def index_stacks(hashes: cython.uint[::1], count: cython.longlong, slots: cython.uint[::1]) -> None:
    """Put the ids from 1 to ``count`` (exclusive) into a hash table of zeros that has room for twice as many."""
    mask: cython.longlong = slots.shape[0] - 1
    slot: cython.longlong = 0
    i: cython.longlong = 0
    if mask < 0 or slots.shape[0] & mask or count > hashes.shape[0] or 2 * count > slots.shape[0]:
        return
    with cython.nogil:
        for i in range(1, count):
            slot = hashes[i] & mask
            while slots[slot] != 0:
                slot = (slot + 1) & mask
            slots[slot] = cython.cast(cython.uint, i)
