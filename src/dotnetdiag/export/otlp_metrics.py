"""Running totals as OpenTelemetry's metrics: ``MetricsData``, which its exporters take.

=========================  ==========================================================================================
kind                       there
=========================  ==========================================================================================
counter, rate              a sum that only grows, cumulative, since the series was first seen
updowncounter              a sum that may fall: where it stands
gauge, mean                a gauge
histogram                  a histogram without buckets (count and sum, cumulative), and a gauge ``NAME.quantile``,
                           whose attribute ``quantile`` says which (``0.95``): of the last interval
=========================  ==========================================================================================

OTLP has summaries, which would hold quantiles, count and sum together; but the library's encoder has none, and what would send others is not
public in it. Histogram and gauge keep the same figures, and the receivers that know no summaries take them too.

Names, units and tags are what the program says: names in OTLP need no change. Times are those of the events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag.analysis.meant_kinds import meant_kind
from dotnetdiag.analysis.running_totals import RunningSeries
from dotnetdiag.analysis.series import CounterKind, Instrument

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

Attributes: TypeAlias = Mapping[str, "str | int"]
"""Of a process: what tells it from all others (OpenTelemetry calls it a resource)."""

AGAIN = "duplicate"
"""The attribute of a series that has everything in common with another: a program may create an instrument twice."""
QUANTILE = "quantile"
_SURROGATES = re.compile("[\ud800-\udfff]")
_SUMS = (CounterKind.COUNTER, CounterKind.RATE)


def count_points(one: RunningSeries) -> int:
    """How many data points it makes."""
    if one.series.kind is CounterKind.HISTOGRAM:
        return len(one.quantiles) + (one.count is not None)
    return int(_figure(one, meant_kind(one.series)) is not None)


def build_metrics(processes: Iterable[tuple[Attributes, Iterable[RunningSeries]]]) -> MetricsData:
    """What an exporter takes. A process may come more than once, with values of other times."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics

    made: dict[Resource, _Process] = {}
    for attributes, series in processes:
        resource = resource_of(attributes)
        of_process = made.setdefault(resource, _Process())
        for one in series:
            of_process.add(one)
    return MetricsData(
        resource_metrics=[
            ResourceMetrics(
                resource=resource,
                scope_metrics=[
                    ScopeMetrics(scope=scope, metrics=metrics, schema_url=scope.schema_url or "")
                    for scope, metrics in one.scopes()
                ],
                schema_url="",
            )
            for resource, one in made.items()
        ]
    )


def resource_of(attributes: Attributes) -> Resource:
    """The resource with these attributes, and no others."""
    from opentelemetry.sdk.resources import Resource

    return Resource({key: utf8(value) if isinstance(value, str) else value for key, value in attributes.items()})


def utf8(text: str) -> str:
    """What UTF-8 can say of it."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def texts(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags as attributes."""
    return {utf8(key): utf8(value) for key, value in tags.items()}


class _Process:
    """Metrics of one process, by instrument."""

    def __init__(self) -> None:
        self._points: dict[tuple[InstrumentationScope, str, str, str, CounterKind], _Points] = {}
        self._scopes: dict[int, InstrumentationScope] = {}

    def add(self, one: RunningSeries) -> None:
        """All that is known of a series."""
        series, instrument = one.series, one.series.instrument
        scope = self._scopes.get(id(instrument))
        if scope is None:
            scope = self._scopes[id(instrument)] = _scope_of(instrument)
        key = scope, utf8(series.name), utf8(series.unit), utf8(instrument.description), meant_kind(series)
        points = self._points.get(key)
        if points is None:
            points = self._points[key] = _Points()
        points.add(one, key[4])

    def scopes(self) -> Iterable[tuple[InstrumentationScope, list[Metric]]]:
        """The metrics of each."""
        made: dict[InstrumentationScope, list[Metric]] = {}
        for (scope, name, unit, description, kind), points in self._points.items():
            metrics = made.setdefault(scope, [])
            metrics += points.metrics(name, unit, description or None, kind)
        return ((scope, metrics) for scope, metrics in made.items() if metrics)


class _Points:
    """Data points of one metric."""

    def __init__(self) -> None:
        self._own: list[Any] = []
        self._quantiles: list[Any] = []
        self._series: dict[frozenset[tuple[str, str]], dict[int, int]] = {}

    def add(self, one: RunningSeries, kind: CounterKind) -> None:
        from opentelemetry.sdk.metrics.export import HistogramDataPoint, NumberDataPoint

        attributes = self._attributes(one)
        if kind is not CounterKind.HISTOGRAM:
            figure = _figure(one, kind)
            if figure is not None:
                self._own.append(NumberDataPoint(attributes, one.begin_ns, one.utc_ns, float(figure)))
            return
        if one.count is not None:
            self._own.append(
                HistogramDataPoint(
                    attributes=attributes,
                    start_time_unix_nano=one.begin_ns,
                    time_unix_nano=one.utc_ns,
                    count=one.count,
                    sum=float(one.sum or 0),
                    bucket_counts=(),
                    explicit_bounds=(),
                    min=None,  # type: ignore[arg-type]  # nobody tells it; the encoder leaves it out
                    max=None,  # type: ignore[arg-type]
                )
            )
        for quantile, value in sorted(one.quantiles.items(), key=lambda pair: float(pair[0])):
            self._quantiles.append(
                NumberDataPoint({**attributes, QUANTILE: quantile}, one.begin_ns, one.utc_ns, float(value))
            )

    def _attributes(self, one: RunningSeries) -> dict[str, str]:
        attributes = texts({**one.series.instrument.tags, **one.series.tags})
        places = self._series.setdefault(frozenset(attributes.items()), {})
        place = places.setdefault(one.series.number, len(places))
        return {**attributes, AGAIN: str(place + 1)} if place else attributes

    def metrics(self, name: str, unit: str, description: str | None, kind: CounterKind) -> list[Metric]:
        from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, Metric, Sum

        cumulative = AggregationTemporality.CUMULATIVE
        data: Any
        if kind is CounterKind.HISTOGRAM:
            data = Histogram(self._own, cumulative)
        elif kind in _SUMS or kind is CounterKind.UP_DOWN_COUNTER:
            data = Sum(self._own, cumulative, is_monotonic=kind in _SUMS)
        else:
            data = Gauge(self._own)
        made = [Metric(name, description, unit or None, data)] if self._own else []
        if self._quantiles:
            made.append(Metric(f"{name}.{QUANTILE}", description, unit or None, Gauge(self._quantiles)))
        return made


def _figure(one: RunningSeries, kind: CounterKind) -> float | None:
    return one.total if kind in _SUMS else one.value


def _scope_of(instrument: Instrument) -> InstrumentationScope:
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    return InstrumentationScope(
        utf8(instrument.key.provider),
        utf8(instrument.key.version) or None,
        utf8(instrument.schema_url) or None,
        texts(instrument.meter_tags),
    )
