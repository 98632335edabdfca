"""A session of meters that another tool has, and shares with who asks for its limits: ours takes them over."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from tests.analysis.counters_made import MadeCounters
from tests.recipes.scripted_meters import OTHER_LIMITS, Meters, Sought, given, refused

from dotnetdiag.analysis.counters import CountersFold
from dotnetdiag.analysis.metrics import Notice
from dotnetdiag.cli.commands import commands
from dotnetdiag.client import Client
from dotnetdiag.providers.counters import SharedLimits
from dotnetdiag.recipes import counter_list
from dotnetdiag.recipes.counter_list import CounterList, list_counters
from dotnetdiag.recipes.counter_rejoin import Rejoining
from dotnetdiag.recipes.counter_watch import CounterOptions, CounterTargets, CounterUpdate, CounterWatch
from dotnetdiag.recipes.shared_limits import limits_of_others
from dotnetdiag.testing import Runtime
from dotnetdiag.trace.table import EventTable

PATIENCE = 400
"""Intervals, or looks."""
THEIRS = SharedLimits(max_time_series=500, max_histograms=7, interval_s=2.0)
SAID = "another tool has the session of meters, and its limits count: MaxHistograms 7, MaxTimeSeries 500, RefreshInterval 2"
_FIELDS = tuple(
    f"{whose}{name}"
    for name in ("MaxHistograms", "MaxTimeSeries", "RefreshInterval")
    for whose in ("expected", "actual")
)


def another(sought: Sought, theirs: SharedLimits = THEIRS) -> MadeCounters:
    """What a runtime gives while another tool shares its session: values for who asks for its limits, and to others what these are."""
    if sought.limits == str(theirs):
        return given("orders").metric(
            7, sessionId="SHARED", meterName="M", instrumentName="orders", instrumentType="Gauge"
        )
    made = MadeCounters().at(10)
    made._versions[OTHER_LIMITS] = (1, ("clientId", *_FIELDS))
    expected: dict[str, Any] = {
        "expectedMaxHistograms": str(theirs.max_histograms),
        "expectedMaxTimeSeries": str(theirs.max_time_series),
        "expectedRefreshInterval": f"{theirs.interval_s:g}",
    }
    return made.metric(OTHER_LIMITS, clientId=sought.meters["ClientId"], **expected)


def notice(text: str, event: str = "MultipleSessionsConfiguredIncorrectlyError") -> Notice:
    return Notice(ms=1.0, pid=1, session="me", event=event, text=text, count=1)


def test_the_limits_of_others_are_read_of_what_a_runtime_says() -> None:
    said = "expectedMaxHistograms=7 actualMaxHistograms=20 expectedMaxTimeSeries=500 actualMaxTimeSeries=1000 "
    assert limits_of_others(notice(f"{said}expectedRefreshInterval=0.5 actualRefreshInterval=1")) == SharedLimits(
        max_time_series=500, max_histograms=7, interval_s=0.5
    )


@pytest.mark.parametrize(
    "said",
    [
        "",
        "expectedMaxHistograms=7",
        "expectedMaxHistograms=7 expectedMaxTimeSeries=500",
        "expectedMaxHistograms=7 expectedMaxTimeSeries=1.5 expectedRefreshInterval=1",
        "expectedMaxHistograms=7 expectedMaxTimeSeries=many expectedRefreshInterval=1",
        "expectedMaxHistograms=7 expectedMaxTimeSeries=500 expectedRefreshInterval=1.1.1",
        "expectedMaxHistograms=\u0667 expectedMaxTimeSeries=500 expectedRefreshInterval=1",
        "expectedMaxHistograms=;x expectedMaxTimeSeries=500 expectedRefreshInterval=1",
    ],
)
def test_what_says_no_limits_has_none(said: str) -> None:
    assert limits_of_others(notice(said)) is None


def test_only_who_is_refused_for_his_limits_is_told_others() -> None:
    said = "expectedMaxHistograms=7 expectedMaxTimeSeries=500 expectedRefreshInterval=1"
    assert limits_of_others(notice(said)) is not None
    assert limits_of_others(notice(said, event="ObservableInstrumentCallbackError")) is None


# a watch


class Hurry:
    """A clock by which each wait is over when it is asked next."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1000.0
        return self.now


def until(watch: CounterWatch, name: str) -> list[CounterUpdate]:
    """Updates up to the one with a value of an instrument."""
    updates: list[CounterUpdate] = []
    for update in watch.updates():
        updates.append(update)
        if update.counters is not None and name in {one.name for one in update.counters.series}:
            return updates
        assert len(updates) < PATIENCE
    raise AssertionError("it has ended")


