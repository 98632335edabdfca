"""Columns that are made when they are asked for are those that are made at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.nettrace.columns import COLUMN_NAMES, COLUMN_TYPES


def columns(rows: int, seed: int) -> HeaderColumns:
    draw = np.random.default_rng(seed)
    return HeaderColumns(*(draw.integers(0, 2, rows).astype(COLUMN_TYPES[name]) for name in COLUMN_NAMES))


def test_joined_and_picked_columns_are_those_of_copies() -> None:
    parts = [columns(rows, rows) for rows in (3, 0, 5)]
    whole, rows = HeaderColumns.concatenate(parts), np.array([7, 0, 0, 4])
    assert HeaderColumns.joined(parts).equals(whole)
    assert HeaderColumns.joined(parts).later(rows).equals(whole[rows])
    assert HeaderColumns.joined(parts)[2:6].equals(whole[2:6])
    nested = HeaderColumns.joined([HeaderColumns.joined(parts).later(rows), parts[2].later(rows[1:])])
    expected = HeaderColumns.concatenate([whole[rows], parts[2][rows[1:]]])
    assert len(nested) == len(expected)
    assert nested.later(np.array([5, 1])).equals(expected[np.array([5, 1])])
    assert nested.equals(expected)


def test_of_nothing_there_is_nothing() -> None:
    assert len(HeaderColumns.joined([columns(0, 1), columns(0, 2)]).time) == 0


def test_a_column_that_is_not_to_be_kept_is_made_anew() -> None:
    made = HeaderColumns.joined([columns(2, 1), columns(2, 2)])
    assert made.column("time") is not made.column("time")
    assert made.time is made.column("time")


def test_a_replaced_column_leaves_the_others() -> None:
    made = HeaderColumns.joined([columns(2, 1), columns(2, 2)])
    assert replace(made, time=made.time + 1).stack.tolist() == made.stack.tolist()
    with pytest.raises(AttributeError):
        getattr(made, "no_column")  # noqa: B009
