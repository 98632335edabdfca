"""The rows of a report on requests, and what is alike together, made of spans some of them at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.answers import answer_sliced, answer_table, mask, number, texts, whole
from dotnetdiag.analysis.grouped_spread import GroupedSpread
from dotnetdiag.analysis.kind_rows import Values, columns_of
from dotnetdiag.analysis.lasting import SLACK_MS
from dotnetdiag.analysis.request_costs import COSTS, Pauses, RequestCosts
from dotnetdiag.analysis.request_events import NO_REASON, STATUS
from dotnetdiag.analysis.request_kinds import IS_SERVED, IS_SHOWN, KINDS, TELLS_ENDS, routes
from dotnetdiag.analysis.request_spans import DEEPEST, FAILED, REFUSED, UNKNOWN_MS, RequestSpans
from dotnetdiag.analysis.request_tails import HAS_TAIL, TAIL_SHARE, RequestTails, least_of_tails
from dotnetdiag.analysis.running_groups import KeyedGroups, RunningGroups
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.distinct import distinct, is_among, ranked
from dotnetdiag.trace.lost_between import LostBetween, LostBy
from dotnetdiag.trace.scratch import MappedArrays
from dotnetdiag.trace.spilled import SLICE_ROWS, SpilledRows

Array: TypeAlias = "np.ndarray[Any, Any]"

_MOST_QUEUE_MS = 1e10
"""Four months: what says more, of a request whose end is not known, is damaged."""
_SUMMED = ("cpu_ms", "lock_ms", "allocated_bytes", "exceptions")
"""What a span has of its own, and of what is within it."""
_ROW = np.dtype([
    *((name, "f8") for name in ("start_ms", "duration_ms", "queue_ms", *COSTS)),
    *((name, "i8") for name in ("pid", "tid", "status")),
    *((name, "i4") for name in ("label", "reason", "thrown", "parent", "group")),
    ("kind", "i1"),
    ("depth", "i1"),
    ("is_unknown", "i1"),
])  # fmt: skip
_COLUMNS = (
    *("start_ms", "duration_ms", "pid", "tid", "kind", "name", "route", "status", "failure", "queue_ms"),
    *COSTS,
    *("exception", "parent", "depth"),
)
_TOLD = "told of {}"
"""Of how many requests a cost is told."""
QUEUED_MS = 1.0
"""Who waited so long for a connection counts among those that did."""
_COUNTED = ("failed", "still", "served", "told", "with_queue", "queued")
USUAL = 0.5
"""What is thrown in a share of those that do not fail, so many times that of those that do, is not why they fail."""
_NEVER = -2
"""No reason has that number."""
_FIRST_OF_KIND = np.array([[one.name for one in KINDS].index(kind.name) for kind in KINDS], np.int8)
"""Kinds of one name count as one."""


class RequestRows:
    """The spans that are shown: all but those that only hold others together."""

    def __init__(
        self,
        spans: RequestSpans,
        costs: RequestCosts | None,
        lost_by: LostBy = lambda _: 0,
        lost: LostBetween | None = None,
    ) -> None:
        """``lost_by``: how many events a process has lost; of one that has some, what a request without an end spent until it ended is not known.
        ``lost``: when that was.
        """
        self.has_activities = spans.has_activities
        told: Mapping[str, Array] = {} if costs is None else costs.told(spans)
        self._told = {name: told.get(name, np.zeros(0, np.int64)) for name in COSTS}
        """Of which processes a cost is told, ascending."""
        pids = distinct(np.concatenate([*self._told.values()])).tolist()
        self._losing = np.array([pid for pid in pids if lost_by(pid) != 0], np.int64)
        self._kinds = Text.from_pylist([kind.name for kind in KINDS])
        self._labels, self._reasons = Text.from_pylist([*spans.labels]), [*spans.reasons]
        self._thrown = [*(costs.thrown if costs else ())]
        self._thrown_types = np.array(costs.thrown_types if costs else (), np.int64)
        self._nameless = self._reasons.index(NO_REASON) if NO_REASON in self._reasons else _NEVER
        self._rows = SpilledRows(_ROW)
        self._ways, self._way = routes(spans.labels, np.arange(len(spans.labels)))
        self._counts = np.zeros(len(KINDS), np.int64)
        self._failed = self._unfinished = self.unknown = 0
        self._has_status = False
        self._groups, self._sums = (
            RunningGroups(),
            RunningSums((*_COUNTED, "queue_ms", *COSTS, *map(_TOLD.format, COSTS))),
        )
        self._open_since, self._warm, self._open_pid = np.zeros(0), np.zeros(0), np.zeros(0, np.int64)
        """Of each group when the first began of those that have no end; infinite where all have one. And when the first ended
        that has one."""
        self._durations = GroupedSpread()
        self._failures, self._killers, self._survived = KeyedGroups(2), KeyedGroups(2), KeyedGroups(2)
        """Of a group why those failed that did, what was thrown last in them, and what in those that did not fail."""
        self._by_status: dict[int, int] = {}
        """Of a status the number of the reason that it is."""
        for some in _shown(spans, costs.pauses(lost) if costs else None, lost):
            self._add(some)
        kind, _ = np.divmod(self._groups.keys(), 1 << 32)
        self._median, self._p95 = self._durations.quantiles(self._groups.known, (0.5, TAIL_SHARE))
        self._tails = RequestTails(self._rows, least_of_tails(kind, self._median, self._p95), self._warm)

    def __len__(self) -> int:
        return len(self._rows)

    def _add(self, some: Array) -> None:
        numbers = np.arange(len(self._rows), len(self._rows) + len(some))
        kind = _FIRST_OF_KIND[some["kind"]]
        is_refused = IS_SERVED[some["kind"]] & (some["status"] >= REFUSED) & (some["status"] < FAILED)
        some["reason"][is_refused] = -1
        has_failed = (some["reason"] >= 0) | (some["status"] >= FAILED)
        reason = self._with_statuses(some)
        some["reason"] = reason
        is_served = IS_SERVED[some["kind"]] & ~np.isnan(some["duration_ms"])
        has_status = some["status"] > 0
        self._has_status |= bool((is_served & has_status).any())
        self._counts += np.bincount(kind, minlength=len(KINDS))
        self._failed += int(has_failed.sum())
        is_unknown = some["is_unknown"] > 0
        is_vague = are_vague(some.__getitem__, self._losing)
        still = np.isnan(some["duration_ms"]) & ~is_unknown & TELLS_ENDS[some["kind"]]
        self._unfinished += int(still.sum())
        self.unknown += int(is_unknown.sum())
        group = self._groups.add(kind.astype(np.int64) << 32 | self._way[some["label"]], numbers, some["duration_ms"])
        some["group"] = group
        self._durations.add(group, some["duration_ms"])
        fresh = np.full(len(self._groups) - len(self._open_since), np.inf)
        self._open_since, self._warm = np.append(self._open_since, fresh), np.append(self._warm, fresh)
        self._open_pid = np.append(self._open_pid, np.zeros(len(fresh), np.int64))
        first = np.flatnonzero(~np.isnan(some["duration_ms"]) & np.isinf(self._warm[group]))[::-1]
        self._warm[group[first]] = (some["start_ms"] + some["duration_ms"])[first]  # of several the first stays
        rows = np.flatnonzero(still & (some["start_ms"] < self._open_since[group]))
        rows = rows[np.argsort(-some["start_ms"][rows], kind="stable")]  # of several the last stays: the earliest
        self._open_since[group[rows]], self._open_pid[group[rows]] = some["start_ms"][rows], some["pid"][rows]
        queue = some["queue_ms"]
        most = np.where(np.isnan(some["duration_ms"]), _MOST_QUEUE_MS, some["duration_ms"] + SLACK_MS)
        queue[~(queue <= most)] = np.nan  # no part is longer than the whole
        queued = np.where(np.isnan(some["duration_ms"]), np.nan, queue)  # what has no end counts in no time
        self._sums.add(
            group,
            {
                "failed": has_failed,
                "still": still,
                "served": is_served,
                "told": is_served & (has_failed | has_status),
                "with_queue": ~np.isnan(queued),
                "queued": queued > QUEUED_MS,
                "queue_ms": np.nan_to_num(queued),
            }
            | {name: np.where(is_vague, 0.0, np.nan_to_num(some[name])) for name in COSTS}
            | {
                _TOLD.format(name): is_among(some["pid"], pids) & ~is_vague & ~np.isnan(some[name])
                for name, pids in self._told.items()
            },
        )
        rows = np.flatnonzero(has_failed)
        self._failures.add([group[rows], reason[rows]], numbers[rows])
        rows = rows[(some["thrown"][rows] >= 0) & ~is_vague[rows]]
        self._killers.add([group[rows], some["thrown"][rows]], numbers[rows])
        rows = np.flatnonzero(~has_failed & (some["thrown"] >= 0) & ~np.isnan(some["duration_ms"]))
        self._survived.add([group[rows], self._thrown_types[some["thrown"][rows]]], numbers[rows])
        self._rows.append(some)

    def _with_statuses(self, some: Array) -> Array:
        """The reason of each row: where none is told, or none by name, the status of those that failed by it."""
        reason: Array = some["reason"].copy()
        rows = np.flatnonzero(((reason < 0) | (reason == self._nameless)) & (some["status"] >= FAILED))
        codes, which = ranked(some["status"][rows])
        for code in codes.tolist():
            if code not in self._by_status:
                self._by_status[code] = len(self._reasons)
                self._reasons.append(f"{STATUS}{code}")
        reason[rows] = np.array([self._by_status[code] for code in codes.tolist()], np.int32)[which]
        return reason

    @property
    def lacks_statuses(self) -> bool:
        """Whether requests came in and have ended, and no status tells how."""
        return not self._has_status and bool(self._sums["served"].any())

    def totals(self) -> tuple[int, int, dict[str, int]]:
        """How many failed, have no end, and how many there are of each kind."""
        return self._failed, self._unfinished, by_kind(self._counts)

    def _commonest_thrown(self, order: Array) -> Coded:
        """Of each group the type of what was thrown in most that failed, with its message where most of that type had the same; none that is thrown
        about as often in those that do not fail.
        """
        (group, name), found, _ = self._killers.told()
        type_, groups = self._thrown_types[name], len(order)
        codes, which = ranked(group.astype(np.int64) << 32 | type_)
        keys = np.stack(np.divmod(codes, 1 << 32), axis=1)
        count, first = np.zeros(len(keys), np.int64), np.full(len(keys), np.iinfo(np.int64).max)
        np.add.at(count, which, found.count)
        np.minimum.at(first, which, found.first)
        most = _most_frequent(keys[:, 0], keys[:, 1], count, first, groups)
        often = _most_frequent(keys[:, 0], count, count, first, groups) / np.maximum(self._sums["failed"], 1)
        (survivor, of_type), survived, _ = self._survived.told()
        usual, well = np.zeros(groups), np.maximum(self._groups.count - self._sums["failed"], 1)
        is_same = of_type == most[survivor]
        usual[survivor[is_same]] = (survived.count / well[survivor])[is_same]
        most = np.where(usual >= USUAL * often, -1, most)
        own = type_ == most[group]
        text = _most_frequent(group[own], name[own], found.count[own], found.first[own], groups)
        has_most = np.zeros(groups, np.bool_)
        has_most[group[own & (2 * found.count > count[which])]] = True
        return texts(self._thrown, np.where(has_most, text, most)[order])

    def table(self, notes: Sequence[str], losses: Losses) -> Table:
        """All of them."""

        ways = Text.from_pylist([*self._ways]), self._way
        reasons, thrown = (Text.from_pylist([*names, ""]) for names in (self._reasons, self._thrown))
        made = _Columns(self._rows, self._kinds, self._labels, ways, reasons, thrown, self._told, self._losing)
        return answer_sliced("requests", _COLUMNS, len(self), made, notes, losses)

    def by_route(self, notes: Sequence[str], losses: Losses) -> Table:
        """What is alike together, what took most of the time first."""
        found, sums = self._groups, self._sums
        order = np.lexsort((found.first, -found.count, -found.total))
        kind, way = np.divmod(found.keys()[order], 1 << 32)
        keys, tails = found.keys(), self._tails
        largest = tails.largest(
            {name: len(pids) > 0 for name, pids in self._told.items()},
            lambda one: f"{KINDS[int(keys[one]) >> 32].name} {self._ways[int(keys[one]) & 0xFFFFFFFF]}",
        )
        by, by_ms = np.full(len(found), -1), np.full(len(found), np.nan)
        by[[*largest]], by_ms[[*largest]] = np.arange(len(largest)), [ms for _, ms in largest.values()]
        told_failed = (sums["served"] == 0) | (sums["told"] > 0)
        columns: dict[str, Column] = {
            "kind": Coded(self._kinds, kind),
            "route": Coded(Text.from_pylist([*self._ways]), way),
            "count": whole(found.count[order]),
            "failed": whole(sums["failed"][order], told_failed[order]),
            "unfinished": whole(sums["still"][order]),
            "open_since_ms": number(self._open_since[order]),
            "open_pid": whole(self._open_pid[order], np.isfinite(self._open_since[order])),
            "total_ms": number(found.total[order]),
            "median_ms": number(self._median[order]),
            "p95_ms": number(self._p95[order]),
            "max_ms": number(found.most[order]),
            "failure": _commonest(self._failures, self._reasons, order),
            "exception": self._commonest_thrown(order),
            "queue_ms": number(sums["queue_ms"][order], sums["with_queue"][order] > 0),
            "queued": whole(sums["queued"][order], sums["with_queue"][order] > 0),
            **{name: _cost(sums[name][order], name, sums[_TOLD.format(name)][order] > 0) for name in COSTS},
            "slow": whole(tails.count[order], HAS_TAIL[kind]),
            "slow_ms": number(tails.total[order], HAS_TAIL[kind]),
            "slow_by": texts([word for word, _ in largest.values()], by[order]),
            "slow_by_ms": number(by_ms[order]),
        }
        return answer_table("requests by route", columns, notes, losses)


def _most_frequent(group: Array, name: Array, count: Array, first: Array, groups: int) -> Array:
    """Of each group its most frequent name, the first of equal ones; -1 without any."""
    made = np.full(groups, -1)
    by = np.lexsort((-first, count))
    made[group[by]] = name[by]  # of several the last stays
    return made


def _commonest(told: KeyedGroups, names: Sequence[str], order: Array) -> Coded:
    """Of each group the most frequent of what is told of its rows, by the number of its name."""
    (group, name), found, _ = told.told()
    return texts(names, _most_frequent(group, name, found.count, found.first, len(order))[order])


class _Columns:
    """Makes columns of the table, here or where it was sent to."""

    def __init__(
        self,
        rows: SpilledRows,
        kinds: Text,
        labels: Text,
        ways: tuple[Text, Array],
        reasons: Text,
        thrown: Text,
        told: Mapping[str, Array],
        losing: Array,
    ) -> None:
        """``ways``: routes, and of each label the number of its route; ``losing``: processes that have lost events."""
        self._losing = losing
        self._rows, self._kinds, self._labels, self._reasons, self._thrown, self._told = (
            rows,
            kinds,
            labels,
            reasons,
            thrown,
            told,
        )
        self._ways, self._way = ways

    def __call__(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        return columns_of(self._rows, self._column, names, first, last)

    def _column(self, name: str, values: Values) -> Column:
        if name == "kind":
            return Coded(self._kinds, values("kind"))
        if name == "name":
            return Coded(self._labels, values("label"))
        if name == "route":
            return Coded(self._ways, self._way[values("label")])
        if name == "failure":
            reason = values("reason")
            return Coded(self._reasons, reason, mask(reason >= 0))
        if name == "exception":
            thrown = values("thrown")
            is_told = (thrown >= 0) & ~are_vague(values, self._losing)
            return Coded(self._thrown, thrown, mask(is_told))
        own = values(name)
        if name in COSTS:
            is_told = is_among(values("pid"), self._told[name])
            return _cost(own, name, is_told & ~are_vague(values, self._losing) & ~np.isnan(own))
        if name.endswith("_ms"):
            return number(own, ~np.isnan(own))
        return whole(own, {"status": own > 0, "parent": own >= 0}.get(name))


def are_vague(values: Values, losing: Array) -> Array:
    """Of which rows it is not known when they ended, or whether: what they spent until then is not known either."""
    is_lost: Array = np.isnan(values("duration_ms")) & is_among(values("pid"), losing)
    return is_lost | (values("is_unknown") > 0)


def _cost(values: Array, name: str, known: Array) -> Scalar:
    """What was spent; nothing where that is not told."""
    return number(values, known) if name.endswith("_ms") else whole(values, known)


def by_kind(counts: Array) -> dict[str, int]:
    """Of each kind that has some how many."""
    made = dict[str, int]()
    for one in np.flatnonzero(counts).tolist():
        made[KINDS[one].name] = made.get(KINDS[one].name, 0) + int(counts[one])
    return made


class RunningSums:
    """Of groups the sums of several values, some rows after the others."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sums = {name: np.zeros(0) for name in names}

    def __getitem__(self, name: str) -> Array:
        return self._sums[name]

    def add(self, groups: Array, values: Mapping[str, Array]) -> None:
        """Rows by the numbers of their groups, and what each has."""
        count = int(groups.max(initial=-1)) + 1
        for name, before in self._sums.items():
            if count > len(before):
                self._sums[name] = before = np.append(before, np.zeros(count - len(before)))
            if values[name].any():
                before += np.bincount(groups, values[name], len(before))


