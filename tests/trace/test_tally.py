"""What is added up in passing is what rows of windows come to."""

from __future__ import annotations

import io
import struct
from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.traces import PROCESS
from tests.trace.made import RUNTIME
from tests.trace.segments import Block, any_segments, recording

from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.gc_collections import GcFold
from dotnetdiag.analysis.gc_events import AMOUNTS, START, TICK, is_gc
from dotnetdiag.analysis.kept_events import having
from dotnetdiag.errors import UsageError
from dotnetdiag.events import EventSchema
from dotnetdiag.nettrace import Field, FieldType, Metadata, NetPerfWriter, ThreadInfo, Writer, decode, read
from dotnetdiag.nettrace import kernels as decoding
from dotnetdiag.nettrace.kernels import COMPILED
from dotnetdiag.nettrace.metadata import TypeCode
from dotnetdiag.nettrace.piece import AMOUNTS_TOGETHER
from dotnetdiag.trace import fallback, kernels, tally
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.tally import Tally
from dotnetdiag.trace.trace import Trace

STARTS, TICKS, OLD_TICKS = 1, 2, 3
KINDS = {STARTS: (1, 2), TICKS: (10, 4), OLD_TICKS: (10, 1)}
BIG = 1 << 63


def payload_of(kind: int, amount: int, length: int) -> bytes:
    if kind == STARTS:
        return struct.pack("<IIIIHQ", amount % (1 << 32), 0, 0, 0, 0, 0)
    narrow = amount & 0xFFFF
    if kind == OLD_TICKS:
        return struct.pack("<IIH", narrow, 0, 0)[:length]
    return (struct.pack("<IIHQQ", narrow, 0, 0, amount, 0) + bytes(2) + struct.pack("<IQQ", 0, 0, 0))[:length]


class Ticked:
    """What ticks come to by collection, in passing where that can be."""

    needs_activities = False

    def __init__(self, *, in_passing: bool) -> None:
        self._gc = GcFold()
        self.rows = 0
        if in_passing:
            self.tally = self._gc.tally

    def wants(self, schema: EventSchema) -> bool:
        return is_gc(schema)

    def feed(self, window: EventTable) -> None:
        self.rows += int((window.headers.metadata_id != STARTS).sum())
        self._gc.feed(window)

    def result(self) -> tuple[dict[int, int], int]:
        events = self._gc._events
        told = events.ticked(PROCESS)
        sums = [] if told is None else told.at(np.arange(len(told))).tolist()
        return {place: size for place, size in enumerate(sums) if size}, self.rows


EVENTS = st.tuples(st.integers(0, 5), st.sampled_from([*KINDS]), st.booleans())
SEGMENTS = st.lists(st.lists(st.lists(EVENTS, max_size=6), max_size=3), min_size=1, max_size=3)


METADATA = [
    Metadata(metadata_id=kind, provider=RUNTIME, event_id=number, name="", version=version)
    for kind, (number, version) in KINDS.items()
]


def written(segments: list[list[list[tuple[int, int, bool]]]], version: int, *, sorted_too: bool = False) -> bytes:
    """Each thread of a segment has blocks of its own; one file that tells of all amounts apart."""
    out, amount, opened = io.BytesIO(), 1, 0
    with Writer(out, version=max(version, 4), process_id=PROCESS, start_ns=1) as writer:
        for one in METADATA:
            writer.add_metadata(one)
        if version == 6:
            for index in (1, 2, 3):
                writer.add_thread(ThreadInfo(index=index, os_thread_id=index, process_id=PROCESS))
        for segment in segments:
            for thread, events in enumerate(segment, 1):
                for time, kind, late in sorted(events):
                    payload, is_sorted = payload_of(kind, amount, 99), sorted_too and not late
                    with suppress(UsageError):  # older than one that was written as sorted
                        writer.write_event(kind, opened + time, payload, thread=thread, is_sorted=is_sorted)
                    amount *= 2
                writer.flush()
            opened += 10
            writer.write_sequence_point()
    return out.getvalue() if version > 3 else as_netperf(out.getvalue())


