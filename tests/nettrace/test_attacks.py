"""What a file or a caller may do on purpose: ids that do not exist, arrays that do not fit, arguments that make no sense."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.nettrace import by_hand
from tests.nettrace.kernel_forms import COMPILED_FORMS, without_kernels
from tests.nettrace.traces import SMALL

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace import EventBatch, GuidTable, Reader, StackTable, ids, read, scan, uncompressed
from dotnetdiag.nettrace.kernel_types import BLOCK, MEANINGS

SMALL_5 = SMALL["nettrace 5"]
KIND = by_hand.metadata(by_hand.event_type(1))


@pytest.fixture(params=["compiled", "fallback"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "fallback":
        without_kernels(monkeypatch)


def streamed(data: bytes, piece: int = 1) -> tuple[Reader, list[EventBatch]]:
    reader = Reader()
    batches = [batch for at in range(0, len(data), piece) for batch in reader.feed(data[at : at + piece])]
    return reader, [*batches, *reader.close()]


def test_label_lists_with_ids_beyond_32_bits_are_damage() -> None:
    lists = by_hand.labels(0xFFFFFFFF, by_hand.level(1), by_hand.level(2))
    data = by_hand.trace(KIND, lists, by_hand.events(by_hand.event(1)))
    contents, (reader, _) = read(data), streamed(data)
    assert "label list ids" in str(contents.damage)
    assert (reader.damage, len(contents)) == (contents.damage, 1)


@pytest.mark.usefixtures("form")
def test_stack_with_id_0_is_the_stack_of_no_event() -> None:
    states_nothing, states_0 = bytes([0x87, 1, 0, 1, 0, 1, 0, 0]), by_hand.event(1, stack=0)
    for tail in ((), (by_hand.uncompressed(),)):  # the second makes all of them go the way of uncompressed events
        data = by_hand.trace(KIND, by_hand.stacks(0, 0x1234), by_hand.events(states_nothing, states_0), *tail)
        assert read(data).headers.stack.tolist() == [0, 0]
        assert [batch.headers.stack.tolist() for batch in streamed(data)[1]] == [[0, 0]]


OLD, NEW = (by_hand.metadata(by_hand.event_type(1, name)) for name in ("Old", "New"))
FORGET = by_hand.sequence_point(forgets=by_hand.FORGET_METADATA)
FIRST, SECOND = (by_hand.events(by_hand.event(number)) for number in (1, 2))


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(
    ("blocks", "names", "number"),
    [
        ((OLD, FIRST, FORGET, FIRST), ["Old", None], 1),
        ((OLD, SECOND, by_hand.metadata(by_hand.event_type(2, "Later"))), [None], 2),
        ((OLD, FIRST, FORGET, NEW, FIRST, SECOND), ["Old", "New", None], 2),
        ((OLD, FORGET, by_hand.uncompressed(struct.pack("<II", 48, 1) + bytes(44))), [None], 1),
    ],
    ids=["forgotten", "later", "renumbered", "uncompressed"],
)
def test_event_with_an_undefined_metadata_id_has_no_type(
    blocks: tuple[bytes, ...], names: list[str | None], number: int
) -> None:
    def names_of(batch: EventBatch) -> list[str | None]:
        kinds = (batch.metadata.get(number) for number in batch.headers.metadata_id.tolist())
        return [None if kind is None else kind.name for kind in kinds]

    data = by_hand.trace(*blocks)
    whole, (reader, batches) = scan(data), streamed(data)
    assert [name for batch in whole.iter_batches() for name in names_of(batch)] == names
    assert [name for batch in batches for name in names_of(batch)] == names
    assert reader.warnings == whole.warnings
    assert whole.warnings[0].startswith("events with an unknown metadata id: 1, first at 0x")
    assert whole.warnings[0].endswith(f" (id {number})")


def test_activity_ids_of_label_lists_are_looked_up_once_for_each_list() -> None:
    def words_kept(count: int) -> int:
        lists = [bytes([1]) + bytes(15) + bytes([1, 0x84]) + struct.pack("<Q", number) for number in range(count)]
        reader, batches = streamed(by_hand.trace(KIND, by_hand.labels(1, *lists), FIRST), 1 << 20)
        labels = reader._state.labels
        pairs = labels.guids(reader._state.guids)
        assert pairs is not None
        assert pairs.base is labels._guids  # a part of what is kept, not made anew
        assert pairs.tolist() == [[0, 0]] + [[1, 0]] * count
        assert len(batches) == 1
        return labels._guids.size

    assert words_kept(200) <= 4 * 200 + 32


def meeting(count: int) -> list[int]:
    """Ids that want one slot of every hash table of up to 2 ** 13 slots."""
    numbers = np.arange(1 << 28, (1 << 28) + count * (1 << 13) * 2, dtype=np.uint32)
    return [int(number) for number in numbers[ids._slots(numbers, 13) == 5][:count]]


@pytest.mark.parametrize("made", [meeting, lambda count: range(63, 4 * count, 4)], ids=["far", "near"])
def test_tables_of_ids_are_written_anew_in_proportion_to_the_ids(
    made: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    words, make = [0], ids.IdMap._make

    def counted(self: ids.IdMap, near: int, bits: int) -> None:
        make(self, near, bits)
        words[0] += self._table.size

    def put(table: ids.Table, bits: int, entries: ids.Table) -> ids.Table:
        words[0] += len(entries)
        return real(table, bits, entries)

    real = ids._put
    monkeypatch.setattr(ids, "_put", put)
    monkeypatch.setattr(ids.IdMap, "_make", counted)

    def steps(count: int) -> int:
        words[0], table = 0, ids.IdMap()
        table.define(1, 1)
        for number in made(count):
            table.define(number, 1)
            table.snapshot()
        return words[0]

    assert steps(600) < 3 * steps(300)


def test_attributes_of_a_strict_reader_can_be_read_and_the_damage_is_raised_by_the_next_call() -> None:
    data = bytearray(SMALL_5)
    at = data.index(b"EventBlock")
    data[at + 40 : at + 60] = b"\xff" * 20
    reader = Reader(tolerant=False)
    reader.feed(data)
    assert reader.damage is not None
    assert (reader.complete, bool(reader.position), len(reader.warnings)) == (False, True, 1)
    with pytest.raises(FormatError):
        list(reader.close())


@pytest.mark.parametrize("kind", [np.uint8, np.uint32])
def test_reader_takes_the_bytes_of_any_buffer(kind: Any) -> None:
    data = SMALL_5[: len(SMALL_5) - len(SMALL_5) % 4]
    array, reader = np.frombuffer(data, kind), Reader()
    step = max(1, 4 // array.itemsize)
    events = sum(sum(map(len, reader.feed(array[at : at + step]))) for at in range(0, len(array), step))
    events += sum(map(len, reader.feed(array[:0]))) + sum(map(len, reader.close()))
    assert (events, reader.damage) == (len(read(data)), read(data).damage)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("name", ["NetPerf 3", "NetPerf 2", "nettrace 5, uncompressed, 32 bits"])
def test_payload_whose_size_changes_while_it_is_read_stays_in_its_event(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, find = bytearray(SMALL[name]), uncompressed._find

    def found(view: memoryview, start: int, end: int, layout: np.dtype[Any], has_stack: bool) -> Any:
        said = find(view, start, end, layout, has_stack)
        for at in said[0][-1:].tolist():
            data[at + layout.itemsize - 4 : at + layout.itemsize] = b"\0\0\0\x40"
        return said

    monkeypatch.setattr(uncompressed, "_find", found)
    contents = read(data)
    ends = contents.headers.payload_offset + contents.headers.payload_length
    assert (ends <= len(data)).all()


def test_stacks_keep_their_ids_in_another_process() -> None:
    table, raw = StackTable(4), [bytes(range(8)), b"", bytes(range(8, 24))]
    numbers = [table.intern(each) for each in raw]
    code = (
        f"import pickle, sys; t = pickle.load(sys.stdin.buffer); print(*map(t.intern, {raw!r}), len(t), t.pointer_size)"
    )
    said = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(table), capture_output=True, check=True)
    assert [int(word) for word in said.stdout.split()] == [*numbers, len(table), 4]
    assert pickle.loads(pickle.dumps(table)).raw(3) == raw[2]


@pytest.mark.parametrize(
    "call",
    [
        lambda: Reader(block_limit=0),
        lambda: Reader(block_limit=-1),
        lambda: Reader(block_limit=1.5),  # type: ignore[arg-type]
        lambda: Reader().feed("text"),  # type: ignore[arg-type]
        lambda: Reader().feed(np.zeros((4, 4), np.uint8)[:, 1]),
        lambda: scan(5),  # type: ignore[arg-type]
        lambda: StackTable(5),
        lambda: StackTable().intern(b"abc"),
        lambda: GuidTable().intern(b"abc"),
        lambda: scan(SMALL_5).iter_batches(executor=5),  # type: ignore[arg-type]
        lambda: scan(SMALL_5).counts(executor=5),  # type: ignore[arg-type]
        lambda: read(SMALL_5, executor=5),  # type: ignore[arg-type]
    ],
)
def test_argument_that_makes_no_sense_is_refused_at_the_call(call: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        call()


FAR = (1 << 63) - 8
BYTES, WORDS, NUMBERS = np.zeros(100, np.uint8), np.zeros(0, np.uint32), np.zeros(4, np.int64)
ONE_BLOCK = np.array([0], np.int64), np.array([100], np.int64), 0, 1, True


def meanings(**values: int) -> Any:
    made = np.zeros(1, MEANINGS)
    for name, value in values.items():
        made["metadata"][name] = value
    return made


@pytest.mark.parametrize("by", COMPILED_FORMS)
@pytest.mark.parametrize(
    "values",
    [{"start": FAR, "bits": 3}, {"near": FAR}, {"near": 1}, {"bits": 3}, {"base": -1}, {"start": -8, "near": 4}],
    ids=str,
)
def test_table_of_ids_that_lies_elsewhere_is_refused(by: Any, values: dict[str, int]) -> None:
    tally = np.zeros((2, 3), np.int64)
    assert not by.count(BYTES, *ONE_BLOCK, np.zeros(1, BLOCK), meanings(**values), WORDS, tally)
    assert by.count(BYTES, *ONE_BLOCK, np.zeros(1, BLOCK), meanings(), WORDS, tally)


@pytest.mark.parametrize("by", COMPILED_FORMS)
def test_positions_and_counts_beyond_the_data_are_refused(by: Any) -> None:
    opening, rows = np.zeros(20, np.uint8), np.zeros((4, 4), np.int64)
    for position, base in ((FAR, 0), (101, 0), (0, FAR), (0, -1)):
        for v6 in (False, True):
            assert by.frame(BYTES, position, base, v6, 1 << 31, opening, 2, rows) == 0
    with pytest.raises(ValueError, match="no such events"):
        by.walk(BYTES, 0, 100, 50, FAR + 6, False, NUMBERS)
    with pytest.raises(ValueError, match="no such stacks"):
        by.split_stacks(BYTES, 0, -FAR, 8, 0, NUMBERS, NUMBERS.copy())
    assert by.split_stacks(BYTES, 0, FAR + 7, 8, 5, NUMBERS, NUMBERS.copy())[2] == 4
    threads, numbers = np.zeros(8, np.uint64), np.zeros(8, np.int64)
    for left, missing in ((FAR, 0), (5, 6), (-1, 1)):
        walk = np.zeros(by.WALK_WORDS, np.int64)
        walk[8:10] = left, missing
        assert by.follow(BYTES, 7, 0, opening, walk, threads, numbers) == 7
    walk = np.zeros(by.WALK_WORDS, np.int64)
    by.close_segment(BYTES, FAR, 0, walk, threads, numbers)
    assert walk[7] == 1
