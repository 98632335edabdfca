# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops over every event, without the GIL; ``fallback.py`` does the same without a compiler.

Rule 1: every bound is tested before anything is read or written: whatever the bytes are, and though they change meanwhile
(a mapped file that somebody writes to).
Rule 2: every block starts from zero state (nettrace.md §5.5), so blocks can be given to several threads.
Rule 3: nothing is allocated here; callers hand in arrays. Structs that they share are numpy types in ``kernel_types.py``,
and a call with others raises ValueError.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from dotnetdiag.wire.prefetch cimport prefetch_once, prefetch_until

cdef extern from *:
    """
    #include <stdlib.h>
    #if defined(__GLIBC__)
    #include <fcntl.h>
    #include <malloc.h>
    #include <string.h>
    #include <unistd.h>
    static long long dotnetdiag_resident(void)
    {
        char text[128], *behind = NULL;
        int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
        ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
        if (file >= 0)
            close(file);
        if (size > 0) {
            text[size] = 0;
            behind = strchr(text, ' ');
        }
        return behind ? strtoll(behind, NULL, 10) * sysconf(_SC_PAGESIZE) : -1;
    }
    static void dotnetdiag_give_back(long long from)
    {
        long long resident = dotnetdiag_resident();
        if (resident < 0 || resident >= from)
            malloc_trim(0);
    }
    static void dotnetdiag_keep(int bytes, int most) { mallopt(M_MMAP_THRESHOLD, bytes); mallopt(M_TRIM_THRESHOLD, most); }
    #else
    static void dotnetdiag_give_back(long long from) { (void)from; }
    static void dotnetdiag_keep(int bytes, int most) { (void)bytes; (void)most; }
    #endif
    """
    void dotnetdiag_give_back(long long start) noexcept nogil
    void dotnetdiag_keep(int bytes, int most) noexcept nogil

cdef extern from *:
    """
    #include <string.h>
    #if !defined(_WIN32)
    #include <signal.h>
    #include <unistd.h>
    static char dotnetdiag_said[1024];
    static size_t dotnetdiag_size;
    static int dotnetdiag_code;
    static void dotnetdiag_on_bus_error(int number) {
        (void)number;
        if (write(2, dotnetdiag_said, dotnetdiag_size) < 0) {}
        _exit(dotnetdiag_code);
    }
    static int dotnetdiag_say_on_bus_error(const char *text, size_t size, int code) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_handler = dotnetdiag_on_bus_error;
        if (size > sizeof dotnetdiag_said) size = sizeof dotnetdiag_said;
        memcpy(dotnetdiag_said, text, size);
        dotnetdiag_size = size;
        dotnetdiag_code = code;
        return sigaction(SIGBUS, &action, 0);
    }
    #else
    static int dotnetdiag_say_on_bus_error(const char *text, size_t size, int code) {
        (void)text; (void)size; (void)code;
        return 0;
    }
    #endif
    """
    int dotnetdiag_say_on_bus_error(const char* text, size_t size, int code) noexcept nogil

cdef extern from *:
    """
    #include <stddef.h>
    #if !defined(_WIN32)
    #include <sys/mman.h>
    static int dotnetdiag_let_go(void *at, size_t size) { return madvise(at, size, MADV_DONTNEED); }
    #else
    static int dotnetdiag_let_go(void *at, size_t size) { (void)at; (void)size; return -1; }
    #endif
    """
    int dotnetdiag_let_go(void* at, size_t size) noexcept nogil

cdef extern from *:
    """
    #if !defined(_WIN32)
    #include <unistd.h>
    static int64_t dotnetdiag_read_at(int fd, void *to, size_t size, int64_t at) { return pread(fd, to, size, (off_t)at); }
    #else
    static int64_t dotnetdiag_read_at(int fd, void *to, size_t size, int64_t at) { (void)fd; (void)to; (void)size; (void)at; return -1; }
    #endif
    """
    int64_t dotnetdiag_read_at(int fd, void* to, size_t size, int64_t at) noexcept nogil

ctypedef const uint8_t* Bytes

cdef enum:
    NOWHERE = -1

cdef enum Problem:
    NO_PROBLEM = 0
    BROKEN_HEADER = 1
    CUT_PAYLOAD = 2
    BAD_SIZE = 3

PROBLEMS = (NO_PROBLEM, BROKEN_HEADER, CUT_PAYLOAD, BAD_SIZE)

# what the first byte of an event states
cdef enum States:
    METADATA_ID = 1
    NUMBER = 2  # sequence number, capture thread and processor
    THREAD = 4
    STACK = 8
    ACTIVITY = 16
    LABELS = 16  # nettrace 6
    RELATED = 32
    IS_SORTED = 64
    SIZE = 128

cdef enum:
    GUID_BYTES = 16
    TAG_END_OBJECT = 6
    LEAST_BLOCK_HEADER = 20
    LARGEST_BLOCK_HEADER = 0x7FFF
    LARGEST_BLOCK = 0x7FFFFFFF
    COMPRESSED = 1
    LARGEST_ROW_HEADER = 96  # asked for; flags 1, five varuints of 32 bits 25, three of 64 bits 30, two GUIDs 32
    SHORT_RUN = 6

cdef enum:
    READ_AHEAD = 2048  # of events

cdef int64_t FARTHEST = <int64_t>1 << 62  # offset of the data in a trace: sums with positions in the data do not wrap
cdef uint64_t MULTIPLIER = 0x1E3779B97F4A7C15  # as in ids.py: the high bits of a product depend on all bits of its factors


# varuints -------------------------------------------------------------------------------------------------------------


cdef inline int64_t take(Bytes data, int64_t at, int64_t end, int last, uint8_t most, uint64_t* value) noexcept nogil:
    """Read the varuint at ``at``, at most up to the byte at shift ``last``, which may be ``most``; the position behind it, or NOWHERE
    when it does not end or does not fit.
    """
    cdef uint64_t byte, sum
    cdef int shift = 7
    if at >= end:
        return NOWHERE
    byte = data[at]
    at += 1
    if byte < 0x80:
        value[0] = byte
        return at
    sum = byte & 0x7F
    while shift <= last and at < end:
        byte = data[at]
        at += 1
        sum |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == last and byte > most:
                return NOWHERE
            value[0] = sum
            return at
        shift += 7
    return NOWHERE


cdef inline int64_t take64(Bytes data, int64_t at, int64_t end, uint64_t* value) noexcept nogil:
    """One of 64 bits."""
    return take(data, at, end, 63, 1, value)


cdef inline int64_t take32(Bytes data, int64_t at, int64_t end, uint32_t* value) noexcept nogil:
    """One of 32 bits."""
    cdef uint64_t wide = value[0]
    at = take(data, at, end, 28, 0x0F, &wide)
    value[0] = <uint32_t>wide
    return at


cdef inline int64_t put(uint8_t* out, int64_t at, uint64_t value) noexcept nogil:
    """Write a varuint; the position behind it."""
    while value >= 0x80:
        out[at] = <uint8_t>(value & 0x7F | 0x80)
        value >>= 7
        at += 1
    out[at] = <uint8_t>value
    return at + 1


cdef inline int64_t u32(Bytes data, int64_t at) noexcept nogil:
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16 | <int64_t>data[at + 3] << 24


# event headers --------------------------------------------------------------------------------------------------------


cdef struct Header:
    # of one event: what it does not state is as in the event before
    uint64_t capture_thread
    uint64_t thread
    uint64_t time
    int64_t activity_at  # where the 16 bytes stand; NOWHERE: none
    int64_t related_at
    uint32_t metadata_id
    uint32_t sequence
    uint32_t processor
    uint32_t stack
    uint32_t labels
    uint32_t size
    uint32_t states


cdef inline void begin(Header* header) noexcept nogil:
    """Zero state, in which every block begins."""
    header.capture_thread = header.thread = header.time = 0
    header.activity_at = header.related_at = NOWHERE
    header.metadata_id = header.sequence = header.processor = header.stack = header.labels = 0
    header.size = header.states = 0


cdef inline uint32_t step(const Header* header, bint v6) noexcept nogil:
    """By how much the number of an event goes up that does not state it."""
    return 1 if v6 or header.metadata_id != 0 else 0


cdef inline int64_t parse(Bytes data, int64_t at, int64_t end, bint v6, Header* header) noexcept nogil:
    """Read the compressed header at ``at`` (nettrace.md §5.5, §6.2), which is before ``end``; where its payload begins, or
    NOWHERE when the header is broken or does not end before ``end``. Then ``header`` is worth nothing.

    A function of its own, not inlined: several loops call it, for the events that state more than their time.
    """
    cdef uint32_t states = data[at], jump = 0
    cdef uint64_t delta = 0
    header.states = states
    at += 1
    if states & (METADATA_ID | NUMBER | THREAD | STACK):
        if states & METADATA_ID:
            at = take32(data, at, end, &header.metadata_id)
            if at < 0:
                return NOWHERE
        if states & NUMBER:
            at = take32(data, at, end, &jump)
            if at < 0:
                return NOWHERE
            header.sequence += jump + 1
            at = take64(data, at, end, &header.capture_thread)
            if at < 0:
                return NOWHERE
            at = take32(data, at, end, &header.processor)
            if at < 0:
                return NOWHERE
        else:
            header.sequence += step(header, v6)
        if states & THREAD:
            at = take64(data, at, end, &header.thread)
            if at < 0:
                return NOWHERE
        if states & STACK:
            at = take32(data, at, end, &header.stack)
            if at < 0:
                return NOWHERE
    else:
        header.sequence += step(header, v6)
    at = take64(data, at, end, &delta)
    if at < 0:
        return NOWHERE
    header.time += delta
    if states & (ACTIVITY | RELATED | SIZE):
        if v6:
            if states & LABELS:
                at = take32(data, at, end, &header.labels)
                if at < 0:
                    return NOWHERE
        else:
            if states & ACTIVITY:
                header.activity_at = at
                at += GUID_BYTES
            if states & RELATED:
                header.related_at = at
                at += GUID_BYTES
        if states & SIZE:
            at = take32(data, at, end, &header.size)
            if at < 0:
                return NOWHERE
    return at if at <= end else NOWHERE


