"""Values of counters, of recordings made by hand: what each event of each version says, and what is missing or damaged."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.counters_made import MadeCounters
from tests.nettrace.recordings import data_of

import dotnetdiag as dd
from dotnetdiag.analysis import counter_rows, distinct
from dotnetdiag.analysis import metrics as metrics_module
from dotnetdiag.analysis import series as series_module
from dotnetdiag.analysis.counters import FIXED, NO_COUNTERS, Counters, CountersFold
from dotnetdiag.analysis.fold import fold
from dotnetdiag.errors import UsageError
from dotnetdiag.events import Text
from dotnetdiag.trace.trace import Trace


def rows(made: Counters, *names: str) -> list[Any]:
    """The values of some columns, by row; of one column bare."""
    columns = [made.rows.values(name) for name in names]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def asked(made: MadeCounters, **options: Any) -> Counters:
    return dd.counters(made.trace(), **options)


@pytest.mark.parametrize(("runtime", "total"), [("6", None), ("8", 120.0), ("10", 120.0)])
def test_a_counter_has_what_was_added_as_a_rate_and_the_sum_where_the_runtime_tells_it(
    runtime: str, total: float | None
) -> None:
    made = asked(MadeCounters(runtime).at(2000).interval(0.5).counter("orders", rate="20", value="120", unit="{order}"))
    assert rows(made, "kind", "unit", "value", "delta", "rate", "interval_s") == [
        ("counter", "{order}", total, 20.0, 40.0, 0.5)
    ]


@pytest.mark.parametrize("runtime", ["8", "10"])
def test_the_first_value_of_an_observable_counter_has_no_rate(runtime: str) -> None:
    made = asked(
        MadeCounters(runtime)
        .at(1000)
        .interval(1)
        .counter("ticks", rate="", value="0")
        .metric(16, instrumentName="balance", rate="", value="-100")
    )
    assert rows(made, "instrument", "kind", "value", "rate", "delta") == [
        ("ticks", "counter", 0.0, None, None),
        ("balance", "updowncounter", -100.0, None, None),
    ]


@pytest.mark.parametrize("runtime", ["6", "8", "10"])
def test_a_gauge_has_its_last_value(runtime: str) -> None:
    made = MadeCounters(runtime).at(5)
    for text in ("21.5", "-3", "1E+300", "5E-324", "NaN", "-Infinity", "", "9007199254740993"):
        made.gauge(lastValue=text)
    found = rows(asked(made), "value")
    assert found[:4] == [21.5, -3.0, 1e300, 5e-324]
    assert math.isnan(found[4])
    assert found[5:] == [-math.inf, None, 2.0**53]
    assert set(rows(asked(MadeCounters(runtime).gauge(lastValue="1")), "kind")) == {"gauge"}


@pytest.mark.parametrize(("runtime", "count", "total"), [("6", None, None), ("8", 68, 2278.0), ("10", 68, 2278.0)])
def test_a_histogram_has_quantiles_and_count_and_sum_where_the_runtime_tells_them(
    runtime: str, count: int | None, total: float | None
) -> None:
    made = asked(MadeCounters(runtime).metric(6, quantiles="0.5=34;0.95=64;0.99=67.5", count=68, sum=2278.0))
    assert rows(made, "kind", "value", "count", "sum", "quantiles") == [
        ("histogram", None, count, total, {"0.5": 34.0, "0.95": 64.0, "0.99": 67.5})
    ]


def test_a_histogram_without_values_in_an_interval_has_a_row_that_says_so() -> None:
    made = asked(MadeCounters("8").metric(6, quantiles="", count=0, sum=0.0))
    assert rows(made, "count", "sum", "quantiles") == [(0, 0.0, None)]


def test_quantiles_are_those_that_the_runtime_names() -> None:
    made = asked(MadeCounters("8").metric(6, quantiles="0.5=1").metric(6, quantiles="0.999=7;1E-05=0"))
    none = dict.fromkeys(("0.5", "0.95", "0.99", "0.999", "1E-05"))
    assert rows(made, "quantiles") == [{**none, "0.5": 1.0}, {**none, "0.999": 7.0, "1E-05": 0.0}]


def test_a_histogram_with_buckets_has_count_sum_least_and_most() -> None:
    made = asked(
        MadeCounters()
        .at(1000)
        .interval(1)
        .metric(19, instrumentName="h", instrumentId=3, unit="s", tags="a=1", scale=20, sum=7.5, count=1 << 40, zeroCount=1,
                minimum=0.5, maximum=4.0, buckets="1, 2, 3")
    )  # fmt: skip
    assert rows(made, "kind", "unit", "tags", "count", "sum", "min", "max", "quantiles", "interval_s") == [
        ("histogram", "s", {"a": "1"}, 1 << 40, 7.5, 0.5, 4.0, None, 1.0)
    ]


MEAN: dict[str, Any] = {
    "Name": "request-time", "DisplayName": "Request Time", "Mean": 4.5, "StandardDeviation": 2.5, "Count": 70, "Min": 0.0,
    "Max": 9.0, "IntervalSec": 0.9993092, "Series": "Interval=1000", "CounterType": "Mean", "Metadata": "zone:eu,west=1",
    "DisplayUnits": "ms",
}  # fmt: skip
RATE: dict[str, Any] = {
    "Name": "requests", "DisplayName": "Requests", "DisplayRateTimeScale": "00:01:00", "Increment": 99.0, "IntervalSec": 0.5,
    "Metadata": "", "Series": "Interval=500", "CounterType": "Sum", "DisplayUnits": "",
}  # fmt: skip


def test_the_mean_of_an_event_counter_has_count_least_most_and_deviation() -> None:
    made = asked(MadeCounters().at(1).event_counter(**MEAN))
    assert rows(made, "provider", "instrument", "kind", "unit", "tags") == [
        ("Source", "request-time", "mean", "ms", {"zone": "eu,west=1"})
    ]
    assert rows(made, "value", "rate", "count", "sum", "min", "max", "stddev", "interval_s") == [
        (4.5, None, 70, None, 0.0, 9.0, 2.5, 0.9993092)
    ]
    (one,) = made.series
    assert (one.instrument.description, one.pid, one.tags) == ("Request Time", 77, {"zone": "eu,west=1"})


def test_the_mean_of_nothing_is_what_the_runtime_says_and_has_no_least_and_no_most() -> None:
    nothing = {**MEAN, "Mean": 0.0, "Count": 0, "Min": math.inf, "Max": -math.inf}
    assert rows(asked(MadeCounters().event_counter(**nothing)), "value", "count", "min", "max") == [
        (0.0, 0, None, None)
    ]


def test_an_increment_is_a_rate_by_its_own_interval() -> None:
    made = asked(MadeCounters().event_counter(**RATE))
    assert rows(made, "kind", "value", "delta", "rate", "interval_s") == [("rate", 99.0, 99.0, 198.0, 0.5)]
    (one,) = made.series
    assert one.instrument.rate_s == 60.0


def test_event_counters_of_2_1_have_no_more_than_a_name_and_figures() -> None:
    names = ("Name", "Mean", "StandardDeviation", "Count", "Min", "Max", "IntervalSec")
    made = asked(MadeCounters().event_counter(**{name: MEAN[name] for name in names}))
    assert rows(made, "instrument", "kind", "unit", "tags", "value") == [("request-time", "mean", "", {}, 4.5)]


@pytest.mark.parametrize(
    ("text", "seconds"), [("1.02:03:04.5", 93784.5), ("00:00:00.1000000", 0.1), ("", None), ("x:y:z", None)]
)
def test_the_time_that_a_rate_is_shown_for_is_that_of_a_time_span(text: str, seconds: float | None) -> None:
    (one,) = asked(MadeCounters().event_counter(**{**RATE, "DisplayRateTimeScale": text})).series
    assert one.instrument.rate_s == seconds


def test_the_interval_of_metrics_is_that_of_the_collection_they_are_in() -> None:
    made = MadeCounters("8").at(500).counter(rate="10")
    made.at(1000).interval(1).counter(rate="10").at(4000).interval(3).counter(rate="10").gauge(lastValue="1")
    assert rows(asked(made), "interval_s", "rate", "delta") == [
        (None, None, 10.0),
        (1.0, 10.0, 10.0),
        (3.0, 10 / 3, 10.0),
        (3.0, None, None),
    ]


def test_an_interval_that_is_none_gives_no_rate() -> None:
    made = MadeCounters("8").at(1000).interval(0).counter(rate="10").interval(-1).counter(rate="10")
    assert rows(asked(made), "interval_s", "rate", "delta") == [(None, None, 10.0)] * 2


def test_sessions_have_intervals_and_series_of_their_own() -> None:
    made = MadeCounters("8").at(1000).interval(1, sessionId="a").interval(2, sessionId="SHARED")
    made.counter(rate="10", sessionId="a").counter(rate="10", sessionId="SHARED")
    both = asked(made)
    assert rows(both, "rate", "series") == [(10.0, 0), (5.0, 1)]
    assert both.notes == ("values of 2 sessions: a, SHARED",)
    only = asked(made, sessions=["SHARED"])
    assert rows(only, "rate") == [5.0]
    assert (only.foreign, only.notes) == (1, ("1 values of other sessions are left out",))
    with pytest.raises(UsageError, match="give a list"):
        asked(made, sessions="SHARED")


def test_what_is_announced_is_what_is_known_of_an_instrument() -> None:
    said: dict[str, Any] = {
        "instrumentName": "orders", "instrumentType": "Counter`1", "unit": "{order}", "description": 'Orders, taken = "all"',
        "meterVersion": "1.2.3", "instrumentTags": "a=1", "meterTags": "area=b=2,zone=z,1", "meterScopeHash": "482",
        "instrumentId": 4, "meterTelemetrySchemaUrl": "https://x",
    }  # fmt: skip
    values: dict[str, Any] = {"meterVersion": "1.2.3", "instrumentId": 4, "rate": "1"}
    made = MadeCounters().at(1).metric(7, **said).at(2).counter("orders", **values).at(3).metric(8, **said)
    result = asked(made)
    (one,) = result.instruments
    assert result.series[0].instrument == one
    assert (one.type, one.description, one.tags, one.meter_tags) == (
        "Counter`1", 'Orders, taken = "all"', {"a": "1"}, {"area": "b=2", "zone": "z,1"},
    )  # fmt: skip
    assert (one.scope, one.schema_url, one.ended_ms) == ("482", "https://x", 3.0)


def test_instruments_of_one_name_are_told_apart_by_their_numbers() -> None:
    made = MadeCounters().gauge(lastValue="1", instrumentId=1).gauge(lastValue="2", instrumentId=2)
    assert rows(asked(made), "series") == [0, 1]
    without = MadeCounters("8").gauge(lastValue="1").gauge(lastValue="2")
    assert rows(asked(without), "series") == [0, 0]


def test_limits_and_errors_are_told_once_with_how_often_they_came() -> None:
    made = MadeCounters().at(1).metric(12).metric(13).metric(15, runningSessionId="other")
    made.at(2).metric(14, errorMessage="System.Exception: no\n  at X").at(3).metric(
        14, errorMessage="System.Exception: no\n  at X"
    )
    made.metric(9, errorMessage="bad").metric(17, clientId="c", expectedMaxHistograms="10", actualMaxHistograms="20")
    made.gauge(lastValue="1")
    result = asked(made)
    assert result.notes == (
        "the runtime reports an error: bad",
        "the limit of time series was reached: the runtime reports no others (MaxTimeSeries)",
        "the limit of histograms was reached: the runtime reports no others (MaxHistograms)",
        "an instrument failed when it was asked for its value: System.Exception: no (2 times)",
        "the runtime serves one session of its own at a time: other",
        "another tool has the session of meters, and its limits count: MaxHistograms 10",
    )
    callback = next(one for one in result.notices if one.count == 2)
    assert (callback.ms, callback.session, callback.event) == (2.0, "me", "ObservableInstrumentCallbackError")


def test_a_recording_without_counters_says_so() -> None:
    result = asked(MadeCounters().metric(3))
    assert (len(result), result.notes, result.series) == (0, (NO_COUNTERS,), ())
    assert result.table().to_json() == []
    assert list(result.summary()) == []
    assert result.of_series(0).tolist() == []


def test_rows_are_in_time_order_with_the_time_of_the_event() -> None:
    made = MadeCounters().at(1.25).gauge(lastValue="1").at(3).event_counter(**MEAN).at(2, thread=2).gauge(lastValue="2")
    result = asked(made)
    assert rows(result, "ms", "value") == [(1.25, 1.0), (2.0, 2.0), (3.0, 4.5)]
    assert rows(result, "utc")[0] == "2023-11-14T22:13:20.0012500Z"
    assert result.rows.numpy("time")[0] == 1_700_000_000_001_250_000


def test_processes_of_one_recording_are_told_apart() -> None:
    made = MadeCounters("8", version=6)
    for thread, seconds in ((1, 1), (2, 2)):
        made.at(thread, thread=thread).interval(seconds).counter(rate="2").event_counter(**MEAN)
    result = asked(made)
    assert rows(result, "pid", "rate", "series") == [(77, 2.0, 0), (77, None, 2), (78, 1.0, 1), (78, None, 3)]


def test_the_table_has_just_the_columns_that_programs_rely_on() -> None:
    result = asked(MadeCounters().gauge(lastValue="1"))
    assert result.table().columns == FIXED
    assert set(result.rows.columns) > set(FIXED)
    assert result.table().to_json() == [
        {
            "ms": 0.0, "utc": "2023-11-14T22:13:20.0000000Z", "provider": "Meter", "instrument": "one", "kind": "gauge",
            "unit": "", "tags": {}, "value": 1.0, "rate": None, "interval_s": None, "count": None, "sum": None, "quantiles": None,
        }
    ]  # fmt: skip


def test_the_summary_has_a_row_for_each_line_of_a_picture() -> None:
    made = MadeCounters("8").at(1000).interval(1)
    for number in (2, 4):
        made.counter(rate=str(number), value="9", unit="B", tags="a=1").metric(
            6, quantiles="0.5=1;0.95=2;0.99=3", unit="ms"
        )
    made.gauge("g", lastValue="NaN")
    assert list(asked(made).summary()) == [
        {"provider": "Meter", "instrument": "g", "kind": "gauge", "unit": "", "tags": "", "rows": 1, "least": None,
         "mean": None, "most": None, "last": None},
        {"provider": "Meter", "instrument": "one", "kind": "histogram", "unit": "ms", "tags": "quantile 0.5", "rows": 2,
         "least": 1.0, "mean": 1.0, "most": 1.0, "last": 1.0},
        {"provider": "Meter", "instrument": "one", "kind": "histogram", "unit": "ms", "tags": "quantile 0.95", "rows": 2,
         "least": 2.0, "mean": 2.0, "most": 2.0, "last": 2.0},
        {"provider": "Meter", "instrument": "one", "kind": "histogram", "unit": "ms", "tags": "quantile 0.99", "rows": 2,
         "least": 3.0, "mean": 3.0, "most": 3.0, "last": 3.0},
        {"provider": "Meter", "instrument": "one", "kind": "counter", "unit": "B/s", "tags": "a=1", "rows": 2, "least": 2.0,
         "mean": 3.0, "most": 4.0, "last": 4.0},
    ]  # fmt: skip


def test_values_without_end_are_summed_up_as_they_are() -> None:
    made = MadeCounters("8").at(1000).interval(0.1).gauge(lastValue="Infinity").gauge(lastValue="-Infinity")
    made.counter("big", rate="1.7E+308", value="1.7E+308").event_counter(**{**MEAN, "Count": math.nan})
    (gauge, big, _) = sorted(asked(made).summary(), key=lambda row: str(row["mean"]), reverse=True)[:3]
    assert (gauge["least"], gauge["most"], gauge["last"]) == (-math.inf, math.inf, -math.inf)
    assert math.isnan(gauge["mean"])
    assert big["last"] == math.inf


# window by window ------------------------------------------------------------------------------------------------------


def windows(trace: Trace, size: int) -> Any:
    (whole,) = trace.windows(CountersFold().wants)
    return [whole.slice(first, first + size) for first in range(0, len(whole), size)]


def busy() -> Trace:
    made = MadeCounters()
    for second in range(1, 6):
        made.at(second * 1000).interval(1)
        for tags in ("room=a,b", "room=c", ""):
            made.counter("orders", rate=str(second), value=str(second * 10), tags=tags).gauge(
                lastValue=str(second), tags=tags
            )
        made.event_counter(**{**RATE, "Increment": float(second)})
    return made.trace()


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_windows_of_any_size_give_what_the_whole_gives(size: int) -> None:
    trace = busy()
    whole = dd.counters(trace)
    asked = CountersFold()
    for window in windows(trace, size):
        asked.feed(window)
    names = [name for name in whole.rows.columns if name != "series"]
    assert rows(asked.result(), *names) == rows(whole, *names)


TEXTS = st.lists(st.text("aé🐍\0", max_size=3), max_size=30)


@given(TEXTS, st.lists(st.integers(0, 3), min_size=30, max_size=30))
def test_few_rows_are_told_apart_as_many_are(texts: list[str], numbers: list[int]) -> None:
    column, codes = Text.from_pylist(texts), [np.array(numbers[: len(texts)], np.int64)] * 2
    found = []
    for few in (0, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distinct, "FEW_ROWS", few)
            known, which = distinct.distinct_texts(column)
            assert [known[number] for number in which.tolist()] == texts
            assert len(known) == len(set(texts))
            firsts, kinds = distinct.combined([which, *codes], len(texts))
            pairs = list(zip(texts, numbers, strict=False))
            assert [pairs[firsts[kind]] for kind in kinds.tolist()] == pairs
            found.append(len(firsts))
    assert found[0] == found[1] == len(set(pairs))


def test_many_rows_give_what_few_give(monkeypatch: pytest.MonkeyPatch) -> None:
    few = asked_of(busy())
    monkeypatch.setattr(distinct, "FEW_ROWS", 0)
    assert asked_of(busy()) == few


def asked_of(trace: Trace) -> list[dict[str, Any]]:
    return dd.counters(trace).table().to_json()


def test_each_window_gives_its_rows_once_and_the_latest_of_each_series_is_kept() -> None:
    trace = busy()
    asked, taken = CountersFold(), []
    for window in windows(trace, 8):
        asked.feed(window)
        new = asked.take()
        assert {one.number for one in new.series} == set(rows(new, "series"))
        taken += new.table().to_json()
        assert len(asked.take()) == 0
    assert taken == dd.counters(trace).table().to_json()
    last = asked.latest()
    assert set(rows(last, "ms")) == {5000.0}
    assert len(last) == len(last.series) == 7
    assert rows(last, "series") == rows(asked.latest(), "series")
    assert len(asked.result()) == 0
    for again in (asked.take, asked.latest, asked.result):
        with pytest.raises(UsageError, match="already"):
            again()


def test_the_latest_leaves_out_what_is_not_reported_any_more() -> None:
    made = MadeCounters().gauge("a", lastValue="1", instrumentId=1).gauge("b", lastValue="2", instrumentId=2)
    made.at(1).metric(8, instrumentName="a", instrumentId=1)
    asked = CountersFold()
    for window in made.trace().windows(asked.wants):
        asked.feed(window)
    assert rows(asked.latest(), "instrument") == ["b"]
    assert rows(asked.take(), "instrument") == ["a", "b"]
    assert rows(asked.latest(), "instrument") == ["b"]


def test_a_fold_that_was_fed_nothing_has_no_result() -> None:
    with pytest.raises(UsageError, match="no window"):
        CountersFold().take()


def test_it_shares_a_pass_over_a_recording_with_others() -> None:
    trace = Trace(data_of("events-10.nettrace"), name="x")
    profile, counters = fold(trace, dd.CpuFold(weight="samples"), CountersFold())
    assert len(counters) == 0
    assert profile.notes


# limits and damage -----------------------------------------------------------------------------------------------------


def test_series_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_module, "SERIES_LIMIT", 2)
    made = (
        MadeCounters()
        .gauge("a", lastValue="1")
        .gauge("b", lastValue="2")
        .event_counter(**MEAN)
        .gauge("a", lastValue="3")
    )
    made.gauge("c", lastValue="4").gauge("c", lastValue="5")
    result = asked(made)
    assert rows(result, "value") == [1.0, 2.0, 3.0]
    assert result.refused == 3
    assert result.notes == ("3 values of series beyond the limit are left out",)


def test_instruments_and_notices_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_module, "INSTRUMENTS_LIMIT", 2)
    monkeypatch.setattr(metrics_module, "NOTICES_LIMIT", 2)
    made = MadeCounters()
    for number in range(4):
        made.metric(7, instrumentName=f"i{number}").metric(9, errorMessage=f"e{number}")
    result = asked(made)
    assert len(result.instruments) == len(result.notices) == 2
    assert "2 instruments beyond the limit are not described" in result.notes


def test_texts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_module, "TEXTS_LIMIT", 100)
    made = MadeCounters().gauge("a", lastValue="1").gauge("b" * 200, lastValue="2").gauge("a", lastValue="3")
    made.metric(7, instrumentName="a", description="short", meterTags="x=" + "y" * 200)
    for _ in range(20):
        made.metric(7, instrumentName="a", description="short")
    made.metric(7, instrumentName="b", description="d" * 200)
    result = asked(made)
    assert rows(result, "value") == [1.0, 3.0]
    assert (result.refused, [dict(one.meter_tags) for one in result.instruments]) == (1, [{}])
    assert "1 instruments beyond the limit are not described" in result.notes


def test_quantiles_are_bounded() -> None:
    made = MadeCounters("8")
    for number in range(counter_rows.QUANTILES_LIMIT + 5):
        made.metric(6, quantiles=f"0.{number + 10}=1")
    result = asked(made)
    assert (len(result), result.damaged) == (counter_rows.QUANTILES_LIMIT, 5)


@pytest.mark.parametrize("number", [4, 5, 6, 16, 19])
def test_a_payload_that_is_cut_is_counted_and_gives_no_value(number: int) -> None:
    values: dict[int, dict[str, Any]] = {
        4: {"rate": "1"},
        5: {"lastValue": "1"},
        6: {"quantiles": "0.5=1"},
        16: {"rate": "1"},
        19: {"buckets": "1"},
    }
    whole = asked(MadeCounters().metric(number, **values[number]))
    assert (len(whole), whole.damaged) == (1, 0)
    for cut in range(40):
        made = asked(MadeCounters().metric(number, cut=cut, **values[number]).metric(number, **values[number]))
        assert (len(made), made.damaged) == (1, 1)
        assert made.notes == ("1 events of counters could not be read, and are left out",)


@pytest.mark.parametrize("text", ["1,5", "1_000", " 1", "nan", "inf", "0x10", "１", "1.", ".5", "1e", "--1", "∞"])
def test_a_text_that_is_no_number_is_counted_and_never_guessed(text: str) -> None:
    made = asked(MadeCounters().gauge(lastValue=text).counter(rate="1", value=text).gauge(lastValue="2"))
    assert rows(made, "value") == [2.0]
    assert made.damaged == 2


@pytest.mark.parametrize("text", ["0.5", "0.5=", "=1", "0.5=1;", "0.5=1,0.95=2", "0.5=a", ";"])
def test_quantiles_that_are_none_are_counted(text: str) -> None:
    made = asked(MadeCounters().metric(6, quantiles=text).metric(6, quantiles="0.5=1;0.95=2;0.99=3"))
    assert (len(made), made.damaged) == (1, 1)


def test_an_event_counter_without_a_figure_is_counted() -> None:
    made = asked(
        MadeCounters().event_counter(Name="x", Sum=1.0).event_counter(Mean=1.0).event_counter(Name=3, Mean=1.0)
    )
    assert (len(made), made.damaged) == (0, 3)


def test_payloads_of_any_bytes_are_counted_or_read_and_nothing_else_happens() -> None:
    data = bytearray(data_of("counters-10.nettrace"))
    chance = random.Random(5)
    for _ in range(30):
        broken = bytearray(data)
        for _ in range(200):
            broken[chance.randrange(4096, len(broken))] = chance.randrange(256)
        result = dd.counters(Trace(bytes(broken)))
        assert len(result.table().to_json()) == len(result)
        list(result.summary())


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -1.0, 1e30])
def test_an_interval_that_is_none_is_not_told(seconds: float) -> None:
    made = (
        MadeCounters()
        .at(1000)
        .event_counter("Source", Name="m", Mean=4.0, Count=1, IntervalSec=seconds, CounterType="Mean")
    )
    (row,) = dd.counters(made.trace()).table().to_json()
    assert (row["value"], row["interval_s"]) == (4.0, None)


def test_of_many_processes_only_the_usual_quantiles_are_read_so_that_one_takes_none_from_others() -> None:
    made = MadeCounters().at(1000).interval(1)
    for number in range(20):
        made.metric(6, instrumentName="odd", quantiles=f"0.{number + 10}=1", count=1, sum=1.0)
    made.metric(6, instrumentName="usual", quantiles="0.5=1;0.95=2;0.99=3", count=5, sum=6.0)
    asked = CountersFold(per_process=1000)
    for window in made.trace().windows(asked.wants):
        asked.feed(window)
    found = asked.result()
    assert [row["instrument"] for row in found.table().to_json()] == ["usual"]
    assert found.damaged == 20
