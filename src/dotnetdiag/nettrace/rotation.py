"""A stream divided into parts of about one size: each is a valid trace, and together they have every event once.

Rule: a part ends at the first sequence point behind its size. A runtime writes one for 10 MB of its buffers, which is less in the stream.
"""

from __future__ import annotations

from collections.abc import Callable

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.part import Head, Part, Sink
from dotnetdiag.nettrace.stream_blocks import StreamBlock, StreamBlocks


class Rotation:
    """Takes a stream in pieces. ``begin`` gives the file of the next part, ``end`` is told of a part that is to be closed: it may write more
    to it, and calls ``Part.close``. ``head`` is what parts repeat, None until the stream has begun.
    """

    def __init__(self, size_bytes: int, begin: Callable[[], Sink], end: Callable[[Part, bool], None]) -> None:
        if size_bytes < 1:
            raise UsageError(f"parts of {size_bytes} bytes")
        self.head: Head | None = None
        self.part: Part | None = None
        """The one that is written."""
        self._size_bytes, self._begin, self._end = size_bytes, begin, end
        self._blocks = StreamBlocks()
        self._is_full = False

    def feed(self, data: bytes | memoryview) -> None:
        """Take more bytes. Raises FormatError for what cannot be divided, and what ``begin`` and ``end`` raise."""
        for block in self._blocks.feed(data):
            self._take(block)
        if self.part is None and self._blocks.info is not None:
            self._part()

    def close(self) -> bool:
        """No more bytes come: the last part ends as the stream does. Whether that had its end."""
        if not self._blocks.is_done and (cut := self._blocks.close()) is not None:
            self._take(cut)
        if self.part is not None:
            part, self.part = self.part, None
            self._end(part, self._blocks.is_done)
        return self._blocks.is_done

    def _take(self, block: StreamBlock) -> None:
        if self._is_full:
            self._turn()
        part = self._part()
        part.write(block)
        if not block.missing_bytes:
            assert self.head is not None
            self.head.follow(block)
        if block.kind is BlockKind.SEQUENCE_POINT and part.position >= self._size_bytes:
            self._is_full = True  # a new part begins with the next block, if there is one

    def _turn(self) -> None:
        assert self.part is not None
        assert self.head is not None
        before, numbers = self.part, self.part.last_numbers()
        self.part = Part(self.head, self._begin(), numbers=numbers)
        self._is_full = False
        self._end(before, True)

    def _part(self) -> Part:
        if self.part is None:
            blocks = self._blocks
            assert blocks.info is not None
            self.head = Head(blocks.opening, blocks.info, is_numbered=blocks.is_numbered)
            self.part = Part(self.head, self._begin())
        return self.part
