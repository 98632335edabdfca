"""Stacks are interned the same in every form of the loops, whatever a block says, and nothing is written beyond the tables."""

from __future__ import annotations

import pickle
import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.nettrace.kernel_forms import COMPILED_FORMS, FORM_IDS, FORMS, without_kernels

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace import fallback, room, stacks
from dotnetdiag.nettrace.ids import IdMap
from dotnetdiag.nettrace.stacks import STACK_COST, StackTable, parse_stacks
from dotnetdiag.wire import Cursor


@pytest.fixture(params=FORMS, ids=FORM_IDS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is fallback:
        without_kernels(monkeypatch)


def block(first: int, *raw: bytes, count: int | None = None) -> bytes:
    pieces = b"".join(struct.pack("<I", len(each)) + each for each in raw)
    return struct.pack("<II", first, len(raw) if count is None else count) + pieces


def drawn(seed: int, count: int) -> list[bytes]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2, size, np.uint8).tobytes() for size in rng.integers(0, 40, count)]


def frames_of(raw: list[bytes], pointer: int) -> list[bytes]:
    return [each[: len(each) - len(each) % pointer] for each in raw]


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("pointer", [4, 8])
def test_stacks_of_a_block_get_the_ids_that_each_gets_by_itself(pointer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "PART", 100)  # and the tables grow several times
    raw = drawn(1, 950)
    table, ids, alone = StackTable(pointer), IdMap(), StackTable(pointer)
    assert parse_stacks(Cursor(memoryview(block(7, *raw))), table, ids, 1 << 30) == (0, 0)
    expected = [alone.intern(each) for each in frames_of(raw, pointer)]
    assert ids.snapshot().look_up(np.arange(7, 957, dtype=np.uint32)).tolist() == expected
    distinct = [b"", *dict.fromkeys(frames_of(raw, pointer))]
    assert [table.raw(number) for number in range(len(table))] == distinct
    assert [alone.raw(number) for number in range(len(alone))] == distinct
    assert table.size_bytes == sum(map(len, distinct))
    offsets, addresses = table.arrays()
    kind = "<u8" if pointer == 8 else "<u4"
    assert [addresses[start:end].astype(kind).tobytes() for start, end in pairwise(offsets.tolist())] == distinct
    assert table.frames(3).astype(kind).tobytes() == distinct[3]


@pytest.mark.usefixtures("form")
def test_stack_longer_than_the_keys_of_its_hash_is_told_from_others() -> None:
    table, long = StackTable(), bytearray(5000)
    numbers = [table.intern(bytes(long))]
    for at in (0, 1023, 1024, 1025, 2047, 4999):
        long[at] ^= 1
        numbers.append(table.intern(bytes(long)))
        assert table.raw(numbers[-1]) == long
    assert numbers == list(range(1, 8))
    assert table.intern(bytes(5000)) == 1


@pytest.mark.usefixtures("form")
def test_stacks_beyond_the_room_are_refused_and_smaller_ones_taken() -> None:
    table, ids = StackTable(), IdMap()
    room = 3 * STACK_COST + 24
    data = block(1, bytes(8), bytes(1000), b"\1" * 8, b"\2" * 16, b"\3" * 8, b"\4" * 8)
    assert parse_stacks(Cursor(memoryview(data)), table, ids, room) == (0, 3)
    assert ids.snapshot().look_up(np.arange(8, dtype=np.uint32)).tolist() == [0, 1, 0, 2, 0, 3, 0, 0]
    assert len(ids) == 3


@pytest.mark.usefixtures("form")
def test_of_stacks_the_lengths_are_told() -> None:
    for pointer in (4, 8):
        table = StackTable(pointer)
        ids = [table.intern(bytes(range(count * pointer))) for count in (3, 0, 1)]
        assert table.lengths(np.array([*ids, 0, 99, ids[0]], np.uint32)).tolist() == [3, 0, 1, 0, 0, 3]


def test_first_definition_of_an_id_counts_and_others_are_counted() -> None:
    table, ids = StackTable(), IdMap()
    one, two, three = b"\1" * 8, b"\2" * 8, b"\3" * 8
    for first, raw, clashes in (
        (10, (one, two), 0),
        (1 << 31, (one,), 0),
        (9, (three, one, three), 1),
        (1 << 31, (two,), 1),
        (5, (), 0),
    ):
        assert parse_stacks(Cursor(memoryview(block(first, *raw))), table, ids, 1 << 20)[0] == clashes
    wanted = np.array([9, 10, 11, 12, 1 << 31], np.uint32)
    assert ids.snapshot().look_up(wanted).tolist() == [3, 1, 2, 0, 1]
    assert len(ids) == 4


