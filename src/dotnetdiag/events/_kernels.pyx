# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops over every payload, without the GIL. Called through ``kernels.py``; ``fallback.py`` does the same by numpy.
Those that write JSON are called through ``json_texts.py``.

Rule 1: a row is checked before it is read; a row that fails stops, and the others go on.
Rule 2: nothing is allocated here, and nothing is written outside of the arrays handed in: a program is checked before it
runs, and whatever the payloads say by then, each loop stops at the end of its array. (Digits of floats are Python's, which allocates.)
Rule 3: numbers are loaded as the machine has them, so ``kernels.py`` takes these loops on little ends only.

A program is an array of operations (``operations.py``). It runs operation by operation over batches of rows, so that what
one touches stays in the cache for the next.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, strlen

from dotnetdiag.wire.prefetch cimport prefetch

# the numbers of operations.py and layout.Count; a test holds them against each other

cdef enum Code:
    SCALAR = 1
    VARUINT = 2
    VARINT = 3
    Z16 = 4
    Z8 = 5
    SPAN = 6
    LIST = 7
    BLOCK = 8
    REMAINDER = 9

cdef enum CountAt:
    FIXED = 0
    U16 = 1
    U32 = 2
    FIELD = 3
    REL = 4
    DATA = 5

cdef enum State:
    WHOLE = 0
    ENDED = 1
    BROKEN = 2

cdef enum:
    LARGEST_COUNT = 0x7FFFFFFF
    EMPTY_ELEMENTS = 16
    LONGEST_NUMBER = 25  # -2.2250738585072014e-308 has 24
    COPIED_AT_ONCE = 32

NUMBERS = {
    "Op": [SCALAR, VARUINT, VARINT, Z16, Z8, SPAN, LIST, BLOCK, REMAINDER],
    "Count": [FIXED, U16, U32, FIELD, REL, DATA],
    "State": [WHOLE, ENDED, BROKEN],
    "LARGEST_COUNT": LARGEST_COUNT,
    "EMPTY_ELEMENTS": EMPTY_ELEMENTS,
    "LONGEST_NUMBER": LONGEST_NUMBER,
}

ctypedef const uint8_t* Bytes

cdef packed struct Operation:
    int64_t code
    int64_t slot
    int64_t size
    int64_t keep
    int64_t count_at
    int64_t param
    int64_t behind
    int64_t ordinal

cdef struct Rows:
    Bytes data
    const int64_t* origins
    const int64_t* ends
    int64_t* positions
    int64_t* present
    uint8_t* state
    int64_t n
    int64_t values
    bint failed
    uint8_t* out
    const int64_t* slots
    uint8_t* wide
    int64_t* counts
    int64_t batch


# numbers and texts ------------------------------------------------------------------------------------------------------

cdef inline uint64_t load16(Bytes p) noexcept nogil:
    cdef uint16_t value  # a copy of so few bytes becomes one load
    memcpy(&value, p, 2)
    return value


cdef inline uint64_t load32(Bytes p) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, p, 4)
    return value


cdef inline uint64_t load64(Bytes p) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, p, 8)
    return value


cdef inline uint64_t load(Bytes p, int64_t size) noexcept nogil:
    """A number of 1, 2, 4 or 8 bytes."""
    if size == 4:
        return load32(p)
    if size == 8:
        return load64(p)
    if size == 2:
        return load16(p)
    return p[0]


cdef inline int64_t as_count(uint64_t value) noexcept nogil:
    """A count that any check refuses when it is too large for one."""
    return LARGEST_COUNT if value > LARGEST_COUNT else <int64_t> value


cdef inline bint fits(int64_t count, int64_t size, int64_t room) noexcept nogil:
    """Whether so many things of a size, 1 or more, have room. (A division takes as long as all else in a row.)"""
    if size <= LARGEST_COUNT and count <= LARGEST_COUNT:
        return count * size <= room
    return count <= room // size


cdef inline int64_t find_zero16(Bytes data, int64_t p, int64_t end) noexcept nogil:
    """Twice the bytes from ``p`` to the next zero unit, plus 1 when a unit above 0x7F was passed; or -1."""
    cdef uint64_t low = 0x0001000100010001u, high = 0x8000800080008000u, beyond = 0xFF80FF80FF80FF80u
    cdef uint64_t x, seen = 0
    cdef int64_t start = p
    while end - p >= 8:
        x = load64(data + p)
        if (x - low) & ~x & high:
            break
        seen |= x
        p += 8
    while end - p >= 2:
        x = load16(data + p)
        if x == 0:
            return (p - start) << 1 | (1 if seen & beyond else 0)
        seen |= x
        p += 2
    return -1


cdef inline int64_t find_zero8(Bytes data, int64_t p, int64_t end) noexcept nogil:
    """Bytes from ``p`` to the next zero byte, or -1."""
    cdef int64_t at = p
    while at < end and data[at] != 0:
        at += 1
    return at - p if at < end else -1


cdef inline int64_t read_varuint(Bytes data, int64_t p, int64_t end, uint64_t* value) noexcept nogil:
    """Bytes of the varuint at ``p``, or 0 when it does not end or does not fit 64 bits."""
    cdef int64_t n = 0
    cdef uint64_t byte
    value[0] = 0
    while n < 10 and p + n < end:
        byte = data[p + n]
        value[0] |= (byte & 0x7F) << (7 * n)
        n += 1
        if byte < 0x80:
            if n == 10 and byte > 1:
                break
            return n
    value[0] = 0
    return 0


# one row of anything ----------------------------------------------------------------------------------------------------

cdef struct Counted:
    int64_t start
    int64_t count