cdef inline int64_t pass_bare(Bytes data, int64_t at, int64_t end, int64_t size, int64_t* passed) noexcept nogil:
    """Pass over the events that state nothing but the time, with payloads of ``size`` bytes; where another one begins.

    Most events are such. There is no check but one as long as they cannot reach the end.
    """
    cdef int64_t safe = end - 4 - size, count = 0
    while at <= safe and data[at] & (0xFF ^ IS_SORTED) == 0:
        if data[at + 1] < 0x80:
            at += 2 + size
        elif data[at + 2] < 0x80:
            at += 3 + size
        elif data[at + 3] < 0x80:
            at += 4 + size
        else:
            break
        count += 1
    passed[0] = count
    return at


# ids ------------------------------------------------------------------------------------------------------------------


cdef packed struct Ids:
    # where in a table of entries (meaning, order of definition) the ids of a block stand, as ``ids.Snapshot`` has them:
    # those from ``base`` on in a row, then those far from it in a hash table of 4 words each
    int64_t start
    int64_t base
    int64_t near
    int64_t bits
    int64_t defined


cdef packed struct Meanings:
    Ids stacks
    Ids labels
    Ids metadata


cdef const uint32_t* find_far(const uint32_t* table, const Ids* ids, uint32_t number) noexcept nogil:
    cdef uint64_t mask = (<uint64_t>1 << ids.bits) - 1
    cdef uint64_t at = (<uint64_t>number * MULTIPLIER) >> (64 - ids.bits)
    cdef const uint32_t* slot
    cdef int n
    for n in range(128):
        slot = table + ids.start + 2 * ids.near + 4 * <int64_t>at
        if slot[0] == 0:
            return NULL
        if slot[2] == number:
            return slot if slot[1] <= ids.defined else NULL
        at = (at + 1) & mask
    return NULL


cdef inline const uint32_t* find(const uint32_t* table, const Ids* ids, uint32_t number) noexcept nogil:
    """The entry of an id: what it means, and its order; NULL when it is not defined."""
    cdef int64_t place = <int64_t>number - ids.base
    cdef const uint32_t* entry
    if 0 <= place < ids.near:
        entry = table + ids.start + 2 * place
        if entry[0] != 0:
            return entry if entry[1] <= ids.defined else NULL
    return find_far(table, ids, number) if ids.bits else NULL


cdef inline uint32_t meaning(const uint32_t* table, const Ids* ids, uint32_t number) noexcept nogil:
    """What an id stands for, 0 when it is not defined."""
    cdef const uint32_t* entry = find(table, ids, number)
    return 0 if entry == NULL else entry[0]


cdef bint lie_within(const Ids* ids, int64_t words) noexcept nogil:
    if not 0 <= ids.start <= words or ids.base >> 32 != 0 or not 0 <= ids.bits <= 40:
        return False
    words -= ids.start
    if not 0 <= ids.near <= words // 2:
        return False
    return ids.bits == 0 or <int64_t>4 << ids.bits <= words - 2 * ids.near


# blocks ---------------------------------------------------------------------------------------------------------------


cdef packed struct Block:
    # what was found in one block
    int64_t rows
    int64_t runs  # rows where the sequence number is stated; the first always
    int64_t guids  # that are stated
    int64_t stop  # behind the last good event
    int64_t problem  # what is wrong there
    int64_t missing  # bytes of a payload that is cut
    int64_t unknown_metadata  # events with an id that is not defined
    int64_t unknown_stack
    int64_t unknown_labels
    int64_t undefined_id  # of metadata, the first
    # of what `sift` made of it: rows that are kept, amounts, marks; the earliest time and the latest, and that of an event that is sorted
    int64_t kept
    int64_t amounts
    int64_t marks
    int64_t earliest
    int64_t latest
    int64_t until


cdef bint fit(
    int64_t size, const int64_t[::1] starts, const int64_t[::1] ends, Py_ssize_t first, Py_ssize_t last, Block[::1] blocks,
    const Meanings[::1] meanings, int64_t stacks, int64_t labels, int64_t metadata,
) noexcept:
    """Whether the blocks lie in the data and have rows in the arrays, and the tables of their ids lie in those."""
    cdef Py_ssize_t i
    if first < 0 or last > starts.shape[0] or last > ends.shape[0] or last > blocks.shape[0]:
        return False
    if meanings.shape[0] < 1 or (meanings.shape[0] > 1 and meanings.shape[0] < last):
        return False
    for i in range(meanings.shape[0]):
        if not lie_within(&meanings[i].stacks, stacks) or not lie_within(&meanings[i].labels, labels):
            return False
        if not lie_within(&meanings[i].metadata, metadata):
            return False
    for i in range(first, last):
        if starts[i] < 0 or ends[i] > size:
            return False
    return True


cdef enum:
    SIGHT = 256  # bytes that are read at the end of a block: its end, and how the next begins


def frame(
    const uint8_t[::1] data not None, int64_t position, int64_t base, bint v6, int64_t limit,
    const uint8_t[::1] opening not None, int64_t kind, int64_t[:, ::1] rows not None, int descriptor=-1,
):
    """Event blocks in their usual form that follow each other from ``position`` on; how many, at most ``rows`` hold.

    ``opening`` is how such an object opens (nettrace 4 and 5), ``kind`` the number of such a block (6). ``data[0]`` stands
    at ``base``. A row becomes (offset, start of the content, its size), absolute, and the size of the block's header.
    The first block that is cut, larger than ``limit``, or unusual in any way ends it, so that somebody else may look at it.

    Of the file of a ``descriptor`` that ``data`` maps from its begin on what is looked at is read: of a mapping the system brings 64 KB around each
    place into the process, 7 ms for the blocks of 77 MB.
    """
    cdef Bytes raw = &data[0], here, behind_it
    cdef uint8_t windows[2][SIGHT]
    cdef int64_t end = data.shape[0], at = position, offset, size, header, behind
    cdef Py_ssize_t found = 0
    if not 0 <= position <= end or not 0 <= base <= FARTHEST or rows.shape[1] < 4:
        return 0
    if base != 0 or 1 + opening.shape[0] + 4 + 3 + 4 > SIGHT:
        descriptor = -1
    with nogil:
        here = seen(raw, at, end, descriptor, windows[0])
        while here != NULL and found < rows.shape[0]:
            if v6:
                if end - at < 4:
                    break
                size = u32(here, 0)
                if size >> 24 != kind:
                    break
                size &= 0xFFFFFF
                offset = 4
                behind = at + offset + size
            else:
                offset = content_in(here, at + base, end - at, opening)
                if offset < 0:
                    break
                size = u32(here, opening.shape[0])
                behind = at + offset + size + 1
            if size < LEAST_BLOCK_HEADER or size > limit or behind > end:
                break
            header = block_header(here, offset, size)
            if header < 0:
                break
            behind_it = seen(raw, behind - (not v6), end, descriptor, windows[(found + 1) & 1])
            if behind_it == NULL:
                break
            if not v6:
                if behind_it[0] != TAG_END_OBJECT:
                    break
                behind_it += 1
            rows[found, 0] = at + base
            rows[found, 1] = at + offset + base
            rows[found, 2] = size
            rows[found, 3] = header
            found += 1
            at = behind
            here = behind_it
    return found


cdef inline Bytes seen(Bytes raw, int64_t at, int64_t end, int descriptor, uint8_t* window) noexcept nogil:
    """What stands at a place: in the memory itself, or read into the window; NULL where it cannot be read."""
    cdef int64_t size = min(end - at, SIGHT)
    if descriptor < 0:
        return raw + at
    return window if dotnetdiag_read_at(descriptor, window, size, at) == size else NULL


cdef inline int64_t content_in(Bytes here, int64_t place, int64_t room, const uint8_t[::1] opening) noexcept nogil:
    """How far from its begin, which stands at ``place``, the content of the object is, or NOWHERE when it does not open as usual."""
    cdef int64_t offset = opening.shape[0] + 4
    if offset > room or memcmp(here, &opening[0], opening.shape[0]) != 0:
        return NOWHERE
    return offset + (4 - (place + offset) % 4) % 4


cdef inline int64_t block_content(
    Bytes data, int64_t at, int64_t end, int64_t base, const uint8_t[::1] opening
) noexcept nogil:
    """Where it is."""
    cdef int64_t offset = content_in(data + at, at + base, end - at, opening)
    return NOWHERE if offset < 0 else at + offset


cdef inline int64_t block_header(Bytes data, int64_t start, int64_t size) noexcept nogil:
    """The size of a block's header, or NOWHERE when it or the flags are unusual."""
    cdef int64_t header = data[start] | data[start + 1] << 8
    if header < LEAST_BLOCK_HEADER or header > LARGEST_BLOCK_HEADER or header > size:
        return NOWHERE
    return header if data[start + 2] == COMPRESSED and data[start + 3] == 0 else NOWHERE


# count ----------------------------------------------------------------------------------------------------------------


cdef struct Tally:
    int64_t* events  # by the order of the metadata id's definition, from 1 on
    int64_t* payload_bytes
    int64_t width
    int64_t unknown  # events with an id that is not defined


cdef inline void add(Tally* tally, int64_t order, int64_t events, int64_t size) noexcept nogil:
    if 0 < order < tally.width:
        tally.events[order] += events
        tally.payload_bytes[order] += events * size
    else:
        tally.unknown += events


