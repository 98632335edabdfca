"""What processes log, and the activities that they end, as they happen: for a collector of OpenTelemetry.

Rule 1: each process has one session for both, beside that of its counters; one that fails, or ends, ends alone, and is told.
Rule 2: one thread reads all sessions, some times a second; a session begins in a few threads beside, that of a process that waits at its start
in the thread that lets it run, before that.
Rule 3: of a process that has gone all that its session has is read, for it has written that before its end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from dotnetdiag.analysis import activity_spans, log_entries
from dotnetdiag.client import Client, TraceSession
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.export.otlp_metrics import Attributes
from dotnetdiag.live.fleet import LiveFleet
from dotnetdiag.providers.telemetry import activities_provider, logging_provider
from dotnetdiag.recipes.collector import Signal
from dotnetdiag.recipes.counter_watch import CounterProcess
from dotnetdiag.recipes.outbox import Parcel
from dotnetdiag.trace.table import EventTable

T = TypeVar("T", log_entries.LogEntry, activity_spans.ActivitySpan)

LOOK_S = 0.2
CONNECT_S = 5.0
CONNECTING = 8
BUFFER_MB = 32
"""Of a session in its target."""
PARCEL_RECORDS = 1000
DRAIN_S = 2.0
"""At the end, for what is still in the targets."""
LAST_S, LAST_QUIET_S = 30.0, 2.0
"""At the end, for what processes have left that have gone: in all, and without anything new."""
PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsFailed:
    """A process that is watched gives no logs and spans, or no more: ``why``, in one line."""

    process: CounterProcess
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """What is asked of processes. ``logs``: None for none, ``""`` for what the program's own filters let through, or the least level (a name of
    :data:`dotnetdiag.providers.telemetry.LOG_LEVELS`, in any case).
    """

    logs: str | None = None
    traces: bool = False

    @property
    def is_none(self) -> bool:
        """Whether nothing is asked."""
        return self.logs is None and not self.traces


class EventPush:
    """Begins with its thread, in which ``put`` and ``notice`` are called. Raises UsageError for a level that is none."""

    def __init__(
        self,
        options: EventOptions,
        put: Callable[[Parcel], None],
        notice: Callable[[EventsFailed], None] = lambda _: None,
    ) -> None:
        traces = [activities_provider()] if options.traces else []
        self._providers, self._providers_at_start = (
            (*([] if options.logs is None else [logging_provider(options.logs, at_start=at_start)]), *traces)
            for at_start in (False, True)
        )
        self._put, self._notice = put, notice
        self._fleet = LiveFleet(lambda schema: log_entries.is_log_entry(schema) or activity_spans.is_activity(schema))
        self._pool = ThreadPoolExecutor(CONNECTING, thread_name_prefix="dotnetdiag events")
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[CounterProcess, Attributes]] = {}
        self._beginning: list[tuple[CounterProcess, Future[tuple[TraceSession, ExitStack]]]] = []
        self._ended: dict[int, tuple[EventsFailed, int]] = {}
        """Sessions that ended by themselves, and how many updates ago: of a process that ends that is nothing to tell."""
        self._gone: set[int] = set()
        self._is_over = False
        self.unreadable = 0
        """Activities without ids or times as spans have them."""
        self._stopped = threading.Event()
        self._has_read_out = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dotnetdiag events", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int | None:
        """Events that buffers in the targets had no room for; None where the runtimes do not say it."""
        return self._fleet.losses.lost

    def begin(self, process: CounterProcess, attributes: Attributes) -> None:
        """Have the session of a process begun. Does not wait."""
        with self._lock:
            self._watched[process.number] = process, attributes
            self._beginning.append((process, self._pool.submit(self._begun, process)))

    def begin_held(self, process: CounterProcess, attributes: Attributes, client: Client) -> None:
        """Begin the session of a process that waits at its start: it is there when this returns. The client stays its owner's."""
        future: Future[tuple[TraceSession, ExitStack]] = Future()
        try:
            future.set_result((self._session(client, is_held=True), ExitStack()))
        except DiagnosticsError as error:
            future.set_exception(error)
        with self._lock:
            if not self._is_over:
                self._watched[process.number] = process, attributes
                self._beginning.append((process, future))
                return
        _leave(future)

    def update(self, gone: Iterable[int]) -> None:
        """An interval has passed, and some processes have gone."""
        told = []
        with self._lock:
            for number in gone:
                self._ended.pop(number, None)
                if number in self._watched:
                    self._gone.add(number)
            for number, (failed, age) in list(self._ended.items()):
                self._ended[number] = failed, age + 1
                if age:
                    told.append(self._ended.pop(number)[0])
        for failed in told:
            self._notice(failed)

    def read_out(self) -> None:
        """The end: begin with no others, and wait for what processes have left that have gone."""
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._has_read_out.wait(LAST_S + DRAIN_S)

    def close(self) -> None:
        """End all sessions, with what they still have, as long as the targets do not take too long for it."""
        self.read_out()
        self._thread.join(DRAIN_S)

    # the thread ---------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            self._look()
        try:
            self._look()
            self._look_for_the_last()
        finally:
            self._has_read_out.set()
        self._fleet.stop()
        ends = time.monotonic() + DRAIN_S
        while len(self._fleet) and time.monotonic() < ends:
            self._look()
            threading.Event().wait(PAUSE_S)
        self._fleet.close()
        with self._lock:
            left, self._beginning = self._beginning, []
            self._is_over = True
        for _, future in left:
            future.add_done_callback(_leave)

    def _look_for_the_last(self) -> None:
        """Read the sessions of processes that have gone to their end."""
        heard = begun = time.monotonic()
        while left := self._gone & self._fleet.numbers:
            if self._look():
                heard = time.monotonic()
                if heard - begun < LAST_S:
                    continue
            elif time.monotonic() - heard < LAST_QUIET_S:
                threading.Event().wait(PAUSE_S)
                continue
            for number in left:
                process, _ = self._watched[number]
                self._notice(EventsFailed(process=process, why="the last were not read in time"))
            return

    def _look(self) -> bool:
        """Whether anything has come."""
        with self._lock:
            done = [one for one in self._beginning if one[1].done()]
            self._beginning = [one for one in self._beginning if one not in done]
        for process, future in done:
            if future.cancelled():
                continue
            try:
                session, opened = future.result()
            except DiagnosticsError as error:
                self._notice(EventsFailed(process=process, why=str(error)))
                continue
            self._fleet.add(process.number, session, opened)
        window = self._fleet.take()
        if window is not None:
            self._send(window)
        for number, why in self._fleet.ended():
            with self._lock:
                process, _ = self._watched.pop(number)
                self._gone.discard(number)
                if why and not self._stopped.is_set():
                    self._ended[number] = EventsFailed(process=process, why=why), 0
        return window is not None

    def _send(self, window: EventTable) -> None:
        entries = list(log_entries.iter_log_entries(window))
        spans = list(activity_spans.iter_spans(window))
        usable = [one for one in spans if one is not None]
        self.unreadable += len(spans) - len(usable)
        for number, logged in _by_process(entries):
            self._put_all(Signal.LOGS, number, logged)
        for number, ended in _by_process(usable):
            self._put_all(Signal.TRACES, number, ended)

    def _put_all(self, signal: Signal, number: int, records: list[T]) -> None:
        with self._lock:
            _, attributes = self._watched[number]
        for first in range(0, len(records), PARCEL_RECORDS):
            some = records[first : first + PARCEL_RECORDS]
            self._put(Parcel(signal=signal, content=(attributes, some), records=len(some)))

    def _begun(self, process: CounterProcess) -> tuple[TraceSession, ExitStack]:
        opened = ExitStack()
        if process.pid is not None and process.target == f"process {process.pid}":
            client = Client(process.pid, timeout_s=CONNECT_S)
        else:
            client = Client.connect(process.target)
            opened.callback(client.close)
        try:
            return self._session(client), opened
        except DiagnosticsError:
            opened.close()
            raise

    def _session(self, client: Client, *, is_held: bool = False) -> TraceSession:
        providers = self._providers_at_start if is_held else self._providers
        return client.trace(providers, rundown_keyword=0, buffer_mb=BUFFER_MB)


def _by_process(records: list[T]) -> Iterator[tuple[int, list[T]]]:
    made: dict[int, list[T]] = {}
    for one in records:
        made.setdefault(one.pid or 0, []).append(one)
    yield from made.items()


def _leave(future: Future[tuple[TraceSession, ExitStack]]) -> None:
    """A session that began when nobody wanted it any more."""
    if future.cancelled() or future.exception() is not None:
        return
    session, opened = future.result()
    session.abort()
    session.close()
    opened.close()
