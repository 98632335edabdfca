"""A method that took much of what ran, and what only looks like one."""

from __future__ import annotations

import pytest
from tests.analysis.traces import external, managed, traced

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.cpu_findings import FEW_SAMPLES, POLLED, TRACED, of_cpu
from dotnetdiag.analysis.profile import State


@pytest.mark.parametrize(
    ("seconds", "others", "is_told"), [(0.9, 0, True), (2.1, 0, False), (0.9, 400, True), (0.9, 600, False)]
)
def test_a_method_is_hot_by_its_share_of_what_ran_and_of_the_time(seconds: float, others: int, is_told: bool) -> None:
    spinning = [managed(ms, 1, "Work.Spin", "Main") for ms in range(200)]
    running = [managed(200 + ms, 1, f"Work.Other{ms % 7}", "Main") for ms in range(others)]
    waiting = [external(ms, 1, "Wait", "Main") for ms in (200 + others, 2100)]
    found = list(of_cpu(cpu(traced(*spinning, *running, *waiting)), seconds))
    assert [one.text.startswith("Work.Spin took") for one in found] == [True] * is_told


@pytest.mark.parametrize(("count", "is_told"), [(5, False), (FEW_SAMPLES, True)])
def test_some_samples_with_seconds_between_them_tell_of_no_method(count: int, is_told: bool) -> None:
    """A program that would not stop for the sampler: what came before is not what took the time."""
    profile = cpu(traced(*(managed(800 * one, 1, "Work.Sleep", "Main") for one in range(count + 1))))
    assert profile.in_states(State.CPU).total >= 800 * count
    assert len(list(of_cpu(profile, 0.8 * count))) == is_told


@pytest.mark.parametrize("wait", ["Thread.Sleep", "Thread.Join", "WaitHandle.WaitOneNoCheck"])
def test_who_wakes_all_the_time_does_not_take_processors_by_waiting(wait: str) -> None:
    """Seen on 10: of twenty threads that sleep for a millisecond, again and again, the samples say that they run for a fiftieth of the time."""
    stack = (f"System.Threading.{wait}", "Work.Poll", "Main")
    modules = {f"System.Threading.{wait.rpartition('.')[0]}": "/x/System.Private.CoreLib.dll"}
    events = [managed(ms, 1, *(stack if ms % 3 else ("Work.Spin", "Main"))) for ms in range(301)]
    (found,) = of_cpu(cpu(traced(*events, modules=modules)), 0.3)
    assert found.text.startswith("Work.Spin took 33 %")
    assert not list(of_cpu(cpu(traced(*(managed(ms, 1, *stack) for ms in range(301)), modules=modules)), 0.3))


def test_what_the_recording_itself_takes_is_said_to_be_so() -> None:
    stack = ("System.Diagnostics.Tracing.EventSource.WriteEventWithRelatedActivityIdCore", "Work.Run", "Main")
    modules = {"System.Diagnostics.Tracing.EventSource": "/x/System.Private.CoreLib.dll"}
    (found,) = of_cpu(cpu(traced(*(managed(ms, 1, *stack) for ms in range(301)), modules=modules)), 0.3)
    assert found.text.startswith(
        "System.Diagnostics.Tracing.EventSource.WriteEventWithRelatedActivityIdCore took 100 %"
    )
    assert found.text.endswith(TRACED)


@pytest.mark.parametrize(("processors", "is_told"), [(0, False), (1, True), (2, True), (3, False)])
def test_more_time_than_processors_have_is_not_said_to_be_theirs(processors: int, is_told: bool) -> None:
    events = [managed(ms, thread, "Work.Spin", "Main") for ms in range(301) for thread in (1, 2, 3)]
    (found,) = of_cpu(cpu(traced(*events)), 0.3, processors)
    what = f"in which threads ran, or waited for one of the {processors} processors" if is_told else "on processors"
    assert found.text == f"Work.Spin took 100 % of the time {what}, 900 of 900 ms"


