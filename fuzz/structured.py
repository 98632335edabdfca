"""Traces with one lie: valid blocks, of which one says something that is not so. Its size, and all others, stay right."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

from fuzz.mutate import ODD

from dotnetdiag.nettrace import Block, BlockKind, iter_blocks, read

_V6_OPENING = struct.Struct("<I")
_OBJECT_SIZE = struct.Struct("<i")
_TYPE_HEADER_SIZE = 16
"""Of an object, besides its name."""

Contents: TypeAlias = list[tuple[Block, bytearray]]


def with_a_lie(source: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with one of its blocks changed; the seed itself where it has no blocks."""
    data = source.choice(seeds)
    blocks = [block for block in iter_blocks(data) if block.whole]
    if not blocks or blocks[0].name == "events" or blocks[0].size != blocks[0].present:
        return data
    contents: Contents = [(block, bytearray(data[block.start : block.start + block.size])) for block in blocks]
    source.choice(_LIES)(source, data, contents)
    return _joined(data, contents)


def _joined(data: bytes, contents: Contents) -> bytes:
    """A file of these blocks; openings and ends are those of the old one."""
    out = bytearray(data[: contents[0][0].offset])
    for block, content in contents:
        if block.number >= 0:
            out += _V6_OPENING.pack(len(content) & 0xFFFFFF | block.number << 24) + content
        elif block.kind is BlockKind.TRACE:
            out += data[block.offset : block.start] + content + b"\x06"
        else:
            out += data[block.offset : block.offset + _TYPE_HEADER_SIZE + len(block.name)]
            out += _OBJECT_SIZE.pack(len(content))
            out += bytes(-len(out) % 4) + content + b"\x06"
    last = max(block.end for block, _ in contents)
    return bytes(out + data[last:])


def _number(source: random.Random, _: bytes, contents: Contents) -> None:
    """A number of the first 32 bytes, where headers are, or of any."""
    content = source.choice(contents)[1]
    size = source.choice((1, 2, 4, 8))
    room = min(len(content), source.choice((32, len(content)))) - size
    if room >= 0:
        at = source.randrange(room + 1)
        old = int.from_bytes(content[at : at + size], "little")
        value = source.choice((source.choice(ODD), old + 1, old - 1, old * 2, -source.choice(ODD)))
        content[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _length(source: random.Random, _: bytes, contents: Contents) -> None:
    """More or fewer bytes than there are things."""
    content = source.choice(contents)[1]
    at = source.randrange(len(content) + 1)
    if source.random() < 0.5:
        del content[at : at + source.randrange(1, 40)]
    else:
        content[at:at] = source.randbytes(source.randrange(1, 40))


def _order(source: random.Random, _: bytes, contents: Contents) -> None:
    """A block twice, in another place, or missing."""
    at = source.randrange(len(contents))
    block = contents[at] if source.random() < 0.5 else contents.pop(at)
    if source.random() < 0.7:
        contents.insert(source.randrange(len(contents) + 1), block)
    if not contents:
        contents.append(block)


def _event_header(source: random.Random, data: bytes, contents: Contents) -> None:
    """A byte between two payloads: flags, a varuint, an activity id."""
    found = read(data)
    if not len(found):
        return
    row = source.randrange(len(found))
    at = int(found.headers.payload_offset[row]) - 1 - source.randrange(12)
    for block, content in contents:
        if block.start <= at < block.start + block.size:
            content[at - block.start] = source.choice((0, 0x40, 0x80, 0xFF, 0x7F, source.randrange(256)))


_LIES: tuple[Callable[[random.Random, bytes, Contents], None], ...] = (
    *(_number, _number, _length, _order, _event_header, _event_header),
)
