"""Rows of collections that are made while windows come are those that are made of all events at once."""

from __future__ import annotations

import pickle
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analysis.test_gc import BEGUN, collection, event, in_background, segment, tick
from tests.analysis.traces import Seen, traced
from tests.nettrace.recordings import data_of

import dotnetdiag as dd
from dotnetdiag.analysis import gc_rows
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.gc_collections import UNTOLD_ALLOCATED, GcFold, GcReport, gc
from dotnetdiag.table.sliced import SlicedTable
from dotnetdiag.trace import spilled_columns
from dotnetdiag.trace.trace import Trace

WITH_COLLECTIONS = [
    "eventpipe-dotnetcore3.0-win-x64-objver4.nettrace.xz",
    "gcverbose-10.nettrace",
    "gccollect-10.nettrace",
]
PHASES = (1, 2, 3, 4, 5, 60, 70, 80)


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_rows, "MOST_KEPT", 17)
    monkeypatch.setattr(spilled_columns, "HELD_BYTES", 1000)


def in_parts(trace: Trace, rows: int) -> tuple[GcReport, int]:
    """The answer, and how many collections were kept at the end."""
    asked = GcFold(seconds=10.0)
    (made,) = fold(trace, asked, rows=rows)
    return made, len(asked._events)


def same(made: GcReport, expected: GcReport) -> bool:
    return bool(made.to_json() == expected.to_json())


@pytest.mark.parametrize("name", WITH_COLLECTIONS)
@pytest.mark.parametrize("rows", [100, 1000])
def test_of_a_recording(name: str, rows: int, request: pytest.FixtureRequest) -> None:
    expected, count = in_parts(Trace(data_of(name)), 1 << 16)
    assert count == expected.totals.count == len(expected.collections)
    request.getfixturevalue("early")
    made, kept = in_parts(Trace(data_of(name)), rows)
    assert same(made, expected)
    assert kept < count or count < 40


def heaps(ms: float, random: np.random.Generator) -> list[Seen]:
    """What two heaps and all together tell at the end of a collection."""
    made = []
    for heap in range(2):
        values = [int(one) for one in random.integers(0, 1 << 20, 50)]
        history = struct.pack("<H6Q6IQI", 0, *(0,) * 6, 0, 1 << 2, 0, 0, 0, heap, 0, 5) + struct.pack("<50Q", *values)
        made.append(event(ms, 204, 3, history))
    sizes = [int(one) for one in random.integers(0, 1 << 20, 8)]
    stats = struct.pack("<8Q2Q3IH2Q", *sizes, 3, 4, 5, 6, 7, 0, 1 << 15, 1 << 14)
    return [*made, event(ms + 0.06, 4, 2, stats)]


def without_events(ms: float, reason: int = 1) -> list[Seen]:
    """A collection of a NoGC region, which has a number, and a pause of a millisecond: all that is told of it."""
    return [event(ms, 9, 1, struct.pack("<IIH", reason, 0, 0)), event(ms + 1, 3, 1, bytes(2))]


def made_up(seed: int) -> Trace:
    """Two hundred collections of every kind: some in the background with young ones within, some asked for, some that have no events, with ticks
    between them.
    """
    random = np.random.default_rng(seed)
    seen, ms, count = list[Seen](), 1.0, 0
    while count < 200:
        seen += [tick(ms + float(random.uniform(0, 2)), int(random.integers(1, 1000))) for _ in range(3)]
        count, kind = count + 1, random.random()
        if kind < 0.06:
            within = in_background(ms, count, (11, 0.3, 5), (12, 0.4, 5), (13, 6, 5))
            young = collection(ms + 2, count + 1, PHASES)
            seen += [*within, *heaps(ms + 8.9, random), *young, *heaps(ms + 2.6, random)]
            count, ms = count + 1, ms + 10
        elif kind < 0.1:
            seen += without_events(ms)
            ms += 3
        elif kind < 0.2:
            asked = replace(event(ms - 0.2, 35, 0, struct.pack("<IH", 1, 0)), stack=("Ask", "Main"))
            start = event(ms + 0.2, 1, 2, struct.pack("<IIIIHQ", count, 1, 1, 0, 0, 0))
            seen += [asked, *(start if one.number == 1 else one for one in collection(ms, count, PHASES))]
            ms += 3
        else:
            seen += [*collection(ms, count, PHASES), *(heaps(ms + 0.6, random) if kind < 0.9 else ())]
            ms += float(random.uniform(1.1, 3))
    return traced(*sorted(seen, key=lambda one: one.ms))


