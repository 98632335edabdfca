"""Events as texts and files: what that takes, whatever a file says."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.nettrace import by_hand
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.export import FORMATS, find_format
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.recipes.trace_events import EventsOptions, SelectedEvents, iter_shown, select, write_csv, write_jsonl
from dotnetdiag.trace import table
from dotnetdiag.trace.header import KEYS, PAYLOAD
from dotnetdiag.trace.trace import Trace

csv.field_size_limit(1 << 24)
LIMIT_MB = 300
"""Address space beyond what the process has when it begins."""


def many_columns(fields: int, rows: int, name: str = "f") -> bytes:
    """A file of an event type with so many fields, and of so many events without payload."""
    packed = [by_hand.text(f"{name}{number}") + b"\x06" for number in range(fields)]
    declared = struct.pack("<H", fields) + b"".join(struct.pack("<H", len(one)) + one for one in packed)
    blobs = [b"\0\0"] * (rows - 1)
    return by_hand.trace(
        by_hand.metadata(by_hand.event_type(1, fields=declared)), by_hand.events(by_hand.event(1), *blobs)
    )


HOSTILE = {
    "fields": lambda: many_columns(4000, 8192),
    "long names": lambda: many_columns(1, 8192, "n" * 60_000),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs limits of memory that hold")
@pytest.mark.parametrize(
    ("what", "form"),
    [("long names", "jsonl"), *[("fields", form) for form in ("jsonl", "csv", "shown", "objects")]],
)
def test_events_are_written_in_limited_memory(what: str, form: str) -> None:
    program = f"from tests.recipes.test_trace_events import write_limited; write_limited({what!r}, {form!r})"
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


def write_limited(what: str, form: str) -> None:
    """Run by a process of its own."""
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    trace, options = Trace(HOSTILE[what]()), EventsOptions()
    resource.setrlimit(resource.RLIMIT_AS, (used + (LIMIT_MB << 20), resource.RLIM_INFINITY))
    with open(os.devnull, "wb") as file:
        if form == "jsonl":
            rows = write_jsonl(trace, options, file)
        elif form == "csv":
            rows = write_csv(trace, options, file)
        else:
            rows = sum(1 for _ in (iter_shown(select(trace, options), options) if form == "shown" else trace.events()))
    assert rows == 8192


@pytest.mark.parametrize("limit", [1, 1000, 10_000])
def test_windows_that_are_cut_give_the_same_files(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    data = many_columns(20, 50)
    made = []
    for bound in (table.PIECE_BYTES, limit):
        monkeypatch.setattr(table, "PIECE_BYTES", bound)
        files = [io.BytesIO() for _ in range(3)]
        rows = [
            write(Trace(data), EventsOptions(), file)
            for write, file in zip((write_jsonl, write_csv), files[:2], strict=True)
        ]
        selected = SelectedEvents(Trace(data), EventsOptions())
        FORMATS["parquet"].write(selected, files[2])
        assert [*rows, len(selected)] == [50] * 3
        made.append((files[0].getvalue(), files[1].getvalue(), parquet.read_table(files[2])))
    assert made[0] == made[1]
    (window,) = Trace(data).events().windows()
    pieces = [len(piece) for piece in window.pieces()]
    assert sum(pieces) == 50
    assert len(pieces) > 1


@pytest.mark.parametrize("stacks", [False, True])
def test_lines_with_their_stacks_are_written_fewer_at_once(stacks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO()
    with Writer(data) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="E"))
        for number in range(50):
            writer.write_event(1, number, b"", thread=1, stack=writer.add_stack(range(1, 1 + 100 * (number % 2))))
    monkeypatch.setattr(table, "PIECE_BYTES", 20_000)
    writes: list[bytes] = []

    class File(io.BytesIO):
        def write(self, data: Any) -> int:
            writes.append(data)
            return len(data)

    assert write_jsonl(Trace(data.getvalue()), EventsOptions(stacks=stacks), File()) == 50
    assert len(writes) == (9 if stacks else 1)


def test_every_value_is_in_the_column_of_its_own_name() -> None:
    """Fields that differ in case, and one field of several kinds."""
    out = io.BytesIO()
    with Writer(out) as writer:
        for number, (name, code) in enumerate(
            [("Flag", TypeCode.INT32), ("flag", TypeCode.INT32), ("flag", TypeCode.STRING)], start=1
        ):
            field = Field(name=name, type=FieldType(code=code))
            event = f"E{number}"
            writer.add_metadata(
                Metadata(metadata_id=number, provider="P", event_id=number, name=event, fields=(field,))
            )
            payload = "three\0".encode("utf-16-le") if code == TypeCode.STRING else number.to_bytes(4, "little")
            writer.write_event(number, number, payload, thread=5)
    trace = Trace(out.getvalue())

    def printed(**options: Any) -> list[dict[str, str]]:
        file = io.BytesIO()
        write_csv(trace, EventsOptions(**options), file)
        return list(csv.DictReader(io.StringIO(file.getvalue().decode())))

    every = printed()
    assert [row["Flag"] for row in every] == ["1", "", ""]
    assert [row["flag"] for row in every] == ["", "2", ""]
    assert [row["flag (P/E3 v0)"] for row in every] == ["", "", "three"]
    asked = printed(fields=("event", "flag", "Flag"))
    assert [(row["event"], row["flag"], row["Flag"]) for row in asked] == [
        ("E1", "", "1"),
        ("E2", "2", ""),
        ("E3", "three", ""),
    ]


class Number(str):
    """A number of JSON as it is written."""

    __slots__ = ()


def cell(value: Any, *, inside: bool = False) -> str:
    """The cell of a value of JSON lines."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{cell(name, inside=True)}:{cell(one, inside=True)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(cell(one, inside=True) for one in value)}]"
    if value is None or isinstance(value, bool):
        return "true" if value else "false" if value is False else "null" if inside else ""
    return json.dumps(value, ensure_ascii=False) if inside and not isinstance(value, Number) else str(value)


