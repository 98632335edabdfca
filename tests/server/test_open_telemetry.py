from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opentelemetry.metrics import CallbackOptions, NoOpMeterProvider, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from tests.server.told_meters import MeterReader, Told, meter_threads, named, values, wait_for_meter_threads

import dotnetdiag
from dotnetdiag.server import OpenTelemetryReader, open_telemetry
from dotnetdiag.server.meters import Meters
from dotnetdiag.server.registry import Registry

QUICK = "RefreshInterval=0.1"


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    made.add(Meters())
    yield made
    wait_for_meter_threads()
    assert not meter_threads()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.nettrace"


@pytest.fixture(autouse=True)
def no_reader_of_another_test() -> None:
    gc.collect()
    for reader in list(open_telemetry._given):
        reader.shutdown()


SetGlobal = Callable[[object], None]


@pytest.fixture
def set_global(monkeypatch: pytest.MonkeyPatch) -> SetGlobal:
    """The SDK's global provider can be set once in a process: tests put theirs where it is asked for."""

    def put(provider: object) -> None:
        monkeypatch.setattr(open_telemetry, "get_meter_provider", lambda: provider)

    put(NoOpMeterProvider())
    return put


def given(**options: object) -> MeterProvider:
    """A provider with a reader of ours."""
    return MeterProvider(metric_readers=[OpenTelemetryReader()], shutdown_on_exit=False, **options)  # type: ignore[arg-type]


def readers_of(provider: MeterProvider) -> int:
    return len(provider._measurement_consumer._reader_storages)


def count(told: Told, instrument: str) -> int:
    """As many values as a histogram took."""
    return sum(one["count"] for one in values(told, instrument))


