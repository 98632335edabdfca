"""Rows with equal keys: their sums and quantiles, beside numpy's of each group alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis.groups import group_quantiles, groups

ROWS = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1e6) | st.just(float("nan"))), max_size=40)


@given(ROWS, st.floats(0, 1))
def test_quantiles_of_groups_are_those_of_each_by_itself(rows: list[tuple[int, float]], share: float) -> None:
    keys, values = np.array([key for key, _ in rows], np.int64), np.array([value for _, value in rows], np.float64)
    found = groups([keys], values)
    known = ~np.isnan(values)
    (made,) = group_quantiles(found.which[known], values[known], len(found), [share])
    for place, first in enumerate(found.first.tolist()):
        own = values[(keys == keys[first]) & ~np.isnan(values)]
        expected = float(np.quantile(own, share)) if len(own) else np.nan
        assert np.isclose(made[place], expected, equal_nan=True)
