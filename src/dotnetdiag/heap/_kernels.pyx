# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops over objects and references, without the GIL. Called through ``kernels.py``; ``fallback.py`` does the same by numpy.

Rule 1: nothing is allocated here, and nothing is written outside of the arrays handed in: every index that comes out of the data is compared
with the length of the array that it goes into.
Rule 2: nothing is recursive: a list of five million objects is as deep as it is long.
Rule 3: numbers are loaded as the machine has them, so ``kernels.py`` takes these loops on little ends only.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from dotnetdiag.wire.prefetch cimport prefetch

cdef extern from *:
    """
    #if defined(__linux__)
    #include <sys/mman.h>
    #ifndef MADV_POPULATE_WRITE
    #define MADV_POPULATE_WRITE 23
    #endif
    static int dotnetdiag_populate(void *at, size_t size) { return madvise(at, size, MADV_POPULATE_WRITE); }
    #else
    static int dotnetdiag_populate(void *at, size_t size) { (void)at; (void)size; return -1; }
    #endif
    """
    int dotnetdiag_populate(void* at, size_t size) noexcept nogil

cdef enum:
    NONE = 0xFFFFFFFFu
    AHEAD = 16


# memory ----------------------------------------------------------------------------------------------------------------

def populate(uint8_t[::1] memory, int64_t start, int64_t end):
    """Have the pages of these bytes at hand, ``start`` at the begin of one: whether the system could."""
    cdef int answer
    if not 0 <= start < end <= memory.shape[0]:
        return False
    with nogil:
        answer = dotnetdiag_populate(&memory[start], end - start)
    return answer == 0


# addresses and ids ------------------------------------------------------------------------------------------------------

cdef inline int64_t code_of(
    uint64_t value, int32_t[::1] slots, uint64_t[::1] ids, int64_t* count, uint64_t key
) noexcept nogil:
    """The number of a value, a new one where it is not known; -1 where there is no room for one more."""
    cdef int64_t size = slots.shape[0], at = <int64_t> ((value * key) >> 32) & (size - 1)
    cdef int32_t code
    while True:
        code = slots[at]
        if code < 0 or code >= count[0] or ids[code] == value:
            break
        at = (at + 1) & (size - 1)
    if code < 0 or code >= count[0]:
        if count[0] >= ids.shape[0]:
            return -1
        code = <int32_t> count[0]
        ids[code] = value
        slots[at] = code
        count[0] += 1
    return code


cdef inline bint is_table(int32_t[::1] slots, uint64_t[::1] ids, int64_t count) noexcept nogil:
    cdef int64_t size = slots.shape[0]
    return size > 0 and not size & (size - 1) and size >= 2 * ids.shape[0] and 0 <= count <= ids.shape[0]


def intern(
    const uint64_t[::1] values,
    int64_t done,
    int32_t[::1] slots,
    uint64_t[::1] ids,
    int64_t count,
    uint64_t key,
    uint32_t[::1] codes,
):
    """Number the values from ``done`` on, in the order in which they are first seen; ``ids`` has ``count`` of them. (done, count): fewer than all
    where there is no room for one more.
    """
    cdef int64_t n = values.shape[0], i = done, code = -1
    cdef uint64_t last = 0
    if codes.shape[0] < n or done < 0 or not is_table(slots, ids, count):
        raise ValueError("arrays that do not fit")
    with nogil:
        while i < n:
            if code < 0 or values[i] != last:
                last = values[i]
                code = code_of(last, slots, ids, &count, key)
                if code < 0:
                    break
            codes[i] = <uint32_t> code
            i += 1
    return i, count


# rows of blocks (gcdump.md, section 6) ----------------------------------------------------------------------------------

cdef enum:
    WIDE_NODE = 32
    NARROW_NODE = 28
    WIDE_EDGE = 12
    NARROW_EDGE = 8


cdef inline uint64_t pointer_at(const uint8_t* place, bint wide) noexcept nogil:
    cdef uint64_t eight
    cdef uint32_t four
    if wide:
        memcpy(&eight, place, 8)
        return eight
    memcpy(&four, place, 4)
    return four


def take_nodes(
    const uint8_t[::1] rows,
    bint wide,
    int64_t done,
    uint64_t told,
    uint64_t[::1] address,
    uint32_t[::1] sizes,
    uint32_t[::1] codes,
    uint32_t[::1] ends,
    int32_t[::1] slots,
    uint64_t[::1] ids,
    int64_t count,
    uint64_t key,
):
    """Columns of the rows of objects from ``done`` on: ``codes`` number their types as :func:`intern` does, ``ends`` is where the references of
    each end when ``told`` came before. (done, told, count): fewer than all where there is no room for one more type, and before an object whose
    size or references do not fit into 32 bits.
    """
    cdef int64_t row = WIDE_NODE if wide else NARROW_NODE, n = rows.shape[0] // row, i = done, code = -1
    cdef uint64_t last = 0, kind, size, references
    cdef const uint8_t* place
    if (
        address.shape[0] != n or sizes.shape[0] != n or codes.shape[0] != n or ends.shape[0] != n or done < 0
        or not is_table(slots, ids, count)
    ):
        raise ValueError("arrays that do not fit")
    with nogil:
        while i < n:
            place = &rows[i * row]
            address[i] = pointer_at(place, wide)
            place += 8 if wide else 4
            memcpy(&size, place, 8)
            memcpy(&kind, place + 8, 8)
            memcpy(&references, place + 16, 8)
            if size > 0xFFFFFFFFu or references > 0xFFFFFFFFu or told + references > 0xFFFFFFFFu:
                break
            if code < 0 or kind != last:
                last = kind
                code = code_of(kind, slots, ids, &count, key)
                if code < 0:
                    break
            told += references
            sizes[i] = <uint32_t> size
            codes[i] = <uint32_t> code
            ends[i] = <uint32_t> told
            i += 1
    return i, told, count


def take_targets(const uint8_t[::1] rows, bint wide, uint64_t[::1] targets):
    """The addresses that references lead to."""
    cdef int64_t row = WIDE_EDGE if wide else NARROW_EDGE, n = rows.shape[0] // row, i
    if targets.shape[0] != n:
        raise ValueError("arrays that do not fit")
    with nogil:
        for i in range(n):
            targets[i] = pointer_at(&rows[i * row], wide)


