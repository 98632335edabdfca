"""Time by lines of source, of real runtimes and PDBs of the real compiler."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from tests.live.compiling import compiled
from tests.live.runtimes import command, unpack, workload

import dotnetdiag as dd
from dotnetdiag.assemblies.debug_directory import DebugDirectory
from dotnetdiag.assemblies.sequence_points import PortablePdb
from dotnetdiag.trace.method_names import Style

pytestmark = pytest.mark.live

SHARES = {"Workload.Cpu.Hot": 70.0, "Workload.Cpu.Warm": 20.0, "Workload.Cpu.Cold": 10.0}
PROGRAM = """\
using System;
using System.Runtime.CompilerServices;
static class Program
{
    static volatile int sink;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Heavy() { Spin(60); } // heavy

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Light() { Spin(20); } // light

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Spin(int units)
    {
        int x = sink;
        for (int i = 0; i < units * 50_000; i++)
            x = x * 1664525 + 1013904223; // spin
        sink = x;
    }

    static void Main()
    {
        Console.WriteLine("ready");
        Console.ReadLine();
        for (int i = 0; i < 400; i++)
        {
            Heavy(); // main to heavy
            Light(); // main to light
        }
        Console.WriteLine("done");
        Console.ReadLine();
    }
}
"""
LINES = {
    match[1]: number for number, line in enumerate(PROGRAM.splitlines(), 1) if (match := re.search("// (.+)", line))
}


def line_of(method: str) -> int:
    """Where the source of the workload has a method of one line."""
    source = (unpack() / "workload" / "Program.cs").read_text("utf-8").splitlines()
    (found,) = [number for number, line in enumerate(source, 1) if re.search(rf"static void {method}\(\) =>", line)]
    return found


def inclusive(path: Path, **view: str) -> dict[tuple[str, int | None, str | None], float]:
    """By method, line and kind."""
    rows = dd.source_lines(path, style=Style.SHORT, **view).to_pylist()  # type: ignore[arg-type]
    return {(row["method"], row["line"], row["line_kind"]): row["inclusive"] for row in rows}


@pytest.mark.parametrize("runtime", ["3.1", "8", "9", "10"])
def test_the_time_of_the_workload_is_on_its_lines(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "cpu.nettrace"
    with workload(runtime, "cpu", "rounds=300", "wait=stdin", "linger=stdin") as target:
        asked: list[bool] = []

        def progress(*_: object) -> None:
            if not asked:
                asked.append(True)
                target.say()

        dd.collect(target.pid, path, duration=4, progress=progress)
    found = inclusive(path, focus="Cpu.Round")
    total = sum(found[method, line_of(method.rpartition(".")[2]), "exact"] for method in SHARES)
    assert total > 0
    for method, share in SHARES.items():
        line = line_of(method.rpartition(".")[2])
        assert 100 * found[method, line, "exact"] / total == pytest.approx(share, abs=7.0)
        assert {key[1:] for key in found if key[0] == method} <= {(line, "exact"), (line, "near")}
    files = {row["file"] for row in dd.source_lines(path, focus="Cpu.Round").to_pylist() if row["line"]}
    assert files == {"/src/Program.cs"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same program with its PDB beside it, and with it inside."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in ("portable", "embedded")}
    return {
        kind: compiled(PROGRAM, folder, "spinning", f"-debug:{kind}", "-optimize+") for kind, folder in folders.items()
    }


def recorded(
    program: Path, runtime: str, path: Path, monkeypatch: pytest.MonkeyPatch, providers: str | None = None
) -> None:
    words, environment = command(runtime, "")
    (at,) = [place for place, word in enumerate(words) if word.endswith("workload.dll")]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    import subprocess

    with subprocess.Popen(
        [*words[:at], str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        asked: list[bool] = []

        def progress(*_: object) -> None:
            if not asked:
                asked.append(True)
                process.stdin.write("\n")  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]

        try:
            dd.collect(process.pid, path, duration=3, progress=progress, providers=providers)
        finally:
            process.kill()


@pytest.mark.parametrize("runtime", ["8", "10"])
@pytest.mark.parametrize("kind", ["portable", "embedded"])
def test_lines_of_a_program_with_its_pdb_beside_it_or_inside(
    kind: str, runtime: str, programs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "spinning.nettrace"
    recorded(programs[kind], runtime, path, monkeypatch)
    assert (programs[kind].with_suffix(".pdb")).exists() == (kind == "portable")
    found = inclusive(path, focus="Program.Spin")
    heavy, light = (found["Program.Main", LINES[f"main to {name}"], "exact"] for name in ("heavy", "light"))
    assert heavy / (heavy + light) == pytest.approx(0.75, abs=0.08)
    for name in ("heavy", "light"):
        assert found[f"Program.{name.capitalize()}", LINES[name], "exact"] > 0
    rows = dd.source_lines(path, focus="Program.Spin").to_pylist()
    spun = {row["line"]: row["exclusive"] for row in rows if "Spin" in row["method"]}
    loop = LINES["spin"]
    assert spun[loop] + spun.get(loop - 1, 0.0) > 0.95 * sum(spun.values())
    assert {row["file"] for row in rows if row["line"]} == {str(programs[kind].with_suffix(".cs"))}


def test_a_pdb_of_another_build_is_refused_and_the_right_one_in_a_folder_taken(
    programs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "moved").mkdir()
    program = Path(shutil.copy(programs["portable"], tmp_path))
    shutil.copy(programs["portable"].with_suffix(".runtimeconfig.json"), tmp_path)
    shutil.copy(unpack() / "workload/net8/workload.pdb", program.with_suffix(".pdb"))
    shutil.copy(programs["portable"].with_suffix(".pdb"), tmp_path / "moved")
    path = tmp_path / "spinning.nettrace"
    recorded(program, "10", path, monkeypatch)
    made = dd.source_lines(path, focus="Program.Spin")
    assert [row["line"] for row in made.to_pylist() if row["line"]] == []
    assert any("is of another build of spinning" in note for note in made.notes)
    found = inclusive(path, focus="Program.Spin", symbols=str(tmp_path))
    assert found["Program.Heavy", LINES["heavy"], "exact"] > 0


def test_the_compilers_files_name_each_other(programs: dict[str, Path]) -> None:
    beside, inside = (DebugDirectory(programs[kind].read_bytes()) for kind in ("portable", "embedded"))
    assert isinstance(beside.pdb_id, UUID)
    assert beside.pdb_id == PortablePdb(programs["portable"].with_suffix(".pdb").read_bytes()).id
    assert beside.embedded_pdb() is None
    data = inside.embedded_pdb()
    assert data is not None
    assert inside.pdb_id == PortablePdb(data).id
    assert [point.line for point in PortablePdb(data).points(0x06000001)] == [LINES["heavy"]] * 2


KEYWORDS = "+jit+loader+jittedmethodiltonativemap"
"""What says the lines of what is compiled meanwhile."""


def place_of(pattern: str) -> str:
    """Where the source of the workload has one line like that."""
    source = (unpack() / "workload" / "Program.cs").read_text("utf-8").splitlines()
    (found,) = [number for number, line in enumerate(source, 1) if re.search(pattern, line)]
    return f"Program.cs:{found}"


@pytest.mark.parametrize("runtime", ["3.1", "8", "9", "10"])
def test_who_threw_waited_allocated_and_had_it_collect_is_told_by_line(runtime: str, tmp_path: Path) -> None:
    def recorded_of(name: str, keyword: str, *words: str) -> dd.Trace:
        path = tmp_path / f"{name}.nettrace"
        with workload(runtime, name, *words, "wait=stdin", "linger=stdin") as target:
            asked: list[bool] = []

            def progress(*_: object) -> None:
                if not asked:
                    asked.append(True)
                    target.say()

            clr_events = keyword + (KEYWORDS if runtime != "3.1" else "+jit+loader")
            dd.collect(
                target.pid, path, duration=2, progress=progress, clr_events=clr_events, clr_event_level="verbose"
            )
        return dd.with_lines(path)

    def by_method(rows: list[dict[str, object]]) -> dict[str, int]:
        found: Counter[str] = Counter()
        for row in rows:
            assert isinstance(row["count"], int)
            found[str(row["method"]).rpartition(") ")[2].replace("~", "")] += row["count"]
        return dict(found)

    thrown = by_method(dd.exceptions(recorded_of("exceptions", "exception", "rounds=50")).by_method.to_pylist())
    wrap, run = place_of(r"static void Wrap\("), place_of(r'int\.Parse\("not a number"\)')
    assert thrown == {place_of(r"static void Deep\("): 50, wrap: 100, run: 50}
    waited = by_method(dd.contention(recorded_of("contention", "contention", "rounds=10")).by_method.to_pylist())
    # on a busy machine the lock may be free again before a round comes to it, and the runtime may wait for locks of its own, without a stack
    assert 1 <= waited.pop(place_of(r"static void Enter\(")) <= 10
    assert set(waited) <= {"None"}
    allocated = by_method(
        dd.allocations(recorded_of("alloc", "gc", "widgets=2000", "size=100000")).by_method.to_pylist()
    )
    assert allocated[place_of(r"static Widget Make\(")] >= 900  # each tick stands for some 100 KB of 200 MB
    induced = Counter(
        str(row["induced_by"]).rpartition(") ")[2].replace("~", "")
        for row in dd.gc(recorded_of("gc", "gc", "gen0=5", "gen1=3", "gen2=2")).collections.to_pylist()
        if row["induced_by"]
    )
    assert induced == {place_of(rf"GC\.Collect\({one},"): count for one, count in ((0, 5), (1, 3), (2, 2))}


CALLS = """\
using System;
using System.Runtime.CompilerServices;
using System.Threading;
static class Program
{
    static readonly object gate = new object();

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Check(int what)
    {
        if (what == 0)
            throw new InvalidOperationException(); // zero
        if (what == 1)
            throw new ArgumentException(); // one
        Console.Error.Write("");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Enter()
    {
        Monitor.Enter(gate); // enter
        Console.Error.Write("");
        Monitor.Exit(gate);
    }

    static void Main()
    {
        Console.WriteLine("ready");
        Console.ReadLine();
        for (int i = 0; i < 20; i++)
        {
            try { Check(0); } catch (InvalidOperationException) { }
            try { Check(1); } catch (ArgumentException) { }
            var held = new ManualResetEventSlim();
            var owner = new Thread(() => { lock (gate) { held.Set(); Thread.Sleep(20); } });
            owner.Start();
            held.Wait();
            Enter();
            owner.Join();
        }
        Console.ReadLine();
    }
}
"""


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
@pytest.mark.parametrize("optimised", ["+", "-"])
def test_the_line_is_that_of_the_call_and_not_the_next(
    optimised: str, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the stack of an event begins a call returns to: of a throw, or of a lock, that may be code of the next line (.NET 8, and 9)."""
    places = {
        match[1]: f"Program.cs:{number}"
        for number, line in enumerate(CALLS.splitlines(), 1)
        if (match := re.search("// (.+)", line))
    }
    program = compiled(CALLS, tmp_path, "calls", "-debug:portable", f"-optimize{optimised}")
    path = tmp_path / "calls.nettrace"
    recorded(program, runtime, path, monkeypatch, "Microsoft-Windows-DotNETRuntime:0x3C038:5")

    def place(method: object) -> str:
        return f"Program.cs:{str(method).rpartition(':')[2]}"

    thrown = {place(row["method"]): row["count"] for row in dd.exceptions(dd.with_lines(path)).by_method.to_pylist()}
    assert thrown == {places["zero"]: 20, places["one"]: 20}
    waits = dd.contention(dd.with_lines(path)).by_method.to_pylist()
    assert {place(row["method"]) for row in waits if "Program.Enter" in row["method"]} == {places["enter"]}
    (leaf,) = {
        row["frames"][0]
        for row in dd.sql(dd.with_lines(path), 'select frames from "Contention/Start"').to_pylist()
        if "Program.Enter" in row["frames"][0]
    } or {f"Enter {places['enter']}"}
    assert place(leaf) == places["enter"]
