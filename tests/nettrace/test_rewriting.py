"""Traces written again, all of them or a part: the losses of the whole, and a size in proportion to it."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from tests.nettrace.by_hand import (
    FORGET_THREADS,
    event,
    event_type,
    events,
    metadata,
    removed,
    sequence_point,
    thread,
    threads,
    trace,
    varuint,
)
from tests.nettrace.kernel_forms import without_kernels
from tests.nettrace.test_linear import Steps
from tests.nettrace.traces import PLAIN

from dotnetdiag.nettrace import Contents, Reader, Writer, count_losses, read, rewrite, scan

OPENING = (metadata(event_type(1)), threads(thread(1)))


def numbered(*numbers: int, thread: int = 1, last: int = 0) -> bytes:
    """Events of one thread with these numbers."""
    blobs = []
    for number in numbers:
        blobs.append(event(1, thread=thread, sequence=number - last - 1 & 0xFFFFFFFF))
        last = number
    return events(*blobs)


def os_thread(index: int, number: int) -> bytes:
    row = varuint(index) + b"\3" + varuint(number)
    return struct.pack("<H", len(row)) + row


def again(data: bytes | Contents, version: int, keep: Iterable[bool] | None = None) -> Contents:
    contents = data if isinstance(data, Contents) else read(data)
    out = io.BytesIO()
    assert contents.info is not None
    chosen = None if keep is None else np.array(list(keep), np.bool_)
    rewrite(contents, Writer.like(out, contents.info, version=version), keep=chosen)
    made = read(out.getvalue())
    assert made.complete
    assert made.warnings == []
    used = {*made.headers.thread.tolist(), *made.headers.capture_thread.tolist()}
    used |= {thread for _, _, rows in made.sequence_points for thread, _ in rows}
    assert version < 6 or used <= made.threads.keys()
    return made


VALID = {
    "a thread that is removed": (trace(*OPENING, numbered(1, 2), removed((1, 5))), 6, None),
    "removed, without its events": (trace(*OPENING, numbered(1, 2), removed((1, 5))), 6, [False, False]),
    "as version 5": (trace(*OPENING, numbered(1, 2), removed((1, 5))), 5, None),
    "without the first event": (trace(*OPENING, numbered(1, 5, 6)), 6, [False, True, True]),
    "without the last event": (trace(*OPENING, numbered(1, 5, 6)), 6, [True, False, False]),
    "sequence points alone": (trace(*OPENING, numbered(1, 5, 6), sequence_point((1, 9))), 6, [False] * 3),
    "forgotten between": (
        trace(
            metadata(event_type(1)),
            threads(os_thread(1, 7)),
            numbered(1, 2),
            sequence_point(forgets=FORGET_THREADS),
            threads(os_thread(1, 7)),
            numbered(10, 11),
        ),
        5,
        None,
    ),
    "forgotten between, a part": (
        trace(
            *OPENING,
            numbered(1, 2, 4),
            sequence_point((1, 6), forgets=FORGET_THREADS),
            threads(thread(1)),
            numbered(10, 13, 14),
        ),
        6,
        [True, False, False, False, False, True],
    ),
    "two threads with one OS thread id": (
        trace(
            metadata(event_type(1)),
            threads(os_thread(1, 7), os_thread(2, 7)),
            *(numbered(n, n + 1, thread=index) for n in (1, 3, 6) for index in (1, 2)),
        ),
        5,
        None,
    ),
    "numbers that fall back": (trace(*OPENING, numbered(5, 2, 10)), 6, [True, False, True]),
}
LOST = dict(zip(VALID, (3, 3, 3, 3, 3, 6, 0, 5, 2, 7), strict=True))


@pytest.mark.parametrize("name", VALID)
@pytest.mark.parametrize("form", ["compiled", "fall-back"])
def test_what_was_lost_is_lost_in_the_rewritten_file(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "fall-back":
        without_kernels(monkeypatch)
    data, version, keep = VALID[name]
    assert read(data).lost.total == LOST[name]
    made = again(data, version, keep)
    assert made.lost.total == LOST[name]
    assert len(made) == (len(read(data)) if keep is None else sum(keep))


def random_trace(choose: random.Random) -> bytes:
    """Threads that come, lose events, fall back, end and are forgotten. Everything has its row."""
    blocks = [metadata(event_type(1))]
    rows: dict[int, bytes] = {}
    numbers: dict[int, int] = {}

    def begin() -> None:
        index = choose.choice([number for number in range(1, 9) if number not in rows])
        rows[index] = os_thread(index, choose.randrange(1, 5)) if choose.random() < 0.8 else thread(index, "x")
        numbers[index] = choose.choice([0, 0, 5, 0xFFFFFFFD])
        blocks.append(threads(rows[index]))

    for _ in range(choose.randrange(3, 30)):
        while len(rows) < 2:
            begin()
        act = choose.random()
        index = choose.choice(list(rows))
        ahead = choose.choice([0, 0, 1, 1, 4])
        if act < 0.6:
            wanted = []
            for _ in range(choose.randrange(1, 5)):
                numbers[index] = numbers[index] + choose.choice([1, 1, 1, 1, 2, 5, -2]) & 0xFFFFFFFF
                wanted.append(numbers[index])
            blocks.append(numbered(*wanted, thread=index))
        elif act < 0.7:
            blocks.append(removed((index, numbers[index] + ahead & 0xFFFFFFFF)))
            del rows[index], numbers[index]
        else:
            forgets = choose.choice([0, FORGET_THREADS])
            listed = [index] if choose.random() < 0.7 else []
            blocks.append(sequence_point(*((n, numbers[n] + ahead & 0xFFFFFFFF) for n in listed), forgets=forgets))
            if forgets:
                rows.clear()
    return trace(*blocks)


def lost_in_all_ways(data: bytes) -> list[tuple[int, int]]:
    """(lost, threads of the same id that were seen) of a file, of its batches, of a stream, of a count."""
    scanned, reader = scan(data), Reader()
    assert sum(map(len, scanned.iter_batches())) == len(read(data))
    for at in range(0, len(data), 7):
        reader.feed(data[at : at + 7])
    reader.close()
    counted = count_losses(io.BytesIO(data)).lost
    assert counted is not None
    found = [(one.lost.total, one.lost.restarts) for one in (read(data), scanned, reader)]
    return [*found, (counted, found[0][1])]


@pytest.mark.parametrize("seed", range(150))
def test_random_traces_lose_what_they_lost_in_whole_and_in_part(seed: int) -> None:
    choose = random.Random(seed)
    data = random_trace(choose)
    contents = read(data)
    assert contents.complete
    assert contents.warnings == []
    assert len(set(lost_in_all_ways(data))) == 1
    same = again(contents, 6)
    assert same.lost.by_thread == contents.lost.by_thread
    assert same.lost.by_segment == contents.lost.by_segment
    assert same.headers.sequence.tolist() == contents.headers.sequence.tolist()
    assert sorted(same.removals) == sorted(contents.removals)
    assert same.threads == contents.threads
    for part in (
        np.ones(len(contents)),
        np.zeros(len(contents)),
        np.random.default_rng(seed).random(len(contents)) > 0.5,
    ):
        keep = np.asarray(part, np.bool_)
        made = again(contents, 6, keep)
        assert made.lost.by_thread == contents.lost.by_thread
        assert len(made) == keep.sum()
        old = again(contents, 5, keep)
        assert old.lost.total == contents.lost.total
        for version in (5, 6):
            chosen = again(old, version)
            assert chosen.lost.by_thread == old.lost.by_thread


ODD = {
    "no rows at all": trace(metadata(event_type(1)), numbered(1, 4), sequence_point((2, 5))),
    "a row that was forgotten": trace(*OPENING, numbered(1), sequence_point(forgets=FORGET_THREADS), numbered(1, 4)),
    "used behind its end": trace(
        *OPENING, numbered(1), removed((1, 2)), numbered(5), sequence_point((1, 9)), numbered(11)
    ),
    "removed twice": trace(*OPENING, numbered(1), removed((1, 2), (1, 3)), sequence_point(), removed((1, 5), (3, 3))),
    "a row behind the events": trace(metadata(event_type(1)), numbered(1, 4), threads(thread(1)), numbered(9)),
    "two rows": trace(*OPENING, numbered(1), removed((1, 1)), threads(thread(1)), numbered(1, 4), removed((1, 5))),
    "the greatest index": trace(
        *OPENING, removed((1, 1)), sequence_point(((1 << 64) - 1, 5)), numbered(3, thread=(1 << 64) - 1), numbered(7)
    ),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("part", [None, True, False])
def test_threads_without_a_row_get_one(name: str, part: bool | None) -> None:
    contents = read(ODD[name])
    keep = None if part is None else [part] * len(contents)
    for version in (5, 6):
        made = again(contents, version, keep)
        assert len(made) == (0 if part is False else len(contents))


def test_events_before_the_row_of_their_thread_are_its_own_in_a_stream_as_in_a_file() -> None:
    forgotten = threads(thread(2, "a")), sequence_point(forgets=FORGET_THREADS)
    late = numbered(1, thread=2), threads(thread(2, "b")), numbered(51, thread=2)
    for blocks, lost in (
        ((*forgotten, *late), 49),
        (late, 49),
        ((*forgotten, late[0], removed((2, 5)), *late[1:]), 4),
        ((threads(thread(2, "a"), thread(1)), removed((2, 5)), threads(thread(2, "a"), thread(3)), *late[::2]), 49),
        ((threads(thread(1)), removed((1, 5)), threads(thread(1), thread(2)), numbered(9), late[0], numbered(10)), 0),
    ):
        data = trace(metadata(event_type(1)), *blocks)
        assert {total for total, _ in lost_in_all_ways(data)} == {lost}


def turns(count: int) -> bytes:
    """As many sequence points that forget threads, and behind each another thread."""
    return trace(
        metadata(event_type(1)),
        *(
            threads(thread(n)) + numbered(1, 3, thread=n) + sequence_point((n, 4), forgets=FORGET_THREADS)
            for n in range(1, count + 1)
        ),
    )


def removals(count: int) -> bytes:
    """As many threads of one index, one after the other."""
    return trace(metadata(event_type(1)), *(threads(thread(1)) + numbered(1) + removed((1, 2)) for _ in range(count)))


@pytest.mark.parametrize("make", [turns, removals])
@pytest.mark.parametrize("version", [5, 6])
def test_a_rewritten_file_is_as_large_as_the_whole_and_a_part_is_smaller(make: Any, version: int) -> None:
    sizes = {}
    for count in (50, 200):
        data = make(count)
        contents = read(data)
        for keep in (None, np.arange(len(contents)) % 2 == 0):
            out = io.BytesIO()
            assert contents.info is not None
            rewrite(contents, Writer.like(out, contents.info, version=version), keep=keep)
            sizes[count, keep is None] = len(out.getvalue())
            assert version == 5 or len(out.getvalue()) < 1.5 * len(data) + 100
    for whole in (True, False):
        assert sizes[200, whole] < 4.5 * sizes[50, whole]


@pytest.mark.parametrize("version", [5, 6])
def test_numbers_that_fall_back_over_and_over_are_rewritten_in_steps_in_proportion(version: int) -> None:
    taken = []
    for count in (200, 400):
        contents = read(trace(*OPENING, numbered(*[1000, 990, 995] * count)))
        assert contents.lost.restarts >= count
        steps = Steps()
        assert contents.info is not None
        with steps:
            rewrite(
                contents, Writer.like(io.BytesIO(), contents.info, version=version), keep=np.arange(len(contents)) > 0
            )
        taken.append(steps.taken)
    assert taken[1] < 2.5 * taken[0]


@pytest.mark.parametrize(
    ("numbers", "keep", "made"),
    [
        ([1, 2, 3, 1, 2], [1, 1, 1, 1, 1], [1, 2, 3, 1, 2]),
        ([1, 2, 3, 1, 2], [1, 1, 0, 1, 1], [1, 2, 3, 4]),
        ([1, 2, 3, 1, 2], [1, 1, 1, 0, 1], [1, 2, 3, 4]),
        ([1, 2, 3, 1, 2], [0, 1, 1, 1, 1], [1, 2, 1, 2]),
        ([1, 2, 5, 1, 2], [1, 1, 1, 1, 1], [1, 2, 5, 1, 2]),
        ([5, 6, 7, 9, 3], [1, 1, 1, 1, 1], [1, 2, 3, 5, 1]),
        ([5, 6, 7, 9, 3], [1, 0, 0, 1, 1], [1, 3, 1]),
        ([5, 4, 3], [1, 1, 1], [1, 1, 1]),
        ([5, 4, 3], [1, 0, 1], [1, 2]),
        ([3, 3], [1, 1], [1, 1]),
        ([1, 0x70000000, 0xE0000000, 0xD0000000], [1] * 4, [1, 0x70000000, 0xE0000000, 0xE0000001]),
        ([1, 0x7FFFFFFE, 1, 2], [1] * 4, [1, 0x7FFFFFFE, 1, 2]),
        ([1, 0x7FFFFFFF, 0x80000000, 1], [1] * 4, [1, 0x7FFFFFFF, 0x80000000, 0x80000001]),
    ],
)
def test_numbers_of_a_selection_count_what_is_kept_and_lost_and_begin_again_where_both_are_kept(
    numbers: list[int], keep: list[int], made: list[int]
) -> None:
    data = trace(*OPENING, numbered(*numbers))
    contents = read(data)
    found = again(contents, 6, map(bool, keep))
    assert found.headers.sequence.tolist() == made
    assert found.lost.total == contents.lost.total


def test_row_that_a_version_6_trace_has_not_is_made_of_its_index_alone() -> None:
    """The thread ids of older versions are those of the system; an index is none."""
    contents = read(trace(metadata(event_type(1)), numbered(1, 2, thread=7)))
    made = again(contents, 6)
    assert [(one.index, one.os_thread_id, one.process_id) for one in made.threads.values()] == [(7, None, None)]
    out = io.BytesIO()
    with Writer(out, process_id=44) as writer:
        writer.add_metadata(PLAIN)
        writer.write_event(1, 5, thread=7)
    made = again(out.getvalue(), 6)
    assert [(one.index, one.os_thread_id, one.process_id) for one in made.threads.values()] == [(7, 7, 44)]


@pytest.mark.parametrize("part", [None, True])
def test_what_a_sequence_point_loses_by_naming_a_thread_twice_stays_lost(part: bool | None) -> None:
    data = trace(metadata(event_type(1)), events(event(1)), sequence_point((1, 8), (7, 3), (7, 5)))
    contents = read(data)
    assert contents.lost.by_thread[7] == 2
    file = io.BytesIO()
    keep = None if part is None else np.ones(len(contents), np.bool_)
    assert contents.info is not None
    rewrite(contents, Writer.like(file, contents.info, version=6), keep=keep)
    assert read(file.getvalue()).lost.total == contents.lost.total
