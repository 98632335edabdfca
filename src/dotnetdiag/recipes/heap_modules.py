"""The modules of a runtime, told by a session of its own while the heap still comes.

A runtime tells of modules when it ends a session, and to end one takes it 0.1 s: who sends a session's events sleeps so long after each time, and is
woken by the first event that comes then, to sleep once more. A session of its own, which ends as soon as the heap was walked, has them by the time
that the last of a heap has come (.NET 9 and later, where a session says what it wants to be told at its end).

It begins before the walk, with events of which each collection has some: so who sends sleeps while the heap is walked, and not behind that. Of a heap
that was walked in 0.18 s modules were told 0.03 s later, and 0.11 s without such events, which is longer than 90 MB of objects take to come. They are
of a provider that nobody walks a heap for: .NET 9 walked it once more when a session of the heap's own provider ended beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from dotnetdiag.client import Client
from dotnetdiag.client.session import ask_to_end, fill_from
from dotnetdiag.errors import Cancelled, DiagnosticsError, TimedOut
from dotnetdiag.transport.waiting import Outcome, start_thread

if TYPE_CHECKING:
    from dotnetdiag.client import TraceSession

RUNDOWN, WHOLE_RUNDOWN = 0x108, 0x80020139
"""Modules alone, whose paths are wanted; what a runtime writes that cannot be told which."""
WAKING = "Microsoft-Windows-DotNETRuntimePrivate:0x1:5"
"""GC/PinPlugAtGCTime, an event for each place in a heap that was pinned. Where there are none, or more than :data:`_BUFFER_MB`, it takes longer."""
_BUFFER_MB = 8
SAYS_WHAT_ENDS = 9
"""The first version whose sessions say what they are told at their end."""
MOST_BYTES = 32 << 20
"""A thousand modules take 1 MB."""
_TIMEOUT_S, _LEAVE_S = 10.0, 0.1
_PIECE_BYTES, _QUIET_S = 64 << 10, 0.05
"""It comes in thirty pieces, some of one byte, and who wants each of them takes the interpreter from who reads the heap."""


class ModulesBeside:
    """A session that has begun. Raises what the client raises where it cannot."""

    def __init__(self, client: Client) -> None:
        self.told: bytes | None = None
        """The whole session, once it is over; None before that, and for good where something went wrong."""
        self.is_asked = False
        self._session = _begun(client)

    def ask(self) -> None:
        """Have a thread have them told: a daemon, which ends with the session. TransportError where there are no more threads."""
        start_thread(partial(_told_by, self._session), self._end)
        self.is_asked = True

    def leave(self) -> None:
        """Nobody asks: have the session end."""
        ask_to_end(self._session, _LEAVE_S)
        with suppress(DiagnosticsError):
            self._session.close(timeout_s=_LEAVE_S)

    def _end(self, outcome: Outcome[bytes | None]) -> None:
        self.told = outcome[0]


@contextmanager
def beside(client: Client) -> Iterator[ModulesBeside | None]:
    """One that is left where it was not asked by the end of the block. None where the runtime has no more sessions, or threads; raises TimedOut where
    it does not answer, for it would not either be asked for its heap.
    """
    modules = None
    try:
        modules = ModulesBeside(client)
    except (TimedOut, Cancelled):
        raise
    except DiagnosticsError:
        pass  # the session of the heap is told, or says what is wrong
    try:
        yield modules
    finally:
        if modules is not None and not modules.is_asked:
            modules.leave()


def _begun(client: Client) -> TraceSession:
    return client.trace(WAKING, buffer_mb=_BUFFER_MB, rundown_keyword=RUNDOWN, stackwalk=False)


def _told_by(session: TraceSession) -> bytes | None:
    """None for more than anybody reads."""
    data, piece = bytearray(), memoryview(bytearray(_PIECE_BYTES))
    with session:
        session.stop()
        while size := fill_from(session, piece, timeout_s=_TIMEOUT_S, quiet_s=_QUIET_S):
            data += piece[:size]
            if len(data) > MOST_BYTES:
                session.abort()
                return None
    return bytes(data)
