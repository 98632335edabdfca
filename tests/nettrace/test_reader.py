"""Every small trace, whole and in pieces, cut at every offset, with every byte flipped."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.nettrace import by_hand
from tests.nettrace.traces import (
    ARRAY,
    FIRST,
    NATIVE,
    NESTED,
    PLAIN,
    SECOND,
    SMALL,
    START_NS,
    SYNC,
    V6_ONLY,
    large_trace,
    netperf_3,
    netperf_flat,
    opening,
    small_trace,
    z16,
)

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace import (
    COMPILED,
    Block,
    BlockKind,
    Contents,
    EventBatch,
    HeaderColumns,
    Reader,
    iter_blocks,
    read,
    scan,
    whole,
)
from dotnetdiag.nettrace.constants import V6_NAMES
from dotnetdiag.nettrace.state import TraceState

NETTRACE = [name for name in SMALL if name.startswith("nettrace")]


@pytest.fixture(params=SMALL)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def data(name: str) -> bytes:
    return SMALL[name]


def stream(data: bytes, piece: int) -> tuple[Reader, HeaderColumns]:
    reader = Reader(block_limit=1 << 40)
    batches = [batch for at in range(0, len(data), piece) for batch in reader.feed(data[at : at + piece])]
    batches += reader.close()
    for batch in batches:
        batch.headers.payload_offset[:] += batch.offset
    return reader, HeaderColumns.concatenate([batch.headers for batch in batches])


def same(data: bytes, piece: int) -> Contents:
    """Read ``data`` both ways, hold the results against each other."""
    contents = read(data)
    reader, headers = stream(data, piece)
    assert headers.equals(contents.headers)
    assert (reader.complete, reader.damage, reader.warnings) == (contents.complete, contents.damage, contents.warnings)
    assert reader.lost.by_thread == contents.lost.by_thread
    assert dict(reader.skipped) == dict(contents.skipped)
    assert reader.info == contents.info
    assert reader.format == contents.format
    return contents


@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 20])
def test_piece_by_piece_is_the_whole_file(name: str, data: bytes, piece: int) -> None:
    contents = same(data, piece)
    assert contents.complete
    assert name.startswith(contents.format.replace("nettrace 6.0", "nettrace 6")) or contents.format == "nettrace 4"


@pytest.mark.parametrize("name", NETTRACE)
def test_everything_the_writer_said_is_read(data: bytes) -> None:
    contents = read(data)
    headers = contents.headers
    assert contents.complete
    assert contents.warnings == []
    assert contents.info is not None
    assert contents.info.start_ns == START_NS
    assert (contents.info.sync_ticks, contents.info.frequency, contents.info.process_id) == (SYNC, 10_000_000, 77)
    assert headers.time.tolist() == [SYNC + t for t in (10, 30, 20, 25, 50, 50, 60, 61, 62, 63, 64)]
    assert headers.sequence.tolist() == [1, 2, 1, 2, 6, 3, 4, 5, 6, 7, 8]
    assert headers.metadata_id.tolist() == [1, 1, 2, 1, 4, 4, 1, 1, 1, 1, 1]
    assert headers.processor[3] == 2
    assert headers.is_sorted.tolist() == [True, False, True, False, True, True, True, False, True, False, True]
    assert contents.payload(0) == b"abcdefg"
    assert contents.payload(4) == b"x" * 300
    assert contents.stacks.frames(int(headers.stack[0])).tolist() == [0x1000, 0x2000, 0x3000]
    assert headers.stack[2] != 0
    assert contents.stacks.frames(int(headers.stack[2])).tolist() == []
    assert contents.stacks.frames(int(headers.stack[4])).tolist() == [0x2000]
    assert headers.stack[5] == 0
    assert contents.guids[int(headers.activity[0])] == FIRST
    assert contents.guids[int(headers.related[0])] == SECOND
    assert contents.segment_starts.tolist() == [0, 4, 11]
    assert contents.lost.by_thread == {100: 3}
    assert contents.lost.by_segment == {1: 3}
    gap = contents.lost.gaps[0]
    assert (gap.capture_thread, gap.after, gap.before, gap.count) == (100, SYNC + 30, SYNC + 50, 3)
    for metadata in (PLAIN, NESTED, NATIVE, *((ARRAY,) if 3 in contents.metadata else ())):
        assert contents.metadata[metadata.metadata_id] == metadata
    assert contents.order().tolist() == [0, 2, 3, 1, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("name", [name for name in NETTRACE if "6" in name])
def test_version_6_has_threads_labels_and_full_metadata(data: bytes) -> None:
    contents = read(data)
    assert contents.metadata[5] == V6_ONLY
    assert contents.threads[100].os_thread_id == 4100
    assert contents.threads[200].key_values == (("k", "v"),)
    labels = contents.labels[int(contents.headers.label_list[0])]
    assert labels.values == (("why", "because"), ("n", -5))
    assert (labels.activity, labels.level) == (FIRST, 2)
    assert contents.headers.label_list[1:].max() == 0


@pytest.mark.parametrize("name", ["NetPerf 3", "NetPerf 2", "NetPerf 1"])
def test_netperf_rows_are_read_with_metadata_and_stacks_of_their_own(name: str, data: bytes) -> None:
    contents = read(data)
    headers = contents.headers
    assert contents.complete
    assert headers.thread.tolist() == [5, 6, 5, 5]
    assert headers.time.tolist() == [SYNC + 1, SYNC + 2, SYNC + 3, SYNC + 4]
    assert [contents.payload(row) for row in range(4)] == [b"\6\0\0\0", b"\6\6\6\6", b"", b"?"]
    assert contents.stacks.frames(int(headers.stack[1])).tolist() == [0, 0x0606060606060606]
    assert headers.stack[0] == 0
    assert contents.order().tolist() == [0, 1, 2, 3]
    assert not contents.lost.known
    metadata = contents.metadata[int(headers.metadata_id[0])]
    assert (metadata.event_id, metadata.name, metadata.keywords, metadata.version) == (7, "Plain", 0xF000, 2)
    assert [field.name for field in metadata.fields] == ["number"]
    assert metadata.provider == ("" if name == "NetPerf 1" else "Maker")
    assert metadata.provider_guid == (FIRST if name == "NetPerf 1" else None)
    if name == "NetPerf 3":
        assert contents.guids[int(headers.activity[0])] == FIRST
        block = next(block for block in contents.blocks if block.kind is BlockKind.EVENT)
        assert contents.warnings == [f"events with an unknown metadata id: 1, first at 0x{block.offset:x} (id 9)"]


def test_an_event_before_the_definition_of_its_type_is_of_no_known_type() -> None:
    """However much is decoded at a time: in a stream the definition has not come yet."""
    late = struct.pack("<i", 3) + z16("Late") + struct.pack("<i", 8) + z16("") + struct.pack("<qiii", 0, 1, 4, 0)
    data = netperf_3([(3, 5, SYNC + 1, b"?", b""), (0, 1, SYNC + 2, late, b""), (3, 5, SYNC + 3, b"!", b"")])
    for piece in (1, 7, 1 << 20):
        contents = same(data, piece)
        assert contents.headers.metadata_id.tolist() == [0, 3]
        assert contents.metadata[3].provider == "Late"
        assert contents.warnings[0].startswith("events with an unknown metadata id: 1, ")


def test_netperf_2_in_chunks_is_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    data = netperf_flat(2, [(5, SYNC + number, bytes(number % 50), b"") for number in range(300)])
    one = read(data)
    monkeypatch.setattr("dotnetdiag.nettrace.container_flat.FLAT_CHUNK_BYTES", 1000)
    assert len(list(iter_blocks(data))) > 10
    assert same(data, 13).headers.equals(one.headers)


def complete_blocks_before(data: bytes, cut: int) -> list[Block]:
    return [block for block in iter_blocks(data) if block.start + block.size <= cut]


def test_cut_at_every_offset_gives_what_is_whole_and_says_where_it_broke(name: str, data: bytes) -> None:
    whole = read(data)
    last = -1
    for cut in range(len(data)):
        contents = same(data[:cut], 1 << 20)
        rows = len(contents)
        assert not contents.complete
        assert contents.damage is not None
        assert contents.damage_offset is not None
        assert contents.damage_offset <= cut
        assert rows >= last
        last = rows
        if not name.startswith("NetPerf"):
            ends = whole.headers.payload_offset + whole.headers.payload_length
            assert rows == int((ends <= cut).sum())
        assert contents.headers.time.tolist() == whole.headers.time[:rows].tolist()
    # NetPerf 1, 2: the last byte is cut, the events stay
    assert last == len(whole) or name.startswith("NetPerf")


def test_cut_inside_of_a_block_is_named_with_what_is_left() -> None:
    data = SMALL["nettrace 5"]
    block = [block for block in iter_blocks(data) if block.kind is BlockKind.EVENT][-1]
    contents = read(data[: block.start + 12])
    assert contents.damage == f"EventBlock at 0x{block.offset:x}: header says {block.size} bytes, 12 left"
    assert contents.damage_offset == block.offset


def test_every_byte_flipped_breaks_nothing_but_the_trace(name: str, data: bytes) -> None:
    for at in range(len(data)):
        mask = (0xFF, 0x01, 0x80)[at % 3]
        broken = bytearray(data)
        broken[at] ^= mask
        contents = read(bytes(broken))
        assert len(contents) < 10_000
        if mask == 0xFF:
            same(bytes(broken), 64)


def test_random_bytes_in_random_places_read_the_same_both_ways(name: str, data: bytes) -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), 4).tolist():
            broken[at] = int(rng.integers(0, 256))
        same(bytes(broken), 50)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "turned over"])
def test_strict_reader_gives_what_the_tolerant_one_gives_and_raises_what_it_records(name: str, is_cut: bool) -> None:
    data, raised = SMALL[name], 0
    for at in range(1, len(data), 23):
        broken = data[:at] + (b"" if is_cut else bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        tolerant, strict = Reader(), Reader(tolerant=False)
        expected = payloads(tolerant.feed(broken)) + payloads(tolerant.close())
        given, damage = list[bytes](), None
        try:
            for batch in strict.feed(broken):
                given += payloads([batch])
            for batch in strict.close():
                given += payloads([batch])
        except FormatError as error:
            damage = str(error)
        assert (damage, given) == (tolerant.damage, expected), at
        raised += damage is not None
    assert raised >= (len(data) // 23 if is_cut else 1)


def test_closed_reader_takes_nothing_more() -> None:
    reader = Reader()
    reader.close()
    with pytest.raises(UsageError, match="closed"):
        reader.feed(b"x")


@pytest.mark.parametrize("name", ["NetPerf 3", "nettrace 4", "nettrace 5", "nettrace 6"])
def test_bytes_behind_the_end_are_not_read_and_the_file_is_not_called_whole(name: str) -> None:
    data = SMALL[name]
    count = len(read(data))
    for tail in (b"\0", b"rubbish" * 10, data):
        found = same(data + tail, count)
        assert not found.complete
        assert found.damage == f"end of data at 0x{len(data):x}: the data goes on behind the end marker"
        assert found.damage_offset == len(data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "empty"),
        (b"N", "the data ends here"),
        (b"hello, world, this is no trace", "neither"),
        (b"Nettrace\0\0\0\0\7\0\0\0\0\0\0\0", "version 7.0 is not known"),
        (b"Nettrace" + opening("Trace", 4), "no FastSerialization"),
        (b"\x14\0\0\0!FastSerialization.1" + opening("Trace", 4), "version 4 is not known here"),
        (b"\x14\0\0\0!FastSerialization.1" + opening("Other", 4), "the first object is 'Other'"),
        (b"Nettrace\0\0\0\0\6\0\0\0\0\0\0\0\0\0\0\2", "the first block is not Trace"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(data: bytes, problem: str) -> None:
    contents = same(data, 3)
    assert contents.damage is not None
    assert problem in contents.damage
    assert len(contents) == 0


def test_unknown_objects_are_skipped_and_counted() -> None:
    data = SMALL["nettrace 5"]
    end = next(block for block in iter_blocks(data) if block.kind is BlockKind.METADATA).end
    head = opening("NewBlock", 9, 5) + struct.pack("<i", 5)
    strange = head + bytes(-(end + len(head)) % 4) + b"hello" + b"\x06"
    # what follows is aligned by its absolute offset: only a length divisible by 4 keeps it readable
    filler = -len(strange) % 4
    head = opening("NewBlock", 9, 5) + struct.pack("<i", 5 + filler)
    strange = head + bytes(-(end + len(head)) % 4) + b"hello" + bytes(filler) + b"\x06"
    contents = same(data[:end] + strange + data[end:], 9)
    assert contents.complete
    assert dict(contents.skipped) == {"NewBlock": 1}
    assert len(contents) == 11


def test_unknown_version_6_blocks_are_skipped_and_counted() -> None:
    data = SMALL["nettrace 6"]
    end = next(block for block in iter_blocks(data) if block.kind is BlockKind.TRACE).end
    contents = same(data[:end] + struct.pack("<I", 99 << 24 | 5) + b"hello" + data[end:], 9)
    assert contents.complete
    assert dict(contents.skipped) == {"block of kind 99": 1}
    assert len(contents) == 11
    assert set(V6_NAMES) == set(BlockKind) - {BlockKind.UNKNOWN}


def test_longer_block_headers_are_skipped() -> None:
    data = bytearray(SMALL["nettrace 6"])
    block = next(block for block in iter_blocks(bytes(data)) if block.kind is BlockKind.EVENT)
    data[block.start : block.start + 2] = struct.pack("<h", 24)
    data[block.start + 20 : block.start + 20] = b"more"
    data[block.offset : block.offset + 4] = struct.pack("<I", 2 << 24 | block.size + 4)
    contents = same(bytes(data), 9)
    assert contents.complete
    assert len(contents) == 11


def test_length_that_lies_is_not_believed() -> None:
    data = bytearray(SMALL["nettrace 5"])
    block = next(block for block in iter_blocks(bytes(data)) if block.kind is BlockKind.EVENT)
    at = data.index(b"EventBlock\x06") + 11
    data[at : at + 4] = struct.pack("<i", 0x7FFFFFF0)
    whole = read(bytes(data))
    assert whole.damage is not None
    assert f"EventBlock at 0x{block.offset:x}: header says 2147483632 bytes" in whole.damage
    reader = Reader()
    reader.feed(bytes(data))
    assert reader.damage is not None
    assert "more than the 67108864 a stream may hold" in reader.damage


def test_damage_inside_of_a_block_costs_only_the_rest_of_that_block() -> None:
    data = bytearray(SMALL["nettrace 5"])
    whole = read(bytes(data))
    at = int(whole.headers.payload_offset[4])
    assert data[at - 2 : at] == b"\xac\x02"  # the payload size of the fifth event, the first of the second segment
    data[at - 1] = 0x7F
    broken = same(bytes(data), 7)
    assert broken.headers.time.tolist() == whole.headers.time[:4].tolist()
    assert broken.segment_starts.tolist() == [0, 4, 4]
    assert not broken.complete
    block = [block for block in iter_blocks(bytes(data)) if block.kind is BlockKind.EVENT][-1]
    assert broken.damage is not None
    assert broken.damage.startswith(
        f"EventBlock at 0x{block.offset:x}, event 1 at 0x{block.start + 20:x}: an event reaches"
    )
    assert broken.warnings == [f"damaged EventBlock: 1, first at 0x{block.start + 20:x}"]
    assert broken.lost.total == 10  # the seven events of the block, and the three that were dropped


def test_scan_gives_counts_and_blocks_without_columns(name: str, data: bytes) -> None:
    scanned = scan(data)
    contents = scanned.decode()
    ids, events = np.unique(contents.headers.metadata_id, return_counts=True)
    counts = scanned.counts()
    assert {number: found for number, (found, _) in counts.items()} == dict(
        zip(ids.tolist(), events.tolist(), strict=True)
    )
    assert sum(size for _, size in counts.values()) == int(contents.headers.payload_length.sum())
    assert scanned.blocks == list(iter_blocks(data))


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")
def test_shares_of_the_work_give_the_same_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    one = scan(large_trace(20_000)).decode()
    monkeypatch.setattr(whole, "SHARE_BYTES", 100_000)
    monkeypatch.setattr(whole, "SHARED_GROUP_BYTES", 100_000)
    shares = []

    class Counted(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *arguments: Any, **more: Any) -> Any:
            shares.append(arguments)
            return super().submit(fn, *arguments, **more)

    with Counted(3) as pool:
        shared = scan(large_trace(20_000)).decode(executor=pool)
    assert len(shares) >= 3
    assert one.headers.equals(shared.headers)


def test_passes_over_one_scan_that_begin_at_once_know_nothing_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    data, take = SMALL["nettrace 5"], TraceState.take
    times = read(data).headers.time.tolist()

    def take_when_another_pass_is_over(*args: Any) -> None:
        if not others:
            others.append(trace)
            assert times_of(trace.iter_batches()) == times
        take(*args)

    def times_of(batches: Iterable[EventBatch]) -> list[int]:
        return [time for batch in batches for time in batch.headers.time.tolist()]

    monkeypatch.setattr(TraceState, "take", take_when_another_pass_is_over)
    trace, others = scan(data), list[object]()
    assert times_of(trace.iter_batches()) == times
    others.clear()
    assert trace.decode().headers.time.tolist() == times
    trace, others = scan(data), []
    assert sum(events for events, _ in trace.counts().values()) == len(times)


def test_scan_tells_what_the_pass_that_began_last_has_counted() -> None:
    data = by_hand.trace(
        by_hand.metadata(by_hand.event_type(1)),
        by_hand.events(by_hand.event(1), by_hand.event(1, sequence=5)),
    )
    trace = scan(data)
    first, second = trace.iter_batches(), trace.iter_batches()
    assert (len(list(first)), trace.lost.total) == (1, 0)
    assert (len(list(second)), trace.lost.total) == (1, 5)


def test_file_of_32_bits_has_short_pointers() -> None:
    contents = read(small_trace(5, pointer_size=4))
    assert contents.info is not None
    assert contents.info.pointer_size == 4
    offsets, addresses = contents.stacks.arrays()
    assert offsets.tolist() == [0, 0, 3, 3, 4]
    assert addresses.tolist() == [0x1000, 0x2000, 0x3000, 0x2000]


# one call after the other ---------------------------------------------------------------------------------------------


def payloads(batches: Iterable[EventBatch]) -> list[bytes]:
    return [batch.payload(row) for batch in batches for row in range(len(batch))]


@pytest.mark.parametrize("name", NETTRACE)
def test_batches_that_nobody_iterates_over_are_counted_all_the_same(name: str) -> None:
    data, whole = SMALL[name], read(SMALL[name])
    reader = Reader()
    for at in range(0, len(data), 100):
        reader.feed(data[at : at + 100])
    reader.close()
    assert (reader.lost.by_thread, reader.complete) == (whole.lost.by_thread, True)


def test_batches_that_are_held_can_be_iterated_over_after_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.nettrace.arena.BATCH_ROWS", 2)
    data, whole = SMALL["nettrace 5"], payloads(scan(SMALL["nettrace 5"]).iter_batches())
    reader = Reader()
    held = [*(reader.feed(data[at : at + 500]) for at in range(0, len(data), 500)), reader.close()]
    assert reader.complete
    assert payloads(batch for batches in held for batch in batches) == whole


def test_iteration_that_is_left_passes_over_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.nettrace.arena.BATCH_ROWS", 1)
    reader = Reader()
    for _ in reader.feed(SMALL["nettrace 5"]):
        break
    assert reader.complete
    assert reader.lost.total == 3


@pytest.mark.parametrize("name", NETTRACE)
def test_strict_reader_raises_for_a_cut_file_when_everything_before_was_given(name: str) -> None:
    data = SMALL[name]
    last = [block for block in iter_blocks(data) if block.kind is BlockKind.EVENT][-1]
    cut = data[: last.end - 10]
    reader, given = Reader(tolerant=False), []
    given += payloads(reader.feed(cut))
    batches = reader.close()
    with pytest.raises(FormatError, match="left"):
        given.extend(payload for batch in batches for payload in payloads([batch]))
    assert given == payloads(scan(cut).iter_batches())
    assert len(given) > len(payloads(scan(data[: last.offset]).iter_batches())) > 0
    careless = Reader(tolerant=False)
    with pytest.raises(FormatError, match="left"):
        [careless.feed(cut), careless.close(), careless.close()]


# bytes that are borrowed ----------------------------------------------------------------------------------------------


def seen_of(batches: Iterable[EventBatch]) -> list[tuple[Any, ...]]:
    """Each event with its payload, where that stands, and the segment."""
    return [
        (batch.segment, batch.offset + int(headers.payload_offset[row]), batch.payload(row), *map(int, columns))
        for batch in batches
        for headers in [batch.headers]
        for row, columns in enumerate(
            zip(headers.time, headers.metadata_id, headers.thread, headers.sequence, headers.stack, strict=True)
        )
    ]


@pytest.mark.parametrize("room", [0, 64, 4096])
@pytest.mark.parametrize("size", [1, 7, 300, 1000, 1 << 20])
@pytest.mark.parametrize("name", SMALL)
def test_borrowed_bytes_are_read_as_those_that_are_fed(name: str, size: int, room: int) -> None:
    """And when the next come nothing is read in those before."""
    data, reader, found = SMALL[name], Reader(), list[tuple[Any, ...]]()
    for at in range(0, len(data), size):
        piece = data[at : at + size]
        memory = bytearray(b"\xa5" * room + piece + b"\x5a" * 9)
        found += seen_of(reader.borrow(memoryview(memory), room, room + len(piece)))
        assert memory[room:] == piece + b"\x5a" * 9
        memory[:] = b"\xee" * len(memory)
    found += seen_of(reader.close())
    fed = Reader()
    expected = [one for at in range(0, len(data), size) for one in seen_of(fed.feed(data[at : at + size]))]
    expected += seen_of(fed.close())
    assert found == expected
    assert (reader.complete, reader.damage, reader.warnings) == (fed.complete, fed.damage, fed.warnings)
    assert (reader.position, reader.segment, reader.lost.by_thread) == (fed.position, fed.segment, fed.lost.by_thread)
    assert list(reader.metadata) == list(fed.metadata)


@pytest.mark.parametrize("tolerant", [True, False])
@pytest.mark.parametrize("name", NETTRACE)
def test_borrowed_bytes_may_be_damaged_at_any_place(name: str, tolerant: bool) -> None:
    data, chance = SMALL[name], np.random.default_rng(7)
    for _ in range(60):
        broken = bytearray(data)
        broken[int(chance.integers(len(data)))] = int(chance.integers(256))
        said: list[Any] = []
        for borrows in (True, False):
            reader, found = Reader(tolerant=tolerant), list[Any]()
            try:
                for at in range(0, len(broken), 500):
                    memory = memoryview(bytearray(1000) + broken[at : at + 500])
                    found += seen_of(
                        reader.borrow(memory, 1000, len(memory)) if borrows else reader.feed(memory[1000:])
                    )
                found += seen_of(reader.close())
            except FormatError as error:
                found.append(str(error))
            said.append((found, reader.damage, reader.complete, reader.lost.total))
        assert said[0] == said[1]


def test_behind_the_end_and_when_it_is_closed_borrowed_bytes_are_treated_as_others() -> None:
    data = SMALL["nettrace 5"]
    reader, memory = Reader(), memoryview(bytearray(data) + b"more")
    list(reader.borrow(memory, 0, len(data)))
    assert reader.complete
    assert list(reader.borrow(memory, len(data), len(memory))) == []
    assert "goes on behind the end" in str(reader.damage)
    reader.close()
    with pytest.raises(UsageError, match="closed"):
        reader.borrow(memory, 0, 1)