def count(
    const uint8_t[::1] data not None, const int64_t[::1] starts not None, const int64_t[::1] ends not None,
    Py_ssize_t first, Py_ssize_t last, bint v6, Block[::1] blocks not None, const Meanings[::1] meanings not None,
    const uint32_t[::1] metadata not None, int64_t[:, ::1] tally not None,
):
    """Check the compressed events of blocks ``first`` to ``last`` (exclusive), which lie from ``starts`` to ``ends`` in
    ``data``, and fill their rows of ``blocks``. False, and nothing is written, when arrays do not fit each other.

    ``tally`` (2 rows, may have no column) goes up by events and payload bytes for each metadata id in the order of their
    definitions, from 1 on. ``meanings``, one row or one per block, says where in ``metadata`` a block's ids stand.
    """
    cdef Py_ssize_t i
    cdef Tally total
    cdef Bytes raw = &data[0]
    if tally.shape[0] < 2:
        return False
    if not fit(data.shape[0], starts, ends, first, last, blocks, meanings, 1 << 60, 1 << 60, metadata.shape[0]):
        return False
    total.events, total.payload_bytes, total.width = &tally[0, 0], &tally[1, 0], tally.shape[1]
    with nogil:
        for i in range(first, last):
            count_block(
                raw, starts[i], ends[i], v6, &blocks[i], &metadata[0],
                &meanings[i if meanings.shape[0] > 1 else 0].metadata, &total,
            )
    return True


cdef void count_block(
    Bytes data, int64_t position, int64_t end, bint v6, Block* block, const uint32_t* table, const Ids* ids, Tally* tally
) noexcept nogil:
    cdef Header header
    cdef const uint32_t* entry
    cdef int64_t rows = 0, counted = 0, runs = 0, guids = 0, passed = 0, order = 0, at, fetched = 0
    cdef uint32_t size = 0, metadata_id = 0
    cdef bint is_new
    begin(&header)
    tally.unknown = 0
    block.problem = NO_PROBLEM
    block.missing = 0
    while position < end:
        if rows:
            position = pass_bare(data, position, end, size, &passed)
            rows += passed
            if position >= end:
                break
        fetched = prefetch_until(data, max(fetched, position), position + READ_AHEAD)
        at = parse(data, position, end, v6, &header)
        if at < 0:
            block.problem = BROKEN_HEADER
            break
        if header.size > end - at:
            block.problem = CUT_PAYLOAD
            block.missing = header.size - (end - at)
            break
        is_new = header.metadata_id != metadata_id or rows == 0
        if tally.width and (is_new or header.size != size):
            add(tally, order, rows - counted, size)
            counted = rows
            if is_new:
                entry = find(table, ids, header.metadata_id)
                order = 0 if entry == NULL else entry[1]
        size = header.size
        metadata_id = header.metadata_id
        if not v6:
            guids += ((header.states & ACTIVITY) != 0) + ((header.states & RELATED) != 0)
        if header.states & NUMBER or rows == 0:
            runs += 1
        rows += 1
        position = at + size
    if tally.width:
        add(tally, order, rows - counted, size)
    block.rows, block.runs, block.guids, block.stop = rows, runs, guids, position
    block.unknown_metadata = tally.unknown


# fill -----------------------------------------------------------------------------------------------------------------


cdef struct Columns:
    # one item per event
    uint32_t* metadata_id
    uint32_t* sequence
    uint64_t* capture_thread
    uint64_t* thread
    uint32_t* processor
    uint32_t* stack
    int64_t* time
    uint32_t* activity  # 1 + index into `guids`, 0: none
    uint32_t* related
    int64_t* payload_offset
    uint32_t* payload_length
    uint8_t* is_sorted
    uint32_t* label_list
    # one item per row where the sequence number is stated, and per GUID that is: where it is
    int64_t* runs
    int64_t* guids


cdef packed struct Progress:
    # how far the columns are filled
    int64_t row
    int64_t run
    int64_t guid
    int64_t rows  # that there may be
    int64_t runs
    int64_t guids
    int64_t zeroed  # 1: activity, related and label_list are zeros already; becomes 2 when one was written to


cdef struct Held:
    # what holds from one event to the next, translated: all that is needed to go on within a block
    Header header
    int64_t position
    uint32_t metadata_id
    uint32_t stack
    uint32_t label_list
    uint32_t activity
    uint32_t related
    uint32_t unknown_metadata  # 1: the id is not defined
    uint32_t unknown_stack
    uint32_t unknown_labels
    uint32_t started


STATE_WORDS = (sizeof(Held) + 7) // 8 + 1
"""Of the state in which ``fill`` stops within a block."""


def fill(
    const uint8_t[::1] data not None, const int64_t[::1] starts not None, const int64_t[::1] ends not None,
    Py_ssize_t first, Py_ssize_t last, bint v6, Block[::1] blocks not None, const Meanings[::1] meanings not None,
    const uint32_t[::1] stacks not None, const uint32_t[::1] labels not None, const uint32_t[::1] metadata not None,
    Progress[::1] progress not None, uint64_t[::1] state not None,
    uint32_t[::1] metadata_id not None, uint32_t[::1] sequence not None, uint64_t[::1] capture_thread not None,
    uint64_t[::1] thread not None, uint32_t[::1] processor not None, uint32_t[::1] stack not None,
    int64_t[::1] time not None, uint32_t[::1] activity not None, uint32_t[::1] related not None,
    int64_t[::1] payload_offset not None, uint32_t[::1] payload_length not None, uint8_t[::1] is_sorted not None,
    uint32_t[::1] label_list not None, int64_t[::1] runs not None, int64_t[::1] guids not None,
):
    """Header columns of blocks ``first`` to ``last`` (exclusive), their rows of ``blocks``, and how many blocks it did;
    -1, and nothing is written, when arrays do not fit each other.

    When the columns are full it stops between two events: ``state[0]`` becomes 1, the row of ``blocks`` speaks of what was
    done of the block, and a call with that ``state`` (otherwise all zeros) and this block as the first goes on there.
    ``meanings``, one row or one per block, says where in ``stacks``, ``labels`` and ``metadata`` the ids of a block stand;
    what is not defined becomes 0. ``activity`` and ``related`` become 1 + index into ``guids``.
    """
    cdef Py_ssize_t block = first
    cdef Columns to
    cdef Progress* done = &progress[0]
    cdef Bytes raw = &data[0]
    if not fit(
        data.shape[0], starts, ends, first, last, blocks, meanings, stacks.shape[0], labels.shape[0], metadata.shape[0]
    ):
        return -1
    if progress.shape[0] < 1 or state.shape[0] < STATE_WORDS:
        return -1
    if first < last and state[0] and not starts[first] <= (<const Held*>&state[1]).position <= ends[first]:
        return -1
    if not 0 <= done.row <= done.rows or not 0 <= done.run <= done.runs or not 0 <= done.guid <= done.guids:
        return -1
    if done.runs > runs.shape[0] or done.guids > guids.shape[0]:
        return -1
    if done.rows > min(
        metadata_id.shape[0], sequence.shape[0], capture_thread.shape[0], thread.shape[0], processor.shape[0], stack.shape[0],
        time.shape[0], activity.shape[0], related.shape[0], payload_offset.shape[0], payload_length.shape[0],
        is_sorted.shape[0], label_list.shape[0],
    ):
        return -1
    to.metadata_id, to.sequence, to.capture_thread, to.thread = &metadata_id[0], &sequence[0], &capture_thread[0], &thread[0]
    to.processor, to.stack, to.time, to.activity, to.related = &processor[0], &stack[0], &time[0], &activity[0], &related[0]
    to.payload_offset, to.payload_length, to.is_sorted = &payload_offset[0], &payload_length[0], &is_sorted[0]
    to.label_list, to.runs, to.guids = &label_list[0], &runs[0], &guids[0]
    with nogil:
        while block < last:
            if not fill_block(
                raw, starts[block], ends[block], v6, &blocks[block], &meanings[block if meanings.shape[0] > 1 else 0],
                &stacks[0], &labels[0], &metadata[0], done, &state[0], &to,
            ):
                break
            block += 1
    return block - first


