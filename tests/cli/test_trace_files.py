"""The verbs for recorded files: what they print, in which form, and how they refuse."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.cli.test_commands import in_terminal
from tests.cli.test_strange_sockets import environment
from tests.nettrace.recordings import data_of, listing_of, recording
from tests.nettrace.traces import SMALL

import dotnetdiag
from dotnetdiag.cli.trace_files import COMMANDS
from dotnetdiag.errors import FormatError, GrammarError, InputError, OutputError, OutputExists, UnknownName, UsageError
from dotnetdiag.nettrace import read

README = Path(__file__).parents[2] / "README.md"
GROUP = click.Group(commands={one.name or "": one for one in COMMANDS})


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(GROUP, [str(argument) for argument in arguments], catch_exceptions=False)


def output(*arguments: str | Path) -> str:
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def recorded(name: str) -> Path:
    return recording(f"{name}.nettrace")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.nettrace"
    path.write_bytes(SMALL["nettrace 5"])
    return path


@pytest.mark.parametrize("piped", [True, False])
def test_a_recording_may_come_from_stdin_and_has_no_name_there(piped: bool, small: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "dotnetdiag.cli.main", "trace"]

    def told(*words: str) -> subprocess.CompletedProcess[bytes]:
        if piped:
            return subprocess.run([*program, *words], input=small.read_bytes(), capture_output=True, check=False)
        with small.open("rb") as file:
            return subprocess.run([*program, *words], stdin=file, capture_output=True, check=False)

    assert json.loads(told("info", "-", "--json").stdout)["events"] == 11
    assert told("convert", "-", "--format", "nettrace", "-o", str(tmp_path / "y.nettrace")).returncode == 0
    assert (tmp_path / "y.nettrace").read_bytes() == small.read_bytes()
    refused = told("convert", "-", "--format", "speedscope")
    assert (refused.returncode, b"name a file with -o" in refused.stderr) == (3, True)


def test_a_heap_dump_is_told_from_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "x.gcdump"
    path.write_bytes(b"\x14\0\0\0!FastSerialization.1\4\4\1\x0a\0\0\0\x08\0\0\0\x0a\0\0\0GCHeapDump")
    with pytest.raises(FormatError, match="it is a heap dump, not a recording: see gcdump report"):
        run("info", path)


# info -------------------------------------------------------------------------------------------------------------------


def test_info_json_has_the_fixed_keys(small: Path) -> None:
    said = json.loads(output("info", small, "--json"))
    assert {"format", "events", "lost", "complete", "duration_ms", "providers"} <= set(said)
    assert (said["format"], said["events"], said["lost"], said["complete"]) == ("nettrace 4", 11, 3, True)
    assert said["duration_ms"] == 0.0064
    counts = {
        provider: {event: (row["count"], row["bytes"]) for event, row in events.items()}
        for provider, events in said["providers"].items()
    }
    assert counts == {"Maker": {"Plain": (8, 49), "Nested": (1, 16)}, "Native": {"EventID(10)": (2, 301)}}
    assert said["lost_by_thread"] == {"100": 3}


def test_info_for_people_says_verdict_losses_threads_and_every_event(small: Path) -> None:
    text = output("info", small)
    for line in ("Verdict   complete", "Lost      3", "3 of capture thread 100", "Events    11"):
        assert line in text
    assert "payloads of 7 events cannot be decoded" in text
    assert "nothing describes the payloads of 2 events" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["Maker", "Plain", "8", "49"] in [row[:4] for row in rows]
    assert ["200", "77", "7"] in rows
    assert "\x1b" not in text


def test_info_of_a_part_says_of_which_time_it_is(tmp_path: Path) -> None:
    part = tmp_path / "part.nettrace"
    assert run("trim", recorded("default-10"), "-o", part, "--from", "1s", "--to", "1500ms").exit_code == 0
    assert json.loads(output("info", part, "--json"))["part_ms"] == [1000.0, 1500.0]
    assert "Part      1.0000 s to 1.5000 s of it: 0.5000 s\n" in output("info", part)
    whole = recorded("default-10")
    assert json.loads(output("info", whole, "--json"))["part_ms"] is None
    assert "Part " not in output("info", whole)


def test_info_of_a_cut_file_says_where_it_broke(tmp_path: Path) -> None:
    path = tmp_path / "cut.nettrace"
    path.write_bytes(SMALL["nettrace 5"][:-7])
    text = output("info", path)
    assert "Verdict   broken: " in text
    assert "0x" in text
    said = json.loads(output("info", path, "--json"))
    assert said["complete"] is False
    assert said["damage"] in text
    assert isinstance(said["damage_offset"], int)


# events -----------------------------------------------------------------------------------------------------------------


def test_filters_select_events_by_provider_name_time_and_value() -> None:
    path = recorded("events-10")
    said = listing_of("events-10.nettrace").events

    def times(*arguments: str) -> list[float]:
        return [json.loads(line)["ms"] for line in output("events", path, "--format", "jsonl", *arguments).splitlines()]

    manifest = [one["ms"] for one in said if one["provider"] == "Workload-Manifest"]
    assert times("--provider", "Workload-Manifest") == manifest
    both = ["Exception/Start", "GC/Start"]
    expected = [one["ms"] for one in said if one["event"] in both]
    assert times("--event", "Exception/Start,GCStart") == expected
    assert times("--event", "Exception/Start", "--event", "GC/Start", "--limit", "3") == expected[:3]
    collections = [one["ms"] for one in said if one["event"] == "GC/Stop" and one["payload"]["Depth"] >= 1]
    assert times("--where", "Depth >= 1 and event ~ '^GC/Stop$'") == collections
    middle = [one["ms"] for one in said if 2340 <= one["ms"] < 3000]
    assert times("--from", "2.34s", "--to", "3") == middle
    assert 0 < len(middle) < len(said)


def test_lines_keep_their_keys_and_limit_the_payload_to_the_fields() -> None:
    text = output(
        "events", recorded("events-10"), "--event", "GC/Start", "--fields", "COUNT,ms,depth", "--format", "jsonl"
    )
    (line, *_) = map(json.loads, text.splitlines())
    assert list(line) == [
        "provider", "event", "id", "version", "level", "opcode", "keywords", "ms", "utc", "pid", "tid", "activity",
        "related", "bytes", "payload",
    ]  # fmt: skip
    assert list(line["payload"]) == ["Count", "Depth"]


def test_stacks_are_added_leaf_first() -> None:
    text = output("events", recorded("web-10"), "--format", "jsonl", "--stacks", "--limit", "1")
    line = json.loads(text)
    assert list(line)[-1] == "frames"
    assert line["frames"][0].startswith("System.Private.CoreLib!System.Diagnostics.Tracing.EventPipeEventProvider.")
    with pytest.raises(UsageError, match="--stacks needs"):
        run("events", recorded("web-10"), "--stacks")


def test_csv_has_keys_and_fields_as_columns_or_those_asked_for() -> None:
    path = recorded("events-10")
    rows = list(csv.DictReader(io.StringIO(output("events", path, "--event", "Scalars", "--format", "csv"))))
    said = [one for one in listing_of("events-10.nettrace").events if one["event"] == "Scalars"]
    assert len(rows) == len(said) == 20
    for row, one in zip(rows, said, strict=True):
        assert (row["utc"], row["keywords"], int(row["tid"])) == (one["utc"], one["keywords"], one["tid"])
        assert (row["u64"], row["payload.id"]) == (str(one["payload"]["u64"]), one["payload"]["id"])
        assert row["activity"] == ""
    rows = list(
        csv.DictReader(io.StringIO(output("events", path, "--event", "Words", "--fields", "c,ms", "--format", "csv")))
    )
    said = [one for one in listing_of("events-10.nettrace").events if one["event"] == "Words"]
    assert rows == [{"c": one["payload"]["c"], "ms": str(one["ms"])} for one in said]


def test_csv_of_no_events_has_its_header() -> None:
    text = output("events", recorded("events-10"), "--event", "GC/Start", "--where", "Count > 1000", "--format", "csv")
    assert text.splitlines()[0].startswith("provider,event,id")
    assert len(text.splitlines()) == 1


def test_parquet_has_typed_columns(tmp_path: Path) -> None:
    import pandas

    path = tmp_path / "x.parquet"
    assert output("events", recorded("events-10"), "--format", "parquet", "-o", path) == ""
    frame = pandas.read_parquet(path)
    said = listing_of("events-10.nettrace").events
    assert frame["ms"].tolist() == [one["ms"] for one in said]
    assert frame["u32"].dropna().astype(int).tolist() == [
        one["payload"]["u32"] for one in said if "u32" in one["payload"]
    ]
    output(
        "events",
        recorded("events-10"),
        "--format",
        "parquet",
        "--event",
        "GC/Start",
        "--fields",
        "Reason",
        "-o",
        path,
        "--force",
    )
    assert list(pandas.read_parquet(path).columns) == ["Reason"]
    output("events", recorded("events-10"), "--format", "parquet", "--limit", "0", "-o", path, "--force")
    assert len(pandas.read_parquet(path)) == 0


def test_table_is_a_line_per_event_and_texts_do_not_drive_the_terminal(tmp_path: Path) -> None:
    text = output("events", recorded("events-10"), "--event", "Words", "--limit", "2")
    head, *rows = text.splitlines()
    assert head.split() == ["ms", "tid", "event"]
    assert len(rows) == 2
    assert r"semi=eq\x09tab\x0aline" in rows[1]


def test_fields_stand_below_each_other_also_where_some_are_empty(tmp_path: Path) -> None:
    path = recorded("events-10")
    asked: list[str | Path] = [
        "events",
        path,
        "--event",
        "GC/Start",
        "--fields",
        "Reason,leaf,ms,Count",
        "--limit",
        "2",
    ]
    lines = [
        "Reason   leaf           ms  Count",
        "Induced        2319.194793      1",
        "Induced        2320.239152      2",
    ]
    assert output(*asked).splitlines() == lines
    assert output(*asked, "--where", "Count > 1000").splitlines() == ["Reason  leaf  ms  Count"]
    output(*asked, "-o", tmp_path / "x.txt")
    assert (tmp_path / "x.txt").read_text().splitlines() == lines


def test_on_a_terminal_the_widest_fields_give_way() -> None:
    fields = "ms,frames,event"
    words = ["trace", "events", str(recorded("cpu-only-10")), "--event", "Thread/Sample", "--fields", fields]
    _, shown = in_terminal([*words, "--limit", "3"], b"never", b"")
    lines = shown.decode().replace("\r", "").splitlines()
    assert lines[0].split() == fields.split(",")
    assert all(line.endswith("Thread/Sample") and len(line) <= 80 for line in lines[1:4])


@pytest.mark.parametrize(
    "name", ["x.csv", "x.jsonl", "x.json", "x.md", "x.table.html", "x.db", "x.parquet", "x.txt", "x"]
)
def test_the_name_of_the_output_says_the_format_of_events(name: str, tmp_path: Path) -> None:
    forms = {"x.md": "markdown", "x.table.html": "html", "x.db": "sqlite", "x.txt": "table", "x": "table"}
    asked: list[str | Path] = ["events", recorded("events-10"), "--event", "GC/Start", "-o"]
    path = tmp_path / name
    output(*asked, path)
    output(*asked, tmp_path / "named", "--format", forms.get(name, name.rpartition(".")[2]))
    assert path.read_bytes() == (tmp_path / "named").read_bytes()


def test_a_name_that_says_no_format_of_events_is_refused_unless_one_is_named(tmp_path: Path) -> None:
    for name, problem in {"x.xlsx": "no suffix of a format", "x.speedscope.json": "tables have none"}.items():
        asked: list[str | Path] = ["events", recorded("events-10"), "--event", "GC/Start", "-o", tmp_path / name]
        with pytest.raises(UsageError, match=problem):
            run(*asked)
        assert not list(tmp_path.iterdir())
        output(*asked, "--format", "csv")
        assert (tmp_path / name).read_text().startswith("provider,event,id")
        (tmp_path / name).unlink()


@pytest.mark.parametrize("form", ["table", "csv", "json", "jsonl", "markdown", "html", "sqlite", "parquet"])
def test_what_the_runtime_numbers_is_said_by_name_or_by_number(form: str, tmp_path: Path) -> None:
    def said(*more: str) -> set[str]:
        path = tmp_path / "x"
        asked: list[str | Path] = ["--event", "GC/Start", "--format", form, "--limit", "1", "-o", path, "--force"]
        output("events", recorded("events-10"), *asked, *more)
        data = path.read_bytes()
        if form == "parquet":
            import pandas

            frame = pandas.read_parquet(path)
            return {str(value) for value in frame.loc[0, ["Reason", "Type"]]}
        return {"Induced", "NonConcurrentGC"} if b"Induced" in data and b"NonConcurrentGC" in data else {"1", "0"}

    names, numbers = {"Induced", "NonConcurrentGC"}, {"1", "0"}
    assert said() == (numbers if form == "jsonl" else names)
    assert said("--names") == names
    assert said("--numbers") == numbers


def test_a_time_is_said_with_both_ends_or_each(tmp_path: Path) -> None:
    path = recorded("events-10")
    for time, ends in {
        "2.34s-3": ["--from", "2340ms", "--to", "3"],
        "-2.4": ["--to", "2.4"],
        "3s-": ["--from", "3"],
    }.items():
        assert output("events", path, "--time", time) == output("events", path, *ends)
        output("trim", path, "--time", time, "-o", tmp_path / "a", "--force")
        output("trim", path, *ends, "-o", tmp_path / "b", "--force")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    verbs: list[list[str | Path]] = [["events", path], ["trim", path, "-o", tmp_path / "c"]]
    for verb in verbs:
        with pytest.raises(UsageError, match="--time says both ends"):
            run(*verb, "--time", "1-2", "--from", "1")
        with pytest.raises(UsageError, match="no trace is so long"):
            run(*verb, "--time", "1-99999999999")
        with pytest.raises(GrammarError, match="FROM-TO"):
            run(*verb, "--time", "2")


def test_wrong_questions_are_one_line_that_helps(small: Path) -> None:
    cases: list[tuple[Sequence[str], type[Exception], str]] = [
        (["--event", "Plan"], UnknownName, "near: Plain"),
        (["--provider", "Makr"], UnknownName, "near: Maker"),
        (["--where", "numbr > 5"], UnknownName, "near: number"),
        (["--fields", "numbr"], UnknownName, "near: number"),
        (["--where", "number >"], GrammarError, "at character 9"),
        (["--from", "soon"], GrammarError, "time: write"),
        (["--from", "2", "--to", "1"], UsageError, "--from 2 is after --to 1"),
    ]
    for arguments, error, text in cases:
        with pytest.raises(error, match=text) as caught:
            run("events", small, *arguments)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("verb", [["events"], ["trim", "-o", "x"]])
@pytest.mark.parametrize("time", [["--to", "inf"], ["--from", "1e10"], ["--to=-100000000000"], ["--from", "9" * 400]])
def test_times_that_no_trace_has_are_wrong_arguments(verb: list[str], time: list[str], small: Path) -> None:
    with pytest.raises(UsageError, match="no trace is so long"):
        run(*verb, str(small), *time)
    with pytest.raises(UsageError, match=r"^nan is no time$"):
        run(*verb, str(small), "--from", "nan")
    with pytest.raises(GrammarError, match=r"^time: write 30s"):
        run(*verb, str(small), "--from", "soon")


@pytest.mark.parametrize("verb", ["events", "convert --format csv", "trim --to 1", "merge"])
def test_a_name_that_ends_in_a_slash_is_no_file(verb: str, small: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="there is no such folder, and no name of a file in it"):
        run(*verb.split(), small, "-o", f"{tmp_path}/dirr/")
    assert not (tmp_path / "dirr").exists()
    with pytest.raises(OutputError, match="it is the name of a folder"):
        dotnetdiag.write(dotnetdiag.cpu(dotnetdiag.open(small)), f"{tmp_path}/dirr/", format="csv")
    assert not (tmp_path / "dirr").exists()


def test_what_is_said_of_a_dash_is_that_it_is_stdout(small: Path) -> None:
    assert "stdout: " in run("convert", small, "--format", "csv", "-o", "-").stderr
    assert "stdout: " in run("trim", small, "--to", "1", "-o", "-").stderr


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("no trace\n" * 100)
    (tmp_path / "bad.xz").write_bytes(b"no xz")
    cases: list[tuple[str, type[Exception]]] = [
        ("missing", InputError), ("", InputError), ("empty", FormatError), ("text", FormatError), ("bad.xz", InputError),
    ]  # fmt: skip
    for name, error in cases:
        with pytest.raises(error) as caught:
            dotnetdiag.open(tmp_path / name)
        assert "\n" not in str(caught.value)
        assert (name or tmp_path.name) in str(caught.value)


@pytest.mark.parametrize("suffix", [".xz", ".gz"])
def test_packed_files_are_read_and_bombs_are_not(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    from dotnetdiag.recipes import trace_files

    path = tmp_path / f"small.nettrace{suffix}"
    path.write_bytes((lzma if suffix == ".xz" else gzip).compress(SMALL["nettrace 5"]))
    assert len(dotnetdiag.open(path)) == 11
    monkeypatch.setattr(trace_files, "UNPACKED_LIMIT", 100)
    with pytest.raises(InputError, match="unpack it to a file"):
        dotnetdiag.open(path)


@pytest.mark.parametrize("suffix", [".xz", ".gz"])
def test_of_a_packed_file_that_breaks_off_what_came_is_read_and_the_rest_is_told(suffix: str, tmp_path: Path) -> None:
    whole = data_of("default-10.nettrace")
    packed = (lzma if suffix == ".xz" else gzip).compress(whole)
    path = tmp_path / f"a.nettrace{suffix}"
    for data, least in ((packed[: len(packed) * 9 // 10], 23_000), (packed[:-4], 24_196)):
        path.write_bytes(data)
        trace = dotnetdiag.open(path)
        assert len(trace) >= least
        assert trace.complete == (least == 24_196)
        (told, *_) = trace.warnings
        assert told.startswith("the packed file is damaged behind ")
    path.write_bytes(packed[:12])
    with pytest.raises(InputError, match="ended before"):
        dotnetdiag.open(path)


def test_names_in_a_file_do_not_drive_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "evil.nettrace"
    path.write_bytes(SMALL["nettrace 6"].replace(b"Maker", b"\x1b[2J\x07"))
    for arguments in (["info"], ["events"], ["dump", "--events"]):
        text = output(arguments[0], path, *arguments[1:])
        assert "\x1b" not in text
        assert "\\x1b[2J\\x07" in text


@pytest.mark.parametrize("form", ["csv", "jsonl", "table"])
def test_no_form_of_events_drives_a_terminal(form: str, tmp_path: Path) -> None:
    path = tmp_path / "evil.nettrace"
    path.write_bytes(SMALL["nettrace 6"].replace(b"Maker", "\x1b]\x9bx".encode()))  # C1 controls are two bytes in UTF-8
    _, shown = in_terminal(["trace", "events", str(path), "--format", form], b"never", b"")
    assert b"9bx" in shown
    assert not [control for control in (b"\x1b]", b"\xc2\x9b") if control in shown]


# dump -------------------------------------------------------------------------------------------------------------------


def test_dump_lists_every_block_with_offsets_and_headers(small: Path) -> None:
    blocks = read(SMALL["nettrace 5"]).blocks
    text = output("dump", small)
    assert [line.split()[0] for line in text.splitlines()[1:-1]] == [f"0x{block.offset:08x}" for block in blocks]
    assert "header_size=20 flags=1 min_time=5010 max_time=5030" in text
    assert text.splitlines()[-1] == "complete"
    said = json.loads(output("dump", small, "--json", "--events"))
    assert [block["offset"] for block in said["blocks"]] == [block.offset for block in blocks]
    events = [event for block in said["blocks"] for event in block.get("events", ())]
    assert [event["time"] for event in events] == read(SMALL["nettrace 5"]).headers.time.tolist()


@pytest.mark.parametrize("name", SMALL)
def test_dump_shows_every_event_of_every_format(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(SMALL[name])
    lines = output("dump", path, "--events").splitlines()
    assert sum(line.startswith("  0x") for line in lines) == len(read(SMALL[name]))


def test_dump_of_a_cut_file_says_where(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(SMALL["nettrace 5"][:-120])
    text = output("dump", path)
    assert "CUT: " in text
    assert text.splitlines()[-1].startswith("broken: ")


# files from files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version"), [("made", "5"), ("made", "6"), ("lossy-10", "4"), ("lossy-10", "5"), ("lossy-10", "6")]
)
def test_convert_writes_the_version_asked_for(name: str, version: str, small: Path, tmp_path: Path) -> None:
    """Both have losses."""
    path, given = tmp_path / "out.nettrace", small if name == "made" else recorded(name)
    text = output("convert", given, "--format", "nettrace", "--nettrace-version", version, "-o", path)
    assert str(path) in text
    made, source = dotnetdiag.open(path), dotnetdiag.open(given)
    assert made.format == ("nettrace 6.0" if version == "6" else "nettrace 4")
    assert made.counts() == source.counts()
    assert made.lost.by_thread == source.lost.by_thread


def test_convert_names_the_file_after_the_source_but_never_overwrites_it(tmp_path: Path) -> None:
    source = tmp_path / "a.nettrace"
    source.write_bytes(SMALL["nettrace 5"])
    output("convert", source, "--format", "NetTrace", "--nettrace-version", "6")
    assert (tmp_path / "a.converted.nettrace").exists()
    assert source.read_bytes() == SMALL["nettrace 5"]
    with pytest.raises(OutputExists, match="already"):
        run("convert", source, "--format", "nettrace", "--nettrace-version", "6")
    assert re.search(r"no format 'elf'; there are: .*, nettrace", run("convert", source, "--format", "elf").output)


@pytest.mark.parametrize("formats", ["nettrace", "NetTrace,speedscope"])
def test_a_nettrace_file_that_is_to_be_one_stays_as_it_is(formats: str, tmp_path: Path) -> None:
    source = tmp_path / "a.nettrace"
    source.write_bytes(SMALL["nettrace 5"])
    assert "a.nettrace is a nettrace file already" in run("convert", source, "--format", formats).stderr
    assert source.read_bytes() == SMALL["nettrace 5"]
    assert not (tmp_path / "a.converted.nettrace").exists()
    assert (tmp_path / "a.speedscope.json").exists() == ("speedscope" in formats)


def test_a_converted_file_has_the_name_that_was_said_and_that_of_dotnet_trace_with_compat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a.nettrace"
    source.write_bytes(SMALL["nettrace 5"])
    output("convert", source, "--format", "speedscope", "-o", tmp_path / "z.json")
    monkeypatch.setattr("sys.argv", ["dotnetdiag", "--compat", "trace", "convert"])
    output("convert", source, "--format", "speedscope", "-o", tmp_path / "z.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.nettrace", "z.json", "z.speedscope.json"]


@pytest.mark.parametrize(("name", "what"), [("made", "an array"), ("http-10", "an opcode")])
def test_what_a_version_cannot_say_is_refused_and_no_file_is_left(
    name: str, what: str, small: Path, tmp_path: Path
) -> None:
    given = small if name == "made" else recorded(name)
    with pytest.raises(UsageError, match=what):
        run("convert", given, "--format", "nettrace", "--nettrace-version", "4", "-o", tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert {path.name for path in tmp_path.iterdir()} == {small.name}


def test_trim_keeps_the_range_and_what_names_it(tmp_path: Path) -> None:
    path = tmp_path / "part.nettrace"
    given = recorded("events-10")
    output("trim", given, "--from", "2s", "--to", "2.34", "-o", path)
    source, made = dotnetdiag.open(given), dotnetdiag.open(path)
    inside = [event.ms for event in source.events(providers="Workload-Manifest", time=(2, 2.34))]
    assert [event.ms for event in made.events(providers="Workload-Manifest")] == inside
    assert 0 < len(inside) < sum(source.counts()["Workload-Manifest"].values())
    rundown = "Microsoft-Windows-DotNETRuntimeRundown"
    assert made.counts()[rundown] == source.counts()[rundown]
    output("trim", given, "--from", "2s", "--to", "2.34", "--strict", "-o", path, "--force")
    assert len(dotnetdiag.open(path)) == len(source.events(time=(2, 2.34)))
    with pytest.raises(UsageError, match="--from"):
        run("trim", given, "-o", path)


def test_filter_keeps_providers_and_events(tmp_path: Path) -> None:
    path = tmp_path / "part.nettrace"
    given = recorded("events-10")
    source = dotnetdiag.open(given)
    providers = ("--providers", "Workload-Manifest,Workload-SelfDescribing")
    output("filter", given, *providers, "--events", "GCStart", "--strict", "-o", path)
    made = dotnetdiag.open(path)
    for provider in ("Workload-Manifest", "Workload-SelfDescribing"):
        assert made.counts()[provider] == source.counts()[provider]
    assert made.counts()["Microsoft-Windows-DotNETRuntime"] == {"GC/Start": 10}
    assert len(made.providers) == 3
    with pytest.raises(UsageError, match="--providers"):
        run("filter", given, "-o", path)
    with pytest.raises(UnknownName, match="Workload-Manifest"):
        run("filter", given, "--providers", "Workload-Manifst", "-o", path)


def test_merge_takes_all_files(tmp_path: Path) -> None:
    path = tmp_path / "both.nettrace"
    output("merge", recorded("events-10"), recorded("cpu-only-10"), "-o", path)
    events = sum(len(listing_of(f"{name}.nettrace").events) for name in ("events-10", "cpu-only-10"))
    assert len(dotnetdiag.open(path)) == events


def test_redact_says_what_it_replaced_and_leaves_every_other_byte(tmp_path: Path) -> None:
    path = tmp_path / "safe.nettrace"
    text = output("redact", recorded("events-10"), "--field", "Exception/Start.ExceptionMessage", "-o", path)
    assert "Exception/Start.ExceptionMessage: 80 redacted" in text
    assert "ProcessInfo.CommandLine: 1 redacted" in text
    messages = dotnetdiag.open(recorded("events-10"))["Exception/Start"]["ExceptionMessage"].to_pylist()
    command_line = dotnetdiag.open(recorded("events-10")).raw.process.command_line
    assert command_line
    secrets = [text.encode("utf-16-le") for text in (*messages, command_line)]
    before, after = data_of("events-10.nettrace"), path.read_bytes()
    may_differ = np.zeros(len(before), bool)
    for secret in set(secrets):
        for found in re.finditer(re.escape(secret), before):
            may_differ[found.start() : found.end()] = True
            assert after[found.start() : found.end()] != secret
    assert len(before) == len(after)
    differs = np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8)
    assert not (differs & ~may_differ).any()


@pytest.mark.parametrize("words", [[], ["--compat"]])
def test_a_nettrace_file_named_as_its_own_copy_stays_as_it_is(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["dotnetdiag", *words])
    source = tmp_path / "same.nettrace"
    source.write_bytes(SMALL["nettrace 5"])
    before = source.stat()
    done = (
        run("convert", source, "--format", "NetTrace,collapsed", "-o", source)
        if words
        else run("convert", source, "--format", "NetTrace", "-o", source)
    )
    assert done.exit_code == 0, done.output
    assert "same.nettrace is a nettrace file already, and stays as it is" in done.stderr
    assert (source.stat().st_mtime_ns, source.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    with pytest.raises(OutputExists):
        run("convert", source, "--format", "nettrace", "--nettrace-version", "6", "-o", source)


@pytest.mark.parametrize("cut", [None, -7])
def test_a_nettrace_file_of_another_name_is_the_same_byte_for_byte(cut: int | None, tmp_path: Path) -> None:
    """Unless it is cut: then it is made whole."""
    data = SMALL["nettrace 6"][:cut]
    for name, packed in (("a.nettrace", data), ("a.nettrace.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(packed)
        done = run("convert", tmp_path / name, "--format", "nettrace", "-o", tmp_path / f"{name}.out")
        assert done.exit_code == 0, done.output
        assert ((tmp_path / f"{name}.out").read_bytes() == data) == (cut is None)
        assert dotnetdiag.open(tmp_path / f"{name}.out").complete
        assert ("what was whole was read" in done.stderr) == (cut is not None)


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFO")
def test_a_recording_through_a_pipe_is_read_as_one_in_a_file(small: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(small.read_bytes()))
    writer.start()
    piped = json.loads(output("info", pipe, "--json"))
    writer.join()
    assert piped == json.loads(output("info", small, "--json"))


def test_what_each_thread_lost_stands_below_the_sum() -> None:
    lines = output("info", recorded("lossy-10")).splitlines()
    (first,) = [at for at, line in enumerate(lines) if line.startswith("Lost")]
    assert " of capture thread " in lines[first + 1]
    assert lines[first + 1].startswith("          ")
    assert any(line.startswith("Warning") for line in lines[first + 2 :])


def test_a_damaged_input_is_told_about(tmp_path: Path) -> None:
    done = run("convert", recorded("killed-10"), "--format", "nettrace", "-o", tmp_path / "x")
    assert done.exit_code == 0
    assert "warning: killed-10.nettrace: end of data at 0x2b9b14" in done.stderr
    assert dotnetdiag.open(tmp_path / "x").complete


def test_output_is_not_overwritten_unless_told_and_never_half_written(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("precious")
    with pytest.raises(OutputExists, match="already"):
        run("events", small, "--format", "jsonl", "-o", path)
    assert path.read_text() == "precious"
    with pytest.raises(UnknownName):
        run("events", small, "--format", "jsonl", "--event", "nothing", "-o", path, "--force")
    assert path.read_text() == "precious"
    output("events", small, "--format", "jsonl", "-o", path, "--force")
    assert len(path.read_text().splitlines()) == 11
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out.jsonl", "small.nettrace"]
    with pytest.raises(OutputError):
        run("events", small, "--format", "jsonl", "-o", tmp_path / "no" / "folder")


def test_outputs_are_readable_by_their_owner_only_like_recordings(small: Path, tmp_path: Path) -> None:
    output("events", small, "--format", "jsonl", "-o", tmp_path / "made")
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o600


def test_a_trace_may_replace_its_own_file(small: Path, tmp_path: Path) -> None:
    path = shutil.copy(small, tmp_path / "own.nettrace")
    output("redact", path, "-o", path, "--force")
    assert len(dotnetdiag.open(path)) == 11


# a plain install ----------------------------------------------------------------------------------------------------------

PLAIN = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("google", "pyarrow", "pandas", "polars", "duckdb", "nanoarrow"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
from dotnetdiag.cli.main import main
main()
"""


