"""The bytes of a session, received by a thread while the caller works on those that came before.

A runtime that sends stops while nobody reads: the socket holds 208 KB of the 267 MB of a heap. Large pieces pay: each costs its reader half a
millisecond besides its bytes. The same heap took 0.56 s of processor time in pieces of 190 KB, 0.27 s of 1 MB, 0.22 s of 2 MB, and no less
of 4 MB. A shorter turn of the interpreter's lock changes nothing.
"""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from dotnetdiag.errors import TimedOut
from dotnetdiag.transport.waiting import Outcome, result_of, start_thread

if TYPE_CHECKING:
    from dotnetdiag.client import TraceSession

PIECE_BYTES = 2 << 20
PIECES = 3
"""One that is filled, one that waits, one that the caller has."""
QUIET_S = 0.004
"""No byte for so long: what came is given out."""
TICK_S = 0.1
"""How often the thread looks whether anybody wants more."""


class ReadingAhead:
    """The thread ends with the session, or after :meth:`close`, when the session is aborted too."""

    def __init__(self, session: TraceSession) -> None:
        self._session = session
        self._free: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        self._filled: queue.SimpleQueue[Outcome[tuple[memoryview, int]]] = queue.SimpleQueue()
        self._given: memoryview | None = None
        for _ in range(PIECES):
            self._free.put(memoryview(bytearray(PIECE_BYTES)))
        start_thread(self._receive, self._ended)

    def read(self, timeout_s: float) -> memoryview | None:
        """The next piece, which is the caller's until the next call; empty when the session is over, None where nothing came for so long. Raises
        what broke the session.
        """
        if self._given is not None:
            self._free.put(self._given)
            self._given = None
        try:
            piece, size = result_of(self._filled.get(timeout=timeout_s))
        except queue.Empty:
            return None
        self._given = piece if size else None
        return piece[:size]

    def close(self) -> None:
        """Nobody reads any more."""
        self._free.put(None)

    def _ended(self, outcome: Outcome[None]) -> None:
        if outcome[1] is not None:
            self._filled.put((None, outcome[1]))

    def _receive(self) -> None:
        """Fill pieces until the session is over."""
        while (piece := self._free.get()) is not None:
            size = self._fill(piece)
            self._filled.put(((piece, size), None))
            if not size:
                break

    def _fill(self, piece: memoryview) -> int:
        """How many bytes came before it was full, quiet, or over."""
        size = 0
        while size < len(piece):
            try:
                count = self._session.read_into(piece[size:], timeout_s=QUIET_S if size else TICK_S)
            except TimedOut:
                if size:
                    break
                continue
            if not count:
                break
            size += count
        return size