@pytest.mark.parametrize(
    ("stack", "text"),
    [
        (("System.DateTime.get_UtcNow", "Work.Run", "Main"), "Work.Run, or Main that calls it, took 100 % of the time on processors, 200 of 200 ms"),
        (("System.DateTime.get_UtcNow",), "System.DateTime.get_UtcNow and what it calls took 60 % of the time on processors, 120 of 200 ms"),
        ((), None),
    ],
)  # fmt: skip
def test_where_a_thread_stood_still_for_the_sampler_is_not_what_took_the_time(
    stack: tuple[str, ...], text: str | None
) -> None:
    polls = ("System.Threading.Thread.<PollGC>g__PollGCWorker|67_0", "System.Threading.Thread.PollGC", *stack)
    events = [managed(ms, 1, *(polls if ms % 5 < 3 else ("Work.Step", "Work.Run", "Main"))) for ms in range(201)]
    modules = dict.fromkeys(("System.Threading.Thread", "System.DateTime"), "/x/System.Private.CoreLib.dll")
    found = [one.text for one in of_cpu(cpu(traced(*events, modules=modules)), 0.2)]
    assert found == ([] if text is None else [text + POLLED])


@pytest.mark.parametrize(
    ("callers", "text"),
    [
        (["Work.Grow"], ", for Work.Grow"),
        (["Work.Grow", "Work.Grow", "Work.Other"], ", 200 ms of it for Work.Grow"),
        (["Work.Grow", "Work.Other", "Work.Third"], ""),
        ([0x7FB4_0000], ""),
    ],
)
def test_of_a_method_of_dotnets_it_is_told_for_whom(callers: list[str | int], text: str) -> None:
    stacks = [("System.Array.Resize", one) for one in callers] * (300 // len(callers))
    events = [managed(ms, 1, *stack) for ms, stack in enumerate((*stacks, ("Work.Main",)))]
    profile = cpu(traced(*events, modules={"System.Array": "/x/System.Private.CoreLib.dll"}))
    (found,) = of_cpu(profile, 0.3)
    assert found.text == f"System.Array.Resize took 100 % of the time on processors, 300 of 300 ms{text}"


def test_workers_that_spin_for_work_are_not_what_takes_the_time() -> None:
    idle = (
        "System.Threading.LowLevelSpinWaiter.Wait",
        "System.Threading.LowLevelLifoSemaphore.WaitForSignal",
        "System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart",
    )
    names = ("LowLevelSpinWaiter", "LowLevelLifoSemaphore", "PortableThreadPool+WorkerThread")
    modules = {f"System.Threading.{name}": "/x/System.Private.CoreLib.dll" for name in names}
    spins, works = [managed(ms, 1, *idle) for ms in range(600)], [managed(ms, 2, "App.Work") for ms in range(300)]
    assert not list(of_cpu(cpu(traced(*spins, modules=modules)), 1.0))
    (found,) = of_cpu(cpu(traced(*spins, *works, modules=modules)), 1.0)
    assert found.text.startswith("App.Work took 33 % of the time on processors, 299 of 898 ms")


def test_a_thread_that_waits_for_another_to_begin_is_not_what_takes_the_time() -> None:
    """The runtime says that it runs."""
    start = [managed(ms, 1, "System.Threading.Thread.StartCore", "App.Main") for ms in range(500)]
    work = [managed(500 + ms, 1, "App.Work", "App.Main") for ms in range(400)]
    trace = traced(*start, *work, modules={"System.Threading.Thread": "/x/System.Private.CoreLib.dll"})
    (found,) = of_cpu(cpu(trace), 1.0)
    assert found.text.startswith("App.Work took 44 % of the time on processors, 399 of 899 ms")
    assert not list(
        of_cpu(cpu(traced(*start, modules={"System.Threading.Thread": "/x/System.Private.CoreLib.dll"})), 1.0)
    )
