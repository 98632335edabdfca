"""What the containers of all formats have in common: a walk from block to block, by their headers alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.block import Block, BlockRun
from dotnetdiag.nettrace.constants import TAG_END, BlockKind


class ContainerKind(Enum):
    """How a file is divided."""

    FLAT = "NetPerf 1 and 2: one object, no blocks"
    OBJECTS = "NetPerf 3 and nettrace 4, 5: objects with types"
    NUMBERED = "nettrace 6: blocks with numbers"


class Container(ABC):
    """``position`` is the absolute offset of the next block, ``done`` is true behind the end marker. ``pending`` is what was
    wrong with the block given last. A block of more than ``limit`` bytes is an error.
    """

    kind: ContainerKind

    def __init__(self, position: int, major: int, limit: int | None) -> None:
        self.position, self.major, self.limit = position, major, limit
        self.done = self.seen_trace = False
        self.pending: FormatError | None = None

    @abstractmethod
    def next(self, data: memoryview, base: int, *, final: bool) -> Block | int:
        """As ``Framer.next``; what is wrong raises FormatError."""

    def usual_run(self, data: memoryview, base: int) -> BlockRun | None:  # noqa: ARG002 - most have none
        """As ``Framer.usual_run``."""
        return None

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
        self.seen_trace = self.seen_trace or kind is BlockKind.TRACE
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
