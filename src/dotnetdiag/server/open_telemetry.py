"""Readers of OpenTelemetry's metrics, and how what they collect becomes readings of meters.

==================================  ==================================================================
OpenTelemetry                       here
==================================  ==================================================================
instrumentation scope               meter, with version, attributes as its tags, schema URL
sum that grows, delta               Counter: counted from the beginning of the session on
sum that grows, cumulative          ObservableCounter
other sums                          UpDownCounter: where they stand
gauge                               Gauge
histogram, exponential or explicit  Histogram: percentiles are interpolated within its buckets
==================================  ==================================================================

A reader asks for exponential histograms (at most 160 buckets: percentiles are some per cent from what they would be of all values);
explicit buckets are what a ``View`` of the program chose, and then percentiles are as exact as these are narrow.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

from dotnetdiag.errors import MissingDependency
from dotnetdiag.server.distribution import Distribution, explicit_buckets, exponential_buckets
from dotnetdiag.server.instruments import Instrument, InstrumentKind, Reading, format_tags, plain_number
from dotnetdiag.server.signal_errors import is_of_signal
from dotnetdiag.server.value_text import text_of

try:
    from opentelemetry.metrics import get_meter_provider
    from opentelemetry.sdk.metrics import Counter as SdkCounter
    from opentelemetry.sdk.metrics import Histogram as SdkHistogram
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        ExponentialHistogram,
        ExponentialHistogramDataPoint,
        Gauge,
        Histogram,
        HistogramDataPoint,
        Metric,
        MetricReader,
        MetricsData,
        ScopeMetrics,
        Sum,
    )
    from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation
except ImportError as exc:
    raise MissingDependency("opentelemetry-sdk", extra="opentelemetry", purpose="its meters") from exc

COLLECT_MS = 10_000
"""How long the callbacks of one reader's instruments may take."""
_PROVIDER_VARIABLE = "OTEL_PYTHON_METER_PROVIDER"


class Tally:
    """What a reader collected since it was read last; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readings: dict[tuple[Instrument, str], Reading] = {}
        self._problems: dict[str, None] = {}

    def take(self, readings: Iterable[Reading]) -> None:
        """Add what was collected."""
        with self._lock:
            for reading in readings:
                key = reading.instrument, reading.tags
                self._readings[key] = _together(self._readings.get(key), reading)

    def fail(self, error: Exception) -> None:
        """Something that was collected could not be read."""
        with self._lock:
            self._problems[_problem(error)] = None

    def read(self) -> list[Reading]:
        """All of it; now there is nothing."""
        with self._lock:
            readings, self._readings = self._readings, {}
        return list(readings.values())

    def problems(self) -> list[str]:
        """Why something is lacking; now nothing is."""
        with self._lock:
            problems, self._problems = self._problems, {}
        return list(problems)


class _Reader(MetricReader):
    """Collects when it is asked to, for as many sessions as listen."""

    def __init__(self) -> None:
        super().__init__(
            preferred_temporality={
                SdkCounter: AggregationTemporality.DELTA,
                SdkHistogram: AggregationTemporality.DELTA,
            },
            preferred_aggregation={SdkHistogram: ExponentialBucketHistogramAggregation()},
        )
        self.is_closed = False
        self._change = threading.Lock()
        self._tallies: tuple[Tally, ...] = ()

    def listen(self) -> Tally:
        """What is collected from now on."""
        tally = Tally()
        with self._change:
            self._tallies = (*self._tallies, tally)
        return tally

    def leave(self, tally: Tally) -> None:
        """Tell it no more."""
        with self._change:
            self._tallies = tuple(one for one in self._tallies if one is not tally)

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:  # noqa: ARG002
        """Raises nothing: it may be the program that makes a reader of its own collect."""
        tallies = self._tallies
        try:
            readings = list(_readings_of(metrics_data)) if tallies else []
            for tally in tallies:
                tally.take(readings)
        except Exception as error:  # of an SDK that is not as it should be
            if is_of_signal(error):
                raise
            for tally in tallies:
                tally.fail(error)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:  # noqa: ARG002
        """Collect no more: the provider has ended, or let go of it."""
        self.is_closed = True


_given: weakref.WeakSet[OpenTelemetryReader] = weakref.WeakSet()


class OpenTelemetryReader(_Reader):
    """Shows a ``MeterProvider``'s instruments to tools for .NET, as meters: give it to the provider as one of its ``metric_readers``.

    Not needed for the global provider where the SDK can add readers (``add_metric_reader``): it is read while a session wants it. It is
    needed for others, for older SDKs, and where gauges and up-down counters must be there that were set before the session began.
    While no session wants them the instruments are aggregated for it, as for every reader, and never collected. As soon as a program
    has made one of these, only providers that have one are read. MissingDependency without ``opentelemetry-sdk``.
    """

    def __init__(self) -> None:
        super().__init__()
        _given.add(self)


class Following:
    """The readers that one session reads: those that were given, or one of its own at the global provider.

    A child that is forked meanwhile keeps that one, which nobody reads there: to take it away could wait for a lock that another thread held.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._tallies: dict[_Reader, Tally] = {}
        self._instruments: dict[_Reader, dict[Instrument, None]] = {}
        self._ended: list[Instrument] = []
        self._added: tuple[MeterProvider, _Reader] | None = None

    def read(self) -> list[Reading]:
        """Collect, and what came of it."""
        self.problems = []
        found: list[Reading] = []
        try:
            self._find()
        except Exception as error:  # of an SDK that is not as it should be; the program hears nothing of it
            self.problems.append(_problem(error))
        for reader, tally in self._tallies.items():
            try:
                reader.collect(timeout_millis=COLLECT_MS)
            except Exception as error:  # whatever callbacks of the program do
                self.problems.append(_problem(error))
            self.problems += tally.problems()
            readings = tally.read()
            self._instruments[reader].update(dict.fromkeys(one.instrument for one in readings))
            found += readings
        return found

    def take_ended(self) -> list[Instrument]:
        """Those of readers that were closed since this was asked last."""
        ended, self._ended = self._ended, []
        return ended

    def end(self) -> None:
        """Let go of all readers. Raises nothing."""
        for reader in list(self._tallies):
            with suppress(Exception):  # of an SDK or a provider that is not as it should be
                self._drop(reader)

    def _find(self) -> None:
        given = [reader for reader in list(_given) if not reader.is_closed and reader._collect is not None]
        for reader in [one for one in self._tallies if one.is_closed or (given and one not in given)]:
            self._drop(reader)
        for reader in given:
            self._add(reader)
        if not given and self._added is None:
            provider = _global_provider()
            if provider is not None:
                added = _Reader()
                provider.add_metric_reader(added)
                self._added = provider, added
                self._add(added)

    def _add(self, reader: _Reader) -> None:
        if reader not in self._tallies:
            self._tallies[reader] = reader.listen()
            self._instruments[reader] = {}

    def _drop(self, reader: _Reader) -> None:
        reader.leave(self._tallies.pop(reader))
        self._ended += self._instruments.pop(reader)
        if self._added is not None and self._added[1] is reader:
            provider = self._added[0]
            self._added = None
            if not reader.is_closed:
                provider.remove_metric_reader(reader)


