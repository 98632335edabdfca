"""nettrace 6: blocks that begin with their kind and size (nettrace.md §6)."""

from __future__ import annotations

import struct

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.block import Block, BlockRun
from dotnetdiag.nettrace.constants import V6_NAMES, BlockKind
from dotnetdiag.nettrace.container import Container, ContainerKind
from dotnetdiag.nettrace.usual_blocks import find_usual

_U32 = struct.Struct("<I")


class NumberedContainer(Container):
    """Begins with a Trace block and ends at the block of kind 0."""

    kind = ContainerKind.NUMBERED

    def next(self, data: memoryview, base: int, *, final: bool) -> Block | int:
        at = self.position - base
        if len(data) - at < 4:
            return 4
        header = _U32.unpack_from(data, at)[0]
        size, number = header & 0xFFFFFF, header >> 24
        if number == BlockKind.END_OF_STREAM:
            self.done = True
            self.position += 4
            return 0
        kind = BlockKind(number) if number in V6_NAMES else BlockKind.UNKNOWN
        if not self.seen_trace and kind is not BlockKind.TRACE:
            raise FormatError("the first block is not Trace", offset=self.position, where=f"block of kind {number}")
        name = V6_NAMES.get(kind, f"block of kind {number}")
        return self._cut_or_whole(data, base, final, kind, name, self.position + 4, size, 0, 0, 0, number)

    def usual_run(self, data: memoryview, base: int) -> BlockRun | None:
        """As ``Framer.usual_run``."""
        return find_usual(self, data, base, b"")
