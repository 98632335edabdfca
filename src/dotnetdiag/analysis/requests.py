"""Requests: what came in, what went out because of it, and what each spent on processors, in pauses of the collector, on locks, and on
allocations.

EventSources tell when a request begins and ends; with the keyword 0x80 of the TPL (TasksFlowActivityIds) the ids of activities tell which end is of
which begin, and what is within what, whatever threads they ran on. What happens meanwhile has the id of the activity of its thread, too: allocation
ticks, contention, messages. Samples have none: they count for the request that the last event of their thread was of, while it runs. A pause counts
for all that are under way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import answer_table, compact, mask, number, texts, whole
from dotnetdiag.analysis.fold import LossesToTell, fold
from dotnetdiag.analysis.groups import Groups, groups
from dotnetdiag.analysis.kept_events import Kept, KeptEvents
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.request_costs import RequestCosts
from dotnetdiag.analysis.request_kinds import HOSTING, HTTP, KINDS, LOGGING, PROVIDERS, SCOPE, routes
from dotnetdiag.analysis.request_spans import DEEPEST, RequestSpans, SpanEvents
from dotnetdiag.analysis.scratch import Scratch
from dotnetdiag.analysis.trees import levels
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.distinct import distinct, ranked
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

DIAGNOSTICS, FINISHED = "Microsoft.AspNetCore.Hosting.Diagnostics", 2
"""The logger, and its message, that tells with which status a request of the server ended."""
FAILED = 500
"""Of a status: from here on it is the fault of who answers."""
_STATUS = re.compile(r" - (\d{3})\b")
NO_EVENTS = f"no requests: there were none, or the recording lacks their events (record with --providers {PROVIDERS})"
NO_ACTIVITIES = (
    "no activity ids: what is within what is not known, nor what a request spent "
    + "(record with --providers …,System.Threading.Tasks.TplEventSource:0x80:4 too)"
)


@dataclass(frozen=True, kw_only=True)
class RequestTotals:
    """``by_kind``: how many of each. ``unfinished`` have no end in the recording. ``failed``: with a failure, or a status of 500 or more."""

    count: int
    failed: int
    unfinished: int
    by_kind: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class RequestReport(Report):
    """``requests``: a row for each, in the order of their begins, and what is within them; ``by_route``: what is alike together. ``notes``: what the
    recording lacks.
    """

    KIND = "requests"
    MAIN = "requests"

    requests: Table
    by_route: Table
    totals: RequestTotals


def requests(trace: Trace) -> RequestReport:
    """The requests of a recording, and what each spent."""
    (made,) = fold(trace, RequestsFold())
    return made


class RequestsFold:
    """What :func:`requests` asks, window by window. Without ``costs`` what requests spend is not known, and of samples, ticks and contention
    nothing is kept.
    """

    def __init__(self, *, costs: bool = True) -> None:
        self._has_costs = costs
        scratch = Scratch()
        self._spans = [SpanEvents(kind, scratch) for kind in KINDS]
        self._costs = RequestCosts(scratch)
        self._queue = KeptEvents(
            lambda schema: schema.provider == HTTP and schema.name == "RequestLeftQueue",
            ("timeOnQueueMilliseconds",),
            activities=True,
        )
        self._messages = KeptEvents(
            lambda schema: schema.provider == LOGGING and schema.name == "FormattedMessage",
            ("EventId",),
            names=("LoggerName",),
            activities=True,
            scratch=scratch,
        )
        self._can_begin = False
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends, and what costs something meanwhile."""
        return (
            any(one.wants(schema) for one in self._spans)
            or (self._has_costs and self._costs.wants(schema))
            or self._queue.wants(schema)
            or self._messages.wants(schema)
        )

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        if (
            not self._can_begin
        ):  # what costs something counts within requests: a million ticks of a recording without any took 110 MB
            kinds = window.schemas.values()
            self._can_begin = any(one.kind.begins(schema) for one in self._spans for schema in kinds)
        if not self._can_begin:
            return
        for one in self._spans:
            one.feed(window)
        if self._has_costs:
            self._costs.feed(window)
        self._queue.feed(window)
        messages = self._messages.events_of(window)
        if len(messages):
            self._messages.add(self._told(messages))

    def _told(self, messages: EventTable) -> Kept:
        """Messages with the status that each tells, 0 for none; without costs those alone that tell one."""
        kept = self._messages.of(messages)
        made = np.zeros(len(messages), np.int16)
        logger = self._messages.texts.number(DIAGNOSTICS)
        rows = np.flatnonzero((kept["EventId"] == FINISHED) & (kept["LoggerName"] == logger))
        texts = messages["payload.FormattedMessage"].take(rows).to_pylist()
        found = [_STATUS.search(str(text)) for text in texts]
        made[rows] = [int(one[1]) if one else 0 for one in found]
        told = Kept(kept.ms, kept.pid, kept.tid, {"activity": kept["activity"], "status": made})
        return told if self._has_costs else told.of(np.flatnonzero(made > 0))

    def result(self) -> RequestReport:
        """The answer."""
        spans, queue = RequestSpans(self._spans), self._queue.all()
        status = spans.rows["status"]
        status = status.astype(np.promote_types(status.dtype, np.int16))
        hosting = spans.nearest(spans.of_provider(HOSTING))
        for messages in self._messages.parts() if len(self._messages) else ():
            messages = messages.of(np.flatnonzero(messages["status"] > 0))
            of = hosting[spans.of_activity(messages.pid, messages["activity"], messages.ms)]
            status[of[of >= 0]] = messages["status"][of >= 0]
        del hosting
        of = spans.of_activity(queue.pid, queue["activity"], queue.ms)
        waited = queue["timeOnQueueMilliseconds"]
        queued = np.broadcast_to(np.full(1, np.nan), len(spans.rows))
        if len(of):
            queued = queued.copy()
            told = (of >= 0) & (waited >= 0)
            queued[of[told]] = waited[told]
        return _report(spans, status, queued, self._costs.spent(spans, self._messages), self._losses.told)