cdef bint fill_block(
    Bytes data, int64_t position, int64_t end, bint v6, Block* block, const Meanings* ids, const uint32_t* stacks,
    const uint32_t* labels, const uint32_t* metadata, Progress* done, uint64_t* state, const Columns* to,
) noexcept nogil:
    """False when the columns are full. What changes rarely is written a run of equal values at a time: from row ``mark`` on."""
    cdef Held held
    cdef int64_t opening = done.row, row = done.row, mark = done.row, at, safe, ahead, fetched = 0
    cdef int64_t run = done.run, most_runs = done.runs, first_guid = done.guid, unknown_metadata = 0, unknown_stack = 0, unknown_labels = 0
    cdef uint32_t size = 0
    cdef uint64_t time, delta, byte, more
    cdef bint stands_at_mark = True, full = False  # whether the event of `held.header` is the one of row `mark`
    # in registers: what is written might be these otherwise
    cdef int64_t most_rows = done.rows
    cdef int64_t* times = to.time
    cdef int64_t* offsets = to.payload_offset
    block.problem = NO_PROBLEM
    block.missing = block.undefined_id = 0
    if state[0]:
        memcpy(&held, state + 1, sizeof(Held))
        state[0] = 0
        position = held.position
        stands_at_mark = not held.started
        refer_to_guids(&held, ACTIVITY | RELATED, done, to)
    else:
        begin(&held.header)
        held.metadata_id = held.stack = held.label_list = held.activity = held.related = 0
        held.unknown_metadata = 1  # until an id is stated it is 0, which nothing defines
        held.unknown_stack = held.unknown_labels = held.started = 0
    while True:
        if held.started:
            time, size, at = held.header.time, held.header.size, position
            # nothing but the time is stated: see `pass_bare`
            safe = end - 4 - <int64_t>size
            # the processor looks ahead by itself, but not beyond a page of 4 KB: a sixth of all time, without this
            ahead = 16 * (<int64_t>size + 3)
            while at <= safe and row < most_rows and data[at] == 0:
                prefetch_once(data + at + ahead)
                byte = data[at + 1]
                if byte < 0x80:
                    time += byte
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
                    time += delta
                times[row] = <int64_t>time
                offsets[row] = at
                row += 1
                at += size
            held.header.time, position = time, at
        full = position < end and (row >= most_rows or run >= most_runs or done.guid + 2 > done.guids)
        # the end, or something else is stated: first write what held until here
        if row > mark:
            if not stands_at_mark:
                held.header.sequence += step(&held.header, v6)
            spread(&held, step(&held.header, v6), mark, row, to)
            if stands_at_mark and held.header.states & IS_SORTED:
                to.is_sorted[mark] = 1
            if not done.zeroed or held.activity | held.related | held.label_list:
                spread_sparse(&held, mark, row, done, to)
            if held.unknown_metadata | held.unknown_stack | held.unknown_labels:
                if held.unknown_metadata and block.undefined_id == 0:
                    block.undefined_id = held.header.metadata_id
                unknown_metadata += held.unknown_metadata * (row - mark)
                unknown_stack += held.unknown_stack * (row - mark)
                unknown_labels += held.unknown_labels * (row - mark)
            mark = row
        if full or position >= end:
            break
        fetched = prefetch_until(data, max(fetched, position), position + READ_AHEAD)
        stands_at_mark = True
        at = parse(data, position, end, v6, &held.header)
        if at < 0:
            block.problem = BROKEN_HEADER
            break
        if held.header.size > end - at:
            block.problem = CUT_PAYLOAD
            block.missing = held.header.size - (end - at)
            break
        if held.header.states & METADATA_ID:
            held.metadata_id = meaning(metadata, &ids.metadata, held.header.metadata_id)
            held.unknown_metadata = held.metadata_id == 0
        if held.header.states & STACK:
            held.stack = meaning(stacks, &ids.stacks, held.header.stack)
            held.unknown_stack = held.stack == 0 and held.header.stack != 0
        if held.header.states & (ACTIVITY | RELATED):
            if not v6:
                refer_to_guids(&held, held.header.states, done, to)
            elif held.header.states & LABELS:
                held.label_list = meaning(labels, &ids.labels, held.header.labels)
                held.unknown_labels = held.label_list == 0 and held.header.labels != 0
        if held.header.states & NUMBER or not held.started:
            held.started = 1
            to.runs[run] = row
            run += 1
        times[row] = <int64_t>held.header.time
        offsets[row] = at
        row += 1
        position = at + held.header.size
    block.rows, block.runs, block.guids = row - opening, run - done.run, done.guid - first_guid
    block.stop = position
    block.unknown_metadata, block.unknown_stack, block.unknown_labels = unknown_metadata, unknown_stack, unknown_labels
    done.row, done.run = row, run
    if full:
        held.position = position
        state[0] = 1
        memcpy(state + 1, &held, sizeof(Held))
    return not full


cdef void refer_to_guids(Held* held, uint32_t states, Progress* done, const Columns* to) noexcept nogil:
    """Note where the ids stand that the header states, or has, as far as there is room."""
    if states & ACTIVITY and held.header.activity_at >= 0 and done.guid < done.guids:
        to.guids[done.guid] = held.header.activity_at
        done.guid += 1
        held.activity = <uint32_t>done.guid
    if states & RELATED and held.header.related_at >= 0 and done.guid < done.guids:
        to.guids[done.guid] = held.header.related_at
        done.guid += 1
        held.related = <uint32_t>done.guid


cdef inline void spread(
    Held* held, uint32_t increment, int64_t first, int64_t last, const Columns* to
) noexcept nogil:
    """Write what rows ``first`` to ``last`` (exclusive) have in common, and their numbers, which count up."""
    cdef uint32_t sequence = held.header.sequence, metadata_id = held.metadata_id, size = held.header.size
    cdef uint32_t processor = held.header.processor, stack = held.stack
    cdef uint64_t capture_thread = held.header.capture_thread, thread = held.header.thread
    cdef uint32_t* sequences = to.sequence
    cdef uint32_t* metadata_ids = to.metadata_id
    cdef uint64_t* capture_threads = to.capture_thread
    cdef uint64_t* threads = to.thread
    cdef uint32_t* processors = to.processor
    cdef uint32_t* stacks = to.stack
    cdef uint32_t* sizes = to.payload_length
    cdef uint8_t* is_sorted = to.is_sorted
    cdef int64_t r
    if last - first < SHORT_RUN:
        for r in range(first, last):
            sequences[r] = sequence
            sequence += increment
            metadata_ids[r] = metadata_id
            capture_threads[r] = capture_thread
            threads[r] = thread
            processors[r] = processor
            stacks[r] = stack
            sizes[r] = size
            is_sorted[r] = 0
    else:
        for r in range(first, last):
            sequences[r] = sequence
            sequence += increment
        for r in range(first, last):
            metadata_ids[r] = metadata_id
        for r in range(first, last):
            capture_threads[r] = capture_thread
        for r in range(first, last):
            threads[r] = thread
        for r in range(first, last):
            processors[r] = processor
        for r in range(first, last):
            stacks[r] = stack
        for r in range(first, last):
            sizes[r] = size
        for r in range(first, last):
            is_sorted[r] = 0
    held.header.sequence = sequence - increment


cdef void spread_sparse(const Held* held, int64_t first, int64_t last, Progress* done, const Columns* to) noexcept nogil:
    """The same for the columns that are nearly always zero, and may be so already."""
    cdef bint zeroed = done.zeroed != 0
    cdef int64_t r
    if zeroed:
        done.zeroed = 2
    if held.activity or not zeroed:
        for r in range(first, last):
            to.activity[r] = held.activity
    if held.related or not zeroed:
        for r in range(first, last):
            to.related[r] = held.related
    if held.label_list or not zeroed:
        for r in range(first, last):
            to.label_list[r] = held.label_list


# sift -----------------------------------------------------------------------------------------------------------------

cdef enum Action:
    DROP = 0
    KEEP = 1
    AMOUNT = 2  # a number of its payload is wanted, and no row
    MARK = 3  # a row, and its place among the amounts

cdef packed struct Sifted:
    # how far what is made of events is filled, and how much there may be
    int64_t row
    int64_t run
    int64_t amount
    int64_t mark
    int64_t rows
    int64_t runs
    int64_t amounts
    int64_t marks
    int64_t zeroed  # 1: activity, related and label_list are zeros already

cdef int64_t NEVER = -FARTHEST - FARTHEST  # the earliest time there is

cdef struct Sieve:
    const uint8_t* actions  # by the meaning of a metadata id
    const int64_t* wide  # where in the payload the number stands that has 8 bytes; -1: it has none
    const int64_t* narrow  # and that of 4
    int64_t width  # of the three; what is behind is kept

cdef struct Runs:
    # one item per row where the thread may change, or numbers may jump
    int64_t* thread
    int64_t* first
    int64_t* last
    int64_t* first_time
    int64_t* last_time

cdef enum:
    AMOUNTS_TOGETHER = 32  # as of `sieve`

cdef struct Places:
    # one item per amount, or per mark
    int64_t* time
    int64_t* order
    int64_t* amount


def sift(
    const uint8_t[::1] data not None, const int64_t[::1] starts not None, const int64_t[::1] ends not None,
    Py_ssize_t first, Py_ssize_t last, Block[::1] blocks not None, const Meanings[::1] meanings not None,
    const uint32_t[::1] stacks not None, const uint32_t[::1] metadata not None,
    const uint8_t[::1] actions not None, const int64_t[:, ::1] places not None,
    Sifted[::1] progress not None, uint64_t[::1] state not None,
    uint32_t[::1] metadata_id not None, uint32_t[::1] sequence not None, uint64_t[::1] capture_thread not None,
    uint64_t[::1] thread not None, uint32_t[::1] processor not None, uint32_t[::1] stack not None,
    int64_t[::1] time not None, uint32_t[::1] activity not None, uint32_t[::1] related not None,
    int64_t[::1] payload_offset not None, uint32_t[::1] payload_length not None, uint8_t[::1] is_sorted not None,
    uint32_t[::1] label_list not None, int64_t[:, ::1] runs not None, int64_t[:, ::1] amounts not None,
    int64_t[:, ::1] marks not None,
):
    """As ``fill`` of nettrace 4 and 5, of some of the events, by the ``actions`` of their types: what is dropped leaves no row, what has an amount
    an item of ``amounts`` (time, order, amount), and a mark one of ``marks`` (time, order) beside its row. ``runs`` (thread, first and last number,
    first and last time) tells of all. Ids of activities are 0.

    The order of an item is 1 + its run of this call in the high 32 bits, 0 there where the event is sorted, and its row among all of this call.
    """
    cdef Py_ssize_t block = first
    cdef Columns to
    cdef Sifted* done = &progress[0]
    cdef Sieve sieve
    cdef Runs run
    cdef Places amount, mark
    cdef Bytes raw = &data[0]
    cdef int64_t row = 0
    if not fit(data.shape[0], starts, ends, first, last, blocks, meanings, stacks.shape[0], 1 << 60, metadata.shape[0]):
        return -1
    if progress.shape[0] < 1 or state.shape[0] < STATE_WORDS:
        return -1
    if first < last and state[0] and not starts[first] <= (<const Held*>&state[1]).position <= ends[first]:
        return -1
    if done.row != 0 or done.run != 0 or done.amount != 0 or done.mark != 0:
        return -1
    if runs.shape[0] != 5 or amounts.shape[0] != 3 or marks.shape[0] != 2 or places.shape[0] != 2:
        return -1
    if done.runs > runs.shape[1] or done.amounts > amounts.shape[1] or done.marks > marks.shape[1]:
        return -1
    if actions.shape[0] != places.shape[1] or min(done.rows, done.runs, done.amounts, done.marks) < 1:
        return -1
    if done.rows > min(
        metadata_id.shape[0], sequence.shape[0], capture_thread.shape[0], thread.shape[0], processor.shape[0], stack.shape[0],
        time.shape[0], activity.shape[0], related.shape[0], payload_offset.shape[0], payload_length.shape[0],
        is_sorted.shape[0], label_list.shape[0],
    ):
        return -1
    to.metadata_id, to.sequence, to.capture_thread, to.thread = &metadata_id[0], &sequence[0], &capture_thread[0], &thread[0]
    to.processor, to.stack, to.time, to.activity, to.related = &processor[0], &stack[0], &time[0], &activity[0], &related[0]
    to.payload_offset, to.payload_length, to.is_sorted = &payload_offset[0], &payload_length[0], &is_sorted[0]
    to.label_list = &label_list[0]
    to.runs = to.guids = NULL
    sieve.actions, sieve.wide, sieve.narrow, sieve.width = &actions[0], &places[0, 0], &places[1, 0], actions.shape[0]
    run.thread, run.first, run.last, run.first_time, run.last_time = (
        &runs[0, 0], &runs[1, 0], &runs[2, 0], &runs[3, 0], &runs[4, 0]
    )
    amount.time, amount.order, amount.amount = &amounts[0, 0], &amounts[1, 0], &amounts[2, 0]
    mark.time, mark.order, mark.amount = &marks[0, 0], &marks[1, 0], NULL
    with nogil:
        while block < last:
            if not sift_block(
                raw, starts[block], ends[block], &blocks[block], &meanings[block if meanings.shape[0] > 1 else 0],
                &stacks[0], &metadata[0], &sieve, done, &row, &state[0], &to, &run, &amount, &mark,
            ):
                break
            block += 1
    return block - first


