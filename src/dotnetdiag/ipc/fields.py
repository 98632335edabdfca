"""What messages are made of: one table of fields for each, by which it is both written and read.

Rule 1: a value that does not fit its field is told by :meth:`Kind.problem` before anything is written.
Rule 2: a count is checked against the bytes that are left before anything is made of it.
"""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

from dotnetdiag.wire import Cursor, Packer


def pack_text(packer: Packer, text: str | None) -> None:
    """u32 count of UTF-16 units with the NUL, then the units; ``None`` is count 0, which is not ``""`` (§21.2)."""
    if text is None:
        packer.u32(0)
        return
    data = text.encode("utf-16-le", "surrogatepass")
    packer.u32(len(data) // 2 + 1).raw(data).u16(0)


def read_text(cursor: Cursor, what: str) -> str | None:
    """The counterpart of :func:`pack_text`. The last unit must be NUL."""
    count = cursor.u32(f"length of {what}")
    if count == 0:
        return None
    data = cursor.take(count * 2, what)
    if data[-2:] != b"\0\0":
        raise cursor.fail(f"{what} does not end with NUL")
    return data[:-2].decode("utf-16-le", "surrogatepass")


def read_count(cursor: Cursor, what: str, smallest: int) -> int:
    """A u32 count of things of at least ``smallest`` bytes each; so many must be left."""
    count = cursor.u32(f"{what} count")
    if count * smallest > cursor.left:
        raise cursor.fail(f"{what} count {count} needs at least {count * smallest} bytes, {cursor.left} left")
    return count


class Kind(Protocol):
    """How one value stands on the wire."""

    def problem(self, value: Any) -> str:
        """Why the value does not fit, as the end of a sentence that begins with its name; ``""`` when it fits."""

    def write(self, packer: Packer, value: Any) -> None:
        """Append a value that fits."""

    def read(self, cursor: Cursor, what: str) -> Any:
        """Take a value. Raises the cursor's error."""


class Unsigned:
    """A little-endian number of so many bytes, at most ``largest``."""

    def __init__(self, size: int, largest: int | None = None) -> None:
        self.size, self.largest = size, largest

    def problem(self, value: Any) -> str:
        if not isinstance(value, int) or not 0 <= value < 1 << 8 * self.size:
            return f"{value!r} does not fit {8 * self.size} unsigned bits"
        return ""

    def write(self, packer: Packer, value: int) -> None:
        packer.raw(int(value).to_bytes(self.size, "little"))

    def read(self, cursor: Cursor, what: str) -> int:
        value = int.from_bytes(cursor.view(self.size, what), "little")
        if self.largest is not None and value > self.largest:
            raise cursor.fail(f"{what} {value} is above the limit of {self.largest}")
        return value


class Bool:
    """One byte; anything but 0 is true (§3)."""

    def problem(self, value: Any) -> str:  # noqa: ARG002 - everything is true or false
        return ""

    def write(self, packer: Packer, value: Any) -> None:
        packer.u8(1 if value else 0)

    def read(self, cursor: Cursor, what: str) -> bool:
        return cursor.u8(what) != 0


class Text:
    """A string, or ``None`` for count 0."""

    def problem(self, value: Any) -> str:
        return "" if value is None or isinstance(value, str) else f"is a {type(value).__name__}, not a text"

    def write(self, packer: Packer, value: str | None) -> None:
        pack_text(packer, value)

    def read(self, cursor: Cursor, what: str) -> str | None:
        return read_text(cursor, what)


class Guid:
    """16 bytes in the order of .NET's ``Guid.ToByteArray``."""

    def problem(self, value: Any) -> str:
        return "" if isinstance(value, UUID) else f"{value!r} is no UUID"

    def write(self, packer: Packer, value: UUID) -> None:
        packer.raw(value.bytes_le)

    def read(self, cursor: Cursor, what: str) -> UUID:
        return UUID(bytes_le=cursor.take(16, what))


class Bytes:
    """u32 length, then the bytes."""

    def problem(self, value: Any) -> str:
        return "" if isinstance(value, bytes) else f"is a {type(value).__name__}, not bytes"

    def write(self, packer: Packer, value: bytes) -> None:
        packer.u32(len(value)).raw(value)

    def read(self, cursor: Cursor, what: str) -> bytes:
        return cursor.take(cursor.u32(f"length of {what}"), what)


class HResultKind(Unsigned):
    """int32, kept unsigned; missing is 0: a bare OK is a generic success (§18 no. 17c), which no runtime sends."""

    def read(self, cursor: Cursor, what: str) -> int:
        return super().read(cursor, what) if cursor.left else 0


U16, U32, U64 = Unsigned(2), Unsigned(4), Unsigned(8)
BOOL, TEXT, GUID, BYTES, HRESULT = Bool(), Text(), Guid(), Bytes(), HResultKind(4)


def text_problem(value: Any, *, optional: bool = False, empty: bool = False) -> str:
    """Why a value is no text to send, or ``""``."""
    if value is None:
        return "" if optional else "must not be missing"
    if not isinstance(value, str):
        return f"is a {type(value).__name__}, not a text"
    if not value and not empty:
        return "must not be empty"
    return "must not contain a NUL character" if "\0" in value else ""


class Field:
    """One attribute of a message. ``spec`` is its name in the document; ``since``: it is there from this ``version`` of the message on."""

    def __init__(self, name: str, spec: str, kind: Kind, since: int = 0) -> None:
        self.name, self.spec, self.kind, self.since = name, spec, kind, since

    def write(self, packer: Packer, message: Any) -> str:
        """Append the message's value; or say why it does not fit, and append nothing."""
        if self.since and message.version < self.since:
            return ""
        value = getattr(message, self.name)
        problem = self.kind.problem(value)
        if problem:
            return f"{self.name} {problem}"
        self.kind.write(packer, value)
        return ""

    def read(self, cursor: Cursor, values: dict[str, Any]) -> None:
        """Take the value into ``values``."""
        if not self.since or values["version"] >= self.since:
            values[self.name] = self.kind.read(cursor, self.spec)


class Constant:
    """A u32 that is the same in every message of its type."""

    def __init__(self, spec: str, value: int) -> None:
        self.spec, self.value = spec, value

    def write(self, packer: Packer, message: Any) -> str:  # noqa: ARG002 - as of Field
        packer.u32(self.value)
        return ""

    def read(self, cursor: Cursor, values: dict[str, Any]) -> None:  # noqa: ARG002 - as of Field
        found = cursor.u32(self.spec)
        if found != self.value:
            raise cursor.fail(f"{self.spec} is {found}, not {self.value}")


Fields = tuple[Field | Constant, ...]
