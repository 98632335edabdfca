"""One connection to a scripted runtime, in the hands of a script: a function that a test has written for a command.

Rule 1: a script has a thread of its own for as long as it takes, and holds up nobody else.
Rule 2: whatever a talk waits for ends with the connection and with the runtime, by ``TalkEnded``, which a script lets through.
Rule 3: the connection is closed, both ways and at once, when its script returns or raises.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import TypeAlias

from dotnetdiag.errors import ProtocolError, TransportError
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.replies import SessionReply
from dotnetdiag.ipc.tracing import StopTracing
from dotnetdiag.server.commands import Refused
from dotnetdiag.server.sessions import Session
from dotnetdiag.server.source import Source
from dotnetdiag.testing.asked import Asked
from dotnetdiag.transport import Deadline, Stream
from dotnetdiag.transport.sockets import SocketStream
from dotnetdiag.transport.waiting import is_ready

LOOK_S = 0.02
"""How often a talk that waits looks whether the client, or the runtime, is still there."""
PATIENCE_S = 20.0
"""How long a wait lasts unless it is told otherwise. A runtime waits so long for its scripts at its end, too."""
PIECE_BYTES = 1 << 16


class TalkEnded(Exception):
    """The client has hung up, or the runtime is closed: nothing that a script does reaches anybody any more."""


class Talk:
    """What a script gets. ``asked``: the message that has come, whole.

    Nothing is answered but what the script sends. Every method but ``receive`` raises TalkEnded.
    """

    def __init__(
        self,
        asked: Asked,
        stream: Stream,
        *,
        begin: Callable[[Source], Session],
        find: Callable[[int], Session | None],
        is_over: Callable[[], bool],
    ) -> None:
        self.asked = asked
        self._stream, self._begin, self._find, self._is_over = stream, begin, find, is_over
        self._stop = threading.Event()

    @property
    def has_hung_up(self) -> bool:
        """Whether the client has closed the connection. One that has ended its half only still takes bytes."""
        stream = self._stream
        return stream.has_hung_up() if isinstance(stream, SocketStream) else not stream.is_alive()

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it, waiting for the client to take it."""
        try:
            self._stream.send(data, Deadline(None))
        except TransportError as exc:
            raise TalkEnded from exc

    def receive(self, size: int = PIECE_BYTES) -> bytes:
        """1 to ``size`` bytes that the client sends behind its request; ``b""`` once it has ended its half, or all is over."""
        try:
            return self._stream.receive(size, Deadline(None))
        except TransportError:
            return b""

    def receive_descriptor(self, *, timeout_s: float = PATIENCE_S) -> int:
        """The open file that the client passes behind its request, as for CollectTracing5 of user events; to be closed by the script.

        On Unix sockets only. The byte that carries it is taken with it. Raises TimedOut, and ProtocolError where a byte came without one.
        """
        deadline = Deadline(timeout_s)
        with _copy_of(self._stream) as copy:
            while not is_ready(copy.fileno(), False, min(LOOK_S, deadline.wait_s("no descriptor came"))):
                self._require_client()
            try:
                data, descriptors, _, _ = socket.recv_fds(copy, 1, 1)
            except OSError as exc:
                raise TalkEnded from exc
        if not data:
            raise TalkEnded
        if not descriptors:
            raise ProtocolError("a byte came without a descriptor")
        return descriptors[0]

    def pause(self, seconds: float) -> None:
        """Wait for so long."""
        self._wait(threading.Event(), seconds)

    def wait_until_hung_up(self) -> None:
        """Until the client hangs up, or ends its half; what it still says is thrown away."""
        while self.receive():
            pass

    # -- sessions

    def begin_session(self, stream: bytes = b"") -> int:
        """Answer OK with the id of a new session, and with the beginning of its stream in one piece; the id.

        From now on a StopTracing of this id is seen by ``wait_for_stop``, and answered when the script has ended, as runtimes do. A runtime
        that has dialled dials again.
        """
        try:
            session = self._begin(_ScriptedSource(self._stop.set))
        except Refused as refused:
            self.send(ErrorReply(hresult=refused.hresult).pack())
            raise TalkEnded from refused
        self.send(SessionReply(session_id=session.id).pack() + stream)
        return session.id

    def wait_for_stop(self, timeout_s: float | None = PATIENCE_S) -> bool:
        """Whether the session is to end, within so long. None: as long as the client is there."""
        return self._wait(self._stop, timeout_s)

    def stop_session(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Of a script for StopTracing: have the session end that it names, and wait until its stream has ended. The answer is the script's.
        Nothing happens where there is no such session. Raises TimedOut.
        """
        request = self.asked.request
        session = self._find(request.session_id) if isinstance(request, StopTracing) else None
        if session is None:
            return
        changed, deadline = threading.Event(), Deadline(timeout_s)
        with session.observed(changed.set):
            session.stop()
            while not session.is_over:
                changed.wait(min(LOOK_S, deadline.wait_s("the session does not end")))
                changed.clear()
                self._require_client()

    def _wait(self, event: threading.Event, seconds: float | None) -> bool:
        deadline = Deadline(seconds)
        while not event.wait(min(LOOK_S, deadline.left_s)):
            self._require_client()
            if deadline.is_over:
                return event.is_set()
        return True

    def _require_client(self) -> None:
        if self._is_over() or self.has_hung_up:
            raise TalkEnded


Script: TypeAlias = Callable[[Talk], object]
"""What it gives is not looked at."""


class _ScriptedSource:
    """Of a session whose stream its script sends."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stop = self.hang_up = stop

    def on_ready(self, wake: Callable[[], None]) -> None:
        """Nobody takes anything."""

    def take(self, limit: int) -> bytes | None:  # noqa: ARG002 - a protocol has it
        """Nothing."""
        return b""


def _copy_of(stream: Stream) -> socket.socket:
    """Its socket, for what a stream cannot do; to be closed by who takes it. Raises TalkEnded."""
    try:
        return socket.socket(fileno=os.dup(stream.fileno()))
    except OSError as exc:
        raise TalkEnded from exc
