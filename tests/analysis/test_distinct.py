"""What is alike in columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis import distinct
from dotnetdiag.analysis.distinct import combined, distinct_texts, places_of, rows_with
from dotnetdiag.events.columns import Coded, Text


def test_rows_with_a_text_that_is_wanted() -> None:
    texts = ["a", "b", None, "ab", ""]
    asked: list[str] = []

    def wanted(text: str) -> bool:
        asked.append(text)
        return text.startswith("a")

    assert rows_with(Text.from_pylist(texts), wanted).tolist() == [True, False, False, True, False]
    asked.clear()
    which = np.array([0, 1, 0, 0, 1])
    valid = np.array([True, True, True, False, True])
    assert rows_with(Coded(Text.from_pylist(["a", "b"]), which, valid), wanted).tolist() == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert asked == ["a", "b"]
    assert rows_with(Text.from_pylist([]), wanted).tolist() == []


@pytest.mark.parametrize("few", [0, 1 << 20])
def test_what_is_alike_is_told_in_the_order_in_which_it_comes(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct, "FEW_ROWS", few)
    column = Text.from_pylist(["zz", "b", "", "a", "zz", "b", "yy"])
    texts, which = distinct_texts(column)
    assert texts == ["zz", "b", "", "a", "yy"]
    assert which.tolist() == [0, 1, 2, 3, 0, 1, 4]
    first, kinds = combined([np.array([5, 1, 5, 0, 1]), np.array([9, 9, 9, 2, 9])], 5)
    assert first.tolist() == [0, 1, 3]
    assert kinds.tolist() == [0, 1, 0, 2, 1]


@given(st.lists(st.integers(-3, 1 << 40), max_size=12))
def test_places_of_each_value_are_all_places_once(values: list[int]) -> None:
    found = list(places_of(np.array(values, np.int64)))
    assert [kind for kind, _ in found] == sorted(set(values))
    assert {kind: own.tolist() for kind, own in found} == {
        kind: [at for at, one in enumerate(values) if one == kind] for kind in values
    }
