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


@pytest.mark.parametrize("spread", [0, 3, 400, 1 << 20])
@pytest.mark.parametrize("back", [0.0, 0.2])
def test_ranges_mean_what_each_id_was_first_defined_as(spread: int, back: float) -> None:
    """Ranges that follow each other, leave others out, reach back over others, lack some; wherever the first begins."""
    rng = np.random.default_rng(spread + 1)
    for begin in (0, 1, 63, 64, 5000, 0xFFF0_0000):
        table, expected, snapshots, first, meaning = IdMap(), dict[int, int](), [], begin, 1
        for _ in range(40):
            count = int(rng.integers(0, 30))
            meanings = np.arange(meaning, meaning + count, dtype=np.uint32)
            meaning += count
            if rng.random() < 0.2:
                meanings[rng.random(count) < 0.3] = 0
            if rng.random() < back:
                first = max(0, first - int(rng.integers(0, 100)))
            first = min(first, (1 << 32) - count)
            clashes = 0
            for number, own in enumerate(meanings.tolist(), first):
                if own and number:
                    clashes += expected.setdefault(number, own) != own
            assert table.define_range(first, meanings) == clashes
            assert len(table) == len(expected)
            first += count + int(rng.integers(0, spread + 1))
            if rng.random() < 0.5:
                snapshots.append((table.snapshot(), len(expected)))
        wanted = np.fromiter(expected, np.uint32)
        for snapshot, defined in snapshots:
            told = [own if at < defined else 0 for at, own in enumerate(expected.values())]
            assert snapshot.look_up(wanted).tolist() == told
        beside = np.array([one for one in (wanted + 1).tolist() if one not in expected], np.uint32)
        assert not table.snapshot().look_up(beside).any()


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


# tables of ids against a dict -----------------------------------------------------------------------------------------

SPREADS = {
    "near": lambda rng: int(rng.integers(0, 300)),
    "from far on": lambda rng: 0xFFFFF000 + int(rng.integers(0, 300)),
    "near and far": lambda rng: int(rng.integers(0, 300)) + int(rng.integers(0, 3)) * 1_000_000,
    "anywhere": lambda rng: int(rng.integers(0, 1 << 32)),
    "the edges": lambda rng: int(rng.choice([0, 1, 63, 64, 65, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF])),
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("seed", range(6))
def test_ids_in_any_order_stand_for_what_was_defined_first(spread: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, model = IdMap(), dict[int, int]()
    kept: list[tuple[ids.Snapshot, dict[int, int]]] = []
    for _ in range(400):
        number, meaning = SPREADS[spread](rng), int(rng.integers(1, 5))
        assert table.define(number, meaning) == (model.setdefault(number, meaning) == meaning)
        assert (table.get(number), len(table)) == (model[number], len(model))
        if rng.random() < 0.1:
            kept.append((table.snapshot(), dict(model)))
    assert table.meanings == list(model.values())
    asked = np.array([*model, *(number ^ 1 for number in model), *range(70)], np.uint32)
    for snapshot, then in kept:
        assert snapshot.look_up(asked).tolist() == [then.get(number, 0) for number in asked.tolist()]
        assert snapshot.defined == len(then)
    assert table.snapshot().table.nbytes <= 8 * (2 * 64 + 8 * len(model)) + 16 * 64 * len(model)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("seed", range(6))
def test_ranges_of_ids_define_what_was_not_there_and_count_what_differs(spread: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, model = IdMap(), dict[int, int]()
    kept: list[tuple[ids.Snapshot, dict[int, int]]] = []
    for _ in range(120):
        first, size = SPREADS[spread](rng), int(rng.integers(0, 12))
        meanings = rng.integers(0, 4, min(size, (1 << 32) - first)).astype(np.uint32)
        clashes = 0
        for number, meaning in enumerate(meanings.tolist(), first):
            if meaning and number:
                clashes += model.setdefault(number, meaning) != meaning
        assert (table.define_range(first, meanings), len(table)) == (clashes, len(model))
        if rng.random() < 0.2:
            kept.append((table.snapshot(), dict(model)))
    asked = np.array([*model, *(number ^ 1 for number in model), *range(70)], np.uint32)
    for snapshot, then in (*kept, (table.snapshot(), model)):
        assert snapshot.look_up(asked).tolist() == [then.get(number, 0) for number in asked.tolist()]


def test_table_of_ids_that_count_up_is_an_array_without_a_hash_table() -> None:
    for first in (0, 1, 64, 1000, 0xFFFF0000):
        table = IdMap()
        for number in range(first, first + 1000):
            table.define(number, 7)
            snapshot = table.snapshot()
            assert (snapshot.bits, snapshot.base) == (0, first // 64 * 64)
            reach = number - snapshot.base + 1
            assert max(64, reach) <= snapshot.near <= max(64, 2 * reach)
            assert len(snapshot.table) == 2 * snapshot.near


def test_hash_table_has_two_slots_for_each_id_and_not_many_more() -> None:
    table = IdMap()
    for at in range(1, 600):
        table.define(at * 0x10001 + (at << 13), at)
        snapshot = table.snapshot()
        far = at - 1 - int(np.count_nonzero(snapshot.table[2 : 2 * snapshot.near : 2]))
        assert snapshot.bits == 0 or 2 * far <= 1 << snapshot.bits <= max(8, 4 * (far + 1) << 1)


def test_free_numbers_are_above_all_that_were_seen_and_then_the_lowest() -> None:
    free = FreeNumbers(5)
    assert free.take(()) == 1
    free.see(3)
    free.see(2)
    assert [free.take(()) for _ in range(2)] == [4, 5]
    assert [free.take({1, 3}) for _ in range(2)] == [2, 4]
    free.see(9)
    assert free.take(()) == 5
