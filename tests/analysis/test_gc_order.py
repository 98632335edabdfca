"""Collections of recordings whose times do not tell the order of events: it is told by where they stand."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.test_gc import collection, event, in_background, tick
from tests.analysis.test_gc_rows import heaps
from tests.analysis.traces import MS, Seen
from tests.trace.segments import Event, recording

from dotnetdiag.analysis import gc_rows
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.gc_collections import GcFold, GcReport, gc
from dotnetdiag.analysis.gc_pauses import PREPARATION
from dotnetdiag.nettrace import Metadata
from dotnetdiag.trace.trace import Trace

PHASES = (1, 2, 3, 4, 5, 60, 70, 80)
COMMITTED = "CommittedUsage"
VALUES = (
    "number",
    "pause_ms",
    "suspend_ms",
    "duration_ms",
    "mark_ms",
    "after_bytes",
    "committed_bytes",
    "allocated_bytes",
)
BACKGROUND = ("initial_mark_ms", "concurrent_mark_ms", "final_mark_ms", "concurrent_sweep_ms")


def recorded(*segments: Sequence[Seen]) -> Trace:
    """A sequence point between two of them, the events of each as they are."""
    kinds: dict[tuple[str, int, int], int] = {}
    made = []
    for segment in segments:
        rows = []
        for one in segment:
            kind = kinds.setdefault((one.provider, one.number, one.version), len(kinds) + 1)
            rows.append((one.thread, [Event(round(one.ms * MS), kind, False, one.payload)]))
        made.append(rows)
    metadata = [
        Metadata(metadata_id=kind, provider=provider, event_id=number, name="", version=version)
        for (provider, number, version), kind in kinds.items()
    ]
    return Trace(recording(made, metadata, 77), name="made")


def later(ms: float, events: Sequence[Seen]) -> list[Seen]:
    return [replace(one, ms=one.ms + ms) for one in events]


def heap_stats(ms: float, size: int) -> Seen:
    """GC/HeapStats."""
    return event(ms, 4, 2, struct.pack("<8Q2Q3IH2Q", *(size,) * 8, 3, 4, 5, 6, 7, 0, 0, 0))


def committed(ms: float, size: int) -> Seen:
    """What GC/DynamicEvent tells of bytes that are committed."""
    told = struct.pack("<H5Q", 1, size, 0, 0, 0, 0)
    name = f"{COMMITTED}\0".encode("utf-16-le")
    return event(ms, 39, 0, name + struct.pack("<I", len(told)) + told + bytes(2))


def of_every_kind(number: int) -> list[Seen]:
    """What takes less than 20 ms and begins at 0: one alone, or one in the background with a young one within and a pause behind its first."""
    *histories, _ = heaps(0.75, np.random.default_rng(number))
    alone = [*collection(0, number, PHASES), committed(0.25, 1), committed(0.7, 1000 + number), *histories]
    alone += [heap_stats(0.9, number), tick(1.5, 10 * number)]
    if number % 12 != 2:
        return sorted(alone, key=lambda one: one.ms)
    phases = [(11, 0.3, 5), (12, 0.4, 5), (13, 6, 5), (14, 6.5, 5), (15, 6.6, 5), (16, 6.7, 5), (17, 8.0, 5)]
    own = [*in_background(0, number, *phases), *later(8, histories), heap_stats(9.5, 7 * number)]
    young = [*collection(2, number + 1000, PHASES), heap_stats(2.9, number)]
    again = [
        event(6.4, 9, 1, struct.pack("<IIH", PREPARATION, number, 0)),
        event(6.45, 8, 1, bytes(2)),
        event(6.65, 3, 1, bytes(2)),
    ]
    return sorted([*own, *young, *again], key=lambda one: one.ms)


def rows_of(made: GcReport, *, names: Sequence[str] = (*VALUES, *BACKGROUND)) -> list[list[float]]:
    """Values of each row; NaN where one is not known."""
    return [[np.nan if row[name] is None else row[name] for name in names] for row in made.collections.to_pylist()]


def same(made: GcReport, expected: GcReport) -> bool:
    return rows_of(made) == [pytest.approx(row, nan_ok=True, abs=1e-6) for row in rows_of(expected)]


@pytest.mark.parametrize("begins", [(300, 100, 200), (100, 300, 200, 400), (500, 400, 300, 200, 100), (100, 100, 100)])
def test_what_is_older_than_the_sequence_point_before_it_has_its_pauses(begins: tuple[int, ...]) -> None:
    segments = [later(begin, collection(0, number, PHASES)) for number, begin in enumerate(begins, 1)]
    made = gc(recorded(*segments))
    assert made.collections.values("number") == [*range(1, len(begins) + 1)]
    assert made.collections.values("start_ms") == pytest.approx([begin + 0.2 for begin in begins])
    assert made.collections.values("pause_ms") == pytest.approx([1.0] * len(begins))
    assert made.totals.pause_ms == pytest.approx(len(begins))


@given(st.lists(st.integers(0, 300), min_size=1, max_size=6))
def test_segments_that_go_back_in_time_tell_the_same_as_in_its_order(begins: list[int]) -> None:
    parts = [of_every_kind(number) for number in range(1, len(begins) + 1)]
    expected = gc(recorded(*(later(20 * place, part) for place, part in enumerate(parts))))
    assert same(gc(recorded(*map(later, begins, parts))), expected)


def test_of_these_segments_all_that_is_compared_is_told() -> None:
    made = rows_of(gc(recorded(*(of_every_kind(number) for number in range(1, 5)))))
    assert np.isfinite(made).any(axis=0).all()


def at_ticks(number: int, ticks: Sequence[int]) -> list[Seen]:
    """A collection whose events are of these ticks of a clock of 0.1 ms."""
    events = [one for one in collection(0, number, PHASES) if one.number != 205]
    return [replace(one, ms=tick / 10) for one, tick in zip(events, ticks, strict=True)]


def test_pauses_that_begin_and_end_in_one_tick_are_told_apart() -> None:
    """As TraceEvent does: a restart, and the suspension behind it, in the tick of the start."""
    ticks = (5, 6, 10, 10, 10), (10, 11, 12, 13, 13), (20, 21, 22, 23, 24)
    made = gc(recorded([one for number, own in enumerate(ticks, 1) for one in at_ticks(number, own)]))
    assert made.collections.values("pause_ms") == pytest.approx([0.5, 0.3, 0.4])
    assert made.collections.values("suspend_ms") == pytest.approx([0.1] * 3)


@given(st.lists(st.lists(st.integers(0, 2), min_size=5, max_size=5), min_size=1, max_size=8))
def test_of_a_coarse_clock_pauses_are_those_of_the_order(gaps: list[list[int]]) -> None:
    ticks = np.cumsum(gaps).reshape(-1, 5)
    made = gc(recorded([one for number, own in enumerate(ticks.tolist(), 1) for one in at_ticks(number, own)]))
    suspended, stopped, _, _, restarted = ticks.T / 10
    assert made.collections.values("pause_ms") == pytest.approx((restarted - suspended).tolist())
    assert made.collections.values("suspend_ms") == pytest.approx((stopped - suspended).tolist())


def test_what_ends_before_it_began_took_no_time_that_is_known() -> None:
    one = collection(50, 1, PHASES)
    made = gc(recorded(one[:4], later(-20, one[4:]), collection(100, 2, PHASES)))
    first, second = made.collections.to_pylist()
    assert [first["pause_ms"], first["duration_ms"], first["suspend_ms"]] == [None, None, pytest.approx(0.1)]
    assert second["pause_ms"] == made.totals.pause_ms == pytest.approx(1.0)


def test_phases_are_of_the_one_in_the_background_that_they_stand_in() -> None:
    """The first ends, and the second begins, in the tick of the last event of a phase of the first."""
    first, second = in_background(0, 1, (11, 0.3, 1), (12, 9, 1)), in_background(9, 2, (11, 0.3, 1), (12, 0.4, 1))
    made = gc(recorded([*first, *(replace(one, ms=9) for one in second[:3]), *second[3:]]))
    assert made.collections.values("initial_mark_ms") == pytest.approx([8.7, 0.1])
    assert made.collections.values("pause_ms") == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_made_early_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    segments = [
        [one for row in range(12) for one in later(20 * row + begin, of_every_kind(12 * place + row))]
        for place, begin in enumerate((np.arange(12) * 200 + random.integers(0, 500, 12)).tolist())
    ]
    (expected,) = fold(recorded(*segments), GcFold())
    monkeypatch.setattr(gc_rows, "MOST_KEPT", 17)
    asked = GcFold()
    (made,) = fold(recorded(*segments), asked, rows=50)
    assert made.totals.count == 12 * 13
    assert len(asked._events) < made.totals.count
    assert same(made, expected)


@pytest.mark.parametrize("lost", [2, 3, 8, 9])
@pytest.mark.parametrize("of", ["alone", "young", "background"])
def test_one_event_that_was_lost_does_not_keep_all_that_come_behind_it(
    lost: int, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was lost will not come any more: nobody waits for it."""
    events = [one for row in range(240) for one in later(20 * row, of_every_kind(row))]
    begin = {"alone": 60.0, "young": 42.0, "background": 43.0}[of]
    gone = next(place for place, one in enumerate(events) if one.ms > begin - 0.1 and one.number == lost)
    assert events[gone].ms < 60 + 20 * (of == "alone")
    del events[gone]
    (expected,) = fold(recorded(events), GcFold())
    monkeypatch.setattr(gc_rows, "MOST_KEPT", 17)
    asked = GcFold()
    (made,) = fold(recorded(events), asked, rows=50)
    assert made.totals.count == 260
    assert len(asked._events) < 60
    assert same(made, expected)


