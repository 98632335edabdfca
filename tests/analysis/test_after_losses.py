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
from tests.analysis.test_exceptions import (
    CATCH,
    CATCH_OVER,
    FILTER,
    FILTER_OVER,
    FINALLY,
    FINALLY_OVER,
    of,
    throw,
)
from tests.analysis.test_gc import COMPACTING, collection, event, in_background, tick
from tests.analysis.test_gc_rows import made_up
from tests.analysis.test_jit import compiled
from tests.analysis.test_thread_pool import begun, queued
from tests.analysis.test_waits import begins, ends, gets, wants
from tests.analysis.traces import MS, Seen, traced
from tests.nettrace.recordings import data_of, recording

from dotnetdiag.analysis.advice import advice, of_death
from dotnetdiag.analysis.exceptions import exceptions
from dotnetdiag.analysis.fold import LossesToTell
from dotnetdiag.analysis.gc_collections import GcFold, GcReport, gc
from dotnetdiag.analysis.jit import jit
from dotnetdiag.analysis.request_kinds import HOSTING
from dotnetdiag.analysis.requests import requests
from dotnetdiag.analysis.spans import spans
from dotnetdiag.analysis.thread_pool import threadpool
from dotnetdiag.analysis.tracks import PausesFold
from dotnetdiag.analysis.waits import contention, waits
from dotnetdiag.nettrace import Metadata, Writer
from dotnetdiag.nettrace.loss import Gap
from dotnetdiag.recipes.trace_rewrite import trim
from dotnetdiag.table import Losses
from dotnetdiag.trace import lost_between
from dotnetdiag.trace.lost_between import Spans
from dotnetdiag.trace.part import RUNTIME
from dotnetdiag.trace.recorded import Recorded
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace


class Untold(LossesToTell):
    """As of a recording of a format that does not tell what was lost."""

    @property
    def told(self) -> Losses:
        return replace(super().told, lost=None)


def without(data: bytes | Trace, lost: Callable[[EventTable], np.ndarray], *, is_told: bool = True) -> GcReport:
    """The collections of a recording that has lost some of its events, or was never given them (``is_told``)."""
    trace, asked = data if isinstance(data, Trace) else Trace(data), GcFold()
    if not is_told:
        asked._losses = Untold()
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

    def lost(window: EventTable) -> np.ndarray:
        return np.asarray((window.numpy("ms") >= begin) & (window.numpy("ms") < end))

    made = without(trace, lost, is_told=False)
    rows = {row["number"]: row["allocated_bytes"] for row in made.collections.to_pylist()}
    assert (rows.keys() & {21, 22, 23, 24}, rows[24]) == ({24}, None)
    # where nothing is lost they were never written, as of NoGC regions
    rows = {row["number"]: row["allocated_bytes"] for row in without(trace, lost).collections.to_pylist()}
    assert rows[24] > 0


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
        lost.total = 2
        lost.gaps.append(Gap(capture_thread=1, segment=0, after=after * MS, before=before * MS, count=2))
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


