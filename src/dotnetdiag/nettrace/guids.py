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
    was most of the memory of a report, and a third of its time. Those that come one by one, from a program that writes events, are in a list and
    a dict until others come so: a signal may interrupt :meth:`intern` and intern the same.
    """

    __slots__ = ("_ids", "_raw", "_table")

    def __init__(self) -> None:
        self._raw: list[bytes] = [ZERO]
        self._ids: dict[bytes, int] = {ZERO: 0}
        self._table: StackTable | None = None
        """Instead of the two, which are empty then. GUID ``i`` is number ``i + 1`` here."""

    def __len__(self) -> int:
        return len(self._raw) if self._table is None else len(self._table) - 1

    def __getitem__(self, index: int) -> UUID:
        if self._table is None:
            return UUID(bytes_le=self._raw[index])
        return UUID(bytes_le=self._table.raw(range(len(self))[index] + 1))

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
                return self._table.intern(raw) - 1
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
        if self._table is None:
            self._table = StackTable(8)
            _interned(
                self._table, memoryview(b"".join(self._raw)), np.arange(len(self._raw), dtype=np.int64) * len(ZERO)
            )
            self._raw, self._ids = [], {}
        return _interned(self._table, data, starts) - 1

    def bytes(self) -> npt.NDArray[np.uint8]:
        """All of them, 16 bytes each in .NET order, one after another."""
        if self._table is None:
            return np.frombuffer(b"".join(self._raw), np.uint8)
        return self._table.arrays()[1].view(np.uint8)


def _interned(table: StackTable, data: memoryview, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    return table.intern_many(data, starts, np.full(len(starts), len(ZERO), np.int64))
