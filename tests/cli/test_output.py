"""``--format`` and ``--json`` of every verb that prints."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.nettrace.recordings import recording
from tests.nettrace.traces import SMALL

from dotnetdiag.cli.commands import commands
from dotnetdiag.cli.output import CHOICES, to_stdout
from dotnetdiag.errors import UsageError
from dotnetdiag.export import find_format
from dotnetdiag.recipes.processes import Process
from dotnetdiag.table import Table

FILE, MADE = Path("FILE"), Path("MADE")
PRINTING: dict[str, tuple[object, ...]] = {
    "ps": ("ps",),
    "doctor": ("doctor",),
    "info": ("trace", "info", FILE),
    "events": ("trace", "events", FILE),
    "dump": ("trace", "dump", FILE),
    "list-profiles": ("trace", "list-profiles"),
    "trim": ("trace", "trim", FILE, "--from", "0", "-o", MADE, "--force"),
    "filter": ("trace", "filter", FILE, "--providers", "Maker", "-o", MADE, "--force"),
    "merge": ("trace", "merge", FILE, FILE, "-o", MADE, "--force"),
    "redact": ("trace", "redact", FILE, "-o", MADE, "--force"),
}
"""Verbs, with what they take to print without a process of .NET."""


def invoke(*words: object) -> Result:
    return CliRunner().invoke(commands, [str(word) for word in words], catch_exceptions=False)


def printed(words: tuple[object, ...], *more: str) -> bytes:
    done = invoke(*words, *more)
    assert done.exit_code in (0, 1), done.output  # 1: the doctor found something
    return bytes(done.stdout_bytes)


def rows_of(form: str, data: bytes) -> int:
    """How many rows of a first table somebody else reads."""
    if form == "csv":
        return len(list(csv.reader(io.StringIO(data.decode(), newline="")))) - 1
    if form == "jsonl":
        return len([json.loads(line) for line in data.decode().splitlines()])
    if form == "markdown":
        table = data.decode().partition("\n\n### ")[0].splitlines()
        return len([line for line in table if line.startswith("|")]) - 2
    if form == "html":
        return data.decode().partition("</table>")[0].count("<tr>") - 1
    if form == "parquet":
        from pyarrow import parquet

        return int(parquet.read_table(io.BytesIO(data)).num_rows)
    opened = sqlite3.connect(":memory:")
    opened.deserialize(data)
    (first,) = opened.execute("select name from sqlite_master order by rowid limit 1").fetchone()
    return int(opened.execute(f'select count(*) from "{first}"').fetchone()[0])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.nettrace"
    path.write_bytes(SMALL["nettrace 5"])
    return path


@pytest.mark.parametrize("verb", PRINTING)
def test_every_verb_that_prints_prints_in_every_format(verb: str, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dotnetdiag.recipes import examination, processes

    monkeypatch.setattr(processes, "list_processes", made_processes)
    findings = examination.examine_installation()
    monkeypatch.setattr(examination, "examine_installation", lambda: findings)
    places = {FILE: small, MADE: small.with_name("made.nettrace")}
    words = tuple(places.get(word, word) if isinstance(word, Path) else word for word in PRINTING[verb])
    expected = rows_of("csv", printed(words, "--format", "csv"))
    assert expected > 0
    for form in ("jsonl", "html", "parquet", "sqlite", "markdown"):
        assert rows_of(form, printed(words, "--format", form)) == expected, form
    if verb != "events":  # of which --json is lines
        assert printed(words, "--json") == printed(words, "--format", "json")
    assert json.loads(printed(words, "--format", "json"))
    assert printed(words) == printed(words, "--format", "table")


def made_processes() -> list[Process]:
    some = Process(
        pid=7,
        namespace_pid=1,
        name="a|b<c>",
        entry_assembly="app",
        runtime_version="10.0.0",
        uptime_s=None,
        command_line="app\nx",
        other_namespace=True,
        address="/tmp/x",
    )
    return [some, replace(some, pid=8, uptime_s=1.5)]


def verbs(group: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    import click

    found = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            found += verbs(command, (*path, name))
        else:
            found.append(((*path, name), command))
    return found


def test_no_verb_has_json_and_not_the_formats_unless_a_file_is_its_result() -> None:
    """Those write files, print what they wrote, and mean its form by --format, or record what comes; all reports are no one table."""
    writing = {"collect", "convert", "watch", "ports", "monitor", "all"}
    for path, command in verbs(commands):
        options = {name: option for option in command.params for name in option.opts}
        if path[0] == "router" and path[-1] != "status":  # says what happens
            continue
        if path[0] in ("tap", "decode", "fake"):  # messages, which are no rows of a table
            continue
        if "--json" in options and not (path[0] in ("trace", "ports", "counters", "gcdump") and path[-1] in writing):
            assert tuple(options["--format"].type.choices) == CHOICES, path


def test_a_file_and_a_table_about_it_do_not_both_go_to_stdout(small: Path) -> None:
    with pytest.raises(UsageError, match="goes to stdout, as does the file"):
        invoke("trace", "redact", small, "-o", "-", "--format", "csv")


@pytest.mark.parametrize("form", ["parquet", "sqlite"])
def test_what_people_cannot_read_is_not_written_to_a_terminal(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.cli.output.sys.stdout", Terminal())
    from dotnetdiag.cli.output import refuse_terminal

    with pytest.raises(UsageError, match=f"{form} is not for a terminal: lead stdout into a file"):
        refuse_terminal(form)
    refuse_terminal("csv", is_text=True)


@pytest.mark.parametrize("is_json", [True, False])
def test_what_a_terminal_gets_drives_it_not_and_json_stays_json(is_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = os.openpty()
    value = "v\x9b31m\x7f\udc80"
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr("dotnetdiag.cli.render.sys.stdout", terminal)
        with to_stdout("jsonl" if is_json else "csv") as stream:
            find_format("jsonl", table=True).write(Table({"a": [value]}), stream)
        shown = os.read(leader, 1000)
    os.close(leader)
    assert b"\x7f" not in shown
    assert "\x9b".encode() not in shown
    if is_json:
        assert json.loads(shown) == {"a": value}
    else:
        assert b"\\x9b31m" in shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("words", [("report", FILE, "-n", "4"), ("diff", FILE, FILE, "-n", "3")])
def test_reports_and_differences_print_their_rows(words: tuple[object, ...]) -> None:
    file = recording("default-10.nettrace")
    line = ("trace", *(file if word is FILE else word for word in words))
    document = json.loads(printed(line, "--json"))
    assert len(document["rows"]) == int(str(words[-1]))
    for form in ("csv", "jsonl", "html", "parquet", "sqlite", "markdown"):
        assert rows_of(form, printed(line, "--format", form)) == 4, form
    (first, *_) = csv.DictReader(io.StringIO(printed(line, "--format", "csv").decode(), newline=""))
    top = document["total"] if words[0] == "diff" else document["rows"][0]
    assert first["name"] == top["name"]


def test_events_keep_their_numbers_in_a_database(tmp_path: Path) -> None:
    path = tmp_path / "gc.db"
    done = invoke(
        "trace", "events", recording("events-10.nettrace"), "--event", "GC/Start", "--format", "sqlite", "-o", path
    )
    assert done.exit_code == 0
    with sqlite3.connect(path) as opened:
        count, least, kind = opened.execute("select count(*), min(Count), typeof(min(ms)) from events").fetchone()
    assert (count, least, kind) == (10, 1, "real")


def test_a_report_with_options_of_topn_is_that_and_its_name_may_stand_behind_the_file() -> None:
    file = recording("default-10.nettrace")
    expected = printed(("trace", "report", file, "-n", "3"))
    assert expected == printed(("trace", "report", "topN", file, "-n", "3"))
    assert expected == printed(("trace", "report", file, "topN", "-n", "3"))
    advice = printed(("trace", "report", file))
    assert advice == printed(("trace", "report", "advice", file)) == printed(("trace", "report", file, "advice"))
    assert advice != expected
    assert invoke("trace", "report", file, "nosuch").exit_code == 2
    assert b"spans" in printed(("trace", "report", "--help"))


def test_a_report_takes_a_time_with_both_ends_or_each() -> None:
    line = ("trace", "report", recording("cpu-only-10.nettrace"))
    assert printed((*line, "--time", "500ms-1")) == printed((*line, "--from", "0.5", "--to", "1s"))
    with pytest.raises(UsageError, match="--time says both ends"):
        invoke(*line, "--time", "1-", "--to", "2")


def test_spans_show_the_longest_and_give_all_to_programs() -> None:
    line = ("trace", "report", "spans", recording("gcverbose-10.nettrace"), "GC/Start", "GC/Stop")
    said = printed((*line, "-n", "2")).decode().splitlines()
    assert said[0].startswith("22 from GC/Start to GC/Stop, by Count")
    assert said[1].startswith("ms: least 0.")
    assert re.fullmatch(r"ms by Reason: Induced [\d.]+ \(10\), AllocSmall [\d.]+ \(12\)", said[2])
    assert len(said) == 8
    assert said[-1] == "20 more"
    rows = json.loads(printed(line, "--json"))
    assert len(rows) == 22
    longest = max(rows, key=lambda row: row["duration_ms"])
    assert f"{longest['duration_ms']:,.3f}" in said[5]
    assert "Reason=Induced" in said[5]
    assert "ClrInstanceID" not in said[5]
    assert "ClrInstanceID=0" in said[0]
    for form in ("csv", "sqlite"):
        assert rows_of(form, printed(line, "--format", form)) == 22


def test_spans_of_some_starts_are_what_a_filter_says() -> None:
    line = ("trace", "report", "spans", str(recording("gccollect-10.nettrace")), "GC/Start", "GC/Stop")
    said = printed(line, "--where", "Depth == 2").decode().splitlines()
    rows = [row for row in json.loads(printed(line, "--json")) if row["Depth"] == 2]
    assert said[0].startswith(f"{len(rows)} from GC/Start to GC/Stop, by Count, where Depth == 2, ")
    assert json.loads(printed(line, "--json", "--where", "Depth == 2")) == rows
    assert printed(line, "--where", "Depth == 77").decode() == (
        "0 from GC/Start to GC/Stop, by Count, where Depth == 77\n\n"
    )


@pytest.mark.parametrize(
    ("kind", "longest"), [("report topN FILE", 2), ("diff FILE FILE", 2), ("report spans FILE GC/Start GC/Stop", 3)]
)
def test_what_people_read_has_as_many_decimals_as_a_table_and_programs_get_all(kind: str, longest: int) -> None:
    words = ("trace", *kind.replace("FILE", str(recording("default-10.nettrace"))).split())
    decimals = {
        form: max(len(found) for found in re.findall(r"\d\.(\d+)\b", printed(words, "--format", form).decode()))
        for form in ("markdown", "html", "csv")
    }
    assert decimals["markdown"] <= longest
    assert decimals["html"] <= longest
    assert decimals["csv"] > longest