cdef inline Counted read_count(
    Bytes data, int64_t p, int64_t end, int64_t origin, const Operation* op, int64_t kept
) noexcept nogil:
    """Where the elements of a span or list begin, and how many there are; ``start`` -1 when they do not fit."""
    cdef Counted found
    cdef uint64_t value
    cdef int64_t left = end - p
    found.start = -1
    found.count = 0
    if op.count_at == FIXED:
        found.start, found.count = p, op.param
    elif op.count_at == FIELD:
        found.start, found.count = p, kept
    elif op.count_at == U16:
        if left >= 2:
            found.start, found.count = p + 2, <int64_t> load16(data + p)
    elif left >= 4:
        value = load32(data + p)
        if op.count_at == U32:
            found.start, found.count = p + 4, <int64_t> value
        else:  # a location: bytes in the high half, offset in the low half
            found.start = <int64_t> (value & 0xFFFF) + (p + 4 if op.count_at == REL else origin)
            found.count = <int64_t> (value >> 16)
            if op.size == 0 or found.count % op.size != 0 or found.start + found.count > end:
                found.start = -1
            else:
                found.count = found.count // op.size
    if found.start >= 0:
        if found.count > EMPTY_ELEMENTS if op.size == 0 else not fits(found.count, op.size, end - found.start):
            found.start = -1
    return found


cdef int64_t skip(
    Bytes data, int64_t p, int64_t end, const Operation* ops, int64_t first, int64_t last, int64_t* registers
) noexcept nogil:
    """Position behind one element, of operations ``first`` to ``last`` (exclusive); -1 when it does not fit."""
    cdef int64_t k = first, code, size, found
    cdef uint64_t value
    cdef Counted counted
    while k < last:
        code, size = ops[k].code, ops[k].size
        if code == SCALAR:
            if end - p < size:
                return -1
            if ops[k].keep >= 0:
                registers[ops[k].keep] = as_count(load(data + p, size))
            p += size
        elif code == VARUINT or code == VARINT:
            found = read_varuint(data, p, end, &value)
            if found == 0:
                return -1
            if ops[k].keep >= 0:
                registers[ops[k].keep] = as_count(value)
            p += found
        elif code == Z16:
            found = find_zero16(data, p, end)
            if found < 0:
                return -1
            p += (found >> 1) + 2
        elif code == Z8:
            found = find_zero8(data, p, end)
            if found < 0:
                return -1
            p += found + 1
        elif code == REMAINDER:
            p = end
        elif code == SPAN or code == LIST:
            if ops[k].count_at >= REL:
                return -1
            counted = read_count(data, p, end, 0, &ops[k], registers[ops[k].param] if ops[k].count_at == FIELD else 0)
            p = counted.start
            if p < 0:
                return -1
            if code == SPAN:
                p += counted.count * size
            else:
                while counted.count > 0:
                    p = skip(data, p, end, ops, k + 1, ops[k].behind, registers)
                    if p < 0:
                        return -1
                    counted.count -= 1
                k = ops[k].behind
                continue
        k += 1
    return p


# all rows of a batch, one operation after another -----------------------------------------------------------------------

cdef void stop(Rows* rows, int64_t r, int64_t ordinal, bint ended) noexcept nogil:
    """Row ``r`` has no value ``ordinal``; the first such row finds ``present`` and ``state`` unwritten."""
    cdef int64_t i
    if not rows.failed:
        rows.failed = True
        for i in range(rows.n):
            rows.present[i] = rows.values
            rows.state[i] = WHOLE
    if rows.state[r] == WHOLE:
        rows.present[r] = ordinal
        rows.state[r] = ENDED if ended else BROKEN
    rows.positions[r] = rows.ends[r]


cdef void block_of_scalars(Rows* rows, const Operation* ops, int64_t first, int64_t last, int64_t base, int64_t top) noexcept nogil:
    """Scalars that stand together, column by column; they fit all rows."""
    cdef Bytes data = rows.data
    cdef int64_t* positions = rows.positions
    cdef int64_t* counts
    cdef uint8_t* out
    cdef int64_t j, r, size, p, offset = 0
    for j in range(first, last):
        size = ops[j].size
        if ops[j].slot >= 0:
            out = rows.out + rows.slots[ops[j].slot]
            if size == 4:
                for r in range(base, top):
                    (<uint32_t*> out)[r] = <uint32_t> load32(data + positions[r] + offset)
            elif size == 8:
                for r in range(base, top):
                    (<uint64_t*> out)[r] = load64(data + positions[r] + offset)
            elif size == 2:
                for r in range(base, top):
                    (<uint16_t*> out)[r] = <uint16_t> load16(data + positions[r] + offset)
            elif size == 1:
                for r in range(base, top):
                    out[r] = data[positions[r] + offset]
            else:
                for r in range(base, top):
                    memcpy(out + 16 * r, data + positions[r] + offset, 16)
        if ops[j].keep >= 0:
            counts = rows.counts + ops[j].keep * rows.batch
            for r in range(base, top):
                counts[r - base] = as_count(load(data + positions[r] + offset, size))
        offset += size
    for r in range(base, top):
        positions[r] += offset


cdef void scalars(Rows* rows, const Operation* op, int64_t base, int64_t top) noexcept nogil:
    cdef int64_t r, p, size = op.size
    cdef uint64_t value
    cdef uint8_t* out = rows.out + rows.slots[op.slot] if op.slot >= 0 else NULL
    for r in range(base, top):
        p = rows.positions[r]
        value = 0
        if rows.ends[r] - p >= size:
            if size == 16 and out != NULL:
                memcpy(out + 16 * r, rows.data + p, 16)
            elif out != NULL or op.keep >= 0:
                value = load(rows.data + p, size)
            rows.positions[r] = p + size
        else:
            stop(rows, r, op.ordinal, p == rows.ends[r])
            if size == 16 and out != NULL:
                (<uint64_t*> out)[2 * r] = (<uint64_t*> out)[2 * r + 1] = 0
        if out != NULL:
            if size == 4:
                (<uint32_t*> out)[r] = <uint32_t> value
            elif size == 8:
                (<uint64_t*> out)[r] = value
            elif size == 2:
                (<uint16_t*> out)[r] = <uint16_t> value
            elif size == 1:
                out[r] = <uint8_t> value
        if op.keep >= 0:
            rows.counts[op.keep * rows.batch + r - base] = as_count(value)