def test_a_watch_takes_over_the_limits_of_a_session_that_there_is(tmp_path: Path) -> None:
    meters = Meters(another)
    with (
        Runtime("10", listen=tmp_path / "r", scripts=meters.scripts) as runtime,
        CounterWatch(
            CounterTargets(ports=(f"{runtime.address},connect",)), CounterOptions(counters="M", interval=0.05)
        ) as watch,
    ):
        watch._rejoining = Rejoining(Hurry())
        updates = until(watch, "orders")
    assert [one.limits for one in meters.sought] == [str(SharedLimits(interval_s=0.05)), str(THEIRS)]
    assert [one.text for update in updates for one in update.notices] == [SAID]
    assert [one.joined for update in updates for one in update.changes] == [True]


def test_limits_that_have_changed_meanwhile_are_taken_over_too(tmp_path: Path) -> None:
    later = SharedLimits(max_time_series=9, max_histograms=9, interval_s=9)
    meters = Meters(lambda sought: another(sought, THEIRS if sought.number == 0 else later))
    with (
        Runtime("10", listen=tmp_path / "r", scripts=meters.scripts) as runtime,
        CounterWatch(
            CounterTargets(ports=(f"{runtime.address},connect",)), CounterOptions(counters="M", interval=0.05)
        ) as watch,
    ):
        watch._rejoining = Rejoining(Hurry())
        updates = until(watch, "orders")
    assert [one.limits for one in meters.sought][1:] == [str(THEIRS), str(later)]
    assert len([one for update in updates for one in update.notices]) == 2


def test_the_limits_of_one_process_are_not_those_of_another(tmp_path: Path) -> None:
    shared, own = Meters(another), Meters(lambda _: given("own"))
    with (
        Runtime("10", listen=tmp_path / "a", scripts=shared.scripts) as one,
        Runtime("10", listen=tmp_path / "b", scripts=own.scripts) as other,
        CounterWatch(
            CounterTargets(ports=(f"{one.address},connect", f"{other.address},connect")),
            CounterOptions(counters="M", interval=0.05),
        ) as watch,
    ):
        watch._rejoining = Rejoining(Hurry())
        until(watch, "orders")
        assert {process.number for process in watch.processes} == {0, 1}
    assert [one.meters["MaxTimeSeries"] for one in own.sought] == ["1000"]


# what there is


@pytest.fixture
def has_come(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Who lists looks as long as nothing of this has come: instruments, or notices."""
    clock, wanted, looks = SimpleNamespace(now=0.0), {"orders"}, iter(range(PATIENCE))

    class Heard(CountersFold):
        def feed(self, window: EventTable) -> None:
            super().feed(window)
            met = {key.name for key in self._registry.instruments} | {one.event for one in self.notices}
            if wanted & met:
                clock.now += 1e6

    def look(seconds: float) -> None:
        assert next(looks, None) is not None, "it does not come"
        time.sleep(min(seconds, 0.01))

    monkeypatch.setattr(counter_list, "CountersFold", Heard)
    monkeypatch.setattr(counter_list, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=look))
    return wanted


def test_a_list_has_the_meters_beside_a_session_with_other_limits(has_come: set[str], tmp_path: Path) -> None:
    meters = Meters(another)
    with (
        Runtime("10", listen=tmp_path / "r", scripts=meters.scripts) as runtime,
        Client.connect(f"{runtime.address},connect") as client,
    ):
        found = list_counters(client, sources=["Shop"])
    assert has_come
    assert [(one.kind, one.provider, one.instrument, one.type) for one in found] == [("meter", "M", "orders", "Gauge")]
    assert found.notices == ()
    first, second = meters.sought
    assert second.limits == str(THEIRS) != first.limits
    assert "Shop" in first.providers
    assert "Shop" not in second.providers, "EventCounters are asked for once"


def test_a_list_that_lacks_the_meters_says_why(has_come: set[str], tmp_path: Path) -> None:
    has_come.add("MultipleSessionsNotSupportedError")
    with (
        Runtime("10", listen=tmp_path / "r", scripts=Meters(lambda _: refused("other")).scripts) as runtime,
        Client.connect(f"{runtime.address},connect") as client,
    ):
        found = list_counters(client)
    assert list(found) == []
    assert found.notices == ("the runtime serves one session of its own at a time: other",)
    assert found.table().notes == found.notices


def test_why_meters_may_be_missing_stands_beside_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_list, "list_counters", lambda *_, **__: CounterList((), (), (SAID,)))
    with Runtime("10", listen=tmp_path / "r") as runtime:
        done = CliRunner().invoke(commands, ["counters", "list", "--dport", f"{runtime.address},connect"])
    assert done.exit_code == 0, done.output
    assert f"meters may be missing: {SAID}" in done.stderr
    assert SAID not in done.stdout
