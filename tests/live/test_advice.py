"""What stands out of programs that do one thing wrong, and of one that does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.recorded import record
from tests.live.runtimes import REQUIRED, workload

import dotnetdiag as dd

pytestmark = pytest.mark.live

RUNTIME = "Microsoft-Windows-DotNETRuntime:0x100001C0DD:5"
PROVIDERS = (
    f"{RUNTIME},Microsoft-DotNETCore-SampleProfiler:0:4,System.Diagnostics.Eventing.FrameworkEventSource:0x2:5,"
    "System.Threading.Tasks.TplEventSource:0xCB:4"
)
TRIES = 10
CASES = {
    "gc": (["gen0=20", "gen1=10", "gen2=10"], "gc", ["40 of 40 collections are induced"], "Workload.Collections.Run"),
    "contention": (["rounds=40"], "contention", ["for locks"], "Workload.Contention.Enter"),
    "threadpool": (["jobs=32"], "threadpool", ["the thread pool starves"], "Workload.Pool"),
    "exceptions": (["rounds=100"], "exceptions", ["400 exceptions", "Workload.WidgetException"], "Workload.Exceptions"),
}


@pytest.mark.parametrize("runtime", REQUIRED)
@pytest.mark.parametrize("mode", CASES)
def test_what_is_wrong_is_found_and_named(mode: str, runtime: str, tmp_path: Path) -> None:
    words, question, texts, method = CASES[mode]
    path = tmp_path / "wrong.nettrace"
    found: dict[str, str] = {}
    # on a busy machine a thread comes when the lock is free again, and 3.1 records nothing for a while behind its answer that it does
    tries = TRIES if mode == "contention" or runtime == "3.1" else 1
    for _ in range(tries):
        record(runtime, path, PROVIDERS, mode, *words)
        found = {row["question"]: row["text"] for row in dd.advice(path).findings.to_pylist()}
        if question in found:
            break
    assert question in found, found
    assert all(text in found[question] for text in texts), found
    # NativeAOT tells no names of its methods
    assert (method in found[question]) == (runtime != "NativeAOT"), found


@pytest.mark.parametrize("runtime", REQUIRED)
def test_nothing_is_said_of_a_program_that_does_nothing(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "idle.nettrace"
    with workload(runtime, "idle", "seconds=60") as target:
        dd.collect(target.pid, path, providers=PROVIDERS, duration="1s")
    assert dd.advice(path).findings.to_pylist() == []
