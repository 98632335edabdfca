"""The threads of a program: when each came and went, what it is, and what it did: ran, waited, wanted locks, allocated, threw.

Thread/Created and /Terminated (keyword threading) tell of lives (:mod:`.thread_lives`); samples of running and waiting (the sampler's state:
in managed code, or not), as far as they were recorded; the rest are what the other questions count, by thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.allocations import AllocationsFold
from dotnetdiag.analysis.answers import answer_table, number, whole
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.exceptions import ExceptionsFold
from dotnetdiag.analysis.fold import FOLDED_ROWS, LossesToTell, fold
from dotnetdiag.analysis.kept_events import KeptEvents, having
from dotnetdiag.analysis.lacking import Lacking
from dotnetdiag.analysis.native import NO_STATES, RuntimeFacts, are_states_told, facts_of
from dotnetdiag.analysis.profile import DIGITS
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.running_groups import KeyedGroups
from dotnetdiag.analysis.sample_sums import SampleSums
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.thread_lives import ThreadLives
from dotnetdiag.analysis.waits import ContentionFold, WaitsFold
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.spilled import SLICE_ROWS
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"
Key: TypeAlias = tuple[int, int, int]
"""Process, id, and which of the threads that had it: 0 for one that was there before."""
Thread: TypeAlias = tuple[tuple[int, int], str]
"""The ids of its process and its own, and its name."""

TERMINATED = 86
"""AppDomainResourceManagement/ThreadTerminated."""
_KINDS = {1: "gc", 2: "finalizer", 4: "pool worker"}
"""By bits of ThreadCreated's Flags."""
NO_EVENTS = (
    "no threads: the recording has no samples, locks, allocations or exceptions, and no lives of threads "
    "(record with --profile threads)"
)
NO_SAMPLES = "how long threads ran is not told: the recording has no samples (record with --profile threads)"


@dataclass(frozen=True, kw_only=True)
class ThreadTotals:
    """``created`` and ``ended`` while it was recorded, None where no begin, or no end, is told of; ``cpu_ms`` and ``waiting_ms`` of all, None without
    samples, and where these do not say which threads ran.
    """

    count: int
    created: int | None
    ended: int | None
    cpu_ms: float | None
    waiting_ms: float | None


@dataclass(frozen=True, kw_only=True)
class ThreadReport(Report):
    """``threads``: a row for each, the one that ran longest first; several for an id that the system gave again. ``notes``: what the recording
    lacks.
    """

    KIND = "threads"
    MAIN = "threads"

    threads: Table
    totals: ThreadTotals


