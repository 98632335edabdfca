"""Label lists of version 6 by their ids (nettrace.md §6.8).

There is one for each request and each of its parts, so they stay the bytes that they are in the file: an object for each of 780,000 took 25 s and
400 MB. What is in one is read when somebody asks for it; whose activities they are, of all that are new together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace import kernels, labels
from dotnetdiag.nettrace.budget import COST, PARSED_COST, Budget
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.ids import IdMap
from dotnetdiag.nettrace.labels import ACTIVITY, OVERRIDING, RELATED, LabelList, parse_label_list
from dotnetdiag.nettrace.remarks import Remarks
from dotnetdiag.nettrace.stacks import PART, StackTable
from dotnetdiag.wire import Cursor

LIST_COST, ID_COST = 80, 40
"""Bytes that a list takes beside its own, and an id of it."""
_ONE, _BOTH = 17, 34
"""Bytes of a label that is an activity, and of two."""
_OVERRIDING = sum(1 << code for code in OVERRIDING)


class LabelLists(Sequence[LabelList]):
    """Lists by their numbers; number 0 is the empty one."""

    def __init__(self) -> None:
        self.table = StackTable()

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, index: int) -> LabelList: ...
    @overload
    def __getitem__(self, index: slice) -> list[LabelList]: ...
    def __getitem__(self, index: int | slice) -> LabelList | list[LabelList]:
        numbers = range(len(self))[index]
        return self._list(numbers) if isinstance(numbers, int) else [self._list(number) for number in numbers]

    def __iter__(self) -> Iterator[LabelList]:
        return map(self._list, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return f"<{len(self):,} label lists>"

    def _list(self, number: int) -> LabelList:
        raw = self.raw(number)
        return parse_label_list(Cursor(raw)) if raw else LabelList()

    def raw(self, number: int) -> bytes:
        """A list as it stands in the file; empty for one that says nothing."""
        return self.table.raw(number)

    def overriding(self) -> dict[int, LabelList]:
        """Those that change level, opcode, keywords or version of their events, by number."""
        found = dict[int, LabelList]()
        for numbers, raw in self.table.runs(1):
            own = numbers[np.flatnonzero(_split(raw, 0, len(numbers)).codes & _OVERRIDING)]
            found |= {number: self._list(number) for number in own.tolist()}
        return found


class LabelTable:
    """Each list once. ``ids`` says what list an id of the file stands for now."""

    def __init__(self, budget: Budget, remarks: Remarks) -> None:
        self._budget, self._remarks = budget, remarks
        self._begin()

    def _begin(self) -> None:
        self.lists = LabelLists()
        self._guids = np.zeros((0, 2), np.uint32)
        self._known = 0
        """So many lists have their activities in ``_guids``."""
        self._has_guids = False
        self.ids = IdMap()

    def take(self, cursor: Cursor) -> None:
        """Read a LabelListBlock."""
        first, count = cursor.u32("first label list"), cursor.u32("label list count")
        if not first or count > cursor.left:
            raise cursor.fail(f"{count} label lists from {first} in {cursor.left} bytes")
        if first + count > 1 << 32:
            raise cursor.fail(f"label list ids {first} + {count} do not fit")
        offset, data = cursor.offset, cursor.view(cursor.left)
        at = 0
        while count:
            wanted = min(count, PART)
            split = _split(data, at, wanted)
            self._define(first, data, split, offset + at)
            first, count, at = first + len(split), count - len(split), split.end
            if len(split) < wanted:
                broken = Cursor(data, position=at, base=offset, where=cursor.where)
                parse_label_list(broken)  # says what is wrong with it
                raise broken.fail("a label list that cannot be read")

    def _define(self, first: int, data: memoryview, split: _Split, offset: int) -> None:
        starts, sizes = split.starts, split.sizes
        # what changes something of its events becomes an object
        costs = sizes + LIST_COST + np.where(split.codes & _OVERRIDING, COST + PARSED_COST * sizes, 0)
        kept = int(np.searchsorted(np.cumsum(costs + ID_COST), self._budget.left, "right"))
        if kept < len(starts):
            self._budget.refuse(offset, len(starts) - kept)
        table, ids, count = self.lists.table, len(self.ids), len(self.lists)
        numbers = table.intern_many(data, starts[:kept], sizes[:kept])
        clashes = self.ids.define_range(first, numbers)
        self._budget.add("ids", ID_COST * (len(self.ids) - ids))
        rows = np.flatnonzero(numbers >= count)
        fresh = rows[np.unique(numbers[rows], return_index=True)[1]]
        self._budget.add("labels", int(costs[fresh].sum()))
        if clashes:
            self._remarks.warn("label lists given twice", offset, clashes)

    def guids(self, guids: GuidTable) -> npt.NDArray[np.uint32] | None:
        """(activity, related) of each list, as numbers of that table, the same one each time; None when no list has any."""
        count = len(self.lists)
        if self._known < count:
            if count > len(self._guids):
                grown = np.zeros((max(count, 2 * len(self._guids)), 2), np.uint32)
                grown[: self._known] = self._guids[: self._known]
                self._guids = grown
            for numbers, raw in self.lists.table.runs(max(self._known, 1)):
                split = _split(raw, 0, len(numbers))
                for column, places in enumerate((split.activity, split.related)):
                    own = np.flatnonzero(places >= 0)
                    self._guids[numbers[own], column] = guids.intern_at(raw, places[own])
            self._has_guids |= bool(self._guids[self._known : count].any())
            self._known = count
        return self._guids[:count] if self._has_guids else None

    def forget(self) -> None:
        """From here on ids are defined anew."""
        self.ids = IdMap()

    def reset(self) -> None:
        """Begin new lists."""
        self._begin()
        self._budget.set("labels")


def are_lists(lists: Sequence[bytes]) -> bool:
    """Whether each is one label list, or nothing."""
    there = [raw for raw in lists if raw]
    split = _split(memoryview(b"".join(there)), 0, len(there))
    sizes: list[int] = split.sizes.tolist()
    return sizes == [len(raw) for raw in there]


def activity_lists(guids: GuidTable, pairs: npt.NDArray[np.uint32]) -> list[bytes]:
    """Lists of an activity and the related one (n x 2, numbers of that table, 0 for none)."""
    if not len(pairs):
        return []
    ids = guids.bytes().reshape(-1, 16)
    made = np.empty((len(pairs), _BOTH), np.uint8)
    made[:, 0] = np.where(pairs[:, 1] == 0, ACTIVITY | labels.LAST, ACTIVITY)
    made[:, _ONE] = RELATED | labels.LAST
    for column in range(2):
        made[:, column * _ONE + 1 : (column + 1) * _ONE] = ids[pairs[:, column]]
    begins = np.where(pairs[:, 0] == 0, _ONE, 0)
    ends = np.where(pairs[:, 1] == 0, _ONE, _BOTH)
    raw = made.tobytes()
    places = np.arange(len(pairs)) * _BOTH
    return [raw[first:last] for first, last in zip((places + begins).tolist(), (places + ends).tolist(), strict=True)]


class _Split:
    """Lists that follow each other: where each begins in the data, its size, where its activities stand (-1: it has none), and a bit for each code
    of label in it. ``end`` is the place behind them.
    """

    __slots__ = ("activity", "codes", "end", "related", "sizes", "starts")

    def __init__(self, rows: npt.NDArray[np.int64], end: int) -> None:
        self.starts, self.sizes, self.activity, self.related, self.codes = rows
        self.end = end

    def __len__(self) -> int:
        return len(self.starts)


def _split(data: memoryview, at: int, most: int) -> _Split:
    """As many as ``most``, and fewer where one is cut, or is none."""
    if kernels.KERNELS is None:
        from dotnetdiag.nettrace import fallback

        found, end = fallback.split_labels(data, at, labels.VALUES_LIMIT, most)
        return _Split(np.array(found, np.int64).reshape(-1, 5).T, end)
    rows = np.empty((5, most), np.int64)
    count, end = kernels.KERNELS.split_labels(data, at, labels.VALUES_LIMIT, *rows)
    return _Split(rows[:, :count], end)
