"""Collections of which there are no events, or not all: those of NoGC regions, and those in the background when a recording begins or ends."""

from __future__ import annotations

import struct

import pytest
from tests.analysis.test_gc import BEGUN, collection, event, in_background, tick
from tests.analysis.test_gc_rows import PHASES, sized, without_events
from tests.analysis.traces import PROCESS, Seen, traced

from dotnetdiag.analysis.advice import advice
from dotnetdiag.analysis.gc_collections import NO_EVENTS, OTHER_PAUSES, UNTOLD_ALLOCATED, GcReport, gc

SUSPEND_END = 8


def asked(*events: Seen) -> GcReport:
    return gc(traced(*sorted(events, key=lambda one: one.ms)))


def foreground(ms: float, count: int) -> list[Seen]:
    """A young one while one in the background is under way."""
    start = event(ms + 0.2, 1, 2, struct.pack("<IIIIHQ", count, 1, 0, 2, 0, 0))
    return [start if one.number == 1 else one for one in collection(ms, count, PHASES)]


def test_what_was_allocated_behind_collections_without_events_ticks_tell() -> None:
    """Sizes tell what the one before left, which is not told here."""
    first = [BEGUN, *collection(2, 1, PHASES), *sized(2.7, 100)]
    region = [*without_events(5), *collection(8, 3, PHASES), *sized(8.7, 50)]
    without = asked(*first, *region)
    assert without.collections.values("allocated_bytes") == [300, None]
    assert UNTOLD_ALLOCATED in without.notes
    assert without.totals.allocated_bytes_per_second == pytest.approx(300_000 / 2.2), "of the time in which it is told"
    ticked = asked(*first, tick(4, 70), tick(6, 700), *region, tick(9, 9))
    assert ticked.collections.values("allocated_bytes") == [300, 770]
    assert ticked.totals.allocated_bytes == 1070
    assert UNTOLD_ALLOCATED not in ticked.notes


def test_while_one_in_the_background_is_under_way_of_which_there_are_no_events_ticks_tell() -> None:
    """It frees large objects meanwhile, and sizes tell what is left."""
    events = [*foreground(2, 7), *sized(2.7, 100), *foreground(5, 8), *sized(5.7, 10)]
    events += [*collection(8, 9, PHASES), *sized(8.7, 10), *collection(11, 10, PHASES), *sized(11.7, 10)]
    ticked = asked(*events, tick(1, 5), tick(4, 70), tick(6, 700), tick(10, 9))
    assert ticked.collections.values("allocated_bytes") == [5, 70, 700, 30]


def test_pauses_of_collections_without_events_are_told_apart() -> None:
    made = asked(*collection(2, 1, PHASES), *without_events(5), *without_events(7, reason=4), *collection(9, 2, PHASES))
    assert made.collections.values("pause_ms") == [pytest.approx(1.0)] * 2
    assert made.other_pauses.to_pylist() == [{"pid": PROCESS, "start_ms": 5.0, "pause_ms": pytest.approx(1.0)}]
    assert made.totals.count == 2
    assert [made.totals.pause_ms, made.totals.other_pauses_ms] == [pytest.approx(2.0), pytest.approx(1.0)]
    assert made.notes == (OTHER_PAUSES.format("1 pause is", 1.0),)


def preparation(ms: float, lasts: float = 50) -> list[Seen]:
    """A pause that the collector asks for while one in the background is under way."""
    return [
        event(ms, 9, 1, struct.pack("<IIH", 6, 1, 0)),
        event(ms + 0.1, SUSPEND_END, 1, bytes(2)),
        event(ms + lasts, 3, 1, bytes(2)),
    ]


def test_pauses_of_one_in_the_background_that_does_not_end_are_told_apart() -> None:
    cut = [*in_background(10, 1)[:-1], *preparation(20)]
    made = asked(*cut)
    assert made.collections.values("pause_ms") == [None], "more may come"
    assert [made.totals.pause_ms, made.totals.other_pauses_ms] == [0.0, pytest.approx(50.5)]
    assert made.other_pauses.values("pause_ms") == [pytest.approx(0.5), pytest.approx(50.0)]
    whole = asked(*cut, event(90, 2, 1, struct.pack("<IIH", 1, 2, 0)))
    assert whole.collections.values("pause_ms") == [pytest.approx(50.5)]
    assert whole.totals.pause_ms == pytest.approx(50.5)
    assert (len(whole.other_pauses), whole.notes) == (0, ())


def test_of_one_in_the_background_that_does_not_end_it_is_not_told_what_it_left() -> None:
    """A history that came meanwhile is not of its end."""
    cut = [*in_background(10, 1)[:-1], *sized(15, 100)]
    assert asked(*cut).collections.values("after_bytes") == [None]
    (row,) = asked(*cut, event(19, 2, 1, struct.pack("<IIH", 1, 2, 0))).collections.to_pylist()
    assert (row["before_bytes"], row["after_bytes"]) == (500, 0)


def test_pauses_are_told_where_no_collection_is_told_of_at_all() -> None:
    """As in a part around the pause of a NoGC region."""
    made = asked(*without_events(5))
    assert made.other_pauses.to_pylist() == [{"pid": PROCESS, "start_ms": 5.0, "pause_ms": pytest.approx(1.0)}]
    assert made.totals.count == 0
    assert made.totals.other_pauses_ms == pytest.approx(1.0)
    assert made.notes == (NO_EVENTS, OTHER_PAUSES.format("1 pause is", 1.0))
    assert len(asked(*without_events(5, reason=4)).other_pauses) == 0, "it is the sampler's"


def test_pauses_of_one_in_the_background_that_began_before_are_told_apart() -> None:
    made = asked(*preparation(20), event(90, 2, 1, struct.pack("<IIH", 6, 2, 0)), *collection(100, 7, PHASES))
    assert made.collections.values("pause_ms") == [pytest.approx(1.0)]
    assert [made.totals.pause_ms, made.totals.other_pauses_ms] == [pytest.approx(1.0), pytest.approx(50.0)]


def test_advice_tells_of_pauses_of_which_no_collection_is_there_as_a_whole() -> None:
    (found,) = advice(traced(*in_background(10, 1)[:-1], *preparation(20, lasts=300))).findings
    assert found["text"].startswith("the collector paused the program for ")
    assert "300.0 ms at most; 1 collection, 1 of gen2" in found["text"]