cdef struct Blocks:
    int64_t expected
    int64_t full
    int64_t last
    int64_t uneven


cdef enum:
    BLOCK_HEADER = 10
    IS_NODES = 1
    IS_EDGES = 2


def take_blocks(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] lengths,
    const uint8_t[::1] kinds,
    bint wide,
    int64_t done,
    int64_t[::1] states,
    int64_t told,
    uint64_t[::1] address,
    uint32_t[::1] sizes,
    uint32_t[::1] codes,
    uint32_t[::1] ends,
    uint64_t[::1] targets,
    int32_t[::1] slots,
    uint64_t[::1] ids,
    int64_t count,
    uint64_t key,
):
    """Take blocks of objects (kind 1) and of references (2) from ``done`` on, and pass over events of kind 0. ``states`` are four numbers of each
    of both streams: the next block, the rows of the first and of the last, how many others had not as many. (done, objects, references,
    told, count): done is the first event that is anything else, or a block that is not the next, not whole, or has what :func:`take_nodes`
    stops at.
    """
    cdef int64_t n = offsets.shape[0], i, row, rows, nodes = 0, edges = 0, before, code, offset, length, size = data.shape[0]
    cdef int64_t node_bytes = WIDE_NODE if wide else NARROW_NODE, edge_bytes = WIDE_EDGE if wide else NARROW_EDGE
    cdef uint64_t last = 0, kind, bytes, references
    cdef uint32_t number, told_rows
    cdef const uint8_t* place
    cdef Blocks* blocks
    if (
        lengths.shape[0] != n or kinds.shape[0] != n or states.shape[0] != 8 or done < 0 or not is_table(slots, ids, count)
        or sizes.shape[0] != address.shape[0] or codes.shape[0] != address.shape[0] or ends.shape[0] != address.shape[0]
    ):
        raise ValueError("arrays that do not fit")
    with nogil:
        code = -1
        while done < n:
            if kinds[done] == 0:
                done += 1
                continue
            offset, length = offsets[done], lengths[done]
            if kinds[done] > IS_EDGES or length < BLOCK_HEADER or offset < 0 or offset > size - length:
                break
            memcpy(&number, &data[offset], 4)
            memcpy(&told_rows, &data[offset + 4], 4)
            blocks = <Blocks*> &states[4 * (kinds[done] - 1)]
            rows, row = told_rows, node_bytes if kinds[done] == IS_NODES else edge_bytes
            if <int64_t> number != blocks.expected or rows * row != length - BLOCK_HEADER:
                break
            place = &data[offset] + BLOCK_HEADER
            if kinds[done] == IS_EDGES:
                if rows > targets.shape[0] - edges:
                    break
                for i in range(rows):
                    targets[edges + i] = pointer_at(place + i * edge_bytes, wide)
                edges += rows
            else:
                if rows > address.shape[0] - nodes:
                    break
                before = told
                for i in range(nodes, nodes + rows):
                    address[i] = pointer_at(place, wide)
                    place += 8 if wide else 4
                    memcpy(&bytes, place, 8)
                    memcpy(&kind, place + 8, 8)
                    memcpy(&references, place + 16, 8)
                    place += 24
                    if bytes > 0xFFFFFFFFu or references > 0xFFFFFFFFu or told + references > 0xFFFFFFFFu:
                        break
                    if code < 0 or kind != last:
                        last = kind
                        code = code_of(kind, slots, ids, &count, key)
                        if code < 0:
                            break
                    told += references
                    sizes[i] = <uint32_t> bytes
                    codes[i] = <uint32_t> code
                    ends[i] = <uint32_t> told
                else:
                    i = -1
                if i >= 0:
                    told = before
                    break
                nodes += rows
            if blocks.last >= 0 and blocks.last != blocks.full:
                blocks.uneven += 1
            if blocks.full < 0:
                blocks.full = rows
            blocks.last = rows
            blocks.expected = <int64_t> number + 1
            done += 1
    return done, nodes, edges, told, count


def steps(const uint64_t[::1] address, const uint64_t[::1] bounds, const int8_t[::1] values, int8_t[::1] found):
    """Of each address the value between the two bounds that it lies between; ``values`` has one more than bounds, which ascend."""
    cdef int64_t n = address.shape[0], count = bounds.shape[0], i, low, high, middle
    cdef uint64_t least = 1, most = 0, value
    cdef int8_t current = 0
    if values.shape[0] != count + 1 or found.shape[0] != n:
        raise ValueError("arrays that do not fit")
    with nogil:
        for i in range(n):
            value = address[i]
            if not least <= value <= most:
                low, high = 0, count
                while low < high:
                    middle = (low + high) // 2
                    if bounds[middle] <= value:
                        low = middle + 1
                    else:
                        high = middle
                current = values[low]
                least = bounds[low - 1] if low else 0
                most = bounds[low] - 1 if low < count else 0xFFFFFFFFFFFFFFFFu
            found[i] = current


def breaks(const uint64_t[::1] address, uint64_t gap, int64_t[::1] found):
    """The rows whose address is not higher than the one before, or so much higher, into ``found``, as many as have room; how many there are."""
    cdef int64_t i, count = 0, room = found.shape[0]
    with nogil:
        for i in range(1, address.shape[0]):
            # of one that is not higher the difference is huge
            if address[i] - address[i - 1] - 1 >= gap:
                if count < room:
                    found[count] = i
                count += 1
    return count


def recode(uint32_t[::1] codes, const uint32_t[::1] table):
    """The entry of the table in the place of each code, 0 in that of one that has none."""
    cdef int64_t i
    cdef uint32_t most = <uint32_t> table.shape[0]
    with nogil:
        for i in range(codes.shape[0]):
            codes[i] = table[codes[i]] if codes[i] < most else 0


