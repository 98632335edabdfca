"""Threads that still wait for a lock when a recording of so many seconds ends."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.waits import WaitReport

STILL_MS = 100.0
"""Of a thread that waits when the recording ends: from then on it is told."""


def with_stuck(made: WaitReport, seconds: float) -> WaitReport:
    """With a note on those that wait still when the recording ends: how long they will is in no figure."""
    if not made.totals.unfinished:
        return made
    stuck = Stuck(made, seconds, least_ms=STILL_MS)
    return made.with_notes((*made.notes, stuck.text())) if stuck.threads else made


class Stuck:
    """Threads that wait for a lock when the recording ends, for ``least_ms`` and more: those whose last contention has no end. None in a recording
    that has lost events, or does not tell: the end may be among them.
    """

    def __init__(self, made: WaitReport, seconds: float, *, least_ms: float) -> None:
        waits = made.waits
        ends = waits["duration_ms"].valid if len(waits) else None
        self.threads, self.longest_ms, self.in_circle = 0, 0.0, False
        self.method: str | None = None
        if ends is None or waits.losses.lost != 0:
            return
        pid, tid = waits.numpy("pid"), waits.numpy("tid")
        thread = combined([pid, tid], len(waits))[1]
        last = np.zeros(int(thread.max()) + 1, np.int64)
        last[thread] = np.arange(len(waits))
        rows = np.flatnonzero(~ends)
        rows = rows[last[thread[rows]] == rows]
        open_ms = 1000.0 * seconds - waits.numpy("start_ms")[rows]
        rows = rows[open_ms >= least_ms]
        if not len(rows):
            return
        self.threads, self.longest_ms = len(rows), float(open_ms.max())
        self.method = waits.row(int(rows[0]))["method"]
        owner = dict(zip(zip(pid[rows], tid[rows], strict=True), waits.numpy("owner_tid")[rows], strict=True))
        self.in_circle = any(self._is_circle(owner, key) for key in owner)

    @staticmethod
    def _is_circle(owner: Mapping[tuple[int, int], int], key: tuple[int, int]) -> bool:
        at = key
        for _ in owner:
            if at not in owner:
                return False
            at = key[0], owner[at]
            if at == key:
                return True
        return False

    def text(self) -> str:
        """What is said of them."""
        many = "a thread waits" if self.threads == 1 else f"{self.threads:,} threads wait"
        text = f"{many} for a lock when the recording ends, for {self.longest_ms:,.0f} ms so far"
        if self.method is not None and is_named(self.method):
            text += f", in {short(self.method)}"
        return f"{text}; they wait for each other (a deadlock)" if self.in_circle else text
