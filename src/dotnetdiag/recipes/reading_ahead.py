"""The bytes of a session, received by a thread while the caller works on those that came before.

A runtime that sends stops while nobody reads: the socket holds 208 KB of the 267 MB of a heap. Large pieces pay: each costs its reader half a
millisecond besides its bytes. The same heap took 0.56 s of processor time in pieces of 190 KB, 0.27 s of 1 MB, 0.22 s of 2 MB. A piece is received
in one call (``transport.sockets.fill_into``), beside which the reader has the interpreter to itself: 267 MB that a process sends as fast as it can
were read and understood in 0.36 s in pieces of 2 MB, in 0.44 s when each 200 KB had to wait for the interpreter's lock. Each is read where it was
received, behind what is left of the one before (``Reader.borrow``): without two copies that was 0.31 s, and a window for each 3 MB a tenth less than
for each 2. Since a piece needs the lock once, and not five times, 0.24 s.
"""

from __future__ import annotations

import os
import queue
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from dotnetdiag.client.session import fill_from
from dotnetdiag.errors import TimedOut
from dotnetdiag.transport.waiting import Outcome, result_of, start_thread

if TYPE_CHECKING:
    from dotnetdiag.client import TraceSession

PIECE_BYTES = 3 << 20
ROOM_BYTES = 256 << 10
"""Before each piece, for what a reader has left of the one before: most blocks of a stream are smaller."""
PIECES = 3
"""One that is filled, one that waits, one that the caller has."""
QUIET_S = 0.004
"""No byte for so long: what came is given out."""
TICK_S = 0.1
"""How often the thread looks whether anybody wants more."""


def made_pieces() -> list[memoryview]:
    """Memory to receive into: 5 ms, which who knows beforehand that he reads can have spent by then."""
    return [memoryview(bytearray(ROOM_BYTES + PIECE_BYTES)) for _ in range(PIECES)]


class ReadingAhead:
    """The thread ends with the session, or after :meth:`close`, when the session is aborted too. ``pieces`` are of :func:`made_pieces`."""

    def __init__(self, session: TraceSession, pieces: list[memoryview] | None = None) -> None:
        self._session = session
        self._free: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        self._filled: queue.SimpleQueue[Outcome[tuple[memoryview, int]]] = queue.SimpleQueue()
        self._given: memoryview | None = None
        for piece in made_pieces() if pieces is None else pieces:
            self._free.put(piece)
        start_thread(self._receive, self._ended)

    def read(self, timeout_s: float) -> tuple[memoryview, int, int] | None:
        """The next piece: memory, which is the caller's until the next call, and from where to where in it bytes have come; none when the session is
        over, None where nothing came for so long. Raises what broke the session.
        """
        if self._given is not None:
            self._free.put(self._given)
            self._given = None
        try:
            piece, size = result_of(self._filled.get(timeout=timeout_s))
        except queue.Empty:
            return None
        self._given = piece if size else None
        return piece, ROOM_BYTES, ROOM_BYTES + size

    def close(self) -> None:
        """Nobody reads any more."""
        self._free.put(None)

    def _ended(self, outcome: Outcome[None]) -> None:
        if outcome[1] is not None:
            self._filled.put((None, outcome[1]))

    def _receive(self) -> None:
        """Fill pieces until the session is over."""
        _give_way()
        while (piece := self._free.get()) is not None:
            size = self._fill(piece)
            self._filled.put(((piece, size), None))
            if not size:
                break

    def _fill(self, piece: memoryview) -> int:
        """How many bytes came before it was full, quiet, or over."""
        while True:
            try:
                return fill_from(self._session, piece[ROOM_BYTES:], timeout_s=TICK_S, quiet_s=QUIET_S)
            except TimedOut as error:
                problem = self._session.problem
                if problem is not None:  # it did not end in the time that it had
                    raise problem from None if problem is error else error


def _give_way() -> None:
    """This thread, which wakes when bytes have come, does not take the processor from who sends them: of two processors the other one has the
    reader's work. A runtime was interrupted 4,000 times while it sent 78 MB, once for each 20 KB, and now waits 360 times, each time that the
    socket is full; all was here in 0.11 s instead of 0.13.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # not everywhere may one say so
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
