"""What damaged and hostile files may cost: no memory for what a length only claims, no time, no neighbour's columns."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import SMALL, large_trace, small_trace

from dotnetdiag.nettrace import COMPILED, Block, BlockKind, HeaderColumns, Reader, arena, decode, read, scan
from dotnetdiag.nettrace.arena import Arena, Arenas
from dotnetdiag.nettrace.columns import COLUMN_NAMES

LIES = (0x7FFFFFF0, 0xFFFFFFFF, 0x00FFFFFF)
LARGE_BYTES = 8 << 20


@pytest.mark.parametrize("name", SMALL)
def test_length_that_lies_never_allocates(name: str) -> None:
    data = SMALL[name]
    openings = {block.start + byte for block in scan(data).blocks for byte in range(-8, 24)}
    places = sorted({*openings, *range(0, len(data), 37)})
    tracemalloc.start()
    try:
        for turn, at in enumerate(at for at in places if at <= len(data) - 4):
            lie = struct.pack("<I", LIES[turn % len(LIES)])
            broken = data[:at] + lie + data[at + 4 :]
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            contents = read(broken)
            stream = Reader()
            stream.feed(broken)
            stream.close()
            assert tracemalloc.get_traced_memory()[1] - before < LARGE_BYTES, (at, lie)
            del contents, stream
    finally:
        tracemalloc.stop()


UNTRANSLATED = sorted({*COLUMN_NAMES} - {"metadata_id", "stack", "activity", "related", "label_list"})
"""What a block of events says by itself."""


@pytest.mark.parametrize("name", recordings())
def test_recording_with_bytes_turned_over_gives_the_blocks_that_are_not_touched(name: str) -> None:
    data = data_of(name)
    whole, blocks = read(data).headers, scan(data).blocks
    for at in np.random.default_rng(11).integers(0, len(data), 6).tolist():
        broken = bytearray(data)
        broken[at] ^= 0xFF
        touched = next(block for block in blocks if block.end > at)

        def untouched(headers: HeaderColumns, touched: Block = touched, at: int = at) -> HeaderColumns:
            """The events before the damaged block; those behind it too, where its frame is as it was."""
            place = headers.payload_offset
            behind = place >= touched.end if at >= touched.start else np.zeros(len(headers), np.bool_)
            return headers[(place + headers.payload_length <= touched.offset) | behind]

        expected, contents = untouched(whole), read(broken)
        found = untouched(contents.headers)
        columns = UNTRANSLATED if touched.kind is not BlockKind.EVENT else [*UNTRANSLATED, "metadata_id", "stack"]
        for column in columns:
            assert np.array_equal(getattr(found, column), getattr(expected, column)), (at, column)
        assert len(expected) or at < touched.start or len(blocks) < 10
        counts = scan(broken).counts()
        ids, numbers = np.unique(contents.headers.metadata_id, return_counts=True)
        assert {number: events for number, (events, _) in counts.items()} == dict(
            zip(ids.tolist(), numbers.tolist(), strict=True)
        )
        batches = [batch.headers for batch in scan(broken).iter_batches()]
        assert HeaderColumns.concatenate(batches).equals(contents.headers)
        ends = contents.headers.payload_offset + contents.headers.payload_length
        assert bool((ends <= len(broken)).all())


@pytest.mark.parametrize("version", [4, 5, 6])
def test_cut_at_every_offset_the_batches_are_the_columns(version: int) -> None:
    data = small_trace(version)
    for cut in range(len(data)):
        piece = data[:cut]
        batches = [batch.headers for batch in scan(piece).iter_batches()]
        assert HeaderColumns.concatenate(batches).equals(read(piece).headers)


def test_events_before_any_metadata_are_counted_too() -> None:
    data = small_trace(5)
    without = data.replace(b"MetadataBlock", b"MetadataBlack")
    contents = read(without)
    assert len(contents) == len(read(data))
    assert sum(events for events, _ in scan(without).counts().values()) == len(contents)


# memory that is used again --------------------------------------------------------------------------------------------


def test_batches_that_are_kept_stay_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "GROUP_BYTES", 1 << 16)
    monkeypatch.setattr(decode, "FIRST_GROUP_BYTES", 1 << 16)
    data = large_trace(60_000)
    whole = read(data).headers
    kept, row = [], 0
    for number, batch in enumerate(scan(data).iter_batches()):
        if number % 3 == 0:
            kept.append((row, batch.headers))
        elif number % 3 == 1:
            kept.append((row, batch.headers[: len(batch) // 2]))
        row += len(batch)
    assert len(kept) > 10
    for first, headers in kept:
        assert headers.equals(whole[first : first + len(headers)])


def test_one_column_that_is_kept_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "GROUP_BYTES", 1 << 16)
    monkeypatch.setattr(decode, "FIRST_GROUP_BYTES", 1 << 16)
    data = large_trace(60_000)
    times = [batch.headers.time[5:] for batch in scan(data).iter_batches()]
    assert len(times) > 10
    again = [batch.headers.time[5:].copy() for batch in scan(data).iter_batches()]
    assert all(np.array_equal(one, other) for one, other in zip(times, again, strict=True))


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")
def test_memory_of_batches_that_nobody_holds_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "GROUP_BYTES", 1 << 16)
    monkeypatch.setattr(decode, "FIRST_GROUP_BYTES", 1 << 16)
    made = []

    class Counted(Arena):
        def __init__(self, rows: int) -> None:
            super().__init__(rows)
            made.append(rows)

    monkeypatch.setattr(arena, "Arena", Counted)
    batches = sum(1 for _ in scan(large_trace(60_000)).iter_batches())
    assert batches > 20
    assert len(made) < 8
    before = len(made)
    assert sum(1 for _ in scan(large_trace(60_000)).iter_batches()) == batches
    assert len(made) == before


def test_memory_is_lent_again_only_when_nobody_holds_a_column() -> None:
    arenas = Arenas()
    lent = arenas.take(100)
    first = lent.arena
    headers, jumps, guids = lent.first(10), lent.runs[:1], lent.guids[:0]
    del lent
    assert arenas.take(100).arena is not first
    time = headers.time[2:3].view(np.uint8)
    del headers, jumps, guids
    assert arenas.take(100).arena is not first
    held = time.data
    del time
    assert arenas.take(100).arena is not first
    del held
    assert {id(arenas.take(100).arena) for _ in range(2)} & {id(first)}


def test_columns_taken_to_be_zero_cannot_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "_IDLE", [])  # in used memory they may be no longer
    headers = Arenas().take(100).first(10)
    with pytest.raises(ValueError, match="read-only"):
        headers.activity[0] = 1
    assert not headers.label_list.any()


# a file that changes while it is read ---------------------------------------------------------------------------------


class Changing:
    """An executor that changes what is read when it is asked for the second time."""

    def __init__(self, change: Callable[[], None]) -> None:
        self._change, self._calls = change, 0

    def submit(self, fn: Callable[[Any], Any], argument: Any, /) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls += 1
        if self._calls == 2:
            self._change()
        future.set_result(fn(argument))
        return future


@pytest.mark.parametrize("changed", [b"\2\0\0\0\0", b"\0\1", b"\x30" + bytes(33), b"\xff"])
def test_nothing_is_written_outside_of_the_columns_though_the_file_changes(changed: bytes) -> None:
    count = 20_000
    first, same = bytes([0xCF, 1, 0, 1, 0, 1, 0, 1, 3]) + b"abc", b"\0\1abc"
    small = small_trace(5)
    block = next(block for block in scan(small).blocks if block.kind is BlockKind.EVENT)
    content = struct.pack("<hhqq", 20, 1, 0, 0) + first + same * count
    start = block.start + 20 + len(first)
    opening = small[block.offset : block.start]
    data = bytearray(
        small[: block.offset] + opening[:26] + struct.pack("<i", len(content)) + opening[30:] + content + b"\x06\1"
    )

    def change() -> None:
        data[start : start + len(same) * count] = (changed * len(same) * count)[: len(same) * count]

    whole = len(read(bytes(data)))
    assert whole == count + 1
    guard = np.zeros(1 << 20, np.uint64)
    contents = read(data, executor=Changing(change))
    assert len(contents) == whole
    assert not guard.any()
