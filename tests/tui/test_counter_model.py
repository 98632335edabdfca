"""What is kept of counters for a screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from math import isnan

import pytest
from tests.tui.scene import Above, Clock
from tests.tui.updates import gone, joined, process, row, series, update

from dotnetdiag.recipes.counter_update import CounterNotice, CounterSilence, MissingCounter
from dotnetdiag.recipes.thresholds import parse_threshold
from dotnetdiag.tui import counter_model
from dotnetdiag.tui.counter_model import COUNT, HISTORY, LOG_LIMIT, STAYS_S, CounterModel, CounterRow, Threshold

ONE, TWO = process(0), process(1, "other")
GAUGE = series(0, "temperature", unit="C")
RATE = series(1, "orders", "counter", tags={"a": "b,c", "d": "e"})
HISTOGRAM = series(2, "duration", "histogram", unit="s")


def model(thresholds: Sequence[Threshold] = (), clock: Clock | None = None) -> CounterModel:
    made = CounterModel(thresholds, clock=clock or Clock(), time_of_day=lambda: datetime(2026, 1, 2, 3, 4, 5))
    made.take(update((), joined(ONE), processes=[ONE]))
    return made


def by_key(made: CounterModel) -> dict[tuple[int, str], CounterRow]:
    return {one.key: one for one in made.rows()}


def test_a_row_has_the_value_and_how_it_has_changed() -> None:
    made = model()
    made.take(update([row(GAUGE, 21.5), row(RATE, 200.0)]))
    assert [one.change for one in made.rows()] == [None, None]
    made.take(update([row(GAUGE, 20.0), row(RATE, 210.0)]))
    gauge, rate = made.rows()
    assert (gauge.value, gauge.change, list(gauge.history)) == (20.0, -1.5, [21.5, 20.0])
    assert (rate.value, rate.change) == (210.0, 10.0)
    assert (gauge.name, rate.name) == ("temperature (C)", "orders (count/s)")
    assert (rate.tags, rate.brief_tags) == ("a=b,c, d=e", "b,c, e")


def test_several_values_of_an_interval_are_all_kept() -> None:
    made = model()
    made.take(update([row(GAUGE, 1.0), row(GAUGE, 2.0)]))
    (one,) = made.rows()
    assert list(one.history) == [1.0, 2.0]


def test_a_histogram_has_a_row_for_each_quantile_and_one_for_how_often() -> None:
    made = model()
    made.take(update([row(HISTOGRAM, count=30, interval_s=2.0, quantiles={"0.5": 1.0, "0.95": 2.0})]))
    rows = by_key(made)
    assert {key[1]: one.value for key, one in rows.items()} == {"0.5": 1.0, "0.95": 2.0, COUNT: 15.0}
    assert {one.name for one in rows.values()} == {"duration (s)", "duration (count/s)"}
    assert {one.brief_tags for one in rows.values()} == {"p50", "p95", ""}
    made.take(update([row(HISTOGRAM, count=0, quantiles=None)]))
    assert {key[1]: one.value for key, one in rows.items()} == {"0.5": None, "0.95": None, COUNT: 0.0}
    assert isnan(rows[2, "0.5"].history[-1])


def test_a_histogram_that_tells_no_count_has_no_row_for_it() -> None:
    made = model()
    made.take(update([row(HISTOGRAM, quantiles={"0.5": 1.0})]))
    assert list(by_key(made)) == [(2, "0.5")]


def test_memory_is_bounded() -> None:
    made = model()
    for turn in range(HISTORY + 50):
        made.take(update([row(GAUGE, float(turn))], gone(TWO, "refuses")))
    (one,) = made.rows()
    assert list(one.history) == [float(turn) for turn in range(50, HISTORY + 50)]
    assert len(made.log) == len(made.departures) == LOG_LIMIT


def test_rows_beyond_the_limit_are_counted_until_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_model, "ROWS_LIMIT", 2)
    made = model()
    made.take(update((), joined(TWO)))
    others = [series(10 + number, f"x{number}", of=1) for number in range(2)]
    for _ in range(2):
        made.take(update([row(GAUGE, 1.0), *(row(one, 1.0) for one in others)]))
        assert made.refused == 1
    made.forget(0)
    made.take(update([row(one, 2.0) for one in others]))
    assert made.refused == 0
    assert [one.value for one in made.rows()] == [2.0, 2.0]


def test_a_copy_stands_still() -> None:
    made = model()
    made.take(update([row(GAUGE, 1.0)]))
    (kept,) = [one.copy() for one in made.rows()]
    made.take(update([row(GAUGE, 5.0)]))
    assert (kept.value, list(kept.history)) == (1.0, [1.0])


def test_values_of_a_process_that_nobody_has_told_of_are_left_out() -> None:
    made = model()
    made.take(update([row(series(9, "x", of=7), 1.0)]))
    assert list(made.rows()) == []


def test_one_that_has_gone_stays_with_its_rows_for_a_while() -> None:
    clock = Clock()
    made = model(clock=clock)
    made.take(update([row(GAUGE, 1.0)], gone(ONE, "it was\nkilled")))
    (left,) = made.processes.values()
    assert (left.is_gone, left.why, left.gone) == (True, "it was\\x0akilled", "03:04:05")
    assert made.log[-1] == "03:04:05  orders (process 1000): it was\\x0akilled"
    clock.now_s = STAYS_S - 0.1
    made.forget_gone()
    assert list(made.rows())
    clock.now_s = STAYS_S
    made.forget_gone()
    assert not list(made.rows())
    assert not made.processes


def test_one_that_could_not_be_watched_is_told_and_has_no_rows() -> None:
    made = model()
    said = made.take(update((), gone(TWO, "process 1001 refuses")))
    assert said == ["process 1001 refuses"]
    assert list(made.processes) == [0]
    assert [one.why for one in made.departures] == ["process 1001 refuses"]


def test_who_left_as_it_was_told_is_no_departure() -> None:
    made = model()
    assert made.take(update((), gone(ONE))) == ["orders (process 1000): no longer watched"]
    assert not made.departures


def test_an_instrument_that_is_reported_no_longer_is_marked_until_it_has_values_again() -> None:
    made = model()
    made.take(update([row(GAUGE, 1.0)]))
    (one,) = made.rows()
    made.take(update([row(series(0, "temperature", unit="C", ended=True), 2.0)]))
    assert one.has_ended
    made.take(update([row(GAUGE, 3.0)]))
    assert not one.has_ended


def test_rows_of_who_is_silent_or_gone_are_stale_and_beyond_no_threshold() -> None:
    made = model([Above("temperature", 20)])
    made.take(update([row(GAUGE, 21.0)]))
    (one,) = made.rows()
    assert one.is_crossed
    made.take(update(silences=[CounterSilence(process=ONE, seconds=4)]))
    assert (one.is_stale, one.is_crossed) == (True, False)
    made.take(update([row(GAUGE, 22.0)], silences=[CounterSilence(process=ONE, seconds=5, is_over=True)]))
    assert (one.is_stale, one.is_crossed) == (False, True)
    made.take(update((), gone(ONE, "the stream ended")))
    assert (one.is_stale, one.is_crossed) == (True, False)


def test_thresholds_look_at_the_figure_that_they_are_about() -> None:
    limits = [
        Above("temperature", 20),
        Above("orders", 100),
        Above("duration", 1.5, "p95"),
        Above("duration", 1000, "count"),
    ]
    made = model(limits)
    quantiles = {"0.5": 9.0, "0.95": 2.0}
    made.take(update([row(GAUGE, 21.0), row(RATE, 99.0), row(HISTOGRAM, count=30, quantiles=quantiles)]))
    assert {one.key for one in made.rows() if one.is_crossed} == {(0, ""), (2, "0.95")}
    made.take(update([row(GAUGE, 19.0), row(RATE, 101.0), row(HISTOGRAM, count=1001)]))
    assert {one.key for one in made.rows() if one.is_crossed} == {(1, ""), (2, COUNT)}


def test_a_threshold_as_people_type_it_is_one() -> None:
    limit = parse_threshold('System.Runtime[orders]{a="b,c"} value > 1000')
    made = model([limit])
    made.take(update([row(RATE, 1.0, value=1001.0)]))
    assert [one.is_crossed for one in made.rows()] == [True], "the sum, though the rate is shown"


def test_silence_counts_from_the_last_value() -> None:
    clock = Clock()
    made = model(clock=clock)
    clock.now_s = 3.0
    assert made.silent_s(made.processes[0]) == 3.0
    made.take(update([row(GAUGE, 1.0)]))
    assert made.silent_s(made.processes[0]) == 0.0


def test_what_a_runtime_says_is_told() -> None:
    made = model()
    notice = CounterNotice(process=process(0), text="the limit of histograms was reached\x07")
    said = made.take(update([row(GAUGE, 1.0)], notices=[notice]))
    assert said == ["orders (1000): the limit of histograms was reached\\x07"]
    assert made.take(update([row(GAUGE, 1.0)])) == []


def test_counters_that_nobody_gives_are_told() -> None:
    missing = MissingCounter(provider="System.Runtime", instrument="cpu-usage", is_event_counter=True)
    (said,) = model().take(replace(update([row(GAUGE, 1.0)]), missing=(missing,)))
    assert said.startswith("no values of System.Runtime[cpu-usage] yet; ")
    assert r"'EventCounters\System.Runtime[cpu-usage]'" in said


def test_names_are_clean() -> None:
    made = CounterModel()
    made.take(update((), joined(process(0, "a\x1b[2J"))))
    made.take(update([row(series(0, "n\x07", unit="\x9b", tags={"k\n": "v\x00"}, provider="p\x7f"), 1.0)]))
    (one,) = made.rows()
    assert (one.of_process, one.provider, one.name) == ("a\\x1b[2J (1000)", "p\\x7f", "n\\x07 (\\x9b)")
    assert (one.tags, one.brief_tags) == ("k\\x0a=v\\x00", "v\\x00")
