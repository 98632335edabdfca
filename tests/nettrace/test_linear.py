"""Twice the input takes twice the steps: lines of the package, entries of dicts that are gone through, and table slots written."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from tests.nettrace.by_hand import (
    FORGET_METADATA,
    FORGET_THREADS,
    block,
    event,
    event_type,
    events,
    metadata,
    sequence_point,
    stacks,
    thread,
    threads,
    trace,
)
from tests.nettrace.traces import SYNC, netperf_flat

from dotnetdiag.nettrace import Metadata, Reader, Writer, ids, loss, scan

PACKAGE = os.path.join("dotnetdiag", "nettrace")


class Steps:
    """Counts while it is entered. Who traces besides, to see what tests reach, goes on doing so."""

    def __init__(self) -> None:
        self.taken = 0

    def __enter__(self) -> Steps:
        self._other = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._other)

    def _trace(self, frame: FrameType, event: Any, argument: object) -> Any:
        if self._other is not None and event == "call":
            self._other(frame, event, argument)
        if PACKAGE not in frame.f_code.co_filename:
            return None
        self.taken += event == "line"
        return self._trace

    def counted(self) -> dict[Any, Any]:
        """A dict whose iterations are steps."""
        steps = self

        class Counted(dict[Any, Any]):
            def __iter__(self) -> Iterator[Any]:
                for key in super().__iter__():
                    steps.taken += 1
                    yield key

        return Counted()


def steps_of(data: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    """Those of a stream and of a pass over a file."""
    steps, put = Steps(), ids._put

    def counted(table: ids.Table, bits: int, entries: ids.Table) -> ids.Table:
        steps.taken += len(entries)
        return put(table, bits, entries)

    monkeypatch.setattr(ids, "_put", counted)
    reader = Reader()
    reader._state.metadata.records, reader._state.threads.infos = steps.counted(), steps.counted()
    with steps:
        reader.feed(data)
        reader.close()
        for _ in scan(data).iter_batches():
            pass
    monkeypatch.undo()
    return steps.taken


OPENING = (metadata(event_type(1)), threads(thread(1)))


def metadata_redefined(count: int) -> bytes:
    first, second = ([event_type(number, name) for number in range(1, count)] for name in "ab")
    return trace(metadata(*first), sequence_point(forgets=FORGET_METADATA), metadata(*second))


def threads_renamed(count: int) -> bytes:
    first, second = ([thread(index, name) for index in range(1, count)] for name in "ab")
    blocks = [events(event(1, thread=7)) + block(99, b"")] * count
    return trace(*OPENING, threads(*first), sequence_point(forgets=FORGET_THREADS), threads(*second), *blocks)


def stacks_between_events(count: int) -> bytes:
    return trace(*OPENING, *(stacks((1 << 30) - number, 7) + events(event(1)) for number in range(count)))


def far_metadata_between_events(count: int) -> bytes:
    return trace(*OPENING, *(metadata(event_type((1 << 30) + number)) + events(event(1)) for number in range(count)))


def bad_blocks(count: int) -> bytes:
    return trace(*OPENING, *(events(event(1, stack=5)) + stacks(number + 9, 7) for number in range(count)))


def removed_threads(count: int) -> bytes:
    return trace(*OPENING, *(sequence_point((number, 1)) + events(event(1)) for number in range(count)))


@pytest.mark.parametrize(
    "made",
    [
        metadata_redefined,
        threads_renamed,
        stacks_between_events,
        far_metadata_between_events,
        bad_blocks,
        removed_threads,
    ],
)
def test_twice_the_input_takes_twice_the_steps(made: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    once, twice = (steps_of(made(count), monkeypatch) for count in (300, 600))
    assert twice < 2.5 * once


def test_events_without_blocks_are_gone_through_once_however_small_the_pieces() -> None:
    def steps(count: int) -> int:
        data, counted, reader = netperf_flat(2, [(5, SYNC + 1, bytes(20), b"")] * count), Steps(), Reader()
        with counted:
            for at in range(0, len(data), 40):
                reader.feed(data[at : at + 40])
            reader.close()
        assert reader.complete
        return counted.taken

    assert steps(600) < 2.5 * steps(300)


def test_threads_that_are_forgotten_are_gone_through_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "THREADS_LIMIT", 100)

    def steps(count: int) -> int:
        out, counted = io.BytesIO(), Steps()
        with Writer(out) as writer:
            writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1))
            for number in range(count):
                writer.write_event(1, number, thread=2 + number)
                writer.flush()
        reader = Reader()
        reader.feed(out.getvalue()[:200])
        reader._state.lost._last = counted.counted()
        with counted:
            reader.feed(out.getvalue()[200:])
            reader.close()
        return counted.taken

    assert steps(1200) < 2.5 * steps(600)


def test_thread_seen_again_and_again_is_not_the_one_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "THREADS_LIMIT", 20)
    out = io.BytesIO()
    writer = Writer(out)
    writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1))
    for number in range(500):
        writer.write_event(1, number, thread=2 + number)
        if number % 10 == 0:
            writer.write_event(1, number, thread=1)
            writer.flush()
    writer.close(sequence_point=False)
    reader = Reader()
    reader.feed(out.getvalue())
    reader.close()
    assert (reader.lost.total, reader.complete) == (0, True)
