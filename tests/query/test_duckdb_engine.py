"""SQL over recordings, held against the tables and reports that it reads."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.nettrace.recordings import data_of, recordings
from tests.query.asked import named, opened, saved

import dotnetdiag as dd
from dotnetdiag.errors import FormatError, InputError, MissingDependency, UnknownName, UsageError
from dotnetdiag.nettrace import Metadata, Writer
from dotnetdiag.query import duckdb_engine, tables
from dotnetdiag.query.duckdb_engine import Database
from dotnetdiag.query.recordings import OpenTrace
from dotnetdiag.query.reports import REPORTS
from dotnetdiag.query.tables import names_of
from dotnetdiag.table import Table
from dotnetdiag.trace import header
from dotnetdiag.trace.header import PAYLOAD
from dotnetdiag.trace.trace import Trace

EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def one(trace: Trace, query: str) -> Any:
    """The one value of the one row."""
    (row,) = trace.sql(query).to_pylist()
    (value,) = row.values()
    return value


@pytest.mark.parametrize("name", recordings())
def test_every_event_type_has_as_many_rows_as_the_file_counts(name: str) -> None:
    trace = opened(name)
    known = names_of(trace)
    parts = [f"select count(*) as n, count(ms) as read from {quoted(one)}" for one in known]
    if not parts:
        assert one(trace, "select count(*) from events") == 0
        return
    rows = trace.sql(" union all ".join(parts)).to_pylist()
    assert [row["n"] for row in rows] == [row["read"] for row in rows] == list(known.values())
    whole = trace.sql("select count(*) as n, count(ms) as read from events").to_pylist()
    assert whole == [{"n": len(trace), "read": len(trace)}]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("begin", ["events-10", "gccollect-10", "v6-oncpu-10"])
def test_the_columns_of_every_event_type_are_those_of_its_table(begin: str) -> None:
    trace = opened(named(begin))
    for name in names_of(trace):
        table = trace[name]
        made = trace.sql(f"from {quoted(name)}")
        own = [column for column in made.columns if column not in ("file", "frames")]
        assert len(own) == len(table.columns)
        for column, known in zip(own, table.columns, strict=True):
            values = table[known].to_pylist() if known == "time" else table.to_arrow([known])[known].to_pylist()
            assert made[column].to_pylist() == as_sql_has(values), (name, column)
        frames = [[] if row is None else row for row in made["frames"].to_pylist()]
        assert frames == [[] if row is None else row for row in table.header_column("frames").to_pylist()]
        assert set(made.values("file")) <= {trace.name}


def as_sql_has(values: list[Any]) -> list[Any]:
    return [(value - EPOCH) // MICROSECOND * 1000 if isinstance(value, datetime) else value for value in values]


def test_a_field_that_is_called_as_a_column_is_the_payload_s() -> None:
    trace = opened(named("events-10"))
    for name in names_of(trace):
        columns = [column.lower() for column in trace.sql(f"from {quoted(name)} limit 0").columns]
        assert len(set(columns)) == len(columns)
        for field in trace[name].fields:
            taken = {"file", "frames", *header.COLUMNS}
            assert (PAYLOAD + field if field.lower() in taken else field).lower() in columns


@pytest.mark.parametrize("spelling", ["GC/Start", "gc/start", "GCStart_V2", "Microsoft-Windows-DotNETRuntime/GC/Start"])
def test_an_event_is_found_by_all_its_names(spelling: str) -> None:
    trace = opened(named("gccollect-10"))
    assert one(trace, f'select count(*) from "{spelling}"') == len(trace["GC/Start"])


def test_rows_are_chosen_by_what_python_would_choose() -> None:
    trace = opened(named("gccollect-10"))
    rows = trace["GC/Start"].to_pandas()
    for where, chosen in (
        ("Reason = 'Induced'", rows.Reason == "Induced"),
        ("Reason in ('Induced', 'nothing') and Depth > 0", (rows.Reason == "Induced") & (rows.Depth > 0)),
        ("Count between 3 and 7", rows.Count.between(3, 7)),
        ("ms > 100 or Depth = 1", (rows.ms > 100) | (rows.Depth == 1)),
        ("event = 'GC/Start' and tid is not null", rows.ms == rows.ms),
        ("activity is not null", rows.activity.notna()),
        ("leaf like '%Main%'", rows.leaf.str.contains("Main").fillna(False)),
        (f"file = '{trace.name}' and Depth = 2", rows.Depth == 2),
        ("file = 'another'", rows.ms < 0),
    ):
        got = trace.sql(f'select Count from "GC/Start" where {where}').values("Count")
        assert got == rows[chosen].Count.tolist(), where


def test_only_the_columns_that_are_asked_for_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    made = tables._EventWindow.column

    def column(self: Any, name: str) -> Any:
        if len(self):
            decoded.append(name)
        return made(self, name)

    monkeypatch.setattr(tables._EventWindow, "column", column)
    trace = opened(named("gccollect-10"))
    assert one(trace, 'select count(*) from "GC/Start"') == len(trace["GC/Start"])
    assert decoded == []
    one(trace, 'select max(Depth) from "GC/Start"')
    assert set(decoded) == {"Depth"}
    decoded.clear()
    trace.sql("select frames from \"GC/Start\" where Reason = 'no such reason'")
    assert "frames" not in decoded


def test_what_is_text_in_an_answer_costs_no_second_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    read = tables.AllEvents.windows

    def windows(self: tables.AllEvents, trace: Trace) -> Any:
        reads.append(trace.name)
        return read(self, trace)

    monkeypatch.setattr(tables.AllEvents, "windows", windows)
    trace = opened(named("gccollect-10"))
    made = trace.sql("select max(time)::timestamp - min(time)::timestamp as d, max(time)::date as day from events")
    (row,) = made.to_pylist()
    assert timedelta(**dict(zip(("hours", "minutes", "seconds"), map(float, row["d"].split(":")), strict=True))) > (
        timedelta(0)
    )
    assert row["day"] == str(
        datetime.fromtimestamp(one(trace, "select max(epoch(time::timestamp)) from events"), UTC).date()
    )
    assert len(reads) == 2


REPORTED: dict[str, tuple[str, Callable[[Trace], Any]]] = {
    "gc": ("gccollect-10", lambda trace: dd.gc(trace).collections),
    "exceptions": ("events-10", lambda trace: dd.exceptions(trace).by_type),
    "exception_messages": ("events-10", lambda trace: dd.exceptions(trace).by_message),
    "jit": ("events-10", lambda trace: dd.jit(trace).methods),
    "cpu": ("cpu-only-10", lambda trace: dd.cpu(trace).methods()),
    "advice": ("gccollect-10", lambda trace: dd.advice(trace).findings),
    "spans('GC/Start', 'GC/Stop')": ("gccollect-10", lambda trace: dd.spans(trace, "GC/Start", "GC/Stop")),
    "stacks('GC/Start')": ("gccollect-10", lambda trace: dd.stacks(trace, "GC/Start").methods()),
    "contention": ("events-10", lambda trace: dd.contention(trace).waits),
    "waits": ("events-10", lambda trace: dd.waits(trace).waits),
    "threadpool": ("events-10", lambda trace: dd.threadpool(trace).work),
    "starvation": ("events-10", lambda trace: dd.threadpool(trace).starvation),
    "tasks": ("events-10", lambda trace: dd.tasks(trace).awaits),
    "requests": ("events-10", lambda trace: dd.requests(trace).requests),
    "counters": ("events-10", lambda trace: dd.counters(trace).rows),
    "allocations": ("events-10", lambda trace: dd.allocations(trace).by_type_and_method),
    "thrown": ("events-10", lambda trace: dd.exceptions(trace).thrown),
    "logs": ("events-10", lambda trace: dd.logs(trace).messages),
    "threads": ("events-10", lambda trace: dd.threads(trace).threads),
    "assemblies": ("events-10", lambda trace: dd.loader(trace).assemblies),
    "loader": ("events-10", lambda trace: dd.loader(trace).assemblies),
    "binds": ("events-10", lambda trace: dd.loader(trace).binds),
    "startup": ("gccollect-10", lambda trace: dd.startup(trace).phases),
}


def times_ns(made: Table) -> list[int | None]:
    return [None if value is None else value.as_py() for value in made.to_arrow(["time"])["time"].cast("int64")]


NUMBERED = {"requests"}
"""Rows that others name by their numbers."""


@pytest.mark.parametrize("query", REPORTED)
def test_a_report_is_a_table_and_a_function(query: str) -> None:
    begin, ask = REPORTED[query]
    trace = opened(named(begin))
    expected = ask(trace)
    made = trace.sql(
        f"from {query}" if "(" in query else f"from {query} union all by name select * from {query}() limit 0"
    )
    made = trace.sql(f"from {query}")
    numbers = ("row",) if query in NUMBERED else ()
    since = next((name for name in ("start_ms", "ms", "queued_ms") if name in expected.columns), None)
    times = ("time",) if since is not None and "time" not in expected.columns else ()
    assert made.columns == ("file", *numbers, *times, *expected.columns)
    if since is not None and times:
        begin_ns = trace.raw.meaning.info.start_ns
        assert begin_ns is not None
        found = [(ns, ms) for ns, ms in zip(times_ns(made), expected.values(since), strict=True)]
        assert all((ns is None) == (ms is None) for ns, ms in found)
        assert all(abs(ns - begin_ns - 1e6 * ms) < 1000 for ns, ms in found if ns is not None and ms is not None)
    assert all(made.values(name) == list(range(len(expected))) for name in numbers)
    assert len(made) == len(expected)
    for name in expected.columns:
        assert made.values(name) == as_sql_has(expected.to_arrow([name])[name].to_pylist()), name
    if "(" not in query:
        assert one(trace, f"select count(*) from {query}()") == len(expected)


def test_what_duckdb_cannot_do_with_exact_times_is_told_in_a_line_that_says_what_to_write() -> None:
    trace = opened("gccollect-10.nettrace")
    with pytest.raises(UsageError, match=r"write time::timestamptz\)$") as caught:
        trace.sql('select e.time - g.time from "GC/Start" e join gc g on e."Count" = g.number')
    assert len(str(caught.value)) < 400
    near = """select max(abs(epoch_us(e.time::timestamptz) - epoch_us(g.time::timestamptz)))
              from "GC/Start" e join gc g on e."Count" = g.number"""
    assert one(trace, near) <= 1


@pytest.mark.parametrize("where", ["", "where r.parent is not null and r.depth > 1 limit 3"])
def test_what_a_request_is_within_is_joined_by_its_row(where: str) -> None:
    trace = opened("web-10.nettrace")
    whole = dd.requests(trace).requests.to_pylist()
    made = trace.sql(f"select r.*, p.name as above from requests r left join requests() p on r.parent = p.row {where}")
    assert len(made) == (3 if where else len(whole))
    for row in made.to_pylist():
        own = whole[row["row"]]
        above = None if own["parent"] is None else whole[own["parent"]]["name"]
        assert (row["name"], row["parent"], row["above"]) == (own["name"], own["parent"], above)
    logged = trace.sql("select l.request_row, r.row from logs l join requests r on l.request_row = r.row").to_pylist()
    assert len(logged) == sum(row is not None for row in dd.logs(trace).messages.values("request_row"))


def test_every_report_is_asked_here() -> None:
    assert {query.partition("(")[0] for query in REPORTED} | {"cpu_samples"} == REPORTS.keys()


def test_samples_are_rows_with_their_stacks() -> None:
    trace = opened(named("cpu-only-10"))
    profile = dd.cpu(trace)
    made = trace.sql("from cpu_samples")
    assert len(made) == len(profile)
    assert sum(made.values("weight")) == pytest.approx(profile.total)
    assert [frames[0] if frames else None for frames in made.values("frames")] == made.values("leaf")
    top = trace.sql(
        "select leaf, sum(weight) as ms from cpu_samples where leaf is not null group by all order by ms desc limit 1"
    )
    (best,) = profile.top(1)
    assert top.to_pylist() == [{"leaf": best.name(), "ms": pytest.approx(best.exclusive)}]


def test_show_tables_has_events_and_reports() -> None:
    trace = opened(named("gccollect-10"))
    shown = trace.sql("show tables")
    assert shown.to_pylist() == trace.sql("from tables").to_pylist()
    assert {"events", "GC/Start", "gc", "spans(start, stop)"} <= set(shown.values("name"))
    described = trace.sql('describe "GC/Start"')
    assert {"file", "ms", "Reason", "leaf", "frames"} <= set(described.values("column_name"))


def test_several_files_have_one_table_with_a_column_of_the_file(tmp_path: Path) -> None:
    paths = saved(tmp_path, "gccollect-10", "events-10", "events-3.1")
    for pattern in (paths, str(tmp_path / "*.nettrace"), tmp_path / "*.nettrace"):
        made = dd.sql(pattern, "select file, count(*) as n from events group by file")
        assert {row["file"]: row["n"] for row in made.to_pylist()} == {path: len(dd.open(path)) for path in paths}
    # 3.1 has GC/Start of another version; the first has no Exception/Start
    both = dd.sql(paths, 'select file, "GC/Start".* exclude (file) from "GC/Start" order by file, ms')
    expected = {path: len(dd.open(path)["GC/Start"]) for path in sorted(paths) if "GC/Start" in dd.open(path)}
    assert {path: both.values("file").count(path) for path in expected} == expected
    thrown = dd.sql(paths, 'select distinct file from "Exception/Start" order by file').values("file")
    assert thrown == sorted(path for path in paths if "Exception/Start" in dd.open(path))
    trace = dd.open(paths[0])
    assert len(dd.sql([trace, paths[1]], "select distinct file from gc")) == 2


@pytest.mark.parametrize(
    ("query", "error", "says"),
    [
        ("from nope", UnknownName, "no table 'nope'"),
        ('from "GC/Strat"', UnknownName, "near: GC/Start"),
        ("from spans('GC/Start', 'GC/Sop')", UnknownName, "no table 'GC/Sop'"),
        ("from nope()", UnknownName, "no table 'nope'"),
        ("from events() limit 1", UsageError, "events is a table, not a function: write it without ()"),
        ("from tables()", UsageError, "tables is a table, not a function"),
        ('from "GC/Start"()', UsageError, "gc/start is a table, not a function"),
        ("select '\udcff' as x", UsageError, "character 9 of the query is none of UTF-8"),
        ('from "\ud800"', UsageError, "character 7 of the query is none of UTF-8"),
        ("from spans", UsageError, "spans(start, stop)"),
        ("from spans('GC/Start')", UsageError, "spans"),
        ("selec 1", UsageError, "syntax error"),
        ('select nope from "GC/Start"', UsageError, '"nope" not found'),
        ("select 1 / 'x'", UsageError, "x"),
        ("", UsageError, "empty query"),
        ("select 1; select 2", UsageError, "2 queries: one answer is given"),
        ("set threads = 1", UsageError, "locked"),
    ],
)
def test_a_query_that_makes_no_sense_is_an_error_of_one_line(query: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as raised:
        opened(named("gccollect-10")).sql(query)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "query",
    [
        "from read_text('{path}')",
        "from '{path}'",
        "copy (select 1) to '{path}.csv'",
        "attach '{path}.db'",
        "install httpfs",
        "load httpfs",
        "export database '{path}.d'",
        "select getenv('HOME')",
        "from secret",
    ],
)
def test_a_query_reads_no_files_and_writes_none(query: str, tmp_path: Path) -> None:
    secret = [{"a": 1}]  # noqa: F841  # DuckDB finds variables of the program where it is let
    path = tmp_path / "x.csv"
    path.write_text("a\n1\n")
    with pytest.raises(UsageError):
        opened(named("gccollect-10")).sql(query.format(path=path))
    assert [file.name for file in tmp_path.iterdir()] == ["x.csv"]


def test_who_asks_for_files_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    opened(named("gccollect-10")).sql(f"copy (select Count from \"GC/Start\") to '{path}'", external_access=True)
    assert len(path.read_text().splitlines()) == 1 + len(opened(named("gccollect-10"))["GC/Start"])


def test_views_are_there_for_the_next_query_and_several_statements_answer_with_the_last() -> None:
    trace = opened(named("gccollect-10"))
    database = Database([OpenTrace(trace)])
    assert database.sql("create view mine as select * from gc where generation = 2").columns == ()
    assert len(database.sql("from mine")) == dd.gc(trace).collections.values("generation").count(2)
    assert database.sql("create view more as from gc; select count(*) as n from more").to_pylist() == [
        {"n": len(dd.gc(trace).collections)}
    ]
    database.close()


def test_an_error_of_reading_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        dd.sql(tmp_path / "nothing.nettrace", "select 1 from events")
    with pytest.raises(InputError, match="no file has a name like this"):
        dd.sql(tmp_path / "*.nettrace", "select 1")
    with pytest.raises(UsageError, match="no recording"):
        dd.sql([], "select 1")
    broken = tmp_path / "broken.nettrace"
    broken.write_bytes(b"no trace at all")
    with pytest.raises(FormatError):
        dd.sql(broken, "from events")

    def windows(*_: Any) -> Any:
        raise InputError("x", "is gone")
        yield

    monkeypatch.setattr(tables.AllEvents, "windows", windows)
    with pytest.raises(InputError, match="x: is gone"):
        opened(named("gccollect-10")).sql("select max(ms) from events")


def test_losses_and_damage_come_with_the_answer(tmp_path: Path) -> None:
    (path,) = saved(tmp_path, "events-10")
    data = Path(path).read_bytes()
    assert dd.sql(path, "select count(*) from events").losses == dd.open(path).raw.losses
    Path(path).write_bytes(data[: len(data) * 3 // 4])
    made = dd.sql(path, "select max(ms) from events")
    assert made.losses.damage is not None
    assert made.losses.damage.startswith(path)


def test_without_duckdb_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingDependency, match=r"dotnetdiag\[sql\]"):
        opened(named("gccollect-10")).sql("select 1")


def test_what_duckdb_says_of_a_missing_table_is_understood() -> None:
    for query, function in (('from "GC/Start"', None), ("from gc()", " Function")):
        with pytest.raises(duckdb.CatalogException) as raised:
            duckdb.connect().sql(query)
        found = duckdb_engine._MISSING.search(str(raised.value))
        assert found is not None
        assert found["function"] == function


@pytest.mark.parametrize("error", [RuntimeError("Query interrupted"), duckdb.InterruptException("INTERRUPT Error")])
def test_ctrl_c_ends_a_query_as_everything(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database([OpenTrace(opened(named("gccollect-10")))])

    class Interrupted:
        def sql(self, _: str) -> None:
            raise error

    extract = database._database.extract_statements
    monkeypatch.setattr(Interrupted, "extract_statements", staticmethod(extract), raising=False)
    monkeypatch.setattr(database, "_database", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        database.sql("select 1")


def test_a_table_is_read_several_times_at_once() -> None:
    trace = opened(named("gccollect-10"))
    made = trace.sql(
        "select count(*) as n, count(distinct a.leaf) as leaves from events a join events b on a.ms = b.ms and a.tid = b.tid "
        "and a.event = b.event and a.stack_id = b.stack_id join (select distinct event from events) c on c.event = a.event"
    ).to_pylist()
    again = trace.sql("select ms, tid, event, stack_id, leaf from events").to_pandas()
    same = again.groupby(["ms", "tid", "event", "stack_id"]).size()
    assert made == [{"n": int((same**2).sum()), "leaves": again.leaf.nunique()}]


def test_what_a_report_is_called_with_is_any_text_and_a_comment_is_none(tmp_path: Path) -> None:
    names = ["Order.Begin", "Order.End", 'say "hi"', "it's; \U0001f600", ""]
    with (tmp_path / "x.nettrace").open("wb") as file, Writer(file, start_ns=0, process_id=1) as writer:
        for number, name in enumerate(names, 1):
            writer.add_metadata(Metadata(metadata_id=number, provider="Shop", event_id=number, name=name))
            writer.write_event(number, number * 1000, b"", thread=7)
    trace = dd.open(tmp_path / "x.nettrace")

    def count(table: str) -> int:
        (row,) = trace.sql(f"select count(*) as n from {table}").to_pylist()
        return int(row["n"])

    assert count("spans('Order.Begin', 'Order.End')") == 1
    assert count("spans(stop := 'Order.' || 'End', /* the first */ start := 'Order.Begin')") == 1
    for name in names[:4]:
        quoted = name.replace("'", "''")
        assert count(f"stacks('{quoted}')") == 0
    assert count("events -- stacks('nothing')") == count("events where event <> $$spans('A', 'B')$$") == len(names)
    for wrong in ("spans()", "spans('Order.Begin')", "stacks(no_column)"):
        with pytest.raises(UsageError):
            count(wrong)
    with pytest.raises(UnknownName, match="'nothing'"):
        count("stacks('nothing')")


def test_open_traces_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """They are named without their folders; what one of them lacks was forgotten for what the other has."""
    paths = []
    for folder, data in (("a", data_of("lossy-10.nettrace")), ("b", data_of(named("gccollect-10")))):
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "app.nettrace")
        paths[-1].write_bytes(data)
    query = "select file, count(*) as n from events group by all order by all"
    by_path = dd.sql(paths, query)
    traces = [dd.open(path) for path in paths]
    made = dd.sql(traces, query)
    assert made.to_pylist() == by_path.to_pylist()
    assert made.losses == by_path.losses
    assert made.losses.lost
    alone = dd.sql(traces[:1], query)
    assert alone.values("file") == ["app.nettrace"]
    same = [Trace(data_of(named("gccollect-10")), name=name) for name in ("x", "x", "x (2)")]
    assert dd.sql(same, query).values("file") == ["x", "x (2)", "x (3)"]


def test_a_trace_and_its_file_are_one_recording(tmp_path: Path) -> None:
    (path,) = saved(tmp_path, "gccollect-10")
    trace = dd.open(path)
    ways: list[list[Any]] = [[trace, path], [path, trace], [trace, dd.open(path)], [path, path]]
    for given in ways:
        assert dd.sql(given, "select count(*) as n from gc").to_pylist() == [{"n": 22}]


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the system takes no zone from the environment")
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_times_are_those_of_utc_on_a_machine_of_any_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = """select hour(time::timestamptz) h, time::varchar v, strftime(time, '%H:%M') s, time::timestamp t,
        (select count(*) from "GC/Start" where time > '2000-01-01 12:00') n from "GC/Start" limit 1"""
    expected = opened(named("gccollect-10")).sql(query).to_pylist()
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for external_access in (False, True):
            with closing(Database([OpenTrace(opened(named("gccollect-10")))], external_access=external_access)) as one:
                (made,) = one.sql(query).to_pylist()
            assert [made] == expected
            assert made["v"].endswith("+00")
            assert made["v"][11:13] == f"{made['h']:02}" == made["s"][:2]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
def test_a_file_whose_name_is_no_utf_8_is_asked_as_any_other(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/a\xff.nettrace"
    Path(os.fsdecode(path)).write_bytes(data_of(named("gccollect-10")))
    rows = dd.sql(os.fsdecode(path), "select file, count(*) as n from gc group by file").to_pylist()
    assert [(row["file"][-11:], row["n"]) for row in rows] == [
        ("a?.nettrace", len(dd.gc(os.fsdecode(path)).collections))
    ]
