"""The loop over exceptions: compiled and in Python, they find the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.trace import fallback, kernels

FRAMES = st.sampled_from([0, 1, 2, 3, 4, -4])
"""Of stacks, as the kernel has them: none, whole ones, and one that is cut."""
Told = tuple[int, int, int, int]
"""Thread, kind, method, frames."""
EVENTS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(-1, 2), FRAMES), max_size=40)


def found(module: Any, events: list[Told], depth: int) -> list[list[int]]:
    thread, kind, method, frames = (
        np.array([one[place] for one in sorted(events, key=lambda one: one[0])], np.int64) for place in range(4)
    )
    owner, partner, within = (np.empty(len(events), np.int64) for _ in range(3))
    opened = np.empty((depth, kernels.OPEN_PARTS), np.int64)
    module.follow_exceptions(thread, kind.astype(np.uint8), method, frames, owner, partner, within, opened)
    return [owner.tolist(), partner.tolist(), within.tolist()]


@pytest.mark.skipif(not kernels.COMPILED, reason="no kernels")
@given(EVENTS, st.sampled_from([1, 2, kernels.MOST_OPEN]))
def test_compiled_and_plain_are_alike(events: list[Told], depth: int) -> None:
    assert found(kernels.KERNELS, events, depth) == found(fallback, events, depth)


@given(EVENTS)
def test_each_is_of_a_throw_of_its_thread_that_came_before(events: list[Told]) -> None:
    ordered = sorted(events, key=lambda one: one[0])
    owner, partner, within = found(fallback, events, kernels.MOST_OPEN)
    for place, (own, end, of_filter) in enumerate(zip(owner, partner, within, strict=True)):
        if of_filter >= 0:
            assert (own >= 0, of_filter < place) == (True, True)
            assert (ordered[of_filter][0], ordered[of_filter][1]) == (ordered[place][0], 4)
        if own >= 0:
            assert own <= place
            assert ordered[own][0] == ordered[place][0]
            assert ordered[own][1] in (0, 1)
        assert end == -1 or end > place


THROWN, ALONE, CAUGHT, CATCH_OVER, FILTER, FILTER_OVER, FINALLY = range(7)
LEFT = [(0, ALONE, -1, 3), (0, FILTER, 0, 3), (0, THROWN, -1, 5)]
"""A filter on a stack of three frames, and a throw in it."""


@pytest.mark.parametrize("module", [kernels.KERNELS or fallback, fallback], ids=["kernels", "plain"])
@pytest.mark.parametrize(
    ("events", "owner", "partner", "within"),
    [
        ([(0, CAUGHT, 1, 2)], [0], {0: 3, 1: 3}, [-1]),
        ([(0, CAUGHT, 1, 3)], [0], {0: 3, 1: 3}, [-1]),
        ([(0, CAUGHT, 1, 4)], [2], {2: 3}, [-1]),
        ([(0, CAUGHT, 0, 4)], [2], {2: 3}, [-1]),  # its method, called by the filter
        ([(0, CAUGHT, 1, -4)], [2], {2: 3}, [-1]),  # cut: it has that many at least
        ([(0, CAUGHT, 0, 0)], [0], {0: 3, 1: 3}, [-1]),
        ([(0, CAUGHT, 1, 0)], [2], {2: 3}, [1]),
        ([(0, FINALLY, -1, 2), (0, CAUGHT, 1, 1)], [0, 0], {0: 4, 1: 3}, [-1, -1]),
        ([(0, FINALLY, -1, 0), (0, FILTER_OVER, -1, 3)], [2, 0], {1: 4}, [1, -1]),
        # a filter in the filter that is left too, and one that is not
        ([(0, FILTER, 1, 5), (0, THROWN, -1, 7), (0, CAUGHT, 1, 2)], [2, 4, 0], {0: 5, 1: 5, 3: 5}, [-1, -1, -1]),
        ([(0, FILTER, 1, 5), (0, THROWN, -1, 7), (0, FILTER_OVER, -1, 3)], [2, 4, 0], {1: 5, 3: 5}, [-1, -1, -1]),
        ([(0, FILTER, 1, 5), (0, FILTER_OVER, -1, 5), (0, CAUGHT, 1, 4)], [2, 2, 2], {2: 5, 3: 4}, [-1, -1, -1]),
        # of throws that are not told of
        ([(0, FILTER_OVER, -1, 3), (0, FILTER, 0, 3), (0, CAUGHT, 1, 5)], [0, 0, -1], {1: 3}, [-1, -1, -1]),
        ([(0, FILTER_OVER, -1, 3), (0, FILTER, 0, 3), (0, FINALLY, 1, 5)], [0, 0, -1], {1: 3}, [-1, -1, -1]),
        ([(0, FILTER_OVER, -1, 3), (0, FILTER, 0, 3), (0, FILTER, 1, 5)], [0, 0, -1], {1: 3}, [-1, -1, -1]),
        ([(0, FILTER_OVER, -1, 5), (0, CAUGHT, 1, 2)], [-1, 0], {0: 4, 1: 4}, [-1, -1]),
    ],
)
def test_frames_tell_what_is_in_a_filter_and_what_has_left_it(
    module: Any, events: list[Told], owner: list[int], partner: dict[int, int], within: list[int]
) -> None:
    made = found(module, LEFT + events, kernels.MOST_OPEN)
    assert made[0] == [0, 0, 2, *owner]
    assert {place: one for place, one in enumerate(made[1]) if one >= 0} == partner
    assert made[2] == [-1, -1, -1, *within]


@pytest.mark.parametrize("module", [kernels.KERNELS or fallback, fallback], ids=["kernels", "plain"])
def test_a_filter_whose_stack_is_cut_is_left_by_what_has_fewer_frames(module: Any) -> None:
    events = [(0, ALONE, -1, -4), (0, FILTER, 0, -4), (0, THROWN, -1, -4)]
    assert found(module, [*events, (0, CAUGHT, 1, 3)], kernels.MOST_OPEN)[0][-1] == 0
    owner, partner, within = found(module, [*events, (0, CAUGHT, 1, -4)], kernels.MOST_OPEN)
    assert (owner[-1], partner, within[-1]) == (2, [-1, -1, 3, -1], 1)


@pytest.mark.skipif(not kernels.COMPILED, reason="no kernels")
def test_what_does_not_fit_is_refused_before_anything_is_written() -> None:
    compiled, three, room = kernels.KERNELS, np.zeros(3, np.int64), np.zeros((4, kernels.OPEN_PARTS), np.int64)
    assert compiled is not None
    for short in range(6):
        kind, *others = (np.zeros(3 - (place == short), np.int64) for place in range(6))
        with pytest.raises(ValueError, match="2"):
            compiled.follow_exceptions(three, kind.astype(np.uint8), *others, room)
    for shape in ((0, 7), (4, 6)):
        with pytest.raises(ValueError, match=r"room|6"):
            compiled.follow_exceptions(three, three.astype(np.uint8), *[three] * 5, np.zeros(shape, np.int64))
