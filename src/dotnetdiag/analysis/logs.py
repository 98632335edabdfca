"""What a program logged through ``Microsoft.Extensions.Logging``, and within which request.

The provider of that name writes each message in up to three events, by its keywords: FormattedMessage (0x4) is read, or MessageJson (0x8) where that
is not there. The id of the activity of its thread tells within which request it was logged (keyword 0x80 of the TPL).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.answers import answer_table, compact, mask, number, texts, whole
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.fold import LossesToTell, fold
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, Texts
from dotnetdiag.analysis.log_entries import LEVELS, PROVIDER
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.request_kinds import HOSTING, KINDS, SCOPE
from dotnetdiag.analysis.request_spans import RequestSpans, SpanEvents
from dotnetdiag.analysis.scratch import Scratch
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import ranked
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
        scratch = Scratch()
        self._kept = {
            event: KeptEvents(_message(event), ("Level", "EventId"), names=names, activities=True, scratch=scratch)
            for event in (FORMATTED, AS_JSON)
        }
        self._spans = [SpanEvents(kind, scratch) for kind in KINDS]
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
        formatted, as_json = self._kept.values()
        kept = formatted if len(formatted) else as_json
        notes = () if len(kept) else (NO_EVENTS,)
        if len(self._messages.names) > MOST_MESSAGES:
            notes = (NO_TEXTS,)
        columns = self._columns(kept)
        within = columns["request_row"].valid
        first, count, by_level = _alike(kept)
        shown = ("level", "logger", "event_id", "event")
        return LogReport(
            messages=answer_table("messages", columns, notes, self._losses.told),
            by_event=answer_table(
                "messages by event",
                {
                    **{name: columns[name].take(first) for name in shown},
                    "count": whole(count),
                    "example": columns["message"].take(first),
                },
                notes,
                self._losses.told,
            ),
            totals=LogTotals(
                count=len(kept),
                by_level={LEVELS[level]: by_level[level] for level in sorted(by_level) if level >= 0},
                in_requests=len(kept) if within is None else int(within.sum()),
            ),
            notes=notes,
        )

    def _columns(self, kept: KeptEvents) -> dict[str, Column]:
        """The rows of the table, some messages after the others: of all at once, and of spans as wide, a report on 300,000 took 190 MB."""
        spans = RequestSpans(self._spans)
        is_shown = spans.of_kinds(kind.name != SCOPE for kind in KINDS)
        # of each span the row of its request, which -1 stands behind
        request, nearest = spans.nearest(spans.of_provider(HOSTING)), spans.nearest(is_shown)
        request = np.where(request >= 0, request, nearest)
        del nearest
        number_of = np.append(np.cumsum(is_shown, dtype=request.dtype) - 1, -1)[request]
        label_of = np.append(spans.rows["label"], -1)[request]
        del request
        parts: dict[str, list[Array]] = {}
        for part in kept.parts():
            of = spans.of_activity(part.pid, part["activity"], part.ms)
            made = {
                "ms": part.ms,
                "pid": compact(part.pid),
                "tid": compact(part.tid),
                "level": _level(part),
                "logger": compact(part["LoggerName"]),
                "event_id": compact(part["EventId"]),
                "event": compact(part["EventName"]),
                "message": part["FormattedMessage"],
                "request": compact(label_of[of]),
                "request_row": compact(number_of[of]),
            }
            for name, values in made.items():
                parts.setdefault(name, []).append(values)
        labels = spans.labels
        del spans, number_of, label_of, is_shown

        def joined(name: str) -> Array:
            return np.concatenate(parts.pop(name))

        return {
            "ms": number(joined("ms")),
            "pid": whole(joined("pid")),
            "tid": whole(joined("tid")),
            "level": _levels(joined("level")),
            "logger": texts(self._names.names, joined("logger")),
            "event_id": _known(joined("event_id")),
            "event": texts(self._names.names, joined("event")),
            "message": texts(self._messages.names, joined("message")),
            "request": texts(labels, joined("request")),
            "request_row": _known(joined("request_row")),
        }


def _alike(kept: KeptEvents) -> tuple[Array, Array, Counter[int]]:
    """Of messages of one logger, event and level the first, and how many there are, the most frequent first; and how many are of each level."""
    found: dict[tuple[int, ...], list[int]] = {}
    begin = 0
    for part in kept.parts():
        keys = [part["LoggerName"], part["EventId"], _level(part)]
        first, which = combined(keys, len(part))
        counts = np.bincount(which, minlength=len(first)).tolist()
        alike = zip(*(column[first].tolist() for column in keys), strict=True)
        for key, row, count in zip(alike, first.tolist(), counts, strict=True):
            found.setdefault(key, [begin + row, 0])[1] += count
        begin += len(part)
    by_level = Counter[int]()
    for key, (_, count) in found.items():
        by_level[key[-1]] += count
    first, counted = np.array([*found.values()], np.int64).reshape(-1, 2).T
    order = np.lexsort((first, -counted))
    return first[order], counted[order], by_level


def _known(numbers: Array) -> Scalar:
    return whole(numbers, numbers >= 0)


def _level(part: Kept) -> Array:
    level = part["Level"]
    return np.where((level >= 0) & (level < len(LEVELS)), level, -1).astype(np.int8)


def _levels(level: Array) -> Coded:
    found, which = ranked(level)
    return Coded(Text.from_pylist([LEVELS[one] for one in found.tolist()]), compact(which), mask(level >= 0))


def _message(event: str) -> Any:
    return lambda schema: schema.provider == PROVIDER and schema.name == event
