"""What requests spend while they run: on processors, in pauses of the collector, on locks, on allocations; and what is thrown in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.distinct import combined, places_of
from dotnetdiag.analysis.exceptions import MOST_CHARACTERS, NO_MESSAGE, THROWN
from dotnetdiag.analysis.gc_events import RESTARTED, SUSPENDING, TICK
from dotnetdiag.analysis.gc_pauses import paused
from dotnetdiag.analysis.gc_stops import GcStops
from dotnetdiag.analysis.kept_events import NONE, OTHERS, Kept, KeptEvents, Places, Texts, cut_at, having
from dotnetdiag.analysis.kind_rows import KindRows, KindStacks
from dotnetdiag.analysis.log_exceptions import first_line, text_of
from dotnetdiag.analysis.pairs import LatestRows, is_followed, last_of_threads, pairs, rest_of_overlaps
from dotnetdiag.analysis.request_kinds import IS_SERVED
from dotnetdiag.analysis.request_spans import Followed, RequestSpans
from dotnetdiag.analysis.running_groups import Numbering
from dotnetdiag.analysis.stacked import are_idle
from dotnetdiag.analysis.waits import CONTENDED, GOT
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.lost_between import LostBetween, Spans
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

SAMPLER, SAMPLE = "Microsoft-DotNETCore-SampleProfiler", 0
MANAGED = 2
"""Of a sample: the thread ran code of .NET."""
COSTS = ("cpu_ms", "gc_ms", "lock_ms", "allocated_bytes", "exceptions")
MOST_THROWN = 1 << 12
"""Types with their messages that are told apart; those beyond are told by their types alone."""
_MOST_WANTED = 4
"""Of each thread so many that it wants: it waits for one lock at a time, and ends that are not recorded never come."""
_OF_THREAD = np.dtype([("ms", "f8"), ("pid", "i8"), ("tid", "i8"), ("row", "i4")])
"""A thread that wants a lock, or has a sample, and for which span."""
_SAMPLED = np.dtype([*_OF_THREAD.descr, ("time", "i8"), ("kind", "i4")])
_RAN = (("row", "i4"), ("ran_ms", "f8"))
"""For which span a thread had the stack of the kind, and how long."""


class RequestCosts:
    """Takes windows; :meth:`follow` gives spans what it came to."""

    def __init__(self) -> None:
        amounts = ("AllocationAmount64", "AllocationAmount")
        self._ticks = KeptEvents(having(TICK), amounts, activities=True)
        self._contended = KeptEvents(having(CONTENDED), activities=True)
        self._got = KeptEvents(having(GOT))
        self._types, self._messages = Texts(), Texts(MOST_THROWN, longest=MOST_CHARACTERS)
        names = {"ExceptionType": self._types, "ExceptionMessage": self._messages}
        self._thrown = KeptEvents(having(THROWN), names=names, activities=True)
        self.thrown, self.thrown_types = list[str](), list[int]()
        """What the fields ``thrown`` and ``logged`` of spans say: types, each with its message; and of each the number of its type alone."""
        self._numbers: dict[str, int] = {}
        self._places = Places()
        self._suspending = KeptEvents(having(SUSPENDING), ("Reason",), places=self._places)
        self._restarted = KeptEvents(having(RESTARTED), places=self._places)
        self._stops = GcStops(self._suspending, self._restarted)
        self._samples = KeptEvents(lambda schema: schema.provider == SAMPLER and schema.event_id == SAMPLE, ("Type",))
        self._wanted = np.zeros(0, _OF_THREAD)
        self._sampled = np.zeros(0, _SAMPLED)
        self._ran = KindRows(_RAN)
        """Whether a thread worked, or waited for work, its stack tells when all names are known."""
        self._marks = _Marks()
        self._seen: dict[str, Array] = dict.fromkeys(COSTS, np.zeros(0, np.int64))
        """Of which processes anything came of a cost, ascending."""

    @property
    def _followed(self) -> Sequence[KeptEvents]:
        return self._ticks, self._contended, self._got, self._samples, self._thrown

    @property
    def _whole(self) -> Sequence[KeptEvents]:
        return self._suspending, self._restarted

    def wants(self, schema: EventSchema) -> bool:
        """What costs something."""
        return any(one.wants(schema) for one in (*self._followed, *self._whole))

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        with self._places.window(window):
            for keeper in (self._ticks, self._contended, self._got, self._thrown, self._stops):
                keeper.feed(window)
        self._ran.columns.look_at(window)
        samples = self._samples.events_of(window)
        if len(samples):
            kept = self._samples.of(samples)
            kind = self._ran.kind_of(samples, self._ran.threads.of(samples, kept))
            self._samples.add(replace(kept, fields={**kept.fields, "kind": kind, "time": samples.headers.time}))

    @property
    def waiting(self) -> int:
        """Events that wait."""
        return sum(map(len, self._followed))

    @property
    def latest_ms(self) -> float:
        """The time of the last event that came."""
        return max(one.latest_ms for one in self._followed)

    def copy(self) -> RequestCosts:
        """One that may go on by itself."""
        made = copy(self)
        made._ticks, made._contended, made._got, made._samples, made._thrown = (one.copy() for one in self._followed)
        made._marks, made._seen = copy(self._marks), dict(self._seen)
        made._ran = self._ran.copy()
        return made

    def spend(self, spans: RequestSpans) -> None:
        """Give spans the processor time of their threads, but for what these spun while they waited for other work: one that has begun an await is
        idle, and the last that it did is known, until something else comes.
        """
        if not len(self._ran):
            return
        stacks = KindStacks(self._ran)
        works = ~are_idle(stacks.frames, stacks.frame)
        for _, some in self._ran.given().slices():
            own = some[works[stacks.of(some["kind"], some["time"])]]
            self._add(spans, "cpu_ms", own["row"], own["ran_ms"])

    def logged(self, json_texts: Sequence[str]) -> list[int]:
        """Numbers, as of what was :attr:`thrown`, of exceptions that messages were logged with; -1 for none."""
        found = [text_of(one) for one in json_texts]
        return [
            NONE if one is None else self._told_number(one[0], cut_at(first_line(one[1]), MOST_CHARACTERS))
            for one in found
        ]

    def follow(self, until: float, spans: RequestSpans, followed: Followed, messages: Kept) -> None:
        """Give spans what the events before that time came to, which these have ``followed``. ``messages`` tell of threads, too, and of exceptions
        that were ``logged``.
        """
        ticks, contended, thrown = (one.take(until) for one in (self._ticks, self._contended, self._thrown))
        marks = ticks, contended, thrown, messages
        of = [spans.of_activity(one.pid, one["activity"], one.ms) for one in marks]
        self._add(spans, "allocated_bytes", _while_under_way(spans, of[0], ticks.ms), _amounts(ticks))
        self._lock(spans, contended, of[1], self._got.take(until))
        self._throw(spans, thrown, of[2])
        if len(messages):
            logged = np.flatnonzero(messages["logged"] >= 0)
            logged = logged[np.argsort(messages.ms[logged], kind="stable")]
            self._tell(spans, "logged", of[3][logged], messages["logged"][logged])
        samples = self._samples.take(until)
        costs = {"allocated_bytes": ticks, "lock_ms": contended, "exceptions": thrown, "cpu_ms": samples}
        for name, kept in costs.items():
            self._seen[name] = distinct(np.append(self._seen[name], distinct(kept.pid.astype(np.int64))))
        self._marks.follow(spans, followed, [*zip(marks, of, strict=True)])
        if len(samples):
            self._sample(spans, samples)

    def seen(self, name: str) -> list[int]:
        """The processes of which anything came of a cost."""
        found: list[int] = self._seen[name].tolist()
        return found

    def forget(self, name: str, pids: Sequence[int]) -> None:
        """What came of a cost tells nothing of these."""
        seen = self._seen[name]
        self._seen[name] = seen[~is_among(seen, np.array(pids, np.int64))]

    def told(self, spans: RequestSpans) -> Mapping[str, Array]:
        """Of which processes (ascending) the recording tells a cost, by name."""
        by_activity = {name: seen[is_among(seen, spans.with_activities)] for name, seen in self._seen.items()}
        return {**by_activity, "gc_ms": self._stops.pids()}

    def pauses(self, lost: LostBetween | None) -> Pauses:
        """When the program was stopped; ``lost``: when its threads have lost events."""
        return Pauses(self._suspending.all(), self._restarted.all(), lost)

    @staticmethod
    def _add(spans: RequestSpans, name: str, rows: Array, values: Array) -> None:
        own = np.flatnonzero(rows >= 0)
        if len(own):
            spans.write(name, rows[own], values[own], adds=True)

    def _throw(self, spans: RequestSpans, thrown: Kept, rows: Array) -> None:
        """Exceptions count for what they were thrown in; the last of each, by its type and message, is told of that and of what a server answers."""
        rows = _while_under_way(spans, rows, thrown.ms)
        self._add(spans, "exceptions", rows, np.ones(len(rows)))
        own = np.flatnonzero(rows >= 0)
        if not len(own):
            return
        some, rows = thrown.of(own[order := np.argsort(thrown.ms[own], kind="stable")]), rows[own[order]]
        type_, message = some["ExceptionType"], some["ExceptionMessage"]
        first, which = combined([type_, message], len(some))
        each = [
            self._number(kind, text) for kind, text in zip(type_[first].tolist(), message[first].tolist(), strict=True)
        ]
        self._tell(spans, "thrown", rows, np.array(each, np.int32)[which])

    @staticmethod
    def _tell(spans: RequestSpans, name: str, rows: Array, numbers: Array) -> None:
        """The last of each, in the order of time, of what it was in, and of what a server answers around it."""
        of = np.stack([rows, spans.nearest(rows, IS_SERVED)], axis=1).reshape(-1)
        spans.write(name, of[of >= 0], np.repeat(numbers, 2)[of >= 0])

    def _number(self, kind: int, text: int) -> int:
        """That of a type with a message, or of the type alone."""
        type_, said = self._types[kind], self._messages[text]
        return self._told_number(type_, type_ if said in ("", NO_MESSAGE, OTHERS) else f"{type_}: {said}")

    def _told_number(self, type_: str, told: str) -> int:
        """That of what is told of an exception; of its type alone where others are too many."""
        found = self._numbers.get(told)
        if found is None:
            if told != type_ and len(self._numbers) >= MOST_THROWN:
                return self._told_number(type_, type_)
            alone = len(self.thrown) if told == type_ else self._told_number(type_, type_)
            found = self._numbers[told] = len(self.thrown)
            self.thrown.append(told)
            self.thrown_types.append(alone)
        return found

    def _lock(self, spans: RequestSpans, contended: Kept, rows: Array, got: Kept) -> None:
        fresh = np.zeros(len(contended), _OF_THREAD)
        fresh["ms"], fresh["pid"], fresh["tid"], fresh["row"] = contended.ms, contended.pid, contended.tid, rows
        wanted = np.append(self._wanted, fresh)
        stop = pairs(wanted["ms"], [wanted["pid"], wanted["tid"]], got.ms, [got.pid, got.tid])
        own = np.flatnonzero((stop >= 0) & (wanted["row"] >= 0))
        self._add(spans, "lock_ms", wanted["row"][own], self._lasted(spans, wanted[own], got.ms[stop[own]]))
        self._wanted = last_of_threads(wanted[stop < 0], _MOST_WANTED)

    @staticmethod
    def _lasted(spans: RequestSpans, since: Array, until: Array) -> Array:
        """For how long threads did something for spans from some times until others, or until the end of the span, if that was before; not what they
        did for none.
        """
        ended = _ends_of(spans, since["row"])
        until = np.where(np.isfinite(ended), np.minimum(until, ended), until)
        made: Array = np.maximum(until - since["ms"], 0.0)
        return made

    def _sample(self, spans: RequestSpans, samples: Kept) -> None:
        """Each sample has the time to the next of its thread, as in a profile: the last of each thread waits for what follows."""
        fresh = np.zeros(len(samples), _SAMPLED)
        fresh["ms"], fresh["pid"], fresh["tid"] = samples.ms, samples.pid, samples.tid
        fresh["time"], fresh["kind"] = samples["time"], samples["kind"]
        row = self._marks.of(samples)
        row[~np.isin(samples["Type"], (MANAGED, NONE))] = -1
        fresh["row"] = _while_under_way(spans, row, samples.ms)
        some = np.append(self._sampled, fresh)
        some = some[np.lexsort((some["ms"], some["tid"], some["pid"]))]
        has_next = is_followed(some)
        self._sampled = some[~has_next]
        known = np.flatnonzero(has_next & (some["row"] >= 0))
        if len(known):
            self._keep(some[known], self._lasted(spans, some[known], some["ms"][known + 1]))

    def _keep(self, sampled: Array, lasted: Array) -> None:
        """Samples of a thread that follow each other for one span, with one stack, are one row."""
        is_other = np.ones(len(sampled), np.bool_)
        is_other[1:] = np.any(
            [sampled[name][1:] != sampled[name][:-1] for name in ("pid", "tid", "row", "kind")], axis=0
        )
        first = np.flatnonzero(is_other)
        rows = np.zeros(len(first), self._ran.dtype)
        for name in ("ms", "time", "kind", "row"):
            rows[name] = sampled[name][first]
        rows["ran_ms"] = np.add.reduceat(lasted, first)
        self._ran.append(rows)
        self._ran.settle(())


def _ends_of(spans: RequestSpans, rows: Array) -> Array:
    """When each ended, of which several may be one; NaN for those that have not, below all times where it is not known."""
    kinds, which = np.unique(rows, return_inverse=True)
    return np.asarray(spans.rows.gather("stop_ms", kinds)[which.reshape(-1)])


def _while_under_way(spans: RequestSpans, rows: Array, ms: Array) -> Array:
    """The rows that events at some times are of, -1 in place of those that had ended. One whose end is not known counts on: that it is not may be
    found out later.
    """
    made = rows.copy()
    own = np.flatnonzero(rows >= 0)
    ended = _ends_of(spans, rows[own])
    made[own[np.isfinite(ended) & (ended < ms[own])]] = -1
    return made


def _amounts(ticks: Kept) -> Array:
    wide, narrow = ticks["AllocationAmount64"], ticks["AllocationAmount"]
    made: Array = np.where(wide >= 0, wide, np.maximum(narrow, 0))
    return made.astype(np.float64)


class _Marks:
    """What tells for which span a thread works: begins and ends, and events of an activity."""

    def __init__(self) -> None:
        self._pids, self._tids, self._threads = Numbering(), Numbering(), Numbering()
        self._latest: Array = np.zeros(0, np.int32)
        """Of each thread the row that the last mark told; -1 for none."""
        self._rows: Array = np.zeros(0, np.int32)
        self._thread: Array = np.zeros(0, np.int64)
        self._marks = LatestRows(np.zeros(0), np.zeros(0), np.zeros(0))

    def follow(self, spans: RequestSpans, followed: Followed, others: Sequence[tuple[Kept, Array]]) -> None:
        """The marks of the next events."""
        self._latest = self._latest_of_all()
        begun, ended = followed.begun, followed.ended
        row = np.concatenate([begun["row"], spans.parent[followed.rows], *(of for _, of in others)])
        ms = np.concatenate([begun["ms"], ended["ms"], *(one.ms for one, _ in others)])
        order = np.argsort(ms, kind="stable")
        pid = np.concatenate([begun["pid"], ended["pid"], *(one.pid for one, _ in others)])[order]
        tid = np.concatenate([begun["tid"], ended["tid"], *(one.tid for one, _ in others)])[order]
        self._rows, self._thread = row[order], self._number(pid, tid)
        self._marks = LatestRows(np.zeros(len(order), np.int8), self._thread + 1, ms[order])

    def _number(self, pid: Array, tid: Array) -> Array:
        return self._threads.of(self._pids.of(pid.astype(np.int64)) << 32 | self._tids.of(tid.astype(np.int64)))

    def _latest_of_all(self) -> Array:
        made = np.full(len(self._threads), -1, np.int32)
        made[: len(self._latest)] = self._latest
        made[self._thread] = self._rows  # of several the last stays
        return made

    def of(self, samples: Kept) -> Array:
        """Of each sample the row that its thread works for by then; -1 for none."""
        thread = self._number(samples.pid, samples.tid)
        at = self._marks.of(np.zeros(len(thread), np.int8), thread + 1, samples.ms)
        before = np.append(self._latest, -1)[np.where(thread < len(self._latest), thread, -1)]
        return np.where(at >= 0, np.append(self._rows, -1)[at], before)


class Pauses:
    """When the program was stopped for the collector, process by process."""

    def __init__(self, suspending: Kept, restarted: Kept, lost: LostBetween | None) -> None:
        own, ends = paused(suspending, restarted, None)
        is_lost = np.zeros(len(own), np.bool_)
        if lost:
            is_lost = lost.of(suspending.pid[own], suspending.tid[own], suspending.ms[own], ends)
        self._doubtful = dict[int, Spans]()
        for pid, rows in places_of(suspending.pid[own[is_lost]]):
            some = zip(suspending.ms[own[is_lost]][rows].tolist(), ends[is_lost][rows].tolist(), strict=True)
            self._doubtful[pid] = Spans([(round(1e6 * begin), round(1e6 * end), 1) for begin, end in some])
        own, ends = own[~is_lost], ends[~is_lost]
        self._lines: dict[int, tuple[Array, Array]] = {}
        for pid, rows in places_of(suspending.pid[own]):
            begin, end = rest_of_overlaps(suspending.ms[own[rows]], ends[rows])
            so_far = np.cumsum(end - begin)
            total = np.stack([np.append(0.0, so_far[:-1]), so_far], axis=1).reshape(-1)
            self._lines[pid] = np.stack([begin, end], axis=1).reshape(-1), total

    def within(self, pid: Array, begin: Array, end: Array) -> Array:
        """For how long, in ms, between these times; what has not ended (NaN) is under way to the last. NaN where that is not known."""
        end = np.where(np.isnan(end), np.inf, end)
        made = np.zeros(len(begin))
        for process, of in places_of(pid) if self._lines else ():
            if process in self._lines:
                times, total = self._lines[process]
                made[of] = np.interp(end[of], times, total) - np.interp(begin[of], times, total)
        for process, spans in self._doubtful.items():
            rows = np.flatnonzero(pid == process)
            made[rows[spans.overlap(begin[rows], end[rows])]] = np.nan
        return made
