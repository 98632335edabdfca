"""Locks that are no monitors, and threads that stand before one all the time, by hand."""

from __future__ import annotations

import pytest
from tests.analysis.test_thread_pool import begun, queued
from tests.analysis.test_waits import begins, ends, wants
from tests.analysis.traces import Seen, external, traced

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.sample_sums import Sampled
from dotnetdiag.analysis.thread_pool import threadpool
from dotnetdiag.analysis.wait_findings import of_deadlock, of_stuck_pool, of_waits
from dotnetdiag.analysis.waits import contention, waits

CORELIB = "/x/System.Private.CoreLib.dll"
_TYPES = (
    "Monitor", "ReaderWriterLockSlim", "SemaphoreSlim", "LowLevelLifoSemaphore",
    "ThreadPoolWorkQueue", "PortableThreadPool+WorkerThread", "Tasks.Task",
)  # fmt: skip
MODULES = {f"System.Threading.{name}": CORELIB for name in _TYPES} | {
    "System.Collections.Concurrent.BlockingCollection": CORELIB
}
WRITING = ("System.Threading.ReaderWriterLockSlim.TryEnterWriteLockCore", "App.Write")
TAKING = ("System.Threading.SemaphoreSlim.Wait", "App.Take")
CONSUMING = (
    "System.Threading.SemaphoreSlim.Wait",
    "System.Collections.Concurrent.BlockingCollection.TryTake",
    "App.Loop",
)


def waiting(stack: tuple[str, ...], threads: int, ms: float) -> list[Seen]:
    """For a second every 20 ms each of the threads."""
    events = [
        event
        for at in range(0, 1000, 20)
        for thread in range(1, 1 + threads)
        for event in (begins(at + thread / 10, thread, *stack), ends(at + thread / 10 + ms, thread))
    ]
    return sorted(events, key=lambda one: one.ms)


@pytest.mark.parametrize(
    ("stack", "threads", "ms", "text"),
    [
        (
            WRITING,
            3,
            10,
            "3 threads waited 1,500 ms for a ReaderWriterLockSlim, 150 times; 1,500 ms of it in App.Write",
        ),
        (
            TAKING,
            2,
            15,
            "2 threads waited 1,500 ms for a SemaphoreSlim, 100 times; 1,500 ms of it in App.Take "
            "(if it is a lock: who waits for work, of which it is the signal, has to)",
        ),
        (TAKING, 4, 19, None),  # of a lock one of them would have it
        (WRITING, 3, 1, None),
        (WRITING, 1, 19, None),
        (CONSUMING, 3, 19, None),
        (("System.Threading.Monitor.Wait", "App.Idle"), 3, 19, None),
    ],
)
def test_a_lock_that_several_threads_want_is_told(
    stack: tuple[str, ...], threads: int, ms: float, text: str | None
) -> None:
    found = [one.text for one in of_waits(waits(traced(*waiting(stack, threads, ms), modules=MODULES)), 1.0)]
    assert found == ([] if text is None else [text])


ENTERING = "System.Threading.Monitor.Enter_Slowpath"


def sampled(until: float, *, leaves_at: float | None = None) -> list[Seen]:
    return [
        seen
        for ms in range(0, int(until), 10)
        for seen in (
            external(ms, 1, "App.Idle"),
            external(ms + 1, 2, ENTERING, "App.From"),
            external(ms + 2, 3, *(() if ms == leaves_at else (ENTERING,)), "App.To"),
        )
    ]


@pytest.mark.parametrize(
    ("until", "leaves_at", "text"),
    [
        (
            2000,
            None,
            "2 threads stand before a lock in every sample of 2.0 s, in App.From, App.To: `stack report` shows where each stands",
        ),
        (
            2000,
            500,
            "a thread stands before a lock in every sample of 2.0 s, in App.From: `stack report` shows where each stands",
        ),
        (500, None, None),
    ],
)
def test_threads_that_stand_before_a_lock_since_before_the_recording(
    until: float, leaves_at: float | None, text: str | None
) -> None:
    trace = traced(*sampled(until, leaves_at=leaves_at), modules=MODULES)
    found = [one.text for one in of_deadlock(Sampled.of(cpu(trace)), contention(trace))]
    assert found == ([] if text is None else [text])


def test_what_contention_tells_is_not_told_again() -> None:
    trace = traced(*sorted([*sampled(2000), wants(5, 2, "App.From")], key=lambda one: one.ms))
    assert not list(of_deadlock(Sampled.of(cpu(trace)), contention(trace)))


POOL = (
    "System.Threading.ThreadPoolWorkQueue.Dispatch",
    "System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart",
)
WAITING = ("System.Threading.Monitor.Wait", "System.Threading.Tasks.Task.InternalWaitCore")
STUCK = "all 2 threads of the thread pool wait for tasks in every sample of 2.0 s, in App.Load: what is queued waits for more of them"


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ([], STUCK),
        ([external(ms, 4, "System.Threading.LowLevelLifoSemaphore.WaitForSignal", *POOL[1:]) for ms in (1000, 1500)], None),
        ([external(1000, 4, *WAITING, "App.Main")], STUCK),
        ([external(1000, 1, "App.Goes", *POOL)], None),
        ([queued(1, 5, 7, "App.Ask"), begun(2, 1, 7)], None),
    ],
)  # fmt: skip
def test_a_pool_all_of_whose_threads_wait_for_tasks_is_told(others: list[Seen], text: str | None) -> None:
    """Of a pool that does nothing the runtime tells nothing; one that is not of it counts for nothing."""
    seen = [
        external(ms + thread, thread, *WAITING, "App.Load", *POOL) for ms in range(0, 2000, 10) for thread in (1, 2)
    ]
    trace = traced(*sorted([*seen, *others], key=lambda one: one.ms), modules=MODULES)
    assert [one.text for one in of_stuck_pool(Sampled.of(cpu(trace)), threadpool(trace))] == (
        [] if text is None else [text]
    )
