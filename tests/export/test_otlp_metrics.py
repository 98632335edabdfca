"""Series as OpenTelemetry's metrics: what its own encoder makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from tests.recipes.collectors import Metric, attributes_of, metrics_of
from tests.service.made import NOW_NS, running

from dotnetdiag.analysis.running_totals import RunningSeries
from dotnetdiag.analysis.series import CounterKind
from dotnetdiag.export.otlp_metrics import build_metrics, count_points
from dotnetdiag.export.otlp_series import SeriesName, SeriesNames

APP: dict[str, str | int] = {"service.name": "shop", "process.pid": 77, "service.instance.id": "a"}
ODD = {"a,b": "c=d", 'q"': '"x', "zażółć": "🐍\n", "empty": "", "1": "\\"}


def points(*series: RunningSeries, **attributes: Any) -> list[Metric]:
    return list(metrics_of(encode_metrics(build_metrics([({**APP, **attributes}, named(*series))]))))


def named(*series: RunningSeries) -> list[tuple[SeriesName, RunningSeries]]:
    names = SeriesNames()
    return [(names.of(one.series), one) for one in series]


@pytest.mark.parametrize(
    ("kind", "figures", "field", "monotonic", "value"),
    [
        (CounterKind.COUNTER, {"value": 900.0, "total": 12.5}, "sum", True, 12.5),
        (CounterKind.RATE, {"total": 3}, "sum", True, 3.0),
        (CounterKind.UP_DOWN_COUNTER, {"value": -2.0}, "sum", False, -2.0),
        (CounterKind.GAUGE, {"value": 21.5}, "gauge", None, 21.5),
        (CounterKind.MEAN, {"value": 42.5}, "gauge", None, 42.5),
    ],
)
def test_a_kind_is_what_the_table_says(
    kind: CounterKind, figures: dict[str, Any], field: str, monotonic: bool | None, value: float
) -> None:
    one = running(
        "orders", kind, begin_ns=NOW_NS - 5, utc_ns=NOW_NS, unit="{order}", description="What was ordered", **figures
    )
    (point,) = points(one)
    assert (point.kind, point.value, point.point.time_unix_nano) == (field, value, NOW_NS)
    assert (point.metric.unit, point.metric.description) == ("{order}", "What was ordered")
    if monotonic is not None:
        assert point.point.start_time_unix_nano == NOW_NS - 5
        assert point.metric.sum.is_monotonic is monotonic
        assert point.metric.sum.aggregation_temporality == 2, "cumulative"
    assert count_points(one) == 1


def test_what_is_announced_as_a_counter_and_falls_is_no_growing_sum() -> None:
    one = running(
        "dotnet.thread_pool.queue.length", CounterKind.COUNTER, provider="System.Runtime", value=3.0, total=90.0
    )
    (point,) = points(one)
    assert (point.kind, point.value, point.metric.sum.is_monotonic) == ("sum", 3.0, False)


def test_a_histogram_keeps_count_sum_and_quantiles() -> None:
    one = running(
        "latency",
        CounterKind.HISTOGRAM,
        count=4,
        sum=10.0,
        quantiles={"0.99": 4.0, "0.5": 2.0},
        tags={"route": "/"},
        unit="s",
    )
    own, half, most = points(one)
    assert (own.name, own.kind, own.point.count, own.point.sum) == ("latency", "histogram", 4, 10.0)
    assert not own.point.bucket_counts
    assert not own.point.explicit_bounds
    assert not own.point.HasField("min")
    assert own.tags == {"route": "/"}
    assert [(one.name, one.kind, one.metric.unit, one.value, one.tags) for one in (half, most)] == [
        ("latency.quantile", "gauge", "s", 2.0, {"route": "/", "quantile": "0.5"}),
        ("latency.quantile", "gauge", "s", 4.0, {"route": "/", "quantile": "0.99"}),
    ]
    assert count_points(one) == 3


def test_tags_are_exact_and_texts() -> None:
    (point,) = points(
        running(
            "x", CounterKind.GAUGE, value=1.0, tags=ODD, instrument_tags={"of": "instrument"}, meter_tags={"é,": "=1"}
        )
    )
    assert point.tags == {**ODD, "of": "instrument"}
    assert attributes_of(point.scope) == {"é,": "=1"}
    assert all(isinstance(value, str) for value in point.tags.values())


def test_what_utf8_cannot_say_is_replaced() -> None:
    (point,) = points(
        running("x\ud800", CounterKind.GAUGE, value=1.0, tags={"a\udfff": "\ud800"}), **{"service.name": "\ud800"}
    )
    assert (point.name, point.tags, point.resource["service.name"]) == ("x\ufffd", {"a\ufffd": "\ufffd"}, "\ufffd")


def test_a_scope_is_a_meter_with_its_version() -> None:
    made = points(
        running("a", CounterKind.GAUGE, number=1, value=1.0, version="1.2.3"),
        running("b", CounterKind.GAUGE, number=2, value=2.0, version="1.2.3"),
        running("a", CounterKind.GAUGE, number=3, value=3.0),
    )
    assert [(one.scope.name, one.scope.version, one.name, one.value) for one in made] == [
        ("Meter", "1.2.3", "a", 1.0),
        ("Meter", "1.2.3", "b", 2.0),
        ("Meter", "", "a", 3.0),
    ]


def test_each_process_is_a_resource_with_typed_attributes() -> None:
    other = {**APP, "process.pid": 78, "service.instance.id": "b"}
    series = [running("a", CounterKind.GAUGE, value=1.0)]
    later = [running("a", CounterKind.GAUGE, value=2.0, utc_ns=NOW_NS + 1)]
    made = build_metrics([(APP, named(*series)), (other, named(*series)), (APP, named(*later))])
    found = list(metrics_of(encode_metrics(made)))
    assert [(one.resource, one.value) for one in found] == [(APP, 1.0), (APP, 2.0), (other, 1.0)]
    assert len(made.resource_metrics) == 2


def test_series_that_differ_in_nothing_that_is_told_are_told_apart() -> None:
    made = points(*(running("a", number=number, total=1.0) for number in (1, 2, 1)))
    assert [one.tags for one in made] == [{}, {"duplicate": "2"}, {}]


def test_the_number_of_a_series_stays_while_it_lives_and_goes_to_no_other() -> None:
    names, (one, other) = SeriesNames(), (running("a", number=number, total=1.0).series for number in (1, 2))
    assert [names.of(series).attributes for series in (one, other)] == [{}, {"duplicate": "2"}]
    names.keep([2])
    assert names.of(other).attributes == {"duplicate": "2"}
    assert names.of(one).attributes == {"duplicate": "3"}, "2 lives, and 1 was somebody else's"
    names.keep([])
    assert len(names) == 0
    assert names.of(one).attributes == {}


def test_what_has_no_figure_makes_no_point() -> None:
    nothing = [running("a", CounterKind.GAUGE), running("b", CounterKind.HISTOGRAM), running("c")]
    assert points(*nothing) == []
    assert [count_points(one) for one in nothing] == [0, 0, 0]
