"""What each thread of a recording did, as the other questions have it."""

from __future__ import annotations

import pytest
from tests.analysis.traces import allocation_tick, external, managed, traced
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.exceptions import exceptions
from dotnetdiag.analysis.threads import NO_EVENTS, NO_SAMPLES, threads
from dotnetdiag.trace.trace import Trace


@pytest.mark.parametrize("name", recordings())
def test_all_threads_come_to_what_the_questions_say(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    made, profile = threads(trace), cpu(trace)
    rows = made.threads.to_pylist()
    assert len({(row["pid"], row["tid"]) for row in rows}) == len(rows) == made.totals.count
    if len(profile) and profile.unit == "ms":
        assert made.totals.cpu_ms is not None
        assert made.totals.waiting_ms is not None
        assert made.totals.cpu_ms + made.totals.waiting_ms == pytest.approx(profile.total)
        assert sum(row["samples"] for row in rows) == len(profile)
        assert [row["cpu_ms"] for row in rows] == sorted((row["cpu_ms"] for row in rows), reverse=True)
    thrown = exceptions(trace).count
    assert sum(row["exceptions"] or 0 for row in rows) == thrown
    assert made.notes == ((NO_EVENTS,) if not rows else () if len(profile) else (NO_SAMPLES,))


def test_running_and_waiting_are_told_apart() -> None:
    made = threads(
        traced(managed(0, 1, "A"), external(2, 1, "B"), managed(5, 1, "A"), allocation_tick(6, "T", 1000, 24))
    )
    (row,) = made.threads.to_pylist()
    # how long the last sample lasts is not known
    assert (row["cpu_ms"], row["waiting_ms"], row["samples"], row["allocated_bytes"]) == (2.0, 3.0, 2, 1000)
