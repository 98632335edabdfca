"""A server under examination: bytes to it and bytes from it, within limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import ProtocolError, TimedOut, TransportError
from dotnetdiag.ipc.frames import HEADER_SIZE, Frame, FrameReader
from dotnetdiag.ipc.messages import OkReply, Request
from dotnetdiag.transport import Deadline, Stream, connect
from dotnetdiag.transport.addresses import Address
from dotnetdiag.transport.sockets import SocketStream

ANSWER_S = 10.0
"""For an answer to come."""
CLOSE_S = 3.0
"""For the server to hang up behind its answer."""
STALL_S = 1.0
"""A stream that is to end, and says nothing for so long, is asked why."""
MOST_BYTES = 256 << 20
"""Of one stream."""
PIECE_BYTES = 1 << 16


class Mismatch(Exception):
    """What was expected, and what came instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """All that was answered on a connection. ``is_closed``: the server has hung up within ``CLOSE_S``."""

    data: bytes
    is_closed: bool

    def frame(self) -> Frame:
        """The message that it begins with. Raises Mismatch."""
        if not self.data:
            raise Mismatch("no answer" + (", the connection was closed" if self.is_closed else ""))
        try:
            frame = FrameReader().feed(self.data)
        except ProtocolError as exc:
            raise Mismatch(f"the answer is no message: {exc}") from exc
        if frame is None:
            raise Mismatch(f"the answer is cut: {len(self.data)} bytes")
        return frame


class Peer:
    """Dials an address as often as it is asked to. Every wait has a limit; what is not answered is a Mismatch."""

    def __init__(self, address: Address, *, answer_s: float = ANSWER_S) -> None:
        self.address, self._answer_s = address, answer_s

    @contextmanager
    def dialled(self, data: bytes = b"") -> Iterator[Stream]:
        """A connection on which the bytes were sent. Raises Mismatch where nobody answers the call."""
        try:
            stream = connect(self.address, Deadline(self._answer_s))
        except TransportError as exc:
            raise Mismatch(f"it cannot be dialled any more: {exc}") from exc
        with stream:
            if data:
                self.send(stream, data)
            yield stream

    def send(self, stream: Stream, data: bytes) -> None:
        """Send; that the server has hung up meanwhile is no error, its answer says why."""
        try:
            stream.send(data, Deadline(self._answer_s))
        except TransportError:
            pass

    def ask(self, *parts: bytes, pause_s: float = 0.0) -> Said:
        """All that is answered to the bytes. ``parts`` are sent ``pause_s`` after each other."""
        with self.dialled() as stream:
            for number, part in enumerate(parts):
                if number:
                    time.sleep(pause_s)
                self.send(stream, part)
            return self.said(stream)

    def answer(self, data: bytes, *, ends: bool = False) -> Frame:
        """The message that is answered to the bytes, whatever is behind it. ``ends``: as in ``ask``. Raises Mismatch."""
        with self.dialled(data) as stream:
            if ends and isinstance(stream, SocketStream):
                stream.end_sending()
            return self.frame(stream)

    def said(self, stream: Stream) -> Said:
        """Everything, until the server hangs up, or has said a message and then nothing for ``CLOSE_S``."""
        data, wanted = bytearray(), HEADER_SIZE
        deadline = Deadline(self._answer_s)
        try:
            while len(data) < MOST_BYTES:
                part = stream.receive(PIECE_BYTES, deadline)
                if not part:
                    return Said(data=bytes(data), is_closed=True)
                data += part
                if len(data) >= HEADER_SIZE:
                    wanted = int.from_bytes(data[14:16], "little")
                if len(data) >= wanted:
                    deadline = Deadline(CLOSE_S)
        except TimedOut:
            pass
        return Said(data=bytes(data), is_closed=False)

    def frame(self, stream: Stream) -> Frame:
        """One message, and no byte behind it. Raises Mismatch."""
        reader, deadline = FrameReader(), Deadline(self._answer_s)
        try:
            while True:
                part = stream.receive(reader.wanted, deadline)
                if not part:
                    raise Mismatch("the connection was closed before the answer was complete")
                if (frame := reader.feed(part)) is not None:
                    return frame
        except TimedOut as exc:
            raise Mismatch("no answer came in time") from exc
        except ProtocolError as exc:
            raise Mismatch(f"the answer is no message: {exc}") from exc

    def rest(self, stream: Stream, stopping: Stream) -> bytes:
        """A stream to its end, or as far as it came when what was answered to ``stopping`` has come and no more does. Raises Mismatch."""
        data, ends = bytearray(), Deadline(self._answer_s)
        while len(data) <= MOST_BYTES:
            try:
                part = stream.receive(PIECE_BYTES, Deadline(min(STALL_S, ends.left_s)))
            except TimedOut as exc:
                if stopping.has_arrived():
                    return bytes(data)
                if ends.is_over:
                    raise Mismatch(f"the stream does not end; {len(data)} bytes came") from exc
                continue
            if not part:
                return bytes(data)
            data += part
        raise Mismatch(f"the stream has more than {MOST_BYTES} bytes")


def reply_of(request: Request[Any], frame: Frame) -> OkReply:
    """The OK reply in a frame. Raises Mismatch."""
    if frame.code != 0xFF00:
        raise Mismatch(f"{request.COMMAND.name} is answered 0x{frame.code:04X} {frame.payload[:4][::-1].hex()}, not OK")
    try:
        reply: OkReply = request.REPLY.from_frame(frame)
    except ProtocolError as exc:
        raise Mismatch(f"the reply to {request.COMMAND.name} cannot be read: {exc}") from exc
    if reply.failure():
        raise Mismatch(f"the reply to {request.COMMAND.name} is an OK that carries the failure 0x{reply.failure():08X}")
    return reply