cdef void varuints(Rows* rows, const Operation* op, int64_t base, int64_t top) noexcept nogil:
    cdef int64_t r, found
    cdef uint64_t value
    cdef uint64_t* out = <uint64_t*> (rows.out + rows.slots[op.slot]) if op.slot >= 0 else NULL
    for r in range(base, top):
        found = read_varuint(rows.data, rows.positions[r], rows.ends[r], &value)
        if found > 0:
            rows.positions[r] += found
        else:
            stop(rows, r, op.ordinal, rows.positions[r] == rows.ends[r])
        if op.keep >= 0:
            rows.counts[op.keep * rows.batch + r - base] = as_count(value)
        if out != NULL:
            # zigzag, kept as the bits of an i64
            out[r] = (value >> 1) ^ (0 - (value & 1)) if op.code == VARINT else value


cdef void texts(Rows* rows, const Operation* op, int64_t base, int64_t top) noexcept nogil:
    """Texts that end in a zero, of 16 or 8 bits: where they begin, and their bytes."""
    cdef int64_t r, p, found, unit = 2 if op.code == Z16 else 1, any_wide = 0
    cdef int64_t* out = <int64_t*> (rows.out + rows.slots[op.slot]) if op.slot >= 0 else NULL
    for r in range(base, top):
        p = rows.positions[r]
        if unit == 2:
            found = find_zero16(rows.data, p, rows.ends[r])
            if found >= 0:
                any_wide |= found & 1
                found >>= 1
        else:
            found = find_zero8(rows.data, p, rows.ends[r])
        if found >= 0:
            rows.positions[r] = p + found + unit
        else:
            found = 0
            stop(rows, r, op.ordinal, p == rows.ends[r])
        if out != NULL:
            out[r] = p
            out[rows.n + r] = found
    if out != NULL and any_wide:
        rows.wide[op.slot] = 1


cdef void remainders(Rows* rows, const Operation* op, int64_t base, int64_t top) noexcept nogil:
    """All that is left of each row."""
    cdef int64_t r, p
    cdef int64_t* out = <int64_t*> (rows.out + rows.slots[op.slot]) if op.slot >= 0 else NULL
    for r in range(base, top):
        p = rows.positions[r]
        if p == rows.ends[r]:
            stop(rows, r, op.ordinal, True)
        if out != NULL:
            out[r] = p
            out[rows.n + r] = rows.ends[r] - p
        rows.positions[r] = rows.ends[r]


cdef void bytes_behind_u32(Rows* rows, const Operation* op, int64_t base, int64_t top) noexcept nogil:
    """As :func:`counted`, of bytes counted by a u32, in half the time."""
    cdef int64_t r, p, left, start, count
    cdef int64_t* out = <int64_t*> (rows.out + rows.slots[op.slot])
    for r in range(base, top):
        p = rows.positions[r]
        left = rows.ends[r] - p - 4
        count = <int64_t> load32(rows.data + p) if left >= 0 else 0
        start = p + 4
        if count > left:
            stop(rows, r, op.ordinal, left == -4)
            start, count = p, 0
        else:
            rows.positions[r] = start + count
        out[r] = start
        out[rows.n + r] = count


cdef void counted(Rows* rows, const Operation* ops, int64_t k, int64_t* registers, int64_t base, int64_t top) noexcept nogil:
    """Spans (first byte, bytes) and lists (first byte, elements)."""
    cdef const Operation* op = &ops[k]
    cdef int64_t r, p, end, position, kept = 0, size = op.size, n
    cdef int64_t* out = <int64_t*> (rows.out + rows.slots[op.slot]) if op.slot >= 0 else NULL
    cdef Counted found
    for r in range(base, top):
        p, end = rows.positions[r], rows.ends[r]
        if op.count_at == FIELD:
            kept = rows.counts[op.param * rows.batch + r - base]
        found = read_count(rows.data, p, end, rows.origins[r], op, kept)
        position = found.start
        if position >= 0:
            if op.code == SPAN:
                position += found.count * size
            else:
                n = found.count
                while n > 0 and position >= 0:
                    position = skip(rows.data, position, end, ops, k + 1, op.behind, registers)
                    n -= 1
        if position >= 0:
            rows.positions[r] = p + 4 if op.count_at >= REL else position
        else:
            found.start, found.count = p, 0
            stop(rows, r, op.ordinal, p == end)
        if out != NULL:
            out[r] = found.start
            out[rows.n + r] = found.count * size if op.code == SPAN and size > 0 else found.count


cdef int64_t width(const Operation* op) noexcept nogil:
    """Bytes of output per row."""
    if op.code == SCALAR:
        return op.size
    return 8 if op.code == VARUINT or op.code == VARINT else 16


cdef bint is_sound(
    const Operation* ops, int64_t steps, const int64_t* slots, int64_t slot_count, int64_t rows, int64_t out_bytes, int64_t registers
) noexcept nogil:
    """Whether a program keeps to its slots and registers, and only goes on."""
    cdef int64_t k, j, at, size
    for k in range(steps):
        size = ops[k].size
        if not (SCALAR <= ops[k].code <= REMAINDER) or size < 0 or ops[k].keep >= registers or ops[k].slot >= slot_count:
            return False
        if ops[k].code == LIST or ops[k].code == BLOCK:
            if not k < ops[k].behind <= steps:
                return False
        if ops[k].code == BLOCK:
            for j in range(k + 1, ops[k].behind):
                if ops[j].code != SCALAR:
                    return False
                size -= ops[j].size
            if size:
                return False
        if ops[k].count_at == FIELD and not 0 <= ops[k].param < registers:
            return False
        if ops[k].code == SCALAR and ops[k].keep >= 0 and size not in (1, 2, 4, 8):
            return False
        if ops[k].slot >= 0:
            if ops[k].code == SCALAR and size not in (1, 2, 4, 8, 16):
                return False
            at = slots[ops[k].slot]
            if at < 0 or at % 8 or ops[k].code == BLOCK or rows > (out_bytes - at) // width(&ops[k]):
                return False
    return True