def sum_up(const int64_t[:, :] amounts not None, int64_t[:, ::1] sums not None):
    """Of each ``AMOUNTS_TOGETHER`` amounts, as ``sift`` gives them, the earliest time, the latest, and their sum: a column of ``sums``."""
    cdef Py_ssize_t count = amounts.shape[1], n, of = 0, end
    cdef int64_t earliest, latest
    cdef uint64_t total
    if amounts.shape[0] != 3 or sums.shape[0] != 3 or sums.shape[1] != (count + AMOUNTS_TOGETHER - 1) // AMOUNTS_TOGETHER:
        raise ValueError(f"no room for the sums of {count} amounts")
    with nogil:
        for of in range(sums.shape[1]):
            end = min(count, (of + 1) * AMOUNTS_TOGETHER)
            earliest, latest, total = -(NEVER + 1), NEVER, 0
            for n in range(of * AMOUNTS_TOGETHER, end):
                earliest = min(earliest, amounts[0, n])
                latest = max(latest, amounts[0, n])
                total += <uint64_t>amounts[2, n]
            sums[0, of], sums[1, of], sums[2, of] = earliest, latest, <int64_t>total


cdef inline int64_t number_at(Bytes data, int64_t at, int size) noexcept nogil:
    """A number of 4 or 8 bytes: a copy of so few becomes one load."""
    cdef uint64_t wide
    cdef uint32_t narrow
    if size == 8:
        memcpy(&wide, data + at, 8)
        return <int64_t>wide
    memcpy(&narrow, data + at, 4)
    return narrow


cdef bint sift_block(
    Bytes data, int64_t position, int64_t end, Block* block, const Meanings* ids, const uint32_t* stacks,
    const uint32_t* metadata, const Sieve* sieve, Sifted* done, int64_t* rows, uint64_t* state, const Columns* to,
    const Runs* runs, const Places* amounts, const Places* marks,
) noexcept nogil:
    """False when something is full."""
    cdef Held held
    cdef Sifted begun = done[0]
    cdef int64_t opening = rows[0], row = rows[0], at, safe, order, amount, place
    cdef int64_t earliest = -(NEVER + 1), latest = NEVER, until = NEVER, run = done.run - 1  # the one that is open; `begun.run - 1`: none
    cdef int64_t unknown_metadata = 0, unknown_stack = 0, before
    cdef uint32_t size, expected = 0
    cdef bint goes_on = False  # behind a call before, whose numbers the first event follows unless it states its own
    cdef uint64_t delta
    cdef int64_t fetched = 0
    cdef uint8_t action = KEEP
    cdef bint full = False
    block.problem = NO_PROBLEM
    block.missing = block.undefined_id = 0
    if state[0]:
        memcpy(&held, state + 1, sizeof(Held))
        state[0] = 0
        goes_on = True
        position = held.position
        action = sieve.actions[held.metadata_id] if held.metadata_id < sieve.width else KEEP
    else:
        begin(&held.header)
        held.metadata_id = held.stack = held.label_list = held.activity = held.related = 0
        held.unknown_metadata = 1  # until an id is stated it is 0, which nothing defines
        held.unknown_stack = held.unknown_labels = held.started = 0
        if sieve.width:
            action = sieve.actions[0]
    while True:
        if action == DROP and run >= begun.run:
            # nothing but the time is stated: see `pass_bare`
            size, at, before = held.header.size, position, row
            safe = end - 4 - <int64_t>size
            while at <= safe and data[at] & (0xFF ^ IS_SORTED) == 0:
                prefetch_once(data + at + 16 * (<int64_t>size + 3))
                if data[at + 1] < 0x80:
                    delta = data[at + 1]
                    place = 2
                elif data[at + 2] < 0x80:
                    delta = (data[at + 1] & 0x7F) | <uint64_t>data[at + 2] << 7
                    place = 3
                elif data[at + 3] < 0x80:
                    delta = (data[at + 1] & 0x7F) | <uint64_t>(data[at + 2] & 0x7F) << 7 | <uint64_t>data[at + 3] << 14
                    place = 4
                else:
                    break
                held.header.time += delta
                if <int64_t>held.header.time > latest:
                    latest = <int64_t>held.header.time
                if <int64_t>held.header.time < earliest:
                    earliest = <int64_t>held.header.time
                if data[at] & IS_SORTED and <int64_t>held.header.time > until:
                    until = <int64_t>held.header.time
                row += 1
                at += place + size
            position = at
            if row > before:
                held.header.sequence += <uint32_t>(row - before) * step(&held.header, False)
                runs.last[run] = held.header.sequence
                runs.last_time[run] = <int64_t>held.header.time
                if held.unknown_metadata and block.undefined_id == 0:
                    block.undefined_id = held.header.metadata_id
                unknown_metadata += held.unknown_metadata * (row - before)
                unknown_stack += held.unknown_stack * (row - before)
        if position >= end:
            break
        if done.row >= done.rows or run + 1 >= done.runs or done.amount >= done.amounts or done.mark >= done.marks:
            full = True
            break
        fetched = prefetch_until(data, max(fetched, position), position + READ_AHEAD)
        expected = held.header.sequence + 1
        # as in `fill_block` and `count_block`: a function of its own for these lines cost decoding 2 to 3 %
        at = parse(data, position, end, False, &held.header)
        if at < 0:
            block.problem = BROKEN_HEADER
            break
        if held.header.size > end - at:
            block.problem = CUT_PAYLOAD
            block.missing = held.header.size - (end - at)
            break
        if held.header.states & METADATA_ID:
            held.metadata_id = meaning(metadata, &ids.metadata, held.header.metadata_id)
            held.unknown_metadata = held.metadata_id == 0
            action = sieve.actions[held.metadata_id] if held.metadata_id < sieve.width else KEEP
        if held.header.states & STACK:
            held.stack = meaning(stacks, &ids.stacks, held.header.stack)
            held.unknown_stack = held.stack == 0 and held.header.stack != 0
        if held.unknown_metadata | held.unknown_stack:
            if held.unknown_metadata and block.undefined_id == 0:
                block.undefined_id = held.header.metadata_id
            unknown_metadata += held.unknown_metadata
            unknown_stack += held.unknown_stack
        if run < begun.run or held.header.states & NUMBER:
            if run < begun.run or runs.thread[run] != <int64_t>held.header.capture_thread or held.header.sequence != <uint32_t>(runs.last[run] + 1):
                run += 1
                runs.thread[run] = <int64_t>held.header.capture_thread
                # of metadata id 0 numbers do not go up: what goes on has no gap all the same
                runs.first[run] = expected if goes_on and not held.header.states & NUMBER else held.header.sequence
                goes_on = False
                runs.first_time[run] = <int64_t>held.header.time
        runs.last[run] = held.header.sequence
        runs.last_time[run] = <int64_t>held.header.time
        if <int64_t>held.header.time > latest:
            latest = <int64_t>held.header.time
        if <int64_t>held.header.time < earliest:
            earliest = <int64_t>held.header.time
        order = row
        if held.header.states & IS_SORTED:
            if <int64_t>held.header.time > until:
                until = <int64_t>held.header.time
        else:
            order |= (run + 1) << 32
        if action == AMOUNT:
            amount, size = -1, held.header.size
            place = sieve.wide[held.metadata_id]
            if 0 <= place <= <int64_t>size - 8:
                amount = number_at(data, at + place, 8)
            place = sieve.narrow[held.metadata_id]
            if amount < 0 and 0 <= place <= <int64_t>size - 4:
                amount = number_at(data, at + place, 4)
            amounts.time[done.amount] = <int64_t>held.header.time
            amounts.order[done.amount] = order
            amounts.amount[done.amount] = max(amount, 0)
            done.amount += 1
        elif action != DROP:
            keep_row(&held, at, done, to)
            if action == MARK:
                marks.time[done.mark] = <int64_t>held.header.time
                marks.order[done.mark] = order
                done.mark += 1
        held.started = 1
        row += 1
        position = at + held.header.size
    block.rows, block.runs, block.guids = row - opening, run + 1 - begun.run, 0
    block.kept, block.amounts, block.marks = done.row - begun.row, done.amount - begun.amount, done.mark - begun.mark
    block.earliest, block.latest, block.until, block.stop = earliest, latest, until, position
    block.unknown_metadata, block.unknown_stack, block.unknown_labels = unknown_metadata, unknown_stack, 0
    done.run, rows[0] = run + 1, row
    if full:
        held.position = position
        state[0] = 1
        memcpy(state + 1, &held, sizeof(Held))
    return not full


