"""What a program logged through ``Microsoft.Extensions.Logging``, and within which request.

The provider of that name writes each message in up to three events, by its keywords: FormattedMessage (0x4) is read, or MessageJson (0x8) where that
is not there. The id of the activity of its thread tells within which request it was logged (keyword 0x80 of the TPL).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import answer_table, mask, number, texts, whole
from dotnetdiag.analysis.fold import LossesToTell, fold
from dotnetdiag.analysis.groups import groups
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, Texts
from dotnetdiag.analysis.log_entries import LEVELS, PROVIDER
from dotnetdiag.analysis.pairs import picked
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.request_kinds import HOSTING, KINDS, SCOPE
from dotnetdiag.analysis.request_spans import RequestSpans, SpanEvents
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

FORMATTED, AS_JSON = "FormattedMessage", "MessageJson"
MOST_MESSAGES, MOST_CHARACTERS = 1 << 16, 2000
"""Different messages, and characters of each, that are kept."""
WARNING = 3
NO_EVENTS = f"no messages: nothing was logged, or the recording lacks its events (record with --providers {PROVIDER}:0x4:5, which has all levels)"
NO_TEXTS = f"more than {MOST_MESSAGES:,} different messages: the texts of those beyond are not kept"


@dataclass(frozen=True, kw_only=True)
class LogTotals:
    """``by_level``: how many of each. ``in_requests``: logged within a request."""

    count: int
    by_level: Mapping[str, int]
    in_requests: int


@dataclass(frozen=True, kw_only=True)
class LogReport(Report):
    """``messages``: a row for each, in their order. ``by_event``: those of one logger, event and level together, with one of them as ``example``, the
    most frequent first. ``notes``: what the recording lacks.
    """

    MAIN = "messages"

    messages: Table
    by_event: Table
    totals: LogTotals


def logs(trace: Trace) -> LogReport:
    """What was logged in a recording."""
    (made,) = fold(trace, LogsFold())
    return made


class LogsFold:
    """What :func:`logs` asks, window by window."""

    def __init__(self) -> None:
        self._names = Texts()
        self._messages = Texts(MOST_MESSAGES, longest=MOST_CHARACTERS)
        names = {"LoggerName": self._names, "EventName": self._names, "FormattedMessage": self._messages}
        self._kept = {
            event: KeptEvents(_message(event), ("Level", "EventId"), names=names, activities=True)
            for event in (FORMATTED, AS_JSON)
        }
        self._spans = [SpanEvents(kind) for kind in KINDS]
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Messages, and begins and ends of requests."""
        return any(one.wants(schema) for one in self._kept.values()) or any(one.wants(schema) for one in self._spans)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        for keeper in self._kept.values():
            keeper.feed(window)
        for one in self._spans:
            one.feed(window)

    def result(self) -> LogReport:
        """The answer."""
        formatted, as_json = (keeper.all() for keeper in self._kept.values())
        kept = formatted if len(formatted) else as_json
        notes = () if len(kept) else (NO_EVENTS,)
        if len(self._messages.names) > MOST_MESSAGES:
            notes = (NO_TEXTS,)
        level = np.where((kept["Level"] >= 0) & (kept["Level"] < len(LEVELS)), kept["Level"], -1)
        columns, within = self._columns(kept, level)
        found = groups([kept["LoggerName"], kept["EventId"], level], np.ones(len(kept)))
        shown = ("level", "logger", "event_id", "event")
        return LogReport(
            messages=answer_table("messages", columns, notes, self._losses.told),
            by_event=answer_table(
                "messages by event",
                {
                    **{name: columns[name].take(found.first) for name in shown},
                    "count": whole(found.count),
                    "example": columns["message"].take(found.first),
                },
                notes,
                self._losses.told,
            ),
            totals=LogTotals(
                count=len(kept),
                by_level={name: count for at, name in enumerate(LEVELS) if (count := int((level == at).sum()))},
                in_requests=within,
            ),
            notes=notes,
        )

    def _columns(self, kept: Kept, level: Array) -> tuple[dict[str, Column], int]:
        spans = RequestSpans(self._spans)
        is_shown = np.array([name != SCOPE for name in spans.kinds], np.bool_)[spans.rows["kind"]]
        of = spans.of_activity(kept.pid, kept["activity"], kept.ms)
        request = spans.above(of, HOSTING)
        request = np.where(request >= 0, request, _shown(spans, of, is_shown))
        known = request >= 0
        label = picked(spans.rows["label"], request, -1)
        columns: dict[str, Column] = {
            "ms": number(kept.ms),
            "pid": whole(kept.pid),
            "tid": whole(kept.tid),
            "level": Coded.naming(Scalar(level, mask(level >= 0), Kind.I8), lambda one: LEVELS[one]),
            "logger": texts(self._names.names, kept["LoggerName"]),
            "event_id": whole(kept["EventId"], kept["EventId"] >= 0),
            "event": texts(self._names.names, kept["EventName"]),
            "message": texts(self._messages.names, kept["FormattedMessage"]),
            "request": texts(spans.labels, label),
            "request_row": whole(picked(np.cumsum(is_shown) - 1, request, -1), known),
        }
        return columns, int(known.sum())


def _shown(spans: RequestSpans, rows: Array, is_shown: Array) -> Array:
    """Rows that are shown, or the first above them that is; -1 for none."""
    above = np.append(spans.parents_among(is_shown), -1)
    plain = np.append(is_shown, False)
    return np.where(rows < 0, -1, np.where(plain[rows], rows, above[rows]))


def _message(event: str) -> Any:
    return lambda schema: schema.provider == PROVIDER and schema.name == event