def as_netperf(data: bytes) -> bytes:
    """The same events, in the order of time as they are there."""
    out, contents = io.BytesIO(), read(data)
    with NetPerfWriter(out, process_id=PROCESS, start_ns=0) as writer:
        for one in METADATA:
            writer.add_metadata(one)
        if len(contents.headers):
            writer.write_events(contents.headers, data)
    return out.getvalue()


@given(SEGMENTS, st.sampled_from([3, 4, 5, 6]), st.booleans(), st.booleans())
def test_ticks_come_to_the_same_in_passing_and_in_rows(
    segments: list[list[list[tuple[int, int, bool]]]], version: int, kept: bool, sorted_too: bool
) -> None:
    data = written(segments, version, sorted_too=sorted_too)
    trace = Trace(data, name="made")
    if kept:
        list(trace.events())
    (found,) = fold(trace, Ticked(in_passing=True))
    (expected,) = fold(trace, Ticked(in_passing=False))
    assert found[0] == expected[0]
    assert found[1] == (0 if COMPILED and version in (4, 5) and not kept else expected[1])
    assert expected[1] == int((read(data).headers.metadata_id != STARTS).sum())


@settings(deadline=None)
@given(any_segments([*KINDS]), st.sampled_from([1, 60, 300, 1 << 20]), st.sampled_from([1, 4, 1000]))
def test_ticks_come_to_the_same_whatever_segments_there_are(
    segments: list[list[Block]], group_bytes: int, held: int
) -> None:
    amounts = (1 << number for number in count())
    made = [
        [
            (thread, [event._replace(payload=payload_of(event.kind, next(amounts) % BIG, 99)) for event in events])
            for thread, events in segment
        ]
        for segment in segments
    ]
    data = recording(made, METADATA, PROCESS)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FIRST_GROUP_BYTES", "SIFTED_GROUP_BYTES"):
            patch.setattr(decode, name, group_bytes)
        patch.setattr(tally, "HELD", held)
        (found,) = fold(Trace(data, name="made"), Ticked(in_passing=True))
    assert found[0] == fold(Trace(data, name="made"), Ticked(in_passing=False))[0][0]