cdef inline void keep_row(const Held* held, int64_t at, Sifted* done, const Columns* to) noexcept nogil:
    cdef int64_t row = done.row
    to.metadata_id[row] = held.metadata_id
    to.sequence[row] = held.header.sequence
    to.capture_thread[row] = held.header.capture_thread
    to.thread[row] = held.header.thread
    to.processor[row] = held.header.processor
    to.stack[row] = held.stack
    to.time[row] = <int64_t>held.header.time
    to.payload_offset[row] = at
    to.payload_length[row] = held.header.size
    to.is_sorted[row] = (held.header.states & IS_SORTED) != 0
    if not done.zeroed:
        to.activity[row] = to.related[row] = to.label_list[row] = 0
    done.row += 1


# uncompressed events --------------------------------------------------------------------------------------------------


def walk(
    const uint8_t[::1] data not None, int64_t position, int64_t end, int64_t header, int64_t size_at, bint trailing,
    int64_t[::1] positions not None,
):
    """Find uncompressed events: u32 size (excluding itself) first, u32 payload size at ``size_at``. Returns (how many, the
    position behind the last good one, problem there).

    ``header`` is the length of the event before its payload. With ``trailing`` an i32 stack size and that many bytes
    follow the payload (NetPerf). It stops when ``positions`` is full.
    """
    cdef int64_t extent, payload, at
    cdef Py_ssize_t found = 0
    cdef int problem = NO_PROBLEM
    cdef Bytes raw = &data[0]
    if position < 0 or end > data.shape[0] or size_at < 0 or header < 4 or size_at > header - 4:
        raise ValueError("no such events in this data")
    with nogil:
        while position < end and found < positions.shape[0]:
            if end - position < header:
                problem = BROKEN_HEADER
                break
            extent = 4 + u32(raw, position)
            payload = u32(raw, position + size_at)
            if extent > end - position:
                problem = CUT_PAYLOAD
                break
            if header + payload > extent:
                problem = BAD_SIZE
                break
            if trailing:
                at = position + header + payload
                if at + 4 > position + extent or at + 4 + u32(raw, at) > position + extent:
                    problem = BAD_SIZE
                    break
            positions[found] = position
            found += 1
            position += extent
    return found, position, problem


# losses ---------------------------------------------------------------------------------------------------------------


cdef struct Walk:
    # where counting stands; all 64 bits wide, as the array is that the caller keeps it in
    int64_t started  # behind the first event of the block
    int64_t metadata_id
    int64_t sequence
    int64_t slot  # of the capture thread
    int64_t size  # of a payload
    int64_t lost
    int64_t used  # slots
    int64_t stuck  # it cannot go on, all is worth nothing
    int64_t left  # bytes of the block that are to come; -1: it stands between blocks
    int64_t missing  # how many of them are payload of the last event ...
    int64_t maybe_lost  # ... with which so many were lost


WALK_WORDS = sizeof(Walk) // 8

cdef int64_t LIVE = <int64_t>1 << 32, ENDED = <int64_t>2 << 32, LISTED = <int64_t>4 << 32
cdef int64_t WORD = 0xFFFFFFFF, HALF = 0x80000000


cdef inline int64_t slot_of(uint64_t[::1] threads, int64_t[::1] numbers, uint64_t thread, Walk* walk) noexcept nogil:
    """Where a thread stands in the table, from now on if need be.

    NOWHERE when it is half full, or ids were chosen to meet: 256 steps are the most that one of them may cost.
    """
    cdef int64_t mask = numbers.shape[0] - 1, first = <int64_t>((thread * MULTIPLIER) >> 33), at
    cdef int n
    for n in range(256):
        at = (first + n) & mask
        if numbers[at] == 0:
            if 2 * walk.used >= numbers.shape[0]:
                break
            walk.used += 1
            threads[at] = thread
            return at
        if threads[at] == thread:
            return at
    walk.stuck = 1
    return NOWHERE


cdef inline int64_t lost_before(int64_t entry, uint32_t number) noexcept nogil:
    """Events lost before ``number`` of a thread whose ``entry`` is that of ``follow``."""
    cdef uint32_t gap = number - <uint32_t>(entry & WORD)
    if entry >> 32 == 1 and 0 < gap < HALF:
        return <int64_t>gap - 1
    if not (entry >> 32 == 2 and gap == 1) and 0 < number < HALF:
        return <int64_t>number - 1
    return 0


def follow(
    const uint8_t[::1] data not None, int64_t position, int64_t base, const uint8_t[::1] opening not None,
    int64_t[::1] walk not None, uint64_t[::1] threads not None, int64_t[::1] numbers not None,
    int64_t[:, ::1] types=None,
):
    """Follow the sequence numbers of compressed events of nettrace 4 and 5 from ``position`` on, and count gaps.

    Returns where it stopped: at the end of ``data``, at a header that is cut, or where no event block in its usual form
    (:func:`frame`) begins. ``data`` may be any piece of a trace, ``data[0]`` stands at ``base``; ``walk`` goes with it.

    ``threads`` and ``numbers`` are a hash table of capture threads, all zero at first, its length a power of two. A
    number is the last of that thread, plus 1 << 32 while it lives, or 2 << 32 when it has ended (``LossAccount``).

    ``types`` (2 rows) goes up by events and payload bytes for each metadata id; ids beyond it, and 0, are not followed.
    """
    cdef Walk* at_walk
    cdef Bytes raw = &data[0]
    cdef Tally tally
    tally.events = tally.payload_bytes = NULL
    tally.width = tally.unknown = 0
    if types is not None and types.shape[0] >= 2 and types.shape[1]:
        tally.events, tally.payload_bytes, tally.width = &types[0, 0], &types[1, 0], types.shape[1]
    if walk.shape[0] < WALK_WORDS or position < 0 or position > data.shape[0] or threads.shape[0] != numbers.shape[0]:
        return position
    at_walk = <Walk*>&walk[0]
    if at_walk.stuck or at_walk.slot < 0 or at_walk.slot >= numbers.shape[0] or at_walk.missing < 0:
        return position
    if not 0 <= at_walk.size <= WORD or not 0 <= base <= FARTHEST:
        return position
    if at_walk.left > LARGEST_BLOCK or at_walk.missing > max(at_walk.left, 0):
        return position
    with nogil:
        position = follow_blocks(raw, position, data.shape[0], base, opening, at_walk, threads, numbers, &tally)
    return position


cdef int64_t follow_blocks(
    Bytes data, int64_t position, int64_t end, int64_t base, const uint8_t[::1] opening, Walk* walk,
    uint64_t[::1] threads, int64_t[::1] numbers, Tally* tally,
) noexcept nogil:
    cdef int64_t start, header, size, known
    while True:
        if walk.left < 0:
            start = block_content(data, position, end, base, opening)
            if start < 0 or end - start < LEAST_BLOCK_HEADER:
                break
            size = u32(data, position + opening.shape[0])
            header = NOWHERE if size > LARGEST_BLOCK else block_header(data, start, size)
            if header < 0 or header > end - start:
                break
            position = start + header
            walk.left = size - header
            walk.started = walk.metadata_id = walk.sequence = walk.slot = walk.size = walk.missing = 0
        if walk.missing:
            known = min(walk.missing, end - position)
            position += known
            walk.left -= known
            walk.missing -= known
        position = follow_events(data, position, end, walk, threads, numbers, tally)
        if walk.stuck or walk.left or position >= end:
            break
        if data[position] != TAG_END_OBJECT:
            walk.stuck = 1
            break
        position += 1
        walk.left = -1
    return position


cdef int64_t follow_events(
    Bytes data, int64_t position, int64_t end, Walk* walk, uint64_t[::1] threads, int64_t[::1] numbers, Tally* tally
) noexcept nogil:
    """The events of a block from ``position`` on, as far as they are there."""
    cdef Header header, tried
    cdef int64_t block_end = position + walk.left, stop = min(position + walk.left, end), at, bare = 0, loss, slot
    cdef int64_t alike = 0  # events of the type and size of the last one that are not in the tally yet
    begin(&header)
    header.metadata_id = <uint32_t>walk.metadata_id
    header.sequence = <uint32_t>walk.sequence
    header.size = <uint32_t>walk.size
    while position < stop:
        if walk.started:
            position = pass_bare(data, position, stop, header.size, &bare)
            alike += bare
            if header.metadata_id:
                header.sequence += <uint32_t>bare
            if position >= stop:
                break
        tried = header
        at = parse(data, position, stop, False, &tried)
        if at < 0:
            break
        if tried.size > block_end - at:
            walk.stuck = 1
            break
        loss = 0
        if tried.states & NUMBER or not walk.started:
            if walk.started:
                numbers[walk.slot] = header.sequence | LIVE
            slot = slot_of(threads, numbers, tried.capture_thread if tried.states & NUMBER else 0, walk)
            if slot < 0:
                break
            walk.slot = slot
            loss = lost_before(numbers[slot], tried.sequence)
            walk.lost += loss
            walk.started = 1
        if tally.width and (tried.metadata_id != header.metadata_id or tried.size != header.size):
            add(tally, header.metadata_id, alike, header.size)
            alike = 0
        alike += 1
        header = tried
        position = at + header.size
        if position > stop:  # only behind `end`: it is in the block
            walk.missing = position - stop
            position = stop
            walk.maybe_lost = loss
    if tally.width and alike:
        add(tally, header.metadata_id, alike, header.size)
    if tally.unknown:
        walk.stuck = 1
    walk.left = block_end - position
    if walk.started:
        numbers[walk.slot] = header.sequence | LIVE
    if position < stop and stop == block_end:
        walk.stuck = 1  # a header does not end in the block
    walk.metadata_id, walk.sequence, walk.size = header.metadata_id, header.sequence, header.size
    return position


