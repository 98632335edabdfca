"""Methods that are compiled as TraceEvent's own analysis sees them, value by value."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.live.compiling import compiled
from tests.live.recorded import record
from tests.live.runtimes import REQUIRED, command, workload
from tests.live.test_reference_reader import oracle

import dotnetdiag as dd

pytestmark = pytest.mark.live

SAME = {"method": "method", "tier": "tier", "kind": "kind", "il_bytes": "il", "native_bytes": "native"}


EVENTS: dict[str, Any] = {"clr_events": "jit+compilation", "clr_event_level": "verbose"}


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_the_methods_of_a_program_from_its_start(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, environment = command(runtime, "generics+cpu", "rounds=100")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    dd.collect(output=tmp_path / "jit.nettrace", command=words, **EVENTS)
    assert_the_same(tmp_path / "jit.nettrace")


@pytest.mark.parametrize("events", ["jit+compilation", "jit"])
def test_the_methods_of_a_program_that_runs(events: str, tmp_path: Path) -> None:
    """3.1 starts no session before it is asked, and compiles in the background on threads of the pool."""
    path = tmp_path / "jit.nettrace"
    with workload("3.1", "cpu", "rounds=100", "wait=stdin", "linger=stdin") as target:
        asked: list[bool] = []

        def progress(*_: object) -> None:
            if not asked:
                asked.append(True)
                target.say()

        dd.collect(target.pid, path, duration=3, progress=progress, **{**EVENTS, "clr_events": events})
    assert_the_same(path)


PROXIES = """
using System.Reflection; using System.Reflection.Emit;
var module = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("Proxies"), AssemblyBuilderAccess.Run).DefineDynamicModule("Proxies");
for (int at = 0; at < 40; at++)
{
    var type = module.DefineType("Proxy" + at, TypeAttributes.Public);
    var code = type.DefineMethod("Answer", MethodAttributes.Public | MethodAttributes.Static, typeof(int), null).GetILGenerator();
    code.Emit(OpCodes.Ldc_I4, at);
    code.Emit(OpCodes.Ret);
    type.CreateType().GetMethod("Answer").CreateDelegate<System.Func<int>>()();
}
"""


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_what_a_program_makes_itself_is_told(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, environment = command(runtime)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    program, path = compiled(PROXIES, tmp_path, "proxies"), tmp_path / "jit.nettrace"
    dd.collect(output=path, command=[*words[:-1], str(program)], preset="jit")
    rows = dd.jit(path).methods.to_pylist()
    made = {row["method"] for row in rows if row["dynamic"] and not row["method"].startswith("dynamicClass.")}
    assert made == {f"Proxy{at}.Answer()" for at in range(40)}


def assert_the_same(path: Path) -> None:
    """Ours and theirs agree in every compilation."""
    made = dd.jit(path)
    *theirs, end = oracle("jitstats", path)
    expected = {(round(row["start_ms"], 3), row["tid"]): row for row in theirs}
    wrong: Counter[str] = Counter()
    for row in made.methods.to_pylist():
        other = expected.pop((round(row["start_ms"], 3), row["tid"]))
        for name, their_name in SAME.items():
            wrong[name] += row[name] != other[their_name]
        wrong["compile_ms"] += row["compile_ms"] != pytest.approx(other["compile_ms"], abs=1e-3)
    assert (+wrong, expected) == (Counter(), {})
    totals = made.totals
    assert totals.count == end["count"] > 0
    assert (totals.foreground, totals.il_bytes, totals.native_bytes) == (end["foreground"], end["il"], end["native"])
    assert totals.compile_ms == pytest.approx(end["total_ms"])
    assert totals.unfinished == 0


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_who_waited_is_known_without_the_keyword_that_tells_it(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what is told with the keyword, the ends of compilations tell it too."""
    words, environment = command(runtime, "generics+cpu", "rounds=100")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    path, without = tmp_path / "jit.nettrace", tmp_path / "without.nettrace"
    dd.collect(output=path, command=words, **EVENTS)
    dd.filter(path, without, events=["Method/JittingStarted", "Method/LoadVerbose"])
    told, found = (dd.jit(one).methods for one in (path, without))
    assert "TieredCompilationBackground" in told.values("kind")
    assert found.values("kind") == told.values("kind")


@pytest.mark.parametrize("runtime", REQUIRED)
def test_what_was_not_inlined_and_what_was_compiled_although_it_was_compiled_ahead(
    runtime: str, tmp_path: Path
) -> None:
    path = tmp_path / "jit.nettrace"
    record(runtime, path, "Microsoft-Windows-DotNETRuntime:0x2000001010:5", "generics")
    made = dd.jit(path)
    if runtime == "NativeAOT":
        assert (made.totals.count, made.totals.precompiled, made.totals.inlining) == (0, None, None)
        return
    trace = dd.open(path)
    failed, entries = trace["Method/InliningFailed"], trace["Method/R2RGetEntryPoint"]
    assert made.totals.inlining is not None
    assert made.totals.inlining.failed == sum(made.inlining.values("count")) == len(failed)
    assert made.totals.inlining.inlined == len(trace["Method/InliningSucceeded"])
    reasons = Counter(failed.values("payload.FailReason"))
    told: Counter[str] = Counter()
    for row in made.inlining.to_pylist():
        told[row["reason"]] += row["count"]
    assert told == reasons
    points = dict(zip(entries.values("payload.MethodID"), entries.values("payload.EntryPoint"), strict=True))
    started = trace["Method/JittingStarted"].values("payload.MethodID")
    assert made.methods.values("rejected") == [int(points.get(one, 1) == 0) for one in started]
    assert made.totals.rejected == sum(points.get(one, 1) == 0 for one in set(started)) > 0
    assert made.totals.precompiled == sum(one != 0 for one in entries.values("payload.EntryPoint"))
    assert made.totals.again == len(started) - len(set(started))
    assert sum(made.by_method.values("count")) == len(started)
    assert sum(made.by_method.values("compile_ms")) == pytest.approx(made.totals.compile_ms)
