"""What processes log, and the activities that they end, as they happen: for a collector of OpenTelemetry.

Rule 1: each process has one session for both, beside that of its counters; one that fails, or ends, ends alone, and is told.
Rule 2: one thread reads all sessions, some times a second; a session begins in a few threads beside.
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
        logs = [] if options.logs is None else [logging_provider(options.logs)]
        self._providers = (*logs, *([activities_provider()] if options.traces else []))
        self._put, self._notice = put, notice
        self._fleet = LiveFleet(lambda schema: log_entries.is_log_entry(schema) or activity_spans.is_activity(schema))
        self._pool = ThreadPoolExecutor(CONNECTING, thread_name_prefix="dotnetdiag events")
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[CounterProcess, Attributes]] = {}
        self._beginning: list[tuple[CounterProcess, Future[tuple[TraceSession, ExitStack]]]] = []
        self._ended: dict[int, tuple[EventsFailed, int]] = {}
        """Sessions that ended by themselves, and how many updates ago: of a process that ends that is nothing to tell."""
        self.unreadable = 0
        """Activities without ids or times as spans have them."""
        self._stopped = threading.Event()
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

    def update(self, gone: Iterable[int]) -> None:
        """An interval has passed, and some processes have gone."""
        told = []
        with self._lock:
            for number in gone:
                self._ended.pop(number, None)
            for number, (failed, age) in list(self._ended.items()):
                self._ended[number] = failed, age + 1
                if age:
                    told.append(self._ended.pop(number)[0])
        for failed in told:
            self._notice(failed)

    def close(self) -> None:
        """End all sessions, with what they still have, as long as the targets do not take too long for it."""
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._thread.join(DRAIN_S)

    # the thread ---------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_S):
            self._look()
        self._look()
        self._fleet.stop()
        ends = time.monotonic() + DRAIN_S
        while len(self._fleet) and time.monotonic() < ends:
            self._look()
            threading.Event().wait(0.02)
        self._fleet.close()
        with self._lock:
            left, self._beginning = self._beginning, []
        for _, future in left:
            future.add_done_callback(_leave)

    def _look(self) -> None:
        with self._lock:
            done = [one for one in self._beginning if one[1].done()]
            self._beginning = [one for one in self._beginning if one not in done]
        for process, future in done:
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
                if why and not self._stopped.is_set():
                    self._ended[number] = EventsFailed(process=process, why=why), 0

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
            return client.trace(self._providers, rundown_keyword=0, buffer_mb=BUFFER_MB), opened
        except DiagnosticsError:
            opened.close()
            raise


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
