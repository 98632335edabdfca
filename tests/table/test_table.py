"""Tables: columns, rows, parts of them, and what other libraries make of them."""

from __future__ import annotations

import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.events import Bytes, ListOf, Scalar, Struct, Text
from dotnetdiag.events.columns import Coded, Enumerated, Maps
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Losses, Table
from dotnetdiag.table.texts import cell_texts, value_texts

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


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ([1 << 53, 0.5], [float(1 << 53), 0.5]),
        ([(1 << 53) + 1, 0.5], [str((1 << 53) + 1), "0.5"]),
        ([10**400, 0.5, None], [str(10**400), "0.5", None]),
        ([np.float64(2.5), None], [2.5, None]),
        ([np.int64(1), 2], [1, 2]),
        ([np.bool_(True)], [True]),
        ([datetime(2020, 1, 1)], ["2020-01-01 00:00:00"]),
        ([datetime(9999, 1, 1, tzinfo=UTC)], ["9999-01-01 00:00:00+00:00"]),
        ([datetime(1, 1, 1, tzinfo=UTC), None], ["0001-01-01 00:00:00+00:00", None]),
    ],
)
def test_values_become_a_column_that_holds_them_exactly(given: list[Any], held: list[Any]) -> None:
    assert Table({"a": given})["a"].to_pylist() == held


def test_times_keep_their_microseconds_however_far_away() -> None:
    times = [
        datetime(year, 3, 4, 5, 6, 7, 1, tzinfo=UTC) + timedelta(microseconds=n)
        for year in (1700, 2250)
        for n in range(99)
    ]
    nanoseconds = [(time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000 for time in times]
    assert Table({"a": times}).numpy("a").tolist() == nanoseconds


def test_values_are_what_was_given_whatever_was_asked_before() -> None:
    given: dict[str, list[Any]] = {
        "id": [UUID(int=1)],
        "cost": [Decimal("1.50")],
        "odd": [{"k": 1}],
        "large": [1 << 70],
        "mixed": [True],
    }
    table = Table(given)
    before = (table.to_pylist(), table.to_json(), list(table))
    assert before[0] == [{name: value[0] for name, value in given.items()}]
    table._repr_html_()
    assert (table.to_pylist(), table.to_json(), list(table)) == before
    assert list(table[:1]) == before[2]


def test_a_list_that_grows_leaves_the_table_alone() -> None:
    values = [1, 2]
    table = Table({"a": values})
    values.append(3)
    assert (len(table), table.values("a"), len(table["a"])) == (2, [1, 2], 2)


def test_numbers_that_lie_in_the_table_cannot_be_written() -> None:
    table = Table({"a": Scalar(np.arange(3), None, Kind.I8)})
    with pytest.raises(ValueError, match="read-only"):
        table.numpy("a")[0] = 5
    assert table.numpy("a").ctypes.data == table["a"].values.ctypes.data  # type: ignore[union-attr]


@pytest.mark.parametrize("given", [np.arange(3), "abc", {1, 2}, 5, (n for n in range(3)), None])
def test_what_is_no_list_of_values_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match=r"column 'a' is a .*: give a list"):
        Table({"a": given})
    with pytest.raises(UsageError, match="a column is named 1: names are texts"):
        Table({1: [given]})  # type: ignore[dict-item]


def test_one_column_is_asked_for_by_its_name_and_several_are_not_indices() -> None:
    table = Table({"ms": [1], "b": [2]})
    assert list(table.to_pandas("ms")) == table.to_polars("ms").columns == table.to_arrow("ms").column_names == ["ms"]
    for several in (["ms", "b"], ("ms", "b")):
        with pytest.raises(UsageError, match=r"several: table\.to_pandas\(\['ms', 'b'\]\)"):
            table[several]  # type: ignore[call-overload]


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


def test_a_table_with_other_notes_is_the_same_table() -> None:
    table = made(notes=["one"])
    other = table.with_notes(["two", "three"])
    assert (table.notes, other.notes) == (("one",), ("two", "three"))
    assert (other.title, other.units, other.columns, len(other)) == (table.title, table.units, table.columns, 3)
    assert other.values("name") == table.values("name")


def test_the_repr_shows_rows_and_says_what_is_missing() -> None:
    lines = repr(made(notes=["filtered"], losses=Losses(lost=5, damage="cut at 7"))).splitlines()
    assert lines[0] == "<Table things: 3 rows, columns name, count, share, is_on, raw, when, odd>"
    assert len(lines) == 1 + 3 + 2
    assert lines[-2:] == ["filtered", "5 events were lost; cut at 7"]
    assert repr(Table({"a": range(99)})).splitlines()[-1] == "  ..."
    assert "does not tell" in repr(made(losses=Losses(lost=None)))


def test_the_repr_of_hostile_names_drives_no_terminal() -> None:
    table = Table({"\x1b[2J\udc80": ["\x1b[31m"]}, title="\x9b31m", notes=["\x07"])
    shown = repr(table)
    assert not {"\x1b", "\x9b", "\x07"} & set(shown)
    assert "\\x1b[2J\\udc80" in shown
    assert shown.encode()


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