@pytest.mark.parametrize("held", [1, 100])
def test_what_is_settled_is_added_up_on_the_way(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(tally, "HELD", held)
    events = [[[(time, kind, False) for kind in (TICKS, STARTS, TICKS)] for time in range(5)] for _ in range(3)]
    trace = Trace(written(events, 5, sorted_too=True), name="made")
    (found,) = fold(trace, Ticked(in_passing=True))
    assert found[0] == fold(trace, Ticked(in_passing=False))[0][0]


@pytest.mark.parametrize("length", range(24))
def test_a_payload_that_is_cut_has_what_is_left_of_its_amount_and_never_less_than_nothing(length: int) -> None:
    out = io.BytesIO()
    with Writer(out, process_id=PROCESS, start_ns=1) as writer:
        for kind, (number, version) in KINDS.items():
            writer.add_metadata(Metadata(metadata_id=kind, provider=RUNTIME, event_id=number, name="", version=version))
        writer.write_event(TICKS, 1, payload_of(TICKS, 70_000, length), thread=1)
        writer.write_event(OLD_TICKS, 2, payload_of(OLD_TICKS, 7, length), thread=1)
        writer.write_event(TICKS, 3, payload_of(TICKS, BIG + 5, length), thread=1)
    trace = Trace(out.getvalue(), name="made")
    wide = 70_000 + 5 if length >= 18 else 70_000 % 65_536 + 5 if length >= 4 else 0
    assert fold(trace, Ticked(in_passing=True))[0][0] == ({0: wide + 7} if wide else {})
    assert fold(trace, Ticked(in_passing=False))[0][0] == ({0: wide + 7} if wide else {})


def test_who_needs_rows_of_ticks_gets_them_beside_who_does_not() -> None:
    events = [[[(time, kind, False) for time in range(3) for kind in (TICKS, STARTS)]]]
    trace = Trace(written(events, 5), name="made")
    again = Trace(written(events, 5), name="made")
    (expected,) = fold(trace, Ticked(in_passing=True))
    assert expected[1] == (0 if COMPILED else 3)
    for found in fold(again, Ticked(in_passing=True), Ticked(in_passing=False)):
        assert (found[0], found[1] > 0) == (expected[0], True)


def test_a_fold_may_call_something_else_its_tally() -> None:
    trace = Trace(written([[[(1, TICKS, False)]]], 5), name="made")
    asked = Ticked(in_passing=False)
    asked.tally = Counter()  # type: ignore[assignment]
    assert fold(trace, asked)[0] == ({0: 1}, 1)


def test_amounts_that_may_be_anywhere_in_a_payload_are_left_to_rows() -> None:
    trace = Trace(written([[[(1, TICKS, False)]]], 5), name="made")
    schema = trace.raw.schema(TICKS)
    for fields, known in ((AMOUNTS, True), (("TypeName",), False), (("AllocationAmount64", "TypeName"), False)):
        found = Tally(having(TICK), fields, having(START)).know({TICKS: schema}, lambda _: True)
        assert bool(found) is known, fields
    assert not Tally(having(TICK), AMOUNTS, having(START)).know({TICKS: schema}, lambda _: False)
    assert not Tally(having(TICK), AMOUNTS, having(START)).know({1 << 30: schema}, lambda _: True)


# the loops -----------------------------------------------------------------------------------------------------------------

ITEMS = st.lists(
    st.tuples(st.integers(-2, 6), st.integers(0, 3), st.integers(0, 30), st.integers(0, 9)),
    max_size=12,
    unique_by=lambda item: item[2],  # as the places of events are
)


def ranked(module: Any, rows: list[tuple[int, int, int, int]], offset: int) -> list[Any]:
    """What either form of the loops makes of amounts in runs ``offset`` to ``offset`` + 2, of which some are marks."""
    items = np.array(
        [(time, ((run + offset) << 32 if run else 0) + event + 4, amount) for time, run, event, amount in rows],
        np.int64,
    )
    items = np.ascontiguousarray(items.reshape(-1, 3).T)
    ranks, out = np.array([3, 1, 2], np.int64), np.zeros((3, len(rows) + 2), np.int64)
    before = kernels.KERNELS
    kernels.KERNELS = module
    try:
        kernels.rank(items, ranks, (offset, 4), 70, out, 2)
        marks = out[:2, 2 + len(rows) // 2 :]
        ordered = np.ascontiguousarray(marks[:, np.lexsort((marks[1], marks[0]))])
        sums = np.zeros(ordered.shape[1] + 1, np.int64)
        amounts = np.ascontiguousarray(out[:, 2:])
        left = kernels.add_between(amounts, len(rows) // 2, ordered, 3, sums)
        at_once, others = np.zeros_like(sums), np.zeros((3, len(rows) + 1), np.int64)
        half = items[:, : len(rows) // 2]
        sums_of = (np.zeros((3, 1), np.int64), 3)  # there is no whole part, and so nobody looks at them
        count = kernels.rank_between(half, sums_of, ranks, (offset, 4), 70, ordered, 3, at_once, others, 1)
        assert at_once.tolist() == sums.tolist()
        assert others[:, 1 : 1 + count].tolist() == amounts[:, :left].tolist()
        return [out.tolist(), sums.tolist(), amounts[:, :left].tolist()]
    finally:
        kernels.KERNELS = before


@pytest.mark.skipif(not kernels.COMPILED, reason="no kernels")
@given(ITEMS, st.integers(0, 5))
def test_compiled_and_plain_are_alike(rows: list[tuple[int, int, int, int]], offset: int) -> None:
    assert ranked(kernels.KERNELS, rows, offset) == ranked(None, rows, offset)


@pytest.mark.skipif(not kernels.COMPILED, reason="no kernels")
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1 << 62)), min_size=60, max_size=200),
    st.lists(st.tuples(st.integers(-1, 400), st.integers(0, 1 << 42)), max_size=5),
    st.integers(0, 70),
    st.integers(0, 400),
)
def test_many_amounts_together_are_each_by_itself(
    rows: list[tuple[int, int, int]], marked: list[tuple[int, int]], skipped: int, until: int
) -> None:
    times = np.cumsum([step for step, _, _ in rows])
    orders = [(run << 32 if run else 0) + event for event, (_, run, _) in enumerate(rows)]
    items = np.array([times, orders, [amount for _, _, amount in rows]], np.int64)
    together = np.empty((3, -(-len(rows) // AMOUNTS_TOGETHER)), np.int64)
    assert decoding.KERNELS is not None
    assert kernels.KERNELS is not None
    decoding.KERNELS.sum_up(items, together)
    half = items[:, skipped // 2 :] if skipped % 2 else items[:, skipped // 2 : -20]
    marks = np.array(sorted(marked), np.int64).reshape(-1, 2).T.copy()
    found = []
    for rank_between in (kernels.KERNELS.rank_between, fallback.rank_between):
        sums, out = np.zeros(len(marked) + 1, np.int64), np.zeros((3, len(rows) + 2), np.int64)
        left = rank_between(half, together, skipped // 2, np.array([2, 1, 3]), 0, 0, 5, marks, until, sums, out, 1)
        found.append([left, sums.tolist(), out[:, 1 : 1 + left].tolist()])
    assert found[0] == found[1]


@pytest.mark.skipif(not kernels.COMPILED, reason="no kernels")
def test_sums_have_to_have_room() -> None:
    assert decoding.KERNELS is not None
    for amounts, columns in ((33, 1), (32, 2), (0, 1)):
        with pytest.raises(ValueError, match="no room"):
            decoding.KERNELS.sum_up(np.zeros((3, amounts), np.int64), np.zeros((3, columns), np.int64))


@pytest.mark.parametrize("module", [None, kernels.KERNELS] if kernels.COMPILED else [None])
def test_an_order_is_that_of_ranks_and_then_of_the_file(module: Any) -> None:
    out, _, _ = ranked(module, [(5, 1, 6, 0), (5, 2, 3, 0), (4, 0, 1, 0), (4, 3, 9, 0)], 2)
    assert out[1][2:] == [(3 << 40) + 76, (1 << 40) + 73, 71, (2 << 40) + 79]


@pytest.mark.skipif(not kernels.COMPILED, reason="no kernels")
def test_what_does_not_fit_is_refused_before_anything_is_written() -> None:
    compiled = kernels.KERNELS
    assert compiled is not None
    three, two, one = np.zeros((3, 2), np.int64), np.zeros((2, 2), np.int64), np.zeros(1, np.int64)
    for amounts, rows, marks, sums in (
        (two, 2, two, np.zeros(3, np.int64)),
        (three, 2, three, np.zeros(3, np.int64)),
        (three, 2, two, np.zeros(2, np.int64)),
        (three, 3, two, np.zeros(3, np.int64)),
        (three, -1, two, np.zeros(3, np.int64)),
    ):
        with pytest.raises(ValueError, match=r"differ|no room"):
            compiled.add_between(amounts, rows, marks, 9, sums)
    items, out = np.array([[1, 2], [1 << 32, 0], [5, 6]], np.int64), np.full((3, 2), 7, np.int64)
    together = np.zeros((3, 1), np.int64)
    for ranks, run, made, at in (
        (one, 1, out, 0),
        (one, -1, out, 0),
        (one[:0], 0, out, 0),
        (one, 0, out, 1),
        (one, 0, out, -1),
        (one, 0, two, 0),
    ):
        with pytest.raises(ValueError, match=r"beyond|no room"):
            compiled.rank(items, ranks, run, 0, 0, made, at)
        with pytest.raises(ValueError, match=r"beyond|no room"):
            compiled.rank_between(items, together, 0, ranks, run, 0, 0, two, 0, np.zeros(3, np.int64), made, at)
    for marks, sums in ((two, np.zeros(2, np.int64)), (three, np.zeros(3, np.int64))):
        with pytest.raises(ValueError, match=r"differ|no room"):
            compiled.rank_between(items, together, 0, one, 0, 0, 0, marks, 0, sums, out, 0)
    for known, skipped in ((together[:2], 0), (together[:, :0], 0), (together, 31), (together, -1)):
        with pytest.raises(ValueError, match="sums"):
            compiled.rank_between(items, known, skipped, one, 0, 0, 0, two, 0, np.zeros(3, np.int64), out, 0)
    assert (out == 7).all()
    compiled.rank(items, one, 0, 0, 0, out, 0)
    assert out.tolist() == [[1, 2], [0, 0], [5, 6]]


def test_what_plain_python_does_is_what_the_fallback_does() -> None:
    amounts = np.array([[1, 2, 9, 0], [0, 0, 0, 0], [10, 20, 30, 40]], np.int64)
    sums = np.zeros(2, np.int64)
    left = fallback.add_between(amounts, 3, np.array([[2], [1]], np.int64), 9, sums)
    assert (sums.tolist(), amounts[:, :left].tolist()) == ([30, 0], [[9], [0], [30]])


# types that are odd --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [(10, 12), (12, 10), (10, 10), (12, 12), (9, 12), (12, 9), (6, 5)], ids=str)
@pytest.mark.parametrize("twice", [False, True])
def test_amounts_of_any_width_come_to_the_same(kinds: tuple[int, int], twice: bool) -> None:
    """A recording may say of its types what it likes."""
    names = AMOUNTS[:1] * 2 if twice else AMOUNTS
    fields = tuple(
        Field(name=name, type=FieldType(code=TypeCode(kind))) for name, kind in zip(names, kinds, strict=True)
    )
    out = io.BytesIO()
    with Writer(out, process_id=PROCESS, start_ns=1) as writer:
        writer.add_metadata(
            Metadata(metadata_id=TICKS, provider=RUNTIME, event_id=10, name="T", version=77, fields=fields)
        )
        for time, payload in enumerate((bytes(range(1, 17)), b"\xff" * 16, bytes([5, 0, 0, 0, 7]), b"")):
            writer.write_event(TICKS, time, payload, thread=1)
    found, expected = (
        fold(Trace(out.getvalue(), name="made"), Ticked(in_passing=passing))[0][0] for passing in (True, False)
    )
    assert found == expected


@pytest.mark.parametrize("number", [STARTS, 1 << 19, 1 << 20, 1 << 30])
def test_a_mark_may_have_any_id(number: int) -> None:
    out = io.BytesIO()
    with Writer(out, process_id=PROCESS, start_ns=1) as writer:
        for kind, event_id, version in ((number, 1, 2), (TICKS, 10, 4)):
            writer.add_metadata(
                Metadata(metadata_id=kind, provider=RUNTIME, event_id=event_id, name="", version=version)
            )
        for time, kind in enumerate((TICKS, number, TICKS, number, TICKS)):
            payload = payload_of(STARTS if kind == number else TICKS, 1 << time, 99)
            writer.write_event(kind, time, payload, thread=1)
    assert fold(Trace(out.getvalue(), name="made"), Ticked(in_passing=True))[0][0] == {0: 1, 1: 4, 2: 16}


@pytest.mark.parametrize("fields", [AMOUNTS[:1], AMOUNTS[1:], ("HeapIndex",)], ids=str)
@pytest.mark.parametrize("event_id", [10, 204])
def test_a_number_may_be_declared_with_fractions_and_be_none(fields: tuple[str, ...], event_id: int) -> None:
    out = io.BytesIO()
    declared = tuple(Field(name=name, type=FieldType(code=TypeCode(14))) for name in fields)
    with Writer(out, process_id=PROCESS, start_ns=1) as writer:
        writer.add_metadata(
            Metadata(metadata_id=1, provider=RUNTIME, event_id=event_id, name="T", version=4, fields=declared)
        )
        writer.write_event(1, 1, b"\xff" * 8, thread=1)
        writer.write_event(1, 2, struct.pack("<d", 1e300), thread=1)
    trace = Trace(out.getvalue(), name="made")
    (made,) = fold(trace, GcFold())
    assert made.totals.count == 0
