"""Texts of many values at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.table.texts import number_text, number_texts

WHOLE = st.integers(-(10**17), 10**17).map(float)
LIMITS = st.sampled_from([0.0, -0.0, 1e15, -1e15, 999999999999999.0, 1e16, 1e22, 1e-7, float("inf"), float("nan")])


@given(st.lists(st.floats() | WHOLE | LIMITS, max_size=8))
def test_many_numbers_are_written_as_one(values: list[float]) -> None:
    assert number_texts(values) == [number_text(value) for value in values]
