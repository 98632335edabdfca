"""Lines of counters, held against those of a table."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from tests.analysis.counters_made import MadeCounters

from dotnetdiag.analysis.counters import Counters, CountersFold, counters
from dotnetdiag.cli.render import clean_json
from dotnetdiag.export import json_lines
from dotnetdiag.export.counter_lines import CounterLines
from dotnetdiag.recipes.counter_files import rows_of, whose
from dotnetdiag.recipes.counter_watch import CounterProcess


def process(pid: int | None, name: str = "app", number: int = 0) -> CounterProcess:
    return CounterProcess(number=number, pid=pid, name=name, runtime="10.0", target="process 1")


def expected(made: Counters, processes: Sequence[CounterProcess]) -> str:
    file = io.BytesIO()
    json_lines.write(rows_of(made, processes), file)
    return file.getvalue().decode()


def all_kinds() -> MadeCounters:
    made = MadeCounters().interval(1.0)
    made.counter('or"de\\rs\n%s', rate="5", value="1E+20", tags="a=%d,b=\x1b[31m", unit="é\ud800")
    for number, value in enumerate(("NaN", "-Infinity", "", "-0", "0.1", "1E+15", "999999999999999", "-12.50")):
        made.gauge(f"gauge{number}", lastValue=value)
    made.metric(16, instrumentName="queue", rate="-1", value="7").counter("none", rate="")
    made.metric(6, instrumentName="took", quantiles="0.5=1;0.95=2.5;0.99=3", count=3, sum=7.25)
    made.metric(6, instrumentName="never", quantiles="", count=0)
    return made.event_counter("Source", Name="mean", Mean=2.5, Count=2, Min=1.0, Max=4.0, IntervalSec=1.0)


WATCHED = (process(1234, 'a"pp\x1b', number=77), process(5, number=5))


def test_lines_are_those_of_the_table() -> None:
    made = counters(all_kinds().trace())
    assert len(made) == 14
    for processes in (WATCHED, (), (process(None, number=77),), (process(1 << 63, number=77),)):
        assert CounterLines().text(made, whose(processes)) == expected(made, processes)
    for line in expected(made, WATCHED).splitlines():
        json.loads(line)


def test_without_values_there_are_no_lines() -> None:
    assert CounterLines().text(counters(MadeCounters().interval(1.0).trace()), {}) == ""


def test_what_is_kept_of_a_series_is_made_anew_when_something_changes() -> None:
    lines, fold = CounterLines(), CountersFold()
    for window in all_kinds().trace().windows(fold.wants, size=4):
        fold.feed(window)
        taken = fold.take()
        for processes in (WATCHED, (process(9, "other", number=77),)):
            assert lines.text(taken, whose(processes)) == expected(taken, processes)
    assert lines.text(fold.latest(), whose(WATCHED)) == expected(fold.latest(), WATCHED)


def test_series_that_are_gone_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.export.counter_lines._SPARE", 3)
    lines = CounterLines()
    made = MadeCounters().interval(1.0)
    for number in range(40):
        made.gauge(f"gauge{number}", lastValue="1")
    fold = CountersFold()
    for window in made.trace().windows(fold.wants, size=2):
        fold.feed(window)
        lines.text(fold.take(), {})
    assert len(lines._kept) < 10


def test_what_programs_call_something_is_cleaned_and_nothing_else() -> None:
    made = counters(all_kinds().trace())
    text = CounterLines(clean_json).text(made, whose(WATCHED))
    assert "\x1b" not in text
    assert text == clean_json(expected(made, WATCHED))
