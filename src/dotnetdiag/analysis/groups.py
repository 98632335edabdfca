"""Rows that are alike, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.pairs import combined_codes

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Groups:
    """Of each group the ``first`` of its rows, their ``count``, and the ``total`` and the ``most`` of their values (NaN where it has none): the one
    with most first. ``which`` group each row is in, -1 for none.
    """

    first: Array
    count: Array
    total: Array
    most: Array
    which: Array

    def __len__(self) -> int:
        return len(self.first)

    def by(self, values: Array) -> Groups:
        """The same, the one with the largest value first."""
        return self._ordered(np.argsort(-values, kind="stable"))

    def _ordered(self, order: Array) -> Groups:
        place = np.full(len(order) + 1, -1)
        place[order] = np.arange(len(order))
        return Groups(self.first[order], self.count[order], self.total[order], self.most[order], place[self.which])

    def sums(self, values: Array) -> Array:
        """The sum of other values of each group's rows."""
        own = self.which >= 0
        return sums(self.which[own], values[own], len(self))


def group_quantiles(which: Array, values: Array, count: int, shares: Sequence[float]) -> list[Array]:
    """Of values, none of them NaN, each of ``which`` of so many groups: of each group the ones below which these shares are, between two values in
    proportion, as ``numpy.quantile`` has them; NaN for a group without.
    """
    counts = np.bincount(which, minlength=count)
    begins = np.cumsum(counts) - counts
    ordered = np.append(values[np.lexsort((values, which))], 0.0)
    last = np.maximum(counts - 1, 0)

    def at(share: float) -> Array:
        place = last * share
        low = place.astype(np.int64)
        below, above = ordered[begins + low], ordered[begins + np.minimum(low + 1, last)]
        return np.where(counts > 0, below + (above - below) * (place - low), np.nan)

    return [at(share) for share in shares]


def sums(places: Array, values: Array, count: int) -> Array:
    """Of so many places what comes to each (f64): ``numpy.bincount`` counts in whole numbers where there is nothing."""
    return np.bincount(places, values, minlength=count).astype(np.float64, copy=False)


def groups(keys: Sequence[Array], values: Array, rows: Array | None = None, *, counts: Array | None = None) -> Groups:
    """Rows (a mask, None: all) with equal keys. Values that are NaN count as rows, and add nothing. ``counts``: of rows that each stand for several,
    whose number depends on how they came, what they count as.
    """
    own = np.arange(len(values)) if rows is None else np.flatnonzero(rows)
    codes = np.zeros(len(own), np.int64)
    for column in keys:
        codes = combined_codes(codes, column[own])
    plain = np.nan_to_num(values[own])
    number = int(codes.max(initial=-1)) + 1
    first = np.full(number, len(values))
    np.minimum.at(first, codes, own)
    count = np.bincount(codes, None if counts is None else counts[own], minlength=number)
    total = sums(codes, plain, number)
    most = np.full(number, np.nan)
    np.fmax.at(most, codes, values[own])
    which = np.full(len(values), -1)
    which[own] = codes
    return Groups(first, count, total, most, which)._ordered(np.lexsort((first, -count, -total)))
