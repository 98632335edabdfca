"""What many values come to: their sum, the largest, quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.quantiles import NAMES, between, quantiles_of
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.spilled import SLICE_ROWS, SpilledRows

Array: TypeAlias = "np.ndarray[Any, Any]"

SORTED_VALUES = 1 << 18
"""So many are sorted in memory."""
_DIGIT_BITS = 16
_SIGN = np.uint64(1 << 63)


class Spread:
    """Values (f64, none of them NaN) of which there may be millions, some after the others: they are spilled."""

    def __init__(self) -> None:
        self._values = SpilledRows(np.float64)
        self.most = 0.0
        """The largest one, 0 of none, or where all are less."""

    def __len__(self) -> int:
        return len(self._values)

    def add(self, values: Array) -> None:
        """These too; they belong to this from now on."""
        self.most = max(self.most, float(values.max(initial=0.0)))
        self._values.append(values)

    @property
    def total(self) -> float:
        """Their sum, as numpy has that of an array: halves are added up by themselves, so that little is rounded away."""
        return self._sum(0, len(self))

    def _sum(self, first: int, count: int) -> float:
        if count <= SLICE_ROWS:
            return float(self._values.read(first, first + count).sum())
        half = count // 2 - count // 2 % 8
        return self._sum(first, half) + self._sum(first + half, count - half)

    def quantiles(self) -> Mapping[str, float]:
        """As :func:`quantiles_of` has them."""
        if len(self) <= SORTED_VALUES:
            return quantiles_of(self._values.read(0, len(self)))
        return dict(zip(NAMES, self.at([*NAMES.values()]), strict=True))

    def at(self, shares: Sequence[float]) -> list[float]:
        """The ones below which these shares are, of many values."""
        return between(len(self), shares, self._at_places)

    def _at_places(self, places: Array) -> Array:
        """The values at places in their order, found digit by digit: each time all are counted by the next 16 bits."""
        prefix, rest = np.zeros(len(places), np.uint64), places.copy()
        for shift in range(64 - _DIGIT_BITS, -1, -_DIGIT_BITS):
            kinds, which = ranked(prefix)
            counts = np.zeros((len(kinds), 1 << _DIGIT_BITS), np.int64)
            for _, values in self._values.slices():
                key = _in_order(values)
                digit = (key >> np.uint64(shift)) & np.uint64((1 << _DIGIT_BITS) - 1)
                above = key >> np.uint64(shift + _DIGIT_BITS) if shift + _DIGIT_BITS < 64 else np.zeros_like(key)
                for at, kind in enumerate(kinds):
                    own = digit[above == kind].astype(np.int64)
                    counts[at] += np.bincount(own, minlength=counts.shape[1])
            ends = counts.cumsum(axis=1)
            found = np.array([np.searchsorted(ends[at], place, "right") for at, place in zip(which, rest, strict=True)])
            rest -= ends[which, found] - counts[which, found]
            prefix = prefix << np.uint64(_DIGIT_BITS) | found.astype(np.uint64)
        bits = np.where(prefix >= _SIGN, prefix ^ _SIGN, ~prefix)
        return bits.view(np.float64)


def _in_order(values: Array) -> Array:
    """Whole numbers (u64) that are in the order of the values."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits | _SIGN)
