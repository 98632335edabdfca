"""Methods without names: no address is blamed, and a note says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.analysis.test_tasks import awaits, done, operation
from tests.analysis.test_thread_pool import begun, queued
from tests.analysis.test_waits import begins, ends, gets, wants
from tests.analysis.traces import Seen, allocation_tick, managed, traced
from tests.nettrace.recordings import data_of
from tests.trace.made import RUNTIME, z16

import dotnetdiag as dd
from dotnetdiag.analysis.advice import AdviceFold, AdviceReport
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.nameless import CUT, NO_NAMES, without_nameless
from dotnetdiag.table import Losses
from dotnetdiag.trace.frame import Frame, FrameKind
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
    made = dd.exceptions(traced(thrown(1, "App.Run"), thrown(2, "App.Stop"), thrown(3, HELPER, "App.Run")))
    assert set(made.by_method.values("method")) == {"app!App.Run()", "app!App.Stop()", f"!{HELPER:#x}"}
    assert NO_NAMES not in made.notes


def test_an_address_of_a_known_module_is_no_methods_that_lost_its_name() -> None:
    frames = Frames(extra=[Frame(kind=FrameKind.UNRESOLVED, module="libc.so.6", address=HELPER)])
    frame = np.zeros(1, np.int64)
    assert without_nameless(frame, frames, Losses()) == (frame, ())


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