def fill_buckets(
    const uint64_t[::1] address,
    const int64_t[::1] first,
    const int64_t[::1] last,
    const int64_t[::1] bucket_at,
    int shift,
    uint32_t[::1] buckets,
):
    """Of each run of ascending addresses, where each stretch of ``1 << shift`` bytes begins: the place in the run of its first address."""
    cdef int64_t r, i, b, at, most, runs = first.shape[0], n = address.shape[0]
    cdef uint64_t base
    if last.shape[0] != runs or bucket_at.shape[0] != runs + 1:
        raise ValueError("arrays that do not fit")
    with nogil:
        for r in range(runs):
            if not 0 <= first[r] < last[r] <= n or not 0 <= bucket_at[r] < bucket_at[r + 1] <= buckets.shape[0]:
                continue
            base = address[first[r]]
            at, most, b = bucket_at[r], bucket_at[r + 1] - bucket_at[r], 0
            for i in range(first[r], last[r]):
                while b < most and b <= <int64_t> ((address[i] - base) >> shift):
                    buckets[at + b] = <uint32_t> (i - first[r])
                    b += 1
            while b < most:
                buckets[at + b] = <uint32_t> (last[r] - first[r])
                b += 1


def find(
    const uint64_t[::1] wanted,
    const uint64_t[::1] address,
    const int64_t[::1] first,
    const int64_t[::1] last,
    const int64_t[::1] bucket_at,
    int shift,
    const uint32_t[::1] buckets,
    uint32_t[::1] found,
):
    """The row of each wanted address, or 0xFFFFFFFF; how many are not there. Runs are ascending, and do not overlap."""
    cdef int64_t i, k, some, low, high, middle, r = 0, runs = first.shape[0], n = address.shape[0], b, missing = 0
    cdef int64_t lows[AHEAD]
    cdef int64_t highs[AHEAD]
    cdef int64_t of_run[AHEAD]
    cdef uint64_t value
    if (
        last.shape[0] != runs or bucket_at.shape[0] != runs + 1 or found.shape[0] != wanted.shape[0]
        or bucket_at[runs] > buckets.shape[0]
    ):
        raise ValueError("arrays that do not fit")
    for i in range(runs):
        if not 0 <= first[i] < last[i] <= n or not 0 <= bucket_at[i] < bucket_at[i + 1]:
            raise ValueError("runs that do not fit")
    with nogil:
        i = 0
        while i < wanted.shape[0]:
            # in three turns: what one address waits for in memory comes while others are looked at (5.9 million anywhere: 0.28 s one by one, 0.17)
            some = min(<int64_t> AHEAD, wanted.shape[0] - i)
            for k in range(some):
                value = wanted[i + k]
                lows[k] = -1
                if runs == 0 or value < address[first[0]]:
                    continue
                if value < address[first[r]] or (r + 1 < runs and value >= address[first[r + 1]]):
                    low, high = 0, runs - 1
                    while low < high:
                        middle = (low + high + 1) // 2
                        if address[first[middle]] <= value:
                            low = middle
                        else:
                            high = middle - 1
                    r = low
                if value > address[last[r] - 1]:
                    continue
                lows[k] = bucket_at[r] + <int64_t> ((value - address[first[r]]) >> shift)
                of_run[k] = r
                prefetch(&buckets[lows[k]])
            for k in range(some):
                if lows[k] >= 0:
                    b, low = lows[k], of_run[k]
                    highs[k] = first[low] + buckets[b + 1] if b + 1 < bucket_at[low + 1] else last[low]
                    if highs[k] > last[low]:
                        highs[k] = last[low]
                    lows[k] = first[low] + buckets[b]
                    prefetch(&address[min(lows[k], n - 1)])
            for k in range(some):
                value, low, high = wanted[i + k], lows[k], highs[k]
                found[i + k] = NONE
                if low < 0:
                    missing += 1
                    continue
                while high - low > 8:
                    middle = (low + high) // 2
                    if address[middle] <= value:
                        low = middle
                    else:
                        high = middle
                while low < high and address[low] < value:
                    low += 1
                if low < high and address[low] == value:
                    found[i + k] = <uint32_t> low
                else:
                    missing += 1
            i += some
    return missing


# who dominates whom -----------------------------------------------------------------------------------------------------

ctypedef fused Start:
    uint32_t
    int64_t

ctypedef fused Size:
    uint32_t
    uint64_t


def add_by_group(const uint32_t[::1] which, const Size[::1] sizes, int64_t[::1] counts, uint64_t[::1] totals):
    """How many nodes each group has, and their sizes together; a group that is none is left out."""
    cdef int64_t n = which.shape[0], groups = counts.shape[0], i
    if sizes.shape[0] != n or totals.shape[0] != groups:
        raise ValueError("arrays that do not fit")
    with nogil:
        for i in range(n):
            if which[i] < groups:
                counts[which[i]] += 1
                totals[which[i]] += sizes[i]


cdef inline int64_t clipped(int64_t value, int64_t most) noexcept nogil:
    return 0 if value < 0 else most if value > most else value


def depth_first(
    const Start[::1] starts,
    const uint32_t[::1] targets,
    int64_t root,
    uint32_t[::1] order,
    uint32_t[::1] number,
    uint32_t[::1] parent,
    Start[::1] cursor,
    uint32_t[::1] sources,
    uint32_t[::1] reached,
):
    """Number what is reached from ``root`` in the order of a search in depth: ``order`` gives the node of a number, ``number`` the number of a
    node (NONE: not reached), ``parent`` the number from which a number was reached first. Other references between numbers come into
    ``sources`` and ``reached``. (how many numbers, how many other references).
    """
    cdef int64_t n = number.shape[0], m = targets.shape[0], count = 0, others = 0, at, p, end
    cdef uint32_t node, child, current, found
    if (
        starts.shape[0] != n + 1 or order.shape[0] != n or parent.shape[0] != n or cursor.shape[0] != n
        or sources.shape[0] != m or reached.shape[0] != m or not 0 <= root < n or n >= NONE
    ):
        raise ValueError("arrays that do not fit")
    with nogil:
        for at in range(n):
            number[at] = NONE
        number[root], order[0], parent[0] = 0, <uint32_t> root, 0
        cursor[0] = <Start> clipped(<int64_t> starts[root], m)
        count, current = 1, 0
        while True:
            node = order[current]
            p, end = <int64_t> cursor[current], clipped(<int64_t> starts[node + 1], m)
            child = NONE
            while p < end:
                child = targets[p]
                p += 1
                if child < n:
                    found = number[child]
                    if found == NONE:
                        break
                    if others < m:  # columns that lie have a reference more than once
                        sources[others], reached[others] = current, found
                        others += 1
                child = NONE
            cursor[current] = <Start> p
            if child != NONE:
                number[child], order[count], parent[count] = <uint32_t> count, child, current
                cursor[count] = <Start> clipped(<int64_t> starts[child], m)
                current = <uint32_t> count
                count += 1
            elif current == 0:
                break
            else:
                current = parent[current]
    return count, others