def losing(trace: Trace, thread: int, after: float | None, before: float, count: int = 2) -> Trace:
    """A thread of it has lost some events between two times in ms; before the first of its events where there is no ``after``."""
    lost = trace.raw.lost
    lost.total += count
    lost.by_thread[thread] = lost.by_thread.get(thread, 0) + count
    gap = Gap(
        capture_thread=thread,
        segment=0,
        after=None if after is None else round(after * MS),
        before=round(before * MS),
        count=count,
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


@pytest.mark.parametrize(
    ("behind", "told"),
    [
        ([of(FINALLY, "Other"), of(FINALLY_OVER)], (None, None, None)),
        ([of(FILTER, "Other"), of(FILTER_OVER)], (None, None, None)),
        ([of(FINALLY_OVER)], (1, 1.0, 0)),
        ([], (1, 1.0, 0)),
    ],
)
def test_what_runs_behind_a_loss_is_not_of_one_that_was_caught_before(
    behind: list[Seen], told: tuple[float | None, ...]
) -> None:
    """The end of its catch is lost, and the next throw."""
    events = [*CAUGHT[:-1], *behind, of(CATCH, "Other"), of(CATCH_OVER)]
    (row,) = exceptions(losing(in_time(*events), 1, 4, 5)).thrown.to_pylist()
    assert (row["caught_by"], row["catch_ms"], row["handled_ms"]) == ("Ex!Prog.Main()", 3.0, None)
    assert tuple(row[name] for name in ("finallys", "finally_ms", "filters")) == told
    without = exceptions(in_time(*CAUGHT[:4], of(FINALLY, "Other"), of(FINALLY_OVER))).thrown.to_pylist()
    assert (without[0]["finallys"], without[0]["finally_ms"]) == (2, 2.0), "a block of what is thrown again by 9"


def test_a_block_of_finally_does_not_last_across_a_loss() -> None:
    events = [throw("lost"), of(CATCH, "Main"), of(FINALLY, "Other"), of(FINALLY_OVER)]
    (row,) = exceptions(losing(in_time(*events), 1, 3, 4)).thrown.to_pylist()
    assert (row["catch_ms"], row["finallys"], row["finally_ms"]) == (1.0, None, None)


def test_what_was_thrown_last_is_not_said_to_be_the_death_where_its_catch_may_be_lost() -> None:
    made = exceptions(in_time(throw("last"), of(FINALLY, "Inner"), of(FINALLY_OVER)))
    ends_s = Recorded(0.0, 0.01)
    assert len([*of_death(made, ends_s)]) == 1
    assert [*of_death(made, ends_s, lambda _: 1)] == []


def test_what_left_a_filter_is_not_said_to_be_the_death_where_the_one_that_was_filtered_was_caught() -> None:
    events = [throw("outer"), of(FILTER, "Inner"), throw("inner", 18), of(FILTER_OVER), of(CATCH, "Main")]
    ends_s = Recorded(0.0, 0.01)
    assert [*of_death(exceptions(in_time(*events)), ends_s)] == []
    assert len([*of_death(exceptions(in_time(*events[:-1])), ends_s)]) == 1
    of_another = [*events[:-1], replace(throw("other"), thread=2), replace(events[-1], thread=2)]
    last_of_1 = exceptions(in_time(*of_another[-2:], *events[:-1]))
    assert len([*of_death(last_of_1, ends_s)]) == 1


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


def pauses(trace: Trace) -> list[tuple[float | None, ...]]:
    names = ("pause_start_ms", "pause_ms", "suspend_ms", "rest_ms")
    return [*zip(*(gc(trace).collections.values(name) for name in names), strict=True)]


def test_a_pause_does_not_end_behind_what_its_thread_has_lost() -> None:
    """A collection without the end of its pause, and one without its begin."""
    first, second, third = (
        collection(ms, count, (1, 2, 3, 4, 5, 6, 7, 8)) for ms, count in ((10, 1), (500, 2), (900, 3))
    )
    whole = pauses(traced(*first, *second, *third))
    assert None not in {one for row in whole for one in row[:2]}
    cut = [*first[:-1], *second[1:], *third]
    thread, behind = first[-1].thread, second[1].ms
    made = losing(traced(*cut), thread, first[-2].ms, behind)
    assert pauses(made) == [(None,) * 4, (None,) * 4, whole[2]]
    assert gc(made).totals.max_pause_ms == pytest.approx(whole[2][1])
    assert PausesFold.result(fed(PausesFold(), made)).values("start_ms") == [third[0].ms]
    assert advice(made).findings.to_pylist() == []
    by_thread = spans(made, "GC/SuspendEEStart", "GC/RestartEEStop", by="tid")
    assert by_thread.values("duration_ms")[0] is None
    elsewhere = losing(traced(*first, *second, *third), thread + 1, 10, 950)
    assert pauses(elsewhere) == whole


def fed(asked: Any, trace: Trace) -> Any:
    for window in trace.windows(asked.wants):
        asked.feed(window)
    return asked


@pytest.mark.parametrize("name", ["GC/Stop", "GC/HeapStats", "both"])
def test_what_a_lost_stop_leaves_is_not_added_to_the_next_or_given_to_the_last(name: str) -> None:
    data = data_of("gccollect-10.nettrace")
    whole = {row["number"]: row for row in gc(Trace(data)).collections.to_pylist()}
    begin, end = whole[4]["pause_start_ms"], whole[5]["pause_start_ms"]
    lost = ("GC/Stop", "GC/HeapStats") if name == "both" else (name,)

    def is_lost(window: EventTable) -> np.ndarray:
        ms = window.numpy("ms")
        own = np.array([one.name in lost for one in window], np.bool_)
        return np.asarray(own & (ms >= begin) & (ms < end))

    for row in without(data, is_lost).collections.to_pylist():
        for column in ("before_bytes", "after_bytes", "gen0_before_bytes", "promoted_bytes", "condemned", "handles"):
            assert row[column] in (whole[row["number"]][column], *([None] if row["number"] == 4 else [])), column


@pytest.mark.parametrize(("after", "before", "known"), [(None, None, True), (12, 899, False), (1, 2, True)])
def test_a_compilation_has_no_end_of_another_of_its_method(
    after: float | None, before: float | None, known: bool
) -> None:
    first = [compiled(10, 7, "One", 40, "QuickJitted")[0], compiled(899, 7, "One", 50, "OptimizedTier1", 1)[1]]
    trace = traced(*first, *compiled(950, 8, "Two", 60, "Optimized"))
    made = jit(trace if before is None else losing(trace, 1, after, before))
    assert [row["compile_ms"] for row in made.methods] == [pytest.approx(890.0) if known else None, pytest.approx(1.0)]
    assert made.totals.unfinished == (0 if known else 1)
    (row, _) = made.methods.to_pylist()
    assert (row["tier"] is None, row["native_bytes"] is None) == (not known, not known)


def test_a_request_without_an_id_has_no_end_of_another() -> None:
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, "RequestStart"), (2, "RequestStop")):
            writer.add_metadata(Metadata(metadata_id=number, provider=HOSTING, event_id=number, name=name))
        for kind, ms in ((1, 10), (2, 5005), (1, 5010), (2, 5012)):
            writer.write_event(kind, ms * MS, b"", thread=1)
    whole, cut = (Trace(file.getvalue()) for _ in range(2))
    assert requests(whole).requests.values("duration_ms") == [4995.0, 2.0]
    made = requests(losing(cut, 1, 10, 5005))
    assert made.requests.values("duration_ms") == [None, 2.0]
    assert (made.totals.unknown, made.totals.unfinished) == (1, 0)
    assert any("or events were lost meanwhile" in note for note in made.notes)


