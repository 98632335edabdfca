"""Ids may be any numbers; what they stand for is found at once, in every form of the loops, from a file as from a stream."""

from __future__ import annotations

import numpy as np
import pytest
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
from tests.nettrace.kernel_forms import without_kernels

from dotnetdiag.nettrace import Contents, EventBatch, Reader, ids, read
from dotnetdiag.nettrace.ids import FreeNumbers, IdMap

OPENING = (metadata(event_type(1)), threads(thread(1)))
IDS = [1, 2, 70_000, 10_000_000, 0xFFFFFFFF]


@pytest.fixture(params=["compiled", "fallback"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "fallback":
        without_kernels(monkeypatch)


def streamed(data: bytes, piece: int = 17) -> list[EventBatch]:
    reader = Reader()
    batches = [batch for at in range(0, len(data), piece) for batch in reader.feed(data[at : at + piece])]
    return [*batches, *reader.close()]


@pytest.mark.usefixtures("form")
def test_event_has_the_stack_its_id_stands_for_whatever_number_that_is() -> None:
    defined = (stacks(number, 0x1000 + number) for number in IDS[::-1])
    data = trace(*OPENING, *defined, events(*(event(1, stack=number) for number in IDS)))
    contents = read(data)
    found = [contents.stacks.frames(number).tolist() for number in contents.headers.stack.tolist()]
    assert found == [[0x1000 + number] for number in IDS]
    assert not contents.warnings
    (batch,) = streamed(data)
    assert [batch.stacks.frames(number).tolist() for number in batch.headers.stack.tolist()] == found


@pytest.mark.usefixtures("form")
def test_event_has_the_labels_its_id_stands_for_whatever_number_that_is() -> None:
    defined = (labels(number, level(at)) for at, number in enumerate(IDS))
    contents = read(trace(*OPENING, *defined, events(*(event(1, labels=number) for number in IDS))))
    assert [contents.labels[number].level for number in contents.headers.label_list.tolist()] == [0, 1, 2, 3, 4]
    assert not contents.warnings


def names(contents: Contents) -> list[str]:
    return [contents.metadata[number].name for number in contents.headers.metadata_id.tolist()]


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("number", IDS)
def test_metadata_id_means_what_it_was_last_defined_as(number: int) -> None:
    blocks = [threads(thread(1))]
    for name in ("Before", "After", "Before", "Last"):
        blocks += [metadata(event_type(number, name), event_type(3)), events(event(number), event(3))]
        blocks.append(sequence_point(forgets=FORGET_METADATA))
    data = trace(*blocks)
    assert names(read(data))[::2] == ["Before", "After", "Before", "Last"]
    found = [batch.metadata[int(batch.headers.metadata_id[0])].name for batch in streamed(data)]
    assert found == ["Before", "After", "Before", "Last"]


@pytest.mark.usefixtures("form")
def test_event_does_not_see_what_is_defined_behind_it() -> None:
    late = (stacks(5, 0x5555), metadata(event_type(9, "Late")), labels(3, level(4)))
    blobs = events(event(9, stack=5, labels=3))
    data = trace(*OPENING, stacks(4, 0x4444), blobs, *late, blobs)
    contents = read(data)
    assert contents.headers.metadata_id.tolist() == [0, 9]
    assert contents.headers.stack.tolist() == [0, 2]
    assert contents.headers.label_list.tolist() == [0, 1]
    assert len(contents.warnings) == 3
    reader = Reader()
    batches = [*reader.feed(data), *reader.close()]
    assert [number for batch in batches for number in batch.headers.stack.tolist()] == [0, 2]
    assert reader.warnings == contents.warnings


def test_first_definition_counts_until_ids_are_reset() -> None:
    data = trace(
        *OPENING, stacks(1, 0x1), stacks(1, 0x2), events(event(1, stack=1)), sequence_point(), events(event(1, stack=1))
    )
    contents = read(data)
    assert [contents.stacks.frames(number).tolist() for number in contents.headers.stack.tolist()] == [[1], []]
    assert [line.partition(",")[0] for line in contents.warnings] == [
        "stack ids given twice: 1",
        "events with a stack id that is not there: 1",
    ]


def test_snapshot_stays_as_it_was() -> None:
    rng = np.random.default_rng(3)
    numbers = list(dict.fromkeys(rng.integers(0, 1 << 32, 3000).tolist()))
    table, snapshots = IdMap(), []
    for at, number in enumerate(numbers, 1):
        assert table.define(number, at)
        if at % 100 == 0:
            snapshots.append(table.snapshot())
    wanted = np.array(numbers, np.uint32)
    for snapshot in snapshots:
        expected = np.where(np.arange(len(numbers)) < snapshot.defined, np.arange(1, len(numbers) + 1), 0)
        assert snapshot.look_up(wanted).tolist() == expected.tolist()
    assert [table.get(number) for number in numbers] == table.meanings
    assert not table.define(numbers[0], 2)


@pytest.mark.parametrize("step", [1, 3, 1 << 8, 1 << 16, 1 << 20])
def test_ids_in_steps_do_not_meet(step: int) -> None:
    table = IdMap()
    for number in range(1, min(4000, (1 << 32) // step)):
        table.define(number * step, number)
    snapshot = table.snapshot()
    assert bool(snapshot.bits) == (step > 4)
    slots = snapshot.table[2 * snapshot.near :].reshape(-1, 4)
    used = np.flatnonzero(slots[:, 0])
    far = used - ids._slots(slots[used, 2], snapshot.bits) & (1 << snapshot.bits) - 1
    assert int(far.max(initial=0)) < 8


def test_ids_chosen_to_meet_cost_a_bounded_number_of_steps_each() -> None:
    every = np.arange(1, 1 << 20, dtype=np.uint32)
    chosen = every[ids._slots(every, 19) < 2][:1000].tolist()  # of so many only a handful meets
    inverse = pow(int(ids.MULTIPLIER), -1, 1 << 64)
    chosen += [number for top in range(1 << 12) if (number := (top << 32) * inverse % (1 << 64)) < 1 << 32]
    table = IdMap()
    for at, number in enumerate(dict.fromkeys(chosen), 1):
        table.define(number, at)
        table.snapshot()
    assert table.snapshot().table.nbytes <= 16 * 64 * len(table)


def test_numbers_that_are_free_are_found_beyond_the_last_one() -> None:
    free = FreeNumbers(10)
    free.see(9)
    assert [free.take({1, 2}) for _ in range(3)] == [10, 3, 4]


# threads --------------------------------------------------------------------------------------------------------------


def thread_names(contents: Contents) -> list[str]:
    return [contents.threads[index].name for index in contents.headers.thread.tolist()]


@pytest.mark.usefixtures("form")
def test_thread_index_means_the_thread_that_it_was_last_defined_as() -> None:
    both = events(event(1, thread=7), event(1, thread=8))
    data = trace(
        *(
            metadata(event_type(1)),
            threads(thread(7, "a"), thread(8, "b")),
            both,
            sequence_point(forgets=FORGET_THREADS),
        ),
        *(threads(thread(7, "c"), thread(8, "b")), both, removed((7, 1)), threads(thread(7, "d")), both),
        *(sequence_point(forgets=FORGET_THREADS), threads(thread(7, "a")), events(event(1, thread=7))),
    )
    contents = read(data)
    assert thread_names(contents) == ["a", "b", "c", "b", "d", "b", "a"]
    assert contents.headers.capture_thread.tolist() == contents.headers.thread.tolist()
