"""Label lists and thread rows of version 6, byte by byte; NetPerf files cut into pieces."""

from __future__ import annotations

import copy
import signal
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from random import Random
from uuid import UUID

import numpy as np
import pytest
from tests.nettrace.traces import SYNC, netperf_3, netperf_flat

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace import (
    BlockKind,
    HeaderColumns,
    LabelList,
    Reader,
    ThreadInfo,
    header_fields,
    iter_blocks,
    read,
)
from dotnetdiag.nettrace.block import Block
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.labels import pack_label_list, parse_label_list
from dotnetdiag.nettrace.stacks import StackTable
from dotnetdiag.nettrace.threads import ThreadMoves, pack_thread, parse_thread
from dotnetdiag.wire import Cursor

ONE, OTHER = UUID("00112233-4455-6677-8899-aabbccddeeff"), UUID("ffeeddcc-bbaa-9988-7766-554433221100")
LABELS: list[tuple[bytes, dict[str, object]]] = [
    (b"\1" + ONE.bytes_le, {"activity": ONE}),
    (b"\2" + OTHER.bytes_le, {"related": OTHER}),
    (b"\3" + ONE.bytes, {"trace_id": ONE.bytes}),
    (b"\4" + struct.pack("<Q", 0xFEDCBA9876543210), {"span_id": 0xFEDCBA9876543210}),
    (b"\5\1k\2vw", {"values": (("k", "vw"),)}),
    (b"\6\1n\x80\1", {"values": (("n", 64),)}),
    (b"\6\1n\x01", {"values": (("n", -1),)}),
    (b"\7\xff", {"opcode": 255}),
    (b"\x08" + struct.pack("<Q", 1 << 63), {"keywords": 1 << 63}),
    (b"\x09\xfe", {"level": 254}),
    (b"\x0a\xfd", {"version": 253}),
]


@pytest.mark.parametrize(("raw", "says"), LABELS)
def test_label_is_read_and_packed(raw: bytes, says: dict[str, object]) -> None:
    last = bytes([raw[0] | 0x80]) + raw[1:]
    labels = LabelList(**says)  # type: ignore[arg-type]
    cursor = Cursor(last + b"behind")
    assert parse_label_list(cursor) == labels
    assert cursor.left == 6
    assert pack_label_list(labels) == last
    for cut in range(len(last)):
        with pytest.raises(FormatError):
            parse_label_list(Cursor(last[:cut]))
    with pytest.raises(FormatError):  # nothing says that it is the last
        parse_label_list(Cursor(raw))


def test_list_of_all_labels_is_packed_in_their_order() -> None:
    says = {name: value for _, one in LABELS for name, value in one.items()} | {
        "values": (("k", "vw"), ("n", -1), ("n", 64))
    }
    labels = LabelList(**says)  # type: ignore[arg-type]
    order = [0, 1, 2, 3, 4, 6, 5, 7, 8, 9, 10]
    raw = bytearray(b"".join(LABELS[at][0] for at in order))
    raw[-2] |= 0x80
    assert pack_label_list(labels) == raw
    assert parse_label_list(Cursor(raw)) == labels
    with pytest.raises(ValueError, match="index 0"):
        pack_label_list(LabelList())
    for zero in ({"span_id": 0}, {"opcode": 0}, {"keywords": 0}, {"level": 0}, {"version": 0}, {"trace_id": bytes(16)}):
        assert parse_label_list(Cursor(pack_label_list(LabelList(**zero)))) == LabelList(**zero)


def test_thread_row_is_read_and_packed() -> None:
    items = {
        b"\1\2ab": {"name": "ab"},
        b"\2\x80\1": {"process_id": 128},
        b"\3\x81\1": {"os_thread_id": 129},
        b"\4\1k\1v": {"key_values": (("k", "v"),)},
    }
    for raw, says in items.items():
        made = ThreadInfo(index=300, **says)  # type: ignore[arg-type]
        assert parse_thread(Cursor(b"\xac\2" + raw)) == made
        assert parse_thread(Cursor(b"\xac\2" + raw + b"\5what")) == made  # its length is not known
        assert parse_thread(Cursor(b"\xac\2\0" + raw)) == ThreadInfo(index=300)
        assert pack_thread(made) == struct.pack("<H", 2 + len(raw)) + b"\xac\2" + raw
        for cut in range(1, len(raw)):
            with pytest.raises(FormatError):
                parse_thread(Cursor(b"\xac\2" + raw[:cut]))
    every = ThreadInfo(index=1, name="ab", process_id=0, os_thread_id=(1 << 64) - 1, key_values=(("k", ""), ("k", "v")))
    assert parse_thread(Cursor(pack_thread(every)[2:])) == every
    assert pack_thread(every)[2:].startswith(b"\1\1\2ab\2\0\3\xff")


