"""The modules of a runtime, told by a session of its own while the heap still comes.

A runtime tells of modules when it ends a session, and to end one takes it 0.1 s: it sleeps so long after each time that it has sent what there was. A
session of a provider that nobody has, which ends as soon as it began, has them by the time that the last of a heap has come (.NET 9 and later, where
a session says what it wants to be told at its end).
"""

from __future__ import annotations

from functools import partial

from dotnetdiag.client import Client
from dotnetdiag.transport.waiting import Outcome, start_thread

RUNDOWN, WHOLE_RUNDOWN = 0x108, 0x80020139
"""Modules alone, whose paths are wanted; what a runtime writes that cannot be told which."""
NOBODY = "dotnetdiag:0:0"
SAYS_WHAT_ENDS = 9
"""The first version whose sessions say what they are told at their end."""
MOST_BYTES = 32 << 20
"""A thousand modules take 1 MB."""
_TIMEOUT_S = 10.0


class ModulesBeside:
    """A thread has them told. It is a daemon, and has ended with its session."""

    def __init__(self, client: Client) -> None:
        self.told: bytes | None = None
        """The whole session, once it is over; None before that, and for good where something went wrong."""
        start_thread(partial(_session_of, client), self._end)

    def _end(self, outcome: Outcome[bytes | None]) -> None:
        self.told = outcome[0]


def _session_of(client: Client) -> bytes | None:
    """None for more than anybody reads."""
    data = bytearray()
    with client.trace(NOBODY, buffer_mb=1, rundown_keyword=RUNDOWN) as session:
        session.stop()
        while piece := session.read(timeout_s=_TIMEOUT_S):
            data += piece
            if len(data) > MOST_BYTES:
                session.abort()
                return None
    return bytes(data)