def column_of(columns: dict[tuple[str, str], list[str]], row: dict[str, str], event: str, name: str) -> str:
    """The column of an event's field, of those whose names begin with the field's: the one that is not empty."""
    known = columns.get((event, name))
    if known is None:
        known = columns[event, name] = [
            column for column in row if column in (name, PAYLOAD + name) or column.startswith(f"{name} (")
        ]
    return next((column for column in known if row[column] and column not in KEYS), known[-1])


@pytest.mark.parametrize("value_names", [False, True], ids=["numbers", "names"])
@pytest.mark.parametrize("name", recordings())
def test_csv_has_what_lines_of_json_have_cell_by_cell(name: str, value_names: bool) -> None:
    trace, options = Trace(data_of(name)), EventsOptions(value_names=value_names)
    lines, table_file = io.BytesIO(), io.BytesIO()
    write_jsonl(trace, options, lines)
    write_csv(trace, options, table_file)
    rows = csv.DictReader(io.StringIO(table_file.getvalue().decode(), newline=""))
    columns: dict[tuple[str, str], list[str]] = {}
    decoder = json.JSONDecoder(parse_float=Number, parse_int=Number)
    said = lines.getvalue().decode().split("\n")[:-1]
    every = 1 + len(said) // 10_000  # of many those that stand apart
    for place, (line, row) in enumerate(zip(said, rows, strict=True)):
        if place % every:
            continue
        event = decoder.decode(line)
        payload = event.pop("payload")
        if list(payload) == [""]:  # an EventSource's one structure has no name
            payload = payload[""]
        expected = {key: cell(value) for key, value in event.items()}
        for field, value in payload.items():
            if cell(value):
                expected[column_of(columns, row, event["event"], field)] = cell(value)
        assert {column: text for column, text in row.items() if text} == {c: t for c, t in expected.items() if t}


def test_a_field_that_is_called_as_a_column_of_the_header_has_a_column_of_its_own() -> None:
    data, file = io.BytesIO(), io.BytesIO()
    with Writer(data) as writer:
        fields = tuple(Field(name=name, type=FieldType(code=TypeCode.INT32)) for name in ("Tid", "Other"))
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="E", fields=fields))
        writer.write_event(1, 1, struct.pack("<ii", 7, 8), thread=5)
    write_csv(Trace(data.getvalue()), EventsOptions(), file)
    (row,) = csv.DictReader(io.StringIO(file.getvalue().decode()))
    assert (row["tid"], row["payload.Tid"], row["Other"]) == ("5", "7", "8")


@pytest.mark.parametrize(
    ("event", "fields", "value_names"),
    [
        ("GC/Start", "Reason,ms", None),
        ("Thread/Sample", "ms,leaf,frames", None),
        ("GC/Start", "event,count,reason", False),
    ],
)
@pytest.mark.parametrize("form", ["csv", "json", "markdown", "html", "parquet", "sqlite"])
def test_the_fields_asked_for_are_the_columns_in_their_order(
    event: str, fields: str, value_names: bool | None, form: str, tmp_path: Path
) -> None:
    wanted = fields.split(",")
    trace = Trace(data_of("default-10.nettrace"))
    options = EventsOptions(names=(event,), fields=tuple(wanted), limit=2, value_names=value_names)
    path = tmp_path / "events"
    with path.open("wb") as file:
        if form == "csv":
            write_csv(trace, options, file)
        else:
            if form == "parquet":
                pytest.importorskip("pyarrow")
            find_format(form, table=True).write(SelectedEvents(trace, options), file)
    assert columns_of(path, form) == wanted


def columns_of(path: Path, form: str) -> list[str]:
    """The names of the columns of a file, without units."""
    if form == "parquet":
        from pyarrow import parquet

        return list(parquet.read_table(path).column_names)
    if form == "sqlite":
        with closing(sqlite3.connect(path)) as base:
            return [row[1] for row in base.execute("pragma table_info(events)")]
    text = path.read_text("utf-8")
    if form == "json":
        return list(json.loads(text)[0])
    if form == "html":
        return [re.sub("<.*?>", "", cell) for cell in re.findall(r"<th.*?>(.*?)</th>", text, re.DOTALL)]
    if form == "markdown":
        line = next(line for line in text.splitlines() if line.startswith("|"))
        return [cell.strip() for cell in line.strip("| ").split("|")]
    return next(csv.reader(io.StringIO(text)))
