from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.server.recorded import LIMIT_S
from tests.server.told_meters import MeterReader, meter_threads, named, values, wait_for_meter_threads
from tests.shared import shared_part, skip_without

import dotnetdiag
from dotnetdiag.nettrace import Metadata, read
from dotnetdiag.server import leaving, runtime_meter
from dotnetdiag.server.instruments import format_tags
from dotnetdiag.server.meter_events import METER_EVENTS, PROVIDER, format_number
from dotnetdiag.server.meter_session import MeterSession
from dotnetdiag.server.meters import Meters
from dotnetdiag.server.registry import Registry
from dotnetdiag.server.runtime_meter import runtime_instruments
from dotnetdiag.server.subscription import Subscription

QUICK = "RefreshInterval=0.1"
ETW_SESSIONS = 0xF << 44
"""Bits that .NET's EventSource sets in the keywords of each of its events."""


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


def test_a_session_is_told_of_the_runtime_meter_in_the_order_of_dotnet(registry: Registry, path: Path) -> None:
    reader = MeterReader(registry, f"SessionId=abc;Metrics=System.Runtime;{QUICK}")
    reader.take(2, path)
    told = reader.finish(path)
    names = [name for name, _ in told]
    assert names[0] == "Version"
    assert names.index("Message") < names.index("InstrumentPublished")
    assert names.index("InstrumentPublished") < names.index("BeginInstrumentReporting")
    assert names.index("BeginInstrumentReporting") < names.index("InitialInstrumentEnumerationComplete")
    assert names.index("InitialInstrumentEnumerationComplete") < names.index("Collection/Start")
    assert names[-1] == "Collection/Stop"
    assert all(payload["sessionId"] == "abc" for name, payload in told if name not in ("Version", "Message"))
    begun = named(told, "BeginInstrumentReporting")
    assert [one["instrumentName"] for one in begun] == [one.name for one in runtime_instruments()]
    assert [one["instrumentId"] for one in begun] == list(range(1, len(begun) + 1))
    numbers = {one["instrumentName"]: one["instrumentId"] for one in begun}
    for name, payload in told:
        if name.endswith("ValuePublished"):
            assert payload["instrumentId"] == numbers[payload["instrumentName"]]
            assert payload["meterName"] == "System.Runtime"
    starts, stops = named(told, "Collection/Start"), named(told, "Collection/Stop")
    assert starts == stops
    assert all(one["intervalEndTime"] == next_["intervalStartTime"] for one, next_ in itertools.pairwise(starts))


def test_the_first_value_of_what_is_observed_has_no_rate_and_the_next_has(registry: Registry, path: Path) -> None:
    reader = MeterReader(registry, f"Metrics=System.Runtime;{QUICK}")
    reader.take(1, path)
    gc.collect(2)
    oldest = "gc.heap.generation=gen2"
    reader.until(
        lambda told: any(int(one["rate"] or 0) for one in values(told, "dotnet.gc.collections", tags=oldest)), path
    )
    told = reader.finish(path)
    collections = values(told, "dotnet.gc.collections", tags=oldest)
    assert collections[0]["rate"] == ""
    assert int(collections[-1]["value"]) - int(collections[0]["value"]) == sum(
        int(one["rate"]) for one in collections[1:]
    )


def test_values_are_what_the_process_is(registry: Registry, path: Path) -> None:
    reader = MeterReader(registry, f"Metrics=System.Runtime;{QUICK}")
    told = reader.take(1, path)
    reader.finish(path)
    assert {one["tags"] for one in values(told, "dotnet.process.cpu.time")} == {"cpu.mode=user", "cpu.mode=system"}
    assert {one["tags"] for one in values(told, "dotnet.gc.collections")} == {
        f"gc.heap.generation=gen{generation}" for generation in range(3)
    }
    assert int(values(told, "cpython.module.count")[0]["value"]) == pytest.approx(len(sys.modules), abs=50)
    assert int(values(told, "cpython.allocated_blocks")[0]["value"]) > 10_000
    assert int(values(told, "dotnet.process.cpu.count")[0]["value"]) >= 1
    assert int(values(told, "dotnet.process.memory.working_set")[0]["value"]) > 1_000_000


def test_only_what_is_asked_for_is_told_but_all_is_published(registry: Registry, path: Path) -> None:
    reader = MeterReader(registry, f"Metrics=System.Runtime\\dotnet.gc.collections;{QUICK}")
    told = reader.take(1, path)
    reader.finish(path)
    assert [one["instrumentName"] for one in named(told, "BeginInstrumentReporting")] == ["dotnet.gc.collections"]
    assert {payload["instrumentName"] for name, payload in told if name.endswith("ValuePublished")} == {
        "dotnet.gc.collections"
    }
    published = {one["instrumentName"]: one["instrumentId"] for one in named(told, "InstrumentPublished")}
    assert published.keys() == {one.name for one in runtime_instruments()}
    assert {name for name, number in published.items() if number} == {"dotnet.gc.collections"}


