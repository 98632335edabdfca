"""Rows in which something is written down later."""

from __future__ import annotations

import numpy as np

from dotnetdiag.analysis.changing_rows import Change, ChangingRows


def test_what_several_conclusions_say_is_taken_back_by_what_settles_next() -> None:
    made = ChangingRows([("a", "i8"), ("b", "i8")])
    rows = np.zeros(5, made.dtype)
    rows["a"], rows["b"] = np.arange(5), -1
    made.append(rows)
    made.settle(())
    made.conclude([Change(rows=np.array([1, 3]), values={"a": np.array([10, 30])})])
    first = made.given()
    made.conclude([Change(rows=np.array([0, 3]), values={"a": np.array([-5, -6]), "b": np.array([7, 8])})])
    assert made.given().column("a", 0, 5).tolist() == [-5, 10, 2, -6, 4]
    assert made.given().column("b", 0, 5).tolist() == [7, -1, -1, 8, -1]
    assert first.column("a", 0, 5).tolist() == [0, 10, 2, 30, 4]
    made.settle([Change(rows=np.array([4]), values={"b": np.array([9])})])
    assert made.given().column("a", 0, 5).tolist() == [0, 1, 2, 3, 4]
    assert made.given().column("b", 0, 5).tolist() == [-1, -1, -1, -1, 9]
