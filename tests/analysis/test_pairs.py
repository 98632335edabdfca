"""Stops that end starts, beside a list of what is open."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis.pairs import pairs

EVENTS = st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 1)), max_size=40)


def by_hand(events: list[tuple[bool, int, int]]) -> list[int]:
    """As a reader of the events in their order would say it."""
    opened: dict[tuple[int, int], list[int]] = {}
    found: list[int] = []
    stops = 0
    for is_stop, *key in events:
        still = opened.setdefault((key[0], key[1]), [])
        if is_stop:
            if still:
                found[still.pop()] = stops
            stops += 1
        else:
            still.append(len(found))
            found.append(-1)
    return found


def split(events: list[tuple[bool, int, int]], *, is_stop: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    rows = [(time, one, other) for time, (stop, one, other) in enumerate(events) if stop == is_stop]
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return columns[:, 0].astype(np.float64), [columns[:, 1], columns[:, 2]]


@given(EVENTS)
def test_a_stop_ends_what_was_begun_last(events: list[tuple[bool, int, int]]) -> None:
    starts, stops = split(events, is_stop=False), split(events, is_stop=True)
    assert pairs(*starts, *stops).tolist() == by_hand(events)


def test_what_begins_and_ends_at_one_time_does_so_in_this_order() -> None:
    one = np.zeros(1, np.int64)
    assert pairs(np.array([5.0]), [one], np.array([5.0]), [one]).tolist() == [0]
