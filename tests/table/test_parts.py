"""Columns of tables in parts: the same whether rows are in memory or are made when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis.answers import number, texts, whole
from dotnetdiag.events import Column
from dotnetdiag.table import Table
from dotnetdiag.table import parts as room
from dotnetdiag.table.largest import largest
from dotnetdiag.table.parts import counts, is_told, parts, rows_at
from dotnetdiag.table.sliced import SlicedTable

NAMES = ("a", "b", "c")
ROWS = st.lists(
    st.tuples(st.integers(-3, 3), st.one_of(st.none(), st.integers(0, 5)), st.sampled_from(NAMES)), max_size=40
)
SOME = 7
"""Rows of a part here."""


def both(rows: Sequence[tuple[int, int | None, str]]) -> tuple[Table, SlicedTable]:
    def made(names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        some = rows[first:last]
        values = [np.nan if one[1] is None else float(one[1]) for one in some]
        columns: dict[str, Column] = {
            "count": whole(np.array([one[0] for one in some], np.int64)),
            "value": number(np.array(values)),
            "name": texts(NAMES, np.array([NAMES.index(one[2]) for one in some], np.int64)),
        }
        return {name: columns[name] for name in names}

    names = ("count", "value", "name")
    return Table(made(names, 0, len(rows))), SlicedTable(names, len(rows), made)


@given(ROWS)
def test_counts_are_of_all_rows(rows: list[tuple[int, int | None, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "PART_ROWS", SOME)
        for table in both(rows):
            assert counts(table, "name") == Counter(one[2] for one in rows)
            assert counts(table, "value") == Counter(one[1] for one in rows)
            assert is_told(table, "value") == any(one[1] is not None for one in rows)
            assert sum(len(part["count"]) for part in parts(table, ["count"])) == len(rows)


@given(ROWS, st.data())
def test_rows_are_given_in_the_order_in_which_they_are_asked_for(
    rows: list[tuple[int, int | None, str]], data: st.DataObject
) -> None:
    places = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1))) if rows else [], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "PART_ROWS", SOME)
        for table in both(rows):
            found = rows_at(table, places)
            if len(places):
                given_ = list(zip(*(found[name].to_pylist() for name in ("count", "value", "name")), strict=True))
                assert given_ == [rows[place] for place in places.tolist()]


@given(ROWS, st.integers(0, 12), st.sampled_from(["count", "value"]))
def test_the_largest_are_those_of_a_whole_column(
    rows: list[tuple[int, int | None, str]], number_of: int, by: str
) -> None:
    place = ("count", "value").index(by)
    known = [(-value, index) for index, one in enumerate(rows) if isinstance(value := one[place], int)]
    expected = [rows[index] for _, index in sorted(known)][:number_of]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "PART_ROWS", SOME)
        for table in both(rows):
            found = [tuple(row.values()) for row in largest(table, by, number_of)]
            assert found == expected


def test_columns_of_many_rows_and_of_few_are_joined() -> None:
    """Numbers of many rows are kept in fewer bytes."""
    rows = [(index % 3, index % 5, "a") for index in range(room.PART_ROWS + 2)]
    _, sliced = both(rows)
    found = rows_at(sliced, np.array([len(rows) - 1, 1], np.int64))
    assert found["count"].to_pylist() == [rows[-1][0], rows[1][0]]
