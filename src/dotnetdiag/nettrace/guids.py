"""Activity ids, one number for each distinct one."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.room import Room, pages
from dotnetdiag.nettrace.stacks import HASH_KEYS

ZERO = bytes(16)
_LEAST = 1 << 8
IN_FILE = 8 << 20
"""Bytes of GUIDs from which on they lie in a file, of half a million: those that come are mostly new, or came a moment ago."""
GENERATION = 1 << 20
"""So many are found by a table in memory, of 10 bytes each. Of those before only a byte for each slot stays, which says of nearly all that come that
they are not among them: 1.4 bytes each. Of a million requests, which have three each and more, all together were 30 MB.
"""
MOST_GENERATIONS = 6
"""So many before that are looked through. What is in one that is older, and was not seen while a million others came, gets a new number when it comes
again: so ids of any number of requests take some 17 MB.
"""
MOST_KEPT = 1 << 16
"""Of what is in such old ones, but was seen since, so much stays known."""
_LET_GO = 1 << 12
"""After so many, those that were looked at go from memory. Where there are older tables, so many are looked for at once: of some in a hundred that a
table does not have it looks at its places and at a GUID, and the system shows the process 64 KB of the file around each.
"""

_WRITTEN = 1 << 18
"""Places, of 4 bytes each, that are in memory twice when they go to a file."""


class GuidTable:
    """Interned GUIDs. Index 0 is the zero GUID, which means *none*. One thread at a time may add some. A GUID has one number, but for those that came
    before seven million others, and not again since the last million: when they come again they are told by another number.

    Those that come many at once, from files, are in a table of bytes: a file of requests has some for each, and an object for each was most of the
    memory of a report, and a third of its time. In that they take 16 bytes each, in a file when there are many, and for their places 10 bytes each
    of the last million, 1.4 of those before, whose places are in a file too. Those that come one by one, from a program that writes events, are in a
    list and a dict until others come so, and without compiled code always: a signal may interrupt :meth:`intern` and intern the same.
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
    if kernels.KERNELS is None:
        table._raw = [raw[at : at + len(ZERO)] for at in range(0, len(raw), len(ZERO))]
        table._ids = {one: number for number, one in reversed([*enumerate(table._raw)])}
    else:
        table._raw, table._ids, table._table = [], {}, _Table.of(np.frombuffer(raw, np.uint8))
    return table


