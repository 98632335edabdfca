# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The walk over the frames of a thread; ``CodeAddresses.addresses`` does the same without a compiler.

Rule 1: nothing in here runs Python code or gives up the interpreter's lock, so that the threads stand still while they are looked at. In
Python 3.11 a frame object that is made can begin a collection, whose finalizers are Python code: collections are put off for the walk.
Rule 2: every reference that is taken is given back; none is kept, none decides anything.
Rule 3: addresses are written to an array on the C stack, no more than it holds.
Rule 4: code objects are told apart by where they are, so whoever gives addresses keeps alive what has one, and never changes it.
"""

from libc.stdint cimport uint64_t, uintptr_t

cdef extern from "Python.h":
    ctypedef struct PyObject:
        pass
    ctypedef struct PyFrameObject:
        pass
    ctypedef struct PyCodeObject:
        pass
    bint PyFrame_Check(object thing)
    PyCodeObject* PyFrame_GetCode(PyFrameObject* frame)
    PyFrameObject* PyFrame_GetBack(PyFrameObject* frame)  # NULL: the outermost, or there is an error
    int PyFrame_GetLasti(PyFrameObject* frame)
    PyObject* PyLong_FromVoidPtr(void* pointer)  # as id() makes it
    PyObject* PyDict_GetItemWithError(PyObject* of, PyObject* key)  # borrowed; NULL: none, or there is an error
    uint64_t PyLong_AsUnsignedLongLong(PyObject* number)
    PyObject* PyErr_Occurred()
    object PyBytes_FromStringAndSize(const char* data, Py_ssize_t size)
    void Py_INCREF(PyObject* thing)
    void Py_DECREF(PyObject* thing)
    bint PyGC_Disable()  # whether they were enabled
    bint PyGC_Enable()

cdef enum:
    MOST_FRAMES = 1000
    SLOTS = 1024  # a power of two
    UNKNOWN = -2  # code that has no addresses yet


cdef struct Slot:
    PyCodeObject* code  # NULL: nothing stands here
    uint64_t base


cdef class Walker:
    """Walks over stacks, with the addresses of code objects of ``bases``: by ``id``, what the ``f_lasti`` of its frames is added to."""

    cdef dict bases
    cdef Slot[SLOTS] slots  # those of ``bases`` that were met last: a look-up in a dictionary takes half of the time of a walk

    def __cinit__(self, dict bases not None):
        self.bases = bases  # the slots are zero

    def walk(self, object frame not None, object mark, Py_ssize_t limit):
        """(addresses, leaf first, 8 bytes each; how many of them are before the innermost frame of the code ``mark``, or -1 where there is
        none). At most ``limit`` frames are looked at, and 1,000.

        None where a code object has no address. TypeError for what is no frame.
        """
        cdef uint64_t[MOST_FRAMES] out
        cdef Py_ssize_t count, marked = -1
        cdef bint collects
        if not PyFrame_Check(frame):
            raise TypeError("no frame")
        collects = PyGC_Disable()
        try:
            count = self.collect(
                <PyFrameObject*>frame, <PyCodeObject*>mark, min(limit, <Py_ssize_t>MOST_FRAMES), out, &marked
            )
        finally:
            if collects:
                PyGC_Enable()
        if count == UNKNOWN:
            return None
        return PyBytes_FromStringAndSize(<const char*>out, count * sizeof(uint64_t)), marked

    cdef Py_ssize_t collect(
        self, PyFrameObject* frame, PyCodeObject* mark, Py_ssize_t limit, uint64_t* out, Py_ssize_t* marked
    ) except -1:
        """Write the addresses of ``frame`` and its callers, at most ``limit``; how many, or UNKNOWN."""
        cdef PyFrameObject* back
        cdef PyCodeObject* code
        cdef Slot* slot
        cdef Py_ssize_t count = 0
        Py_INCREF(<PyObject*>frame)
        while frame is not NULL:
            back = NULL
            if count < limit:
                code = PyFrame_GetCode(frame)
                Py_DECREF(<PyObject*>code)  # the frame has it
                if code == mark and marked[0] < 0:
                    marked[0] = count
                slot = &self.slots[(<uintptr_t>code >> 4 ^ <uintptr_t>code >> 14) % SLOTS]
                if slot.code == code or self.find(code, slot):
                    out[count] = slot.base + <uint64_t>PyFrame_GetLasti(frame)  # -1: it has not begun
                    count += 1
                    back = PyFrame_GetBack(frame)
                else:
                    count = UNKNOWN
            Py_DECREF(<PyObject*>frame)
            frame = back
        return -1 if PyErr_Occurred() is not NULL else count

    cdef bint find(self, PyCodeObject* code, Slot* slot) noexcept:
        """Put it into its slot; False where it has no address, or there is an error."""
        cdef PyObject* key = PyLong_FromVoidPtr(<void*>code)
        cdef PyObject* number
        cdef uint64_t base
        if key is NULL:
            return False
        number = PyDict_GetItemWithError(<PyObject*>self.bases, key)
        Py_DECREF(key)
        if number is NULL:
            return False
        base = PyLong_AsUnsignedLongLong(number)
        if base == <uint64_t>-1 and PyErr_Occurred() is not NULL:
            return False
        slot.code, slot.base = code, base
        return True
