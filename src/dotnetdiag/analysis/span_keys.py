"""What says that a begin and an end belong together: the values of columns that both have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.errors import UnknownName, near
from dotnetdiag.events import Column, Scalar, Text
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.scratch import MAPPED_SLICE, GrownArray
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.text_ids import TextIds

Array: TypeAlias = "np.ndarray[Any, Any]"

ACTIVITY, THREAD = "activity", "tid"
TEXTS_IN_FILE = 4 << 20
"""Bytes of texts from which on they lie in a file."""
PART_NUMBERS = 1 << 18
"""So many of a field are compared at once, 4 MB."""
_NONE = np.zeros(0, np.int64)
_PAIR = np.dtype([("number", "i8"), ("pid", "u8")])


class Keys:
    """Numbers for the values of some columns, of begins and ends alike: what prints alike has the same. ``first`` and ``last`` are tables of both
    without rows. Raises UnknownName for a column that one has not.
    """

    def __init__(self, first: EventTable, last: EventTable, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._kinds = [_kind(first, last, name) for name in names]
        self._texts = TextIds(in_file=TEXTS_IN_FILE)

    def of(self, table: EventTable) -> list[Array]:
        """Columns of numbers (i64), as many for each table."""
        return [one for name, kind in zip(self.names, self._kinds, strict=True) for one in self._of(table[name], kind)]

    def _of(self, column: Column, kind: str) -> list[Array]:
        known = np.ones(len(column), np.int64) if column.valid is None else column.valid.astype(np.int64)
        if kind == "numbers" and isinstance(column, Scalar):
            return [np.where(known, column.values.astype(np.int64), 0), known]
        if kind == "ids" and isinstance(column, Scalar):
            halves = np.ascontiguousarray(column.values).view(np.int64).reshape(-1, 2)
            return [*(np.where(known, halves[:, place], 0) for place in (0, 1)), known]
        if isinstance(column, Text):
            return [np.where(known, self._texts.of(column), -1)]
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        told = np.array([text is not None for text in texts], np.bool_)
        return [np.where(told, self._texts.of(Text.from_pylist(texts)), -1)]


def _kind(first: EventTable, last: EventTable, name: str) -> str:
    kinds = set()
    for table in (first, last):
        column = table.get(name)
        if column is None:
            raise UnknownName("column", name, near(name, table.columns), where=f"of {table.title}")
        if not isinstance(column, Scalar):
            kinds.add("texts")
        elif column.values.dtype.kind in "iub":
            kinds.add("numbers")
        else:
            kinds.add("ids" if column.values.dtype == np.dtype("V16") else "texts")
    return kinds.pop() if len(kinds) == 1 else "texts"


class Choice:
    """Takes windows; :meth:`name` is the column that tells what belongs together: the ids of activities if all of both have one, else a field that
    numbers both, else the thread.
    """

    def __init__(self, first: EventTable, last: EventTable) -> None:
        self._have_activities = True
        self._counts = [0, 0]
        self._fields = {name: _Numbers() for name in first.fields if name in last.fields}

    def feed(self, sides: Sequence[EventTable]) -> None:
        """The begins and the ends of a window."""
        for place, table in enumerate(sides):
            self._counts[place] += len(table)
            self._have_activities &= bool(table.headers.activity.all())
            self._fields = {name: one for name, one in self._fields.items() if one.add(table, name, place)}

    def name(self) -> str:
        """That one."""
        if all(self._counts) and self._have_activities:
            return ACTIVITY
        return next((name for name, one in self._fields.items() if one.tells()), THREAD)


class _Numbers:
    """The values of a field that may number both, as long as no two of one side are equal."""

    def __init__(self) -> None:
        self._sides = GrownArray(_PAIR), GrownArray(_PAIR)

    def add(self, table: EventTable, name: str, place: int) -> bool:
        """False where they do not."""
        column = table[f"payload.{name}"]
        if not isinstance(column, Scalar) or column.values.dtype.kind not in "iu" or column.valid is not None:
            return False
        pairs = np.empty(len(column), _PAIR)
        pairs["number"], pairs["pid"] = column.values.astype(np.int64), table.numpy("pid")
        if any(len(distinct(own)) < len(own) for own in _by_process(pairs).values()):
            return False
        self._sides[place].append(pairs)
        self._sides[place].release()
        return True

    def tells(self) -> bool:
        """Whether each event of both has another value there, and most of the fewer have one that the others have too."""
        counts = [len(side) for side in self._sides]
        parts, shared = 1 + max(counts) // PART_NUMBERS, 0
        for part in range(parts):
            ours, theirs = (_by_process(_part(side, part, parts)) for side in self._sides)
            for pid in {**ours, **theirs}:
                found = [distinct(own.get(pid, _NONE)) for own in (ours, theirs)]
                counts = [count - len(own) for count, own in zip(counts, found, strict=True)]
                shared += int(np.count_nonzero(is_among(*found)))
        return not any(counts) and 2 * shared > min(len(side) for side in self._sides)


def _by_process(pairs: Array) -> dict[int, Array]:
    """The numbers of each process: pairs are sorted ten times as slowly."""
    number, pid = np.ascontiguousarray(pairs["number"]), np.ascontiguousarray(pairs["pid"])
    return {one: number[pid == one] for one in distinct(pid).tolist()}


def _part(side: GrownArray, part: int, parts: int) -> Array:
    """Those of one of several parts, which have no number in common."""

    def own() -> Iterator[Array]:
        for first in range(0, len(side), MAPPED_SLICE):
            some = side.values[first : first + MAPPED_SLICE].copy()
            side.release()
            yield some[some["number"] % parts == part] if parts > 1 else some

    return np.concatenate([np.zeros(0, _PAIR), *own()])
