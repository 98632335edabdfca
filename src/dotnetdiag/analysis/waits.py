"""Who waits for whom: threads that wanted a lock which another had, and threads that waited for anything else.

A contention lasts from Contention/Start to Contention/Stop of its thread; the runtime measures it too (5 and later), and that counts. Which lock
it was and who had it is told by .NET 7 and later: the id of an OS thread, but of NativeAOT the number that the runtime gives its threads.
A wait is between WaitHandleWait/Start and /Stop (9 and later): all that waits in the runtime passes there, a contended lock included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis.answers import answer_sliced, answer_table, mask, number, whole
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.filters import are_tries
from dotnetdiag.analysis.fold import LossesToTell, OfTypes, Seconds, fold, recorded_in, seconds_of
from dotnetdiag.analysis.kept_events import NONE, Kept, KeptEvents, having, whole_numbers
from dotnetdiag.analysis.kind_rows import Values, columns_of
from dotnetdiag.analysis.lasting import Lasting, LastingEvents
from dotnetdiag.analysis.native import RuntimeFacts, facts_of
from dotnetdiag.analysis.pairs import latest_rows
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.running_groups import KeyedGroups
from dotnetdiag.analysis.spread import Spread
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stuck import WAITED, Stuck, Woken
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

CONTENDED, GOT, WAITS = 81, 91, 301
"""Contention/Start and /Stop, WaitHandleWait/Start and /Stop."""
SOURCES = ("Wait", "MonitorWait", "Contention")
"""WaitSource as the runtime has it (unknown: Wait), and waits of threads that want a lock."""
OBJECT, OWNER, SOURCE = "AssociatedObjectID", "LockOwnerThreadID", "source"
_NS = 1e6
_MOST_NS = 1e18
"""Ns, thirty years: what says more is damaged."""
_BEFORE = "the stacks of a program that still runs tell who has waited since before"
NO_CONTENTION = (
    "no contention: no wait for a lock began, or the recording lacks its events (record with --profile contention); "
    f"{_BEFORE}"
)
NO_WAITS = (
    "no waits: none began or ended, or the recording lacks their events (record with --profile waits, .NET 9 and later); "
    f"{_BEFORE}"
)
NO_OWNERS = "which locks these were, and who had them, is not told: .NET 7 and later do"
MANAGED_IDS = (
    "owners are told by the numbers that the runtime gives its threads, as NativeAOT does, not by ids of the system"
)


@dataclass(frozen=True, kw_only=True)
class WaitTotals:
    """Of all. ``unfinished`` began, and no end was recorded: they count in no time. ``waits_ms``: quantiles by name."""

    count: int
    total_ms: float
    max_ms: float
    unfinished: int
    threads: int
    waits_ms: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class WaitReport(Report):
    """``waits``: a row for each, in the order of their begins. ``by_method``, ``by_lock`` and ``by_owner`` (who waited for whom): those that took
    most time first; ``unfinished`` of them have no end, and count in no time. ``profile``: the stacks of who waited, in ms, which ``stacks`` makes
    when somebody asks. ``given_up``: by process and id the last of a thread that it may have given up, of which the runtime tells no end. ``woken``:
    likewise when a thread last ended a wait (ms), where that is recorded and contention asked.
    ``thread_names``: by process (0: not told) and id. ``notes``: what the recording lacks.
    """

    KIND = "waits"
    MAIN = "waits"

    waits: Table
    by_method: Table
    by_lock: Table
    by_owner: Table
    stacks: Callable[[], StackProfile] = field(repr=False, compare=False)
    given_up: Mapping[tuple[int, int], int] = field(repr=False)
    woken: Mapping[tuple[int, int], float] = field(repr=False, default_factory=dict)
    thread_names: Mapping[tuple[int, int], str] = field(repr=False)
    totals: WaitTotals

    @property
    def kind(self) -> str:
        """Waits, or contention, which has no sources."""
        return self.KIND if SOURCE in self.waits.columns else "contention"

    @cached_property
    def profile(self) -> StackProfile:
        """The stacks of who waited."""
        return self.stacks()


def contention(trace: Trace) -> WaitReport:
    """Every time that a thread of a recording wanted a lock which another had."""
    (made,) = fold(trace, ContentionFold(seconds=seconds_of(trace), runtime=facts_of(trace)))
    return made


def waits(trace: Trace) -> WaitReport:
    """Every time that a thread of a recording waited in the runtime."""
    (made,) = fold(trace, WaitsFold(runtime=facts_of(trace)))
    return made


class ContentionFold:
    """What :func:`contention` asks, window by window. ``seconds``: how long was recorded, of which a note on who waits still needs the end;
    ``runtime``: what is known of it; both are asked at the end.
    """

    needs_activities = False

    def __init__(self, *, seconds: Seconds = None, runtime: Callable[[], RuntimeFacts] = RuntimeFacts) -> None:
        self._seconds, self._runtime = seconds, runtime
        self._events = LastingEvents(
            KeptEvents(having(CONTENDED), ("LockID", OBJECT, OWNER)),
            KeptEvents(having(GOT), ("DurationNs",)),
            lasted=_told_ms,
        )
        self._woken = Woken()
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends of contentions, and ends of waits."""
        return self._events.wants(schema) or self._woken.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        self._events.feed(window)
        self._woken.feed(window)

    def result(self) -> WaitReport:
        """The answer, of what came until now; more may come, and another be asked for."""
        made = _with_ids(_Answer(self._events.result("Contention"), is_lock=True).report(NO_CONTENTION), self._runtime)
        made = replace(made, woken=dict(self._woken.ms))
        recorded = recorded_in(self._seconds) if made.totals.unfinished else None
        if recorded is None:
            return made
        stuck = Stuck(made.waits, recorded, self._losses.lost_by, given_up=made.given_up, woken=made.woken)
        return made.with_notes((*made.notes, stuck.text())) if stuck.threads else made


