"""Awaits by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.test_thread_pool import queued
from tests.analysis.traces import Seen, said, traced
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis import await_calls, await_chains, await_rows, await_times
from dotnetdiag.analysis.kind_rows import KindStacks
from dotnetdiag.analysis.tasks import (
    NO_CALL,
    NO_EVENTS,
    NO_MEMBERS,
    OF_OTHERS,
    OPERATION,
    TOO_DEEP,
    WAIT_BEGUN,
    WAIT_ENDED,
    TaskReport,
    tasks,
)
from dotnetdiag.analysis.thread_pool import TPL, threadpool
from dotnetdiag.trace import scratch, spilled
from dotnetdiag.trace.trace import Trace


def awaits(ms: float, task: int, by: int, *stack: str, thread: int = 1, blocks: bool = False, inside: int = 0) -> Seen:
    values = {"OriginatingTaskID": inside, "TaskID": task, "Behavior": 1 if blocks else 2, "ContinueWithTaskID": by}
    return said(ms, thread, *stack, provider=TPL, number=WAIT_BEGUN, name="TaskWait/Send", **values)


def done(ms: float, task: int, thread: int = 2, stack: tuple[str, ...] = ()) -> Seen:
    values = {"OriginatingTaskID": 0, "TaskID": task}
    return said(ms, thread, *stack, provider=TPL, number=WAIT_ENDED, name="TaskWait/Stop", **values)


def operation(ms: float, task: int, name: str) -> Seen:
    values: dict[str, int | str] = {"TaskID": task, "OperationName": name}
    return said(ms, 1, provider=TPL, number=OPERATION, name="TraceOperation/Start", **values)


def logical(made: TaskReport) -> dict[tuple[str, ...], float]:
    """Weights by stacks, root first."""
    profile, found = made.profile, dict[tuple[str, ...], float]()
    for node, weight in zip(profile.node.tolist(), profile.weight.tolist(), strict=True):
        path = []
        while node:
            path.append(profile.frames.name(int(profile.tree.frame[node])))
            node = int(profile.tree.parent[node])
        found[tuple(reversed(path))] = found.get(tuple(reversed(path)), 0.0) + weight
    return found


def test_an_await_is_below_that_of_the_task_which_goes_on() -> None:
    events = [awaits(1, 10, 20, "App.Outer"), awaits(2, 11, 10, "App.Inner", thread=2), done(5, 11), done(8, 10)]
    made = tasks(traced(*events))
    assert [(row["method"], row["depth"], row["duration_ms"]) for row in made.awaits.to_pylist()] == [
        ("app!App.Outer()", 1, 7.0),
        ("app!App.Inner()", 2, 3.0),
    ]
    assert logical(made) == {("app!App.Outer()",): 4.0, ("app!App.Outer()", "app!App.Inner()"): 3.0}
    assert made.chains.to_pylist() == [
        {"start_ms": 1.0, "duration_ms": 7.0, "pid": 77, "task": 10, "depth": 2, "chain": "App.Outer > App.Inner"}
    ]
    assert (made.totals.chains, made.totals.deepest, made.totals.blocking) == (1, 2, 0)


def test_a_thread_that_blocks_awaits_for_the_task_that_it_runs() -> None:
    made = tasks(traced(awaits(1, 5, 9, "A.M"), awaits(2, 6, 0, "B.N", blocks=True, inside=5), done(3, 6), done(4, 5)))
    assert made.awaits.values("kind") == ["Asynchronous", "Synchronous"]
    assert (made.awaits.values("awaited_by"), made.awaits.values("depth")) == ([9, 5], [1, 2])
    assert made.totals.blocking == 1
    assert {row["method"]: row["blocking"] for row in made.by_method} == {"app!A.M()": 0, "app!B.N()": 1}


def test_names_of_tasks_stand_in_for_stacks() -> None:
    made = tasks(
        traced(operation(0, 20, "Async: Outer"), operation(0, 10, "Async: Inner"), awaits(1, 10, 20), done(3, 10))
    )
    (row,) = made.awaits.to_pylist()
    assert (row["name"], row["method"]) == ("Async: Inner", "Async: Outer")
    assert logical(made) == {("Async: Outer",): 2.0}


def test_an_await_that_does_not_end_has_no_time() -> None:
    made = tasks(traced(awaits(1, 10, 20, "A.M"), awaits(2, 11, 10, "A.N"), done(3, 11)))
    assert made.awaits.values("duration_ms") == [None, 1.0]
    assert (made.totals.unfinished, made.profile.total) == (1, 1.0)


def test_below_what_has_not_ended_each_await_begins_a_chain() -> None:
    """As Main of a program that runs: its own await is over when the recording is."""
    events = [
        awaits(1, 10, 20, "A.Main"),
        awaits(2, 11, 10, "A.One"),
        awaits(3, 12, 11, "A.Leaf"),
        done(4, 12),
        done(5, 11),
    ]
    more = [awaits(6, 13, 10, "A.Two"), done(7, 13), awaits(8, 14, 21, "B.Waits")]
    made = tasks(traced(*events, *more))
    assert [(row["duration_ms"], row["chain"], row["depth"]) for row in made.chains.to_pylist()] == [
        (3.0, "A.Main > A.One > A.Leaf", 3),
        (1.0, "A.Main > A.Two", 2),
        (None, "B.Waits", 1),
    ]
    assert made.totals.chains == 3


def test_tasks_that_lie_and_await_each_other_are_chains_of_their_own() -> None:
    made = tasks(
        traced(
            awaits(1, 1, 2, "A.M"), awaits(2, 2, 1, "A.N"), awaits(3, 3, 3, "A.O"), done(4, 1), done(5, 2), done(6, 3)
        )
    )
    assert (made.totals.count, made.totals.chains, made.totals.deepest) == (3, 3, 1)


def test_what_several_await_is_the_own_time_of_none_of_them() -> None:
    """The first is the caller; the others have it below them as well, as far as it was meanwhile."""
    events = [
        *(awaits(0, 10, 20, "A.One"), awaits(1, 11, 10, "A.Leaf"), awaits(2, 10, 21, "A.Two")),
        *(done(4, 11), awaits(5, 12, 10, "A.Leaf"), awaits(6, 10, 22, "A.Late"), done(9, 12), done(10, 10)),
        # done once, it ends all that await it
        *(done(10, 10), done(10, 10), awaits(20, 10, 23, "A.Behind"), done(21, 10)),
    ]
    made = tasks(traced(*events))
    assert {row["method"]: (row["total_ms"], row["own_ms"]) for row in made.by_method} == {
        "app!A.One()": (10.0, 3.0),
        "app!A.Leaf()": (7.0, 7.0),
        "app!A.Two()": (8.0, 2.0),
        "app!A.Late()": (4.0, 1.0),
        "app!A.Behind()": (1.0, 1.0),
    }
    chains = ["A.One > A.Leaf", "A.Two > A.Leaf", "A.Late > A.Leaf", "A.Behind > A.Leaf"]
    assert (made.chains.values("chain"), made.totals.chains) == (chains, 4)


def test_chains_of_tasks_that_lie_come_to_an_end() -> None:
    """The first await of each task is above the others in a tree, and each task awaits the other one."""
    events = [
        awaits(0, 1, 0, "A.M"),
        awaits(1, 2, 1, "A.N"),
        awaits(2, 1, 2, "A.O"),
        done(3, 1),
        done(4, 2),
        done(5, 1),
    ]
    made = tasks(traced(*events))
    assert made.chains.values("chain") == ["A.M > A.N > A.O"]


@pytest.mark.parametrize("name", OF_OTHERS)
def test_that_members_are_not_told_is_said_where_a_task_of_several_is_awaited(name: str) -> None:
    events = [operation(0, 10, name), awaits(1, 10, 20, "A.M"), awaits(2, 11, 21, "A.N"), done(3, 11), done(4, 10)]
    made = tasks(traced(*events))
    assert made.notes == made.by_method.notes == (NO_MEMBERS,)
    assert [(row["method"], row["own_ms"]) for row in made.by_method] == [("app!A.M()", 3.0), ("app!A.N()", 1.0)]
    assert tasks(traced(operation(0, 11, name), awaits(1, 10, 20, "A.M"), done(4, 10))).notes == ()


@given(st.lists(st.integers(0, 11), min_size=1, max_size=12), st.integers(1, 5))
def test_any_callers_make_trees(callers: list[int], deepest: int) -> None:
    """Beside a walk up the callers of each."""
    events = [awaits(number, number, by, f"A.M{number}") for number, by in enumerate(callers, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(await_rows, "DEEPEST", deepest)
        made = tasks(traced(*events))
    for number, depth in zip(made.awaits.values("task"), made.awaits.values("depth"), strict=True):
        way = [number]
        while 0 < callers[way[-1] - 1] <= len(callers) and callers[way[-1] - 1] not in way:
            way.append(callers[way[-1] - 1])
        is_cyclic = 0 < callers[way[-1] - 1] <= len(callers) and callers[way[-1] - 1] != way[-1]
        expected = 1 if is_cyclic else (len(way) - 1) % deepest + 1
        assert depth == expected, (number, callers)


WRITES_END = "System.Runtime.CompilerServices.TaskAwaiter+<>c.<OutputWaitEtwEvents>b__12_0"
BOX = (
    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1+AsyncStateMachineBox`1.ExecutionContextCallback",
    "System.Threading.ExecutionContext.RunInternal",
    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1+AsyncStateMachineBox`1.MoveNext",
)
EXECUTES = "System.Threading.Tasks.Task.ExecuteWithThreadLocal"
ENDS = (WRITES_END, "Pool.Dispatch")


def goes_on(method: str, *below: str) -> tuple[str, ...]:
    """The stack in a method that goes on after an await whose end was told."""
    return (method, *BOX, *(below or ENDS))


AWAITED = st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.integers(0, 3), st.integers(0, 4))
"""A task, who goes on, whether the thread is blocked, where the await stands, and after how long it ends (0: never)."""


def told(events: list[Seen]) -> dict[str, object]:
    made = tasks(traced(*events))
    return {**made.to_json(), "logical": logical(made)}


@given(st.lists(AWAITED, max_size=14))
def test_what_is_told_does_not_depend_on_how_much_is_looked_at_at_once(
    awaited: list[tuple[int, int, bool, int, int]],
) -> None:
    events = [operation(0.5, task, name) for task, name in ((1, "App.One"), (2, "App.Two"), (1, "App.Three"))]
    for at, (task, by, blocks, place, lasts) in enumerate(awaited, 1):
        stack: tuple[str, ...] = (f"A.M{place}",) if place else ()
        if blocks and place:
            stack = goes_on(*stack)
        events.append(awaits(at, task, by, *stack, thread=at % 2, blocks=blocks, inside=by))
        events += [done(at + lasts + 0.5, task, at % 2, () if blocks else ENDS)] if lasts else []
    events.sort(key=lambda event: event.ms)
    expected = told(events)
    with pytest.MonkeyPatch.context() as patch:
        for where, name, value in (
            (scratch, "MAPPED_ROWS", 0),
            (scratch, "MAPPED_SLICE", 3),
            (await_rows, "LOOKED_UP", 2),
            (await_times, "LOOKED_UP", 2),
            (await_times, "_SLICE", 2),
            (await_calls, "_PAIRED", 2),
            (await_calls, "_SAMPLED", 4),
            (spilled, "SLICE_ROWS", 3),
        ):
            patch.setattr(where, name, value)
        assert told(events) == expected


@pytest.mark.parametrize("name", recordings())
def test_as_many_as_events(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    made = tasks(trace)
    assert made.totals.count == trace.counts().get(TPL, {}).get("TaskWait/Send", 0)
    assert made.notes in (((), (NO_MEMBERS,)) if made.totals.count else ((NO_EVENTS,),))


def told_by(*events: Seen) -> tuple[dict[int, int | None], tuple[str, ...]]:
    """By which task each task is awaited, and the notes."""
    made = tasks(traced(*events))
    assert made.notes == made.chains.notes
    return dict(zip(made.awaits.values("task"), made.awaits.values("awaited_by"), strict=True)), made.notes


def without_call(count: int) -> tuple[str, ...]:
    return (NO_CALL.format(count=f"{count:,}"),)


B1 = [awaits(0, 1, 2, "App.B1"), awaits(0, 2, 3, "App.M"), awaits(0, 3, 0, "App.Main", blocks=True)]
"""Main awaits M, which awaits B1, which awaits a delay."""
B1_GOES_ON = done(30, 1, 2, ENDS)
B2_WAITS = awaits(30, 6, 0, *goes_on("App.B1"), thread=2, blocks=True)


def test_a_wait_that_blocks_in_a_method_that_went_on_is_below_that() -> None:
    """``async B1() { await Delay(30); B2().Wait(); }``: whole is the chain, and told once its time."""
    events = [*B1, B1_GOES_ON, awaits(30, 5, 6, "App.B2", thread=2), B2_WAITS]
    made = tasks(traced(*events, done(150, 5, 4), done(150, 6), done(151, 2, 2, ENDS), done(152, 3)))
    assert (made.totals.chains, made.totals.deepest, made.totals.blocking, made.notes) == (1, 4, 2, ())
    assert {row["method"]: row["own_ms"] for row in made.by_method} == {
        "app!App.B2()": 120.0,
        "app!App.B1()": 30.0,
        "app!App.M()": 1.0,
        "app!App.Main()": 1.0,
    }
    assert sum(made.by_method.values("own_ms")) == made.profile.total == 152.0
    (chain,) = made.chains
    assert (chain["chain"], chain["duration_ms"]) == ("App.Main > App.M > App.B1 > App.B2", 152.0)


def test_each_wait_of_a_method_that_goes_on_is_below_it_and_what_it_calls_too() -> None:
    second = awaits(45, 8, 0, "App.Helper", *goes_on("App.B1"), thread=2, blocks=True)
    by, notes = told_by(*B1, B1_GOES_ON, B2_WAITS, done(40, 6), second, done(50, 8), done(51, 2), done(52, 3))
    assert (by[6], by[8], notes) == (2, 2, ())


def test_a_wait_on_a_thread_whose_method_returned_long_ago_is_not_below_that() -> None:
    for stack in (("App.Job", "Pool.Dispatch"), ("App.B1", "Pool.Dispatch"), ()):
        by, notes = told_by(*B1, B1_GOES_ON, awaits(40, 6, 0, *stack, thread=2, blocks=True), done(50, 6))
        assert (by[6], notes) == (None, ())


def test_a_wait_is_not_below_a_method_that_goes_on_elsewhere() -> None:
    """On another thread, as another method, and of what ended before."""
    for events in (
        [B1_GOES_ON, awaits(30, 6, 0, *goes_on("App.B1"), thread=3, blocks=True)],
        [B1_GOES_ON, awaits(30, 6, 0, *goes_on("App.Other"), thread=2, blocks=True)],
        [B1_GOES_ON, done(30, 2), awaits(31, 6, 0, *goes_on("App.B1"), thread=2, blocks=True)],
        [B2_WAITS, done(31, 1, 2, ENDS)],
        [B2_WAITS],
    ):
        by, notes = told_by(*B1, *events)
        assert (by[6], notes) == (None, without_call(1))


def test_which_call_waits_is_not_told_after_a_yield() -> None:
    """The thread went on with B1 before; now another call of it is there, of which no end was told."""
    by, notes = told_by(*B1, B1_GOES_ON, awaits(40, 6, 0, *goes_on("App.B1", "Pool.Dispatch"), thread=2, blocks=True))
    assert (by[6], notes) == (None, without_call(1))


def test_which_call_waits_is_not_told_where_several_awaited_what_is_done() -> None:
    gate = [awaits(0, 1, 2, "App.G"), awaits(0, 1, 4, "App.G"), awaits(0, 2, 3, "App.M"), awaits(0, 4, 5, "App.M")]
    wait = awaits(31, 6, 0, *goes_on("App.G"), thread=2, blocks=True)
    by, notes = told_by(*gate, done(30, 1, 3, ENDS), done(30, 1, 2, ENDS), wait)
    assert (by[6], notes) == (None, without_call(1))


def test_what_went_on_within_a_method_and_has_returned_is_not_what_waits() -> None:
    """B1 sets a result, by which another call of it goes on, yields, and so returns: then the first one waits."""
    within = (WRITES_END, "App.SetResult", *goes_on("App.B1"))
    other = [awaits(0, 11, 12, "App.B1"), awaits(0, 12, 13, "App.M"), done(31, 11, 2, within)]
    inner = awaits(32, 7, 0, *goes_on("App.B1", *within), thread=2, blocks=True)
    outer = awaits(40, 6, 0, *goes_on("App.B1"), thread=2, blocks=True)
    by, notes = told_by(*B1, B1_GOES_ON, *other, inner, done(35, 7), outer)
    assert (by[7], by[6], notes) == (12, 2, ())


def test_which_call_waits_is_not_told_where_code_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a stack is several, by its time, and those of ends have none."""
    monkeypatch.setattr(KindStacks, "of", lambda self, kind, time: kind.copy())
    by, notes = told_by(*B1, B1_GOES_ON, B2_WAITS)
    assert (by[6], notes) == (None, without_call(1))


