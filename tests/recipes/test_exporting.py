"""Files of other formats, beside the trace or where the caller says; by the command line too."""

from __future__ import annotations

import gzip
import json
import stat
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.analysis.traces import external, managed, traced
from tests.cli.test_commands import run as run_command
from tests.nettrace.recordings import data_of

import dotnetdiag
from dotnetdiag.cli.trace_files import COMMANDS
from dotnetdiag.errors import InputError, MissingDependency, OutputError, OutputExists, UsageError
from dotnetdiag.export import FORMATS
from dotnetdiag.recipes import exporting
from dotnetdiag.recipes.exporting import ConvertOptions, convert_file, write
from dotnetdiag.recipes.heap_convert import convert_heap
from dotnetdiag.recipes.report import ViewOptions
from dotnetdiag.trace.method_names import Style

GROUP = click.Group(commands={one.name or "": one for one in COMMANDS})


def convert(source: Path, formats: list[str]) -> list[Path]:
    return [one.path for one in convert_file(source, formats)]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(GROUP, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    trace = traced(
        managed(0, 1, "App.Leaf", "App.Main"),
        managed(10, 1, "App.Leaf", "App.Main"),
        external(20, 1, "App.Wait", "App.Main"),
        managed(30, 1, "App.Main"),
    )
    path = tmp_path / "app.nettrace"
    path.write_bytes(bytes(trace.raw.buffer))
    return path


def test_one_file_per_format_beside_the_trace(source: Path) -> None:
    made = convert(source, ["Speedscope", "chromium", "pprof", "collapsed", "flamegraph", "json", "csv", "nettrace"])
    assert [path.name for path in made] == [
        "app.speedscope.json",
        "app.chromium.json",
        "app.pb.gz",
        "app.collapsed.txt",
        "app.flamegraph.html",
        "app.profile.json",
        "app.csv",
        "app.converted.nettrace",
    ]
    assert sorted(source.parent.iterdir()) == sorted([source, *made])
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "CPU_TIME 20000" in made[3].read_text(encoding="utf-8")


def test_packed_traces_give_files_without_that_suffix(source: Path) -> None:
    packed = source.with_name("b.nettrace.gz")
    packed.write_bytes(gzip.compress(source.read_bytes()))
    assert [path.name for path in convert(packed, ["csv"])] == ["b.csv"]


def test_a_name_is_taken_as_it_is_and_gets_a_suffix_where_it_has_none_or_several_are_written(source: Path) -> None:
    folder = source.parent
    assert convert_file(source, ["csv"], folder / "x.txt")[0].path == folder / "x.txt"
    assert convert_file(source, ["speedscope"], folder / "y")[0].path == folder / "y.speedscope.json"
    several = convert_file(source, ["speedscope", "csv"], folder / "z.json")
    assert [one.path.name for one in several] == ["z.speedscope.json", "z.csv"]
    assert [one.format for one in several] == ["speedscope", "csv"]
    assert all(one.size_bytes == one.path.stat().st_size for one in several)


@pytest.mark.parametrize("name", ["events-3.1", "my.app", "x.2024"])
def test_what_stands_behind_a_point_of_a_name_stays(source: Path, name: str) -> None:
    several = convert_file(source, ["speedscope", "csv"], source.with_name(name))
    assert [one.path.name for one in several] == [f"{name}.speedscope.json", f"{name}.csv"]


@pytest.mark.parametrize("kind", ["gc", "advice", "waits", "contention", "requests", "threads"])
def test_a_report_is_written_as_the_page_that_the_command_writes(source: Path, kind: str) -> None:
    made = getattr(dotnetdiag, kind)(source)
    page = dotnetdiag.write(made, source.with_name("a.html")).read_text(encoding="utf-8")
    run_command("trace", "report", str(source), kind, "--html", str(source.with_name("b.html")))
    theirs = source.with_name("b.html").read_text(encoding="utf-8")
    assert f'"name":"{kind}"' in page
    assert page[: page.index('"title"')] == theirs[: theirs.index('"title"')]
    tables = dotnetdiag.write(made, source.with_name("a.table.html")).read_text(encoding="utf-8")
    assert tables.startswith("<!doctype html>")
    assert dotnetdiag.write(made, source.with_name("a.json")).read_text(encoding="utf-8")[0] in "[{"
    with pytest.raises(UsageError):
        dotnetdiag.write(made, source.with_name("a.speedscope.json"))


def test_nothing_is_overwritten_unless_told(source: Path) -> None:
    (made,) = convert(source, ["csv"])
    made.write_text("mine", encoding="utf-8")
    with pytest.raises(OutputExists, match="already"):
        convert(source, ["csv"])
    assert made.read_text(encoding="utf-8") == "mine"
    convert_file(source, ["csv"], None, ConvertOptions(force=True))
    assert made.read_text(encoding="utf-8").startswith("method,")


def test_a_recording_is_not_overwritten_by_another_format_of_it(source: Path) -> None:
    before = source.read_bytes()
    with pytest.raises(UsageError, match="is what is read"):
        convert_file(source, ["csv"], source, ConvertOptions(force=True))
    assert source.read_bytes() == before


def test_the_view_is_that_of_reports(source: Path) -> None:
    view = ViewOptions(state="cpu", style=Style.SHORT, focus=("Leaf",))
    (made,) = convert_file(source, ["collapsed"], None, ConvertOptions(view=view))
    assert made.path.read_text(encoding="utf-8") == "Thread (1);App.Main;App.Leaf;CPU_TIME 20000\n"


def test_unknown_formats_and_missing_files_leave_nothing(source: Path) -> None:
    with pytest.raises(UsageError, match=r"no format 'svg'; there are: .*, nettrace"):
        convert(source, ["csv", "svg"])
    with pytest.raises(UsageError, match="no format given"):
        convert(source, [])
    with pytest.raises(InputError):
        convert(source.with_name("none.nettrace"), ["csv"])
    assert list(source.parent.iterdir()) == [source]


def test_what_fails_half_way_leaves_no_file(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dotnetdiag.export import csv_table

    def broken(result: object, file: object, *, style: object = None) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(csv_table, "write", broken)
    with pytest.raises(OutputError, match="No space left"):
        convert(source, ["csv"])
    assert list(source.parent.iterdir()) == [source]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_of_several_formats_all_are_written_or_none(source: Path) -> None:
    """What is in the buffer of the first is written when the second has been made."""
    first = source.with_name("y.collapsed.txt")
    first.symlink_to("/dev/full")
    with pytest.raises(OutputError, match=f"{first}: No space left"):
        convert_file(source, ["collapsed", "csv"], source.with_name("y"))
    assert sorted(source.parent.iterdir()) == sorted([source, first])


def test_results_are_written_by_suffix_or_by_name(source: Path) -> None:
    profile = dotnetdiag.cpu(dotnetdiag.open(source))
    path = dotnetdiag.write(profile, source.with_name("a.speedscope.json"))
    assert json.loads(path.read_text(encoding="utf-8"))["profiles"][1]["endValue"] == 30
    named = dotnetdiag.write(profile, str(source.with_name("a.txt")), "collapsed", style=Style.SHORT)
    assert named.read_text(encoding="utf-8").startswith("Thread (1);App.Main")
    write(profile, named, "csv", force=True)
    assert named.read_text(encoding="utf-8").startswith("method,")
    with pytest.raises(OutputError):
        write(profile, named, "csv")
    with pytest.raises(UsageError):
        write(profile, source.with_name("a.bin"))


@pytest.mark.parametrize("end", [".gcdump", ".html", ".heapsnapshot", ".graphml", ".sqlite"])
def test_a_heap_is_written_as_gcdump_convert_writes_it(tmp_path: Path, end: str) -> None:
    source = tmp_path / "heap.nettrace"
    source.write_bytes(data_of("heap-10.nettrace"))
    ours, theirs = tmp_path / f"ours{end}", tmp_path / f"theirs{end}"
    assert write(dotnetdiag.heap(source), ours) == ours
    convert_heap(source, (), theirs)
    if end != ".sqlite":
        assert ours.read_bytes() == theirs.read_bytes()
    assert ours.stat().st_size == theirs.stat().st_size
    with pytest.raises(OutputExists):
        write(dotnetdiag.heap(source), ours)


def test_a_heap_that_is_several_files_or_of_no_format_is_not_written(tmp_path: Path) -> None:
    source = tmp_path / "heap.nettrace"
    source.write_bytes(data_of("heap-10.nettrace"))
    heap = dotnetdiag.heap(source)
    for name, format, said in (
        ("h.parquet", None, "several files"),
        ("h.csv", None, "no format of heaps"),
        ("h", "tsv", "no format 'tsv'"),
    ):
        with pytest.raises(UsageError, match=said):
            write(heap, tmp_path / name, format)
    assert [one.name for one in tmp_path.iterdir()] == [source.name]


def test_a_recording_is_no_result_to_write_and_what_writes_it_is_told(source: Path) -> None:
    path = source.with_name("r.perfetto-trace")
    for given in (source, str(source), dotnetdiag.open(source)):
        with pytest.raises(UsageError, match=r"takes a result, .*, not a recording: dd\.convert writes that"):
            dotnetdiag.write(given, path)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="perfetto shows profiles, not a list"):
        dotnetdiag.write([source], path)  # type: ignore[list-item]
    assert list(source.parent.iterdir()) == [source]


def test_where_a_library_for_one_of_several_is_missing_it_is_said_that_none_is_written(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMATS, "pprof", replace(FORMATS["pprof"], libraries=("no_such_library",)))
    with pytest.raises(MissingDependency) as one:
        convert(source, ["pprof"])
    with pytest.raises(MissingDependency) as several:
        convert(source, ["speedscope", "pprof"])
    needed = "the format pprof needs no_such_library: pip install 'dotnetdiag[pprof]'"
    assert [str(error.value) for error in (one, several)] == [needed, f"nothing is written, for {needed}"]
    assert several.value.extra == "pprof"
    assert list(source.parent.iterdir()) == [source]


def test_a_name_without_a_known_end_is_told_as_it_was_given(source: Path) -> None:
    path = source.parent / "x.nothing"
    for result in (dotnetdiag.gc(source), dotnetdiag.cpu(source)):
        with pytest.raises(UsageError, match=f"^{path}: the name ends in no suffix"):
            dotnetdiag.write(result, path)


def test_the_command_writes_several_and_prints_their_names(source: Path) -> None:
    done = run("convert", source, "--format", "speedscope,flamegraph", "--format", "pprof", "--short")
    assert done.exit_code == 0
    assert [line.split(": ")[0] for line in done.stdout.splitlines()] == [
        str(source.with_name(name)) for name in ("app.speedscope.json", "app.flamegraph.html", "app.pb.gz")
    ]
    names = [one["name"] for one in json.loads(source.with_name("app.speedscope.json").read_text())["shared"]["frames"]]
    assert "App.Leaf" in names


def test_the_command_names_every_format_and_documents_them() -> None:
    done = run("convert", "--help")
    for name in exporting.format_names():
        assert name in done.stdout


def test_what_a_trace_lacks_is_said_on_stderr(tmp_path: Path) -> None:
    source = tmp_path / "cut.nettrace"
    source.write_bytes(data_of("events-10.nettrace")[:200_000])
    done = run("convert", source, "--format", "csv")
    assert done.exit_code == 0
    assert "warning: cut.nettrace: " in done.stderr
    assert "note: the trace has no CPU samples" in done.stderr
    assert "csv" in done.stdout
