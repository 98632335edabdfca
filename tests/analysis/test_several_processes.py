"""Recordings of several processes: what one tells is not taken for what the others do."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from tests.analysis.test_thread_pool import begun, queued, worker
from tests.analysis.traces import Seen, allocation_sample, allocation_tick, external, managed, said, traced
from tests.trace.made import RUNTIME, z16

from dotnetdiag.analysis.allocations import STATED, UNNAMED, allocations
from dotnetdiag.analysis.exceptions import NO_CATCHES, _Catchers, exceptions
from dotnetdiag.analysis.kind_rows import KindStacks
from dotnetdiag.analysis.lacking import Lacking
from dotnetdiag.analysis.logs import logs
from dotnetdiag.analysis.native import NO_STATES, RuntimeFacts
from dotnetdiag.analysis.stacked import NO_STACKS
from dotnetdiag.analysis.thread_pool import NO_QUEUE, TPL, UNQUEUED, threadpool
from dotnetdiag.analysis.threads import NO_SAMPLES, ThreadsFold, threads
from dotnetdiag.trace.trace import Trace

OTHER = 79
LOGGING = "Microsoft-Extensions-Logging"


def of_two(*events: Seen) -> Trace:
    """Threads from 10 on are of the other process."""
    numbers = {event.thread for event in events}
    ordered = sorted(events, key=lambda one: one.ms)
    return traced(*ordered, version=6, processes={one: OTHER for one in numbers if one >= 10})


def by(thread: int, *events: Seen) -> list[Seen]:
    return [replace(event, thread=thread) for event in events]


def test_ticks_count_of_a_process_without_samples() -> None:
    ticks = [allocation_tick(ms, "App.T", 50_000_000, 24) for ms in range(10)]
    samples = [allocation_sample(ms + 0.5, "App.S", 24) for ms in range(10)]
    made = allocations(of_two(*by(1, *samples, allocation_tick(3.2, "App.S", 1000, 24)), *by(10, *ticks)))
    alone = allocations(of_two(*by(1, *samples)))
    found = {row["pid"]: row["bytes"] for row in made.by_thread}
    assert found[OTHER] == 500_000_000
    assert sum(found.values()) == made.totals.bytes == alone.totals.bytes + 500_000_000
    assert sum(made.by_second.values("bytes")) == made.totals.bytes
    assert (made.totals.source, made.totals.error_bytes) == ("samples and ticks", None)
    assert made.notes[:2] == (STATED["samples"], STATED["ticks"])


@pytest.mark.parametrize("both", [False, True])
def test_messages_as_json_count_of_a_process_without_texts(both: bool) -> None:
    as_text = [message(ms, 1, "FormattedMessage", FormattedMessage="hello") for ms in range(3)]
    as_json = [message(ms + 0.5, 10, "MessageJson", ArgumentsJson="{}") for ms in range(5)]
    of_first = [message(ms + 0.1, 1, "MessageJson", ArgumentsJson="{}") for ms in range(3)] if both else []
    made = logs(of_two(*as_text, *as_json, *of_first))
    assert made.totals.count == len(made.messages) == sum(made.by_event.values("count")) == 8
    assert [row["pid"] for row in made.messages].count(OTHER) == 5
    assert made.messages.values("ms") == sorted(made.messages.values("ms"))
    assert {row["message"] for row in made.messages} == {"hello", None}


def test_messages_of_core_3_have_texts_beside_those_of_later_versions() -> None:
    old = '{"id":"7","{OriginalFormat}":"cart {id} is lost"}'
    later = message(1, 1, "MessageJson", ArgumentsJson="{}", FormattedMessage="paid")
    made = logs(of_two(later, replace(message(2, 10, "MessageJson", ArgumentsJson=old), number=6)))
    assert made.messages.values("message") == ["paid", "cart 7 is lost"]


def message(ms: float, thread: int, kind: str, **fields: str) -> Seen:
    number = {"FormattedMessage": 1, "MessageJson": 5}[kind]
    values: dict[str, int | str] = {"Level": 2, "LoggerName": "App", "EventId": 7, "EventName": "E", **fields}
    return said(ms, thread, provider=LOGGING, number=number, name=kind, **values)


def test_a_queue_that_is_left_out_is_named() -> None:
    work = [event for ms in range(10) for event in (queued(ms, 1, ms + 1), begun(ms + 0.5, 1, ms + 1))]
    tasks = [said(ms, 10, provider=TPL, number=7, name="TaskScheduled", TaskID=ms + 1) for ms in range(5)]
    made = threadpool(of_two(*work, *tasks))
    assert made.totals.count == 10
    assert f"of which the recording has tasks alone: {OTHER}" in made.notes[0]
    assert threadpool(of_two(*work)).notes == ()


def test_a_process_whose_queue_is_not_told_is_said_to_be_one() -> None:
    waited = [queued(1, 1, 7), begun(2, 1, 7), worker(3, 1)]
    assert threadpool(of_two(*waited, *by(10, worker(1, 2)))).notes == (f"of process {OTHER}: {NO_QUEUE}",)
    assert threadpool(of_two(*waited, *by(10, begun(1, 10, 7), worker(1, 2)))).notes == (
        f"of process {OTHER}: {UNQUEUED}",
    )
    assert threadpool(of_two(*by(10, begun(1, 10, 7), worker(1, 2)))).notes == (UNQUEUED,)
    assert threadpool(of_two(*waited, *by(10, *waited))).notes == ()


def test_what_is_not_told_of_a_process_is_none_where_others_tell_it() -> None:
    made = threads(of_two(*(managed(ms, 1, "App.M") for ms in range(10)), *by(10, allocation_tick(3, "T", 1000, 24))))
    rows = {row["pid"]: row for row in made.threads}
    assert (rows[OTHER]["cpu_ms"], rows[OTHER]["waiting_ms"], rows[OTHER]["samples"]) == (None, None, None)
    own = next(row for pid, row in rows.items() if pid != OTHER)
    assert (own["cpu_ms"], own["samples"], own["allocated_bytes"]) == (9.0, 10, None)
    assert (made.totals.cpu_ms, made.notes) == (9.0, (f"of process {OTHER}: {NO_SAMPLES}",))


def test_a_sampler_without_states_is_that_of_its_process() -> None:
    asked = ThreadsFold(runtime=lambda: RuntimeFacts(tells_states=False))
    trace = of_two(*(managed(ms, 1, "App.M") for ms in range(30)), *(external(ms, 10, "App.N") for ms in range(30)))
    for window in trace.windows(asked.wants):
        asked.feed(window)
    made = asked.result()
    assert {row["pid"] == OTHER: row["cpu_ms"] for row in made.threads} == {True: None, False: 29.0}
    assert (made.totals.cpu_ms, made.notes) == (29.0, (f"of process {OTHER}: {NO_STATES}",))


def test_what_one_process_does_not_tell_is_said_of_it() -> None:
    """As NativeAOT, merged with another."""
    named, bare = (allocation_tick(ms, name, 1000, 24, type_id=7) for ms, name in ((1, "App.T"), (2, "")))
    made = allocations(of_two(named, *by(10, replace(bare, stack=()))))
    assert made.notes[1:] == (f"of process {OTHER}: {UNNAMED}", f"of process {OTHER}: {NO_STACKS}")
    assert allocations(of_two(named, *by(10, named))).notes[1:] == ()
    assert allocations(of_two(*by(10, replace(bare, stack=())))).notes[1:3] == (UNNAMED, NO_STACKS)


def test_who_caught_is_not_told_of_a_process_without_catches() -> None:
    payload = z16("App.Lost") + z16("") + bytes(16)
    throw = Seen(ms=1, thread=1, stack=("App.Throw",), provider=RUNTIME, number=80, payload=payload, version=1)
    catch = Seen(
        ms=2,
        thread=1,
        stack=(),
        provider=RUNTIME,
        number=250,
        payload=struct.pack("<QQ", 0, 0) + z16("App.Catch") + bytes(2),
    )
    both = exceptions(of_two(throw, catch, *by(10, throw)))
    assert both.notes == (f"of process {OTHER}: {NO_CATCHES}",)
    assert both.totals.caught == 1
    alone = exceptions(of_two(*by(10, replace(throw, stack=()))))
    assert (alone.notes, alone.totals.caught) == ((NO_CATCHES, NO_STACKS), None)


class Named:
    """Stacks of two processes, whose frames have other parameters."""

    def frame_names(self, pid: int | None) -> list[str]:
        own = {1: ["lib!Lib.Pool.Run(int32)", "lib!Lib.Same()"], 2: ["lib!Lib.Pool.Run(class T)", "lib!Lib.Same()"]}
        return own[pid] if pid is not None else [name for names in own.values() for name in names]


def test_who_catches_is_named_by_the_stacks_of_its_process() -> None:
    """Two runtimes may have a method with other parameters each, and tell of who catches as their metadata has it."""
    told = ["void [lib] Lib.Pool::Run(!!0)", "void [lib] Lib::Same()", "?"]
    catchers = _Catchers(told, cast("KindStacks", Named()), np.array([2, 1, 2]))
    kind, method = np.array([0, 1, 2, 1, 0, 1]), np.array([0, 0, 1, 1, 2, -1], np.int32)
    found = catchers.of(kind, method)
    assert [catchers.names[one] for one in found[:5]] == [
        "lib!Lib.Pool.Run(class T)", "lib!Lib.Pool.Run(int32)", "lib!Lib.Same()", "lib!Lib.Same()", "?",
    ]  # fmt: skip
    assert found[2] == found[3]
    assert found[5] == -1
    alone = _Catchers(told[:1], cast("KindStacks", Named()), np.array([1, 1]))
    assert alone.names == ["lib!Lib.Pool.Run(!!0)"], "which of them it is is not known"
    none = _Catchers([], cast("KindStacks", Named()), np.array([1]))
    assert none.of(np.array([0]), np.array([-1])).tolist() == [-1]


@pytest.mark.parametrize("count", range(1, 6))
def test_processes_are_named_and_the_others_counted(count: int) -> None:
    lacking = Lacking.of(np.repeat(np.arange(6), 2), np.repeat(np.arange(6) >= count, 2))
    some = ["process 0", "processes 0 and 1", "processes 0, 1 and 2", "processes 0, 1, 2 and another"]
    said = [*some, "processes 0, 1, 2 and 2 others"][count - 1]
    assert lacking.notes("none") == (f"of {said}: none",)
    assert Lacking.of(np.arange(6), np.zeros(6, np.bool_)).notes("none") == ("none",)
    assert Lacking.of(np.arange(6), np.ones(6, np.bool_)).notes("none") == ()
    assert Lacking.of(np.zeros(0, np.int64), np.zeros(0, np.bool_)).notes("none") == ()
