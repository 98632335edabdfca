# mypy: ignore-errors
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops over every payload: plain Python that Cython compiles (without the GIL). Called through ``kernels.py``.

Rule 1: a row is checked before it is read; a row that fails stops, and the others go on.
Rule 2: callers hand in buffers, nothing is allocated here. Uncompiled, they are ``memoryview``, for plain ints.
Rule 3: compiled, numbers are loaded as the machine has them, so ``kernels.py`` takes that form on little ends only.

A program is an i64 table, one row per operation; it runs column by column over batches of rows, so that what one
operation touches stays in the cache for the next (the numbers have names in ``program.py``; a loop without the GIL
knows none):

======  ==================================================================================================
column  meaning
0       operation: 1 scalar, 2 varuint, 3 varint, 4 text to a zero unit, 5 text to a zero byte, 6 span, 7 list,
        8 block of scalars (its operations follow), 9 all that is left
1       slot of the output, or -1. Spans take two i64 per row (start, bytes), lists too (first element, elements)
2       bytes: of the scalar, of one element (6), at least of one element (7), of the block (8)
3       register that keeps the value for a count behind, or -1
4       where the count stands: 0 fixed, 1 u16, 2 u32, 3 register, 4 location from here, 5 from the payload's start
5       fixed count, or number of the register
6       operation behind the list or block
7       ordinal of the value at top level: how many values stand in front of it
======  ==================================================================================================
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # neither compiled nor anything to compile with
    from dotnetdiag.events import shadow as cython

if cython.compiled:
    from cython.cimports.dotnetdiag.wire.prefetch import prefetch
    from cython.cimports.libc.string import memcpy

