"""NetPerf 3 and nettrace 4, 5: a Trace object and blocks, each an object with its type (nettrace.md §4, §5)."""

from __future__ import annotations

import struct

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.block import Block, BlockRun
from dotnetdiag.nettrace.constants import OBJECT_KINDS, TAG_NULL, TRACE_SIZE, BlockKind
from dotnetdiag.nettrace.container import Container, ContainerKind
from dotnetdiag.nettrace.type_header import TYPE, read_type
from dotnetdiag.nettrace.usual_blocks import find_usual

_I32 = struct.Struct("<i")
_USUAL = TYPE.pack(5, 5, TAG_NULL, 2, 2, len("EventBlock")) + b"EventBlock\x06"
"""How an EventBlock of nettrace 4 and 5 opens."""


class ObjectContainer(Container):
    """Ends at the tag of the null object."""

    kind = ContainerKind.OBJECTS

    def next(self, data: memoryview, base: int, *, final: bool) -> Block | int:
        at = self.position - base
        if len(data) > at and data[at] == TAG_NULL:
            self.done = True
            self.position += 1
            return 0
        opened = read_type(data, base, self.position)
        if isinstance(opened, int):
            return opened
        name, version, min_reader, opening = opened.name, opened.version, opened.min_reader, opened.size
        if name == "Trace":
            start, size = self.position + opening, int(TRACE_SIZE)
        else:
            if len(data) - at < opening + 4:
                return opening + 4
            size = _I32.unpack_from(data, at + opening)[0]
            if size < 0:
                raise FormatError(f"block size {size}", offset=self.position, where=name)
            start = self.position + opening + 4
            start += -start % 4
        return self._cut_or_whole(
            data, base, final, OBJECT_KINDS.get(name, BlockKind.UNKNOWN), name, start, size, 1, version, min_reader, -1
        )

    def usual_run(self, data: memoryview, base: int) -> BlockRun | None:
        """As ``Framer.usual_run``."""
        return find_usual(self, data, base, _USUAL) if self.major == 4 else None
