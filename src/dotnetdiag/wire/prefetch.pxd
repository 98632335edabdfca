# What plain Python has no word for: the bytes at `place` will be wanted soon. Only a hint; any address will do.
# The processor looks ahead by itself, but not beyond a page of 4 KB, and not along strides that change.

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