def predecessors(
    const uint32_t[::1] sources, const uint32_t[::1] reached, uint32_t[::1] first, uint32_t[::1] before
):
    """References by where they lead: those to ``w`` are from ``before[first[w]:first[w + 1]]``. ``first`` has one more than numbers, and one to
    spare.
    """
    cdef int64_t count = first.shape[0] - 2, m = reached.shape[0], room = before.shape[0], w, at
    cdef uint32_t to, total = 0, size
    if sources.shape[0] != m or room < m or count < 0:
        raise ValueError("arrays that do not fit")
    with nogil:
        for w in range(count + 2):
            first[w] = 0
        for at in range(m):
            if at + AHEAD < m and reached[at + AHEAD] < count:
                prefetch(&first[reached[at + AHEAD]])
            if reached[at] < count:
                first[reached[at] + 2] += 1
        for w in range(2, count + 2):
            size = first[w]
            first[w] = total + size
            total += size
        # first[w + 1] is where the next of w comes, and at the end where those of w + 1 begin
        for at in range(m):
            if at + AHEAD < m and reached[at + AHEAD] < count:
                prefetch(&first[reached[at + AHEAD]])
            to = reached[at]
            if to < count and first[to + 1] < room:
                before[first[to + 1]] = sources[at]
                first[to + 1] += 1


def semi_nca(
    int64_t count,
    uint32_t[::1] parent,
    const uint32_t[::1] first,
    const uint32_t[::1] before,
    uint32_t[::1] semi,
    uint32_t[::1] label,
    uint32_t[::1] stack,
    uint32_t[::1] dominator,
):
    """The immediate dominator of each number, by Georgiadis' SEMI-NCA: semidominators with path compression, then the nearest common ancestor.
    All numbers; ``dominator[0]`` is 0. ``parent`` is used up: ways to the root of what is linked become shorter.
    """
    cdef int64_t w, p, depth
    cdef uint32_t v, best, u, above
    if (
        count < 1 or parent.shape[0] < count or first.shape[0] < count + 1 or semi.shape[0] < count or label.shape[0] < count
        or stack.shape[0] < count or dominator.shape[0] < count
    ):
        raise ValueError("arrays that do not fit")
    for w in range(count):
        if parent[w] > w or first[w] > first[w + 1] or first[w + 1] > before.shape[0]:
            raise ValueError("numbers that are none")
    with nogil:
        for w in range(count - 1, 0, -1):
            best = dominator[w] = parent[w]
            label[w] = <uint32_t> w
            for p in range(first[w], first[w + 1]):
                v = before[p]
                if v >= count:
                    continue
                if v > w:
                    # nodes above w are linked: the least semidominator on the way from v up to the child of w's tree
                    depth = 0
                    u = v
                    while parent[u] > w:
                        stack[depth] = u
                        depth += 1
                        u = parent[u]
                    above = u
                    while depth > 0:
                        depth -= 1
                        u = stack[depth]
                        if semi[label[above]] < semi[label[u]]:
                            label[u] = label[above]
                        parent[u] = parent[above]
                        above = u
                    v = semi[label[v]]
                if v < best:
                    best = v
            semi[w] = best
        dominator[0] = 0
        for w in range(1, count):
            u = dominator[w]
            while u > semi[w]:
                u = dominator[u]
            dominator[w] = u


def add_up(
    int64_t count,
    const uint32_t[::1] order,
    const uint32_t[::1] dominator,
    const Size[::1] sizes,
    uint64_t[::1] by_number,
    int32_t[::1] nodes_dominator,
    uint64_t[::1] retained,
):
    """What each node keeps alive, itself included; and its dominator by node, -1 for the root and what is not reached."""
    cdef int64_t w, n = retained.shape[0]
    if (
        count < 1 or order.shape[0] < count or dominator.shape[0] < count or by_number.shape[0] < count
        or sizes.shape[0] != n or nodes_dominator.shape[0] != n
    ):
        raise ValueError("arrays that do not fit")
    for w in range(count):
        if order[w] >= n or (w and dominator[w] >= w):
            raise ValueError("numbers that are none")
    with nogil:
        for w in range(n):
            retained[w] = sizes[w]
            nodes_dominator[w] = -1
        for w in range(count):
            by_number[w] = sizes[order[w]]
        for w in range(count - 1, 0, -1):
            by_number[dominator[w]] += by_number[w]
        for w in range(count):
            retained[order[w]] = by_number[w]
            if w:
                nodes_dominator[order[w]] = <int32_t> order[dominator[w]]


def retained_by_type(
    const int32_t[::1] dominator,
    const uint32_t[::1] types,
    const uint64_t[::1] retained,
    uint32_t[::1] child,
    uint32_t[::1] sibling,
    uint32_t[::1] opened,
    uint64_t[::1] totals,
):
    """Of each type what its nodes keep alive together: a node below another of its type counts nothing of its own."""
    cdef int64_t n = types.shape[0], kinds = totals.shape[0], node, top
    cdef uint32_t current, following
    cdef int64_t steps = 0, most = 2 * n + 2
    if (
        dominator.shape[0] != n or retained.shape[0] != n or child.shape[0] != n or sibling.shape[0] != n
        or opened.shape[0] != kinds
    ):
        raise ValueError("arrays that do not fit")
    for node in range(n):
        if types[node] >= kinds or dominator[node] >= n or dominator[node] == node:
            raise ValueError("numbers that are none")
    with nogil:
        for node in range(kinds):
            opened[node] = 0
            totals[node] = 0
        for node in range(n):
            child[node] = NONE
        for node in range(n - 1, -1, -1):
            sibling[node] = NONE
            if dominator[node] >= 0:
                sibling[node] = child[dominator[node]]
                child[dominator[node]] = <uint32_t> node
        for top in range(n):
            if dominator[top] >= 0:
                continue
            current = <uint32_t> top
            while steps < most:
                steps += 1
                if opened[types[current]] == 0:
                    totals[types[current]] += retained[current]
                opened[types[current]] += 1
                following = child[current]
                while following == NONE:
                    opened[types[current]] -= 1
                    if current == <uint32_t> top:
                        break
                    following = sibling[current]
                    if following == NONE:
                        current = <uint32_t> dominator[current]
                if following == NONE:
                    break
                current = following


