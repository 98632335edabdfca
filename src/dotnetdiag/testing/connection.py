"""A connection to a scripted runtime: with the manners of its release, what it was told to do wrong, and what a script makes of it.

Rule: a request has no limit, as with runtimes (ipc-protocol.md §1): a connection that a client has forgotten stays open, and is seen.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import replace
from dotnetdiag.ipc.frames import HEADER_SIZE, MAX_MESSAGE_SIZE
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.legacy import is_legacy
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.server.connection import PIECE_BYTES, Connection, Spawn
from dotnetdiag.server.dialogue import Call
from dotnetdiag.server.dispatch import Answer, Dispatcher
from dotnetdiag.server.sessions import Session
from dotnetdiag.server.source import Source
from dotnetdiag.testing.asked import Asked
from dotnetdiag.testing.misbehaviour import Misbehaviour
from dotnetdiag.testing.play import Play
from dotnetdiag.testing.talk import Script, Talk
from dotnetdiag.transport import Stream
from dotnetdiag.transport.security import Security
from dotnetdiag.transport.sockets import SocketStream
from dotnetdiag.transport.streams import receive_buffer
from dotnetdiag.transport.waiting import Blocking, Pause, Ready, Steps

if TYPE_CHECKING:
    from dotnetdiag.ipc.advertise import Advertise


class PosedConnection(Connection):
    """As the server's, but for what it makes of an answer."""

    def __init__(self, stream: Stream, dispatcher: Dispatcher, play: Play, *, port: str, security: Security) -> None:
        super().__init__(stream, dispatcher, port=port, legacy=play.release.is_legacy, security=security)
        self._play = play
        self._keeps_open = self._is_played = False
        self.patience.restart(None)

    def serving(self, spawn: Spawn, advertise: Advertise | None = None) -> Steps[None]:
        """As the server's. Where we have dialled, a client is there when it asks."""
        if advertise is None:
            self._play.opened(self)
        return super().serving(spawn, advertise)

    def end(self) -> None:
        """As the server's."""
        super().end()
        self._play.closed(self)

    def _hearing(self) -> Steps[Answer]:
        heard = bytearray()
        try:
            given = yield from self._receiving(heard)
        finally:  # also of a request that never became whole
            asked = self._play.hear(bytes(heard)) if heard else None
        self.has_asked = asked is not None
        if asked is None:
            return given if isinstance(given, Answer) else Answer()
        if self._play.release.is_legacy and not is_legacy(asked.data):  # it takes DOTN for a type that it does not know
            return Answer()
        manner = self._play.manner(asked.command)
        if isinstance(manner, Misbehaviour):
            return (yield from self._answering(given, asked.command, manner))
        return (yield from self._playing(manner, asked))

    def _receiving(self, heard: bytearray) -> Steps[Call | Answer]:
        dialogue, given = self._dialogue, None
        while given is None:
            wanted = dialogue.wanted
            is_left = self._play.resets and len(heard) >= HEADER_SIZE  # the last byte
            size = max(min(wanted, MAX_MESSAGE_SIZE) - is_left, 1)
            buffer = receive_buffer(size)
            receiving = _peeking(self.stream, buffer) if is_left and wanted == 1 else self.stream.receiving_into(buffer)
            count = yield from receiving
            if self.is_dialled and count and not heard:
                self._play.opened(self)
            heard += buffer[:count]
            is_cut = self._play.release.reads_once and count < size
            given = dialogue.feed(buffer[:count]) if count and not is_cut else dialogue.end() or Answer()
        return given

    def _answering(self, given: Call | Answer, command: str, what: Misbehaviour) -> Steps[Answer]:
        release = self._play.release
        if what.delay_s:
            yield Pause(what.delay_s, "it takes its time")
        if what.silent:
            yield from self._until_hung_up()
            return Answer()
        answer = (yield from self._performing(given)) if isinstance(given, Call) else given
        is_refused = isinstance(answer.reply, ErrorReply) and answer.reply.hresult == HResult.BAD_ENCODING
        self._keeps_open = release.keeps_refused_open and command.startswith("CollectTracing") and is_refused
        return replace(answer, data=what.spoil(answer.data))

    def _playing(self, script: Script, asked: Asked) -> Steps[Answer]:
        """All that is sent is sent by the script."""
        sessions, begun = self._dispatcher.sessions, list[Session]()

        def begin(source: Source) -> Session:
            begun.append(sessions.start(source))
            self._answered()  # where we have dialled, StopTracing needs another connection
            return begun[-1]

        talk = Talk(asked, self.stream, begin=begin, find=sessions.get, is_over=lambda: self._play.is_over)
        self._is_played = True
        try:
            yield Blocking(lambda deadline: self._play.perform(script, talk))  # noqa: ARG005 - it takes as long as it takes
            if self._play.resets and isinstance(self.stream, SocketStream) and not self.is_over:
                self.stream.detach().close()  # without a shutdown before, which would be an end
        finally:
            self.stream.close()
            for session in begun:
                sessions.ended(session)
        return Answer()

    def _lingering(self) -> Steps[None]:
        if self._is_played:
            return
        if self._keeps_open:
            self.patience.restart(None)
            yield from self._until_hung_up()
        yield from super()._lingering()

    def _until_hung_up(self) -> Steps[None]:
        buffer = receive_buffer(PIECE_BYTES)
        while (yield from self.stream.receiving_into(buffer)):
            yield Pause(0, "others have their turn")


def _peeking(stream: Stream, buffer: memoryview) -> Steps[int]:
    """As ``receiving_into``, but the bytes stay there. Not on Windows."""
    with socket.socket(fileno=os.dup(stream.fileno())) as copy:
        copy.setblocking(False)
        while True:
            try:
                return copy.recv_into(buffer, 0, socket.MSG_PEEK)
            except BlockingIOError:
                yield Ready(copy, False, "nothing arrived", stream.address)
            except OSError:  # it is reset
                return 0
