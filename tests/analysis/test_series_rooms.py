"""The room that one process may take of what is kept for many: for texts, notices and types, and that it is given back."""

from __future__ import annotations

from tests.analysis.counters_made import MadeCounters

from dotnetdiag.analysis import metrics
from dotnetdiag.analysis.counters import CountersFold
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.series import (
    REFUSED,
    TEXTS_LIMIT,
    TEXTS_SHARE,
    UNWANTED,
    CounterKind,
    Instrument,
    InstrumentKey,
    SeriesKey,
    SeriesRegistry,
)

PART = TEXTS_LIMIT // TEXTS_SHARE


def instrument(pid: int, *, description: str = "") -> Instrument:
    return Instrument(key=InstrumentKey(pid, "SHARED", "Shop", "1", "orders", 1), description=description)


def test_tags_of_meters_of_one_process_take_no_room_from_another() -> None:
    registry = SeriesRegistry(per_process=10)
    assert registry.meter_tags(1, "Liar", "a=" + "x" * (PART - 10))
    assert not registry.meter_tags(1, "Liar", "b=" + "x" * PART)
    assert registry.meter_tags(2, "Shop", "region=eu") == {"region": "eu"}


def test_tags_of_meters_of_processes_that_have_ended_take_no_room() -> None:
    registry = SeriesRegistry(per_process=10)
    for pid in range(3 * TEXTS_SHARE):
        assert registry.meter_tags(pid, "Shop", f"instance={pid}" + "x" * (PART - 100))
        registry.forget(pid)
    assert registry.meter_tags(0, "Shop", "region=eu") == {"region": "eu"}


def test_what_is_described_anew_gives_back_the_room_that_it_had() -> None:
    registry = SeriesRegistry(per_process=10)
    for number in range(100):
        registry.announce(instrument(1, description=f"{number}" + "x" * (PART // 2)))
    assert registry.undescribed == 0
    registry.forget(1)
    for pid in range(2, 2 + 2 * TEXTS_SHARE):
        registry.announce(instrument(pid, description="x" * (PART - 100)))
        registry.forget(pid)
    key = SeriesKey(InstrumentKey(999, "SHARED", "Shop", "1", "orders", 1), CounterKind.COUNTER, "", "a=b")
    assert registry.number(key) != REFUSED


def test_a_series_is_made_anew_when_its_instrument_is_described() -> None:
    registry = SeriesRegistry()
    own = instrument(1)
    number = registry.number(SeriesKey(own.key, CounterKind.COUNTER, "", ""))
    assert registry.series(number).instrument.description == ""
    registry.announce(instrument(1, description="all of them"))
    assert registry.series(number).instrument.description == "all of them"


def test_event_counters_end_when_a_meter_of_their_name_comes() -> None:
    def wants(key: SeriesKey) -> bool:
        return not (key.kind.is_event_counter and registry.has_meter(1, "Shop"))

    registry = SeriesRegistry(wants)
    old = InstrumentKey(1, "", "Shop", "", "requests", 0)
    number = registry.number(SeriesKey(old, CounterKind.MEAN, "", ""))
    assert number >= 0
    registry.announce(instrument(1))
    registry.reconsider(1, "Shop", 7.0)
    assert registry.number(SeriesKey(old, CounterKind.MEAN, "", "")) == UNWANTED
    assert registry.series(number).instrument.ended_ms == 7.0


def test_what_one_runtime_says_leaves_room_for_the_limits_that_it_reaches() -> None:
    made = MadeCounters().at(1)
    for number in range(metrics.NOTICES_EACH + 100):
        made.metric(14, sessionId="SHARED", errorMessage=f"no value for request {number}")
    made.metric(12, sessionId="SHARED")
    (found,) = fold(made.trace(), CountersFold(per_process=100))
    assert len(found.notices) == metrics.NOTICES_EACH + 1
    assert "TimeSeriesLimitReached" in {one.event for one in found.notices}


def test_collections_of_the_sessions_that_count_are_counted_with_values_and_without() -> None:
    made = MadeCounters().at(1).interval(1.0, sessionId="SHARED").interval(1.0, sessionId="other")
    every, ours = CountersFold(), CountersFold(sessions=["SHARED"])
    fold(made.trace(), every, ours)
    (pid,) = {one for one in range(-1, 100_000) if every.beats(one)}
    assert (every.beats(pid), ours.beats(pid)) == (2, 1)
