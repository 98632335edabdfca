"""A bounded reading position in a buffer, which knows its absolute offset.

Rule 1: every length is checked against what is left *before* anything is made of it.
Rule 2: what fails raises the error class the cursor was given, with the absolute offset, and leaves the cursor where it was.
"""

from __future__ import annotations

import struct

from dotnetdiag.errors import FormatError, MalformedError

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I16 = struct.Struct("<h")
_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")
_F64 = struct.Struct("<d")


class Cursor:
    """Read little-endian values from ``data[position:end]``.

    ``base`` is the absolute offset of ``data[0]``; ``where`` names the thing being read, for errors.
    """

    __slots__ = ("base", "data", "end", "error", "position", "where")

    def __init__(
        self,
        data: bytes | bytearray | memoryview,
        *,
        position: int = 0,
        end: int | None = None,
        base: int = 0,
        where: str = "",
        error: type[MalformedError] = FormatError,
    ) -> None:
        self.data = memoryview(data)
        self.position = position
        self.end = len(self.data) if end is None else end
        if not 0 <= position <= self.end <= len(self.data):
            raise ValueError(f"cursor {position}..{self.end} outside of {len(self.data)} bytes")
        self.base, self.where, self.error = base, where, error

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self.end - self.position

    @property
    def offset(self) -> int:
        """Absolute offset of the next byte."""
        return self.base + self.position

    def fail(self, problem: str) -> MalformedError:
        """The error to raise for a problem at this position."""
        return self.error(problem, offset=self.offset, where=self.where)

    def require(self, size: int, what: str = "value") -> None:
        """Raise unless ``size`` more bytes are there."""
        if size < 0 or size > self.end - self.position:
            raise self.fail(f"{what} needs {size} bytes, {self.left} left")

    def child(self, size: int, where: str = "") -> Cursor:
        """A cursor over the next ``size`` bytes; this one moves behind them."""
        self.require(size, where or "block")
        made = Cursor(
            self.data,
            position=self.position,
            end=self.position + size,
            base=self.base,
            where=where or self.where,
            error=self.error,
        )
        self.position += size
        return made

    def view(self, size: int, what: str = "bytes") -> memoryview:
        """The next ``size`` bytes, not copied."""
        self.require(size, what)
        start = self.position
        self.position = start + size
        return self.data[start : self.position]

    def take(self, size: int, what: str = "bytes") -> bytes:
        """The next ``size`` bytes, copied."""
        return bytes(self.view(size, what))

    def skip(self, size: int, what: str = "bytes") -> None:
        """Move ``size`` bytes on."""
        self.require(size, what)
        self.position += size

    def rest(self) -> bytes:
        """All that is left, copied."""
        return self.take(self.left)

    def u8(self, what: str = "u8") -> int:
        """One byte."""
        self.require(1, what)
        value = self.data[self.position]
        self.position += 1
        return value

    def u16(self, what: str = "u16") -> int:
        """Two bytes, unsigned."""
        self.require(2, what)
        value: int = _U16.unpack_from(self.data, self.position)[0]
        self.position += 2
        return value

    def i16(self, what: str = "i16") -> int:
        """Two bytes, signed."""
        self.require(2, what)
        value: int = _I16.unpack_from(self.data, self.position)[0]
        self.position += 2
        return value

    def u32(self, what: str = "u32") -> int:
        """Four bytes, unsigned."""
        self.require(4, what)
        value: int = _U32.unpack_from(self.data, self.position)[0]
        self.position += 4
        return value

    def i32(self, what: str = "i32") -> int:
        """Four bytes, signed."""
        self.require(4, what)
        value: int = _I32.unpack_from(self.data, self.position)[0]
        self.position += 4
        return value

    def u64(self, what: str = "u64") -> int:
        """Eight bytes, unsigned."""
        self.require(8, what)
        value: int = _U64.unpack_from(self.data, self.position)[0]
        self.position += 8
        return value

    def i64(self, what: str = "i64") -> int:
        """Eight bytes, signed."""
        self.require(8, what)
        value: int = _I64.unpack_from(self.data, self.position)[0]
        self.position += 8
        return value

    def f64(self, what: str = "f64") -> float:
        """Eight bytes, IEEE 754."""
        self.require(8, what)
        value: float = _F64.unpack_from(self.data, self.position)[0]
        self.position += 8
        return value

    def varuint(self, bits: int = 64, what: str = "varuint") -> int:
        """LEB128, low group first; at most 5 bytes for 32 bits and 10 for 64 (nettrace.md §5.5)."""
        value = shift = 0
        position = self.position
        limit = min(self.end, position + (5 if bits == 32 else 10))
        while position < limit:
            byte = self.data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    raise self.fail(f"{what} does not fit {bits} bits")
                self.position = position
                return value
            shift += 7
        raise self.fail(f"{what} does not end")

    def varint(self, bits: int = 64, what: str = "varint") -> int:
        """Zigzag over :meth:`varuint`."""
        value = self.varuint(bits, what)
        return (value >> 1) ^ -(value & 1)

    def z16(self, what: str = "string") -> str:
        """UTF-16LE text ended by a zero unit; lone surrogates stay as they are."""
        start = position = self.position
        data, end = self.data, self.end
        while position + 2 <= end:
            if data[position] == 0 and data[position + 1] == 0:
                self.position = position + 2
                return str(data[start:position], "utf-16-le", "surrogatepass")
            position += 2
        raise self.fail(f"{what} has no end")

    def utf8(self, size: int, what: str = "string") -> str:
        """``size`` bytes of UTF-8; what is not UTF-8 becomes U+FFFD."""
        return str(self.view(size, what), "utf-8", "replace")
