"""Groups of which some rows come after the others: the same as of all at once, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis.groups import groups
from dotnetdiag.analysis.running_groups import Numbering, RunningGroups

KEYS = st.lists(st.integers(0, 5) | st.integers(-(1 << 62), 1 << 62), max_size=60)


@given(KEYS, st.integers(1, 70))
def test_a_key_has_one_number_and_the_numbers_are_dense(keys: list[int], step: int) -> None:
    told = Numbering()
    numbers = [told.of(np.array(keys[at : at + step], np.int64)).tolist() for at in range(0, len(keys), step)]
    together = [number for part in numbers for number in part]
    assert set(together) == set(range(len(told)))
    assert told.keys()[np.array(together, np.int64)].tolist() == keys


@given(KEYS, st.integers(1, 70))
def test_keys_are_numbered_in_turn(keys: list[int], step: int) -> None:
    told = Numbering()
    for at in range(0, len(keys), step):
        numbers = told.of(np.array(keys[at : at + step], np.int64), in_turn=True)
        assert told.keys()[numbers].tolist() == keys[at : at + step]
    assert told.keys().tolist() == list(dict.fromkeys(keys))


@pytest.mark.parametrize("step", [1, 7, 1000, 10_000])
def test_groups_are_those_of_all_rows(step: int) -> None:
    random = np.random.default_rng(step)
    keys, values = random.integers(0, 50, 10_000) << 40, random.random(10_000) * 10.0 ** random.integers(-9, 9, 10_000)
    told, expected = RunningGroups(), groups([keys], np.ones(len(keys)))
    for at in range(0, len(keys), step):
        some = slice(at, at + step)
        told.add(keys[some], np.arange(len(keys))[some], values[some])
    order = told.order()
    assert told.keys()[order].tolist() == keys[expected.first].tolist()
    assert told.first[order].tolist() == expected.first.tolist()
    assert told.count[order].tolist() == expected.count.tolist()
    assert told.total[order].tolist() == expected.sums(values).tolist()
