"""Activity ids, one number for each distinct one."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.stacks import StackTable

ZERO = bytes(16)


class GuidTable:
    """Interned GUIDs. Index 0 is the zero GUID, which means *none*.

    Those that come many at once, from files, are in a table of bytes as stacks are: a file of requests has some for each, and an object for each
    was most of the memory of a report, and a third of its time. Those that come one by one, from a program that writes events, are in a dict
    until somebody asks for all.
    """

    __slots__ = ("_fresh", "_ids", "_table")

    def __init__(self) -> None:
        self._table = StackTable(8)
        """GUID ``i`` is number ``i + 1`` here."""
        self._fresh: list[bytes] = [ZERO]
        """Those that are not there yet."""
        self._ids: dict[bytes, int] = {ZERO: 0}
        """Some of them: all, as long as none came with others."""

    def __len__(self) -> int:
        return len(self._table) - 1 + len(self._fresh)

    def __getitem__(self, index: int) -> UUID:
        index = range(len(self))[index]
        return UUID(bytes_le=self._whole().raw(index + 1))

    def __iter__(self) -> Iterator[UUID]:
        data = self.bytes().tobytes()
        return (UUID(bytes_le=data[at : at + 16]) for at in range(0, len(data), 16))

    def intern(self, raw: bytes) -> int:
        """The index of a GUID given as its 16 bytes in .NET order."""
        found = self._ids.get(raw)
        if found is not None:
            return found
        if len(raw) != len(ZERO):
            raise UsageError(f"a GUID has 16 bytes, not {len(raw)}")
        if len(self._ids) == len(self):
            found = self._ids[raw] = len(self)
            self._fresh.append(raw)
        else:
            found = self._ids[raw] = self._whole().intern(raw) - 1
        return found

    def intern_many(self, raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
        """Indices of the GUIDs in the rows of ``raw`` (n x 16), as they came."""
        data = np.ascontiguousarray(raw).reshape(-1)
        return self.intern_at(data.data, np.arange(len(raw), dtype=np.int64) * len(ZERO))

    def intern_at(self, data: memoryview, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        """Indices of the GUIDs that stand at those places of ``data``. Raises UsageError where one does not."""
        if len(starts) and not 0 <= int(starts.min()) <= int(starts.max()) <= len(data) - len(ZERO):
            raise UsageError("a GUID has 16 bytes, and lies in what it is read from")
        if not len(starts):
            return np.zeros(0, np.uint32)
        made = self._whole().intern_many(data, starts, np.full(len(starts), len(ZERO), np.int64))
        made -= 1
        return made

    def bytes(self) -> npt.NDArray[np.uint8]:
        """All of them, 16 bytes each in .NET order, one after another."""
        return self._whole().arrays()[1].view(np.uint8)

    def _whole(self) -> StackTable:
        if self._fresh:
            data = b"".join(self._fresh)
            count, self._fresh = len(self._fresh), []
            starts = np.arange(count, dtype=np.int64) * len(ZERO)
            self._table.intern_many(memoryview(data), starts, np.full(count, len(ZERO), np.int64))
        return self._table