# the shortest way from the root -----------------------------------------------------------------------------------------

def breadth_first(
    const Start[::1] starts,
    const uint32_t[::1] targets,
    int64_t root,
    uint32_t[::1] order,
    uint32_t[::1] parent,
):
    """What is reached from ``root``, nearest first: ``order``, and the node from which each was reached first (NONE: not reached, or the root).
    How many are reached.
    """
    cdef int64_t n = parent.shape[0], m = targets.shape[0], count = 1, at = 0, p
    cdef uint32_t node, child
    if starts.shape[0] != n + 1 or order.shape[0] != n or not 0 <= root < n or n >= NONE:
        raise ValueError("arrays that do not fit")
    with nogil:
        for p in range(n):
            parent[p] = NONE
        order[0] = <uint32_t> root
        parent[root] = <uint32_t> root
        while at < count:
            node = order[at]
            at += 1
            for p in range(clipped(<int64_t> starts[node], m), clipped(<int64_t> starts[node + 1], m)):
                child = targets[p]
                if child < n and parent[child] == NONE:
                    parent[child] = node
                    order[count] = child
                    count += 1
        parent[root] = NONE
    return count


# records of nodes (gcdump.md, section 3) --------------------------------------------------------------------------------

cdef enum:
    LONGEST = 5
    LARGEST = 0x7FFFFFFF


cdef inline int64_t read_number(const uint8_t* data, int64_t p, int64_t end, int32_t* value) noexcept nogil:
    """Where the number at ``p`` ends, or -1: groups of 7 bits, the most significant first, whose bit 6 is the sign."""
    cdef uint32_t byte, v
    cdef int64_t last = p + LONGEST
    if p >= end:
        return -1
    byte = data[p]
    p += 1
    v = byte & 0x7F
    if byte & 0x40:
        v |= 0xFFFFFF80u
    while byte & 0x80:
        if p >= end or p >= last:
            return -1
        byte = data[p]
        p += 1
        v = v << 7 | (byte & 0x7F)
    value[0] = <int32_t> v
    return p


def read_nodes(
    const uint8_t[::1] blob,
    const uint32_t[::1] offsets,
    const int32_t[::1] type_sizes,
    uint32_t[::1] types,
    uint32_t[::1] sizes,
    uint32_t[::1] starts,
    uint32_t[::1] targets,
):
    """Type, size and references of each node. What is no record, or has more references than ``targets`` has room for, is a node of type 0
    without references, and so is offset 0; a reference that leads to no node is left out. (how many references, records, references that
    cannot be read, bytes of records: more than there are where these overlap).
    """
    cdef int64_t n = offsets.shape[0], end = blob.shape[0], kinds = type_sizes.shape[0], room = targets.shape[0]
    cdef int64_t i, p, child, total = 0, begin, wrong = 0, astray = 0, used = 0
    cdef int32_t kind, size, count, distance
    cdef const uint8_t* data
    if types.shape[0] != n or sizes.shape[0] != n or starts.shape[0] != n + 1 or end > LARGEST or room > NONE:
        raise ValueError("arrays that do not fit")
    data = &blob[0] if end else NULL
    with nogil:
        starts[0] = 0
        for i in range(n):
            types[i] = sizes[i] = 0
            if offsets[i]:
                size = count = 0
                begin = total
                p = read_number(data, offsets[i], end, &kind)
                if p >= 0 and kind >= 0 and kind >> 1 < kinds:
                    if kind & 1:
                        p = read_number(data, p, end, &size)
                    elif type_sizes[kind >> 1] > 0:
                        size = type_sizes[kind >> 1]
                    if p >= 0:
                        p = read_number(data, p, end, &count)
                else:
                    p = -1
                if p < 0 or size < 0 or count < 0 or count > end - p or count > room - total:
                    wrong += 1
                else:
                    types[i] = <uint32_t> (kind >> 1)
                    sizes[i] = <uint32_t> size
                    while count > 0:
                        count -= 1
                        p = read_number(data, p, end, &distance)
                        if p < 0:
                            astray += count + 1
                            break
                        child = i + distance
                        if 0 <= child < n:
                            targets[total] = <uint32_t> child
                            total += 1
                        else:
                            astray += 1
                    used += (p if p >= 0 else end) - offsets[i]
            starts[i + 1] = <uint32_t> total
    return total, wrong, astray, used


cdef inline int64_t number_size(int64_t v) noexcept nogil:
    if v < 0:
        v = ~v
    return 1 if v < 0x40 else 2 if v < 0x2000 else 3 if v < 0x100000 else 4 if v < 0x8000000 else 5


cdef inline int64_t write_number(uint8_t[::1] out, int64_t at, int64_t v) noexcept nogil:
    """Behind the number, for which there is room."""
    cdef int64_t size, i
    if -0x40 <= v < 0x40:
        out[at] = <uint8_t> (v & 0x7F)
        return at + 1
    size = number_size(v)
    for i in range(size - 1, -1, -1):
        out[at] = <uint8_t> ((v >> (7 * i)) & 0x7F) | (0x80 if i else 0)
        at += 1
    return at


def first_sizes(const uint32_t[::1] types, const Size[::1] sizes, int32_t[::1] type_sizes):
    """The size of the first node of each type into ``type_sizes``, where it is -1. Sizes above 2^31 - 1 are told as that."""
    cdef int64_t n = types.shape[0], kinds = type_sizes.shape[0], i
    if sizes.shape[0] != n:
        raise ValueError("arrays that do not fit")
    with nogil:
        for i in range(n):
            if types[i] < kinds and type_sizes[types[i]] < 0:
                type_sizes[types[i]] = <int32_t> (LARGEST if sizes[i] > LARGEST else sizes[i])


