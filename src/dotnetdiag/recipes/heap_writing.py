"""Bytes into a file by a thread, while the caller makes the next.

Measured, of 96 MB: 0.06 s to make them, and 0.05 s in which the system takes them; side by side 0.07 s.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from dotnetdiag.transport.waiting import start

SMALL_BYTES, PIECE_BYTES = 1 << 13, 1 << 16
"""Smaller pieces are joined to such."""
WAITING = 8
"""Pieces that wait at most, of some 0.6 MB."""


class WritingBehind:
    """``write`` takes bytes that nobody changes any more; it raises what an earlier one has met. For plain files, which take what they are given."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._small = bytearray()
        self._waiting: queue.Queue[bytes | memoryview | None] = queue.Queue(WAITING)
        self._error: BaseException | None = None
        self._is_given_up = False
        self._thread = threading.Thread(target=self._write, daemon=True, name="dotnetdiag writing")
        start(self._thread)

    def write(self, data: bytes | memoryview) -> None:
        """Have them written behind all others."""
        if self._error is not None:
            raise self._error
        if len(data) <= SMALL_BYTES:
            self._small += data
        if len(self._small) >= PIECE_BYTES or len(data) > SMALL_BYTES:
            self._put_small()
        if len(data) > SMALL_BYTES:
            self._waiting.put(data)

    def close(self) -> None:
        """All is written. Raises what any write has met."""
        self._put_small()
        self._end()
        if self._error is not None:
            raise self._error

    def give_up(self) -> None:
        """What waits is not written any more."""
        self._is_given_up = True
        self._end()

    def _put_small(self) -> None:
        if self._small:
            self._waiting.put(bytes(self._small))
            self._small.clear()

    def _end(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _write(self) -> None:
        while (data := self._waiting.get()) is not None:
            if self._error is None and not self._is_given_up:
                try:
                    self._file.write(data)
                except BaseException as error:
                    self._error = error


@contextmanager
def writing_behind(file: IO[bytes]) -> Iterator[WritingBehind]:
    """All that was written in the block is in the file behind it. Raises what a write has met, TransportError without a thread."""
    behind = WritingBehind(file)
    try:
        yield behind
    except BaseException:
        behind.give_up()
        raise
    behind.close()
