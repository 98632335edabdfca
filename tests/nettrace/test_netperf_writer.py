"""NetPerf 3 as it is written: known bytes, round trips of recordings, refusals."""

from __future__ import annotations

import io
import struct
from uuid import UUID

import numpy as np
import pytest
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import ARRAY, FIRST, PLAIN, SECOND, SYNC, V6_ONLY

from dotnetdiag.errors import OutputError, UsageError
from dotnetdiag.nettrace import Contents, GuidTable, HeaderColumns, NetPerfWriter, read
from dotnetdiag.nettrace.columns import COLUMN_TYPES

ROWS = 3000


def columns(rows: int, **given: object) -> HeaderColumns:
    values = {name: np.zeros(rows, kind) for name, kind in COLUMN_TYPES.items()}
    for name, value in given.items():
        values[name][:] = value
    return HeaderColumns(**values)


def written_again(contents: Contents, rows: int, block_bytes: int) -> bytes:
    """The first events of a trace as NetPerf 3."""
    assert contents.info is not None
    out = io.BytesIO()
    info = contents.info
    with NetPerfWriter(
        out,
        pointer_size=info.pointer_size,
        start_ns=info.start_ns,
        sync_ticks=info.sync_ticks,
        frequency=info.frequency,
        process_id=info.process_id,
        processors=info.processors,
        sampling_ns=info.sampling_ns,
        block_bytes=block_bytes,
    ) as writer:
        headers = contents.headers[:rows]
        payloads = [contents.payload(row) for row in range(len(headers))]
        sizes = np.array([len(payload) for payload in payloads], np.int64)
        for number in np.unique(headers.metadata_id).tolist():
            writer.add_metadata(contents.metadata[number])
        ids = {number: writer.add_stack(contents.stacks.raw(number)) for number in np.unique(headers.stack).tolist()}
        values = {name: np.array(getattr(headers, name), kind) for name, kind in COLUMN_TYPES.items()}
        values["stack"][:] = [ids[number] for number in headers.stack.tolist()]
        values["payload_offset"][:] = np.cumsum(sizes) - sizes
        values["payload_length"][:] = sizes
        writer.write_events(HeaderColumns(**values), b"".join(payloads), guids=contents.guids)
        assert writer.position == len(out.getvalue())
    return out.getvalue()


@pytest.mark.parametrize("block_bytes", [1, 100_000])
@pytest.mark.parametrize("name", [name for name in recordings() if not name.startswith("v6")])
def test_events_of_every_recording_come_back(name: str, block_bytes: int) -> None:
    before = read(data_of(name))
    rows = min(ROWS, len(before)) if block_bytes > 1 else min(100, len(before))
    data = written_again(before, rows, block_bytes)
    after = read(data)
    assert after.complete
    assert not after.warnings
    assert after.format == "NetPerf 3"
    assert after.info is not None
    assert before.info is not None
    assert (after.info.start_ns, after.info.process_id) == (before.info.start_ns, before.info.process_id)
    order = np.argsort(before.headers.time[:rows], kind="stable").tolist()
    assert len(after) == rows
    for row, old in enumerate(order):
        one, other = after.headers, before.headers
        assert (one.thread[row], one.time[row]) == (other.thread[old] & 0xFFFFFFFF, other.time[old])
        assert after.payload(row) == before.payload(old)
        assert after.metadata[int(one.metadata_id[row])] == before.metadata[int(other.metadata_id[old])]
        for column in ("activity", "related"):
            assert after.guids[getattr(one, column)[row]] == before.guids[getattr(other, column)[old]]
        assert after.stacks.raw(int(one.stack[row])) == before.stacks.raw(int(other.stack[old]))


def test_bytes_are_those_of_the_document() -> None:
    out = io.BytesIO()
    writer = NetPerfWriter(
        out,
        start_ns=1520617689998 * 1_000_000 + 5,
        sync_ticks=25832611201368,
        process_id=12365,
        processors=4,
    )
    writer.add_metadata(PLAIN)
    event = columns(1, metadata_id=PLAIN.metadata_id, thread=12365, time=25832643586421, payload_length=3)
    writer.write_events(event, b"abc")
    writer.close()
    data = out.getvalue()
    head = bytes.fromhex(
        "14 00 00 00 21 46 61 73 74 53 65 72 69 61 6c 69 7a 61 74 69 6f 6e 2e 31 04 04 01 03 00 00 00 00 00 00 00 05"
        "00 00 00 54 72 61 63 65 06 e2 07 03 00 05 00 09 00 11 00 30 00 09 00 e6 03 58 41 9d 9f 7e 17 00 00 00 ca 9a"
        "3b 00 00 00 00 08 00 00 00 4d 30 00 00 04 00 00 00 40 42 0f 00 06 04 04 01 01 00 00 00 00 00 00 00 0a 00 00"
        "00 45 76 65 6e 74 42 6c 6f 63 6b 06"
    )
    assert data[: len(head)] == head
    size = struct.unpack_from("<i", data, len(head))[0]
    at = len(head) + 4
    assert at % 4 == 0
    assert data[at + 4 : at + 8] == bytes(4)  # it is metadata
    assert data[at + size] == 6
    assert data[at + size + 1 :][: len(b"\x04\x04\x01")] == b"\x04\x04\x01"
    assert data.endswith(b"\x06\x01")


