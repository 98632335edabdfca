"""Counters of real runtimes: every value is what the workload does, every tag as the program said it, and the library under dotnet-counters
sees the same (but for what ``counter_differences`` says).
"""

from __future__ import annotations

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.counter_differences import DIFFERENCES, differences
from tests.live.runtimes import workload
from tests.live.test_reference_reader import oracle
from tests.nettrace.recordings import recording
from tests.shared import needs

import dotnetdiag as dd
from dotnetdiag.analysis.counters import Counters

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]

EVENT_COUNTERS = "System.Runtime:0:4:EventCounterIntervalSec=1,Workload-Counters:0:4:EventCounterIntervalSec=1"
INTERVAL_S = 0.5
METERS = (
    f"System.Diagnostics.Metrics:0x2:4:SessionId=wl;Metrics=Workload.Meter;RefreshInterval={INTERVAL_S};"
    "MaxTimeSeries=1000;MaxHistograms=20"
)
SECONDS = 4.0
WITH_METERS = ("8", "9", "10", "NativeAOT")
ROUNDS = 100.0
"""A second, of a loop that sleeps for 10 ms: never more but for when it is looked at, and in the best interval at least the half, however
busy the machine is.
"""


@pytest.fixture(scope="module", params=["3.1", *WITH_METERS])
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def recorded(runtime: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counters") / f"{runtime}.nettrace"
    modes, providers = (
        ("counters", EVENT_COUNTERS) if runtime == "3.1" else ("counters+meters", f"{EVENT_COUNTERS},{METERS}")
    )
    with workload(runtime, modes) as target:
        dd.collect(target.pid, path, providers=providers, duration=SECONDS, rundown=False)
    return path


@pytest.fixture(scope="module")
def counters(recorded: Path) -> Counters:
    return dd.counters(recorded)


def of(counters: Counters, provider: str, name: str, **tags: str) -> list[dict[str, Any]]:
    """The rows of one series."""
    return [
        row
        for row in counters.rows.to_json()
        if (row["provider"], row["instrument"], row["tags"]) == (provider, name, tags)
    ]


def is_about(rows: list[dict[str, Any]], per_second: float) -> bool:
    """Whether the rates of a series are those of a loop that makes so many a second."""
    some = [row for row in rows if row["delta"]]
    mean = sum(row["delta"] for row in some) / sum(row["interval_s"] for row in some)
    return bool(mean <= 1.25 * per_second and max(row["rate"] for row in some) >= 0.5 * per_second)


def test_event_counters_have_the_values_of_the_program(counters: Counters) -> None:
    answers = of(counters, "Workload-Counters", "answer")
    assert len(answers) >= SECONDS - 2
    assert {(row["kind"], row["value"], row["count"]) for row in answers} == {("mean", 42.5, 1)}
    means = of(counters, "Workload-Counters", "request-time", zone="eu,west=1")
    assert {row["unit"] for row in means} == {"ms"}
    busy = [row for row in means if row["count"]]
    assert busy
    for row in busy:
        assert abs(row["value"] - 4.5) <= 13 / row["count"]  # 0 to 9, again and again: the last round may not be whole
        if row["count"] >= 10:
            assert (row["min"], row["max"]) == (0.0, 9.0)
    requests, pulled = (of(counters, "Workload-Counters", name) for name in ("requests", "pulled"))
    assert {row["kind"] for row in (*requests, *pulled)} == {"rate"}
    for row, three in list(zip(requests, pulled, strict=True))[2:]:
        assert abs(three["value"] - 3 * row["value"]) <= 9
        assert row["rate"] == row["value"] / row["interval_s"]
    assert is_about(requests, ROUNDS)
    assert is_about(pulled, 3 * ROUNDS)
    assert {row["unit"] for row in pulled} == {"items"}
    assert counters.damaged == 0
    assert counters.notes == ()


def test_intervals_are_as_long_as_was_asked_for(counters: Counters) -> None:
    for row in counters.rows.to_json():
        if row["kind"] in ("mean", "rate"):
            assert row["interval_s"] > 0
        else:
            assert row["interval_s"] >= INTERVAL_S
            assert round(row["interval_s"] / INTERVAL_S, 3) == round(row["interval_s"] / INTERVAL_S)


def test_meters_have_the_values_of_the_program(runtime: str, counters: Counters) -> None:
    if runtime == "3.1":
        assert not [one for one in counters.series if not one.kind.is_event_counter]
        return
    rooms = {
        tags: {row["value"] for row in of(counters, "Workload.Meter", "temperature", room=tags)}
        for tags in ("a,b", "zażółć=🐍")
    }
    assert rooms == {"a,b": {21.5}, "zażółć=🐍": {-3.0}}
    orders = of(counters, "Workload.Meter", "orders")
    shop, web = (of(counters, "Workload.Meter", "orders", kind=kind) for kind in ("shop", "web"))
    assert len(orders) >= SECONDS / INTERVAL_S - 4
    for row in orders[1:]:
        assert row["rate"] == row["delta"] / row["interval_s"]
        assert row["unit"] == "{order}"
    assert is_about(orders, 2 * ROUNDS)
    assert is_about(shop, ROUNDS * 2 / 3)
    assert is_about(web, ROUNDS / 3)
    for several in (orders, shop, web):
        for before, after in pairwise(several):
            assert after["value"] == before["value"] + after["delta"]
    for all_of_them, one, other in zip(orders, shop, web, strict=False):
        assert abs(all_of_them["value"] / 2 - one["value"] - other["value"]) <= 3
    assert shop[-1]["value"] == pytest.approx(2 * web[-1]["value"], abs=3)
    for row in of(counters, "Workload.Meter", "queue"):
        assert abs(row["delta"]) <= 1
        assert row["kind"] == "updowncounter"
    balance, ticks = (of(counters, "Workload.Meter", name) for name in ("balance", "ticks"))
    assert {row["value"] for row in balance} <= set(map(float, range(94, 101)))
    assert ticks[0]["rate"] is None
    assert is_about(ticks, ROUNDS)


def test_histograms_have_the_distribution_of_the_program(runtime: str, counters: Counters) -> None:
    if runtime == "3.1":
        assert not [one for one in counters.series if one.kind == "histogram"]
        return
    slow = of(counters, "Workload.Meter", "latency", code="200", route="/slow")
    assert {row["kind"] for row in slow} == {"histogram"}
    for row in slow:
        assert 999 <= row["quantiles"]["0.5"] <= row["quantiles"]["0.95"] <= row["quantiles"]["0.99"] <= 1010
        assert 1000 <= row["sum"] / row["count"] <= 1009
    fast = of(counters, "Workload.Meter", "latency")
    for row in fast:  # i % 100, one after the other
        assert 0 <= row["quantiles"]["0.5"] <= 99
        assert (row["unit"], row["value"]) == ("ms", None)
    whole = [row for row in slow if row["count"] >= 40]
    for row in whole:  # 1000 + i % 10; the runtime's quantiles are within a thousandth
        assert abs(row["quantiles"]["0.5"] - 1004.5) <= 2
        assert abs(row["quantiles"]["0.99"] - 1009) <= 1


def test_instruments_are_as_the_program_described_them(runtime: str, counters: Counters) -> None:
    told = {
        one.key.name: (one.type.partition("`")[0].partition("<")[0], one.unit, one.description)
        for one in counters.instruments
        if one.type
    }
    assert told == ({} if runtime == "3.1" else {
        "orders": ("Counter", "{order}", 'Orders, taken = "all"'),
        "queue": ("UpDownCounter", "{item}", ""),
        "latency": ("Histogram", "ms", "Latency"),
        "temperature": ("ObservableGauge", "Cel", ""),
        "ticks": ("ObservableCounter", "{tick}", ""),
        "balance": ("ObservableUpDownCounter", "", ""),
    })  # fmt: skip
    assert {one.key.version for one in counters.instruments if one.type} == (set() if runtime == "3.1" else {"1.2.3"})
    assert {one.pid for one in counters.series} == {counters.series[0].pid}


def test_the_reference_sees_the_same_values(recorded: Path, counters: Counters) -> None:
    assert differences(oracle("counters", recorded), counters)


def test_windows_of_a_running_session_give_rows_as_they_come() -> None:
    asked, taken = dd.CountersFold(), []
    with (
        workload("10", "counters+meters") as target,
        dd.watch(dd.Client(target.pid), f"{EVENT_COUNTERS},{METERS}", duration=3) as live,
    ):
        for window in live.windows():
            asked.feed(window)
            taken.append(asked.take())
    some = [one for one in taken if len(one)]
    assert len(some) >= 4
    rows = [row for one in some for row in one.table().to_json()]
    assert all(one.rows.values("ms") == sorted(one.rows.values("ms")) for one in some)
    series = {(row["instrument"], json.dumps(row["tags"])) for row in rows if row["provider"] == "Workload.Meter"}
    assert ("temperature", '{"room": "a,b"}') in series
    last = asked.latest()
    assert len(last) == len({number for one in some for number in one.rows.values("series")})
    assert last.rows.values("ms")[-1] == max(row["ms"] for row in rows)


@pytest.mark.parametrize("version", WITH_METERS)
def test_who_comes_second_gets_the_values_of_the_first_and_is_told_so(version: str, tmp_path: Path) -> None:
    others = METERS.replace("SessionId=wl", "SessionId=second")
    with workload(version, "counters+meters") as target:
        client = dd.Client(target.pid)
        with client.trace(METERS, rundown_keyword=0) as first:
            assert first.read(timeout_s=60)
            dd.collect(target.pid, tmp_path / "second.nettrace", providers=others, duration=2.5, rundown=False)
    both = dd.counters(tmp_path / "second.nettrace")
    assert {one.instrument.key.session for one in both.series} == {"wl"}
    assert any(note.startswith("the runtime serves one session of its own at a time: wl") for note in both.notes)
    own = dd.counters(tmp_path / "second.nettrace", sessions=["second"])
    assert len(own) == 0
    assert own.foreign == len(both) > 0


@pytest.mark.parametrize("version", WITH_METERS)
def test_sessions_that_share_one_get_the_same_values(version: str, tmp_path: Path) -> None:
    shared = METERS.replace("SessionId=wl", "SessionId=SHARED;ClientId={}")
    with workload(version, "counters+meters") as target, ThreadPoolExecutor() as pool:
        for name in ("one", "two"):
            pool.submit(
                dd.collect, target.pid, tmp_path / name, providers=shared.format(name), duration=3, rundown=False
            )
    one, two = (dd.counters(tmp_path / name) for name in ("one", "two"))
    assert one.notes == two.notes == ()
    assert {series.instrument.key.session for series in (*one.series, *two.series)} == {"SHARED"}
    sums = [{(row["value"], row["delta"]) for row in of(made, "Workload.Meter", "orders")} for made in (one, two)]
    assert len(sums[0] & sums[1]) >= 2, "they grow: the same sum is the same event"
    assert {series.instrument.description for series in two.series if series.name == "latency"} == {"Latency"}


# the recording of ../shared ---------------------------------------------------------------------------------------------


@cache
def kept() -> tuple[Counters, list[dict[str, Any]]]:
    path = recording("counters-10.nettrace")
    return dd.counters(path), oracle("counters", path)


def test_the_kept_recording_has_every_value_of_the_reference_and_no_others() -> None:
    ours, told = kept()
    met = differences(told, ours)
    assert met == {
        "per interval": 109,
        "no interval": 57,
        "no cumulative": 21,
        "count": 49,
        "ended": 1,
        "rate of value": 1,
    }
    assert len(ours) == 275
    assert set(DIFFERENCES) - set(met) == {"quantiles only", "not a number"}  # the program never did so


def test_the_rows_that_dotnet_counters_lost_or_changed_are_there() -> None:
    """Its files are of another run of the same program: the same series, as far as it can tell them."""
    ours, _ = kept()
    rooms = {row["tags"]["room"] for row in ours.rows.to_json() if row["instrument"] == "temperature"}
    assert rooms == {"a,b", "zażółć=🐍"}
    with recording("counters-10.dotnet-counters.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    mine = {line["Counter Name"] for line in lines if line["Provider"] == "Workload.Meter"}
    assert any("[room=a;b]" in name for name in mine), "it has no quoting: commas of tags are semicolons"
    events = json.loads(recording("counters-10.dotnet-counters.json").read_text("utf-8"))["Events"]
    theirs: set[tuple[str, str, str]] = set()
    for event in events:
        if event["provider"].startswith("Workload"):
            tags = ",".join(part for part in event["tags"].split(",") if not part.startswith("Percentile="))
            theirs.add((event["provider"], event["name"].partition(" (")[0], tags))
    titles = {one.number: one.instrument.description if one.kind.is_event_counter else one.name for one in ours.series}
    found = {
        (
            one.provider,
            titles[one.number],
            ",".join(f"{key}{':' if one.kind.is_event_counter else '='}{value}" for key, value in one.tags.items()),
        )
        for one in ours.series
        if one.provider.startswith("Workload")
    }
    assert theirs == found


def test_values_that_never_change_are_those_of_dotnet_counters() -> None:
    ours, _ = kept()
    events = json.loads(recording("counters-10.dotnet-counters.json").read_text("utf-8"))["Events"]
    for name, title in (("temperature", "temperature (Cel)"), ("answer", "The Answer")):
        theirs = {event["value"] for event in events if event["name"] == title}
        assert theirs == {row["value"] for row in ours.rows.to_json() if row["instrument"] == name}
