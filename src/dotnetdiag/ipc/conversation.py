"""What is said on one connection, both ways, explained as it comes.

Rule 1: bytes in any cut give the same messages. Each way holds the bytes of one message that is not whole yet, ``MOST_HELD`` at most.
Rule 2: a stream of events is counted, not held.
Rule 3: nothing is raised for what is in the bytes, and nothing is found again by luck: behind bytes that are no message a way is counted to
its end.
Rule 4: who speaks is known by what is said: who advertises or answers is the runtime, who asks is the tool.
"""

from __future__ import annotations

from collections.abc import Generator

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.ipc import advertise
from dotnetdiag.ipc.commands import SERVER_SET, Command, command_name
from dotnetdiag.ipc.environment import EnvironmentReply
from dotnetdiag.ipc.explanation import (
    LEGACY_REPLY_SIZE,
    Asked,
    ExplainedField,
    ExplainedMessage,
    Sender,
    explain_advertise,
    explain_environment,
    explain_legacy_reply,
    explain_legacy_request,
    explain_message,
    unknown_bytes,
)
from dotnetdiag.ipc.frames import HEADER_SIZE, MAGIC, MAX_MESSAGE_SIZE
from dotnetdiag.ipc.legacy import CollectEventPipeTracing, LegacyRequest, is_legacy
from dotnetdiag.ipc.messages import OkReply, Request
from dotnetdiag.ipc.replies import SessionReply
from dotnetdiag.ipc.requests import STREAMING
from dotnetdiag.ipc.tracing import CollectTracing5UserEvents, StopTracing