def observe(value: float, **tags: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: [Observation(value, tags)]


def test_each_kind_of_instrument_is_what_it_is_in_dotnet(registry: Registry, path: Path) -> None:
    meter = given().get_meter("Shop", "1.2.3", "https://example.org/schema", {"team": "a", "area": 7})
    orders = meter.create_counter("orders", "{order}", "Orders, taken")
    queue = meter.create_up_down_counter("queue", "{item}")
    latency = meter.create_histogram("latency", "ms")
    level = meter.create_gauge("level")
    meter.create_observable_counter("ticks", [observe(7, room="b", floor="2")])
    meter.create_observable_up_down_counter("balance", [observe(-3)])
    meter.create_observable_gauge("temperature", [observe(21.5, room="a,b")], "Cel")
    reader = MeterReader(registry, f"SessionId=s;Metrics=Shop;{QUICK}")
    reader.take(1, path)
    orders.add(2, {"kind": "web"})
    orders.add(3, {"kind": "web"})
    queue.add(4)
    queue.add(-1)
    level.set(0.5)
    for n in range(1000):
        latency.record(n)
    reader.until(lambda told: count(told, "latency") == 1000 and values(told, "level") != [], path)
    told = reader.finish(path)
    begun = {one["instrumentName"]: one for one in named(told, "BeginInstrumentReporting")}
    assert {name: one["instrumentType"] for name, one in begun.items()} == {
        "orders": "Counter`1",
        "queue": "UpDownCounter`1",
        "latency": "Histogram`1",
        "level": "Gauge`1",
        "ticks": "ObservableCounter`1",
        "balance": "UpDownCounter`1",
        "temperature": "Gauge`1",
    }
    assert begun["orders"] | {"instrumentId": 0} == {
        "sessionId": "s",
        "meterName": "Shop",
        "meterVersion": "1.2.3",
        "instrumentName": "orders",
        "instrumentType": "Counter`1",
        "unit": "{order}",
        "description": "Orders, taken",
        "instrumentTags": "",
        "meterTags": "area=7,team=a",
        "meterScopeHash": "",
        "instrumentId": 0,
        "meterTelemetrySchemaUrl": "https://example.org/schema",
    }
    first, *later = values(told, "orders")
    assert (first["tags"], first["rate"], first["value"]) == ("kind=web", "5", "5")
    assert {(one["rate"], one["value"]) for one in later} <= {("0", "5")}
    assert values(told, "queue")[-1]["value"] == "3"
    assert values(told, "level")[-1]["lastValue"] == "0.5"
    ticks = values(told, "ticks")
    assert (ticks[0]["tags"], ticks[0]["rate"], ticks[0]["value"]) == ("floor=2,room=b", "", "7")
    assert (ticks[1]["rate"], ticks[1]["value"]) == ("0", "7")
    assert values(told, "balance")[-1]["value"] == "-3"
    assert (values(told, "temperature")[0]["tags"], values(told, "temperature")[0]["lastValue"]) == ("room=a,b", "21.5")
    assert sum(one["sum"] for one in values(told, "latency")) == sum(range(1000))


def test_percentiles_are_near_those_of_all_values_and_there_are_none_of_nothing(registry: Registry, path: Path) -> None:
    latency = given().get_meter("Shop").create_histogram("latency", "ms")
    reader = MeterReader(registry, "Metrics=Shop;RefreshInterval=0.5")
    reader.take(1, path)
    for n in range(1000):
        latency.record(n)
    reader.take(3, path)
    one, *others = values(reader.finish(path), "latency")
    if one["count"] == 1000:  # an interval may have ended meanwhile
        found = dict(part.split("=") for part in one["quantiles"].split(";"))
        assert found.keys() == {"0.5", "0.95", "0.99"}
        for share, value in found.items():
            assert float(value) == pytest.approx(float(share) * 1000, rel=0.05)
    assert others[-1]["quantiles"] == ""
    assert others[-1]["count"] == 0


def test_buckets_that_the_program_chose_are_kept(registry: Registry, path: Path) -> None:
    chosen = View(instrument_name="latency", aggregation=ExplicitBucketHistogramAggregation([0, 10, 20]))
    latency = given(views=[chosen]).get_meter("Shop").create_histogram("latency")
    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    reader.take(1, path)
    latency.record(12)
    latency.record(18)
    reader.until(lambda told: count(told, "latency") == 2, path)
    recorded = [one for one in values(reader.finish(path), "latency") if one["count"]]
    for one in recorded:
        assert all(12 <= float(part.partition("=")[2]) <= 18 for part in one["quantiles"].split(";"))


def test_more_histograms_than_the_limit_are_told_once(registry: Registry, path: Path) -> None:
    latency = given().get_meter("Shop").create_histogram("latency")
    reader = MeterReader(registry, f"Metrics=Shop;MaxHistograms=1;{QUICK}")
    reader.take(1, path)
    for route in "abc":
        latency.record(1, {"route": route})
    reader.until(lambda told: count(told, "latency") == 1, path)
    told = reader.take(2, path)
    reader.finish(path)
    assert len(named(told, "HistogramLimitReached")) == 1
    assert len({one["tags"] for one in values(told, "latency")}) == 1


def test_the_exporters_of_the_program_see_no_difference(registry: Registry, path: Path, set_global: SetGlobal) -> None:
    theirs = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[theirs], shutdown_on_exit=False)
    set_global(provider)
    orders = provider.get_meter("Shop").create_counter("orders")
    orders.add(1)
    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    reader.take(1, path)
    assert readers_of(provider) == 2
    orders.add(2)
    told = reader.until(lambda told: values(told, "orders") != [], path)
    assert values(told, "orders")[-1]["value"] == "2"  # counted from the beginning of the session on
    orders.add(4)
    reader.finish(path)
    wait_for_meter_threads()
    assert readers_of(provider) == 1
    collected = theirs.get_metrics_data()
    assert collected is not None
    (point,) = collected.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    assert isinstance(point, NumberDataPoint)
    assert point.value == 7


def test_a_global_provider_that_is_set_later_is_found(registry: Registry, path: Path, set_global: SetGlobal) -> None:
    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    assert named(reader.take(1, path), "InstrumentPublished")[-1]["meterName"] != "Shop"
    provider = MeterProvider(shutdown_on_exit=False)
    set_global(provider)
    provider.get_meter("Shop").create_observable_gauge("level", [observe(1)])
    reader.until(lambda told: values(told, "level") != [], path)
    reader.finish(path)
    wait_for_meter_threads()
    assert readers_of(provider) == 0


