"""What a stream drops at a sequence point, so that its memory is bounded, and a file keeps; ids that were handed out stay valid."""

from __future__ import annotations

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.nettrace.by_hand import (
    FORGET_METADATA,
    FORGET_THREADS,
    event,
    event_type,
    events,
    labels,
    level,
    metadata,
    removed,
    sequence_point,
    stacks,
    thread,
    threads,
    trace,
)

from dotnetdiag.nettrace import EventBatch, Reader, count_losses, read, state

OPENING = (metadata(event_type(1)), threads(thread(1)))


def streamed(data: bytes) -> tuple[Reader, list[EventBatch]]:
    reader = Reader()
    return reader, [*reader.feed(data), *reader.close()]


def stacks_of(batch: EventBatch) -> list[list[int]]:
    return [batch.stacks.frames(number).tolist() for number in batch.headers.stack.tolist()]


@pytest.mark.parametrize("limit", [8, 1 << 20])
def test_stacks_of_a_stream_are_forgotten_at_a_sequence_point_when_they_have_grown(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "STACK_BYTES_LIMIT", limit)
    defined = stacks(1, 0x10, 0x20), events(event(1, stack=1)), sequence_point()
    data = trace(*OPENING, *defined, stacks(1, 0x30), events(event(1, stack=1)))
    _, (first, second) = streamed(data)
    assert (stacks_of(first), stacks_of(second)) == ([[0x10]], [[0x30]])
    assert (first.stacks is second.stacks) == (limit > 8)
    assert len(second.stacks) == (4 if limit > 8 else 2)
    assert len(read(data).stacks) == 4


def test_label_lists_and_activity_ids_of_a_stream_are_forgotten_when_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "GUIDS_LIMIT", 2)
    few, many = (labels(1, *map(level, range(count))) for count in (1, 3))
    for block, kept in ((few, 2), (many, 4)):
        data = trace(*OPENING, block, events(event(1, labels=1)), sequence_point(), few, events(event(1, labels=1)))
        reader, batches = streamed(data)
        assert [batch.labels[batch.headers.label_list[0]].level for batch in batches] == [0, 0]
        assert len(reader.labels) == 2
        assert len(read(data).labels) == kept


def test_threads_and_types_of_a_stream_are_forgotten_where_the_file_says_so() -> None:
    again = threads(thread(1, "new")), metadata(event_type(1, "New"))
    for forgets, names, kinds in (
        (0, ["old"], ["Old"]),
        (FORGET_THREADS, ["new"], ["Old"]),
        (FORGET_METADATA, ["old"], ["New"]),
        (FORGET_THREADS | FORGET_METADATA, ["new"], ["New"]),
    ):
        opening = metadata(event_type(1, "Old")), threads(thread(1, "old"))
        data = trace(*opening, sequence_point(forgets=forgets), *again, events(event(1)))
        reader, (batch,) = streamed(data)
        assert [info.name for info in reader.threads.values()] == names
        assert [kind.name for kind in reader.metadata.values()] == kinds
        assert batch.metadata[int(batch.headers.metadata_id[0])].name == kinds[0]
        assert reader.threads[int(batch.headers.thread[0])].name == names[0]
        whole = read(data)
        assert whole.metadata[int(whole.headers.metadata_id[0])].name == kinds[0]
        assert whole.threads[int(whole.headers.thread[0])].name == names[0]
        assert len(whole.metadata) + len(whole.threads) == 2 + forgets.bit_count()


def attempted(index: int, sequence: int) -> bytes:
    return events(event(1, thread=index, sequence=sequence))


def named(index: int, name: str) -> bytes:
    return threads(thread(index, name))


def ended(index: int, sequence: int) -> bytes:
    return removed((index, sequence))


def point(forgets: int, *rows: tuple[int, int]) -> bytes:
    return sequence_point(*rows, forgets=forgets)


INDICES, NUMBERS = st.integers(0, 2), st.sampled_from([1, 2, 3, 5, 9])
BLOCKS = st.one_of(
    st.builds(attempted, INDICES, NUMBERS),
    st.builds(named, INDICES, st.sampled_from("abc")),
    st.builds(ended, INDICES, NUMBERS),
    st.builds(point, st.sampled_from([0, FORGET_THREADS]), st.tuples(INDICES, NUMBERS)),
)
FORGET = point(FORGET_THREADS)


@given(st.lists(BLOCKS, max_size=14))
@example(
    [
        named(0, "a"),
        FORGET,
        named(0, "b"),
        attempted(0, 0),
        ended(0, 1),
        attempted(0, 9),
        named(0, "c"),
        attempted(0, 4),
    ]
)
@example([named(0, "a"), FORGET, named(0, "b"), attempted(1, 9), attempted(0, 2)])
def test_losses_of_a_stream_and_of_a_file_are_the_same_whatever_indices_mean(blocks: list[bytes]) -> None:
    data = trace(metadata(event_type(1)), *blocks)
    whole, (reader, batches) = read(data), streamed(data)
    first, second = (
        (lost.total, lost.restarts, lost.by_segment, [(gap.after, gap.before, gap.count) for gap in lost.gaps])
        for lost in (whole.lost, reader.lost)
    )
    assert first == second
    assert count_losses(io.BytesIO(data)).lost == whole.lost.total
    assert sum(map(len, batches)) == len(whole)
