"""Quantiles of groups of which each may have millions of values, some after the others: they are spilled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.groups import group_quantiles
from dotnetdiag.analysis.spread import SORTED_VALUES, Spread
from dotnetdiag.trace.spilled import SpilledRows

Array: TypeAlias = "np.ndarray[Any, Any]"


class GroupedSpread:
    """Values of groups by their numbers; those that are NaN do not count."""

    def __init__(self) -> None:
        self._rows = SpilledRows([("group", "i4"), ("value", "f8")])

    def add(self, groups: Array, values: Array) -> None:
        """These too."""
        own = ~np.isnan(values)
        rows = np.empty(int(own.sum()), self._rows.kind)
        rows["group"], rows["value"] = groups[own], values[own]
        self._rows.append(rows)

    def quantiles(self, counts: Array, shares: Sequence[float]) -> list[Array]:
        """Of each group, of whose values there are so many, what :func:`group_quantiles` has. All are gone through once for each
        :data:`~.spread.SORTED_VALUES`.
        """
        made = [np.full(len(counts), np.nan) for _ in shares]
        part = np.zeros(len(counts), np.int64)
        so_far = number = 0
        for group, count in enumerate(counts.tolist()):
            if so_far and so_far + count > SORTED_VALUES:
                so_far, number = 0, number + 1
            so_far += count
            part[group] = number
        for one in range(number + 1):
            own = np.flatnonzero(part == one)
            if len(own) == 1 and counts[own[0]] > SORTED_VALUES:
                found = [np.array([value]) for value in self._spread(int(own[0])).at(shares)]
            else:
                found = self._sorted(own, shares)
            for values, told in zip(made, found, strict=True):
                values[own] = told
        return made

    def _sorted(self, own: Array, shares: Sequence[float]) -> list[Array]:
        groups, values = [np.zeros(0, np.int64)], [np.zeros(0)]
        for _, rows in self._rows.slices() if len(own) else ():
            inside = (rows["group"] >= own[0]) & (rows["group"] <= own[-1])
            groups.append(rows["group"][inside] - own[0])
            values.append(rows["value"][inside])
        return group_quantiles(np.concatenate(groups), np.concatenate(values), len(own), shares)

    def _spread(self, group: int) -> Spread:
        made = Spread()
        for _, rows in self._rows.slices():
            made.add(rows["value"][rows["group"] == group])
        return made