def test_of_calls_that_go_on_at_one_place_the_last_one_waits() -> None:
    other = [awaits(0, 11, 12, "App.B1"), awaits(0, 12, 13, "App.M"), done(35, 11, 2, ENDS)]
    by, notes = told_by(*B1, B1_GOES_ON, *other, awaits(40, 6, 0, *goes_on("App.B1"), thread=2, blocks=True))
    assert (by[6], notes) == (12, ())


CORE_TASKS = {"System.Threading.Tasks.Task": "/x/System.Private.CoreLib.dll"}


@pytest.mark.parametrize(("is_awaited", "expected"), [(True, 9), (False, 2)])
def test_a_wait_in_a_task_that_the_method_has_executed_is_by_that_if_it_is_awaited(
    is_awaited: bool, expected: int
) -> None:
    stack = ("App.Lambda", EXECUTES, *goes_on("App.B1"))
    waits = [awaits(31, 9, 0, *goes_on("App.B1"), thread=2, blocks=True)] if is_awaited else []
    inner = awaits(32, 6, 0, *stack, thread=2, blocks=True, inside=9)
    made = tasks(traced(*B1, B1_GOES_ON, *waits, inner, modules=CORE_TASKS))
    by = dict(zip(made.awaits.values("task"), made.awaits.values("awaited_by"), strict=True))
    assert (by.get(9, 2), by[6], made.notes) == (2, expected, ())


