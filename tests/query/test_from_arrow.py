"""What a query answers becomes a table: every type that DuckDB has."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.query.duckdb_values import answer_of
from dotnetdiag.query.from_arrow import table_of
from dotnetdiag.table import Losses, Table

ENDLESS = "bignum" if duckdb.execute("from duckdb_types() where type_name = 'bignum'").fetchall() else "varint"
"""Whole numbers without end, whose type had another name before."""


def made(table: pa.Table) -> Table:
    return table_of(table, "x", (), Losses())


def asked(query: str) -> Table:
    """What DuckDB answers."""
    relation = duckdb.sql(query)
    assert relation is not None
    return made(answer_of(relation))


def test_times_that_64_bits_of_ns_do_not_hold_are_texts_as_duckdb_writes_them() -> None:
    far = [2**62, None, 0, 2**63 - 1]
    zoned = made(pa.table({"t": pa.array(far, pa.timestamp("us", "UTC"))}))
    assert zoned.values("t") == ["148108-07-06 14:00:27.387904+00", None, "1970-01-01 00:00:00+00", "infinity"]
    for unit in ("us", "ms", "s", "ns"):
        expected = [None, "1970-01-01 00:00:00", "infinity", "-infinity"]
        array = pa.array([None, 0, 2**63 - 1, 1 - 2**63], pa.timestamp(unit))
        assert made(pa.table({"t": array})).values("t") == expected, unit


def answer(expression: str) -> Any:
    """The values of an expression, of a row that has it and one that has none."""
    value, nothing = asked(
        f"select v from (select {expression} as v, 0 as i union all select null, 1) order by i"
    ).values("v")
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
        ("999.9", 999.9),
        ("-1.005", -1.005),
        ("99999.9999", 99999.9999),
        ("0.1::decimal(38, 37)", 0.1),
        ("1e-30::decimal(38, 37)", 1e-30),
        ("0.5::float", 0.5),
        ("'nan'::double = 'nan'::double", True),
        ("false", False),
        ("'é' || chr(0)", "é\0"),
        ("''", ""),
        ("'a'::blob", b"a"),
        ("timestamp '2020-01-01'", 1577836800 * 10**9),
        ("timestamptz '2020-01-01 00:00:00+00'", 1577836800 * 10**9),
        ("timestamp_ns '2020-01-01 00:00:00.000000001'", 1577836800 * 10**9 + 1),
        ("timestamp '9999-01-01'", "9999-01-01 00:00:00"),
        ("date '2020-01-01'", "2020-01-01"),
        ("time '10:00'", "10:00:00"),
        ("uuid '00000000-0000-0000-0000-000000000001'", "00000000-0000-0000-0000-000000000001"),
        ("'b'::enum('a', 'b')", "b"),
        ("'[1]'::json", "[1]"),
        ("[1, null, 3]", [1, None, 3]),
        ("[1, 2]::integer[2]", [1, 2]),
        ("['a', null]::varchar[2]", ["a", None]),
        ("[['a'], [], null]", [["a"], [], None]),
        ("{'a': 1, 'b': null}", {"a": 1, "b": None}),
        ("map {'x': 1}", [{"key": "x", "value": 1}]),
        ("[{'a': 'b'}]", [{"a": "b"}]),
    ],
)
def test_a_value_of_every_type(expression: str, value: Any) -> None:
    assert answer(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "interval '14 months 3 days 1.5 seconds'",
        "12345678901234567890123456789::{endless}",
        "340282366920938463463374607431768211455::uhugeint",
        "'10101'::bit",
        "date '2020-02-29'",
        "date 'infinity'",
        "date '-infinity'",
        "date '0044-03-15 (BC)'",
        "date '5874897-12-31'",
        "time '10:00:00.25'",
        "'10:00:00+02'::timetz",
        "timestamp 'infinity'",
        "timestamp_s '-infinity'",
        "timestamp_ms '9999-12-31 23:59:59.5'",
        "timestamp_ns 'infinity'",
        "timestamp '0044-03-15 (BC) 10:00:00.5'",
        "union_value(k := interval 1 day)",
        "row(1, date '2020-01-01')",
        "row(1, row(2, 'a'))",
    ],
)
def test_what_no_column_holds_is_text_as_duckdb_writes_it(expression: str) -> None:
    expression = expression.format(endless=ENDLESS)
    expected = duckdb.execute(f"select ({expression})::varchar").fetchall()[0][0]
    assert isinstance(expected, str)
    assert answer(expression) == expected
    assert answer(f"[{expression}, null]") == [expected, None]
    assert answer(f"array_value({expression})") == [expected]
    assert answer(f"{{'a': {{'say \"b\"': {expression}}}, 'c': 1}}") == {"a": {'say "b"': expected}, "c": 1}
    assert answer(f"map {{'x': [{expression}]}}") == [{"key": "x", "value": [expected]}]


def test_an_answer_with_texts_is_as_any_other() -> None:
    """Its rows keep their order, and its columns their names; also that of what is no select."""
    table = asked("select interval (i) day as d, i as d, i as 'say \"d\"' from range(3) as t(i) order by i desc")
    assert table.to_pylist() == [
        {"d": d, "d_2": i, 'say "d"': i} for d, i in zip(("2 days", "1 day", "00:00:00"), (2, 1, 0), strict=True)
    ]
    for other, columns in (
        ("describe select interval 1 day as d", ("column_name", "column_type", "null", "key", "default", "extra")),
        ("explain select interval 1 day as d", ("explain_key", "explain_value")),
        ("values (interval 1 day)", ("col0",)),
        ("with x as (select interval 1 day as d) from x", ("d",)),
        ("pivot (select 1 as a, interval 1 day as d) on a using first(d)", ("1",)),
    ):
        table = asked(other)
        assert (len(table), table.columns) == (1, columns)


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