def test_keywords_choose_the_events(registry: Registry, path: Path) -> None:
    reader = MeterReader(registry, f"Metrics=System.Runtime;{QUICK}", keywords=2)
    names = {name for name, _ in reader.take(1, path)}
    reader.finish(path)
    assert names.isdisjoint({"Version", "Message", "InstrumentPublished"})
    assert names >= {"BeginInstrumentReporting", "InitialInstrumentEnumerationComplete", "CounterRateValuePublished"}


@pytest.mark.parametrize("keywords", [0, 8])
def test_without_a_keyword_that_it_has_nothing_runs(keywords: int, registry: Registry, path: Path) -> None:
    reader = MeterReader(registry, "Metrics=System.Runtime", keywords=keywords)
    assert not meter_threads()
    assert not reader.finish(path)


def test_more_series_than_the_limit_are_told_once_and_left_out(registry: Registry, path: Path) -> None:
    reader = MeterReader(registry, f"Metrics=System.Runtime;MaxTimeSeries=2;{QUICK}")
    told = reader.take(3, path)
    reader.finish(path)
    assert len(named(told, "TimeSeriesLimitReached")) == 1
    series = {(one["instrumentName"], one["tags"]) for name, one in told if name.endswith("ValuePublished")}
    assert len(series) == 2
    assert len(named(told, "CounterRateValuePublished")) >= 6


def test_sessions_of_their_own_do_not_meet(registry: Registry, tmp_path: Path) -> None:
    one = MeterReader(registry, "SessionId=one;Metrics=System.Runtime\\cpython.module.count;RefreshInterval=3600")
    two = MeterReader(registry, f"SessionId=two;Metrics=System.Runtime\\cpython.thread.count;{QUICK}")
    told = two.take(2, tmp_path / "two")
    assert {payload.get("sessionId", "two") for _, payload in told} == {"two"}
    assert values(told, "cpython.thread.count")
    assert not values(told, "cpython.module.count")
    two.finish(tmp_path / "two")
    assert len(meter_threads()) == 1
    told = one.finish(tmp_path / "one")
    assert {payload.get("sessionId", "one") for _, payload in told} == {"one"}
    assert not named(told, "MultipleSessionsNotSupportedError")


def test_clients_of_the_shared_session_get_what_each_asked_for(registry: Registry, tmp_path: Path) -> None:
    readers = {
        name: MeterReader(
            registry, f"SessionId=SHARED;ClientId={name};Metrics=System.Runtime\\cpython.{name}.count;{QUICK}"
        )
        for name in ("module", "thread")
    }
    for name, reader in readers.items():
        told = reader.take(1, tmp_path / name)
        assert {one["instrumentName"] for one in named(told, "UpDownCounterRateValuePublished")} == {
            f"cpython.{name}.count"
        }
    readers.pop("module").finish(tmp_path / "module")
    readers["thread"].take(2, tmp_path / "thread")
    assert not named(readers["thread"].finish(tmp_path / "thread"), "MultipleSessionsConfiguredIncorrectlyError")


def test_a_client_of_the_shared_session_with_other_settings_is_told_so(registry: Registry, tmp_path: Path) -> None:
    first = MeterReader(registry, "SessionId=SHARED;ClientId=c1;RefreshInterval=1;MaxTimeSeries=1000;MaxHistograms=10")
    other = MeterReader(registry, "SessionId=SHARED;ClientId=c2;RefreshInterval=0.5;MaxTimeSeries=50;MaxHistograms=1")
    own = MeterReader(registry, f"SessionId=own;Metrics=System.Runtime;{QUICK}")
    assert len(meter_threads()) == 2
    told = other.finish(tmp_path / "other")
    assert {name for name, _ in told} == {"Version", "Message", "MultipleSessionsConfiguredIncorrectlyError"}
    # what .NET 10.0.14 told such a client
    assert named(told, "MultipleSessionsConfiguredIncorrectlyError") == [
        {
            "clientId": "c2",
            "expectedMaxHistograms": "10",
            "actualMaxHistograms": "1",
            "expectedMaxTimeSeries": "1000",
            "actualMaxTimeSeries": "50",
            "expectedRefreshInterval": "1",
            "actualRefreshInterval": "0.5",
        }
    ]
    assert values(own.take(1, tmp_path / "own"), "cpython.thread.count")
    own.finish(tmp_path / "own")
    assert not named(first.finish(tmp_path / "first"), "MultipleSessionsConfiguredIncorrectlyError")
    late = MeterReader(registry, f"SessionId=SHARED;ClientId=c2;Metrics=System.Runtime;{QUICK}")
    assert values(late.take(1, tmp_path / "late"), "cpython.thread.count")
    late.finish(tmp_path / "late")