def induced(number: int) -> list[Seen]:
    """One that a program asks for, and who does, at 0."""
    start = event(0.2, 1, 2, struct.pack("<IIIIHQ", number, 1, 1, 0, 0, 0))
    return [
        event(0, 35, 0, struct.pack("<IH", 1, 0)),
        *(start if one.number == 1 else one for one in collection(0, number, PHASES)),
    ]


def asked_by(trace: Trace) -> list[int]:
    """Of each collection which of those that asked did; -1 for none."""
    asked = GcFold()
    for window in trace.windows(asked.wants):
        asked.feed(window)
    ((_, rows),) = asked._rows.finish(asked._events, asked._words)
    return [int(one) for one in rows.column("asked", 0, len(rows))]


def test_who_asked_stands_in_front_of_the_collection() -> None:
    begins = 300, 100, 500, 200
    parts = [induced(number) if number % 2 else collection(0, number, PHASES) for number in range(1, 5)]
    assert asked_by(recorded(*map(later, begins, parts))) == [0, -1, 1, -1]
    together = [replace(one, ms=5) for number in (1, 2, 3) for one in induced(number)]
    assert asked_by(recorded(together)) == [0, 1, 2]


def test_the_end_of_another_with_the_same_number_is_not_its_own() -> None:
    """The number of the first is wrong where it begins: it is that of the third."""
    wrong, right = collection(10, 3, PHASES), collection(10, 1, PHASES)
    begun, ended = [one for one in wrong if one.number != 2], [one for one in right if one.number == 2]
    first = sorted([*begun, *ended], key=lambda one: one.ms)
    made = gc(recorded([*first, *collection(20, 2, PHASES), *collection(30, 3, PHASES)]))
    assert made.collections.values("number") == [3, 2, 3]
    assert made.collections.values("duration_ms") == [None, pytest.approx(0.6), pytest.approx(0.6)]
    assert made.collections.values("pause_ms") == pytest.approx([1.0, 1.0, 1.0])


def test_what_one_in_the_background_has_at_its_end_is_not_told_at_its_begin() -> None:
    """.NET 10 tells it when such a collection begins, and no more."""
    background = in_background(10, 2, (11, 0.3, 5), (12, 0.4, 5))
    events = sorted(
        [*collection(0, 1, PHASES), committed(0.7, 1000), *background, committed(10.25, 2000)], key=lambda one: one.ms
    )
    made = gc(recorded([*events, *collection(30, 3, PHASES), committed(30.7, 3000)]))
    assert made.collections.values("type") == ["NonConcurrentGC", "BackgroundGC", "NonConcurrentGC"]
    assert made.collections.values("committed_bytes") == [1000, None, 3000]


def test_a_process_that_began_anew_has_its_numbers_again() -> None:
    made = gc(
        recorded([one for ms, number in ((10, 1), (20, 2), (30, 1), (40, 2)) for one in collection(ms, number, PHASES)])
    )
    assert made.collections.values("duration_ms") == pytest.approx([0.6] * 4)
