"""The verbs for heaps, on files: what they print, in which form, and how they refuse."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.cli.test_commands import in_terminal
from tests.cli.test_commands import run as run_program
from tests.heap.help import heaps_of
from tests.heap.made import heap_from
from tests.heap.sessions import A, Session, usual
from tests.nettrace.recordings import data_of
from tests.nettrace.traces import SMALL

import dotnetdiag as dd
from dotnetdiag.cli.gcdump import gcdump
from dotnetdiag.cli.gcdump_watch import _sample_text as sample_text
from dotnetdiag.cli.gcdump_watch import _show as show_watched
from dotnetdiag.cli.verdict import settled
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import (
    FormatError,
    GrammarError,
    InputError,
    OutputExists,
    ProcessNotFound,
    UnknownName,
    UsageError,
)
from dotnetdiag.heap import Completeness, Heap, HeapFacts, write_gcdump
from dotnetdiag.heap.difference import growing_types
from dotnetdiag.heap.facts import Interop
from dotnetdiag.heap.gcdump_writer import modules_left_out
from dotnetdiag.heap.holders import DIAGNOSTICS
from dotnetdiag.heap.interop import CCW, INTERFACE, RCW
from dotnetdiag.heap.log_lines import MOST_PROBLEMS, PREFIX, without_own_lines
from dotnetdiag.recipes import heap_watch
from dotnetdiag.recipes.heap_watch import HeapSample, Suspect, WatchedHeaps
from dotnetdiag.recipes.target import Target

HOSTILE = ["A</script>\x1b[31m", "B\r\n\u202e", "=cmd()", "C\ud800<System.String>", "[brackets]"]


def run(*words: object) -> Result:
    done = CliRunner().invoke(gcdump, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def written(heap: Heap, path: Path) -> Path:
    with path.open("wb") as file:
        write_gcdump(heap, file)
    return path


def chain(nodes: int, name: str = "App.Node") -> Heap:
    """A root that holds a list of so many."""
    types = ["[.NET Roots]", "App.List", *([name] * nodes)]
    return heap_from(types, [(0, 1), *((1, 2 + number) for number in range(nodes))], sizes=[0, 100, *([24] * nodes)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(chain(10), tmp_path / "x.gcdump")


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["table", "json"])
def test_both_ways_to_the_types_say_the_same(form: list[str], tmp_path: Path) -> None:
    """One is without click; what is damaged, something else or not there is none of its business."""
    whole = written(chain(10, HOSTILE[0]), tmp_path / "whole.gcdump").read_bytes()
    for name, data in {"cut": whole[:-30], "short": whole[:60], "none": b"", "other": b"Nettrace"}.items():
        (tmp_path / f"{name}.gcdump").write_bytes(data)
    for name in ("whole", "cut", "short", "none", "other", "absent"):
        words = ["gcdump", "report", str(tmp_path / f"{name}.gcdump"), *form]
        fast, usual = run_program(*words), run_program(*words, "--by", "type")
        assert (fast.returncode, fast.stdout, fast.stderr) == (usual.returncode, usual.stdout, usual.stderr), name


def test_the_report_has_the_fixed_keys(file: Path) -> None:
    said = json.loads(run("report", file, "--json").stdout)
    assert [said[name] for name in ("nodes", "edges", "bytes", "complete")] == [12, 11, 340, True]
    assert said["types"][0] == {
        "type": "App.Node", "module": "app.dll", "count": 10, "bytes": 240, "retained_bytes": 240,
    }  # fmt: skip
    assert {row["type"]: row["retained_bytes"] for row in said["types"]}["App.List"] == 340


def test_the_report_for_people_begins_as_that_of_the_reference(file: Path) -> None:
    lines = run("report", file, "--number", 1).stdout.splitlines()
    assert [line.split("  ", 1)[1].strip() for line in (line.strip() for line in lines[:3])] == [
        "GC Heap bytes", "GC Heap objects", "Total references",
    ]  # fmt: skip
    assert "App.Node  [app.dll]" in lines[5]
    assert lines[6] == "1 more"


@pytest.mark.parametrize("by", ["module", "namespace", "generation"])
def test_the_report_by_other_things(file: Path, by: str) -> None:
    rows = json.loads(run("report", file, "--by", by, "--json").stdout)[f"{by}s"]
    assert sum(row["bytes"] for row in rows) == 340


@pytest.mark.parametrize(("by", "first"), [("bytes", "App.Node"), ("count", "App.Node"), ("retained", "App.List")])
def test_the_report_is_sorted_as_asked(file: Path, by: str, first: str) -> None:
    assert json.loads(run("report", file, "--sort", by, "--format", "json").stdout)["types"][0]["type"] == first
    assert run("report", file, "--sort", by, "--format", "csv").stdout.splitlines()[1].startswith(first)


def test_what_is_taken_together_is_beside_the_types(file: Path) -> None:
    for by, key in (("module", "modules"), ("namespace", "namespaces"), ("generation", "generations")):
        told = json.loads(run("report", file, "--by", by, "--json").stdout)
        assert list(told[key][0])[:3] == [by, "count", "bytes"]
        assert ("retained_bytes" in told[key][0]) == (by != "generation")
        assert list(told)[-1] == key


def test_the_tree_and_the_paths(file: Path) -> None:
    rows = json.loads(run("tree", file, "--minimum", "0", "--json").stdout)
    assert [(row["level"], row["type"], row["count"]) for row in rows] == [
        (0, "[.NET Roots]", 1), (1, "App.List", 1), (2, "App.Node", 10),
    ]  # fmt: skip
    assert "    App.Node" in run("tree", file).stdout
    (row,) = json.loads(run("paths", file, "node", "--json").stdout)
    assert row["path"] == ["[.NET Roots]", "App.List", "App.Node"]
    assert run("paths", file, "0x1010").stdout.splitlines()[-1].strip() == "App.List"
    with pytest.raises(UnknownName):
        run("paths", file, "Nothing")
    with pytest.raises(UsageError):
        run("paths", "App.Node")


@pytest.mark.parametrize("minimum", ["0B", "0", " 0.0 MiB", "00kb"])
def test_a_tree_of_all_may_have_a_unit(minimum: str, file: Path) -> None:
    assert run("tree", file, "--minimum", minimum).stdout == run("tree", file, "--minimum", "0").stdout
    with pytest.raises(GrammarError):
        run("tree", file, "--minimum", "0X")


def test_paths_say_how_many_are_left_out(tmp_path: Path) -> None:
    heap = heap_from(["[.NET Roots]", "A", "B", "Item", "Item"], [(0, 1), (0, 2), (1, 3), (2, 4)])
    path = written(heap, tmp_path / "x.gcdump")
    said = run("paths", path, "Item", "--number", "1").stdout
    assert said.endswith("note: these are the ways to 1 of 2 objects: 1 more way is left out\n")
    assert "left out" not in run("paths", path, "Item").stdout


def test_a_deep_tree_is_as_wide_as_thirty_levels(tmp_path: Path) -> None:
    count = 3000
    types = ["[.NET Roots]", *(f"T{number}" for number in range(count))]
    path = written(heap_from(types, [(number, number + 1) for number in range(count)]), tmp_path / "x.gcdump")
    lines = run("tree", path, "--depth", count, "--minimum", "0").stdout.splitlines()
    assert len(lines) == count + 2
    assert lines[31].endswith(f"{'  ' * 30}T29")
    assert lines[32].endswith(f"{'  ' * 30}31: T30")
    assert lines[-1].endswith(f"{'  ' * 30}3000: T2999")
    assert max(map(len, lines)) < 120


def test_a_diff_says_what_holds_what_came(tmp_path: Path) -> None:
    def heap(items: int, others: int) -> Path:
        """A list in a static variable, and as many objects of the same type that a thread holds."""
        types = ["[.NET Roots]", "[static vars]", "[static var App.Sessions]", "App.List", "[local vars]"]
        types += ["App.Session"] * (items + others)
        edges = [(0, 1), (1, 2), (2, 3), (0, 4)]
        edges += [(3 if place < items else 4, 5 + place) for place in range(items + others)]
        return written(heap_from(types, edges, sizes=[24] * len(types)), tmp_path / f"{items}-{others}.gcdump")

    before, after, fewer = heap(5, 90), heap(50, 90), heap(5, 1)
    lines = run("diff", before, after).stdout.splitlines()
    at = lines.index("App.Session is held by")
    way = ["[.NET Roots]", "[static vars]", "[static var App.Sessions]", "App.List", "App.Session"]
    assert [line.strip() for line in lines[at + 1 : at + 6]] == way
    assert json.loads(run("diff", before, after, "--json").stdout)["way"] == way
    assert json.loads(run("diff", before, fewer, "--json").stdout)["way"] == []
    assert "is held by" not in run("diff", before, fewer).stdout


def test_a_diff_fails_above_a_limit(file: Path, tmp_path: Path) -> None:
    after = written(chain(20), tmp_path / "y.gcdump")
    assert run("diff", file, after).exit_code == 0
    done = run("diff", file, after, "--fail-above", "50%")
    assert done.exit_code == 1
    assert "above the limit" in done.stdout
    assert run("diff", file, after, "--fail-above", "100%").exit_code == 0
    assert run("diff", file, after, "--fail-above", "241B").exit_code == 0
    assert [run("diff", file, after, "--fail-above", none).exit_code for none in ("0", "0%")] == [1, 1]
    assert run("diff", file, file, "--fail-above", "0").exit_code == 0
    said = json.loads(run("diff", file, after, "--fail-above", "200", "--json").stdout)
    assert said["above"] == ["total", "App.Node"]
    assert said["grown_bytes"] == 240
    assert run("diff", after, file, "--fail-above", "1").exit_code == 0
    with pytest.raises(GrammarError):
        run("diff", file, after, "--fail-above", "much")


def test_a_number_holds_for_tables_too(file: Path, tmp_path: Path) -> None:
    other = written(chain(1000, "App.Other"), tmp_path / "y.gcdump")
    assert len(run("report", file, "--format", "csv").stdout.splitlines()) == 4
    assert len(run("report", file, "--format", "csv", "--number", 1).stdout.splitlines()) == 2
    assert len(run("diff", file, other, "--format", "csv", "-n", 1).stdout.splitlines()) == 2
    assert len(run("diff", file, other, "--format", "csv").stdout.splitlines()) > 2
    assert len(json.loads(run("report", file, "--json", "--number", 1).stdout)["types"]) == 3


def test_what_holds_the_roots_is_no_row_for_people(file: Path, tmp_path: Path) -> None:
    other = written(chain(1000), tmp_path / "y.gcdump")
    assert "[.NET Roots]" not in run("report", file, "--sort", "retained").stdout
    real = tmp_path / "real.nettrace"
    real.write_bytes(data_of("heap-10.nettrace"))
    assert "[static var " not in run("report", real, "--sort", "retained", "--number", 1000).stdout
    assert "[static var " in run("report", real, "--json").stdout
    said = run("diff", file, other).stdout
    assert "  [.NET Roots] > App.List\n" in said
    rows = said.partition("dominators, from the root\n")[2].splitlines()
    assert not [line for line in rows if line.endswith("  [.NET Roots]")]
    assert "[.NET Roots]" in {row["type"] for row in json.loads(run("report", file, "--json").stdout)["types"]}


def test_of_a_cut_file_is_said_what_is_not_known(file: Path, tmp_path: Path) -> None:
    """The addresses are behind the records, and the root's record may be the last."""
    nodes = 2000
    heap = heap_from([*["App.Node"] * nodes, "[.NET Roots]"], [(nodes, one) for one in range(nodes)], root=nodes)
    whole = written(heap, tmp_path / "whole.gcdump").read_bytes()
    cut = tmp_path / "cut.gcdump"
    cut.write_bytes(whole[: len(whole) - 8 * nodes - 8 * nodes // 2])
    assert run("report", cut).exit_code == 0
    said = run("report", cut).stdout
    assert "not known" in said
    assert "retained" not in said
    told = re.search(r"([0-9,]+)  GC Heap objects", said)
    assert told is not None
    assert 0 < int(told[1].replace(",", "")) < nodes
    for words in (["paths", cut, "App.Node"], ["tree", cut], ["advice", cut]):
        done = run(*words)
        assert "is not known: what holds objects is missing." in done.stdout
        assert "garbage" not in done.stdout
        notes = json.loads(run(*words, "--json").stdout)
        assert "garbage" not in str(notes)
    assert run("diff", cut, file).exit_code == run("diff", file, cut, "--json").exit_code == 2
    assert run("diff", cut, file).stdout == (
        "What grew is not known: of one heap it is missing what holds the objects, and which objects there are.\n"
    )


@pytest.mark.parametrize("data", [b"root:x:0:0", b"SQLite format 3\0", b'{"snapshot":{', b""])
def test_what_files_of_heaps_are_is_said_of_others(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"a \.gcdump is wanted, or the recording of a heap session"):
        run("report", path)


def test_a_diff_says_which_file_is_meant(file: Path, tmp_path: Path) -> None:
    (tmp_path / "short.gcdump").write_bytes(file.read_bytes()[:150])
    for pair in ((file, tmp_path / "short.gcdump"), (tmp_path / "short.gcdump", file)):
        with pytest.raises(FormatError, match=r"^short\.gcdump"):
            run("diff", *pair)
    part = replace(chain(3), completeness=Completeness(problems=("3 events were lost",)))
    done = run("diff", file, written(part, tmp_path / "part.gcdump"))
    assert done.stderr == "The heap of part.gcdump is not complete: 3 events were lost.\n"


@pytest.mark.parametrize(("form", "is_said"), [("csv", True), ("jsonl", True), ("json", False), ("markdown", False)])
def test_a_form_of_one_table_says_that_the_other_is_left_out(file: Path, form: str, is_said: bool) -> None:
    assert ("dominators" in run("diff", file, file, "--format", form).stderr) == is_said


def test_paths_without_a_type_say_so(file: Path) -> None:
    with pytest.raises(UsageError, match="give a TYPE or an ADDRESS behind the file"):
        run("paths", file)
    with pytest.raises(UsageError, match="Give a FILE, or a process"):
        run("paths", "App.Node")


def test_a_limit_that_is_none_is_told_with_a_share(file: Path) -> None:
    with pytest.raises(GrammarError, match="5%"):
        run("diff", file, file, "--fail-above", "five")


def test_watch_says_nothing_before_its_arguments_are_right() -> None:
    done = CliRunner().invoke(gcdump, ["watch", "-p", "1", "--every", "0s"])
    assert isinstance(done.exception, UsageError)
    assert done.stderr == ""


@pytest.mark.parametrize(("text", "seconds"), [("2", 2.0), ("0.5", 0.5), ("1m30s", 90.0)])
@pytest.mark.parametrize("option", ["--every", "--timeout"])
def test_a_bare_number_is_one_of_seconds(
    option: str, text: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, float | str] = {}

    def watched(_: Target, **options: Any) -> WatchedHeaps:
        asked.update(options)
        return WatchedHeaps(samples=(), compared=0, growing=None, suspects=())

    monkeypatch.setattr(heap_watch, "watch_heaps", watched)
    run("watch", "-p", "1", option, text)
    assert seconds_of(asked[option.lstrip("-")]) == seconds


def test_what_is_no_duration_is_refused_with_an_example() -> None:
    for text in ("2 2", "-2", "two", "1e3", ""):
        done = CliRunner().invoke(gcdump, ["watch", "-p", "1", f"--every={text}"])
        assert isinstance(done.exception, GrammarError), text
        assert "write 30s" in str(done.exception)


def test_watch_says_that_a_process_stands_still_when_it_is_about_to() -> None:
    done = CliRunner().invoke(gcdump, ["watch", "-p", "999999999"])
    assert isinstance(done.exception, ProcessNotFound)
    assert done.stderr == ""


def test_watch_tells_what_is_of_the_diagnostics(capsys: pytest.CaptureFixture[str]) -> None:
    def heap(items: int) -> Heap:
        types = ["[.NET Roots]", "[static vars]", DIAGNOSTICS, *["Event"] * items, *["App.Node"] * items]
        edges = [(0, 1), (1, 2), *((2 if node < 3 + items else 0, node) for node in range(3, 3 + 2 * items))]
        return heap_from(types, edges)

    def row(name: str) -> dict[str, Any]:
        return next(row for row in growing.to_pylist() if row["type"] == name)

    growing = growing_types([heap(3), heap(5)])
    paths = {"Event": ("[.NET Roots]", "[static vars]", DIAGNOSTICS, "Event"), "App.Node": ("[.NET Roots]", "App.Node")}
    suspects = tuple(Suspect(row=row(name), path=path) for name, path in paths.items())
    sample = HeapSample(at_s=0, nodes=1, objects=1, bytes=1, grown_bytes=0, complete=True, pause_ms=1)
    show_watched(WatchedHeaps(samples=(sample, sample), compared=2, growing=growing, suspects=suspects))
    said = capsys.readouterr().out
    assert "  Event  (of the diagnostics, no leak)\n" in said
    assert "  App.Node\n" in said
    assert "App.Node is held by\n" in said
    assert "Event is held by\n" not in said


def test_watch_says_what_else_grew_and_since_when(capsys: pytest.CaptureFixture[str]) -> None:
    heaps = [
        heap_from(["Root", *["A", "B", "C"] * items], [(0, one) for one in range(1, 1 + 3 * items)]) for items in (1, 9)
    ]
    growing = growing_types(heaps)
    first = HeapSample(at_s=0, nodes=1, objects=1, bytes=1000, grown_bytes=0, complete=True, pause_ms=1)
    second = replace(first, at_s=10, bytes=1500, grown_bytes=500)
    suspects = (Suspect(row=growing.to_pylist()[0], path=("[.NET Roots]",)),)
    show_watched(WatchedHeaps(samples=(first, second), compared=2, growing=growing, suspects=suspects))
    assert capsys.readouterr().out.endswith(f"\n\n{len(growing) - 1} more types grew\n")
    assert "1,000 bytes  " in sample_text(first, is_first=True)
    assert "1,500 bytes (+500 since the first)  " in sample_text(second, is_first=False)


def test_a_diff_knows_types_in_other_folders(tmp_path: Path) -> None:
    def put(name: str, modules: list[str | None], nodes: int = 50) -> Path:
        types = ["[.NET Roots]", "System.String", "App.A"]
        heap = heap_from([*types, *["App.A"] * nodes], [(0, 1), (0, 2)], modules=[None, *modules])
        return written(heap, tmp_path / name)

    before = put("before.gcdump", ["/shared/10.0.13/CoreLib.dll", "Module(0x7f00)"])
    after = put("after.gcdump", [r"C:\shared\10.0.14\CoreLib.dll", "Module(0x7e00)"])
    done = run("diff", before, after, "--fail-above", "1", "--json")
    assert (done.exit_code, json.loads(done.stdout)["types"]) == (0, [])
    after = put("after.gcdump", ["/shared/10.0.14/CoreLib.dll", "/app/B.dll"], nodes=10)
    done = run("diff", before, after, "--fail-above", "1", "--json")  # one of which the module is not known is no other
    (shrunk,) = json.loads(done.stdout)["types"]
    assert (done.exit_code, shrunk["module"], shrunk["count_before"], shrunk["count_after"]) == (
        0,
        "/app/B.dll",
        51,
        11,
    )
    before = put("before.gcdump", ["/shared/10.0.13/CoreLib.dll", "/app/A.dll"])
    done = run("diff", before, after, "--fail-above", "1")
    assert done.exit_code == 1
    marked = [
        line for line in done.stdout.splitlines() if "App.A" in line and " > " not in line and line.lstrip()[0] in "+-"
    ]
    assert ["above the limit" in line for line in marked] == [True, False]  # what has gone of the other module
    (grown, _) = json.loads(run("diff", before, after, "--json").stdout)["types"]
    assert grown["module"] == "/app/B.dll"


@pytest.mark.parametrize(("problems", "code"), [((), 1), (("3 events were lost",), 2)])
@pytest.mark.parametrize("form", [(), ("--json",), ("--format", "csv")])
def test_a_verdict_does_not_depend_on_who_reads_it(
    tmp_path: Path, problems: tuple[str, ...], code: int, form: tuple[str, ...]
) -> None:
    """``… | head -1`` in a script that asks for the code of each part."""
    before = written(chain(3), tmp_path / "before.gcdump")
    heap = replace(chain(3000), completeness=Completeness(problems=problems))
    after = written(heap, tmp_path / "after.gcdump")
    reading, writing = os.pipe()
    os.close(reading)
    command = [
        sys.executable,
        "-m",
        "dotnetdiag",
        "gcdump",
        "diff",
        str(before),
        str(after),
        "--fail-above",
        "5%",
        *form,
    ]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, b"error" in done.stderr) == (code, False)


def test_a_verdict_is_of_one_verb(tmp_path: Path) -> None:
    before, after = (written(chain(count), tmp_path / f"{count}.gcdump") for count in (3, 3000))
    assert run("diff", before, after, "--fail-above", "5%").exit_code == settled() == 1
    assert run("report", before, "--format", "csv").exit_code == settled() == 0


def test_a_limit_does_not_hold_of_what_is_not_complete(file: Path, tmp_path: Path) -> None:
    part = written(
        replace(chain(3), completeness=Completeness(problems=("3 events were lost",))), tmp_path / "p.gcdump"
    )
    facts = replace(chain(3).facts, count_multiplier=10.0, size_multiplier=8.0, multipliers=(1.0, 10.0))
    sample = written(replace(chain(3), facts=facts), tmp_path / "s.gcdump")
    for pair in ((file, part), (part, file), (file, sample)):
        done = run("diff", *pair, "--fail-above", "50%")
        assert done.exit_code == 2
        assert "Nothing is certain of --fail-above" in done.stderr
        assert run("diff", *pair).exit_code == 0
    said = json.loads(run("diff", file, part, "--json").stdout)
    assert (said["complete"], said["problems"]) == (False, ["after: 3 events were lost"])
    done = run("report", sample, "--json")
    assert "10 times as many were there, of bytes 8 times; by type up to 10" in json.loads(done.stdout)["sample"]
    assert "Not all objects are in it: it is a sample" in done.stderr
    assert json.loads(run("report", file, "--json").stdout)["sample"] is None


def test_objects_are_those_of_all_generations(tmp_path: Path) -> None:
    path = tmp_path / "heap.nettrace"
    path.write_bytes(data_of("heap-10.nettrace"))
    said = json.loads(run("report", path, "--by", "generation", "--json").stdout)
    assert said["objects"] == sum(row["count"] for row in said["generations"]) == 3262
    assert "         3,262  GC Heap objects" in run("report", path).stdout


def test_advice_of_a_heap_without_anything_to_say(file: Path) -> None:
    assert run("advice", file).stdout == "Nothing stands out.\n"
    assert json.loads(run("advice", file, "--json").stdout) == []


def test_problems_are_said_and_counted(tmp_path: Path) -> None:
    heap = replace(chain(3), node_address=chain(3).node_address)
    path = written(heap, tmp_path / "x.gcdump")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    try:
        done = run("report", path, "--json")
    except FormatError:
        return
    assert not json.loads(done.stdout)["complete"]
    assert "not complete" in done.stderr


def test_the_report_names_what_is_missing(file: Path, tmp_path: Path) -> None:
    problems = ("one is lost", "two are lost", "x" * 200)
    assert "\nnot complete: one is lost\n" in _report_of(problems[:1], tmp_path)
    assert "\nnot complete: one is lost, and 1 more problem\n" in _report_of(problems[:2], tmp_path)
    assert "\nnot complete: one is lost, and 2 more problems\n" in _report_of(problems, tmp_path)
    assert max(map(len, _report_of(problems[2:], tmp_path).splitlines())) < 120
    assert "not complete" not in run("report", file).stdout


def _report_of(problems: tuple[str, ...], folder: Path) -> str:
    heap = replace(chain(3), completeness=Completeness(problems=problems))
    return run("report", written(heap, folder / f"{len(problems)}{len(problems[0])}.gcdump")).stdout


# files ----------------------------------------------------------------------------------------------------------------


def test_a_recording_is_the_same_as_its_gcdump(tmp_path: Path) -> None:
    path = tmp_path / "heap.nettrace"
    path.write_bytes(data_of("heap-10.nettrace"))
    (heap,) = heaps_of(path)
    said = json.loads(run("report", path, "--json").stdout)
    assert [said[name] for name in ("nodes", "edges", "bytes")] == [heap.nodes, heap.edges, heap.bytes]
    assert run("convert", path).stdout == f"{tmp_path / 'heap.gcdump'}\n"
    again = json.loads(run("report", tmp_path / "heap.gcdump", "--json").stdout)
    assert again["types"] == said["types"]
    with pytest.raises(UsageError, match="there is no dump 2: the file has 1"):
        run("report", path, "--dump", 2)
    assert run("report", path, "--dump", 1, "--json").stdout == run("report", path, "--json").stdout
    assert dd.open(tmp_path / "heap.gcdump").nodes == heap.nodes  # type: ignore[attr-defined]


def test_each_dump_of_a_recording_is_there(tmp_path: Path) -> None:
    session = usual(Session(), count=4)
    session.start(7)
    session.nodes([(A, 16, 1, 0)])
    session.edges([])
    session.roots([(A, 2, 0, 0x33)])
    session.stop(7)
    path = tmp_path / "two.nettrace"
    path.write_bytes(session.data())
    first = run("report", path, "--json")
    assert "has 2 dumps; this is the first" in first.stderr
    assert json.loads(run("report", path, "--dump", 1, "--json").stdout) == json.loads(first.stdout)
    second = json.loads(run("report", path, "--dump", 2, "--json").stdout)
    assert (second["bytes"], second["dump"], second["dumps"]) == (16, 2, 2)
    grown = run("diff", path, path, "--after-dump", 2, "--json")
    assert json.loads(grown.stdout)["grown_bytes"] == 16 - json.loads(first.stdout)["bytes"]
    assert grown.stderr == "two.nettrace has 2 dumps; this is the first, --before-dump tells which.\n"
    assert json.loads(run("diff", path, path, "--before-dump", 2, "--after-dump", 2, "--json").stdout)["types"] == []
    with pytest.raises(UsageError, match="there is no dump 3: the file has 2"):
        run("diff", path, path, "--after-dump", 3)
    assert dd.heap(path, dump=2).bytes == 16
    run("convert", path, "--dump", 2, "-o", tmp_path / "second.gcdump")
    assert dd.heap(tmp_path / "second.gcdump").bytes == 16


def test_a_recording_without_a_heap_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    path.write_bytes(SMALL["nettrace 4"])
    with pytest.raises(FormatError, match="no heap is in it"):
        dd.heap(path)


def test_every_format_is_written_at_once(file: Path) -> None:
    done = run("convert", file, "--format", "heapsnapshot,graphml", "--format", "parquet,sqlite,html", "--json")
    assert [Path(row["path"]).name for row in json.loads(done.stdout)] == [
        "x.heapsnapshot", "x.graphml", "x.nodes.parquet", "x.edges.parquet", "x.types.parquet", "x.sqlite", "x.html",
    ]  # fmt: skip
    for row in json.loads(done.stdout):
        assert Path(row["path"]).stat().st_size == row["size_bytes"] > 0
    with pytest.raises(OutputExists):
        run("convert", file, "--format", "graphml")
    assert run("convert", file, "--format", "graphml", "--force").exit_code == 0
    with pytest.raises(OutputExists):
        run("report", file, "--html", file.with_name("x.html"))
    with pytest.raises(UsageError, match="no format 'pdf'"):
        run("convert", file, "--format", "pdf")


def test_modules_that_the_reference_cannot_read_are_said_to_be_left_out(tmp_path: Path) -> None:
    rows = np.ones(1, RCW), np.zeros(0, CCW), np.zeros(0, INTERFACE)
    interop = Interop(rcws=rows[0], ccws=rows[1], interfaces=rows[2], modules=((1, 2, 3, "a"), (4, 5, 6, "b")))
    heap = replace(chain(3), facts=replace(chain(3).facts, interop=interop))
    assert modules_left_out(heap) == 2
    path = written(heap, tmp_path / "x.gcdump")
    assert modules_left_out(dd.heap(path)) == 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dotnetdiag.recipes.heap_files.open_heap", lambda *_: heap)
        done = run("convert", path, "-o", tmp_path / "y.gcdump")
        assert "2 modules of COM objects are left out" in done.stderr
        assert "left out" not in run("convert", path, "--format", "graphml").stderr


def test_a_gcdump_is_never_converted_onto_itself(file: Path) -> None:
    before = file.read_bytes()
    run("convert", file, "--format", "gcdump")
    for output in (file, file.parent / "." / file.name):
        for words in (("convert", file, "-o", output), ("report", file, "--html", output)):
            with pytest.raises(UsageError, match="is what is read"):
                run(*words, "--force")
    assert file.read_bytes() == before
    assert (file.parent / "x.converted.gcdump").exists()


def test_a_name_and_a_format_that_contradict_each_other_are_refused(file: Path) -> None:
    page = file.with_name("y.html")
    page.write_text("mine")
    for formats, output in (("html", "y.gcdump"), ("html,sqlite", "y.graphml"), ("graphml", "y.html")):
        with pytest.raises(UsageError, match="leave one of them out"):
            run("convert", file, "--format", formats, "-o", file.with_name(output), "--force")
    assert page.read_text() == "mine"
    assert run("convert", file, "--format", "").exit_code == 2
    assert run("convert", file, "--format", "html,sqlite", "-o", file.with_name("z.html")).exit_code == 0
    assert file.with_name("z.sqlite").exists()


def test_a_log_of_many_lines_is_told_in_few(tmp_path: Path) -> None:
    lines = "\n".join(f"{PREFIX}{number}" for number in range(100_000))
    made = without_own_lines(lines)
    assert (made.problems[0], len(made.problems), made.problems[-1]) == (
        "0",
        MOST_PROBLEMS + 1,
        f"{100_000 - MOST_PROBLEMS:,} other problems are in the log",
    )


def test_what_is_no_heap_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gcdump"
    path.write_bytes(b"nothing")
    with pytest.raises(FormatError):
        run("report", path)
    with pytest.raises(InputError):
        run("report", tmp_path / "absent.gcdump")
    with pytest.raises(UsageError, match="Give a FILE, or a process"):
        run("report")
    with pytest.raises(UsageError, match="one of them"):
        run("report", path, "-n", "x")


# terminals and pipes --------------------------------------------------------------------------------------------------


def hostile(folder: Path) -> Path:
    types = ["[.NET Roots]", *HOSTILE]
    heap = heap_from(types, [(0, number) for number in range(1, len(types))], sizes=[0, *([50_000] * len(HOSTILE))])
    heap = replace(heap, facts=HeapFacts(process="</script>\x1b]0;x\x07", has_sizes_in_names=False))
    return written(replace(heap, completeness=Completeness()), folder / "hostile.gcdump")


@pytest.mark.parametrize("verb", ["report", "tree", "paths", "advice"])
def test_hostile_names_reach_no_terminal(verb: str, tmp_path: Path) -> None:
    words = ["gcdump", verb, str(hostile(tmp_path)), *(["script"] if verb == "paths" else [])]
    for form in ("table", "json"):
        done = run_program(*words, "--format", form)
        assert done.returncode == 0, done.stderr
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.stdout.replace("\r\n", "\n"))


def test_no_colour_where_none_is_wanted(file: Path) -> None:
    code, shown = in_terminal(["gcdump", "report", str(file)], b"nothing", b"", NO_COLOR="1")
    assert code == 0
    assert b"\x1b[3" not in shown
    assert b"App.Node" in shown


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    path = written(
        heap_from([f"T{number}" for number in range(3000)], [(0, n) for n in range(1, 3000)]), tmp_path / "x.gcdump"
    )
    command = (
        f"{shutil.which('env')} {sys.executable} -m dotnetdiag.cli.main gcdump report {path} --number 3000 | head -1"
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "GC Heap bytes" in done.stdout
