"""One connection of a server, from its first byte to its last, as the steps of its I/O.

Rule 1: each part has a limit of its own; at its end the connection is closed. A command takes as long as it takes, and so does a session.
Rule 2: what a session's reader does not take is not taken from its source: a slow reader slows its own session, and nobody else.
Rule 3: after the last byte the peer gets ``LINGER_S`` to hang up first. With bytes of it unread, closing would be a reset, which can take
away what was sent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dotnetdiag.errors import TransportError
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.server.blocking import never_wait
from dotnetdiag.server.credentials import caller_of
from dotnetdiag.server.dialogue import Call, Dialogue
from dotnetdiag.server.dispatch import Answer, Dispatcher, error_answer
from dotnetdiag.server.observers import Observers
from dotnetdiag.server.patience import Patience
from dotnetdiag.server.promptness import prompt
from dotnetdiag.server.sessions import Session
from dotnetdiag.transport import Deadline, Stream
from dotnetdiag.transport.security import AUTHENTICATION_S, NO_SECURITY, Security, welcoming
from dotnetdiag.transport.sockets import SocketStream
from dotnetdiag.transport.streams import receive_buffer
from dotnetdiag.transport.waiting import Blocking, Change, Pause, Steps

if TYPE_CHECKING:
    from dotnetdiag.ipc.advertise import Advertise

REQUEST_S = 5.0
"""For a whole request, from the connection on; from its first byte on where we have dialled."""
REPLY_S = 5.0
"""For the peer to take a reply."""
ADVERTISE_S = 0.1
"""As runtimes have (ipc-protocol.md §8)."""
LINGER_S = 1.0
STALL_S = 60.0
"""A reader that takes nothing for so long, once its session is to stop, is hung up on: somebody waits for the end of the session."""
LOOK_S = 0.5
"""How often a reader that has ended its half is looked at."""
PIECE_BYTES = 1 << 14
CHUNK_BYTES = 1 << 16
"""Of a session, in one piece."""
LINGER_BYTES = 1 << 18

Spawn = Callable[[Steps[None], Deadline], None]


class Connection(Observers):
    """``is_answered``: the reply was sent, or never will be: who has dialled may dial again. What changes is that."""

    def __init__(
        self,
        stream: Stream,
        dispatcher: Dispatcher,
        *,
        port: str,
        legacy: bool = False,
        security: Security = NO_SECURITY,
    ) -> None:
        super().__init__()
        self.stream, self.port, self.began = stream, port, time.monotonic()
        self.is_dialled = self.has_asked = self.is_answered = self.is_over = False
        self.is_lingering = False
        self.patience = Patience(REQUEST_S)
        self._owner = os.getpid()
        self._dispatcher, self._security = dispatcher, security
        self._dialogue = Dialogue(dispatcher, caller_of(stream, port), legacy=legacy)
        self._answer: Answer | None = None
        self._sent = 0

    @property
    def session(self) -> Session | None:
        """The one that it carries."""
        return None if self._answer is None else self._answer.session

    @property
    def owes_answer(self) -> bool:
        """Whether somebody has asked, and has no answer yet."""
        return self.has_asked and not self.is_answered

    def serving(self, spawn: Spawn, advertise: Advertise | None = None) -> Steps[None]:
        """All of it; ``advertise`` is what is said first where we have dialled. Raises TransportError."""
        try:
            if advertise is not None:
                self.is_dialled = True
                self.patience.restart(ADVERTISE_S)
                yield from self.stream.sending(advertise.pack())
                self.patience.restart(None)
            elif self._security is not NO_SECURITY:
                assert isinstance(self.stream, SocketStream)
                self.patience.restart(AUTHENTICATION_S)
                self.stream = yield from welcoming(self.stream, self._security)
                self.patience.restart(REQUEST_S)
            answer = yield from self._hearing()
            self._answer = answer
            if answer.after is not None:
                over = answer.after
                yield Change(lambda: over.is_over or None, over.observed, "the session goes on", self.stream.address)
            if answer.data:
                self.patience.restart(REPLY_S)
                yield from self.stream.sending(answer.data)
            self._answered()
            if answer.session is not None:
                yield from self._streaming(answer.session, spawn)
            yield from self._lingering()
        finally:
            self.end()

    def end(self) -> None:
        """Close it, and hang up on the session's source, which in a forked child is the parent's. May be called again."""
        self.is_over = True
        self.stream.close()
        if self.session is not None and os.getpid() == self._owner:
            self._dispatcher.hang_up(self.session)
        self._answered()

    def _answered(self) -> None:
        self.is_answered = True
        self.tell()

    def _hearing(self) -> Steps[Answer]:
        dialogue = self._dialogue
        while True:
            buffer = receive_buffer(min(dialogue.wanted, PIECE_BYTES))
            count = yield from self.stream.receiving_into(buffer)
            if self.is_dialled and count and not dialogue.has_begun:
                self.patience.restart(REQUEST_S)
            given = dialogue.feed(buffer[:count]) if count else dialogue.end() or Answer()
            if isinstance(given, Answer):
                self.has_asked = dialogue.has_begun
                return given
            if given is not None:
                return (yield from self._performing(given))

    def _performing(self, call: Call) -> Steps[Answer]:
        self.has_asked = True
        self.patience.restart(None)

        def perform(deadline: Deadline) -> Answer:  # noqa: ARG001 - it takes as long as it takes
            never_wait()  # others wait for it
            self._answer = answer = call.perform()
            if self.is_over and answer.session is not None:  # nobody is left to take it
                self._dispatcher.hang_up(answer.session)
            return answer

        try:
            with prompt():
                answer: Answer = yield Blocking(perform)
        except TransportError:  # the system has no thread for it
            return error_answer(HResult.FAIL)
        return answer

    # -- a session

    def _streaming(self, session: Session, spawn: Spawn) -> Steps[None]:
        address = self.stream.address
        if isinstance(self.stream, SocketStream):
            self.stream.keep_alive(sends_much=True)
        spawn(self._watching(session), Deadline(None))
        spawn(self._guarding(session), Deadline(None))
        self.patience.restart(None)

        def look() -> tuple[bytes | None] | None:
            if session.is_over:
                return (None,)
            data = session.source.take(CHUNK_BYTES)
            return None if data is not None and not data else (data,)

        while True:
            try:
                (data,) = yield Change(look, session.observed, "nothing to stream", address)
            except Exception as exc:
                self._dispatcher.problem(f"the source of session {session.id} fails: {exc}", exc)
                return
            if data is None:
                break
            yield from self.stream.sending(data)
            self._sent += len(data)
            yield Pause(0, "others have their turn")
        self._end_sending()
        self._dispatcher.sessions.ended(session)

    def _watching(self, session: Session) -> Steps[None]:
        """Until the reader has hung up, or the session is over. A reader may end its half, and say what it likes: nobody looks at it."""
        buffer = receive_buffer(PIECE_BYTES)
        while not session.is_over and (yield from self.stream.receiving_into(buffer)):
            yield Pause(0.01, "others have their turn")
        while not session.is_over:
            if isinstance(self.stream, SocketStream) and self.stream.has_hung_up():
                self.end()
                return
            yield Pause(LOOK_S, "the reader has ended its half")

    def _guarding(self, session: Session) -> Steps[None]:
        """Hang up on a reader that takes nothing though the session is to stop."""
        yield Change(
            lambda: session.is_stopping or session.is_over or None, session.observed, "it goes on", self.stream.address
        )
        sent = -1
        while not session.is_over and sent != self._sent:
            sent = self._sent
            ends = Deadline(STALL_S)
            while not session.is_over and sent == self._sent and not ends.is_over:
                yield Pause(min(LOOK_S, ends.left_s), "the reader takes nothing")
        if not session.is_over:
            self.end()

    # -- the end

    def _end_sending(self) -> None:
        if isinstance(self.stream, SocketStream):
            self.stream.end_sending()

    def _lingering(self) -> Steps[None]:
        self.is_lingering = True
        self._end_sending()
        self.patience.restart(LINGER_S)
        buffer, taken = receive_buffer(PIECE_BYTES), 0
        while taken < LINGER_BYTES and (count := (yield from self.stream.receiving_into(buffer))):
            taken += count