@pytest.mark.usefixtures("form")
def test_block_cut_anywhere_gives_the_stacks_before_that_place() -> None:
    raw = [bytes(8), b"", b"\1" * 16]
    data = block(1, *raw)
    for cut in range(8, len(data)):
        table, ids = StackTable(), IdMap()
        given = struct.pack("<II", 1, min(3, (cut - 8) // 4)) + data[8:cut]
        whole = sum(cut >= end for end in (20, 24, 44))
        if whole == struct.unpack_from("<I", given, 4)[0]:
            parse_stacks(Cursor(memoryview(given)), table, ids, 1 << 20)
        else:
            with pytest.raises(FormatError) as raised:
                parse_stacks(Cursor(memoryview(given)), table, ids, 1 << 20)
            assert raised.value.offset == [8, 20, 24][whole]
        assert len(ids) == whole


@pytest.mark.parametrize("kernels", COMPILED_FORMS)
def test_kernel_stops_before_it_writes_beyond_any_table(kernels: Any) -> None:
    data = memoryview(bytes(range(64)))
    starts, sizes = np.arange(0, 64, 8, dtype=np.int64), np.full(8, 8, np.int64)
    keys = np.arange(1, 9, dtype=np.uint64)
    for rooms in ((4, 100, 100, 100), (100, 3, 100, 100), (100, 100, 8, 100), (100, 100, 128, 31)):
        state, ids = np.array([1, 0], np.int64), np.zeros(8, np.uint32)
        offsets, hashes, slots, pool = (
            np.zeros(room + (name == "offsets"), kind)
            for name, room, kind in zip(
                ("offsets", "hashes", "slots", "pool"),
                (rooms[0], rooms[1], 1 << (rooms[2] - 1).bit_length(), rooms[3]),
                (np.int64, np.uint32, np.uint32, np.uint8),
                strict=True,
            )
        )
        done = kernels.intern_stacks(data, starts, sizes, 0, keys, state, offsets, hashes, slots, pool, ids)
        assert done == min(rooms[0], rooms[1], len(slots) // 2) - 1 if rooms[3] > 31 else 3
        assert state.tolist() == [done + 1, 8 * done]


@pytest.mark.usefixtures("form")
def test_stack_that_does_not_lie_in_the_data_has_no_id() -> None:
    starts, sizes = np.array([0, -1, 8, 9, 1 << 62], np.int64), np.array([8, 8, 8, 8, 1 << 62], np.int64)
    assert StackTable().intern_many(memoryview(bytes(16)), starts, sizes).tolist() == [1, 0, 1, 0, 0]


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("batch", [1, 300, 5000])
def test_a_table_in_a_file_gives_the_ids_that_one_in_memory_gives(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_LET_GO", 1 << 12)
    monkeypatch.setattr(stacks, "_AT_ONCE", 64)
    random = np.random.default_rng(batch)
    held, filed = StackTable(), StackTable(in_file=1 << 14)
    for _ in range(400 if batch == 1 else 6):
        sizes = random.integers(0, 5, batch) * 8
        data = random.integers(0, 12, int(sizes.sum()), dtype=np.uint8)
        starts = np.cumsum(sizes) - sizes
        expected = held.intern_many(data.data, starts, sizes).tolist()
        assert filed.intern_many(data.data, starts, sizes).tolist() == expected
    assert (filed._rooms is not None and filed._rooms[1].is_in_file) == (batch > 1)
    for table in (filed, pickle.loads(pickle.dumps(filed))):
        assert (len(table), table.size_bytes) == (len(held), held.size_bytes)
        assert [table.raw(one) for one in range(len(held) + 1)] == [held.raw(one) for one in range(len(held) + 1)]
        assert all(np.array_equal(*both) for both in zip(table.arrays(), held.arrays(), strict=True))
        assert table.pieces(3)[1] == held.pieces(3)[1]
        assert [(ids.tolist(), bytes(raw)) for ids, raw in table.runs(1)] == [
            (ids.tolist(), bytes(raw)) for ids, raw in held.runs(1)
        ]


def test_a_table_for_which_there_is_no_file_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise OSError("no room")

    monkeypatch.setattr(room, "unnamed_file", refused)
    table = StackTable(in_file=1 << 10)
    data = np.arange(80_000, dtype=np.uint64).view(np.uint8)
    starts = np.arange(0, len(data), 8)
    assert np.array_equal(table.intern_many(data.data, starts, np.full(len(starts), 8)), np.arange(1, len(starts) + 1))
    assert np.array_equal(table.arrays()[1], np.arange(80_000))
