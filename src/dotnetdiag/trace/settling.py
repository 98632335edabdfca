"""The rule of ``nettrace.order``, applied while batches come: what of them may go out by now, and in which order."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace import EventBatch, HeaderColumns
from dotnetdiag.nettrace.batch import NEVER as NEVER

Rows: TypeAlias = "npt.NDArray[np.int64]"

FEW = 64
"""Runs of events of one thread."""
EVER = int(np.iinfo(np.int64).max)
"""Behind all times: what is of the last tick that there is, is too."""


class Ranks:
    """Capture threads in the order in which they appear in the file: it decides between equal times."""

    def __init__(self) -> None:
        self._ranks: dict[int, int] = {}
        self._threads: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)  # ascending
        self._of_threads: Rows = np.zeros(0, np.int64)

    def see(self, batch: EventBatch) -> Rows:
        """Take note of the threads of a batch, in the order of the file: the rank of each run of them."""
        if batch.passed is not None:
            return self._of(batch.passed.threads)
        threads = batch.headers.capture_thread
        return self._of(threads[_changes(threads)])

    def of(self, threads: npt.NDArray[np.uint64]) -> Rows:
        """Of rows that come from one buffer for a while, and then from another."""
        begins = _changes(threads)
        return np.repeat(self._of(threads[begins]), np.diff(np.append(begins, len(threads))))

    def _of(self, threads: npt.NDArray[np.uint64]) -> Rows:
        """One by one where there are few, as of most blocks. Where many threads take turns there is one for every few events: all at once."""
        if len(threads) <= FEW:
            return self._one_by_one(threads)
        known = self._find(threads)
        if known is None:
            fresh, first = np.unique(threads, return_index=True)
            self._one_by_one(fresh[np.argsort(first)])
            self._threads = np.sort(np.fromiter(self._ranks, np.uint64, len(self._ranks)))
            self._of_threads = self._one_by_one(self._threads)
            known = self._find(threads)
            assert known is not None
        return known

    def _one_by_one(self, threads: npt.NDArray[np.uint64]) -> Rows:
        known = self._ranks
        return np.array([known.setdefault(thread, len(known)) for thread in threads.tolist()], np.int64)

    def _find(self, threads: npt.NDArray[np.uint64]) -> Rows | None:
        """None where not all were there when that was last put in order."""
        if not len(self._threads):
            return None
        place = np.minimum(np.searchsorted(self._threads, threads), len(self._threads) - 1)
        return self._of_threads[place] if np.array_equal(self._threads[place], threads) else None


def _changes(threads: npt.NDArray[np.uint64]) -> Rows:
    return np.flatnonzero(np.append(np.ones(min(len(threads), 1), np.bool_), threads[1:] != threads[:-1]))


class Settling:
    """Told of each batch before its rows are held, it knows since when what is held is not settled: events may follow that are older."""

    def __init__(self, ranks: Ranks | None = None) -> None:
        self._ranks = Ranks() if ranks is None else ranks
        self._segment, self._sorted, self._ended = 0, NEVER, NEVER
        self.runs: Rows = np.zeros(0, np.int64)
        """The ranks of the threads of the last batch."""

    @property
    def until(self) -> int:
        """Nothing that is older than this follows, or all that is held goes out before it."""
        return max(self._sorted, min(self._ended, EVER - 1) + 1) if self._ended != NEVER else self._sorted

    def see(self, batch: EventBatch) -> int | None:
        """Up to which time what is held goes out before the batch, for sequence points stand between (None: nothing has to)."""
        first = None
        if batch.segment != self._segment:
            first, self._sorted, self._ended = EVER, NEVER, NEVER
        elif self._ended != NEVER and batch.earliest <= self._ended:
            first, self._ended = self._ended, NEVER
        self._segment = batch.segment + batch.points
        self.runs = self._ranks.see(batch)
        until = NEVER
        if batch.passed is not None:
            until = batch.passed.until
        elif batch.headers.is_sorted.any():
            until = int(batch.headers.time[batch.headers.is_sorted].max())
        if batch.points:  # what is sorted may be of a segment that has ended
            self._ended, self._sorted = batch.ended, until if until > batch.ended else NEVER
        else:
            self._sorted = max(self._sorted, until)
        return first

    def order(self, headers: HeaderColumns) -> Rows:
        """Row numbers in time order, of rows of one segment whose batches were seen."""
        order: Rows = np.argsort(headers.time, kind="stable")
        time = headers.time[order]
        if not (time[1:] == time[:-1]).any():
            return order
        rank = np.where(headers.is_sorted, -1, self._ranks.of(headers.capture_thread))
        return np.lexsort((rank, headers.time))
