"""Totals of series: of recordings made by hand, and of real ones."""

from __future__ import annotations

import pytest
from tests.analysis.counters_made import START_NS, MadeCounters
from tests.analysis.test_counters import MEAN, RATE, windows
from tests.nettrace.recordings import data_of

import dotnetdiag as dd
from dotnetdiag.analysis.counters import Counters, CountersFold
from dotnetdiag.analysis.running_totals import RunningSeries, RunningTotals
from dotnetdiag.trace.trace import Trace

MS = 1_000_000


def totals_of(made: MadeCounters) -> dict[str, RunningSeries]:
    """By instrument."""
    running = RunningTotals()
    running.feed(dd.counters(made.trace()))
    return {one.series.name: one for one in running.latest()}


def counted(*values: tuple[str, str], runtime: str = "10") -> float | None:
    """The total of a counter after events with these rates and values."""
    made = MadeCounters(runtime)
    for number, (rate, value) in enumerate(values):
        made.at(1000 * (number + 1)).interval(1).counter(rate=rate, value=value)
    return totals_of(made)["one"].total


def test_a_counter_has_what_was_added_since_its_first_interval_began() -> None:
    made = MadeCounters("10")
    for number, (rate, value) in enumerate([("5", "105"), ("7", "112")]):
        made.at(1000 * (number + 1)).interval(0.5).counter(rate=rate, value=value)
    one = totals_of(made)["one"]
    assert (one.total, one.rate, one.interval_s, one.value, one.count) == (12, 14, 0.5, 112, None)
    assert (one.begin_ns, one.utc_ns) == (START_NS + 500 * MS, START_NS + 2000 * MS)


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([("", "1000"), ("3", "1003")], 3),
        ([("5", "5"), ("1", "9")], 9),
        ([("5", "5"), ("2", "2"), ("1", "3")], 8),
        ([("5", "5"), ("0", "2"), ("1", "3")], 6),
        ([("5", "5"), ("", "2"), ("1", "3")], 8),
        ([("", "1000"), ("0", "1000"), ("-1", "999")], 0),
        ([("5", "5"), ("-1", "4"), ("3", "7")], 8),
        ([("5", "5"), ("-9", "-4"), ("1", "-3")], 6),
        ([("", "50"), ("-48", "2"), ("1", "3")], 1),
        ([("5", "5"), ("NaN", "NaN"), ("1", "6")], 6),
        ([("5", "5"), ("Infinity", "Infinity"), ("1", "6")], 6),
        ([("5", "5"), ("2", ""), ("1", "8")], 8),
        ([("2", ""), ("5", "7")], 7),
    ],
    ids=[
        "the first of an observable one says no difference",
        "an event between was lost",
        "it began anew",
        "it began anew, and nothing was added since",
        "it began anew, and says no difference",
        "something was taken away",
        "something was taken away, and more added",
        "more was taken away than there was",
        "an observable one fell",
        "no number",
        "endless",
        "not told once",
        "told later",
    ],
)
def test_the_total_that_the_runtime_tells_counts(values: list[tuple[str, str]], total: float) -> None:
    assert counted(*values) == total


def test_where_the_runtime_tells_no_total_differences_are_added() -> None:
    assert counted(("5", ""), ("0", ""), ("-1", ""), ("2.5", ""), runtime="6") == 7.5


def test_a_rate_of_an_event_counter_is_added_up_and_a_mean_is_a_value() -> None:
    made = MadeCounters().at(500).event_counter(**RATE).event_counter(**MEAN).at(1000).event_counter(**RATE)
    running = RunningTotals()
    running.feed(dd.counters(made.trace()))
    rate, mean = running.latest()
    assert (rate.total, rate.rate, rate.value) == (198, 198, None)
    assert (mean.total, mean.value, mean.count) == (None, 4.5, None)


def test_a_gauge_and_an_up_down_counter_have_their_last_values() -> None:
    made = MadeCounters("10").at(1000).interval(1).gauge("g", lastValue="21.5").metric(16, instrumentName="u", rate="", value="-4")  # fmt: skip
    made.at(2000).interval(1).gauge("g", lastValue="-3").metric(16, instrumentName="u", rate="-2", value="-6")
    found = totals_of(made)
    assert [(found[name].value, found[name].total) for name in "gu"] == [(-3, None), (-6, None)]


