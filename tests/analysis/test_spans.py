"""What begins with one event and ends with another."""

from __future__ import annotations

import io
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nettrace.recordings import recording

import dotnetdiag as dd
from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.trace.trace import Trace

START, STOP = "Work/Start", "Work/Stop"
NUMBER = (
    Field(name="Id", type=FieldType(code=TypeCode.INT32)),
    Field(name="Size", type=FieldType(code=TypeCode.INT32)),
)


def recorded(steps: list[tuple[int, int, int]], activity: bool = False) -> Trace:
    """(1 start or 2 stop, thread, id) one tick apart."""
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, START), (2, STOP)):
            writer.add_metadata(
                Metadata(metadata_id=number, provider="Mine", event_id=number, name=name, fields=NUMBER)
            )
        for time, (kind, thread, key) in enumerate(steps):
            ids: dict[str, Any] = {"activity": UUID(int=key + 1)} if activity else {}
            writer.write_event(kind, time * 1_000_000, struct.pack("<ii", key, time), thread=thread, **ids)
    return Trace(file.getvalue())


def one_by_one(steps: list[tuple[int, int, int]], place: int) -> list[tuple[int, int | None]]:
    """(size of the start, of its stop): a list of what is open for each key."""
    open_now: dict[int, list[int]] = {}
    found: dict[int, int | None] = {}
    for time, step in enumerate(steps):
        waiting = open_now.setdefault(step[place], [])
        if step[0] == 1:
            waiting.append(time)
            found[time] = None
        elif waiting:
            found[waiting.pop()] = time
    return sorted(found.items())


def pairs(table: Any) -> list[tuple[int, int | None]]:
    return list(zip(table["Size"].to_pylist(), table["stop_Size"].to_pylist(), strict=True))


STEPS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=40)


@given(STEPS)
def test_the_start_that_came_last_and_is_still_open_is_the_one_that_ends(steps: list[tuple[int, int, int]]) -> None:
    if {step[0] for step in steps} != {1, 2}:
        return
    for by, place in (("tid", 1), ("Id", 2)):
        table = dd.spans(recorded(steps), START, STOP, by=by)
        expected = one_by_one(steps, place)
        assert pairs(table) == expected
        ended = sum(stop is not None for _, stop in expected)
        loose = sum(kind == 2 for kind, *_ in steps) - ended
        assert (f"{loose} {STOP} without {START}" in table.notes) == bool(loose)
        assert (f"{len(expected) - ended} without {STOP}" in table.notes) == (ended < len(expected))


def test_what_belongs_together_is_told_by_activities_then_by_a_number_then_by_threads() -> None:
    crossed = [(1, 1, 7), (1, 1, 8), (2, 2, 7), (2, 2, 8)]
    assert pairs(dd.spans(recorded(crossed, activity=True), START, STOP)) == [(0, 2), (1, 3)]
    assert dd.spans(recorded(crossed, activity=True), START, STOP).notes[0] == "by activity"
    numbered = dd.spans(recorded(crossed), START, STOP)
    assert (numbered.notes, pairs(numbered)) == (("by Id",), [(0, 2), (1, 3)])
    nested = [(1, 1, 7), (1, 1, 7), (2, 1, 7), (1, 2, 7), (2, 2, 7), (2, 1, 7)]
    threads = dd.spans(recorded(nested), START, STOP, by=["tid"])
    assert pairs(threads) == [(0, 5), (1, 2), (3, 4)]
    assert threads["duration_ms"].to_pylist() == pytest.approx([5, 1, 1])
    assert threads["stop_tid"].to_pylist() == [1, 1, 2]


def test_collections_have_the_durations_that_the_events_say() -> None:
    trace = dd.open(recording("gcverbose-10.nettrace"))
    table = dd.spans(trace, "GC/Start", "GC/Stop")
    starts = {event.Count: event.ms for event in trace["GC/Start"]}
    stops = {event.Count: event.ms for event in trace["GC/Stop"]}
    assert table.notes[0] == "by Count"
    assert {row["Count"]: row["duration_ms"] for row in table} == {
        count: None if count not in stops else pytest.approx(stops[count] - ms) for count, ms in starts.items()
    }
    assert len(table.to_pandas()) == len(starts)
    assert set(table["Reason"].to_pylist()) >= {"Induced"}


def test_names_that_are_not_there_are_errors() -> None:
    trace = recorded([(1, 1, 1), (2, 1, 1)])
    with pytest.raises(UnknownName, match="no event 'Work/Begin'"):
        dd.spans(trace, "Work/Begin", STOP)
    with pytest.raises(UnknownName, match="no column 'Idd' of Mine/Work//Start v0; near: Id, tid"):
        dd.spans(trace, START, STOP, by="Idd")
    with pytest.raises(UsageError, match="by no column"):
        dd.spans(trace, START, STOP, by=())
