"""What the ids of a file stand for: numbers that are given once and stay.

Rule 1: the first definition of an id counts; a map begins anew where the format says so (nettrace.md §5.8). 0 means none
in events, and no range defines it.
Rule 2: ids may be any of 32 bits. Those near the first one are places of an array, others keys of a hash table; both have
room in proportion to the number of ids.
Rule 3: a snapshot costs nothing. Entries carry the order of their definition, and a snapshot is how many of them count.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import count
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass

MULTIPLIER = np.uint64(0x1E3779B97F4A7C15)
"""As in ``_kernels.pyx``: the high bits of the product choose the slot of the hash table."""
PROBES = 128
"""Slots that are looked at for one id. Only ids chosen to meet need more; those are not found."""
_LEAST_BITS = 3
_MOST_SPARE_BITS = 4
"""A hash table where ids meet too often becomes so many times twice as large before they are given up."""
_NEAR, _NEAR_FOR_EACH = 64, 4
"""The array reaches so far, and so much farther for each id."""

Table: TypeAlias = "npt.NDArray[np.uint32]"
Ids: TypeAlias = "npt.NDArray[np.uint32]"


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Snapshot:
    """The first ``defined`` entries of a map, as kernels read them: number (0: nothing is there) and order from 1 on.

    ``table`` begins with two words for each id from ``base`` on, ``near`` of them. A hash table follows where ``bits`` are
    not 0: 2 to the power of that many slots of four words, of which the third is the id.
    """

    ids: IdMap
    table: Table
    base: int
    near: int
    bits: int
    defined: int

    def look_up(self, ids: Ids) -> npt.NDArray[np.uint32]:
        """What ids stand for, 0 where they are not defined."""
        at = ids.astype(np.int64) - self.base
        inside = (at >= 0) & (at < self.near)
        entries = np.zeros((len(ids), 2), np.uint32)
        entries[inside] = self.table[: 2 * self.near].reshape(-1, 2)[at[inside]]
        if self.bits:
            left = np.flatnonzero(entries[:, 0] == 0)
            entries[left] = _find(self.table[2 * self.near :].reshape(-1, 4), self.bits, ids[left])
        return np.where(entries[:, 1] <= self.defined, entries[:, 0], np.uint32(0))


class IdMap:
    """Ids of one region of a file, and the numbers (never 0) that they stand for.

    They come one by one (:meth:`define`) or in ranges (:meth:`define_range`), not both; only the first can be asked for
    without a snapshot.
    """

    __slots__ = (
        "_base",
        "_beyond",
        "_bits",
        "_defined",
        "_far",
        "_far_count",
        "_near",
        "_new",
        "_numbers",
        "_ranges",
        "_table",
    )

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._new: list[int] = []
        self._ranges: list[tuple[Ids, Ids]] = []
        self._beyond = 0
        """Higher than any id of a range."""
        self._base = self._defined = self._far_count = 0
        self._make(0, 0)

    def __len__(self) -> int:
        return self._defined

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
        self._defined += 1
        return True

    def define_range(self, first: int, meanings: Ids) -> int:
        """Add entries for ids that follow each other, except where the meaning is 0; how many stand for something else and
        are not changed.
        """
        if self._put_next(first, meanings):
            return 0
        numbers = np.arange(first, first + len(meanings)).astype(np.uint32)
        there = self.snapshot().look_up(numbers) if first < self._beyond else np.zeros(len(meanings), np.uint32)
        fresh = (there == 0) & (meanings != 0) & (numbers != 0)
        self._ranges.append((numbers[fresh], meanings[fresh]))
        self._defined += int(np.count_nonzero(fresh))
        self._beyond = max(self._beyond, first + len(meanings))
        return int(np.count_nonzero((there != 0) & (meanings != 0) & (there != meanings)))

    def _put_next(self, first: int, meanings: Ids) -> bool:
        """Add a range that is above all others, lacks nothing, and has its place in the array: as nearly all, of which there may be one for each
        megabyte. What others take, looking at each id, was 5 ms of a report on 75 MB. False, and nothing changes, where it is another.
        """
        count = len(meanings)
        if self._ranges or not count or not 0 < first >= self._beyond or not meanings.all():
            return False
        defined = self._defined + count
        base = self._base if self._defined else first // _NEAR * _NEAR
        at = first - base
        if at < 0 or at + count > _NEAR + _NEAR_FOR_EACH * defined:
            return False
        self._base = base
        self._reach(at + count - 1)
        self._near[at : at + count, 0] = meanings
        self._near[at : at + count, 1] = np.arange(self._defined + 1, defined + 1)
        self._defined, self._beyond = defined, first + count
        return True

    @property
    def meanings(self) -> list[int]:
        """What the ids stand for, in the order of their definitions."""
        return list(self._numbers.values())

    def snapshot(self) -> Snapshot:
        """The entries there are now; those that follow do not change it."""
        if self._new:
            numbers, self._new = self._new, []
            self._write(
                np.array(numbers, np.uint32), np.array([self._numbers[number] for number in numbers], np.uint32)
            )
        if self._ranges:
            ranges, self._ranges = self._ranges, []
            self._write(
                np.concatenate([ids for ids, _ in ranges]), np.concatenate([meanings for _, meanings in ranges])
            )
        return Snapshot(self, self._table, self._base, len(self._near), self._bits, self._defined)

    def _make(self, near: int, bits: int) -> None:
        """A new table; the old one stays as it is for the snapshots that have it."""
        self._bits = bits
        self._table = np.zeros(2 * near + (4 << bits if bits else 0), np.uint32)
        self._near = self._table[: 2 * near].reshape(-1, 2)
        self._far = self._table[2 * near :].reshape(-1, 4)

    def _reach(self, last: int) -> None:
        """Make the array so long that it has this place."""
        if last >= len(self._near):
            near, far = self._near, self._far
            self._make(max(_NEAR, 2 * len(near), last + 1), self._bits)
            self._near[: len(near)], self._far[:] = near, far

    def _write(self, numbers: Ids, meanings: Ids) -> None:
        fresh, defined = len(numbers), self._defined
        if not fresh:
            return
        if fresh == defined:
            self._base = int(numbers[0]) // _NEAR * _NEAR
        entries = np.zeros((fresh, 4), np.uint32)
        entries[:, 0] = meanings
        entries[:, 1] = np.arange(defined - fresh + 1, defined + 1)
        entries[:, 2] = numbers
        at = entries[:, 2].astype(np.int64) - self._base
        reach = _NEAR + _NEAR_FOR_EACH * defined
        inside = (at >= 0) & (at < reach)
        last = int(at[inside].max(initial=-1))
        self._reach(last)
        self._near[at[inside]] = entries[inside, :2]
        if not inside.all():
            self._write_far(entries[~inside], defined - fresh)

    def _write_far(self, entries: Table, before: int) -> None:
        self._far_count += len(entries)
        least = max(_LEAST_BITS, (2 * self._far_count - 1).bit_length())
        has_room = self._bits >= least
        if has_room and (not len(_put(self._far, self._bits, entries)) or self._bits >= least + _MOST_SPARE_BITS):
            return
        kept = self._far[(self._far[:, 0] != 0) & (self._far[:, 1] <= before)]
        entries = np.concatenate([kept, entries])
        near = self._near
        for bits in range(max(least, self._bits + 1), least + _MOST_SPARE_BITS + 1):
            self._make(len(near), bits)
            self._near[:] = near
            if not len(_put(self._far, bits, entries)):
                break


def _slots(ids: Ids, bits: int) -> npt.NDArray[np.int64]:
    return (ids * MULTIPLIER >> np.uint64(64 - bits)).astype(np.int64)


def _put(table: Table, bits: int, entries: Table) -> Table:
    """Put entries into a hash table that has room; returns those that found none within so many slots."""
    at = _slots(entries[:, 2], bits)
    for _ in range(PROBES):
        free = table[at, 0] == 0
        table[at[free]] = entries[free]  # of those that want one slot one gets it
        left = table[at, 1] != entries[:, 1]
        if not left.any():
            return entries[:0]
        entries, at = entries[left], at[left] + 1 & (1 << bits) - 1
    return entries


def _find(table: Table, bits: int, ids: Ids) -> Table:
    """(number, order) of ids in a hash table, zeros for those that are not there."""
    found, rows, at = np.zeros((len(ids), 2), np.uint32), np.arange(len(ids)), _slots(ids, bits)
    for _ in range(PROBES):
        slots = table[at]
        hit = (slots[:, 2] == ids) & (slots[:, 0] != 0)
        found[rows[hit]] = slots[hit, :2]
        left = ~hit & (slots[:, 0] != 0)
        if not left.any():
            break
        rows, ids, at = rows[left], ids[left], at[left] + 1 & (1 << bits) - 1
    return found


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
