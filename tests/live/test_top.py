"""``trace watch --top`` on real runtimes: whose time it is, with names of methods of before and of those that come later."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from tests.live.runtimes import Target, workload
from tests.live.test_watch import watching as watching_events
from tests.shared import needs

import dotnetdiag as dd
from dotnetdiag.analysis.cpu import SAMPLER, CpuFold
from dotnetdiag.live import LiveSymbols
from dotnetdiag.recipes.top import METHODS
from dotnetdiag.trace.method_names import Style

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]
PYTHON = [sys.executable, "-m", "dotnetdiag.cli.main"]
SPINS, CALLS_IT = "workload!Workload.Cpu.Spin(int32)", "workload!Workload.Cpu.Run(int32)"


def watching(target: Target, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """A watcher whose session runs."""
    return watching_events(target, "--top", *arguments)


def tops(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    return map(json.loads, process.stdout)


def row(top: dict[str, Any], name: str) -> dict[str, Any]:
    return next((one for one in top["rows"] if one["name"] == name), {"inclusive_percent": 0.0})


@pytest.mark.parametrize("runtime", ["3.1", "8", "9", "10"])  # NativeAOT has no sample profiler: see below
def test_the_method_that_spins_has_the_time_of_its_thread(runtime: str) -> None:
    with (
        workload(runtime, "cpu+idle", "rounds=1000000", "wait=stdin") as target,
        watching(target, "50", "--json", "--interval", "300ms") as watcher,
    ):
        target.say()  # it is compiled, and compiled again, while we watch
        threads = 0
        for top in tops(watcher):
            threads = top["threads"]
            spins, calls = row(top, SPINS), row(top, CALLS_IT)
            # one of the threads that are there, all of the time of an interval; precompiled code that they wait in is named soon
            if threads and spins["inclusive_percent"] > 90 / threads and not top["unresolved"]:
                break
        assert calls["exclusive_percent"] < 10 / threads < 90 / threads < calls["inclusive_percent"]
        assert 0 < spins["exclusive_percent_since_start"] <= 100
        assert top["unit"] == "ms"
        assert top["missed"] == 0
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(60) == 0
        assert target.alive


def test_a_question_of_ones_own_is_fed_with_the_windows_of_a_watch() -> None:
    with workload("10", "cpu+idle", "rounds=1000000", "wait=stdin") as target:
        symbols, asked = LiveSymbols(), CpuFold(weight="samples")
        live = dd.watch(dd.Client(target.pid), f"{SAMPLER},{METHODS}", limit=2000, symbols=symbols)
        target.say()
        with live:
            for window in live.windows():
                asked.feed(window)
    # what was compiled while it ran has a name, and what was there before has none: for that there is add_rundown
    found = {row.name(Style.SHORT): row.inclusive for row in asked.result().top(1000)}
    assert found["Workload.Cpu.Run"] >= found["Workload.Cpu.Spin"] > 0


def test_events_are_counted_where_they_happen() -> None:
    with (
        workload("10", "gc+idle", "gen0=20", "wait=stdin", "linger=stdin") as target,
        watching(target, "--json", "--interval", "200ms", "--clrevents", "gc", "--event", "GC/Triggered") as watcher,
    ):
        target.say()
        top = next(one for one in tops(watcher) if one["samples"])
        assert top["unit"] == "events"
        assert any("Workload" in one["name"] for one in top["rows"])


def test_blocks_for_people_come_until_the_program_ends() -> None:
    with (
        workload("10", "cpu", "rounds=50", "wait=stdin") as target,
        watching(target, "3", "--short", "--state", "cpu", "--interval", "100ms") as watcher,
    ):
        target.say()
        out, err = watcher.communicate(timeout=60)
    # a runtime that exits may be gone before it has ended its sessions (once in some hundred runs): that is told, with 2
    assert watcher.returncode == 0 or " before the session had its end" in err, err
    heads = [block.splitlines()[:2] for block in out.strip().split("\n\n")]
    assert all(len(head) == 2 and " samples of " in head[0] and head[1].endswith("method") for head in heads)
    assert "Cpu.Spin" in out
    assert "events read, " in err.splitlines()[-1]


def test_native_aot_has_no_samples_and_that_is_said() -> None:
    with workload("NativeAOT", "idle", "seconds=1000") as target:
        done = subprocess.run(
            [*PYTHON, "trace", "watch", "-p", str(target.pid), "--top"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 4
        assert "NativeAOT has no sample profiler" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_runtime_that_is_resumed_by_it_has_names_from_its_first_method_on() -> None:
    with (
        workload("10", "cpu+idle", "rounds=1000000", suspended=True) as target,
        watching(target, "50", "--json", "--interval", "300ms") as watcher,
    ):
        assert any(row(top, SPINS)["inclusive_percent"] > 0 for top in tops(watcher))
