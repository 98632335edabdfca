"""What the writer writes: known bytes, round trips of every recording into every version that can say it, refusals."""

from __future__ import annotations

import io
import struct
from dataclasses import replace

import numpy as np
import pytest
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
    TypeCode,
    Writer,
    iter_blocks,
    read,
    rewrite,
)
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.threads import pack_thread

# What versions cannot say, with the word of the refusal. Everything else is said by every version.
CANNOT = {
    ("counters-10", 4): "an opcode",
    ("events-10", 4): "an opcode",
    ("http-10", 4): "an opcode",
    ("web-10", 4): "an opcode",
    ("v6-oncpu-10", 4): "a field type of version 6",
    ("v6-oncpu-10", 5): "a field type of version 6",
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
    """The annotated file of nettrace.md §5.10: container, metadata blob, event blobs, sequence point."""
    time = 0x87_66D3_74ED  # any; the document shows the form, not this number
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
        writer.write_event(1, SYNC + 1, thread=1)
    contents = read(out.getvalue())
    assert contents.complete
    assert contents.warnings == []
    assert [contents.threads[index].os_thread_id for index in contents.headers.thread.tolist()] == [10, 20]
    assert contents.lost.by_thread == {1: 2}


def test_several_flushes_that_forget_threads_repeat_their_rows() -> None:
    out = io.BytesIO()
    with Writer(out, version=6) as writer:
        writer.add_metadata(PLAIN)
        writer.add_thread(ThreadInfo(index=1, os_thread_id=10))
        for turn in range(3):
            labels = writer.add_labels(LabelList(activity=(FIRST, SECOND, FIRST)[turn]))
            stack = writer.add_stack([turn + 1])
            writer.write_event(1, SYNC + turn, thread=1, labels=labels, stack=stack)
            writer.write_sequence_point(forget_threads=True)
    contents = read(out.getvalue())
    # once for each flush, and before the last sequence point
    assert sum(block.kind is BlockKind.THREAD for block in contents.blocks) == 4
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
    ],
)
def test_writer_refuses_nonsense(options: dict[str, int], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Writer(io.BytesIO(), **options)  # type: ignore[arg-type]


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