def measure_nodes(
    int64_t first,
    const uint32_t[::1] types,
    const Size[::1] sizes,
    int32_t[::1] type_sizes,
    const Start[::1] starts,
    const uint32_t[::1] targets,
    int64_t place,
    uint32_t[::1] offsets,
):
    """Where the record of each node from ``first`` on begins, 0 of those of which nothing is known, and where the last one ends. ``type_sizes`` takes the size of
    the first node of each type, where it is -1. Sizes above 2^31 - 1 are written as that.
    """
    cdef int64_t n = types.shape[0], m = targets.shape[0], kinds = type_sizes.shape[0], i, p, begin, end
    cdef int32_t size
    if sizes.shape[0] != n or offsets.shape[0] != n or first < 0 or starts.shape[0] < first + n + 1:
        raise ValueError("arrays that do not fit")
    with nogil:
        for i in range(n):
            begin, end = clipped(<int64_t> starts[first + i], m), clipped(<int64_t> starts[first + i + 1], m)
            size = <int32_t> (LARGEST if sizes[i] > LARGEST else sizes[i])
            if (types[i] == 0 and size == 0 and begin >= end) or types[i] >= kinds:
                offsets[i] = 0
                continue
            offsets[i] = <uint32_t> place
            if type_sizes[types[i]] < 0:
                type_sizes[types[i]] = size
            place += number_size(<int64_t> types[i] * 2 + (type_sizes[types[i]] != size))
            if type_sizes[types[i]] != size:
                place += number_size(size)
            place += number_size(end - begin if end > begin else 0)
            for p in range(begin, end):
                place += number_size(<int64_t> targets[p] - (first + i))
    return place


def write_nodes(
    int64_t first,
    const uint32_t[::1] types,
    const Size[::1] sizes,
    const int32_t[::1] type_sizes,
    const Start[::1] starts,
    const uint32_t[::1] targets,
    uint8_t[::1] out,
):
    """The records of nodes as :func:`measure_nodes` has measured them; how many bytes they take."""
    cdef int64_t n = types.shape[0], m = targets.shape[0], kinds = type_sizes.shape[0], i, p, begin, end, at = 0, room
    cdef bint own
    cdef int32_t size
    room = out.shape[0]
    if sizes.shape[0] != n or first < 0 or starts.shape[0] < first + n + 1:
        raise ValueError("arrays that do not fit")
    with nogil:
        for i in range(n):
            begin, end = clipped(<int64_t> starts[first + i], m), clipped(<int64_t> starts[first + i + 1], m)
            size = <int32_t> (LARGEST if sizes[i] > LARGEST else sizes[i])
            if (types[i] == 0 and size == 0 and begin >= end) or types[i] >= kinds:
                continue
            if end < begin:
                end = begin
            if at + 3 * LONGEST > room:
                break
            own = type_sizes[types[i]] != size
            at = write_number(out, at, <int64_t> types[i] * 2 + own)
            if own:
                at = write_number(out, at, size)
            at = write_number(out, at, end - begin)
            for p in range(begin, end):
                if at + LONGEST > room:
                    break
                at = write_number(out, at, <int64_t> targets[p] - (first + i))
    return at


# totals by type, of records as they lie in a file ------------------------------------------------------------------------

cdef enum:
    MOST_STEPS = 1 << 24


cdef struct Frame:
    uint32_t number
    uint32_t node
    uint32_t place
    uint32_t left


cdef inline uint32_t offset_of(const uint8_t* offsets, int64_t node) noexcept nogil:
    cdef uint32_t found
    memcpy(&found, offsets + 4 * node, 4)
    return found


cdef inline int64_t open_record(
    const uint8_t* data, int64_t p, int64_t end, const uint32_t[::1] kinds, const int32_t[::1] type_sizes,
    int32_t* kind, int32_t* size, int32_t* count
) noexcept nogil:
    """Where the references of the record at ``p`` begin; -1 of what is none, or of no type that is known. ``kind`` is by ``kinds``."""
    p = read_number(data, p, end, kind)
    if p < 0 or kind[0] < 0 or kind[0] >> 1 >= kinds.shape[0]:
        return -1
    size[0] = type_sizes[kind[0] >> 1]
    if size[0] < 0:
        size[0] = 0
    if kind[0] & 1:
        p = read_number(data, p, end, size)
    kind[0] = <int32_t> kinds[kind[0] >> 1]
    if p >= 0:
        p = read_number(data, p, end, count)
    if p < 0 or kind[0] == 0 or size[0] < 0 or count[0] < 0 or count[0] > end - p:
        return -1
    return p


cdef struct Records:
    const uint8_t* data
    const uint8_t* offsets
    int64_t end
    int64_t nodes
    int64_t room
    int64_t references
    int64_t pairs
    int64_t deepest
    int64_t of_root
    int64_t used


cdef int64_t search(
    Records* records, const uint32_t[::1] kinds, const int32_t[::1] type_sizes, int64_t root, uint32_t* number, uint32_t* parent,
    uint32_t* types, uint32_t* sizes, Frame* stack, uint32_t* others
) noexcept nogil:
    """Number what is reached in depth; how many, or -1 where a record is not as it should be. Only what has references left is on the stack."""
    cdef int64_t n = records.nodes, end = records.end, room = records.room, references = 0, pairs = 0, deepest = 0, used = 0
    cdef int64_t p = 0, before, child = root, depth = 0, count = 0
    cdef int32_t kind, size, told, distance, left = 0
    cdef uint32_t current = 0, node = <uint32_t> root, place
    cdef const uint8_t* data = records.data
    while True:
        if number[child]:
            if pairs >= room:
                return -1
            others[2 * pairs], others[2 * pairs + 1] = current, number[child] - 1
            pairs += 1
        else:
            if left:
                stack[depth].number, stack[depth].node = current, node
                stack[depth].place, stack[depth].left = <uint32_t> p, <uint32_t> left
                depth += 1
                if depth > deepest:
                    deepest = depth
            parent[count] = current
            current, node, left = <uint32_t> count, <uint32_t> child, 0
            count += 1
            number[child] = <uint32_t> count
            kind = size = 0
            place = offset_of(records.offsets, child)
            if place:
                p = open_record(data, place, end, kinds, type_sizes, &kind, &size, &told)
                if p < 0:
                    return -1
                used += p - place
                references += told
                left = told
                if current == 0:
                    records.of_root = told
                if references > room:
                    return -1
            types[current], sizes[current] = <uint32_t> kind, <uint32_t> size
        while left == 0 and depth > 0:
            depth -= 1
            current, node = stack[depth].number, stack[depth].node
            p, left = stack[depth].place, <int32_t> stack[depth].left
        if left == 0:
            break
        left -= 1
        before = p
        p = read_number(data, p, end, &distance)
        child = <int64_t> node + distance
        if p < 0 or not 0 <= child < n:
            return -1
        used += p - before
    records.used = used
    records.references, records.pairs, records.deepest = references, pairs, deepest
    return count


