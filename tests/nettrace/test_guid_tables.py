"""Tables of GUIDs in every form of the loops, and the memory that they grow in."""

from __future__ import annotations

import pickle
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.nettrace.kernel_forms import COMPILED_FORMS, FORM_IDS, FORMS, without_kernels

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import COMPILED, GuidTable, fallback, guids
from dotnetdiag.nettrace.room import Room


@pytest.fixture(params=FORMS, ids=FORM_IDS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is fallback:
        without_kernels(monkeypatch)


def numbers(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """GUIDs whose first bytes are these numbers."""
    made = np.zeros((len(values), 2), np.uint64)
    made[:, 0] = values
    return made.view(np.uint8).reshape(-1, 16)


@pytest.mark.usefixtures("form")
def test_a_guid_has_one_number_however_it_comes() -> None:
    table, known = GuidTable(), {0: 0}
    assert table.intern(numbers(np.array([7])).tobytes()) == 1
    known[7] = 1
    random = np.random.default_rng(1)
    for count in (1, 3, 2000, 5000):
        values = random.integers(0, 4000, count)
        expected = [known.setdefault(int(value), len(known)) for value in values]
        assert table.intern_many(numbers(values)).tolist() == expected
        assert len(table) == len(known)
    assert table.intern(numbers(np.array([4001])).tobytes()) == len(known)
    assert table.intern(bytes(16)) == 0
    order = [*known, 4001]
    assert table.bytes().tobytes() == numbers(np.array(order)).tobytes()
    assert table[1] == UUID(bytes_le=numbers(np.array([7])).tobytes())
    assert [*table] == [UUID(bytes_le=one.tobytes()) for one in numbers(np.array(order))]
    with pytest.raises(UsageError):
        table.intern(bytes(15))
    with pytest.raises(UsageError):
        table.intern_at(memoryview(bytes(20)), np.array([0, 5]))
    with pytest.raises(IndexError):
        table[len(table)]


def test_what_is_given_out_stays_while_more_comes() -> None:
    table = GuidTable()
    table.intern_many(numbers(np.arange(1, 300)))
    before = table.bytes()
    kept = before.tobytes()
    table.intern_many(numbers(np.arange(300, 3000)))
    assert before.tobytes() == kept
    assert table.bytes()[: len(kept)].tobytes() == kept
    assert not before.flags.writeable


@pytest.mark.parametrize("kernels", COMPILED_FORMS)
def test_the_kernel_stops_before_it_writes_beyond_any_table(kernels: Any) -> None:
    data, keys = numbers(np.arange(1, 101)).reshape(-1), np.arange(1, 9, dtype=np.uint64)
    starts = np.arange(100, dtype=np.int64) * 16
    for slots, room in ((8, 1000), (67, 1000), (1024, 20), (1023, 1000)):
        table, pool = np.zeros(slots, np.uint32), np.zeros(16 * room + 5, np.uint8)
        tags = np.zeros(slots, np.uint8)
        state, ids = np.ones(1, np.int64), np.zeros(100, np.uint32)
        done = kernels.intern_guids(data, starts, 0, keys, 1, state, table, tags, pool, ids)
        assert done == min(100, slots // 8 * 7 - 1, room - 1)
        assert state.tolist() == [done + 1]
        assert ids[:done].tolist() == [*range(1, done + 1)]
        assert not pool[16 * (done + 1) :].any()
        again, other = np.zeros(slots, np.uint32), np.zeros(slots, np.uint8)
        kernels.index_guids(pool, 1, 1, done // 2 + 1, keys, again, other)
        kernels.index_guids(pool, 1, done // 2 + 1, done + 1, keys, again, other)
        assert (again.tolist(), other.tolist()) == (table.tolist(), tags.tolist())
    places = np.array([-1, 1 << 62, len(data) - 15, 0], np.int64)
    assert kernels.intern_guids(data, places, 0, keys, 1, state, table, tags, pool, ids[:4]) == 4
    assert ids[:4].tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("kernels", COMPILED_FORMS)
def test_the_kernel_refuses_arrays_that_do_not_fit(kernels: Any) -> None:
    def done(
        slots: int = 64,
        room: int = 10,
        count: int = 1,
        keys: int = 6,
        ids: int = 1,
        first: int = 0,
        tags: int = 0,
        base: int = 1,
    ) -> tuple[int, bool]:
        state, table = np.full(1, count, np.int64), np.zeros(slots, np.uint32)
        pool = np.zeros(16 * room, np.uint8)
        made = kernels.intern_guids(
            np.ones(16, np.uint8),
            np.zeros(1, np.int64),
            first,
            np.ones(keys, np.uint64),
            base,
            state,
            table,
            np.zeros(slots + tags, np.uint8),
            pool,
            np.zeros(ids, np.uint32),
        )
        return int(made), bool(table.any() or pool.any())

    assert done() == (1, True)
    for wrong in (
        {"slots": 0},
        {"slots": 7},
        {"count": 0},
        {"count": 11},
        {"keys": 5},
        {"ids": 2},
        {"first": -1},
        {"tags": 1},
        {"base": 0},
        {"base": 2},
    ):
        assert done(**wrong) == (-1, False)
    for slots, room, count, tags in ((7, 100, 2, 7), (64, 1, 2, 64), (64, 100, 57, 64), (64, 100, 2, 63)):
        pool, table = np.zeros(16 * room, np.uint8), np.zeros(slots, np.uint32)
        with pytest.raises(ValueError, match="no room"):
            kernels.index_guids(pool, 1, 1, count, np.ones(6, np.uint64), table, np.zeros(tags, np.uint8))
    for base, one in ((0, 0), (0, 1), (5, 4)):
        with pytest.raises(ValueError, match="no slot"):
            kernels.index_guids(pool, base, one, 6, np.ones(6, np.uint64), table, np.zeros(64, np.uint8))
    for wrong in ({"keys": 5}, {"tags": 63}, {"slots": 0, "tags": 0}, {"base": 0}, {"count": 11}, {"ids": 2}):
        given = {"keys": 6, "tags": 64, "slots": 64, "base": 1, "count": 3, "ids": 1} | wrong
        with pytest.raises(ValueError, match="fit"):
            kernels.find_guids(
                np.ones(16, np.uint8),
                np.zeros(1, np.int64),
                np.ones(given["keys"], np.uint64),
                given["base"],
                given["count"],
                np.zeros(given["slots"], np.uint32),
                np.zeros(given["tags"], np.uint8),
                np.zeros(160, np.uint8),
                np.zeros(given["ids"], np.uint32),
            )


@pytest.mark.parametrize("kernels", COMPILED_FORMS)
def test_a_table_whose_numbers_and_tags_are_wrong_is_looked_through_once(kernels: Any) -> None:
    """All slots taken, by numbers of nothing: neither an endless look nor one beyond the bytes."""
    data, ids = numbers(np.arange(1, 4)).reshape(-1), np.full(4, 9, np.uint32)
    for number in (0, 1, 2, 1 << 31):
        slots, pool = np.full(8, number, np.uint32), np.zeros(16 * 3, np.uint8)
        for tag in range(1, 256):
            tags, starts = np.full(8, tag, np.uint8), np.array([0, 16, 1000, -1], np.int64)
            kernels.find_guids(data, starts, np.ones(6, np.uint64), 1, 3, slots, tags, pool, ids)
            assert not ids.any()


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_those_of_older_tables_keep_their_numbers(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guids, "GENERATION", 500)
    monkeypatch.setattr(guids, "MOST_GENERATIONS", 9)
    monkeypatch.setattr(guids, "_LET_GO", 100)
    table, known = GuidTable(), {0: 0}
    table.intern_many(numbers(np.array([0])))
    random = np.random.default_rng(batch)
    count = 40 * batch if batch < 7 else 5000
    values = np.append(np.arange(1, 3000), random.integers(0, 4000, count))
    for first in range(0, len(values), batch):
        some = values[first : first + batch]
        expected = [known.setdefault(int(value), len(known)) for value in some]
        assert table.intern_many(numbers(some)).tolist() == expected
    assert len(table) == len(known)
    assert table.bytes().tobytes() == numbers(np.array([*known])).tobytes()
    if COMPILED:
        assert table._table is not None
        assert len(table._table._older) > 2
        again = pickle.loads(pickle.dumps(table))
        assert again.intern_many(numbers(values[:50])).tolist() == [known[int(value)] for value in values[:50]]


@pytest.mark.skipif(not COMPILED, reason="tables of many need compiled code")
def test_those_that_come_again_and_again_are_known_for_ever_and_others_take_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guids, "GENERATION", 500)
    monkeypatch.setattr(guids, "MOST_GENERATIONS", 3)
    table = GuidTable()
    often, rare = np.arange(1, 40), np.arange(40, 60)
    expected = table.intern_many(numbers(often)).tolist()
    table.intern_many(numbers(rare))
    for first in range(1000, 21_000, 100):
        fresh = np.arange(first, first + 100)
        before = len(table)
        assert table.intern_many(numbers(fresh)).tolist() == [*range(before, before + 100)]
        assert table.intern_many(numbers(fresh[::-1])).tolist() == [*range(before + 99, before - 1, -1)]
        assert table.intern_many(numbers(often)).tolist() == expected
        if first == 2000:  # they are known while their table is one of the last
            assert table.intern_many(numbers(rare)).tolist() == [*range(40, 60)]
    assert table._table is not None
    assert len(table._table._older) == 3
    assert len(table._table._kept) == len(often)
    again = table.intern_many(numbers(rare)).tolist()
    assert again == [*range(len(table) - 20, len(table))]
    raw = table.bytes().reshape(-1, 16)
    assert np.array_equal(raw[again], numbers(rare))  # another number, the same GUID
    assert np.array_equal(raw[40:60], numbers(rare))
    other = pickle.loads(pickle.dumps(table))
    assert other.bytes().tobytes() == table.bytes().tobytes()
    assert other.intern_many(numbers(rare)).tolist() == again
    assert other.intern_many(numbers(np.array([99_999]))).tolist() == [len(table)]


@pytest.mark.skipif(not COMPILED, reason="tables of many need compiled code")
def test_of_those_that_are_kept_the_last_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guids, "GENERATION", 500)
    monkeypatch.setattr(guids, "MOST_GENERATIONS", 1)
    monkeypatch.setattr(guids, "MOST_KEPT", 30)
    monkeypatch.setattr(guids, "_LET_GO", 7)
    table = GuidTable()
    often = np.arange(1, 101)
    for first in range(1000, 4000, 100):
        table.intern_many(numbers(np.append(often, np.arange(first, first + 100))))
        assert table._table is not None
        assert len(table._table._kept) <= 30
    assert len({*table.bytes().view("V16").tolist()}) == 1 + 100 + 3000


def test_very_many_are_known_by_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that lie in a file, and go from memory now and then."""
    monkeypatch.setattr(guids, "IN_FILE", 1 << 14)
    monkeypatch.setattr(guids, "_LET_GO", 1 << 9)
    table = GuidTable()
    for first in range(1, 20_000, 700):
        raw = numbers(np.arange(first, first + 700))
        assert table.intern_many(raw).tolist() == [*range(first, first + 700)]
        again = max(first - 5000, 1)
        assert table.intern_many(numbers(np.arange(again, again + 50))).tolist() == [*range(again, again + 50)]
    assert len(table) == 20_301
    assert np.array_equal(table.bytes().reshape(-1, 16)[1:], numbers(np.arange(1, 20_301)))


@pytest.mark.parametrize("can", [True, False])
def test_memory_grows_with_what_is_in_it(can: bool) -> None:
    room = Room(100)
    room.array()[:] = 7
    held = None if can else room.array()
    for size in (5000, 1_000_000):
        room.grow(size)
        made = room.array(np.uint8)
        assert len(made) == size
        assert (made[:100] == 7).all()
        assert not made[100:].any()
        del made
    assert held is None or (held == 7).all()
