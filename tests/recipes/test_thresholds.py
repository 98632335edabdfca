"""Limits of counters: how they are written, and who crosses them."""

from __future__ import annotations

import pytest
from tests.analysis.counters_made import MadeCounters

from dotnetdiag.analysis.counters import Counters, CountersFold, counters
from dotnetdiag.errors import GrammarError
from dotnetdiag.recipes.thresholds import Crossing, Crossings, parse_threshold
from dotnetdiag.trace.trace import Trace


def values(made: MadeCounters) -> Counters:
    return counters(made.trace())


def crossed(made: MadeCounters, *texts: str) -> list[tuple[str, float, float]]:
    """Which limits were crossed by which values, and how long they had been."""
    found = Crossings([parse_threshold(text) for text in texts]).feed(values(made))
    return [(one.threshold.text, one.value, one.lasted_s) for one in found]


@pytest.mark.parametrize(
    ("text", "provider", "names", "tags", "figure", "comparison", "limit", "for_s"),
    [
        ("System.Runtime[dotnet.process.cpu.time] > 0.8 for 30s", "System.Runtime", "dotnet.process.cpu.time", {}, "", ">", 0.8, 30),
        ("A[B]>=1e6", "A", "b", {}, "", ">=", 1e6, 0),
        ("A[b] < -1", "A", "b", {}, "", "<", -1, 0),
        ("A[b] <= .5 for 1m30s", "A", "b", {}, "", "<=", 0.5, 90),
        ("A[b] p95 > 100MB", "A", "b", {}, "p95", ">", 100e6, 0),
        ("A[b] == 64KiB", "A", "b", {}, "", "==", 65536, 0),
        ("A[b]{x=1,y=two words} rate != 3", "A", "b", {"x": "1", "y": "two words"}, "rate", "!=", 3, 0),
        (r'A[b] {k="a, b} > \"c\""} > 3', "A", "b", {"k": 'a, b} > "c"'}, "", ">", 3, 0),
        ("A[b]{k=} > 0", "A", "b", {"k": ""}, "", ">", 0, 0),
        (r"EventCounters\A[cpu-usage] > 80", "A", "cpu-usage", {}, "", ">", 80, 0),
    ],
)  # fmt: skip
def test_what_a_limit_says(
    text: str,
    provider: str,
    names: str,
    tags: dict[str, str],
    figure: str,
    comparison: str,
    limit: float,
    for_s: float,
) -> None:
    made = parse_threshold(text)
    assert (made.choice.provider, made.choice.names) == (provider, frozenset([names]))
    assert (made.tags, made.figure, made.comparison, made.limit, made.for_s) == (tags, figure, comparison, limit, for_s)
    assert parse_threshold(f"{made.counters} > 1").choice == made.choice


@pytest.mark.parametrize(
    ("text", "why", "position"),
    [
        ("", "write 'Provider", 0),
        ("System.Runtime > 3", "write 'Provider", 0),
        ("A[b,c] > 3", "one instrument", 0),
        ("A[] > 3", "one instrument", 0),
        ("A[b],C[d] > 3", "value, rate", 4),
        ("A[b]", "one of > >=", 4),
        ("A[b] 3", "one of > >=", 6),
        ("A[b] mean > 3", "value, rate", 4),
        ("A[b] > ", "a number", 7),
        ("A[b] > many", "a number", 7),
        ("A[b] > nan", "a number", 7),
        ("A[b] > 3 for", "30s", 12),
        ("A[b] > 3 for ever", "30s", 0),
        ("A[b]{x} > 3", "tags are written", 5),
        ("A[b]{x=1 > 3", "tags are written", 5),
    ],
)
def test_what_is_no_limit_says_where(text: str, why: str, position: int) -> None:
    with pytest.raises(GrammarError, match=why) as raised:
        parse_threshold(text)
    assert raised.value.position == position


def test_a_series_is_told_once_until_it_has_come_back() -> None:
    made = MadeCounters()
    for second, value in enumerate((1, 9, 9, 1, 9)):
        made.at(1000.0 * (second + 1)).interval(1).gauge("g", lastValue=str(value))
    assert crossed(made, "Meter[g] > 5") == [("Meter[g] > 5", 9, 1), ("Meter[g] > 5", 9, 1)]


def test_a_limit_that_has_to_last_counts_whole_intervals() -> None:
    made = MadeCounters()
    for second, value in enumerate((9, 9, 1, 9, 9, 9, 9)):
        made.at(1000.0 * (second + 1)).interval(1).gauge("g", lastValue=str(value))
    assert crossed(made, "Meter[g] > 5 for 3s") == [("Meter[g] > 5 for 3s", 9, 3)]


def test_what_was_silent_for_long_begins_anew() -> None:
    made = MadeCounters()
    for second in (1, 2, 30, 31):
        made.at(1000.0 * second).interval(1).gauge("g", lastValue="9")
    assert crossed(made, "Meter[g] > 5 for 3s") == []


def test_each_kind_has_the_figure_that_people_look_at() -> None:
    made = MadeCounters().at(2000).interval(2)
    made.counter("c", rate="10", value="100")
    made.metric(6, instrumentName="h", quantiles="0.5=1;0.95=7;0.99=9", count=3, sum=12.0)
    made.event_counter("Source", Name="m", Mean=4.0, Count=1, IntervalSec=2.0, CounterType="Mean")
    texts = [
        "Meter[c] == 5",
        "Meter[h] == 7",
        "Meter[h] p99 == 9",
        "Meter[h] count == 3",
        "Meter[h] sum == 12",
        "Source[m] == 4",
    ]
    assert [text for text, _, _ in crossed(made, *texts)] == texts


def test_only_series_with_the_tags_cross() -> None:
    made = MadeCounters().at(1000).interval(1)
    made.gauge("g", lastValue="9", tags="a=1,b=2").gauge("g", lastValue="8", tags="a=2").gauge("g", lastValue="7")
    assert [value for _, value, _ in crossed(made, "Meter[g]{a=1} > 5")] == [9]
    assert [value for _, value, _ in crossed(made, "Meter[g] > 5")] == [9, 8, 7]


def test_a_series_is_told_again_when_somebody_wants_it() -> None:
    made = MadeCounters()
    for second in range(1, 5):
        made.at(1000.0 * second).interval(1).gauge("g", lastValue="9")
    limits = Crossings([parse_threshold("Meter[g] > 5")])
    told: list[Crossing] = []
    for row in windows(made.trace()):
        told += limits.feed(row)
        if len(told) == 1:
            limits.again(told[0])
    assert [one.lasted_s for one in told] == [1, 2]


def test_a_process_that_has_ended_is_forgotten() -> None:
    made = MadeCounters()
    for second in range(1, 4):
        made.at(1000.0 * second).interval(1).gauge("g", lastValue="9")
    limits = Crossings([parse_threshold("Meter[g] > 5 for 2s")])
    told = []
    for row in windows(made.trace()):
        told += limits.feed(row)
        limits.forget_processes([77])
    assert told == []


def windows(trace: Trace) -> list[Counters]:
    """The values of a recording, two events at a time: the interval's, and the value's."""
    asked = CountersFold()
    (whole,) = trace.windows(asked.wants)
    made = []
    for start in range(0, len(whole), 2):
        asked.feed(whole.slice(start, start + 2))
        made.append(asked.take())
    return made