def test_stacks_and_activities_stand_in_the_event_and_are_padded() -> None:
    out = io.BytesIO()
    guids = GuidTable()
    one, two = guids.intern(FIRST.bytes_le), guids.intern(SECOND.bytes_le)
    with NetPerfWriter(out, sync_ticks=SYNC) as writer:
        writer.add_metadata(ARRAY)
        stack = writer.add_stack(struct.pack("<2Q", 10, 20))
        assert writer.add_stack(struct.pack("<2Q", 10, 20)) == stack
        rows = columns(
            5,
            metadata_id=ARRAY.metadata_id,
            thread=7,
            time=np.arange(5)[::-1],
            stack=[0, stack, 0, stack, stack],
            activity=[one, 0, two, 0, 0],
            related=[0, two, 0, 0, one],
            payload_offset=np.arange(5),
            payload_length=np.arange(5),
        )
        writer.write_events(rows, b"abcdefgh", guids=guids)
    after = read(out.getvalue())
    assert [after.payload(row) for row in range(5)] == [b"efgh", b"def", b"cd", b"b", b""]
    assert [after.stacks.raw(number) for number in after.headers.stack.tolist()] == [
        struct.pack("<2Q", 10, 20) if there else b"" for there in (1, 1, 0, 1, 0)
    ]
    assert [after.guids[number] for number in after.headers.activity.tolist()] == [
        UUID(int=0),
        UUID(int=0),
        SECOND,
        UUID(int=0),
        FIRST,
    ]
    assert after.metadata[ARRAY.metadata_id] == ARRAY


def test_ids_of_stacks_begin_anew_where_other_formats_have_a_sequence_point() -> None:
    with NetPerfWriter(io.BytesIO()) as writer:
        writer.add_metadata(PLAIN)
        stack = writer.add_stack(bytes(8))
        before = writer.position
        writer.write_sequence_point(threads={1: 2})
        assert writer.position == before
        with pytest.raises(UsageError, match="which was not added"):
            writer.write_events(columns(1, metadata_id=1, stack=stack), b"")
        assert writer.add_stack(bytes(16)) == stack


REFUSED = {
    "no metadata": columns(1, metadata_id=9),
    "payload beyond the buffer": columns(1, metadata_id=1, payload_length=4),
    "a negative offset": columns(1, metadata_id=1, payload_offset=-1),
    "a thread of 64 bits": columns(1, metadata_id=1, thread=1 << 32),
    "an activity that is not there": columns(1, metadata_id=1, activity=1),
    "a stack that is not there": columns(1, metadata_id=1, stack=1),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_of_it_is_written(what: str) -> None:
    out = io.BytesIO()
    with NetPerfWriter(out) as writer:
        writer.add_metadata(PLAIN)
        with pytest.raises(UsageError):
            writer.write_events(REFUSED[what], b"abc")
        writer.write_events(columns(1, metadata_id=1, payload_length=3), b"abc")
    after = read(out.getvalue())
    assert after.complete
    assert [after.payload(row) for row in range(len(after))] == [b"abc"]


def test_what_the_format_cannot_say_is_refused() -> None:
    with NetPerfWriter(io.BytesIO()) as writer:
        writer.add_metadata(PLAIN)
        for metadata in (V6_ONLY, ARRAY.__class__(metadata_id=1, provider="Other", event_id=1, name="x")):
            with pytest.raises(UsageError):
                writer.add_metadata(metadata)
        with pytest.raises(UsageError):
            writer.add_stack(bytes(7))
    for options in (
        {"pointer_size": 5},
        {"frequency": 0},
        {"block_bytes": 0},
        {"process_id": -1},
        {"start_ns": 1 << 80},
    ):
        with pytest.raises(UsageError):
            NetPerfWriter(io.BytesIO(), **options)


def test_a_closed_writer_takes_nothing_and_one_whose_file_failed_does_not_pretend() -> None:
    out = io.BytesIO()
    writer = NetPerfWriter(out)
    writer.add_metadata(PLAIN)
    writer.close()
    writer.close()
    assert 1 in read(out.getvalue()).metadata
    with pytest.raises(UsageError, match="closed"):
        writer.write_events(columns(1, metadata_id=1), b"")

    class Full(io.RawIOBase):
        room = 200

        def write(self, data: bytes, /) -> int:  # type: ignore[override]
            taken = min(self.room, len(data))
            self.room -= taken
            return taken

    writer = NetPerfWriter(Full())
    writer.add_metadata(PLAIN)
    with pytest.raises(OutputError):
        writer.write_events(columns(1, metadata_id=1), b"")
    with pytest.raises(UsageError, match="failed"):
        writer.close()
