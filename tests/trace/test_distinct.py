"""Different values against numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.trace.distinct import distinct, ranked

KINDS = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64, np.float64)


def arrays(kind: Any) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Near each other, anywhere, and at the ends of the type."""
    if kind is np.float64:
        values: st.SearchStrategy[Any] = st.floats(allow_nan=False)
    else:
        ends = np.iinfo(kind)
        low, high = int(ends.min), int(ends.max)
        values = st.one_of(
            st.integers(max(low, -5), 5), st.integers(low, high), st.integers(low, low + 3), st.integers(high - 3, high)
        )
    return st.lists(values, max_size=30).map(lambda found: np.array(found, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_numpys(kind: Any) -> None:
    @given(arrays(kind))
    def check(values: np.ndarray[Any, Any]) -> None:
        kinds, which = np.unique(values, return_inverse=True)
        found, rank = ranked(values)
        assert found.dtype == values.dtype
        assert found.tolist() == kinds.tolist() == distinct(values).tolist()
        assert rank.tolist() == which.reshape(-1).tolist()

    check()
