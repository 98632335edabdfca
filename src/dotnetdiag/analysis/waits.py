"""Who waits for whom: threads that wanted a lock which another had, and threads that waited for anything else.

A contention lasts from Contention/Start to Contention/Stop of its thread; the runtime measures it too (5 and later), and that counts. Which lock
it was and who had it is told by .NET 7 and later: the id of an OS thread, but of NativeAOT the number that the runtime gives its threads.
A wait is between WaitHandleWait/Start and /Stop (9 and later): all that waits in the runtime passes there, a contended lock included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import answer_table, mask, number, whole
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.groups import groups
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, having
from dotnetdiag.analysis.lasting import Lasting, LastingEvents
from dotnetdiag.analysis.quantiles import quantiles_of
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

CONTENDED, GOT, WAITS, WAITED = 81, 91, 301, 302
"""Contention/Start and /Stop, WaitHandleWait/Start and /Stop."""
SOURCES = ("Wait", "MonitorWait", "Contention")
"""WaitSource as the runtime has it (unknown: Wait), and waits of threads that want a lock."""
OBJECT = "AssociatedObjectID"
_NS = 1e6
_MOST_NS = 1e18
"""Ns, thirty years: what says more is damaged."""
NO_CONTENTION = (
    "no contention: no thread waited for a lock, or the recording lacks its events (record with --clrevents contention)"
)
NO_WAITS = (
    "no waits: nothing waited, or the recording lacks their events "
    "(record with --clrevents waithandle --clreventlevel verbose, .NET 9 and later)"
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
    most time first. ``profile``: the stacks of who waited, in ms. ``notes``: what the recording lacks.
    """

    MAIN = "waits"

    waits: Table
    by_method: Table
    by_lock: Table
    by_owner: Table
    profile: StackProfile
    totals: WaitTotals


def contention(trace: Trace) -> WaitReport:
    """Every time that a thread of a recording wanted a lock which another had."""
    (made,) = fold(trace, ContentionFold())
    return made


def waits(trace: Trace) -> WaitReport:
    """Every time that a thread of a recording waited in the runtime."""
    (made,) = fold(trace, WaitsFold())
    return made


class ContentionFold:
    """What :func:`contention` asks, window by window."""

    needs_activities = False

    def __init__(self) -> None:
        self._events = LastingEvents(
            KeptEvents(having(CONTENDED), ("LockID", OBJECT, "LockOwnerThreadID")),
            KeptEvents(having(GOT), ("DurationNs",)),
        )

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends of contentions."""
        return self._events.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._events.feed(window)

    def result(self) -> WaitReport:
        """The answer."""
        made = self._events.result("Contention", _told_ms)
        return _report(made, made.starts["LockID"], made.starts["LockOwnerThreadID"], None, NO_CONTENTION)


class WaitsFold:
    """What :func:`waits` asks, window by window."""

    needs_activities = False

    def __init__(self) -> None:
        self._events = LastingEvents(KeptEvents(having(WAITS), ("WaitSource", OBJECT)), KeptEvents(having(WAITED)))
        self._contended, self._got = KeptEvents(having(CONTENDED)), KeptEvents(having(GOT))

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends of waits, and of contentions."""
        return self._events.wants(schema) or self._contended.wants(schema) or self._got.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._events.feed(window)
        self._contended.feed(window)
        self._got.feed(window)

    def result(self) -> WaitReport:
        """The answer."""
        made = self._events.result("Waits")
        source = np.where(made.starts["WaitSource"] == 1, 1, 0)
        source[_is_within(made.starts, self._contended.all(), self._got.all())] = 2
        return _report(made, None, np.zeros(len(source), np.int64), source, NO_WAITS)


def _told_ms(stops: Kept, rows: Array) -> Array:
    told = stops["DurationNs"][rows].astype(np.float64)
    return np.where((told >= 0) & (told < _MOST_NS), told / _NS, np.nan)


def _is_within(events: Kept, starts: Kept, stops: Kept) -> Array:
    """Which events of a thread came between a start of it and the next stop."""
    made = np.zeros(len(events), np.bool_)
    for first in starts.threads().tolist():
        pid, tid = starts.pid[first], starts.tid[first]
        rows = np.flatnonzero((events.pid == pid) & (events.tid == tid))
        begun, over = (kept.ms[(kept.pid == pid) & (kept.tid == tid)] for kept in (starts, stops))
        at = events.ms[rows]
        since = np.searchsorted(begun, at, "right")
        made[rows] = (since > 0) & ~(
            np.append(-np.inf, begun)[since] < np.append(-np.inf, over)[np.searchsorted(over, at, "right")]
        )
    return made


def _report(made: Lasting, lock: Array | None, owner: Array, source: Array | None, nothing: str) -> WaitReport:
    """Of contentions, ``lock`` and ``owner``; of waits, ``source``."""
    starts, known = made.starts, made.known
    ended = made.duration_ms[known]
    lock = np.maximum(starts[OBJECT] if lock is None else lock, 0)
    owner = np.maximum(owner, 0)
    notes = [] if len(starts) else [nothing]
    if len(starts) and source is None and not lock.any():
        notes.append(NO_OWNERS)
    if owner.any() and owner.max() < starts.tid.min():
        notes.append(MANAGED_IDS)
    notes += made.profile.notes if len(starts) else ()
    columns: dict[str, Column] = {
        "start_ms": Scalar(starts.ms, None, Kind.F8),
        "duration_ms": number(made.duration_ms),
        "pid": whole(starts.pid),
        "tid": whole(starts.tid),
        "thread": Text.from_pylist(made.thread_names(starts.tid)),
        "method": made.method,
    }
    if source is None:
        columns |= {
            "lock": _address(lock),
            "owner_tid": whole(owner, owner > 0),
            "owner": Text.from_pylist(made.thread_names(owner)),
        }
    else:
        columns["source"] = Coded.naming(Scalar(source, None, Kind.I8), lambda number: SOURCES[number])
    columns["object"] = _address(np.maximum(starts[OBJECT], 0))

    def grouped(title: str, names: Sequence[str], keys: Sequence[Array], rows: Array | None = None) -> Table:
        found = groups([starts.pid, *keys], made.duration_ms, rows)
        shown = {name: columns[name].take(found.first) for name in ("pid", *names)}
        figures = {
            "count": whole(found.count),
            "total_ms": Scalar(found.total, None, Kind.F8),
            "max_ms": number(found.most),
        }
        return table(title, {**shown, **figures})

    def table(title: str, content: dict[str, Column]) -> Table:
        return answer_table(title, content, notes, made.losses)

    is_lock = source is None
    own = ("lock", "object") if is_lock else ("source", "object")
    return WaitReport(
        waits=table("waits", columns),
        by_method=grouped("waits by method", ("method",), [made.method.which]),
        by_lock=grouped("waits by lock", own, [lock] if source is None else [source, lock], lock > 0),
        by_owner=grouped("who waited for whom", ("tid", "thread", "owner_tid", "owner"), [starts.tid, owner], owner > 0)
        if is_lock
        else table("who waited for whom", {}),
        profile=made.profile,
        totals=WaitTotals(
            count=len(starts),
            total_ms=float(ended.sum()),
            max_ms=float(ended.max(initial=0.0)),
            unfinished=int((~known).sum()),
            threads=len(starts.threads()),
            waits_ms=quantiles_of(ended),
        ),
        notes=tuple(notes),
    )


def _address(values: Array) -> Column:
    return Coded.naming(Scalar(values, mask(values > 0), Kind.I8), lambda one: f"0x{one:X}")
