"""Stacks of exceptions of which only kinds are looked at: the same as of all."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.test_exceptions import CATCH, CATCH_OVER, of, throw
from tests.analysis.traces import Seen, traced, worker_start
from tests.trace.made import RUNTIME, MadeTrace

from dotnetdiag.analysis.exceptions import THROWN, ExceptionsFold, exceptions
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.kept_events import KeptEvents, Texts, having
from dotnetdiag.analysis.kind_rows import Threads
from dotnetdiag.analysis.leaves import with_leaves
from dotnetdiag.analysis.profile import COLUMNS
from dotnetdiag.analysis.stacked import Stacked, StackedEvents
from dotnetdiag.analysis.thread_ids import ThreadIds
from dotnetdiag.events import EventSchema
from dotnetdiag.trace import spilled
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace


class OfAll:
    """A stack for each event, as other questions have them."""

    def __init__(self) -> None:
        self.types = Texts()
        self._thrown = StackedEvents(KeptEvents(having(THROWN), names=("ExceptionType",), texts=self.types))

    def wants(self, schema: EventSchema) -> bool:
        return self._thrown.wants(schema)

    def feed(self, window: EventTable) -> None:
        self._thrown.feed(window)

    def result(self) -> tuple[Stacked, StackedEvents]:
        return self._thrown.result("Exceptions", "exceptions", np.ones(self._thrown.count)), self._thrown


def assert_as_of_all(first: Trace, second: Trace, rows: int) -> None:
    asked = OfAll()
    (told, events), = fold(first, asked, rows=rows)  # fmt: skip
    expected = with_leaves(told.profile, events.kept["ExceptionType"][told.row], asked.types.names)
    made, = fold(second, ExceptionsFold(), rows=rows)  # fmt: skip
    second.close()  # what was asked stays good
    found = made.profile
    for name in COLUMNS:
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert found.tree.frame.tolist() == expected.tree.frame.tolist()
    assert found.tree.parent.tolist() == expected.tree.parent.tolist()
    assert found.frame_names() == expected.frame_names()
    for name in ("name", "unit", "threads", "origin", "notes", "from_ns", "to_ns"):
        assert getattr(found, name) == getattr(expected, name), name
    assert made.thrown.values("method") == told.method.to_pylist()


def some(count: int, seed: int) -> list[Seen]:
    """Throws and catches of threads that come one after the other, some of which throw nothing, with stacks and without."""
    chance = random.Random(seed)
    stacks = [(), ("P.A", "P.Main"), ("P.B", "P.A", "P.Main"), ("System.X.Y", "P.Main"), (0x99999,)]
    made = []
    for at in range(count):
        thread = chance.randint(1, 2 + at // 10)
        seen = chance.choice((throw("a"), throw("b", 18), of(CATCH, "M"), of(CATCH_OVER), worker_start(0, 0)))
        made.append(replace(seen, ms=1.0 + at // 3, thread=thread, stack=chance.choice(stacks)))
    return made


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("rows", [1, 7, 1 << 16])
def test_stacks_are_those_of_all(rows: int, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled, "HELD_BYTES", 500)
    monkeypatch.setattr(spilled, "SLICE_ROWS", 16)
    for seed in range(5):
        events = some(200, seed)
        assert_as_of_all(traced(*events, version=version), traced(*events, version=version), rows)


def loaded(ms: float, thread: int, start: int, name: str, *, number: int = 143) -> Seen:
    """Code of a method that is there from then on; with another number: that is gone then."""
    made = MadeTrace()
    made.load(start, 0x100, name, 0)
    *_, payload = made.events[-1]
    return Seen(ms=ms, thread=thread, stack=(), provider=RUNTIME, number=number, payload=payload, version=1)


@pytest.mark.parametrize("rows", [1, 7, 1 << 16])
@pytest.mark.parametrize("processes", [{}, {2: 78, 3: 79}], ids=["one process", "three"])
def test_stacks_are_those_of_all_where_code_moves(
    processes: dict[int, int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilled, "HELD_BYTES", 500)
    monkeypatch.setattr(spilled, "SLICE_ROWS", 16)
    code = [
        event
        for at, name in ((1, "First"), (60, "Second"), (120, "Third"))
        for thread in (1, 2, 3)
        for event in (
            loaded(at, thread, 0x50000, f"{name}{thread if processes else ''}"),
            loaded(at + 50, thread, 0x50000, f"{name}{thread if processes else ''}", number=144),
        )
    ]
    chance = random.Random(rows)
    thrown = [
        replace(
            throw("a"), ms=1.5 + at, thread=chance.randint(1, 3), stack=chance.choice([(0x50010,), (0x50010, "P.Main")])
        )
        for at in range(200)
    ]
    events = sorted([*code, *thrown], key=lambda one: one.ms)
    assert_as_of_all(
        traced(*events, version=6, processes=processes), traced(*events, version=6, processes=processes), rows
    )
    names = exceptions(traced(*events, version=6, processes=processes)).by_method.values("method")
    assert len({name for name in names if "Some.Type" in name}) == (9 if processes else 3)


def test_no_throw_has_no_stack() -> None:
    events = [replace(of(CATCH, "M"), ms=1.0)]
    assert_as_of_all(traced(*events), traced(*events), 1 << 16)
    assert len(exceptions(traced(*events)).profile) == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 3)), max_size=40), st.integers(1, 50))
def test_threads_are_numbered_in_the_order_in_which_they_come(events: list[tuple[int, int, int]], step: int) -> None:
    large = (1 << 64) - 1  # numbers in a recording may be of any size
    of_ids, told = ThreadIds(), list[tuple[int, int, int]]()
    threads = Threads(of_ids)
    for at in range(0, len(events), step):
        some = dict[int, tuple[int, int, int]]()  # within a window a number is one thread
        facts = [some.setdefault(one[0], (large - one[0], one[1], 1 << 40 | one[2])) for one in events[at : at + step]]
        number, pid, tid = (
            np.array(column, kind) for column, kind in zip(zip(*facts, strict=True), "Qqq", strict=True)
        )
        window = SimpleNamespace(headers=SimpleNamespace(thread=number))
        thread = threads.of(window, SimpleNamespace(pid=pid, tid=tid))  # type: ignore[arg-type]
        told += facts
        known = list(dict.fromkeys(told))
        assert [known[one] for one in thread.tolist()] == facts
        numbers, recorded = threads.recorded()
        assert [numbers[one] for one in recorded.tolist()] == [one[0] for one in known]
        assert list(zip(*(column.tolist() for column in threads.told()), strict=True)) == [one[1:] for one in known]
        ids = of_ids.of(window, SimpleNamespace(pid=pid, tid=tid))  # type: ignore[arg-type]
        assert ids.tolist() == threads.ids[thread].tolist()
