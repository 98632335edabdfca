"""Threads are ranked in the order in which they appear, however many at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.trace import settling
from dotnetdiag.trace.settling import Ranks

THREADS = st.lists(st.lists(st.sampled_from([0, 1, 2, 3, 77, (1 << 63) + 5, (1 << 64) - 1]), max_size=9), max_size=6)


@pytest.mark.parametrize("few", [0, 4, 64])
@given(THREADS)
def test_a_thread_has_the_rank_of_its_first_event(few: int, batches: list[list[int]]) -> None:
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settling, "FEW", few)
        ranks = Ranks()
        for threads in batches:
            seen += [thread for thread in dict.fromkeys(threads) if thread not in seen]
            expected = [seen.index(thread) for thread in threads]
            assert ranks.of(np.array(threads, np.uint64)).tolist() == expected
