"""What the ids of a file stand for: numbers that are given once and stay.

Rule 1: the first definition of an id counts; a map begins anew where the format says so (nettrace.md §5.8).
Rule 2: any id of 32 bits costs the same. A map is a hash table that kernels read: as long as it has few entries, short.
Rule 3: a snapshot costs nothing. Entries carry the order of their definition, and a snapshot is how many of them count.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import count
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MULTIPLIER = np.uint64(0x1E3779B97F4A7C15)
"""As in ``_kernels.py``: the high bits of the product choose the slot."""
PROBES = 128
"""Slots that are looked at for one id. Only ids chosen to meet need more; those are not found."""
_LEAST_BITS = 3
_MOST_SPARE_BITS = 4
"""A table where ids meet too often becomes so many times twice as large before they are given up."""

Table = npt.NDArray[np.uint32]
_EMPTY: Table = np.zeros((0, 4), np.uint32)


class Snapshot(NamedTuple):
    """The first ``defined`` entries of a map. A slot of ``table`` holds id, number (0: it is free), order from 1 on."""

    ids: IdMap
    table: Table
    bits: int
    defined: int

    def look_up(self, ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """What ids stand for, 0 where they are not defined."""
        numbers = np.zeros(len(ids), np.uint32)
        if not self.bits:
            return numbers
        rows, at = np.arange(len(ids)), _slots(ids, self.bits)
        for _ in range(PROBES):
            slots = self.table[at]
            hit = (slots[:, 0] == ids) & (slots[:, 1] != 0) & (slots[:, 2] <= self.defined)
            numbers[rows[hit]] = slots[hit, 1]
            left = (slots[:, 0] != ids) & (slots[:, 1] != 0)
            if not left.any():
                break
            rows, ids, at = rows[left], ids[left], at[left] + 1 & (1 << self.bits) - 1
        return numbers


class IdMap:
    """Ids of one region of a file, and the numbers (never 0) that they stand for."""

    __slots__ = ("_bits", "_new", "_numbers", "_table")

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._new: list[int] = []
        self._table, self._bits = _EMPTY, 0

    def __len__(self) -> int:
        return len(self._numbers)

    def get(self, number: int) -> int:
        """What the id stands for, 0 when it is not defined."""
        return self._numbers.get(number, 0)

    def define(self, number: int, meaning: int) -> bool:
        """Add an entry. False, and nothing changes, when the id stands for something else."""
        there = self._numbers.get(number)
        if there is not None:
            return there == meaning
        self._numbers[number] = meaning
        self._new.append(number)
        return True

    @property
    def meanings(self) -> list[int]:
        """What the ids stand for, in the order of their definitions."""
        return list(self._numbers.values())

    def snapshot(self) -> Snapshot:
        """The entries there are now; those that follow do not change it."""
        if self._new:
            self._write()
        return Snapshot(self, self._table, self._bits, len(self._numbers))

    def _write(self) -> None:
        fresh, defined = len(self._new), len(self._numbers)
        entries = np.zeros((fresh, 4), np.uint32)
        entries[:, 0] = self._new
        entries[:, 1] = [self._numbers[number] for number in self._new]
        entries[:, 2] = np.arange(defined - fresh + 1, defined + 1)
        self._new = []
        least = max(_LEAST_BITS, (2 * defined - 1).bit_length())
        if self._bits >= least and not len(_put(self._table, self._bits, entries)):
            return
        kept = self._table[(self._table[:, 1] != 0) & (self._table[:, 2] <= defined - fresh)]
        entries = np.concatenate([kept, entries])
        for bits in range(max(least, self._bits + 1), least + _MOST_SPARE_BITS + 1):
            self._table, self._bits = np.zeros((1 << bits, 4), np.uint32), bits
            if not len(_put(self._table, bits, entries)):
                break


def _slots(ids: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.int64]:
    return (ids * MULTIPLIER >> np.uint64(64 - bits)).astype(np.int64)


def _put(table: Table, bits: int, entries: Table) -> Table:
    """Put entries into a table that has room; returns those that found none within so many slots."""
    at = _slots(entries[:, 0], bits)
    for _ in range(PROBES):
        free = table[at, 1] == 0
        table[at[free]] = entries[free]  # of those that want one slot one gets it
        left = table[at, 2] != entries[:, 2]
        if not left.any():
            return entries[:0]
        entries, at = entries[left], at[left] + 1 & (1 << bits) - 1
    return entries


class FreeNumbers:
    """Numbers up to ``limit`` for what cannot keep its own; each costs the same."""

    __slots__ = ("_highest", "_limit", "_lowest")

    def __init__(self, limit: int) -> None:
        self._limit, self._highest, self._lowest = limit, 0, count(1)

    def see(self, number: int) -> None:
        """The number is taken."""
        self._highest = max(self._highest, number)

    def take(self, taken: Container[int]) -> int:
        """One that is not: above all that were seen, while there are any."""
        if self._highest < self._limit:
            self._highest += 1
            return self._highest
        return next(number for number in self._lowest if number not in taken)
