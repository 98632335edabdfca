"""NetPerf 1 and 2: one object that is all events, without blocks (nettrace.md §3)."""

from __future__ import annotations

import struct

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.block import Block
from dotnetdiag.nettrace.constants import FLAT_CHUNK_BYTES, FLAT_OPENING_SIZE, FLAT_TAIL_SIZE, TAG_END, BlockKind
from dotnetdiag.nettrace.container import Container, ContainerKind
from dotnetdiag.nettrace.type_header import read_type

_U32 = struct.Struct("<I")
_FOUR_WORDS = struct.Struct("<4I")


class FlatContainer(Container):
    """The opening as a Trace block, then pieces of whole events as EventBlocks, until the tail."""

    kind = ContainerKind.FLAT

    def next(self, data: memoryview, base: int, *, final: bool) -> Block | int:
        """The opening as a Trace block, then pieces of whole events as EventBlocks.

        The tail ends it (nettrace.md §3).
        """
        at = self.position - base
        have = len(data) - at
        if not self.seen_trace:
            opened = read_type(data, base, self.position)
            if isinstance(opened, int):
                return opened
            name, version, min_reader, opening = opened.name, opened.version, opened.min_reader, opened.size
            start = self.position + opening
            return self._cut_or_whole(
                data, base, final, BlockKind.TRACE, name, start, FLAT_OPENING_SIZE, 0, version, min_reader, -1
            )
        end = len(data)
        tail = final and self._is_tail(data, base)
        if tail:
            end -= FLAT_TAIL_SIZE
        limit = end if final else end - FLAT_TAIL_SIZE
        stop, too_long = at, False
        # without `final` the last 17 bytes may be the tail: an event counts only when more than that follows it
        while stop - at < FLAT_CHUNK_BYTES and stop + 4 <= limit:
            extent = 4 + _U32.unpack_from(data, stop)[0]
            too_long = self.limit is not None and extent > self.limit
            if too_long and stop == at:
                raise FormatError(f"event of {extent} bytes", offset=base + stop, where="events")
            if too_long or stop + extent > limit:
                break
            stop += extent
        size = stop - at
        offset = self.position
        if size and (final or too_long or size >= FLAT_CHUNK_BYTES):
            self.position += size
            return Block(
                kind=BlockKind.EVENT,
                name="events",
                offset=offset,
                start=offset,
                size=size,
                present=size,
                end=offset + size,
                version=self.major,
            )
        if not final:
            # nothing comes before a chunk is full: it is looked at again only then
            extent = 4 if stop + 4 > limit else 4 + int(_U32.unpack_from(data, stop)[0])
            return max(have + 1, FLAT_CHUNK_BYTES, size + extent + FLAT_TAIL_SIZE)
        if tail and stop == end:
            self.done = True
            self.position = base + len(data)
            return 0
        left = end - at
        if left >= 4 and tail:
            problem = f"event says {4 + _U32.unpack_from(data, at)[0]} bytes, {left} left"
        else:
            problem = f"the data ends here, without the end marker ({left} bytes of a next event)"
        raise FormatError(problem, offset=offset, where="events")

    def _is_tail(self, data: memoryview, base: int) -> bool:
        """True when the data ends with the end tag and a forward reference table that points to it."""
        at = len(data) - FLAT_TAIL_SIZE
        if at < self.position - base or data[at] != TAG_END:
            return False
        label = base + at
        return _FOUR_WORDS.unpack_from(data, at + 1) == (1, label, label + 1, label + 9)