def _report(
    spans: RequestSpans,
    status: Array,
    queued: Array,
    spent: Mapping[str, tuple[Array, bool]],
    losses: Losses | None,
) -> RequestReport:
    is_shown = spans.of_kinds(kind.name != SCOPE for kind in KINDS)
    shown = np.flatnonzero(is_shown)
    number_of = np.append(np.cumsum(is_shown, dtype=np.int32 if len(is_shown) < 1 << 31 else np.int64) - 1, -1)
    parent = number_of[spans.parents_among(is_shown)[shown]]
    del number_of, is_shown
    depth = levels(parent, DEEPEST)[1]
    rows, status, queued = spans.last(shown), status[shown], queued[shown]
    has_activities = bool(rows["activity"].any())
    known = ~np.isnan(rows["stop_ms"])
    duration = np.where(known, np.maximum(rows["stop_ms"] - rows.ms, 0.0), np.nan)
    rows = Kept(rows.ms, rows.pid, rows.tid, {name: rows[name] for name in ("kind", "label", "reason")})
    figures = {name: (value if value.strides == (0,) else value[shown], told) for name, (value, told) in spent.items()}
    del spent
    failed = (rows["reason"] >= 0) | (status >= FAILED)
    notes = [] if len(rows) else [NO_EVENTS]
    if len(rows) and not has_activities:
        notes.append(NO_ACTIVITIES)

    def table(title: str, content: Mapping[str, Column]) -> Table:
        return answer_table(title, content, notes, losses)

    ways, way = routes(spans.labels, rows["label"])
    kind = _first_of(spans.kinds)[rows["kind"]]
    found = groups([kind.astype(np.int64) * len(ways) + way], duration)
    quantiles = found.quantiles(duration, (0.5, 0.95))
    by_route: dict[str, Column] = {
        "kind": Coded(Text.from_pylist([*spans.kinds]), rows["kind"][found.first]),
        "route": Coded(Text.from_pylist([*ways]), way[found.first]),
        "count": whole(found.count),
        "failed": whole(found.sums(failed.astype(np.float64))),
        "total_ms": number(found.total),
        "median_ms": number(quantiles[0]),
        "p95_ms": number(quantiles[1]),
        "max_ms": number(found.most),
        "failure": _commonest(found, np.flatnonzero(failed), rows["reason"], status, spans),
        "queue_ms": number(found.sums(np.nan_to_num(queued)), found.sums((~np.isnan(queued)).astype(np.float64)) > 0),
        **{name: _figure(name, found.sums(value[: len(rows)]), told) for name, (value, told) in figures.items()},
    }
    totals = RequestTotals(
        count=len(rows),
        failed=int(failed.sum()),
        unfinished=int((~known).sum()),
        by_kind={spans.kinds[one]: int((kind == one).sum()) for one in distinct(kind).tolist()},
    )
    del found, way, kind, failed
    columns: dict[str, Column] = {
        "start_ms": number(rows.ms),
        "duration_ms": number(duration, known),
        "pid": whole(rows.pid),
        "tid": whole(rows.tid),
        "kind": Coded(Text.from_pylist([*spans.kinds]), rows["kind"]),
        "name": Coded(Text.from_pylist([*spans.labels]), rows["label"]),
        "status": whole(status, status > 0),
        "failure": _failure(rows["reason"], spans),
        "queue_ms": number(queued, ~np.isnan(queued)),
        **{name: _figure(name, value[: len(rows)], told) for name, (value, told) in figures.items()},
        "parent": whole(parent, parent >= 0),
        "depth": whole(depth),
    }
    return RequestReport(
        requests=table("requests", columns),
        by_route=table("requests by route", by_route),
        totals=totals,
        notes=tuple(notes),
    )


def _failure(reason: Array, spans: RequestSpans) -> Coded:
    """The words of reasons, of which few are in most recordings."""
    found, which = ranked(reason)
    return Coded(Text.from_pylist([spans.reason(one) for one in found.tolist()]), compact(which), mask(reason >= 0))


def _commonest(found: Groups, rows: Array, reason: Array, status: Array, spans: RequestSpans) -> Coded:
    """Of each group why most of its ``rows`` failed: the reason that is told, or the status."""
    codes, which = ranked(
        np.where(reason[rows] >= 0, reason[rows].astype(np.int64), -1 - status[rows].astype(np.int64))
    )
    both, place = ranked(found.which[rows] * max(len(codes), 1) + which)
    group, code = np.divmod(
        both[np.argsort(np.bincount(place, minlength=len(both)), kind="stable")], max(len(codes), 1)
    )
    made = np.full(len(found), -1)
    made[group] = code  # of several the last, which is the most frequent
    return texts([spans.reason(one) if one >= 0 else f"status {-1 - one}" for one in codes.tolist()], made)


def _first_of(names: Sequence[str]) -> Array:
    """Of each name its first place."""
    return np.array([names.index(name) for name in names], np.int8)


def _figure(name: str, values: Array, told: bool) -> Scalar:
    """What was spent; nothing where that is not told."""
    known = np.full(len(values), told)
    return number(values, known) if name.endswith("_ms") else whole(values, known)