@pytest.mark.parametrize(("took", "told"), [(50.0, 50.0), (10.0, None)])
def test_what_says_how_long_it_took_is_told_where_that_is_how_far_its_events_are_apart(
    took: float, told: float | None
) -> None:
    trace = losing(traced(wants(10, 1, "A.M"), gets(60, 1, took)), 1, 20, 50)
    assert contention(trace).waits.values("duration_ms") == [told]


@pytest.mark.parametrize(
    ("thread", "after", "before", "told"), [(7, 1, 30, None), (7, 45, 50, 10.0), (7, 10, 20, None)]
)
def test_work_whose_id_comes_again_has_no_begin_behind_a_loss(
    thread: int, after: float, before: float, told: float | None
) -> None:
    trace = losing(traced(queued(10, 1, 4, "A.M"), begun(20, 2, 4)), thread, after, before)
    assert threadpool(trace).work.values("queue_ms") == [told]


@pytest.mark.parametrize(
    ("spans_of", "begin", "end", "within", "overlaps"),
    [
        ([], 0, 9, False, False),
        ([(2, 4)], 0, 9, True, True),
        ([(2, 4)], 3, 9, False, True),
        ([(2, 4)], 0, 3, False, True),
        ([(2, 4)], 4, 9, False, False),
        ([(2, 4)], 0, 2, False, False),
        ([(0, 9)], 3, 4, False, True),
        ([(0, 9), (3, 4)], 2, 5, True, True),
        ([(0, 9), (1, 2)], 3, 4, False, True),
    ],
)
def test_a_gap_within_a_time_and_one_that_overlaps_it(
    spans_of: list[tuple[int, int]], begin: int, end: int, within: bool, overlaps: bool
) -> None:
    made = Spans([(1_000_000 * after, 1_000_000 * before, 1) for after, before in spans_of])
    times = np.array([begin], float), np.array([end], float)
    assert (made.within(*times).tolist(), made.overlap(*times).tolist()) == ([within], [overlaps])


