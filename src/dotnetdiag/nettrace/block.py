"""Where a block of a file or stream begins and ends, whatever is in it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace.constants import BlockKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block. All offsets are absolute, in bytes from the first byte of the file or stream.

    ``kind`` is UNKNOWN for what this version does not know; ``number`` keeps the kind number of version 6 and
    ``version`` / ``min_reader`` those of an object. ``start`` and ``size`` bound the content (after alignment,
    before the end tag). ``present`` is the number of content bytes there are: less than ``size`` only in the last
    block of a cut file.
    """

    kind: BlockKind
    name: str
    offset: int
    start: int
    size: int
    present: int
    end: int
    version: int = 0
    min_reader: int = 0
    number: int = -1

    @property
    def whole(self) -> bool:
        """False when the file ends inside of the block."""
        return self.present == self.size


class BlockRun(Sequence[Block]):
    """Event blocks in their usual form that follow each other; ``rows``: offset, start, size, header size of each.

    ``is_numbered``: of nettrace 6, otherwise objects. Blocks are made when somebody looks at them.
    """

    __slots__ = ("is_numbered", "rows")

    def __init__(self, rows: npt.NDArray[np.int64], *, is_numbered: bool) -> None:
        self.rows, self.is_numbered = rows, is_numbered

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> BlockRun: ...
    def __getitem__(self, index: int | slice) -> Block | BlockRun:
        if isinstance(index, slice):
            return BlockRun(self.rows[index], is_numbered=self.is_numbered)
        offset, start, size, _ = self.rows[index].tolist()
        version = 0 if self.is_numbered else 2
        return Block(
            kind=BlockKind.EVENT,
            name="EventBlock",
            offset=offset,
            start=start,
            size=size,
            present=size,
            end=start + size + (not self.is_numbered),
            version=version,
            min_reader=version,
            number=int(BlockKind.EVENT) if self.is_numbered else -1,
        )


_EVENT_FIELDS = (("header_size", "<h"), ("flags", "<h"), ("min_time", "<q"), ("max_time", "<q"))
_LIST_FIELDS = (("first_id", "<I"), ("count", "<I"))
_HEADERS: dict[tuple[BlockKind, bool], tuple[tuple[str, str], ...]] = {
    (BlockKind.EVENT, False): _EVENT_FIELDS,
    (BlockKind.EVENT, True): _EVENT_FIELDS,
    (BlockKind.METADATA, False): _EVENT_FIELDS,
    (BlockKind.METADATA, True): (("header_size", "<H"),),
    (BlockKind.STACK, False): _LIST_FIELDS,
    (BlockKind.STACK, True): _LIST_FIELDS,
    (BlockKind.LABEL_LIST, True): _LIST_FIELDS,
    (BlockKind.SEQUENCE_POINT, False): (("time", "<q"), ("threads", "<I")),
    (BlockKind.SEQUENCE_POINT, True): (("time", "<q"), ("flags", "<I"), ("threads", "<I")),
}


def header_fields(block: Block, data: bytes | bytearray | memoryview) -> dict[str, int]:
    """The fixed fields a block's content begins with, by name, as far as they are there. ``data`` is the whole file.

    Empty for kinds without (Trace, Thread, unknown) and for NetPerf, whose blocks have none.
    """
    numbered = block.number >= 0
    found: dict[str, int] = {}
    if (block.kind is BlockKind.EVENT and not numbered and block.version < 2) or block.name == "events":
        return found
    at, end = block.start, block.start + block.present
    for name, code in _HEADERS.get((block.kind, numbered), ()):
        size = struct.calcsize(code)
        if at + size > end:
            break
        found[name] = struct.unpack_from(code, data, at)[0]
        at += size
    return found
