"""Small traces made for tests: by the writer, and by hand where the writer does not write (NetPerf)."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

import numpy as np

from dotnetdiag.nettrace import (
    Field,
    FieldType,
    HeaderColumns,
    LabelList,
    Metadata,
    ThreadInfo,
    TypeCode,
    Writer,
)

START_NS = 1_700_000_000_123_000_000
SYNC = 5_000
FIRST = UUID("11111111-2222-3333-4444-555555555555")
SECOND = UUID("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")

PLAIN = Metadata(
    metadata_id=1,
    provider="Maker",
    event_id=7,
    name="Plain",
    keywords=0xF000,
    version=2,
    level=4,
    fields=(
        Field(name="number", type=FieldType(code=TypeCode.INT32)),
        Field(name="text", type=FieldType(code=TypeCode.STRING)),
    ),
)
NESTED = Metadata(
    metadata_id=2,
    provider="Maker",
    event_id=8,
    name="Nested",
    fields=(
        Field(
            name="",
            type=FieldType(code=TypeCode.OBJECT, fields=(Field(name="inner", type=FieldType(code=TypeCode.GUID)),)),
        ),
    ),
)
ARRAY = Metadata(
    metadata_id=3,
    provider="Maker",
    event_id=9,
    name="Array",
    opcode=11,
    fields=(Field(name="all", type=FieldType(code=TypeCode.ARRAY, element=FieldType(code=TypeCode.UINT32))),),
)
NATIVE = Metadata(metadata_id=4, provider="Native", event_id=10, declared=False)
V6_ONLY = Metadata(
    metadata_id=5,
    provider="Maker",
    event_id=10,
    name="Everything",
    keywords=1,
    version=3,
    level=5,
    opcode=1,
    fields=(
        Field(name="small", type=FieldType(code=TypeCode.VARUINT)),
        Field(name="fixed", type=FieldType(code=TypeCode.FIXED_ARRAY, element=FieldType(code=TypeCode.INT16), count=3)),
        Field(name="where", type=FieldType(code=TypeCode.DATA_LOC, element=FieldType(code=TypeCode.UTF8_CODE_UNIT))),
    ),
    provider_guid=FIRST,
    message_template="{small}",
    description="says it all",
    attributes=(("a", "b"), ("ä", "")),
)


def small_trace(version: int, *, compressed: bool = True, pointer_size: int = 8) -> bytes:
    """Two segments, stacks, activities, two capture threads, a loss of three, out-of-order events; about 1 KB."""
    out = io.BytesIO()
    writer = Writer(
        out,
        version=version,
        pointer_size=pointer_size,
        start_ns=START_NS,
        sync_ticks=SYNC,
        frequency=10_000_000,
        process_id=77,
        processors=3,
        compressed=compressed,
    )
    with writer:
        for metadata in (PLAIN, NESTED, NATIVE) if version == 4 else (PLAIN, NESTED, ARRAY, NATIVE):
            writer.add_metadata(metadata)
        if version == 6:
            writer.add_metadata(V6_ONLY)
            writer.add_thread(ThreadInfo(index=100, name="main", process_id=77, os_thread_id=4100))
            writer.add_thread(ThreadInfo(index=200, os_thread_id=4200, key_values=(("k", "v"),)))
        stack = writer.add_stack([0x1000, 0x2000, 0x3000])
        empty = writer.add_stack([])
        labels = 0
        if version == 6:
            labels = writer.add_labels(
                LabelList(activity=FIRST, related=SECOND, values=(("why", "because"), ("n", -5)), level=2)
            )
        writer.write_event(
            1, SYNC + 10, b"abcdefg", thread=100, stack=stack, activity=FIRST, related=SECOND, labels=labels
        )
        writer.write_event(1, SYNC + 30, b"hijklmn", thread=100, stack=stack, is_sorted=False)
        writer.write_event(2, SYNC + 20, bytes(16), thread=200, stack=empty)
        writer.write_event(1, SYNC + 25, b"", thread=100, capture_thread=200, processor=2, is_sorted=False)
        writer.write_sequence_point(SYNC + 40)
        writer.add_dropped(100, 3)
        other = writer.add_stack([0x2000])
        writer.write_event(4, SYNC + 50, b"x" * 300, thread=100, stack=other)
        writer.write_event(4, SYNC + 50, b"y", thread=200)
        for number in range(5):
            writer.write_event(1, SYNC + 60 + number, b"1234567", thread=200, is_sorted=number % 2 == 0)
    return out.getvalue()


def flood(events: int, *, version: int = 5, seed: int = 1) -> tuple[HeaderColumns, bytes]:
    """Random columns as a writer takes them, and their payload buffer: two threads, changing ids, sizes
    and processors.
    """
    rng = np.random.default_rng(seed)
    headers = HeaderColumns.allocate(events)
    switch = np.cumsum(rng.random(events) < 0.01) % 2
    headers.metadata_id[:] = np.where(rng.random(events) < 0.9, 1, 4)
    headers.capture_thread[:] = 100 + 100 * switch
    headers.thread[:] = headers.capture_thread
    headers.sequence[:] = 0
    for thread in (100, 200):
        rows = headers.capture_thread == thread
        headers.sequence[rows] = np.arange(1, rows.sum() + 1)
    headers.processor[:] = 0xFFFFFFFF
    headers.stack[:] = 0
    headers.time[:] = SYNC + np.cumsum(rng.integers(0, 5000, events))
    headers.payload_length[:] = np.where(rng.random(events) < 0.8, 40, rng.integers(0, 300, events))
    headers.payload_offset[:] = np.cumsum(headers.payload_length) - headers.payload_length
    headers.is_sorted[:] = np.concatenate([[True], switch[1:] != switch[:-1]])
    return headers, rng.bytes(int(headers.payload_length.sum()))


def large_trace(events: int = 100_000) -> bytes:
    """Random events in many blocks, 60 bytes for each."""
    out = io.BytesIO()
    headers, payload = flood(events)
    with Writer(out, process_id=1) as writer:
        writer.add_metadata(PLAIN)
        writer.add_metadata(NATIVE)
        writer.write_events(headers, payload)
    return out.getvalue()


# NetPerf --------------------------------------------------------------------------------------------------------------

SYSTEM_TIME = struct.pack("<8h", 2018, 2, 5, 9, 23, 53, 0, 806)
CLOCK = SYSTEM_TIME + struct.pack("<qq", SYNC, 1_000_000_000)
SERIALIZATION = b"\x14\0\0\0!FastSerialization.1"


def opening(name: str, version: int, tag: int = 4) -> bytes:
    return struct.pack("<3Biii", tag, tag, 1, version, 0, len(name)) + name.encode() + b"\x06"


def netperf_event(
    metadata: int,
    thread: int,
    time: int,
    payload: bytes,
    stack: bytes = b"",
    activity: bytes = bytes(16),
    *,
    align: bool,
) -> bytes:
    body = struct.pack("<Iiq", metadata, thread, time) + activity + bytes(16)
    body += struct.pack("<i", len(payload)) + payload + struct.pack("<i", len(stack)) + stack
    if align:
        body += bytes(-len(body) % 4)
    return struct.pack("<i", len(body)) + body


def z16(text: str) -> bytes:
    return text.encode("utf-16-le") + b"\0\0"


def netperf_3(events: Iterable[tuple[int, int, int, bytes, bytes]]) -> bytes:
    """(metadata id, thread, time, payload, stack) rows; the metadata of ids 1 and 2 is put before them."""
    out = SERIALIZATION + opening("Trace", 3)
    out += CLOCK + struct.pack("<4i", 8, 77, 4, 1_000_000) + b"\x06"
    fields = struct.pack("<i", 1) + struct.pack("<i", TypeCode.INT32) + z16("number")
    record = z16("Maker") + struct.pack("<i", 7) + z16("Plain") + struct.pack("<qii", 0xF000, 2, 4) + fields
    native = z16("Native") + struct.pack("<i", 10) + z16("") + struct.pack("<qii", 0, 1, 4) + struct.pack("<i", 0)
    content = netperf_event(0, 1, SYNC, struct.pack("<i", 1) + record, align=True)
    content += netperf_event(0, 1, SYNC, struct.pack("<i", 2) + native, align=True)
    for number, thread, time, payload, stack in events:
        content += netperf_event(number, thread, time, payload, stack, FIRST.bytes_le, align=True)
    out += opening("EventBlock", 1) + struct.pack("<i", len(content))
    out += bytes(-len(out) % 4) + content + b"\x06"
    return out + b"\x01"


def netperf_flat(major: int, events: Iterable[tuple[int, int, bytes, bytes]]) -> bytes:
    """(thread, time, payload, stack) rows of one event type of NetPerf 1 or 2."""
    out = SERIALIZATION + opening("Microsoft.DotNet.Runtime.EventPipeFile", major) + struct.pack("<I", 0) + CLOCK
    provider = FIRST.bytes_le if major == 1 else z16("Maker")
    block = struct.pack("<i", 7) + z16("Plain") + struct.pack("<qii", 0xF000, 2, 4)
    block += struct.pack("<ii", 1, TypeCode.INT32) + z16("number")
    number = len(out)
    out += netperf_event(0, 1, SYNC, provider + struct.pack("<iii", 7, 2, len(block)) + block, align=False)
    for thread, time, payload, stack in events:
        out += netperf_event(number, thread, time, payload, stack, FIRST.bytes_le, align=False)
    label = len(out)
    return out + b"\x06" + struct.pack("<4I", 1, label, label + 1, label + 9)


NETPERF_ROWS = [(1, 5, SYNC + 1, b"\6\0\0\0", b""), (1, 6, SYNC + 2, b"\6\6\6\6", bytes(8) + b"\6" * 8)]
NETPERF_ROWS += [(2, 5, SYNC + 3, b"", b"\6" * 8), (9, 5, SYNC + 4, b"?", b"")]
FLAT_ROWS = [row[1:] for row in NETPERF_ROWS]

SMALL: dict[str, bytes] = {
    "nettrace 4": small_trace(4),
    "nettrace 5": small_trace(5),
    "nettrace 6": small_trace(6),
    "nettrace 5, uncompressed, 32 bits": small_trace(5, compressed=False, pointer_size=4),
    "nettrace 6, uncompressed": small_trace(6, compressed=False),
    "NetPerf 3": netperf_3(NETPERF_ROWS),
    "NetPerf 2": netperf_flat(2, FLAT_ROWS),
    "NetPerf 1": netperf_flat(1, FLAT_ROWS),
}


def without_offsets(headers: HeaderColumns) -> HeaderColumns:
    return replace(headers, payload_offset=np.zeros(len(headers), np.int64))
