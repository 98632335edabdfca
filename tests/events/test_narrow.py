"""Columns in few bytes show nothing of it."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest

from dotnetdiag.analysis.answers import DIGITS, compact, number, whole
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Narrow, concat
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.table.json_rows import answer

ROWS = 5000
EVEN = np.arange(ROWS) % 2 == 0
WHOLE = [
    np.arange(ROWS) % 100,
    np.arange(ROWS) * 10,
    np.arange(ROWS) << 20,
    np.arange(ROWS) << 40,
    np.full(ROWS, 7),
    np.arange(ROWS, dtype=np.uint32),
    np.arange(ROWS) / 4,
    np.where(EVEN, np.nan, 3.0),
]
FRACTIONS = [np.arange(ROWS) / 3, np.zeros(ROWS), np.where(EVEN, 0.0, -0.0), np.where(EVEN, np.inf, 1.0)]


def written_out(values: np.ndarray, known: np.ndarray | None, *, is_whole: bool) -> Scalar:
    """As they were before."""
    if values.dtype.kind == "f":
        found = (~np.isnan(values) if is_whole else np.isfinite(values)) if known is None else known
        values = np.nan_to_num(values)
        if is_whole or values.max() < 1e15:
            values = np.round(values, 0 if is_whole else DIGITS)
        known = None if found.all() else found
    elif known is not None and known.all():
        known = None
    return Scalar(values.astype(np.int64 if is_whole else np.float64), known, Kind.I8 if is_whole else Kind.F8)


@pytest.mark.parametrize("known", [None, EVEN, np.ones(ROWS, np.bool_), np.zeros(ROWS, np.bool_)])
@pytest.mark.parametrize(
    ("values", "is_whole"), [*((one, True) for one in WHOLE), *((one, False) for one in FRACTIONS)]
)
def test_it_is_as_if_it_were_written_out(values: np.ndarray, is_whole: bool, known: np.ndarray | None) -> None:
    made, expected = (whole if is_whole else number)(values, known), written_out(values, known, is_whole=is_whole)
    same(made, expected)
    same(made[10:20], expected[10:20])
    same(made.take([3, 1]), expected.take([3, 1]))
    same(made.take(EVEN), expected.take(EVEN))
    same(concat([made, made]), concat([expected, expected]))
    assert [made.item(row) for row in (0, 1, -1)] == [expected.item(row) for row in (0, 1, -1)]
    assert (len(made), made.nbytes, repr(made).partition(" ")[2]) == (
        ROWS,
        expected.nbytes,
        repr(expected).partition(" ")[2],
    )
    texts = ["".join(answer(Table({"a": one}), json.dumps, ascii_only=True)) for one in (made, expected)]
    assert texts[0] == texts[1]


def same(made: Column, expected: Column) -> None:
    assert isinstance(made, Scalar)
    assert isinstance(expected, Scalar)
    assert (made.kind, made.values.dtype, made.values.tobytes()) == (
        expected.kind,
        expected.values.dtype,
        expected.values.tobytes(),
    )
    valid = [None if one.valid is None else one.valid.tolist() for one in (made, expected)]
    assert valid[0] == valid[1]
    assert made.to_pylist() == expected.to_pylist()
    assert np.array_equal(made.numpy(), expected.numpy())


def test_few_bytes_are_taken() -> None:
    held = {
        type(made._narrow): made._narrow.strides[0]
        for made in [whole(np.arange(ROWS) % 100)]
        if isinstance(made, Narrow)
    }
    assert [*held.values()] == [1]
    constant = number(np.zeros(ROWS))
    assert isinstance(constant, Narrow)
    assert constant._narrow.strides == (0,)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 127], np.int8),
        ([-128, 0], np.int8),
        ([-129, 0], np.int16),
        ([0, 1 << 15], np.int32),
        ([0, 1 << 31], np.int64),
        ([], np.int8),
        ([0.5], np.float64),
    ],
)
def test_whole_numbers_take_the_least_that_holds_them(values: list[float], kind: type) -> None:
    given = np.array(values, None if values else np.int64)
    assert compact(given).dtype == kind
    assert compact(given).tolist() == values


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
@pytest.mark.parametrize(
    "column",
    [
        whole(np.arange(5000)),
        whole(np.zeros(5000)),
        whole(np.arange(5000) % 7, np.arange(5000) % 2 == 0),
        number(np.full(5000, np.nan)),
    ],
)
def test_is_copied_and_pickled_as_others(column: Scalar, again: Any) -> None:
    other = again(column)
    assert isinstance(column, Narrow)
    assert (other.to_pylist(), other.kind) == (column.to_pylist(), column.kind)
    assert repr(other) == repr(column)


@pytest.mark.filterwarnings("error")
def test_fractions_have_so_many_places_and_what_is_beyond_belief_stays() -> None:
    assert number(np.array([4.641174000000319, np.nan, -0.1 - 0.2])).to_pylist() == [4.641174, None, -0.3]
    assert number(np.array([1e303, 0.1 + 0.2])).to_pylist() == [1e303, 0.1 + 0.2]
    assert number(np.zeros(0)).to_pylist() == []
