"""Locks that are no monitors, and threads that stand before one all the time, by hand."""

from __future__ import annotations

import pytest
from tests.analysis.test_thread_pool import begun, queued
from tests.analysis.test_waits import begins, ends, gets, wants
from tests.analysis.traces import Seen, external, traced

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.sample_sums import Sampled, SampledFold
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


def stands(thread: int, *stretches: tuple[int, int, tuple[str | int, ...]], every: int = 10) -> list[Seen]:
    """Samples of a thread: from when, until when (ms), and in which stack."""
    return [external(ms + thread / 10, thread, *stack) for a, b, stack in stretches for ms in range(a, b, every)]


def advised(*samples: list[Seen], most: int = 10_000) -> list[str]:
    """What is said, with sums of samples from ``most`` on; the first thread is there all the time, and idle."""
    seen = [*stands(9, (0, 3000, ("App.Idle",))), *(one for some in samples for one in some)]
    trace = traced(*sorted(seen, key=lambda one: one.ms), modules=MODULES)
    (made,) = fold(trace, SampledFold(most=most))
    assert (made.count > 1).any() == (most < made.count.sum())
    return [one.text for one in of_deadlock(made, contention(trace))]


def told(seconds: str, *methods: str) -> list[str]:
    """The finding: methods in the order in which the trace has them."""
    many = "a thread stands" if len(methods) == 1 else f"{len(methods)} threads stand"
    return [
        f"{many} before a lock in every sample of {seconds} s, in {', '.join(methods)}: `stack report` shows where each stands"
    ]


FROM, TO, WORK = (ENTERING, "App.From"), (ENTERING, "App.To"), ("App.Work", "App.To")
UNKNOWN, NO_STACK = (0x99990000,), ()


@pytest.mark.parametrize("most", [10_000, 100])
def test_what_a_thread_did_before_it_came_to_the_lock_says_nothing(most: int) -> None:
    """Also where samples that are alike are one row."""
    one = stands(1, (500, 520, ("App.Begin",)), (520, 3000, FROM))
    two = stands(2, (0, 510, WORK), (510, 3000, TO))
    assert advised(one, two, most=most) == told("2.5", "App.To", "App.From")


@pytest.mark.parametrize("stack", [UNKNOWN, NO_STACK])
@pytest.mark.parametrize("most", [10_000, 100])
def test_samples_without_a_name_do_not_tell_that_a_thread_went_on_but_several_may(
    stack: tuple[str | int, ...], most: int
) -> None:
    assert advised(stands(1, (0, 500, WORK), (500, 2980, TO), (2980, 3000, stack)), most=most) == told("2.5", "App.To")
    assert advised(
        stands(1, (0, 500, WORK), (500, 1000, TO), (1000, 1020, stack), (1020, 3000, TO)), most=most
    ) == told("2.5", "App.To")
    assert not advised(stands(1, (0, 500, WORK), (500, 2960, TO), (2960, 3000, stack)), most=most)


@pytest.mark.parametrize("most", [10_000, 100])
@pytest.mark.parametrize(
    "stretches",
    [
        [(0, 500, WORK), (500, 2970, TO), (2970, 3000, WORK)],  # it went on
        [(500, 2970, TO), (2970, 3000, ("App.Begin", "App.To"))],
        [(0, 500, WORK), (500, 2900, TO)],  # it has ended
        [(0, 2100, WORK), (2100, 3000, TO)],  # not for long
        [(0, 500, WORK), (500, 2100, FROM), (2100, 3000, TO)],  # from one lock to another
        [(0, 500, TO), (500, 600, WORK), (600, 1600, TO), (1600, 1700, WORK), (1700, 3000, TO)],  # as it did before
    ],
)
def test_a_thread_that_went_on_does_not_stand(stretches: list[tuple[int, int, tuple[str, ...]]], most: int) -> None:
    assert not advised(stands(1, *stretches), most=most)


def turns(thread: int, until: int, waits_ms: int) -> list[Seen]:
    """A thread that waits for a lock, and works for 100 ms, again and again."""
    return stands(
        thread,
        *(
            stretch
            for at in range(0, until, waits_ms + 100)
            for stretch in ((at, at + waits_ms, TO), (at + waits_ms, at + waits_ms + 100, WORK))
        ),
    )


@pytest.mark.parametrize("most", [10_000, 100])
def test_a_lock_that_is_taken_in_turns_is_no_deadlock(most: int) -> None:
    late = stands(1, (0, 1500, WORK), (1500, 3000, TO))
    assert advised(late, most=most) == told("1.5", "App.To")
    assert not advised(late, turns(2, 3000, 400), most=most)  # longer than others wait, but some come and go
    assert not advised(late, turns(2, 1000, 400), stands(2, (1000, 3000, WORK)), most=most)
    assert not advised(*(turns(thread, 3000, 650 + thread * 10) for thread in range(1, 5)), most=most)


@pytest.mark.parametrize("most", [10_000, 100])
@pytest.mark.parametrize(
    "before",
    [
        [(0, 210, TO), (210, 1000, WORK)],
        [(0, 100, (*TO, "App.Other")), (100, 210, TO), (210, 1000, WORK)],
    ],
)
def test_a_thread_that_waited_before_is_told_when_it_stands_much_longer(
    before: list[tuple[int, int, tuple[str, ...]]], most: int
) -> None:
    assert advised(stands(1, *before, (1000, 3000, TO)), most=most) == told("2.0", "App.To")


def test_more_is_asked_for_while_others_come_and_go() -> None:
    late = stands(1, (0, 1000, WORK), (1000, 3000, TO))
    assert advised(late, turns(2, 900, 400), stands(2, (1000, 3000, WORK))) == told("2.0", "App.To")
    assert not advised(late, turns(2, 3000, 400))


def test_where_others_come_and_go_one_that_stands_many_times_longer_is_told() -> None:
    assert advised(stands(1, (0, 500, WORK), (500, 3000, TO)), turns(2, 3000, 100)) == told("2.5", "App.To")


def test_where_contention_is_recorded_one_that_came_later_has_events() -> None:
    late, since_ever = stands(1, (0, 500, WORK), (500, 3000, TO)), stands(2, (0, 3000, FROM))
    assert advised(late, since_ever) == told("3.0", "App.To", "App.From")
    events = [wants(5, 3, "App.Other"), gets(6, 3, 1.0)]
    assert advised(late, since_ever, events) == told("3.0", "App.From")


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
