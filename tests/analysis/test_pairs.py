"""Stops that end starts, beside a list of what is open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis.gc_pauses import paused
from dotnetdiag.analysis.kept_events import Kept
from dotnetdiag.analysis.pairs import first_rows, pairs

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


def by_ticks(starts: np.ndarray, stops: np.ndarray) -> list[int]:
    """The same of one key, of a coarse clock: at each tick what was open before ends first, as far as it does, and then what has just begun."""
    found, opened = [-1] * len(starts), list[int]()
    for tick in sorted({*starts.tolist(), *stops.tolist()}):
        ending = np.flatnonzero(stops == tick).tolist()
        for stop in ending[: len(opened)]:
            found[opened.pop()] = stop
        left = ending[sum(one in ending for one in found if one >= 0) :]
        opened += np.flatnonzero(starts == tick).tolist()
        for stop in left[: len(opened)]:
            found[opened.pop()] = stop
    return found


TICKS = st.lists(st.integers(0, 6), max_size=12).map(lambda ticks: np.array(sorted(ticks), np.float64))


@given(TICKS, TICKS)
def test_at_one_tick_what_was_open_ends_before_something_begins(starts: np.ndarray, stops: np.ndarray) -> None:
    expected = by_ticks(starts, stops)
    for codes in (1, 3):  # of several keys, each is by itself
        keys = [np.repeat(np.arange(codes), len(ticks)) for ticks in (starts, stops)]
        found = pairs(np.tile(starts, codes), [keys[0]], np.tile(stops, codes), [keys[1]])
        for code in range(codes):
            own = found[code * len(starts) : (code + 1) * len(starts)]
            assert np.where(own < 0, -1, own - code * len(stops)).tolist() == expected


def test_what_follows_at_the_tick_of_an_end_is_another() -> None:
    keys = [np.zeros(2, np.int64)]
    assert pairs(np.array([1.0, 5.0]), keys, np.array([5.0, 9.0]), keys).tolist() == [0, 1]


def kept(events: list[tuple[float, int]], threads: list[int]) -> Kept:
    """Events of a time and a place each, of these threads."""
    columns = np.array(events, np.float64).reshape(-1, 2)
    fields = {".place": columns[:, 1].astype(np.int64), "Reason": np.ones(len(columns), np.int64)}
    return Kept(columns[:, 0], np.ones(len(columns), np.int64), np.array(threads, np.int64), fields)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 4)), max_size=30))
def test_a_pause_ends_with_what_comes_next_of_its_thread(events: list[tuple[bool, int, int]]) -> None:
    """Whatever the clock says: many are of one tick, and a file may go back in time. What would end before it began is none."""
    rows = [
        [(float(ms), at, tid) for at, (stop, tid, ms) in enumerate(events) if stop == is_stop]
        for is_stop in (False, True)
    ]
    begun, ended = (kept([row[:2] for row in one], [row[2] for row in one]) for one in rows)
    expected = []
    for ms, at, tid in rows[0]:
        behind = [(stop, when) for stop, thread, when in events[at + 1 :] if thread == tid]
        if behind and behind[0][0] and behind[0][1] >= ms:
            expected.append((ms, behind[0][1]))
    own, ends = paused(begun, ended, None)
    assert list(zip(begun.ms[own].tolist(), ends.tolist(), strict=True)) == sorted(expected, key=lambda one: one[0])


def test_what_begins_and_ends_at_one_time_does_so_in_this_order() -> None:
    one = np.zeros(1, np.int64)
    assert pairs(np.array([5.0]), [one], np.array([5.0]), [one]).tolist() == [0]


@pytest.mark.parametrize("largest", [5, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("asked", [5, (1 << 63) - 1])
def test_the_first_row_of_an_id_is_found_however_large_others_are(largest: int, asked: int) -> None:
    """Ids of a damaged file may be any; 0 and those below it are none."""
    random = np.random.default_rng(largest % 97)
    numbers = np.array([-3, 0, 1, 2, 3, 4, largest, asked])
    pid, of_pid = random.integers(1, 4, 50), random.integers(1, 5, 90)
    number, of = random.choice(numbers[:7], 50), random.choice(numbers, 90)
    known = list(zip(pid.tolist(), number.tolist(), strict=True))
    expected = [
        known.index(key) if key[1] > 0 and key in known else -1
        for key in zip(of_pid.tolist(), of.tolist(), strict=True)
    ]
    assert first_rows(pid, number, of_pid, of).tolist() == expected
