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

FIELD_DEPTH_LIMIT = 32
"""Deepest nesting of metadata fields (nettrace.md §13)."""
UNKNOWN_PROCESSOR = 0xFFFFFFFF


# The budget of a reader: what it may hold at a time. Beyond it: damage, or a loss that is counted and told once. -----------

STREAM_BLOCK_LIMIT = 64 << 20
"""Largest block a stream may hold back until it is complete; a larger one is damage. Runtimes write 100 KB, version 6
allows 16 MB."""
BATCH_ROWS = 1 << 18
"""Most events of one batch: 14 MB of columns. What a block holds beyond that comes in further batches."""
STREAM_TABLES_LIMIT, FILE_TABLES_LIMIT = 128 << 20, 2 << 30
"""Bytes for what a stream or a whole file defines (metadata, stacks, threads, label lists, ids), as ``state`` estimates
them. Further definitions are not kept: their events count as such with an undefined id."""
STACK_BYTES_LIMIT = 64 << 20
"""A streaming reader starts a new stack table at a sequence point when the old one has grown over this."""
GUIDS_LIMIT = 200_000
"""A streaming reader starts a new table of activity ids between two batches when the old one has grown over this."""
THREADS_LIMIT = 100_000
"""Threads whose sequence numbers are followed (and so many that have ended), listed by one sequence point, or remembered
for what they lost; the longest unseen is forgotten first."""
GAPS_LIMIT = 10_000
"""Places of loss remembered one by one; totals go on being counted."""
WARNINGS_LIMIT = 1_000
"""Kinds of warnings, and names of unknown blocks."""


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
