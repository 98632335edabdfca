"""Exceptions of a program that says how many it throws, on all runtimes: who threw, who caught."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.compiling import compiled
from tests.live.recorded import record
from tests.live.runtimes import REQUIRED, command

import dotnetdiag as dd
from dotnetdiag.analysis.exceptions import NO_CATCHES
from dotnetdiag.analysis.stacked import NO_STACKS

pytestmark = pytest.mark.live

PROVIDERS = "Microsoft-Windows-DotNETRuntime:0x8000:4"
ROUNDS = 10
DEEP, WRAP, RUN = (
    f"workload!Workload.Exceptions.{name}" for name in ("Deep(int32,int32)", "Wrap(int32)", "Run(int32)")
)
FILTERS = """
using System;
class Program
{
    static void Main()
    {
        for (int i = 0; i < 5; i++)
        {
            try { try { throw new InvalidOperationException("inner"); } finally { Console.Out.Flush(); } }
            catch (InvalidOperationException error) when (error.Message == "inner") { }
        }
        try { try { throw new ArgumentException("again"); } catch (ArgumentException) { throw; } } catch (ArgumentException) { }
    }
}
"""

LEFT = """
using System;
using System.Runtime.CompilerServices;
class Program
{
    const MethodImplOptions Own = MethodImplOptions.NoInlining;
    static string nothing = null;
    [MethodImpl(Own)] static void Throw(string name) { throw new InvalidOperationException(name); }
    [MethodImpl(Own)] static bool Leaves(string name) { Throw(name + " leaves"); return true; }
    [MethodImpl(Own)] static bool Catches(string name)
    {
        try { Throw(name + " inside"); } catch (InvalidOperationException) { }
        return false;
    }
    [MethodImpl(Own)] static bool LeavesByFinally(string name)
    {
        try { Throw(name + " leaves"); } finally { Console.Out.Flush(); }
        return true;
    }
    [MethodImpl(Own)] static void Filtered(string name, Func<string, bool> filter)
    {
        try { try { Throw(name); } finally { Console.Out.Flush(); } } catch (Exception) when (filter(name)) { }
    }
    [MethodImpl(Own)] static bool Nested(string name)
    {
        try { Filtered(name + " inside", Leaves); } catch (Exception) { }
        return false;
    }
    [MethodImpl(Own)] static void Funclet(string name)
    {
        try { Throw(name); } catch (Exception) when (nothing.Length > 0) { }
    }
    [MethodImpl(Own)] static void Held(string name)
    {
        try { Throw(name); } catch (Exception) { Top(() => Filtered("while held", Leaves)); }
    }
    [MethodImpl(Own)] static void Top(Action run) { try { run(); } catch (Exception) { } }
    [MethodImpl(Own)] static void Deep(int frames, Action run)
    {
        if (frames == 0) { run(); return; }
        Deep(frames - 1, run);
        nothing = null;
    }
    static void Main()
    {
        Top(() => Filtered("calls", Leaves));
        Top(() => Filtered("catches", Catches));
        Top(() => Filtered("finally", LeavesByFinally));
        Top(() => Filtered("nested", Nested));
        Top(() => Funclet("funclet"));
        Top(() => Held("held"));
        Deep(150, () => Top(() => Filtered("cut catches", Catches)));
        Deep(150, () => Top(() => Filtered("cut", Leaves)));
        Top(() => Throw("last"));
    }
}
"""


@pytest.mark.parametrize("runtime", REQUIRED)
def test_every_throw_has_who_threw_and_who_caught(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "exceptions.nettrace"
    said = record(runtime, path, PROVIDERS, "exceptions", f"rounds={ROUNDS}")
    made = dd.exceptions(path)
    counts = dict(zip(made.by_type.values("type"), made.by_type.values("count"), strict=True))
    assert {name.rpartition(".")[2]: count for name, count in counts.items()} == {
        name: int(count) for name, count in said.items()
    }
    assert made.profile.total == made.count
    if runtime == "NativeAOT":
        assert (made.totals.caught, made.totals.catch_ms, made.notes) == (None, None, (NO_CATCHES, NO_STACKS))
        return
    assert made.totals.caught == made.count
    caught = {(row["type"], row["caught_by"]): row["count"] for row in made.by_catch.to_pylist()}
    assert caught == {
        ("Workload.WidgetException", RUN): 2 * ROUNDS,
        ("System.ArgumentException", WRAP): ROUNDS,
        ("System.FormatException", RUN): ROUNDS,
    }
    thrown = {(row["type"], row["method"]): row["count"] for row in made.by_method.to_pylist()}
    assert thrown[("Workload.WidgetException", DEEP)] == thrown[("System.ArgumentException", WRAP)] == ROUNDS
    assert all(0 < row["catch_ms"] < 1000 for row in made.thrown.to_pylist())


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_filters_finallys_and_what_is_thrown_again(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, environment = command(runtime)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "filters.nettrace"
    dd.collect(output=path, command=[*words[:-1], str(compiled(FILTERS, tmp_path, "filters"))], clr_events="exception")
    made = dd.exceptions(path)
    inner = [row for row in made.thrown.to_pylist() if row["message"] == "inner"]
    assert len(inner) == 5
    assert all((row["filters"], row["finallys"]) == (1, 1) and row["finally_ms"] > 0 for row in inner)
    again = [row for row in made.thrown.to_pylist() if row["message"] == "again"]
    # 9 and later do not tell of what is thrown again
    assert [row["again"] for row in again] == ([0, 1] if runtime == "8" else [0])
    assert made.totals.again == len(again) - 1
    assert all(row["caught_by"] == "filters!Program.Main()" for row in made.thrown.to_pylist())


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_what_leaves_a_filter_is_caught_by_nobody(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, environment = command(runtime)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "left.nettrace"
    dd.collect(output=path, command=[*words[:-1], str(compiled(LEFT, tmp_path, "left"))], clr_events="exception")
    told = {
        row["message"]: (
            row["caught_by"] and row["caught_by"].rpartition("Program.")[2].partition("(")[0],
            row["finallys"],
        )
        for row in dd.exceptions(path).thrown
    }
    is_cut = runtime == "8"  # later ones tell of the end of each filter
    assert told == {
        "calls": ("Top", 1),
        "calls leaves": (None, 0),
        "catches": ("Top", 1),
        "catches inside": ("Catches", 0),
        "finally": ("Top", 1),
        "finally leaves": (None, 1),
        "nested": ("Top", 1),
        "nested inside": ("Nested", 1),
        "nested inside leaves": (None, 0),
        "funclet": ("Top", 0),
        "Object reference not set to an instance of an object.": (None, 0),
        "held": ("Held", 0),
        "while held": ("Top", 1),
        "while held leaves": (None, 0),
        "cut catches": ("Top", 1),
        "cut catches inside": ("Catches", 0),
        "cut": (None, None) if is_cut else ("Top", 1),
        "cut leaves": (None, None if is_cut else 0),
        "last": ("Top", 0),
    }
