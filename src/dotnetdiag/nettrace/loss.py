"""Lost events, from sequence numbers (nettrace.md §5.9, §8).

Every event a thread *attempts* takes a number, delivered or not, so that gaps count losses. NetPerf has no numbers:
``known`` is False there.

Where numbering begins differs. A .NET runtime (nettrace 4, 5) begins at 1 for each thread and session, so that a first
number of 5 means four lost; ``lossy-10`` proves it (90,000 written). In version 6 a thread first seen begins anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace.constants import GAPS_LIMIT, THREADS_LIMIT
from dotnetdiag.nettrace.last_numbers import LastNumbers

Rows: TypeAlias = "npt.NDArray[np.int64]"

_WORD = 0xFFFFFFFF
_HALF = 0x80000000
FEW_RUNS = 64
"""So many of one call are looked at one by one; sorting does not pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One place of loss: ``count`` events of a thread between two times.

    ``capture_thread`` is the OS thread id (version 6: the index of the thread in the file). ``after`` is when the last event of the thread
    seen before was written (None: none was), ``before`` the next event or sequence point: in ticks of the recording's clock, of which
    ``trace.raw.info`` has ``frequency`` a second, and ``sync_ticks`` at the start. ``segment`` is the number of sequence points before.
    """

    capture_thread: int
    segment: int
    after: int | None
    before: int
    count: int


class LossAccount:
    """The events that threads tried to write and that are not in the recording, counted by the gaps in their sequence numbers.

    ``total`` is how many; ``known`` is False where the format has no such numbers (NetPerf): then ``total`` is 0 and says nothing. ``by_thread``
    (by OS thread id; in version 6 by the thread's index) and ``by_segment`` (by the number of sequence points before) have the events of
    what lost something, for the first 100,000. ``gaps`` lists the first 10,000 places, each a ``Gap``; ``restarts`` counts thread ids whose
    numbers fell back (the id was given to a new thread).

    ``at_least``: there were more threads than are followed (docs/limits.md). What one has lost that was forgotten, or is seen for the
    first time from then on, is not known before its second event, and not in ``total``.
    """

    __slots__ = (
        "_ended",
        "_has_begun",
        "_last",
        "_starts_at_one",
        "at_least",
        "by_segment",
        "by_thread",
        "gaps",
        "known",
        "restarts",
        "total",
    )

    def __repr__(self) -> str:
        lost = f"{self.total:,} events lost" if self.known else "losses not known"
        return f"<LossAccount: {lost}{f' of {len(self.by_thread):,} threads' if self.by_thread else ''}>"

    def __init__(self, *, known: bool = True, starts_at_one: bool = True) -> None:
        self.known = known
        self.total = 0
        self.by_thread: dict[int, int] = {}
        self.by_segment: dict[int, int] = {}
        self.gaps: list[Gap] = []
        self.restarts = 0
        self.at_least = False
        self._starts_at_one = starts_at_one
        self._has_begun = False
        self._last: dict[int, tuple[int, int | None]] = {}
        self._ended: dict[int, tuple[int, int | None]] = {}

    def add_block(
        self,
        segment: int,
        capture_thread: npt.NDArray[np.uint64],
        sequence: npt.NDArray[np.uint32],
        time: npt.NDArray[np.int64],
        runs: npt.NDArray[np.int64],
    ) -> None:
        """Take events of one segment in file order.

        ``runs`` are the rows, ascending, where the thread may change or the numbers may jump. Those before the first
        follow the events of the call before without a gap.
        """
        if not len(sequence):
            return
        self._has_begun = True
        first_run = int(runs[0]) if len(runs) else len(sequence)
        last = self._last
        if first_run:
            thread = int(capture_thread[0])
            last.pop(thread, None)
            last[thread] = (int(sequence[first_run - 1]), int(time[first_run - 1]))
            if first_run == len(sequence):
                return
        ends = np.append(runs[1:], len(sequence)) - 1
        self.add_runs(segment, capture_thread[runs], (sequence[runs], sequence[ends]), (time[runs], time[ends]))

    def add_runs(
        self,
        segment: int,
        threads: npt.NDArray[np.uint64],
        numbers: tuple[npt.NDArray[Any], npt.NDArray[Any]],
        times: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    ) -> None:
        """Take runs of events of one segment in file order, each of one thread and without a gap: the numbers of their first and last, and the
        times.
        """
        if not len(threads):
            return
        self._has_begun = True
        last = self._last
        if len(threads) <= FEW_RUNS:
            firsts = finals = seen = np.arange(len(threads))
        else:
            firsts, finals, seen = _join(threads, *numbers)
        for thread, first, first_time, final, final_time in zip(
            threads[firsts].tolist(),
            numbers[0][firsts].tolist(),
            times[0][firsts].tolist(),
            numbers[1][finals].tolist(),
            times[1][finals].tolist(),
            strict=True,
        ):
            before = last.get(thread)
            if before is None or (first - before[0]) & _WORD != 1:
                self._jump(thread, segment, before, first, first_time)
            last[thread] = (final, final_time)
        for thread in threads[seen].tolist():
            last[thread] = last.pop(thread)  # behind all others: it was seen last
        self._forget_oldest(last)

    def _jump(self, thread: int, segment: int, before: tuple[int, int | None] | None, first: int, time: int) -> None:
        if before is None and (ended := self._ended.pop(thread, None)) is not None:
            if (first - ended[0]) & _WORD == 1:
                return
            before = None
        if before is not None:
            delta = (first - before[0]) & _WORD
            if 0 < delta < _HALF:
                self._lose(thread, segment, before[1], time, delta - 1)
                return
            self.restarts += 1
            before = None
        if self._starts_at_one and not self.at_least and 0 < first < _HALF:
            self._lose(thread, segment, None, time, first - 1)

    def add_sequence_point(
        self,
        segment: int,
        time: int,
        threads: Iterable[tuple[int, int]],
        *,
        forget: bool = False,
        before_start: bool = False,
    ) -> None:
        """Take the sequence point that ends ``segment``: for each thread the number of its last attempted event.

        With ``forget`` all threads are dropped after the check (version 6, flag 1). In nettrace 4 and 5 a thread
        that is not listed has ended (nettrace.md §5.8). ``before_start``: its time is before that of the trace; before
        all events it says where numbering begins.
        """
        if before_start and self._starts_at_one and not self._has_begun:
            self._last.update((thread, (number, None)) for thread, number in threads)
            self._has_begun = True
            self._forget_oldest(self._last)
            return
        self._has_begun = True
        listed = set()
        for thread, number in threads:
            listed.add(thread)
            self._compare_with_last(thread, segment, time, number)
        if forget:
            self._last.clear()
        elif self._starts_at_one:
            gone = [thread for thread in self._last if thread not in listed]
            for thread in gone:
                self._ended[thread] = self._last.pop(thread)
            self._forget_oldest(self._ended)
        self._forget_oldest(self._last)

    def remove_thread(self, segment: int, time: int, thread: int, number: int) -> None:
        """Take a RemoveThread: the last attempted number of a thread that ends (version 6)."""
        self._compare_with_last(thread, segment, time, number)
        self._last.pop(thread, None)

    def renumber_thread(self, number: int, other: int) -> None:
        """What was seen of the thread with that number belongs to one with another."""
        if (before := self._last.pop(number, None)) is not None:
            self._last[other] = before

    def last_numbers(self) -> LastNumbers:
        """Where the numbers stand: those of the last event that each thread attempted."""
        live, ended = ({thread: number for thread, (number, _) in one.items()} for one in (self._last, self._ended))
        return LastNumbers(live=live, ended=ended)

    def _compare_with_last(self, thread: int, segment: int, time: int, number: int) -> None:
        before = self._last.pop(thread, None)
        if before is None and self._starts_at_one:
            before = self._ended.pop(thread, None) or (None if self.at_least else (0, None))
        if before is None:
            self._last[thread] = (number, None)
            return
        delta = (number - before[0]) & _WORD
        if 0 < delta < _HALF:
            self._lose(thread, segment, before[1], time, delta)
            before = (number, before[1])
        self._last[thread] = before

    def _forget_oldest(self, threads: dict[int, tuple[int, int | None]]) -> None:
        """Those that were not seen for longest, many at once: what is gone stands at the front of a dict for a while."""
        if len(threads) > THREADS_LIMIT + THREADS_LIMIT // 4:
            self.at_least = True
            for thread in list(islice(threads, len(threads) - THREADS_LIMIT)):
                del threads[thread]

    def _lose(self, thread: int, segment: int, after: int | None, before: int, count: int) -> None:
        if not count:
            return
        self.total += count
        for lost, number in ((self.by_thread, thread), (self.by_segment, segment)):
            if number in lost or len(lost) < THREADS_LIMIT:
                lost[number] = lost.get(number, 0) + count
        if len(self.gaps) < GAPS_LIMIT:
            gap = Gap(capture_thread=thread, segment=segment, after=after, before=before, count=count)
            self.gaps.append(gap)


def _join(threads: npt.NDArray[np.uint64], first: npt.NDArray[Any], last: npt.NDArray[Any]) -> tuple[Rows, Rows, Rows]:
    """Runs of a thread that follow each other without a gap as one: (the runs that begin them, those that end them) in the order of the
    first, and the last run of each thread.
    """
    order = np.argsort(threads.astype(np.uint16) if threads.max() <= 0xFFFF else threads, kind="stable")
    threads = threads[order]
    is_other = threads[1:] != threads[:-1]
    steps = first[order[1:]].astype(np.int64) - last[order[:-1]].astype(np.int64)
    edges = np.flatnonzero(is_other | (steps & _WORD != 1)) + 1
    begins, ends = order[np.append(0, edges)], order[np.append(edges, len(order)) - 1]
    in_file_order = np.argsort(begins)
    return begins[in_file_order], ends[in_file_order], np.sort(order[np.append(is_other, True)])