def close_segment(
    const uint8_t[::1] data not None, int64_t position, int64_t count, int64_t[::1] walk not None,
    uint64_t[::1] threads not None, int64_t[::1] numbers not None,
):
    """Take the ``count`` threads of a sequence point (nettrace 4 and 5), which stand at ``position``: see :func:`follow`.

    A thread that is not listed has ended. When the table is full before all were taken, ``walk.stuck`` becomes 1.
    """
    cdef Walk* at_walk
    cdef Bytes raw = &data[0]
    cdef int64_t row, slot
    cdef uint32_t number, gap
    cdef uint64_t thread
    if walk.shape[0] < WALK_WORDS or threads.shape[0] != numbers.shape[0] or numbers.shape[0] == 0:
        return
    at_walk = <Walk*>&walk[0]
    if not 0 <= position <= data.shape[0] or count < 0 or count > (data.shape[0] - position) // 12:
        at_walk.stuck = 1
        return
    with nogil:
        for row in range(position, position + 12 * count, 12):
            thread = <uint64_t>u32(raw, row) | <uint64_t>u32(raw, row + 4) << 32
            slot = slot_of(threads, numbers, thread, at_walk)
            if slot < 0:
                break
            number = <uint32_t>u32(raw, row + 8)
            gap = number - <uint32_t>(numbers[slot] & WORD)
            if 0 < gap < HALF:
                at_walk.lost += gap
            else:
                number = <uint32_t>(numbers[slot] & WORD)
            numbers[slot] = number | LISTED
        for row in range(numbers.shape[0]):
            if numbers[row] >= LISTED:
                numbers[row] = numbers[row] & WORD | LIVE
            elif numbers[row] >> 32 == 1:
                numbers[row] = numbers[row] & WORD | ENDED


# writing --------------------------------------------------------------------------------------------------------------


def encode(
    int64_t first, int64_t last, bint v6,
    const uint32_t[::1] metadata_id not None, const uint32_t[::1] sequence not None,
    const uint64_t[::1] capture_thread not None, const uint64_t[::1] thread not None, const uint32_t[::1] processor not None,
    const uint32_t[::1] stack not None, const int64_t[::1] time not None, const uint32_t[::1] activity not None,
    const uint32_t[::1] related not None, const int64_t[::1] payload_offset not None,
    const uint32_t[::1] payload_length not None, const uint8_t[::1] is_sorted not None,
    const uint32_t[::1] label_list not None, const uint8_t[::1] guids not None, const uint8_t[::1] payload not None,
    uint8_t[::1] out not None,
):
    """Compressed events of one block: as many of rows ``first`` to ``last`` (exclusive) as fit ``out``, from zero state.
    Returns (rows, bytes).

    ``guids`` holds 16 bytes per index of ``activity`` and ``related``. A row whose payload or GUID is not there ends the
    block, and so does one for which ``out`` may not have the room: its payload and 96 bytes.
    """
    cdef int64_t row = first, at = 0, room = out.shape[0], origin, size, source, own, other, known = guids.shape[0] // GUID_BYTES
    cdef uint32_t states, label, expected, held_size = 0, held_activity = 0, held_related = 0
    cdef uint8_t* to = &out[0]
    cdef Header held
    begin(&held)
    if first < 0 or last > min(
        metadata_id.shape[0], sequence.shape[0], capture_thread.shape[0], thread.shape[0], processor.shape[0], stack.shape[0],
        time.shape[0], activity.shape[0], related.shape[0], payload_offset.shape[0], payload_length.shape[0],
        is_sorted.shape[0], label_list.shape[0],
    ):
        raise ValueError("columns are shorter than their rows")
    with nogil:
        while row < last:
            # once, and used below: the caller may change the column meanwhile
            size, source, own, other = payload_length[row], payload_offset[row], activity[row], related[row]
            if room - at < LARGEST_ROW_HEADER + size or source < 0 or source > payload.shape[0] - size:
                break
            if not v6 and (own >= known or other >= known):
                break
            origin = at
            at += 1
            states = 0
            if metadata_id[row] != held.metadata_id:
                states |= METADATA_ID
                held.metadata_id = metadata_id[row]
                at = put(to, at, held.metadata_id)
            expected = held.sequence + step(&held, v6)
            if sequence[row] != expected or capture_thread[row] != held.capture_thread or processor[row] != held.processor:
                states |= NUMBER
                at = put(to, at, <uint32_t>(sequence[row] - held.sequence - 1))
                held.capture_thread = capture_thread[row]
                at = put(to, at, held.capture_thread)
                held.processor = processor[row]
                at = put(to, at, held.processor)
            held.sequence = sequence[row]
            if thread[row] != held.thread:
                states |= THREAD
                held.thread = thread[row]
                at = put(to, at, held.thread)
            if stack[row] != held.stack:
                states |= STACK
                held.stack = stack[row]
                at = put(to, at, held.stack)
            at = put(to, at, <uint64_t>time[row] - held.time)
            held.time = <uint64_t>time[row]
            if v6:
                label = label_list[row]
                if label != held.labels:
                    states |= LABELS
                    held.labels = label
                    at = put(to, at, label)
            else:
                if own != held_activity:
                    states |= ACTIVITY
                    held_activity = <uint32_t>own
                    memcpy(to + at, &guids[GUID_BYTES * own], GUID_BYTES)
                    at += GUID_BYTES
                if other != held_related:
                    states |= RELATED
                    held_related = <uint32_t>other
                    memcpy(to + at, &guids[GUID_BYTES * other], GUID_BYTES)
                    at += GUID_BYTES
            if is_sorted[row]:
                states |= IS_SORTED
            if size != held_size:
                states |= SIZE
                held_size = <uint32_t>size
                at = put(to, at, held_size)
            memcpy(to + at, &payload[source], size)
            at += size
            to[origin] = <uint8_t>states
            row += 1
    return row - first, at


# stacks ---------------------------------------------------------------------------------------------------------------


def split_stacks(
    const uint8_t[::1] data not None, int64_t position, int64_t cost, int64_t pointer_size, int64_t room,
    int64_t[::1] starts not None, int64_t[::1] sizes not None,
):
    """Find stacks that follow each other from ``position`` on, each behind its size (u32): as many as ``starts`` holds.
    Returns (how many, the position behind them, those without room, the room that is left).

    ``sizes`` are those of whole pointers, -1 where the size and ``cost`` are more than there is ``room`` for.
    """
    cdef int64_t size, end = data.shape[0]
    cdef Py_ssize_t found = 0, refused = 0, most = min(starts.shape[0], sizes.shape[0])
    cdef Bytes raw = &data[0]
    if position < 0 or pointer_size < 1 or cost < 0:
        raise ValueError("no such stacks")
    with nogil:
        while found < most and end - position >= 4:
            size = u32(raw, position)
            if size > end - position - 4:
                break
            starts[found] = position + 4
            if room < cost or size > room - cost:
                sizes[found] = -1
                refused += 1
            else:
                sizes[found] = size - size % pointer_size
                room -= cost + size
            position += 4 + size
            found += 1
    return found, position, refused, room


cdef uint32_t hash_of(Bytes data, int64_t size, const uint64_t[::1] keys) noexcept nogil:
    """32 bits: the sum of the words of 4 bytes, each multiplied by a random key (multilinear hashing), which nobody can foresee.

    What is longer than the keys is hashed piece by piece, each with the hash of the one before.
    """
    cdef uint64_t total = keys[0] + keys[1] * <uint64_t>size, word
    cdef Py_ssize_t key = 2
    cdef int64_t at = 0
    cdef int i
    while at < size:
        if key == keys.shape[0]:
            total = keys[0] + keys[1] * (total >> 32)
            key = 2
        word = 0
        if size - at >= 4:
            word = <uint64_t>u32(data, at)
        else:
            for i in range(<int>(size - at)):
                word |= <uint64_t>data[at + i] << 8 * i
        total += keys[key] * word
        key += 1
        at += 4
    return <uint32_t>(total >> 32)


