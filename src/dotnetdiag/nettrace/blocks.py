"""Containers: where each block of a file or stream begins and ends, whatever is in it (nettrace.md §1-§6).

Rule 1: a :class:`Framer` looks at headers only. It never allocates what a length claims.
Rule 2: it gives the same blocks whether the bytes come whole or one by one; after an error it gives none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.constants import (
    FLAT_CHUNK_BYTES,
    FLAT_FILE,
    FLAT_OPENING_SIZE,
    FLAT_TAIL_SIZE,
    MAGIC,
    OBJECT_KINDS,
    SERIALIZATION,
    SUPPORTED_VERSIONS,
    TAG_BEGIN,
    TAG_END,
    TAG_NULL,
    TRACE_SIZE,
    TYPE_NAME_LIMIT,
    V6_NAMES,
    BlockKind,
)

_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_TYPE = struct.Struct("<3Biii")
_FOUR_WORDS = struct.Struct("<4I")

_USUAL = _TYPE.pack(5, 5, TAG_NULL, 2, 2, len("EventBlock")) + b"EventBlock\x06"
"""How an EventBlock of nettrace 4 and 5 opens."""

FLAT = "flat"
"""Container of NetPerf 1 and 2: one object, no blocks."""
OBJECTS = "objects"
"""Container of NetPerf 3 and nettrace 4, 5: FastSerialization objects."""
PLAIN = "blocks"
"""Container of nettrace 6: u32 header, kind and size."""


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
    """Event blocks in their usual form that follow each other; ``rows``: offset, start, size, header size of each."""

    __slots__ = ("plain", "rows")

    def __init__(self, rows: npt.NDArray[np.int64], *, plain: bool) -> None:
        self.rows, self.plain = rows, plain

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> BlockRun: ...
    def __getitem__(self, index: int | slice) -> Block | BlockRun:
        if isinstance(index, slice):
            return BlockRun(self.rows[index], plain=self.plain)
        offset, start, size, _ = self.rows[index].tolist()
        version = 0 if self.plain else 2
        return Block(
            kind=BlockKind.EVENT,
            name="EventBlock",
            offset=offset,
            start=start,
            size=size,
            present=size,
            end=start + size + (not self.plain),
            version=version,
            min_reader=version,
            number=int(BlockKind.EVENT) if self.plain else -1,
        )


class Blocks(Sequence[Block]):
    """The blocks of a file in order. Event blocks become objects only when somebody looks at them."""

    __slots__ = ("_length", "parts")

    def __init__(self) -> None:
        self.parts: list[Block | BlockRun] = []
        self._length = 0

    def append(self, part: Block | BlockRun) -> None:
        """One block, or a run of them."""
        self.parts.append(part)
        self._length += 1 if isinstance(part, Block) else len(part)

    def __len__(self) -> int:
        return self._length

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    def __iter__(self) -> Iterator[Block]:
        for part in self.parts:
            if isinstance(part, Block):
                yield part
            else:
                yield from part

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> list[Block]: ...
    def __getitem__(self, index: int | slice) -> Block | list[Block]:
        if isinstance(index, slice):
            return list(self)[index]
        at = range(self._length)[index]
        for part in self.parts:
            length = 1 if isinstance(part, Block) else len(part)
            if at < length:
                return part if isinstance(part, Block) else part[at]
            at -= length
        raise IndexError(index)


_RUN_ROOM = 1024


@dataclass(slots=True)
class Framer:
    """Splits bytes into blocks. Sans-IO: shown the bytes that are there, it answers with a block or how many it needs.

    ``format`` and ``container`` are empty until the first bytes were seen. ``broke`` is the error that stopped it,
    ``done`` is true behind the end marker. ``position`` is the absolute offset of the next block.
    """

    format: str = ""
    container: str = ""
    major: int = 0
    minor: int = 0
    position: int = 0
    done: bool = False
    broke: FormatError | None = None
    pending: FormatError | None = None
    limit: int | None = None
    _seen_trace: bool = field(default=False)
    _room: npt.NDArray[np.int64] | None = field(default=None, repr=False, compare=False)

    def next(self, data: memoryview, base: int, *, final: bool) -> Block | int:
        """The next block, or the number of bytes from ``position`` that must be there before asking again.

        ``data[0]`` stands at the absolute offset ``base`` and must reach back to ``position``. With ``final``
        nothing comes after ``data``: a cut block is returned with what is there (once), and then ``broke`` is set.
        Returns 0 when no more blocks come.
        """
        if self.pending is not None:
            self.broke, self.pending = self.pending, None
        if self.done or self.broke is not None:
            return 0
        need: Block | int
        try:
            if not self.format:
                need = self._open(data, base)
            elif self.container == OBJECTS:
                need = self._object(data, base, final)
            elif self.container == PLAIN:
                need = self._plain(data, base, final)
            else:
                need = self._flat(data, base, final)
        except FormatError as error:
            self.broke = error
            return 0
        if isinstance(need, Block):
            return need
        if need == 0:
            return 0 if self.done else self.next(data, base, final=final)
        if final:
            left = base + len(data) - self.position
            self.broke = FormatError(
                "the file is empty"
                if not self.position and not left
                else f"the data ends here, without the end marker ({left} bytes of a next block)"
                if left
                else "the data ends here, without the end marker",
                offset=self.position,
                where="end of data",
            )
            return 0
        return need

    def maybe_run(self, data: memoryview, base: int) -> BlockRun | None:
        """The event blocks from here on as far as nothing else stands between them and all is as usual.

        None where there are none, or no kernels: then :meth:`next` knows more.
        """
        usual = self._seen_trace and self.pending is None and self.broke is None and not self.done
        plain = self.container == PLAIN
        if kernels.KERNELS is None or not usual or not (plain or self.major == 4):
            return None
        if self._room is None:
            self._room = np.empty((_RUN_ROOM, 4), np.int64)
        rows = self._room
        limit = 1 << 31 if self.limit is None else self.limit
        found = kernels.KERNELS.frame(
            data, self.position - base, base, plain, limit, b"" if plain else _USUAL, int(BlockKind.EVENT), rows
        )
        if not found:
            return None
        self.position = int(rows[found - 1, 1] + rows[found - 1, 2]) + (not plain)
        return BlockRun(rows[:found].copy(), plain=plain)

    # opening ------------------------------------------------------------------------------------------------------

    def _open(self, data: memoryview, base: int) -> int:
        """Recognise the format by its first bytes (nettrace.md §1). Returns 0 when it is known."""
        at = self.position - base
        have = len(data) - at
        head = bytes(data[at : at + 32])
        if not (MAGIC.startswith(head[:8]) or SERIALIZATION.startswith(head[:24])):
            raise FormatError("neither a NetPerf nor a nettrace file", offset=self.position, where="first bytes")
        if head[:8] == MAGIC:
            if have < 12:
                return 12
            if head[8:12] == b"\0\0\0\0":
                if have < 20:
                    return 20
                self.major, self.minor = struct.unpack_from("<II", head, 12)
                if self.major != 6:
                    raise FormatError(
                        f"nettrace version {self.major}.{self.minor} is not known", offset=8, where="Nettrace"
                    )
                self.format, self.container = f"nettrace 6.{self.minor}", PLAIN
                self.position += 20
                return 0
            if not SERIALIZATION.startswith(head[8:32]):
                raise FormatError("no FastSerialization header follows", offset=8, where="Nettrace")
            if have < 32:
                return 32
            skip = 32
        else:
            if have < 24:
                return 24
            skip = 24
        opened = self._type(data, base, self.position + skip)
        if isinstance(opened, int):
            return opened + skip
        name, version, min_reader, _ = opened
        if name == "Trace":
            wanted = 4 if skip == 32 else 3
            if min_reader > wanted or version != wanted:
                raise FormatError(
                    f"Trace version {version} is not known here", offset=self.position + skip, where="Trace"
                )
            self.format = "nettrace 4" if skip == 32 else "NetPerf 3"
            self.container, self.major = OBJECTS, wanted
            self.position += skip
        elif name == FLAT_FILE and skip == 24:
            if version not in (1, 2):
                raise FormatError(f"EventPipeFile version {version} is not known", offset=skip, where=name)
            self.format, self.container, self.major = f"NetPerf {version}", FLAT, version
            self.position += skip
        else:
            raise FormatError(f"the first object is {name!r}", offset=self.position + skip, where="first object")
        return 0

    def _type(self, data: memoryview, base: int, offset: int) -> tuple[str, int, int, int] | int:
        """(name, version, minReaderVersion, bytes) of the object opening at ``offset``, or the bytes needed
        from there.
        """
        at = offset - base
        have = len(data) - at
        if have >= 1 and data[at] not in TAG_BEGIN:
            raise FormatError(f"expected the begin of an object, found tag {data[at]}", offset=offset, where="object")
        if have < 15:
            return 15
        tag, second, null, version, min_reader, length = _TYPE.unpack_from(data, at)
        if second != tag or null != TAG_NULL:
            raise FormatError(f"expected a type, found tags {second} {null}", offset=offset + 1, where="object")
        if not 0 <= length <= TYPE_NAME_LIMIT:
            raise FormatError(f"type name of {length} bytes", offset=offset + 11, where="object")
        if have < 16 + length:
            return 16 + int(length)
        name = bytes(data[at + 15 : at + 15 + length]).decode("utf-8", "replace")
        if data[at + 15 + length] != TAG_END:
            raise FormatError("the type does not end", offset=offset + 15 + length, where=name)
        if min_reader > SUPPORTED_VERSIONS.get(name, min_reader):
            raise FormatError(f"needs a reader of version {min_reader}", offset=offset, where=name)
        return name, int(version), int(min_reader), 16 + int(length)

    # nettrace 4, 5 and NetPerf 3 ----------------------------------------------------------------------------------

    def _object(self, data: memoryview, base: int, final: bool) -> Block | int:
        at = self.position - base
        if len(data) > at and data[at] == TAG_NULL:
            self.done = True
            self.position += 1
            return 0
        if bytes(data[at : at + len(_USUAL)]) == _USUAL and len(data) - at >= len(_USUAL) + 4:
            # nearly every block of a large file: the same checks as below, without the steps in between
            size = _I32.unpack_from(data, at + len(_USUAL))[0]
            start = self.position + len(_USUAL) + 4
            start += -start % 4
            end = start + size + 1
            within = self.limit is None or size <= self.limit
            if size >= 0 and end - base <= len(data) and data[end - 1 - base] == TAG_END and within:
                offset, self.position = self.position, end
                return Block(
                    kind=BlockKind.EVENT,
                    name="EventBlock",
                    offset=offset,
                    start=start,
                    size=size,
                    present=size,
                    end=end,
                    version=2,
                    min_reader=2,
                )
        opened = self._type(data, base, self.position)
        if isinstance(opened, int):
            return opened
        name, version, min_reader, opening = opened
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

    # nettrace 6 ---------------------------------------------------------------------------------------------------

    def _plain(self, data: memoryview, base: int, final: bool) -> Block | int:
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
        if not self._seen_trace and kind is not BlockKind.TRACE:
            raise FormatError("the first block is not Trace", offset=self.position, where=f"block of kind {number}")
        name = V6_NAMES.get(kind, f"block of kind {number}")
        return self._cut_or_whole(data, base, final, kind, name, self.position + 4, size, 0, 0, 0, number)

    def _cut_or_whole(
        self,
        data: memoryview,
        base: int,
        final: bool,
        kind: BlockKind,
        name: str,
        start: int,
        size: int,
        trailer: int,
        version: int,
        min_reader: int,
        number: int,
    ) -> Block | int:
        offset = self.position
        if self.limit is not None and size > self.limit:
            raise FormatError(f"{size} bytes, more than the {self.limit} a stream may hold", offset=offset, where=name)
        end = start + size + trailer
        present = base + len(data) - start
        if present < size + trailer:
            if not final:
                return end - offset
            if present < size:
                left = max(present, 0)
                self.pending = FormatError(f"header says {size} bytes, {left} left", offset=offset, where=name)
            else:
                self.pending = FormatError("the end of the object is missing", offset=offset, where=name)
            end = base + len(data)
        elif trailer and data[end - 1 - base] != TAG_END:
            found = data[end - 1 - base]
            self.pending = FormatError(f"expected the end of the object, found tag {found}", offset=end - 1, where=name)
        self._seen_trace = self._seen_trace or kind is BlockKind.TRACE
        self.position = end
        return Block(
            kind=kind,
            name=name,
            offset=offset,
            start=min(start, end),
            size=size,
            present=max(0, min(size, present)),
            end=end,
            version=version,
            min_reader=min_reader,
            number=number,
        )

    # NetPerf 1, 2 -------------------------------------------------------------------------------------------------

    def _flat(self, data: memoryview, base: int, final: bool) -> Block | int:
        """The opening as a Trace block, then pieces of whole events as EventBlocks.

        The tail ends it (nettrace.md §3).
        """
        at = self.position - base
        have = len(data) - at
        if not self._seen_trace:
            opened = self._type(data, base, self.position)
            if isinstance(opened, int):
                return opened
            name, version, min_reader, opening = opened
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


def iter_blocks(data: bytes | bytearray | memoryview) -> Iterator[Block]:
    """Every block of a whole file in file order, unknown kinds included; the last may be cut (``whole`` is False).

    Nothing but headers is read. Ends silently where the file breaks: keep a :class:`Framer` to know where and why.
    """
    view, framer = memoryview(data), Framer()
    while isinstance(block := framer.next(view, 0, final=True), Block):
        yield block


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
