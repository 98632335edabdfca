"""What many values come to: the same as of an array of all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis import spread
from dotnetdiag.analysis.quantiles import quantiles_of
from dotnetdiag.analysis.spread import Spread
from dotnetdiag.trace import spilled


@pytest.mark.parametrize("count", [0, 1, 9, 130, 1000, 12_345])
def test_the_sum_is_rounded_as_that_of_one_array(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "SLICE_ROWS", 128)
    values = np.random.default_rng(count).random(count) ** 9
    made = Spread()
    made.add(values.copy())
    assert made.total == float(values.sum())
    assert made.most == values.max(initial=0.0)


@given(
    st.lists(st.floats(-1e300, 1e300) | st.sampled_from([0.0, -0.0, 1.5]), max_size=60),
    st.integers(1, 20),
)
def test_quantiles_of_many_are_those_of_all_sorted(values: list[float], step: int) -> None:
    expected = [*quantiles_of(np.array(values, np.float64)).values()]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spread, "SORTED_VALUES", 0)
        patched.setattr(spilled, "HELD_BYTES", 64)
        patched.setattr(spilled, "SLICE_ROWS", 8)
        made = Spread()
        for at in range(0, len(values), step):
            made.add(np.array(values[at : at + step], np.float64))
        np.testing.assert_array_equal([*made.quantiles().values()], expected)
        assert len(made) == len(values)
