"""A pool of two threads that sixty-four jobs of 100 ms wait for, on all runtimes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tests.live.recorded import record
from tests.live.runtimes import REQUIRED

import dotnetdiag as dd
from dotnetdiag.analysis.thread_pool import ONLY_TASKS

pytestmark = pytest.mark.live

RUNTIME = "Microsoft-Windows-DotNETRuntime:0x10000:4"
QUEUE = "System.Diagnostics.Eventing.FrameworkEventSource:0x2:5"
TASKS = "System.Threading.Tasks.TplEventSource:0x2:5"
JOBS, JOB_MS = 32, 100


@pytest.mark.parametrize("runtime", REQUIRED)
@pytest.mark.parametrize("queue", [QUEUE, TASKS])
def test_every_job_is_seen_and_how_long_it_waited(runtime: str, queue: str, tmp_path: Path) -> None:
    path = tmp_path / "pool.nettrace"
    record(runtime, path, f"{RUNTIME},{queue}", "threadpool", f"jobs={JOBS}")
    made = dd.threadpool(path)
    assert (made.totals.count, made.totals.unfinished) == (JOBS, 0)
    assert (ONLY_TASKS in made.notes) == (queue == TASKS)
    rows = made.work.to_pylist()
    assert made.by_method.values("count") == [JOBS]
    assert ("Workload.Pool" in (made.by_method.values("method")[0] or "")) == (runtime != "NativeAOT")
    assert made.profile.total == pytest.approx(sum(row["queue_ms"] for row in rows))
    # each thread has one job at a time: the n-th of them begins when those before it are over
    for tid in {row["worker_tid"] for row in rows}:
        begun = sorted(row["queued_ms"] + row["queue_ms"] for row in rows if row["worker_tid"] == tid)
        assert all(later - sooner >= JOB_MS - 1 for sooner, later in pairwise(begun))
    assert made.totals.max_threads is not None
    assert len({row["worker_tid"] for row in rows}) <= made.totals.max_threads
    # all wait from the beginning, and the last until nearly all others are done
    late = [row for row in rows if row["queue_ms"] > JOB_MS]
    (starved,) = made.starvation.to_pylist()
    assert starved["late"] == len(late) >= JOBS // 2
    assert starved["longest_ms"] == pytest.approx(made.totals.queue_ms["most"])
    assert starved["duration_ms"] == pytest.approx(made.totals.starved_ms)
    assert sum(made.totals.reasons.values()) == len(made.adjustments) > 0