class WaitsFold:
    """What :func:`waits` asks, window by window."""

    needs_activities = False

    def __init__(self, *, runtime: Callable[[], RuntimeFacts] = RuntimeFacts) -> None:
        self._runtime = runtime
        self._events = LastingEvents(
            KeptEvents(having(WAITS), ("WaitSource", OBJECT)), KeptEvents(having(WAITED)), more=(SOURCE, OWNER)
        )
        self._contended, self._got = _Latest(having(CONTENDED), (OBJECT, OWNER)), _Latest(having(GOT))
        self._begun, self._before = OfTypes(having(WAITS)), 0

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends of waits, and of contentions."""
        return self._events.wants(schema) or self._contended.wants(schema) or self._got.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        for one in (self._contended, self._got):
            one.feed(window, self._before)
        self._places = self._before + self._begun.rows(window)
        self._events.feed(window, self._sources)
        self._before += len(window)

    def _sources(self, starts: Kept) -> Mapping[str, Array]:
        source = np.where(starts["WaitSource"] == 1, 1, 0)
        wanted, got = (one.before(starts, self._places) for one in (self._contended, self._got))
        within = wanted.ms > got.ms  # a contention of its thread, which tells of what lock and who has it
        source[within] = 2
        # a wait that names its object may be behind a contention whose end was lost
        of_lock = within & (starts["WaitSource"] != 1) & ~(starts[OBJECT] > 0)
        return {
            SOURCE: source,
            OBJECT: np.where(of_lock, wanted[OBJECT], starts[OBJECT]),
            OWNER: np.where(of_lock, wanted[OWNER], NONE),
        }

    def result(self) -> WaitReport:
        """The answer, of what came until now; more may come, and another be asked for."""
        return _with_ids(_Answer(self._events.result("Waits"), is_lock=False).report(NO_WAITS), self._runtime)


def _with_ids(made: WaitReport, runtime: Callable[[], RuntimeFacts]) -> WaitReport:
    """The same, with the note on whose ids owners have."""
    is_native = len(made.by_owner) > 0 and runtime().is_native
    return made.with_notes((*made.notes, MANAGED_IDS)) if is_native else made


class _Latest:
    """Where each thread last had an event of a type, among all events that came: times may be equal. And some of its fields."""

    def __init__(self, wants: Callable[[EventSchema], bool], fields: Sequence[str] = ()) -> None:
        self._events, self._types, self._fields = KeptEvents(wants, fields), OfTypes(wants), tuple(fields)
        self.wants = wants

    def feed(self, window: EventTable, before: int) -> None:
        """Take the next window, ``before`` which so many events came; of those the last of each thread stay."""
        kept = self._events.take()
        last = np.sort(combined([kept.pid[::-1], kept.tid[::-1]], len(kept))[0])
        self._events.add(kept.of(len(kept) - 1 - last[::-1]))
        found = self._events.events_of(window)
        if len(found):
            own = self._events.of(found)
            places = (before + self._types.rows(window)).astype(np.float64)
            self._events.add(Kept(places, own.pid, own.tid, own.fields))

    def before(self, events: Kept, places: Array) -> Kept:
        """Of each event of the window, at these places, the last that its thread had before it, whose ``ms`` is its place; -1 where there is
        none.
        """
        kept = self._events.all()
        nothing = Kept(np.full(1, -1.0), np.zeros(1), np.zeros(1), {name: np.full(1, NONE) for name in self._fields})
        if not len(kept):
            return nothing.of(np.zeros(len(events), np.int64))
        row = latest_rows([kept.pid, kept.tid], kept.ms, [events.pid, events.tid], places.astype(np.float64))
        fields = {name: np.append(whole_numbers(kept[name]), NONE)[row] for name in self._fields}
        return Kept(np.append(kept.ms, -1.0)[row], events.pid, events.tid, fields)


def _told_ms(stops: Kept) -> Array:
    told = stops["DurationNs"].astype(np.float64)
    return np.where((told >= 0) & (told < _MOST_NS), told / _NS, np.nan)


class _Answer:
    """Of contentions (``is_lock``), or of waits: looked at slice by slice."""

    def __init__(self, made: Lasting, *, is_lock: bool) -> None:
        self._made, self._is_lock = made, is_lock
        self._names = made.stacks.thread_names()
        self._by_id = {tid: name for (_, tid), name in self._names.items()}
        own = ("lock" if is_lock else SOURCE, "owner_tid", "owner")
        self._columns = ("start_ms", "duration_ms", "pid", "tid", "thread", "method", *own, "object")

    def report(self, nothing: str) -> WaitReport:
        """The tables; ``nothing`` is the note where there are none."""
        made, is_lock = self._made, self._is_lock
        by_method, by_lock, by_owner = KeyedGroups(2), KeyedGroups(2 if is_lock else 3), KeyedGroups(3)
        durations, unfinished = Spread(), 0
        is_try, given_up = made.stacks.told(are_tries), dict[tuple[int, int], int]()
        for first, rows in made.slices():
            number_, duration = first + np.arange(len(rows)), rows["duration_ms"]
            pid, tid = made.pid[rows["kind"]], made.tid[rows["kind"]]
            stack = made.stacks.of(rows["kind"], rows["time"])
            method = made.stacks.method[stack]
            known = ~np.isnan(duration)
            at = np.flatnonzero(~known & is_try[stack])
            given_up |= zip(zip(pid[at].tolist(), tid[at].tolist(), strict=True), number_[at].tolist(), strict=True)
            durations.add(duration[known])
            unfinished += len(rows) - int(known.sum())
            by_method.add([pid, method], number_, duration)
            lock = np.maximum(rows["LockID" if is_lock else OBJECT], 0)
            at = (
                np.flatnonzero(lock) if is_lock else np.arange(len(rows))
            )  # what waits for no object waits for something
            keys = [pid[at], lock[at]] if is_lock else [pid[at], rows[SOURCE][at], lock[at]]
            by_lock.add(keys, number_[at], duration[at])
            owner = np.maximum(rows[OWNER], 0)
            at = np.flatnonzero(owner)
            by_owner.add([pid[at], tid[at], owner[at]], number_[at], duration[at])
        notes = [] if len(made) else [nothing]
        if len(made) and is_lock and not len(by_lock):
            notes.append(NO_OWNERS)
        notes += (*made.stacks.unnamed, *made.stacks.notes) if len(made) else ()
        locks = ("pid", "lock") if is_lock else ("pid", SOURCE, "object")
        owners = ("pid", "tid", "owner_tid")
        return WaitReport(
            waits=answer_sliced("waits", self._columns, len(made), self._some, notes, made.losses),
            by_method=self._grouped("waits by method", ("pid", "method"), by_method, notes),
            by_lock=self._grouped("waits by lock", locks, by_lock, notes),
            by_owner=self._grouped("who waited for whom", owners, by_owner, notes),
            stacks=made.profile,
            given_up=given_up,
            thread_names=self._names,
            totals=WaitTotals(
                count=len(made),
                total_ms=durations.total,
                max_ms=durations.most,
                unfinished=unfinished,
                threads=len(combined([made.pid, made.tid], len(made.pid))[0]),
                waits_ms=durations.quantiles(),
            ),
            notes=tuple(notes),
        )

    def _some(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        return columns_of(self._made.rows, self._column, names, first, last)

    def _column(self, name: str, values: Values) -> Column:
        """Of the table of all."""
        made = self._made
        if name == "start_ms":
            return Scalar(values("ms"), None, Kind.F8)
        if name == "duration_ms":
            return number(values(name))
        if name == "method":
            return made.stacks.methods(made.stacks.of(values("kind"), values("time")))
        if name in ("pid", "tid", "thread"):
            return self._shown(name, (made.pid if name == "pid" else made.tid)[values("kind")])
        field = {"lock": "LockID", "object": OBJECT, SOURCE: SOURCE}.get(name, OWNER)
        return self._shown(name, np.maximum(values(field), 0))

    def _shown(self, name: str, values: Array) -> Column:
        """Numbers as a column of that name has them."""
        if name in ("thread", "owner"):
            return self._named(values)
        if name in ("lock", "object"):
            return _address(values)
        if name == SOURCE:
            return Coded.naming(Scalar(values, None, Kind.I8), lambda number: SOURCES[number])
        if name == "method":
            return self._made.stacks.named(values)
        return whole(values, values > 0) if name == "owner_tid" else whole(values)

    def _named(self, ids: Array) -> Coded:
        """The names of threads; None for those without one."""
        found, which = ranked(ids)
        names = [self._by_id.get(one) for one in found.tolist()]
        known = np.array([name is not None for name in names], np.bool_)[which]
        return Coded(Text.from_pylist([name or "" for name in names]), which, mask(known))

    def _grouped(self, title: str, names: Sequence[str], groups: KeyedGroups, notes: Sequence[str]) -> Table:
        keys, found, order = groups.told()
        shown = dict[str, Column]()
        for name, key in zip(names, keys, strict=True):
            shown[name] = self._shown(name, key[order])
            if name in ("tid", "owner_tid"):
                shown["thread" if name == "tid" else "owner"] = self._named(key[order])
            if name == "lock":
                of_first = self._made.rows.gather(OBJECT, found.first[order])
                shown["object"] = _address(np.maximum(of_first, 0))
        figures = {
            "count": whole(found.count[order]),
            "total_ms": number(found.total[order]),
            "max_ms": number(found.most[order]),
            "unfinished": whole((found.count - found.known)[order]),
        }
        return answer_table(title, {**shown, **figures}, notes, self._made.losses)


def _address(values: Array) -> Column:
    return Coded.naming(Scalar(values, mask(values > 0), Kind.I8), lambda one: f"0x{one:X}")
