"""What all messages share: text and GUID encodings, the base of requests and of replies.

Rule 1: ``pack()`` checks first; a request that fails its check never becomes bytes.
Rule 2: ``parse()`` gives a message or raises ProtocolError, whatever the bytes are. Bytes behind the last known field are kept
in ``trailing``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self
from uuid import UUID

from dotnetdiag.errors import DangerousRequest, ProtocolError, RequestRefused
from dotnetdiag.ipc.commands import ERROR_ID, OK_ID, SERVER_SET, Command
from dotnetdiag.ipc.frames import MAX_MESSAGE_SIZE, Frame
from dotnetdiag.wire import Cursor, Packer

__all__ = ["OkReply", "Request", "pack_text", "read_guid", "read_text"]


def pack_text(packer: Packer, text: str | None) -> None:
    """u32 count of UTF-16 units with the NUL, then the units; ``None`` is count 0, which is not ``""`` (§21.2)."""
    if text is None:
        packer.u32(0)
        return
    data = text.encode("utf-16-le", "surrogatepass")
    packer.u32(len(data) // 2 + 1).raw(data).u16(0)


def read_text(cursor: Cursor, what: str) -> str | None:
    """The counterpart of :func:`pack_text`. The last unit must be NUL; the count is checked against what is left."""
    count = cursor.u32(f"length of {what}")
    if count == 0:
        return None
    if count * 2 > cursor.left:
        raise cursor.fail(f"{what} needs {count * 2} bytes, {cursor.left} left")
    data = cursor.take(count * 2)
    if data[-2:] != b"\0\0":
        raise cursor.fail(f"{what} does not end with NUL")
    return data[:-2].decode("utf-16-le", "surrogatepass")


def read_guid(cursor: Cursor, what: str) -> UUID:
    """16 bytes in the order of .NET's ``Guid.ToByteArray``."""
    return UUID(bytes_le=cursor.take(16, what))


def read_bool(cursor: Cursor, what: str) -> bool:
    """One byte; anything but 0 is true."""
    return cursor.u8(what) != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OkReply:
    """Base of all OK replies; by itself a bare OK (size 20), which runtimes never send but clients tolerate."""

    trailing: bytes = b""

    def _write(self, packer: Packer) -> None:
        """Append the payload."""

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        """Fields from the payload."""
        return {}

    def pack(self) -> bytes:
        """The bytes of the reply."""
        packer = Packer()
        self._write(packer)
        return Frame(command_set=SERVER_SET, command_id=OK_ID, payload=bytes(packer) + self.trailing).pack()

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """The reply in a whole message. Raises ProtocolError."""
        return cls.from_frame(Frame.parse(data))

    @classmethod
    def from_frame(cls, frame: Frame) -> Self:
        """The reply in a frame. Raises ProtocolError when it is not an OK or is too short."""
        if frame.command_set != SERVER_SET or frame.command_id != OK_ID:
            raise ProtocolError(f"0x{frame.code:04X} is not an OK reply", offset=16, where=cls.__name__)
        cursor = Cursor(frame.payload, base=20, where=cls.__name__, error=ProtocolError)
        values = cls._read(cursor)
        return cls(**values, trailing=cursor.rest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Base of all requests."""

    COMMAND: ClassVar[Command]
    REPLY: ClassVar[type[OkReply]] = OkReply
    NO_PAYLOAD: ClassVar[bool] = False

    trailing: bytes = b""

    def check(self) -> None:
        """Raise RequestRefused or DangerousRequest for a request that must not be sent."""

    def _write(self, packer: Packer) -> None:
        """Append the payload."""

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        """Fields from the payload."""
        return {}

    def pack(self) -> bytes:
        """The bytes of the request, checked. Raises RequestRefused."""
        if self.NO_PAYLOAD and self.trailing:
            # §21.1: with a payload the runtime answers with heap memory instead of a message.
            raise DangerousRequest(self.COMMAND.name, "the command takes no payload; one corrupts the answer")
        self.check()
        packer = Packer()
        try:
            self._write(packer)
        except UnicodeEncodeError as error:  # pragma: no cover - surrogatepass accepts all str
            raise RequestRefused(self.COMMAND.name, f"text cannot be encoded: {error}") from error
        payload = bytes(packer) + self.trailing
        if len(payload) + 20 > MAX_MESSAGE_SIZE:
            raise RequestRefused(
                self.COMMAND.name, f"{len(payload) + 20} bytes are more than the {MAX_MESSAGE_SIZE} of a message"
            )
        return Frame(command_set=self.COMMAND >> 8, command_id=self.COMMAND & 0xFF, payload=payload).pack()

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """The request in a whole message. Raises ProtocolError."""
        return cls.from_frame(Frame.parse(data))

    @classmethod
    def from_frame(cls, frame: Frame) -> Self:
        """The request in a frame whose code is this command's."""
        if frame.code != cls.COMMAND:
            raise ProtocolError(f"command is 0x{frame.code:04X}, not 0x{int(cls.COMMAND):04X}", where=cls.COMMAND.name)
        cursor = Cursor(frame.payload, base=20, where=cls.COMMAND.name, error=ProtocolError)
        values = cls._read(cursor)
        return cls(**values, trailing=cursor.rest())

    # -- helpers for check() of subclasses

    def refuse(self, reason: str) -> RequestRefused:
        """The error for a wrong request."""
        return RequestRefused(self.COMMAND.name, reason)

    def dangerous(self, reason: str) -> DangerousRequest:
        """The error for a request that would kill a target."""
        return DangerousRequest(self.COMMAND.name, reason)

    def check_u(self, bits: int, **values: int) -> None:
        """Every value fits so many unsigned bits."""
        for name, value in values.items():
            if not 0 <= value < 1 << bits:
                raise self.refuse(f"{name} {value} does not fit {bits} unsigned bits")

    def check_text(self, what: str, text: str | None, *, empty: bool = False) -> None:
        """A text without NUL inside, and not empty unless allowed."""
        if text is None or (not text and not empty):
            raise self.refuse(f"{what} must not be empty")
        if "\0" in text:
            raise self.refuse(f"{what} must not contain a NUL character")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReply:
    """``0xFFFF``: an HRESULT, and from dump 3 a text (``None``: no text was sent).

    24 bytes without text; the documents print 28 and are wrong (§18 no. 1).
    """

    hresult: int
    text: str | None = None
    trailing: bytes = b""

    def pack(self) -> bytes:
        """The bytes of the reply."""
        packer = Packer().u32(self.hresult & 0xFFFFFFFF)
        if self.text is not None:
            pack_text(packer, self.text)
        payload = bytes(packer) + self.trailing
        return Frame(command_set=SERVER_SET, command_id=ERROR_ID, payload=payload).pack()

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """The reply in a whole message. Raises ProtocolError."""
        return cls.from_frame(Frame.parse(data))

    @classmethod
    def from_frame(cls, frame: Frame) -> Self:
        """The reply in a frame. A text that does not parse stays in ``trailing``: the HRESULT matters more."""
        if frame.command_set != SERVER_SET or frame.command_id != ERROR_ID:
            raise ProtocolError(f"0x{frame.code:04X} is not an error reply", offset=16, where="ErrorReply")
        cursor = Cursor(frame.payload, base=20, where="ErrorReply", error=ProtocolError)
        hresult = cursor.u32("hresult")
        text = None
        if cursor.left:
            start = cursor.position
            try:
                text = read_text(cursor, "text")
            except ProtocolError:
                text = None
            if text is None:
                cursor.position = start
        return cls(hresult=hresult, text=text, trailing=cursor.rest())
