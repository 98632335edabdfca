"""Threads that still wait for a lock when the recording of their process ends."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np

from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.kept_events import KeptEvents, having
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.events import EventSchema
from dotnetdiag.table import Table
from dotnetdiag.trace.lost_between import LostBy
from dotnetdiag.trace.recorded import Recorded
from dotnetdiag.trace.table import EventTable

WAITED = 302
"""WaitHandleWait/Stop."""
MOST_METHODS = 2
MOST_PAIRS = 4
EDGE_MS = 0.5
"""The runtime measures a contention by so much longer than its events are apart: who got a lock within it may have had it before."""
STILL_MS = 20.0
"""Of a thread that waits when the recording ends: from then on it is told."""


_Key: TypeAlias = tuple[int, int]
"""A process and a thread."""


class _Row(NamedTuple):
    """A contention: the last of its thread, and its number."""

    number: int
    start_ms: float
    is_open: bool
    lock: str | None
    owner: int
    method: str | None


def _last_of_threads(waits: Table, before: int) -> dict[_Key, _Row]:
    if not len(waits):
        return {}
    thread = combined([waits.numpy("pid"), waits.numpy("tid")], len(waits))[1]
    last = np.zeros(int(thread.max()) + 1, np.int64)
    last[thread] = np.arange(len(waits))
    names = ("pid", "tid", "start_ms", "duration_ms", "lock", "owner_tid", "method")
    columns = [(before + last).tolist(), *(waits[name].take(last).to_pylist() for name in names)]
    return {
        (pid, tid): _Row(number, start_ms, duration_ms is None, lock, owner or 0, method)
        for number, pid, tid, start_ms, duration_ms, lock, owner, method in zip(*columns, strict=True)
    }


_Lock: TypeAlias = tuple[int, str | None]
"""A process and one of its locks."""


def _last_to_get(waits: Table, still: Mapping[_Key, _Row]) -> dict[_Lock, tuple[float, int]]:
    """Of those of the locks that somebody waited for and got when that was last, in ms, and which thread did. Who only tries a lock for a while ends
    a contention too: not where who had it then stands before another one since.
    """
    wanted = {(pid, row.lock) for (pid, _), row in still.items() if row.lock is not None}
    found = dict[_Lock, tuple[float, int]]()
    for piece in waits.pieces():
        locks = zip(piece.numpy("pid").tolist(), piece["lock"].to_pylist(), strict=True)
        rows = [row for row, lock in enumerate(locks) if lock in wanted]
        names = ("pid", "lock", "tid", "owner_tid", "start_ms", "duration_ms")
        for pid, lock, tid, owner, start_ms, duration_ms in zip(
            *(piece[name].take(rows).to_pylist() for name in names), strict=True
        ):
            stands = still.get((pid, owner or 0))
            in_vain = stands is not None and stands.start_ms <= start_ms
            if duration_ms is not None and not in_vain:
                found[pid, lock] = max(found.get((pid, lock), (0.0, 0)), (start_ms + duration_ms, tid))
    return found


def _owners(waits: Table, still: Mapping[_Key, _Row]) -> dict[_Key, int]:
    """Who has the lock that each waits for: the owner when that began, unless another thread has waited for it and got it since; 0 where it is
    not known.
    """
    got = _last_to_get(waits, still)
    made = dict[_Key, int]()
    for (pid, tid), row in still.items():
        got_ms, by = got.get((pid, row.lock), (0.0, 0))
        if got_ms <= row.start_ms or by in (tid, row.owner):
            made[pid, tid] = row.owner
        else:
            made[pid, tid] = by if got_ms > row.start_ms + EDGE_MS else 0
    return made


class Woken:
    """Takes windows; ``ms`` is when each thread last ended a wait, of those that .NET 9 and later tell of. Who has woken within a contention and goes
    on waiting was let go by who had the lock: another, who came without a wait, and of whom nothing tells, was quicker.
    """

    def __init__(self) -> None:
        self._ends = KeptEvents(having(WAITED))
        self.ms = dict[_Key, float]()

    def wants(self, schema: EventSchema) -> bool:
        """Ends of waits."""
        return self._ends.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        found = self._ends.events_of(window)
        if len(found):
            ends = self._ends.of(found)
            last = len(ends) - 1 - combined([ends.pid[::-1], ends.tid[::-1]], len(ends))[0]
            keys = zip(ends.pid[last].tolist(), ends.tid[last].tolist(), strict=True)
            self.ms.update(zip(keys, ends.ms[last].tolist(), strict=True))


class Stuck:
    """Threads that wait for a lock when the recording ends, for :data:`STILL_MS` and more, or for each other: those of these ``waits`` whose last has
    no end. Not those of a process that has lost events, or of which that is not told: the end may be among them.
    """

    def __init__(
        self,
        waits: Table,
        recorded: Recorded,
        lost_by: LostBy | None = None,
        *,
        given_up: Mapping[tuple[int, int], int] = MappingProxyType({}),
        woken: Mapping[tuple[int, int], float] = MappingProxyType({}),
    ) -> None:
        """``lost_by``: what each process has lost, where that is known; else it may be what the recording has. ``given_up`` and ``woken`` as of
        :class:`.waits.WaitReport`.
        """
        self.threads, self.longest_ms = 0, 0.0
        self.methods: list[str] = []
        """Where they wait, the one first that waits longest."""
        self.circle: list[tuple[int, int, int]] = []
        """Threads that wait for each other: the process, the thread, and for whom it waits."""
        if lost_by is None and waits.losses.lost != 0:
            return
        last, before = dict[_Key, _Row](), 0
        for piece in waits.pieces():
            last.update(_last_of_threads(piece, before))
            before += len(piece)
        is_whole = {pid: lost_by is None or lost_by(pid) == 0 for pid in {pid for pid, _ in last}}
        is_open = {
            key: row
            for key, row in last.items()
            if row.is_open and is_whole[key[0]] and given_up.get(key) != row.number
        }
        owner = _owners(waits, is_open) if len(is_open) > 1 else {}
        in_circle = _in_circles(
            {key: who for key, who in owner.items() if woken.get(key, -np.inf) <= is_open[key].start_ms}
        )
        self.circle = sorted((pid, tid, owner[pid, tid]) for pid, tid in in_circle)
        waited = {key: 1000.0 * recorded.of(key[0]).end_s - row.start_ms for key, row in is_open.items()}
        keys = sorted(
            (key for key in is_open if key in in_circle or waited[key] >= STILL_MS), key=lambda key: -waited[key]
        )
        if not keys:
            return
        rows = [is_open[key] for key in keys]
        self.threads, self.longest_ms = len(rows), max(waited[keys[0]], 0.0)
        self.methods = [*dict.fromkeys(row.method for row in rows if row.method is not None and is_named(row.method))]

    def text(self) -> str:
        """What is said of them."""
        many = "a thread waits" if self.threads == 1 else f"{self.threads:,} threads wait"
        text = f"{many} for a lock when the recording ends, for {self.longest_ms:,.0f} ms so far"
        if self.methods:
            more = len(self.methods) - MOST_METHODS
            text += f", in {' and '.join(map(short, self.methods[:MOST_METHODS]))}" + (
                f" and {more} more" if more > 0 else ""
            )
        if not self.circle:
            return text
        several = len({pid for pid, *_ in self.circle}) > 1
        shown = [
            f"{tid} for {owner}{f' of process {pid}' if several else ''}"
            for pid, tid, owner in self.circle[:MOST_PAIRS]
        ]
        some = "they wait" if len(self.circle) == self.threads else f"{len(self.circle):,} of them wait"
        left = len(self.circle) - MOST_PAIRS
        pairs = ", ".join(shown) + (f" and {left:,} more" if left > 0 else "")
        return f"{text}; {some} for each other (a deadlock, as far as events tell who has a lock: thread {pairs})"


def _in_circles(owner: Mapping[_Key, int]) -> set[_Key]:
    """Those that wait for each other; each is looked at once."""
    made, seen = set[_Key](), set[_Key]()
    for key in owner:
        way, at = dict[_Key, None](), key
        while at in owner and at not in seen:
            seen.add(at)
            way[at] = None
            at = at[0], owner[at]
        if at in way:
            steps = [*way]
            made.update(steps[steps.index(at) :])
    return made
