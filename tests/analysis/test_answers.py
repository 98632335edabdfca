"""Columns of answers: what is not known, what is too large."""

from __future__ import annotations

import numpy as np

from dotnetdiag.analysis.answers import answer_table, number, texts, whole


def test_what_is_no_number_is_not_known() -> None:
    assert number(np.array([1.5, np.nan])).to_pylist() == [1.5, None]
    assert whole(np.array([1.5, np.nan, 2.5])).to_pylist() == [2, None, 2]
    assert whole(np.array([1, 2]), np.array([True, False])).to_pylist() == [1, None]


def test_whole_numbers_have_an_end() -> None:
    least, most = whole(np.array([-1e30, 1e30])).to_pylist()
    assert most == -least == (1 << 63) - 1024
    assert whole(np.array([np.inf, -np.inf])).to_pylist() == [most, least]


def test_texts_have_numbers_and_a_negative_one_has_none() -> None:
    assert texts(["a", "b"], np.array([1, -1, 0])).to_pylist() == ["b", None, "a"]
    assert texts([], np.array([-1])).to_pylist() == [None]


def test_units_are_told_by_the_ends_of_names() -> None:
    none = np.zeros(0)
    names = ("start_ms", "bytes", "heap_bytes", "percent", "second", "count")
    made = answer_table("x", {name: number(none) for name in names})
    assert made.units == {"start_ms": "ms", "bytes": "bytes", "heap_bytes": "bytes", "percent": "%", "second": "s"}
