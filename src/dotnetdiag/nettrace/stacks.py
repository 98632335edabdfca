"""Call stacks, one number for each distinct one.

Ids in a file are reset at every sequence point (nettrace.md §5.8); a :class:`StackTable` gives ids that stay.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.ids import IdMap
from dotnetdiag.wire import Cursor

STACK_COST = 320
"""Bytes that a stack and its id take beside the addresses, about."""


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


def parse_stacks(cursor: Cursor, stacks: StackTable, ids: IdMap, room: int) -> tuple[int, int]:
    """Read a StackBlock (nettrace.md §5.7, §6.4) into the tables, as much of it as ``room`` bytes have place for.

    Returns how many ids were there already, differently, and how many stacks there was no room for. A block that breaks
    off raises, after the stacks before that place were taken.
    """
    first, count = cursor.u32("first stack id"), cursor.u32("stack count")
    if count > cursor.left // 4:
        raise cursor.fail(f"{count} stacks in {cursor.left} bytes")
    if first + count > 1 << 32:
        raise cursor.fail(f"stack ids {first} + {count} do not fit")
    data, at, end = bytes(cursor.view(cursor.left)), 0, 0
    clashes = refused = 0
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
        room -= STACK_COST + size
        if room < 0:
            room += STACK_COST + size
            refused += 1
        elif not ids.define(number, stacks.intern(data[at + 4 : end - size % pointer])):
            clashes += 1
        at = end
    return clashes, refused
