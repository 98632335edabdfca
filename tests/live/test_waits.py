"""Locks that are known to be held for 10 ms, on all runtimes."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tests.live.recorded import record
from tests.live.runtimes import REQUIRED

import dotnetdiag as dd
from dotnetdiag.analysis.waits import MANAGED_IDS, NO_OWNERS, NO_WAITS, WaitReport

pytestmark = pytest.mark.live

PROVIDERS = "Microsoft-Windows-DotNETRuntime:0x40000014018:5"
ROUNDS = 20
HELD_MS = 10
TRIES, MOST = 10, 0.8
EDGE_MS = 0.5
"""The runtime measures a contention a little longer than its events are apart."""
ENTER = "workload!Workload.Contention.Enter()"


@pytest.fixture(scope="module", params=REQUIRED)
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def recorded(runtime: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("waits") / "contention.nettrace"
    best = path.with_name("best.nettrace")
    found = -1
    for _ in range(TRIES):  # on a busy machine a thread comes when the lock is free again
        assert record(runtime, path, PROVIDERS, "contention", f"rounds={ROUNDS}") == {"rounds": str(ROUNDS)}
        count = len(of_lock(runtime, dd.contention(path)))
        if count > found:
            found = count
            path.replace(best)
        if count >= ROUNDS * MOST:
            break
    return best


def told(path: Path) -> list[tuple[int, float, float]]:
    """(thread, begin, duration in ms) of each time that a thread waited for a lock, by the events alone: how often it had to, no account says."""
    since: dict[int, float] = {}
    found = []
    with dd.open(path) as trace:
        for event in trace:
            if event.event == "Contention/Start":
                since[event.tid] = event.ms
            elif event.event == "Contention/Stop":
                begin = since.pop(event.tid)
                found.append((event.tid, begin, event.ms - begin))
    return sorted(found)


def of_lock(runtime: str, made: WaitReport) -> list[dict[str, Any]]:
    """Those of the method that waits for the lock; 9 and 10 have some of events that are set, too, and now and then one without a stack."""
    method = None if runtime == "NativeAOT" else ENTER
    return [row for row in made.waits.to_pylist() if row["method"] == method and row["duration_ms"] > 1]


def test_each_time_that_a_lock_was_held_is_found(runtime: str, recorded: Path) -> None:
    made = dd.contention(recorded)
    waits = of_lock(runtime, made)
    assert 1 <= len(waits) <= ROUNDS
    assert made.totals.unfinished == 0
    # who comes late waits for the rest of it only: on a busy machine most do
    assert max(row["duration_ms"] for row in waits) >= HELD_MS - 1
    found = sorted((row["tid"], row["start_ms"], row["duration_ms"]) for row in made.waits.to_pylist())
    assert [one[:2] for one in found] == [pytest.approx(one[:2]) for one in told(recorded)]
    # the runtime measures each, and on a busy machine may wait before it writes so
    apart = [abs(one[2] - other[2]) for one, other in zip(found, told(recorded), strict=True)]
    assert median(apart) <= EDGE_MS
    assert max(apart) < HELD_MS
    assert {row["tid"] for row in waits} == {waits[0]["tid"]}
    first = made.by_method[0]
    assert first["method"] == (None if runtime == "NativeAOT" else ENTER)
    assert first["count"] >= len(waits)
    assert made.profile.total == pytest.approx(made.totals.total_ms)
    if runtime == "3.1":
        assert (len(made.by_lock), len(made.by_owner), made.notes) == (0, 0, (NO_OWNERS,))
        return
    # one object, whose owner is another thread each time
    assert len({row["lock"] for row in waits}) == len({row["object"] for row in waits}) == 1
    assert made.by_lock[0]["count"] >= len(waits)
    assert made.by_lock[0]["object"] == waits[0]["object"]
    owners = {row["owner_tid"] for row in waits}
    assert len(owners) == len(waits)
    assert owners <= set(made.by_owner.values("owner_tid"))
    assert waits[0]["tid"] not in owners
    assert (MANAGED_IDS in made.notes) == (runtime == "NativeAOT")


def test_what_a_thread_waits_for_within_a_lock_is_told_apart(runtime: str, recorded: Path) -> None:
    made = dd.waits(recorded)
    if runtime in ("3.1", "8"):
        assert (len(made.waits), made.notes) == (0, (NO_WAITS,))
        return
    contended = [(row["tid"], row["start_ms"]) for row in dd.contention(recorded).waits.to_pylist()]
    durations = [row["duration_ms"] for row in dd.contention(recorded).waits.to_pylist()]
    within = {place: 0.0 for place, duration in enumerate(durations) if duration > 1}
    for row in made.waits.to_pylist():
        places = [
            place
            for place, (tid, start_ms) in enumerate(contended)
            if tid == row["tid"] and 0 <= row["start_ms"] - start_ms <= durations[place] + EDGE_MS
        ]
        if row["source"] == "Contention":
            assert places, row
        elif places:
            assert row["start_ms"] > contended[places[-1]][1] + durations[places[-1]] - EDGE_MS
        if row["source"] == "Contention" and places[-1] in within:
            within[places[-1]] += row["duration_ms"]
    assert within
    for place, waited_ms in within.items():
        assert waited_ms == pytest.approx(durations[place], abs=max(2.0, 0.5 * durations[place]))
    assert made.totals.total_ms == pytest.approx(sum(row["duration_ms"] or 0 for row in made.waits.to_pylist()))
