"""One EventPipe session of this process: a CollectTracing request in, a nettrace stream out.

Rule 1: threads that write events only append to a bounded buffer (:class:`HeldEvents`); one worker encodes all that came in a tenth of a
second at once, and is the only thread that uses the writer.
Rule 2: what is held and what is encoded but not yet taken never exceed the buffer that the request names. Events beyond it are dropped and
counted: the stream's sequence numbers tell readers of each.
Rule 3: an idle session does nothing at all.
Rule 4: what waits for a reader is the worker alone, and it holds nothing meanwhile. What takes from a session, or hangs up, waits for nobody, and
takes no lock but the session's own: it may be the thread of a server, or the loop of a program.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD, BufferingMode, EventLevel, TraceFormat
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.tracing import CollectTracing
from dotnetdiag.nettrace import (
    Field,
    FieldType,
    HeaderColumns,
    LabelList,
    Metadata,
    NetPerfWriter,
    ThreadInfo,
    TypeCode,
    Writer,
)
from dotnetdiag.nettrace.constants import UNKNOWN_PROCESSOR
from dotnetdiag.server.alarm import new_alarm
from dotnetdiag.server.blocking import never_wait, own_lock
from dotnetdiag.server.event_fields import z16
from dotnetdiag.server.held_events import ROW, Batch, HeldEvents
from dotnetdiag.server.periodic import OWN_THREADS
from dotnetdiag.server.process import ProcessFacts
from dotnetdiag.server.promptness import prompt
from dotnetdiag.server.registry import REGISTRY, RUNDOWN, Registry
from dotnetdiag.server.subscription import Subscription
from dotnetdiag.server.thread_names import names_by_os_thread
from dotnetdiag.server.writing import Write

logger = logging.getLogger("dotnetdiag.server")

NETPERF = 3
"""Version of what a request for NetPerf gets."""
FLUSH_S = 0.1
"""An event is in the stream this long after it was written, as in runtimes (nettrace.md §5.9)."""
SEQUENCE_POINT_BYTES = 10 << 20
"""A sequence point after so much of the stream, as runtimes write them; readers drop what they keep for stacks there."""
LARGEST_BUFFER_MB = 1024
"""A request may name any number; no more than this is ever held."""
THREADS_KEPT, NUMBERS_KEPT = 1000, 100_000
"""Sequence points list every thread that has written; beyond so many only those that did so lately. Beyond the other number the others are
forgotten, and begin anew.
"""
READER_S = 60.0
"""How long the end of a session waits for a reader who takes nothing; then what does not fit is dropped until something is taken."""
_PROCESS_INFO = Metadata(
    metadata_id=0,
    provider="Microsoft-DotNETCore-EventPipe",
    event_id=1,
    name="ProcessInfo",
    version=1,
    fields=tuple(
        Field(name=name, type=FieldType(code=TypeCode.STRING))
        for name in ("CommandLine", "OSInformation", "ArchInformation")
    ),
)


class EventSession:
    """A session, made of a request for it; :meth:`start` begins it. All methods may be called from any thread. One that takes from a session
    waits in no session of :attr:`~dotnetdiag.ipc.constants.BufferingMode.BLOCK` for room: its events are dropped.

    ``nettrace_version`` 4 (what runtimes write, with the metadata of .NET 5) or 6; a request for NetPerf gets NetPerf 3, which does not tell
    what was lost. UsageError for another format, and for a buffer of 0 MB. A session that was stopped before it was started has an empty
    stream.
    """

    def __init__(
        self,
        request: CollectTracing,
        *,
        registry: Registry = REGISTRY,
        nettrace_version: int = 4,
        process_id: int | None = None,
    ) -> None:
        if request.format not in tuple(TraceFormat):
            raise UsageError(f"format {request.format} is not written; 0 (NetPerf) and 1 (nettrace) are")
        if request.buffer_mb <= 0:
            raise UsageError("a buffer of 0 MB holds nothing; at least 1 is needed")
        if nettrace_version not in (4, 6):
            raise UsageError(f"nettrace {nettrace_version} is not written; 4 and 6 are")
        self.request = request
        self._registry = registry
        self._version = nettrace_version if request.format == TraceFormat.NETTRACE else NETPERF
        self._process_id = os.getpid() if process_id is None else process_id
        self._alarm = new_alarm()
        capacity = min(request.buffer_mb, LARGEST_BUFFER_MB) << 20
        block = getattr(request, "buffering_mode", BufferingMode.DROP) == BufferingMode.BLOCK
        self._held = HeldEvents(capacity, self._alarm.ring, block=block)
        self._stacks = bool(getattr(request, "stackwalk", True))
        self._kinds: list[Metadata] = []
        self._subscriptions: list[Subscription] = []
        self._out = _Stream(self._held)
        self._state = own_lock()
        self._worker: threading.Thread | None = None
        self._ending = self._gone = False
        self._writer: Writer | NetPerfWriter | None = None
        self._numbers: dict[int, int] = {}
        """The last number of each capture thread; 1 is the first."""
        self._active: set[int] = set()
        """Capture threads with an event since the last sequence point."""
        self._defined: set[int] = set()
        self._threads: set[int] = set()
        self._point_at = 0

    # from any thread ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Begin: the stream's opening is there at once, the providers are joined. Twice does nothing more.

        Whatever is raised, as RuntimeError where the system has no thread for it, ends the session: nothing of it stays.
        """
        try:
            self._start()
        except BaseException:
            self.hang_up()
            with suppress(Exception):  # what went wrong first is what is told
                self._leave()
            raise
        return self

    def _start(self) -> None:
        with self._state:
            if self._worker is not None or self._ending:
                return
            now, ticks = time.time_ns(), time.monotonic_ns()
            make: Callable[..., Writer | NetPerfWriter] = NetPerfWriter
            if self._version != NETPERF:
                # in the file 5 is called 4; it may have arrays
                make = partial(Writer, version=5 if self._version == 4 else 6)
            self._writer = make(
                self._out,
                start_ns=now,
                sync_ticks=ticks - now % 1_000_000,  # the file has whole milliseconds
                process_id=self._process_id,
                processors=os.cpu_count(),
            )
            worker = threading.Thread(target=self._work, name=f"{OWN_THREADS}session", daemon=True)
            worker.start()
            self._worker = worker
        self._out.settle()
        names = set[str]()
        for provider in self.request.providers:
            # of a provider listed twice the first entry counts (ipc-protocol.md §21.4)
            if provider.name and provider.name not in names and provider.name != RUNDOWN:
                names.add(provider.name)
                self._join(provider)

    def on_ready(self, wake: Callable[[], None]) -> None:
        """``wake`` is called whenever :meth:`take` may give more; also now, where it does."""
        self._out.on_ready(wake)

    def take(self, limit: int) -> bytes | None:
        """At most ``limit`` bytes of the stream: none where there are none now, None behind its end."""
        never_wait()
        return self._out.take(limit)

    def stop(self) -> None:
        """End the session: no more events, then rundown and the end of the stream. Does not wait; twice does nothing more."""
        with self._state:
            if self._ending:
                return
            self._ending = True
            started = self._worker is not None
        if started:
            self._alarm.ring()
        else:
            self._out.end()

    def hang_up(self) -> None:
        """The reader has gone: all is dropped at once, and nothing more is written. The worker leaves the providers (:meth:`join`)."""
        with self._state:
            self._ending = self._gone = True
        self._held.close()
        self._out.drop()
        self._alarm.ring()

    def join(self, timeout_s: float) -> bool:
        """Wait until nothing of the session runs any more; whether that is so."""
        if self._worker is not None:
            self._worker.join(timeout_s)
            return not self._worker.is_alive()
        return True

    def _join(self, provider: Provider) -> None:
        subscription = Subscription.of(provider, stacks=self._stacks, define=self._define, skip=self._held.skip)
        with self._state:
            if self._ending:
                return
            self._subscriptions.append(subscription)
        self._registry.join(subscription)
        if self._ending:  # meanwhile: whoever ended it may not have seen this one joined
            self._registry.leave(subscription)

    def _leave(self) -> None:
        """All providers, also when leaving one of them fails."""
        with self._state:
            subscriptions, self._subscriptions = self._subscriptions, []
        with ExitStack() as leaving:
            for subscription in subscriptions:
                leaving.callback(self._registry.leave, subscription)

    def _define(self, kind: Metadata) -> Write:
        with self._state:
            self._kinds.append(kind)
            return self._held.channel(len(self._kinds))

    # the worker ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Raises nothing: it would be printed, and what a provider that cannot leave has done wrong is not the program's."""
        try:
            self._run()
        except Exception as error:
            logger.warning("a session ends early: %s", error, exc_info=error)

    def _run(self) -> None:
        never_wait()
        try:
            while not self._ending:
                self._alarm.wait()  # the first event, or the end
                if not self._ending:
                    self._pause()
                    self._write_held()
            try:
                self._leave()
            finally:
                if not self._gone:
                    self._write_held()
                    self._finish()
        finally:
            self._leave()
            self._held.close()
            self._out.end()

    def _pause(self) -> None:
        """Until the time is over, much is held, or the session ends."""
        self._alarm.wait(int(FLUSH_S * 1e9))

    def _finish(self) -> None:
        """ProcessInfo, rundown, the last sequence point and the end (nettrace.md §5.9)."""
        assert self._writer is not None
        self._define(_PROCESS_INFO)(_process_info())
        keyword = _rundown_keyword(self.request)
        if keyword:
            rundown = Subscription(
                provider=RUNDOWN,
                keywords=keyword,
                level=EventLevel.VERBOSE,
                stacks=False,
                define=self._define_for_rundown,
                skip=self._held.skip,
            )
            self._registry.write_rundown(rundown)
        self._write_held()
        if not self._gone:
            self._write_sequence_point(self._writer)
            self._writer.close(sequence_point=False)
            self._out.settle()

    def _define_for_rundown(self, kind: Metadata) -> Write:
        """Rundown may be more than the buffer: it goes on when the reader has taken what is there."""
        write, held = self._define(kind), self._held

        def write_or_wait(
            payload: bytes, activity: bytes = b"", related: bytes = b"", stack: bytes = b"", thread: int = 0, /
        ) -> None:
            if held.room < len(payload) + ROW.itemsize or held.is_urgent:
                self._write_held()
                self._out.wait_for_room(len(payload) + ROW.itemsize)
            write(payload, activity, related, stack, thread)

        return write_or_wait

    def _write_held(self) -> None:
        with prompt():  # writing threads would wait for who has the lock of what is held, and not the interpreter's
            self._write_batch(self._held.take())

    def _write_batch(self, batch: Batch | None) -> None:
        if batch is None or self._gone:
            return
        assert self._writer is not None
        self._out.owes = batch.size_bytes
        if len(batch.rows):
            self._write_rows(self._writer, batch)
        self._count_dropped(self._writer, batch.dropped)
        if self._writer.position - self._point_at >= SEQUENCE_POINT_BYTES:
            self._write_sequence_point(self._writer)
            self._point_at = self._writer.position
        self._out.settle()

    def _write_rows(self, writer: Writer | NetPerfWriter, batch: Batch) -> None:
        rows = batch.rows
        sizes = rows["size"]
        offsets = np.cumsum(sizes, dtype=np.int64) - sizes
        order = _order(rows)
        if order is not None:
            rows, sizes, offsets = rows[order], sizes[order], offsets[order]
        headers = HeaderColumns.allocate(len(rows))
        for name in ("metadata_id", "capture_thread", "thread", "time", "activity", "related"):
            getattr(headers, name)[:] = rows[name]
        headers.processor[:] = UNKNOWN_PROCESSOR
        headers.is_sorted[:] = True
        headers.payload_offset[:], headers.payload_length[:] = offsets, sizes
        attempted = headers.metadata_id != 0
        if not attempted.all():
            self._announce(writer, set(headers.capture_thread[~attempted].tolist()))
        headers.sequence[:] = self._number(headers.capture_thread)
        if not attempted.all():
            headers = headers[attempted]
        if not len(headers):
            return
        self._refer(writer, headers, rows["stack"] if attempted.all() else rows["stack"][attempted], batch)
        writer.write_events(headers, batch.payloads, guids=batch.guids)

    def _number(self, captures: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """The numbers of events that were attempted, each thread's one after another."""
        sequence = np.empty(len(captures), np.uint32)
        threads = np.unique(captures)
        for thread in threads.tolist():
            mine = np.flatnonzero(captures == thread) if len(threads) > 1 else slice(None)
            count = len(sequence[mine])
            last = self._numbers.get(thread, 0)
            sequence[mine] = (np.arange(last + 1, last + 1 + count) & 0xFFFFFFFF).astype(np.uint32)
            self._numbers[thread] = (last + count) & 0xFFFFFFFF
        self._active.update(threads.tolist())
        return sequence

    def _refer(
        self, writer: Writer | NetPerfWriter, headers: HeaderColumns, stacks: npt.NDArray[np.uint32], batch: Batch
    ) -> None:
        """What the events refer to: metadata, threads, stacks, and in version 6 activities."""
        used = set(np.unique(headers.metadata_id).tolist())
        for number in sorted(used - self._defined):
            kind = self._kinds[number - 1]
            writer.add_metadata(replace(kind, metadata_id=number))
            self._defined.add(number)
        if batch.stacks:
            ids = [0, *(writer.add_stack(stack) for stack in batch.stacks)]
            headers.stack[:] = np.array(ids, np.uint32)[stacks]
        else:
            headers.stack[:] = 0
        if isinstance(writer, Writer) and self._version == 6:
            self._add_threads(
                writer, {*np.unique(headers.thread).tolist(), *np.unique(headers.capture_thread).tolist()}
            )
            _label(writer, headers, batch)

    def _add_threads(self, writer: Writer, threads: set[int]) -> None:
        new = threads - self._threads
        if not new:
            return
        self._threads |= new
        names = names_by_os_thread()
        for thread in sorted(new):
            writer.add_thread(
                ThreadInfo(index=thread, name=names.get(thread, ""), process_id=self._process_id, os_thread_id=thread)
            )

    def _count_dropped(self, writer: Writer | NetPerfWriter, dropped: dict[int, int]) -> None:
        """They take numbers, which the next event or sequence point of their thread tells readers."""
        self._announce(writer, set(dropped))
        for thread, count in dropped.items():
            self._numbers[thread] = (self._numbers.get(thread, 0) + count) & 0xFFFFFFFF
        self._active.update(dropped)

    def _announce(self, writer: Writer | NetPerfWriter, threads: set[int]) -> None:
        """Version 6 begins numbering anywhere: of threads that lose events before their first, say that nothing was numbered yet."""
        new = dict.fromkeys(threads - self._numbers.keys(), 0)
        if isinstance(writer, Writer) and self._version == 6 and new:
            self._add_threads(writer, set(new))
            writer.write_sequence_point(threads=new)

    def _write_sequence_point(self, writer: Writer | NetPerfWriter) -> None:
        """Of many threads it lists those alone that have written since the last one. The others keep their numbers: readers that have
        forgotten a thread take any for its first, those that have not would take a first one for a loss.
        """
        if len(self._numbers) > NUMBERS_KEPT:
            self._numbers = {thread: number for thread, number in self._numbers.items() if thread in self._active}
        listed = self._active if len(self._numbers) > THREADS_KEPT else self._numbers.keys()
        if self._version == 6:
            listed = listed & self._threads
        writer.write_sequence_point(threads={thread: self._numbers[thread] for thread in sorted(listed)})
        self._active.clear()


class _Stream:
    """The encoded bytes on their way from the worker to whoever takes them; the sink of the writer.

    While the worker encodes, ``owes`` is what the events were counted with as long as they were held; :meth:`settle` puts the bytes made
    of them in its place.
    """

    def __init__(self, held: HeldEvents) -> None:
        self.owes = 0
        self._held = held
        self._parts: deque[memoryview] = deque()
        self._lock = own_lock()
        self._taken = threading.Condition(self._lock)
        self._new = self._left = 0
        self._ended = self._dropped = self._is_reader_away = False
        self._wake: Callable[[], None] | None = None

    def write(self, data: bytes, /) -> int:
        with self._lock:
            if not self._dropped:
                self._parts.append(memoryview(data))
                self._new += len(data)
                self._left += len(data)
        return len(data)

    def settle(self) -> None:
        with self._lock:
            count, self.owes, self._new = self.owes - self._new, 0, 0
        self._held.give_back(count)
        self.tell()

    def tell(self) -> None:
        if self._wake is not None:
            self._wake()

    def on_ready(self, wake: Callable[[], None]) -> None:
        with self._lock:
            self._wake = wake
            ready = bool(self._parts) or self._ended
        if ready:
            wake()

    def take(self, limit: int) -> bytes | None:
        taken: list[memoryview] = []
        count = 0
        with self._lock:
            if not self._parts and self._ended:
                return None
            while self._parts and count < limit:
                part = self._parts.popleft()
                if len(part) > limit - count:
                    self._parts.appendleft(part[limit - count :])
                    part = part[: limit - count]
                taken.append(part)
                count += len(part)
            if count:
                self._left -= count
                self._is_reader_away = False
                self._taken.notify_all()
        if count:
            self._held.give_back(count, is_read=True)
        return b"".join(taken)

    def wait_for_room(self, size: int) -> None:
        """Until the reader has taken enough, has gone, or takes nothing for :data:`READER_S`: then no more, until it takes something."""
        with self._lock:
            while self._held.room < size and self._left and not (self._dropped or self._is_reader_away):
                if not self._taken.wait(READER_S):
                    self._is_reader_away = True

    def end(self) -> None:
        with self._lock:
            self._ended = True
        self.tell()

    def drop(self) -> None:
        with self._lock:
            self._dropped = self._ended = True
            self._parts.clear()
            self._left = 0
            self._taken.notify_all()
        self.tell()


def _order(rows: npt.NDArray[np.void]) -> npt.NDArray[np.int64] | None:
    """The rows in the order of time; None where they are: only an event that interrupted another stands before it."""
    times = rows["time"]
    if len(times) < 2 or (times[1:] >= times[:-1]).all():
        return None
    return np.argsort(times, kind="stable").astype(np.int64)


def _label(writer: Writer, headers: HeaderColumns, batch: Batch) -> None:
    """Activities as version 6 has them: in label lists."""
    pairs = headers.activity.astype(np.uint64) << np.uint64(32) | headers.related
    distinct, index = np.unique(pairs, return_inverse=True)
    lists = []
    for pair in distinct.tolist():
        activity, related = pair >> 32, pair & 0xFFFFFFFF
        labels = LabelList(
            activity=batch.guids[activity] if activity else None, related=batch.guids[related] if related else None
        )
        lists.append(writer.add_labels(labels))
    headers.label_list[:] = np.array(lists, np.uint32)[index.reshape(-1)]


def _rundown_keyword(request: CollectTracing) -> int:
    """As the command's age says it: a number, a yes or no, or nothing, which is yes (ipc-protocol.md §5.1)."""
    default = DEFAULT_RUNDOWN_KEYWORD if getattr(request, "rundown", True) else 0
    return int(getattr(request, "rundown_keyword", default))


def _process_info() -> bytes:
    facts = ProcessFacts.of_this_process()
    return b"".join(z16(word) for word in (facts.command_line, facts.os, facts.arch))
