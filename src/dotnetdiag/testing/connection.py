"""A connection to a scripted runtime: with the manners of its release, and what it was told to do wrong."""

from __future__ import annotations

from dataclasses import replace

from dotnetdiag.ipc.frames import MAX_MESSAGE_SIZE
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.legacy import is_legacy
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.server.connection import PIECE_BYTES, REQUEST_S, Connection
from dotnetdiag.server.dialogue import Call
from dotnetdiag.server.dispatch import Answer, Dispatcher
from dotnetdiag.testing.play import Play
from dotnetdiag.transport import Stream
from dotnetdiag.transport.security import Security
from dotnetdiag.transport.streams import receive_buffer
from dotnetdiag.transport.waiting import Pause, Steps


class PosedConnection(Connection):
    """As the server's, but for what it makes of an answer."""

    def __init__(self, stream: Stream, dispatcher: Dispatcher, play: Play, *, port: str, security: Security) -> None:
        super().__init__(stream, dispatcher, port=port, legacy=play.release.is_legacy, security=security)
        self._play = play
        self._keeps_open = False

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
        return (yield from self._answering(given, asked.command))

    def _receiving(self, heard: bytearray) -> Steps[Call | Answer]:
        dialogue, given = self._dialogue, None
        while given is None:
            wanted = dialogue.wanted
            buffer = receive_buffer(min(wanted, MAX_MESSAGE_SIZE))
            count = yield from self.stream.receiving_into(buffer)
            if self.is_dialled and count and not heard:
                self.patience.restart(REQUEST_S)
            heard += buffer[:count]
            is_cut = self._play.release.reads_once and count < wanted
            given = dialogue.feed(buffer[:count]) if count and not is_cut else dialogue.end() or Answer()
        return given

    def _answering(self, given: Call | Answer, command: str) -> Steps[Answer]:
        what, release = self._play.misbehaviour(command), self._play.release
        self.patience.restart(None)
        if what.delay_s:
            yield Pause(what.delay_s, "it takes its time")
        if what.silent:
            yield from self._until_hung_up()
            return Answer()
        answer = (yield from self._performing(given)) if isinstance(given, Call) else given
        is_refused = isinstance(answer.reply, ErrorReply) and answer.reply.hresult == HResult.BAD_ENCODING
        self._keeps_open = release.keeps_refused_open and command.startswith("CollectTracing") and is_refused
        return replace(answer, data=what.spoil(answer.data))

    def _lingering(self) -> Steps[None]:
        if self._keeps_open:
            self.patience.restart(None)
            yield from self._until_hung_up()
        yield from super()._lingering()

    def _until_hung_up(self) -> Steps[None]:
        buffer = receive_buffer(PIECE_BYTES)
        while (yield from self.stream.receiving_into(buffer)):
            yield Pause(0, "others have their turn")