def test_moves_of_threads_take_effect_where_they_stand() -> None:
    moves = ThreadMoves()
    headers = HeaderColumns.allocate(6)

    def applied() -> list[int]:
        headers.thread[:] = [1, 1, 2, 3, 1, 1]
        headers.capture_thread[:] = [2, 1, 1, 1, 1, 3]
        moves.apply(headers[:0])
        moves.apply(headers)
        return [*headers.thread.tolist(), *headers.capture_thread.tolist()]

    same = [1, 1, 2, 3, 1, 1, 2, 1, 1, 1, 1, 3]
    assert moves.position == 0
    moves.note(1, 9)
    moves.note(3, 1 << 63)
    assert (moves.position, applied()) == (2, same)
    moves.advance(1)
    nine = [9 if number == 1 else number for number in same]
    assert (moves.position, applied()) == (2, nine)
    moves.advance(1)
    assert applied() == nine
    moves.note(1, None)
    moves.note(5, None)
    moves.reset()
    moves.advance(2)
    assert applied() == [1 << 63 if number == 3 else number for number in nine]
    moves.advance(4)
    assert applied() == [1 << 63 if number == 3 else number for number in same]
    assert moves.position == 5
    moves.advance(5)
    assert (moves.position, applied()) == (5, same)
    moves.note(2, 8)
    moves.note(0, 7)  # an index as any
    moves.advance(7)
    assert applied() == [8 if number == 2 else number for number in same]


def test_table_of_activity_ids_gives_each_a_number_from_1_on() -> None:
    table = GuidTable()
    raw = np.frombuffer(ONE.bytes_le + bytes(16) + OTHER.bytes_le + ONE.bytes_le, np.uint8).reshape(-1, 16)
    assert table.intern_many(raw).tolist() == [1, 0, 2, 1]
    assert table.intern_many(raw[:0]).tolist() == []
    assert (len(table), list(table), table[2]) == (3, [UUID(int=0), ONE, OTHER], OTHER)
    assert table.bytes().tobytes() == bytes(16) + ONE.bytes_le + OTHER.bytes_le
    assert [table.intern(bytes(16)), table.intern(OTHER.bytes_le), table.intern(b"x" * 16)] == [0, 2, 3]


@pytest.mark.parametrize("seed", range(20))
def test_activity_ids_have_the_numbers_in_which_they_come_one_by_one_and_many_at_once(seed: int) -> None:
    random = Random(seed)
    table, known = GuidTable(), [bytes(16)]

    def number(raw: bytes) -> int:
        if raw not in known:
            known.append(raw)
        return known.index(raw)

    for _ in range(random.randrange(12)):
        some = [random.choice((bytes(16), random.randbytes(1) * 16)) for _ in range(random.randrange(40))]
        if random.random() < 0.5:
            assert [table.intern(raw) for raw in some] == [number(raw) for raw in some]
        else:
            data = b"?".join(some)
            starts = np.arange(len(some), dtype=np.int64) * 17
            assert table.intern_at(memoryview(data), starts).tolist() == [number(raw) for raw in some]
        assert len(table) == len(known)
    table = copy.deepcopy(table)  # as another process gets it
    assert table.bytes().tobytes() == b"".join(known)
    assert list(table) == [table[index] for index in range(len(known))] == [UUID(bytes_le=raw) for raw in known]
    with pytest.raises(IndexError):
        table[len(known)]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no signals of a clock here")
