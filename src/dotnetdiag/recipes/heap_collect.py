"""Collect the heap of a running process: one walk over it, which the runtime makes while the program stands still.

Rule 1: a short session before it has a runtime forget which types it has told of that would tell of each once (.NET Core 3). Others forget it
when the last session of their provider ends, and such a session does no more (measured: 8.0.33, 9.0.22, 10.0.14); it takes 0.1 s. So it is
made where another session seems to go on, which may be of that provider: to find out that types have no names takes a second walk.
Rule 2: what comes is made a graph while it comes; no file is needed, and nothing waits. What that takes is loaded while the runtime walks.
Rule 3: where something is missing, all is collected once more, and with a larger buffer where events were lost. A session that began while
another one had a walk made was not told of the types that came before. A runtime answers when it has walked (.NET 8 and
later): what has not come soon after was lost, the walk's end too, and how much that is a runtime tells when it ends the session.
Rule 4: a runtime that waits at its start is let run first. It may not yet be able to walk: when nothing comes soon, it is asked again.
Rule 5: it ends when the walk has ended, when nothing has come of it for so long as is told, or with the target: never later. A busy program's
other events go on meanwhile (one for each finalized object: .NET 8 to 10 took up to six minutes to end a session of such a program); for the end
of the session, before which a runtime tells of modules, no longer is waited than :data:`PARTING_S`. Where another session has told of modules by
then (``heap_modules``), and the walk is here as a whole, it is not waited for: the runtime was asked, and a thread takes what still comes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.client import Client
from dotnetdiag.client.limits import CLOSE_TIMEOUT_S
from dotnetdiag.client.session import ask_to_end, is_stop_on_its_way
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import (
    Cancelled,
    ConnectionEnded,
    DiagnosticsError,
    NotPossible,
    ProcessNotFound,
    TargetStopped,
    TimedOut,
    TransportError,
    UnsupportedCommand,
    UsageError,
)
from dotnetdiag.recipes.heap_modules import RUNDOWN, SAYS_WHAT_ENDS, WHOLE_RUNDOWN, ModulesBeside, beside
from dotnetdiag.recipes.heap_starting import bounded, has_other_sessions, let_start, waiting_check
from dotnetdiag.recipes.reading_ahead import TICK_S, ReadingAhead, made_pieces
from dotnetdiag.recipes.sampler import has_no_sampler
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.target import Target, connected
from dotnetdiag.transport.attempts import stopped_error
from dotnetdiag.transport.processes import is_running
from dotnetdiag.transport.waiting import Outcome, result_of, start_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dotnetdiag.client import TraceSession
    from dotnetdiag.heap.fold import HeapFold
    from dotnetdiag.heap.heap import Heap
    from dotnetdiag.live.stream import WindowStream
    from dotnetdiag.trace.table import EventTable

RUNTIME = "Microsoft-Windows-DotNETRuntime"
PROVIDERS = f"{RUNTIME}:0x1D80001:5"
"""What the reference asks for, 0x1980001, and 0x400000, which tells of generations."""
FLUSH = f"{RUNTIME}:0x8000:2"
"""A session of the same provider without types: when it ends, or begins, nothing is known of them any more."""
BLOCK = 1
"""The buffering mode in which threads wait for room."""
TIMEOUT_S = 30.0
BUFFER_MB, LARGER_BUFFER_MB = 1024, 4095
"""The reference's; for those who have lost events."""
SILENT_S = 5.0
"""A runtime that is not ready yet makes no collection when it is asked: no more than so long it is waited for."""
QUIET_END_S = 2.0
"""A runtime writes what it has every 0.1 s: what has not come of a walk that is over after so long will not."""
ANSWERS_BEHIND = 8
"""From this version on a runtime answers when it has walked, and then sends; .NET Core 3.1 answers first, and one whose threads wait may."""
MOST_ATTEMPTS = 3
_SILENT = TransportError, TargetStopped, ProcessNotFound
"""What a target comes to that does not answer any more."""
KEPT_NODES = 1 << 20
"""Objects of a heap that is kept while it is collected once more, some 40 MB: larger ones would be there twice."""
PARTING_S = 10.0
"""What a target may take to end a session whose walk has ended, beside the time of what still comes of the heap, not of other events."""
NOT_ENDED = (
    f"The target did not end the session in {PARTING_S:.0f} s; the heap is here, and modules may lack their paths."
)
REQUEST_S = 0.02
"""What it takes to ask for a session."""
OBJECT_BYTES, ROW_BYTES = 64, 28
"""What an object takes in the target, about, with all else that is there, and what it and a reference take here. With 40 twice as much was had at
hand as 1.9 million objects needed, some of it pages that the host had to find first: 0.1 s instead of 0.01, beside which the walk took longer.
"""
MOST_READY_BYTES = 176 << 20
"""Memory that is had at hand before it is known whether it is needed; what is not is given back."""
NAMELESS = "types have no name"
NAMELESS_WHY = (
    "Types have no name that another session was told of: a runtime tells of each once, as long as any session asks for types (keyword "
    "0x8000). End the other session, and collect again."
)
ENDED = "the process ended before all of its heap was told"
ENDING_S = 0.5
"""What a process takes to be gone whose sockets are closed."""
NATIVE = "its runtime makes no collection for a session, and tells of no object; a core dump (gcore PID) has them, for a native debugger"
CAN_BLOCK = 11
"""From this version on threads can wait for room; what is asked in vain costs a connection."""
COLLECTS_ONCE = 10
"""From this version on a runtime makes no collection when a session of a heap ends. 3.1, 8.0.33 and 9.0.22 do, without a walk: the provider is told
then what other sessions want, and takes it for another request.
"""
FORGETTING = 8
"""From this version on runtimes forget types by themselves; what is between 3.1 and this could not be looked at."""


