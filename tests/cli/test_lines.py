"""``--by line`` of reports that name methods: the line of who threw, on a recording and a PDB made by hand."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest
from tests.analysis.test_nameless import thrown
from tests.assemblies.test_sequence_points import SIMPLE, pdb
from tests.cli.test_commands import run
from tests.recipes.test_source_lines import ID, MAPS, recorded

import dotnetdiag as dd
from dotnetdiag.analysis.method_words import short
from dotnetdiag.errors import InputError
from dotnetdiag.trace.frame import Frame
from dotnetdiag.trace.line_symbols import LineSymbols

KINDS = (
    "gc", "allocations", "exceptions", "contention", "waits", "threadpool", "tasks", "loader", "startup", "advice",
)  # fmt: skip
THROWN, SAMPLED, CALLED = "app!P.Leaf() A.cs:10", "app!P.Leaf() A.cs:12", "app!P.Main() A.cs:4"
"""Both are of 0x10 of its code: a sample is of what comes there, an event of the call that ends there."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording of ``tmp_path/bin/app.dll``, which is not there; its PDB is in ``tmp_path/symbols``."""
    path = tmp_path / "app.nettrace"
    path.write_bytes(recorded(tmp_path / "bin", thrown(20, "P.Leaf", "P.Main"), *MAPS).raw.buffer.tobytes())
    (tmp_path / "symbols").mkdir()
    (tmp_path / "symbols" / "app.pdb").write_bytes(pdb((1, SIMPLE), pdb_id=ID))
    return path


def used(profile: dd.StackProfile) -> list[Frame]:
    return [profile.frames[number] for number in profile.used_frames().tolist()]


def notes_of(trace: dd.Trace) -> tuple[str, ...]:
    symbols = trace.raw.symbols
    assert isinstance(symbols, LineSymbols)
    return symbols.notes


def test_who_threw_is_told_by_the_line(file: Path) -> None:
    words = ("trace", "report", str(file), "exceptions", "--json")
    plain = run(*words)
    lined = run(*words, "--by", "line", "--symbols", str(file.parent / "symbols"))
    assert [row["method"] for row in json.loads(plain.stdout)["thrown"]] == ["app!P.Leaf()"]
    assert [row["method"] for row in json.loads(lined.stdout)["thrown"]] == [THROWN]
    assert lined.stderr == plain.stderr == ""


def test_without_a_pdb_why_there_are_no_lines_is_said(file: Path) -> None:
    made = run("trace", "report", str(file), "exceptions", "--by", "line")
    assert "app!P.Leaf()" in made.stdout
    assert "note: no lines, for there is no PDB at hand: of app" in made.stderr.splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_that_names_methods_has_lines(kind: str, file: Path) -> None:
    assert run("trace", "report", str(file), kind, "--by", "line", "--symbols", str(file.parent)).returncode == 0
    made = run("trace", "report", str(file), kind, "--symbols", str(file.parent))
    assert made.stderr == "error: folders of symbols are for lines of source; --symbols needs --by line\n"
    wrong = run("trace", "report", str(file), kind, "--by", "line", "--symbols", "nowhere")
    assert "nowhere: it is no folder" in wrong.stderr


def test_a_page_of_all_has_lines(file: Path) -> None:
    page = file.parent / "app.html"
    words = ("trace", "report", str(file), "all", "--html", str(page))
    assert run(*words).returncode == 0
    plain = page.read_text("utf-8")
    assert run(*words, "--force", "--by", "line", "--symbols", str(file.parent)).returncode == 0
    lined = page.read_text("utf-8")
    assert [(one in plain, one in lined) for one in ("A.cs:10", "A.cs:12")] == [(False, True)] * 2
    assert len(lined) >= len(plain)


def test_queries_have_lines(file: Path) -> None:
    words = ("trace", "sql", str(file), 'select leaf, frames from "Exception/Start"', "--json")
    made = run(*words, "--by", "line", "--symbols", str(file.parent))
    assert json.loads(made.stdout) == [{"leaf": THROWN, "frames": [THROWN, CALLED]}]
    assert made.stderr == ""
    assert "note: no lines, for there is no PDB at hand: of app" in run(*words, "--by", "line").stderr.splitlines()
    assert "--symbols needs --by line" in run(*words, "--symbols", str(file.parent)).stderr


def test_two_recordings_have_the_lines_of_each(file: Path) -> None:
    other = file.with_name("other.nettrace")
    shutil.copy(file, other)
    words = ("trace", "report", str(file), str(other), "exceptions", "--json", "--by", "line")
    said = json.loads(run(*words, "--symbols", str(file.parent)).stdout)
    assert [[row["method"] for row in one["thrown"]] for one in said] == [[THROWN]] * 2


def test_a_trace_with_lines_has_them_in_every_question(file: Path) -> None:
    trace = dd.with_lines(file, file.parent)
    assert dd.exceptions(trace).thrown[0]["method"] == THROWN
    assert {frame.name() for frame in used(dd.cpu(trace))} == {SAMPLED, CALLED}
    (row,) = dd.sql(trace, 'select frames from "Exception/Start"').to_pylist()
    assert row["frames"] == [THROWN, CALLED]
    elsewhere = pickle.loads(pickle.dumps(dd.dataset(trace)))
    (row,) = elsewhere.sql('select frames from "Exception/Start"').to_pylist()
    assert row["frames"] == [THROWN, CALLED]
    assert {frame.name() for frame in used(dd.stacks(trace, "Exception/Start"))} == {THROWN, CALLED}
    assert {frame.name() for frame in used(dd.stacks(trace))} == {SAMPLED, CALLED}
    assert notes_of(trace) == ()
    alone = dd.with_lines(dd.open(file), [])
    assert dd.exceptions(alone).thrown[0]["method"] == "app!P.Leaf()"
    assert notes_of(alone) == ("no lines, for there is no PDB at hand: of app",)
    with pytest.raises(InputError):
        dd.with_lines(file, file.parent / "nowhere")


@pytest.mark.parametrize(
    ("name", "as_short"),
    [
        ("app!P.Leaf(int32) A.cs:12", "P.Leaf A.cs:12"),
        ("app!P.Leaf(class System.Func`1<int32>) A.cs:~12", "P.Leaf A.cs:~12"),
        ("app!P.Leaf(int32[0])", "P.Leaf"),
        ("app!P.Leaf(int32) A (2).cs:~12", "P.Leaf A (2).cs:~12"),
        ("app!P.Leaf(method void *(int32)) A.cs:12", "P.Leaf A.cs:12"),
        ("app!P.Leaf", "P.Leaf"),
        ("libc.so!0x12", "0x12"),
        ("Leaf", "Leaf"),
    ],
)
def test_short_names_keep_their_lines(name: str, as_short: str) -> None:
    assert short(name) == as_short
