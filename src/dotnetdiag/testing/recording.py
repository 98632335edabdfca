"""A recorded trace, as a runtime's stream: which bytes were there when."""

from __future__ import annotations

import io
import struct
from bisect import bisect_left
from functools import cached_property
from pathlib import Path

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import InputError
from dotnetdiag.ipc.constants import TraceFormat
from dotnetdiag.nettrace import Block, Framer, Reader, Writer
from dotnetdiag.nettrace.constants import MAGIC, SERIALIZATION, TAG_NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The end of a block. ``due_ns`` after the first event of the recording its last event had happened, and the block could be sent."""

    end: int
    due_ns: int


class Recording:
    """The bytes of a trace of any version, whole or not, held in memory. Bytes that are no trace are one block; of files they are refused.

    ``end_marker`` is what ends a stream of its format; empty where a stream cannot be ended early (NetPerf 1 and 2).
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        framer = Framer()
        ends: list[int] = []
        view = memoryview(data)
        while isinstance(block := framer.next(view, 0, final=True), Block) and block.whole:
            ends.append(block.end)
        self.ends = tuple(ends) or (len(data),)
        """Offsets of the ends of blocks, ascending. What stands behind the last one (the end marker, a cut block) is sent at the end."""
        if framer.format.startswith("nettrace 6"):
            self.end_marker = b"\0\0\0\0"
        else:
            self.end_marker = bytes([TAG_NULL]) if framer.format in ("nettrace 4", "NetPerf 3") else b""

    @classmethod
    def read(cls, path: str | Path) -> Recording:
        """Of a file, which may be cut. Raises InputError for one that is no recording, OSError."""
        data = Path(path).read_bytes()
        if not (MAGIC.startswith(data[: len(MAGIC)]) or _opens_netperf(data)):
            raise InputError(str(path), "is no recording: neither NetPerf nor nettrace; packed ones are unpacked first")
        return cls(data)

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """One for each block, in file order; reading them decodes all events once."""
        reader, start = Reader(), 0
        firsts: list[int] = []
        latest: int | None = None
        lasts = []
        for end in self.ends:
            for batch in reader.feed(self.data[start:end]):
                firsts.append(int(batch.headers.time.min()))
                last = int(batch.headers.time.max())
                latest = last if latest is None else max(latest, last)
            lasts.append(latest)
            start = end
        frequency = reader.info.frequency if reader.info is not None else 1
        first = min(firsts, default=0)
        return tuple(
            Mark(end=end, due_ns=0 if last is None else (last - first) * 1_000_000_000 // frequency)
            for end, last in zip(self.ends, lasts, strict=True)
        )

    def block_end(self, position: int) -> int:
        """The end of the block in which the byte before ``position`` stands, and of the first one for 0."""
        at = bisect_left(self.ends, position)
        return self.ends[at] if at < len(self.ends) else len(self.data)


def _opens_netperf(data: bytes) -> bool:
    """As far as it goes: other files of that serialization, such as .gcdump, have another first object."""
    if not SERIALIZATION.startswith(data[: len(SERIALIZATION)]):
        return False
    framer = Framer()
    framer.next(memoryview(data), 0, final=True)
    return bool(framer.format) or framer.error is None or framer.error.where == "end of data"


def empty_trace(version: int, trace_format: int, process_id: int, start_ns: int) -> Recording:
    """What a session records in which nothing happens: ``version`` 4 or 5, or NetPerf 3 for that format."""
    file = io.BytesIO()
    with Writer(file, version=version, start_ns=start_ns, process_id=process_id):
        pass
    data = file.getvalue()
    if trace_format == TraceFormat.NETPERF:
        name = b"Trace"
        head = len(SERIALIZATION) + len(MAGIC) + struct.calcsize("<3Biii") + len(name) + 1
        opening = struct.pack("<3Biii", 5, 5, 1, 3, 3, len(name)) + name + b"\x06"
        trace = data[head : head + 48]
        data = SERIALIZATION + opening + trace + b"\x06" + bytes([TAG_NULL])
    return Recording(data)
