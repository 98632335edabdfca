"""A cursor that notes what is read from it, so that the readers of messages also tell where each value stands."""

from __future__ import annotations

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.wire import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One value was read: ``what`` as its reader calls it, the absolute offset, ``type`` (``u8`` … ``u64``, ``bytes``)."""

    what: str
    offset: int
    size: int
    type: str
    value: int | bytes


class NotingCursor(Cursor):
    """A :class:`Cursor` with ``notes``, in the order of reading. What could not be read is not noted."""

    __slots__ = ("notes",)

    def __init__(self, data: bytes | bytearray | memoryview, *, base: int, where: str, error: type) -> None:
        super().__init__(data, base=base, where=where, error=error)
        self.notes: list[Note] = []

    def view(self, size: int, what: str = "bytes") -> memoryview:
        offset = self.offset
        made = super().view(size, what)
        self.notes.append(Note(what=what, offset=offset, size=size, type="bytes", value=bytes(made)))
        return made

    def u8(self, what: str = "u8") -> int:
        return self._noted(what, "u8", super().u8(what))

    def u16(self, what: str = "u16") -> int:
        return self._noted(what, "u16", super().u16(what))

    def u32(self, what: str = "u32") -> int:
        return self._noted(what, "u32", super().u32(what))

    def u64(self, what: str = "u64") -> int:
        return self._noted(what, "u64", super().u64(what))

    def _noted(self, what: str, kind: str, value: int) -> int:
        size = int(kind[1:]) // 8
        self.notes.append(Note(what=what, offset=self.offset - size, size=size, type=kind, value=value))
        return value
