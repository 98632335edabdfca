"""Containers: where each block of a file or stream begins and ends, whatever is in it (nettrace.md §1-§6).

Rule 1: a :class:`Framer` looks at headers only. It never allocates what a length claims.
Rule 2: it gives the same blocks whether the bytes come whole or one by one; after an error it gives none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.block import Block, BlockRun
from dotnetdiag.nettrace.constants import FLAT_FILE, MAGIC, SERIALIZATION
from dotnetdiag.nettrace.container import Container
from dotnetdiag.nettrace.container_flat import FlatContainer
from dotnetdiag.nettrace.container_numbered import NumberedContainer
from dotnetdiag.nettrace.container_objects import ObjectContainer
from dotnetdiag.nettrace.type_header import read_type

_TWO_WORDS = struct.Struct("<II")


def begins_as_recording(head: bytes) -> bool:
    """Whether the first bytes of a file, as far as they are there, are those of nettrace or NetPerf."""
    return MAGIC.startswith(head[:8]) or SERIALIZATION.startswith(head[:24])


class Framer:
    """Splits bytes into blocks. Sans-IO: shown the bytes that are there, it answers with a block or how many it needs.

    ``format`` and ``container`` are empty until the first bytes were seen. ``error`` is what stopped it. A block of more
    than ``limit`` bytes does.
    """

    def __init__(self, *, limit: int | None = None) -> None:
        self.format = ""
        self.container: Container | None = None
        self.error: FormatError | None = None
        self._limit = limit

    @property
    def position(self) -> int:
        """The absolute offset of the next block."""
        return 0 if self.container is None else self.container.position

    @property
    def done(self) -> bool:
        """True behind the end marker."""
        return self.container is not None and self.container.done

    def next(self, data: memoryview, base: int, *, final: bool) -> Block | int:
        """The next block, or the number of bytes from ``position`` that must be there before asking again.

        ``data[0]`` stands at the absolute offset ``base`` and must reach back to ``position``. With ``final``
        nothing comes after ``data``: a cut block is returned with what is there (once), and then ``error`` is set.
        Returns 0 when no more blocks come.
        """
        if self.error is None and self.container is not None:
            self.error = self.container.pending
        if self.done or self.error is not None:
            return 0
        try:
            need: Block | int = self._open(data, base) if self.container is None else 0
            if self.container is not None:
                need = self.container.next(data, base, final=final)
        except FormatError as error:
            self.error = error
            return 0
        if isinstance(need, Block) or self.done or not final:
            return need
        left = base + len(data) - self.position
        self.error = FormatError(
            "the file is empty"
            if not self.position and not left
            else f"the data ends here, without the end marker ({left} bytes of a next block)"
            if left
            else "the data ends here, without the end marker",
            offset=self.position,
            where="end of data",
        )
        return 0

    def ended_at(self, end: int) -> None:
        """What is there ends at an absolute offset: behind the end marker nothing may stand, and what does sets ``error``."""
        if self.done and self.error is None and end > self.position:
            text = "the data goes on behind the end marker"
            self.error = FormatError(text, offset=self.position, where="end of data")

    def usual_run(self, data: memoryview, base: int) -> BlockRun | None:
        """The event blocks from here on as far as nothing else stands between them and all is as usual.

        None where there are none: then :meth:`next` knows more.
        """
        container = self.container
        if (
            container is None
            or not container.seen_trace
            or container.pending
            or container.done
            or self.error is not None
        ):
            return None
        return container.usual_run(data, base)

    def _open(self, data: memoryview, base: int) -> int:
        """Recognise the format by its first bytes (nettrace.md §1). Returns the bytes needed, 0 when it is known."""
        at = -base
        have = len(data) - at
        head = bytes(data[at : at + 32])
        if not begins_as_recording(head):
            raise FormatError("neither a NetPerf nor a nettrace file", offset=0, where="first bytes")
        if head[:8] == MAGIC:
            if have < 12:
                return 12
            if head[8:12] == b"\0\0\0\0":
                if have < 20:
                    return 20
                major, minor = _TWO_WORDS.unpack_from(head, 12)
                if major != 6:
                    raise FormatError(f"nettrace version {major}.{minor} is not known", offset=8, where="Nettrace")
                self.format, self.container = f"nettrace 6.{minor}", NumberedContainer(20, 6, self._limit)
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
        opened = read_type(data, base, skip)
        if isinstance(opened, int):
            return opened + skip
        if opened.name == "Trace":
            wanted = 4 if skip == 32 else 3
            if opened.min_reader > wanted or opened.version != wanted:
                raise FormatError(f"Trace version {opened.version} is not known here", offset=skip, where="Trace")
            self.format = "nettrace 4" if skip == 32 else "NetPerf 3"
            self.container = ObjectContainer(skip, wanted, self._limit)
        elif opened.name == FLAT_FILE and skip == 24:
            if opened.version not in (1, 2):
                raise FormatError(
                    f"EventPipeFile version {opened.version} is not known", offset=skip, where=opened.name
                )
            self.format = f"NetPerf {opened.version}"
            self.container = FlatContainer(skip, opened.version, self._limit)
        else:
            raise FormatError(f"the first object is {opened.name!r}", offset=skip, where="first object")
        return 0


def iter_blocks(data: bytes | bytearray | memoryview) -> Iterator[Block]:
    """Every block of a whole file in file order, unknown kinds included; the last may be cut (``whole`` is False).

    Nothing but headers is read. Ends silently where the file breaks: keep a :class:`Framer` to know where and why.
    """
    view, framer = memoryview(data), Framer()
    while isinstance(block := framer.next(view, 0, final=True), Block):
        yield block