@dataclass(slots=True, kw_only=True)
class HeapObserver:
    """What a face wants to be told, in the thread that collects: ``waiting`` the address or the name that a runtime is waited for at;
    ``started`` the pid, when the program is about to stand still; ``progress`` objects, references, bytes and seconds, several times a
    second; ``paused`` for how many ms the program stood still for a walk, and whether that is known (else so long at least), also where nothing
    comes of it; ``again`` what is missing, before all is collected once more.
    """

    waiting: Callable[[str], None] = lambda _: None
    started: Callable[[int | None], None] = lambda _: None
    progress: Callable[[int, int, int, float], None] = lambda *_: None
    paused: Callable[[float, bool], None] = lambda *_: None
    again: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapOptions:
    """Whose heap, and how long nothing may come of it (None: 30 s, and a runtime that is not there yet is waited for however long);
    ``buffer_mb`` is of the session in the target.
    """

    target: Target
    timeout: float | str | None = None
    buffer_mb: int = BUFFER_MB
    raw: Callable[[], Callable[[memoryview], object]] | None = None
    """Gives what takes the bytes of the session, which begin anew when all is collected once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedHeap:
    """A heap, and how it was collected. ``size_bytes``: of what came; ``pause_ms``: how long the program stood still, None where that was
    not told; ``attempts``: more than 1 where something was missing the first time, ``walks`` how many walks they had, and ``all_pauses_ms`` what
    these came to: at least, unless ``are_pauses_known``. Where another session asks for the heap too, the runtime may walk it once more for that one
    when this one begins anew, and tells nobody. ``collects_at_end``: the runtime collects everything once more when the session ends, which
    it tells nobody of. ``session``: by which the heap came, from 1 on: a later one may have told nothing.
    """

    heap: Heap
    pid: int | None
    size_bytes: int
    duration_s: float
    attempts: int
    walks: int = 1
    session: int = 1
    all_pauses_ms: float | None = None
    are_pauses_known: bool = True
    collects_at_end: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def pause_ms(self) -> float | None:
        """How long the program stood still."""
        return self.heap.facts.pause_ms


def collect_heap(options: HeapOptions, observer: HeapObserver | None = None, stop: Stop | None = None) -> CollectedHeap:
    """Have the runtime walk its heap, and make a graph of what it tells.

    A heap that is not whole says so in its ``completeness``. Raises TimedOut where nothing of it came within the ``timeout``, NotPossible for a
    runtime that walks no heap, ConnectionEnded for a target that went before it told of any object, Cancelled after ``stop.stop()`` or
    ``stop.cancel()`` where the walk had not ended by then, and the errors of the client.
    """
    observer, stop = observer or HeapObserver(), stop or Stop()
    timeout_s = TIMEOUT_S if options.timeout is None else seconds_of(options.timeout)
    if not timeout_s:
        raise UsageError("a timeout of 0 s: no heap comes in no time")
    check = waiting_check(stop, options.timeout)
    with connected(options.target, waiting=observer.waiting, check=check) as client, bounded(client, timeout_s):
        began = time.monotonic()
        with stop.waiting():
            pid = client.target_pid(timeout_s=timeout_s)
            left_s = timeout_s - (time.monotonic() - began)  # who has said nothing yet does not get the time twice
            with bounded(client, max(left_s, TICK_S)):
                starts = let_start(client, stop) or options.target.listens  # who is refused runs on
            if has_no_sampler(pid):
                raise NotPossible("A heap of NativeAOT", NATIVE)
            major = _major_version(client)
            if major is None or major < FORGETTING:
                _flush_types(client)
        loading, life = _Loading(_likely_objects(pid)), _Life(pid)
        observer.started(pid)
        walk = partial(_Walk, client, options, timeout_s, observer, stop, loading, pid=pid, major=major)
        attempts = _Attempts(walk, observer, life, timeout_s, options.buffer_mb, pid=pid, starts=starts)
        while (walked := attempts.walked()) is None:
            pass
        heap, last = walked
        attempts.note(heap, last)
        return CollectedHeap(
            heap=heap,
            pid=pid,
            size_bytes=last.size_bytes,
            duration_s=time.monotonic() - began,
            attempts=attempts.count,
            all_pauses_ms=sum(ms for ms, _ in attempts.pauses) if attempts.pauses else None,
            are_pauses_known=all(known for _, known in attempts.pauses) and not attempts.has_other,
            collects_at_end=major is None or major < COLLECTS_ONCE,
            walks=len(attempts.pauses),
            session=attempts.session,
            notes=tuple(last.notes),
        )


class _Attempts:
    """Walks, one after the other, until the heap is whole, or no other walk would make it so."""

    def __init__(
        self,
        walk: Callable[..., _Walk],
        observer: HeapObserver,
        life: _Life,
        timeout_s: float,
        buffer_mb: int,
        *,
        pid: int | None,
        starts: bool,
    ) -> None:
        self._walk, self._observer, self._life, self._pid = walk, observer, life, pid
        self._timeout_s, self._buffer_mb, self._starts = timeout_s, buffer_mb, starts
        self.count, self.session = 1, 0
        self.pauses: list[tuple[float, bool]] = []
        self.has_other = False
        """Whether another session asks for the heap too, as it seems."""
        self._again = has_other_sessions(pid)
        self._earlier: tuple[Heap, int, int] | None = None
        self._lost = 0
        """Events, in the last walk that came to an end."""

    def walked(self) -> tuple[Heap, _Walk] | None:
        """The heap, and the walk that it ends with; None where all is to be collected once more."""
        walk, heap = self._walk(starts=self._starts), None
        self.session += 1
        try:
            heap, self._lost = walk.run(self._buffer_mb, again=self._again)
        except _SILENT as error:
            if self._earlier is not None:
                heap, walk.size_bytes, self.session = self._earlier
                walk.notes.append(f"Once more it did not answer ({error}): this is what came before.")
                return heap, walk
            if isinstance(error, TransportError) and self._life.has_ended():
                raise ConnectionEnded(ENDED) from error
            timed_out = isinstance(error, TimedOut)
            stopped = stopped_error(self._pid, self._pid) if self._pid is not None and timed_out else None
            if stopped is not None:
                raise stopped from error
            if not (self._starts and timed_out):
                raise
            self._lost = 0
        finally:
            self.pauses += walk.pauses
            for pause in walk.pauses:
                self._observer.paused(*pause)
        if heap is None:
            self._begin_anew()
            return None
        if self._is_enough(heap, walk):
            return heap, walk
        self._complete(heap, walk)
        del heap
        walk.over.wait(PARTING_S)  # or the next is told of no type that this one was told of
        return None

    def _begin_anew(self) -> None:
        """Of a walk that told of no object another is to tell. Raises where none would."""
        if self._lost and self._buffer_mb < LARGER_BUFFER_MB:
            self._observer.again(f"{self._lost:,} events were lost, and all objects with them")
            self._buffer_mb = LARGER_BUFFER_MB
        elif self._starts:
            self._observer.again("the runtime, which has just begun, told of no object yet")
            self._starts = False
        else:
            raise _nothing_came(self._lost, self._timeout_s)
        self.count += 1

    def _is_enough(self, heap: Heap, walk: _Walk) -> bool:
        """Whether the heap is whole, or no walk would make it so."""
        if heap.completeness.complete or self.count >= MOST_ATTEMPTS or not walk.ended_by_itself:
            return True
        if self._lost:
            return self._buffer_mb >= LARGER_BUFFER_MB  # once more would lose as much
        if _is_nameless(heap):
            return self.count > 1  # the other session goes on
        return self._life.has_ended()  # nobody answers once more

    def _complete(self, heap: Heap, walk: _Walk) -> None:
        """Of a heap that lacks something another walk is to tell all."""
        why = heap.completeness.problems[-1] if not self._lost else f"{self._lost:,} events were lost"
        is_nameless = not self._lost and _is_nameless(heap)
        self._observer.again(f"{why}, for another session was told of them" if is_nameless else why)
        self.has_other |= not self._lost
        if self._lost:
            self._buffer_mb = LARGER_BUFFER_MB
        self.count += 1
        self._earlier = (heap, walk.size_bytes, self.session) if heap.nodes <= KEPT_NODES else None
        self._again = True

    def note(self, heap: Heap, walk: _Walk) -> None:
        """What is missing in the end."""
        if not (walk.ended_by_itself and heap.completeness.complete) and self._life.has_ended():
            walk.notes.append(f"T{ENDED[1:]}.")
        elif not self._lost and _is_nameless(heap):
            walk.notes.append(NAMELESS_WHY)


class _Life:
    """Of a process of this machine: who is elsewhere may have a number that nobody has here."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid if pid is not None and is_running(pid) else None

    def has_ended(self) -> bool:
        """Whether it was there, and is no more."""
        until = time.monotonic() + ENDING_S
        while self._pid is not None and is_running(self._pid):
            if time.monotonic() > until:
                return False
            time.sleep(ENDING_S / 20)
        return self._pid is not None