def test_a_provider_that_a_variable_names_is_not_made_by_us(
    registry: Registry, path: Path, set_global: SetGlobal, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(open_telemetry, "get_meter_provider", lambda: asked.append(1))
    monkeypatch.setenv("OTEL_PYTHON_METER_PROVIDER", "sdk_meter_provider")
    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    reader.take(1, path)
    reader.finish(path)
    assert not asked


def test_a_program_that_gives_readers_says_which_providers_are_read(
    registry: Registry, path: Path, set_global: SetGlobal
) -> None:
    everyone = MeterProvider(shutdown_on_exit=False)
    set_global(everyone)
    meters = [given().get_meter(name) for name in ("One", "Two")]
    everyone.get_meter("Three").create_observable_gauge("x", [observe(1)])
    for meter in meters:
        meter.create_observable_gauge("x", [observe(1)])
    reader = MeterReader(registry, f"Metrics=*;{QUICK}")
    told = reader.take(1, path)
    reader.finish(path)
    assert {one["meterName"] for one in named(told, "BeginInstrumentReporting")} == {"System.Runtime", "One", "Two"}
    assert readers_of(everyone) == 0


def test_a_session_of_other_meters_alone_leaves_opentelemetry_alone(
    registry: Registry, path: Path, set_global: SetGlobal
) -> None:
    provider = MeterProvider(shutdown_on_exit=False)
    set_global(provider)
    reader = MeterReader(registry, f"Metrics=System.Runtime;{QUICK}", keywords=2)
    reader.take(1, path)
    assert readers_of(provider) == 0
    reader.finish(path)


def test_two_sessions_count_everything_each(registry: Registry, tmp_path: Path) -> None:
    meter = given().get_meter("Shop")
    orders, latency = meter.create_counter("orders"), meter.create_histogram("latency")
    readers = [MeterReader(registry, f"Metrics=Shop;RefreshInterval={interval}") for interval in (0.1, 0.3)]
    paths = [tmp_path / "one", tmp_path / "two"]
    for reader, path in zip(readers, paths, strict=True):
        reader.take(1, path)
    for n in range(500):
        orders.add(1)
        latency.record(n)
    for reader, path in zip(readers, paths, strict=True):
        reader.until(lambda told: count(told, "latency") >= 500, path)
        told = reader.finish(path)
        assert sum(int(one["rate"]) for one in values(told, "orders")) == 500
        assert count(told, "latency") == 500
        assert sum(one["sum"] for one in values(told, "latency")) == sum(range(500))


def test_what_was_before_the_session_is_not_counted(registry: Registry, path: Path) -> None:
    meter = given().get_meter("Shop")
    orders, queue = meter.create_counter("orders"), meter.create_up_down_counter("queue")
    orders.add(100)
    queue.add(5)
    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    reader.take(1, path)
    orders.add(1)
    told = reader.until(lambda told: values(told, "orders") != [], path)
    reader.finish(path)
    assert values(told, "orders")[-1]["value"] == "1"
    assert values(told, "queue")[-1]["value"] == "5"  # where it stands, with a reader that was there


def test_a_callback_that_fails_hurts_nobody(registry: Registry, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: CallbackOptions) -> Iterable[Observation]:
        raise LookupError("no sensor")

    meter = given().get_meter("Shop")
    meter.create_observable_gauge("broken", [fail])
    meter.create_observable_gauge("whole", [observe(1)])
    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    told = reader.take(2, path)
    reader.finish(path)
    assert len(values(told, "whole")) >= 2
    assert "Callback failed" in caplog.text  # the SDK's own words


def test_a_collection_that_fails_is_told(registry: Registry, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = given()

    def fail(*_: object, **__: object) -> None:
        raise TimeoutError("callbacks took too long")

    provider.get_meter("Shop").create_observable_gauge("whole", [observe(1)])
    (reader_of_ours,) = (one for one in open_telemetry._given if not one.is_closed)
    monkeypatch.setattr(reader_of_ours, "_collect", fail)
    reader = MeterReader(registry, f"SessionId=s;Metrics=Shop,System.Runtime;{QUICK}")
    told = reader.take(1, path)
    reader.finish(path)
    assert named(told, "ObservableInstrumentCallbackError")[0] == {
        "sessionId": "s",
        "errorMessage": "TimeoutError: callbacks took too long",
    }
    assert values(told, "cpython.thread.count")


def test_numbers_of_numpy_are_told_as_pythons_own(registry: Registry, path: Path) -> None:
    meter = given().get_meter("Shop")
    gauge, counter = meter.create_gauge("gauge"), meter.create_counter("counter")
    histogram = meter.create_histogram("histogram")
    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    reader.take(1, path)
    single: Any = np.float32(1.75)
    gauge.set(single)
    counter.add(np.float64(0.5))
    histogram.record(np.float64(2.5))
    reader.take(2, path)
    told = reader.finish(path)
    assert {one["lastValue"] for one in values(told, "gauge")} - {""} == {"1.75"}
    assert {one["value"] for one in values(told, "counter")} - {"", "0"} == {"0.5"}
    assert {one["quantiles"] for one in values(told, "histogram")} - {""} == {"0.5=2.5;0.95=2.5;0.99=2.5"}


def test_a_program_that_collects_itself_hears_nothing_of_what_cannot_be_read(
    registry: Registry, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise LookupError

    def fail(_: object) -> Iterable[object]:
        raise Mute

    provider = given()
    provider.get_meter("Shop").create_gauge("whole").set(1)
    reader = MeterReader(registry, f"SessionId=s;Metrics=Shop;{QUICK}")
    reader.take(1, path)
    monkeypatch.setattr(open_telemetry, "_readings_of", fail)
    assert provider.force_flush()
    reader.until(lambda told: bool(named(told, "ObservableInstrumentCallbackError")), path)
    told = reader.finish(path)
    assert named(told, "ObservableInstrumentCallbackError")[0]["errorMessage"] == "Mute: <unprintable Mute object>"


def test_a_provider_that_does_not_let_go_of_a_reader_keeps_no_session_from_its_end(
    registry: Registry, path: Path, set_global: SetGlobal, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = MeterProvider(shutdown_on_exit=False)
    set_global(provider)
    provider.get_meter("Shop").create_gauge("whole").set(1)

    def fail(_: object) -> None:
        raise LookupError("no such reader")

    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    reader.take(1, path)
    monkeypatch.setattr(provider, "remove_metric_reader", fail, raising=False)
    reader.finish(path)
    wait_for_meter_threads()
    assert dotnetdiag.open(path).complete


def test_a_gauge_that_is_observed_no_more_is_told_as_ended(registry: Registry, path: Path) -> None:
    observed = [Observation(1)]
    given().get_meter("Shop").create_observable_gauge("level", [lambda _: list(observed)])
    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    reader.take(1, path)
    observed.clear()
    reader.until(lambda told: values(told, "level")[-1]["lastValue"] == "", path)
    assert values(reader.finish(path), "level")[0]["lastValue"] == "1"


def test_instruments_of_a_provider_that_ends_are_told_as_ended(registry: Registry, path: Path) -> None:
    provider = given()
    provider.get_meter("Shop").create_observable_gauge("level", [observe(1)])
    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    reader.take(1, path)
    provider.shutdown()
    told = reader.until(lambda told: named(told, "EndInstrumentReporting") != [], path)
    reader.finish(path)
    (ended,) = named(told, "EndInstrumentReporting")
    assert ended == named(told, "BeginInstrumentReporting")[0]


def test_a_reader_of_no_provider_is_passed_over(
    registry: Registry, path: Path, set_global: SetGlobal, caplog: pytest.LogCaptureFixture
) -> None:
    unused = OpenTelemetryReader()
    reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    reader.take(2, path)
    reader.finish(path)
    assert not unused.is_closed
    assert not caplog.records


def test_a_callback_that_waits_for_the_registry_holds_nothing_up(registry: Registry, path: Path) -> None:
    """It makes an event source, say; while a session begins the registry is locked."""
    entered = threading.Event()

    def wait(_: CallbackOptions) -> Iterable[Observation]:
        entered.set()
        with registry.lock:
            return [Observation(1)]

    given().get_meter("Shop").create_observable_gauge("level", [wait])
    with registry.lock:
        reader = MeterReader(registry, f"Metrics=Shop;{QUICK}")
        assert entered.wait(60)
        other = MeterReader(registry, f"Metrics=Shop;{QUICK}")
    assert values(reader.take(1, path), "level")
    reader.finish(path)
    other.finish(path.with_name("other"))
