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

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag.analysis.meant_kinds import meant_kind
from dotnetdiag.analysis.running_totals import RunningSeries
from dotnetdiag.analysis.series import CounterKind
from dotnetdiag.export.otlp_series import MetricName, SeriesName, utf8

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

Attributes: TypeAlias = Mapping[str, "str | int"]
"""Of a process: what tells it from all others (OpenTelemetry calls it a resource)."""

QUANTILE = "quantile"
_LAST_NS = (1 << 64) - 1
_SUMS = (CounterKind.COUNTER, CounterKind.RATE)


def count_points(one: RunningSeries) -> int:
    """How many data points it makes."""
    if one.series.kind is CounterKind.HISTOGRAM:
        return len(one.quantiles) + (one.count is not None)
    return int(_figure(one, meant_kind(one.series)) is not None)


def build_metrics(processes: Iterable[tuple[Attributes, Iterable[tuple[SeriesName, RunningSeries]]]]) -> MetricsData:
    """What an exporter takes. A process may come more than once, with values of other times."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics

    made: dict[Resource, _Process] = {}
    for attributes, series in processes:
        resource = resource_of(attributes)
        of_process = made.setdefault(resource, _Process())
        for name, one in series:
            of_process.add(name, one)
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


def since_1970(time_ns: int) -> int:
    """What OTLP can say of a time: none before 1970, and none after 2554."""
    return min(max(time_ns, 0), _LAST_NS)


class _Process:
    """Metrics of one process, by instrument."""

    def __init__(self) -> None:
        self._points: dict[MetricName, _Points] = {}

    def add(self, name: SeriesName, one: RunningSeries) -> None:
        """All that is known of a series."""
        points = self._points.get(name.metric)
        if points is None:
            points = self._points[name.metric] = _Points()
        points.add(name.attributes, one, name.metric.kind)

    def scopes(self) -> Iterable[tuple[InstrumentationScope, list[Metric]]]:
        """The metrics of each."""
        made: dict[InstrumentationScope, list[Metric]] = {}
        for metric, points in self._points.items():
            metrics = made.setdefault(metric.scope, [])
            metrics += points.metrics(metric.name, metric.unit, metric.description or None, metric.kind)
        return ((scope, metrics) for scope, metrics in made.items() if metrics)


class _Points:
    """Data points of one metric."""

    def __init__(self) -> None:
        self._own: list[Any] = []
        self._quantiles: list[Any] = []

    def add(self, attributes: Mapping[str, str], one: RunningSeries, kind: CounterKind) -> None:
        from opentelemetry.sdk.metrics.export import HistogramDataPoint, NumberDataPoint

        begin_ns, utc_ns = since_1970(one.begin_ns), since_1970(one.utc_ns)
        if kind is not CounterKind.HISTOGRAM:
            figure = _figure(one, kind)
            if figure is not None:
                self._own.append(NumberDataPoint(attributes, begin_ns, utc_ns, float(figure)))
            return
        if one.count is not None:
            self._own.append(
                HistogramDataPoint(
                    attributes=attributes,
                    start_time_unix_nano=begin_ns,
                    time_unix_nano=utc_ns,
                    count=one.count,
                    sum=float(one.sum or 0),
                    bucket_counts=(),
                    explicit_bounds=(),
                    min=None,  # type: ignore[arg-type]  # nobody tells it; the encoder leaves it out
                    max=None,  # type: ignore[arg-type]
                )
            )
        for quantile, value in sorted(one.quantiles.items(), key=lambda pair: float(pair[0])):
            self._quantiles.append(NumberDataPoint({**attributes, QUANTILE: quantile}, begin_ns, utc_ns, float(value)))

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
