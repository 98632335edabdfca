"""Collections by hand."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from tests.analysis.traces import PROCESS, Seen, allocation_tick, traced
from tests.nettrace.recordings import data_of
from tests.trace.made import RUNTIME

from dotnetdiag.analysis import nameless
from dotnetdiag.analysis.gc_collections import NO_CALLERS, GcFold, GcReport, gc
from dotnetdiag.analysis.gc_events import GENERATIONS, PRIVATE
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

COMPACTING = 1 << 1
NOTHING = 0xFFFFFFFF
"""What .NET 8 writes for a phase that ended before it began."""


def event(ms: float, number: int, version: int, payload: bytes) -> Seen:
    return Seen(ms=ms, thread=1, stack=(), provider=RUNTIME, number=number, payload=payload, version=version)


def collection(ms: float, count: int, times: tuple[int, ...]) -> list[Seen]:
    """One of gen1 that takes a millisecond; ``times`` of its phases in µs."""
    history = struct.pack("<QiIIIIHIIIII", 0, 1, 1, 0, 0, COMPACTING, 0, 1, 10, 0, 0, len(times))
    return [
        event(ms, 9, 1, struct.pack("<IIH", 1, count, 0)),
        event(ms + 0.1, 8, 1, bytes(2)),
        event(ms + 0.2, 1, 2, struct.pack("<IIIIHQ", count, 1, 0, 0, 0, 0)),
        event(ms + 0.3, 205, 4, history + struct.pack(f"<{len(times)}I", *times)),
        event(ms + 0.8, 2, 1, struct.pack("<IIH", count, 1, 0)),
        event(ms + 1, 3, 1, bytes(2)),
    ]


def collected(*times: tuple[int, ...]) -> GcReport:
    return gc(traced(*(one for count, its in enumerate(times, 1) for one in collection(count * 10, count, its))))


PHASES = ("mark_ms", "plan_ms", "relocate_ms", "compact_ms", "sweep_ms")


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((1, 2, 3, 4, 5, 60, 70, 80), (0.015, 0.06, 0.07, 0.08, None)),
        ((1, 2, 3, 4, 5, 60, 70, NOTHING), (0.015, 0.06, 0.07, None, None)),
        ((1, 2, NOTHING - 1, 4, 5, 60, NOTHING, 80), (None, 0.06, None, 0.08, None)),
        ((1, 2, 3, 4, 5, NOTHING, 70, 80), (0.015, None, 0.07, 0.08, None)),
    ],
)
def test_a_phase_that_took_less_than_nothing_is_not_known(
    times: tuple[int, ...], expected: tuple[float | None, ...]
) -> None:
    made = collected(times)
    (row,) = made.collections.to_pylist()
    assert (row["pid"], row["pause_ms"]) == (PROCESS, pytest.approx(1.0))
    for name, value in zip(PHASES, expected, strict=True):
        assert row[name] == (None if value is None else pytest.approx(value)), name


def tick(ms: float, size: int) -> Seen:
    return replace(allocation_tick(ms, "T", size, 24), thread=2)


BEGUN = event(0, 187, 0, bytes(10 * 2 + 4 + 1 + 2 + 16 + 2))
"""Runtime/Start: the program begins while it is recorded."""


def segment(ms: float, kind: int) -> Seen:
    """GC/CreateSegment."""
    return event(ms, 5, 1, struct.pack("<QQIH", 0x1000, 0x1000, kind, 0))


def started(ms: float, count: int) -> list[Seen]:
    return [
        event(ms, 1, 2, struct.pack("<IIIIHQ", count, 0, 0, 0, 0, 0)),
        event(ms + 0.1, 2, 1, struct.pack("<IIH", count, 0, 0)),
    ]


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_a_tick_at_the_time_of_a_start_counts_by_its_place(rows: int) -> None:
    seen = [BEGUN, tick(1, 10), *started(2, 1), tick(2, 200), tick(3, 3000), *started(4, 2), tick(5, 9)]
    asked = GcFold()
    for window in traced(*seen).windows(asked.wants):
        for first in range(0, len(window), rows):
            asked.feed(window.slice(first, first + rows))
    amounts = asked.result().collections.values("allocated_bytes")
    names = [one.name for one in traced(*seen).events() if one.ms == 2]
    assert amounts[0] == (10 if names.index("GC/Start") < names.index("GC/AllocationTick") else 210)


def test_ticks_that_are_older_than_a_point_before_them_count_where_they_stand() -> None:
    """As in a damaged file: windows go on over sequence points."""
    asked = GcFold()
    together = traced(BEGUN, *started(3, 1), tick(3.5, 40), *started(4, 2), tick(5, 50), tick(9, 60))
    (window,) = together.windows(asked.wants)
    as_written = np.array([7, 0, 1, 2, 3, 4, 5, 6])  # in time the tick at 9 is the last
    asked.feed(EventTable(window.trace, window.schemas, window.headers[as_written]))
    assert asked.result().collections.values("allocated_bytes")[0] == 60


def in_background(ms: float, count: int, *phases: tuple[int, float, int]) -> list[Seen]:
    """One of gen2 that takes 9 ms, and its events: id, ms behind its begin, thread of a heap."""
    return [
        event(ms, 9, 1, struct.pack("<IIH", 1, count, 0)),
        event(ms + 0.1, 8, 1, bytes(2)),
        event(ms + 0.2, 1, 2, struct.pack("<IIIIHQ", count, 2, 0, 1, 0, 0)),
        event(ms + 0.5, 3, 1, bytes(2)),
        *(replace(event(ms + at, one, 1, bytes(2)), provider=PRIVATE, thread=heap) for one, at, heap in phases),
        event(ms + 9, 2, 1, struct.pack("<IIH", count, 2, 0)),
    ]


BACKGROUND = ("initial_mark_ms", "concurrent_mark_ms", "final_mark_ms", "concurrent_sweep_ms")


def test_phases_in_the_background_are_of_all_heaps_together() -> None:
    two_heaps = [
        (11, 0.3, 5),
        (12, 0.35, 5),
        (11, 0.36, 6),
        (12, 0.4, 6),
        (13, 4, 6),
        (13, 4.35, 5),
        (14, 5, 5),
        (14, 5.5, 6),
    ]
    two_heaps += [(15, 6, 6), (15, 6.25, 5), (16, 6.5, 5), (17, 7, 5), (16, 7.5, 6), (17, 8, 6)]
    made = gc(
        traced(
            *in_background(10, 1, *two_heaps),
            *collection(30, 2, (1, 2, 3, 4, 5, 6, 7, 8)),
            *in_background(50, 3, (16, 1, 5)),
        )
    )
    first, young, cut = made.collections.to_pylist()
    assert [first[name] for name in BACKGROUND] == [pytest.approx(one) for one in (0.1, 4.0, 1.25, 1.5)]
    assert [young[name] for name in BACKGROUND] == [cut[name] for name in BACKGROUND] == [None] * 4


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((10, 20, 30, 40, 50, 60, 70, 80), 1 - 0.1 - 0.36),
        ((10, 20, 30, 40, 50, 60, 70, NOTHING), None),  # it compacts
        ((10, 20, 30, 40, 50, 60, 700, 800), 0.0),  # more than the pause has
        ((10, 20, 30, 40, 50, NOTHING, 70, 80), None),
    ],
)
def test_the_rest_of_a_pause_is_what_no_phase_is_told_of(times: tuple[int, ...], expected: float | None) -> None:
    (rest,) = collected(times).collections.values("rest_ms")
    assert rest == (None if expected is None else pytest.approx(expected))


def test_the_rest_of_pauses_in_the_background_is_without_the_phases_within() -> None:
    phases = [(11, 0.25, 5), (12, 0.35, 5), (14, 0.36, 5), (15, 0.41, 5)]
    told, untold = gc(traced(*in_background(10, 1, *phases), *in_background(50, 2))).collections.values("rest_ms")
    assert told == pytest.approx(0.5 - 0.1 - 0.1 - 0.05)
    assert untold is None


def test_of_a_pause_that_is_of_two_the_rest_is_not_known() -> None:
    """Where a young one begins in the pause of one in the background, the first phase of that lies behind it."""
    phases = [(11, 0.45, 5), (12, 0.47, 5), (14, 0.48, 5), (15, 0.49, 5)]
    first = in_background(10, 1, *phases)
    young = [
        event(10.3, 1, 2, struct.pack("<IIIIHQ", 2, 0, 0, 2, 0, 0)),
        event(10.35, 2, 1, struct.pack("<IIH", 2, 0, 0)),
    ]
    made = gc(traced(*sorted([*first, *young], key=lambda one: one.ms), *in_background(50, 3, *phases)))
    assert [row["rest_ms"] is None for row in made.collections.to_pylist()] == [True, True, False]


@pytest.mark.parametrize("name", ["gcverbose-10.nettrace", "gccollect-10.nettrace"])
def test_the_parts_of_pauses_are_the_pauses(name: str) -> None:
    rows = gc(Trace(data_of(name))).collections.to_pylist()
    assert rows
    for row in rows:
        parts = (
            row[f"{part}_ms"] or 0.0 for part in ("suspend", "mark", "plan", "relocate", "compact", "sweep", "rest")
        )
        assert sum(parts) == pytest.approx(row["pause_ms"], abs=0.01)


@pytest.mark.parametrize("reason", [1, 4])
def test_a_pause_whose_end_was_lost_does_not_end_with_what_stops_the_program_later(reason: int) -> None:
    lost = collection(10, 1, (1, 2, 3, 4, 5, 6, 7, 8))[:-1]
    later = [event(500, 9, 1, struct.pack("<IIH", reason, 1, 0)), event(501, 3, 1, bytes(2))]
    made = gc(traced(*lost, *later, *collection(600, 2, (1, 2, 3, 4, 5, 6, 7, 8))))
    assert made.collections.values("pause_ms") == [None, pytest.approx(1.0)]


def test_what_was_allocated_is_told_by_second_where_both_are_known() -> None:
    data = data_of("gcverbose-10.nettrace")
    made = gc(Trace(data))
    totals, starts = made.totals, made.collections.values("start_ms")
    assert totals.allocated_bytes is not None
    begin = 0.0 if made.collections.values("allocated_bytes")[0] is not None else starts[0]
    rate = totals.allocated_bytes / (starts[-1] - begin) * 1000
    assert totals.allocated_bytes_per_second == pytest.approx(rate)
    assert collected((1, 2, 3, 4, 5, 6, 7, 8)).totals.allocated_bytes_per_second is None


@pytest.mark.parametrize(
    ("stack", "notes"), [(("Ask.Now", "Main"), ()), ((0x7FE7_0000,), (nameless.NO_NAMES,)), ((), (NO_CALLERS,))]
)
def test_it_is_said_why_who_asked_for_collections_is_not_told(
    stack: tuple[str | int, ...], notes: tuple[str, ...]
) -> None:
    asked = Seen(ms=9, thread=1, stack=stack, provider=RUNTIME, number=35, payload=struct.pack("<IH", 1, 0))
    started = event(10.2, 1, 2, struct.pack("<IIIIHQ", 1, 1, 1, 0, 0, 0))
    whole = collection(10, 1, (1, 2, 3, 4, 5, 6, 7, 8))
    made = gc(traced(asked, *whole[:2], started, *whole[3:]))
    assert (made.totals.induced, made.notes) == (1, notes)
    assert made.collections.notes == notes


@pytest.mark.parametrize(("name", "notes"), [("gccollect-10", (nameless.NO_NAMES,)), ("gcverbose-10", ())])
def test_profiles_tell_who_asked_or_what_does(name: str, notes: tuple[str, ...]) -> None:
    assert gc(Trace(data_of(f"{name}.nettrace"), name=name)).notes == notes


@pytest.mark.parametrize("name", ["gcverbose-10.nettrace", "gccollect-10.nettrace"])
def test_what_survived_is_the_same_by_heap_and_by_collection(name: str) -> None:
    made = gc(Trace(data_of(name)))
    (heap,), rows = made.by_heap.to_pylist(), made.collections.to_pylist()
    survived = sum(row[f"{one}_survived_bytes"] or 0 for row in rows for one in GENERATIONS)
    assert heap.items() >= {"heap": 0, "survived_bytes": survived, "survived_percent": 100.0}.items()
    assert heap["collections"] == len([row for row in rows if row["gen0_survived_bytes"] is not None])


def test_the_share_of_several_processes_is_their_mean() -> None:
    one = collection(10, 1, (1, 2, 3, 4, 5, 6, 7, 8))
    other = [replace(event, thread=event.thread + 10) for event in one]
    threads = {event.thread: 11 for event in one} | {event.thread: 12 for event in other}
    both = sorted([*one, *other], key=lambda event: event.ms)
    alone, together = GcFold(seconds=1.0), GcFold(seconds=1.0)
    for asked, events in ((alone, one), (together, both)):
        for window in traced(*events, version=6, processes=threads).windows(asked.wants):
            asked.feed(window)
    first, made = alone.result().totals, together.result().totals
    assert made.count == 2
    assert made.pause_ms == pytest.approx(2 * first.pause_ms)
    assert made.pause_percent == pytest.approx(first.pause_percent)
    assert first.pause_percent == pytest.approx(first.pause_ms / 10)
    assert first.pause_ms > 0


def test_what_events_of_the_first_version_do_not_tell_is_none() -> None:
    first = [event(1, 1, 0, struct.pack("<II", 1, 0)), event(2, 2, 0, struct.pack("<IH", 1, 0))]
    made = gc(traced(*first, *collection(10, 2, ())))
    rows = [(row["number"], row["generation"], row["type"]) for row in made.collections]
    assert rows == [(1, None, None), (2, 1, "NonConcurrentGC")]
