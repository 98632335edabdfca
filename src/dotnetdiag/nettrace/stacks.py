"""Call stacks, one number for each distinct one.

Ids in a file are reset at every sequence point (nettrace.md §5.8); a :class:`StackTable` gives ids that stay.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.constants import DENSE_IDS_LIMIT
from dotnetdiag.wire import Cursor


class StackTable:
    """Interned stacks. Id 0 is *no stack*; a stack without frames has an id of its own.

    ``size_bytes`` is the sum of the addresses' bytes.
    """

    __slots__ = ("_ids", "_raw", "pointer_size", "size_bytes")

    def __init__(self, pointer_size: int = 8) -> None:
        self.pointer_size = pointer_size
        self.size_bytes = 0
        self._raw: list[bytes] = [b""]
        self._ids: dict[bytes, int] = {}

    def __len__(self) -> int:
        """Number of ids, 0 included: valid ids are below it."""
        return len(self._raw)

    def intern(self, addresses: bytes) -> int:
        """The id of a stack given as bytes of whole pointers, leaf first."""
        found = self._ids.get(addresses)
        if found is None:
            found = self._ids[addresses] = len(self._raw)
            self._raw.append(addresses)
            self.size_bytes += len(addresses)
        return found

    def raw(self, stack_id: int) -> bytes:
        """The addresses as they stand in the file."""
        return self._raw[stack_id] if 0 <= stack_id < len(self._raw) else b""

    def frames(self, stack_id: int) -> npt.NDArray[np.uint64]:
        """Addresses, innermost (leaf) first; empty for 0 and for ids that are not there."""
        raw = self.raw(stack_id)
        count = len(raw) // self.pointer_size
        kind = np.dtype("<u8" if self.pointer_size == 8 else "<u4")
        return np.frombuffer(raw, dtype=kind, count=count).astype(np.uint64, copy=False)

    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """(offsets, addresses): the frames of stack ``i`` are ``addresses[offsets[i]:offsets[i + 1]]``, leaf first."""
        sizes = np.fromiter((len(raw) // self.pointer_size for raw in self._raw), np.int64, len(self._raw))
        offsets = np.zeros(len(self._raw) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        kind = np.dtype("<u8" if self.pointer_size == 8 else "<u4")
        whole = b"".join(raw[: len(raw) // self.pointer_size * self.pointer_size] for raw in self._raw)
        return offsets, np.frombuffer(whole, dtype=kind).astype(np.uint64, copy=False)


class IdMap:
    """Ids of one region of a file to numbers that stay (never 0): an array that kernels read.

    Ids count up from some first one in every file that was written in good faith, so the array begins at ``base``;
    an id far from all others goes into ``far``, which costs no memory for what lies between. Entries are never
    changed: a :meth:`snapshot` stays as it is.
    """

    __slots__ = ("_count", "_shared", "base", "far", "length", "table")

    def __init__(self) -> None:
        self.table: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)
        self.base = 0
        self.length = 0
        self.far: dict[int, int] = {}
        self._count = 0
        self._shared = False

    def snapshot(self) -> tuple[npt.NDArray[np.uint32], int, int]:
        """(table, base, length): ``table[id - base]`` is the number or 0, for ids from ``base`` to below
        ``base + length``.
        """
        self._shared = True
        return self.table, self.base, self.length

    def get(self, number: int) -> int:
        """What the id stands for, 0 when it is not defined."""
        at = number - self.base
        if 0 <= at < self.length and self.table[at]:
            return int(self.table[at])
        return self.far.get(number, 0)

    def define(self, number: int, stays: int) -> bool:
        """Add an entry. False, and nothing changes, when the id is taken by another."""
        there = self.get(number)
        if there:
            return there == stays
        if not self._count:
            self.base = number
        at = number - self.base
        spare = DENSE_IDS_LIMIT + 4 * self._count
        if at >= spare or at < -spare:
            self.far[number] = stays
            return True
        if at < 0:
            grown = np.zeros(self.length - at, np.uint32)
            grown[-at:] = self.table[: self.length]
            self.table, self.base, self.length, at = grown, number, len(grown), 0
            self._shared = False
        elif at < self.length:
            if self._shared:
                self.table, self._shared = self.table.copy(), False
        else:
            if at >= len(self.table):
                grown = np.zeros(max(64, 2 * len(self.table), at + 1), np.uint32)
                grown[: self.length] = self.table[: self.length]
                self.table, self._shared = grown, False
            self.length = at + 1
        self.table[at] = stays
        self._count += 1
        return True


def parse_stacks(cursor: Cursor, stacks: StackTable, ids: IdMap) -> int:
    """Read a StackBlock (nettrace.md §5.7, §6.4) into the tables. Returns how many ids were there already, differently.

    A block that breaks off raises, after the stacks before that place were taken.
    """
    first, count = cursor.u32("first stack id"), cursor.u32("stack count")
    if count > cursor.left // 4:
        raise cursor.fail(f"{count} stacks in {cursor.left} bytes")
    if first + count > 1 << 32:
        raise cursor.fail(f"stack ids {first} + {count} do not fit")
    data, at, end = bytes(cursor.view(cursor.left)), 0, 0
    clashes = 0
    left = len(data)
    pointer = stacks.pointer_size
    for number in range(first, first + count):
        if at + 4 > left:
            raise FormatError(f"stack {number} is cut", offset=cursor.offset - left + at, where=cursor.where)
        size = int.from_bytes(data[at : at + 4], "little")
        end = at + 4 + size
        if end > left:
            problem = f"stack of {size} bytes, {left - at - 4} left"
            raise FormatError(problem, offset=cursor.offset - left + at, where=cursor.where)
        if not ids.define(number, stacks.intern(data[at + 4 : end - size % pointer])):
            clashes += 1
        at = end
    return clashes
