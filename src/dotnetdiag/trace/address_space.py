"""What lies where in the memory of a process, layer over layer, at any time.

Rule: return addresses are looked up one byte before, because a call may be the last instruction of its method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace.code_ranges import CodeRanges
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.ranges import RangeIndex

Array: TypeAlias = "np.ndarray[Any, Any]"


class Layer:
    """Some rows of ranges, by address and time."""

    def __init__(self, ranges: CodeRanges, rows: Array, first: int = 0) -> None:
        """``first`` is what the number of the first range is."""
        columns = (ranges.start, ranges.end, ranges.begin, ranges.until)
        self.index = RangeIndex(*(column[rows] for column in columns))
        self._numbers = rows + first

    def lookup(self, addresses: Array, times: Array | None) -> Array:
        """The number of the range that each address is in (i64), -1 where there is none."""
        found = self.index.lookup(addresses, times)
        hit = found >= 0
        numbers = np.full(len(addresses), -1, np.int64)
        numbers[hit] = self._numbers[found[hit]]
        return numbers


class AddressSpace:
    """The layers of one process, which are asked in their order, and what is mapped beneath them."""

    def __init__(self, layers: Sequence[Layer] = (), mapped: Layer | None = None) -> None:
        self._layers, self._mapped = tuple(layers), mapped

    def lookup(self, addresses: Array, times: Array | None, exact: Array | None) -> tuple[Array, Array]:
        """The ranges of the layers and the mappings that addresses are in (both i64, -1 where there is none)."""
        places = _looked_up(addresses, exact)
        numbers = np.full(len(addresses), -1, np.int64)
        for layer in self._layers:
            for place in places:
                missing = np.flatnonzero(numbers < 0)
                if len(missing):
                    numbers[missing] = layer.lookup(place[missing], None if times is None else times[missing])
        mapped = (
            np.full(len(addresses), -1, np.int64) if self._mapped is None else self._mapped.lookup(places[0], times)
        )
        return numbers, mapped

    def changes(self, addresses: Array, exact: Array | None) -> tuple[Array, list[Array]]:
        """(mask of the addresses that are another's at another time, the moments at which one changes)."""
        mask = np.zeros(len(addresses), np.bool_)
        moments = []
        for layer in (*self._layers, *([self._mapped] if self._mapped else [])):
            for place in _looked_up(addresses, exact):
                some, when = layer.index.changes(place)
                mask |= some
                moments.append(when)
        return mask, moments


def address_spaces(layers: Sequence[CodeRanges], mappings: CodeRanges) -> dict[int, AddressSpace]:
    """The address space of each process. Ranges are numbered through all layers, mappings by themselves."""
    above: dict[int, list[Layer]] = {}
    first = 0
    for ranges in layers:
        for process, rows in _by_process(ranges).items():
            above.setdefault(process, []).append(Layer(ranges, rows, first))
        first += len(ranges)
    beneath = {process: Layer(mappings, rows) for process, rows in _by_process(mappings).items()}
    return {process: AddressSpace(above.get(process, ()), beneath.get(process)) for process in {**above, **beneath}}


def _by_process(ranges: CodeRanges) -> dict[int, Array]:
    return {number: np.flatnonzero(ranges.process == number) for number in distinct(ranges.process).tolist()}


def _looked_up(addresses: Array, exact: Array | None) -> tuple[Array, Array]:
    """Where to look first and, when nothing is there, second.

    The leaf of an event that native code wrote is a return address as well, so an exact address gets a second look too.
    """
    before = addresses - (addresses > 0).astype(np.uint64)
    if exact is None:
        return before, addresses
    exact = exact.astype(np.bool_, copy=False)
    return np.where(exact, addresses, before), np.where(exact, before, addresses)
