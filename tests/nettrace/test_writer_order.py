"""Readers find the order and the losses of what was written, whatever was said of ``is_sorted`` (nettrace.md §8)."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.live.test_reference_reader import oracle
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import PLAIN, flood
from tests.shared import needs

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import BlockKind, Contents, HeaderColumns, ThreadInfo, Writer, read, rewrite, sort_order
from dotnetdiag.nettrace.writer import SINGLE_EVENTS_HELD

WORD = 0xFFFFFFFF
"""Numbers have 32 bits."""


def by_traceevent(contents: Contents) -> tuple[list[int], int]:
    """The rows in the order in which TraceEvent gives them, and the events that it takes for lost.

    Its thread is that of the last sorted event: what is not sorted goes into that one's queue, under its numbers.
    """
    headers = contents.headers
    thread, time, number = headers.capture_thread.tolist(), headers.time.tolist(), headers.sequence.tolist()
    queues: dict[int, list[int]] = {}
    last: dict[int, int] = {}
    given: list[int] = []
    lost = 0
    current: int | None = None

    def let_out(before: int | None) -> None:
        heads = [queue for queue in queues.values() if queue and (before is None or time[queue[0]] < before)]
        while heads:
            first = min(heads, key=lambda queue: time[queue[0]])
            given.append(first.pop(0))
            heads = [queue for queue in heads if queue and (before is None or time[queue[0]] < before)]

    starts = set(contents.segment_starts.tolist())
    for row, is_sorted in enumerate(headers.is_sorted.tolist()):
        if row in starts:
            let_out(None)
        if is_sorted or current is None:
            current = thread[row]
        lost += number[row] - last.get(current, number[row] - 1) - 1 & WORD
        last[current] = number[row]
        queue = queues.setdefault(current, [])
        if is_sorted:
            let_out(time[row])
            given.append(row)
        else:
            queue.append(row)
    let_out(None)
    return given, lost


def assert_read_as_meant(contents: Contents) -> None:
    given, lost = by_traceevent(contents)
    assert lost == contents.lost.total
    assert given == sort_order(contents.headers, contents.segment_starts).tolist()
    times = contents.headers.time[given]
    assert (np.diff(times) >= 0).all()


def columns(events: Sequence[tuple[int, int]], is_sorted: npt.NDArray[np.bool_] | bool) -> HeaderColumns:
    """(thread, time) of each; numbers by thread."""
    headers, _ = flood(len(events))
    threads = np.array([thread for thread, _ in events], np.uint64)
    counted: dict[int, int] = {}
    numbers = []
    for thread, _ in events:
        counted[thread] = counted.get(thread, 0) + 1
        numbers.append(counted[thread])
    zero = np.zeros(len(events), np.uint32)
    return replace(
        headers, metadata_id=zero + 1, sequence=np.array(numbers, np.uint32), capture_thread=threads, thread=threads,
        time=np.array([time for _, time in events], np.int64), payload_length=zero,
        payload_offset=np.zeros(len(events), np.int64), is_sorted=np.broadcast_to(is_sorted, len(events)).copy(),
    )  # fmt: skip


def opened(version: int, threads: int = 5, **options: bool | int) -> tuple[io.BytesIO, Writer]:
    out = io.BytesIO()
    writer = Writer(out, version=version, **options)  # type: ignore[arg-type]
    writer.add_metadata(PLAIN)
    if version == 6:
        for index in range(threads):
            writer.add_thread(ThreadInfo(index=index, os_thread_id=index))
    return out, writer


def interleaved(rng: np.random.Generator, events: int) -> list[tuple[int, int]]:
    """Threads in any order, each of them in the order of time."""
    clocks = dict.fromkeys(range(1, 5), 0)
    found = []
    for thread in rng.integers(1, 5, events).tolist():
        clocks[thread] += int(rng.integers(0, 4))
        found.append((thread, clocks[thread]))
    return found


IN_TIME_ORDER = [(1 + n % 2, n) for n in range(40)]
BY_THREAD = [(1, n) for n in range(20)] + [(2, n) for n in range(20)]
ORDERS = {"in the order of time": IN_TIME_ORDER, "by thread": BY_THREAD, "one thread": [(1, n) for n in range(9)]}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("version", [4, 5, 6])
def test_single_events_are_read_as_meant_whatever_is_said_to_be_sorted(
    order: str, is_sorted: bool, version: int
) -> None:
    out, writer = opened(version)
    for thread, time in ORDERS[order]:
        writer.write_event(1, time, thread=thread, is_sorted=is_sorted)
    writer.close()
    contents = read(out.getvalue())
    assert len(contents) == len(ORDERS[order])
    assert_read_as_meant(contents)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_columns_in_any_order_are_read_as_meant(seed: int, compressed: bool) -> None:
    rng = np.random.default_rng(seed)
    out, writer = opened(6, compressed=compressed, block_bytes=400)
    for segment in range(3):
        events = [(thread, time + 1000 * segment) for thread, time in interleaved(rng, 60)]
        headers = columns(events, rng.random(60) < 0.5)
        writer.write_events(replace(headers, sequence=headers.sequence + np.uint32(100 * segment)), b"")
        writer.write_sequence_point(forget_threads=segment == 1)
        if segment == 1:
            for index in range(1, 5):
                writer.add_thread(ThreadInfo(index=index))
    writer.close()
    contents = read(out.getvalue())
    assert len(contents) == 180
    assert_read_as_meant(contents)


def test_columns_that_are_read_as_meant_are_written_as_they_are() -> None:
    events = [(1, 0), (1, 5), (2, 3), (2, 9), (1, 7), (1, 8), (2, 9)]
    is_sorted = np.array([1, 0, 1, 0, 1, 1, 1], np.bool_)
    out, writer = opened(5)
    writer.write_events(columns(events, is_sorted), b"")
    writer.close()
    headers = read(out.getvalue()).headers
    assert list(zip(headers.capture_thread.tolist(), headers.time.tolist(), strict=True)) == events
    assert headers.is_sorted.tolist() == is_sorted.tolist()


def test_threads_whose_own_times_go_back_keep_their_order_and_lose_nothing() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        events = [(int(thread), int(time)) for thread, time in rng.integers(1, 5, (40, 2)).tolist()]
        out, writer = opened(5)
        writer.write_events(columns(events, rng.random(40) < 0.5), b"")
        writer.close()
        contents = read(out.getvalue())
        given, lost = by_traceevent(contents)
        assert sorted(given) == list(range(40))
        assert lost == contents.lost.total == 0
        for thread in range(1, 5):
            own = contents.headers.capture_thread == thread
            assert contents.headers.time[own].tolist() == [time for one, time in events if one == thread]


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("name", recordings())
def test_any_selection_of_a_recording_is_read_as_meant(name: str, version: int) -> None:
    contents = read(data_of(name))
    assert contents.info is not None
    for share in (0.3, 0.9):
        keep = np.random.default_rng(3).random(len(contents)) < share
        out = io.BytesIO()
        try:
            rewrite(contents, Writer.like(out, contents.info, version=version), keep=keep)
        except UsageError:
            assert version == 5  # what it cannot say
            continue
        made = read(out.getvalue())
        assert len(made) == keep.sum()
        assert made.lost.total == contents.lost.total
        given, lost = by_traceevent(made)
        assert contents.lost.total or lost == 0
        assert (np.diff(made.headers.time[given]) >= 0).all()


LATE: dict[str, tuple[list[Callable[[Writer], None]], str]] = {
    "than the last event of its thread": (
        [lambda writer: writer.write_event(1, 4, thread=1)],
        "last event of its thread, at 9",
    ),
    "than an event that was written as sorted": (
        [Writer.flush, lambda writer: writer.write_event(1, 8, thread=3)],
        "written as sorted, at 9",
    ),
    "than the last sequence point": (
        [Writer.write_sequence_point, lambda writer: writer.write_event(1, 8, thread=3)],
        "last sequence point, at 9",
    ),
    "in columns": (
        [lambda writer: writer.write_events(columns([(3, 4)], is_sorted=True), b"")],
        "written as sorted, at 9",
    ),
    "a sequence point": ([lambda writer: writer.write_sequence_point(8)], "point at 8 cannot follow an event at 9"),
    "a sequence point behind columns": (
        [
            lambda writer: writer.write_events(columns([(3, 11)], is_sorted=True), b""),
            lambda writer: writer.write_sequence_point(10),
        ],
        "point at 10 cannot follow an event at 11",
    ),
}


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("version", [5, 6])
def test_what_comes_too_late_to_be_read_as_meant_is_refused_and_the_others_are_written(name: str, version: int) -> None:
    (*before, act), problem = LATE[name]
    out, writer = opened(version)
    writer.write_event(1, 3, thread=1)
    writer.write_event(1, 5, thread=2)
    writer.write_event(1, 9, thread=1)
    for first in before:
        first(writer)
    with pytest.raises(UsageError, match=problem):
        act(writer)
    writer.write_event(1, 12, thread=1)
    writer.close()
    contents = read(out.getvalue())
    assert contents.complete
    assert contents.headers.time[:3].tolist() == [3, 5, 9]
    assert contents.lost.total == 0
    assert_read_as_meant(contents)


def test_threads_one_after_the_other_are_written_when_they_are_not_sorted() -> None:
    """However many: their first events alone have to be."""
    out, writer = opened(5)
    for thread in (1, 2, 3):
        for time in range(SINGLE_EVENTS_HELD + 5):
            writer.write_event(1, 10 * time + thread, thread=thread, is_sorted=False)
    writer.close()
    contents = read(out.getvalue())
    assert np.flatnonzero(contents.headers.is_sorted).tolist() == [SINGLE_EVENTS_HELD + 5, 2 * SINGLE_EVENTS_HELD + 10]
    assert len([block for block in contents.blocks if block.kind is BlockKind.EVENT]) >= 3
    assert (np.diff(contents.headers.time[sort_order(contents.headers)]) >= 0).all()


def test_a_file_that_breaks_the_rules_is_rewritten_as_it_is() -> None:
    """The whole of it, not a selection: readers take both for the same."""
    events = [(1, 5), (2, 3), (1, 4), (2, 9), (1, 1)]
    out, writer = opened(5)
    for first in (0, 20):  # behind the sequence point the clock begins anew
        headers = columns([(thread, time) for thread, time in events], is_sorted=np.arange(5) % 2 == 1)
        writer.write_events(replace(headers, sequence=headers.sequence + np.uint32(first)), b"", arrange=False)
        writer.write_sequence_point()
    writer.close()
    source = read(out.getvalue())
    assert source.headers.time.tolist() == [time for _, time in events] * 2
    assert source.headers.is_sorted.tolist() == [False, True, False, True, False] * 2
    assert source.info is not None
    out = io.BytesIO()
    rewrite(source, Writer.like(out, source.info))
    assert read(out.getvalue()).headers.equals(source.headers)
    out = io.BytesIO()
    rewrite(source, Writer.like(out, source.info), keep=np.ones(10, np.bool_))
    assert by_traceevent(read(out.getvalue()))[1] == source.lost.total


def test_a_file_whose_sequence_point_is_before_its_events_can_be_rewritten() -> None:
    out, writer = opened(5)
    writer.write_event(1, 5, thread=1)
    writer.write_sequence_point()
    writer.write_event(1, 9, thread=1)
    writer.close()
    data = bytearray(out.getvalue())
    for block in read(data).blocks:
        if block.kind is BlockKind.SEQUENCE_POINT:
            struct.pack_into("<q", data, block.start, 1)
    contents = read(data)
    assert [time for time, _, _ in contents.sequence_points] == [1, 1]
    out = io.BytesIO()
    assert contents.info is not None
    rewrite(contents, Writer.like(out, contents.info))
    assert [time for time, _, _ in read(out.getvalue()).sequence_points] == [5, 9]


@pytest.mark.live
@needs("dotnet", "the reference reader")
@pytest.mark.parametrize("version", [5, 6])
def test_traceevent_reads_the_order_and_the_losses_of_what_was_arranged(tmp_path: Path, version: int) -> None:
    rng = np.random.default_rng(8)
    out, writer = opened(version)
    for thread, time in ORDERS["by thread"]:
        writer.write_event(1, time * 10**6, thread=thread)
    writer.write_sequence_point()
    events = [(thread, (time + 30) * 10**6) for thread, time in interleaved(rng, 200)]
    headers = columns(events, rng.random(200) < 0.5)
    goes_on = (headers.capture_thread <= 2).astype(np.uint32) * np.uint32(20)
    writer.write_events(replace(headers, sequence=headers.sequence + goes_on), b"")
    writer.add_dropped(3, 7)
    writer.write_sequence_point()
    last = max(time for _, time in events)
    for thread in range(1, 5):
        writer.write_event(1, last + 10**6, thread=thread, is_sorted=False)
    writer.close()
    contents = read(out.getvalue())
    path = tmp_path / "arranged.nettrace"
    path.write_bytes(out.getvalue())
    *lines, end = oracle("events", path)
    given = sort_order(contents.headers, contents.segment_starts)
    assert [line["ms"] for line in lines] == (contents.headers.time[given] / 10**6).tolist()
    assert [line["tid"] for line in lines] == contents.headers.thread[given].tolist()
    assert end["lost"] == contents.lost.total == 7
