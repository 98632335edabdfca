"""The stacks of threads over time as text: an event whenever a frame is entered or left.

A change from one stack to another is written again and again, at other times. Its text without the times is made once,
in pieces between which the time stands; joining those is all there is to do for a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO

from dotnetdiag.export.walk import Paths
from dotnetdiag.trace.stack_tree import StackTree

_KEPT = 1 << 25
"""Letters of pieces that are kept for the next time; names may be long."""
_WRITTEN = 1 << 20
"""Letters that are joined before they are written."""


class Timeline:
    """Writes the events of a tree's nodes. ``enter`` and ``leave`` give what stands before the time; ``end`` behind."""

    def __init__(
        self, tree: StackTree, enter: Callable[[int], str], leave: Callable[[int], str], end: Callable[[int], str]
    ) -> None:
        self._paths = Paths(tree)
        self._enter, self._leave, self._end = enter, leave, end
        self._made: dict[tuple[int, int], list[str]] = {}
        self._kept = 0

    def _between(self, before: int, after: int) -> list[str]:
        left, entered = self._paths.between(before, after)
        pieces, end = [], ""
        for nodes, begin in ((left, self._leave), (entered, self._enter)):
            for node in nodes:
                pieces.append(f"{end},{begin(node)}" if end else begin(node))
                end = self._end(node)
        pieces.append(end)
        length = sum(map(len, pieces))
        self._kept += length
        if self._kept > _KEPT:
            self._made.clear()
            self._kept = length
        self._made[before, after] = pieces
        return pieces

    def write(self, file: IO[bytes], found: Iterable[tuple[float, int, int]], first: bool = True) -> None:
        """Write the changes (time, node before, node after), with commas between all events and one before them unless
        ``first``.
        """
        texts: list[str] = []
        size, made = 0, self._made
        for time, before, after in found:
            if before == after:
                continue
            pieces = made.get((before, after)) or self._between(before, after)
            text = repr(time).join(pieces)
            texts.append(text)
            size += len(text)
            if size > _WRITTEN:
                file.write((("" if first else ",") + ",".join(texts)).encode("ascii"))
                texts, size, first = [], 0, False
        if texts:
            file.write((("" if first else ",") + ",".join(texts)).encode("ascii"))
