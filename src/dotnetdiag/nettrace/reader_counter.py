"""What :class:`.loss_count.LossCounter` counts, of any form of trace and without kernels: everything is read for it."""

from __future__ import annotations

from dotnetdiag.nettrace.last_numbers import LastNumbers
from dotnetdiag.nettrace.loss_count import LossCount
from dotnetdiag.nettrace.reader import Reader


class ReaderCounter:
    """Takes a stream in pieces of any length. Nothing raises for what is in it, and a count is always known but of NetPerf."""

    def __init__(self) -> None:
        self._reader = Reader()

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take more bytes; ``data`` may change afterwards."""
        for _ in self._reader.feed(data):
            pass

    def last_numbers(self) -> LastNumbers | None:
        """Where the numbers stand behind what was taken so far."""
        return self._reader.lost.last_numbers() if self._reader.lost.known else None

    def close(self) -> LossCount | None:
        """No more bytes come."""
        for _ in self._reader.close():
            pass
        lost = self._reader.lost
        return LossCount(complete=self._reader.complete, lost=lost.total if lost.known else None)