def test_a_method_that_goes_on_at_the_end_of_a_task_waits_itself_and_not_that_task() -> None:
    """``await Task.Run(…); B2().Wait();``: the thread executes the task still."""
    below = (WRITES_END, EXECUTES, "Pool.Dispatch")
    wait = awaits(30, 6, 0, *goes_on("App.B1", *below), thread=2, blocks=True, inside=1)
    by, notes = told_by(*B1, done(30, 1, 2, below), wait)
    assert (by[6], notes) == (2, ())


def test_tasks_that_wait_for_themselves_are_no_callers_of_themselves() -> None:
    wait = awaits(30, 2, 0, *goes_on("App.B1"), thread=2, blocks=True)
    made = tasks(traced(awaits(0, 1, 2, "App.B1"), B1_GOES_ON, wait))
    assert (made.totals.chains, made.notes) == (1, without_call(1))


CORE = dict.fromkeys(
    (
        "System.Threading.Tasks.TplEventSource",
        "System.Runtime.CompilerServices.TaskAwaiter",
        "System.Runtime.CompilerServices.AsyncTaskMethodBuilder",
        "System.Threading.ThreadPoolWorkQueue",
        "System.Threading.TimerQueue",
    ),
    "/x/System.Private.CoreLib.dll",
)
AWAITING = (
    "System.Threading.Tasks.TplEventSource.TaskWaitBegin",
    "System.Runtime.CompilerServices.TaskAwaiter.OutputWaitEtwEvents",
    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder.AwaitUnsafeOnCompleted",
)


