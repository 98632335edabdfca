# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The walk over the frames of a thread, and the alarm at which it happens; ``CodeAddresses.addresses`` and ``server/alarm.py`` do the same
without a compiler, the latter less well.

Rule 1: nothing in the walk runs Python code or gives up the interpreter's lock, so that the threads stand still while they are looked at. In
Python 3.11 a frame object that is made can begin a collection, whose finalizers are Python code: collections are put off for the walk.
Rule 2: every reference that is taken is given back; none is kept, none decides anything.
Rule 3: addresses are written to an array on the C stack, no more than it holds.
Rule 4: code objects are told apart by where they are, so whoever gives addresses keeps alive what has one, and never changes it.
"""

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

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

cdef extern from *:
    """
    #include <pythread.h>
    #include <time.h>
    #if defined(__linux__)
    #include <unistd.h>
    #include <sys/syscall.h>
    #endif

    /* What a thread had used of the processor, in ns; -1: it has ended. */
    static int64_t dnd_used_ns(int number) {
    #if defined(__linux__)
        struct timespec used;
        return clock_gettime((clockid_t)number, &used) ? -1 : (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
    #else
        (void)number;
        return 0;
    #endif
    }

    /* Have the calling thread run as soon as it wakes up, also where another runs. Linux 6.12 and newer: who asks for turns of a tenth of a
       millisecond does not wait for the end of another's, 3 ms or so; else a thread that computes for less than that, on the processor where
       the sampler was last, would be seen when it waits. Nobody has to allow it, and elsewhere nothing comes of it. */
    static void dnd_short_turns(void) {
    #if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
        struct { /* the first version of the system's sched_attr */
            uint32_t size, policy;
            uint64_t flags;
            int32_t nice;
            uint32_t priority;
            uint64_t runtime, deadline, period;
        } how = {0};
        if (syscall(SYS_sched_getattr, 0, &how, sizeof how, 0) == 0 && how.policy == 0) {
            how.size = sizeof how;
            how.runtime = 100000;
            syscall(SYS_sched_setattr, 0, &how, 0);
        }
    #endif
    }

    /* Who waits for the interpreter's lock gets it when its holder waits for something, or after 5 ms: a sampler that waits so would see a
       thread that computes for less than that only where it waits. dnd_hurry, without the lock, has the holder give it up where it is. */
    #if defined(Py_GIL_DISABLED)
    static void dnd_hurry(PyInterpreterState *interpreter) { (void)interpreter; }
    static void dnd_hurried(void) {}
    #else
    #if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030F0000 && !defined(_WIN32)
    #include <dlfcn.h>
    #endif
    #define DND_SOON_US 53 /* nobody else asks for it, so that a program's own change is seen */
    #define DND_AT_MOST_US 5000
    static PyThread_type_lock dnd_taken;
    static volatile int dnd_is_wanted, dnd_is_asked;

    /* What the thread that runs is asked to call between two of its instructions, as signal handlers are called: it lets us have the lock. */
    static int dnd_stand_aside(void *nothing) {
        (void)nothing;
        dnd_is_asked = 0;
        if (dnd_is_wanted) {
            Py_BEGIN_ALLOW_THREADS
            PyThread_acquire_lock_timed(dnd_taken, DND_AT_MOST_US, 0);
            Py_END_ALLOW_THREADS
        }
        return 0;
    }
    static int dnd_ask(PyInterpreterState *interpreter) {
    #if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030F0000 && !defined(_WIN32)
        /* any thread; what is public asks the main thread only */
        static int (*add)(PyInterpreterState *, int (*)(void *), void *, int);
        if (add == NULL)
            *(void **)&add = dlsym(RTLD_DEFAULT, "_PyEval_AddPendingCall");
        if (add != NULL)
            return add(interpreter, dnd_stand_aside, NULL, 0);
    #endif
        (void)interpreter;
        return Py_AddPendingCall(dnd_stand_aside, NULL);
    }
    #if PY_VERSION_HEX < 0x030C0000
    static unsigned long dnd_usual_us;
    #endif
    static void dnd_hurry(PyInterpreterState *interpreter) {
    #if PY_VERSION_HEX < 0x030C0000
        /* The interval is a number without a lock that sys.setswitchinterval() sets too, read by whoever begins to wait. In later versions
           it cannot be reached without the interpreter's lock, nor is it needed. */
        unsigned long now_us = _PyEval_GetSwitchInterval();
        if (now_us != DND_SOON_US)
            dnd_usual_us = now_us;
        _PyEval_SetSwitchInterval(DND_SOON_US);
    #endif
        if (dnd_taken == NULL)
            dnd_taken = PyThread_allocate_lock();
        if (dnd_taken == NULL)
            return;
        PyThread_acquire_lock(dnd_taken, 0);
        dnd_is_wanted = 1;
        if (!dnd_is_asked) {
            dnd_is_asked = 1;
            if (dnd_ask(interpreter) != 0)
                dnd_is_asked = 0;
        }
    }
    static void dnd_hurried(void) {
    #if PY_VERSION_HEX < 0x030C0000
        if (_PyEval_GetSwitchInterval() == DND_SOON_US)
            _PyEval_SetSwitchInterval(dnd_usual_us);
    #endif
        dnd_is_wanted = 0;
        if (dnd_taken != NULL) {
            PyThread_acquire_lock(dnd_taken, 0);
            PyThread_release_lock(dnd_taken);
        }
    }
    #endif
    """
    ctypedef void* PyThread_type_lock
    ctypedef struct PyInterpreterState:
        pass
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    int PyThread_acquire_lock(PyThread_type_lock lock, int waits) nogil
    int PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int intr) nogil
    void PyThread_release_lock(PyThread_type_lock lock)
    PyInterpreterState* PyInterpreterState_Get()
    int64_t dnd_used_ns(int number) nogil
    void dnd_short_turns() nogil
    void dnd_hurry(PyInterpreterState* interpreter) nogil
    void dnd_hurried()


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


cdef enum:
    MOST_CLOCKS = 4096


cdef class Alarm:
    """Wakes its one thread when its time has come, with the interpreter's lock, which whoever holds it gives up where it is."""

    cdef PyThread_type_lock ends
    cdef int* clocks
    cdef int64_t* used  # when the alarm went off, before anybody was asked to stand still
    cdef Py_ssize_t count
    cdef bint has_short_turns
    cdef bint is_off  # whether ``used`` is of the clocks that are watched
    cdef PyInterpreterState* interpreter

    def __cinit__(self):
        self.ends = PyThread_allocate_lock()
        self.clocks = <int*>malloc(MOST_CLOCKS * sizeof(int))
        self.used = <int64_t*>malloc(MOST_CLOCKS * sizeof(int64_t))
        if self.ends is NULL or self.clocks is NULL or self.used is NULL:
            raise MemoryError
        PyThread_acquire_lock(self.ends, 0)
        self.interpreter = PyInterpreterState_Get()

    def __dealloc__(self):
        if self.ends is not NULL:
            PyThread_free_lock(self.ends)
        free(self.clocks)
        free(self.used)

    def wait(self, int64_t timeout_ns):
        """True at once when :meth:`end` is called, False after so long."""
        cdef bint is_told
        if not self.has_short_turns:
            self.has_short_turns = True
            dnd_short_turns()
        with nogil:
            is_told = PyThread_acquire_lock_timed(self.ends, max(timeout_ns, 0) // 1000, 0) == 1
            if not is_told:
                self.read(self.used)
                dnd_hurry(self.interpreter)
        if not is_told:
            dnd_hurried()
            self.is_off = True
        return is_told

    def end(self):
        """Once only."""
        PyThread_release_lock(self.ends)

    def watch(self, list numbers not None):
        """These clocks of threads from now on; 0 in place of those beyond 4,096."""
        cdef Py_ssize_t at
        self.is_off = False
        self.count = 0
        for at in range(min(len(numbers), <Py_ssize_t>MOST_CLOCKS)):
            self.clocks[at] = numbers[at]
            self.count = at + 1

    def used_then(self):
        """Processor time in ns by clock, when the alarm went off. Empty: they were not watched yet."""
        return [self.used[at] for at in range(self.count)] if self.is_off else []

    def used_now(self):
        """The same of now. -1: the thread has ended."""
        return [dnd_used_ns(self.clocks[at]) for at in range(self.count)]

    cdef void read(self, int64_t* used) noexcept nogil:
        cdef Py_ssize_t at
        for at in range(self.count):
            used[at] = dnd_used_ns(self.clocks[at])