class _Table:
    """GUIDs one behind the other, and where each is, by its hash: of the last in a table that grows, of those before in some that do not."""

    __slots__ = ("_base", "_is_seen", "_kept", "_looked_at", "_older", "_pool", "_slots", "_state", "_tags")

    def __init__(self, room: int = _LEAST) -> None:
        self._state = np.ones(1, np.int64)
        self._pool = Room(16 * room, in_file=IN_FILE)
        self._base = 1
        self._slots, self._tags = _places(2 * _LEAST)
        self._older: list[_Generation] = []
        self._kept = _Kept(np.zeros(0, np.uint32), np.zeros((0, 16), np.uint8))
        self._is_seen = np.zeros(0, np.bool_)
        """Of each in the oldest, when there are no more than are looked through, whether it was seen since."""
        self._looked_at = 0

    @classmethod
    def of(cls, raw: npt.NDArray[np.uint8]) -> _Table:
        """These, of which one may be twice, in this order; zeros are the first."""
        made, count = cls(max(len(raw) // 16, _LEAST)), len(raw) // 16
        made._pool.array()[: 16 * count] = raw[: 16 * count]
        made._pool.let_go()
        while made._base < count:
            made._state[0] = min(made._base + GENERATION, count)
            slots = 2 * _LEAST
            while len(made) - made._base >= slots // 8 * 7 - 1:
                slots *= 2
            made._index(slots)
            if len(made) == count:
                break
            made._begin_generation()
        return made

    def __len__(self) -> int:
        return int(self._state[0])

    def intern(self, data: memoryview, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        """Their numbers; 0 of zeros."""
        if not self._older or len(starts) <= _LET_GO:
            return self._intern(data, starts)
        return np.concatenate([
            self._intern(data, starts[at : at + _LET_GO]) for at in range(0, len(starts), _LET_GO)
        ])  # fmt: skip

    def _intern(self, data: memoryview, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        ids, left = np.zeros(len(starts), np.uint32), np.arange(len(starts))
        if len(self) - self._base >= GENERATION:
            self._begin_generation()
        while True:
            if self._older:
                ids[left] = self._found(data, starts[left])
                left = left[ids[left] == 0]
            done = self._add(data, starts[left], left, ids)
            left = left[done:]
            self._look_away(len(starts))
            if not len(left):
                return ids
            self._make_room()

    def _found(self, data: memoryview, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        """The numbers of those that are there, 0 of others."""
        assert kernels.KERNELS is not None
        pool, ids, left = self._pool.array(), np.zeros(len(starts), np.uint32), np.arange(len(starts))
        young = _Generation(self._base, len(self), self._slots, self._tags)
        for one in (young, *reversed(self._older)):
            own = np.zeros(len(left), np.uint32)
            kernels.KERNELS.find_guids(
                data, starts[left], HASH_KEYS, one.base, one.end, one.slots(), one.tags, pool, own
            )
            ids[left] = own
            left = left[own == 0]
            if len(self._is_seen) and one is self._older[0]:
                self._is_seen[own[own > 0] - one.base] = True
        if len(self._kept):
            ids[left] = self._kept.found(data, starts[left])
        return ids

    def _add(
        self,
        data: memoryview,
        starts: npt.NDArray[np.int64],
        places: npt.NDArray[np.int64],
        ids: npt.NDArray[np.uint32],
    ) -> int:
        """Give those that are in no older table numbers; how many it got to."""
        assert kernels.KERNELS is not None
        pool, own = self._pool.array(), np.zeros(len(starts), np.uint32)
        done: int = kernels.KERNELS.intern_guids(
            data, starts, 0, HASH_KEYS, self._base, self._state, self._slots, self._tags, pool, own
        )
        assert done >= 0, "arrays that do not fit each other"
        ids[places[:done]] = own[:done]
        return done

    def _make_room(self) -> None:
        """For one more at least."""
        room, slots = self._pool.size_bytes // 16, len(self._slots)
        if len(self) - self._base >= slots // 8 * 7 - 1:
            self._index(2 * slots)
        if len(self) == room:
            self._pool.grow(16 * (room + max(room // 4, _LEAST)))
            self._pool.let_go()

    def _begin_generation(self) -> None:
        slots = max(GENERATION // 5 * 7, 2 * _LEAST)  # for all that it will have
        self._older.append(_Generation(self._base, len(self), self._slots, self._tags))
        self._older[-1].leave_memory()
        if len(self._older) > MOST_GENERATIONS:
            gone = self._older.pop(0)
            own = np.append(self._kept.seen(), gone.base + np.flatnonzero(self._is_seen))[-MOST_KEPT:]
            numbers = own.astype(np.uint32)
            self._kept = _Kept(numbers, self._raw_of(numbers))
        if len(self._older) == MOST_GENERATIONS:
            self._is_seen = np.zeros(self._older[0].end - self._older[0].base, np.bool_)
        self._base = len(self)
        self._slots, self._tags = _places(slots)

    def _raw_of(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
        """The GUIDs of these (n x 16): many may lie far apart, and nearly all of a million would be in memory."""
        pool, made = self._pool.array()[: 16 * len(self)].reshape(-1, 16), np.empty((len(numbers), 16), np.uint8)
        for first in range(0, len(numbers), _LET_GO):
            made[first : first + _LET_GO] = pool[numbers[first : first + _LET_GO]]
            self._pool.let_go()
        return made

    def _look_away(self, count: int) -> None:
        self._looked_at += count
        if self._looked_at >= _LET_GO:
            self._looked_at = 0
            self._pool.let_go()
            for one in self._older:
                one.let_go()

    def _index(self, slots: int) -> None:
        """A larger table of slots; never are there both, nor all GUIDs of a file in memory."""
        assert kernels.KERNELS is not None
        pool = self._pool.array()
        self._slots = np.zeros(0, np.uint32)
        self._slots, self._tags = _places(slots)
        for first in range(self._base, len(self), _LET_GO):
            last = min(first + _LET_GO, len(self))
            kernels.KERNELS.index_guids(pool, self._base, first, last, HASH_KEYS, self._slots, self._tags)
            self._pool.let_go()

    def raw(self, number: int) -> bytes:
        """The 16 bytes of one."""
        return self._pool.array()[16 * number : 16 * number + 16].tobytes()

    def bytes(self) -> npt.NDArray[np.uint8]:
        """All of them."""
        made = self._pool.array()[: 16 * len(self)]
        made.flags.writeable = False
        return made


def _places(slots: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
    """A table of so many slots, and their tags, in pages of their own: among arrays that come and go what lasts keeps what was freed around it,
    13 MB of a report on 10 million ids.
    """
    return np.frombuffer(pages(4 * slots), np.uint32), np.frombuffer(pages(slots), np.uint8)


class _Generation:
    """The table of some numbers, from ``base`` to ``end``."""

    __slots__ = ("_room", "_slots", "base", "end", "tags")

    def __init__(self, base: int, end: int, slots: npt.NDArray[np.uint32], tags: npt.NDArray[np.uint8]) -> None:
        self.base, self.end, self.tags = base, end, tags
        self._slots: npt.NDArray[np.uint32] | None = slots
        self._room: Room | None = None

    def slots(self) -> npt.NDArray[np.uint32]:
        """Their places: they are looked at where a tag says so."""
        if self._slots is not None:
            return self._slots
        assert self._room is not None
        made: npt.NDArray[np.uint32] = self._room.array(np.uint32)
        return made

    def leave_memory(self) -> None:
        """From now on they lie in a file, if there is room for it."""
        slots = self.slots()
        self._room = Room(slots.nbytes, in_file=0, grows=False)
        room = self._room.array(np.uint32)
        for first in range(0, len(slots), _WRITTEN):
            room[first : first + _WRITTEN] = slots[first : first + _WRITTEN]
            self.let_go()
        self._slots = None

    def let_go(self) -> None:
        """What was looked at goes from memory."""
        if self._room is not None:
            self._room.let_go()


class _Kept:
    """Some numbers that are in no generation any more, and their GUIDs (n x 16)."""

    __slots__ = ("_is_seen", "_numbers", "_pool", "_slots", "_tags")

    def __init__(self, numbers: npt.NDArray[np.uint32], raw: npt.NDArray[np.uint8]) -> None:
        self._numbers = np.append(np.zeros(1, np.uint32), numbers)
        self._pool = np.append(np.zeros((1, 16), np.uint8), raw, axis=0).reshape(-1)
        self._is_seen = np.zeros(len(self._numbers), np.bool_)
        slots = 8 + 2 * len(self._numbers)
        self._slots, self._tags = np.zeros(slots, np.uint32), np.zeros(slots, np.uint8)
        if len(self):
            assert kernels.KERNELS is not None
            kernels.KERNELS.index_guids(self._pool, 1, 1, len(self._numbers), HASH_KEYS, self._slots, self._tags)

    def __len__(self) -> int:
        return len(self._numbers) - 1

    def found(self, data: memoryview, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        """Their numbers, 0 of others."""
        assert kernels.KERNELS is not None
        own, count = np.zeros(len(starts), np.uint32), len(self._numbers)
        kernels.KERNELS.find_guids(data, starts, HASH_KEYS, 1, count, self._slots, self._tags, self._pool, own)
        self._is_seen[own] = True
        made: npt.NDArray[np.uint32] = self._numbers[own]
        return made

    def seen(self) -> npt.NDArray[np.uint32]:
        """Those that were found."""
        made: npt.NDArray[np.uint32] = self._numbers[1:][self._is_seen[1:]]
        return made
