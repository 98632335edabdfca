"""The counters of processes, sent to a collector of OpenTelemetry in each interval; and what they log, and their activities, as they happen.

Each interval sends the series that have a new value, of each the last, with the totals since it was first seen: what is lost on the way takes
nothing from what comes later.
"""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self
from uuid import NAMESPACE_URL, uuid5

from dotnetdiag.analysis.running_totals import RunningSeries, RunningTotals
from dotnetdiag.client import Client
from dotnetdiag.errors import UsageError
from dotnetdiag.export.otlp_logs import build_logs
from dotnetdiag.export.otlp_metrics import Attributes, build_metrics, count_points
from dotnetdiag.export.otlp_series import SeriesName, SeriesNames
from dotnetdiag.export.otlp_spans import build_spans
from dotnetdiag.recipes.collector import CollectorOptions, Delivery, Signal
from dotnetdiag.recipes.counter_watch import CounterProcess, CounterUpdate
from dotnetdiag.recipes.event_push import EventOptions, EventPush, EventsFailed
from dotnetdiag.recipes.exporters import connect_collector
from dotnetdiag.recipes.outbox import BATCH, BATCH_SIZE, FINISH_S, ROOM, Notice, Outbox, Parcel, Sent
from dotnetdiag.recipes.processes import program_of
from dotnetdiag.recipes.service_names import ServiceNames, service_of
from dotnetdiag.transport import processes as system

NOTHING = EventOptions()
PARCEL_SIZE = BATCH_SIZE // 4
"""Bytes, about."""
POINT_SIZE = 60
"""Bytes, about, of a data point without its texts."""
_VERSION = re.compile(r"\d+\.\d")


def resource_attributes(process: CounterProcess, service: str) -> Attributes:
    """What tells a process from all others, by the names of OpenTelemetry's conventions for resources. ``service.instance.id`` is new at each
    start of a runtime.
    """
    by_pid = process.pid is not None and process.target == f"process {process.pid}"
    host = platform.node()
    name, _, version = process.runtime.rpartition(" ")
    executable, started = "", None
    if by_pid:
        assert process.pid is not None
        executable = program_of(process.pid, system.argv(process.pid) or ())
        started = system.start_time_ticks(process.pid)
    own = f"{host}|{process.target}|{process.pid}|{started}|{process.number if started is None else ''}"
    made = {
        "service.name": service,
        "service.instance.id": process.cookie or str(uuid5(NAMESPACE_URL, own)),
        "process.pid": process.pid,
        "process.executable.name": executable,
        "process.runtime.name": name or ".NET",
        "process.runtime.version": version if _VERSION.match(version) else "",
        "host.name": host,
    }
    return {key: value for key, value in made.items() if value not in (None, "")}


