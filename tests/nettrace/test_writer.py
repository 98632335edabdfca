"""What the writer writes: known bytes, round trips of every recording into every version that can say it, refusals."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.nettrace import by_hand
from tests.nettrace.kernel_forms import COMPILED_FORMS
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import ARRAY, FIRST, NATIVE, PLAIN, SECOND, SMALL, SYNC, V6_ONLY, flood, opening, small_trace

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import (
    BlockKind,
    Contents,
    Field,
    FieldType,
    LabelList,
    Metadata,
    ThreadInfo,
    TraceInfo,
    TypeCode,
    Writer,
    iter_blocks,
    read,
    rewrite,
)
from dotnetdiag.nettrace.blobs import BLOB_BYTES, kernel_columns
from dotnetdiag.nettrace.columns import COLUMN_TYPES, HeaderColumns
from dotnetdiag.nettrace.constants import V6_BLOCK_LIMIT
from dotnetdiag.nettrace.threads import pack_thread

# What versions cannot say, with the word of the refusal. Everything else is said by every version.
CANNOT = {
    ("counters-10", 4): "an opcode",
    ("events-10", 4): "an opcode",
    ("http-10", 4): "an opcode",
    ("web-10", 4): "an opcode",
    ("v6-oncpu-10", 4): "no keys and values",
    ("v6-oncpu-10", 5): "no keys and values",
}


def written(contents: Contents, version: int, *, compressed: bool = True, keep: object = None) -> bytes:
    out = io.BytesIO()
    assert contents.info is not None
    writer = Writer.like(out, contents.info, version=version, compressed=compressed)
    rewrite(contents, writer, keep=keep)  # type: ignore[arg-type]
    return out.getvalue()


def assert_same_events(one: Contents, other: Contents, *, sequence: bool = True) -> None:
    """Equal in all but the numbering of tables."""
    names = ("metadata_id", "time", "processor", "payload_length", "is_sorted", "thread", "capture_thread")
    for name in (*names, *(("sequence",) if sequence else ())):
        assert np.array_equal(getattr(one.headers, name), getattr(other.headers, name)), name
    for row in range(len(one)):
        assert one.payload(row) == other.payload(row)
    for name in ("activity", "related"):
        columns = [
            [contents.guids[index] for index in getattr(contents.headers, name).tolist()] for contents in (one, other)
        ]
        assert columns[0] == columns[1]
    stacks = [[contents.stacks.raw(index) for index in contents.headers.stack.tolist()] for contents in (one, other)]
    assert stacks[0] == stacks[1]


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("name", recordings())
def test_recording_written_and_read_again_is_the_same(name: str, version: int) -> None:
    contents = read(data_of(name))
    cannot = CANNOT.get((name.partition(".nettrace")[0], version))
    if cannot:
        with pytest.raises(UsageError, match=cannot):
            written(contents, version)
        return
    again = read(written(contents, version))
    numbered = not contents.format.startswith("NetPerf")
    assert_same_events(contents, again, sequence=numbered)
    assert dict(again.metadata) == dict(contents.metadata)
    assert again.complete
    assert again.warnings == []
    assert again.lost.by_thread == contents.lost.by_thread
    assert again.lost.by_segment == contents.lost.by_segment
    if numbered and contents.complete:
        assert again.segment_starts.tolist() == contents.segment_starts.tolist()
    assert contents.info is not None
    assert again.info is not None
    assert replace(again.info, key_values=()) == replace(contents.info, key_values=())


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("version", [5, 6])
def test_small_trace_survives_a_change_of_version_and_form(name: str, version: int) -> None:
    contents = read(SMALL[name])
    if "NetPerf" in name:
        keep = np.isin(contents.headers.metadata_id, list(contents.metadata))
    else:
        keep = np.ones(len(contents), np.bool_)
    if "6" in name.partition(",")[0] and version == 5:
        with pytest.raises(UsageError, match="nettrace 5"):
            written(contents, version)
        return
    for compressed in (True, False):
        again = read(written(contents, version, compressed=compressed, keep=keep))
        assert again.complete
        assert again.lost.by_thread == contents.lost.by_thread
        assert again.headers.time.tolist() == contents.headers.time[keep].tolist()
        assert again.headers.thread.tolist() == contents.headers.thread[keep].tolist()
        if "6" in name:
            assert [again.labels[row] for row in again.headers.label_list] == [
                contents.labels[row] for row in contents.headers.label_list
            ]
            assert dict(again.threads) == dict(contents.threads)


def test_selection_loses_what_the_whole_lost_and_no_more() -> None:
    contents = read(SMALL["nettrace 5"])
    keep = np.arange(len(contents)) % 2 == 1
    again = read(written(contents, 5, keep=keep))
    assert again.headers.time.tolist() == contents.headers.time[keep].tolist()
    assert again.lost.total == contents.lost.total == 3
    assert set(again.metadata) == set(contents.headers.metadata_id[keep].tolist())
    nothing = read(written(contents, 5, keep=np.zeros(len(contents), np.bool_)))
    assert len(nothing) == 0
    assert nothing.complete
    assert nothing.lost.total == 3


@pytest.mark.parametrize("name", ["lossy-10.nettrace"])
def test_selection_of_a_lossy_recording_keeps_its_losses(name: str) -> None:
    contents = read(data_of(name))
    keep = np.random.default_rng(3).random(len(contents)) < 0.3
    for version in (5, 6):
        assert read(written(contents, version, keep=keep)).lost.by_thread == contents.lost.by_thread


def test_loss_before_the_first_event_survives_version_6() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_metadata(PLAIN)
        writer.add_dropped(9, 4)
        writer.write_event(1, SYNC, thread=9)
    contents = read(out.getvalue())
    assert contents.lost.by_thread == {9: 4}
    assert read(written(contents, 6)).lost.by_thread == {9: 4}


def test_unknown_blocks_are_kept_within_a_version() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_metadata(PLAIN)
        writer.write_object("Future", b"12345", version=7, min_reader=6)
        writer.write_event(1, SYNC, thread=9)
    again = written(read(out.getvalue()), 5)
    assert dict(read(again).skipped) == {"Future": 1}
    block = next(block for block in iter_blocks(again) if block.name == "Future")
    assert (again[block.start : block.start + block.size], block.version, block.min_reader) == (b"12345", 7, 6)
    out = io.BytesIO()
    with Writer(out, version=6) as writer:
        writer.write_block(77, b"12345")
    assert dict(read(written(read(out.getvalue()), 6)).skipped) == {"block of kind 77": 1}


def test_bytes_of_a_small_file_are_those_of_the_document() -> None:
    """As annotated in nettrace.md §5.10, with the numbers of a file of .NET 6: container, metadata blob, event blobs, sequence point."""
    time = 0x87_66D3_74ED  # any
    metadata = Metadata(metadata_id=1, provider="P", event_id=1, level=4, version=1, declared=False)
    out = io.BytesIO()
    with Writer(out, sync_ticks=time, process_id=9832, processors=8) as writer:
        writer.add_metadata(metadata)
        stack = writer.add_stack([])
        first = {"thread": 25112, "stack": stack, "is_sorted": True}
        writer.write_event(1, time, bytes(34), **first)  # type: ignore[arg-type]
        writer.write_event(1, time + 172, bytes(40), thread=25112, stack=stack, is_sorted=False)
        writer.write_event(1, time + 277, bytes(40), thread=25112, stack=stack, is_sorted=False)
    data = out.getvalue()
    assert data.startswith(b"Nettrace\x14\0\0\0!FastSerialization.1" + opening_5("Trace", 4))
    kinds = [block.kind for block in iter_blocks(data)]
    assert kinds == [BlockKind.TRACE, BlockKind.METADATA, BlockKind.STACK, BlockKind.EVENT, BlockKind.SEQUENCE_POINT]
    assert all(block.start % 4 == 0 for block in iter_blocks(data) if block.kind is not BlockKind.TRACE)
    blocks = {block.kind: data[block.start : block.start + block.size] for block in iter_blocks(data)}
    assert (
        blocks[BlockKind.METADATA][20:33] == b"\xc2\xff\xff\xff\xff\x0f\x00\xff\xff\xff\xff\x0f\xed"
    )  # no thread is stated
    events = blocks[BlockKind.EVENT][20:]
    assert events.startswith(b"\xcf\x01\x00\x98\xc4\x01\xff\xff\xff\xff\x0f\x98\xc4\x01\x01")
    assert b"\x80\xac\x01\x28" + bytes(40) + b"\x00\x69" + bytes(40) in events
    assert blocks[BlockKind.SEQUENCE_POINT] == struct.pack("<qiqI", time + 277, 1, 25112, 3)
    assert data.endswith(b"\x06\x01")


def opening_5(name: str, version: int) -> bytes:
    return struct.pack("<3Biii", 5, 5, 1, version, 4, len(name)) + name.encode() + b"\x06"


def test_events_in_bulk_are_cut_into_blocks_and_read_back() -> None:
    headers, payload = flood(20_000)
    for version in (4, 5, 6):
        out = io.BytesIO()
        with Writer(out, version=version, block_bytes=50_000) as writer:
            for metadata in (PLAIN, NATIVE):
                writer.add_metadata(metadata)
            if version == 6:
                for index in (100, 200):
                    writer.add_thread(ThreadInfo(index=index, os_thread_id=index))
            writer.write_events(headers, payload)
        contents = read(out.getvalue())
        assert contents.complete
        assert contents.lost.total == 0
        blocks = [block for block in contents.blocks if block.kind is BlockKind.EVENT]
        assert len(blocks) > 10
        assert max(block.size for block in blocks) <= 50_000 + 20
        assert contents.headers.time.tolist() == headers.time.tolist()
        assert contents.headers.sequence.tolist() == headers.sequence.tolist()
        assert contents.payload(777) == payload[int(headers.payload_offset[777]) :][: int(headers.payload_length[777])]


def test_sequence_numbers_wrap_without_a_loss() -> None:
    out = io.BytesIO()
    with Writer(out, version=6) as writer:
        writer.add_metadata(PLAIN)
        writer.add_thread(ThreadInfo(index=1))
        for number in (0xFFFFFFFE, 0xFFFFFFFF, 0, 1):
            writer.write_event(1, SYNC, thread=1, sequence=number)
    contents = read(out.getvalue())
    assert contents.lost.total == 0
    assert contents.headers.sequence.tolist() == [0xFFFFFFFE, 0xFFFFFFFF, 0, 1]


def test_removed_index_that_comes_again_is_read_as_another_thread() -> None:
    out = io.BytesIO()
    with Writer(out, version=6) as writer:
        writer.add_metadata(PLAIN)
        writer.add_thread(ThreadInfo(index=1, os_thread_id=10))
        writer.write_event(1, SYNC, thread=1)
        writer.add_dropped(1, 2)
        writer.remove_thread(1)
        with pytest.raises(UsageError, match="was removed"):
            writer.add_thread(ThreadInfo(index=1, os_thread_id=20))
        # TraceEvent refuses such a file, the document does not
        writer.write_block(int(BlockKind.THREAD), pack_thread(ThreadInfo(index=1, os_thread_id=20)))
        writer.write_block(int(BlockKind.EVENT), by_hand.events(by_hand.event(1))[4:])
    contents = read(out.getvalue())
    assert contents.complete
    assert contents.warnings == []
    assert [contents.threads[index].os_thread_id for index in contents.headers.thread.tolist()] == [10, 20]
    assert contents.lost.by_thread == {1: 2}


def test_several_flushes_that_forget_threads_have_their_rows_each() -> None:
    out = io.BytesIO()
    with Writer(out, version=6) as writer:
        writer.add_metadata(PLAIN)
        for turn in range(3):
            with pytest.raises(UsageError, match="without a row"):
                writer.write_event(1, SYNC + turn, thread=1)
            writer.add_thread(ThreadInfo(index=1, os_thread_id=10))
            labels = writer.add_labels(LabelList(activity=(FIRST, SECOND, FIRST)[turn]))
            stack = writer.add_stack([turn + 1])
            writer.write_event(1, SYNC + turn, thread=1, labels=labels, stack=stack)
            writer.write_sequence_point(forget_threads=True)
    contents = read(out.getvalue())
    assert sum(block.kind is BlockKind.THREAD for block in contents.blocks) == 3
    assert contents.warnings == []
    assert contents.headers.thread.tolist() == [1, 1, 1]
    assert [contents.guids[index] for index in contents.headers.activity.tolist()] == [FIRST, SECOND, FIRST]
    assert [contents.stacks.frames(index).tolist() for index in contents.headers.stack.tolist()] == [[1], [2], [3]]


def test_what_a_version_cannot_say_is_refused_and_nothing_is_written() -> None:
    out = io.BytesIO()
    writer = Writer(out, version=4)
    size = len(out.getvalue())
    with pytest.raises(UsageError, match="an opcode"):
        writer.add_metadata(replace(PLAIN, opcode=3))
    with pytest.raises(UsageError, match="an array"):
        writer.add_metadata(replace(ARRAY, opcode=None))
    with pytest.raises(UsageError, match="message template"):
        writer.add_metadata(V6_ONLY)
    with pytest.raises(UsageError, match="no thread rows"):
        writer.add_thread(ThreadInfo(index=1))
    with pytest.raises(UsageError, match="no label lists"):
        writer.add_labels(LabelList(level=1))
    with pytest.raises(UsageError, match="was not defined"):
        writer.write_event(9, 0, thread=1)
    with pytest.raises(UsageError, match="not made of pointers"):
        writer.add_stack(b"123")
    with pytest.raises(UsageError, match="numbered blocks"):
        writer.write_block(3, b"")
    headers, payload = flood(10)
    with pytest.raises(UsageError, match="not defined"):
        writer.write_events(headers, payload)
    writer.add_metadata(PLAIN)
    writer.add_metadata(PLAIN)
    with pytest.raises(UsageError, match="another event type"):
        writer.add_metadata(replace(PLAIN, name="Other"))
    with pytest.raises(UsageError, match="beyond the buffer"):
        writer.write_events(headers[headers.metadata_id == 1], payload[:10])
    assert len(out.getvalue()) == size


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"version": 3}, "cannot be written"),
        ({"pointer_size": 2}, "4 or 8 bytes"),
        ({"frequency": 0}, "ticks per second"),
        ({"sync_ticks": 1 << 64}, "does not fit"),
        ({"process_id": 1 << 32}, "does not fit"),
        ({"process_id": -1}, "does not fit"),
        ({"block_bytes": 0}, "blocks of 0 bytes"),
        ({"block_bytes": -5}, "blocks of -5 bytes"),
    ],
)
def test_writer_refuses_nonsense(options: dict[str, int], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Writer(io.BytesIO(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda raw: np.frombuffer(raw, np.uint8)])
def test_bytes_of_any_type_are_the_pointers_of_a_stack(kind: Callable[[bytes], Any]) -> None:
    raw = struct.pack("<2Q", 0x1122334455667788, 9)
    for version in (5, 6):
        out, writer = with_good_events(version)
        assert writer.add_stack(kind(raw)) == writer.add_stack([0x1122334455667788, 9]) == 1
        writer.write_event(1, GOOD, thread=1, stack=1)
        with pytest.raises(UsageError, match="not made of pointers"):
            writer.add_stack(kind(raw[:-1]))
        writer.close()
        assert read(out.getvalue()).stacks.raw(1) == raw
    with pytest.raises(UsageError, match="bytes are needed"):
        with_good_events()[1].add_stack(memoryview(raw).cast("Q"))


class Number:
    """A whole number that is no int, as those of numpy. It counts what it is compared with."""

    compared = 0

    def __index__(self) -> int:
        return 1000

    __int__ = __index__

    def __eq__(self, other: object) -> bool:
        Number.compared += 1
        return other == 1000

    __hash__ = None  # type: ignore[assignment]


def test_a_number_is_not_looked_for_among_all_that_are_allowed() -> None:
    out, writer = with_good_events()
    writer.add_dropped(1, Number())
    with pytest.raises(UsageError, match="does not fit"):
        Writer(io.BytesIO(), version=6).write_block(Number(), b"")  # type: ignore[arg-type]
    assert Number.compared == 0
    writer.close()
    assert read(out.getvalue()).lost.total == 1000


def test_numbers_of_numpy_are_counted_on_from_as_those_of_python() -> None:
    out, writer = with_good_events()
    writer.write_event(1, GOOD, thread=2, sequence=np.uint8(255))  # type: ignore[arg-type]
    writer.write_event(1, GOOD, thread=2)
    writer.write_sequence_point(threads={3: np.uint8(255)})  # type: ignore[dict-item]
    writer.write_event(1, GOOD, thread=3)
    writer.close()
    assert read(out.getvalue()).headers.sequence[GOOD:].tolist() == [255, 256, 256]


def test_columns_with_threads_without_a_row_are_refused_in_version_6() -> None:
    headers, payload = flood(500)
    for column in ("thread", "capture_thread"):
        odd = replace(headers, **{column: getattr(headers, column).copy()})
        getattr(odd, column)[-1] = 300
        out = io.BytesIO()
        with Writer(out, version=6) as writer:
            for metadata in (PLAIN, NATIVE):
                writer.add_metadata(metadata)
            for index in (100, 200):
                writer.add_thread(ThreadInfo(index=index))
            with pytest.raises(UsageError, match=r"without a row.*\[300\]"):
                writer.write_events(odd, payload)
            writer.remove_thread(200)
            with pytest.raises(UsageError, match=r"without a row.*\[200\]"):
                writer.write_events(headers, payload)
        contents = read(out.getvalue())
        assert (len(contents), contents.complete, contents.warnings) == (0, True, [])


def test_addresses_must_fit_the_pointers() -> None:
    with pytest.raises(UsageError, match="does not fit 4 bytes"):
        Writer(io.BytesIO(), pointer_size=4).add_stack([1 << 32])


def test_writer_that_failed_does_not_pretend_to_be_complete() -> None:
    out = io.BytesIO()
    with pytest.raises(RuntimeError), Writer(out):
        raise RuntimeError
    assert not read(out.getvalue()).complete


def test_object_of_a_netperf_container_is_no_nettrace() -> None:
    assert opening("Trace", 3)[:2] == b"\x04\x04"
    assert small_trace(5)[32:34] == b"\x05\x05"


def test_nested_fields_keep_their_tree() -> None:
    deep = FieldType(code=TypeCode.ARRAY, element=FieldType(code=TypeCode.OBJECT, fields=PLAIN.fields))
    metadata = replace(ARRAY, fields=(Field(name="tree", type=deep), *PLAIN.fields))
    for version in (5, 6):
        out = io.BytesIO()
        with Writer(out, version=version) as writer:
            writer.add_metadata(metadata)
        assert read(out.getvalue()).metadata[3] == metadata


def test_columns_can_be_cut_and_joined() -> None:
    headers, _ = flood(10)
    assert HeaderColumns.concatenate([headers[:4], headers[4:]]).equals(headers)
    assert len(headers[headers.time > 0]) == 10


GOOD = 100


def with_good_events(version: int = 5, **options: object) -> tuple[io.BytesIO, Writer]:
    out = io.BytesIO()
    writer = Writer(out, version=version, **options)  # type: ignore[arg-type]
    writer.add_metadata(PLAIN)
    if version == 6:
        writer.add_thread(ThreadInfo(index=1))
    for time in range(GOOD):
        writer.write_event(1, time, b"good", thread=1)
    return out, writer


@pytest.mark.parametrize(
    "event",
    [
        {"thread": -1},
        {"thread": 1 << 64},
        {"thread": 1.5},
        {"thread": 2},
        {"capture_thread": 2},
        {"capture_thread": -1},
        {"time": 1 << 63},
        {"time": -(1 << 63) - 1},
        {"time": None},
        {"sequence": 1 << 32},
        {"sequence": -1},
        {"processor": 1 << 32},
        {"stack": -1},
        {"stack": 1},
        {"labels": 1},
        {"labels": 1 << 32},
        {"metadata_id": 0},
        {"metadata_id": 1 << 32},
        {"payload": "text"},
        {"payload": 5},
        {"payload": bytes(V6_BLOCK_LIMIT)},
    ],
    ids=lambda event: "-".join(f"{name}-{str(value)[:24]}" for name, value in event.items()),
)
@pytest.mark.parametrize("compressed", [True, False])
def test_event_that_does_not_fit_is_refused_at_the_call_and_the_others_are_written(
    event: dict[str, object], compressed: bool
) -> None:
    out, writer = with_good_events(6, compressed=compressed)
    with pytest.raises((UsageError, TypeError)):
        writer.write_event(**{"metadata_id": 1, "time": 0, "payload": b"", "thread": 1, **event})  # type: ignore[arg-type]
    writer.write_event(1, GOOD, thread=1)
    writer.close()
    contents = read(out.getvalue())
    assert contents.complete
    assert len(contents) == GOOD + 1
    assert contents.lost.total == 0


def good_columns(rows: int = 3) -> HeaderColumns:
    headers = HeaderColumns.allocate(rows)
    for name in COLUMN_TYPES:
        getattr(headers, name)[:] = 0
    headers.metadata_id[:] = 1
    headers.capture_thread[:] = headers.thread[:] = 1
    headers.sequence[:] = np.arange(GOOD + 1, GOOD + 1 + rows)
    return headers


BAD_COLUMNS: dict[str, tuple[Callable[[HeaderColumns], HeaderColumns], str]] = {
    "an offset that wraps": (
        lambda one: replace(
            one, payload_offset=one.payload_offset + (2**63 - 9), payload_length=one.payload_length + np.uint32(100)
        ),
        "beyond the buffer",
    ),
    "a negative offset": (lambda one: replace(one, payload_offset=one.payload_offset - 1), "beyond the buffer"),
    "a byte too many": (lambda one: replace(one, payload_length=one.payload_length + np.uint32(11)), "beyond the buf"),
    "an unknown stack": (lambda one: replace(one, stack=one.stack + np.uint32(1)), "stack 1"),
    "unknown labels": (lambda one: replace(one, label_list=one.label_list + np.uint32(1)), "labels 1"),
    "an unknown activity": (lambda one: replace(one, activity=one.activity + np.uint32(1)), "activity"),
    "a short column": (lambda one: replace(one, sequence=one.sequence[:2]), "column sequence"),
    "a column of another type": (lambda one: replace(one, stack=one.stack.astype(np.uint16)), "column stack"),
    "a column of rows": (lambda one: replace(one, thread=one.thread.reshape(-1, 1)), "column thread"),
}


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_bad_columns_are_refused_and_the_other_events_are_written(name: str) -> None:
    change, problem = BAD_COLUMNS[name]
    out, writer = with_good_events()
    with pytest.raises(UsageError, match=problem):
        writer.write_events(change(good_columns()), b"ten bytes.")
    writer.write_events(good_columns(), b"ten bytes.")
    writer.close()
    contents = read(out.getvalue())
    assert len(contents) == GOOD + 3
    assert contents.lost.total == 0


REFERENCES: dict[str, Callable[[Writer], object]] = {
    "add_metadata": lambda writer: writer.add_metadata(replace(PLAIN, metadata_id=2, keywords=1 << 64)),
    "add_metadata of 16 MB": lambda writer: writer.add_metadata(replace(PLAIN, metadata_id=2, name="x" * (1 << 24))),
    "add_thread": lambda writer: writer.add_thread(ThreadInfo(index=1 << 64)),
    "add_thread, negative": lambda writer: writer.add_thread(ThreadInfo(index=-1)),
    "add_thread, too long": lambda writer: writer.add_thread(ThreadInfo(index=2, name="x" * 70_000)),
    "add_stack": lambda writer: writer.add_stack([-1]),
    "add_stack, array": lambda writer: writer.add_stack(np.array([-1])),
    "add_stack, float": lambda writer: writer.add_stack([1.5]),  # type: ignore[list-item]
    "add_stack of 16 MB": lambda writer: writer.add_stack(bytes(1 << 24)),
    "add_labels": lambda writer: writer.add_labels(LabelList(level=256)),
    "add_labels, short": lambda writer: writer.add_labels(LabelList(trace_id=b"123")),
    "add_labels, number": lambda writer: writer.add_labels(LabelList(values=(("n", 1 << 63),))),
    "add_dropped": lambda writer: writer.add_dropped(-1, 1),
    "add_dropped, negative": lambda writer: writer.add_dropped(1, -1),
    "add_dropped, text": lambda writer: writer.add_dropped(1, "5"),  # type: ignore[arg-type]
    "add_dropped, fraction": lambda writer: writer.add_dropped(1, 1.0),  # type: ignore[arg-type]
    "write_sequence_point": lambda writer: writer.write_sequence_point(threads={-1: 1}),
    "write_sequence_point, thread without a row": lambda writer: writer.write_sequence_point(threads={2: 1}),
    "remove_thread, without a row": lambda writer: writer.remove_thread(2),
    "write_sequence_point, number": lambda writer: writer.write_sequence_point(threads={1: 1 << 32}),
    "write_sequence_point, time": lambda writer: writer.write_sequence_point(1 << 63),
    "remove_thread": lambda writer: writer.remove_thread(-1),
    "remove_thread, number": lambda writer: writer.remove_thread(1, 1 << 32),
    "write_block": lambda writer: writer.write_block(2, bytes(1 << 24)),
    "write_block, a second Trace": lambda writer: writer.write_block(1, b""),
    "write_block, the end": lambda writer: writer.write_block(0, b""),
    "write_block, fraction": lambda writer: writer.write_block(7.0, b""),  # type: ignore[arg-type]
    "write_block, text": lambda writer: writer.write_block("7", b""),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFERENCES)
def test_what_does_not_fit_is_refused_at_the_call_and_the_events_are_written(name: str) -> None:
    out, writer = with_good_events(6)
    size = len(out.getvalue())
    with pytest.raises(UsageError):
        REFERENCES[name](writer)
    assert len(out.getvalue()) == size
    writer.close()
    contents = read(out.getvalue())
    assert contents.complete
    assert contents.warnings == []
    assert len(contents) == GOOD
    assert contents.lost.total == 0


def test_stacks_and_labels_are_unknown_behind_a_sequence_point() -> None:
    _, writer = with_good_events(6)
    ids = {"stack": writer.add_stack([1]), "labels": writer.add_labels(LabelList(level=1))}
    writer.write_event(1, GOOD, thread=1, stack=ids["stack"], labels=ids["labels"])
    writer.write_sequence_point()
    for name, number in ids.items():
        with pytest.raises(UsageError, match="since the last sequence point"):
            writer.write_event(1, GOOD, thread=1, **{name: number})  # type: ignore[arg-type]


AFTER_CLOSE: dict[str, Callable[[Writer], object]] = {
    "write_event": lambda writer: writer.write_event(1, 0, thread=1),
    "write_events": lambda writer: writer.write_events(good_columns(), b""),
    "write_events of none": lambda writer: writer.write_events(good_columns(0), b""),
    "write_sequence_point": lambda writer: writer.write_sequence_point(),
    "add_metadata": lambda writer: writer.add_metadata(PLAIN),
    "add_stack": lambda writer: writer.add_stack([]),
    "add_dropped": lambda writer: writer.add_dropped(1, 1),
    "write_object": lambda writer: writer.write_object("Future", b""),
    "write_block": lambda writer: writer.write_block(77, b""),
    "add_thread": lambda writer: writer.add_thread(ThreadInfo(index=1)),
    "add_labels": lambda writer: writer.add_labels(LabelList()),
    "remove_thread": lambda writer: writer.remove_thread(1),
    "flush": lambda writer: writer.flush(),
}


@pytest.mark.parametrize("name", AFTER_CLOSE)
@pytest.mark.parametrize("version", [5, 6])
def test_closed_writer_takes_nothing(name: str, version: int) -> None:
    out, writer = with_good_events(version)
    writer.close()
    size = len(out.getvalue())
    with pytest.raises(UsageError, match="closed"):
        AFTER_CLOSE[name](writer)
    writer.close()
    assert len(out.getvalue()) == size


def test_nothing_is_written_after_the_file_refused() -> None:
    class Full(io.BytesIO):
        full = False

        def write(self, data: object, /) -> int:
            if self.full:
                super().write(bytes(data)[:5])  # type: ignore[call-overload]
                raise OSError(28, "No space left on device")
            return super().write(data)  # type: ignore[arg-type]

    out = Full()
    writer = Writer(out)
    writer.add_metadata(PLAIN)
    writer.write_event(1, 0, thread=1)
    out.full = True
    with pytest.raises(OSError, match="No space"):
        writer.flush()
    out.full = False
    size = len(out.getvalue())
    for late in (writer.close, writer.flush, lambda: writer.write_event(1, 0, thread=1)):
        with pytest.raises(UsageError, match="writing to the file failed"):
            late()
    assert len(out.getvalue()) == size


@pytest.mark.parametrize("version", [5, 6])
def test_blocks_of_the_greatest_size_can_be_written(version: int) -> None:
    for compressed in (True, False):
        out = io.BytesIO()
        with Writer(out, version=version, block_bytes=1 << 30, compressed=compressed) as writer:
            writer.add_metadata(PLAIN)
            for index in range(40 if version == 6 else 0):
                writer.add_thread(ThreadInfo(index=index))
            for time in range(40):
                writer.write_event(1, time, bytes(1 << 20), thread=time)
            writer.write_event(1, 50, bytes(V6_BLOCK_LIMIT - 20 - BLOB_BYTES), thread=1)
        contents = read(out.getvalue())
        assert len(contents) == 41
        assert max(block.size for block in contents.blocks) <= V6_BLOCK_LIMIT


@pytest.mark.parametrize("version", [5, 6])
def test_threads_beyond_what_one_sequence_point_holds_are_listed_by_several(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dotnetdiag.nettrace.writer.THREADS_LIMIT", 60)
    out, writer = with_good_events(version)
    threads = dict.fromkeys(range(200, 400), 5)
    for index in threads if version == 6 else ():
        writer.add_thread(ThreadInfo(index=index))
    writer.write_sequence_point(99, threads, forget_threads=version == 6)
    writer.close()
    contents = read(out.getvalue())
    assert contents.complete
    assert [len(rows) for _, _, rows in contents.sequence_points[:4]] == [60, 60, 60, 20]
    assert {thread: number for _, _, rows in contents.sequence_points[:4] for thread, number in rows} == threads
    assert [forget for _, forget, _ in contents.sequence_points[:4]] == [False, False, False, version == 6]
    assert {time for time, _, _ in contents.sequence_points[:4]} == {99}


def test_a_sequence_point_never_outgrows_a_block() -> None:
    out, writer = with_good_events(6)
    writer._room = 1000
    threads = dict.fromkeys(range((1 << 64) - 400, 1 << 64), 0xFFFFFFFF)
    for index in threads:
        writer.add_thread(ThreadInfo(index=index))
    writer.write_sequence_point(threads=threads)
    writer.close()
    contents = read(out.getvalue())
    assert contents.complete
    assert max(block.size for block in contents.blocks if block.kind is BlockKind.SEQUENCE_POINT) <= 1020
    assert sum(len(rows) for _, _, rows in contents.sequence_points) == 2 * 400 + 1


@pytest.mark.parametrize("payload", [np.frombuffer(b"abc", np.uint8), "abc", 3, None, memoryview(b"abcd").cast("i")])
def test_payload_that_is_no_bytes_is_refused_and_nothing_of_the_event_is_taken(payload: object) -> None:
    out, writer = with_good_events()
    writer.write_event(1, GOOD, b"abc", thread=1)
    with pytest.raises(UsageError, match="bytes are needed"):
        writer.write_event(1, GOOD, payload, thread=1)  # type: ignore[arg-type]
    writer.write_event(1, GOOD, bytearray(b"defgh"), thread=1)
    writer.close()
    contents = read(out.getvalue())
    assert [contents.payload(row) for row in range(len(contents))][GOOD:] == [b"abc", b"defgh"]
    assert contents.lost.total == 0


@pytest.mark.parametrize("change", [{"thread": []}, {"activity": "1"}, {"time": None}, {"stack": 1.0}])
def test_values_of_other_types_are_refused(change: dict[str, object]) -> None:
    out, writer = with_good_events()
    with pytest.raises(UsageError, match=r"does not fit its field|a UUID is needed, not str"):
        writer.write_event(**{"metadata_id": 1, "time": 0, "thread": 1} | change)  # type: ignore[arg-type]
    writer.close()
    assert len(read(out.getvalue())) == GOOD


def test_activities_of_single_events_are_labels_in_version_6() -> None:
    out, writer = with_good_events(6)
    labels = writer.add_labels(LabelList(level=2, related=SECOND))
    writer.write_event(1, GOOD, thread=1, activity=FIRST)
    writer.write_event(1, GOOD, thread=1, activity=FIRST, labels=labels)
    with pytest.raises(UsageError, match="beside labels"):
        writer.write_event(1, GOOD, thread=1, related=FIRST, labels=labels)
    writer.close()
    contents = read(out.getvalue())
    rows = contents.headers[GOOD:]
    assert [contents.guids[index] for index in rows.activity.tolist()] == [FIRST, FIRST]
    assert [contents.labels[index] for index in rows.label_list.tolist()] == [
        LabelList(activity=FIRST),
        LabelList(activity=FIRST, related=SECOND, level=2),
    ]


OPENINGS: dict[str, tuple[int, dict[str, object]]] = {
    "more keys than readers take": (6, {"key_values": [(f"k{number}", "") for number in range(10_001)]}),
    "keys longer than a block": (6, {"key_values": [("k", "x" * (1 << 24))]}),
    "a lone surrogate": (6, {"key_values": [("\ud800", "v")]}),
    "a number for a text": (6, {"key_values": [("k", 1)]}),
    "keys of version 5": (5, {"key_values": [("k", "v")]}),
    "two processes": (6, {"key_values": [("ProcessId", "7")], "process_id": 5}),
    "a negative process": (6, {"process_id": -1}),
    "processors that mean unknown": (5, {"processors": 65535}),
    "negative processors": (5, {"processors": -5}),
    "no sampling": (5, {"sampling_ns": 0}),
    "a start beyond the year 9999": (5, {"start_ns": 253_402_300_800 * 10**9}),
}


@pytest.mark.parametrize("name", OPENINGS)
def test_trace_that_would_be_read_as_something_else_is_refused_before_it_begins(name: str) -> None:
    version, options = OPENINGS[name]
    out = io.BytesIO()
    with pytest.raises(UsageError):
        Writer(out, version=version, **options)  # type: ignore[arg-type]
    assert out.getvalue() == b""


def test_keys_that_older_versions_have_fields_for_are_no_obstacle() -> None:
    info = read(SMALL["nettrace 6"]).info
    assert info is not None
    assert info.key_values
    out = io.BytesIO()
    Writer.like(out, info, version=5).close()
    assert read(out.getvalue()).info == replace(info, key_values=())


def test_forgetting_threads_is_a_flag_of_version_6_only() -> None:
    out, writer = with_good_events(6)
    writer.write_sequence_point(forget_threads=2)  # type: ignore[arg-type]
    writer.add_thread(ThreadInfo(index=1))
    writer.write_event(1, GOOD, thread=1)
    writer.close()
    assert read(out.getvalue()).warnings == []
    with pytest.raises(UsageError, match="forget threads"):
        with_good_events(5)[1].write_sequence_point(forget_threads=True)


def test_drops_that_would_be_read_as_none_are_refused() -> None:
    out, writer = with_good_events()
    with pytest.raises(UsageError, match="cannot be dropped"):
        writer.add_dropped(1, 1 << 31)
    writer.add_dropped(1, 1 << 30)
    with pytest.raises(UsageError, match="beside"):
        writer.add_dropped(1, 1 << 30)
    writer.write_event(1, GOOD, thread=1)
    writer.add_dropped(1, (1 << 31) - 1)
    writer.close()
    assert read(out.getvalue()).lost.total == (1 << 30) + (1 << 31) - 1


def test_drops_before_the_first_number_of_a_thread_need_one_in_version_6() -> None:
    out, writer = with_good_events(6)
    with pytest.raises(UsageError, match="before its first number"):
        writer.add_dropped(9, 5)
    writer.add_thread(ThreadInfo(index=9))
    writer.write_sequence_point(threads={9: 0})
    writer.add_dropped(9, 5)
    writer.close()
    assert read(out.getvalue()).lost.by_thread == {9: 5}


@pytest.mark.parametrize("name", ["", "x" * 39, "ä" * 20, "\ud800", 5, "Trace"])
def test_object_whose_name_no_reader_takes_is_refused(name: str) -> None:
    out, writer = with_good_events()
    with pytest.raises(UsageError):
        writer.write_object(name, b"")
    writer.write_object("x" * 38, memoryview(b"abc"))
    with pytest.raises(UsageError, match="bytes are needed"):
        writer.write_object("Future", 5)  # type: ignore[arg-type]
    writer.close()
    assert read(out.getvalue()).complete


@pytest.mark.parametrize(
    ("version", "change"),
    [
        (6, {"name": "\ud800"}),
        (5, {"name": "a\0b"}),
        (5, {"provider_guid": FIRST}),
        (6, {"fields": (Field(name="f", type=FieldType(code=TypeCode.ARRAY)),)}),
    ],
)
def test_event_type_that_would_be_read_as_another_is_refused(version: int, change: dict[str, object]) -> None:
    out, writer = with_good_events(version)
    with pytest.raises(UsageError):
        writer.add_metadata(replace(PLAIN, metadata_id=9, **change))  # type: ignore[arg-type]
    writer.close()
    assert list(read(out.getvalue()).metadata) == [1]


def test_the_long_form_has_a_bit_less_for_metadata_ids() -> None:
    large = replace(PLAIN, metadata_id=1 << 31)
    out = io.BytesIO()
    with Writer(out, version=6) as writer:
        writer.add_metadata(large)
        writer.add_thread(ThreadInfo(index=1))
        writer.write_event(1 << 31, 1, thread=1)
    assert read(out.getvalue()).metadata[1 << 31] == large
    with pytest.raises(UsageError, match="cannot be a metadata id"):
        Writer(io.BytesIO(), version=6, compressed=False).add_metadata(large)


def test_a_block_has_room_for_its_header_too() -> None:
    out = io.BytesIO()
    first = 8 << 20
    with Writer(out, version=6, block_bytes=1 << 30, compressed=False) as writer:
        writer.add_metadata(PLAIN)
        writer.add_thread(ThreadInfo(index=1))
        for size in (first, V6_BLOCK_LIMIT - 10 - first - 2 * 52):
            writer.write_event(1, 1, bytes(size), thread=1)
    contents = read(out.getvalue())
    assert len(contents) == 2
    assert max(block.size for block in contents.blocks) <= V6_BLOCK_LIMIT


def extreme_columns() -> HeaderColumns:
    """Rows that state every field, each in as many bytes as it can take."""
    headers = HeaderColumns.allocate(4)
    odd = np.arange(4) % 2 == 1
    for name, kind in COLUMN_TYPES.items():
        largest = np.iinfo(kind).max if kind is not np.bool_ else True
        getattr(headers, name)[:] = np.where(odd, largest, np.array(largest, kind) - 1) if name != "is_sorted" else True
    headers.time[:] = [-1, 0, -1, 0]
    headers.sequence[:] = [0, 0, 0, 0]
    headers.activity[:] = headers.related[:] = [1, 2, 1, 2]
    headers.payload_offset[:] = 0
    headers.payload_length[:] = 200 + odd
    return headers


@pytest.mark.parametrize("v6", [False, True])
@pytest.mark.parametrize("kernels", COMPILED_FORMS)
def test_encoding_writes_nothing_beyond_its_buffer(kernels: ModuleType, v6: bool) -> None:
    headers = extreme_columns()
    columns = [np.ascontiguousarray(column) for column in kernel_columns(headers)]
    guids, payload = np.full(48, 7, np.uint8), np.full(201, 8, np.uint8)
    counts = []
    for room in range(4 * (201 + BLOB_BYTES) + 1):
        memory = np.full(room + 400, 0xAA, np.uint8)
        rows, size = kernels.encode(0, 4, v6, *columns, guids, payload, memory[:room])
        assert (memory[room:] == 0xAA).all()
        assert size <= room
        counts.append(rows)
    assert counts == sorted(counts)
    assert counts[200 + BLOB_BYTES] == 1, "the writer counts on it"
    assert counts[-1] == 4


@pytest.mark.parametrize("kernels", COMPILED_FORMS)
@pytest.mark.parametrize("change", [{"payload_offset": -1}, {"payload_offset": 2}, {"activity": 3}, {"related": 3}])
def test_encoding_ends_before_a_row_that_refers_to_what_is_not_there(
    kernels: ModuleType, change: dict[str, int]
) -> None:
    headers = extreme_columns()
    for name, value in change.items():
        getattr(headers, name)[2] = value
    columns = [np.ascontiguousarray(column) for column in kernel_columns(headers)]
    arrays = [*columns, np.full(48, 7, np.uint8), np.full(201, 8, np.uint8), np.zeros(4000, np.uint8)]
    rows, _ = kernels.encode(0, 4, False, *arrays)
    assert rows == 2


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("version", [5, 6])
def test_times_before_the_zero_of_the_clock_are_negative(version: int, compressed: bool) -> None:
    times = [-(1 << 63), -7, -1, 0, 5]
    out = io.BytesIO()
    with Writer(out, version=version, compressed=compressed, sync_ticks=-10) as writer:
        writer.add_metadata(PLAIN)
        if version == 6:
            writer.add_thread(ThreadInfo(index=1))
        writer.write_sequence_point(times[0])
        for time in times:
            writer.write_event(1, time, thread=1)
    data = out.getvalue()
    contents = read(data)
    assert contents.headers.time.tolist() == times
    assert contents.info is not None
    assert contents.info.sync_ticks == -10
    assert contents.sequence_points[0][0] == times[0]
    (block,) = [block for block in contents.blocks if block.kind is BlockKind.EVENT]
    assert struct.unpack_from("<qq", data, block.start + 4) == (times[0], times[-1])


REFUSED: dict[str, tuple[int, Callable[[Writer], object], str]] = {
    "a thread for another": (
        6,
        lambda writer: writer.add_thread(ThreadInfo(index=1, name="x")),
        "thread index 1 stands for another thread",
    ),
    "a row in version 5": (5, lambda writer: writer.add_thread(ThreadInfo(index=1)), "nettrace 5 has no thread rows"),
    "an end in version 5": (5, lambda writer: writer.remove_thread(1), "nettrace 5 cannot remove threads"),
    "labels in version 5": (5, lambda writer: writer.add_labels(LabelList(level=1)), "nettrace 5 has no label lists"),
    "a number in version 5": (5, lambda writer: writer.write_block(77, b""), "nettrace 5 has named objects"),
    "a name in version 6": (6, lambda writer: writer.write_object("F", b""), "nettrace 6 has numbered blocks"),
    "words for payloads": (
        5,
        lambda writer: writer.write_events(good_columns(), np.zeros(4, np.uint32)),
        "payloads in an array of uint32 with 1 dimensions",
    ),
    "rows of payloads": (
        5,
        lambda writer: writer.write_events(good_columns(), np.zeros((4, 4), np.uint8)),
        "payloads in an array of uint8 with 2 dimensions",
    ),
    "metadata id 0": (5, lambda writer: writer.add_metadata(replace(PLAIN, metadata_id=0)), "0 cannot be a metadata"),
    "a metadata id of 32 bits": (
        5,
        lambda writer: writer.add_metadata(replace(PLAIN, metadata_id=1 << 31)),
        "2147483648 cannot be a metadata id",
    ),
    "a metadata id of 33 bits": (
        6,
        lambda writer: writer.add_metadata(replace(PLAIN, metadata_id=1 << 32)),
        "4294967296 cannot be a metadata id",
    ),
    "a metadata id for another": (
        6,
        lambda writer: writer.add_metadata(replace(PLAIN, name="x")),
        "metadata id 1 stands for another event type",
    ),
    "a thread that is no such": (
        6,
        lambda writer: writer.add_thread(ThreadInfo(index=9, name="\ud800")),
        "would be read as something else",
    ),
    "labels that are no such": (
        6,
        lambda writer: writer.add_labels(LabelList(values=(("\ud800", "v"),))),
        "would be read as something else",
    ),
    "metadata that is no such": (
        6,
        lambda writer: writer.add_metadata(replace(PLAIN, metadata_id=9, name="\ud800")),
        "metadata 9 would be read as something else",
    ),
    "an event of no type": (
        5,
        lambda writer: writer.write_event(9, 0, thread=1),
        "event of metadata id 9, which was not defined",
    ),
    "an event with no such stack": (5, lambda writer: writer.write_event(1, 0, thread=1, stack=1), "with stack 1,"),
    "an event with no such labels": (6, lambda writer: writer.write_event(1, 0, thread=1, labels=1), "labels 1,"),
    "an event of no thread": (6, lambda writer: writer.write_event(1, 0, thread=2), r"without a row.*: \[2, 2\]"),
    "an event captured by none": (
        6,
        lambda writer: writer.write_event(1, 0, thread=1, capture_thread=3),
        r"without a row.*: \[3\]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_says_what_is_wrong_and_nothing_is_taken(name: str) -> None:
    version, call, problem = REFUSED[name]
    out, writer = with_good_events(version)
    expected, other = with_good_events(version)
    with pytest.raises(UsageError, match=problem):
        call(writer)
    writer.close()
    other.close()
    assert out.getvalue() == expected.getvalue()


@pytest.mark.parametrize("version", [4, 5, 6])
def test_what_is_as_large_as_a_block_is_taken_and_what_is_larger_refused(version: int) -> None:
    room = 1000 + BLOB_BYTES
    adds: list[Callable[[Writer, int], object]] = [
        lambda writer, size: writer.add_stack(bytes(size)),
        lambda writer, size: writer.write_event(1, GOOD, bytes(size), thread=1),
        lambda writer, size: writer.write_events(
            replace(good_columns(1), payload_length=np.full(1, size, np.uint32)), bytes(size)
        ),
    ]
    if version == 6:
        adds.append(lambda writer, size: writer.add_labels(LabelList(values=(("k", "v" * (size - 5)),))))
    for add in adds:
        _, writer = with_good_events(version)
        writer._room = room
        add(writer, 1000)
        with pytest.raises(UsageError, match=f"of 100[0-8] bytes does not fit a block of nettrace {version}"):
            add(writer, 1008)
    _, writer = with_good_events(version)
    writer._room = room
    writer.add_metadata(replace(PLAIN, metadata_id=2, name="x" * 300))
    with pytest.raises(UsageError, match=r"metadata of .* bytes does not fit a block"):
        writer.add_metadata(replace(PLAIN, metadata_id=3, name="x" * 1000))


def test_single_events_are_held_back_until_there_are_many_or_a_block_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.nettrace.writer.SINGLE_EVENTS_HELD", 5)
    for payload, held in ((b"", 5), (bytes(40), 3), (bytes(60), 2), (bytes(100), 1), (bytes(50), 2)):
        out = io.BytesIO()
        writer = Writer(out, block_bytes=100)
        writer.add_metadata(PLAIN)
        begun = len(out.getvalue())
        for number in range(1, 11):
            assert (len(out.getvalue()) == begun) == (number <= held)
            writer.write_event(1, number, payload, thread=1)
            assert writer.position == len(out.getvalue())


def test_position_counts_every_byte_and_blocks_are_aligned_by_it() -> None:
    out = io.BytesIO()
    writer = Writer(out)
    for size in range(9):
        writer.write_object("F" * (size + 1), bytes(size))
        assert writer.position == len(out.getvalue())
    writer.close()
    blocks = [block for block in read(out.getvalue()).blocks if block.kind is BlockKind.UNKNOWN]
    assert [(block.size, block.start % 4) for block in blocks] == [(size, 0) for size in range(9)]
    assert [b.start - a.end < 32 + len(b.name) for a, b in pairwise(blocks)] == [True] * 8


def test_writer_like_a_trace_says_of_it_what_the_trace_says() -> None:
    out = io.BytesIO()
    with Writer(
        out, version=6, pointer_size=4, start_ns=5_999_999, sync_ticks=-7, frequency=1234, process_id=9, processors=3,
        sampling_ns=77, key_values=[("mine", "1"), ("ProcessId", "9")],
    ):  # fmt: skip
        pass
    info = read(out.getvalue()).info
    assert info is not None
    assert info == TraceInfo(
        start_ns=5_000_000, sync_ticks=-7, frequency=1234, pointer_size=4, process_id=9, processors=3, sampling_ns=77,
        key_values=(("mine", "1"), ("ProcessId", "9"), ("HardwareThreadCount", "3"), ("ExpectedCPUSamplingRate", "77")),
    )  # fmt: skip
    again = io.BytesIO()
    Writer.like(again, info, version=6).close()
    assert read(again.getvalue()).info == info
    for version in (4, 5):
        with pytest.raises(UsageError, match="has no keys and values"):
            Writer.like(io.BytesIO(), info, version=version)
        older = io.BytesIO()
        old = replace(info, key_values=info.key_values[1:])
        Writer.like(older, old, version=version).close()
        assert read(older.getvalue()).info == replace(info, key_values=())
    unknown = TraceInfo(start_ns=None, sync_ticks=0, frequency=1)
    for version in (5, 6):
        out = io.BytesIO()
        Writer.like(out, unknown, version=version).close()
        assert read(out.getvalue()).info == unknown


def test_number_of_an_event_is_one_more_than_the_last_of_its_thread_whoever_said_it() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_metadata(PLAIN)
        writer.write_event(1, 1, thread=1, sequence=0xFFFFFFFE)
        writer.write_event(1, 2, thread=2, capture_thread=1)
        writer.write_event(1, 3, thread=1)
        writer.add_dropped(1, 4)
        writer.write_event(1, 4, thread=1)
        writer.write_sequence_point(threads={1: 9, 3: 6})
        writer.write_event(1, 5, thread=1)
        writer.write_event(1, 6, thread=3)
        writer.write_events(replace(good_columns(), time=np.full(3, 6)), b"")
        writer.write_event(1, 7, thread=1)
    numbers = read(out.getvalue()).headers.sequence.tolist()
    assert numbers == [0xFFFFFFFE, 0xFFFFFFFF, 0, 5, 10, 7, 101, 102, 103, 104]


def test_ids_of_stacks_and_labels_count_on_over_the_blocks_that_define_them() -> None:
    out = io.BytesIO()
    with Writer(out, version=6, block_bytes=40) as writer:
        writer.add_metadata(PLAIN)
        writer.add_thread(ThreadInfo(index=1))
        for turn in range(3):
            for number in range(1, 8):
                assert writer.add_stack([turn, number, 5]) == 7 * turn + number
                assert writer.add_labels(LabelList(values=((str(turn), number),))) == 7 * turn + number
            writer.flush()
        writer.write_event(1, 1, thread=1, stack=20, labels=20)
    data = out.getvalue()
    contents = read(data)
    assert contents.warnings == []
    assert contents.stacks.frames(int(contents.headers.stack[0])).tolist() == [2, 6, 5]
    assert contents.labels[int(contents.headers.label_list[0])].values == (("2", 6),)
    for kind, each in ((BlockKind.STACK, 1), (BlockKind.LABEL_LIST, 8)):
        found = [struct.unpack_from("<II", data, block.start) for block in contents.blocks if block.kind is kind]
        assert [first for first, _ in found] == [1 + sum(n for _, n in found[:at]) for at in range(len(found))]
        assert max(n for _, n in found) <= each
        assert max(block.size for block in contents.blocks if block.kind is kind) <= 48


def test_time_of_a_sequence_point_is_the_latest_of_what_was_written() -> None:
    for sync, events, latest in ((50, [], 50), (50, [70, 60], 70), (50, [40], 50), (-9, [-20, -5], -5)):
        out = io.BytesIO()
        writer = Writer(out, sync_ticks=sync)
        writer.add_metadata(PLAIN)
        for thread, time in enumerate(events):
            writer.write_event(1, time, thread=thread)
        writer.write_sequence_point()
        writer.write_sequence_point(90)
        writer.close(sequence_point=False)
        contents = read(out.getvalue())
        assert contents.complete
        assert [time for time, _, _ in contents.sequence_points] == [latest, 90]


def test_drops_count_together_until_something_of_the_thread_is_written() -> None:
    most = (1 << 31) - 1
    _, writer = with_good_events()
    acts: list[Callable[[], object]] = [
        lambda: writer.write_event(1, GOOD, thread=1),
        lambda: writer.write_sequence_point(),
        lambda: writer.write_events(replace(good_columns(1), sequence=np.full(1, 3, np.uint32)), b""),
    ]
    for act in acts:
        writer.add_dropped(1, most - 1)
        writer.add_dropped(1, 1)
        with pytest.raises(UsageError, match=f"1 events cannot be dropped beside {most}"):
            writer.add_dropped(1, 1)
        writer.add_dropped(1, 0)
        writer.add_dropped(2, most)
        writer.write_event(1, GOOD, thread=2)
        act()
    with pytest.raises(UsageError, match=r"2147483648 events cannot be dropped$"):
        writer.add_dropped(1, most + 1)
    with pytest.raises(UsageError, match=r"-1 events cannot be dropped$"):
        writer.add_dropped(1, -1)


def test_end_of_a_thread_says_its_last_number() -> None:
    out = io.BytesIO()
    with Writer(out, version=6) as writer:
        writer.add_metadata(PLAIN)
        for index in (1, 2, 3):
            writer.add_thread(ThreadInfo(index=index))
        writer.write_event(1, 1, thread=1, sequence=7)
        writer.add_dropped(1, 2)
        writer.remove_thread(1)
        writer.remove_thread(2)
        writer.remove_thread(3, 5)
        with pytest.raises(UsageError, match=r"without a row.*: \[1\]"):
            writer.remove_thread(1)
        writer.write_sequence_point(forget_threads=True)
        writer.add_thread(ThreadInfo(index=1))
        writer.write_event(1, 2, thread=1)
    contents = read(out.getvalue())
    assert contents.removals == [(0, 1, 9), (0, 2, 0), (0, 3, 5)]
    assert contents.sequence_points[0][2] == []
    assert contents.headers.sequence.tolist() == [7, 1]
    assert contents.lost.by_thread == {1: 2}
