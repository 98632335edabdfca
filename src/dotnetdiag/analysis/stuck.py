"""Threads that still wait for a lock when a recording of so many seconds ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.waits import WaitReport
from dotnetdiag.table import Table

MOST_METHODS = 2
STILL_MS = 100.0
"""Of a thread that waits when the recording ends: from then on it is told."""


def with_stuck(made: WaitReport, seconds: float) -> WaitReport:
    """With a note on those that wait still when the recording ends: how long they will is in no figure."""
    if not made.totals.unfinished:
        return made
    stuck = Stuck(made, seconds, least_ms=STILL_MS)
    return made.with_notes((*made.notes, stuck.text())) if stuck.threads else made


_Key: TypeAlias = tuple[int, int]
"""A process and a thread."""


class _Row(NamedTuple):
    """A contention: the last of its thread."""

    start_ms: float
    is_open: bool
    owner: int
    method: str | None


def _last_of_threads(waits: Table) -> dict[_Key, _Row]:
    if not len(waits):
        return {}
    thread = combined([waits.numpy("pid"), waits.numpy("tid")], len(waits))[1]
    last = np.zeros(int(thread.max()) + 1, np.int64)
    last[thread] = np.arange(len(waits))
    names = ("pid", "tid", "start_ms", "duration_ms", "owner_tid", "method")
    columns = [waits[name].take(last).to_pylist() for name in names]
    return {
        (pid, tid): _Row(start_ms, duration_ms is None, owner or 0, method)
        for pid, tid, start_ms, duration_ms, owner, method in zip(*columns, strict=True)
    }


class Stuck:
    """Threads that wait for a lock when the recording ends, for ``least_ms`` and more: those whose last contention has no end. None in a recording
    that has lost events, or does not tell: the end may be among them.
    """

    def __init__(self, made: WaitReport, seconds: float, *, least_ms: float) -> None:
        self.threads, self.longest_ms, self.in_circle = 0, 0.0, False
        self.methods: list[str] = []
        """Where they wait, the one first that waits longest."""
        if not made.totals.unfinished or made.waits.losses.lost != 0:
            return
        last = dict[_Key, _Row]()
        for piece in made.waits.pieces():
            last.update(_last_of_threads(piece))
        still = {key: row for key, row in last.items() if row.is_open and 1000.0 * seconds - row.start_ms >= least_ms}
        if not still:
            return
        rows = sorted(still.values(), key=lambda row: row.start_ms)
        self.threads, self.longest_ms = len(still), 1000.0 * seconds - rows[0].start_ms
        self.methods = [*dict.fromkeys(row.method for row in rows if row.method is not None and is_named(row.method))]
        owner = {key: row.owner for key, row in still.items()}
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
        if self.methods:
            more = len(self.methods) - MOST_METHODS
            text += f", in {' and '.join(map(short, self.methods[:MOST_METHODS]))}" + (
                f" and {more} more" if more > 0 else ""
            )
        return f"{text}; they wait for each other (a deadlock)" if self.in_circle else text