class CounterPush:
    """Use with ``with``: leaving it sends the rest, for ``finish_s`` at most. ``notice`` is called from several threads.

    Raises MissingDependency without the libraries.
    """

    def __init__(
        self,
        collector: CollectorOptions,
        notice: Callable[[Notice | EventsFailed], None] = lambda _: None,
        *,
        events: EventOptions = NOTHING,
        room: int = ROOM,
        finish_s: float = FINISH_S,
    ) -> None:
        self._finish_s = finish_s
        sender = _Sender(collector)
        self._outbox = Outbox(sender, notice, room=room)
        sender.on_trouble = self._outbox.on_trouble
        self._events: EventPush | None = None
        if not events.is_none:
            try:
                self._events = EventPush(events, self._outbox.put, notice)
            except UsageError:
                self._outbox.finish(0)
                raise
        self._services = ServiceNames()
        self._totals = RunningTotals()
        self._names = SeriesNames()
        self._attributes: dict[int, Attributes] = {}
        self._seen_ns: dict[int, int] = {}
        """By series: the time of the value that was sent last."""
        self._sent: Sent | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> Sent:
        """Send the rest. What has become of everything."""
        if self._sent is None:
            if self._events is not None:
                self._events.read_out()
            ends = time.monotonic() + self._finish_s
            self._put(self._totals.latest())
            self._services.__exit__()
            if self._events is not None:
                self._events.close()
            self._sent = self._outbox.finish(max(ends - time.monotonic(), 0))
        return self._sent

    @property
    def lost_events(self) -> int:
        """Logs and activities that never came: a buffer was full in the target."""
        return (self._events.lost or 0) if self._events is not None else 0

    @property
    def unreadable_activities(self) -> int:
        """Activities that are no spans: without ids as W3C has them."""
        return self._events.unreadable if self._events is not None else 0

    @property
    def totals(self) -> Sent:
        """What has become of everything so far."""
        return self._outbox.totals() if self._sent is None else self._sent

    def hold(self, process: CounterProcess, client: Client) -> None:
        """A process waits at its start until this returns: nothing of it will be missed. For ``CounterWatch(on_held=…)``; from any thread."""
        known = self._attributes[process.number] = resource_attributes(process, service_of(process, client))
        if self._events is not None:
            self._events.begin_held(process, known, client)

    def take(self, update: CounterUpdate) -> None:
        """Have an update of a watch sent. Does not wait."""
        for process in update.everyone:
            self._know(process)
        if update.counters is not None:
            self._totals.feed(update.counters)
        latest = self._totals.latest()
        self._put(latest)
        self._names.keep(one.series.number for one in latest if not one.ended)
        gone = {change.process.number for change in update.changes if not change.joined}
        for number in gone:
            self._totals.forget(number)
            self._attributes.pop(number, None)
            self._services.forget(number)
        if self._events is not None:
            self._events.update(gone)
        if gone:
            for one in latest:
                if one.series.pid in gone:
                    self._seen_ns.pop(one.series.number, None)

    def _know(self, process: CounterProcess) -> None:
        """Its attributes, once it has said what service it is: they do not change."""
        if process.number not in self._attributes:
            service = self._services.of(process)
            if service is not None:
                known = self._attributes[process.number] = resource_attributes(process, service)
                if self._events is not None:
                    self._events.begin(process, known)

    def _put(self, latest: Sequence[RunningSeries]) -> None:
        """What is new of them."""
        by_process: dict[int, list[tuple[SeriesName, RunningSeries]]] = {}
        for one in latest:
            number = one.series.pid or 0
            if number in self._attributes and self._seen_ns.get(one.series.number, -1) < one.utc_ns:
                self._seen_ns[one.series.number] = one.utc_ns
                by_process.setdefault(number, []).append((self._names.of(one.series), one))
        for number, series in by_process.items():
            for some, points, size in _pieces(series):
                content = self._attributes[number], some
                self._outbox.put(Parcel(signal=Signal.METRICS, content=content, records=points, size=size))


_BUILDERS: Mapping[Signal, Callable[[Sequence[Any]], Any]] = {
    Signal.METRICS: build_metrics,
    Signal.LOGS: build_logs,
    Signal.TRACES: build_spans,
}


class _Sender:
    """Makes what the library takes of parcels, in the thread of the outbox."""

    def __init__(self, collector: CollectorOptions) -> None:
        self.on_trouble: Callable[[str], None] = lambda _: None
        self._exporters = connect_collector(collector, lambda why: self.on_trouble(why))
        self.close = self._exporters.close

    def send(self, signal: Signal, contents: Sequence[Any]) -> Delivery:
        """In one request."""
        return self._exporters.send(signal, _BUILDERS[signal](contents))


def _pieces(
    series: list[tuple[SeriesName, RunningSeries]],
) -> Iterator[tuple[list[tuple[SeriesName, RunningSeries]], int, int]]:
    """Pieces that fit a request, how many points each has, and about how many bytes."""
    some: list[tuple[SeriesName, RunningSeries]] = []
    points = size = 0
    for one in series:
        own = count_points(one[1])
        more = own * _size(one[0])
        if some and (points + own > BATCH or size + more > PARCEL_SIZE):
            yield some, points, size
            some, points, size = [], 0, 0
        if own:
            some.append(one)
            points += own
            size += more
    if some:
        yield some, points, size


def _size(name: SeriesName) -> int:
    """About how many bytes a point makes, with all that says of what it is: at most three for each character."""
    metric = name.metric
    said = sum(len(key) + len(value) + POINT_SIZE // 10 for key, value in name.attributes.items())
    return POINT_SIZE + 3 * (said + len(metric.name) + len(metric.description) + len(metric.unit))
