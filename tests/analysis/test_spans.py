"""What begins with one event and ends with another."""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nettrace.recordings import recording

import dotnetdiag as dd
from dotnetdiag.analysis import span_keys, span_pairs
from dotnetdiag.analysis import spans as room
from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.recipes.spans import spans_of
from dotnetdiag.table import Table
from dotnetdiag.table.parts import rows_at
from dotnetdiag.table.sliced import SlicedTable
from dotnetdiag.trace.scratch import Stored
from dotnetdiag.trace.trace import Trace

START, STOP = "Work/Start", "Work/Stop"
NUMBER = (
    Field(name="Id", type=FieldType(code=TypeCode.INT32)),
    Field(name="Size", type=FieldType(code=TypeCode.INT32)),
)


def recorded(steps: list[tuple[int, int, int]], activity: bool = False, apart: int = 1_000_000) -> Trace:
    """(1 start or 2 stop, thread, id), so many ns apart."""
    return written(
        [(kind, time * apart, thread, key, time) for time, (kind, thread, key) in enumerate(steps)], activity
    )


def written(steps: Iterable[tuple[int, int, int, int, int]], activity: bool = False) -> Trace:
    """(1 start or 2 stop, time in ns, thread, id, size)."""
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, START), (2, STOP)):
            writer.add_metadata(
                Metadata(metadata_id=number, provider="Mine", event_id=number, name=name, fields=NUMBER)
            )
        for kind, ns, thread, key, size in steps:
            ids: dict[str, Any] = {"activity": UUID(int=key + 1)} if activity else {}
            writer.write_event(kind, ns, struct.pack("<ii", key, size), thread=thread, **ids)
    return Trace(file.getvalue())


def one_by_one(steps: Sequence[tuple[Any, ...]], place: int) -> list[tuple[int, int | None]]:
    """(size of the start, of its stop): a list of what is open for each key."""
    open_now: dict[Any, list[int]] = {}
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


def test_a_filter_is_of_what_begins_and_changes_no_pair() -> None:
    """Of nested ones the outer would end with the end of the inner, were that left out before."""
    nested = recorded([(1, 1, 7), (1, 1, 8), (2, 1, 7), (2, 1, 7), (2, 1, 9), (1, 1, 7)])
    whole = dd.spans(nested, START, STOP, by="tid")
    some = dd.spans(nested, START, STOP, by="tid", where="Id == 7")
    assert pairs(whole) == [(0, 3), (1, 2), (5, None)]
    assert pairs(some) == [(0, 3), (5, None)]
    assert some.notes == ("by tid", "where Id == 7", f"1 without {STOP}", f"1 {STOP} without {START}")
    assert len(dd.spans(nested, START, STOP, by="tid", where="Size > 77")) == 0
    with pytest.raises(UnknownName, match="'Colour'"):
        dd.spans(nested, START, STOP, where="Colour == 7")


def test_what_happens_in_one_tick_is_in_the_order_of_its_thread() -> None:
    follow = recorded([(1, 1, 7), (2, 1, 7), (1, 1, 8), (2, 1, 8)], apart=0)
    assert pairs(dd.spans(follow, START, STOP, by="tid")) == [(0, 1), (2, 3)]
    for one, other in ((1, 2), (2, 1)):
        across = recorded([(2, one, 7), (1, other, 7)], apart=0)
        assert pairs(dd.spans(across, START, STOP, by="Id")) == [(1, 0)]


def test_a_number_tells_what_belongs_together_only_where_both_sides_have_it() -> None:
    one = dd.spans(recorded([(1, 1, 7), (2, 2, 7)]), START, STOP)
    assert (one.notes, one["stop_tid"].to_pylist()) == (("by Id",), [2])
    cut = dd.spans(recorded([(1, 1, 7), (1, 1, 8), (2, 2, 7)]), START, STOP)
    assert cut.notes == ("by Id", f"1 without {STOP}")
    same_id = dd.spans(recorded([(1, 1, 7), (2, 1, 7), (1, 1, 7), (2, 1, 7)]), START, STOP)  # sizes differ, all of them
    assert (same_id.notes, pairs(same_id)) == (("by tid",), [(0, 1), (2, 3)])


