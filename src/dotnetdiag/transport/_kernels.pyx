# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Bytes received until a buffer is full, without the GIL in between. Called through ``sockets.fill_into``, which can do without."""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t

cdef extern from *:
    """
    #include <stdint.h>
    #if !defined(_WIN32)
    #include <errno.h>
    #include <limits.h>
    #include <poll.h>
    #include <sys/socket.h>
    #include <time.h>
    static int64_t dotnetdiag_now_us(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    }
    static int64_t dotnetdiag_fill(int fd, uint8_t *to, int64_t room, int64_t first_us, int64_t quiet_us) {
        int64_t size = 0, left_us = first_us, ends_us, wait_ms;
        struct pollfd one;
        one.fd = fd;
        one.events = POLLIN;
        while (size < room) {
            ssize_t count = recv(fd, to + size, (size_t)(room - size), MSG_DONTWAIT);
            if (count > 0) {
                if (!size) left_us = quiet_us;
                size += count;
                continue;
            }
            if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK) || left_us <= 0) break;
            ends_us = dotnetdiag_now_us() + left_us;
            wait_ms = (left_us + 999) / 1000;
            if (poll(&one, 1, wait_ms > INT_MAX ? INT_MAX : (int)wait_ms) <= 0) break;
            left_us = ends_us - dotnetdiag_now_us();
        }
        return size;
    }
    #else
    static int64_t dotnetdiag_fill(int fd, uint8_t *to, int64_t room, int64_t first_us, int64_t quiet_us) {
        (void)fd; (void)to; (void)room; (void)first_us; (void)quiet_us;
        return 0;
    }
    #endif
    """
    int64_t dotnetdiag_fill(int fd, uint8_t* to, int64_t room, int64_t first_us, int64_t quiet_us) noexcept nogil


def fill(int fd, view, int64_t first_us, int64_t quiet_us):
    """Take what comes through a socket until ``view`` is full. The first bytes are waited for no longer than ``first_us``, others ``quiet_us``, all waits
    together. How many came: fewer where nothing did, the stream ended, or broke, or a signal came.
    """
    cdef Py_buffer buffer
    cdef int64_t size
    PyObject_GetBuffer(view, &buffer, PyBUF_WRITABLE)  # a memoryview of Cython's own would be four fifths of this module
    try:
        with nogil:
            size = dotnetdiag_fill(fd, <uint8_t*> buffer.buf, buffer.len, first_us, quiet_us)
    finally:
        PyBuffer_Release(&buffer)
    return size
