"""Rows below rows, in both forms of the loop, beside a walk up from each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis.trees import levels
from dotnetdiag.trace import fallback, kernels, scratch

LOOPS: Any = kernels.KERNELS
FORMS = ("compiled", "plain") if kernels.COMPILED else ("plain",)
PARENTS = st.integers(1, 14).flatmap(lambda count: st.lists(st.integers(-1, count - 1), min_size=count, max_size=count))


@pytest.mark.parametrize("form", FORMS)
@given(PARENTS, st.integers(1, 5), st.integers(1, 4))
def test_each_row_is_one_below_its_parent(form: str, parents: list[int], deepest: int, slice_rows: int) -> None:
    expected = []
    for row in range(len(parents)):
        way = [row]
        while parents[way[-1]] >= 0 and len(way) <= len(parents):
            way.append(parents[way[-1]])
        if len(way) > len(parents):  # below itself, or below such
            expected.append((-1, 1))
            continue
        depth = (len(way) - 1) % deepest + 1
        expected.append((-1 if depth == 1 else parents[row], depth))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "KERNELS", LOOPS if form == "compiled" else None)
        patch.setattr(scratch, "MAPPED_ROWS", 5)
        patch.setattr(scratch, "MAPPED_SLICE", slice_rows)
        parent, depths = levels(np.array(parents), deepest)
    assert list(zip(parent.tolist(), depths.tolist(), strict=True)) == expected


@pytest.mark.parametrize("form", FORMS)
def test_a_row_below_none_of_these_is_refused(form: str) -> None:
    above, depth = np.array([-1, 0, 3], np.int32), np.zeros(3, np.int32)
    looked_at = (5,) if form == "plain" else (0, 3, 5)
    with pytest.raises(ValueError, match="not among 3"):
        (fallback if form == "plain" else LOOPS).levels(above, depth, *looked_at)


@pytest.mark.skipif(not kernels.COMPILED, reason="no kernels")
@pytest.mark.parametrize(
    ("depths", "first", "last", "deepest"), [(2, 0, 3, 5), (3, -1, 3, 5), (3, 2, 1, 5), (3, 0, 4, 5), (3, 0, 3, 0)]
)
def test_what_does_not_fit_is_refused(depths: int, first: int, last: int, deepest: int) -> None:
    with pytest.raises(ValueError, match=r"\d"):
        LOOPS.levels(np.full(3, -1, np.int32), np.zeros(depths, np.int32), first, last, deepest)