def test_a_session_whose_reader_has_gone_reads_nothing_more(registry: Registry) -> None:
    reader = MeterReader(registry, "Metrics=System.Runtime;RefreshInterval=3600")
    assert len(meter_threads()) == 1
    reader.session.hang_up()
    assert reader.session.join(LIMIT_S)
    assert not meter_threads()


def test_without_opentelemetry_none_is_imported(
    registry: Registry, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    reader = MeterReader(registry, f"Metrics=*;{QUICK}")
    told = reader.take(1, path)
    reader.finish(path)
    assert {one["meterName"] for one in named(told, "InstrumentPublished")} == {"System.Runtime"}
    assert not [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]


def _described(kind: Metadata) -> tuple[object, ...]:
    fields = tuple((field.name, field.type.code) for field in kind.fields)
    return kind.name, kind.version, kind.level, kind.keywords & ~ETW_SESSIONS, kind.opcode, kind.declared, fields


def test_metadata_is_that_of_dotnet_10_field_by_field() -> None:
    folder = shared_part("fixtures")
    if folder is None:
        skip_without("a recording of .NET 10")
    theirs = {
        kind.event_id: _described(kind)
        for kind in read((folder / "counters-10.nettrace").read_bytes()).metadata.values()
        if kind.provider == PROVIDER
    }
    ours = {one.kind.event_id: _described(one.kind) for one in METER_EVENTS}
    assert theirs.keys() == {2, 3, 4, 5, 6, 7, 10, 16}
    assert {number: ours[number] for number in theirs} == theirs


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (0, "0"), (-3, "-3"), (2.0, "2"), (21.5, "21.5"), (0.020133400000000003, "0.020133400000000003"), (1e-05, "1E-05"),
        (1e20, "1E+20"), (10**20, "1" + "0" * 20), (float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"),
    ],
)  # fmt: skip
def test_numbers_are_written_without_a_culture(value: float | None, text: str) -> None:
    assert format_number(value) == text


class _Raising:
    def __index__(self) -> int:
        raise LookupError("no connection")

    __float__ = __index__


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float64(1.5), "1.5"), (np.float32(1.75), "1.75"), (np.float16(2), "2"), (np.int64(2**62 + 1), "4611686018427387905"),
        (np.bool_(True), "1"), (Decimal("0.5"), "0.5"), (Fraction(1, 4), "0.25"), (True, "1"), ("none", "NaN"), (_Raising(), "NaN"),
    ],
)  # fmt: skip
def test_numbers_of_any_kind_are_written_as_pythons_own(value: Any, text: str) -> None:
    assert format_number(value) == text


def test_a_tag_without_a_text_is_its_type() -> None:
    class Mute:
        def __str__(self) -> str:
            raise LookupError

    assert format_tags({"who": Mute(), "at": 1.5}) == "at=1.5,who=<unprintable Mute object>"


def test_what_cannot_be_read_now_is_left_out(registry: Registry, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        raise OSError("no such file")

    read = runtime_meter.read_runtime
    monkeypatch.setattr(runtime_meter, "thread_count", broken)
    assert "cpython.thread.count" not in {one.instrument.name for one in read()}
    reader = MeterReader(registry, "Metrics=System.Runtime;RefreshInterval=0.1")
    told = reader.take(2, path)
    reader.finish(path)
    assert values(told, "cpython.module.count")
    assert not values(told, "cpython.thread.count")


def test_an_interval_that_fails_is_a_loss_and_the_next_one_is_told(
    registry: Registry, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, asked = runtime_meter.read_runtime, itertools.count()

    def now_and_then() -> Any:
        if next(asked) == 0:
            raise MemoryError
        return read()

    monkeypatch.setattr("dotnetdiag.server.meter_session.read_runtime", now_and_then)
    reader = MeterReader(registry, "Metrics=System.Runtime;RefreshInterval=0.1")
    told = reader.take(1, path)
    reader.finish(path)
    assert values(told, "cpython.module.count")
    assert dotnetdiag.open(path).lost.total == 1


def test_a_session_for_which_there_is_no_thread_is_refused_and_holds_nothing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscription = Subscription(
        provider=PROVIDER, keywords=7, level=5, stacks=False, define=lambda _: lambda *_: None, skip=lambda: None
    )
    meters = Meters()

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(MeterSession, "start", refuse)
    with pytest.raises(RuntimeError):
        meters.join(subscription)
    monkeypatch.setattr(leaving, "_is_ending", True)
    meters.join(subscription)
    meters.leave(subscription)
    assert not meters._sessions