@given(STEPS)
def test_several_columns_together_say_what_belongs_together(steps: list[tuple[int, int, int]]) -> None:
    if {step[0] for step in steps} != {1, 2}:
        return
    both = [(kind, thread, key, (thread, key)) for kind, thread, key in steps]
    assert pairs(dd.spans(recorded(steps), START, STOP, by=("Id", "tid"))) == one_by_one(both, 3)


def test_values_of_several_columns_are_not_mixed_up() -> None:
    steps = [(1, 1, 3), (1, 2, 0), (2, 1, 3), (2, 2, 0), (1, 3, 1), (1, 3, 2)]
    assert pairs(dd.spans(recorded(steps), START, STOP, by=("Id", "tid"))) == [(0, 2), (1, 3), (4, None), (5, None)]


def test_activities_tell_what_belongs_together_only_where_all_events_have_one() -> None:
    for kinds in ((1,), (2,)):
        file = io.BytesIO()
        with Writer(file) as writer:
            for number, name in ((1, START), (2, STOP)):
                writer.add_metadata(Metadata(metadata_id=number, provider="Mine", event_id=number, name=name))
            for time, kind in enumerate((1, 2)):
                ids: dict[str, Any] = {"activity": UUID(int=7)} if kind in kinds else {}
                writer.write_event(kind, time * 1_000_000, b"", thread=1, **ids)
        table = dd.spans(Trace(file.getvalue()), START, STOP)
        assert (table.notes, table["duration_ms"].to_pylist()) == (("by tid",), [1.0])


@pytest.mark.parametrize("texts", [(1,), (2,), (1, 2)])
def test_a_number_and_a_text_that_prints_alike_belong_together(texts: tuple[int, ...]) -> None:
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, START), (2, STOP)):
            field = Field(name="Key", type=FieldType(code=TypeCode.STRING if number in texts else TypeCode.INT32))
            writer.add_metadata(
                Metadata(metadata_id=number, provider="Mine", event_id=number, name=name, fields=(field,))
            )
        for time, (kind, key) in enumerate([(1, 7), (1, 8), (2, 7), (2, 9), (2, 8)]):
            payload = f"{key}\0".encode("utf-16-le") if kind in texts else struct.pack("<i", key)
            writer.write_event(kind, time * 1_000_000, payload, thread=1)
    table = dd.spans(Trace(file.getvalue()), START, STOP, by="Key")
    assert table["duration_ms"].to_pylist() == [2.0, 3.0]


def of_fields(fields: list[tuple[str, TypeCode]], rows: list[tuple[int, bytes]]) -> Trace:
    """(1 start or 2 stop, payload) on one thread."""
    declared = tuple(Field(name=name, type=FieldType(code=code)) for name, code in fields)
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, START), (2, STOP)):
            writer.add_metadata(
                Metadata(metadata_id=number, provider="Mine", event_id=number, name=name, fields=declared)
            )
        for time, (kind, payload) in enumerate(rows):
            writer.write_event(kind, time * 1_000_000, payload, thread=1)
    return Trace(file.getvalue())


def test_fields_that_are_called_as_our_columns_are_there_too() -> None:
    names = ["pid", "tid", "duration_ms", "ms"]
    trace = of_fields(
        [(name, TypeCode.INT32) for name in names],
        [(1, struct.pack("<4i", *range(4))), (2, struct.pack("<4i", *range(10, 14)))],
    )
    (row,) = dd.spans(trace, START, STOP, by="tid").to_pylist()
    assert [row[name] for name in ("payload.pid", "payload.tid", "payload.duration_ms", "ms")] == [0, 1, 2, 3]
    assert [row[name] for name in ("stop_pid", "stop_payload.tid", "stop_duration_ms", "stop_payload.ms")] == [
        10,
        11,
        12,
        13,
    ]
    assert (row["tid"], row["duration_ms"]) == (1, 1.0)


