"""Activity ids, one number for each distinct one."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.room import Room
from dotnetdiag.nettrace.stacks import HASH_KEYS

ZERO = bytes(16)
_LEAST = 1 << 8
IN_FILE = 8 << 20
"""Bytes of GUIDs from which on they lie in a file, of half a million: those that come are mostly new, or came a moment ago."""
_MANY_SLOTS = 1 << 20
"""From so many on a table grows by a third: twice as many, of which more than half are empty then, were 42 MB of a report on a million requests."""
_LET_GO = 1 << 16
"""After so many, those that were looked at go from memory."""


class GuidTable:
    """Interned GUIDs. Index 0 is the zero GUID, which means *none*. One thread at a time may add some.

    Those that come many at once, from files, are in a table of bytes: a file of requests has some for each, and an object for each was most of the
    memory of a report, and a third of its time. In that they take 16 bytes each, in a file when there are many, and 6 to 8 for their places. Those
    that come one by one, from a program that writes events, are in a list and a dict until others come so, and without compiled code always: a
    signal may interrupt :meth:`intern` and intern the same.
    """

    __slots__ = ("_ids", "_raw", "_table")

    def __init__(self) -> None:
        self._raw: list[bytes] = [ZERO]
        self._ids: dict[bytes, int] = {ZERO: 0}
        self._table: _Table | None = None
        """Instead of the two, which are empty then."""

    def __reduce__(self) -> tuple[object, ...]:
        """The GUIDs alone: another process has other keys, and so other places."""
        return _restored, (self.bytes().tobytes(),)

    def __len__(self) -> int:
        return len(self._raw) if self._table is None else len(self._table)

    def __getitem__(self, index: int) -> UUID:
        if self._table is None:
            return UUID(bytes_le=self._raw[index])
        return UUID(bytes_le=self._table.raw(range(len(self))[index]))

    def __iter__(self) -> Iterator[UUID]:
        data = self.bytes().tobytes()
        return (UUID(bytes_le=data[at : at + 16]) for at in range(0, len(data), 16))

    def intern(self, raw: bytes) -> int:
        """The index of a GUID given as its 16 bytes in .NET order."""
        found = self._ids.get(raw)
        if found is None:
            if len(raw) != len(ZERO):
                raise UsageError(f"a GUID has 16 bytes, not {len(raw)}")
            if self._table is not None:
                return int(self._table.intern(memoryview(raw), np.zeros(1, np.int64))[0])
            found = self._ids[raw] = len(
                self._raw
            )  # no function of Python's, nor a loop, since it was looked for: nothing comes between
            self._raw.append(raw)
        return found

    def intern_many(self, raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
        """Indices of the GUIDs in the rows of ``raw`` (n x 16), as they came."""
        data = np.ascontiguousarray(raw).reshape(-1)
        return self.intern_at(data.data, np.arange(len(raw), dtype=np.int64) * len(ZERO))

    def intern_at(self, data: memoryview, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        """Indices of the GUIDs that stand at those places of ``data``. Raises UsageError where one does not."""
        if not len(starts):
            return np.zeros(0, np.uint32)
        if not 0 <= int(starts.min()) <= int(starts.max()) <= len(data) - len(ZERO):
            raise UsageError("a GUID has 16 bytes, and lies in what it is read from")
        if kernels.KERNELS is None:
            return np.array([self.intern(bytes(data[at : at + 16])) for at in starts.tolist()], np.uint32)
        if self._table is None:
            self._table = _Table()
            self._table.intern(memoryview(b"".join(self._raw)), np.arange(len(self._raw), dtype=np.int64) * len(ZERO))
            self._raw, self._ids = [], {}
        return self._table.intern(data, starts)

    def bytes(self) -> npt.NDArray[np.uint8]:
        """All of them, 16 bytes each in .NET order, one after another."""
        return np.frombuffer(b"".join(self._raw), np.uint8) if self._table is None else self._table.bytes()


def _restored(raw: bytes) -> GuidTable:
    """A table of these, with numbers in this order."""
    table = GuidTable()
    table.intern_many(np.frombuffer(raw, np.uint8).reshape(-1, len(ZERO)))
    return table


class _Table:
    """GUIDs one behind the other, and where each is, by its hash."""

    __slots__ = ("_looked_at", "_pool", "_slots", "_state", "_tags")

    def __init__(self) -> None:
        self._state = np.ones(1, np.int64)
        self._pool = Room(16 * _LEAST, in_file=IN_FILE)
        self._slots, self._tags = np.zeros(2 * _LEAST, np.uint32), np.zeros(2 * _LEAST, np.uint8)
        self._looked_at = 0

    def __len__(self) -> int:
        return int(self._state[0])

    def intern(self, data: memoryview, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        """Their numbers; 0 of zeros."""
        assert kernels.KERNELS is not None
        ids, done = np.zeros(len(starts), np.uint32), 0
        while True:
            pool = self._pool.array()
            done = kernels.KERNELS.intern_guids(
                data, starts, done, HASH_KEYS, self._state, self._slots, self._tags, pool, ids
            )
            assert done >= 0, "arrays that do not fit each other"
            if done == len(starts):
                del pool
                self._looked_at += len(starts)
                if self._looked_at >= _LET_GO:
                    self._looked_at = 0
                    self._pool.let_go()
                return ids
            room = len(pool) // 16
            slots = len(self._slots)
            if len(self) == slots // 8 * 7:
                self._index(pool, slots + slots // (1 if slots < _MANY_SLOTS else 3))
            del pool
            if len(self) == room:
                self._pool.grow(16 * (room + max(room // 4, _LEAST)))
                self._looked_at = _LET_GO

    def _index(self, pool: npt.NDArray[np.uint8], slots: int) -> None:
        """A larger table of slots; never are there both, nor all GUIDs of a file in memory."""
        assert kernels.KERNELS is not None
        self._slots = np.zeros(0, np.uint32)
        self._slots, self._tags = np.zeros(slots, np.uint32), np.zeros(slots, np.uint8)
        for first in range(1, len(self), _LET_GO):
            kernels.KERNELS.index_guids(
                pool, first, min(first + _LET_GO, len(self)), HASH_KEYS, self._slots, self._tags
            )
            self._pool.let_go()

    def raw(self, number: int) -> bytes:
        """The 16 bytes of one."""
        return self._pool.array()[16 * number : 16 * number + 16].tobytes()

    def bytes(self) -> npt.NDArray[np.uint8]:
        """All of them."""
        made = self._pool.array()[: 16 * len(self)]
        made.flags.writeable = False
        return made
