"""What became of exceptions is the same however many events come at once, and of what is over nothing is kept."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis import exception_ends as room
from dotnetdiag.analysis.exception_ends import (
    ALONE,
    CATCH_OVER,
    CAUGHT,
    EVENT,
    FILTER,
    FINALLY,
    FINALLY_OVER,
    THROWN,
    FollowedExceptions,
)
from dotnetdiag.trace import fallback, kernels

Told = tuple[int, int, int, int, int]
"""Thread, kind, method, ticks since the event before, frames."""
TOLD = st.tuples(
    st.integers(0, 2), st.integers(0, 7), st.integers(-1, 2), st.integers(0, 1), st.sampled_from([0, 1, 2, 3, 4, -4])
)
UNKNOWN = 2
"""The number of the method that stands for several."""


def events_of(told: list[Told]) -> Any:
    made = np.zeros(len(told), EVENT)
    for name, place in (("thread", 0), ("kind", 1), ("method", 2), ("frames", 4)):
        made[name] = [one[place] for one in told]
    made["ms"] = np.cumsum([one[3] for one in told])
    made["row"] = -1
    thrown = made["kind"] <= ALONE
    made["row"][thrown] = np.arange(thrown.sum())
    return made


def followed(events: Any, sizes: list[int]) -> tuple[list[list[float]], FollowedExceptions]:
    """Of each throw all that is told; ``sizes``: so many events come at once, again and again."""
    asked, at, turn = FollowedExceptions(), 0, 0
    made = np.full((int((events["kind"] <= ALONE).sum()), 10), [np.nan, -1, np.nan, 0, 0, 0, 0, 0, -1, -1])
    while at < len(events) or not turn:
        size = sizes[turn % len(sizes)]
        found = asked.follow(events[at : at + size], UNKNOWN, is_last=at + size >= len(events))
        made[found.caught[0], 0], made[found.caught[0], 1] = found.caught[1:]
        made[found.handled[0], 2] = found.handled[1]
        made[found.within[0], 8], made[found.ran[0], 9] = found.within[1], found.ran[1]
        told: list[tuple[Any, Any]] = [(found.filters, 1), (found.finallys, 1), found.lasted, (found.filters_over, 1)]
        told.append((found.within[1][found.within[1] >= 0], 1))
        for place, (rows, values) in enumerate(told, 3):
            np.add.at(made[:, place], rows, values)
        at, turn = at + size, turn + 1
    return np.nan_to_num(made, nan=-9).tolist(), asked


@given(st.lists(TOLD, max_size=60), st.lists(st.integers(1, 20), min_size=1, max_size=5), st.sampled_from([1, 2, 4096]))
def test_what_is_found_does_not_depend_on_how_many_come_at_once(told: list[Told], sizes: list[int], depth: int) -> None:
    with patch.object(kernels, "MOST_OPEN", depth):
        whole, _ = followed(events_of(told), [1000])
        assert followed(events_of(told), sizes)[0] == whole
        with patch.object(room, "MOST_EVENTS", 2):  # what is open stays, and nothing else
            assert followed(events_of(told), sizes)[0] == whole


@given(st.lists(TOLD, max_size=40), st.sampled_from([1, 3, 4096]))
def test_what_is_open_is_found_alike_without_kernels(told: list[Told], depth: int) -> None:
    events = events_of([(0, *one[1:]) for one in told if one[1] != FINALLY_OVER])
    kind, *others = (events["kind"].copy(), *(events[name].astype(np.int64) for name in ("method", "frames")))
    with patch.object(kernels, "MOST_OPEN", depth):
        found = kernels.open_exceptions(kind, *others).tolist()
        with patch.object(kernels, "KERNELS", fallback):
            assert kernels.open_exceptions(kind, *others).tolist() == found


def in_turn(*kinds: int, times: int) -> Any:
    """These again and again, a tick apart, of one thread."""
    return events_of([(0, kind, 0, 1, 0) for _ in range(times) for kind in kinds])


@pytest.mark.parametrize(
    "kinds",
    [
        (ALONE, FILTER, FINALLY, FINALLY_OVER, CAUGHT, CATCH_OVER),
        (ALONE,),  # NativeAOT tells of no catches
        (ALONE, CAUGHT),
        (ALONE, FINALLY, THROWN, CAUGHT, CATCH_OVER),  # the first is replaced
    ],
)
def test_of_what_is_over_nothing_is_kept(kinds: tuple[int, ...]) -> None:
    made, asked = followed(in_turn(*kinds, times=2000), [7])
    assert len(made) == 2000 * sum(kind <= ALONE for kind in kinds)
    assert len(asked._events) <= 1 + len(kinds)


@pytest.mark.parametrize(
    "kinds", [(THROWN,), (THROWN, CAUGHT, CATCH_OVER), (THROWN, CAUGHT, THROWN, CAUGHT, CATCH_OVER)]
)
def test_a_thread_on_which_something_is_open_always_keeps_no_more_than_that(
    kinds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that throws in a block of catch as long as it runs, up to .NET 8 also again."""
    monkeypatch.setattr(kernels, "MOST_OPEN", 16)
    monkeypatch.setattr(room, "MOST_EVENTS", 64)
    before = events_of([(0, ALONE, 0, 1, 0), (0, CAUGHT, 0, 1, 0)])
    events = in_turn(*kinds, times=1000)
    events["ms"] += 2
    events["row"] += events["kind"] <= ALONE
    events = np.concatenate([before, events])
    made, asked = followed(events, [9])
    assert made == followed(events, [len(events)])[0]
    assert len(asked) <= 64 + 9


def test_blocks_of_finally_that_never_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_FINALLYS", 10)
    made, asked = followed(in_turn(ALONE, FINALLY, THROWN, CAUGHT, CATCH_OVER, times=500), [11])
    assert len(asked._finallys) <= 10
    assert sum(one[4] for one in made) == 500
