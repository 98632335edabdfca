"""Quantiles against numpy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis.quantiles import quantiles, quantiles_of


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=40),
    st.lists(st.floats(0, 1), max_size=5),
)
def test_they_are_numpys_to_the_last_bit(values: list[float], shares: list[float]) -> None:
    found = quantiles(np.array(values), shares)

    np.testing.assert_array_equal(found, np.quantile(values, shares))


@given(st.lists(st.integers(-(1 << 40), 1 << 40), min_size=1, max_size=40))
def test_whole_numbers_too(values: list[int]) -> None:
    found = quantiles_of(np.array(values))

    assert [*found.values()] == np.quantile(values, [0.5, 0.95, 0.99, 1]).tolist()


def test_of_nothing_there_are_none_and_what_has_no_number_has_no_quantile() -> None:
    assert quantiles_of(np.zeros(0)) == {}
    assert np.isnan(quantiles(np.array([1.0, np.nan]), [0.0, 1.0])).all()