def _shown(spans: RequestSpans, pauses: Pauses | None, lost: LostBetween | None) -> Iterator[Array]:
    """Rows of what is shown, in their order, each with what it spent and all that is within it. Where a process gives no ids of activities, and has
    ``lost`` events meanwhile, an end may be that of another.
    """
    of_all = MappedArrays(len(spans), each=5)
    place, depths = spans.shown_places(of_all), of_all.zeros(np.int8)
    sums = _with_all_below(spans)
    for first, some in spans.rows.slices():
        last = first + len(some)
        own = np.flatnonzero(IS_SHOWN[some["kind"]])
        rows = np.zeros(len(own), _ROW)
        for name in ("queue_ms", "pid", "tid", "status", "label", "reason", "thrown", "kind"):
            rows[name] = some[name][own]
        logged = some["logged"][own]
        rows["thrown"] = np.where(
            logged >= 0, logged, rows["thrown"]
        )  # what somebody took for an error, before what was caught
        begin, end = some["ms"][own], some["stop_ms"][own]
        is_unknown = end == UNKNOWN_MS
        if lost:
            is_unknown |= _may_be_others(rows["pid"], begin, end, spans.with_activities, lost)
        rows["start_ms"], rows["is_unknown"] = begin, is_unknown
        rows["duration_ms"] = np.where(is_unknown, np.nan, np.maximum(end - begin, 0.0))
        below = sums.read(len(sums) - last, len(sums) - first)[::-1]
        for name in _SUMMED:
            rows[name] = below[name][own]
        if pauses is not None:
            rows["gc_ms"] = pauses.within(rows["pid"], begin, np.where(is_unknown, begin, end))
        parent = spans.nearest(some["parent"][own], IS_SHOWN)
        rows["parent"] = np.where(parent >= 0, place[parent], -1)
        numbers = place[first + own]
        _fill_depths(depths, rows["parent"], numbers)
        rows["depth"] = depths[numbers]
        spans.release()
        of_all.release()
        yield rows


