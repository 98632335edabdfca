"""What is open, against the same in a list, and that what nobody asks for takes no memory."""

from __future__ import annotations

import tracemalloc
from random import Random

import numpy as np
import pytest

from dotnetdiag.analysis import open_spans
from dotnetdiag.analysis.open_spans import OPEN, OpenSpans
from dotnetdiag.trace import scratch, spilled

Row = tuple[int, int, int]
"""(process, thread, activity)"""


def rows(some: list[Row], first: int = 0) -> np.ndarray:
    made = np.zeros(len(some), OPEN)
    for at, (pid, tid, activity) in enumerate(some):
        made[at]["pid"], made[at]["tid"], made[at]["activity"], made[at]["row"] = pid, tid, activity, first + at
    return made


def may_end(start: Row, end: Row, *, waits: bool) -> bool:
    """By its id; by its thread where one of the two has none; what has none, in a kind that does not wait, is always asked for."""
    (pid, tid, activity), (of_pid, of_tid, of_activity) = start, end
    if activity and of_activity:
        return (pid, activity) == (of_pid, of_activity)
    return (pid, tid) == (of_pid, of_tid) or not (activity or waits)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_what_an_end_may_be_of_is_given(seed: int, monkeypatch: pytest.MonkeyPatch, *, waits: bool) -> None:
    monkeypatch.setattr(open_spans, "_HELD", 5)
    monkeypatch.setattr(spilled, "SLICE_ROWS", 4)
    monkeypatch.setattr(spilled, "HELD_BYTES", 200)
    monkeypatch.setattr(scratch, "MAPPED_ROWS", 10)
    random, found, there = Random(seed), OpenSpans(waits=waits), dict[int, Row]()

    def some(count: int) -> list[Row]:
        return [(random.randrange(2), random.randrange(3), random.choice([0, 0, *range(1, 9)])) for _ in range(count)]

    for first in range(0, 1000, 10):
        came, ends = some(random.randrange(10)), some(random.randrange(4))
        found.add(rows(came, first))
        there |= {first + at: row for at, row in enumerate(came)}
        assert len(found) == len(there)
        lacking = random.choice([None, 3])
        asked = {row for row, one in there.items() if any(may_end(one, end, waits=waits) for end in ends)}
        asked |= {row for row, one in there.items() if lacking and one[2] == lacking}
        ids = rows(some(2))
        alike = {(pid, activity) for pid, _, activity in ids[["pid", "tid", "activity"]].tolist()}
        same = {row for row, (pid, _, activity) in there.items() if (pid, activity) in alike}
        assert same <= {*found.having(ids["pid"], ids["activity"])["row"].tolist()} <= there.keys()
        other = found.copy()
        for one in (other, found):
            taken = one.take((rows(ends), rows([])), None if lacking is None else lambda own: own["activity"] == 3)
            given = taken["row"].tolist()
            assert asked <= {*given} <= there.keys()
            assert given == sorted(given)
            over = [row for row in asked if row % 3]
            one.keep(taken[~np.isin(taken["row"], over)])
            assert len(one) == len(there) - len(over)
        for row in over:
            del there[row]


def test_what_never_ends_takes_no_memory() -> None:
    found, count = OpenSpans(waits=False), 1 << 14
    tracemalloc.start()
    try:
        for first in range(0, 60 * count, count):
            starts = np.zeros(count, OPEN)
            starts["activity"] = starts["row"] = 1 + np.arange(first, first + count)
            found.add(starts)
            found.keep(found.take((starts[:1], starts[:0]), None)[1:])
        assert len(found) > 59 * count
        assert tracemalloc.get_traced_memory()[0] < 5 << 20  # of 40 MB
    finally:
        tracemalloc.stop()
