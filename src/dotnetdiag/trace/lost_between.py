"""Who lost events, and when: what begins before them and ends behind them may be of two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.nettrace.constants import GAPS_LIMIT
from dotnetdiag.trace.gaps import NEVER
from dotnetdiag.trace.raw import RawTrace

if TYPE_CHECKING:
    from dotnetdiag.nettrace import LossAccount
    from dotnetdiag.trace.context import Context

Array: TypeAlias = "np.ndarray[Any, Any]"

LostBy: TypeAlias = Callable[[int], int | None]
"""How many events a process has lost; None where that is not known."""
_Gap: TypeAlias = tuple[int, int, int]
"""Between which times (in ns) so many events were lost."""
_NEVER_MS = float(NEVER) / 1e6
_TICK_MS = 1e-6
"""Of times that were told in ns."""


def lost_by(context: Context, pid: int) -> int | None:
    """How many events a process has lost at most, which counts those that may be of any; None where that is not known."""
    lost = context.losses.lost
    if not lost or not isinstance(context, RawTrace) or not context.meaning.has_processes:
        return lost
    of_others = sum(
        count
        for thread, count in context.lost.by_thread.items()
        if context.meaning.thread(thread).process_id not in (pid, None)
    )
    return lost - of_others


class LostBetween:
    """The gaps of a recording or session, of which the first 10,000 are known (docs/limits.md): behind these nothing of a thread that has lost more
    is certain.
    """

    def __init__(self, context: Context) -> None:
        self._of_thread: dict[tuple[int | None, int], Spans] = {}
        """From the last event of a thread before a gap to the first behind it; before its first event nothing of it began."""
        self._of_process: dict[int | None, list[_Gap]] = {}
        """The same of all threads of a process, those before the first event of a thread too."""
        self._told: dict[int, Spans] = {}
        self._of_all = Spans([])
        """What was lost of whichever thread."""
        if not context.losses.lost:
            return
        told = context.gaps
        dropped = list(told.dropped)
        self._of_all = Spans(dropped)
        if dropped:
            self._of_process[None] = dropped
        if told.account is not None:
            self._read(context, told.account)

    def _read(self, context: Context, account: LossAccount) -> None:
        gaps, by_thread = account.gaps, Counter(account.by_thread)
        info = context.meaning.info
        ticks = np.array([[info.sync_ticks if gap.after is None else gap.after, gap.before] for gap in gaps], np.int64)
        ns = info.elapsed_ns(ticks.reshape(-1)).reshape(-1, 2)
        of_thread: dict[tuple[int | None, int], list[_Gap]] = {}
        has_rows = isinstance(context, RawTrace) and context.format.startswith("nettrace 6")
        for gap, (after, before) in zip(gaps, ns.tolist(), strict=True):
            key = _key(context, gap.capture_thread) if has_rows else (None, gap.capture_thread)
            by_thread[gap.capture_thread] -= gap.count
            told = after, before, gap.count
            self._of_process.setdefault(key[0], []).append(told)
            if gap.after is not None:
                of_thread.setdefault(key, []).append(told)
        if len(gaps) >= GAPS_LIMIT:
            # events of one segment are in no order of time
            since = min(ns[at][0] for at, gap in enumerate(gaps) if gap.segment == gaps[-1].segment)
            last = int(since), NEVER, 2
            for thread in +by_thread:
                key = _key(context, thread) if has_rows else (None, thread)
                self._of_process.setdefault(key[0], []).append(last)
                of_thread.setdefault(key, []).append(last)
        self._of_thread = {key: Spans(some) for key, some in of_thread.items()}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._of_process)

    def of(self, pid: Array, tid: Array, begin_ms: Array, end_ms: Array, *, least: int = 2) -> Array:
        """Of each from when to when, of a thread, whether it has lost so many events meanwhile (bool): one that was lost cannot have been the end of
        the one and the begin of the next.
        """
        of_threads = self._each(pid, tid, lambda spans, rows: spans.within(begin_ms[rows], end_ms[rows], least=least))
        return of_threads | self._of_all.within(begin_ms, end_ms, least=least)

    def overlap(self, pid: Array, tid: Array, begin_ms: Array, end_ms: Array) -> Array:
        """Of each from when to when, whether a thread may have lost any then (bool)."""
        of_threads = self._each(pid, tid, lambda spans, rows: spans.overlap(begin_ms[rows], end_ms[rows]))
        return of_threads | self._of_all.overlap(begin_ms, end_ms)

    def _each(self, pid: Array, tid: Array, asked: Callable[[Spans, Array], Array]) -> Array:
        made = np.zeros(len(tid), np.bool_)
        for (process, thread), spans in self._of_thread.items():
            rows = np.flatnonzero((tid == thread) & ((pid == process) if process is not None else np.True_))
            made[rows] |= asked(spans, rows)
        return made

    def of_process(self, pid: int) -> Spans:
        """Those of any thread of a process."""
        if pid not in self._told:
            found = [gaps for process, gaps in self._of_process.items() if process in (pid, None)]
            self._told[pid] = Spans([gap for gaps in found for gap in gaps])
        return self._told[pid]


def _key(context: Context, thread: int) -> tuple[int | None, int]:
    assert isinstance(context, RawTrace)
    row = context.source.scan.threads.get(thread)
    return (None, thread) if row is None else (row.process_id, row.os_thread_id or 0)


class Spans:
    """Times between which events were lost, and how many: from when to when, in ns."""

    def __init__(self, gaps: Sequence[_Gap]) -> None:
        after, before, count = np.array(sorted(gaps), np.float64).reshape(-1, 3).T
        self._after, self._before = after / 1e6, before / 1e6
        self._sums = np.append(0.0, np.cumsum(count))
        self._last_end = np.append(-np.inf, np.maximum.accumulate(self._before))  # of those that begin no later
        self._open_ms = np.append(self._after[self._before >= _NEVER_MS], np.inf).min()
        """From when on gaps are not known."""

    def within(self, begin_ms: Array, end_ms: Array, *, least: int = 1) -> Array:
        """Of each from when to when, whether so many were lost by one thread in gaps that lie within (bool)."""
        first = np.searchsorted(self._after, begin_ms - _TICK_MS)
        last = np.searchsorted(self._before, end_ms + _TICK_MS, "right")
        lost = self._sums[np.maximum(first, last)] - self._sums[first]
        made: Array = (lost >= least) | (end_ms > self._open_ms)
        return made

    def overlap(self, begin_ms: Array, end_ms: Array) -> Array:
        """Of each from when to when, whether something that was lost may have been between (bool)."""
        at = np.searchsorted(self._after, end_ms)
        made: Array = self._last_end[at] > begin_ms
        return made