def _may_be_others(pid: Array, begin: Array, end: Array, with_activities: Array, lost: LostBetween) -> Array:
    """Of which spans the end may be that of another that began meanwhile."""
    made = np.zeros(len(pid), np.bool_)
    for process in distinct(pid[~is_among(pid, with_activities)]).tolist():
        own = np.flatnonzero((pid == process) & ~np.isnan(end))
        made[own] = lost.of_process(process).overlap(begin[own], end[own])
    return made


def _fill_depths(depths: Array, parent: Array, numbers: Array) -> None:
    """How deep rows are that follow each other, each behind the one that it is within."""
    left = np.arange(len(numbers))
    for _ in range(DEEPEST):
        if not len(left):
            return
        above = np.where(parent[left] >= 0, depths[parent[left]], np.int8(0))
        done = (parent[left] < 0) | (above > 0)
        depths[numbers[left[done]]] = above[done] + 1
        left = left[~done]


def _with_all_below(spans: RequestSpans) -> SpilledRows:
    """What each span has, and all that is within it: the last row first, for a row stands behind what it is within."""
    made = SpilledRows([(name, "f8") for name in _SUMMED])
    parent, depth = spans.parent, spans.depth
    rows, waiting = np.zeros(0, np.int64), np.zeros((0, len(_SUMMED)))
    for first in range((len(spans) - 1) // SLICE_ROWS * SLICE_ROWS, -1, -SLICE_ROWS):
        some = spans.rows.read(first, min(first + SLICE_ROWS, len(spans)))
        last = first + len(some)
        sums = np.stack([some[name] for name in _SUMMED], axis=1)
        here = rows >= first
        np.add.at(sums, rows[here] - first, waiting[here])
        rows, waiting = rows[~here], waiting[~here]
        level = depth[first:last]
        for one in range(int(level.max(initial=0)), 1, -1):
            below = np.flatnonzero(level == one)
            above = parent[first + below]
            inside = above >= first
            np.add.at(sums, above[inside] - first, sums[below[inside]])
            rows, waiting = np.append(rows, above[~inside]), np.concatenate([waiting, sums[below[~inside]]])
        rows, which = np.unique(rows, return_inverse=True)
        added = np.zeros((len(rows), len(_SUMMED)))
        np.add.at(added, which.reshape(-1), waiting)
        waiting = added
        given = np.zeros(len(some), made.kind)
        for at, name in enumerate(_SUMMED):
            given[name] = sums[::-1, at]
        made.append(given)
        spans.release()
    return made