def threads(trace: Trace) -> ThreadReport:
    """The threads of a recording."""
    (made,) = fold(trace, ThreadsFold(runtime=facts_of(trace)), rows=FOLDED_ROWS // 2)
    return made


class ThreadsFold:
    """What :func:`threads` asks, window by window. ``runtime`` tells of what was recorded, asked in the end."""

    needs_activities = False

    def __init__(self, *, runtime: Callable[[], RuntimeFacts] = RuntimeFacts) -> None:
        self._runtime = runtime
        self._lives = ThreadLives()
        self._ended = KeptEvents(having(TERMINATED), ("ManagedThreadID",))
        self._samples, self._contention, self._waits = SampleSums(lives=self._lives), ContentionFold(), WaitsFold()
        self._allocations, self._exceptions = AllocationsFold(apart=self._lives.number), ExceptionsFold(messages=0)
        self._losses = LossesToTell()

    @property
    def _parts(self) -> tuple[Any, ...]:
        return (
            self._lives, self._ended, self._samples, self._contention, self._waits, self._allocations, self._exceptions
        )  # fmt: skip

    def wants(self, schema: EventSchema) -> bool:
        """What tells of lives, and what the other questions count."""
        return any(one.wants(schema) for one in self._parts)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        for one in self._parts:
            one.feed(window)

    def result(self) -> ThreadReport:
        """The answer."""
        samples, contention, waits = self._samples.rows(of_all=True), self._contention.result(), self._waits.result()
        allocations, exceptions = self._allocations.result(), self._exceptions.result()
        told, lives = self._told(), self._lives
        threads = self._threads(samples)
        figures = {
            **_sampled(samples, threads),
            "lock_ms": _summed(contention.waits, "duration_ms", lives),
            "wait_ms": _summed(waits.waits, "duration_ms", lives),
            "allocated_bytes": _allocated(allocations.profile, lives),
            "exceptions": _summed(exceptions.thrown, None, lives),
        }
        names = {key: name for key, name in threads.values() if name}
        for one in (contention.thread_names, waits.thread_names, _named(allocations.profile), exceptions.thread_names):
            names |= one
        keyed = {*told, *(key for one in figures.values() for key in one)}
        keyed |= {(*one, 0) for one in names.keys() - {key[:2] for key in keyed}}
        keys = sorted(keyed)
        of_id = Counter(key[:2] for key in keys)
        ran = figures["cpu_ms"]
        states = self._with_states(samples, threads)
        has_states = len(states) > 0
        first = ran if has_states else figures["samples"]
        keys.sort(key=lambda key: -first.get(key, 0.0))
        notes = self._notes(keys, {pid for pid, _, _ in ran}, states)
        pids = np.array([pid for pid, _, _ in keys], np.int64)
        columns: dict[str, Column] = {
            "pid": whole(pids),
            "tid": whole(np.array([tid for _, tid, _ in keys], np.int64)),
            "name": Text.from_pylist([(names.get(key[:2]) if of_id[key[:2]] == 1 else None) or None for key in keys]),
            "kind": Text.from_pylist([told[key].kind if key in told else None for key in keys]),
            "created_ms": number(np.array([told[key].created_ms if key in told else np.nan for key in keys])),
            "ended_ms": number(np.array([told[key].ended_ms if key in told else np.nan for key in keys])),
        }
        for name, of in figures.items():
            # of a process without such events nothing is told, where others have some
            told_of = states if name in ("cpu_ms", "waiting_ms") else {pid for pid, _, _ in of}
            known = is_among(pids, np.array(sorted(told_of), np.int64))
            values = np.round([of.get(key, 0.0) for key in keys], DIGITS)
            columns[name] = number(values, known) if name.endswith("_ms") else whole(values, known)
        return ThreadReport(
            threads=answer_table("threads", columns, notes, self._losses.told),
            totals=ThreadTotals(
                count=len(keys),
                created=len(told) or None,
                ended=sum(not np.isnan(one.ended_ms) for one in told.values()) if len(self._ended) else None,
                cpu_ms=_of_processes(ran, states),
                waiting_ms=_of_processes(figures["waiting_ms"], states),
            ),
            notes=notes,
        )

    def _threads(self, samples: Array) -> dict[int, Thread]:
        """Of each number of a thread in sums of samples."""
        found = {number: self._samples.thread(number) for number in distinct(samples["thread"]).tolist()}
        return {number: (one.key, one.name) for number, one in found.items()}

    def _with_states(self, samples: Array, threads: Mapping[int, Thread]) -> set[int]:
        """The processes whose samples say which threads ran."""
        runtime = self._runtime()
        pids = np.array([threads[number][0][0] for number in samples["thread"].tolist()], np.int64)
        own = ((pid, samples[pids == pid]) for pid in distinct(pids).tolist())
        return {pid for pid, rows in own if are_states_told(rows["state"], rows["count"], runtime.of(pid))}

    @staticmethod
    def _notes(keys: Sequence[Key], sampled: AbstractSet[int], states: AbstractSet[int]) -> tuple[str, ...]:
        if not keys:
            return (NO_EVENTS,)
        own = {pid for pid, _, _ in keys}
        without = (Lacking.among(own, own - sampled), NO_SAMPLES), (Lacking.among(sampled, sampled - states), NO_STATES)
        return tuple(note for lacking, text in without for note in lacking.notes(text))

    def _told(self) -> dict[Key, _Life]:
        created, ended = self._lives.created(), self._ended.all()
        ends: dict[tuple[int, int], list[float]] = {}
        for pid, managed, ms in zip(
            ended.pid.tolist(), ended["ManagedThreadID"].tolist(), ended.ms.tolist(), strict=True
        ):
            ends.setdefault((pid, managed), []).append(ms)
        rows = zip(
            created.pid.tolist(), created["OSThreadID"].tolist(), self._lives.numbers().tolist(),
            created["ManagedThreadID"].tolist(), created["Flags"].tolist(), created.ms.tolist(), strict=True,
        )  # fmt: skip
        made = {}
        for pid, tid, life, managed, flags, ms in rows:
            kind = next((name for bit, name in _KINDS.items() if flags >= 0 and flags & bit), None)
            end = min((one for one in ends.get((pid, managed), ()) if one >= ms), default=np.nan)
            made[pid, tid, life] = _Life(kind=kind, created_ms=ms, ended_ms=end)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    kind: str | None
    created_ms: float
    ended_ms: float


def _sampled(samples: Array, threads: Mapping[int, Thread]) -> dict[str, dict[Key, float]]:
    """Time in managed code and outside of it, and samples, by thread."""
    first, which = combined([samples["thread"], samples["life"]], len(samples))
    rows = zip(samples["thread"][first].tolist(), samples["life"][first].tolist(), strict=True)
    keys = [(*threads[number][0], life) for number, life in rows]
    columns = {"cpu_ms": "ran", "waiting_ms": "waited", "samples": "count"}
    made: dict[str, dict[Key, float]] = {name: dict.fromkeys(keys, 0.0) for name in columns}
    for name, column in columns.items():
        for key, value in zip(keys, np.bincount(which, samples[column], len(keys)).tolist(), strict=True):
            made[name][key] += value
    return made


def _of_processes(figures: Mapping[Key, float], pids: set[int]) -> float | None:
    """The sum of some processes, None of none."""
    return round(sum(value for (pid, _, _), value in figures.items() if pid in pids), DIGITS) if pids else None


def _allocated(profile: StackProfile, lives: ThreadLives) -> dict[Key, float]:
    """Bytes by thread."""
    keys = np.array([one.key for one in profile.threads], np.int64).reshape(-1, 2)
    pid, tid = keys[profile.thread].T
    columns = [pid, tid, lives.number(pid, tid, profile.start_ns / 1e6)]
    first, which = combined(columns, len(profile))
    sums = np.bincount(which, profile.weight, minlength=len(first)).tolist()
    return dict(zip(zip(*(one[first].tolist() for one in columns), strict=True), sums, strict=True))


def _summed(rows: Table, name: str | None, lives: ThreadLives) -> dict[Key, float]:
    """The sum of a column by thread, or without a name how many rows; of an empty table nothing."""
    if not len(rows) or "tid" not in rows.columns or "pid" not in rows.columns:
        return {}
    found, before = KeyedGroups(3), 0
    for first in range(0, len(rows), SLICE_ROWS):
        some = rows[first : first + SLICE_ROWS]  # of a million rows elsewhere no column is in memory as a whole
        pid, tid, ms = (_values(some, one) for one in ("pid", "tid", "start_ms"))
        values = 1.0 if name is None else _values(some, name)
        found.add([pid, tid, lives.number(pid, tid, ms)], before + np.arange(len(some)), values)
        before += len(some)
    columns, sums, _ = found.told()
    return dict(zip(zip(*(one.tolist() for one in columns), strict=True), sums.total.tolist(), strict=True))


def _values(rows: Table, name: str) -> Array:
    """Numbers of a column, 0 for None."""
    column = rows[name]
    assert isinstance(column, Scalar)
    return column.values if column.valid is None else np.where(column.valid, column.values, 0)


def _named(profile: StackProfile) -> dict[tuple[int, int], str]:
    return {one.key: one.name for one in profile.threads if one.name}