def _is_nameless(heap: Heap) -> bool:
    """Whether nothing is missing but names of types: of a walk that was cut they had not come yet."""
    problems = heap.completeness.problems
    return bool(problems) and all(problem.endswith(NAMELESS) for problem in problems)


def _nothing_came(lost: int, timeout_s: float) -> DiagnosticsError:
    if lost:
        return TransportError(f"{lost:,} events were lost, and all objects with them: the buffer was too small")
    return TimedOut("the runtime told of no object: it is busy, suspended, or has no heap to show", timeout_s=timeout_s)


def _makers() -> tuple[type[HeapFold], type[WindowStream]]:
    """What makes a heap of bytes. Nothing of it calls ``np.unique`` of one array alone, which loads ``numpy.ma``: 14 ms."""
    import concurrent.futures.thread  # noqa: F401 - 5 ms of :meth:`_Walk._prepare`

    from dotnetdiag.export import heap_gcdump  # noqa: F401 - what writes the file
    from dotnetdiag.heap.fold import HeapFold
    from dotnetdiag.live.stream import WindowStream
    from dotnetdiag.recipes import heap_sharing, heap_writing  # noqa: F401 - what works and writes behind the walk
    from dotnetdiag.transport import kernels  # noqa: F401 - what receives

    return HeapFold, WindowStream


