"""What began and ended, of all kinds together, and what is within what, some events after the others.

Rows of spans are spilled. Of each some 15 bytes stay in memory: the row that it is within, its kind, and the place of its activity. All spans at
once were 160 bytes each, and a report on 120,000 requests, which are 840,000 spans, took 210 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.fold import FOLDED_ROWS
from dotnetdiag.analysis.followed import FOLLOWED_EVENTS
from dotnetdiag.analysis.kept_events import NONE, Kept, Texts, whole_numbers
from dotnetdiag.analysis.open_spans import OPEN, OpenSpans
from dotnetdiag.analysis.pairs import LatestRows, last_of_threads, latest_rows, pairs, under_way
from dotnetdiag.analysis.request_events import SpanEvents
from dotnetdiag.analysis.request_kinds import IS_SHOWN, KINDS
from dotnetdiag.analysis.running_groups import Numbering
from dotnetdiag.analysis.shared_ids import SharedIds, keys_of
from dotnetdiag.analysis.trees import levels
from dotnetdiag.analysis.unnamed_ends import Ends, UnnamedEnds, nothing_of
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.distinct import distinct, is_among, ranked
from dotnetdiag.trace.scratch import GrownArray, MappedArrays
from dotnetdiag.trace.spilled import SpilledRows
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

DEEPEST = 100
"""Spans within each other: what is deeper is within nothing, and its depth begins anew."""
TOO_DEEP = f"of more than {DEEPEST} requests and spans within each other the rest is told as within nothing"
_SPAN = np.dtype([
    *((name, "f8") for name in ("ms", "stop_ms", "queue_ms", "cpu_ms", "lock_ms", "allocated_bytes")),
    ("exceptions", "f4"),
    *((name, "i8") for name in ("pid", "tid", "status")),
    *((name, "i4") for name in ("label", "reason", "thrown", "logged", "parent")),
    ("kind", "i1"),
])  # fmt: skip
UNKNOWN_MS = -np.inf
"""When something ended of which that is not known, though it may have been told."""
REFUSED, FAILED = 400, 500
"""Of a status: from here on it is the fault of who asked, though an exception may say so; and of who answers."""
_ANY = 1 << 31
"""Of names as many as there are: those of which they are made are limited."""
_NO_SPANS = np.zeros(0, OPEN)
_NO_ROWS = np.zeros(0, np.int64)
SMALL_WINDOW = FOLDED_ROWS // 4
"""Rows of windows where spans alone are asked for: they are followed together anyway, and windows take 28 MB less."""
_FOLLOWED = 2 * FOLLOWED_EVENTS
_SHARE_OF_OPEN = 8
_MOST_WAITING = 2 * _FOLLOWED
"""Of events, though all that are open are looked through each time: they wait in memory, and each takes some 200 bytes when it is followed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Followed:
    """What some events told: spans that began, whose rows are those from ``first`` on, and spans that ended, by their ``rows``."""

    first: int
    begun: Array
    rows: Array
    ended: Array


