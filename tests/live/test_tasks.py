"""Chains of tasks whose source is known, on all runtimes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.recorded import record
from tests.live.runtimes import REQUIRED

import dotnetdiag as dd

pytestmark = pytest.mark.live

PROVIDERS = "System.Threading.Tasks.TplEventSource:0xB:5"
ROUNDS = 6
TRIES = 10
CHAIN = ["Run", "First", "Second"]
"""Run awaits First, which awaits Second, which awaits a delay of 1 ms."""


@pytest.mark.parametrize("runtime", REQUIRED)
def test_what_awaits_what(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "tasks.nettrace"
    for _ in range(TRIES):
        record(runtime, path, PROVIDERS, "async", f"rounds={ROUNDS}")
        made = dd.tasks(path)
        whole, *early = sorted(
            (row for row in made.awaits.to_pylist() if row["depth"] == 1), key=lambda row: row["kind"] != "Synchronous"
        )
        # what was awaited and done before the thread began to wait for all of it is a chain of its own
        assert all(row["start_ms"] + row["duration_ms"] <= whole["start_ms"] for row in early)
        assert made.totals.chains == 1 + len(early)
        if not early:
            break
    assert (made.totals.blocking, made.totals.unfinished) == (1, 0)
    assert (made.totals.chains, made.totals.deepest) == (1, 4)
    rows = made.awaits.to_pylist()
    by_depth = {depth: [row for row in rows if row["depth"] == depth] for depth in (1, 2, 3, 4)}
    # one of each in a round, and the thread that waits for all of it; what is done already is not awaited, as on a busy machine
    first, *others = (len(some) for some in by_depth.values())
    assert first == 1
    assert all(ROUNDS // 2 <= count <= ROUNDS for count in others)
    assert made.totals.count == first + sum(others)
    assert by_depth[1][0]["kind"] == "Synchronous"
    for depth, name in zip((2, 3, 4), CHAIN, strict=True):
        assert all(f"<{name}>" in row["method"] for row in by_depth[depth])
        # awaited by what the await one level above is of
        above = {row["task"] for row in by_depth[depth - 1]}
        assert {row["awaited_by"] for row in by_depth[depth]} <= above
        assert all(row["kind"] == "Asynchronous" for row in by_depth[depth])
    if runtime != "3.1":  # which has no names of tasks
        assert {row["name"] for row in by_depth[4]} == {"Task.Delay"}
        assert all("<Second>" in row["name"] for row in by_depth[3])
    own = {row["method"]: row for row in made.by_method.to_pylist()}
    waited = next(row for method, row in own.items() if "<Second>" in (method or ""))
    assert waited["own_ms"] == pytest.approx(waited["total_ms"])
    assert waited["own_ms"] >= len(by_depth[4]) * 0.5
    assert made.by_method[0]["own_ms"] == max(row["own_ms"] for row in own.values())
    # the logical stacks add up to the time of the whole chain, but for what began before the thread waited for it
    whole = by_depth[1][0]["duration_ms"]
    assert made.profile.total >= whole - 1e-6
    assert made.profile.focus("Run").focus("First").focus("Second").total == pytest.approx(waited["own_ms"])
    chain = made.chains[0]
    assert (len(made.chains), chain["duration_ms"]) == (1, whole)
    assert 2 <= chain["depth"] <= 4
    named = [one for one in CHAIN if one in chain["chain"]]
    assert named == CHAIN[: chain["depth"] - 1]
