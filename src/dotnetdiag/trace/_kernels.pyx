# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops over the frames of all stacks, and over the exceptions of all threads, without the GIL. Called through ``kernels.py``; ``fallback.py`` does the same by
numpy.

Rule 1: nothing is allocated here. A loop that needs larger arrays stops before the stack that may not fit.
Rule 2: arrays that do not fit each other raise ValueError before anything is written, and so do numbers in them that lead
outside of another array, before that one is touched.
Rule 3: hash tables are open, of a power of two slots, at most half of them in use; callers hand them in all 0, which is a
free slot. A file chooses its addresses and which frames call each other, so random keys choose the slots.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport llabs
from libc.string cimport memcpy


cdef enum:
    KEYS = 3
    ROOT = 0
    RANK_SHIFT = 40
    ON_WAY = -2
    CIRCLE = -1

BROKEN_TREE = "no root, a node that stands before its parent, or a frame that is not there"


cdef struct Table:
    int32_t* slots
    uint64_t mask
    int shift  # which leaves as many bits of 64 as the number of a slot has
    const uint64_t* keys
    int64_t room  # how many numbers there may be, the first included
    int64_t passed  # slots of others that a search went over


cdef Table table_of(int32_t[::1] slots, const uint64_t[::1] keys, int64_t numbers, int64_t count) except *:
    """A table over slots that are all 0, with room for ``numbers`` if there are so many slots, and at least for ``count``."""
    cdef Table table
    cdef int64_t size = slots.shape[0]
    if keys.shape[0] < KEYS or size < 2 or size & (size - 1):
        raise ValueError(f"{size} slots, {keys.shape[0]} keys")
    table.room = min(numbers, size // 2, <int64_t>INT32_MAX)
    if not 0 <= count <= table.room:
        raise ValueError(f"no room for {count}")
    table.slots, table.mask, table.keys, table.passed = &slots[0], <uint64_t>size - 1, &keys[0], 0
    table.shift = 64
    while size > 1:
        size >>= 1
        table.shift -= 1
    return table


cdef inline uint64_t next_slot(Table* table, uint64_t slot) noexcept nogil:
    table.passed += 1
    return (slot + 1) & table.mask


cdef int check_nodes(const int32_t[::1] parent, const int32_t[::1] frame, int64_t kinds) except -1:
    """That parents stand before their children, and that there are so many frames."""
    cdef int64_t n
    cdef uint32_t wrong = 0, end = <uint32_t>min(kinds, <int64_t>INT32_MAX)
    check_lengths(parent.shape[0], frame.shape[0])
    for n in range(1, parent.shape[0]):
        wrong |= <uint32_t>(<uint32_t>parent[n] >= <uint32_t>n) | <uint32_t>(<uint32_t>frame[n] >= end)
    if wrong or parent.shape[0] < 1:
        raise ValueError(BROKEN_TREE)
    return 0


cdef int check_offsets(const int64_t[::1] offsets, int64_t total) except -1:
    """That each stack begins where the one before ends, and all lie within an array of so many frames."""
    cdef int64_t n
    cdef bint wrong = offsets.shape[0] < 1 or offsets[0] < 0 or offsets[offsets.shape[0] - 1] > total
    for n in range(offsets.shape[0] - 1):
        wrong |= offsets[n] > offsets[n + 1]
    if wrong:
        raise ValueError(f"stacks that do not follow each other in {total} frames")
    return 0


cdef int check_lengths(int64_t one, int64_t other) except -1:
    if one != other:
        raise ValueError(f"arrays differ in length: {one}, {other}")
    return 0


# what is added up between marks ----------------------------------------------------------------------------------------


cdef enum:
    AMOUNTS_TOGETHER = 32  # as of `nettrace.piece`

cdef int64_t NEVER = -(<int64_t>1 << 62) - (<int64_t>1 << 62)  # the earliest time there is


def rank(
    const int64_t[:, :] items not None, const int64_t[::1] ranks not None, int64_t run, int64_t event, int64_t first,
    int64_t[:, ::1] out not None, int64_t at,
):
    """Items in columns, whose second number is an order, into those of ``out`` from ``at`` on. The order is 1 + a run in the high 32 bits, or 0 there,
    and a place among events; ``run`` and ``event`` of them are before these. It becomes the rank of the run, or 0, and the place, ``first`` of which are
    before all.
    """
    cdef int64_t count = items.shape[1], rows = items.shape[0], n, row
    if not 2 <= rows == out.shape[0] or at < 0 or count > out.shape[1] - at:
        raise ValueError(f"no room for {rows} times {count}")
    check_runs(items, ranks.shape[0], run)
    with nogil:
        for row in range(rows):
            for n in range(count):
                out[row, at + n] = items[row, n]
        for n in range(count):
            out[1, at + n] = ranked(items[1, n], ranks, run) + first - event


cdef int check_runs(const int64_t[:, :] items, int64_t known, int64_t run) except -1:
    """That each run of the orders has a rank."""
    cdef int64_t n, which
    for n in range(items.shape[1]):
        which = items[1, n] >> 32
        if which != 0 and not 0 < which - run <= known:
            raise ValueError(f"a run beyond {known}")
    return 0


cdef inline int64_t ranked(int64_t order, const int64_t[::1] ranks, int64_t run) noexcept nogil:
    cdef int64_t which = order >> 32
    return ((ranks[which - run - 1] << RANK_SHIFT) if which else 0) + <int64_t><uint32_t>order


cdef inline bint is_before(const int64_t[:, ::1] marks, int64_t place, int64_t time, int64_t order) noexcept nogil:
    return marks[0, place] < time or (marks[0, place] == time and marks[1, place] < order)


def add_between(
    int64_t[:, ::1] amounts not None, int64_t rows, const int64_t[:, ::1] marks not None, int64_t until, int64_t[::1] sums not None
):
    """Add each of so many amounts of a time before ``until`` to that of the marks before it, which ascend. The others become the first: how many."""
    cdef int64_t count = marks.shape[1], n, kept = 0, place = 0, row
    check_lengths(count + 1, sums.shape[0])
    if amounts.shape[0] != 3 or marks.shape[0] != 2 or not 0 <= rows <= amounts.shape[1]:
        raise ValueError("no room for times, orders and amounts")
    with nogil:
        for n in range(rows):
            if amounts[0, n] >= until:
                for row in range(3):
                    amounts[row, kept] = amounts[row, n]
                kept += 1
                continue
            place = between(marks, place, amounts[0, n], amounts[1, n])
            sums[place] = <int64_t>(<uint64_t>sums[place] + <uint64_t>amounts[2, n])
    return kept


cdef inline int64_t between(const int64_t[:, ::1] marks, int64_t place, int64_t time, int64_t order) noexcept nogil:
    """How many marks are before; mostly as many as before the last one, ``place``."""
    cdef int64_t count = marks.shape[1], low, high, middle
    if not ((place < count and is_before(marks, place, time, order)) or (place > 0 and not is_before(marks, place - 1, time, order))):
        return place
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if is_before(marks, middle, time, order):
            low = middle + 1
        else:
            high = middle
    return low


def rank_between(
    const int64_t[:, :] items not None, const int64_t[:, ::1] together not None, int64_t skipped, const int64_t[::1] ranks not None,
    int64_t run, int64_t event, int64_t first, const int64_t[:, ::1] marks not None, int64_t until, int64_t[::1] sums not None,
    int64_t[:, ::1] out not None, int64_t at,
):
    """As ``rank`` of amounts and then ``add_between``, of which the others stand in ``out`` from ``at`` on: how many. ``together``: of each
    ``AMOUNTS_TOGETHER``, of which ``skipped`` are before these, the earliest time, the latest, and their sum.
    """
    cdef int64_t rows = items.shape[1], known = ranks.shape[0], n = 0, end, kept = at, place = 0, of, order, which
    cdef bint is_good = True
    check_lengths(marks.shape[1] + 1, sums.shape[0])
    if items.shape[0] != 3 or marks.shape[0] != 2 or out.shape[0] != 3 or at < 0 or rows > out.shape[1] - at:
        raise ValueError("no room for times, orders and amounts")
    if together.shape[0] != 3 or skipped < 0 or (skipped + rows + AMOUNTS_TOGETHER - 1) // AMOUNTS_TOGETHER > together.shape[1]:
        raise ValueError("no room for sums of amounts")
    with nogil:
        while n < rows and is_good:
            of = (skipped + n) // AMOUNTS_TOGETHER
            end = min((of + 1) * AMOUNTS_TOGETHER - skipped, rows)
            if end - n == AMOUNTS_TOGETHER and together[1, of] < until:
                place = between(marks, place, together[0, of], NEVER)
                if place == marks.shape[1] or marks[0, place] > together[1, of]:  # all are between the same
                    sums[place] = <int64_t>(<uint64_t>sums[place] + <uint64_t>together[2, of])
                    n = end
                    continue
            while n < end:
                which = items[1, n] >> 32
                if which != 0 and not 0 < which - run <= known:
                    is_good = False
                    break
                order = ranked(items[1, n], ranks, run) + first - event
                if items[0, n] < until:
                    place = between(marks, place, items[0, n], order)
                    sums[place] = <int64_t>(<uint64_t>sums[place] + <uint64_t>items[2, n])
                else:
                    out[0, kept], out[1, kept], out[2, kept] = items[0, n], order, items[2, n]
                    kept += 1
                n += 1
    if not is_good:
        raise ValueError(f"a run beyond {known}")
    return kept - at


# addresses --------------------------------------------------------------------------------------------------------------


cdef struct Addresses:
    uint64_t* address
    uint8_t* exact
    int64_t count


cdef inline uint64_t address_slot(const Table* table, uint64_t address, uint8_t exact) noexcept nogil:
    """The high bits of the sum of the words of 4 bytes, each multiplied by a random key (multilinear hashing)."""
    cdef const uint64_t* keys = table.keys
    return (keys[0] * <uint32_t>address + keys[1] * (address >> 32) + keys[2] * exact) >> table.shift


cdef inline int32_t address_number(Table* table, Addresses* known, uint64_t address, uint8_t exact) noexcept nogil:
    """The number of an address, which is the next one when it is new: the caller knows that there is room."""
    cdef uint64_t slot = address_slot(table, address, exact)
    cdef int32_t number
    while table.slots[slot] != 0:
        number = table.slots[slot] - 1
        if known.address[number] == address and known.exact[number] == exact:
            return number
        slot = next_slot(table, slot)
    number = <int32_t>known.count
    table.slots[slot] = number + 1
    known.address[number] = address
    known.exact[number] = exact
    known.count += 1
    return number


def intern_addresses(
    const uint64_t[::1] addresses not None, const int64_t[::1] offsets not None, uint64_t kernel, int64_t first, int64_t count,
    int32_t[::1] codes not None, uint64_t[::1] unique not None, uint8_t[::1] exact not None, int32_t[::1] slots not None,
    const uint64_t[::1] keys not None,
):
    """Number the addresses of stacks ``first`` and following, after the ``count`` that have numbers: (stack where it stopped,
    numbers given, slots passed over).

    An address that is exact (of a leaf, or of user code under the kernel's, whose addresses begin at ``kernel``) and
    the same one as a return address are two.
    """
    check_lengths(addresses.shape[0], codes.shape[0])
    check_lengths(unique.shape[0], exact.shape[0])
    check_offsets(offsets, addresses.shape[0])
    cdef int64_t stacks = offsets.shape[0] - 1, stack = first, k, n
    cdef uint64_t address, before, slot
    cdef Table table = table_of(slots, keys, unique.shape[0], count)
    cdef Addresses known = Addresses(&unique[0], &exact[0], count)
    if first < 0:
        raise ValueError("no such stack")
    with nogil:
        for n in range(count):
            slot = address_slot(&table, unique[n], exact[n])
            while table.slots[slot] != 0:
                slot = next_slot(&table, slot)
            table.slots[slot] = <int32_t>n + 1
        while stack < stacks and known.count + offsets[stack + 1] - offsets[stack] <= table.room:
            before = 0
            for k in range(offsets[stack], offsets[stack + 1]):
                address = addresses[k]
                codes[k] = address_number(
                    &table, &known, address, k == offsets[stack] or (before >= kernel and address < kernel)
                )
                before = address
            stack += 1
    return stack, known.count, table.passed


# nodes ------------------------------------------------------------------------------------------------------------------


cdef struct Nodes:
    int32_t* parent
    int32_t* frame
    int64_t count


cdef inline uint64_t node_slot(const Table* table, int32_t parent, int32_t frame) noexcept nogil:
    cdef const uint64_t* keys = table.keys
    return (keys[0] * <uint32_t>parent + keys[1] * <uint32_t>frame) >> table.shift


cdef inline int32_t child_of(Table* table, Nodes* nodes, int32_t parent, int32_t frame) noexcept nogil:
    """The node of a frame under a parent, which is the next one when it is new: the caller knows that there is room."""
    cdef uint64_t slot = node_slot(table, parent, frame)
    cdef int32_t node
    while table.slots[slot] != 0:
        node = table.slots[slot]
        # the last node has no children yet: there is nothing to compare with, which would be far away in memory
        if parent + 1 < nodes.count and nodes.parent[node] == parent and nodes.frame[node] == frame:
            return node
        slot = next_slot(table, slot)
    node = <int32_t>nodes.count
    table.slots[slot] = node
    nodes.parent[node] = parent
    nodes.frame[node] = frame
    nodes.count += 1
    return node


def intern_paths(
    const int32_t[::1] codes not None, const int32_t[::1] frame_of_code not None, const int64_t[::1] offsets not None,
    int64_t first, int64_t count, int32_t[::1] leaves not None, int32_t[::1] parent not None, int32_t[::1] frame not None,
    int32_t[::1] slots not None, const uint64_t[::1] keys not None,
):
    """Put paths ``first`` and following, leaf first, into a tree of ``count`` nodes: (path where it stopped, nodes, slots
    passed over). Frames below 0 are left out.
    """
    check_lengths(leaves.shape[0], offsets.shape[0] - 1)
    check_lengths(parent.shape[0], frame.shape[0])
    check_offsets(offsets, codes.shape[0])
    cdef int64_t paths = leaves.shape[0], path = first, kinds = frame_of_code.shape[0], k, n
    cdef int32_t node, code
    cdef uint64_t slot
    cdef bint strange = False
    cdef Table table = table_of(slots, keys, parent.shape[0], count)
    cdef Nodes nodes = Nodes(&parent[0], &frame[0], count)
    if first < 0 or count < 1:
        raise ValueError("no such path, or no root")
    with nogil:
        for n in range(1, count):
            slot = node_slot(&table, parent[n], frame[n])
            while table.slots[slot] != 0:
                slot = next_slot(&table, slot)
            table.slots[slot] = <int32_t>n
        while path < paths and not strange and nodes.count + offsets[path + 1] - offsets[path] <= table.room:
            node = ROOT
            for k in range(offsets[path + 1] - 1, offsets[path] - 1, -1):
                code = codes[k]
                if not 0 <= code < kinds:
                    strange = True
                    break
                if frame_of_code[code] >= 0:
                    node = child_of(&table, &nodes, node, frame_of_code[code])
            leaves[path] = node
            path += 1
    if strange:
        raise ValueError(f"a code that is not below {kinds}")
    return path, nodes.count, table.passed


def remap(
    const int32_t[::1] parent not None, const int32_t[::1] frame not None, const int32_t[::1] new_frame not None, bint merge,
    int32_t[::1] new_parent not None, int32_t[::1] new_frames not None, int32_t[::1] new_node not None,
    int32_t[::1] slots not None, const uint64_t[::1] keys not None,
):
    """How many nodes the tree has whose frames are exchanged (below 0: left out); with ``merge`` a frame that calls itself is
    one.
    """
    cdef int64_t count = parent.shape[0], n
    cdef int32_t above, wanted
    for length in (new_parent.shape[0], new_frames.shape[0], new_node.shape[0]):
        check_lengths(count, length)
    check_nodes(parent, frame, new_frame.shape[0])
    cdef Table table = table_of(slots, keys, count, count)
    cdef Nodes nodes = Nodes(&new_parent[0], &new_frames[0], 1)
    with nogil:
        new_parent[ROOT] = new_frames[ROOT] = -1
        new_node[ROOT] = ROOT
        for n in range(1, count):
            above = new_node[parent[n]]
            wanted = new_frame[frame[n]]
            if wanted < 0 or (merge and new_frames[above] == wanted):
                new_node[n] = above
            else:
                new_node[n] = child_of(&table, &nodes, above, wanted)
    return nodes.count


# the shape of a tree ----------------------------------------------------------------------------------------------------


def add_to_parents(const int32_t[::1] parent not None, double[::1] weights not None):
    """Exclusive weights become inclusive ones, in place.

    Most nodes follow their parent: what goes from one to the next is carried along rather than read again.
    """
    cdef int64_t nodes = parent.shape[0], n
    cdef int32_t above
    cdef double carried
    cdef bint strange = False
    check_lengths(nodes, weights.shape[0])
    if nodes < 1:
        return
    carried = weights[nodes - 1]
    with nogil:
        for n in range(nodes - 1, 0, -1):
            above = parent[n]
            if above == n - 1:
                carried += weights[above]
                weights[above] = carried
            elif 0 <= above < n:
                weights[above] += carried
                carried = weights[n - 1]
            else:
                strange = True
                break
    if strange:
        raise ValueError(BROKEN_TREE)


def depths(const int32_t[::1] parent not None, int32_t[::1] depth not None):
    """How many frames stand above each node, itself included; the root's is 0 already."""
    cdef int64_t n
    cdef int32_t above = 0
    cdef bint strange = False
    check_lengths(parent.shape[0], depth.shape[0])
    with nogil:
        for n in range(1, parent.shape[0]):
            if parent[n] == n - 1:
                above += 1
            elif 0 <= parent[n] < n:
                above = depth[parent[n]] + 1
            else:
                strange = True
                break
            depth[n] = above
    if strange:
        raise ValueError(BROKEN_TREE)


def levels(const int32_t[::1] above not None, int32_t[::1] depth not None, int64_t first, int64_t last, int32_t deepest):
    """The levels of these rows and of all that they are below, which may stand anywhere; those of other rows stay.

    A way up ends at a row whose level is known, or at the top; it is gone once more, now with the level of each. Rows on the way are ``ON_WAY``: who
    meets one again is below itself.
    """
    cdef int64_t rows = above.shape[0], row, at
    cdef int64_t on_way
    cdef int32_t up, level
    cdef bint strange = False
    check_lengths(rows, depth.shape[0])
    if not 0 <= first <= last <= rows or deepest < 1:
        raise ValueError(f"rows {first} to {last} of {rows}, {deepest} levels")
    with nogil:
        for row in range(first, last):
            if depth[row]:
                continue
            at, on_way = row, 0
            while True:
                depth[at] = ON_WAY
                on_way += 1
                up = above[at]
                if up < 0:
                    level = 0
                    break
                if up >= rows:
                    strange = True
                    break
                level = depth[up]
                if level == ON_WAY or level == CIRCLE:
                    level = CIRCLE
                    break
                if level:
                    break
                at = up
            if strange:
                break
            at = row
            while on_way:
                depth[at] = CIRCLE if level == CIRCLE else <int32_t>((level + on_way - 1) % deepest + 1)
                on_way -= 1
                at = above[at]
    if strange:
        raise ValueError(f"a row that is below one that is not among {rows}")


def children(const int32_t[::1] parent not None, int32_t[::1] child not None, int32_t[::1] sibling not None):
    """First child and next sibling of each node, in the order of their numbers, into arrays of zeros."""
    cdef int64_t n
    cdef int32_t above
    cdef bint strange = False
    check_lengths(parent.shape[0], child.shape[0])
    check_lengths(parent.shape[0], sibling.shape[0])
    with nogil:
        for n in range(parent.shape[0] - 1, 0, -1):
            above = parent[n]
            if not 0 <= above < n:
                strange = True
                break
            sibling[n] = child[above]
            child[above] = <int32_t>n
    if strange:
        raise ValueError(BROKEN_TREE)


def outermost(
    const int32_t[::1] parent not None, const int32_t[::1] frame not None, const int32_t[::1] child not None,
    const int32_t[::1] sibling not None, int32_t[::1] open_frames not None, uint8_t[::1] marks not None,
):
    """Mark nodes that have no caller of the same frame: one walk through the tree, with the frames that are open, of which
    there are none yet.
    """
    cdef int64_t count = parent.shape[0], left = count
    cdef int32_t node, opened
    for length in (child.shape[0], sibling.shape[0], marks.shape[0]):
        check_lengths(count, length)
    check_nodes(parent, frame, open_frames.shape[0])
    with nogil:
        node = child[ROOT]
        while 0 < node < count and left > 0:
            left -= 1
            opened = open_frames[frame[node]]
            open_frames[frame[node]] = opened + 1
            marks[node] = opened == 0
            if child[node] != 0:
                node = child[node]
                continue
            while node != ROOT:
                open_frames[frame[node]] -= 1
                if sibling[node] != 0:
                    node = sibling[node]
                    break
                node = parent[node]
    if node != ROOT:
        raise ValueError("children that are not those of the tree")


def expand(
    const int32_t[::1] parent not None, const int32_t[::1] frame not None, const int32_t[::1] nodes not None,
    const int64_t[::1] offsets not None, int32_t[::1] frames not None,
):
    """The frames from each node up to the root, one path behind another."""
    cdef int64_t count = parent.shape[0], k, at = 0
    cdef int32_t node = ROOT
    cdef bint whole = True
    check_lengths(count, frame.shape[0])
    check_lengths(nodes.shape[0], offsets.shape[0] - 1)
    check_offsets(offsets, frames.shape[0])
    with nogil:
        for k in range(nodes.shape[0]):
            node = nodes[k]
            at = offsets[k]
            while 0 < node < count and at < offsets[k + 1]:
                frames[at] = frame[node]
                node = parent[node]
                at += 1
            whole &= node == ROOT and at == offsets[k + 1]
    if not whole:
        raise ValueError("paths of other lengths")


cdef enum:
    THROWN = 0
    THROWN_ALONE = 1
    CAUGHT = 2
    CATCH_OVER = 3
    FILTER = 4
    FILTER_OVER = 5
    FINALLY = 6

    WHICH = 0
    STATE = 1
    METHOD = 2
    CATCH = 3
    LAST_FILTER = 4
    LAST_CATCH = 5
    FRAMES = 6
    PARTS = 7

    RISEN = 0
    HELD = 1
    FILTERED = 2


def follow_exceptions(
    const int64_t[::1] thread not None, const uint8_t[::1] kind not None, const int64_t[::1] method not None,
    const int64_t[::1] frames not None, int64_t[::1] owner not None, int64_t[::1] partner not None,
    int64_t[::1] within not None, int64_t[:, ::1] opened not None,
):
    """See ``kernels.follow_exceptions``. ``opened`` has a row for each exception and filter that is open: its throw, state, method, the catch that
    has it or the event of the filter, the last rows below it that are a filter, and an exception that a catch has, and the frames of a filter.
    """
    cdef int64_t count = thread.shape[0], depth = opened.shape[0], i, top = -1, last_filter = -1, last_catch = -1, low
    cdef uint8_t what
    cdef bint is_inside, is_strange
    for length in (kind.shape[0], method.shape[0], frames.shape[0], owner.shape[0], partner.shape[0], within.shape[0]):
        check_lengths(count, length)
    check_lengths(PARTS, opened.shape[1])
    if depth < 1:
        raise ValueError("no room for what is open")
    with nogil:
        for i in range(count):
            what = kind[i]
            owner[i] = partner[i] = within[i] = -1
            if i == 0 or thread[i] != thread[i - 1] or what == THROWN_ALONE or top + 1 == depth:
                top = last_filter = last_catch = -1
            while last_filter >= 0 and 0 < frames[i] <= llabs(opened[last_filter, FRAMES]) - (what == FILTER_OVER):
                partner[opened[last_filter, CATCH]] = i
                top = last_filter - 1
                last_filter, last_catch = opened[top + 1, LAST_FILTER], opened[top + 1, LAST_CATCH]
            is_inside = last_filter >= 0 and 0 < opened[last_filter, FRAMES] < llabs(frames[i])
            low = top + 1  # rows from here on are over
            if what == FILTER_OVER:
                if last_filter >= 0 and not is_inside:
                    low = last_filter
                    owner[i] = opened[low, WHICH]
                    partner[opened[low, CATCH]] = i
            elif what == CATCH_OVER:
                if last_catch > last_filter:
                    low = last_catch
                    owner[i] = opened[low, WHICH]
                    partner[opened[low, CATCH]] = i
            elif what == CAUGHT or what == FILTER:
                if last_filter >= 0 and not is_inside and 0 <= method[i] == opened[last_filter, METHOD]:
                    low = last_filter
                    partner[opened[low, CATCH]] = i
            if low <= top:
                last_filter, last_catch = opened[low, LAST_FILTER], opened[low, LAST_CATCH]
                top = low - 1
            is_strange = is_inside and top == last_filter  # of one whose throw is not told, unless it is a throw
            if is_strange and (what == CAUGHT or what == FINALLY):
                continue
            if what == CAUGHT:
                while top >= 0 and opened[top, STATE] == FILTERED:
                    last_filter, last_catch = opened[top, LAST_FILTER], opened[top, LAST_CATCH]
                    top -= 1
                if top >= 0:
                    owner[i] = opened[top, WHICH]
                    if opened[top, STATE] == RISEN:
                        partner[owner[i]] = i
                        opened[top, STATE] = HELD
                        last_catch = top
                    opened[top, CATCH] = i
            elif what == FINALLY:
                owner[i] = opened[top, WHICH] if top >= 0 else -1
            if 0 <= last_filter < top and not is_inside and (what == CAUGHT or what == FINALLY or what == FILTER):
                within[i] = opened[last_filter, CATCH]
            if what == FILTER or what == THROWN or what == THROWN_ALONE:
                top += 1
                opened[top, LAST_FILTER], opened[top, LAST_CATCH] = last_filter, last_catch
                if what == FILTER:
                    owner[i] = opened[top - 1, WHICH] if top > 0 and not is_strange else -1
                    opened[top, STATE] = FILTERED
                    last_filter = top
                else:
                    owner[i] = i
                    opened[top, STATE] = RISEN
                opened[top, WHICH] = owner[i]
                opened[top, METHOD], opened[top, FRAMES] = method[i], frames[i]
                opened[top, CATCH] = i if what == FILTER else -1