def test_an_await_of_net_itself_is_of_who_awaits_and_not_of_what_writes_events() -> None:
    modules = {**CORE, "System.Net.Http.Handler": "/x/System.Net.Http.dll"}
    stack = (*AWAITING, "System.Net.Http.Handler.Send", "App.Ask")
    events = [awaits(1, 10, 20, *AWAITING, "App.Ask"), awaits(2, 11, 10, *stack), done(3, 11), done(4, 10)]
    made = tasks(traced(*events, modules=modules))
    assert made.awaits.values("method") == ["app!App.Ask()", "System.Net.Http!System.Net.Http.Handler.Send()"]
    assert made.chains.values("chain") == ["App.Ask > System.Net.Http.Handler.Send"]
    only = tasks(traced(awaits(1, 10, 20, *AWAITING), modules=modules))  # nothing else is there
    assert only.awaits.values("method") == [f"System.Private.CoreLib!{AWAITING[0]}()"]


def test_work_is_queued_by_who_called_the_queue() -> None:
    stack = ("System.Threading.ThreadPoolWorkQueue.Enqueue", "System.Threading.TimerQueue.FireNextTimers")
    made = threadpool(traced(queued(1, 1, 7, *stack), queued(2, 1, 8, *stack, "App.Main"), modules=CORE))
    assert made.work.values("method") == [f"System.Private.CoreLib!{stack[1]}()", "app!App.Main()"]


