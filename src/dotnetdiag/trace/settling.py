"""The rule of ``nettrace.order``, applied while batches come: what of them may go out by now, and in which order."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace import EventBatch, HeaderColumns

Rows: TypeAlias = "npt.NDArray[np.int64]"

NEVER = int(np.iinfo(np.int64).min)


class Ranks:
    """Capture threads in the order in which they appear in the file: it decides between equal times."""

    def __init__(self) -> None:
        self._ranks: dict[int, int] = {}

    def see(self, threads: npt.NDArray[np.uint64]) -> None:
        """Take note of threads in the order of the file."""
        if not len(threads):
            return
        changes = np.flatnonzero(threads[1:] != threads[:-1]) + 1
        for thread in dict.fromkeys([int(threads[0]), *threads[changes].tolist()]):
            self._ranks.setdefault(thread, len(self._ranks))

    def of(self, threads: npt.NDArray[np.uint64]) -> Rows:
        """Of rows that come from one buffer for a while, and then from another."""
        begins, ranks = self.runs(threads)
        return np.repeat(ranks, np.diff(np.append(begins, len(threads))))

    def runs(self, threads: npt.NDArray[np.uint64]) -> tuple[Rows, Rows]:
        """The row where each such while begins, and its rank."""
        begins = np.flatnonzero(np.append(True, threads[1:] != threads[:-1]))
        return begins, np.array([self._ranks[thread] for thread in threads[begins].tolist()], np.int64)


class Settling:
    """Told of each batch before its rows are held, it knows since when what is held is not settled: events may follow that are older."""

    def __init__(self, ranks: Ranks | None = None) -> None:
        self.ranks = Ranks() if ranks is None else ranks
        self._segment = 0
        self.until = NEVER
        """Nothing that is older than this follows in the segment."""

    def see(self, batch: EventBatch) -> bool:
        """Whether a sequence point stands before the batch: all that is held goes out."""
        is_next = batch.segment != self._segment
        if is_next:
            self._segment, self.until = batch.segment, NEVER
        headers = batch.headers
        self.ranks.see(headers.capture_thread)
        times = headers.time[headers.is_sorted]
        if len(times):
            self.until = max(self.until, int(times.max()))
        return is_next

    def order(self, headers: HeaderColumns) -> Rows:
        """Row numbers in time order, of rows of one segment whose batches were seen."""
        order: Rows = np.argsort(headers.time, kind="stable")
        time = headers.time[order]
        if not (time[1:] == time[:-1]).any():
            return order
        rank = np.where(headers.is_sorted, -1, self.ranks.of(headers.capture_thread))
        return np.lexsort((rank, headers.time))