def on_a_plain_install(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", PLAIN, *words]
    return subprocess.run(
        program, capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=environment()
    )


def test_the_conversion_of_the_readme_works_on_a_plain_install(tmp_path: Path) -> None:
    (tmp_path / "x.nettrace").write_bytes(SMALL["nettrace 5"])
    found = re.search(r"`dotnetdiag (trace convert x\.nettrace [^`]*)`", README.read_text("utf-8"))
    assert found is not None
    done = on_a_plain_install(tmp_path, *found[1].split())
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.iterdir())) == 1 + len(found[1].rpartition(" ")[2].split(","))


@pytest.mark.parametrize(
    "words",
    [
        "trace convert x.nettrace --format speedscope,pprof,flamegraph",
        "trace events x.nettrace --format parquet -o y",
        "trace events x.nettrace --format parquet",
        "trace collect --dport /no/such/port --format pprof -o y",
    ],
)
def test_a_missing_library_is_found_out_before_anything_is_written_or_recorded(words: str, tmp_path: Path) -> None:
    (tmp_path / "x.nettrace").write_bytes(SMALL["nettrace 5"])
    done = on_a_plain_install(tmp_path, *words.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
    assert re.search(r"pip install 'dotnetdiag\[(pprof|arrow)\]'", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["x.nettrace"]


def test_options_for_what_to_show_are_none_of_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    path.write_bytes(data_of("default-10.nettrace"))
    with pytest.raises(UsageError, match="nettrace has the whole recording: leave out the options for what to show"):
        run("convert", path, "--format", "nettrace", "--focus", "Main")
    assert run("convert", path, "--format", "nettrace,collapsed", "--focus", "Main").exit_code == 0