def _problem(error: Exception) -> str:
    return f"{type(error).__name__}: {text_of(error)}"


def _global_provider() -> MeterProvider | None:
    """That of the SDK, where readers can be added to it. To ask for it where the variable names one would make it."""
    if _PROVIDER_VARIABLE in os.environ:
        return None
    provider = get_meter_provider()
    return provider if isinstance(provider, MeterProvider) and hasattr(provider, "add_metric_reader") else None


# what the SDK collects ------------------------------------------------------------------------------------------------


def _together(before: Reading | None, now: Reading) -> Reading:
    """Of two collections: increments and histograms add up, of others the last one counts."""
    if before is None or not now.is_increment:
        return now
    if isinstance(before.value, Distribution) or isinstance(now.value, Distribution):
        if not (isinstance(before.value, Distribution) and isinstance(now.value, Distribution)):
            return now
        value: float | Distribution = before.value + now.value
    else:
        value = before.value + now.value
    return Reading(instrument=now.instrument, tags=now.tags, value=value, is_increment=True)


def _readings_of(collected: MetricsData) -> Iterator[Reading]:
    for resource in collected.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield from _readings_of_metric(scope, metric)


def _readings_of_metric(scope: ScopeMetrics, metric: Metric) -> Iterator[Reading]:
    data = metric.data
    is_increment = getattr(data, "aggregation_temporality", None) == AggregationTemporality.DELTA
    instrument = Instrument(
        meter=text_of(scope.scope.name),
        meter_version=text_of(scope.scope.version or ""),
        meter_tags=format_tags(getattr(scope.scope, "attributes", None)),
        schema_url=text_of(scope.schema_url or ""),
        name=text_of(metric.name),
        kind=_kind(data, is_increment),
        unit=text_of(metric.unit or ""),
        description=text_of(metric.description or ""),
    )
    for point in data.data_points:
        if isinstance(point, HistogramDataPoint | ExponentialHistogramDataPoint):
            value: float | Distribution = _distribution(point)
        else:
            value = plain_number(point.value)
        yield Reading(instrument=instrument, tags=format_tags(point.attributes), value=value, is_increment=is_increment)


def _kind(data: object, is_increment: bool) -> InstrumentKind:
    if isinstance(data, Histogram | ExponentialHistogram):
        return InstrumentKind.HISTOGRAM
    if isinstance(data, Gauge):
        return InstrumentKind.GAUGE
    if isinstance(data, Sum) and data.is_monotonic:
        return InstrumentKind.COUNTER if is_increment else InstrumentKind.OBSERVABLE_COUNTER
    return InstrumentKind.UP_DOWN_COUNTER


def _distribution(point: HistogramDataPoint | ExponentialHistogramDataPoint) -> Distribution:
    if isinstance(point, HistogramDataPoint):
        buckets = explicit_buckets([plain_number(bound) for bound in point.explicit_bounds], point.bucket_counts)
    else:
        positive, negative = point.positive, point.negative
        buckets = chain(
            exponential_buckets(point.scale, negative.offset, negative.bucket_counts, -1),
            [((0.0, 0.0), point.zero_count)],
            exponential_buckets(point.scale, positive.offset, positive.bucket_counts),
        )
    total, least, most = (plain_number(value) for value in (point.sum, point.min, point.max))
    return Distribution(buckets, total=total, least=least, most=most)
