"""Threads of version 6 by their indices (nettrace.md §6.6, §6.7)."""

from __future__ import annotations

from collections.abc import Callable

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.budget import Budget, parsed_cost
from dotnetdiag.nettrace.ids import FreeNumbers
from dotnetdiag.nettrace.remarks import Remarks
from dotnetdiag.nettrace.threads import ThreadInfo, ThreadMoves, parse_thread
from dotnetdiag.wire import Cursor

_BELOW_NUMBERS = 1 << 32
"""Writers count indices up: an event whose thread has no row shall not get into another's number."""


class ThreadTable:
    """An index that is used again for another thread gets another number; ``moves`` tells the events of it.

    ``infos`` are by number, those of threads that ended too. A number is that of one thread until all are forgotten.
    """

    def __init__(self, budget: Budget, remarks: Remarks) -> None:
        self.infos: dict[int, ThreadInfo] = {}
        self.moves = ThreadMoves()
        self._numbers: dict[int, int] = {}
        self._used: dict[int, int] = {}
        """The numbers that threads have had since all were forgotten, and with what index."""
        self._free = FreeNumbers(0xFFFFFFFFFFFFFFFF)
        self._free.see(_BELOW_NUMBERS)
        self._budget, self._remarks = budget, remarks

    def number(self, index: int) -> int:
        """That of the thread which an index means now."""
        return self._numbers.get(index, index)

    def take(self, cursor: Cursor, renumber: Callable[[int, int], None]) -> None:
        """Read the rows of a ThreadBlock. ``renumber`` is told what an index meant without a row, and means from here on."""
        while cursor.left:
            row = cursor.child(cursor.u16("row size"), "thread row")
            size = row.left
            try:
                made = parse_thread(row)
            except FormatError as error:
                self._remarks.add_damage(error)
            else:
                self._define(made, row.offset, size, renumber)

    def _define(self, made: ThreadInfo, offset: int, size: int, renumber: Callable[[int, int], None]) -> None:
        there = self._numbers.get(made.index)
        if there is not None:
            if replace(made, index=there) != self.infos.get(there):
                self._remarks.warn("thread indices defined twice, differently: the first counts", offset)
            return
        kept, other = made.index, self.infos.get(made.index)
        is_known = made == other and made.index not in self._used
        if not is_known and not self._budget.affords("threads", parsed_cost(size), offset):
            return
        self._free.see(made.index)
        if other is not None and not is_known:
            kept = self._free.take(self.infos)
            self.moves.note(made.index, kept)
            if self._used.get(made.index, made.index) == made.index:  # else it is a number of another thread
                renumber(made.index, kept)
        self.infos[kept] = replace(made, index=kept)
        self._numbers[made.index] = kept
        self._used[kept] = made.index

    def remove(self, index: int, offset: int) -> int:
        """The index means nothing from here on; the number of its thread."""
        thread = self.number(index)
        if index not in self._numbers:
            self._remarks.warn("threads removed that were not there", offset)
        self._numbers.pop(index, None)
        if thread != index:
            self.moves.note(index, None)
        return thread

    def forget(self, *, keep: bool) -> None:
        """From here on indices are defined anew; ``keep``: what is known of threads stays."""
        self._numbers, self._used = {}, {}
        self.moves.reset()
        if not keep:
            self.infos = {}
            self._budget.set("threads")
