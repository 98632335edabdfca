"""Tables in every format, read back by others."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.nettrace.traces import SMALL
from tests.table.test_table import made, typed

import dotnetdiag as dd
from dotnetdiag.errors import UsageError
from dotnetdiag.export import TABLE_FORMATS, find_format, format_of
from dotnetdiag.nettrace import Metadata, Writer
from dotnetdiag.table import Losses, Table
from dotnetdiag.table import table as module
from dotnetdiag.trace.trace import Trace


def written(result: Any, name: str) -> bytes:
    file = io.BytesIO()
    find_format(name, table=True).write(result, file)
    return file.getvalue()


def database(data: bytes) -> sqlite3.Connection:
    opened = sqlite3.connect(":memory:")
    opened.deserialize(data)
    return opened


def test_json_and_lines_of_json_are_what_the_table_says_of_itself() -> None:
    for table in (made(), typed(), Table({"a": []})):
        expected = table.to_json()
        lines = written(table, "jsonl").decode("utf-8", "backslashreplace").splitlines()
        assert [json.loads(line) for line in lines] == expected
        assert json.loads(written(table, "json")) == expected


def test_several_tables_are_one_document_of_json() -> None:
    found = json.loads(written([Table({"a": [1]}, title="first"), Table({"b": []})], "json"))
    assert found == {"first": [{"a": 1}], "1": []}


def test_tables_of_one_title_are_all_in_the_document_of_json() -> None:
    tables = [
        Table({"a": [1]}, title="methods"),
        Table({"a": [2]}, title="methods"),
        Table({"a": [3]}, title="methods_2"),
    ]
    found = json.loads(written(tables, "json"))
    assert [rows[0]["a"] for rows in found.values()] == [1, 2, 3]


def test_events_have_the_json_that_is_written_of_them() -> None:
    for data in SMALL.values():
        trace = Trace(data)
        for provider, events in trace.counts().items():
            for event in events:
                table = trace[f"{provider}/{event}"]
                assert table.to_json() == json.loads(written(table, "json"))


def test_json_says_of_numbers_that_are_too_large_or_mixed_what_the_table_says() -> None:
    for values in ([1 << 70, -1], [-1, 1 << 63], [1, "a"], [True, 2], [1 << 63, None], [None, None]):
        assert json.loads(written(Table({"a": values}), "json")) == Table({"a": values}).to_json()


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", '"', ","])
def test_csv_quotes_what_would_end_a_row_or_a_cell(end: str) -> None:
    table = Table({f"a{end}b": [f"x{end}y", end], "c": ["1", "2"]})
    rows = list(csv.reader(io.StringIO(written(table, "csv").decode(), newline="")))
    assert rows == [[f"a{end}b", "c"], [f"x{end}y", "1"], [end, "2"]]


def test_csv_has_a_heading_and_nothing_where_there_is_no_value() -> None:
    rows = list(csv.reader(io.StringIO(written(made(), "csv").decode(), newline="")))
    assert rows[0] == list(made().columns)
    assert rows[2] == ["", "2", "", "false", "hex:", "", rows[2][6]]
    assert rows[1][:6] == ["a|b", "1", "0.5", "true", "hex:00ff", "2026-05-04T03:02:01.123456000Z"]
    assert rows[3][0] == "<c>\n"
    assert rows[3][2] == "NaN"


def test_parquet_is_what_arrow_has() -> None:
    from pyarrow import parquet

    for table in (made()[:2], typed()):
        assert parquet.read_table(io.BytesIO(written(table, "parquet"))).equals(table.to_arrow())


def test_parquet_has_the_names_of_what_the_runtime_numbers_or_the_numbers() -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = io.BytesIO()
    with Writer(file) as writer:
        clr = "Microsoft-Windows-DotNETRuntime"
        writer.add_metadata(Metadata(metadata_id=1, provider=clr, event_id=1, version=2))
        writer.write_event(1, 1, struct.pack("<IIIIHQ", 1, 2, 1, 0, 9, 0), thread=5)
    table = Trace(file.getvalue())["GC/Start"]
    assert table.to_pandas()["Reason"].tolist() == ["Induced"]
    assert parquet.read_table(io.BytesIO(written(table, "parquet")))["Reason"].to_pylist() == ["Induced"]
    numbers = parquet.read_table(io.BytesIO(written(table.with_numbers(), "parquet")))
    assert numbers["Reason"].to_pylist() == [1]


def test_sqlite_has_types_and_a_table_for_each() -> None:
    opened = database(written([made(), typed(), Table({"a": [1], "A": [2]}, title="things")], "sqlite"))
    named = [name for (name,) in opened.execute("select name from sqlite_master order by rowid")]
    assert named == ["things", "rows", "things_2"]
    assert opened.execute("select count, typeof(count), share, raw, is_on from things").fetchall() == [
        (1, "integer", 0.5, b"\0\xff", 1),
        (2, "integer", None, b"", 0),
        (str(1 << 63), "text", None, None, None),
    ]
    assert opened.execute("select list, struct, time from rows").fetchall()[0] == (
        '["ä"]',
        '{"a":1,"b":"ä"}',
        "1970-01-01T00:00:00.000000000Z",
    )
    assert opened.execute("select list, guid from rows").fetchall()[1] == (None, "13121110-1514-1716-1819-1a1b1c1d1e1f")
    assert opened.execute("select * from things_2").fetchall() == [(1, 2)]


def test_sqlite_takes_any_title_and_tables_without_columns() -> None:
    opened = database(written([Table({"a": [1]}, title="sqlite_master"), Table({}), Table({"a": [2]})], "sqlite"))
    assert opened.execute("select * from rows union select * from rows_2 order by 1").fetchall() == [(1,), (2,)]
    assert database(written(Table({}), "sqlite")).execute("select * from sqlite_master").fetchall() == []


def test_sqlite_without_a_place_for_temporary_files_is_made_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(made(), "sqlite")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert list(database(written(made(), "sqlite")).iterdump()) == list(database(expected).iterdump())
    assert not list(tmp_path.iterdir())


def test_what_sqlite_cannot_hold_is_an_error_of_ours() -> None:
    with pytest.raises(UsageError, match="sqlite cannot hold it: too many columns"):
        written(Table({str(number): [1] for number in range(2001)}), "sqlite")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of this system")
def test_a_folder_for_temporary_files_without_room_is_named(tmp_path: Path) -> None:
    code = (
        "import io, resource\n"
        "from dotnetdiag.export import sqlite\n"
        "from dotnetdiag.table import Table\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n    sqlite.write(Table({'a': ['x' * 100] * 5000}), io.BytesIO())\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert made.stdout.startswith(f"OutputError {tmp_path}: no room for SQLite's temporary file: ")


def test_markdown_shows_signs_as_they_are() -> None:
    cells = ["Foo(void*, int*)", "![x](http://a/p.png)", "~~x~~", "_x_ a_b __Canon", "a[b]"]
    lines = written(Table({"a": cells}), "markdown").decode().splitlines()[2:]
    assert lines == [
        r"| Foo(void\*, int\*) |",
        r"| !\[x\](http://a/p.png) |",
        r"| \~\~x\~\~ |",
        r"| \_x\_ a_b \_\_Canon |",
        r"| a\[b\] |",
    ]


def test_markdown_keeps_its_cells() -> None:
    table = Table({"a|b": ["x|y\n`z`", "<script>"], "ms": [1.5, None]}, title="t", losses=Losses(lost=3))
    assert written(table, "markdown").decode().splitlines() == [
        "### t",
        "",
        "| a\\|b | ms |",
        "|---|--:|",
        "| x\\|y \\`z\\` | 1.5 |",
        "| &lt;script> |  |",
        "",
        "3 events were lost",
    ]


def test_html_is_a_page_that_loads_and_runs_nothing() -> None:
    page = written([Table({"a": ["<script>alert(1)</script>"]}, title="</title>"), made()], "html").decode()
    assert page.count("<table>") == 2
    assert "<script>" not in page
    assert "default-src 'none'" in page
    assert "<title>&lt;/title&gt;</title>" in page


@pytest.mark.parametrize("name", [name for name in TABLE_FORMATS if name != "parquet"])
def test_pieces_of_any_size_give_the_same_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = written(made(), name)
    monkeypatch.setattr(module, "PIECE_ROWS", 1)
    assert written(made(), name) == expected


@pytest.mark.parametrize("name", TABLE_FORMATS)
def test_every_format_takes_an_empty_table_and_refuses_what_is_none(name: str) -> None:
    written(Table({"a": []}), name)
    written(made()[:0], name)
    with pytest.raises(UsageError, match="shows tables and profiles, not a int"):
        written(5, name)


def test_the_ending_of_a_name_says_the_format_of_a_table(tmp_path: Path) -> None:
    for ending, name in {".json": "json", ".html": "html", ".csv": "csv", ".db": "sqlite", ".md": "markdown"}.items():
        assert format_of(f"x{ending}", table=True).name == name
        assert dd.write(Table({"a": [1, 2]}), tmp_path / f"x{ending}").stat().st_size
    assert format_of("x.html").name == "flamegraph"
    with pytest.raises(UsageError, match=r"no suffix of a format \(\.csv, "):
        format_of("x.txt", table=True)
    with pytest.raises(UsageError, match="no format 'speedscope' of tables; there are: csv, jsonl"):
        find_format("speedscope", table=True)


def test_the_example_makes_tables_of_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "app.nettrace"
    path.write_bytes(SMALL["nettrace 5"])
    example = Path(__file__).resolve().parents[2] / "examples" / "offline" / "tables.py"
    done = subprocess.run(
        [sys.executable, str(example), str(path)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "methods.csv both.sqlite" in done.stdout
    with sqlite3.connect(tmp_path / "both.sqlite") as opened:
        assert len(opened.execute("select name from sqlite_master").fetchall()) == 2


def test_what_a_recording_holds_and_a_report_are_written_as_their_tables(tmp_path: Path) -> None:
    path = tmp_path / "app.nettrace"
    path.write_bytes(SMALL["nettrace 5"])
    with sqlite3.connect(dd.write(dd.info(path), tmp_path / "info.db")) as opened:
        assert len(opened.execute("select name from sqlite_master").fetchall()) == 3
    assert dd.write(dd.report(path), tmp_path / "report.csv").read_text().startswith("name,exclusive,")