def test_one_long_text_costs_its_own_bytes_only() -> None:
    texts = ["x" * 100_000, *(str(number) for number in range(500))]
    rows = [(kind, f"{text}\0".encode("utf-16-le")) for text in texts for kind in (1, 2)]
    trace = of_fields([("Key", TypeCode.STRING)], rows)
    trace[START].load()
    trace[STOP].load()
    tracemalloc.start()
    try:
        table = dd.spans(trace, START, STOP, by="Key")
        assert tracemalloc.get_traced_memory()[1] < 20 << 20  # 100,000 characters for each of 1,002 keys are 400 MB
    finally:
        tracemalloc.stop()
    assert table.notes == ("by Key",)


def test_an_event_does_not_begin_and_end_itself() -> None:
    with pytest.raises(UsageError, match="an event begins and ends there"):
        dd.spans(recorded([(1, 1, 1), (1, 1, 2)]), START, START)


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


def test_a_note_says_where_threads_do_not_wait_for_what_they_began() -> None:
    crossed = dd.spans(recorded([(1, 1, 7), (2, 2, 8), (1, 2, 9), (2, 1, 10)]), START, STOP)
    waited = dd.spans(recorded([(1, 1, 7), (2, 1, 8), (1, 2, 9), (2, 2, 10)]), START, STOP)
    assert [any("TplEventSource" in note for note in table.notes) for table in (crossed, waited)] == [True, False]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of few events, begins that wait in the file, and columns that are made when somebody asks."""
    in_small_windows(monkeypatch)


def in_small_windows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(room, "WINDOW_ROWS", 3)
    patch.setattr(room, "MANY", 2)
    patch.setattr(span_pairs, "_HELD", 2)
    patch.setattr(span_keys, "PART_NUMBERS", 2)


def told(table: Table) -> tuple[Any, ...]:
    return table.columns, table.notes, table.to_json()


@pytest.mark.parametrize("by", [None, "tid", "Id", "activity", ("Id", "tid")])
@given(STEPS, st.sampled_from([0, 1_000_000]), st.booleans(), st.sampled_from([None, "Id == 1", "Size > 4"]))
def test_windows_do_not_matter(
    by: Any, steps: list[tuple[int, int, int]], apart: int, activity: bool, where: str | None
) -> None:
    if {step[0] for step in steps} != {1, 2}:
        return
    trace = recorded(steps, activity, apart)
    whole = dd.spans(trace, START, STOP, by=by, where=where)
    with pytest.MonkeyPatch.context() as patch:
        in_small_windows(patch)
        made = dd.spans(recorded(steps, activity, apart), START, STOP, by=by, where=where)
        assert told(made) == told(whole)


@pytest.mark.parametrize("name", ["gcverbose-10.nettrace", "gccollect-10.nettrace", "killed-10.nettrace"])
@pytest.mark.parametrize("by", [None, "tid"])
def test_windows_of_a_recording_do_not_matter(name: str, by: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dd.spans(dd.open(recording(name)), "GC/SuspendEEStart", "GC/RestartEEStop", by=by)
    in_small_windows(monkeypatch)
    made = dd.spans(dd.open(recording(name)), "GC/SuspendEEStart", "GC/RestartEEStop", by=by)
    assert isinstance(made, SlicedTable) or len(made) < 3
    assert told(made) == told(whole)


@pytest.mark.usefixtures("small")
def test_columns_that_are_made_later_are_there_in_any_order_and_elsewhere() -> None:
    steps = [(1, 1, key) for key in range(9)] + [(2, 2, key) for key in range(0, 9, 2)]
    made = dd.spans(recorded(steps), START, STOP, by="Id")
    assert isinstance(made, SlicedTable)
    assert made["Id"].to_pylist() == list(range(9))
    assert made["stop_tid"].to_pylist() == [2, None] * 4 + [2]
    assert [row["Id"] for row in made[2:5]] == [2, 3, 4]
    assert {
        name: column.to_pylist() for name, column in rows_at(made, np.array([7, 2]), ("Id", "stop_ms")).items()
    } == {
        "Id": [7, 2],
        "stop_ms": [None, 10.0],
    }
    again = pickle.loads(pickle.dumps(made))
    assert told(again) == told(made)
    assert again["Id"].to_pylist() == list(range(9))
    assert again[3]["Id"] == 3


@pytest.mark.usefixtures("small")
def test_begins_that_wait_for_long_have_their_ends() -> None:
    """Of many that wait each end finds its own, whether that waits in memory or in the file."""
    steps = [(1, 1 + key % 3, key) for key in range(200)] + [
        (2, 1, key) for key in [*range(199, -1, -3), *range(0, 200, 5)]
    ]
    made = dd.spans(recorded(steps), START, STOP, by="Id")
    assert pairs(made) == one_by_one(steps, 2)


@pytest.mark.usefixtures("small")
def test_of_many_begins_of_one_thread_that_never_end_the_latest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    whole = Stored.read

    def counting(stored: Stored) -> Any:
        nonlocal read
        read += len(stored)
        return whole(stored)

    monkeypatch.setattr(Stored, "read", counting)
    never = [(1, 1, key) for key in range(600)]
    steps = [*never, *((kind, 1, key) for key in range(300) for kind in (1, 2)), *((2, 1, 0) for _ in range(5))]
    made = dd.spans(recorded(steps), START, STOP, by="tid")
    assert pairs(made) == one_by_one(steps, 1)
    assert read < 100 * len(steps)  # all columns of all that wait, in each of 400 windows, are 2,000 times as many


@pytest.mark.usefixtures("small")
def test_of_begins_in_one_tick_the_last_ends_first_however_long_they_wait() -> None:
    """Ends come one by one, with others between them: what was looked at and did not end waits elsewhere then."""
    begins = [(1, 5, 1, key, key) for key in range(40)]
    ends = [(2, 100 + 10 * at, 1, 0, at) for at in range(30)]
    nested = [(kind, 105 + 10 * at + kind, 1, 0, 1000 + at) for at in range(0, 30, 3) for kind in (1, 2)]
    steps = sorted([*begins, *ends, *nested], key=lambda one: one[1])
    made = dd.spans(written(steps), START, STOP, by="tid")
    whole = one_by_one([(kind, thread) for kind, _, thread, *_ in steps], 1)
    assert pairs(made) == [(steps[begin][4], None if end is None else steps[end][4]) for begin, end in whole]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("between", [1, 50])
def test_who_ends_whom_in_one_tick_does_not_depend_on_what_comes_later(between: int) -> None:
    """The end is before the begin, by the order of their thread; that another thread has the number later changes nothing."""
    others = [(1, 10 + at, 1, 100 + at, 0) for at in range(between)]
    trace = written([(2, 5, 1, 7, 0), (1, 5, 1, 7, 1), *others, (1, 1000, 2, 7, 2)])
    made = dd.spans(trace, START, STOP, by="Id", where="Id == 7")
    assert pairs(made) == [(1, None), (2, None)]


@pytest.mark.parametrize("count", [60_000, 240_000])
def test_many_spans_take_no_more_memory_than_few(count: int) -> None:
    """240,000 took 115 MB, all columns of all events."""
    trace = recorded([(kind, 1 + key % 7, key) for key in range(count) for kind in (1, 2)], apart=1000)
    trace.raw.source.counts()
    tracemalloc.start()
    try:
        made = spans_of(trace, START, STOP)
        assert made.rows.notes == ("by Id",)
        assert made.ended == made.count == count
        assert made.durations_ms["sum"] == pytest.approx(count / 1000)
        assert {row["duration_ms"] for row, _ in made.longest(2)} == {made.durations_ms["most"]}
        assert made.telling[:1] == ("Id",)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
