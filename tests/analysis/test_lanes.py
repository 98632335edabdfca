"""Intervals side by side."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis.lanes import lanes, tops

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=40)


@given(INTERVALS)
def test_what_is_in_one_lane_does_not_overlap(intervals: list[tuple[int, int]]) -> None:
    begin = np.array([at for at, _ in intervals], np.int64)
    end = begin + np.array([length for _, length in intervals], np.int64)
    lane = lanes(begin, end)
    for number in set(lane.tolist()):
        rows = np.flatnonzero(lane == number)
        rows = rows[np.lexsort((end[rows], begin[rows]))]
        assert (begin[rows][1:] >= end[rows][:-1]).all()


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), min_size=1, max_size=40))
def test_there_are_no_more_lanes_than_intervals_at_one_time(intervals: list[tuple[int, int]]) -> None:
    begin = np.array([at for at, _ in intervals], np.int64)
    end = begin + np.array([length for _, length in intervals], np.int64)
    most = max(int(((begin <= at) & (end > at)).sum()) for at in begin.tolist())
    assert set(lanes(begin, end).tolist()) == set(range(most))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([(-1, 0, 10), (0, 1, 5), (1, 2, 3)], [0, 0, 0]),
        ([(-1, 0, 10), (0, 1, 5), (0, 5, 9)], [0, 0, 0]),  # one behind the other
        ([(-1, 0, 10), (0, 1, 5), (0, 4, 9), (2, 5, 6)], [0, 0, 2, 2]),  # beside each other
        ([(-1, 0, 10), (0, 1, 11)], [0, 1]),  # outlives what it belongs to
        ([(-1, 0, 10), (-1, 0, 10), (1, 1, 2), (0, 1, 2)], [0, 1, 1, 0]),
    ],
)
def test_what_lies_within_another_is_drawn_in_its_lane(rows: list[tuple[int, int, int]], expected: list[int]) -> None:
    parent, begin, end = np.array(rows, np.int64).reshape(-1, 3).T
    assert tops(parent, begin, end).tolist() == expected
