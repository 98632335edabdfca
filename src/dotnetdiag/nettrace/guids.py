"""Activity ids, one number for each distinct one."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import UsageError

ZERO = bytes(16)


class GuidTable:
    """Interned GUIDs. Index 0 is the zero GUID, which means *none*."""

    __slots__ = ("_ids", "_raw")

    def __init__(self) -> None:
        self._raw: list[bytes] = [ZERO]
        self._ids: dict[bytes, int] = {ZERO: 0}

    def __len__(self) -> int:
        return len(self._raw)

    def __getitem__(self, index: int) -> UUID:
        return UUID(bytes_le=self._raw[index])

    def __iter__(self) -> Iterator[UUID]:
        return (UUID(bytes_le=raw) for raw in self._raw)

    def intern(self, raw: bytes) -> int:
        """The index of a GUID given as its 16 bytes in .NET order."""
        found = self._ids.get(raw)
        if found is None:
            if len(raw) != len(ZERO):
                raise UsageError(f"a GUID has 16 bytes, not {len(raw)}")
            found = self._ids[raw] = len(self._raw)
            self._raw.append(raw)
        return found

    def intern_many(self, raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
        """Indices of the GUIDs in the rows of ``raw`` (n x 16), as they came."""
        data = raw.tobytes()
        intern = self.intern
        made = (intern(data[at : at + 16]) for at in range(0, len(data), 16))
        return np.fromiter(made, np.uint32, len(raw))

    def bytes(self) -> npt.NDArray[np.uint8]:
        """All of them, 16 bytes each in .NET order, one after another."""
        return np.frombuffer(b"".join(self._raw), np.uint8)