def walk(
    const uint8_t[::1] data,
    const int64_t[::1] origins,
    const int64_t[::1] starts,
    int64_t[::1] positions,
    const int64_t[::1] ends,
    const Operation[::1] ops,
    const int64_t[::1] slots,
    uint64_t[::1] out,
    int64_t[:, ::1] counts,
    int64_t[::1] registers,
    uint8_t[::1] wide,
    int64_t[::1] present,
    uint8_t[::1] state,
    int64_t values,
):
    """Run a program over rows ``starts[r]`` to ``ends[r]`` of ``data``; ``origins`` are the payloads' starts.

    ``slots`` are offsets in bytes into the output, ``out``. ``counts`` (registers x batch) and ``registers`` are scratch.
    Set per row: ``positions`` (where it stopped), ``present`` (values of the ``values`` that are there) and ``state``,
    both only when a value is missing anywhere; per slot ``wide`` (text not ASCII). Returns the least of ``present``, the
    number of damaged rows, and of those that did not stop at their end.
    """
    cdef int64_t n = positions.shape[0], steps = ops.shape[0], batch = counts.shape[1]
    cdef int64_t least = values, broken = 0, left_over = 0, base = 0, top, r, k
    cdef bint all_fit
    cdef Rows rows
    cdef const Operation* program = &ops[0] if steps else NULL
    if not (n == origins.shape[0] == starts.shape[0] == ends.shape[0] == present.shape[0] == state.shape[0]):
        raise ValueError("arrays of rows that differ in length")
    if batch < 1 or counts.shape[0] != registers.shape[0] or wide.shape[0] != slots.shape[0]:
        raise ValueError("scratch that does not fit")
    if not is_sound(program, steps, &slots[0], slots.shape[0], n, 8 * out.shape[0], registers.shape[0]):
        raise ValueError("a program that leaves its arrays")
    rows.data, rows.origins, rows.ends, rows.positions = &data[0], &origins[0], &ends[0], &positions[0]
    rows.present, rows.state, rows.n, rows.values, rows.failed = &present[0], &state[0], n, values, False
    rows.out, rows.slots, rows.wide, rows.counts, rows.batch = <uint8_t*> &out[0], &slots[0], &wide[0], &counts[0, 0], batch
    with nogil:
        while base < n:
            top = base + batch if base + batch < n else n
            for r in range(base, top):
                positions[r] = starts[r]
                prefetch(&data[starts[r]])
                prefetch(&data[starts[r] + 64])
            k = 0
            while k < steps:
                if program[k].code == BLOCK:
                    all_fit = True
                    for r in range(base, top):
                        all_fit = all_fit and ends[r] - positions[r] >= program[k].size
                    if all_fit:
                        block_of_scalars(&rows, program, k + 1, program[k].behind, base, top)
                        k = program[k].behind
                        continue
                elif program[k].code == SCALAR:
                    scalars(&rows, &program[k], base, top)
                elif program[k].code == VARUINT or program[k].code == VARINT:
                    varuints(&rows, &program[k], base, top)
                elif program[k].code == Z16 or program[k].code == Z8:
                    texts(&rows, &program[k], base, top)
                elif program[k].code == REMAINDER:
                    remainders(&rows, &program[k], base, top)
                elif (
                    program[k].code == SPAN and program[k].count_at == U32 and program[k].size == 1 and program[k].slot >= 0
                ):
                    bytes_behind_u32(&rows, &program[k], base, top)
                else:
                    counted(&rows, program, k, &registers[0], base, top)
                    if program[k].code == LIST:
                        k = program[k].behind
                        continue
                k += 1
            for r in range(base, top):
                left_over += positions[r] != ends[r]
            base = top
        if rows.failed:
            for r in range(n):
                if present[r] < least:
                    least = present[r]
                broken += state[r] == BROKEN
    return least, broken, left_over


def elements(
    const uint8_t[::1] data,
    const int64_t[::1] firsts,
    const int64_t[::1] numbers,
    const int64_t[::1] ends,
    const Operation[::1] ops,
    int64_t first,
    int64_t last,
    int64_t[::1] registers,
    int64_t[::1] out,
):
    """Where each element of each list begins; the lists have been passed by :func:`walk`."""
    cdef int64_t r, n, p, k = 0, room = out.shape[0]
    if not 0 <= first <= last <= ops.shape[0]:
        raise ValueError("operations that are not there")
    with nogil:
        for r in range(firsts.shape[0]):
            p = firsts[r]
            for n in range(numbers[r]):
                if k >= room:
                    break
                out[k] = p
                k += 1
                p = skip(&data[0], p, ends[r], &ops[0], first, last, &registers[0])
                if p < 0:  # the bytes have changed since
                    p = ends[r]


# columns ----------------------------------------------------------------------------------------------------------------

def bound(const int64_t[::1] starts, const uint32_t[::1] lengths, int64_t size, int64_t[::1] ends):
    """Fills in where rows end. Returns the rows that are not inside of ``size`` bytes, and the bytes of all others."""
    cdef int64_t r, start, length, bad = 0, total = 0
    if not starts.shape[0] == lengths.shape[0] == ends.shape[0]:
        raise ValueError("arrays that differ in length")
    with nogil:
        for r in range(starts.shape[0]):
            start, length = starts[r], lengths[r]
            if 0 <= start <= size and length <= size - start:
                ends[r] = start + length
                total += length
            else:
                ends[r] = start
                bad += 1
    return bad, total


def same(const uint32_t[::1] ids):
    """Whether all are equal."""
    cdef int64_t r
    cdef uint32_t differ = 0
    with nogil:
        for r in range(1, ids.shape[0]):
            differ |= ids[r] ^ ids[0]
    return differ == 0


cdef inline bint is_inside(int64_t start, int64_t size, int64_t room) noexcept nogil:
    return 0 <= start <= room and 0 <= size <= room - start


cdef bint count_rows(const uint32_t[::1] ids, int64_t[::1] counts) noexcept nogil:
    """``counts``, zeros at first, becomes where each id's rows begin. False when an id has no place there."""
    cdef int64_t r, k, at = 0, count, n = counts.shape[0]
    cdef uint32_t number
    for r in range(ids.shape[0]):
        number = ids[r]
        if number >= n:
            return False
        counts[number] += 1
    for k in range(n):
        count = counts[k]
        counts[k] = at
        at += count
    return True