cdef bint take_rest(
    Records* records, const uint32_t[::1] kinds, const int32_t[::1] type_sizes, const uint32_t* number,
    int64_t[::1] counts, uint64_t[::1] totals
) noexcept nogil:
    """Count by type the nodes that were not reached. False where a record is not as it should be."""
    cdef int64_t n = records.nodes, node, p, child
    cdef int32_t kind, size, left, distance
    cdef uint32_t place
    for node in range(n):
        if number[node]:
            continue
        place = offset_of(records.offsets, node)
        if place == 0:
            continue
        p = open_record(records.data, place, records.end, kinds, type_sizes, &kind, &size, &left)
        if p < 0 or kind >= counts.shape[0] or kind >= totals.shape[0]:
            return False
        records.references += left
        if records.references > records.room:
            return False
        counts[kind] += 1
        totals[kind] += <uint64_t> size
        while left > 0:
            left -= 1
            p = read_number(records.data, p, records.end, &distance)
            child = node + distance
            if p < 0 or not 0 <= child < n:
                return False
        records.used += p - place
    return True


cdef void dominate(
    int64_t count, uint32_t* parent, uint32_t* others, int64_t pairs, uint32_t* head, uint32_t* marks,
    uint32_t* semi, uint32_t* above, uint32_t* label, uint32_t* stack
) noexcept nogil:
    """Put the immediate dominator in the place of the parent: SEMI-NCA as in :func:`semi_nca`, where only numbers with other references than that
    from their parent are looked at: they are marked. In ``semi``, ``above`` and ``label`` 0 stands for what holds at first.
    """
    cdef int64_t at, w, depth, word, bit
    cdef uint32_t v, best, u, following, one, own, least
    for at in range(pairs):
        w = others[2 * at + 1]
        others[2 * at + 1] = head[w] if marks[w >> 5] >> (w & 31) & 1 else 0
        head[w] = <uint32_t> (at + 1)
        marks[w >> 5] |= <uint32_t> 1 << (w & 31)
    for word in range(count >> 5, -1, -1):
        if not marks[word]:
            continue
        for bit in range(31, -1, -1):
            w = word << 5 | bit
            if not marks[word] >> bit & 1 or w == 0:
                continue
            at = head[w]
            best = parent[w]
            while at:
                v = others[2 * (at - 1)]
                at = others[2 * (at - 1) + 1]
                if v > w:
                    # numbers above w are linked: the least semidominator on the way from v up to the child of w's tree
                    depth = 0
                    u = v
                    while True:
                        following = above[u] - 1 if above[u] else parent[u]
                        if following <= w:
                            break
                        stack[depth] = u
                        depth += 1
                        u = following
                    one = label[u] if label[u] else u
                    least = semi[one] - 1 if semi[one] else parent[one]
                    while depth > 0:
                        depth -= 1
                        u = stack[depth]
                        v = label[u] if label[u] else u
                        own = semi[v] - 1 if semi[v] else parent[v]
                        if least < own:
                            label[u] = one
                        else:
                            one, least = v, own
                        above[u] = following + 1
                    v = least
                if v < best:
                    best = v
            semi[w] = best + 1
    for word in range((count >> 5) + 1):
        if not marks[word]:
            continue
        for bit in range(32):
            w = word << 5 | bit
            if marks[word] >> bit & 1 and w:
                u = parent[w]
                while u >= semi[w]:
                    u = parent[u]
                parent[w] = u


def dominate_records(
    const uint8_t[::1] blob,
    const uint8_t[::1] offsets,
    const uint32_t[::1] kinds,
    const int32_t[::1] type_sizes,
    int64_t root,
    uint32_t[::1] number,
    uint32_t[::1] dominator,
    uint32_t[::1] types,
    uint32_t[::1] sizes,
    uint32_t[::1] marks,
    uint32_t[::1] frames,
    uint32_t[::1] others,
    int64_t[::1] counts,
    uint64_t[::1] totals,
):
    """Of records as they lie in a file: number what is reached from ``root`` in depth, and by number ``dominator``, ``types`` and ``sizes``. What is
    not reached is added to the ``counts`` and ``totals`` of its type. (how many numbers, how many references, those of the root); no number where anything of
    the records is not as it should be. All arrays are zeros before: four numbers for each node in ``frames``, a bit in ``marks``; ``others``
    has two for each reference that there may be.
    """
    cdef int64_t n = number.shape[0], count
    cdef Records records
    if (
        offsets.shape[0] != 4 * n or dominator.shape[0] != n or types.shape[0] != n or sizes.shape[0] != n or frames.shape[0] < 4 * n
        or marks.shape[0] < (n >> 5) + 1 or not 0 <= root < n or n >= LARGEST or type_sizes.shape[0] != kinds.shape[0]
        or not 0 < blob.shape[0] <= LARGEST or not 0 < others.shape[0] // 2 < NONE
    ):
        raise ValueError("arrays that do not fit")
    records.data, records.offsets, records.end, records.nodes = &blob[0], &offsets[0], blob.shape[0], n
    records.room, records.references, records.of_root, records.used = others.shape[0] // 2, 0, 0, 0
    with nogil:
        count = search(
            &records, kinds, type_sizes, root, &number[0], &dominator[0], &types[0], &sizes[0], <Frame*> &frames[0], &others[0]
        )
        if count > 0 and not take_rest(&records, kinds, type_sizes, &number[0], counts, totals):
            count = 0
        if records.used != records.end - 2:  # those of nothing are no node's; more where records overlap, fewer where one was cut
            count = 0
        if count > 0:
            memset(&frames[0], 0, <size_t> records.deepest * sizeof(Frame))
            dominate(
                count, &dominator[0], &others[0], records.pairs, &number[0], &marks[0],
                &frames[0], &frames[n], &frames[2 * n], &frames[3 * n]
            )
    return max(count, 0), records.references, records.of_root


