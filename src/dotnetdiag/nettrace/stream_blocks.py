"""A stream as whole blocks with copies of what is in them, to be written again elsewhere.

Rule: what stands in a block is not looked at. In nettrace 4 and 5 the place of a block decides how much filling it has, so a block is framed
anew wherever it is written.
"""

from __future__ import annotations

import struct

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.block import Block
from dotnetdiag.nettrace.constants import STREAM_BLOCK_LIMIT, TAG_END, TAG_NULL, BlockKind
from dotnetdiag.nettrace.framing import Framer
from dotnetdiag.nettrace.info import TraceInfo, parse_trace, parse_trace_v6
from dotnetdiag.wire import Cursor

_TYPE = struct.Struct("<3Biii")
_I32, _U32 = struct.Struct("<i"), struct.Struct("<I")
OBJECT_END, NUMBERED_END = bytes((TAG_NULL,)), bytes(4)
"""What stands at the end of a trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBlock:
    """One block, but for its frame. ``number`` is that of its kind in nettrace 6, -1 in older versions, whose objects have a ``name``."""

    kind: BlockKind
    content: bytes
    name: str = ""
    version: int = 2
    min_reader: int = 2
    number: int = -1
    missing_bytes: int = 0
    """At the end of a stream that is cut in the block."""

    @property
    def size_bytes(self) -> int:
        """Of the content."""
        return len(self.content)

    def framed(self, position: int) -> bytes:
        """Its bytes in a file that has ``position`` bytes before it, as far as they are there."""
        size = len(self.content) + self.missing_bytes
        if self.number >= 0:
            return _U32.pack(self.number << 24 | size) + self.content
        name = self.name.encode()
        head = _TYPE.pack(5, 5, TAG_NULL, self.version, self.min_reader, len(name)) + name + bytes((TAG_END,))
        head += _I32.pack(size)
        filling = bytes(-(position + len(head)) % 4)
        return head + filling + self.content + (b"" if self.missing_bytes else bytes((TAG_END,)))


class StreamBlocks:
    """Takes a stream of nettrace 4, 5 or 6 in pieces of any length, gives the blocks that they completed but the first: that is in
    ``opening``, with all bytes before it, and read in ``info``. ``is_done``: the end marker was there.
    """

    def __init__(self) -> None:
        self.opening = b""
        self.info: TraceInfo | None = None
        self._framer = Framer(limit=STREAM_BLOCK_LIMIT)
        self._data = bytearray()
        self._base = 0
        self._need = 1

    @property
    def is_numbered(self) -> bool:
        """Whether it is of version 6."""
        return self._framer.format.startswith("nettrace 6")

    @property
    def is_done(self) -> bool:
        return self._framer.done

    def feed(self, data: bytes | memoryview) -> list[StreamBlock]:
        """Raises FormatError for what is no stream of blocks, and UsageError for NetPerf, which has no sequence points."""
        if self.is_done:
            return []
        self._data += data
        made: list[StreamBlock] = []
        if len(self._data) < self._need:
            return made
        framer = self._framer
        with memoryview(self._data) as view:
            while isinstance(block := framer.next(view, self._base, final=False), Block):
                at = block.start - self._base
                content = bytes(view[at : at + block.size])
                if block.kind is BlockKind.TRACE and self.info is None:
                    self._open(bytes(view[: block.end - self._base]), content)
                else:
                    made.append(_stream_block(block, content))
            self._need = max(block + framer.position - self._base if not self.opening else block, 1)
        if framer.format.startswith("NetPerf"):
            raise UsageError(f"{framer.format} cannot be divided: .NET Core 3.0 and newer write nettrace")
        if framer.error is not None:
            raise framer.error
        if self.opening:  # it is kept whole
            del self._data[: framer.position - self._base]
            self._base = framer.position
        return made

    def close(self) -> StreamBlock | None:
        """No more bytes come: the block that is cut, if its header is there."""
        with memoryview(self._data) as view:
            block = self._framer.next(view, self._base, final=True)
            if not isinstance(block, Block) or not self.opening:
                return None
            at = block.start - self._base
            content = bytes(view[at : at + block.present])
        made = _stream_block(block, content)
        return replace(made, missing_bytes=max(block.size - block.present, 1))

    def _open(self, opening: bytes, content: bytes) -> None:
        parse = parse_trace_v6 if self.is_numbered else parse_trace
        self.opening, self.info = opening, parse(Cursor(content, where="Trace"))


def _stream_block(block: Block, content: bytes) -> StreamBlock:
    return StreamBlock(
        kind=block.kind,
        content=content,
        name=block.name,
        version=block.version,
        min_reader=block.min_reader,
        number=block.number,
    )
