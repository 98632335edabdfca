"""The loop over exceptions: compiled and in Python, they find the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.trace import fallback, kernels

EVENTS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(-1, 2)), max_size=40)


def found(module: Any, events: list[tuple[int, int, int]], depth: int) -> list[list[int]]:
    thread, kind, method = (
        np.array([one[place] for one in sorted(events, key=lambda one: one[0])], np.int64) for place in range(3)
    )
    owner, partner = np.empty(len(events), np.int64), np.empty(len(events), np.int64)
    opened = np.empty((depth, kernels.OPEN_PARTS), np.int64)
    module.follow_exceptions(thread, kind.astype(np.uint8), method, owner, partner, opened)
    return [owner.tolist(), partner.tolist()]


@pytest.mark.skipif(not kernels.COMPILED, reason="no kernels")
@given(EVENTS, st.sampled_from([1, 2, kernels.MOST_OPEN]))
def test_compiled_and_plain_are_alike(events: list[tuple[int, int, int]], depth: int) -> None:
    assert found(kernels.KERNELS, events, depth) == found(fallback, events, depth)


@given(EVENTS)
def test_each_is_of_a_throw_of_its_thread_that_came_before(events: list[tuple[int, int, int]]) -> None:
    ordered = sorted(events, key=lambda one: one[0])
    owner, partner = found(fallback, events, kernels.MOST_OPEN)
    for place, (own, end) in enumerate(zip(owner, partner, strict=True)):
        if own >= 0:
            assert own <= place
            assert ordered[own][0] == ordered[place][0]
            assert ordered[own][1] in (0, 1)
        assert end == -1 or end > place


@pytest.mark.skipif(not kernels.COMPILED, reason="no kernels")
def test_what_does_not_fit_is_refused_before_anything_is_written() -> None:
    compiled, three, room = kernels.KERNELS, np.zeros(3, np.int64), np.zeros((4, kernels.OPEN_PARTS), np.int64)
    assert compiled is not None
    for lengths in ((2, 3, 3, 3), (3, 2, 3, 3), (3, 3, 2, 3), (3, 3, 3, 2)):
        kind, method, owner, partner = (np.zeros(length, np.int64) for length in lengths)
        with pytest.raises(ValueError, match="2"):
            compiled.follow_exceptions(three, kind.astype(np.uint8), method, owner, partner, room)
    for shape in ((0, 6), (4, 5)):
        with pytest.raises(ValueError, match=r"room|5"):
            compiled.follow_exceptions(three, three.astype(np.uint8), three, three, three, np.zeros(shape, np.int64))
