"""Names that a recording has are not those that SQL likes: every column and every event can be asked for all the same."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pytest

from dotnetdiag.errors import UnknownName
from dotnetdiag.nettrace import Field, FieldType, Metadata, ThreadInfo, TypeCode, Writer
from dotnetdiag.query.batches import distinct_names
from dotnetdiag.query.dataset import Dataset
from dotnetdiag.query.duckdb_engine import Database, sql
from dotnetdiag.query.recordings import OpenTrace
from dotnetdiag.query.tables import NamedEvents, names_of
from dotnetdiag.trace.trace import Trace

FIELDS = [
    "file",
    "FILE",
    "ms",
    'a"b',
    "Frames",
    "é ü",
    "payload.ms",
    "rowid",
    "x",
    "X",
    "a\nb",
    "(q > 1)",
    "\\",
    "'",
    "select",
    "\1row",
    "\1ROW",
    "\1row\1row",
]
EVENTS = ["it's", 'a"b', "new\nline", "events", "gc", "tables", "with space", "System.X/Y", "select", "x.parquet"]
ROWS = 3


@pytest.fixture(scope="module")
def trace() -> Trace:
    out = io.BytesIO()
    declared = tuple(Field(name=name, type=FieldType(code=TypeCode.INT32)) for name in FIELDS)
    with Writer(out) as writer:
        for number, name in enumerate(EVENTS, 1):
            writer.add_metadata(Metadata(metadata_id=number, provider="P", event_id=number, name=name, fields=declared))
            for row in range(ROWS):
                payload = struct.pack(f"<{len(FIELDS)}i", *range(row, row + len(FIELDS)))
                writer.write_event(number, 1000 * number + row, payload, thread=1)
    return Trace(out.getvalue(), name="hostile")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_every_event_can_be_asked_for(trace: Trace) -> None:
    known = names_of(trace)
    assert list(known) == [f"P/{name}" if name in ("events", "gc", "tables") else name for name in EVENTS]
    for name in known:
        assert len(trace.sql(f"select ms from {quoted(name)}")) == ROWS
    assert len(trace.sql("from gc")) == 0
    assert len(trace.sql("from events")) == ROWS * len(EVENTS)


def test_every_column_can_be_asked_for_and_chosen_by(trace: Trace) -> None:
    table = trace[EVENTS[0]]
    whole = trace.sql(f"from {quoted(EVENTS[0])}")
    own = whole.columns[-len(FIELDS) - 1 : -1]
    assert len({name.lower() for name in whole.columns}) == len(whole.columns)
    for name, field in zip(own, FIELDS, strict=True):
        values = table.values(f"payload.{field}")
        assert whole.values(name) == values
        rows = trace.sql(f"select {quoted(name)} as v from {quoted(EVENTS[0])} where {quoted(name)} = {values[1]}")
        assert rows.values("v") == [values[1]]


HOSTILE = {
    "P": [
        *("Ping", "ping", "PING", "sqlite_master", "DuckDB_Tables", "pg_type", "x", "x does not exist! y", "Tables"),
        *("y\nDid you mean z", 'a"b.csv', 'a"b', "x.duckdb", "statement", "called spans 41 42", "CALLED STACKS 4A"),
        *("called", "GC/Start", "GCStart", "Ä", "ä", " x"),
    ],
    "p": ["PIng", "x"],
    "Q": ["ping", "Order", "gcstart", "/x"],
    "Q/": ["x"],
    "events": ["events"],
}
"""Events by providers: names that differ in case, that DuckDB has for tables of its own, that its messages are made of, and that mean others."""


def recording(names: dict[str, list[str]], version: int = 5) -> Trace:
    """One event of the first, two of the second, and so on."""
    out = io.BytesIO()
    with Writer(out, version=version) as writer:
        if version == 6:
            writer.add_thread(ThreadInfo(index=1, os_thread_id=1))
        for number, (provider, name) in enumerate(((one, name) for one in names for name in names[one]), 1):
            writer.add_metadata(Metadata(metadata_id=number, provider=provider, event_id=number, name=name, level=4))
            for row in range(number):
                writer.write_event(number, 1000 * number + row, b"", thread=1)
    return Trace(out.getvalue(), name="hostile")


@pytest.mark.parametrize("external_access", [False, True])
def test_each_name_that_is_listed_has_the_rows_that_are_listed(
    external_access: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no file is
    whole = recording(HOSTILE)
    others = [recording({"P": ["Order", "sqlite_master"]}), recording({"P": ["PING"], "R": ["x does not exist! y"]})]
    for traces in ([whole], others, [*others, whole]):
        recordings = [OpenTrace(one) for one in traces]
        listed = [row for row in sql(recordings, "show tables").to_pylist() if row["kind"] != "report"]
        assert listed[0]["rows"] == sum(map(len, traces))
        assert len({row["name"].lower() for row in listed}) == len(listed)
        one_for_all = Database(recordings, external_access=external_access)
        for row in reversed(listed):
            query = f"select count(*) as n, count(ms) as read from {quoted(row['name'])}"
            alone = sql(recordings, query, external_access=external_access)
            assert alone.to_pylist() == one_for_all.sql(query).to_pylist() == [{"n": row["rows"], "read": row["rows"]}]
        one_for_all.close()
    for name, rows in names_of(whole).items():
        assert len(whole[name]) == rows


def test_names_of_events_that_differ_in_case_are_one_table_as_the_first_is_spelled() -> None:
    assert names_of(recording({"P": ["Ping", "ping", "Pong"]})) == {"Ping": 3, "Pong": 3}
    assert names_of(recording({"P": ["Ping"], "p": ["ping"]})) == {"Ping": 3}
    assert names_of(recording({"P": ["Ping"], "Q": ["ping"]})) == {"P/Ping": 1, "Q/ping": 2}
    both = [OpenTrace(recording({"P": ["Ping"]})), OpenTrace(recording({"Q": ["Pong", "ping"]}))]
    listed = [row for row in sql(both, "from tables").to_pylist() if row["kind"] == "event"]
    assert {row["name"]: row["rows"] for row in listed} == {"P/Ping": 1, "Pong": 1, "Q/ping": 2}


def test_tables_of_duckdb_are_there_where_no_event_is_called_so() -> None:
    bare = recording({"P": ["pg_type"]})
    assert bare.sql("from sqlite_master").columns == ("type", "name", "tbl_name", "rootpage", "sql")
    assert "typname" in bare.sql("from pg_catalog.pg_type").columns
    assert "ms" in bare.sql("from PG_TYPE").columns


def test_tables_that_no_query_names_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: set[str] = set()
    schema = NamedEvents.schema

    def noted(self: NamedEvents, trace: Trace) -> Any:
        made.add(self.name)
        return schema(self, trace)

    monkeypatch.setattr(NamedEvents, "schema", noted)
    bare = recording({"P": ["pg_type", "Ping"]})
    bare.sql("select count(*) from events")
    assert made == set()
    bare.sql("from Ping")
    assert made == {"Ping"}


@pytest.mark.parametrize(("version", "bad"), [(5, "\udc00"), (6, "\0")])
def test_a_name_that_is_no_text_is_asked_for_as_it_is_listed(version: int, bad: str) -> None:
    """It was listed as it is, and no query can be written that has it."""
    names = [f"a{bad}", f"{bad}b", f"a{bad}c", "a?c", "x"]
    whole = recording({"P": names}, version)
    expected = {"a?": 1, "?b": 2, "a?c": 7, "x": 5}
    assert names_of(whole) == expected
    listed = [row for row in whole.sql("from tables").to_pylist() if row["kind"] == "event"]
    assert {row["name"]: row["rows"] for row in listed} == expected
    for name, rows in expected.items():
        for spelling in (name, name.upper(), f"P/{name}"):
            made = whole.sql(f"select count(*) as n, count(ms) as read from {quoted(spelling)}")
            assert made.to_pylist() == [{"n": rows, "read": rows}]
    with pytest.raises(UnknownName):
        whole.sql('from "a?d"')
    batches = Dataset([OpenTrace(whole)]).batches(names[0])
    assert sum(batch.num_rows for batch in batches) == 1


@pytest.mark.parametrize("name", ["no does not exist! y", "called spans 4", "called no 41"])
def test_a_name_that_is_not_there_is_told_whole(name: str, trace: Trace) -> None:
    with pytest.raises(UnknownName) as raised:
        trace.sql(f"from {quoted(name)}")
    assert raised.value.name == name


def test_names_that_differ_in_case_alone_are_told_apart() -> None:
    assert distinct_names(["a", "A", "a", "ms", "x\0y"], ["file", "MS"]) == [
        "a",
        "payload.A",
        "a?",
        "payload.ms",
        "x?y",
    ]


def test_an_event_that_is_called_tables_does_not_stand_for_the_list() -> None:
    out = io.BytesIO()
    with Writer(out, version=5) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="tables", fields=()))
        writer.write_event(1, 10, b"", thread=1)
    made = sql([OpenTrace(Trace(out.getvalue(), name="t"))], "from tables")
    assert made.to_pylist() == sql([OpenTrace(Trace(out.getvalue(), name="t"))], "show tables").to_pylist()
    assert "P/tables" in made.values("name")
