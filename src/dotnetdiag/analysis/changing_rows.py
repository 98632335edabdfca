"""Rows of numbers that are spilled, in which something is written down later: how long what began in a row lasted, is known when it has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import Any, Self, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.spilled import SpilledRows

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """What was found out of ``rows`` by their numbers: ``values`` by column, which are written there, or with ``adds`` added to what is there."""

    rows: Array
    values: Mapping[str, Array]
    adds: bool = False


class ChangingRows:
    """Rows of one structured type, in the order in which they are added; those that were :meth:`given` stay as they were then."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self._rows, self._is_given = SpilledRows(self.dtype), False
        self._before: tuple[Array, Array] | None = None
        self._fresh: list[Array] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def copy(self) -> Self:
        """One that goes on by itself."""
        made = copy(self)
        made._rows, made._is_given, made._fresh = self._rows.copy(), False, [*self._fresh]
        return made

    def append(self, rows: Array) -> Array:
        """Rows behind all others, which belong to this, and whose fields may be filled in until the next :meth:`settle`; their numbers."""
        self._fresh.append(rows)
        self._count += len(rows)
        return np.arange(self._count - len(rows), self._count)

    def settle(self, changes: Sequence[Change]) -> None:
        """Write down what was found, in the place of what the last :meth:`conclude` did."""
        fresh = np.concatenate([np.zeros(0, self.dtype), *self._fresh])
        self._fresh = []
        if self._is_given and (len(fresh) or any(len(one.rows) for one in changes) or self._before is not None):
            self._rows, self._is_given = self._rows.copy(), False  # who has them has what was told then
        if self._before is not None:
            rows, was = self._before
            self._before = None
            for some, places, which in self._rows.changing(rows):
                some[places] = was[which]
        self._write_down(changes, fresh)
        if len(fresh):
            self._rows.append(fresh)

    def conclude(self, changes: Sequence[Change]) -> None:
        """Write down what is found if nothing more comes, once all else is settled; the next :meth:`settle` takes it back, all of several."""
        rows = distinct(np.concatenate([np.zeros(0, np.int64), *(one.rows for one in changes)]))
        if not len(rows):
            return
        if self._is_given:
            self._rows, self._is_given = self._rows.copy(), False
        before, was = self._before or (np.zeros(0, np.int64), np.zeros(0, self.dtype))
        fresh = rows[~is_among(rows, before)]
        had = np.empty(len(fresh), self.dtype)
        for some, places, which in self._rows.changing(fresh):
            had[which] = some[places]
        self._write_down(changes, np.zeros(0, self.dtype))
        order = np.argsort(np.append(before, fresh), kind="stable")
        self._before = np.append(before, fresh)[order], np.append(was, had)[order]

    def forget(self, are_doubtful: Callable[[Array], Array], nothing: Mapping[str, float]) -> None:
        """Rows of which that is so (bool) have these values, as :meth:`conclude` writes them: what was found of them may be of others."""
        parts = [first + np.flatnonzero(are_doubtful(some)) for first, some in self.given().slices()]
        rows = np.concatenate([np.zeros(0, np.int64), *parts])
        values = {name: np.full(len(rows), value, self.dtype[name]) for name, value in nothing.items()}
        self.conclude([Change(rows=rows, values=values)])

    def _write_down(self, changes: Sequence[Change], fresh: Array) -> None:
        for one in changes:
            for some, places, which in self._changing(fresh, one.rows):
                for name, values in one.values.items():
                    if one.adds:
                        np.add.at(some[name], places, values[which])
                    else:
                        some[name][places] = values[which]

    def _changing(self, fresh: Array, rows: Array) -> Iterator[tuple[Array, Array, Array]]:
        """As ``SpilledRows.changing``, of those that are not there yet too."""
        order = np.argsort(rows, kind="stable")
        rows, first = rows[order], len(self._rows)
        old = int(np.searchsorted(rows, first))
        parts = chain(self._rows.changing(rows[:old]), [(fresh, rows[old:] - first, np.arange(old, len(rows)))])
        return ((some, places, order[which]) for some, places, which in parts)

    def given(self) -> SpilledRows:
        """What was settled until now; it stays so."""
        self._is_given = True
        return self._rows