class _Loading:
    """:func:`_makers`, loaded by a thread: 0.15 s, in which the runtime walks its heap. It leaves the caller a moment to have that begin: beside
    a thread that loads, each of its system calls takes 5 ms, after which the interpreter's lock comes back. A runtime answers when it has walked
    (0.6 s for 5.6 million objects), and so there is time to have memory at hand for what it will tell, which is a fifth of what that takes.
    """

    def __init__(self, objects: int) -> None:
        """For about so many."""
        self._objects = objects
        self._outcome: Outcome[tuple[HeapFold, type[WindowStream]]] = (None, None)
        self._pieces: list[memoryview] | None = None
        self._wanted, self._ended = threading.Event(), threading.Event()
        start_thread(self._load, self._end)

    def _load(self) -> tuple[HeapFold, type[WindowStream]]:
        self._wanted.wait(REQUEST_S)
        fold, stream = _makers()
        self._pieces = made_pieces()
        made = fold()
        try:
            made.have_ready(self._objects, lambda: not self._wanted.is_set())
        except (OSError, MemoryError):  # there may be less of it than anybody says, and what is needed is not known yet
            made = fold()
        return made, stream

    def _end(self, outcome: Outcome[tuple[HeapFold, type[WindowStream]]]) -> None:
        self._outcome = outcome
        self._ended.set()

    def pieces(self) -> list[memoryview] | None:
        """Memory to receive into, where there is some by now; once. What else is wanted is wanted now."""
        self._wanted.set()
        pieces, self._pieces = self._pieces, None
        return pieces

    def result(self) -> tuple[HeapFold, type[WindowStream]]:
        """A fold, and what makes windows for it. Raises what loading them has raised."""
        self._wanted.set()
        self._ended.wait()
        fold, stream = result_of(self._outcome)
        self._outcome = (type(fold)(), stream), None  # another walk needs another fold
        return fold, stream


