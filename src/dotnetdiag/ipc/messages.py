"""The base of requests and of replies: a table of fields, and what may be sent.

Rule 1: ``pack()`` checks first; a request that fails its check never becomes bytes.
Rule 2: ``parse()`` gives a message or raises ProtocolError, whatever the bytes are. Bytes behind the last known field are kept
in ``trailing``.
Rule 3: *invalid* is what a server answers BAD_ENCODING to; *refused* is what we do not send, though some server would take it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

from dotnetdiag.errors import DangerousRequest, ProtocolError, RequestRefused, UsageError
from dotnetdiag.ipc.commands import ERROR_ID, OK_ID, SERVER_SET, Command, command_name
from dotnetdiag.ipc.fields import Fields, pack_text, read_text
from dotnetdiag.ipc.frames import HEADER_SIZE, MAX_MESSAGE_SIZE, Frame
from dotnetdiag.ipc.values import Value
from dotnetdiag.wire import Cursor, Packer

UNKNOWN_COMMAND = 0x80131385
FAILURE_BIT = 0x80000000
"""Of an HRESULT. S_FALSE (1) and other codes without it are successes."""


def payload_of(message: Any, fields: Fields) -> tuple[bytes, str]:
    """The bytes of the fields, and why there are none (``""`` when there are)."""
    packer = Packer()
    for field in fields:
        if problem := field.write(packer, message):
            return b"", problem
    return bytes(packer), ""


def values_of(cursor: Cursor, fields: Fields) -> dict[str, Any]:
    """The values of the fields, by name."""
    values: dict[str, Any] = {}
    for field in fields:
        field.read(cursor, values)
    return values


class Message(Value):
    """What a frame holds."""

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """The message in these bytes, which hold nothing else. Raises ProtocolError."""
        return cls.from_frame(Frame.parse(data))

    @classmethod
    def from_frame(cls, frame: Frame) -> Self:
        """The message in a frame. Raises ProtocolError."""
        raise NotImplementedError


class OkReply(Message):
    """Base of all OK replies; by itself a bare OK (size 20), which runtimes never send but clients tolerate."""

    FIELDS: ClassVar[Fields] = ()

    trailing: bytes = b""

    def pack(self) -> bytes:
        """The bytes of the reply. Raises UsageError for a value that does not fit its field."""
        payload, problem = payload_of(self, self.FIELDS)
        if problem:
            raise UsageError(f"{type(self).__name__}: {problem}")
        return Frame(command_set=SERVER_SET, command_id=OK_ID, payload=payload + self.trailing).pack()

    @classmethod
    def from_frame(cls, frame: Frame) -> Self:
        """The reply in a frame. Raises ProtocolError when it is not an OK or is too short."""
        if frame.command_set != SERVER_SET or frame.command_id != OK_ID:
            raise ProtocolError(f"0x{frame.code:04X} is not an OK reply", offset=16, where=cls.__name__)
        cursor = Cursor(frame.payload, base=HEADER_SIZE, where=cls.__name__, error=ProtocolError)
        return cls(**values_of(cursor, cls.FIELDS), trailing=cursor.rest())

    def failure(self) -> int:
        """The HRESULT when the OK reply carries a failure, otherwise 0."""
        return 0


ReplyT = TypeVar("ReplyT", bound=OkReply)


class Request(Message, Generic[ReplyT]):
    """Base of all requests. ``Request[SessionReply]``: an OK to it is a SessionReply."""

    COMMAND: ClassVar[Command]
    FIELDS: ClassVar[Fields] = ()
    REPLY: ClassVar[type[OkReply]] = OkReply

    trailing: bytes = b""

    def __init_subclass__(cls, command: Command | None = None) -> None:
        super().__init_subclass__()
        if command is not None:
            cls.COMMAND = command
        for base in getattr(cls, "__orig_bases__", ()):
            for argument in get_args(base):
                if isinstance(argument, type) and issubclass(argument, OkReply):
                    cls.REPLY = argument

    def invalid(self) -> str:
        """Why a server would answer BAD_ENCODING, or ``""``. For what was parsed and for what is to be packed."""
        return payload_of(self, self.FIELDS)[1]

    def refusal(self) -> RequestRefused | None:
        """Why we do not send it though it is valid: it kills a runtime (DangerousRequest), or makes no sense."""
        return None

    def check(self) -> None:
        """Raise RequestRefused or DangerousRequest for a request that must not be sent."""
        if not self.FIELDS and self.trailing:
            # §21.1: with a payload the runtime answers with heap memory instead of a message.
            raise self.dangerous("the command takes no payload; one corrupts the answer")
        refusal = self.refusal()
        if refusal is not None:
            raise refusal
        if problem := self.invalid():
            raise self.refuse(problem)

    def pack(self) -> bytes:
        """The bytes of the request, checked. Raises RequestRefused."""
        self.check()
        payload = payload_of(self, self.FIELDS)[0] + self.trailing
        if len(payload) + HEADER_SIZE > MAX_MESSAGE_SIZE:
            raise self.refuse(f"{len(payload) + HEADER_SIZE} bytes are more than the {MAX_MESSAGE_SIZE} of a message")
        return Frame(command_set=self.COMMAND >> 8, command_id=self.COMMAND & 0xFF, payload=payload).pack()

    @classmethod
    def from_frame(cls, frame: Frame) -> Self:
        """The request in a frame whose code is this command's."""
        if frame.code != cls.COMMAND:
            raise ProtocolError(f"command is 0x{frame.code:04X}, not 0x{int(cls.COMMAND):04X}", where=cls.COMMAND.name)
        cursor = Cursor(frame.payload, base=HEADER_SIZE, where=cls.COMMAND.name, error=ProtocolError)
        return cls(**values_of(cursor, cls.FIELDS), trailing=cursor.rest())

    def read_reply(self, frame: Frame) -> ReplyT:
        """The OK reply in a frame. Raises ServerError for an error or a failure in it, ProtocolError for anything else."""
        name = self.COMMAND.name
        if frame.command_set != SERVER_SET or frame.command_id not in (OK_ID, ERROR_ID):
            raise ProtocolError(f"the reply is a 0x{frame.code:04X}, neither OK nor Error", offset=16, where=name)
        if frame.command_id == OK_ID:
            reply: Any = self.REPLY.from_frame(frame)
            if not (failure := reply.failure()):
                return reply  # type: ignore[no-any-return] # REPLY is ReplyT: __init_subclass__ reads it from there
            text = ""
        else:
            error = ErrorReply.from_frame(frame)
            failure, text = error.hresult, error.text or ""
        from dotnetdiag.ipc.hresults import server_error

        needs = f"{command_name(self.COMMAND)} needs {self.COMMAND.since} or newer"
        raise server_error(name, failure, text=text, advice=needs if failure == UNKNOWN_COMMAND else "")

    # -- helpers of subclasses

    def refuse(self, reason: str) -> RequestRefused:
        """The error for a wrong request."""
        return RequestRefused(self.COMMAND.name, reason)

    def dangerous(self, reason: str) -> DangerousRequest:
        """The error for a request that would kill a target."""
        return DangerousRequest(self.COMMAND.name, reason)


class ErrorReply(Message):
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
    def from_frame(cls, frame: Frame) -> Self:
        """The reply in a frame. A text that does not parse stays in ``trailing``: the HRESULT matters more."""
        if frame.command_set != SERVER_SET or frame.command_id != ERROR_ID:
            raise ProtocolError(f"0x{frame.code:04X} is not an error reply", offset=16, where="ErrorReply")
        cursor = Cursor(frame.payload, base=HEADER_SIZE, where="ErrorReply", error=ProtocolError)
        hresult = cursor.u32("hresult")
        start, text = cursor.position, None
        if cursor.left:
            try:
                text = read_text(cursor, "text")
            except ProtocolError:
                pass
        if text is None:
            cursor.position = start
        return cls(hresult=hresult, text=text, trailing=cursor.rest())
