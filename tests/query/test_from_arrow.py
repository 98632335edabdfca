"""What a query answers becomes a table: every type that DuckDB has."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.query.from_arrow import table_of
from dotnetdiag.table import Losses, Table


def made(table: pa.Table) -> Table:
    return table_of(table, "x", (), Losses())


def asked(query: str) -> Table:
    """What DuckDB answers."""
    relation = duckdb.sql(query)
    assert relation is not None
    return made(relation.to_arrow_table())


def test_times_that_64_bits_of_ns_do_not_hold_are_texts_as_the_others_are() -> None:
    far = pa.array([2**62, None, 0], pa.timestamp("us", "UTC"))
    assert made(pa.table({"t": far})).values("t") == [
        "148108-07-06T14:00:27.387904Z",
        None,
        "1970-01-01T00:00:00.000000Z",
    ]


def answer(expression: str) -> Any:
    """The values of an expression, of a row that has it and one that has none."""
    query = f"select case when i = 0 then {expression} end as v from range(2) as t(i) order by i"
    value, nothing = asked(query).values("v")
    assert nothing is None
    return value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1::tinyint", 1),
        ("255::utinyint", 255),
        ("-1::bigint", -1),
        ("18446744073709551615::ubigint", 18446744073709551615),
        ("5::hugeint", 5),
        ("18446744073709551615::hugeint", 18446744073709551615),
        ("(1::hugeint << 100)", float(1 << 100)),
        ("1.25::decimal(9, 2)", 1.25),
        ("0.5::float", 0.5),
        ("'nan'::double = 'nan'::double", True),
        ("false", False),
        ("'é' || chr(0)", "é\0"),
        ("''", ""),
        ("'a'::blob", b"a"),
        ("timestamp '2020-01-01'", 1577836800 * 10**9),
        ("timestamptz '2020-01-01 00:00:00+00'", 1577836800 * 10**9),
        ("timestamp '9999-01-01'", "9999-01-01T00:00:00.000000"),
        ("date '2020-01-01'", "2020-01-01"),
        ("time '10:00'", "10:00:00.000000"),
        ("uuid '00000000-0000-0000-0000-000000000001'", "00000000-0000-0000-0000-000000000001"),
        ("'b'::enum('a', 'b')", "b"),
        ("[1, null, 3]", [1, None, 3]),
        ("[['a'], [], null]", [["a"], [], None]),
        ("{'a': 1, 'b': null}", {"a": 1, "b": None}),
        ("map {'x': 1}", [{"key": "x", "value": 1}]),
        ("[{'a': 'b'}]", [{"a": "b"}]),
    ],
)
def test_a_value_of_every_type(expression: str, value: Any) -> None:
    assert answer(expression) == value


def test_intervals_are_texts() -> None:
    assert isinstance(answer("interval 1 day"), str)


def test_a_column_of_nothing_and_a_table_without_rows() -> None:
    assert asked("select null as v").values("v") == [None]
    empty = asked("select 1 as i, 'a' as t, [1] as l, {'a': 1} as s, true as b where false")
    assert (len(empty), empty.columns) == (0, ("i", "t", "l", "s", "b"))
    assert empty.to_pylist() == []


def test_columns_of_one_name_are_all_there() -> None:
    table = made(pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "a_2"]))
    assert table.to_pylist() == [{"a": 1, "a_2": 2, "a_2_2": 3}]


NESTED = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))),
    st.lists(st.one_of(st.none(), st.text())),
    st.lists(st.one_of(st.none(), st.booleans())),
    st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text())))),
    st.lists(st.one_of(st.none(), st.fixed_dictionaries({"a": st.one_of(st.none(), st.binary())}))),
)


@given(values=NESTED, first=st.integers(0, 5), pieces=st.integers(1, 3))
def test_parts_of_arrays_are_what_they_are_of(values: list[Any], first: int, pieces: int) -> None:
    whole = pa.array(values).slice(first)
    expected = whole.to_pylist()
    size = -(-len(whole) // pieces) or 1
    chunks = [whole.slice(at, size) for at in range(0, len(whole), size)]
    table = made(pa.table({"v": pa.chunked_array(chunks, whole.type)}))
    assert table.values("v") == expected
    again = made(table.to_arrow())
    assert again.values("v") == expected