def _likely_objects(pid: int | None) -> int:
    """How many objects a heap may have, by what its process has in memory: of 64 bytes each, no more than have room in :data:`MOST_READY_BYTES`, nor
    in an eighth of what there is. 0 where it is not known.
    """
    from dotnetdiag.recipes.memory import available_bytes, resident_bytes

    there, room = None if pid is None else resident_bytes(pid), available_bytes()
    if there is None or room is None:
        return 0
    return min(there // OBJECT_BYTES, min(MOST_READY_BYTES, room // 8) // ROW_BYTES)


def _major_version(client: Client) -> int | None:
    """Of the runtime, where it tells."""
    try:
        major = client.process_info().runtime_version.partition(".")[0]
    except UnsupportedCommand:
        return None
    return int(major) if major.isdecimal() else None


def _flush_types(client: Client) -> None:
    with client.trace(FLUSH, buffer_mb=1, rundown_keyword=0):
        pass


def _session(client: Client, buffer_mb: int, major: int | None) -> tuple[TraceSession, bool]:
    """(the session, whether threads wait for room). Where they can (.NET 11), no event is lost; where stacks can be left out (.NET 9), they are."""
    trace = partial(
        client.trace, PROVIDERS, buffer_mb=buffer_mb, rundown_keyword=RUNDOWN, rundown_fallback=WHOLE_RUNDOWN
    )
    if major is None or major >= CAN_BLOCK:
        with suppress(UnsupportedCommand):
            return trace(buffering_mode=BLOCK, stackwalk=False), True
    with suppress(UnsupportedCommand):
        return trace(stackwalk=False), False
    return trace(), False


def _end(session: TraceSession) -> None:
    """Take what still comes of a session that was asked to end, until it has."""
    with suppress(DiagnosticsError):
        session.close(timeout_s=PARTING_S)


class _Walk:
    """One session, and the heap that it tells of."""

    def __init__(
        self,
        client: Client,
        options: HeapOptions,
        timeout_s: float,
        observer: HeapObserver,
        stop: Stop,
        loading: _Loading,
        *,
        pid: int | None,
        major: int | None,
        starts: bool,
    ) -> None:
        self._pid, self._starts, self._major = pid, starts, major
        self._client, self._options, self._timeout_s = client, options, timeout_s
        self._observer, self._stop = observer, stop
        self._tee = None if options.raw is None else options.raw()
        self._loading = loading
        self._fold: HeapFold
        self._stream: WindowStream
        self._has_windows = False
        self.size_bytes = 0
        self.ended_by_itself = self.has_asked = False
        self._has_left = False
        """Before the stream had ended, which then is not cut."""
        self._modules: ModulesBeside | None = None
        self._has_modules = False
        self._is_whole = False
        """All is here, and the session ends by itself."""
        self.over = threading.Event()
        """Set when the session has ended, or nobody waits for it any more."""
        self.notes: list[str] = []
        self.pauses: tuple[tuple[float, bool], ...] = ()

    def run(self, buffer_mb: int, *, again: bool = False) -> tuple[Heap | None, int]:
        """(the heap, None where no object came before the session ended; how many events were lost). ``again``: behind another, which was told of
        types, or beside one.
        """
        if again:
            _flush_types(self._client)
        with beside(self._client) if self._tells_modules() else nullcontext() as modules:
            broken = self._received(buffer_mb, modules)
        self._feed(self._stream.flush() if self._has_left or self._is_whole else self._stream.close())
        if self._has_windows:
            self.pauses = self._fold.pauses()
        lost = self._stream.losses.lost or 0
        del self._stream  # memory that the graph needs now
        return self._result(broken), lost

    def _received(self, buffer_mb: int, modules: ModulesBeside | None) -> DiagnosticsError | None:
        """Take what comes of one session, until it has ended or is left; what broke it where objects had come by then."""
        with self._stop.waiting():
            session, self._waits_for_room = _session(self._client, buffer_mb, self._major)
        reading: ReadingAhead | None = None
        try:
            if modules is not None:
                with suppress(TransportError):  # no more threads: the session tells of them at its end
                    modules.ask()
                    self._modules = modules
            reading = ReadingAhead(session, self._loading.pieces())
            self._fold, stream = self._loading.result()
            self._stream = stream(self._fold.wants)
            with self._stop.ending(session):
                try:
                    self._read(session, reading)
                except DiagnosticsError as error:
                    self._has_left = self._is_ended_early()
                    if not self._has_left and (isinstance(error, Cancelled) or not self._fold.objects):
                        raise
                    return None if self._has_left else error
            return None
        finally:
            if reading is not None:
                reading.close()
            if not (self._is_whole and self._is_left_to_end(session)):
                ask_to_end(session, TICK_S)
                session.abort()  # what it still has nobody waits for
                with suppress(DiagnosticsError):
                    session.close(timeout_s=TICK_S if self._has_left else CLOSE_TIMEOUT_S)
                self.over.set()
            if self._has_windows:
                self.pauses = self._fold.pauses()

    def _result(self, broken: DiagnosticsError | None) -> Heap | None:
        heaps = self._fold.result() if self._has_windows else ()
        if not heaps:
            if broken is None and self.has_asked:
                return None
            raise broken or ConnectionEnded("the target was gone before it told of any object")
        heap = next((one for one in heaps if one.completeness.complete), heaps[0])  # others may have walks made, too
        if broken is not None:
            problems = (*heap.completeness.problems, f"the session broke off: {broken}")
            heap = replace(heap, completeness=replace(heap.completeness, problems=problems))
        return heap

    def _feed(self, windows: Iterator[EventTable]) -> None:
        for window in windows:
            self._has_windows = True
            self._fold.feed(window)

    def _read(self, session: TraceSession, reading: ReadingAhead) -> None:
        """Take what comes until the stream ends: soon after the walk has."""
        began = came = told = time.monotonic()
        asked_at: float | None = None
        seen = (0, 0, 0)
        while True:
            if self._is_ended_early():
                self._has_left = True
                return
            if asked_at is not None and self._has_all(session):
                self.ended_by_itself = self._is_whole = True
                return
            now = time.monotonic()
            piece = reading.read(TICK_S)
            if piece is not None:
                memory, start, end = piece
                if start == end:
                    self.ended_by_itself = asked_at is not None
                    return
                self.size_bytes += end - start
                if self._tee is not None:
                    self._tee(memory[start:end])
                self._feed(self._stream.borrow(memory, start, end))
            self._take_modules()
            state = (self._fold.objects, self._fold.edges, self._fold.stopped)
            if state != seen:
                seen, came = state, time.monotonic()
            if now - told >= TICK_S:
                told = now
                self._observer.progress(*seen[:2], self.size_bytes, now - began)
            is_quiet = asked_at is None and now - came > self._quiet_s(seen)
            if is_quiet and not self._fold.stopped and (stopped := self._stopped()):
                raise stopped
            if asked_at is None and (self._fold.stopped or is_quiet):
                asked_at = came = time.monotonic()
                self.has_asked = True
                session.stop()
                self._prepare()  # the runtime takes 0.1 s until it ends the session
            elif asked_at is not None and now - came > PARTING_S:
                self._has_left = True
                if any(seen):
                    self.notes.append(NOT_ENDED)
                return

    def _stopped(self) -> TargetStopped | None:
        """That a signal has stopped the target, where that is seen."""
        return None if self._pid is None else stopped_error(self._pid, self._pid)

    def _prepare(self) -> None:
        """Have references resolved, by two threads: the runtime and who reads have nothing to do now."""
        from dotnetdiag.recipes.heap_sharing import shared_by_two

        with shared_by_two(self._fold.objects) as shared:
            self._fold.prepare(shared)

    def _is_left_to_end(self, session: TraceSession) -> bool:
        """Have a thread take what still comes; False where there are no more threads."""
        try:
            start_thread(partial(_end, session), lambda _: self.over.set())
        except TransportError:
            return False
        return True

    def _tells_modules(self) -> bool:
        """Whether a session of its own can tell of modules: of a runtime that is asked and does not come, and has walked before it answers. All that
        the session sends is wanted where somebody takes its bytes.
        """
        target = self._options.target
        is_near = target.port is None and target.router is None and not self._starts
        return is_near and self._major is not None and SAYS_WHAT_ENDS <= self._major < CAN_BLOCK and self._tee is None

    def _has_all(self, session: TraceSession) -> bool:
        """Whether the walk and all modules are here, so that nobody has to wait for the session's end, which it was asked for."""
        self._take_modules()
        if not self._has_modules or self._stream.losses.lost or not self._fold.is_resolved:
            return False
        return is_stop_on_its_way(session) and all(known for _, known in self._fold.pauses())

    def _take_modules(self) -> None:
        """Those that the other session has told of, once all of it is here: some ms, while the heap still comes."""
        if self._modules is None or self._modules.told is None:
            return
        told = type(self._stream)(self._fold.wants_beside)
        for windows in (told.feed(self._modules.told), told.close()):
            for window in windows:
                self._fold.feed(window, is_beside=True)
        self._modules, self._has_modules = None, told.complete

    def _is_ended_early(self) -> bool:
        """Whether who waits has ended it, and the walk is here; raises Cancelled where it is not."""
        if not (self._stop.is_cancelled or self._stop.is_stopping):
            return False
        if not self._has_windows or not self._fold.stopped:
            raise Cancelled
        return True

    def _quiet_s(self, seen: tuple[int, int, int]) -> float:
        """For how long nothing comes where something was lost, or the runtime was not ready."""
        answers_first = self._waits_for_room or self._major is None or self._major < ANSWERS_BEHIND
        if any(seen):
            quiet_s = self._timeout_s if self._waits_for_room else SILENT_S if answers_first else QUIET_END_S
        else:
            quiet_s = self._timeout_s if answers_first and not self._starts else SILENT_S
        return min(quiet_s, self._timeout_s)
