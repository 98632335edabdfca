"""What processes log, and the activities that they end, as they happen: for a collector of OpenTelemetry.

Rule 1: each process has one session for both, beside that of its counters; one that fails, or ends, ends alone, and is told.
Rule 2: one thread reads all sessions, some times a second; a session begins in a few threads beside, that of a process that waits at its start
in the thread that lets it run, before that.
Rule 3: of a process that has gone all that its session has is read, for it has written that before its end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from dotnetdiag._dataclasses import dataclass
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
CONNECTING = 8
BUFFER_MB = 32
"""Of a session in its target."""
PARCEL_RECORDS = 1000
PARCEL_SIZE = 500_000
"""Bytes, about."""
RECORD_SIZE = 100
"""Bytes, about, of a record without its texts."""
_LONGEST = 300
"""Characters of what an error says."""
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
        self._beginning: list[tuple[CounterProcess, Future[TraceSession]]] = []
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
            if not self._stopped.is_set():
                self._watched[process.number] = process, attributes
                self._beginning.append((process, self._pool.submit(self._begun, process)))

    def begin_held(self, process: CounterProcess, attributes: Attributes, client: Client) -> None:
        """Begin the session of a process that waits at its start: it is there when this returns. The client stays its owner's."""
        future: Future[TraceSession] = Future()
        try:
            future.set_result(self._session(client, is_held=True))
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
        with self._lock:
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
            if future.cancelled():  # the end has come before its turn
                continue
            try:
                session = future.result()
            except DiagnosticsError as error:
                self._notice(EventsFailed(process=process, why=str(error)))
                continue
            except Exception as error:  # a mistake of ours; others go on
                self._notice(EventsFailed(process=process, why=f"{type(error).__name__}: {error}"))
                continue
            self._fleet.add(process.number, session)
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
        entries: dict[int, list[log_entries.LogEntry]] = {}
        spans: dict[int, list[activity_spans.ActivitySpan]] = {}
        broken: dict[int, Exception] = {}
        for event in window:
            number = event.pid or 0
            try:
                if log_entries.is_log_entry(event.schema):
                    entries.setdefault(number, []).append(log_entries.log_entry(event))
                elif activity_spans.is_activity(event.schema):
                    span = activity_spans.activity_span(event)
                    if span is None:
                        self.unreadable += 1
                    else:
                        spans.setdefault(number, []).append(span)
            except Exception as error:  # nobody else's are to end with it
                broken[number] = error
        for number, logged in entries.items():
            self._put_all(Signal.LOGS, number, logged)
        for number, ended in spans.items():
            self._put_all(Signal.TRACES, number, ended)
        for number, why in broken.items():
            self._break(number, why)

    def _break(self, number: int, error: Exception) -> None:
        """End the session of a process whose events are none, and tell it."""
        self._fleet.drop(number)
        with self._lock:
            watched = self._watched.get(number)
            self._gone.discard(number)
        if watched is not None:
            why = " ".join(f"its events cannot be read: {type(error).__name__}: {error}".split())[:_LONGEST]
            self._notice(EventsFailed(process=watched[0], why=why))

    def _put_all(self, signal: Signal, number: int, records: list[T]) -> None:
        with self._lock:
            _, attributes = self._watched[number]
        own = sum(_size(key) + _size(str(value)) for key, value in attributes.items())
        some: list[T] = []
        size = own
        for one in records:
            more = _size_of(one)
            if some and (len(some) >= PARCEL_RECORDS or size + more > PARCEL_SIZE):
                self._put(Parcel(signal=signal, content=(attributes, some), records=len(some), size=size))
                some, size = [], own
            some.append(one)
            size += more
        if some:
            self._put(Parcel(signal=signal, content=(attributes, some), records=len(some), size=size))

    def _begun(self, process: CounterProcess) -> TraceSession:
        assert process.client is not None
        return self._session(process.client)

    def _session(self, client: Client, *, is_held: bool = False) -> TraceSession:
        providers = self._providers_at_start if is_held else self._providers
        return client.trace(providers, rundown_keyword=0, buffer_mb=BUFFER_MB)


def _size(text: str) -> int:
    """About how many bytes of UTF-8 it makes, with what stands around it."""
    return (len(text) if text.isascii() else 3 * len(text)) + 8


def _size_of(one: log_entries.LogEntry | activity_spans.ActivitySpan) -> int:
    """About how many bytes a record makes."""
    if isinstance(one, log_entries.LogEntry):
        error = one.exception
        texts = [one.text, one.logger, one.event_name, *([error.type, error.message, error.text] if error else [])]
        pairs = one.arguments
    else:
        texts = [one.name, one.source, one.source_version, one.status_text, one.trace_state]
        pairs = one.tags
    return RECORD_SIZE + sum(map(_size, texts)) + sum(_size(key) + _size(value) for key, value in pairs.items())


def _leave(future: Future[TraceSession]) -> None:
    """A session that began when nobody wanted it any more."""
    if future.cancelled() or future.exception() is not None:
        return
    session = future.result()
    session.abort()
    session.close()
