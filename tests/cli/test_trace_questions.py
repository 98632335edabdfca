"""Kinds of ``trace report``: where the kind stands, what JSON has, and what is said where the recording has nothing."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.cli.test_commands import in_terminal, run
from tests.nettrace.recordings import data_of, recording, recordings

import dotnetdiag as dd
from dotnetdiag.analysis.method_words import short
from dotnetdiag.analysis.request_kinds import HOSTING
from dotnetdiag.analysis.requests import NO_EVENTS
from dotnetdiag.cli.shown import KINDS
from dotnetdiag.cli.shown import show as show_kind
from dotnetdiag.cli.shown_gc import shortened_stack
from dotnetdiag.cli.shown_gc import show as show_gc
from dotnetdiag.cli.shown_jit import show as show_jit
from dotnetdiag.cli.shown_loader import show as show_loader
from dotnetdiag.cli.shown_requests import show as show_requests
from dotnetdiag.cli.shown_tasks import show as show_tasks
from dotnetdiag.cli.trace_live_report import show
from dotnetdiag.cli.trace_report import KINDS as ALL_KINDS
from dotnetdiag.nettrace import Metadata, Writer
from dotnetdiag.table import Table
from dotnetdiag.trace.trace import Trace

COLLECTION = (
    "number generation reason type start_ms pause_ms suspend_ms duration_ms before_bytes after_bytes promoted_bytes"
)
FIXED = {
    "gc": ("collections", COLLECTION),
    "jit": ("methods", "method tier start_ms compile_ms il_bytes native_bytes tid"),
    "exceptions": ("by_type", "type count"),
    "contention": ("waits", "start_ms duration_ms tid method lock owner_tid"),
    "requests": (
        "requests",
        "start_ms duration_ms kind name status failure queue_ms cpu_ms gc_ms lock_ms parent depth",
    ),
    "tasks": ("awaits", "start_ms duration_ms task name awaited_by kind method depth"),
    "threadpool": ("work", "queued_ms queue_ms tid worker_tid method"),
    "waits": ("waits", "start_ms duration_ms tid method source object"),
}
GC_TOTALS = {"count", "pause_ms", "max_pause_ms", "induced", "allocated_bytes"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording with collections and exceptions, and no methods: those of 3.1 are of its rundown."""
    name = next(one for one in recordings() if one.startswith(("events-10", "events-3.1")))
    path = tmp_path / "x.nettrace"
    path.write_bytes(data_of(name))
    return path


@pytest.mark.parametrize("kind", FIXED)
def test_a_kind_stands_before_the_file_or_behind_it(kind: str, file: Path) -> None:
    before, behind = (run("trace", "report", *words, "--json") for words in ((kind, str(file)), (str(file), kind)))
    assert before.returncode == behind.returncode == 0
    assert before.stdout == behind.stdout
    document = json.loads(before.stdout)
    place, names = FIXED[kind]
    assert {"totals", place} <= document.keys()
    assert all(set(names.split()) <= row.keys() for row in document[place])
    rows = list(csv.DictReader(io.StringIO(run("trace", "report", kind, str(file), "--format", "csv").stdout)))
    assert len(rows) == len(document[place])


@pytest.mark.parametrize(
    "words",
    [
        "--format csv A gc",
        "--format csv gc A",
        "--format=csv A gc",
        "A --format csv gc",
        "--format csv A gc A",
        "--format csv -n 3 A topN",
        "-n 3 --by method topN A --format csv",
        "--format csv spans A GC/Start GC/Stop",
    ],
)
def test_a_kind_may_stand_behind_options(words: str, file: Path) -> None:
    given = [str(file) if word == "A" else word for word in words.split()]
    kind = next(word for word in given if word in ALL_KINDS)
    first = [kind, *(word for word in given if word != kind)]
    said = [run("trace", "report", *one) for one in (given, first)]
    assert [one.returncode for one in said] == [0, 0], said[0].stderr
    assert said[0].stdout == said[1].stdout
    assert said[0].stdout.count("\n") > (kind != "topN")  # the recording has no samples


