"""The sessions of one server.

Rule 1: an id is never 0, and is never given to a second session.
Rule 2: a session is over when its last byte has been handed to the system, or its reader has gone; not when it was told to stop.
"""

from __future__ import annotations

import itertools
from contextlib import suppress

from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.server.blocking import own_lock
from dotnetdiag.server.commands import Refused
from dotnetdiag.server.observers import Observers
from dotnetdiag.server.source import Source

MOST_SESSIONS = 64
"""As runtimes have (ipc-protocol.md §8)."""


class Session(Observers):
    """One session, until it is over. What changes: bytes have come, it is to stop, it is over."""

    __slots__ = ("_hung_up", "_lock", "id", "is_over", "is_stopping", "source")

    def __init__(self, session_id: int, source: Source) -> None:
        super().__init__()
        self.id, self.source = session_id, source
        self.is_stopping = self.is_over = False
        self._lock = own_lock()
        source.on_ready(self.tell)

    def stop(self) -> None:
        """Tell the source to finish, the first time."""
        with self._lock:
            if self.is_stopping:
                return
            self.is_stopping = True
        try:
            if not self.is_over:
                self.source.stop()
        finally:
            self.tell()

    def ended(self) -> None:
        """The stream has ended."""
        self.is_over = True
        self.tell()

    def hang_up(self) -> None:
        """The reader has gone. Nothing happens when the session is over."""
        with self._lock:
            if self.is_over:
                return
            self.is_over = True
        try:
            self.source.hang_up()
        finally:
            self.tell()


class Sessions(Observers):
    """Those that are not over, by id. What changes: there is one less."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        super().__init__()
        self.most = most
        self._numbers = itertools.count(1)
        self._sessions: dict[int, Session] = {}
        self._lock = own_lock()

    def __len__(self) -> int:
        return len(self._sessions)

    def all(self) -> tuple[Session, ...]:
        return tuple(self._sessions.values())

    def require_room(self) -> None:
        """Raises Refused(FAIL) when there are as many as there may be, as runtimes do."""
        if len(self._sessions) >= self.most:
            raise Refused(HResult.FAIL)

    def start(self, source: Source, session_id: int | None = None) -> Session:
        """A session of the source; ``session_id`` where the embedder chooses it. Raises Refused; then the source has been hung up."""
        try:
            with self._lock:
                self.require_room()
                number = next(self._numbers) if session_id is None else session_id
                if not number or number in self._sessions:
                    raise Refused(HResult.FAIL)
                session = self._sessions[number] = Session(number, source)
        except BaseException:
            with suppress(Exception):  # what went wrong first is what is told
                source.hang_up()
            raise
        return session

    def get(self, session_id: int) -> Session | None:
        """None: there is none, or it is over."""
        return self._sessions.get(session_id)

    def ended(self, session: Session) -> None:
        """Its last byte has been handed over."""
        self._sessions.pop(session.id, None)
        session.ended()
        self.tell()

    def hang_up(self, session: Session) -> None:
        """Its reader has gone. Raises what the source raises; the session is over all the same."""
        self._sessions.pop(session.id, None)
        try:
            session.hang_up()
        finally:
            self.tell()