def test_behind_the_last_gap_that_is_known_nothing_of_a_thread_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has lost more than those."""
    monkeypatch.setattr(lost_between, "GAPS_LIMIT", 1)
    seen = [begins(10, 1, "A.M"), ends(40, 1), begins(50, 1, "A.M"), ends(60, 1), begins(70, 2, "A.M"), ends(80, 2)]
    trace = losing(traced(*seen), 1, 40, 50)
    assert waits(trace).waits.values("duration_ms") == [30.0, 10.0, 10.0]
    trace.raw.lost.by_thread[1] += 5
    assert waits(trace).waits.values("duration_ms") == [30.0, None, 10.0]


def test_one_event_that_was_lost_is_not_two() -> None:
    seen = [begins(10, 1, "A.M"), ends(40, 1)]
    assert waits(losing(traced(*seen), 1, 20, 30, count=1)).waits.values("duration_ms") == [30.0]
    assert waits(losing(losing(traced(*seen), 1, 12, 15, count=1), 1, 20, 30, count=1)).waits.values("duration_ms") == [
        None
    ]


def test_what_a_thread_of_the_collector_has_lost_leaves_no_size_to_another() -> None:
    data = data_of("gccollect-10.nettrace")
    whole = gc(Trace(data)).collections.to_pylist()
    trace = Trace(data)
    gap = whole[4]["start_ms"] + 0.01
    (thread,) = {int(event.tid) for event in trace if event.event == "GC/Start" and event.ms == whole[4]["start_ms"]}
    info = trace.raw.meaning.info
    frequency, sync = info.frequency, info.sync_ticks
    ticks = [sync + round(ms * frequency / 1000) for ms in (gap, gap + 0.01)]
    trace.raw.lost.total = 1
    trace.raw.lost.gaps.append(Gap(capture_thread=thread, segment=0, after=ticks[0], before=ticks[1], count=1))
    made = gc(trace).collections.to_pylist()
    for at, (row, other) in enumerate(zip(made, whole, strict=True)):
        unknown = (
            {"before_bytes", "after_bytes", "promoted_bytes", "condemned", "mark_ms", "handles"} if at == 4 else set()
        )
        unknown |= {"allocated_bytes"} if at in (4, 5) else set()
        for name in (
            "number",
            "reason",
            "type",
            "duration_ms",
            "pause_ms",
            "suspend_ms",
            *unknown,
            "before_bytes",
            "handles",
        ):
            assert row[name] == (None if name in unknown else other[name]), (at, name)


def test_a_pause_that_is_not_known_is_not_known_of_requests_either() -> None:
    def told(trace: Trace) -> tuple[Any, ...]:
        made = requests(trace)
        return made.requests.values("gc_ms"), made.by_route.values("gc_ms")

    assert told(served(has_end=True)) == ([5.0], [5.0])
    assert told(losing(served(has_end=True), 3, 51, 54)) == ([None], [None])
    assert told(losing(served(has_end=True), 3, 51, 54, count=1)) == ([5.0], [5.0])


@pytest.mark.parametrize(("by", "told"), [(None, 30.0), ("tid", None), (["pid", "tid"], None)])
def test_spans_by_the_thread_and_more_are_not_told_across_a_loss(by: Any, told: float | None) -> None:
    trace = losing(traced(begins(10, 1, "A.M"), ends(40, 1)), 1, 20, 30)
    assert spans(trace, "WaitHandleWait/Start", "WaitHandleWait/Stop", by=by).values("duration_ms") == [told]
