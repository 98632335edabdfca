"""Starts from the first instruction on: phases, assemblies, and one that is not there."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tests.live.compiling import compiled
from tests.live.runtimes import command
from tests.nettrace.recordings import recording

import dotnetdiag as dd
from dotnetdiag.analysis.startup import NO_START, no_events
from dotnetdiag.analysis.startup_phases import PHASES

pytestmark = pytest.mark.live

EVENTS = {"clr_events": "loader+assemblyloader+jit", "clr_event_level": "verbose"}
MISSING = """
using System;
using System.Reflection;
class Program
{
    static void Main()
    {
        try { Assembly.Load("Nobody.Has.This, Version=1.2.3.4"); }
        catch (Exception error) { Console.WriteLine(error.GetType().Name); }
    }
}
"""


def collect(words: list[str], environment: dict[str, str], path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    dd.collect(output=path, command=words, **EVENTS)  # type: ignore[arg-type]


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_a_start_has_its_phases(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, environment = command(runtime, "generics")
    path = tmp_path / "start.nettrace"
    collect(words, environment, path, monkeypatch)
    made = dd.startup(path)
    rows = made.phases.to_pylist()
    assert [row["phase"] for row in rows] == list(PHASES)
    assert made.totals.program == "workload"
    assert (rows[0]["start_ms"], made.notes) == (0.0, (no_events(["pause", "exceptions"]),))
    assert {row[name] for row in rows for name in ("collections", "pause_ms", "exceptions")} == {None}
    for row, following in pairwise(rows):
        assert row["start_ms"] + row["duration_ms"] == pytest.approx(following["start_ms"])
    assert rows[-1]["start_ms"] == made.totals.main_ms
    assert rows[-1]["start_ms"] + rows[-1]["duration_ms"] == pytest.approx(made.totals.end_ms)
    loader, jit = dd.loader(path), dd.jit(path)
    assert (
        sum(row["assemblies"] for row in rows) == loader.totals.assemblies == len(dd.open(path)["Loader/AssemblyLoad"])
    )
    assert sum(row["methods"] for row in rows) == jit.totals.count
    assert sum(row["compile_ms"] for row in rows) == pytest.approx(jit.totals.compile_ms)
    assert loader.totals.failed == 0
    names = [name.partition(",")[0] for name in loader.assemblies.values("assembly")]
    assert names[:2] == ["System.Private.CoreLib", "workload"]
    assert {Path(one).stem for one in loader.assemblies.values("path")} == set(names)
    assert made.totals.main_ms is not None
    first = dd.startup(path, made.totals.main_ms / 1000)
    assert [row["phase"] for row in first.phases.to_pylist()] == list(PHASES[:-1])


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_a_bind_that_fails_is_named_with_who_wanted_it(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compiled(MISSING, tmp_path, "missing")
    words, environment = command(runtime)
    path = tmp_path / "missing.nettrace"
    collect([*words[:-1], str(program)], environment, path, monkeypatch)
    made = dd.loader(path)
    failed = [row for row in made.binds.to_pylist() if row["success"] == 0]
    assert made.totals.failed == len(failed) > 0
    assert {row["assembly"].partition(",")[0] for row in failed} == {"Nobody.Has.This"}
    assert all(row["requested_by"].startswith("missing,") for row in failed)
    assert any(row["error"] for row in failed)
    assert made.totals.bind_ms == pytest.approx(sum(row["duration_ms"] for row in made.binds.to_pylist()), rel=0.5)


def test_a_recording_that_does_not_begin_with_a_program_says_so() -> None:
    made = dd.startup(recording("web-10.nettrace"))
    assert (len(made.phases), made.notes, made.totals.program) == (0, (NO_START,), None)
