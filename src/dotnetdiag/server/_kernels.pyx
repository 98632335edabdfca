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
       thread that computes for less than that only where it waits; and who gives the lock up and takes it back at once, for a short call
       of the system, more often than that, is never asked for it: others have been seen to wait for seconds. dnd_hurry, called without the
       lock just before it is waited for, does what a waiting thread does after 5 ms: the thread that runs looks at these flags between two of
       its instructions, and gives the lock up until another has had it. Whoever takes the lock takes them back. It gives who held the lock,
       not to be looked into, for he may end meanwhile; NULL: nobody did. Pending calls, which are
       public, were tried: a child forked meanwhile never ran one again, and ten computing threads took twice as long (3.12); so was
       sys.setswitchinterval(), which a program reads, and a child keeps. */
    #if defined(Py_GIL_DISABLED) || PY_VERSION_HEX >= 0x030E0000 || (PY_VERSION_HEX >= 0x030D0000 && defined(_WIN32))
    #define DND_KNOWS_HOLDER 0
    static int dnd_is_patient;
    static void *dnd_hurry(PyInterpreterState *interpreter) { (void)interpreter; return NULL; }
    #define dnd_hold_threads() ((void)0)
    #define dnd_let_threads() ((void)0)
    #else
    #define DND_KNOWS_HOLDER 1
    /* At the end of the interpreter a thread that waits for the lock exits instead, and who had given it up for that thread would wait for
       ever (CPython's gh-96387): nobody is asked any more from before the end on. */
    #if PY_VERSION_HEX < 0x030D0000
    #define DND_ENDS _Py_IsFinalizing()
    #else
    #define DND_ENDS Py_IsFinalizing()
    #endif
    static volatile int dnd_is_patient;
    #ifndef Py_BUILD_CORE
    #define Py_BUILD_CORE 1
    #endif
    #undef _PyGC_FINALIZED
    #include <internal/pycore_interp.h>
    #include <internal/pycore_pystate.h>
    #include <internal/pycore_runtime.h>
    #ifndef HEAD_LOCK /* 3.11 has it in a file of its own */
    #define HEAD_LOCK(runtime) PyThread_acquire_lock((runtime)->interpreters.mutex, WAIT_LOCK)
    #define HEAD_UNLOCK(runtime) PyThread_release_lock((runtime)->interpreters.mutex)
    #endif
    /* What a thread of a C library that calls into Python has is listed before it is filled, and taken off the list, under this lock alone. */
    #if PY_VERSION_HEX < 0x030D0000
    #define dnd_hold_threads() HEAD_LOCK(&_PyRuntime)
    #else /* what HEAD_LOCK calls is not there for others; nobody who has it waits for anything */
    #include <sched.h>
    static void dnd_hold_threads(void) {
        uint8_t none = _Py_UNLOCKED;
        while (!_Py_atomic_compare_exchange_uint8(&_PyRuntime.interpreters.mutex._bits, &none, _Py_LOCKED)) {
            none = _Py_UNLOCKED;
            sched_yield();
        }
    }
    #endif
    #define dnd_let_threads() HEAD_UNLOCK(&_PyRuntime)
    #if PY_VERSION_HEX < 0x030D0000
    static void *dnd_hurry(PyInterpreterState *interpreter) {
        if (dnd_is_patient || DND_ENDS)
            return NULL;
    #if PY_VERSION_HEX < 0x030C0000
        struct _gil_runtime_state *gil = &_PyRuntime.ceval.gil;
    #else
        struct _gil_runtime_state *gil = interpreter->ceval.gil;
    #endif
        void *holder = _Py_atomic_load_relaxed(&gil->locked) == 1 ? (void *)_Py_atomic_load_relaxed(&gil->last_holder) : NULL;
        _Py_atomic_store_relaxed(&interpreter->ceval.gil_drop_request, 1);
        _Py_atomic_store_relaxed(&interpreter->ceval.eval_breaker, 1);
        return holder;
    }
    #else
    /* the flag is the holder's, who cannot end as long as this mutex is held */
    #include <internal/pycore_ceval.h>
    #include <pthread.h>
    static void *dnd_hurry(PyInterpreterState *interpreter) {
        struct _gil_runtime_state *gil = interpreter->ceval.gil;
        PyThreadState *holder = NULL;
        if (dnd_is_patient || DND_ENDS)
            return NULL;
        pthread_mutex_lock(&gil->mutex);
        if (_Py_atomic_load_int_relaxed(&gil->locked) == 1)
            holder = (PyThreadState *)_Py_atomic_load_ptr_relaxed(&gil->last_holder);
        if (holder != NULL)
            _Py_set_eval_breaker_bit(holder, _PY_GIL_DROP_REQUEST_BIT);
        pthread_mutex_unlock(&gil->mutex);
        return holder;
    }
    #endif
    #endif

    /* What SIGTERM does where it had its default action: remove sockets, and then that. A handler of Python's would not run before a long
       call of C code is over. This one calls nothing but the system, and touches no memory that Python could take away: its own, and that
       of the notes of children, which is taken from it before it goes. */
    #if !defined(_WIN32)
    #include <errno.h>
    #include <signal.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <sys/wait.h>
    #include <unistd.h>
    struct dnd_note { /* as server/socket_notes.py writes it */
        uint64_t pid, ticks, device, inode;
        unsigned char length;
        char path[223];
    };
    #define DND_NOTES 64
    static volatile struct dnd_note dnd_own[DND_NOTES];
    static volatile struct dnd_note *volatile dnd_children;
    static volatile size_t dnd_children_count;

    /* lstat is one of the C library's own functions since glibc 2.33 only: what is built there would not load before */
    #if defined(__GLIBC__) && defined(SYS_newfstatat)
    #include <fcntl.h>
    #define dnd_lstat(path, file) syscall(SYS_newfstatat, AT_FDCWD, path, file, AT_SYMLINK_NOFOLLOW)
    #else
    #define dnd_lstat(path, file) lstat(path, file)
    #endif

    static int dnd_has_ended(pid_t child) {
        siginfo_t how;
        how.si_pid = 0;
        if (kill(child, 0) && errno == ESRCH)
            return 1;
        return waitid(P_PID, (id_t)child, &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid == child;
    }

    static void dnd_remove(volatile struct dnd_note *note) {
        char path[sizeof note->path + 1];
        struct stat file;
        size_t at, length = note->length < sizeof note->path ? note->length : sizeof note->path;
        for (at = 0; at < length; at++)
            path[at] = note->path[at];
        path[length] = 0;
        if (dnd_lstat(path, &file) == 0 && (uint64_t)file.st_dev == note->device && (uint64_t)file.st_ino == note->inode)
            unlink(path);
    }

    static void dnd_farewell(int number) {
        uint64_t self = (uint64_t)getpid();
        size_t at;
        for (at = 0; at < DND_NOTES; at++)
            if (dnd_own[at].pid == self)
                dnd_remove(&dnd_own[at]);
        if (dnd_children != NULL)
            for (at = 0; at < dnd_children_count; at++)
                if (dnd_children[at].pid != 0 && dnd_has_ended((pid_t)dnd_children[at].pid))
                    dnd_remove(&dnd_children[at]);
        signal(number, SIG_DFL);
        kill((pid_t)self, number);
    }

    /* Whether it is there, or has been taken back: only in the place of the default action, only where it is still there. */
    static int dnd_on_sigterm(int wanted) {
        struct sigaction now, ours;
        if (sigaction(SIGTERM, NULL, &now))
            return 0;
        if (now.sa_handler != (wanted ? SIG_DFL : dnd_farewell))
            return now.sa_handler == (wanted ? dnd_farewell : SIG_DFL);
        memset(&ours, 0, sizeof ours);
        ours.sa_handler = wanted ? dnd_farewell : SIG_DFL;
        ours.sa_flags = SA_ONSTACK | SA_RESTART;
        sigemptyset(&ours.sa_mask);
        return sigaction(SIGTERM, &ours, NULL) == 0;
    }

    static void dnd_note_own(const char *notes, size_t count) {
        size_t at;
        for (at = 0; at < DND_NOTES; at++)
            dnd_own[at].pid = 0; /* a signal meanwhile meets whole ones, or none */
        for (at = 0; at < count && at < DND_NOTES; at++) {
            struct dnd_note one;
            memcpy(&one, notes + at * sizeof one, sizeof one);
            dnd_own[at].ticks = one.ticks;
            dnd_own[at].device = one.device;
            dnd_own[at].inode = one.inode;
            dnd_own[at].length = one.length;
            memcpy((char *)dnd_own[at].path, one.path, sizeof one.path);
            dnd_own[at].pid = one.pid;
        }
    }

    static void dnd_note_children(void *notes, size_t count) {
        dnd_children = NULL;
        dnd_children_count = count;
        dnd_children = (volatile struct dnd_note *)notes;
    }
    #define DND_NOTE_BYTES sizeof(struct dnd_note)
    #else
    #define DND_NOTE_BYTES 256
    static int dnd_on_sigterm(int wanted) { (void)wanted; return 0; }
    static void dnd_note_own(const char *notes, size_t count) { (void)notes; (void)count; }
    static void dnd_note_children(void *notes, size_t count) { (void)notes; (void)count; }
    #endif

    /* Until there is something to read, or that many ms are over. */
    #if !defined(_WIN32)
    #include <poll.h>
    static int dnd_wait(int descriptor, int timeout_ms) {
        struct pollfd one = {descriptor, POLLIN, 0};
        return poll(&one, 1, timeout_ms);
    }
    #else
    static int dnd_wait(int descriptor, int timeout_ms) { (void)descriptor; (void)timeout_ms; return 0; }
    #endif
    """
    ctypedef void* PyThread_type_lock
    ctypedef struct PyInterpreterState:
        pass
    ctypedef struct PyThreadState:
        unsigned long thread_id
        unsigned long native_thread_id
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    int PyThread_acquire_lock(PyThread_type_lock lock, int waits) nogil
    int PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int intr) nogil
    void PyThread_release_lock(PyThread_type_lock lock)
    PyInterpreterState* PyInterpreterState_Get()
    PyThreadState* PyInterpreterState_ThreadHead(PyInterpreterState* interpreter)
    PyThreadState* PyThreadState_Next(PyThreadState* thread)
    PyFrameObject* PyThreadState_GetFrame(PyThreadState* thread)  # a reference; NULL: it runs nothing
    int64_t dnd_used_ns(int number) nogil
    void dnd_short_turns() nogil
    void* dnd_hurry(PyInterpreterState* interpreter) nogil
    void dnd_hold_threads()
    void dnd_let_threads()
    PyThreadState* PyThreadState_Get()
    bint DND_KNOWS_HOLDER
    int dnd_is_patient
    int dnd_wait(int descriptor, int timeout_ms) nogil
    size_t DND_NOTE_BYTES
    bint dnd_on_sigterm(bint wanted)
    void dnd_note_own(const char* notes, size_t count)
    void dnd_note_children(void* notes, size_t count)


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


cdef class Undisturbed:
    """A function that is called as nobody's: where the program's recursion is too deep for it, nothing is said."""

    cdef object function
    cdef readonly Py_ssize_t missed  # how often that was so

    def __cinit__(self, function not None):
        self.function = function

    def __call__(self, *given):
        try:
            self.function(*given)
        except RecursionError:
            self.missed += 1


def be_patient():
    """Ask nobody for the interpreter's lock any more: the interpreter ends."""
    global dnd_is_patient
    dnd_is_patient = 1


def wait_readable(int descriptor, int timeout_ms):
    """Wait until something can be read, or for so long (-1: for ever), and go on at once, whoever runs."""
    cdef PyInterpreterState* interpreter = PyInterpreterState_Get()
    with nogil:
        dnd_wait(descriptor, timeout_ms)
        dnd_hurry(interpreter)


def note_sockets(const unsigned char[::1] notes not None):
    """Those of this process, 64 at most, which SIGTERM removes from now on, where :func:`on_sigterm` was called; none before."""
    dnd_note_own(<const char*>&notes[0] if len(notes) else NULL, len(notes) // DND_NOTE_BYTES)


def note_children(unsigned char[::1] notes):
    """Those of children, of which SIGTERM removes what ended ones have left. The memory is looked at, not copied: call this again, with None,
    before it goes.
    """
    if notes is None or not len(notes):
        dnd_note_children(NULL, 0)
    else:
        dnd_note_children(&notes[0], len(notes) // DND_NOTE_BYTES)


def on_sigterm(bint wanted):
    """Have SIGTERM remove sockets in front of its default action, or that alone. False: the program has a handler of its own."""
    return dnd_on_sigterm(wanted) != 0


cdef enum:
    MOST_CLOCKS = 4096


cdef class Alarm:
    """Wakes its one thread when its time has come, with the interpreter's lock, which whoever holds it gives up where it is."""

    cdef PyThread_type_lock bell
    cdef int* clocks
    cdef int64_t* used
    cdef unsigned long* idents  # of threads, for a moment; so are these
    cdef unsigned long* natives
    cdef PyFrameObject** innermost
    cdef char* moves  # whether the clock moved when the alarm went off, before anybody was asked for the lock
    cdef void* holder  # who held the lock then
    cdef Py_ssize_t count
    cdef bint has_short_turns, is_off  # is_off: ``moves`` is of the clocks that are watched
    cdef PyInterpreterState* interpreter

    def __cinit__(self):
        self.bell = PyThread_allocate_lock()
        self.clocks = <int*>malloc(MOST_CLOCKS * sizeof(int))
        self.used = <int64_t*>malloc(MOST_CLOCKS * sizeof(int64_t))
        self.moves = <char*>malloc(MOST_CLOCKS)
        self.idents = <unsigned long*>malloc(MOST_CLOCKS * sizeof(unsigned long))
        self.natives = <unsigned long*>malloc(MOST_CLOCKS * sizeof(unsigned long))
        self.innermost = <PyFrameObject**>malloc(MOST_CLOCKS * sizeof(void*))
        if self.idents is NULL or self.natives is NULL or self.innermost is NULL:
            raise MemoryError
        if self.bell is NULL or self.clocks is NULL or self.used is NULL or self.moves is NULL:
            raise MemoryError
        PyThread_acquire_lock(self.bell, 0)
        self.interpreter = PyInterpreterState_Get()

    def __dealloc__(self):
        if self.bell is not NULL:
            PyThread_free_lock(self.bell)
        free(self.clocks)
        free(self.used)
        free(self.moves)
        free(self.idents)
        free(self.natives)
        free(self.innermost)

    def wait(self, int64_t timeout_ns=-1):
        """True at once when it is rung, False after so long (-1: never)."""
        cdef bint is_rung
        cdef int64_t timeout_us = -1 if timeout_ns < 0 else timeout_ns // 1000
        cdef Py_ssize_t at
        if not self.has_short_turns:
            self.has_short_turns = True
            dnd_short_turns()
        with nogil:
            is_rung = PyThread_acquire_lock_timed(self.bell, timeout_us, 0) == 1
            # one that runs has used some nanoseconds between two looks at its clock
            for at in range(self.count):
                self.used[at] = dnd_used_ns(self.clocks[at])
            for at in range(self.count):
                self.moves[at] = dnd_used_ns(self.clocks[at]) != self.used[at]
            self.holder = dnd_hurry(self.interpreter)
        self.is_off = not is_rung
        return is_rung

    def ring(self):
        """End the wait of now, or else the next one."""
        PyThread_acquire_lock(self.bell, 0)  # it was rung before: once is enough
        PyThread_release_lock(self.bell)

    def watch(self, list numbers not None):
        """These clocks of threads from now on; those beyond 4,096 are not."""
        cdef Py_ssize_t at
        self.is_off = False
        self.count = 0
        for at in range(min(len(numbers), <Py_ssize_t>MOST_CLOCKS)):
            self.clocks[at] = numbers[at]
            self.count = at + 1

    def moved_then(self):
        """By clock, whether it was moving when the alarm went off: its thread was running. Empty: nobody knows."""
        return [self.moves[at] != 0 for at in range(self.count)] if self.is_off and DND_KNOWS_HOLDER else []

    def holder_then(self):
        """The ident of the thread that held the interpreter's lock when the alarm went off, and was running or about to: where it shares a
        processor with us, its clock stands still. 0: none did.
        """
        cdef PyThreadState* thread
        cdef unsigned long ident = 0
        dnd_hold_threads()
        thread = PyInterpreterState_ThreadHead(self.interpreter)
        while thread is not NULL:
            if <void*>thread == self.holder:
                ident = thread.thread_id
                break
            thread = PyThreadState_Next(thread)
        dnd_let_threads()
        return ident

    def used_now(self):
        """By clock, the processor time in ns. -1: the thread has ended."""
        return [dnd_used_ns(self.clocks[at]) for at in range(self.count)]

    def frames(self):
        """The innermost frames of all other threads that run Python code, by ident. (``sys._current_frames`` looks at those of other interpreters
        too, which may be running: the interpreter has been seen to crash of it, 3.12. Our own would have the dict that it is kept in.)"""
        cdef PyThreadState* own = PyThreadState_Get()
        cdef PyThreadState* thread
        cdef PyFrameObject* frame
        cdef Py_ssize_t at, count = 0
        cdef dict made = {}
        cdef bint collects = PyGC_Disable()  # a frame object that is made may begin a collection, and that a thread
        dnd_hold_threads()
        thread = PyInterpreterState_ThreadHead(self.interpreter)
        while thread is not NULL and count < MOST_CLOCKS:
            frame = NULL if thread == own else PyThreadState_GetFrame(thread)
            if frame is not NULL:
                self.innermost[count] = frame
                self.idents[count] = thread.thread_id
                count += 1
            thread = PyThreadState_Next(thread)
        dnd_let_threads()
        if collects:
            PyGC_Enable()
        for at in range(count):
            made[self.idents[at]] = <object>self.innermost[at]
            Py_DECREF(<PyObject*>self.innermost[at])
        return made

    def native_ids(self):
        """What the system calls the threads that run Python code, by ident."""
        cdef PyThreadState* thread
        cdef Py_ssize_t at, count = 0
        dnd_hold_threads()
        thread = PyInterpreterState_ThreadHead(self.interpreter)
        while thread is not NULL and count < MOST_CLOCKS:
            self.idents[count] = thread.thread_id
            self.natives[count] = thread.native_thread_id
            count += 1
            thread = PyThreadState_Next(thread)
        dnd_let_threads()
        return {self.idents[at]: self.natives[at] for at in range(count)}

