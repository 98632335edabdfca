"""Requests: what came in, what went out because of it, and what each spent on processors, in pauses of the collector, on locks, and on
allocations.

EventSources tell when a request begins and ends; with the keyword 0x80 of the TPL (TasksFlowActivityIds) the ids of activities tell which end is of
which begin, and what is within what, whatever threads they ran on. What happens meanwhile has the id of the activity of its thread, too: allocation
ticks, contention, messages. Samples have none: they count for the request that the last event of their thread was of, while it runs. A pause counts
for all that are under way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.fold import LossesToTell, fold
from dotnetdiag.analysis.kept_events import NONE, Kept, KeptEvents, others_told
from dotnetdiag.analysis.log_entries import AS_JSON, FORMATTED, LEVELS
from dotnetdiag.analysis.log_exceptions import FIELD
from dotnetdiag.analysis.native import NO_STATES, RuntimeFacts, facts_of
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.request_costs import RequestCosts
from dotnetdiag.analysis.request_kinds import HTTP, IS_SERVED, LOGGING, SOCKETS
from dotnetdiag.analysis.request_rows import RequestRows, by_kind
from dotnetdiag.analysis.request_spans import SMALL_WINDOW, TOO_DEEP, RequestSpans
from dotnetdiag.analysis.slow_requests import is_request
from dotnetdiag.events import EventSchema
from dotnetdiag.table import Table
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

DIAGNOSTICS, FINISHED = "Microsoft.AspNetCore.Hosting.Diagnostics", 2
"""The logger, and its message, that tells with which status a request of the server ended."""
ERROR = LEVELS.index("Error")
_ERRORS = 1 << 8
"""Messages whose exceptions are looked at together: each may have 30 KB."""
_QUEUED = "timeOnQueueMilliseconds"
_STATUSES = {
    "FormattedMessage": re.compile(r".* - (\d{3}) (?:\d+|-) .*ms", re.DOTALL),
    "ArgumentsJson": re.compile(r'"StatusCode": ?"?(\d{3})\b'),
}
"""By the field that says it. In the text the last such: the path stands before it, and behind it the length of what was answered, its type, and how
long that took (5 and later); of an answer without a type that is ``- 200 - - 619.06ms``. Arguments are in messages as JSON alone, where quotes in
values are escaped.
"""
NO_EVENTS = "no requests: there were none, or the recording lacks their events (record with --profile requests)"
NO_ACTIVITIES = (
    "no activity ids: what is within what is not known, nor what a request spent "
    + "(record with --providers …,System.Threading.Tasks.TplEventSource:0x80:4 too)"
)
NO_STATUSES = (
    "whether requests that came in failed is not told, but for exceptions that nobody handled: their status is in messages "
    + "(record with --providers …,Microsoft-Extensions-Logging:4:4 too; a program that has cleared its logging providers sends none)"
)
SHARED_IDS = "requests that were under way at once have one activity id, and what is within each is not known"
SHARED_WITH_SOCKETS = f"{SHARED_IDS}, as .NET 10 gives ids where {SOCKETS} is recorded too (record without it)"
SHARED_BY_STREAMS = f"{SHARED_IDS}, as Kestrel's requests of one HTTP/2 connection have"
UNKNOWN_ENDS = "of {:,} it is not known when and how they ended{}: several of a kind were under way at once, without ids of their own{}"


@dataclass(frozen=True, kw_only=True)
class RequestTotals:
    """``count``: how many requests came in or went out, calls of gRPC and commands of databases among them. ``parts``: what the table has
    beside them: connections, name resolution, TLS, what was sent and read of each, and Kestrel's own of what the host tells too. ``by_kind``: how
    many of each.

    The others are of both. ``unfinished`` have no end in the recording. ``failed``: with a failure, or a status of 500 or more. Without ids
    of activities ``unknown`` are those of which it is not known when and how they ended; ``unknown_failures``: so many more
    of each kind failed, one of them or what is not seen. ``unfinished`` has none of them, ``failed`` those that were told of while they were alone.
    """

    count: int
    parts: int
    failed: int
    unfinished: int
    unknown: int
    unknown_failures: Mapping[str, int]
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
    (made,) = fold(trace, RequestsFold(runtime=facts_of(trace)), rows=SMALL_WINDOW)
    return made


class RequestsFold:
    """What :func:`requests` asks, window by window. Without ``costs`` what requests spend is not known, and of samples, ticks and contention
    nothing is kept. ``runtime`` tells of what was recorded, asked in the end.
    """

    def __init__(self, *, costs: bool = True, runtime: Callable[[], RuntimeFacts] = RuntimeFacts) -> None:
        self._runtime = runtime
        self._spans = RequestSpans()
        self._costs = RequestCosts() if costs else None
        self._queue = KeptEvents(
            lambda schema: schema.provider == HTTP and schema.name == "RequestLeftQueue",
            (_QUEUED,),
            activities=True,
        )
        self._messages = KeptEvents(
            lambda schema: schema.provider == LOGGING and schema.name in (FORMATTED, AS_JSON),
            ("EventId", "Level"),
            names=("LoggerName",),
            activities=True,
        )
        self._can_begin = self._has_sockets = False
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends, and what costs something meanwhile."""
        return (
            self._spans.wants(schema)
            or (self._costs is not None and self._costs.wants(schema))
            or self._queue.wants(schema)
            or self._messages.wants(schema)
        )

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        if not self._can_begin:
            # what costs something counts within requests: a million ticks of a recording without any took 110 MB
            self._can_begin = any(map(self._spans.begins, window.schemas.values()))
        if not self._can_begin:
            return
        if not self._has_sockets:
            self._has_sockets = any(schema.provider == SOCKETS for schema in window.schemas.values())
        self._spans.feed(window)
        if self._costs is not None:
            self._costs.feed(window)
        self._queue.feed(window)
        messages = self._messages.events_of(window)
        if len(messages):
            self._messages.add(self._told(messages))
        if self._spans.is_due(len(self._queue) + len(self._messages) + (self._costs.waiting if self._costs else 0)):
            self._follow(self._latest_ms)

    @property
    def _latest_ms(self) -> float:
        """The time of the last event: those of that time wait, for more may come."""
        costs = self._costs.latest_ms if self._costs is not None else -np.inf
        return max(self._spans.latest_ms, self._queue.latest_ms, self._messages.latest_ms, costs)

    def _told(self, messages: EventTable) -> Kept:
        """Messages with the status that each tells, 0 for none; without costs those alone that tell one."""
        kept = self._messages.of(messages)
        made = np.zeros(len(messages), np.int16)
        logger = self._messages.texts.number(DIAGNOSTICS)
        rows = np.flatnonzero((kept["EventId"] == FINISHED) & (kept["LoggerName"] == logger))
        for name, pattern in _STATUSES.items():
            column = messages.get(f"payload.{name}")
            texts = [] if column is None else column.take(rows).to_pylist()
            found = [pattern.search(str(text)) for text in texts]
            said = np.array([int(one[1]) if one else 0 for one in found], np.int16)
            made[rows[: len(found)]] = np.maximum(made[rows[: len(found)]], said)
        fields = {"activity": kept["activity"], "status": made, "logged": self._logged(messages, kept)}
        told = Kept(kept.ms, kept.pid, kept.tid, fields)
        return told if self._costs is not None else told.of(np.flatnonzero(made > 0))

    def _logged(self, messages: EventTable, kept: Kept) -> Array:
        """Of each message the number of the exception that it was logged with as an error; -1 for none."""
        made, rows = np.full(len(kept), NONE, np.int32), np.flatnonzero(kept["Level"] >= ERROR)
        costs = self._costs
        column = messages.get(f"payload.{FIELD}") if len(rows) and costs is not None else None
        if column is not None and costs is not None:
            for first in range(0, len(rows), _ERRORS):
                some = rows[first : first + _ERRORS]
                made[some] = costs.logged([str(one or "") for one in column.take(some).to_pylist()])
        return made

    def _follow(self, until: float) -> None:
        """Give spans what the events before that time tell of them."""
        spans, followed = self._spans, self._spans.follow(until)
        messages, queue = self._messages.take(until), self._queue.take(until)
        if len(messages):
            told = messages.of(np.flatnonzero(messages["status"] > 0))
            of = spans.of_activity(told.pid, told["activity"], told.ms)
            of = spans.nearest(of, IS_SERVED)
            spans.write("status", of[of >= 0], told["status"][of >= 0])
        if len(queue):
            of = spans.of_activity(queue.pid, queue["activity"], queue.ms)
            own = np.flatnonzero((of >= 0) & (queue[_QUEUED] >= 0))
            spans.write("queue_ms", of[own], queue[_QUEUED][own])
        if self._costs is not None:
            self._costs.follow(until, spans, followed, messages)

    def _copy(self) -> RequestsFold:
        made = copy(self)
        made._spans, made._queue, made._messages = self._spans.copy(), self._queue.copy(), self._messages.copy()
        made._costs = self._costs.copy() if self._costs else None
        return made

    def _forget_untold(self, costs: RequestCosts) -> bool:
        """Processes whose samples do not say which threads ran have told of no processor time; whether there are any."""
        sampled = costs.seen("cpu_ms")
        runtime = self._runtime() if sampled else None
        untold = [pid for pid in sampled if runtime is not None and not runtime.of(pid).tells_states]
        costs.forget("cpu_ms", untold)
        return bool(untold)

    def result(self) -> RequestReport:
        """The answer."""
        whole = self._copy()
        whole._follow(np.inf)
        has_no_states = False
        if whole._costs is not None:
            has_no_states = self._forget_untold(whole._costs)
            whole._costs.spend(whole._spans)
        rows = RequestRows(whole._spans, whole._costs, self._losses.lost_by, self._losses.between())
        still = whole._spans.unknown_open
        shared = SHARED_WITH_SOCKETS if self._has_sockets else SHARED_BY_STREAMS
        odd = [note for note, is_so in ((TOO_DEEP, whole._spans.is_cut), (shared, whole._spans.has_shared)) if is_so]
        odd += others_told("requests", whole._spans.texts)
        failures = by_kind(whole._spans.unknown_failures)
        del whole
        notes = odd if len(rows) else [NO_EVENTS]
        if len(rows) and not rows.has_activities:
            notes.append(NO_ACTIVITIES)
        if len(rows) and has_no_states:
            notes.append(NO_STATES)
        if rows.lacks_statuses:
            notes.append(NO_STATUSES)
        failed, unfinished, of_kinds = rows.totals()
        count = sum(number for kind, number in of_kinds.items() if is_request(kind, {*of_kinds}))
        # one may be told of twice
        unknown_failures = {name: min(number, of_kinds.get(name, 0)) for name, number in failures.items()}
        if rows.unknown:
            told = [f"failed: {number:,} {name}" for name, number in unknown_failures.items()]
            told += [f"{still:,} had not ended"] if still else []
            loss = ", or events were lost meanwhile" if self._losses.told.lost else ""
            notes.append(UNKNOWN_ENDS.format(rows.unknown, f" ({'; '.join(told)})" if told else "", loss))
        return RequestReport(
            requests=rows.table(notes, self._losses.told),
            by_route=rows.by_route(notes, self._losses.told),
            totals=RequestTotals(
                count=count,
                parts=len(rows) - count,
                failed=failed,
                unfinished=unfinished,
                unknown=rows.unknown,
                unknown_failures=unknown_failures,
                by_kind=of_kinds,
            ),
            notes=tuple(notes),
        )
