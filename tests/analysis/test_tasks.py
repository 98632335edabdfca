"""Awaits by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.test_thread_pool import queued
from tests.analysis.traces import Seen, said, traced
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis import tasks as room
from dotnetdiag.analysis.tasks import (
    NO_EVENTS,
    NO_MEMBERS,
    OF_OTHERS,
    OPERATION,
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


def done(ms: float, task: int, thread: int = 2) -> Seen:
    return said(ms, thread, provider=TPL, number=WAIT_ENDED, name="TaskWait/Stop", OriginatingTaskID=0, TaskID=task)


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
        patch.setattr(room, "DEEPEST", deepest)
        made = tasks(traced(*events))
    for number, depth in zip(made.awaits.values("task"), made.awaits.values("depth"), strict=True):
        way = [number]
        while 0 < callers[way[-1] - 1] <= len(callers) and callers[way[-1] - 1] not in way:
            way.append(callers[way[-1] - 1])
        is_cyclic = 0 < callers[way[-1] - 1] <= len(callers) and callers[way[-1] - 1] != way[-1]
        expected = 1 if is_cyclic else (len(way) - 1) % deepest + 1
        assert depth == expected, (number, callers)


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
        stack = (f"A.M{place}",) if place else ()
        events.append(awaits(at, task, by, *stack, blocks=blocks, inside=by))
        events += [done(at + lasts + 0.5, task)] if lasts else []
    events.sort(key=lambda event: event.ms)
    expected = told(events)
    with pytest.MonkeyPatch.context() as patch:
        for where, name, value in (
            (scratch, "MAPPED_ROWS", 0),
            (scratch, "MAPPED_SLICE", 3),
            (room, "_LOOKED_UP", 2),
            (room, "_SLICE", 2),
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
    for most, chains, notes in ((4, 3, (room.TOO_DEEP,)), (9, 1, ()), (1000, 1, ())):
        monkeypatch.setattr(room, "DEEPEST", most)
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
    monkeypatch.setattr(room, "NAMED", 4)
    events = [*(awaits(number, number, number - 1, f"A.M{number}") for number in range(1, 8))]
    made = tasks(traced(*events, *(done(20 - number, number) for number in range(7, 0, -1))))
    assert made.chains.values("chain") == ["A.M1 > A.M2 > 3 more > A.M6 > A.M7"]
    assert made.chains.values("depth") == [7]


def test_what_a_task_awaits_between_two_who_await_it_is_of_those_who_waited_then() -> None:
    events = [awaits(0, 2, 1), done(10, 2), awaits(20, 2, 5), awaits(25, 30, 2), done(35, 30), done(40, 2)]
    made = tasks(traced(*events))
    assert [(row["task"], row["duration_ms"]) for row in made.awaits] == [(2, 10.0), (2, 20.0), (30, 10.0)]
    assert sorted(made.profile.weight.tolist()) == [10.0, 10.0, 10.0]
