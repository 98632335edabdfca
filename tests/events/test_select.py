"""Rows by the id of their type."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.events import kernels


@pytest.mark.parametrize("compiled", [True, False])
@given(ids=st.lists(st.integers(0, 9), max_size=20), wanted=st.lists(st.booleans(), max_size=8))
def test_rows_are_selected_by_their_id(compiled: bool, ids: list[int], wanted: list[bool]) -> None:
    before = kernels.KERNELS
    kernels.KERNELS = kernels.KERNELS if compiled else None
    try:
        found = kernels.select(np.array(ids, np.uint32), np.array(wanted, np.bool_))
    finally:
        kernels.KERNELS = before
    assert found.tolist() == [row for row, one in enumerate(ids) if one < len(wanted) and wanted[one]]


@pytest.mark.skipif(kernels.KERNELS is None, reason="no kernels")
def test_rows_that_there_is_no_room_for_are_refused() -> None:
    assert kernels.KERNELS is not None
    with pytest.raises(ValueError, match="no room"):
        kernels.KERNELS.select(np.zeros(3, np.uint32), np.zeros(1, np.uint8), np.zeros(2, np.int64))