def add_up_by_type(
    int64_t count,
    const uint32_t[::1] dominator,
    uint32_t[::1] types,
    const uint32_t[::1] sizes,
    int32_t[::1] slots,
    uint64_t[::1] ids,
    uint32_t[::1] sets,
    int64_t[::1] numbers,
    uint64_t[::1] sums,
    uint64_t key,
    int64_t[::1] counts,
    uint64_t[::1] totals,
    uint64_t[::1] retained,
):
    """Add to ``counts``, ``totals`` and ``retained`` of each type what its nodes are and keep alive together. A node adds its size to each type
    that is on its way from the root, over dominators: so many sets of types there are, and a node's is that of its dominator with its own
    type. ``types`` is used up. False where there is no room for all sets, or it would take too long to tell them apart.
    """
    cdef int64_t kinds = counts.shape[0], w, known = 0, before, code = -1, at, steps = 0, number = 0
    cdef uint64_t value, last = 0, sum = 0, above, kind, current = 0
    cdef bint good = True
    if (
        count < 1 or dominator.shape[0] < count or types.shape[0] < count or sizes.shape[0] < count or not is_table(slots, ids, 0)
        or sets.shape[0] != ids.shape[0] or numbers.shape[0] != ids.shape[0] or sums.shape[0] != ids.shape[0]
        or totals.shape[0] != kinds or retained.shape[0] != kinds
    ):
        raise ValueError("arrays that do not fit")
    with nogil:
        for w in range(count):
            kind, at = types[w], dominator[w]
            if kind >= <uint64_t> kinds or (at >= w and w):
                good = False
                break
            # a set is the number, plus 1, of the pair that made it; mostly the dominator is the one before
            above = 0 if w == 0 else current if at == w - 1 else <uint64_t> types[at] + 1
            value = above << 32 | kind
            if code < 0 or value != last:
                if code >= 0:
                    numbers[code] += number
                    sums[code] += sum
                number, sum, last, before = 0, 0, value, known
                code = code_of(value, slots, ids, &known, key)
                if code < 0:
                    good = False
                    break
                if known > before:
                    numbers[code], sums[code], sets[code] = 0, 0, <uint32_t> code
                    above = value >> 32
                    while above and steps < MOST_STEPS:
                        steps += 1
                        if <uint32_t> ids[above - 1] == kind:
                            sets[code] = <uint32_t> ((value >> 32) - 1)
                            break
                        above = ids[above - 1] >> 32
                    if steps >= MOST_STEPS:
                        good = False
                        break
            number += 1
            sum += sizes[w]
            types[w] = sets[code]
            current = <uint64_t> sets[code] + 1
        if good:
            numbers[code] += number
            sums[code] += sum
            for at in range(known):
                kind = <uint32_t> ids[at]
                counts[kind] += numbers[at]
                totals[kind] += sums[at]
                if sets[at] != at:
                    sums[sets[at]] += sums[at]
                    sums[at] = 0
            for at in range(known - 1, -1, -1):
                if sets[at] == at:
                    retained[<uint32_t> ids[at]] += sums[at]
                    if ids[at] >> 32:
                        sums[(ids[at] >> 32) - 1] += sums[at]
    return good


def count_addresses(const uint8_t[::1] addresses, const uint8_t[::1] offsets):
    """(nodes with a record, those of them with an address, nodes without a record that have one)."""
    cdef int64_t n = addresses.shape[0] // 8, node, records = 0, objects = 0, others = 0
    cdef uint64_t address
    if offsets.shape[0] != 4 * n or addresses.shape[0] != 8 * n:
        raise ValueError("arrays that do not fit")
    with nogil:
        for node in range(n):
            memcpy(&address, &addresses[8 * node], 8)
            if offset_of(&offsets[0], node):
                records += 1
                objects += address != 0
            else:
                others += address != 0
    return records, objects, others


# ways of types ----------------------------------------------------------------------------------------------------------

def group_ways(
    const uint32_t[::1] order,
    int64_t done,
    const uint32_t[::1] parent,
    const uint32_t[::1] types,
    int64_t most_steps,
    int32_t[::1] slots,
    uint64_t[::1] ways,
    uint32_t[::1] steps,
    int64_t count,
    uint64_t key,
    uint32_t[::1] way,
):
    """Number the ways of types on which nodes are reached, in ``order``, in which a node stands behind its parent; a step to the same type again is
    none. Of each way ``ways`` has the way before (high half, plus 1; 0: none) and the type; ``way`` is NONE of nodes beyond ``most_steps``.
    (done, count): fewer than all where there is no room for one more.
    """
    cdef int64_t n = parent.shape[0], size = slots.shape[0], room = ways.shape[0], at = done, slot
    cdef uint32_t node, above, before, step
    cdef uint64_t value
    cdef int32_t found
    if (
        types.shape[0] != n or way.shape[0] != n or steps.shape[0] != room or size & (size - 1) or size < 2 * room
        or not 0 <= count <= room or done < 0
    ):
        raise ValueError("arrays that do not fit")
    with nogil:
        while at < order.shape[0]:
            node = order[at]
            if node >= n:
                at += 1
                continue
            above, step = parent[node], 0
            value = types[node]
            if above < n:
                before = way[above]
                if before >= count:
                    at += 1
                    continue
                if <uint32_t> ways[before] == types[node]:
                    way[node] = before
                    at += 1
                    continue
                step = steps[before] + 1
                value |= (<uint64_t> before + 1) << 32
            if step > most_steps:
                at += 1
                continue
            slot = <int64_t> ((value * key) >> 32) & (size - 1)
            while True:
                found = slots[slot]
                if found < 0 or found >= count or ways[found] == value:
                    break
                slot = (slot + 1) & (size - 1)
            if found < 0 or found >= count:
                if count >= room:
                    break
                found = <int32_t> count
                ways[count] = value
                steps[count] = step
                slots[slot] = found
                count += 1
            way[node] = <uint32_t> found
            at += 1
    return at, count


def mark_below(const uint32_t[::1] order, const uint32_t[::1] parent, uint8_t[::1] marks):
    """Mark what is reached by way of what is marked."""
    cdef int64_t n = parent.shape[0], at
    cdef uint32_t node
    if marks.shape[0] != n:
        raise ValueError("arrays that do not fit")
    with nogil:
        for at in range(order.shape[0]):
            node = order[at]
            if node < n and parent[node] < n and marks[parent[node]]:
                marks[node] = 1
