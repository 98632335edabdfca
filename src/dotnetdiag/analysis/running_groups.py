"""Rows that are alike, where not all rows are there at once: what ``groups`` tells of all, some rows after the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.distinct import first_of_each
from dotnetdiag.trace.distinct import ranked

Array: TypeAlias = "np.ndarray[Any, Any]"

_NEVER = np.iinfo(np.int64).max


class Numbering:
    """A number for each different key (i64), from 0 on; a key that came before has the number that it had."""

    def __init__(self) -> None:
        self._sorted: Array = np.zeros(0, np.int64)
        self._numbers: Array = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._sorted)

    def of(self, keys: Array, *, in_turn: bool = False) -> Array:
        """Of each key its number. New ones are numbered in ascending order, or ``in_turn`` in that in which they come."""
        distinct, which = ranked(keys)
        place = np.searchsorted(self._sorted, distinct)
        is_new = np.append(self._sorted, 0)[place] != distinct
        is_new |= place == len(self._sorted)
        if is_new.any():
            fresh = np.flatnonzero(is_new)
            numbers = len(self) + np.arange(len(fresh))
            if in_turn:
                numbers[np.argsort(first_of_each(which, len(distinct))[fresh])] = numbers.copy()
            self._numbers = np.insert(self._numbers, place[fresh], numbers)
            self._sorted = np.insert(self._sorted, place[fresh], distinct[fresh])
            place = np.searchsorted(self._sorted, distinct)
        found: Array = self._numbers[place][which]
        return found

    def keys(self) -> Array:
        """The keys by their numbers."""
        made = np.empty(len(self), np.int64)
        made[self._numbers] = self._sorted
        return made


class RunningGroups:
    """Of each group the ``first`` of its rows, their ``count``, and the ``total`` and the ``most`` of their values: those that are NaN add
    nothing, and are the most where there are no others. They are added up in the order of the rows: so a sum is to the last bit what ``groups``
    finds, however many rows come at once.
    """

    def __init__(self) -> None:
        self._keys = Numbering()
        self.first: Array = np.zeros(0, np.int64)
        self.count: Array = np.zeros(0, np.int64)
        self.total: Array = np.zeros(0)
        self.most: Array = np.zeros(0)
        self.known: Array = np.zeros(0, np.int64)
        """How many of the values are not NaN."""

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, keys: Array, rows: Array, values: Array | float = 0.0) -> Array:
        """Rows by their numbers, which ascend from one call to the next, and the keys and values of each. Gives the number of each one's group."""
        which = self._keys.of(keys)
        more = len(self._keys) - len(self.count)
        self.first = np.append(self.first, np.full(more, _NEVER))
        self.count = np.append(self.count, np.zeros(more, np.int64))
        self.total = np.append(self.total, np.zeros(more))
        self.most = np.append(self.most, np.full(more, np.nan))
        self.known = np.append(self.known, np.zeros(more, np.int64))
        np.minimum.at(self.first, which, rows)
        self.count += np.bincount(which, minlength=len(self.count))
        np.add.at(self.total, which, np.nan_to_num(values))
        np.fmax.at(self.most, which, values)
        np.add.at(self.known, which, ~np.isnan(values))
        return which

    def keys(self) -> Array:
        """The key of each group."""
        return self._keys.keys()

    def order(self) -> Array:
        """The one with most rows first; of equal ones that whose first row came first."""
        return np.lexsort((self.first, -self.count))


class KeyedGroups:
    """Rows that are alike in several columns of whole numbers (i64): what :class:`RunningGroups` tells of each combination."""

    def __init__(self, columns: int) -> None:
        self._columns = [Numbering() for _ in range(columns)]
        self._steps = [Numbering() for _ in range(columns)]
        self._groups = RunningGroups()

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, columns: Sequence[Array], rows: Array, values: Array | float = 0.0) -> None:
        """As there, with a key of several columns."""
        code = np.zeros(len(rows), np.int64)
        for column, numbers, step in zip(columns, self._columns, self._steps, strict=True):
            code = step.of(code << 32 | numbers.of(column.astype(np.int64, copy=False)))
        self._groups.add(code, rows, values)

    def told(self) -> tuple[list[Array], RunningGroups, Array]:
        """The columns of each group, by its number, what it comes to, and their order: the one with the largest total first, as ``groups`` has it."""
        found = self._groups
        code, columns = found.keys(), list[Array]()
        for numbers, step in zip(reversed(self._columns), reversed(self._steps), strict=True):
            code, column = np.divmod(step.keys()[code], 1 << 32)
            columns.insert(0, numbers.keys()[column])
        return columns, found, np.lexsort((found.first, -found.count, -found.total))
