"""Numbers of the formats (nettrace.md §1, §2, §6) and the limits this reader puts on what a file may claim."""

from __future__ import annotations

from enum import IntEnum

MAGIC = b"Nettrace"
SERIALIZATION = b"\x14\x00\x00\x00!FastSerialization.1"
FLAT_FILE = "Microsoft.DotNet.Runtime.EventPipeFile"
"""Type name of the one object of a NetPerf 1 or 2 file."""

TAG_NULL = 1
TAG_BEGIN = (4, 5)
"""BeginObject (NetPerf) and BeginPrivateObject (nettrace); either is accepted in either."""
TAG_END = 6

TYPE_NAME_LIMIT = 38
"""Longest legal type name in bytes (nettrace.md §2)."""
TRACE_SIZE = 48
"""Bytes of the Trace object of NetPerf 3 and nettrace 4, 5."""
FLAT_OPENING_SIZE = 36
"""Bytes before the first event of NetPerf 1 and 2: forward reference, SYSTEMTIME, sync ticks, frequency."""
FLAT_TAIL_SIZE = 17
"""EndObject tag and the forward reference table that end a NetPerf 1 or 2 file (nettrace.md §3)."""
FLAT_CHUNK_BYTES = 1 << 18
"""NetPerf 1 and 2 have no blocks: events are handed on in pieces of at least this size."""
V6_BLOCK_LIMIT = (1 << 24) - 1

STREAM_BLOCK_LIMIT = 64 << 20
"""Largest block a stream may hold back until it is complete. Runtimes write 100 KB, version 6 allows 16 MB."""
FIELD_DEPTH_LIMIT = 32
"""Deepest nesting of metadata fields (nettrace.md §13)."""
STACK_BYTES_LIMIT = 64 << 20
"""A streaming reader starts a new stack table at a sequence point when the old one has grown over this."""
GUIDS_LIMIT = 200_000
"""A streaming reader starts a new table of activity ids between two blocks when the old one has grown over this."""
GAPS_LIMIT = 10_000
"""Places of loss remembered one by one; totals go on being counted."""
THREADS_LIMIT = 100_000
"""Threads whose sequence numbers are followed; the longest unseen is forgotten first."""
DENSE_IDS_LIMIT = 1 << 16
"""Metadata and stack ids below this are looked up in arrays; ids above are legal and go the slow way."""
WARNINGS_LIMIT = 1_000
UNKNOWN_PROCESSOR = 0xFFFFFFFF


class BlockKind(IntEnum):
    """Kinds of blocks: the numbers of version 6 (nettrace.md §6); the objects of older versions by meaning."""

    END_OF_STREAM = 0
    TRACE = 1
    EVENT = 2
    METADATA = 3
    SEQUENCE_POINT = 4
    STACK = 5
    THREAD = 6
    REMOVE_THREAD = 7
    LABEL_LIST = 8
    UNKNOWN = -1


OBJECT_KINDS = {
    "Trace": BlockKind.TRACE,
    "EventBlock": BlockKind.EVENT,
    "MetadataBlock": BlockKind.METADATA,
    "StackBlock": BlockKind.STACK,
    "SPBlock": BlockKind.SEQUENCE_POINT,
}
V6_NAMES = {
    BlockKind.END_OF_STREAM: "EndOfStream",
    BlockKind.TRACE: "Trace",
    BlockKind.EVENT: "EventBlock",
    BlockKind.METADATA: "MetadataBlock",
    BlockKind.SEQUENCE_POINT: "SequencePoint",
    BlockKind.STACK: "StackBlock",
    BlockKind.THREAD: "ThreadBlock",
    BlockKind.REMOVE_THREAD: "RemoveThread",
    BlockKind.LABEL_LIST: "LabelList",
}
SUPPORTED_VERSIONS = {"Trace": 4, "EventBlock": 2, "MetadataBlock": 2, "StackBlock": 2, "SPBlock": 2}
"""Greatest minReaderVersion understood, per object (nettrace.md §2)."""
