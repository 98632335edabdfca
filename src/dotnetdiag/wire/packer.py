"""The counterpart of the cursor: little-endian values appended to one buffer."""

from __future__ import annotations

import struct

_PACK = {code: struct.Struct("<" + code).pack for code in "BHIQhiqd"}


class Packer:
    """Append values; ``bytes(packer)`` is what was written. Methods return the packer, so that calls chain."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def __bytes__(self) -> bytes:
        return bytes(self.buffer)

    def __len__(self) -> int:
        return len(self.buffer)

    def raw(self, data: bytes | bytearray | memoryview) -> Packer:
        """Bytes as they are."""
        self.buffer += data
        return self

    def u8(self, value: int) -> Packer:
        """One byte."""
        self.buffer.append(value)
        return self

    def u16(self, value: int) -> Packer:
        """Two bytes, unsigned."""
        self.buffer += _PACK["H"](value)
        return self

    def i16(self, value: int) -> Packer:
        """Two bytes, signed."""
        self.buffer += _PACK["h"](value)
        return self

    def u32(self, value: int) -> Packer:
        """Four bytes, unsigned."""
        self.buffer += _PACK["I"](value)
        return self

    def i32(self, value: int) -> Packer:
        """Four bytes, signed."""
        self.buffer += _PACK["i"](value)
        return self

    def u64(self, value: int) -> Packer:
        """Eight bytes, unsigned."""
        self.buffer += _PACK["Q"](value)
        return self

    def i64(self, value: int) -> Packer:
        """Eight bytes, signed."""
        self.buffer += _PACK["q"](value)
        return self

    def f64(self, value: float) -> Packer:
        """Eight bytes, IEEE 754."""
        self.buffer += _PACK["d"](value)
        return self

    def varuint(self, value: int) -> Packer:
        """LEB128, low group first."""
        if value < 0:
            raise ValueError("a varuint is not negative")
        while value > 0x7F:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)
        return self

    def varint(self, value: int) -> Packer:
        """Zigzag over :meth:`varuint`."""
        return self.varuint(value << 1 if value >= 0 else (-value << 1) - 1)

    def z16(self, text: str) -> Packer:
        """UTF-16LE with a zero unit at the end."""
        self.buffer += text.encode("utf-16-le", "surrogatepass") + b"\0\0"
        return self

    def utf8(self, text: str) -> Packer:
        """UTF-8, no length and no end."""
        self.buffer += text.encode("utf-8", "replace")
        return self