cdef inline int64_t next_place(uint32_t number, int64_t[::1] counts, int64_t rows) noexcept nogil:
    """Where the next row of an id goes; -1 when the ids have changed since they were counted."""
    cdef int64_t at = counts[number] if number < counts.shape[0] else rows
    if at >= rows:
        return -1
    counts[number] = at + 1
    return at


def bucket(
    const uint32_t[::1] ids,
    const int64_t[::1] offsets,
    const uint32_t[::1] lengths,
    int64_t[::1] counts,
    int64_t[::1] out_offsets,
    uint32_t[::1] out_lengths,
):
    """Rows sorted by id, otherwise in their order. ``counts``, zeros at first, becomes where each id's rows end.

    False, and nothing of worth, when an id has no place in ``counts``, or the ids change meanwhile.
    """
    cdef int64_t r, at, rows = ids.shape[0]
    cdef bint sound = rows == offsets.shape[0] == lengths.shape[0] == out_offsets.shape[0] == out_lengths.shape[0]
    with nogil:
        sound = sound and count_rows(ids, counts)
        for r in range(rows if sound else 0):
            at = next_place(ids[r], counts, rows)
            if at < 0:
                sound = False
                break
            out_offsets[at] = offsets[r]
            out_lengths[at] = lengths[r]
    return sound


def group(const uint32_t[::1] ids, int64_t[::1] counts, int64_t[::1] rows):
    """The rows of each id, ascending, one id behind another. ``counts`` and what is returned are as those of :func:`bucket`."""
    cdef int64_t r, at, number_of_rows = ids.shape[0]
    cdef bint sound = number_of_rows == rows.shape[0]
    with nogil:
        sound = sound and count_rows(ids, counts)
        for r in range(number_of_rows if sound else 0):
            at = next_place(ids[r], counts, number_of_rows)
            if at < 0:
                sound = False
                break
            rows[at] = r
    return sound


def select(const uint32_t[::1] ids not None, const uint8_t[::1] wanted not None, int64_t[::1] rows not None):
    """Write the rows whose id is wanted, and give how many these are."""
    cdef int64_t n, count = 0, top = wanted.shape[0]
    if ids.shape[0] != rows.shape[0]:
        raise ValueError(f"no room: {rows.shape[0]} for {ids.shape[0]} rows")
    with nogil:
        for n in range(ids.shape[0]):
            rows[count] = n  # there is room: no more are taken than were looked at
            count += ids[n] < top and wanted[ids[n]] != 0
    return count


def which_front(
    const uint8_t[::1] data, const int64_t[::1] offsets, const int64_t[::1] lengths,
    const uint8_t[::1] fronts, const int64_t[:, ::1] of_fronts, uint8_t[::1] out
):
    """The first of some fronts with which each span begins; as many as there are where none does. ``of_fronts``: where each ends in ``fronts``, and
    how long a span of it is, -1 for any.
    """
    cdef int64_t r, f, begin, size, count = of_fronts.shape[1]
    if not offsets.shape[0] == lengths.shape[0] == out.shape[0] or of_fronts.shape[0] != 2 or count > 255:
        raise ValueError("arrays that differ in length")
    begin = 0
    for f in range(count):
        if not begin < of_fronts[0, f] <= fronts.shape[0]:
            raise ValueError("fronts that end elsewhere")
        begin = of_fronts[0, f]
    with nogil:
        for r in range(offsets.shape[0]):
            out[r] = count
            begin = 0
            for f in range(count):
                size = of_fronts[0, f] - begin
                if (
                    (lengths[r] == of_fronts[1, f] or of_fronts[1, f] < 0)
                    and lengths[r] >= size
                    and is_inside(offsets[r], size, data.shape[0])
                    and memcmp(&data[offsets[r]], &fronts[begin], size) == 0
                ):
                    out[r] = f
                    break
                begin = of_fronts[0, f]


def add_up(const int64_t[::1] lengths, int shift, int64_t[::1] offsets):
    """Where things of these lengths, halved ``shift`` times, stand one behind another."""
    cdef int64_t r, at = 0
    if offsets.shape[0] != lengths.shape[0] + 1:
        raise ValueError("arrays that differ in length")
    with nogil:
        for r in range(lengths.shape[0]):
            offsets[r] = at
            at += lengths[r] >> shift
        offsets[lengths.shape[0]] = at


def copy(const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] offsets, uint8_t[::1] out):
    """Copy spans one behind another: row ``r`` takes ``offsets[r]`` to ``offsets[r + 1]`` of ``out``."""
    cdef int64_t r, at, size
    if offsets.shape[0] != starts.shape[0] + 1:
        raise ValueError("arrays that differ in length")
    with nogil:
        for r in range(starts.shape[0]):
            at = offsets[r]
            size = offsets[r + 1] - at
            if size > 0 and is_inside(at, size, out.shape[0]) and is_inside(starts[r], size, data.shape[0]):
                memcpy(&out[at], &data[starts[r]], size)


def narrow(const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] offsets, uint8_t[::1] out):
    """The low bytes of UTF-16 spans that are known to be ASCII."""
    cdef int64_t r, at, size, i
    cdef uint64_t units, pairs = 0x0000FFFF0000FFFFu
    cdef uint32_t four
    cdef Bytes source
    if offsets.shape[0] != starts.shape[0] + 1:
        raise ValueError("arrays that differ in length")
    with nogil:
        for r in range(starts.shape[0]):
            at = offsets[r]
            size = offsets[r + 1] - at
            if not (is_inside(at, size, out.shape[0]) and is_inside(starts[r], 2 * size, data.shape[0])):
                continue
            source = &data[starts[r]]
            i = 0
            while i + 4 <= size:
                units = load64(source + 2 * i)
                units = (units | units >> 8) & pairs
                four = <uint32_t> (units | units >> 16)
                memcpy(&out[at + i], &four, 4)
                i += 4
            while i < size:
                out[at + i] = source[2 * i]
                i += 1


