"""What operations are made of: the steps they yield, the answers they are sent, how a reply frame is read."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from dotnetdiag.errors import ProtocolError
from dotnetdiag.ipc.commands import ERROR_ID, OK_ID, SERVER_SET, SINCE, command_name
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.messages import ErrorReply, OkReply, Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request on a new connection. ``keep``: the connection stays open and comes with the answer.

    ``continuation``: the reply is an :class:`~dotnetdiag.ipc.environment.EnvironmentReply`; read so many bytes more.
    ``slow``: the answer may take minutes (dumps, profilers, the flush of a session). ``descriptor``: a file descriptor that
    travels after the request with one byte of its own, before the answer is waited for (ipc-protocol.md §15).
    """

    request: Request
    keep: bool = False
    continuation: bool = False
    slow: bool = False
    descriptor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Read a kept connection to its end and close it; the answer's ``continuation`` is at most ``limit`` bytes of it."""

    connection: Any
    limit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The OK reply, the open connection when it was to be kept, the continuation when there is one."""

    reply: OkReply
    connection: Any = None
    continuation: bytes = b""


Operation = Generator[Ask | Drain, Answer, T]


def read_reply(request: Request, frame: Frame) -> OkReply:
    """The OK reply in a frame. Raises ServerError for an error reply, ProtocolError for anything else."""
    name = request.COMMAND.name
    if frame.command_set != SERVER_SET or frame.command_id not in (OK_ID, ERROR_ID):
        raise ProtocolError(f"the reply is a 0x{frame.code:04X}, neither OK nor Error", offset=16, where=name)
    if frame.command_id == ERROR_ID:
        error = ErrorReply.from_frame(frame)
        advice = ""
        if error.hresult == 0x80131385:
            advice = f"{command_name(request.COMMAND)} needs {SINCE[request.COMMAND]} or newer"
        from dotnetdiag.ipc.hresults import server_error

        raise server_error(name, error.hresult, text=error.text or "", advice=advice)
    return request.REPLY.from_frame(frame)


def continuation_bytes(reply: OkReply) -> int:
    """How many bytes follow a reply on its connection: those that an EnvironmentReply announces."""
    size = getattr(reply, "size_bytes", 0)
    return int(size)


def send(request: Request, *, slow: bool = False) -> Operation[None]:
    """One request whose answer is ``int32 hr``. Raises ServerError for an OK reply that carries a failure."""
    reply = (yield Ask(request=request, slow=slow)).reply
    hresult = getattr(reply, "hresult", 0)
    if hresult & 0x80000000:
        from dotnetdiag.ipc.hresults import server_error

        raise server_error(request.COMMAND.name, hresult)
