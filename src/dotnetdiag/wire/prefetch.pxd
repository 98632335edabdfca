# What plain Python has no word for: the bytes at `place` will be wanted soon. Only a hint; any address will do.
# The processor looks ahead by itself, but not beyond a page of 4 KB, and not along strides that change.

from libc.stdint cimport int64_t, uint8_t

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define DOTNETDIAG_PREFETCH(place) __builtin_prefetch(place, 0, 3)
    #define DOTNETDIAG_PREFETCH_ONCE(place) __builtin_prefetch(place, 0, 0)
    #else
    #define DOTNETDIAG_PREFETCH(place) ((void)(place))
    #define DOTNETDIAG_PREFETCH_ONCE(place) ((void)(place))
    #endif
    """
    void prefetch "DOTNETDIAG_PREFETCH" (const void *place) noexcept nogil
    # to be read once: kept out of the outer caches, where columns live
    void prefetch_once "DOTNETDIAG_PREFETCH_ONCE" (const void *place) noexcept nogil

cdef enum:
    LINE = 64


cdef inline int64_t prefetch_until(const uint8_t* data, int64_t fetched, int64_t until) noexcept nogil:
    # Each line from where it stands; where it stands then. One prefetch for each event left out lines of those that are longer than one: passes over
    # five million of 67 bytes took half as long again.
    while fetched < until:
        prefetch_once(data + fetched)
        fetched += LINE
    return fetched
