"""Quantiles of groups, of values that are spilled."""

from __future__ import annotations

import numpy as np
import pytest

from dotnetdiag.analysis import grouped_spread, spread
from dotnetdiag.analysis.grouped_spread import GroupedSpread
from dotnetdiag.analysis.groups import group_quantiles, groups


@pytest.mark.parametrize("most", [1, 10, 100, 1 << 20])
def test_they_are_those_of_all_values_at_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (grouped_spread, spread):
        monkeypatch.setattr(module, "SORTED_VALUES", most)
    random = np.random.default_rng(most)
    which = np.sort(random.integers(0, 9, 500)) * (random.random(500) < 0.7)
    values = np.where(random.random(500) < 0.1, np.nan, random.normal(size=500).round(1))
    made = GroupedSpread()
    for part in np.array_split(np.arange(500), 7):
        made.add(which[part], values[part])
    known = np.bincount(which, ~np.isnan(values)).astype(np.int64)
    found = made.quantiles(known, (0.0, 0.5, 0.95, 1.0))
    alike = groups([which], values)
    rows = np.flatnonzero(~np.isnan(values))
    expected = group_quantiles(alike.which[rows], values[rows], len(alike), (0.0, 0.5, 0.95, 1.0))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one[which[alike.first]], other, rtol=1e-12)


def test_a_group_without_values_has_none() -> None:
    made = GroupedSpread()
    made.add(np.array([1, 0]), np.array([2.0, np.nan]))
    (found,) = made.quantiles(np.array([0, 1]), (0.5,))
    assert np.isnan(found[0])
    assert found[1] == 2.0
    assert [one.tolist() for one in GroupedSpread().quantiles(np.zeros(0, np.int64), (0.5,))] == [[]]
