"""One message of the protocol: a 20-byte header and its payload.

======  ======  ==========================================
offset  type    field
0       14      magic ``DOTNET_IPC_V1`` and a zero
14      u16 LE  size of header and payload, 20..65535
16      u8      command set
17      u8      command id
18      u16 LE  reserved, written 0, not checked by runtimes
======  ======  ==========================================
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from dotnetdiag.errors import ProtocolError, UsageError
from dotnetdiag.ipc.commands import command_name
from dotnetdiag.ipc.values import Value

MAGIC = b"DOTNET_IPC_V1\0"
HEADER_SIZE = 20
MAX_MESSAGE_SIZE = 0xFFFF

_HEADER = struct.Struct("<14sHBBH")


class FrameHeader(NamedTuple):
    """The first 20 bytes of a message, checked."""

    size: int
    command_set: int
    command_id: int
    reserved: int = 0

    @classmethod
    def parse(cls, data: bytes | memoryview) -> FrameHeader:
        """Check and take apart 20 bytes. Raises ProtocolError; the size is checked before the magic, as runtimes do."""
        if len(data) < HEADER_SIZE:
            raise ProtocolError(f"{len(data)} bytes are too few for a header of 20", offset=0, where="message")
        magic, size, command_set, command_id, reserved = _HEADER.unpack_from(data)
        if size < HEADER_SIZE:
            raise ProtocolError(f"size {size} is less than the header", offset=14, where="message")
        if magic != MAGIC:
            raise ProtocolError(f"magic is {magic!r}, not DOTNET_IPC_V1", offset=0, where="message")
        return cls(size=size, command_set=command_set, command_id=command_id, reserved=reserved)


class Frame(Value):
    """A whole message, not interpreted."""

    command_set: int
    command_id: int
    payload: bytes = b""
    reserved: int = 0

    @property
    def code(self) -> int:
        """``0xSSII``."""
        return self.command_set << 8 | self.command_id

    def pack(self) -> bytes:
        """The bytes of the message. Raises UsageError for numbers that do not fit, and above 65,535 bytes."""
        size = HEADER_SIZE + len(self.payload)
        if not (0 <= self.command_set <= 0xFF and 0 <= self.command_id <= 0xFF and 0 <= self.reserved <= 0xFFFF):
            raise UsageError(
                f"command set {self.command_set} and id {self.command_id} are bytes, reserved {self.reserved} has 16 bits"
            )
        if size > MAX_MESSAGE_SIZE:
            raise UsageError(f"{command_name(self.code)}: {size} bytes are more than a message's {MAX_MESSAGE_SIZE}")
        return _HEADER.pack(MAGIC, size, self.command_set, self.command_id, self.reserved) + self.payload

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Frame:
        """Exactly one message. Raises ProtocolError when bytes are missing or left over."""
        header = FrameHeader.parse(data)
        if len(data) != header.size:
            raise ProtocolError(f"header says {header.size} bytes, there are {len(data)}", offset=14, where="message")
        return cls(
            command_set=header.command_set,
            command_id=header.command_id,
            payload=bytes(data[HEADER_SIZE:]),
            reserved=header.reserved,
        )


class FrameReader:
    """Bytes in any cut, frames out. After an error it stays in error and says so again."""

    __slots__ = ("_buffer", "_error")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._error: ProtocolError | None = None

    @property
    def wanted(self) -> int:
        """How many bytes are missing for the next frame; 0: one is there, and ``feed(b"")`` gives it. Raises ProtocolError."""
        return max(self._missing(), 0)

    def feed(self, data: bytes | memoryview) -> Frame | None:
        """Take bytes; the first complete frame, or None. Raises ProtocolError; from then on nothing is taken."""
        if self._error is None:
            self._buffer += data
        if self._missing() > 0:
            return None
        size = len(self._buffer) + self._missing()
        frame = Frame.parse(bytes(self._buffer[:size]))
        del self._buffer[:size]
        return frame

    @property
    def leftover(self) -> bytes:
        """Bytes after the last frame given: the start of a continuation."""
        return bytes(self._buffer)

    def _missing(self) -> int:
        """Bytes missing for the next frame; negative when there are more than it takes."""
        if self._error is not None:
            raise self._error
        if len(self._buffer) < HEADER_SIZE:
            return HEADER_SIZE - len(self._buffer)
        try:
            return FrameHeader.parse(bytes(self._buffer[:HEADER_SIZE])).size - len(self._buffer)
        except ProtocolError as error:
            self._error = error
            raise
