"""Questions as folds over windows: in any pieces, several at once, beside events that are none of theirs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analysis.traces import (
    Seen,
    allocation,
    event_source,
    external,
    managed,
    off_cpu,
    on_cpu,
    traced,
    weights,
    worker_start,
)
from tests.nettrace.recordings import data_of, recordings
from tests.syntax import syntax_of

import dotnetdiag as dd
from dotnetdiag import analysis
from dotnetdiag.analysis.allocations import AllocationsFold
from dotnetdiag.analysis.cpu import CpuFold, Marks, cpu
from dotnetdiag.analysis.exceptions import ExceptionsFold
from dotnetdiag.analysis.fold import Fold, fold
from dotnetdiag.analysis.gc_collections import GcFold
from dotnetdiag.analysis.jit import JitFold
from dotnetdiag.analysis.loader import LoaderFold
from dotnetdiag.analysis.logs import LogsFold
from dotnetdiag.analysis.profile import COLUMNS, Profile
from dotnetdiag.analysis.stacks import StacksFold, stacks
from dotnetdiag.analysis.startup import StartupFold
from dotnetdiag.analysis.tasks import TasksFold
from dotnetdiag.analysis.thread_pool import ThreadPoolFold
from dotnetdiag.analysis.threads import ThreadsFold
from dotnetdiag.analysis.waits import ContentionFold, WaitsFold
from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.events import EventSchema
from dotnetdiag.nettrace import EventBatch
from dotnetdiag.table import Table
from dotnetdiag.trace.source import Source
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

MIXED = (
    managed(1, 1, "P.Leaf", "P.Main"),
    worker_start(1.5, 2),
    managed(2, 2, "P.Other"),
    allocation(3, 1, "P.New", "P.Main", size=500),
    external(4, 1, "P.Wait", "P.Main"),
    event_source(4.5, 2, "P.Say"),
    managed(5, 2, "P.Other"),
    managed(10, 1, "P.Leaf", "P.Main"),
)


def assert_same(found: Profile, expected: Profile) -> None:
    for name in COLUMNS:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert found.tree.frame.tolist() == expected.tree.frame.tolist()
    assert found.frame_names() == expected.frame_names()
    for name in ("name", "unit", "threads", "origin", "notes", "from_ns", "to_ns"):
        assert getattr(found, name) == getattr(expected, name)


def pieces(trace: Trace, rows: int) -> Iterator[EventTable]:
    """All events, so many at once."""
    for window in trace.windows():
        for first in range(0, len(window), rows):
            yield window.slice(first, first + rows)


@pytest.mark.parametrize("marks", Marks)
def test_windows_of_any_size_with_events_of_any_kind_give_the_same_profile(marks: str) -> None:
    for rows in (1, 2, 3, 100):
        trace = traced(*MIXED)
        asked = CpuFold(marks=marks)
        for window in pieces(trace, rows):
            asked.feed(window)
        assert_same(asked.result(), cpu(traced(*MIXED), marks=marks))


@pytest.mark.parametrize("name", recordings())
def test_all_windows_of_a_recording_give_what_those_of_the_wanted_types_do(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    sampled, counted = CpuFold(marks=Marks.EVENTS), StacksFold()
    for window in trace.windows():
        sampled.feed(window)
        counted.feed(window)
    assert_same(sampled.result(), cpu(Trace(data_of(name), name=name), marks=Marks.EVENTS))
    assert_same(counted.result(), stacks(Trace(data_of(name), name=name)))


@pytest.mark.parametrize("name", recordings())
def test_a_report_does_not_depend_on_the_size_of_windows(name: str) -> None:
    """Nor does the order of rows that come to the same."""
    found = [
        [
            {key: value.to_pylist() if isinstance(value, Table) else value for key, value in made.document().items()}
            for made in fold(
                Trace(data_of(name), name=name),
                GcFold(),
                JitFold(),
                AllocationsFold(),
                LogsFold(),
                ExceptionsFold(),
                ThreadPoolFold(),
                rows=rows,
            )
        ]
        for rows in (500, 1 << 16)
    ]
    assert found[0] == found[1]


def test_several_folds_share_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[Source] = []
    batches = Source.batches

    def counted(self: Source, **options: Any) -> Iterator[EventBatch]:
        passes.append(self)
        return batches(self, **options)

    monkeypatch.setattr(Source, "batches", counted)
    allocated = StacksFold("GC/AllocationTick", weight="AllocationAmount64", unit="bytes")
    time, size = fold(traced(*MIXED), CpuFold(), allocated)
    assert len(passes) == 1
    assert_same(time, cpu(traced(*MIXED)))
    assert_same(size, stacks(traced(*MIXED), "GC/AllocationTick", weight="AllocationAmount64", unit="bytes"))
    assert weights(size.top(1)) == {"P.New": (500.0, 500.0)}


def test_windows_of_two_recordings_are_not_one_question() -> None:
    """Their addresses, stacks and threads mean different things."""
    one, two = traced(*MIXED), traced(*MIXED)
    asked = CpuFold()
    for window in one.windows(asked.wants):
        asked.feed(window)
    (window,) = two.windows(asked.wants)
    with pytest.raises(UsageError, match="windows of two recordings"):
        asked.feed(window)


@pytest.mark.parametrize("asked", [CpuFold(), StacksFold("Thread/Sample")], ids=["cpu", "stacks"])
def test_a_result_is_given_once(asked: CpuFold | StacksFold) -> None:
    for window in traced(*MIXED).windows(asked.wants):
        asked.feed(window)
    assert asked.result().total > 0
    with pytest.raises(UsageError, match="was given already"):
        asked.result()


def test_an_empty_answer_tells_names_that_nothing_has_from_events_that_did_not_come() -> None:
    trace = traced(*MIXED)
    (made,) = fold(trace, StacksFold(["GC/Strat", "GC/Stpo"]))
    assert made.notes == ("no event GC/Strat is defined", "no event GC/Stpo is defined")
    (made,) = fold(trace, StacksFold(["GC/Strat", "Thread/Sample"]))
    assert made.notes == ("no event GC/Strat is defined",)
    assert made.total > 0


def test_a_profile_of_events_without_stacks_says_so() -> None:
    (made,) = fold(traced(managed(1, 1), managed(2, 1)), CpuFold())
    assert (made.total, made.notes) == (1.0, ("no event has a call stack",))


def test_questions_are_at_the_root() -> None:
    time, size = dd.fold(traced(*MIXED), dd.CpuFold(), dd.StacksFold("GC/AllocationTick"))
    assert (time.unit, size.unit, size.total) == ("ms", "events", 1.0)


def test_a_fold_of_ones_own_gets_the_types_that_it_wants() -> None:
    class Ids:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def wants(self, schema: EventSchema) -> bool:
            return schema.provider == "My-EventSource"

        def feed(self, window: EventTable) -> None:
            self.seen += window.numpy("id").tolist()

        def result(self) -> list[int]:
            return self.seen

    question: Fold[list[int]] = Ids()
    assert fold(traced(*MIXED), question) == ([5],)


def test_a_trace_without_a_wanted_event_gives_an_empty_result_and_no_window_an_error() -> None:
    trace = traced(event_source(1, 1, "P.Say"))
    assert fold(trace, StacksFold("GC/Start"))[0].total == 0
    for question in (CpuFold(), StacksFold()):
        with pytest.raises(UsageError, match="a result of no window"):
            question.result()


def test_events_without_the_weight_count_nothing_and_one_that_is_in_none_or_no_number_is_an_error() -> None:
    trace = traced(*MIXED)
    (made,) = fold(trace, StacksFold(["GC/AllocationTick", "Thread/Sample"], weight="AllocationAmount64"))
    assert (len(made), made.total, made.unit) == (6, 500.0, "AllocationAmount64")
    with pytest.raises(UnknownName, match="no field 'Nothing' in these events"):
        fold(trace, StacksFold("GC/AllocationTick", weight="Nothing"))
    with pytest.raises(UsageError, match="TypeName is no number"):
        fold(trace, StacksFold("GC/AllocationTick", weight="TypeName"))


def taken(*rounds: tuple[Seen, ...], weight: str = "time") -> list[Profile]:
    """What each round of events adds, as a session has them."""
    trace = traced(*(event for one in rounds for event in one))
    asked, made, first = CpuFold(weight=weight), [], 0
    (window,) = trace.windows(asked.wants)
    for one in rounds:
        asked.feed(window.slice(first, first + len(one)))
        made.append(asked.take())
        first += len(one)
    return list(made)


@pytest.mark.parametrize("weight", ["time", "samples"])
def test_what_is_taken_bit_by_bit_weighs_what_the_whole_does(weight: str) -> None:
    rounds = (
        (managed(1, 1, "P.A", "P.Main"), managed(2, 2, "P.B")),
        (managed(3, 2, "P.B"), external(4, 1, "P.C", "P.Main")),
        (managed(5, 1, "P.A", "P.Main"), managed(6, 2, "P.D")),
        (managed(9, 1, "P.A", "P.Main"), managed(10, 2, "P.D")),
    )
    sums: dict[str, float] = {}
    for profile in taken(*rounds, weight=weight):
        for name, (own, _) in weights(profile.top(100)).items():
            sums[name] = sums.get(name, 0.0) + own
    whole = cpu(traced(*(event for one in rounds for event in one)), weight=weight)
    expected = {name: own for name, (own, _) in weights(whole.top(100)).items()}
    assert {name: own for name, own in sums.items() if own} == {name: own for name, own in expected.items() if own}


def test_the_last_sample_waits_for_the_next_time_and_keeps_its_stack_and_state() -> None:
    first, second = taken(
        (external(1, 1, "P.Wait", "P.Main"), managed(2, 2, "P.A")), (managed(5, 1, "P.B"), managed(6, 2, "P.B"))
    )
    assert first.total == 0
    assert weights(second.top()) == {"P.Wait": (4.0, 4.0), "P.A": (4.0, 4.0), "P.Main": (0.0, 4.0)}
    assert {state.name for state in second.state_weights()} == {"CPU", "UNMANAGED"}


def test_a_thread_without_samples_while_others_have_some_is_over() -> None:
    *_, last = taken(
        (managed(1, 1, "P.Gone"), managed(1, 2, "P.A")),
        (managed(2, 2, "P.A"),),
        (managed(1001, 1, "P.New"), managed(1002, 1, "P.New"), managed(1002, 2, "P.A")),
    )
    assert weights(last.top()) == {"P.A": (1000.0, 1000.0), "P.New": (1.0, 1.0)}


def test_a_time_without_any_sample_ends_no_thread() -> None:
    *_, last = taken((managed(1, 1, "P.A"), managed(2, 1, "P.A")), (worker_start(3, 9),), (managed(9, 1, "P.B"),))
    assert weights(last.top()) == {"P.A": (7.0, 7.0)}


@pytest.mark.parametrize("question", [CpuFold(), CpuFold(weight="samples"), StacksFold()])
def test_what_is_kept_from_one_time_to_the_next_does_not_grow(question: CpuFold | StacksFold) -> None:
    (window,) = traced(*(managed(at, at, f"P.M{at}", "P.Main") for at in range(1, 50))).windows()
    for row in range(len(window)):
        question.feed(window.slice(row, row + 1))
        question.take()
        assert len(question._columns.stacks.table) <= 2
        assert sum(len(part[0]) for part in question._columns._parts) <= 1


def test_samples_of_the_kernel_put_those_of_the_runtime_away_whenever_they_begin() -> None:
    trace = traced(managed(1, 1, "P.No"), on_cpu(2, 1, "P.A"), managed(3, 1, "P.No"), off_cpu(5, 1, "P.B", length_ms=2), version=6)  # fmt: skip
    for rows in (1, 2, 100):
        asked = CpuFold()
        for window in pieces(trace, rows):
            asked.feed(window)
        assert weights(asked.take().top()) == {"P.B": (2.0, 2.0), "P.A": (1.0, 1.0)}
        assert len(asked.take()) == 0


def test_questions_reach_into_no_trace() -> None:
    """They have windows, and what these are of; what a file is made of is behind ``raw``."""
    for path in (Path(analysis.__file__).parent / f"{name}.py" for name in ("fold", "rows", "cpu", "stacks")):
        for node in ast.walk(syntax_of(path)):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("raw", "source"), f"{path.name}:{node.lineno}"


NEEDS_NONE: list[type[Fold[Any]]] = [
    AllocationsFold,
    ContentionFold,
    ExceptionsFold,
    GcFold,
    JitFold,
    LoaderFold,
    StartupFold,
    TasksFold,
    ThreadPoolFold,
    ThreadsFold,
    WaitsFold,
]


@pytest.mark.parametrize("kind", NEEDS_NONE)
@pytest.mark.parametrize("name", recordings())
def test_who_reads_no_ids_of_activities_finds_the_same_without_them(
    name: str, kind: type[Fold[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer() -> Any:
        (made,) = fold(Trace(data_of(name), name=name), kind())
        return made.to_json()

    assert kind.needs_activities is False  # type: ignore[attr-defined]
    found = answer()
    monkeypatch.setattr(kind, "needs_activities", True, raising=False)
    assert found == answer()


@pytest.mark.parametrize("name", recordings())
def test_ids_of_activities_are_there_for_who_asks_behind_a_pass_without_them(name: str) -> None:
    data = data_of(name)
    trace, whole = Trace(data, name=name), Trace(data, name=name)
    fold(trace, GcFold())
    assert list(trace.raw.guids) == list(whole.raw.guids)
    for column in ("activity", "related"):
        assert [one.values(column) for one in trace.windows()] == [one.values(column) for one in whole.windows()]
    assert trace.raw.losses == whole.raw.losses
