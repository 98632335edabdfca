"""One session's meters: a thread that reads the instruments once an interval and writes what they say (nettrace.md §10.4).

Rule 1: sessions share nothing: each has its own intervals, sums and numbers of instruments.
Rule 2: whatever may wait, or run code of the program, is done by this thread, and under no lock of ours.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from time import monotonic

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.server import meter_events as events
from dotnetdiag.server.distribution import Distribution
from dotnetdiag.server.instruments import Instrument, InstrumentKind, Reading
from dotnetdiag.server.meter_events import MeterEvent, format_number
from dotnetdiag.server.meter_request import MeterRequest
from dotnetdiag.server.open_telemetry_meters import OpenTelemetryMeters
from dotnetdiag.server.periodic import OWN_THREADS
from dotnetdiag.server.runtime_meter import METER, read_runtime, runtime_instruments
from dotnetdiag.server.subscription import Subscription

QUANTILES = (0.5, 0.95, 0.99)
"""Those that .NET tells of histograms."""
_VERSION = (10, 0, 0)
"""The .NET whose events these are."""
_MOST_INT32 = 0x7FFF_FFFF


@dataclass(slots=True, kw_only=True)
class _Series:
    """One instrument with one set of tags. ``rate`` and ``distribution`` are of this interval; None: nothing was read in it."""

    instrument: Instrument
    tags: str
    counts_increments: bool
    value: float | None = None
    rate: float | None = None
    distribution: Distribution = field(default_factory=Distribution)
    was_read: bool = False

    def take(self, reading: Reading) -> None:
        self.was_read = True
        if isinstance(reading.value, Distribution):
            self.distribution = self.distribution + reading.value
        elif reading.is_increment:
            self.value = (self.value or 0) + reading.value
            self.rate = (self.rate or 0) + reading.value
        else:
            self.rate = None if self.value is None else reading.value - self.value
            self.value = reading.value

    def begin_interval(self) -> None:
        self.was_read = False
        self.rate = 0 if self.counts_increments else None
        self.distribution = Distribution()


class MeterSession(threading.Thread):
    """Begins with :meth:`start`; :meth:`end` does not wait for it."""

    def __init__(self, subscription: Subscription, request: MeterRequest) -> None:
        super().__init__(name=f"{OWN_THREADS}meters", daemon=True)
        self.subscription, self.request = subscription, request
        self.is_ending = False
        self._writes = {one.kind.event_id: subscription.channel(one.kind) for one in events.METER_EVENTS}
        self._end = threading.Lock()  # no Event: in a child after a fork its own lock may stay taken for ever
        self._end.acquire()
        self._numbers: dict[Instrument, int] = {}
        """Of instruments that were published; 0: their values are not wanted."""
        self._series: dict[tuple[Instrument, str], _Series] = {}
        self._histograms = 0
        self._said: set[int] = set()
        """Events that come once."""
        self._at = datetime.now(UTC)

    @property
    def is_wanted(self) -> bool:
        """Whether any event passes."""
        return any(self._writes.values())

    def greet(self) -> None:
        """Say how the request was read."""
        self._tell(events.VERSION, *_VERSION)
        for remark in self.request.remarks:
            self._tell(events.MESSAGE, remark)

    def refuse(self, shared: MeterRequest) -> None:
        """Say that those who share a session already have other settings."""
        expected, actual = shared.settings, self.request.settings
        pairs = (
            (expected.histograms, actual.histograms),
            (expected.time_series, actual.time_series),
            (expected.interval_s, actual.interval_s),
        )
        numbers = (format_number(number) for pair in pairs for number in pair)
        self._tell(events.CONFIGURED_INCORRECTLY, self.request.client_id, *numbers)

    def end(self) -> None:
        """Does not wait: the thread may be reading now, and ends after it. Once only."""
        self.is_ending = True
        self._end.release()

    # the thread ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for instrument in runtime_instruments():
            self._publish(instrument)
        others = OpenTelemetryMeters() if self._wants_others() else None
        try:
            if others is not None:
                for reading in others.begin():
                    self._publish(reading.instrument)
            self._tell(events.ENUMERATION_COMPLETE, self.request.session_id)
            due = monotonic()
            while True:
                due = max(due + self.request.settings.interval_s, monotonic())
                if self._end.acquire(timeout=max(0.0, due - monotonic())):
                    return
                try:
                    self._collect(others)
                except Exception:  # this interval's rest is lacking; the next one is as good as any
                    self.subscription.skip()
        finally:
            if others is not None:
                others.end()

    def _wants_others(self) -> bool:
        """Whether there could be anything to tell of meters that are not the process's own."""
        publishes = self._writes[events.INSTRUMENT_PUBLISHED.kind.event_id] is not None
        return publishes or any(spec.may_select_beside(METER) for spec in self.request.specs)

    def _collect(self, others: OpenTelemetryMeters | None) -> None:
        start, self._at = self._at, datetime.now(UTC)
        self._tell(events.COLLECTION_START, self.request.session_id, start, self._at)
        for reading in read_runtime():
            self._take(reading)
        if others is not None:
            for reading in others.read():
                self._take(reading)
            for problem in others.problems():
                self._tell(events.CALLBACK_ERROR, self.request.session_id, problem)
            for instrument in others.ended():
                self._end_reporting(instrument)
        for series in self._series.values():
            self._tell_series(series)
            series.begin_interval()
        self._tell(events.COLLECTION_STOP, self.request.session_id, start, self._at)

    def _publish(self, instrument: Instrument) -> int:
        """Tell of an instrument that is seen for the first time; its number."""
        number = self._numbers.get(instrument)
        if number is None:
            is_wanted = self.request.selects(instrument)
            number = self._numbers[instrument] = 1 + max(self._numbers.values(), default=0) if is_wanted else 0
            self._tell_instrument(events.INSTRUMENT_PUBLISHED, instrument)
            if is_wanted:
                self._tell_instrument(events.BEGIN_REPORTING, instrument)
        return number

    def _end_reporting(self, instrument: Instrument) -> None:
        if self._numbers.get(instrument):
            self._tell_instrument(events.END_REPORTING, instrument)
        self._numbers.pop(instrument, None)
        for key in [key for key in self._series if key[0] == instrument]:
            del self._series[key]
            self._histograms -= instrument.kind is InstrumentKind.HISTOGRAM

    def _take(self, reading: Reading) -> None:
        if not self._publish(reading.instrument):
            return
        key = reading.instrument, reading.tags
        series = self._series.get(key)
        if series is None:
            if not self._may_add(reading.instrument.kind):
                return
            series = self._series[key] = _Series(
                instrument=reading.instrument, tags=reading.tags, counts_increments=reading.is_increment
            )
        series.take(reading)

    def _may_add(self, kind: InstrumentKind) -> bool:
        """Whether one more series is within the limits of the request."""
        settings = self.request.settings
        if len(self._series) >= settings.time_series:
            self._tell_once(events.TIME_SERIES_LIMIT)
            return False
        if kind is InstrumentKind.HISTOGRAM:
            if self._histograms >= settings.histograms:
                self._tell_once(events.HISTOGRAM_LIMIT)
                return False
            self._histograms += 1
        return True

    def _tell_once(self, event: MeterEvent) -> None:
        if event.kind.event_id not in self._said:
            self._said.add(event.kind.event_id)
            self._tell(event, self.request.session_id)

    def _tell_series(self, series: _Series) -> None:
        instrument, number = series.instrument, self._numbers[series.instrument]
        head = self._head(instrument)
        head += (instrument.unit, series.tags)
        rate, value = format_number(series.rate), format_number(series.value)
        match instrument.kind:
            case InstrumentKind.HISTOGRAM:
                found = series.distribution
                count = min(found.count, _MOST_INT32)
                self._tell(events.HISTOGRAM_VALUE, *head, _quantiles(found), count, float(found.total), number)
            case InstrumentKind.GAUGE:
                self._tell(events.GAUGE_VALUE, *head, value if series.was_read else "", number)
            case _ if not (series.was_read or series.counts_increments):
                pass  # it is observed no more
            case InstrumentKind.COUNTER | InstrumentKind.OBSERVABLE_COUNTER:
                self._tell(events.COUNTER_RATE, *head, rate, value, number)
            case _:
                self._tell(events.UP_DOWN_RATE, *head, rate, value, number)

    def _head(self, instrument: Instrument) -> tuple[str, ...]:
        return self.request.session_id, instrument.meter, instrument.meter_version, instrument.name

    def _tell_instrument(self, event: MeterEvent, instrument: Instrument) -> None:
        said = instrument.kind.value, instrument.unit, instrument.description
        instrument_tags = scope_hash = ""
        number = self._numbers[instrument]
        self._tell(
            event,
            *self._head(instrument),
            *said,
            instrument_tags,
            instrument.meter_tags,
            scope_hash,
            number,
            instrument.schema_url,
        )

    def _tell(self, event: MeterEvent, *values: object) -> None:
        write = self._writes[event.kind.event_id]
        if write is None:
            return
        try:
            payload = event.fields.pack(*values)
        except Exception:  # a name that is no text, or what else OpenTelemetry let through
            self.subscription.skip()
        else:
            write(payload)


def _quantiles(found: Distribution) -> str:
    if not found.count:
        return ""
    return ";".join(f"{format_number(share)}={format_number(found.quantile(share))}" for share in QUANTILES)