def test_pandas_does_not_take_the_rows_of_a_table_where_it_would_lose_digits() -> None:
    import pandas

    table = Table({"id": [(1 << 60) + 1, None]})
    assert table.to_pandas()["id"][0] == (1 << 60) + 1
    for take in (pandas.DataFrame, np.asarray):
        with pytest.raises(UsageError, match=r"table\.to_pandas\(\) for a data frame, or table\.numpy\(name\)"):
            take(table)
    from_arrow = getattr(pandas.DataFrame, "from_arrow", None)  # of pandas 3
    if from_arrow is not None:
        assert list(from_arrow(made())) == list(ROWS)


def test_numbers_that_have_names_are_these_in_every_table() -> None:
    class Letters:
        def text(self, value: int) -> str:
            return "abc"[value]

    numbers = Scalar(np.array([1, 0, 2]), np.array([True, True, False]), Kind.I8)
    table = Table({"letter": Enumerated(numbers, [Letters()])})
    names = ["b", "a", None]
    assert (
        table.values("letter")
        == [row["letter"] for row in table]
        == [row["letter"] for row in table.to_json()]
        == names
    )
    assert table.to_polars()["letter"].to_list() == table.to_arrow()["letter"].to_pylist() == names
    assert table.to_pandas()["letter"].tolist()[:2] == names[:2]
    assert str(table.to_pandas().dtypes["letter"]) == "category"
    assert table.to_polars(names=False)["letter"].to_list() == [1, 0, None]
    assert table.to_pandas(names=False)["letter"].tolist()[:2] == table.numpy("letter").tolist()[:2] == [1, 0]
    assert table[::-1].values("letter") == names[::-1]
    assert "<td>b</td>" in table._repr_html_()


def test_names_and_texts_that_utf_8_or_c_cannot_say_reach_every_library() -> None:
    codes = Coded(Text.from_pylist(["b\udc80", "c"]), np.array([0, 1, 0]))
    table = Table({"a\udc80": ["x\ud800"] * 3, "a?": [1] * 3, "n\0": [2] * 3, "n": [3] * 3, "coded": codes})
    names = ["a?", "a??", "n?", "n", "coded"]
    assert table.to_arrow().column_names == table.to_polars().columns == list(table.to_pandas()) == names
    assert table.to_pandas()["coded"].tolist() == table.to_polars()["coded"].to_list() == ["b?", "c", "b?"]
    assert table.to_pandas()["n?"].tolist() == table.to_polars()["n?"].to_list() == [2, 2, 2]


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


def test_structures_become_json_as_everywhere_else() -> None:
    table = Table.of_rows([{"a": {"x": math.nan, "b": b"\0\xff", "l": [math.inf, (b"1",)]}}])
    assert table.to_json() == [{"a": '{"x": "NaN", "b": "hex:00ff", "l": ["Infinity", ["hex:31"]]}'}]


def test_maps_have_other_names_in_each_row() -> None:
    maps = Maps([{}, {"a": '1,"', "b": "ż🐍"}], np.array([0, 1, 1, 0]), np.array([True, True, True, False]))
    table = Table({"tags": maps})
    both = {"a": '1,"', "b": "ż🐍"}
    assert table.values("tags") == [{}, both, both, None]
    assert table["tags"][1] == both
    assert table["tags"][3] is None
    assert table[1:3].values("tags") == [both, both]
    assert table["tags"].offsets.tolist() == [0, 0, 2, 4, 4]  # type: ignore[union-attr]
    assert table.to_json() == [{"tags": {}}, {"tags": both}, {"tags": both}, {"tags": None}]
    assert repr(table["tags"]) == "<Maps, 4 rows: {}, {'a': '1,\"', 'b': 'ż🐍'}, {'a': '1,\"', 'b': 'ż🐍'}, None>"
    assert value_texts(maps) == ["{}", '{"a":"1,\\"","b":"ż🐍"}', '{"a":"1,\\"","b":"ż🐍"}', "null"]
    assert cell_texts(maps) == ["{}", '{"a":"1,\\"","b":"ż🐍"}', '{"a":"1,\\"","b":"ż🐍"}', ""]
    assert len(Maps([], np.zeros(0, np.int64))) == 0


def test_maps_are_maps_of_arrow_pandas_and_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table({"tags": Maps([{}, {"a": "1", "b": "2"}], np.array([1, 0, 1]), np.array([True, True, False]))})
    assert str(table.to_arrow().schema.field("tags").type) == "map<large_string, large_string>"
    assert table.to_arrow().to_pylist() == [{"tags": [("a", "1"), ("b", "2")]}, {"tags": []}, {"tags": None}]
    assert table.to_pandas()["tags"].tolist() == [{"a": "1", "b": "2"}, {}, None]
    assert len(table.to_polars()) == 3
    monkeypatch.setattr("dotnetdiag.table.arrow._MAP_LIMIT", 2)
    pairs = [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]
    assert table.to_arrow().to_pylist() == [{"tags": pairs}, {"tags": []}, {"tags": None}]