@pytest.mark.parametrize("seed", range(12))
def test_of_collections_of_every_kind(seed: int, request: pytest.FixtureRequest) -> None:
    expected, _ = in_parts(made_up(seed), 1 << 16)
    request.getfixturevalue("early")
    for rows in (40, 333):
        made, kept = in_parts(made_up(seed), rows)
        assert kept < 100
        assert isinstance(made.collections, SlicedTable)
        assert same(made, expected)
        assert same(pickle.loads(pickle.dumps(made)), expected)  # as answers come from the processes of Dask and Ray
    missing = 200 - len(expected.collections)
    assert 0 < missing - 2 < len(expected.other_pauses) <= missing + 1
    columns = expected.collections
    untold = {name for name in columns.columns if all(one is None for one in columns.values(name))}
    assert untold == {"sweep_ms", "final_mark_ms", "concurrent_sweep_ms", "committed_bytes"}


def test_of_several_processes(tmp_path: Any, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "two.nettrace"
    dd.merge([data_path(name, tmp_path) for name in WITH_COLLECTIONS[1:]], path)
    expected, count = in_parts(dd.open(path), 1 << 16)
    request.getfixturevalue("early")
    made, kept = in_parts(dd.open(path), 1000)
    assert same(made, expected)
    assert kept < count
    assert len(set(made.collections.values("pid"))) == 2


def data_path(name: str, folder: Any) -> Any:
    path = folder / name
    path.write_bytes(data_of(name))
    return path


def test_where_no_file_can_be_written_rows_stay_in_memory(early: None, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = in_parts(made_up(0), 1 << 16)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spilled_columns, "UnnamedFile", full)
    made, kept = in_parts(made_up(0), 100)
    assert kept < 100
    assert same(made, expected)


def sized(ms: float, before: int) -> list[Seen]:
    """What one heap tells: of each generation how large it was, and that nothing is left."""
    history = struct.pack("<H6Q6IQI", 0, *(0,) * 6, 0, 1 << 2, 0, 0, 0, 0, 0, 5)
    stats = struct.pack("<8Q2Q3IH2Q", *(0,) * 10, 3, 4, 5, 6, 0, 0)
    return [event(ms, 204, 3, history + struct.pack("<10Q", before, *(0,) * 9) * 5), event(ms + 0.06, 4, 2, stats)]


SEGMENTS = [segment(0.1, kind) for kind in (3, 0, 0, 0, 1)]


@pytest.mark.parametrize(
    ("seen", "is_from_begin"),
    [
        ([BEGUN], True),
        (SEGMENTS, True),  # NativeAOT
        (SEGMENTS[1:], False),
        ([segment(0.5, 0)], False),
        ([*SEGMENTS[1:], segment(4, 3)], False),
        ([], False),
    ],
)
def test_what_was_there_before_the_recording_began_was_not_allocated_in_it(
    seen: list[Seen], is_from_begin: bool
) -> None:
    """The first collection of a process may come hours after it began; ticks tell what came since the recording did."""
    events = [*seen, *collection(2, 1, PHASES), *sized(2.7, 100), *collection(5, 2, PHASES), *sized(5.7, 50)]
    for ticks, later in (([], None), ([tick(1, 10), tick(3, 3000)], 10)):
        made = gc(traced(*sorted([*events, *ticks], key=lambda one: one.ms)))
        first = 300 if is_from_begin else later
        assert made.collections.values("allocated_bytes") == [first, 150]
        assert made.totals.allocated_bytes == (first or 0) + 150
        assert made.notes == ()
        rate = made.totals.allocated_bytes_per_second
        assert rate == pytest.approx(1000 * ((first or 0) + 150) / (5.2 if first else 3))


def test_what_was_allocated_before_one_in_the_background_only_ticks_tell() -> None:
    """Without them it is not 0, and what all come to is less than what was allocated. Of small, large and pinned objects, each of these sizes."""
    events = [BEGUN, *collection(1, 1, PHASES), *sized(1.7, 100), *in_background(10, 2), *sized(18.5, 5000)]
    events = sorted([*events, *collection(20, 3, PHASES), *sized(20.7, 1000)], key=lambda one: one.ms)
    without = gc(traced(*events))
    ticked = gc(traced(*sorted([*events, tick(9, 700), tick(12, 30)], key=lambda one: one.ms)))
    assert without.collections.values("allocated_bytes") == [300, None, 3000]
    assert without.totals.allocated_bytes == 3300
    assert without.notes == (UNTOLD_ALLOCATED,)
    assert ticked.collections.values("allocated_bytes") == [300, 700, 30]
    assert ticked.notes == ()


def test_what_was_there_before_a_first_one_in_the_background_only_ticks_tell() -> None:
    """Its history says more than had come by its begin: what came until it ended, which the next would have too."""
    events = [BEGUN, *in_background(10, 1), *sized(18.5, 5000), *collection(20, 2, PHASES), *sized(20.7, 1000)]
    ticked = gc(traced(*sorted([*events, tick(9, 700), tick(12, 30)], key=lambda one: one.ms)))
    assert ticked.collections.values("allocated_bytes") == [700, 30]
    without = gc(traced(*sorted(events, key=lambda one: one.ms)))
    assert without.collections.values("allocated_bytes")[0] is None


@pytest.mark.parametrize("has_ticks", [True, False])
def test_a_part_does_not_begin_with_its_process_whatever_it_keeps_for_names(has_ticks: bool, tmp_path: Path) -> None:
    events = [
        BEGUN,
        *(one for at in range(1, 5) for one in (*collection(10 * at, at, PHASES), *sized(10 * at + 0.7, 100))),
    ]
    ticks = [tick(ms, size) for ms, size in ((5, 11), (12, 20), (18, 40), (28, 70))] if has_ticks else []
    whole, part = tmp_path / "whole.nettrace", tmp_path / "part.nettrace"
    whole.write_bytes(bytes(traced(*sorted([*events, *ticks], key=lambda one: one.ms)).raw.buffer))
    assert dd.gc(whole).collections.values("allocated_bytes") == [300, 300, 300, 300]
    dd.trim(whole, part, start=0.015)
    made = dd.gc(part)
    assert made.collections.values("number") == [2, 3, 4]
    assert made.collections.values("allocated_bytes") == [40 if has_ticks else None, 300, 300]
    assert pickle.loads(pickle.dumps(made)).to_json() == made.to_json()


def test_who_asked_for_a_collection_that_did_not_come_has_induced_none() -> None:
    """As GC.TryStartNoGCRegion does where there is room enough."""

    def asks(ms: float, *stack: str) -> Seen:
        return replace(event(ms, 35, 0, struct.pack("<IH", 1, 0)), stack=stack)

    start = event(10.2, 1, 2, struct.pack("<IIIIHQ", 1, 1, 1, 0, 0, 0))
    own = [start if one.number == 1 else one for one in collection(10, 1, PHASES)]
    made = gc(traced(asks(9, "Try", "Main"), asks(9.9, "Ask", "Main"), *own, asks(30, "Try", "Main")))
    assert made.totals.induced == 1
    assert [(row["collections"], *row["stack"]) for row in made.by_stack] == [(1, "app!Ask()", "app!Main()")]
    assert made.induced.weight.sum() == 1


@pytest.mark.parametrize("is_full", [True, False])
def test_one_in_the_background_whose_end_is_lost_is_over_when_another_of_gen2_begins(is_full: bool) -> None:
    """What came since is told by sizes then, and by ticks until then."""
    start = event(20.2, 1, 2, struct.pack("<IIIIHQ", 3, 2 if is_full else 1, 0, 0, 0, 0))
    third = [start if one.number == 1 else one for one in collection(20, 3, PHASES)]
    events = [BEGUN, *collection(1, 1, PHASES), *sized(1.7, 100), *in_background(10, 2)[:-1], *third, *sized(20.7, 50)]
    for at in (4, 5):
        events += [*collection(10 * at, at, PHASES), *sized(10 * at + 0.7, 100)]
    ticks = [tick(ms, 7) for ms in (9, 19, 39, 49)]
    made = gc(traced(*sorted([*events, *ticks], key=lambda one: one.ms)))
    assert made.collections.values("allocated_bytes")[3:] == ([300, 300] if is_full else [7, 7])