cdef inline bint is_pair(uint64_t unit, Bytes data, int64_t p, int64_t end) noexcept nogil:
    """Whether a unit and the one at ``p`` are a high and a low surrogate."""
    return 0xD800 <= unit < 0xDC00 and p < end and (load16(data + p) & 0xFC00) == 0xDC00


def utf8_sizes(const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] lengths, int64_t[::1] sizes):
    """Bytes that each UTF-16 span takes in UTF-8; a lone surrogate takes three."""
    cdef int64_t r, p, end, total
    cdef uint64_t unit
    if not starts.shape[0] == lengths.shape[0] == sizes.shape[0]:
        raise ValueError("arrays that differ in length")
    with nogil:
        for r in range(starts.shape[0]):
            p = starts[r]
            end = p + (lengths[r] & ~1) if is_inside(p, lengths[r], data.shape[0]) else p
            total = 0
            while p < end:
                unit = load16(&data[p])
                p += 2
                if unit < 0x80:
                    total += 1
                elif unit < 0x800:
                    total += 2
                elif is_pair(unit, &data[0], p, end):
                    total += 4
                    p += 2
                else:
                    total += 3
            sizes[r] = total


def utf8_write(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] lengths,
    const int64_t[::1] offsets,
    uint8_t[::1] out,
):
    """UTF-16 spans as UTF-8, one behind another; no span takes more than its place, whatever its bytes are by now."""
    cdef int64_t r, p, end, at, room
    cdef uint64_t unit
    if not starts.shape[0] == lengths.shape[0] == offsets.shape[0] - 1:
        raise ValueError("arrays that differ in length")
    with nogil:
        for r in range(starts.shape[0]):
            p = starts[r]
            end = p + (lengths[r] & ~1) if is_inside(p, lengths[r], data.shape[0]) else p
            at, room = offsets[r], offsets[r + 1]
            if not 0 <= at <= room <= out.shape[0]:
                continue
            while p < end:
                unit = load16(&data[p])
                p += 2
                if unit < 0x80:
                    if room - at < 1:
                        break
                    out[at] = <uint8_t> unit
                    at += 1
                elif unit < 0x800:
                    if room - at < 2:
                        break
                    out[at] = <uint8_t> (0xC0 | unit >> 6)
                    out[at + 1] = <uint8_t> (0x80 | (unit & 0x3F))
                    at += 2
                elif is_pair(unit, &data[0], p, end):
                    if room - at < 4:
                        break
                    unit = 0x10000 + ((unit & 0x3FF) << 10) + (load16(&data[p]) & 0x3FF)
                    p += 2
                    out[at] = <uint8_t> (0xF0 | unit >> 18)
                    out[at + 1] = <uint8_t> (0x80 | (unit >> 12 & 0x3F))
                    out[at + 2] = <uint8_t> (0x80 | (unit >> 6 & 0x3F))
                    out[at + 3] = <uint8_t> (0x80 | (unit & 0x3F))
                    at += 4
                else:
                    if room - at < 3:
                        break
                    out[at] = <uint8_t> (0xE0 | unit >> 12)
                    out[at + 1] = <uint8_t> (0x80 | (unit >> 6 & 0x3F))
                    out[at + 2] = <uint8_t> (0x80 | (unit & 0x3F))
                    at += 3
            while at < room:  # shorter than it was
                out[at] = 0
                at += 1


# texts of JSON ----------------------------------------------------------------------------------------------------------

cdef extern from "Python.h":
    char* PyOS_double_to_string(double value, char form, int precision, int flags, int* kind) except NULL
    void PyMem_Free(void* place)
    enum:
        Py_DTSF_ADD_DOT_0

cdef extern from *:
    """
    static const char DIGIT_PAIRS[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    """
    const char* DIGIT_PAIRS

cdef const char* HEX = "0123456789abcdef"


cdef inline int64_t put_digits(uint8_t* out, uint64_t value) noexcept nogil:
    """How many there are, 20 at most."""
    cdef uint8_t digits[20]
    cdef int64_t at = 20
    while value >= 100:
        at -= 2
        memcpy(&digits[at], DIGIT_PAIRS + 2 * (value % 100), 2)
        value //= 100
    if value >= 10:
        at -= 2
        memcpy(&digits[at], DIGIT_PAIRS + 2 * value, 2)
    else:
        at -= 1
        digits[at] = <uint8_t> (48 + value)
    memcpy(out, &digits[at], 20 - at)
    return 20 - at


cdef inline int64_t put_word(uint8_t* out, const char* word, int64_t size) noexcept nogil:
    memcpy(out, word, size)
    return size


cdef bint are_columns(int64_t rows, const uint8_t[::1] valid, const int64_t[::1] offsets) noexcept:
    return offsets.shape[0] == rows + 1 and (valid is None or valid.shape[0] == rows)


def whole_texts(
    const int64_t[::1] values, bint signed, const uint8_t[::1] valid, int64_t[::1] offsets, uint8_t[::1] out
):
    """Whole numbers in decimal, ``null`` where ``valid`` has 0; without ``signed`` they are u64."""
    cdef int64_t r, at = 0
    if not are_columns(values.shape[0], valid, offsets) or out.shape[0] // LONGEST_NUMBER < values.shape[0]:
        raise ValueError("arrays that differ in length")
    with nogil:
        for r in range(values.shape[0]):
            offsets[r] = at
            if valid is not None and not valid[r]:
                at += put_word(&out[at], "null", 4)
            elif signed and values[r] < 0:
                out[at] = 45
                at += 1 + put_digits(&out[at + 1], -<uint64_t> values[r])
            else:
                at += put_digits(&out[at], <uint64_t> values[r])
        offsets[values.shape[0]] = at