def test_the_value_of_an_option_is_no_kind(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("trace", "report", "--format", "csv", "-o", "gc", str(file))
    assert (done.returncode, done.stdout[:4], (tmp_path / "gc").exists()) == (0, "gc: ", True), done.stderr
    named = run("trace", "report", "--by", "thread", "--focus", "gc", str(file))
    assert (named.returncode, "Threads" in named.stdout) == (0, True), named.stderr
    assert "No such option" in run("trace", "report", "--bogus", str(file), "gc").stderr


@pytest.mark.parametrize("kind", ["", "gc", "topN"])
def test_a_recording_comes_through_stdin_with_its_kind_behind_it(kind: str, file: Path) -> None:
    words, made = ["trace", "report", "--json", *kind.split()], []
    for name in ("-", str(file)):
        with file.open("rb") as stream:
            given = [sys.executable, "-m", "dotnetdiag", *words[:2], name, *words[3:], words[2]]
            made.append(subprocess.run(given, stdin=stream, capture_output=True, text=True))
    assert [one.returncode for one in made] == [0, 0], made[0].stderr
    through, named = (json.loads(one.stdout) for one in made)
    assert through | {"trace": ""} == named | {"trace": ""}
    assert ("findings" in through, "totals" in through) == (not kind, kind == "gc")


@pytest.mark.parametrize("words", ["gc A B", "A B gc", "gc A --json B", "A B gc --json", "A B gc --format csv"])
def test_several_files_are_asked_each_in_turn(words: str, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "y.nettrace"
    other.write_bytes(data_of(next(one for one in recordings() if one.startswith("gccollect-10"))))
    names = {"A": str(file), "B": str(other)}
    done = run("trace", "report", *(names.get(word, word) for word in words.split()))
    assert done.returncode == 0, done.stderr
    alone = [json.loads(run("trace", "report", name, "gc", "--json").stdout) for name in names.values()]
    if "json" in words:
        expected = [{"file": name, **one} for name, one in zip(names.values(), alone, strict=True)]
        assert json.loads(done.stdout) == expected
    elif "csv" in words:
        numbers = [(row["file"], int(row["number"])) for row in csv.DictReader(io.StringIO(done.stdout))]
        assert numbers == [
            (name, row["number"]) for name, one in zip(names.values(), alone, strict=True) for row in one["collections"]
        ]
    else:
        parts = [run("trace", "report", name, "gc").stdout for name in names.values()]
        assert done.stdout == f"==> {file} <==\n{parts[0]}\n==> {other} <==\n{parts[1]}"


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_one_that_cannot_be_read_keeps_nobody_from_the_others(form: str, file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.nettrace"
    bad.write_bytes(b"Nettrace")
    done = run("trace", "report", "gc", str(file), str(bad), str(file), "--format", form)
    whole = run("trace", "report", "gc", str(file), str(file), "--format", form)
    assert (done.returncode, done.stdout) == (2, whole.stdout)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert len(errors) == 1
    assert f"{bad}: end of data" in errors[0]
    assert run("trace", "report", "gc", str(bad), str(bad), "--json").stdout == ""
    assert run("trace", "report", "gc", str(file), str(bad), "--bogus").returncode == 3


def test_of_what_came_through_stdin_the_command_for_more_says_so(file: Path) -> None:
    with file.open("rb") as stream:
        given = [sys.executable, "-m", "dotnetdiag", "trace", "report", "-"]
        text = subprocess.run(given, stdin=stream, capture_output=True, text=True, check=True).stdout
    assert "dotnetdiag trace report - gc" in text
    assert "./-" not in text


def test_all_reports_together_are_of_one_recording(file: Path, tmp_path: Path) -> None:
    for words, said in ((("--html", str(tmp_path / "x.html")), "a page"), (("all", "--json"), "all reports together")):
        done = run("trace", "report", str(file), str(file), *words)
        assert done.returncode == 3
        assert said in done.stderr
        assert "one recording" in done.stderr
        assert "extra argument" not in done.stderr


def test_without_a_file_the_help_is_that_of_all_kinds() -> None:
    done = run("trace", "report")
    assert (done.returncode, done.stdout) == (0, run("trace", "report", "--help").stdout)
    assert "advice" in done.stdout


def test_what_stands_out_and_methods_are_told_of_several_files(file: Path) -> None:
    for words in ((), ("topN",), ("-n", "3"), ("topN", "--by", "line", "--format", "csv")):
        done = run("trace", "report", str(file), str(file), *words)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("==>") == 2 or done.stdout.startswith("recording,")
    page = run("trace", "report", "gc", str(file), str(file), "--html", "x.html")
    assert page.returncode == 3
    assert "one recording" in page.stderr
    assert "Did you mean 'gc'?" in run("trace", "report", str(file), str(file), "gcc").stderr


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_table_of_a_watch_is_that_of_a_file(kind: str, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for form in ("csv", "jsonl"):
        show(kind, getattr(dd, kind)(file), form)
        sys.stdout.flush()
        assert capfd.readouterr().out == run("trace", "report", str(file), kind, "--format", form).stdout


def test_a_narrow_terminal_has_the_columns_that_answer(file: Path) -> None:
    for columns in (80, 170):
        _, output = in_terminal(["trace", "report", str(file), "gc"], b"never", b"", columns=columns, NO_COLOR="1")
        lines = output.decode().splitlines()
        rows = lines[next(at for at, line in enumerate(lines) if "pause ms" in line) :]
        assert max(map(len, rows)) <= columns
        assert {"gen", "reason", "pause", "after"} <= set(rows[0].split())
        assert all((name in rows[0].split()) == (columns == 170) for name in ("plan", "mark", "sweep"))
        said = " ".join(rows)
        assert ("Left out, for the terminal is narrow:" in said) == (columns == 80)
        assert {"plan", "mark", "sweep"} <= set(said.replace(",", " ").replace(".", " ").split())


def test_calls_that_are_not_inlined_and_not_shown_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    reasons = Table({"count": [3, 2, 1], "reason": ["size"] * 3, "callee": ["A", "B", "C"]})
    totals = SimpleNamespace(
        count=1, compile_ms=1.0, foreground=0, foreground_ms=0.0, by_tier={}, il_bytes=0, native_bytes=0,
        precompiled=None, again=0, unfinished=0, inlining=SimpleNamespace(inlined=1, failed=6),
    )  # fmt: skip
    methods = Table({"compile_ms": []})
    made: Any = SimpleNamespace(notes=(), totals=totals, methods=methods, inlining=reasons)
    for number, last in ((2, "1 more"), (3, "    1  size    C")):
        show_jit(made, number)
        assert capsys.readouterr().out.splitlines()[-1] == last


def test_what_nothing_tells_of_compilations_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    totals = SimpleNamespace(
        count=71, compile_ms=None, foreground=None, foreground_ms=None, by_tier={}, il_bytes=6928, native_bytes=None,
        precompiled=None, again=0, unfinished=71, inlining=None,
    )  # fmt: skip
    made: Any = SimpleNamespace(notes=(), totals=totals, methods=Table({"compile_ms": []}))
    show_jit(made, 0)
    lines = ["71 methods compiled", "6,928 bytes of IL", "71 without an end, which would tell how long it took"]
    assert capsys.readouterr().out.splitlines() == lines


def test_one_of_something_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    totals = SimpleNamespace(assemblies=1, binds=1, bind_ms=1.0, failed=0, types=1, type_ms=2.0)
    binds = Table({"success": [], "duration_ms": []})
    made: Any = SimpleNamespace(notes=(), totals=totals, binds=binds, types=Table({"total_ms": []}))
    show_loader(made, 1)
    said = "1 assembly loaded; 1 bind in 1.000 ms, 0 failed; 1 load of a type in 2.000 ms"
    assert capsys.readouterr().out.splitlines() == [said]
    totals = SimpleNamespace(count=1, chains=1, deepest=1, blocking=1, unfinished=0, awaits_ms={})
    made = SimpleNamespace(
        notes=(), totals=totals, by_method=Table({"count": [], "blocking": []}), chains=Table({"chain": []})
    )
    show_tasks(made, 1)
    assert capsys.readouterr().out.splitlines()[0] == "1 await in 1 chain, at most 1 deep, 1 blocks its thread"


def test_collections_have_totals(file: Path) -> None:
    document = json.loads(run("trace", "report", str(file), "gc", "--json").stdout)
    assert document["totals"].keys() >= GC_TOTALS
    assert document["totals"]["count"] == len(document["collections"]) > 0
    said = run("trace", "report", str(file), "gc", "-n", "3").stdout.splitlines()
    assert said[0].startswith(f"{document['totals']['count']:,} collections: ")
    assert len(said) == 5 + 3 + 1 + 3
    assert said[8].endswith(" more")
    assert said[10].split() == ["induced", "by"]
    (asked,) = document["by_stack"]
    assert said[11].split() == [str(asked["collections"]), *" < ".join(map(short, asked["stack"][:5])).split()]
    assert asked["stack"][1].startswith("workload!Workload.Collections.Run")
    assert said[4].split()[:4] == ["number", "gen", "reason", "type"]


def test_what_the_recording_lacks_is_said(file: Path) -> None:
    assert run("trace", "report", str(file), "jit").stdout.startswith("note: no methods: ")


@pytest.mark.parametrize("kind", sorted(FIXED))
def test_every_kind_is_written_as_a_page_and_as_tables_in_files(kind: str, file: Path, tmp_path: Path) -> None:
    page, parquet, database = (tmp_path / f"made.{suffix}" for suffix in ("html", "parquet", "sqlite"))
    done = run("trace", "report", str(file), kind, "--html", str(page), "-o", str(parquet))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{page}: {page.stat().st_size:,} bytes",
        f"{parquet}: {parquet.stat().st_size:,} bytes",
    ]
    assert "<title>Report</title>" in page.read_text()
    assert parquet.read_bytes()[:4] == b"PAR1"
    done = run("trace", "report", kind, str(file), "--format", "sqlite", "-o", str(database))
    assert done.returncode == 0, done.stderr
    place, _ = FIXED[kind]
    rows = json.loads(run("trace", "report", kind, str(file), "--json").stdout)[place]
    with closing(sqlite3.connect(database)) as opened:
        tables = {name for (name,) in opened.execute("select name from sqlite_master where type = 'table'")}
        if rows:
            assert opened.execute(f'select count(*) from "{place}"').fetchone() == (len(rows),)
        assert not rows or place in tables


def test_without_a_kind_a_page_has_all_of_them_and_is_not_overwritten(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "all.html"
    done = run("trace", "report", str(file), "--html", str(page))
    assert (done.returncode, done.stdout) == (0, f"{page}: {page.stat().st_size:,} bytes\n")
    text = page.read_text()
    assert all(f'"name":"{kind}"' in text for kind in (*FIXED, "advice", "startup", "topN"))
    assert run("trace", "report", str(file), "--html", str(page)).returncode == 2
    assert run("trace", "report", str(file), "all", "--html", str(page), "--force").returncode == 0
    assert run("trace", "report", str(file), "all").returncode == 3
    for words in (("--format", "csv"), ("-o", str(tmp_path / "x.csv"))):
        done = run("trace", "report", str(file), "--html", str(page), "--force", *words)
        assert (done.returncode, "tables are of one kind each" in done.stderr) == (3, True)


def test_all_reports_as_json_are_those_of_each_kind(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "all.html"
    for more in ((), ("--by", "line")):
        done = run("trace", "report", str(file), "all", "--json", *more)
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        assert {*made} == {*KINDS, "advice", "topN"} == {*ALL_KINDS} - {"all", "spans"}
        for kind, document in made.items():
            own = more if "--by" in run("trace", "report", kind, "--help").stdout else ()
            assert document == json.loads(run("trace", "report", str(file), kind, "--json", *own).stdout), kind
    both = run("trace", "report", str(file), "--html", str(page), "--json")
    assert json.loads(both.stdout).keys() == made.keys()
    assert both.stderr.startswith(f"{page}: {page.stat().st_size:,} bytes\n")
    assert run("trace", "report", str(file), "all", "--html", "-", "--json").returncode == 3


def test_no_option_of_all_reports_is_offered_and_refused(file: Path, tmp_path: Path) -> None:
    said = run("trace", "report", "all", "--help").stdout
    offered = set(re.findall(r"^  (?:-\w, )*(--[a-z]+)", said, re.MULTILINE))
    values = {"--html": [str(tmp_path / "x.html")], "--by": ["line"], "--symbols": [str(tmp_path)]}
    assert offered == {"--html", "--json", "--force", "--by", "--symbols"} | ({"--help"} & offered)
    for option in sorted(offered - {"--help"}):
        words = [option, *values.get(option, ())]
        more = ["--by", "line", "--json"] if option == "--symbols" else ["--json"]
        done = run("trace", "report", str(file), "all", *words, *(one for one in more if one not in words))
        assert done.returncode == 0, (option, done.stderr)


def test_stdout_named_as_the_file_has_what_people_read(file: Path, tmp_path: Path) -> None:
    words = ("trace", "report", str(file), "gc", "-n", "3")
    expected = run(*words).stdout
    for name in ("-", "/dev/stdout"):
        assert run(*words, "-o", name).stdout == expected
    assert run(*words, "-o", "-", "--format", "csv").stdout == run(*words, "--format", "csv").stdout
    several = ("trace", "report", "gc", str(file), str(file), "-n", "3")
    assert run(*several, "-o", "-").stdout == run(*several).stdout
    page = tmp_path / "x.html"
    both = run(*words, "-o", "-", "--html", str(page))
    assert (both.stdout, both.stderr) == (expected, f"{page}: {page.stat().st_size:,} bytes\n")
    assert run(*words, "-o", "-", "--html", "-").returncode == 3


def test_a_file_is_told_of_as_it_was_named(file: Path) -> None:
    for words in (("report", str(file), "gc"), ("sql", str(file), "from gc"), ("events", str(file))):
        done = run("trace", *words, "-o", "/no/such.thing")
        assert (done.returncode, done.stderr.startswith("error: /no/such.thing: ")) in ((2, True), (3, True)), words
    done = run("trace", "report", str(file), "gc", "-o", "/dev/null")
    assert (done.returncode, done.stderr.partition(" the name")[0]) == (3, "error: /dev/null:")


def test_a_time_that_is_none_is_answered_with_all_that_are(file: Path) -> None:
    done = run("trace", "report", str(file), "startup", "--first", "abc")
    assert done.returncode == 3
    for way in ("30s", "5m", "1h30m", "2d", "800ms", "1.5", "0:00:00:01"):
        assert way in done.stderr or way == "0:00:00:01"
        assert run("trace", "report", str(file), "startup", "--first", way).returncode == 0, way


def test_a_process_that_is_not_in_a_recording_is_answered_with_those_that_are(file: Path) -> None:
    pid = dd.open(file).raw.process.pid
    done = run("trace", "report", str(file), "startup", "--process", "5")
    assert (done.returncode, done.stderr) == (3, f"error: no process '5' in the recording; there is {pid}\n")
    assert run("trace", "report", str(file), "startup", "--process", str(pid)).returncode == 0


def test_a_start_that_is_late_in_a_recording_is_told_from_its_begin(tmp_path: Path) -> None:
    """And the option is named that tells of the others."""
    alone, path = recording("startup-10.nettrace"), tmp_path / "two.nettrace"
    dd.merge([recording("gccollect-10.nettrace"), alone], path)
    pid = dd.open(alone).raw.process.pid
    chosen = run("trace", "report", str(path), "startup", "--process", str(pid)).stdout.splitlines()
    first = run("trace", "report", str(path), "startup").stdout.splitlines()
    (at, said), *_ = [(at, line) for at, line in enumerate(chosen) if line.startswith("the first ")]
    assert re.fullmatch(r"the first 10\d ms from [\d,.]+ ms on; workload began after 7\d\.\d", said)
    assert first[0].startswith(f"note: this is process {pid}")
    assert "note: --process PID shows another" in first
    assert first[first.index(said) :] == chosen[at:]


def gc_report(stacks: list[list[str]]) -> Any:
    """Of induced collections with these stacks."""
    made = dd.gc(Trace(data_of("gccollect-10.nettrace")))
    return replace(made, by_stack=Table({"collections": [3] * len(stacks), "stack": stacks}))


@pytest.mark.parametrize("missing", [("generation",), ("reason",), ("type",), ("generation", "reason", "type")])
@pytest.mark.parametrize("of_all", [True, False])
def test_what_is_not_told_of_a_collection_is_left_empty(
    missing: tuple[str, ...], of_all: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first version of the event tells a number alone, and a damaged file may tell of anything else."""
    made = dd.gc(Trace(data_of("gccollect-10.nettrace")))
    rows = made.collections.to_pylist()
    for row in rows if of_all else rows[:1]:
        row.update(dict.fromkeys(missing))
    show_gc(replace(made, collections=Table({name: [row[name] for row in rows] for name in rows[0]})), 30)
    text = capsys.readouterr().out
    lost = len(rows) if of_all else 1
    assert (f"{lost} of a generation that is not told" in text) == ("generation" in missing)
    assert "None" not in text


def test_collections_whose_pauses_are_not_told_are_listed_as_they_came(capsys: pytest.CaptureFixture[str]) -> None:
    made = dd.gc(Trace(data_of("gccollect-10.nettrace")))
    rows = [{**row, "pause_ms": None} for row in made.collections.to_pylist()]
    show_gc(replace(made, collections=Table({name: [row[name] for row in rows] for name in rows[0]})), 2)
    lines = capsys.readouterr().out.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.split()[:2] == ["number", "gen"])
    assert [line.split()[0] for line in lines[begin + 1 : begin + 3]] == ["1", "2"]


def test_methods_that_differ_in_their_parameters_ask_for_collections_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_gc(
        gc_report([["lib!GC.Collect()", "app!P.Main()"], ["lib!GC.Collect(int32)", "app!P.Main()"], ["app!P.Other()"]]),
        9,
    )
    lines = capsys.readouterr().out.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.split() == ["induced", "by"])
    assert [line.split(maxsplit=1) for line in lines[begin + 1 :]] == [["6", "GC.Collect < P.Main"], ["3", "P.Other"]]


def test_those_who_asked_for_collections_and_are_not_shown_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    stacks = [["0x1234"], *([f"app!App.Ask{one}()"] for one in range(3))]
    for number, last in ((1, ["3 more"]), (2, ["2 more"]), (3, ["1 more"])):
        show_gc(gc_report(stacks), number)
        lines = capsys.readouterr().out.splitlines()
        begin = next(at for at, line in enumerate(lines) if line.split() == ["induced", "by"])
        assert [line.split() for line in lines[begin + 1 : begin + 1 + number]] == [
            ["3", f"App.Ask{one}"] for one in range(number)
        ]
        assert lines[begin + 1 + number :] == last
    show_gc(gc_report(stacks[1:]), 3)
    assert not capsys.readouterr().out.endswith(" more\n")


def test_no_table_of_a_report_is_cut_silently(capsys: pytest.CaptureFixture[str]) -> None:
    cut = 0
    for name in ("default-10.nettrace", "startup-10.nettrace", "web-10.nettrace", "gcverbose-10.nettrace"):
        trace = Trace(data_of(name))
        for kind in sorted(KINDS):
            made = getattr(dd, kind)(trace)
            parts = []
            for number in (1, 1_000_000):
                show_kind(kind, made, number)
                parts.append([part.splitlines() for part in capsys.readouterr().out.split("\n\n")])
            for few, all_rows in zip(*parts, strict=True):
                if len(few) < len(all_rows):
                    cut += 1
                    assert re.fullmatch(r"[\d,]+ more", few[-1]), (name, kind, few)
    assert cut >= 15


@pytest.mark.parametrize("colours", [{}, {"NO_COLOR": "1"}], ids=["colours", "none"])
def test_a_narrow_terminal_tells_who_asked_for_collections(file: Path, colours: dict[str, str]) -> None:
    _, output = in_terminal(["trace", "report", str(file), "gc"], b"never", b"", columns=80, **colours)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in output.decode().splitlines()]
    (asked,) = [line for line in lines if "GC.Collect" in line]
    assert asked.split(None, 1)[1] == "System.GC.Collect < Workload.Collections.Run < …"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (60, "System.GC.Collect < Company.Handlers.Ask < App.Program.Main"),
        (59, "System.GC.Collect < Company.Handlers.Ask < App.Program.Main"),
        (58, "System.GC.Collect < Company.Handlers.Ask < …"),
        (44, "System.GC.Collect < Company.Handlers.Ask < …"),
        (43, "System.GC.Collect < Company.Handlers.Ask"),
        (40, "System.GC.Collect < Company.Handlers.Ask"),
        (33, "System.GC.Collect < …Handlers.Ask"),
    ],
)
def test_of_a_stack_the_method_that_asked_gives_way_last(width: int, shown: str) -> None:
    stack = "System.GC.Collect < Company.Handlers.Ask < App.Program.Main"
    assert shortened_stack(stack, width) == shown
    assert len(shown) <= width


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("colours", [{}, {"NO_COLOR": "1"}], ids=["colours", "none"])
def test_a_narrow_terminal_tells_what_was_within_the_slowest_requests(
    columns: int, colours: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "web.nettrace"
    path.write_bytes(data_of("web-10.nettrace"))
    words = ["trace", "report", str(path), "requests", "-n", "4"]
    _, output = in_terminal(words, b"never", b"", columns=columns, **colours)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in output.decode().splitlines()]
    begin = next(at for at, line in enumerate(lines) if "within it (ms)" in line)
    rows = lines[begin : begin + 8]
    assert max(map(len, rows)) <= columns
    assert "waiting for a connection 27.825, " in rows[1 + (not colours)]
    assert "/items/0" in rows[1 + (not colours)]
    assert any("client answer content 0.065, " in row for row in rows)
    assert any(row.startswith("Left out, for the terminal is narrow: start ms, ") for row in rows)


def test_a_page_without_a_name_has_that_of_the_recording(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    for words in ([], ["gc"]):
        done = run("trace", "report", str(file), *words, "--html", "--force")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{file.stem}.html: ")
    assert [one.name for one in place.iterdir()] == [f"{file.stem}.html"]


def test_a_page_of_what_comes_through_stdin_has_a_name(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    command = [sys.executable, "-m", "dotnetdiag", "trace", "report", "-", "--html"]
    with file.open("rb") as data:
        done = subprocess.run(command, stdin=data, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("error: --html: name the page: what comes from stdin has no name")
    assert not list(place.iterdir())


def test_a_file_of_json_is_what_is_printed(file: Path, tmp_path: Path) -> None:
    for kind in ("gc", "exceptions", "threads"):
        output = tmp_path / f"{kind}.json"
        assert run("trace", "report", str(file), kind, "-o", str(output)).returncode == 0
        assert output.read_text(encoding="utf-8") == run("trace", "report", str(file), kind, "--json").stdout


def test_a_second_kind_is_none_and_no_file(file: Path) -> None:
    done = run("trace", "report", str(file), "gc", "exceptions")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: exceptions: one kind of report at a time")


def test_of_several_files_the_path_of_the_one_that_is_none_is_told(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / file.name
    other.parent.mkdir()
    other.write_text("x")
    for words in (("report", "gc", str(file), str(other)), ("sql", str(file), str(other), "from gc")):
        done = run("trace", *words)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith(f"error: {other}: first bytes")


def test_a_kind_of_report_is_no_name_of_a_page(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    done = run("trace", "report", str(file), "--html", "gc")
    assert done.returncode != 0
    assert done.stderr.startswith("error: --html gc: a page is named as --html gc.html")
    assert not list(place.iterdir())


def test_top_and_spans_are_pages_and_tables_too(file: Path, tmp_path: Path) -> None:
    page, made = tmp_path / "x.html", tmp_path / "x.csv"
    done = run("trace", "report", str(file), "topN", "-n", "3", "--html", str(page), "-o", str(made))
    assert done.returncode == 0, done.stderr
    assert made.read_text().startswith("name,exclusive,")
    words = ("spans", str(file), "GC/Start", "GC/Stop")
    assert run("trace", "report", *words, "--html", str(page), "--force").returncode == 0


@pytest.mark.parametrize(
    ("words", "option"),
    [
        *product([("gc",), ("topN",), ("spans", "GC/Start", "GC/Stop")], ["--html", "-o"]),
        (("all",), "--html"),
    ],
)
def test_a_report_does_not_overwrite_its_recording(words: tuple[str, ...], option: str, tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_bytes(data_of("gcverbose-10.nettrace"))
    before = path.read_bytes()
    (tmp_path / "link").symlink_to(path)
    kind, *others = words
    more = [] if kind == "all" else ["--format", "table"]
    for name in (path, tmp_path / "link"):
        done = run("trace", "report", kind, str(path), *others, option, str(name), "--force", *more)
        assert done.returncode == 3
        assert path.read_bytes() == before


def test_a_page_and_tables_are_not_one_file(file: Path, tmp_path: Path) -> None:
    name = str(tmp_path / "x.html")
    assert run("trace", "report", str(file), "gc", "--html", name, "-o", name).returncode == 3
    assert run("trace", "report", str(file), "gc", "-o", str(tmp_path / "x.nothing")).returncode == 3
    assert run("trace", "report", str(file), "gc", "--html", "-", "--json").returncode == 3
    both = run("trace", "report", str(file), "gc", "--html", name, "--json")
    assert (both.returncode, "collections" in json.loads(both.stdout)) == (0, True)
    assert both.stderr.startswith(f"{name}: ")
    done = run("trace", "report", str(file), "gc", "--html", "-")
    assert done.stdout.startswith("<!DOCTYPE html>")


def requests_of(tmp_path: Path, name: str, *words: str) -> list[str]:
    path = tmp_path / name
    path.write_bytes(data_of(name))
    done = run("trace", "report", str(path), "requests", *words)
    assert done.returncode == 0
    return done.stdout.splitlines()


def test_the_slowest_requests_are_listed_with_what_was_within_them(tmp_path: Path) -> None:
    lines = requests_of(tmp_path, "web-10.nettrace", "-n", "20")
    assert lines[0].endswith("8 failed (4 client, 4 server)")
    begin = next(at for at, line in enumerate(lines) if "the slowest  " in line)
    listed = lines[begin + 1 : begin + 21]
    assert lines[begin + 21] == "60 more"
    times = [float(line.split()[1].replace(",", "")) for line in listed]
    assert times == sorted(times, reverse=True)
    assert {line.split()[3] for line in listed} == {"client", "server"}
    assert "client answer 2.177, client answer content 0.962" in listed[0]


def test_routes_that_failed_say_why(tmp_path: Path) -> None:
    lines = requests_of(tmp_path, "web-10.nettrace", "-n", "1")
    begin = next(at for at, line in enumerate(lines) if "most often with" in line)
    assert re.fullmatch(r" +4  client  http://127.0.0.1:\d+/fail  status 500", lines[begin + 1])
    assert lines[begin + 2] == "1 more"


def test_routes_say_how_many_of_theirs_never_end(tmp_path: Path) -> None:
    path = tmp_path / "open.nettrace"
    with path.open("wb") as file, Writer(file, frequency=1000) as writer:
        for number, name in ((1, "RequestStart"), (2, "RequestStop")):
            writer.add_metadata(Metadata(metadata_id=number, provider=HOSTING, event_id=number, name=name))
        for ms, (number, activity) in enumerate(((1, 1), (1, 2), (1, 3), (2, 2))):
            writer.write_event(number, ms, b"", thread=1, activity=UUID(int=activity))
    note, *lines = run("trace", "report", str(path), "requests").stdout.splitlines()
    assert note.startswith("note: whether requests that came in failed is not told")
    assert lines[0] == "3 server; 2 without an end"
    assert re.split("  +", lines[2])[:5] == ["count", "failed", "no end", "median ms", "95 % ms"]
    assert lines[3].split() == ["3", "2", "2.000", "2.000", "2.000", "server"]


@pytest.mark.parametrize("some", [0, 2_550_000])
def test_routes_say_what_they_allocated_where_that_is_known(some: int, capsys: pytest.CaptureFixture[str]) -> None:
    made = dd.requests(Trace(data_of("web-10.nettrace")))
    columns = {name: made.by_route[name] for name in made.by_route.columns}
    show_requests(replace(made, by_route=Table({**columns, "allocated_bytes": [some] * len(made.by_route)})), 1)
    lines = capsys.readouterr().out.splitlines()
    assert ("  alloc MB  " in lines[2], "  2.5  " in lines[3]) == (some > 0, some > 0)


def test_a_request_says_how_long_it_waited_for_a_connection(tmp_path: Path) -> None:
    lines = requests_of(tmp_path, "web-10.nettrace", "-n", "1")
    assert "  queue ms  " in next(line for line in lines if "longest ms" in line)
    assert any("waiting for a connection 27.825" in line for line in lines)
    assert any(line.endswith("/items/0 (27.825 ms waiting for a connection)") for line in lines)
    assert any(line.endswith("  client answer content received") for line in lines)


def test_parts_alone_are_shown_where_there_are_no_requests(tmp_path: Path) -> None:
    path = tmp_path / "names.nettrace"
    with path.open("wb") as file, Writer(file) as writer:
        for number, name in enumerate(["ResolutionStart", "ResolutionStop"], 1):
            writer.add_metadata(
                Metadata(metadata_id=number, provider="System.Net.NameResolution", event_id=number, name=name)
            )
            writer.write_event(number, number, b"", thread=1, activity=UUID(int=1))
    lines = run("trace", "report", str(path), "requests").stdout.splitlines()
    assert next(line for line in lines if not line.startswith("note: ")) == "1 dns"


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_who_blocks_threads_is_shown_though_others_took_longer(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"method": f"app!App.{name}()", "count": 9, "own_ms": ms, "total_ms": ms, "max_ms": ms, "blocking": blocking}
        for name, ms, blocking in (("Awaits", 900.0, 0), ("Waits", 90.0, 2), ("Blocks", 9.0, 7))
    ]
    totals = SimpleNamespace(count=27, blocking=9, unfinished=0, chains=0, deepest=1, awaits_ms={})
    made: Any = SimpleNamespace(notes=(), totals=totals, by_method=Table.of_rows(rows), chains=Table({}))
    show_tasks(made, number)
    lines = capsys.readouterr().out.splitlines()
    begin = next((at for at, line in enumerate(lines) if "where threads are blocked" in line), None)
    assert (begin is not None) == (number in (1, 2))
    if begin is not None:
        shown = [line.split()[0] for line in lines[begin + 1 : begin + 3]]
        assert shown == ["7", "2" if number == 2 else "1"]  # with one row it is the line that says how many more


def test_what_to_record_for_requests_is_the_same_wherever_it_is_told() -> None:
    said = run("trace", "report", "requests", "--help").stdout
    page = (Path(__file__).parents[2] / "docs/how-to/which-requests-are-slow.md").read_text()
    for text in (said, page, NO_EVENTS):
        assert "--profile requests" in text


def test_what_came_in_stands_below_what_went_out_for_it(tmp_path: Path) -> None:
    lines = requests_of(tmp_path, "web-10.nettrace")
    begin = next(at for at, line in enumerate(lines) if "what was within the slowest" in line)
    names = lines[begin + 1 :]
    client = next(at for at, line in enumerate(names) if " client http://" in line)
    server = next(at for at, line in enumerate(names) if "   server GET /items/0" in line)
    assert client == 0 < server
    assert any("     kestrel GET /items/0" in line for line in names[server:])
    without = requests_of(tmp_path, "http-10.nettrace", "-n", "1")  # who answers is no server of ASP.NET Core
    assert not any("server" in line for line in without)


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("-- -x gc", "gc A"),
        ("-- -x", "A"),
        ("--json -- -x gc", "gc A --json"),
        ("gc -- -x", "gc A"),
        ("-n 3 -- -x topN", "topN A -n 3"),
        ("./-x jit", "jit A"),
        ("--json -- -x -x exceptions", "exceptions A A --json"),
    ],
)
def test_a_name_that_begins_as_an_option_stands_behind_two_dashes(
    words: str, same: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "-x").write_bytes(file.read_bytes())
    (tmp_path / "A").write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    dashed, plain = (run("trace", "report", *one.split()) for one in (words, same))
    assert (dashed.returncode, plain.returncode) == (0, 0), dashed.stderr
    assert dashed.stdout.replace("./-x", "A").replace("-x", "A") == plain.stdout


def test_what_advice_says_to_ask_can_be_asked_of_such_a_name(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "-x").write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    more = [line for line in run("trace", "report", "./-x").stdout.splitlines() if "more: " in line]
    for line in more:
        assert run(*line.split("dotnetdiag ")[1].split()).returncode == 0
    assert more
