"""Which part of the time a recording tells of."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.analysis.traces import managed, traced
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.exceptions import exceptions
from dotnetdiag.events.well_known import EVENT_PIPE
from dotnetdiag.nettrace import read
from dotnetdiag.recipes.trace_rewrite import trim
from dotnetdiag.trace.part import RUNDOWN
from dotnetdiag.trace.recorded import Recorded, recorded_of
from dotnetdiag.trace.trace import Trace


@pytest.mark.parametrize("name", recordings())
def test_a_recording_ends_where_its_session_does(name: str) -> None:
    """And not with the names that are written afterwards: nothing else comes then."""
    trace = Trace(data_of(name), name=name)
    recorded = recorded_of(trace)
    rows = trace.raw.summary()
    says_so = any(row.provider == EVENT_PIPE for row in rows)
    others = [row.last_ns for row in rows if row.provider != RUNDOWN or not says_so]
    assert recorded.begin_s == 0
    assert recorded.end_s == pytest.approx(max(others) / 1e9)
    if says_so and any(row.provider == RUNDOWN for row in rows):
        assert recorded.end_s < trace.raw.duration_ns / 1e9


def test_without_an_event_that_says_so_it_ends_with_the_last() -> None:
    trace = traced(managed(3, 1), managed(5, 2))
    assert recorded_of(trace) == Recorded(0.0, trace.duration.total_seconds())


@pytest.mark.parametrize(("start_s", "end_s"), [(2.0, 2.5), (None, 2.5), (2.0, None)])
def test_a_part_tells_of_its_own_time(start_s: float | None, end_s: float | None, tmp_path: Path) -> None:
    whole = tmp_path / "whole.nettrace"
    whole.write_bytes(data_of("default-10.nettrace"))
    trim(whole, tmp_path / "part.nettrace", start_s=start_s, end_s=end_s)
    trim(tmp_path / "part.nettrace", tmp_path / "again.nettrace", start_s=start_s, end_s=end_s)
    assert not read(whole.read_bytes()).begins_late
    for name in ("part", "again"):
        data = (tmp_path / f"{name}.nettrace").read_bytes()
        contents, trace = read(data), Trace(data)
        assert contents.begins_late
        assert contents.lost.total == 0
        recorded = recorded_of(trace)
        assert recorded.begin_s == pytest.approx(start_s or 0.0, abs=0.02)
        assert recorded.end_s == pytest.approx(end_s or recorded_of(Trace(whole.read_bytes())).end_s, abs=0.02)
        made = exceptions(trace)
        assert made.totals.per_second == pytest.approx(made.count / recorded.seconds)
