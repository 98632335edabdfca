"""Methods without names: no address is blamed, and a note says what is missing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.analysis.test_cpu import merged
from tests.analysis.test_tasks import awaits, done, operation
from tests.analysis.test_thread_pool import begun, queued
from tests.analysis.test_waits import begins, ends, gets, wants
from tests.analysis.traces import PROCESS, Seen, allocation_tick, managed, traced
from tests.nettrace.recordings import data_of
from tests.trace.made import RUNTIME, z16

import dotnetdiag as dd
from dotnetdiag.analysis.advice import AdviceFold
from dotnetdiag.analysis.advice_report import AdviceReport
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.lacking import MOST_TOLD
from dotnetdiag.analysis.nameless import (
    ALL,
    CUT,
    NO_NAMES,
    NOT_TOLD,
    are_nameless,
    of_process_asked,
    tells_of_names,
)
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.merge import NEXT_PROCESS
from dotnetdiag.trace.trace import Trace

HELPER = 0x7FB4_0000
"""Of .NET, where no name says so."""


def thrown(ms: float, *stack: str | int) -> Seen:
    payload = z16("Lost") + z16("") + bytes(16)
    return Seen(ms=ms, thread=1, stack=stack, provider=RUNTIME, number=80, payload=payload, version=1)


def on(seen: Seen, *stack: str | int) -> Seen:
    return Seen(**{name: getattr(seen, name) for name in Seen.__dataclass_fields__} | {"stack": stack})


MADE: dict[str, Callable[..., tuple[Seen, ...]]] = {
    "exceptions": lambda *stack: (thrown(1, *stack),),
    "contention": lambda *stack: (on(wants(1, 1), *stack), gets(5, 1, 4)),
    "waits": lambda *stack: (on(begins(1, 1), *stack), ends(5, 1)),
    "threadpool": lambda *stack: (on(queued(1, 1, 7), *stack), begun(2, 2, 7)),
    "tasks": lambda *stack: (on(awaits(1, 10, 20), *stack), done(3, 10)),
    "allocations": lambda *stack: (on(allocation_tick(1, "A", 100, 100), *stack),),
}


@pytest.mark.parametrize("kind", MADE)
def test_without_names_no_address_is_blamed_and_a_note_says_so(kind: str) -> None:
    made = getattr(dd, kind)(traced(*MADE[kind](HELPER, HELPER + 64)))
    assert made.by_method.values("method") == [None]
    assert NO_NAMES in made.notes
    assert NO_NAMES in made.by_method.notes
    assert NO_NAMES in made.to_json()["notes"]


@pytest.mark.parametrize("kind", MADE)
def test_with_names_there_is_no_such_note(kind: str) -> None:
    made = getattr(dd, kind)(traced(*MADE[kind]("App.Run", HELPER)))
    assert made.by_method.values("method") == ["app!App.Run()"]
    assert NO_NAMES not in made.notes


def test_one_address_among_names_is_shown() -> None:
    made = dd.exceptions(traced(thrown(1, "App.Run"), thrown(2, "App.Stop"), thrown(3, HELPER)))
    assert set(made.by_method.values("method")) == {"app!App.Run()", "app!App.Stop()", f"!{HELPER:#x}"}
    assert NO_NAMES not in made.notes


def test_an_address_of_a_known_module_is_no_methods_that_lost_its_name() -> None:
    frames = Frames(extra=[Frame(kind=FrameKind.UNRESOLVED, module="libc.so.6", address=HELPER)])
    assert are_nameless(np.array([0, -1]), frames).tolist() == [False, False]


def test_names_that_a_recording_breaks_off_before_are_told_of_otherwise() -> None:
    made = dd.allocations(Trace(data_of("killed-10.nettrace")))
    assert CUT in made.notes
    assert set(made.by_method.values("method")) == {None}


def test_tasks_stand_in_with_their_names_where_methods_have_none() -> None:
    named = [operation(0, 20, "Async: Outer"), operation(0, 10, "Async: Inner")]
    made = dd.tasks(
        traced(*named, on(awaits(1, 10, 20), HELPER), on(awaits(2, 11, 10), HELPER), done(4, 11), done(5, 10))
    )
    assert made.awaits.values("method") == ["Async: Outer", "Async: Inner"]
    assert made.chains.values("chain") == ["Async: Outer > Async: Inner"]
    assert made.notes == (NO_NAMES,)


def test_one_await_without_a_name_has_that_of_its_task() -> None:
    events = [awaits(1, 10, 20, "App.A"), awaits(1, 11, 21, "App.B"), on(awaits(2, 12, 22), HELPER)]
    made = dd.tasks(traced(operation(0, 22, "Async: Outer"), *events))
    assert made.awaits.values("method") == ["app!App.A()", "app!App.B()", "Async: Outer"]
    assert made.notes == ()


def advised(*events: Seen) -> AdviceReport:
    return fold(traced(*events), AdviceFold(seconds=lambda: 3.0))[0]


def test_advice_says_that_methods_of_what_it_found_have_no_names() -> None:
    many = [thrown(float(ms), HELPER) for ms in range(100)]
    made = advised(*many)
    (row,) = made.findings.to_pylist()
    assert "0x" not in row["text"]
    assert made.unnamed == (NO_NAMES,)
    assert made.notes[-1] == NO_NAMES
    assert made.to_json()["notes"] == [NO_NAMES]
    assert advised(*(thrown(float(ms), "App.Run") for ms in range(100))).unnamed == ()


def test_no_address_is_said_to_take_the_time() -> None:
    samples: list[Any] = [managed(float(ms), 1, HELPER) for ms in range(0, 3000, 10)]
    assert len(advised(*samples).findings) == 0
    samples = [managed(float(ms), 1, "App.Spin") for ms in range(0, 3000, 10)]
    assert advised(*samples).findings.values("question") == ["topN"]


def test_code_that_was_freed_is_no_lack_of_names() -> None:
    """Half of what is shown has no name, and their callers have."""
    made = dd.exceptions(traced(thrown(1, HELPER, "App.Main"), thrown(2, "App.Run", "App.Main"), thrown(3, "App.Main")))
    assert NO_NAMES not in made.notes


# several processes ----------------------------------------------------------------------------------------------------


METHODS_AT = 0x10000
"""Where ``traced`` puts the first method."""
SECOND = NEXT_PROCESS + PROCESS
"""What a merged recording calls the process of the second file, whose number is that of the first."""


def of(*pids: int | str) -> str:
    """The note of these processes, of several."""
    *first, last = map(str, pids)
    told = f"processes {', '.join(first)} and {last}" if first else f"process {last}"
    return NO_NAMES.replace("methods", f"methods of {told}")


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("lacks", [PROCESS, SECOND])
def test_of_several_processes_one_without_names_is_treated_as_alone(kind: str, lacks: int) -> None:
    named = traced(*(MADE[kind]("App.Run", "App.Main")), managed(900, 3, "App.Other", "App.Main"))
    nameless = traced(*MADE[kind](HELPER, HELPER + 64))
    made = getattr(dd, kind)(merged(*((nameless, named) if lacks == PROCESS else (named, nameless))))
    assert sorted(made.by_method.values("method"), key=str) == [None, "app!App.Run()"]
    if "pid" in made.by_method.columns:
        assert {row["pid"]: row["method"] for row in made.by_method}[lacks] is None
    told = [note for note in made.notes if tells_of_names(note)]
    assert told == [of(lacks)]
    assert of(lacks) in made.by_method.notes


def test_what_has_stacks_may_be_of_the_process_without_names_alone() -> None:
    """Then the names of the other are no names of this one."""
    busy = [managed(float(ms), 1, f"App.M{ms}", "App.Main") for ms in range(20)]
    made = dd.exceptions(merged(traced(*busy), traced(thrown(1, HELPER, HELPER + 64))))
    assert made.by_method.values("method") == [None]
    assert of(SECOND) in made.notes


def test_an_address_that_both_have_is_shown_of_the_process_with_names() -> None:
    named = traced(thrown(1, "App.Run"), thrown(2, "App.Stop"), thrown(3, HELPER))
    made = dd.exceptions(merged(named, traced(thrown(1, HELPER), thrown(2, HELPER))))
    shown = {(row["pid"], row["method"]) for row in made.thrown}
    assert shown == {
        (PROCESS, "app!App.Run()"),
        (PROCESS, "app!App.Stop()"),
        (PROCESS, f"!{HELPER:#x}"),
        (SECOND, None),
    }
    assert of(SECOND) in made.notes


def test_of_several_processes_code_that_was_freed_is_no_lack_of_names() -> None:
    freed = traced(thrown(1, HELPER, "App.Main"))
    made = dd.exceptions(merged(freed, traced(thrown(1, "App.Run", "App.Main"))))
    assert set(made.by_method.values("method")) == {"app!App.Main()", "app!App.Run()"}
    assert not any(map(tells_of_names, made.notes))


@pytest.mark.parametrize("count", [2, MOST_TOLD, MOST_TOLD + 1, MOST_TOLD + 2])
def test_so_many_processes_without_names_are_named_and_the_others_counted(count: int) -> None:
    made = dd.exceptions(merged(*(traced(thrown(float(one), HELPER + one)) for one in range(count))))
    pids = [PROCESS + one * NEXT_PROCESS for one in range(min(count, MOST_TOLD))]
    more = {MOST_TOLD + 1: ["another"], MOST_TOLD + 2: ["2 others"]}.get(count, [])
    assert of(*pids, *more) in made.notes
    assert made.by_method.values("method") == [None]


def test_a_recording_of_one_process_that_could_tell_of_several_does_not_name_it() -> None:
    made = dd.exceptions(traced(thrown(1, HELPER), version=6))
    assert NO_NAMES in made.notes
    assert made.by_method.values("method") == [None]


def induced(*stack: str | int) -> list[Seen]:
    """A collection that a program asks for."""
    asked = Seen(ms=9, thread=1, stack=stack, provider=RUNTIME, number=35, payload=struct.pack("<IH", 1, 0))
    begin, end = struct.pack("<IIIIHQ", 1, 1, 1, 0, 0, 0), struct.pack("<IIH", 1, 1, 0)
    return [
        asked,
        Seen(ms=10, thread=1, stack=(), provider=RUNTIME, number=1, payload=begin, version=2),
        Seen(ms=11, thread=1, stack=(), provider=RUNTIME, number=2, payload=end, version=1),
    ]


def test_who_asks_for_collections_is_told_of_the_process_that_has_names() -> None:
    alone = dd.gc(Trace(data_of("gccollect-10.nettrace")))
    (lacks,) = set(alone.collections.values("pid"))
    made = dd.gc(merged(Trace(data_of("gccollect-10.nettrace")), traced(*induced("Ask.Now", "Ask.Main"))))
    assert {(row["pid"], row["induced_by"]) for row in made.collections} == {(lacks, None), (PROCESS, "app!Ask.Now()")}
    assert made.by_stack.to_pylist() == [{"collections": 1, "stack": ["app!Ask.Now()", "app!Ask.Main()"]}]
    assert made.notes == made.by_stack.notes == (of(lacks),)
    assert len(alone.by_stack) == 0


def test_profiles_of_several_processes_say_of_which_names_are_missing() -> None:
    names = ("gcverbose-10.nettrace", "gccollect-10.nettrace")
    named, nameless = (dd.gc(Trace(data_of(name))) for name in names)
    made = dd.gc(merged(*(Trace(data_of(name)) for name in names)))
    (lacks,) = set(nameless.collections.values("pid"))
    for alone in (named, nameless):
        (pid,) = set(alone.collections.values("pid"))
        assert [row["induced_by"] for row in made.collections if row["pid"] == pid] == alone.collections.values(
            "induced_by"
        )
    assert made.by_stack.to_pylist() == named.by_stack.to_pylist()
    assert made.notes == (of(lacks),)


def test_advice_says_of_which_process_methods_have_no_names() -> None:
    many = [traced(*(thrown(float(ms), first) for ms in range(100))) for first in ("App.Run", HELPER)]
    (made,) = fold(merged(*many), AdviceFold(seconds=lambda: 3.0))
    assert not any("0x" in row["text"] for row in made.findings)
    assert made.unnamed == (of(SECOND),)
    assert made.to_json()["notes"] == [of(SECOND)]


@pytest.mark.parametrize("note", ALL)
def test_a_process_that_was_asked_itself_is_told_of_in_its_own_words(note: str) -> None:
    of_some = note.replace("methods", "methods of processes 7 and 8")
    asked = of_process_asked(("no exceptions: none was thrown", note, of_some))
    assert asked == {note: NOT_TOLD, of_some: NOT_TOLD.replace("methods", "methods of processes 7 and 8")}
    assert not tells_of_names("methods of before have no names: the target is busy")


def test_a_process_without_names_has_not_those_of_the_other_at_its_addresses() -> None:
    """The addresses of both are the same, and only one told what is there."""
    made = dd.exceptions(merged(traced(thrown(1, "App.Run")), traced(thrown(2, METHODS_AT + 16))))
    assert [(row["pid"], row["method"]) for row in made.thrown] == [(PROCESS, "app!App.Run()"), (SECOND, None)]
    assert of(SECOND) in made.notes


@pytest.mark.parametrize("kind", ["exceptions", "allocations", "contention"])
def test_an_address_before_methods_that_have_names_is_not_who_did_it(kind: str) -> None:
    """The stub through which .NET 8 and 9 call by reflection: nobody's code, and the first that is of no framework."""
    made = getattr(dd, kind)(traced(*MADE[kind](HELPER, HELPER + 64, "App.Plug", "App.Main")))
    assert [one["method"] for one in made.by_method] == ["app!App.Plug()"]
