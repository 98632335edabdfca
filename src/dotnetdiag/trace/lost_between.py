"""Who lost events, and when: what begins before them and ends behind them may be of two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.trace.raw import RawTrace

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Context

Array: TypeAlias = "np.ndarray[Any, Any]"

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
        if not isinstance(context, RawTrace) or not context.losses.lost:
            return
        gaps = [
            gap for gap in context.lost.gaps if gap.after is not None
        ]  # before the first event of a thread nothing began
        threads = context.source.scan.threads if context.format.startswith("nettrace 6") else {}
        ticks = np.array([[gap.after, gap.before] for gap in gaps], np.int64).reshape(-1)
        ns = context.meaning.info.elapsed_ns(ticks).reshape(-1, 2)
        for gap, (after, before) in zip(gaps, ns.tolist(), strict=True):
            row = threads.get(gap.capture_thread)
            key = (None, gap.capture_thread) if row is None else (row.process_id, row.os_thread_id or 0)
            self._spans.setdefault(key, []).append((after, before))

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._spans)

    def of(self, pid: Array, tid: Array, begin_ms: Array, end_ms: Array) -> Array:
        """Of each from when to when, of a thread, whether one lies within (bool)."""
        made = np.zeros(len(tid), np.bool_)
        for (process, thread), spans in self._spans.items():
            rows = np.flatnonzero((tid == thread) & ((pid == process) if process is not None else np.True_))
            after, before = np.array(sorted(spans), np.float64).T / 1e6
            at = np.searchsorted(after, begin_ms[rows] - _TICK_MS)
            made[rows] = np.append(before, np.inf)[at] <= end_ms[rows] + _TICK_MS
        return made