def test_an_up_down_counter_whose_sum_is_not_told_is_added_up() -> None:
    made = MadeCounters("8").at(1000).interval(1).metric(16, rate="5", value="").metric(16, rate="-7", value="")
    assert totals_of(made)["one"].value == -2


def test_a_histogram_counts_from_its_first_interval_and_has_the_quantiles_of_the_last() -> None:
    made = MadeCounters("10")
    for number, (quantiles, count, total) in enumerate([("0.5=3;0.99=9", 68, 200.0), ("", 0, 0.0), ("0.5=4", 2, 8.0)]):
        made.at(1000 * (number + 1)).interval(1).metric(6, quantiles=quantiles, count=count, sum=total)
    one = totals_of(made)["one"]
    assert (one.count, one.sum, one.quantiles, one.total, one.value) == (70, 208, {"0.5": 4}, None, None)


def test_a_histogram_of_old_runtimes_has_only_quantiles() -> None:
    one = totals_of(MadeCounters("6").at(1000).metric(6, quantiles="0.5=3"))["one"]
    assert (one.count, one.sum, one.quantiles) == (None, None, {"0.5": 3})


def test_a_histogram_with_buckets_adds_up_itself_and_may_begin_anew() -> None:
    made = MadeCounters("10")
    for number, (count, total) in enumerate([(5, 50.0), (9, 90.0), (2, 20.0)]):
        made.at(1000 * (number + 1)).interval(1).metric(19, count=count, sum=total, minimum=1.0, maximum=2.0)
    one = totals_of(made)["one"]
    assert (one.count, one.sum, one.quantiles) == (11, 110, {})


def test_windows_are_added_up_as_one_and_a_process_is_forgotten_alone() -> None:
    made = MadeCounters("10", version=6)
    for number in (1, 2, 3):
        made.at(1000 * number, thread=1).interval(1).counter(rate="1", value=str(number))
        made.at(1000 * number, thread=2).interval(1).counter(rate="2", value=str(number * 2))
    running, asked = RunningTotals(), CountersFold()
    for window in windows(made.trace(), 3):
        asked.feed(window)
        running.feed(asked.take())
    assert {one.series.pid: one.total for one in running.latest()} == {77: 3, 78: 6}
    running.forget(77)
    assert [one.series.pid for one in running.latest()] == [78]
    running.forget(78)
    assert len(running) == 0 == len(running._sums)


def test_an_instrument_that_is_reported_no_more_has_ended() -> None:
    made = MadeCounters("10").at(1000).interval(1)
    made.metric(7, instrumentName="a").counter("a", rate="1", value="1").counter("b", rate="1", value="1")
    made.at(2000).metric(8, instrumentName="a")
    assert {name: one.ended for name, one in totals_of(made).items()} == {"a": True, "b": False}


def test_of_nothing_there_are_no_totals() -> None:
    running = RunningTotals()
    running.feed(dd.counters(MadeCounters().trace()))
    assert running.latest() == []


def expected(made: Counters, number: int) -> float:
    """What a counter came to: the last of the runtime's totals, less the first, and what the first interval brought; or all that was added."""
    some = [row for row in made.rows.to_pylist() if row["series"] == number]
    first = some[0]["delta"] or 0
    if some[0]["kind"] == "counter" and some[0]["value"] is not None:
        return float(some[-1]["value"] - some[0]["value"] + first)
    return float(sum(row["delta"] or 0 for row in some))


@pytest.mark.parametrize("name", ["counters-10.nettrace"])
def test_totals_of_recordings_are_what_their_runtimes_tell(name: str) -> None:
    made = dd.counters(Trace(data_of(name), name=name))
    running = RunningTotals()
    running.feed(made)
    found = running.latest()
    assert {one.series.number for one in found} == {one.number for one in made.series}
    some = [one for one in found if one.total is not None]
    assert some
    for one in some:
        assert one.total == pytest.approx(expected(made, one.series.number)), one.series
