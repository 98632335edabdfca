"""Work that is queued, by hand."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.traces import Seen, said, traced
from tests.nettrace.recordings import data_of, recordings
from tests.trace.made import RUNTIME

from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.pool_findings import of_pool
from dotnetdiag.analysis.thread_pool import (
    DEQUEUED,
    ENQUEUED,
    EXECUTED,
    FRAMEWORK,
    LATE_MS,
    NO_EVENTS,
    NO_QUEUE,
    ONLY_TASKS,
    SCHEDULED,
    TPL,
    Starvation,
    ThreadPoolFold,
    threadpool,
)
from dotnetdiag.trace.trace import Trace


def queued(ms: float, thread: int, work: int, *stack: str) -> Seen:
    return said(ms, thread, *stack, provider=FRAMEWORK, number=ENQUEUED, name="ThreadPoolEnqueueWork", workID=work)


def begun(ms: float, thread: int, work: int) -> Seen:
    return said(ms, thread, provider=FRAMEWORK, number=DEQUEUED, name="ThreadPoolDequeueWork", workID=work)


def worker(ms: float, active: int, number: int = 50) -> Seen:
    payload = struct.pack("<IIH", active, 0, 0)
    return Seen(ms=ms, thread=9, stack=(), provider=RUNTIME, number=number, payload=payload)


def adjusted(ms: float, threads: int, reason: int) -> Seen:
    payload = struct.pack("<dIIH", 1.5, threads, reason, 0)
    return Seen(ms=ms, thread=9, stack=(), provider=RUNTIME, number=55, payload=payload)


def test_work_waits_from_one_thread_to_another() -> None:
    made = threadpool(traced(queued(1, 1, 7, "App.Ask"), queued(2, 1, 8, "App.Other"), begun(5, 2, 8), begun(9, 3, 7)))
    rows = [(row["queue_ms"], row["tid"], row["worker_tid"], row["method"]) for row in made.work.to_pylist()]
    assert rows == [(8.0, 1, 3, "app!App.Ask()"), (3.0, 1, 2, "app!App.Other()")]
    assert made.by_method.values("method") == ["app!App.Ask()", "app!App.Other()"]
    assert (made.totals.count, made.totals.starved_ms, made.profile.total) == (2, 0, 11.0)


def test_work_that_nobody_begins_starves_until_the_recording_ends() -> None:
    trace = traced(queued(0, 1, 5), queued(10, 1, 6), begun(20, 2, 5), worker(1000, 2))
    (made,) = fold(trace, ThreadPoolFold(seconds=1.0))
    (starved,) = made.starvation.to_pylist()
    assert (starved["start_ms"], starved["late"]) == (10 + LATE_MS, 1)
    assert made.totals.starved_ms == pytest.approx(990 - LATE_MS)
    assert (made.by_method.values("max_ms"), made.by_method.values("waiting")) == ([990.0], [1])
    # what waits still has waited for so long at least
    queue = made.totals.queue_ms
    assert (made.totals.unfinished, made.totals.waiting, queue["median"], queue["most"]) == (1, 1, 505.0, 990.0)
    (found,) = of_pool(made, 1.0)
    assert "in the median at least 505 ms, 990 ms at most; 1 of 2 wait still" in found.text


def test_work_that_is_not_begun_has_no_time() -> None:
    made = threadpool(traced(begun(0, 2, 5), queued(1, 1, 5), queued(2, 1, 6), begun(3, 2, 6)))
    assert made.work.values("queue_ms") == [None, 1.0]
    assert (made.totals.count, made.totals.unfinished, made.totals.queue_ms["most"]) == (2, 1, 1.0)


def test_tasks_stand_in_where_nothing_else_tells() -> None:
    events = [
        said(1, 1, "App.Ask", provider=TPL, number=SCHEDULED, name="TaskScheduled", TaskID=3),
        said(4, 2, provider=TPL, number=EXECUTED, name="TaskStarted", TaskID=3),
    ]
    made = threadpool(traced(*events))
    assert (made.work.values("queue_ms"), made.notes) == ([3.0], (ONLY_TASKS,))
    both = threadpool(traced(*events, queued(5, 1, 7), begun(7, 2, 7)))
    assert (both.work.values("queue_ms"), both.notes) == ([2.0], ())


@pytest.mark.parametrize(
    ("scheduler", "options", "is_queued"), [(1, 0, True), (1, 0x10000, True), (2, 0, False), (1, 2, False)]
)
def test_tasks_of_other_schedulers_and_those_with_a_thread_of_their_own_are_not_queued_in_the_pool(
    scheduler: int, options: int, is_queued: bool
) -> None:
    events = [
        said(
            1,
            1,
            "App.Ask",
            provider=TPL,
            number=SCHEDULED,
            name="TaskScheduled",
            OriginatingTaskSchedulerID=scheduler,
            OriginatingTaskID=0,
            TaskID=3,
            CreatingTaskID=0,
            TaskCreationOptions=options,
        ),
        said(400, 2, provider=TPL, number=EXECUTED, name="TaskStarted", TaskID=3),
    ]
    (made,) = fold(traced(*events), ThreadPoolFold(seconds=1.0))
    assert made.work.values("queue_ms") == [399.0] * is_queued
    assert (made.totals.count, made.totals.starved_ms > 0) == (int(is_queued), is_queued)
    assert made.work.columns == threadpool(traced()).work.columns


def test_sizes_and_reasons() -> None:
    made = threadpool(traced(worker(1, 1), worker(2, 2), worker(3, 2), adjusted(4, 5, 6), worker(5, 1, 57)))
    assert [(row["ms"], row["active"]) for row in made.threads.to_pylist()] == [(1, 1), (2, 2), (5, 1)]
    assert [(row["ms"], row["threads"], row["reason"]) for row in made.adjustments.to_pylist()] == [
        (4, 5, "Starvation")
    ]
    assert (made.totals.max_threads, made.totals.reasons, made.notes) == (5, {"Starvation": 1}, (NO_QUEUE,))


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 900)), min_size=1, max_size=30))
def test_a_pool_starves_while_some_work_is_late(work: list[tuple[int, int]]) -> None:
    """Beside a count of each millisecond."""
    events = [
        event
        for number, (at, length) in enumerate(work, 1)
        for event in (queued(at, 1, number), begun(at + length, 2, number))
    ]
    made = threadpool(traced(*sorted(events, key=lambda event: event.ms)))
    late = {ms for at, length in work for ms in range(at + int(LATE_MS), at + length)}
    assert made.totals.starved_ms == pytest.approx(len(late))
    begins = sorted(ms for ms in late if ms - 1 not in late)
    # two that touch may be told as one or as two
    assert {round(row["start_ms"]) for row in made.starvation.to_pylist()} >= set(begins)
    assert sum(made.starvation.values("late")) == sum(length > LATE_MS for _, length in work)


@pytest.mark.parametrize("name", recordings())
def test_as_many_as_events(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    counts = trace.counts()
    made = threadpool(trace)
    work = counts.get(FRAMEWORK, {}).get("ThreadPoolEnqueueWork", 0)
    tasks = counts.get(TPL, {}).get("TaskScheduled/Send", 0)
    assert made.totals.count == (work or tasks)
    adjustments = counts.get(RUNTIME, {}).get("ThreadPoolWorkerThreadAdjustment/Adjustment", 0)
    assert len(made.adjustments) == adjustments
    if made.notes == (NO_EVENTS,):
        assert (len(made.work), len(made.threads), adjustments) == (0, 0, 0)


def test_work_that_who_waited_for_it_has_run_is_in_no_queue() -> None:
    """Task.Wait runs what it waits for where it stands, and no begin is told; a worker that finds nothing to do, or later work that has begun, shows
    that it waits no more.
    """
    before = [worker(1, 2), queued(10, 1, 5), queued(20, 1, 6), begun(25, 2, 5)]
    for after in ([worker(50, 2, number=57)], [queued(30, 1, 7), begun(60, 2, 7)]):
        (made,) = fold(traced(*before, *after), ThreadPoolFold(seconds=5.0))
        assert (made.totals.unfinished, made.totals.starved_ms, len(made.starvation)) == (1, 0.0, 0)
    (made,) = fold(traced(*before), ThreadPoolFold(seconds=5.0))
    assert (made.totals.unfinished, made.totals.starved_ms) == (1, 5000.0 - 20.0 - LATE_MS)


def test_where_no_worker_is_told_of_nobody_knows_whether_work_waits() -> None:
    events = [queued(0, 1, 5), queued(10, 1, 6), begun(20, 2, 5)]
    (made,) = fold(traced(*events), ThreadPoolFold(seconds=1.0))
    assert (made.totals.unfinished, made.totals.starved_ms) == (1, 0.0)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 500), st.integers(0, 900)), max_size=30), st.integers(1, 31)
)
def test_times_of_starvation_are_those_of_all_work_at_once(work: list[tuple[int, int, int]], step: int) -> None:
    work.sort(key=lambda one: one[1])
    pid, ms, waited = (np.array(column, float) for column in (zip(*work, strict=True) if work else [[]] * 3))
    made = Starvation()
    for at in range(0, len(work), step):
        made.add(pid[at : at + step].astype(int), ms[at : at + step], waited[at : at + step])
    found = {name: column.to_pylist() for name, column in made.told().items()}
    expected = []
    for process in range(3):
        spans: list[list[float]] = []
        for own, begin, length in work:
            if own == process and length > LATE_MS:
                if spans and begin + LATE_MS <= spans[-1][1]:
                    spans[-1][1:] = [max(spans[-1][1], begin + length), spans[-1][2] + 1, max(spans[-1][3], length)]
                else:
                    spans.append([begin + LATE_MS, begin + length, 1, length])
        expected += [(process, begin, end - begin, late, longest) for begin, end, late, longest in spans]
    columns = ("pid", "start_ms", "duration_ms", "late", "longest_ms")
    assert list(zip(*(found[name] for name in columns), strict=True)) == expected


def test_work_that_is_left_is_looked_at_process_by_process() -> None:
    events = [
        seen for thread in (1, 2, 3) for seen in (queued(thread, thread, thread), worker_of(thread + 0.5, thread))
    ]
    events.append(replace(worker(50, 1, number=57), thread=2))
    events.sort(key=lambda one: one.ms)
    trace = traced(*events, version=6, processes={1: 11, 2: 12, 3: 13, 9: 14})
    (made,) = fold(trace, ThreadPoolFold(seconds=1.0))
    assert made.starvation.values("pid") == [11, 13]  # a worker of the other had nothing to do


def worker_of(ms: float, thread: int) -> Seen:
    return replace(worker(ms, 1), thread=thread)


TIMER = "System.Threading.TimerQueue.TimerThread"


def test_what_others_overtake_waits_on() -> None:
    """Work of timers is begun before what has been in the queue for longer."""
    events = [worker(1, 2), queued(10, 1, 5, "App.Run"), queued(400, 2, 6, TIMER), begun(500, 3, 6)]
    (made,) = fold(traced(*events), ThreadPoolFold(seconds=1.0))
    assert (made.totals.unfinished, made.totals.starved_ms) == (1, 990.0 - LATE_MS)
    rows = [(row["method"], row["count"], row["waiting"], row["total_ms"]) for row in made.by_method.to_pylist()]
    assert rows == [("app!App.Run()", 1, 1, 990.0), (f"app!{TIMER}()", 1, 0, 100.0)]


@pytest.mark.parametrize(("taken_back_ms", "waits"), [(490.0, True), (100.0, False), (None, False)])
def test_a_worker_that_the_pool_takes_back_leaves_work_behind(taken_back_ms: float | None, waits: bool) -> None:
    changes = [] if taken_back_ms is None else [adjusted(taken_back_ms - 50, 9, 8), adjusted(taken_back_ms, 8, 8)]
    events = [worker(1, 2), queued(10, 1, 5), *changes, worker(500, 1, number=57)]
    (made,) = fold(traced(*sorted(events, key=lambda one: one.ms)), ThreadPoolFold(seconds=1.0))
    assert made.totals.starved_ms == (990.0 - LATE_MS if waits else 0.0)


def test_where_ids_of_work_change_tasks_tell() -> None:
    """On 3.1 they are addresses, which a collection changes."""

    def task(ms: float, number: int, task_id: int) -> Seen:
        name = "TaskScheduled" if number == SCHEDULED else "TaskStarted"
        return said(ms, 1, provider=TPL, number=number, name=name, TaskID=task_id)

    events = [queued(1, 1, 0x10), queued(2, 1, 0x20), begun(300, 2, 0x99)]
    tasks = [task(1.5, SCHEDULED, 1), task(2.5, SCHEDULED, 2), task(301, EXECUTED, 1), task(302, EXECUTED, 2)]
    made = threadpool(traced(*sorted([*events, *tasks], key=lambda one: one.ms)))
    assert (made.totals.count, made.totals.unfinished, made.notes) == (2, 0, (ONLY_TASKS,))