MOST_HELD = 1 << 20
"""Of an environment: a larger one is counted. Messages have 65,535 bytes at most."""
NO_MESSAGE = "these bytes are no message of this protocol"
BEHIND_REQUEST = "behind the request: a runtime never reads it, one connection carries one command"
_START = 4
_NETTRACE = b"Nettrace"
_STREAMS = {_NETTRACE: "nettrace", b"\x14\0\0\0!Fas": "NetPerf"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What a way waits for: exactly so many bytes, or fewer at its end. ``counted``: they are not held; None: all that come.
    ``until_answered``: also fewer, once the other way speaks. ``may_lack``: also fewer where a capture lacks a part; what is behind that is
    counted.
    """

    size: int | None
    counted: bool = False
    until_answered: bool = False
    may_lack: bool = False


_Parser = Generator[_Wanted, bytes, None]


class Conversation:
    """``senders``: who speaks on way 0 and on way 1, where that is known. ``mixed``: both speak on way 0, as in a file of what was said;
    a stream there ends with the file.
    """

    def __init__(self, *, senders: tuple[Sender, Sender] | None = None, mixed: bool = False) -> None:
        self.asked: Asked = None
        self.is_mixed = mixed
        self.has_spoken = False
        """Whether there was a message of this protocol."""
        self._said: list[ExplainedMessage] = []
        self._ways = [_Way(self, None if senders is None else senders[number]) for number in (0, 1)]
        self._ways[0].other, self._ways[1].other = self._ways[1], self._ways[0]

    def feed(self, way: int, data: bytes | memoryview) -> list[ExplainedMessage]:
        """Bytes of a way, 0 or 1; the messages that are whole with them."""
        if not self.is_mixed:
            self._ways[1 - way].answered()
        self._ways[way].feed(memoryview(data))
        return self._taken()

    def gap(self, way: int, size: int | None) -> list[ExplainedMessage]:
        """So many bytes of a way are not known: the capture has lost them. None: all that follows, however much it is."""
        self._ways[way].gap(size)
        return self._taken()

    def end(self, way: int | None = None) -> list[ExplainedMessage]:
        """No more bytes come on a way, or on both: what was not whole, and how long a stream was. May be called again."""
        for number in (0, 1) if way is None else (way,):
            self._ways[number].end()
        return self._taken()

    def cut(self) -> list[ExplainedMessage]:
        """What follows begins anew, at offset 0, as a message; it may answer what was asked before."""
        for way in self._ways:
            way.restart()
        return self._taken()

    def add(self, message: ExplainedMessage, *, is_known: bool = True) -> None:
        self.has_spoken |= is_known
        self._said.append(message)

    def _taken(self) -> list[ExplainedMessage]:
        said, self._said = self._said, []
        return said


class _Way:
    """One direction. ``sender``: whose it is, once that is known."""

    other: _Way

    def __init__(self, conversation: Conversation, sender: Sender | None) -> None:
        self.sender = sender
        self._conversation = conversation
        self._buffer = bytearray()
        self._taken = 0  # bytes that the parser has had
        self._start(self._listen())

    def _start(self, parser: _Parser) -> None:
        self._parser, self._wanted = parser, next(parser)
        self._counted = 0
        self._lacking = 0  # of what is wanted, the capture has not
        self._is_cut_off = False  # the capture ends before the way does
        self._missing = 0  # of a stream, or of bytes that are no message
        self._is_stream = False
        self._is_over = False

    # -- the driver

    def feed(self, view: memoryview) -> None:
        while view and not self._is_over:
            wanted = self._wanted
            left = len(view) if wanted.size is None else wanted.size - self._counted - len(self._buffer)
            part, view = view[:left], view[left:]
            if wanted.counted or self._lacking:
                self._counted += len(part)
                self._taken += len(part)
            else:
                self._buffer += part
            if wanted.size == self._counted + len(self._buffer):
                self._give()

    def answered(self) -> None:
        """The other way speaks."""
        if self._wanted.until_answered and self._buffer:
            self._give()

    def gap(self, size: int | None) -> None:
        if size is None:
            self._is_cut_off = True
            return
        if not self._is_over and (self._is_stream or self._wanted.size is None):
            self._missing += size
            while self._wanted.size is not None:  # of what says of which format it is
                self._give()
            return
        if not self._is_over and self._wanted.may_lack:
            assert self._wanted.size is not None
            part = min(size, self._wanted.size - self._counted - len(self._buffer))
            self._lacking += part
            self._counted += part
            self._taken += part
            if self._wanted.size == self._counted + len(self._buffer):
                self._give()
            if size > part:
                self.gap(size - part)
            return
        # where what follows belongs is not known
        self._is_cut_off = True
        self.end()
        self._taken += size
        self._start(self._behind(size))

    def end(self) -> None:
        while not self._is_over:
            self._give()

    def restart(self) -> None:
        self.end()
        self._taken = 0
        self._start(self._listen())

    def _give(self) -> None:
        data = bytes(self._buffer)
        if self._is_cut_off and self._wanted.size is not None:
            self._lacking += self._wanted.size - self._counted - len(data)
        self._buffer.clear()
        self._taken += len(data)
        try:
            self._wanted = self._parser.send(data)
            self._counted = self._lacking = 0
        except StopIteration:
            self._is_over = True

    # -- the parser: what it gets is shorter than what it wants only at the end

    def _listen(self) -> _Parser:
        while start := (yield _Wanted(size=_START)):
            offset = self._taken - len(start)
            conversation = self._conversation
            asked = conversation.asked
            may_answer = conversation.is_mixed or self.sender is not Sender.TOOL
            if asked is not None and issubclass(asked, LegacyRequest) and may_answer:
                yield from self._legacy_reply(start, offset, asked)
            elif is_legacy(start) and not conversation.has_spoken:
                yield from self._legacy_request(start, offset)
            elif MAGIC.startswith(start) or advertise.MAGIC.startswith(start):
                yield from self._known(start, offset)
            else:
                is_behind = self.sender is Sender.TOOL and asked is not None
                yield from self._lost(start, BEHIND_REQUEST if is_behind else NO_MESSAGE)
                return

    def _known(self, start: bytes, offset: int) -> _Parser:
        """A message, by its first bytes."""
        if MAGIC.startswith(start):
            yield from self._message(start, offset)
            return
        data = start + (yield _Wanted(size=advertise.SIZE - len(start), may_lack=True))
        if data.startswith(advertise.MAGIC[: len(data)]):
            self._is_runtime()
            if self._conversation.is_mixed:
                self._conversation.asked = None  # it begins another connection
            self._conversation.add(explain_advertise(data, offset=offset, missing=self._lacking))
        else:
            yield from self._lost(data, NO_MESSAGE)

    def _message(self, start: bytes, offset: int) -> _Parser:
        conversation = self._conversation
        head = start + (yield _Wanted(size=HEADER_SIZE - len(start)))
        if len(head) < HEADER_SIZE:
            end = "the rest is not in the capture" if self._is_cut_off else "then the end"
            why = f"{len(head)} bytes of a header of {HEADER_SIZE}, and {end}"
            conversation.add(unknown_bytes(head, len(head), why, self._who(), offset=offset))
            return
        if not head.startswith(MAGIC):
            yield from self._lost(head, "the magic is not DOTNET_IPC_V1; a runtime answers UNKNOWN_MAGIC")
            return
        size = int.from_bytes(head[14:16], "little")
        is_behind = conversation.asked is not None and not conversation.is_mixed
        data, missing, is_request = head, 0, head[16] != SERVER_SET
        if is_request and not is_behind:  # the answer may come before the rest of the request, in a capture
            conversation.asked = _kind_of(command_name(head[16] << 8 | head[17]))
        if size > HEADER_SIZE:
            data += yield _Wanted(size=size - HEADER_SIZE, may_lack=True)
            missing = self._lacking
        asked = conversation.asked
        message, value = explain_message(data, asked, offset=offset, missing=missing)
        if message.sender is Sender.RUNTIME:
            self._is_runtime()
        elif self.sender is None:
            self.sender, self.other.sender = Sender.TOOL, Sender.RUNTIME
        if is_request and is_behind:
            message = _with(message, BEHIND_REQUEST)
        elif isinstance(value, Request):
            conversation.asked = type(value)
        elif not is_request and conversation.is_mixed:
            conversation.asked = None  # it is answered
        conversation.add(message)
        if size < HEADER_SIZE:
            yield from self._lost(b"", "behind a size that cannot be, where a message begins is not known")
        elif message.kind == "request" and isinstance(value, CollectTracing5UserEvents) and not conversation.is_mixed:
            yield from self._descriptor()
        elif message.kind == "ok" and isinstance(value, EnvironmentReply):
            yield from self._environment(value.size_bytes)
        elif message.kind == "ok" and isinstance(value, SessionReply) and _may_stream(asked):
            yield from self._stream(is_certain=asked is not None)
        elif message.kind == "ok" and missing and _is_promised(SessionReply, asked) and _may_stream(asked):
            yield from self._stream(is_certain=False)
        elif message.kind == "ok" and missing and _is_promised(EnvironmentReply, asked):
            yield from self._lost(b"", "of the environment, whose size is not in the capture")

    def _descriptor(self) -> _Parser:
        """The byte that carries the descriptor of user_events (§15)."""
        offset = self._taken
        if data := (yield _Wanted(size=1)):
            field = ExplainedField(name="dummy byte", offset=offset, size=1, type="u8", value=data[0])
            self._conversation.add(
                ExplainedMessage(
                    kind="byte",
                    name=Command.CollectTracing5.name,
                    sender=Sender.TOOL,
                    offset=offset,
                    size=1,
                    fields=(field,),
                    problems=("the descriptor of user_events_data comes beside this byte, and is not seen here",),
                )
            )

    def _environment(self, size: int) -> _Parser:
        offset = self._taken
        if size > MOST_HELD:
            yield _Wanted(size=size, counted=True)
            why = f"an environment of {size} bytes is not taken apart; the limit is {MOST_HELD}"
            came = self._taken - offset
            self._conversation.add(unknown_bytes(b"", came, why, Sender.RUNTIME, offset=offset))
        elif size:
            data = yield _Wanted(size=size, may_lack=True)
            self._conversation.add(explain_environment(data, size, offset=offset, missing=self._lacking))

    def _stream(self, *, is_certain: bool) -> _Parser:
        """What follows the id of a session: its events, to the end. ``is_certain``: that there is a stream, though it may have no bytes."""
        conversation, offset = self._conversation, self._taken
        self._is_stream = True
        start = yield _Wanted(size=_START)
        if conversation.is_mixed and start and (MAGIC.startswith(start) or advertise.MAGIC.startswith(start)):
            self._is_stream = False
            yield from self._known(start, offset)
            return
        start += yield _Wanted(size=len(_NETTRACE) - len(start))
        if not (start or is_certain or self._missing):
            return
        name = _STREAMS.get(start, "")
        if start or self._missing:
            unknown = "its beginning is missing" if self._missing else f"it begins with {start.hex(' ')}"
            problems = () if name else (f"neither nettrace nor NetPerf: {unknown}",)
            conversation.add(self._stream_message("stream", name, offset, 0, problems))
        yield _Wanted(size=None, counted=True)
        problems = (f"{self._missing} bytes of it are missing in the capture",) if self._missing else ()
        size = self._taken - offset + self._missing
        conversation.add(self._stream_message("stream end", name, offset, size, problems))

    def _stream_message(
        self, kind: str, name: str, offset: int, size: int, problems: tuple[str, ...]
    ) -> ExplainedMessage:
        return ExplainedMessage(
            kind=kind, name=name, sender=Sender.RUNTIME, offset=offset, size=size, problems=problems
        )

    def _legacy_request(self, start: bytes, offset: int) -> _Parser:
        """It does not say how long it is: it ends where the answer begins."""
        data = start + (yield _Wanted(size=MAX_MESSAGE_SIZE - len(start), until_answered=True))
        message, request = explain_legacy_request(data, offset=offset)
        self.sender, self.other.sender = Sender.TOOL, Sender.RUNTIME
        self._conversation.asked = None if request is None else type(request)
        self._conversation.add(message)

    def _legacy_reply(self, start: bytes, offset: int, asked: type[LegacyRequest]) -> _Parser:
        data = start + (yield _Wanted(size=LEGACY_REPLY_SIZE - len(start), may_lack=True))
        self._conversation.asked = None
        self._is_runtime()
        self._conversation.add(explain_legacy_reply(data, asked, offset=offset, missing=self._lacking))
        if asked is CollectEventPipeTracing and any(data):
            yield from self._stream(is_certain=True)

    def _lost(self, start: bytes, why: str) -> _Parser:
        """Bytes that are no message: told once the first of them are there, and counted to the end."""
        offset = self._taken - len(start)
        if len(start) < HEADER_SIZE:
            start += yield _Wanted(size=HEADER_SIZE - len(start))
        who = self._who()
        self._conversation.add(unknown_bytes(start, len(start), why, who, offset=offset), is_known=False)
        behind = self._taken
        yield _Wanted(size=None, counted=True)
        if more := self._taken - behind:
            self._conversation.add(
                unknown_bytes(b"", more, "the bytes behind those", who, offset=behind), is_known=False
            )

    def _behind(self, size: int) -> _Parser:
        """What follows bytes that the capture has lost."""
        start = yield _Wanted(size=HEADER_SIZE)
        where = "before these: where a message begins is not known" if start else "at the end"
        yield from self._lost(start, f"{size} bytes are missing {where}")

    def _who(self) -> Sender | None:
        return None if self._conversation.is_mixed else self.sender

    def _is_runtime(self) -> None:
        if self.sender is None:
            self.sender, self.other.sender = Sender.RUNTIME, Sender.TOOL


def _kind_of(command: str) -> Asked:
    return STREAMING[Command[command]] if command in Command.__members__ else None


def _is_promised(kind: type[OkReply], asked: Asked) -> bool:
    """Whether what was asked is answered so."""
    return asked is not None and issubclass(asked, Request) and asked.REPLY is kind


def _may_stream(asked: Asked) -> bool:
    return asked is None or not issubclass(asked, (StopTracing, CollectTracing5UserEvents))


def _with(message: ExplainedMessage, problem: str) -> ExplainedMessage:
    return replace(message, problems=(*message.problems, problem))