def test_awaits_that_are_too_deep_in_each_other_are_told_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = [*(awaits(number, number, number - 1, "A.M") for number in range(1, 10))]
    ended = [done(20 + number, 10 - number) for number in range(1, 10)]
    for most, chains, notes in ((4, 3, (TOO_DEEP,)), (9, 1, ()), (1000, 1, ())):
        monkeypatch.setattr(await_rows, "DEEPEST", most)
        made = tasks(traced(*deep, *ended))
        assert (made.totals.chains, made.totals.deepest, made.notes) == (chains, min(most, 9), notes)
        assert sum(made.by_method.values("own_ms")) == pytest.approx(
            sum(row["duration_ms"] for row in made.awaits if row["depth"] == 1)
        )


def test_what_a_task_awaited_before_it_was_awaited_is_not_taken_from_who_awaits_it() -> None:
    """``var b = B(); …; await b;``, by two."""
    events = [awaits(0, 30, 2), done(50, 30), awaits(60, 2, 1), awaits(60, 2, 5), awaits(70, 31, 2), done(80, 31)]
    made = tasks(traced(*events, done(100, 2), done(100, 2)))
    taken = [(row["task"], row["duration_ms"]) for row in made.awaits.to_pylist()]
    assert taken == [(30, 50.0), (2, 40.0), (2, 40.0), (31, 10.0)]
    assert made.by_method.values("own_ms") == [50.0 + 30.0 + 30.0 + 10.0]
    assert sorted(made.profile.weight.tolist()) == [10.0, 30.0, 30.0, 50.0]


def test_of_a_long_chain_the_first_and_the_last_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(await_chains, "NAMED", 4)
    events = [*(awaits(number, number, number - 1, f"A.M{number}") for number in range(1, 8))]
    made = tasks(traced(*events, *(done(20 - number, number) for number in range(7, 0, -1))))
    assert made.chains.values("chain") == ["A.M1 > A.M2 > 3 more > A.M6 > A.M7"]
    assert made.chains.values("depth") == [7]


def test_what_a_task_awaits_between_two_who_await_it_is_of_those_who_waited_then() -> None:
    events = [awaits(0, 2, 1), done(10, 2), awaits(20, 2, 5), awaits(25, 30, 2), done(35, 30), done(40, 2)]
    made = tasks(traced(*events))
    assert [(row["task"], row["duration_ms"]) for row in made.awaits] == [(2, 10.0), (2, 20.0), (30, 10.0)]
    assert sorted(made.profile.weight.tolist()) == [10.0, 10.0, 10.0]
