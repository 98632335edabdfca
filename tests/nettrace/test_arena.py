"""Memory for columns that is lent, comes back and is lent again; how much of it there is."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
from tests.nettrace.traces import FIRST, PLAIN

from dotnetdiag.nettrace import COMPILED, Writer, arena, scan
from dotnetdiag.nettrace.arena import MOST_IDLE, MOST_IDLE_BYTES, Arena, Arenas, Lent
from dotnetdiag.nettrace.columns import COLUMN_NAMES, COLUMN_TYPES, SPARSE_COLUMNS
from dotnetdiag.nettrace.constants import BATCH_ROWS


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> list[Arena]:
    """What waits to be used again: of this test alone."""
    waiting: list[Arena] = []
    monkeypatch.setattr(arena, "_IDLE", waiting)
    return waiting


def arrays_of(lent: Lent) -> dict[str, np.ndarray]:
    columns = {name: getattr(lent.headers, name) for name in COLUMN_NAMES}
    return {**columns, "runs": lent.runs, "guids": lent.guids}


def addresses(array: np.ndarray) -> tuple[int, int]:
    start = array.__array_interface__["data"][0]
    return start, start + array.nbytes


@pytest.mark.parametrize("rows", [0, 1, 7, 64, 1000])
def test_arrays_of_an_arena_have_their_length_and_type_and_do_not_meet(rows: int) -> None:
    for runs, guids in ((None, None), (3, 5), (0, 0)):
        lent = Arena(rows, runs, guids).lend()
        arrays = arrays_of(lent)
        assert len(lent.runs) == (rows if runs is None else runs)
        assert len(lent.guids) == (2 * rows + 2 if guids is None else guids)
        for name, kind in COLUMN_TYPES.items():
            assert (arrays[name].dtype, len(arrays[name])) == (np.dtype(kind), rows)
        places = [addresses(array) for array in arrays.values() if len(array)] or [(0, 0)]
        assert all(end <= start for (_, end), (start, _) in pairwise(places))
        assert places[-1][1] - places[0][0] <= lent.arena.size_bytes
        assert lent.arena.size_bytes <= sum(array.nbytes + 64 for array in arrays.values()) + 8
        for array in arrays.values():
            assert not array.any()
            array[:] = 1  # all of it is there


def test_windows_of_an_arena_are_its_rows_runs_and_guids() -> None:
    whole = Arena(100, 50, 60)
    for number, array in enumerate(arrays_of(whole.lend()).values()):
        array[:] = np.arange(len(array)) * (number + 1) if array.dtype != np.bool_ else np.arange(len(array)) % 3 == 0
    one, other = whole.lend(), whole.lend((10, 30), (5, 9), (1, 60))
    for name, array in arrays_of(other).items():
        first, last = {"runs": (5, 9), "guids": (1, 60)}.get(name, (10, 30))
        assert array.tolist() == arrays_of(one)[name][first:last].tolist()
    assert whole.lend((10, 10)).headers.time.tolist() == []


def test_columns_that_were_written_to_are_no_longer_taken_to_be_zero() -> None:
    whole = Arena(10)
    lent, other = whole.lend(), whole.lend()
    assert (whole.zeroed, lent.zeroed) == (True, True)
    first = lent.first(4)
    assert len(first) == 4
    assert [name for name in COLUMN_NAMES if not getattr(first, name).flags.writeable] == [
        name for name in COLUMN_NAMES if name in SPARSE_COLUMNS
    ]
    other.touched()
    assert (whole.zeroed, other.zeroed, whole.lend().zeroed) == (False, False, False)
    assert all(getattr(other.first(4), name).flags.writeable for name in COLUMN_NAMES)


def test_room_is_for_events_of_the_usual_size_until_some_were_seen(idle: list[Arena]) -> None:
    arenas = Arenas()
    for size_bytes, rows, lent_rows in (
        (1000, 164 + 164 // 8, 184),  # 10 bytes each
        (20, 11 + 11 // 8, 12),  # so many there can be at most
        (1 << 30, BATCH_ROWS + BATCH_ROWS // 8, BATCH_ROWS),
    ):
        idle.clear()
        lent = arenas.take(size_bytes)
        assert (lent.arena.rows, len(lent.headers), len(lent.runs)) == (rows, lent_rows, lent_rows)
        assert len(lent.guids) == 2 * lent_rows + 2
        del lent
    arenas.expect(0, 1000)
    assert arenas.bytes_per_event == 0.0
    for rows, size_bytes, expected in (
        (10, 1000, 80.0),
        (10, 2000, 80.0),
        (10, 500, 40.0),
        (1000, 1000, 2.0),
    ):
        arenas.expect(rows, size_bytes)
        assert arenas.bytes_per_event == expected
    arenas = Arenas()
    idle.clear()
    arenas.expect(10, 1000)
    assert arenas.take(8000).arena.rows == 164 + 164 // 8


def test_memory_comes_back_when_nothing_refers_to_it_and_the_smallest_that_will_do_is_taken(idle: list[Arena]) -> None:
    arenas = Arenas()
    large, small, middle = (arenas.take(size) for size in (100_000, 1000, 10_000))
    owners = [large.arena, small.arena, middle.arena]
    column = large.headers.time[5:7]
    del large
    assert idle == []
    del column
    assert idle == owners[:1]
    del small
    del middle
    assert idle == owners
    lent = arenas.take(9000)
    assert lent.arena is owners[2]
    assert idle == owners[:2]
    assert arenas.take(9000).arena is owners[0]  # and at once back
    assert idle == [owners[1], owners[0]]
    more = arenas.take(1_000_000)
    assert more.arena not in owners


def test_of_memory_of_one_size_the_latest_used_is_taken(idle: list[Arena]) -> None:
    arenas = Arenas()
    lents = [arenas.take(1000) for _ in range(3)]
    owners = [lent.arena for lent in lents]
    while lents:
        del lents[0]
    assert idle == owners
    assert arenas.take(1000).arena is owners[2]


def test_so_many_pieces_wait_and_the_longest_unused_goes(idle: list[Arena]) -> None:
    arenas = Arenas()
    lents = [arenas.take(1000) for _ in range(MOST_IDLE + 3)]
    owners = [lent.arena for lent in lents]
    for number in range(MOST_IDLE + 3):
        lents[number] = None  # type: ignore[call-overload]
        assert idle == owners[max(0, number + 1 - MOST_IDLE) : number + 1]


def test_so_many_bytes_wait_and_no_more(idle: list[Arena]) -> None:
    one = Arena(1000)
    rows = 1000 * (MOST_IDLE_BYTES // 4) // one.size_bytes
    waiting = [Arena(rows) for _ in range(5)]
    assert 3 * waiting[0].size_bytes < MOST_IDLE_BYTES < 5 * waiting[0].size_bytes
    for piece in waiting:
        arena._give_back(piece)
    assert sum(piece.size_bytes for piece in idle) <= MOST_IDLE_BYTES
    kept = MOST_IDLE_BYTES // waiting[0].size_bytes
    assert idle == waiting[-kept:]


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")
def test_batches_without_activities_have_columns_that_nobody_may_write_to() -> None:
    for activity, is_writable in ((None, False), (FIRST, True)):
        out = io.BytesIO()
        with Writer(out) as writer:
            writer.add_metadata(PLAIN)
            writer.write_event(1, 5, thread=1, activity=activity)
        (batch,) = scan(out.getvalue()).iter_batches()
        assert [getattr(batch.headers, name).flags.writeable for name in SPARSE_COLUMNS] == [is_writable] * len(
            SPARSE_COLUMNS
        )
        del batch
