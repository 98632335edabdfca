"""Label lists of version 6 by their ids (nettrace.md §6.8)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.budget import ID_COST, Budget, parsed_cost
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.ids import IdMap
from dotnetdiag.nettrace.labels import LabelList, parse_label_list
from dotnetdiag.nettrace.remarks import Remarks
from dotnetdiag.wire import Cursor

_LEAST = 8


class LabelTable:
    """Each list once. ``lists[0]`` is the empty one; ``ids`` says what list an id of the file stands for now."""

    def __init__(self, budget: Budget, remarks: Remarks) -> None:
        self._budget, self._remarks = budget, remarks
        self._begin()

    def _begin(self) -> None:
        self.lists: list[LabelList] = [LabelList()]
        self._numbers: dict[LabelList, int] = {}
        self._guids = np.zeros((_LEAST, 2), np.uint32)
        self._has_guids = False
        self.ids = IdMap()

    def take(self, cursor: Cursor, guids: GuidTable) -> None:
        """Read a LabelListBlock; the activity ids of the lists go into ``guids``."""
        first, count = cursor.u32("first label list"), cursor.u32("label list count")
        if not first or count > cursor.left:
            raise cursor.fail(f"{count} label lists from {first} in {cursor.left} bytes")
        if first + count > 1 << 32:
            raise cursor.fail(f"label list ids {first} + {count} do not fit")
        for number in range(first, first + count):
            offset = cursor.offset
            made = parse_label_list(cursor)
            kept = self._numbers.get(made)
            price = ("ids", ID_COST) if kept else ("labels", parsed_cost(cursor.offset - offset))
            if not self._budget.affords(*price, offset):
                continue
            if kept is None:
                kept = self._numbers[made] = len(self.lists)
                self.lists.append(made)
                self._keep_guids(kept, made, guids)
            if not self.ids.define(number, kept):
                self._remarks.warn("label lists given twice", cursor.offset)

    def _keep_guids(self, number: int, made: LabelList, guids: GuidTable) -> None:
        if number == len(self._guids):
            self._guids = np.concatenate([self._guids, np.zeros_like(self._guids)])
        for column, guid in enumerate((made.activity, made.related)):
            if guid:
                self._guids[number, column] = guids.intern(guid.bytes_le)
        self._has_guids |= bool(self._guids[number].any())

    def guids(self) -> npt.NDArray[np.uint32] | None:
        """(activity, related) of each list, as numbers of the table of GUIDs; None when no list has any."""
        return self._guids[: len(self.lists)] if self._has_guids else None

    def forget(self) -> None:
        """From here on ids are defined anew."""
        self.ids = IdMap()

    def reset(self) -> None:
        """Begin new lists."""
        self._begin()
        self._budget.set("labels")