class RequestSpans:
    """Takes windows; what they tell is followed now and then, by :meth:`follow`."""

    def __init__(self) -> None:
        self._events = [SpanEvents(kind) for kind in KINDS]
        self._labels, self._reasons = Texts(_ANY), Texts(_ANY)
        self.rows = SpilledRows(_SPAN)
        """Of all spans, in the order of their begins; NaN, 0 and -1 for what is not told."""
        self._parent, self._kind, self._depth = GrownArray(np.int32), GrownArray(np.int8), GrownArray(np.int8)
        self._activities = _ActivityRows()
        self._shared = [SharedIds() for _ in KINDS]
        self.with_activities: Array = np.zeros(0, np.int64)
        """Processes that give ids of activities, ascending."""
        self._latest, self._first = LatestRows(np.zeros(0), np.zeros(0), np.zeros(0)), 0
        self._to_put: tuple[Array, Array] | None = None
        self._open = [OpenSpans(waits=kind.waits) for kind in KINDS]
        self._last = [_NO_SPANS] * len(KINDS)
        """What has no activity, the last of each thread before, and those that began since."""
        self._waiting = 0
        self.has_activities = self.is_cut = False
        """Whether some have an activity, and whether some are too deep within others."""
        self._unnamed = [None if kind.waits else UnnamedEnds() for kind in KINDS]
        self.unknown_failures = np.zeros(len(KINDS), np.int64)
        """So many of each kind failed of those whose end is not known."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def texts(self) -> Iterator[Texts]:
        """What spans are named by."""
        return (events.texts for events in self._events)

    @property
    def unknown_open(self) -> int:
        """So many of those whose end is not known are still under way."""
        return sum(some.unknown for some in self._open)

    @property
    def has_shared(self) -> bool:
        """Whether several of a kind had one activity at once."""
        return any(map(len, self._shared))

    @property
    def labels(self) -> Sequence[str]:
        """What the field ``label`` says."""
        return self._labels.names

    @property
    def reasons(self) -> Sequence[str]:
        """What the field ``reason`` says; -1 where nothing failed."""
        return self._reasons.names

    @property
    def parent(self) -> Array:
        """Of each row the one that it is within, which is one before it; -1 for none."""
        return self._parent.values

    @property
    def kind(self) -> Array:
        """Of each row its place in :data:`~.request_kinds.KINDS`."""
        return self._kind.values

    @property
    def depth(self) -> Array:
        """Of each row how deep it is, 1 where it is within nothing."""
        return self._depth.values

    def wants(self, schema: EventSchema) -> bool:
        """Begins, ends and failures."""
        return any(one.wants(schema) for one in self._events)

    def begins(self, schema: EventSchema) -> bool:
        """Whether a type is a begin."""
        return any(one.kind.begins(schema) for one in self._events)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        for one in self._events:
            self._waiting += one.feed(window)

    def is_due(self, more: int = 0) -> bool:
        """Whether so much waits, with ``more`` elsewhere, that it should be followed, which costs something each time."""
        return self._waiting + more >= max(_FOLLOWED, min(sum(map(len, self._open)) // _SHARE_OF_OPEN, _MOST_WAITING))

    @property
    def latest_ms(self) -> float:
        """The time of the last event that came. Those of that time wait, for more may come."""
        return max(keeper.latest_ms for one in self._events for keeper in one.keepers)

    def copy(self) -> RequestSpans:
        """One that may go on by itself until this goes on: what both have in memory stays where it is."""
        made = copy(self)
        made._events = [one.copy() for one in self._events]
        made.rows, made._activities = self.rows.copy(), self._activities.copy()
        made._shared = [one.copy() for one in self._shared]
        made._parent, made._kind, made._depth = (one.copy() for one in (self._parent, self._kind, self._depth))
        made._open, made._last = [one.copy() for one in self._open], [*self._last]
        made._unnamed = [one and one.copy() for one in self._unnamed]
        made.unknown_failures = self.unknown_failures.copy()
        return made

    def follow(self, until: float) -> Followed:
        """Find out what the events before that time tell."""
        self._waiting = 0
        if self._to_put is not None:
            self._activities.put(*self._to_put, self._first)
            self._to_put = None
        self._first = len(self.rows)
        begins = [one.starts.take(until) for one in self._events]
        all_stops = [_open(one.stops.take(until), one.kind.status) for one in self._events]
        self._learn(begins, all_stops)
        begun = self._begin(begins)
        ended, rows = [_NO_SPANS], [np.zeros(0, np.int32)]
        for number, one in enumerate(self._events):
            stops, failures = all_stops[number], one.failures.take(until)
            failures = failures.of(np.argsort(failures.ms, kind="stable"))
            told, asked = self._unnamed[number], _open(failures)
            lack = partial(self._lack, number) if len(self._shared[number]) else None
            starts = self._open[number].take((stops, asked), lack)
            unnamed = nothing_of(starts, stops)
            if told is not None:
                unnamed = told.of(starts, stops, asked, [self._lack(number, some) for some in (starts, stops, asked)])
            if len(failures):
                self._fail(number, one, starts, stops, failures, unnamed)
            if len(unnamed.unknown):
                self.write("stop_ms", starts["row"][unnamed.unknown], np.full(len(unnamed.unknown), UNKNOWN_MS))
                self.unknown_failures[number] += int((stops["status"][unnamed.loose] >= FAILED).sum())
                starts = starts.copy()
                starts["is_unknown"][unnamed.unknown] = 1
            first, last = _ends(starts, stops, unnamed)
            if len(first) or len(unnamed.unknown):
                rows.append(starts["row"][first])
                ended.append(stops[last])
                self.write("stop_ms", rows[-1], ended[-1]["ms"])
                if one.kind.status:
                    self.write("status", rows[-1], ended[-1]["status"])
                starts = np.delete(
                    starts, np.append(first, unnamed.unknown[~is_among(unnamed.unknown, np.sort(unnamed.kept))])
                )
            self._open[number].keep(starts)
        self.release()
        return Followed(first=self._first, begun=begun, rows=np.concatenate(rows), ended=np.concatenate(ended))

    def release(self) -> None:
        """Let go of what was looked at of all rows."""
        self._activities.release()
        for grown in (self._parent, self._kind, self._depth):
            grown.release()

    def _learn(self, begins: Sequence[Kept], ends: Sequence[Array]) -> None:
        """Which activities several of a kind have at once."""
        for number, told in enumerate(self._unnamed):
            if told is None or not len(begins[number]):
                continue
            now, stops = begins[number], ends[number]
            before = self._open[number].having(now.pid, now["activity"])
            keys = self._keys(np.append(before["pid"], now.pid), np.append(before["activity"], now["activity"]))
            ms = np.append(before["ms"], now.ms)
            self._shared[number].learn(keys, ms, self._keys(stops["pid"], stops["activity"]), stops["ms"])

    def _keys(self, pid: Array, activity: Array) -> Array:
        return keys_of(self._activities.processes(pid), activity)

    def _lack(self, number: int, events: Array) -> Array:
        """Of which of a kind the activity tells nothing (bool)."""
        if not len(self._shared[number]):
            return np.zeros(len(events), np.bool_)
        return self._shared[number].tell_nothing(self._keys(events["pid"], events["activity"]), events["ms"])

    def _are_nobodys(self, kind: Array, keys: Array, ms: Array) -> Array:
        """Whether these activities at some times are those of no row of these kinds (bool)."""
        made = np.zeros(len(keys), np.bool_)
        for number, shared in enumerate(self._shared):
            if len(shared):
                made |= (kind == number) & shared.are_nobodys(keys, ms)
        return made

    def _begin(self, begins: Sequence[Kept]) -> Array:
        """Rows for what began, in the order of time; of one time, what something is within stands before it."""
        parts: dict[str, list[Array]] = {}
        for number, one in enumerate(self._events):
            starts = begins[number]
            if not len(starts):
                continue
            texts, which = one.labels(starts)
            columns = {"ms": starts.ms, "pid": starts.pid, "tid": starts.tid} | {
                "activity": starts["activity"],
                "related": starts["related"],
                "kind": np.full(len(starts), number, np.int8),
                "label": self._labels.each(texts)[which],
            }
            for name, values in columns.items():
                parts.setdefault(name, []).append(values)
        if not parts:
            self._latest = LatestRows(np.zeros(0), np.zeros(0), np.zeros(0))
            return _NO_SPANS
        some = {name: np.concatenate(values) for name, values in parts.items()}
        by_time = np.argsort(some["ms"], kind="stable")
        some = {name: values[by_time] for name, values in some.items()}
        process = self._activities.processes(some["pid"])
        nobodys = self._are_nobodys(some["kind"], keys_of(process, some["activity"]), some["ms"])
        some["own"] = np.where(nobodys, 0, some["activity"])
        latest = LatestRows(process, some["own"], some["ms"])
        within = latest.of(process, some["related"], some["ms"])
        if (order := _parents_first(some["ms"], within)) is not None:
            place = np.empty(len(order) + 1, np.int64)
            place[order], place[-1] = np.arange(len(order)), -1
            some, process = {name: values[order] for name, values in some.items()}, process[order]
            before, ms = place[within[order]], some["ms"]
            latest = LatestRows(process, some["own"], ms)
            at_once = (before >= 0) & (ms[before] == ms)
            within = np.where(at_once, before, latest.of(process, some["related"], ms))
        related = keys_of(process, some["related"])
        within[self._are_nobodys(np.where(within >= 0, some["kind"][within], -1), related, some["ms"])] = -1
        is_circle = within >= np.arange(len(within))  # as what is within itself
        within[is_circle] = -1
        parent = np.where(within >= 0, within + self._first, -1).astype(np.int32)
        outer = np.flatnonzero((within < 0) & ~is_circle)
        above = self._activities.of(process[outer], some["related"][outer])
        parent[outer] = np.where(self._are_nobodys(self._kind_of(above), related[outer], some["ms"][outer]), -1, above)
        self._latest = latest
        self._to_put = process, some["own"]
        given = some["activity"] > 0
        self.has_activities = self.has_activities or bool(given.any())
        self.with_activities = distinct(np.append(self.with_activities, distinct(some["pid"][given].astype(np.int64))))
        depth = self._depths(parent, within)
        for grown, values in ((self._parent, parent), (self._kind, some["kind"]), (self._depth, depth)):
            grown.append(values)
        rows = np.zeros(len(parent), _SPAN)
        for name in ("ms", "pid", "tid", "kind", "label"):
            rows[name] = some[name]
        rows["parent"], rows["stop_ms"], rows["queue_ms"] = parent, np.nan, np.nan
        rows["reason"] = rows["thrown"] = rows["logged"] = -1
        begun = np.zeros(len(parent), OPEN)
        for name in ("ms", "pid", "tid", "activity"):
            begun[name] = some[name]
        begun["row"] = self._first + np.arange(len(parent))
        self.rows.append(rows)
        for number in distinct(some["kind"]).tolist():
            own = begun[some["kind"] == number]
            self._open[number].add(own)
            self._last[number] = np.append(last_of_threads(self._last[number], 1), own[own["activity"] == 0])
        return begun

    def _depths(self, parent: Array, within: Array) -> Array:
        """How deep rows are that are ``within`` each other. What is too deep is within nothing."""
        top = np.where(within >= 0, within, np.arange(len(within)))
        above = (within >= 0).astype(np.int64)
        while (top[top] != top).any():  # each time twice as far
            above += above[top]
            top = top[top]
        older = np.flatnonzero((parent[top] >= 0) & (parent[top] < self._first))
        above[older] += self.depth[parent[top[older]]]
        cut = (above > 0) & (above % DEEPEST == 0)
        self.is_cut |= bool(cut.any())
        parent[cut] = -1
        return (above % DEEPEST + 1).astype(np.int8)

    def _fail(self, number: int, one: SpanEvents, starts: Array, stops: Array, failures: Kept, unnamed: Ends) -> None:
        """Each is of what is under way, or was last. HttpClient tells that a request failed within the activity of its answer's content, where that
        breaks off: then it is the span around.
        """
        texts, which = one.reasons(failures)
        why, told = self._reasons.each(texts)[which], _open(failures)
        of = under_way((starts["ms"], _keys(starts)), (told["ms"], _keys(told)), (stops["ms"], _keys(stops)))
        known = unnamed.of >= 0
        self.write("reason", unnamed.of[known], why[unnamed.asked[known]])
        self.unknown_failures[number] += int((~known).sum())
        own, others = (np.setdiff1d(np.flatnonzero(some), unnamed.asked) for some in (of >= 0, of < 0))
        others = others[::-1]  # of several of these the first stays
        self.write("reason", starts["row"][of[own]], why[own])
        at = self.of_activity(failures.pid[others], failures["activity"][others], failures.ms[others])
        at = self.nearest(at, np.arange(len(KINDS)) == number)
        nameless = np.flatnonzero((at < 0) & (told["activity"][others] == 0))
        at[nameless] = self._last_of_threads(number, told[others[nameless]])
        self.write("reason", at[at >= 0], why[others[at >= 0]], where=lambda before: before < 0)

    def _last_of_threads(self, number: int, told: Array) -> Array:
        """Of each event the row that its thread began last, of what has no activity; -1 for none."""
        last = self._last[number]
        found = latest_rows((last["pid"], last["tid"]), last["ms"], (told["pid"], told["tid"]), told["ms"])
        return np.append(last["row"], -1)[found]

    def write(
        self,
        name: str,
        rows: Array,
        values: Array,
        *,
        adds: bool = False,
        where: Callable[[Array], Array] | None = None,
    ) -> None:
        """Give a field of some rows these values, the last of several, or with ``adds`` what it has and all of them. ``where`` tells by what
        it has whether it gets them.
        """
        order = np.argsort(rows, kind="stable")
        rows, values = rows[order], values[order]
        for some, places, which in self.rows.changing(rows):
            column = some[name]
            if adds:
                np.add.at(column, places, values[which])
            elif where is None:
                column[places] = values[which]
            else:
                fits = where(column[places])
                column[places[fits]] = values[which[fits]]

    def of_activity(self, pid: Array, activity: Array, ms: Array) -> Array:
        """The rows of activities at times of the events that were followed last, for an id may come again; -1 for none."""
        process = self._activities.processes(pid)
        found = self._latest.of(process, activity, ms)
        made = np.where(found >= 0, found + self._first, -1)
        older = np.flatnonzero(found < 0)
        made[older] = self._activities.of(process[older], activity[older])
        if self.has_shared:
            made[self._are_nobodys(self._kind_of(made), keys_of(process, activity), ms)] = -1
        return made

    def _kind_of(self, rows: Array) -> Array:
        """The kinds of rows, -1 for none."""
        return np.where(rows >= 0, self.kind[rows], -1) if len(self.kind) else np.full(len(rows), -1)

    def shown_places(self, of: MappedArrays) -> Array:
        """Of each row that is shown how many of those stand before it; of others that of the last such row."""
        made, before = of.zeros(np.int32), -1
        for some in of.slices():
            made[some] = np.cumsum(IS_SHOWN[self.kind[some]], dtype=np.int32) + np.int32(before)
            before = int(made[some.stop - 1])
        self.release()
        return made

    def nearest(self, rows: Array, wanted: Array) -> Array:
        """Each of some rows, or the first around it, of kinds that are ``wanted`` (of each kind a bool); -1 for none."""
        made = rows.copy()
        for _ in range(DEEPEST):
            other = np.flatnonzero(made >= 0)
            other = other[~wanted[self.kind[made[other]]]]
            if not len(other):
                break
            made[other] = self.parent[made[other]]
        return made


def _parents_first(ms: Array, within: Array) -> Array | None:
    """The order of rows of one time, of which some are within others: behind these. None where there are none such."""
    has = np.flatnonzero(within >= 0)
    at_once = has[ms[within[has]] == ms[has]]
    if not len(at_once):
        return None
    above = np.full(len(ms), -1)
    above[at_once] = within[at_once]
    return np.lexsort((levels(above, len(ms))[1], ms))


class _ActivityRows:
    """The latest row of each activity, by its number, of which a recording has as many as it has activities. Where processes have one together,
    each has its own row.
    """

    def __init__(self) -> None:
        self._processes = Numbering()
        self._rows, self._process = GrownArray(np.int32, fill=-1), GrownArray(np.int32)
        self._others: dict[tuple[int, int], int] = {}

    def processes(self, pid: Array) -> Array:
        """Numbers for processes."""
        kinds, which = ranked(pid)
        return self._processes.of(kinds.astype(np.int64))[which].astype(np.int32)

    def put(self, process: Array, activity: Array, first: int) -> None:
        """Rows from ``first`` on, with their processes and activities, 0 for none."""
        self._process.append(process)
        if not activity.any():
            return
        self._rows.extend(int(activity.max(initial=0)) + 1)
        latest, own = self._rows.values, np.flatnonzero(activity > 0)
        is_other = self._is_other(latest[activity[own]], process[own])
        np.maximum.at(latest, activity[own[~is_other]], (first + own[~is_other]).astype(np.int32))
        if len(self._processes) > 1:
            is_other = self._is_other(latest[activity[own]], process[own])
            for at in own[is_other].tolist():
                self._others[int(process[at]), int(activity[at])] = first + at

    def release(self) -> None:
        """Let go of what was looked at."""
        self._rows.release()
        self._process.release()

    def _is_other(self, rows: Array, process: Array) -> Array:
        """Whether a row, -1 for none, is of another process."""
        made = rows >= 0
        made[made] = self._process.values[rows[made]] != process[made]
        return made

    def copy(self) -> _ActivityRows:
        """One to which the next rows may be put that this gets, too."""
        made = copy(self)
        made._rows, made._process = self._rows.copy(), self._process.copy()
        return made

    def of(self, process: Array, activity: Array) -> Array:
        """Of each the row; -1 for none."""
        inside = np.flatnonzero((activity > 0) & (activity < len(self._rows)))
        made = np.full(len(activity), -1, np.int32)
        made[inside] = self._rows.values[activity[inside]]
        if len(self._processes) > 1:
            for at in np.flatnonzero(self._is_other(made, process)).tolist():
                made[at] = self._others.get((int(process[at]), int(activity[at])), -1)
        return made


def _open(kept: Kept, status: str = "") -> Array:
    made = np.zeros(len(kept), OPEN)
    made["ms"], made["pid"], made["tid"], made["activity"] = kept.ms, kept.pid, kept.tid, kept["activity"]
    made["status"] = whole_numbers(kept[status]) if status else NONE
    return made


def _ends(starts: Array, stops: Array, unnamed: Ends) -> tuple[Array, Array]:
    """(starts that have ended, the stop of each): by their activities where both have one, by threads where both have none; and what is left by
    threads, where one of the two has none, which the runtime does now and then. But as ``unnamed`` says what is told there.
    """
    if not len(starts) or not len(stops):
        return _NO_ROWS, _NO_ROWS
    made = np.full(len(starts), -1)
    is_open = starts["is_unknown"] == 0
    own, others = ~unnamed.starts, ~unnamed.stops
    some, ends = np.flatnonzero(own & is_open), np.flatnonzero(others)
    found = pairs(starts["ms"][some], _keys(starts[some]), stops["ms"][ends], _keys(stops[ends]))
    made[some[found >= 0]] = ends[found[found >= 0]]
    made[unnamed.first] = unnamed.last
    is_loose = np.ones(len(stops), np.bool_)
    is_loose[made[made >= 0]] = False
    is_loose &= others
    for has_activity in (True, False) if is_loose.any() else ():
        first = np.flatnonzero((made < 0) & ((starts["activity"] > 0) == has_activity) & own & is_open)
        last = np.flatnonzero(is_loose & ((stops["activity"] > 0) != has_activity))
        if len(first) and len(last):
            one, other = starts[first], stops[last]
            found = pairs(one["ms"], (one["pid"], one["tid"]), other["ms"], (other["pid"], other["tid"]))
            made[first[found >= 0]] = last[found[found >= 0]]
    own = np.flatnonzero(made >= 0)
    return own, made[own]


def _keys(events: Array) -> tuple[Array, Array]:
    """What tells which end is of which begin: the activity, or the thread where there is none."""
    return events["pid"], np.where(events["activity"] > 0, events["activity"], -events["tid"])
