"""Call stacks, one number for each distinct one.

Ids in a file are reset at every sequence point (nettrace.md §5.8); a :class:`StackTable` gives ids that stay.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.ids import IdMap
from dotnetdiag.nettrace.room import NEVER, Room
from dotnetdiag.wire import Cursor

STACK_COST = 320
"""Bytes that a stack and its id take beside the addresses, about."""
PART = 1 << 16
"""Stacks of a block that are looked at together."""
_LEAST, _LEAST_BYTES = 32, 4096
_AT_ONCE, _LET_GO = 1 << 10, 1 << 20
"""Of a table in a file: so many are looked up, and so many bytes looked at, before these go from memory."""
_PAGE = 1 << 10
"""Bytes that come into memory with one, about: those that are looked at one after the other lie side by side."""
HASH_KEYS = np.frombuffer(bytearray(os.urandom(258 * 8)), np.uint64)
"""Of the hashes of stacks: nobody can write a file whose stacks meet."""

_Item = TypeVar("_Item", bound=np.generic)


class StackTable:
    """Interned stacks. Id 0 is *no stack*; a stack without frames has an id of its own.

    All addresses stand in one array, and without the kernels in a dict besides. From ``in_file`` bytes on the array lies in a file, and of each only
    what it is found by takes memory, 12 to 20 bytes: for those that come once, as names of methods do.
    """

    __slots__ = (
        "_hashes",
        "_ids",
        "_in_file",
        "_looked_at",
        "_offsets",
        "_pool",
        "_rooms",
        "_slots",
        "_state",
        "pointer_size",
    )

    def __init__(self, pointer_size: int = 8, *, in_file: int = NEVER) -> None:
        if pointer_size not in (4, 8):
            raise UsageError(f"pointers have 4 or 8 bytes, not {pointer_size}")
        self.pointer_size = pointer_size
        self._state = np.array([1, 0], np.int64)
        """Number of ids, bytes of the pool: see ``_kernels.intern_stacks``, also for the others."""
        self._offsets = np.zeros(_LEAST + 1, np.int64)
        self._hashes = np.zeros(_LEAST, np.uint32)
        self._slots = np.zeros(2 * _LEAST, np.uint32)
        self._pool = np.empty(_LEAST_BYTES, np.uint8)
        self._ids: dict[bytes, int] = {}
        self._in_file, self._looked_at = in_file, 0
        self._rooms: tuple[Room, Room] | None = None
        """Where offsets and pool lie when they are many."""

    def __reduce__(self) -> tuple[object, ...]:
        """The stacks alone: another process has other keys, and so other hashes."""
        count, used = self._state.tolist()
        return _restored, (
            self.pointer_size,
            self._in_file,
            self._offsets[1 : count + 1].copy(),
            self._pool[:used].tobytes(),
        )

    def __len__(self) -> int:
        """Number of ids, 0 included: valid ids are below it."""
        return int(self._state[0])

    @property
    def size_bytes(self) -> int:
        """The sum of the addresses' bytes."""
        return int(self._state[1])

    def intern(self, addresses: bytes) -> int:
        """The id of a stack given as bytes of whole pointers, leaf first."""
        if len(addresses) % self.pointer_size:
            raise UsageError(f"{len(addresses)} bytes are not made of pointers of {self.pointer_size}")
        found = self.intern_many(memoryview(addresses), np.zeros(1, np.int64), np.full(1, len(addresses), np.int64))
        return int(found[0])

    def intern_many(
        self, data: memoryview, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint32]:
        """The ids of stacks that lie in ``data``, whole pointers each; 0 where the size is below 0."""
        if kernels.KERNELS is None:
            return self._intern_uncompiled(data, starts, sizes)
        if self._rooms is None:
            return self._intern_compiled(data, starts, sizes)
        made = np.zeros(len(starts), np.uint32)
        for first in range(0, len(starts), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            made[some] = self._intern_compiled(data, starts[some], sizes[some])
            self.let_go()
        return made

    def _intern_compiled(
        self, data: memoryview, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint32]:
        assert kernels.KERNELS is not None
        ids, done = np.zeros(len(starts), np.uint32), 0
        while True:
            done = kernels.KERNELS.intern_stacks(
                data,
                starts,
                sizes,
                done,
                HASH_KEYS,
                self._state,
                self._offsets,
                self._hashes,
                self._slots,
                self._pool,
                ids,
            )
            assert done >= 0, "arrays that do not fit each other"
            if done == len(starts):
                return ids
            self._grow(1, int(sizes[done]))
            slots = np.zeros(2 * len(self._hashes), np.uint32)
            if len(slots) > len(self._slots):
                kernels.KERNELS.index_stacks(self._hashes, len(self), slots)
                self._slots = slots

    def intern_those(self, other: StackTable, ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """The ids of stacks of another table; 0 for 0."""
        starts = other._offsets[ids]
        sizes = np.where(ids > 0, other._offsets[1:][ids] - starts, -1)
        return self.intern_many(other._pool.data, starts, sizes)

    def _intern_uncompiled(
        self, data: memoryview, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint32]:
        from dotnetdiag.nettrace import fallback  # many programs never need it

        ids, fresh = fallback.intern_stacks(data, starts.tolist(), sizes.tolist(), self._ids)
        whole = b"".join(fresh)
        self._grow(len(fresh), len(whole))
        count, used = self._state.tolist()
        self._offsets[count + 1 : count + 1 + len(fresh)] = used + np.cumsum(
            [len(raw) for raw in fresh], dtype=np.int64
        )
        self._pool[used : used + len(whole)] = np.frombuffer(whole, np.uint8)
        self._state += (len(fresh), len(whole))
        return np.array(ids, np.uint32)

    def _grow(self, stacks: int, size_bytes: int) -> None:
        """Make room for so many stacks of so many bytes together."""
        count, used = self._state.tolist()
        room = len(self._hashes)
        while count + stacks > room - 1:
            room *= 2
        size = len(self._pool)
        if used + size_bytes > size:
            size = max(used + size_bytes, size * 3 // 2)
        if self._rooms is None and size >= self._in_file:
            self._rooms = Room(self._offsets.nbytes, in_file=0), Room(self._pool.nbytes, in_file=0)
            self._rooms[0].array(np.int64)[:] = self._offsets
            self._rooms[1].array()[:] = self._pool
            self._offsets, self._pool = self._rooms[0].array(np.int64), self._rooms[1].array()
        if room > len(self._hashes):
            self._hashes = _longer(self._hashes, count, room)
            self._offsets = self._longer_or_in_file(0, self._offsets, count + 1, room + 1)
        if size > len(self._pool):
            self._pool = self._longer_or_in_file(1, self._pool, used, size)

    def _longer_or_in_file(self, place: int, array: npt.NDArray[_Item], used: int, length: int) -> npt.NDArray[_Item]:
        """As :func:`_longer`, where it lies."""
        if self._rooms is None:
            return _longer(array, used, length)
        self._rooms[place].grow(length * array.itemsize)
        made: npt.NDArray[_Item] = self._rooms[place].array(array.dtype)
        return made

    def let_go(self) -> None:
        """What was looked at goes from memory, where it is in a file."""
        for one in self._rooms or ():
            one.let_go()
        self._looked_at = 0

    def raw(self, stack_id: int) -> bytes:
        """The addresses as they stand in the file."""
        if not 0 <= stack_id < len(self):
            return b""
        start, end = self._offsets[stack_id : stack_id + 2].tolist()
        made = self._pool[start:end].tobytes()
        if self._rooms is not None:
            self._looked_at += _PAGE
            if self._looked_at >= _LET_GO:
                self.let_go()
        return made

    def runs(self, first: int) -> Iterator[tuple[npt.NDArray[np.int64], memoryview]]:
        """Stacks from that id on, some at a time: the ids of those that have bytes, and these, one behind the other."""
        for begin in range(first, len(self), PART):
            offsets = self._offsets[begin : min(begin + PART, len(self)) + 1]
            yield begin + np.flatnonzero(np.diff(offsets)), self._pool.data[int(offsets[0]) : int(offsets[-1])]

    def pieces(self, first: int) -> tuple[npt.NDArray[np.int64], memoryview]:
        """The bytes of all from that id on, one behind the other, and where each begins and the last ends, as far as the first is from the first of
        all.
        """
        offsets = self._offsets[first : len(self) + 1]
        return offsets, self._pool.data[int(offsets[0]) : int(offsets[-1])]

    def frames(self, stack_id: int) -> npt.NDArray[np.uint64]:
        """Addresses, innermost (leaf) first; empty for 0 and for ids that are not there."""
        raw = self.raw(stack_id)
        return np.frombuffer(raw, self._pointer, len(raw) // self.pointer_size).astype(np.uint64, copy=False)

    def lengths(self, ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """How many addresses these stacks have; 0 for 0 and for ids that are not there."""
        known = np.where(ids < len(self), ids, 0)
        made: npt.NDArray[np.int64] = (self._offsets[1:][known] - self._offsets[known]) // self.pointer_size
        self.let_go()
        return made

    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """(offsets, addresses): the frames of stack ``i`` are ``addresses[offsets[i]:offsets[i + 1]]``, leaf first."""
        count, used = self._state.tolist()
        addresses = self._pool[: used - used % self.pointer_size].view(self._pointer)
        addresses.flags.writeable = False
        return self._offsets[: count + 1] // self.pointer_size, addresses.astype(np.uint64, copy=False)

    @property
    def _pointer(self) -> np.dtype[np.uint64] | np.dtype[np.uint32]:
        return np.dtype("<u8") if self.pointer_size == 8 else np.dtype("<u4")


def _restored(pointer_size: int, in_file: int, offsets: npt.NDArray[np.int64], pool: bytes) -> StackTable:
    """A table of the stacks between those places of ``pool``, with ids in this order."""
    table = StackTable(pointer_size, in_file=in_file)
    table.intern_many(memoryview(pool), offsets[:-1], np.diff(offsets))
    return table


def _longer(array: npt.NDArray[_Item], used: int, length: int) -> npt.NDArray[_Item]:
    """With the first ``used`` items of another."""
    made = np.zeros(length, array.dtype)
    made[:used] = array[:used]
    return made


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
    offset, data = cursor.offset, cursor.view(cursor.left)
    at = clashes = refused = 0
    while count:
        wanted = min(count, PART)
        starts, sizes, (found, at, without, room) = _split(data, at, stacks.pointer_size, wanted, room)
        clashes += ids.define_range(first, stacks.intern_many(data, starts, sizes))
        refused += without
        first, count = first + found, count - found
        if found < wanted:
            left = len(data) - at - 4
            size = int.from_bytes(data[at : at + 4], "little")
            problem = f"stack {first} is cut" if left < 0 else f"stack of {size} bytes, {left} left"
            raise FormatError(problem, offset=offset + at, where=cursor.where)
    return clashes, refused


def _split(
    data: memoryview, at: int, pointer: int, most: int, room: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], tuple[int, int, int, int]]:
    if kernels.KERNELS is None:
        from dotnetdiag.nettrace import fallback

        positions, lengths, said = fallback.split_stacks(data, at, STACK_COST, pointer, room, most)
        return np.array(positions, np.int64), np.array(lengths, np.int64), said
    starts, sizes = np.zeros(most, np.int64), np.zeros(most, np.int64)
    said = kernels.KERNELS.split_stacks(data, at, STACK_COST, pointer, room, starts, sizes)
    return starts[: said[0]], sizes[: said[0]], said