compiled: bool = cython.compiled


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _load16(data: cython.const[cython.uchar][::1], p: cython.longlong) -> cython.ulonglong:
    if cython.compiled:  # a copy of so few bytes becomes one load; compilers do not see it in the sum of bytes
        value: cython.ushort = 0
        memcpy(cython.address(value), cython.address(data[p]), 2)
        return value
    return data[p] | data[p + 1] << 8


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _load32(data: cython.const[cython.uchar][::1], p: cython.longlong) -> cython.ulonglong:
    if cython.compiled:
        value: cython.uint = 0
        memcpy(cython.address(value), cython.address(data[p]), 4)
        return value
    return data[p] | data[p + 1] << 8 | data[p + 2] << 16 | data[p + 3] << 24


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _load64(data: cython.const[cython.uchar][::1], p: cython.longlong) -> cython.ulonglong:
    if cython.compiled:
        value: cython.ulonglong = 0
        memcpy(cython.address(value), cython.address(data[p]), 8)
        return value
    return _load32(data, p) | _load32(data, p + 4) << 32


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _count(value: cython.ulonglong) -> cython.longlong:
    """A count that any check refuses when it is too large for one."""
    if value > 0x7FFFFFFF:
        return 0x7FFFFFFF
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _fits(count: cython.longlong, size: cython.longlong, room: cython.longlong) -> cython.bint:
    """Whether so many things of a size, 1 or more, have room. (A division takes as long as all else in a row.)"""
    if size <= 0x7FFFFFFF and count <= 0x7FFFFFFF:
        return count * size <= room
    return count <= room // size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _zero16(data: cython.const[cython.uchar][::1], p: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Twice the bytes from ``p`` to the next zero unit, plus 1 when a unit above 0x7F was passed; or -1."""
    seen: cython.ulonglong = 0
    start: cython.longlong = p
    x: cython.ulonglong
    low: cython.ulonglong = 0x00010001  # larger constants would be Python's
    low = low << 32 | low
    high: cython.ulonglong = low * 0x8000
    beyond: cython.ulonglong = low * 0xFF80
    while end - p >= 8:
        x = _load64(data, p)
        if (x - low) & ~x & high:
            break
        seen |= x
        p += 8
    while end - p >= 2:
        x = _load16(data, p)
        if x == 0:
            return (p - start) << 1 | (1 if seen & beyond else 0)
        seen |= x
        p += 2
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _varuint_size(data: cython.const[cython.uchar][::1], p: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Bytes of the varuint at ``p``, or 0 when it does not end or does not fit 64 bits."""
    n: cython.longlong = 0
    while n < 10 and p + n < end:
        byte: cython.int = data[p + n]
        n += 1
        if byte < 0x80:
            if n == 10 and byte > 1:
                return 0
            return n
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _varuint(data: cython.const[cython.uchar][::1], p: cython.longlong, size: cython.longlong) -> cython.ulonglong:
    value: cython.ulonglong = 0
    i: cython.longlong = size
    while i > 0:
        i -= 1
        byte: cython.ulonglong = data[p + i]
        value = value << 7 | (byte & 0x7F)
    return value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fail(
    present: cython.longlong[::1],
    state: cython.uchar[::1],
    failed: cython.bint,
    values: cython.longlong,
    r: cython.Py_ssize_t,
    ordinal: cython.longlong,
    ended: cython.bint,
) -> cython.bint:
    """Row ``r`` has no value ``ordinal``; the first such row finds ``present`` and ``state`` unwritten."""
    if not failed:
        for i in range(present.shape[0]):
            present[i] = values
            state[i] = 0
    if state[r] == 0:
        present[r] = ordinal
        state[r] = 1 if ended else 2
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _skip(
    data: cython.const[cython.uchar][::1],
    p: cython.longlong,
    end: cython.longlong,
    ops: cython.const[cython.longlong][:, ::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    registers: cython.longlong[::1],
) -> cython.longlong:
    """Position behind one element, of operations ``first`` to ``last`` (exclusive); -1 when it does not fit."""
    k: cython.Py_ssize_t = first
    code: cython.longlong
    size: cython.longlong
    mode: cython.longlong
    count: cython.longlong
    found: cython.longlong
    while k < last:
        code = ops[k, 0]
        size = ops[k, 2]
        if code == 8:
            k += 1
            continue
        if code == 1:
            if end - p < size:
                return -1
            if ops[k, 3] >= 0:
                if size == 1:
                    registers[ops[k, 3]] = data[p]
                elif size == 2:
                    registers[ops[k, 3]] = _load16(data, p)
                elif size == 4:
                    registers[ops[k, 3]] = _load32(data, p)
                else:
                    registers[ops[k, 3]] = _count(_load64(data, p))
            p += size
        elif code == 2 or code == 3:
            found = _varuint_size(data, p, end)
            if found == 0:
                return -1
            if ops[k, 3] >= 0:
                registers[ops[k, 3]] = _count(_varuint(data, p, found))
            p += found
        elif code == 4:
            found = _zero16(data, p, end)
            if found < 0:
                return -1
            p += (found >> 1) + 2
        elif code == 5:
            while p < end and data[p] != 0:
                p += 1
            if p >= end:
                return -1
            p += 1
        elif code == 9:
            p = end
        else:
            mode = ops[k, 4]
            if mode == 0:
                count = ops[k, 5]
            elif mode == 3:
                count = registers[ops[k, 5]]
            elif mode == 1:
                if end - p < 2:
                    return -1
                count = _load16(data, p)
                p += 2
            elif mode == 2:
                if end - p < 4:
                    return -1
                count = _load32(data, p)
                p += 4
            else:
                return -1
            if size == 0:
                if count > 16:
                    return -1
            elif not _fits(count, size, end - p):
                return -1
            if code == 6:
                p += count * size
            else:
                while count > 0:
                    p = _skip(data, p, end, ops, k + 1, ops[k, 6], registers)
                    if p < 0:
                        return -1
                    count -= 1
                k = ops[k, 6]
                continue
        k += 1
    return p


def bound(
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.uint][::1],
    size: cython.longlong,
    ends: cython.longlong[::1],
    found: cython.longlong[::1],
) -> None:
    """Where rows end. ``found``: rows that are not inside of ``size`` bytes, and the bytes of all others together."""
    r: cython.Py_ssize_t
    start: cython.longlong
    length: cython.longlong
    bad: cython.longlong = 0
    total: cython.longlong = 0
    with cython.nogil:
        for r in range(starts.shape[0]):
            start = starts[r]
            length = lengths[r]
            if 0 <= start <= size and length <= size - start:
                ends[r] = start + length
                total += length
            else:
                ends[r] = start
                bad += 1
    found[0] = bad
    found[1] = total


def walk(
    data: cython.const[cython.uchar][::1],
    origins: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    positions: cython.longlong[::1],
    ends: cython.const[cython.longlong][::1],
    ops: cython.const[cython.longlong][:, ::1],
    slots: cython.const[cython.longlong][::1],
    out8: cython.uchar[::1],
    out16: cython.ushort[::1],
    out32: cython.uint[::1],
    out64: cython.ulonglong[::1],
    counts: cython.longlong[:, ::1],
    registers: cython.longlong[::1],
    wide: cython.uchar[::1],
    present: cython.longlong[::1],
    state: cython.uchar[::1],
    values: cython.longlong,
    totals: cython.longlong[::1],
) -> None:
    """Run a program over rows ``starts[r]`` to ``ends[r]`` of ``data``; ``origins`` are the payloads' starts.

    ``slots`` are byte offsets into the output, which ``out8`` to ``out64`` all view. ``counts`` (registers x batch) and
    ``registers`` are scratch. Set per row: ``positions`` (where it stopped), ``present`` (values of the ``values`` that
    are there) and ``state`` (0 whole, 1 ended in front of a value, 2 broke in a value), both only when a value is missing
    anywhere; per slot ``wide`` (text not ASCII). ``totals``: the least of ``present``, rows that broke, rows that did not stop at their end.
    """
    n: cython.Py_ssize_t = positions.shape[0]
    steps: cython.Py_ssize_t = ops.shape[0]
    batch: cython.Py_ssize_t = counts.shape[1]
    base: cython.Py_ssize_t = 0
    top: cython.Py_ssize_t
    r: cython.Py_ssize_t
    k: cython.Py_ssize_t
    j: cython.Py_ssize_t
    o: cython.Py_ssize_t
    code: cython.longlong
    slot: cython.longlong
    size: cython.longlong
    keep: cython.longlong
    mode: cython.longlong
    param: cython.longlong
    ordinal: cython.longlong
    offset: cython.longlong
    p: cython.longlong
    end: cython.longlong
    count: cython.longlong
    left: cython.longlong
    found: cython.longlong
    start: cython.longlong
    value: cython.ulonglong
    fits: cython.bint
    _: cython.longlong
    any_wide: cython.longlong
    least: cython.longlong = values
    broken: cython.longlong = 0
    left_over: cython.longlong = 0
    failed: cython.bint = False
    ones: cython.ulonglong = 0x7FFFFFFF  # larger constants would be Python's
    ones = ones << 33 | ones << 2 | 3
    with cython.nogil:
        while base < n:
            top = base + batch if base + batch < n else n
            for r in range(base, top):
                p = starts[r]
                positions[r] = p
                if cython.compiled:
                    prefetch(cython.address(data[p]))
                    prefetch(cython.address(data[p + 64]))
            k = 0
            while k < steps:
                code = ops[k, 0]
                slot = ops[k, 1]
                size = ops[k, 2]
                keep = ops[k, 3]
                mode = ops[k, 4]
                param = ops[k, 5]
                ordinal = ops[k, 7]
                o = slots[slot] if slot >= 0 else 0
                if code == 8:
                    fits = True
                    for r in range(base, top):
                        fits = fits and ends[r] - positions[r] >= size
                    if not fits:
                        k += 1
                        continue
                    offset = 0
                    for j in range(k + 1, ops[k, 6]):
                        slot = ops[j, 1]
                        count = ops[j, 2]
                        keep = ops[j, 3]
                        if slot >= 0:
                            o = slots[slot]
                            if count == 4:
                                o = o >> 2
                                for r in range(base, top):
                                    out32[o + r] = _load32(data, positions[r] + offset)
                            elif count == 8:
                                o = o >> 3
                                for r in range(base, top):
                                    out64[o + r] = _load64(data, positions[r] + offset)
                            elif count == 2:
                                o = o >> 1
                                for r in range(base, top):
                                    out16[o + r] = _load16(data, positions[r] + offset)
                            elif count == 1:
                                for r in range(base, top):
                                    out8[o + r] = data[positions[r] + offset]
                            else:
                                o = o >> 3
                                for r in range(base, top):
                                    out64[o + 2 * r] = _load64(data, positions[r] + offset)
                                    out64[o + 2 * r + 1] = _load64(data, positions[r] + offset + 8)
                        if keep >= 0:
                            for r in range(base, top):
                                p = positions[r] + offset
                                if count == 1:
                                    counts[keep, r - base] = data[p]
                                elif count == 2:
                                    counts[keep, r - base] = _load16(data, p)
                                elif count == 4:
                                    counts[keep, r - base] = _load32(data, p)
                                else:
                                    counts[keep, r - base] = _count(_load64(data, p))
                        offset += count
                    for r in range(base, top):
                        positions[r] += size
                    k = ops[k, 6]
                    continue
                if code == 1:
                    for r in range(base, top):
                        p = positions[r]
                        if ends[r] - p >= size:
                            value = 0
                            if size == 4:
                                value = _load32(data, p)
                            elif size == 8:
                                value = _load64(data, p)
                            elif size == 2:
                                value = _load16(data, p)
                            elif size == 1:
                                value = data[p]
                            positions[r] = p + size
                        else:
                            value = 0
                            failed = _fail(present, state, failed, values, r, ordinal, p == ends[r])
                            positions[r] = ends[r]
                            p = -1
                        if slot >= 0:
                            if size == 4:
                                out32[(o >> 2) + r] = value
                            elif size == 8:
                                out64[(o >> 3) + r] = value
                            elif size == 2:
                                out16[(o >> 1) + r] = value
                            elif size == 1:
                                out8[o + r] = value
                            else:
                                out64[(o >> 3) + 2 * r] = _load64(data, p) if p >= 0 else 0
                                out64[(o >> 3) + 2 * r + 1] = _load64(data, p + 8) if p >= 0 else 0
                        if keep >= 0:
                            counts[keep, r - base] = _count(value)
                elif code == 2 or code == 3:
                    for r in range(base, top):
                        p = positions[r]
                        found = _varuint_size(data, p, ends[r])
                        value = 0
                        if found > 0:
                            value = _varuint(data, p, found)
                            positions[r] = p + found
                        else:
                            failed = _fail(present, state, failed, values, r, ordinal, p == ends[r])
                            positions[r] = ends[r]
                        if keep >= 0:
                            counts[keep, r - base] = _count(value)
                        if slot >= 0:
                            if code == 3:  # zigzag, kept as the bits of an i64
                                value = ((value >> 1) ^ (0 - (value & 1))) & ones
                            out64[(o >> 3) + r] = value
                elif code == 4:
                    o = o >> 3
                    any_wide = 0
                    for r in range(base, top):
                        p = positions[r]
                        found = _zero16(data, p, ends[r])
                        if found >= 0:
                            any_wide |= found & 1
                            found = found >> 1
                            positions[r] = p + found + 2
                        else:
                            found = 0
                            failed = _fail(present, state, failed, values, r, ordinal, p == ends[r])
                            positions[r] = ends[r]
                        if slot >= 0:
                            out64[o + r] = p
                            out64[o + n + r] = found
                    if slot >= 0 and any_wide:
                        wide[slot] = 1
                elif code == 5:
                    o = o >> 3
                    for r in range(base, top):
                        p = positions[r]
                        end = ends[r]
                        start = p
                        while p < end and data[p] != 0:
                            p += 1
                        if p < end:
                            found = p - start
                            positions[r] = p + 1
                        else:
                            found = 0
                            failed = _fail(present, state, failed, values, r, ordinal, start == end)
                            positions[r] = end
                        if slot >= 0:
                            out64[o + r] = start
                            out64[o + n + r] = found
                elif code == 9:
                    o = o >> 3
                    for r in range(base, top):
                        p = positions[r]
                        if p == ends[r]:
                            failed = _fail(present, state, failed, values, r, ordinal, True)
                        if slot >= 0:
                            out64[o + r] = p
                            out64[o + n + r] = ends[r] - p
                        positions[r] = ends[r]
                elif code == 6 and mode == 2 and size == 1 and slot >= 0:  # bytes: as below, in half the time
                    o = o >> 3
                    for r in range(base, top):
                        p = positions[r]
                        left = ends[r] - p - 4
                        count = _load32(data, p) if left >= 0 else 0
                        start = p + 4
                        if count > left:
                            failed = _fail(present, state, failed, values, r, ordinal, left == -4)
                            start = p
                            count = 0
                            positions[r] = ends[r]
                        else:
                            positions[r] = start + count
                        out64[o + r] = start
                        out64[o + n + r] = count
                else:  # 6 and 7: counted
                    o = o >> 3
                    for r in range(base, top):
                        p = positions[r]
                        end = ends[r]
                        left = end - p
                        start = -1
                        count = 0
                        if mode == 0:
                            count = param
                            start = p
                        elif mode == 3:
                            count = counts[param, r - base]
                            start = p
                        elif mode == 1:
                            if left >= 2:
                                count = _load16(data, p)
                                start = p + 2
                        elif left >= 4:
                            value = _load32(data, p)
                            if mode == 2:
                                count = value
                                start = p + 4
                            else:  # a location: bytes in the high half, offset in the low half
                                start = (value & 0xFFFF) + (p + 4 if mode == 4 else origins[r])
                                count = value >> 16
                                if size == 0 or count % size != 0 or start + count > end:
                                    start = -1
                                elif size > 0:
                                    count = count // size
                        found = -1
                        if start >= 0:
                            if size == 0:
                                if count <= 16:
                                    found = start
                            elif _fits(count, size, end - start):
                                found = start + count * size
                        if found >= 0 and code == 7:
                            found = start
                            for _ in range(count):
                                found = _skip(data, found, end, ops, k + 1, ops[k, 6], registers)
                                if found < 0:
                                    break
                        if found >= 0:
                            positions[r] = p + 4 if mode >= 4 else found
                        else:
                            failed = _fail(present, state, failed, values, r, ordinal, p == end)
                            start = p
                            count = 0
                            positions[r] = end
                        if slot >= 0:
                            out64[o + r] = start
                            out64[o + n + r] = count if code == 7 else count * size if size > 0 else count
                    if code == 7:
                        k = ops[k, 6]
                        continue
                k += 1
            for r in range(base, top):
                left_over += positions[r] != ends[r]
            base = top
        if failed:
            for r in range(n):
                if present[r] < least:
                    least = present[r]
                broken += state[r] == 2
    totals[0] = least
    totals[1] = broken
    totals[2] = left_over


def elements(
    data: cython.const[cython.uchar][::1],
    firsts: cython.const[cython.longlong][::1],
    numbers: cython.const[cython.longlong][::1],
    ends: cython.const[cython.longlong][::1],
    ops: cython.const[cython.longlong][:, ::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    registers: cython.longlong[::1],
    out: cython.longlong[::1],
) -> None:
    """Where each element of each list begins. The lists have been passed by :func:`walk`."""
    r: cython.Py_ssize_t
    k: cython.Py_ssize_t = 0
    p: cython.longlong
    _: cython.longlong
    with cython.nogil:
        for r in range(firsts.shape[0]):
            p = firsts[r]
            for _ in range(numbers[r]):
                out[k] = p
                k += 1
                p = _skip(data, p, ends[r], ops, first, last, registers)


def same(ids: cython.const[cython.uint][::1]) -> cython.bint:
    """Whether all are equal."""
    r: cython.Py_ssize_t
    differ: cython.uint = 0
    with cython.nogil:
        for r in range(1, ids.shape[0]):
            differ |= ids[r] ^ ids[0]
    return differ == 0


def bucket(
    ids: cython.const[cython.uint][::1],
    offsets: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.uint][::1],
    counts: cython.longlong[::1],
    out_offsets: cython.longlong[::1],
    out_lengths: cython.uint[::1],
) -> cython.bint:
    """Rows sorted by id, otherwise in their order. ``counts``, zeros at first, becomes where each id's rows end.

    False, and nothing of worth, when an id has no place in ``counts``.
    """
    r: cython.Py_ssize_t
    k: cython.Py_ssize_t
    at: cython.longlong = 0
    count: cython.longlong
    n: cython.Py_ssize_t = counts.shape[0]
    fits: cython.bint = True
    with cython.nogil:
        for r in range(ids.shape[0]):
            if ids[r] >= n:
                fits = False
                break
            counts[ids[r]] += 1
        if fits:
            for k in range(n):
                count = counts[k]
                counts[k] = at
                at += count
            for r in range(ids.shape[0]):
                at = counts[ids[r]]
                counts[ids[r]] = at + 1
                out_offsets[at] = offsets[r]
                out_lengths[at] = lengths[r]
    return fits


def add_up(
    lengths: cython.const[cython.longlong][::1], divisor: cython.longlong, offsets: cython.longlong[::1]
) -> None:
    """Where things of these lengths, divided by ``divisor`` (1 or 2), stand one behind another."""
    r: cython.Py_ssize_t
    at: cython.longlong = 0
    by: cython.int = 1 if divisor == 2 else 0
    with cython.nogil:
        for r in range(lengths.shape[0]):
            offsets[r] = at
            at += lengths[r] >> by
        offsets[lengths.shape[0]] = at


def copy(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    offsets: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> None:
    """Copy spans one behind another: row ``r`` takes ``offsets[r]`` to ``offsets[r + 1]`` of ``out``."""
    r: cython.Py_ssize_t
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    source: cython.Py_ssize_t
    size: cython.Py_ssize_t
    with cython.nogil:
        for r in range(starts.shape[0]):
            at = offsets[r]
            size = offsets[r + 1] - at
            source = starts[r]
            if cython.compiled:
                if size > 0:
                    memcpy(cython.address(out[at]), cython.address(data[source]), size)
            else:
                for i in range(size):
                    out[at + i] = data[source + i]


def narrow(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    offsets: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> None:
    """The low bytes of UTF-16 spans that are known to be ASCII."""
    r: cython.Py_ssize_t
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    source: cython.Py_ssize_t
    size: cython.Py_ssize_t
    units: cython.ulonglong
    four: cython.uint
    pairs: cython.ulonglong = 0xFFFF
    pairs = pairs << 32 | pairs
    with cython.nogil:
        for r in range(starts.shape[0]):
            at = offsets[r]
            size = offsets[r + 1] - at
            source = starts[r]
            i = 0
            if cython.compiled:
                while i + 4 <= size:
                    units = _load64(data, source + 2 * i)
                    units = (units | units >> 8) & pairs
                    four = cython.cast(cython.uint, units | units >> 16)
                    memcpy(cython.address(out[at + i]), cython.address(four), 4)
                    i += 4
            while i < size:
                out[at + i] = data[source + 2 * i]
                i += 1


def utf8_sizes(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.longlong][::1],
    sizes: cython.longlong[::1],
) -> None:
    """Bytes that each UTF-16 span takes in UTF-8; a lone surrogate takes three."""
    r: cython.Py_ssize_t
    p: cython.longlong
    end: cython.longlong
    total: cython.longlong
    unit: cython.ulonglong
    with cython.nogil:
        for r in range(starts.shape[0]):
            p = starts[r]
            end = p + lengths[r] // 2 * 2
            total = 0
            while p < end:
                unit = _load16(data, p)
                p += 2
                if unit < 0x80:
                    total += 1
                elif unit < 0x800:
                    total += 2
                elif 0xD800 <= unit < 0xDC00 and p < end and (_load16(data, p) & 0xFC00) == 0xDC00:
                    total += 4
                    p += 2
                else:
                    total += 3
            sizes[r] = total


def utf8_write(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.longlong][::1],
    offsets: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> None:
    """UTF-16 spans as UTF-8, one behind another."""
    r: cython.Py_ssize_t
    p: cython.longlong
    end: cython.longlong
    at: cython.longlong
    unit: cython.ulonglong
    with cython.nogil:
        for r in range(starts.shape[0]):
            p = starts[r]
            end = p + lengths[r] // 2 * 2
            at = offsets[r]
            while p < end:
                unit = _load16(data, p)
                p += 2
                if unit < 0x80:
                    out[at] = unit
                    at += 1
                elif unit < 0x800:
                    out[at] = 0xC0 | unit >> 6
                    out[at + 1] = 0x80 | (unit & 0x3F)
                    at += 2
                elif 0xD800 <= unit < 0xDC00 and p < end and (_load16(data, p) & 0xFC00) == 0xDC00:
                    unit = 0x10000 + ((unit & 0x3FF) << 10) + (_load16(data, p) & 0x3FF)
                    p += 2
                    out[at] = 0xF0 | unit >> 18
                    out[at + 1] = 0x80 | (unit >> 12 & 0x3F)
                    out[at + 2] = 0x80 | (unit >> 6 & 0x3F)
                    out[at + 3] = 0x80 | (unit & 0x3F)
                    at += 4
                else:
                    out[at] = 0xE0 | unit >> 12
                    out[at + 1] = 0x80 | (unit >> 6 & 0x3F)
                    out[at + 2] = 0x80 | (unit & 0x3F)
                    at += 3