def test_an_activity_id_that_a_signal_interrupts_with_the_same_has_its_number() -> None:
    """A signal's handler writes an event of the activity that the program was just about to write one of."""
    table, told = GuidTable(), list[tuple[bytes, int]]()
    now = b"?" * 16

    def interrupt(*_: object) -> None:
        told.append((now, table.intern(now)))

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    try:
        for number in range(200_000):
            now = number.to_bytes(16, "little")
            told.append((now, table.intern(now)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    data = table.bytes().tobytes()
    assert len(told) > 200_000
    assert [raw for raw, number in told if data[16 * number : 16 * number + 16] != raw] == []


@pytest.mark.parametrize("from_file", [False, True])
def test_threads_that_ask_for_all_activity_ids_at_once_get_all(from_file: bool) -> None:
    ids = [number.to_bytes(16, "little") for number in range(41)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(100):
                table = GuidTable()
                if from_file:
                    table.intern_at(memoryview(b"".join(ids)), np.arange(41, dtype=np.int64) * 16)
                else:
                    for raw in ids:
                        table.intern(raw)
                found = [pool.submit(lambda table=table: table.bytes().tobytes()) for _ in range(4)]  # type: ignore[misc]
                assert {one.result() for one in found} == {b"".join(ids)}
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("start", [-1, 1, 1 << 40])
def test_activity_ids_lie_in_what_they_are_read_from(start: int) -> None:
    table = GuidTable()
    with pytest.raises(UsageError, match="16 bytes"):
        table.intern_at(memoryview(bytes(16)), np.array([0, start], np.int64))
    assert len(table) == 1


@pytest.mark.parametrize("pointer_size", [4, 8])
def test_stacks_of_another_table_get_numbers_of_this(pointer_size: int) -> None:
    one, other = StackTable(pointer_size), StackTable(pointer_size)
    raw = [bytes([number]) * pointer_size * number for number in range(5)]
    for number in (4, 2, 0):
        one.intern(raw[number])
    ids = [other.intern(one) for one in raw]
    made = one.intern_those(other, np.array([0, *ids, 0], np.uint32))
    assert [one.raw(number) for number in made.tolist()] == [b"", *raw, b""]
    assert (made[[0, -1]] == 0).all()
    assert len(one) == 6


# NetPerf 1 and 2 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 60, 100, 117, 118, 119, 500, 5000])
def test_pieces_of_a_flat_file_are_whole_events_of_at_least_a_size(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = netperf_flat(2, [(5, SYNC + number, bytes(number), b"") for number in range(40)])
    first, *rest = read(data).headers.payload_offset.tolist()
    edges = [at - 56 for at in (first, *rest)] + [len(data) - 17]
    metadata = next(block for block in iter_blocks(data) if block.kind is BlockKind.EVENT).start
    monkeypatch.setattr("dotnetdiag.nettrace.container_flat.FLAT_CHUNK_BYTES", chunk)
    edges.insert(0, metadata)
    expected, begin = [], 0
    for end in range(1, len(edges)):
        if edges[end] - edges[begin] >= chunk or end == len(edges) - 1:
            expected.append((edges[begin], edges[end]))
            begin = end
    pieces = [(block.start, block.end) for block in iter_blocks(data) if block.kind is BlockKind.EVENT]
    assert pieces == expected
    for step in (1, 7, 300):
        reader = Reader()
        batches = [batch for at in range(0, len(data), step) for batch in reader.feed(data[at : at + step])]
        batches += reader.close()
        assert (reader.damage, sum(map(len, batches))) == (None, 40)


def test_what_is_left_of_a_flat_file_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    data = netperf_flat(2, [(5, SYNC, bytes(9), b""), (5, SYNC + 1, bytes(9), b"")])
    last = int(read(data).headers.payload_offset[1]) - 56
    for cut in range(last + 1, len(data) - 17):
        contents = read(data[:cut])
        assert contents.damage == (
            f"events at 0x{last:x}: the data ends here, without the end marker ({cut - last} bytes of a next event)"
        )
        assert len(contents) == 1
    label = len(data) - 17
    for at in range(label, len(data)):
        broken = bytearray(data)
        broken[at] ^= 1
        contents = read(broken)
        assert (contents.complete, len(contents)) == (False, 2)
    lie = bytearray(data)
    lie[last : last + 4] = struct.pack("<I", label - last - 4 + 1)
    assert read(lie).damage == f"events at 0x{last:x}: event says {label - last + 1} bytes, {label - last} left"
    limited = Reader(block_limit=label - last)
    limited.feed(data)
    assert limited.close() is not None
    assert limited.damage is not None
    assert "event of" in limited.damage


def test_header_fields_are_those_of_the_kind_as_far_as_they_are_there() -> None:
    data = struct.pack("<qII", 7, 1, 3)

    def fields(
        kind: BlockKind, *, number: int = -1, present: int = 16, version: int = 2, name: str = ""
    ) -> dict[str, int]:
        block = Block(
            kind=kind, name=name, offset=0, start=0, size=16, present=present, end=16, version=version, number=number
        )
        return header_fields(block, data)

    point = BlockKind.SEQUENCE_POINT
    assert fields(point, number=4) == {"time": 7, "flags": 1, "threads": 3}
    assert fields(point) == {"time": 7, "threads": 1}
    for present, names in (
        (0, []),
        (7, []),
        (8, ["time"]),
        (11, ["time"]),
        (12, ["time", "flags"]),
        (15, ["time", "flags"]),
    ):
        assert list(fields(point, number=4, present=present)) == names
    assert fields(BlockKind.STACK) == fields(BlockKind.LABEL_LIST, number=8) == {"first_id": 7, "count": 0}
    assert fields(BlockKind.METADATA, number=3) == {"header_size": 7}
    for none in (fields(BlockKind.TRACE), fields(BlockKind.UNKNOWN), fields(BlockKind.THREAD, number=6)):
        assert none == {}
    assert fields(BlockKind.EVENT, version=1) == fields(BlockKind.EVENT, name="events") == {}
    assert list(fields(BlockKind.EVENT, version=1, number=2)) == ["header_size", "flags", "min_time"]
    assert list(fields(BlockKind.EVENT)) == ["header_size", "flags", "min_time"]


@pytest.mark.parametrize(("size", "frames"), [(0, None), (7, None), (8, [6]), (15, [6]), (16, [6, 6])])
def test_stack_of_a_netperf_event_is_made_of_whole_pointers(size: int, frames: list[int] | None) -> None:
    stack = (struct.pack("<Q", 6) * 2)[:size]
    for data in (netperf_flat(2, [(5, SYNC, b"", stack)]), netperf_3([(1, 5, SYNC, b"", stack)])):
        contents = read(data)
        (number,) = contents.headers.stack.tolist()
        assert contents.stacks.frames(number).tolist() == (frames or [])
        assert (number != 0) == (frames is not None)
