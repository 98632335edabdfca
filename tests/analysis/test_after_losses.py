"""What losses leave unknown is not told as something else."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.analysis.test_exceptions import CATCH, CATCH_OVER, FINALLY, FINALLY_OVER, of, throw
from tests.analysis.test_gc import COMPACTING, event, in_background, tick
from tests.analysis.test_gc_rows import made_up
from tests.analysis.test_waits import begins, ends
from tests.analysis.traces import MS, Seen, traced
from tests.nettrace.recordings import data_of, recording

from dotnetdiag.analysis.advice import of_death
from dotnetdiag.analysis.exceptions import exceptions
from dotnetdiag.analysis.gc_collections import GcFold, GcReport, gc
from dotnetdiag.analysis.request_kinds import HOSTING
from dotnetdiag.analysis.requests import requests
from dotnetdiag.analysis.waits import waits
from dotnetdiag.nettrace import Metadata, Writer
from dotnetdiag.nettrace.loss import Gap
from dotnetdiag.recipes.trace_rewrite import trim
from dotnetdiag.trace.part import RUNTIME
from dotnetdiag.trace.recorded import Recorded
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace


def without(data: bytes | Trace, lost: Callable[[EventTable], np.ndarray]) -> GcReport:
    """The collections of a recording that has lost some of its events."""
    trace, asked = data if isinstance(data, Trace) else Trace(data), GcFold()
    for window in trace.windows(asked.wants):
        asked.feed(EventTable(window.trace, window.schemas, window.headers[~lost(window)]))
    return asked.result()


def named(window: EventTable, name: str) -> np.ndarray:
    return np.array([one.name == name for one in window], np.bool_)


def test_what_was_committed_at_the_end_is_not_known_of_what_has_none() -> None:
    data = data_of("gccollect-10.nettrace")
    whole = gc(Trace(data)).collections.to_pylist()
    assert all(row["committed_bytes"] for row in whole)
    cut = without(data, lambda window: named(window, "GC/Stop")).collections.to_pylist()
    assert {(row["duration_ms"], row["committed_bytes"]) for row in cut} == {(None, None)}
    assert len(cut) == len(whole)


@pytest.mark.parametrize(("first", "last"), [(1, 2), (5, 9)])
def test_what_was_allocated_since_one_that_was_lost_is_not_known(first: int, last: int) -> None:
    data = data_of("gccollect-10.nettrace")
    whole = {row["number"]: row for row in gc(Trace(data)).collections.to_pylist()}
    begin, end = whole[first]["pause_start_ms"], whole[last + 1]["pause_start_ms"]
    made = without(data, lambda window: (window.numpy("ms") >= begin) & (window.numpy("ms") < end))
    rows = {row["number"]: row["allocated_bytes"] for row in made.collections.to_pylist()}
    assert rows.keys() == whole.keys() - {*range(first, last + 1)}
    assert rows[last + 1] is None
    for number in rows.keys() - {last + 1}:
        assert rows[number] == whole[number]["allocated_bytes"]


def test_what_ticks_tell_goes_over_no_collection_that_was_lost() -> None:
    trace = made_up(0)
    whole = {row["number"]: row for row in gc(trace).collections.to_pylist()}
    begin, end = whole[21]["pause_start_ms"], whole[24]["pause_start_ms"]
    made = without(trace, lambda window: (window.numpy("ms") >= begin) & (window.numpy("ms") < end))
    rows = {row["number"]: row["allocated_bytes"] for row in made.collections.to_pylist()}
    assert (rows.keys() & {21, 22, 23, 24}, rows[24]) == ({24}, None)


def told_by(heaps: int, of: int) -> list[Seen]:
    """A collection of which so many of its heaps have told, each of a thousand bytes in each generation."""
    history = struct.pack("<H6Q6IQI", 0, *(0,) * 6, 0, 1 << 2, 0, 0, 0, 0, 0, 5)
    overall = struct.pack("<QiIIIIHIIIII", 0, of, 1, 0, 0, COMPACTING, 0, 1, 10, 0, 0, 0)
    one = struct.pack("<10Q", *(1000,) * 10) * 5
    return [
        event(1, 1, 2, struct.pack("<IIIIHQ", 1, 1, 0, 0, 0, 0)),
        event(1.1, 205, 4, overall),
        *(event(1.2 + heap / 100, 204, 3, history[:-12] + struct.pack("<QI", heap, 5) + one) for heap in range(heaps)),
        event(2, 2, 1, struct.pack("<IIH", 1, 1, 0)),
    ]


@pytest.mark.parametrize(("heaps", "of", "before"), [(2, 2, 10_000), (1, 2, None), (1, 1, 5_000), (0, 2, None)])
def test_where_one_of_several_heaps_is_not_told_of_nothing_is_of_all(heaps: int, of: int, before: int | None) -> None:
    made = gc(traced(*told_by(heaps, of)))
    (row,) = made.collections.to_pylist()
    assert (row["heaps"], row["before_bytes"], row["gen0_survived_bytes"] is None) == (of, before, before is None)
    assert made.totals.max_before_bytes == before


@pytest.mark.parametrize(
    ("after", "before", "durations"),
    [
        (None, None, [30.0, 10.0]),
        (10, 40, [None, 10.0]),
        (20, 30, [None, 10.0]),
        (40, 50, [30.0, 10.0]),
        (50, 60, [30.0, None]),
    ],
)
def test_a_wait_has_no_end_that_may_be_of_another(
    after: int | None, before: int | None, durations: list[float | None]
) -> None:
    trace = traced(begins(10, 1, "A.M"), ends(40, 1), begins(50, 1, "A.M"), ends(60, 1), begins(99, 3))
    if after is not None and before is not None:
        lost = trace.raw.lost
        lost.total = 1
        lost.gaps.append(Gap(capture_thread=1, segment=0, after=after * MS, before=before * MS, count=1))
        lost.gaps.append(Gap(capture_thread=2, segment=0, after=0, before=90 * MS, count=1))
    made = waits(trace)
    assert made.waits.values("duration_ms") == [*durations, None]
    assert made.totals.unfinished == 1 + durations.count(None)
    assert made.profile.total == pytest.approx(sum(one or 0 for one in durations))


def test_a_part_that_has_all_tells_the_same(tmp_path: Path) -> None:
    """What ticks come to is added up where no window has them, of a part too."""
    whole, part = recording("gcverbose-10.nettrace"), tmp_path / "part.nettrace"
    trim(whole, part, start_s=None, end_s=1e6)
    made, expected = (gc(Trace(path.read_bytes())) for path in (part, whole))
    assert made.collections.to_pylist() == expected.collections.to_pylist()
    assert made.totals.allocated_bytes == expected.totals.allocated_bytes
    assert made.notes == expected.notes


def test_a_collection_in_the_background_without_an_end_may_have_more_pauses() -> None:
    first, *_, last = in_background(10, 1), in_background(50, 2)
    made = gc(traced(*first, *last[:-1]))
    assert [row["pause_ms"] is None for row in made.collections] == [False, True]
    assert [row["suspend_ms"] is None for row in made.collections] == [False, True]


def test_what_nothing_tells_of_promoted_bytes_is_no_0() -> None:
    made = without(data_of("gccollect-10.nettrace"), lambda window: named(window, "GC/HeapStats"))
    assert (made.totals.promoted_bytes, {*made.collections.values("promoted_bytes")}) == (None, {None})


def losing(trace: Trace, thread: int, after: float | None, before: float) -> Trace:
    """A thread of it has lost an event between two times in ms; before the first of its events where there is no ``after``."""
    lost = trace.raw.lost
    lost.total += 1
    lost.by_thread[thread] = lost.by_thread.get(thread, 0) + 1
    gap = Gap(
        capture_thread=thread,
        segment=0,
        after=None if after is None else round(after * MS),
        before=round(before * MS),
        count=1,
    )
    lost.gaps.append(gap)
    return trace


def in_time(*events: Seen) -> Trace:
    """One event every ms, from 1 on."""
    return traced(*(replace(one, ms=float(ms)) for ms, one in enumerate(events, 1)))


CAUGHT = [throw("lost"), of(FINALLY, "Inner"), of(FINALLY_OVER), of(CATCH, "Main"), of(CATCH_OVER)]


@pytest.mark.parametrize(
    ("after", "before", "told"),
    [
        (None, 1, (3.0, 1.0, 1, 1.0)),  # before the throw
        (1, 2, (None, None, None, None)),
        (3, 4, (None, None, None, None)),
        (4, 5, (3.0, None, 1, 1.0)),  # while it was handled
        (5, 9, (3.0, 1.0, 1, 1.0)),
    ],
)
def test_of_an_exception_is_told_what_no_loss_leaves_to_another(
    after: float | None, before: float, told: tuple[float | None, ...]
) -> None:
    made = exceptions(losing(in_time(*CAUGHT), 1, after, before))
    (row,) = made.thrown.to_pylist()
    assert tuple(row[name] for name in ("catch_ms", "handled_ms", "finallys", "finally_ms")) == told
    assert (row["caught_by"] is None) == (row["catch_ms"] is None)
    assert (made.totals.caught or 0, len(made.by_catch)) == ((1, 1) if told[0] else (0, 0))
    of_another = exceptions(losing(in_time(*CAUGHT), 2, 1, 4))
    assert of_another.thrown.to_pylist() == exceptions(in_time(*CAUGHT)).thrown.to_pylist()


def test_what_was_thrown_last_is_not_said_to_be_the_death_where_its_catch_may_be_lost() -> None:
    made = exceptions(in_time(throw("last"), of(FINALLY, "Inner"), of(FINALLY_OVER)))
    ends_s = Recorded(0.0, 0.01)
    assert len([*of_death(made, ends_s)]) == 1
    assert [*of_death(made, ends_s, lambda _: 1)] == []


@pytest.mark.parametrize(
    ("after", "before", "allocated"),
    [
        (None, None, [30, 70]),
        (4, 6, [None, 70]),  # ticks, or a collection
        (None, 6, [None, 70]),
        (24, 26, [30, None]),
        (44, 60, [30, 70]),
    ],
)
def test_ticks_tell_nothing_across_a_loss(
    after: float | None, before: float | None, allocated: list[int | None]
) -> None:
    """Of collections in the background, and of the first."""
    seen = [tick(1, 10), tick(2, 20), *in_background(10, 7), tick(30, 70), *in_background(40, 8)]
    trace = traced(*seen)
    told = gc(trace if before is None else losing(trace, 5, after, before))
    assert told.collections.values("allocated_bytes") == allocated
    assert told.totals.allocated_bytes == sum(one or 0 for one in allocated)


def served(*, has_end: bool) -> Trace:
    """A request from 10 to 99 ms, and a pause from 50 to 55 ms."""
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, "RequestStart"), (2, "RequestStop")):
            writer.add_metadata(Metadata(metadata_id=number, provider=HOSTING, event_id=number, name=name))
        for number in (3, 9):
            writer.add_metadata(Metadata(metadata_id=number, provider=RUNTIME, event_id=number, name="", version=1))
        writer.write_event(1, 10 * MS, b"", thread=1, activity=UUID(int=1))
        writer.write_event(9, 50 * MS, struct.pack("<IIH", 1, 1, 0), thread=3)
        writer.write_event(3, 55 * MS, bytes(2), thread=3)
        if has_end:
            writer.write_event(2, 99 * MS, b"", thread=1, activity=UUID(int=1))
    return Trace(file.getvalue())


def test_what_a_request_spends_whose_end_may_be_lost_is_not_known() -> None:
    def told(trace: Trace) -> tuple[Any, ...]:
        made = requests(trace)
        (row,), (route,) = made.requests.to_pylist(), made.by_route.to_pylist()
        return row["duration_ms"], row["gc_ms"], route["unfinished"], route["gc_ms"]

    assert told(served(has_end=False)) == (None, 5.0, 1, 5.0)
    assert told(losing(served(has_end=False), 3, 20, 30)) == (None, None, 1, None)
    assert told(losing(served(has_end=True), 3, 20, 30)) == (89.0, 5.0, 0, 5.0)