def intern_stacks(
    const uint8_t[::1] data not None, const int64_t[::1] starts not None, const int64_t[::1] sizes not None, int64_t first,
    const uint64_t[::1] keys not None, int64_t[::1] state not None, int64_t[::1] offsets not None,
    uint32_t[::1] hashes not None, uint32_t[::1] slots not None, uint8_t[::1] pool not None, uint32_t[::1] ids not None,
):
    """The ids of the stacks from number ``first`` on; how many it got to, fewer than there are when a table is full. 0 is the
    id of those with a size below 0 or that do not lie in ``data``. -1, and nothing is written, when arrays do not fit.

    ``state`` is the number of ids, 0 included, and of bytes in ``pool``: stack ``i`` is its bytes from ``offsets[i]`` to
    ``offsets[i + 1]``. ``slots`` is a hash table of ids, a power of two, at most half full.
    """
    cdef int64_t at = first, count, used, size, start, slot, mask = slots.shape[0] - 1
    cdef int64_t most = min(hashes.shape[0], offsets.shape[0] - 1, slots.shape[0] // 2)
    cdef uint32_t hashed, found
    cdef Bytes raw = &data[0]
    if first < 0 or starts.shape[0] != sizes.shape[0] or ids.shape[0] != starts.shape[0] or state.shape[0] < 2:
        return -1
    count, used = state[0], state[1]
    if keys.shape[0] < 3 or mask < 0 or slots.shape[0] & mask or count < 1 or count > most:
        return -1
    if used < 0 or used > pool.shape[0]:
        return -1
    with nogil:
        while at < starts.shape[0]:
            start, size = starts[at], sizes[at]
            if size < 0 or start < 0 or start > data.shape[0] - size:
                ids[at] = 0
                at += 1
                continue
            if count >= most or size > pool.shape[0] - used:
                break
            hashed = hash_of(raw + start, size, keys)
            slot = hashed & mask
            found = slots[slot]
            while found != 0:
                if (
                    found < count
                    and hashes[found] == hashed
                    and 0 <= offsets[found] <= used - size
                    and offsets[found + 1] == offsets[found] + size
                    and memcmp(raw + start, &pool[offsets[found]], size) == 0
                ):
                    break
                slot = (slot + 1) & mask
                found = slots[slot]
            if found == 0:
                found = <uint32_t>count
                memcpy(&pool[used], raw + start, size)
                used += size
                hashes[found] = hashed
                slots[slot] = found
                count += 1
                offsets[count] = used
            ids[at] = found
            at += 1
        state[0] = count
        state[1] = used
    return at


def index_stacks(const uint32_t[::1] hashes not None, int64_t count, uint32_t[::1] slots not None):
    """Put the ids from 1 to ``count`` (exclusive) into a hash table of zeros that has room for twice as many."""
    cdef int64_t mask = slots.shape[0] - 1, slot, i
    if mask < 0 or slots.shape[0] & mask or count > hashes.shape[0] or 2 * count > slots.shape[0]:
        raise ValueError("no room for so many")
    with nogil:
        for i in range(1, count):
            slot = hashes[i] & mask
            while slots[slot] != 0:
                slot = (slot + 1) & mask
            slots[slot] = <uint32_t>i


# GUIDs ----------------------------------------------------------------------------------------------------------------


def intern_guids(
    const uint8_t[::1] data not None, const int64_t[::1] starts not None, int64_t first, const uint64_t[::1] keys not None,
    int64_t base, int64_t[::1] state not None, uint32_t[::1] slots not None, uint8_t[::1] tags not None, uint8_t[::1] pool not None,
    uint32_t[::1] ids not None,
):
    """The numbers of the GUIDs at ``starts`` from number ``first`` on; how many it got to, fewer than there are when a table is full. 0 is that of
    zeros, and of what does not lie in ``data``. -1, and nothing is written, when arrays do not fit.

    ``state`` is how many there are, that of zeros included, whose bytes stand one behind the other in ``pool``. ``slots`` is a hash table of the
    numbers from ``base`` on, which is 1 at least, at most seven eighths full; ``tags`` are as long, and have bits of the hash of each, 0 where nothing
    is. Those are looked through: so of
    numbers, and of GUIDs, which may have gone from memory, hardly any are looked at that are not meant.
    """
    cdef int64_t at = first, count, start, slot, size = slots.shape[0]
    cdef int64_t most = min(pool.shape[0] // 16, base - 1 + most_guids(size))
    cdef uint32_t found, hashed
    cdef uint8_t tag
    cdef Bytes raw = &data[0]
    cdef uint8_t[16] zeros
    if base < 1 or first < 0 or ids.shape[0] != starts.shape[0] or state.shape[0] < 1 or keys.shape[0] < 6 or tags.shape[0] != size:
        return -1
    count = state[0]
    if count < base or count > most:
        return -1
    memset(zeros, 0, 16)
    with nogil:
        while at < starts.shape[0]:
            start = starts[at]
            if start < 0 or start > data.shape[0] - 16 or memcmp(raw + start, zeros, 16) == 0:
                ids[at] = 0
                at += 1
                continue
            hashed = hash_of(raw + start, 16, keys)
            slot, tag, found = first_slot(hashed, size), tag_of(hashed), 0
            while tags[slot] != 0:
                if tags[slot] == tag:
                    found = slots[slot]
                    if 0 < found < count and memcmp(raw + start, &pool[16 * <int64_t>found], 16) == 0:
                        break
                    found = 0
                slot = slot + 1 if slot + 1 < size else 0
            if found == 0:
                if count >= most:
                    break
                found = <uint32_t>count
                memcpy(&pool[16 * count], raw + start, 16)
                slots[slot] = found
                tags[slot] = tag
                count += 1
            ids[at] = found
            at += 1
        state[0] = count
    return at


def find_guids(
    const uint8_t[::1] data not None, const int64_t[::1] starts not None, const uint64_t[::1] keys not None, int64_t base,
    int64_t count, const uint32_t[::1] slots not None, const uint8_t[::1] tags not None, const uint8_t[::1] pool not None,
    uint32_t[::1] ids not None,
):
    """The numbers of the GUIDs at ``starts`` that are in a hash table of those from ``base`` to ``count`` (exclusive), 0 of all others."""
    cdef int64_t at, start, slot, size = slots.shape[0], tried
    cdef uint32_t found, hashed
    cdef uint8_t tag
    cdef Bytes raw = &data[0]
    if (
        tags.shape[0] != size or ids.shape[0] != starts.shape[0] or keys.shape[0] < 6 or base < 1 or size < 1
        or 16 * count > pool.shape[0]
    ):
        raise ValueError("arrays that do not fit each other")
    with nogil:
        for at in range(starts.shape[0]):
            ids[at] = 0
            start = starts[at]
            if start < 0 or start > data.shape[0] - 16:
                continue
            hashed = hash_of(raw + start, 16, keys)
            slot, tag, tried = first_slot(hashed, size), tag_of(hashed), 0
            while tags[slot] != 0 and tried < size:
                if tags[slot] == tag:
                    found = slots[slot]
                    if base <= found < count and memcmp(raw + start, &pool[16 * <int64_t>found], 16) == 0:
                        ids[at] = found
                        break
                slot = slot + 1 if slot + 1 < size else 0
                tried += 1


def index_guids(
    const uint8_t[::1] pool not None, int64_t base, int64_t first, int64_t count, const uint64_t[::1] keys not None,
    uint32_t[::1] slots not None, uint8_t[::1] tags not None,
):
    """Put the numbers from ``first`` to ``count`` (exclusive) into a hash table that has those before, from ``base`` on, which is 1 at least, and room
    for them.
    """
    cdef int64_t size = slots.shape[0], slot, i
    cdef uint32_t hashed
    if tags.shape[0] != size or 16 * count > pool.shape[0] or count - base >= most_guids(size) or keys.shape[0] < 6:
        raise ValueError("no room for so many")
    if base < 1 or first < base:
        raise ValueError("0 is in no slot, and another table has those before")
    with nogil:
        for i in range(first, count):
            hashed = hash_of(&pool[16 * i], 16, keys)
            slot = first_slot(hashed, size)
            while tags[slot] != 0:
                slot = slot + 1 if slot + 1 < size else 0
            slots[slot] = <uint32_t>i
            tags[slot] = tag_of(hashed)


cdef inline int64_t most_guids(int64_t slots) noexcept nogil:
    """How many a table of so many slots may have: there is always an empty one."""
    return slots // 8 * 7


cdef inline int64_t first_slot(uint32_t hashed, int64_t slots) noexcept nogil:
    """Where to begin, of any number of slots below 2 to the power of 31."""
    return (<uint64_t>hashed * <uint64_t>slots) >> 32


cdef inline uint8_t tag_of(uint32_t hashed) noexcept nogil:
    """Other bits of it, and not 0."""
    cdef uint8_t low = hashed & 0xFF
    return low if low else 1


# label lists ----------------------------------------------------------------------------------------------------------


def split_labels(
    const uint8_t[::1] data not None, int64_t position, int64_t values_limit, int64_t[::1] starts not None,
    int64_t[::1] sizes not None, int64_t[::1] activity not None, int64_t[::1] related not None, int64_t[::1] codes not None,
):
    """Find label lists (nettrace.md §6.8) that follow each other from ``position`` on: as many as ``starts`` holds, and fewer where one is cut, or is
    none. Returns (how many, the position behind them).

    ``activity`` and ``related`` are the places of ids, -1 where there is none; ``codes`` has a bit for each code of label in the list.
    """
    cdef int64_t at, end = data.shape[0], begin = position, values, seen, place, other
    cdef Py_ssize_t found = 0, most = min(
        min(starts.shape[0], sizes.shape[0]), min(min(activity.shape[0], related.shape[0]), codes.shape[0])
    )
    cdef uint32_t size = 0
    cdef uint64_t value = 0
    cdef uint8_t kind, code
    cdef Bytes raw
    if begin < 0:
        raise ValueError("no such lists")
    if end == 0 or most == 0:
        return 0, begin
    raw = &data[0]
    with nogil:
        while found < most:
            at, values, seen, place, other = begin, 0, 0, -1, -1
            while True:
                if at >= end:
                    at = NOWHERE
                    break
                kind = raw[at]
                code = kind & 0x7F
                at += 1
                if code == 1 or code == 2 or code == 3:
                    if code == 1:
                        place = at
                    elif code == 2:
                        other = at
                    at += 16
                elif code == 4 or code == 8:
                    at += 8
                elif code == 7 or code == 9 or code == 10:
                    at += 1
                elif code == 5 or code == 6:
                    values += 1
                    at = take32(raw, at, end, &size)
                    if at == NOWHERE or size > end - at:
                        at = NOWHERE
                        break
                    at += size
                    if code == 6:
                        at = take64(raw, at, end, &value)
                    else:
                        at = take32(raw, at, end, &size)
                        if at != NOWHERE:
                            at = NOWHERE if size > end - at else at + size
                    if at == NOWHERE or values > values_limit:
                        at = NOWHERE
                        break
                else:
                    at = NOWHERE
                    break
                if at > end:
                    at = NOWHERE
                    break
                seen |= <int64_t>1 << code
                if kind & 0x80:
                    break
            if at == NOWHERE:
                break
            starts[found], sizes[found], activity[found], related[found], codes[found] = begin, at - begin, place, other, seen
            begin = at
            found += 1
    return found, begin



def say_on_bus_error(bytes text not None, int code):
    """From now on a signal SIGBUS writes a text (of 1024 bytes at most) to stderr and ends the process with a code."""
    dotnetdiag_say_on_bus_error(text, len(text), code)


def keep_freed(int bytes, int most) -> None:
    """See ``kernels.keep_freed``."""
    dotnetdiag_keep(bytes, most)


def give_back_freed(long long resident) -> None:
    """See ``kernels.give_back_freed``; nothing while less than that is resident, where the system tells it."""
    with nogil:
        dotnetdiag_give_back(resident)


def let_go(const uint8_t[::1] data, int64_t start, int64_t end):
    """See ``kernels.let_go``: ``start`` is where a page begins."""
    if 0 <= start < end <= data.shape[0]:
        with nogil:
            dotnetdiag_let_go(<void*> &data[start], end - start)
