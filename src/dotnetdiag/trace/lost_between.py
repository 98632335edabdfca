"""Who lost events, and when: what begins before them and ends behind them may be of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.trace.raw import RawTrace

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Context

Array: TypeAlias = "np.ndarray[Any, Any]"

LostBy: TypeAlias = Callable[[int], int | None]
"""How many events a process has lost; None where that is not known."""
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
    """The gaps of a recording, of which the first 10,000 are known (docs/limits.md); of a session that runs none are."""

    def __init__(self, context: Context) -> None:
        self._spans: dict[tuple[int | None, int], list[tuple[int, int]]] = {}
        """Of each thread, from its last event before a gap to the first behind it, in ns; before its first event nothing of it began."""
        self._of_process: dict[int | None, list[tuple[int, int]]] = {}
        """The same of all threads of a process, those before the first event of a thread too."""
        self._told: dict[int, Spans] = {}
        if not isinstance(context, RawTrace) or not context.losses.lost:
            return
        gaps = context.lost.gaps
        threads = context.source.scan.threads if context.format.startswith("nettrace 6") else {}
        start = context.meaning.info.sync_ticks
        ticks = np.array([[start if gap.after is None else gap.after, gap.before] for gap in gaps], np.int64)
        ns = context.meaning.info.elapsed_ns(ticks.reshape(-1)).reshape(-1, 2)
        for gap, (after, before) in zip(gaps, ns.tolist(), strict=True):
            row = threads.get(gap.capture_thread)
            key = (None, gap.capture_thread) if row is None else (row.process_id, row.os_thread_id or 0)
            self._of_process.setdefault(key[0], []).append((after, before))
            if gap.after is not None:
                self._spans.setdefault(key, []).append((after, before))

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._of_process)

    def of(self, pid: Array, tid: Array, begin_ms: Array, end_ms: Array) -> Array:
        """Of each from when to when, of a thread, whether one lies within (bool)."""
        made = np.zeros(len(tid), np.bool_)
        for (process, thread), spans in self._spans.items():
            rows = np.flatnonzero((tid == thread) & ((pid == process) if process is not None else np.True_))
            made[rows] = Spans(spans).within(begin_ms[rows], end_ms[rows])
        return made

    def of_process(self, pid: int) -> Spans:
        """Those of any thread of a process."""
        if pid not in self._told:
            found = [spans for process, spans in self._of_process.items() if process in (pid, None)]
            self._told[pid] = Spans([span for spans in found for span in spans])
        return self._told[pid]


class Spans:
    """Times between which events were lost, in ns."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._after, before = np.array(sorted(spans), np.float64).reshape(-1, 2).T / 1e6
        self._last_end = np.append(-np.inf, np.maximum.accumulate(before))  # of those that begin no later
        # of those that begin no earlier
        self._first_end = np.append(np.minimum.accumulate(before[::-1])[::-1], np.inf)

    def within(self, begin_ms: Array, end_ms: Array) -> Array:
        """Of each from when to when, whether one lies within (bool)."""
        at = np.searchsorted(self._after, begin_ms - _TICK_MS)
        made: Array = self._first_end[at] <= end_ms + _TICK_MS
        return made

    def overlap(self, begin_ms: Array, end_ms: Array) -> Array:
        """Of each from when to when, whether something that was lost may have been between (bool)."""
        at = np.searchsorted(self._after, end_ms)
        made: Array = self._last_end[at] > begin_ms
        return made
