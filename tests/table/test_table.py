"""Tables: columns, rows, parts of them, and what other libraries make of them."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.events import Bytes, ListOf, Scalar, Struct, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Losses, Table

WHEN = datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=UTC)
ROWS: dict[str, list[Any]] = {
    "name": ["a|b", None, "<c>\n"],
    "count": [1, 2, 1 << 63],
    "share": [0.5, None, float("nan")],
    "is_on": [True, False, None],
    "raw": [b"\0\xff", b"", None],
    "when": [WHEN, None, WHEN],
    "odd": [[1, 2], {"x": 1}, None],
}


def made(**about: Any) -> Table:
    return Table(ROWS, title="things", units={"share": "%"}, **about)


def typed() -> Table:
    """One column of each kind that payloads have."""
    number = Scalar(np.array([1, 2], np.int32), np.array([True, False]), Kind.I4)
    guid = Scalar(np.frombuffer(bytes(range(32)), "V16"), None, Kind.GUID)
    texts = Text.from_pylist(["ä", "\udc80"])
    return Table(
        {
            "number": number,
            "flag": Scalar(np.array([True, False]), None, Kind.BOOL),
            "guid": guid,
            "text": texts,
            "bytes": Bytes(np.array([0, 1, 3]), np.arange(3, dtype=np.uint8)),
            "list": ListOf(np.array([0, 1, 2]), texts, np.array([True, False])),
            "struct": Struct({"a": number, "b": texts}, 2),
            "time": Scalar(np.array([0, 1_700_000_000_123_456_789]), None, Kind.TIMESTAMP),
        }
    )


def test_a_table_is_asked_for_columns_rows_and_parts_as_elsewhere() -> None:
    table = made()
    assert (len(table), table.columns, table.title) == (3, tuple(ROWS), "things")
    assert table[1]["count"] == 2
    assert table[-1]["name"] == "<c>\n"
    assert [row["count"] for row in table] == ROWS["count"]
    assert [row["count"] for row in table[1:]] == ROWS["count"][1:]
    assert [row["count"] for row in table[::-2]] == ROWS["count"][::-2]
    assert table["count"].to_pylist() == ROWS["count"]
    assert "count" in table
    assert "nope" not in table
    assert table.get("nope") is None
    with pytest.raises(IndexError):
        table[3]
    with pytest.raises(UnknownName, match="no column 'coun' in the table; near: count") as caught:
        table["coun"]
    assert isinstance(caught.value, KeyError)
    with pytest.raises(AttributeError, match=r"the column is table\['count'\]"):
        getattr(table, "count")  # noqa: B009 - mypy knows that there is none


def test_lists_of_values_are_a_column_of_lists() -> None:
    column = Table({"frames": [["a", "b"], None, []]})["frames"]
    assert isinstance(column, ListOf)
    assert column.to_pylist() == [["a", "b"], None, []]
    assert isinstance(Table({"none": [None, None]})["none"], Text)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="columns of different lengths: a has 1, b has 2"):
        Table({"a": [1], "b": [1, 2]})


def test_a_table_without_columns_or_rows_is_one() -> None:
    for table in (Table({}), Table({"a": []}), made()[3:]):
        assert len(table) == 0
        assert list(table) == table.to_json() == table.to_pylist() == []
        assert "0 rows" in repr(table)
        assert table._repr_html_().startswith("<table>")
        assert list(table.to_pandas().columns) == list(table.columns)
        assert table.to_polars().columns == list(table.columns)
        assert table.to_arrow().column_names == list(table.columns)


def test_the_repr_shows_rows_and_says_what_is_missing() -> None:
    lines = repr(made(notes=["filtered"], losses=Losses(lost=5, damage="cut at 7"))).splitlines()
    assert lines[0] == "<Table things: 3 rows, columns name, count, share, is_on, raw, when, odd>"
    assert len(lines) == 1 + 3 + 2
    assert lines[-2:] == ["filtered", "5 events were lost; cut at 7"]
    assert repr(Table({"a": range(99)})).splitlines()[-1] == "  ..."
    assert "does not tell" in repr(made(losses=Losses(lost=None)))


def test_json_has_the_values_in_forms_that_json_knows() -> None:
    first, second, third = made().to_json()
    assert first == {
        "name": "a|b",
        "count": 1,
        "share": 0.5,
        "is_on": True,
        "raw": "hex:00ff",
        "when": "2026-05-04T03:02:01.123456000Z",
        "odd": "[1, 2]",
    }
    assert second == {"name": None, "count": 2, "share": None, "is_on": False, "raw": "hex:", "when": None} | {
        "odd": '{"x": 1}'
    }
    assert (third["count"], third["share"], third["odd"]) == (1 << 63, "NaN", None)
    rows = typed().to_json()
    assert rows[0]["guid"] == "03020100-0504-0706-0809-0a0b0c0d0e0f"
    assert rows[0]["list"] == ["ä"]
    assert rows[1]["struct"] == {"a": None, "b": "\udc80"}
    assert rows[1]["time"] == "2023-11-14T22:13:20.123456789Z"


def test_arrow_polars_and_pandas_have_the_same_values() -> None:
    import pandas
    import polars
    import pyarrow

    table = typed()
    arrow = table.to_arrow()
    arrow.validate(full=True)
    guids = ["03020100-0504-0706-0809-0a0b0c0d0e0f", "13121110-1514-1716-1819-1a1b1c1d1e1f"]
    expected = {
        "number": [1, None],
        "flag": [True, False],
        "guid": guids,
        "text": ["ä", "?"],
        "bytes": [b"\0", b"\1\2"],
        "list": [["ä"], None],
        "struct": [{"a": 1, "b": "ä"}, {"a": None, "b": "?"}],
    }
    assert arrow.drop_columns("time").to_pydict() == expected
    assert arrow["time"].cast("int64").to_pylist() == [0, 1_700_000_000_123_456_789]
    assert pyarrow.table(table).equals(arrow)
    for frame in (polars.DataFrame(table), table.to_polars()):
        assert frame.drop("time").to_dict(as_series=False) == expected
        assert frame["time"].to_physical().to_list() == [0, 1_700_000_000_123_456_789]
    assert table.to_pandas()["text"].tolist() == ["ä", "\udc80"]
    assert table.to_pandas(["number"])["number"].tolist() == [1, pandas.NA]


def test_sql_reads_a_table_by_the_name_of_its_variable() -> None:
    import duckdb

    methods = Table({"method": ["a", "b", "c"], "ms": [1.5, 2.5, 4.0]})
    assert len(methods) == 3
    found: Any = duckdb.sql("select method, ms from methods where ms > 2 order by ms desc")
    assert found.fetchall() == [
        ("c", 4.0),
        ("b", 2.5),
    ]


def test_the_bytes_of_columns_are_handed_on_as_they_lie() -> None:
    import pyarrow

    numbers = np.arange(1000)
    texts = Text.from_pylist(["x" * 10] * 1000)
    arrow = pyarrow.table(Table({"n": Scalar(numbers, None, Kind.I8), "t": texts}))
    assert arrow["n"].chunk(0).buffers()[1].address == numbers.ctypes.data
    assert arrow["t"].chunk(0).buffers()[2].address == texts.data.ctypes.data


def test_who_writes_into_a_data_frame_leaves_the_table_alone() -> None:
    table = Table({"n": Scalar(np.arange(5), None, Kind.I8), "time": Scalar(np.arange(5), None, Kind.TIMESTAMP)})
    frame: Any = table.to_pandas()
    frame.iloc[0, 0], frame.iloc[0, 1] = 99, frame.iloc[4, 1]
    assert table["n"].to_pylist() == table["time"].to_pylist() == [0, 1, 2, 3, 4]


def test_a_short_table_of_python_s_values_needs_no_arrays() -> None:
    code = (
        "import sys; from dotnetdiag.table import Table; "
        "t = Table.of_rows([{'pid': 1, 'name': 'x'}, {'pid': 2}]); "
        "print(t.to_json(), [r['pid'] for r in t], 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[{'pid': 1, 'name': 'x'}, {'pid': 2, 'name': None}] [1, 2] False\n"


def test_a_notebook_shows_the_first_rows_and_nothing_runs() -> None:
    table = Table({"<b>": [f"<script>{n}" for n in range(50)], "n": range(50)}, title="<i>", units={"n": "ms"})
    html = table._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;9" in html
    assert "&lt;script&gt;10" not in html
    assert "and 40 more rows" in html
    assert "n [ms]" in html
