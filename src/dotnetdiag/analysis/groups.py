"""Rows that are alike, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.pairs import combined_codes

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class Groups:
    """Of each group the ``first`` of its rows, their ``count``, and the ``total`` and the ``most`` of their values: the one with most first."""

    first: Array
    count: Array
    total: Array
    most: Array

    def __len__(self) -> int:
        return len(self.first)

    def by(self, values: Array) -> Groups:
        """The same, the one with the largest value first."""
        order = np.argsort(-values, kind="stable")
        return Groups(self.first[order], self.count[order], self.total[order], self.most[order])


def groups(keys: Sequence[Array], values: Array, rows: Array | None = None) -> Groups:
    """Rows (a mask, None: all) with equal keys. Values that are NaN count as rows, and add nothing."""
    own = np.arange(len(values)) if rows is None else np.flatnonzero(rows)
    codes = np.zeros(len(own), np.int64)
    for column in keys:
        codes = combined_codes(codes, column[own])
    plain = np.nan_to_num(values[own])
    number = int(codes.max(initial=-1)) + 1
    first = np.full(number, len(values))
    np.minimum.at(first, codes, own)
    count, total = np.bincount(codes, minlength=number), np.bincount(codes, plain, minlength=number)
    most = np.zeros(number)
    np.maximum.at(most, codes, plain)
    order = np.lexsort((first, -count, -total))
    return Groups(first[order], count[order], total[order], most[order])


def quantiles_of(values: Array) -> Mapping[str, float]:
    """Some quantiles by name; none of nothing."""
    names = {"median": 0.5, "95 %": 0.95, "99 %": 0.99, "most": 1.0}
    return dict(zip(names, np.quantile(values, list(names.values())).tolist(), strict=True)) if len(values) else {}