cdef inline int64_t put_short(uint8_t* out, double value, bint plain) noexcept nogil:
    """A number of 0 and more that has six decimals and 15 digits at most, and needs no exponent; 0 for others.

    Two numbers of 15 digits are never the same double, so these digits are the shortest that give it back.
    """
    cdef uint64_t number
    cdef int64_t at, place
    if not value < 1e15:
        return 0
    number = <uint64_t> value
    if <double> number == value:
        at = put_digits(out, number)
        return at if plain else at + put_word(out + at, ".0", 2)
    if not 1e-4 <= value < 1e9:
        return 0
    number = <uint64_t> (value * 1e6 + 0.5)
    if <double> number / 1e6 != value:
        return 0
    at = put_digits(out, number // 1000000)
    number %= 1000000
    out[at] = 46
    for place in range(6, 0, -1):
        out[at + place] = <uint8_t> (48 + number % 10)
        number //= 10
    at += 6
    while out[at] == 48:
        at -= 1
    return at + 1


cdef int64_t put_double(uint8_t* out, double value, bint plain) except -1:
    """As ``repr`` has it, or ``plain``: whole ones below 10^15 without a fraction. What is no number is null, or its name."""
    cdef int64_t at = 0, size
    cdef char* text
    if value != value or value - value != 0:
        if not plain:
            return put_word(out, "null", 4)
        if value != value:
            return put_word(out, '"NaN"', 5)
        return put_word(out, '"Infinity"', 10) if value > 0 else put_word(out, '"-Infinity"', 11)
    if value < 0 or (value == 0 and 1 / value < 0):
        value = -value
        out[0] = 45
        at = 1
    size = put_short(out + at, value, plain)
    if size:
        return at + size
    text = PyOS_double_to_string(value, c"r", 0, Py_DTSF_ADD_DOT_0, NULL)
    size = min(<int64_t> strlen(text), LONGEST_NUMBER - at)
    memcpy(out + at, text, size)
    PyMem_Free(text)
    return at + size


def double_texts(
    const double[::1] values, bint plain, const uint8_t[::1] valid, int64_t[::1] offsets, uint8_t[::1] out
):
    """Numbers as :func:`put_double` has them, ``null`` where ``valid`` has 0. Keeps the GIL: Python's digits want it."""
    cdef int64_t r, at = 0
    if not are_columns(values.shape[0], valid, offsets) or out.shape[0] // LONGEST_NUMBER < values.shape[0]:
        raise ValueError("arrays that differ in length")
    for r in range(values.shape[0]):
        offsets[r] = at
        if valid is not None and not valid[r]:
            at += put_word(&out[at], "null", 4)
        else:
            at += put_double(&out[at], values[r], plain)
    offsets[values.shape[0]] = at


cdef inline void put_number(uint8_t* out, int64_t digits, int64_t value) noexcept nogil:
    """A number with so many digits."""
    while digits > 0:
        digits -= 1
        out[digits] = <uint8_t> (48 + value % 10)
        value //= 10


cdef inline void put_day(uint8_t* out, int64_t days) noexcept nogil:
    """Days since 1970 as ``2026-01-31``. Years begin in March here, and 1 March 0 is day 0."""
    cdef int64_t era, year, day, month
    days += 719468
    era = days // 146097
    day = days - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    put_number(out, 4, year + era * 400 + (month >= 10))
    out[4] = out[7] = 45
    put_number(out + 5, 2, month - 9 if month >= 10 else month + 3)
    put_number(out + 8, 2, day + 1)


def time_texts(const int64_t[::1] values, int64_t decimals, uint8_t[:, ::1] out):
    """ns since 1970 as ISO 8601, with quotes and ``Z``, each as long as a row of ``out``; NaT is none."""
    cdef int64_t r, ns, seconds, days, i, cut = 1
    cdef uint8_t* row
    if not 0 < decimals <= 9 or out.shape[0] != values.shape[0] or out.shape[1] != decimals + 23:
        raise ValueError("arrays that differ in length")
    for i in range(9 - decimals):
        cut *= 10
    with nogil:
        for r in range(values.shape[0]):
            row = &out[r, 0]
            ns = values[r] % 1000000000
            ns += 1000000000 if ns < 0 else 0
            seconds = values[r] // 1000000000 - (1 if values[r] < 0 and values[r] % 1000000000 != 0 else 0)
            days = seconds // 86400 - (1 if seconds < 0 and seconds % 86400 != 0 else 0)
            seconds -= days * 86400
            row[0] = row[decimals + 22] = 34
            put_day(row + 1, days)
            row[11] = 84
            put_number(row + 12, 2, seconds // 3600)
            row[14] = row[17] = 58
            put_number(row + 15, 2, seconds // 60 % 60)
            put_number(row + 18, 2, seconds % 60)
            row[20] = 46
            put_number(row + 21, decimals, ns // cut)
            row[decimals + 21] = 90


cdef inline int64_t rune(const uint8_t* data, int64_t room, uint32_t* code) noexcept nogil:
    """How many bytes of UTF-8 a character has, two at least, and which it is; 0 for what is none. Surrogates are some."""
    cdef uint32_t lead = data[0]
    cdef int64_t i, size = 2 if 0xC2 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if 0xF0 <= lead < 0xF5 else 0
    if not 0 < size <= room:
        return 0
    code[0] = lead & (0x7Fu >> size)
    for i in range(1, size):
        if data[i] & 0xC0 != 0x80:
            return 0
        code[0] = code[0] << 6 | (data[i] & 0x3F)
    if (size == 3 and code[0] < 0x800) or (size == 4 and not 0x10000 <= code[0] < 0x110000):
        return 0
    return size


cdef inline int64_t put_unit(uint8_t* out, uint32_t unit) noexcept nogil:
    out[0] = 92
    out[1] = 117
    out[2] = HEX[unit >> 12 & 15]
    out[3] = HEX[unit >> 8 & 15]
    out[4] = HEX[unit >> 4 & 15]
    out[5] = HEX[unit & 15]
    return 6


cdef inline int64_t put_escape(uint8_t* out, uint32_t code) noexcept nogil:
    """An ASCII character, which needs one."""
    cdef uint8_t letter = (
        code if code == 34 or code == 92 else
        98 if code == 8 else 116 if code == 9 else 110 if code == 10 else 102 if code == 12 else 114 if code == 13 else 0
    )
    if letter == 0:
        return put_unit(out, code)
    out[0] = 92
    out[1] = letter
    return 2


cdef int64_t quote(
    const uint8_t* data, int64_t size, const uint8_t* widths, uint32_t limit, uint8_t* out, int64_t room
) noexcept nogil:
    """A text in quotes; -1 for what is not UTF-8, or has no room. ``widths`` are 1 for ASCII that stands for itself;
    from U+0080 on, what is below ``limit`` is escaped, and what is no character.
    """
    cdef int64_t p = 0, at = 1, length
    cdef uint32_t code
    if room < 2:
        return -1
    out[0] = 34
    room -= 13  # the longest escape and the last quote
    while p < size:
        if data[p] < 0x80:
            if at > room + 11:
                return -1
            if widths[data[p]] == 1:
                out[at] = data[p]
                at += 1
            elif at <= room + 6:
                at += put_escape(out + at, data[p])
            else:
                return -1
            p += 1
            continue
        length = rune(data + p, size - p, &code)
        if length == 0 or at > room:
            return -1
        if code >= limit and not 0xD800 <= code < 0xE000:
            memcpy(out + at, data + p, length)
            at += length
        elif code < 0x10000:
            at += put_unit(out + at, code)
        else:
            at += put_unit(out + at, 0xD800 + (code - 0x10000 >> 10))
            at += put_unit(out + at, 0xDC00 + (code & 0x3FF))
        p += length
    out[at] = 34
    return at + 1


def quoted_texts(
    const uint8_t[::1] data, const int64_t[::1] bounds, const uint8_t[::1] valid, const uint8_t[::1] widths,
    uint32_t limit, int64_t[::1] offsets, uint8_t[::1] out,
):
    """Texts in quotes as JSON has them, ``null`` where ``valid`` has 0; whether they are UTF-8, and have room."""
    cdef int64_t r, size, at = 0, rows = offsets.shape[0] - 1
    cdef bint sound = True
    if not are_columns(rows, valid, bounds) or widths.shape[0] != 256:
        raise ValueError("arrays that differ in length")
    with nogil:
        for r in range(rows):
            offsets[r] = at
            if not (is_inside(bounds[r], bounds[r + 1] - bounds[r], data.shape[0]) and out.shape[0] - at >= 4):
                sound = False
                break
            if valid is not None and not valid[r]:
                at += put_word(&out[at], "null", 4)
                continue
            size = quote(&data[0] + bounds[r], bounds[r + 1] - bounds[r], &widths[0], limit, &out[at], out.shape[0] - at)
            if size < 0:
                sound = False
                break
            at += size
        if sound:
            offsets[rows] = at
    return sound


cdef struct Cells:
    const int64_t* starts
    const int64_t* ends
    const uint8_t* pool
    int64_t size


cdef inline int64_t put_piece(
    uint8_t* out, int64_t at, int64_t room, const uint8_t* pool, int64_t start, int64_t size, int64_t pool_size
) noexcept nogil:
    """Short ones are copied at one size, which needs no call, where that stays inside on both sides."""
    if size <= COPIED_AT_ONCE and at + COPIED_AT_ONCE <= room and start + COPIED_AT_ONCE <= pool_size:
        memcpy(out + at, pool + start, COPIED_AT_ONCE)
    else:
        memcpy(out + at, pool + start, size)
    return at + size


cdef Cells* load_cells(list columns, int64_t rows, uint8_t[::1] scratch) except NULL:
    """Of columns as (starts, ends, bytes), which stay the caller's."""
    cdef int64_t number, count = len(columns)
    cdef const int64_t[::1] starts, ends
    cdef const uint8_t[::1] pool
    cdef Cells* cells = <Cells*> &scratch[0]
    if scratch.shape[0] < count * <int64_t> sizeof(Cells) or scratch.shape[0] == 0:
        raise ValueError("arrays that differ in length")
    for number in range(count):
        starts, ends, pool = columns[number]
        if starts.shape[0] < rows or ends.shape[0] < rows:
            raise ValueError("arrays that differ in length")
        cells[number].starts, cells[number].ends = &starts[0], &ends[0]
        cells[number].pool, cells[number].size = &pool[0], pool.shape[0]
    return cells


def row_sizes(list columns, int64_t words, uint8_t[::1] scratch, int64_t[::1] sizes):
    """Bytes of each row that :func:`weave` makes, with so many of words; all together."""
    cdef int64_t r, number, count = len(columns), rows = sizes.shape[0], total = 0
    cdef Cells* cells = load_cells(columns, rows, scratch)
    with nogil:
        for r in range(rows):
            sizes[r] = words
        for number in range(count):
            for r in range(rows):
                sizes[r] += cells[number].ends[r] - cells[number].starts[r]
        for r in range(rows):
            total += sizes[r]
    return total


def weave(
    list columns, int64_t rows, const uint8_t[::1] words, const int64_t[::1] bounds, uint8_t[::1] scratch,
    uint8_t[::1] out,
):
    """Rows of cells, a word before each and one behind the last: (bytes written, whether all had room).

    ``columns`` are (starts, ends, bytes), ``bounds`` where the words stand one behind another in ``words``.
    """
    cdef int64_t count = len(columns), number, r, start, size, at = 0, room = out.shape[0]
    cdef Cells* cells = load_cells(columns, rows, scratch)
    cdef bint sound = True
    if bounds.shape[0] != count + 2:
        raise ValueError("arrays that differ in length")
    for number in range(count + 1):
        if not is_inside(bounds[number], bounds[number + 1] - bounds[number], words.shape[0]):
            raise ValueError("words leave their bytes")
    with nogil:
        for r in range(rows):
            for number in range(count + 1):
                size = bounds[number + 1] - bounds[number]
                if size > room - at:
                    sound = False
                    break
                at = put_piece(&out[0], at, room, &words[0], bounds[number], size, words.shape[0])
                if number == count:
                    break
                start = cells[number].starts[r]
                size = cells[number].ends[r] - start
                if not is_inside(start, size, cells[number].size) or size > room - at:
                    sound = False
                    break
                at = put_piece(&out[0], at, room, cells[number].pool, start, size, cells[number].size)
            if not sound:
                break
    return at, sound
