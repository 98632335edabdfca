"""What a program logged through ``Microsoft.Extensions.Logging``, and within which request.

The provider of that name writes each message in up to three events, by its keywords: MessageJson (0x8) is read, which alone tells the exception that
a message was logged with, or of a process that has none of it FormattedMessage (0x4), as of one of .NET Core 3, whose MessageJson has no text. The id
of the activity of its thread tells within which request it was logged (keyword 0x80 of the TPL).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from copy import copy
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis.answers import answer_table, texts, whole
from dotnetdiag.analysis.distinct import combined, numbered
from dotnetdiag.analysis.fold import LossesToTell, fold
from dotnetdiag.analysis.kept_events import (
    NONE,
    OTHERS,
    Kept,
    KeptEvents,
    Texts,
    cut_at,
    cut_told,
    number_of,
    others_told,
)
from dotnetdiag.analysis.log_entries import AS_JSON, FORMATTED, LEVELS, PROVIDER, filled
from dotnetdiag.analysis.log_exceptions import ALL_CHARACTERS as OF_ALL
from dotnetdiag.analysis.log_exceptions import FIELD, MOST_EXCEPTIONS, LoggedExceptions, text_of
from dotnetdiag.analysis.log_rows import NO_ID, LogRows, ids_of_events, levels_of
from dotnetdiag.analysis.log_templates import ALL_CHARACTERS as OF_TEMPLATES
from dotnetdiag.analysis.log_templates import MOST_TEMPLATES, LogTemplates
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.request_kinds import IS_SERVED, IS_SHOWN
from dotnetdiag.analysis.request_spans import SMALL_WINDOW, RequestSpans
from dotnetdiag.events import Column, EventSchema
from dotnetdiag.events.columns import Text
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.scratch import MappedArrays, Scratch
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

_TEXT, _EXCEPTION, ARGUMENTS = "FormattedMessage", "exception", "ArgumentsJson"
MOST_MESSAGES, MOST_CHARACTERS, ALL_CHARACTERS = 1 << 16, 2000, 1 << 23
"""Different messages, and characters of each and of all, that are kept."""
PIECE_BYTES = 1 << 23
"""Of messages that are looked at together: of one with an exception and its stack some kilobytes are text, and of a window 16,384 came at once."""
WARNING = 3
NO_EVENTS = (
    "no messages: nothing was logged, or the recording lacks its events (record with --profile logs, "
    "which has all levels from Debug on; a program that has cleared its logging providers sends none)"
)
NO_REQUESTS = "which requests messages are of is not told: there were none, or the recording lacks their events (record with --profile logs)"
NO_EXCEPTIONS = f"more than {MOST_EXCEPTIONS:,} different exceptions, or of more than {OF_ALL:,} characters: the texts of those beyond are not kept"
NO_EXCEPTIONS_OF_ALL = (
    "some messages are there as texts alone, as those of 16,000 characters and more: "
    "all are told without the exceptions that they were logged with"
)
NO_TEMPLATES = (
    f"more than {MOST_TEMPLATES:,} different templates of messages without an event, or of more than {OF_TEMPLATES:,} characters, as of a program "
    f"that writes each message into one of its own: of each logger and level those beyond are {OTHERS}"
)
NO_TEXTS = f"more than {MOST_MESSAGES:,} different messages, or of more than {ALL_CHARACTERS:,} characters: the texts of those beyond are not kept"


@dataclass(frozen=True, kw_only=True)
class LogTotals:
    """``by_level``: how many of each. ``in_requests``: logged within a request."""

    count: int
    by_level: Mapping[str, int]
    in_requests: int


@dataclass(frozen=True, kw_only=True)
class LogReport(Report):
    """``messages``: a row for each, in their order. ``by_event``: those of one logger, event and level together, with one of them as ``example``, the
    most frequent first; those without an event (id 0, no name) by the text that they are made of, ``cart {Id} is lost``, which messages as JSON tell.
    ``notes``: what the recording lacks.
    """

    KIND = "logs"
    MAIN = "messages"

    messages: Table
    by_event: Table
    totals: LogTotals


def logs(trace: Trace) -> LogReport:
    """What was logged in a recording."""
    (made,) = fold(trace, LogsFold(), rows=SMALL_WINDOW)
    return made


class LogsFold:
    """What :func:`logs` asks, window by window. Without ``rows`` nothing is kept of a message: ``messages`` has none, how many were logged within
    requests is not told, and each example is there however many different messages there are.
    """

    def __init__(self, *, rows: bool = True) -> None:
        self._has_rows = rows
        self._names = Texts()
        self._no_name = self._names.number("")
        self._messages = Texts(MOST_MESSAGES, longest=MOST_CHARACTERS, room=ALL_CHARACTERS)
        names = {"LoggerName": self._names, "EventName": self._names}
        self._exceptions, self._templates = LoggedExceptions(), LogTemplates()
        scratch, numbers = Scratch(), ("Level", "EventId")
        kinds = (FORMATTED, AS_JSON)
        self._plain = {event: KeptEvents(_message(event), numbers, names=names) for event in kinds}
        names = {**names, _TEXT: self._messages}
        self._kept = {
            event: KeptEvents(_message(event), (*numbers, _EXCEPTION), names=names, activities=True) for event in kinds
        }
        self._told = {
            event: KeptEvents(_message(event), (*numbers, _EXCEPTION, "request"), names=names, scratch=scratch)
            for event in kinds
        }
        """Those whose requests are looked up: ``request`` is the row of its span, or of the first around it that is shown."""
        self._alike = {event: _Alike() for event in self._kept}
        self._textless = set[int]()
        """Processes whose messages as JSON have no texts."""
        self._spans = RequestSpans()
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Messages, and begins and ends of requests."""
        is_message = any(one.wants(schema) for one in self._kept.values())
        return is_message or (self._has_rows and self._spans.wants(schema))

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        for event, keeper in (self._kept if self._has_rows else self._plain).items():
            for messages in keeper.events_of(window).pieces(size=PIECE_BYTES):
                if not len(messages):
                    break
                kept = _with_ids(keeper.of(messages), messages)
                if event == AS_JSON:
                    kept = self._with_texts(kept, messages)
                self._alike[event].add(kept, self._templates_of(kept, messages), None if self._has_rows else messages)
                if self._has_rows:
                    keeper.add(kept)
        if self._has_rows:
            self._spans.feed(window)
            if self._spans.is_due(sum(map(len, self._kept.values()))):
                self._follow(max(self._spans.latest_ms, *(one.latest_ms for one in self._kept.values())))

    def _with_texts(self, kept: Kept, messages: EventTable) -> Kept:
        """With exceptions, and the texts that .NET Core 3 does not write, of the arguments that it does."""
        lacking = [
            number for number, schema in messages.schemas.items() if all(one.name != _TEXT for one in schema.fields)
        ]
        rows = messages.rows_of_types(lacking)
        self._textless.update(distinct(kept.pid[rows].astype(np.int64)).tolist())
        if not self._has_rows:
            return kept
        exceptions = self._exceptions.numbers(messages.get(f"payload.{FIELD}"), len(messages))
        kept = Kept(kept.ms, kept.pid, kept.tid, {**kept.fields, _EXCEPTION: exceptions})
        arguments = messages.get(f"payload.{ARGUMENTS}")
        if arguments is None or not len(rows):
            return kept
        texts, which = numbered([str(one or "") for one in arguments.take(rows).to_pylist()])
        of = kept[_TEXT].copy()
        of[rows] = np.array([self._messages.number(text) if (text := filled(one)) else NONE for one in texts])[which]
        return Kept(kept.ms, kept.pid, kept.tid, {**kept.fields, _TEXT: of})

    def _templates_of(self, kept: Kept, messages: EventTable) -> Array:
        """Of messages without an event of their own what they are made of: most that a program writes have the id 0 and no name."""
        made = np.full(len(kept), NONE, np.int64)
        name = kept["EventName"]
        rows = np.flatnonzero((kept["EventId"] == 0) & ((name == NONE) | (name == self._no_name)))
        arguments = messages.get(f"payload.{ARGUMENTS}") if len(rows) else None
        if arguments is not None:
            made[rows] = self._templates.numbers(arguments.take(rows), len(rows))
        return made

    def _follow(self, until: float) -> None:
        """Look up the requests of messages before that time."""
        self._spans.follow(until)
        for event, keeper in self._kept.items():
            part = keeper.take(until)
            if len(part):
                of = self._spans.of_activity(part.pid, part["activity"], part.ms)
                request = self._spans.nearest(of, IS_SERVED)
                request = np.where(request >= 0, request, self._spans.nearest(of, IS_SHOWN))
                fields = {name: part[name] for name in part.fields if name not in ("activity", "related")}
                self._told[event].add(Kept(part.ms, part.pid, part.tid, {**fields, "request": request}))

    def _copy(self) -> LogsFold:
        made = copy(self)
        made._spans = self._spans.copy()
        made._kept = {event: one.copy() for event, one in self._kept.items()}
        made._told = {event: one.copy() for event, one in self._told.items()}
        return made

    def result(self) -> LogReport:
        """The answer."""
        whole = self._copy()
        whole._follow(np.inf)
        return whole._result()

    def _result(self) -> LogReport:
        as_json, as_texts = self._alike[AS_JSON].by_process(), self._alike[FORMATTED].by_process()
        # what has no room in an event as JSON, which has its text twice, there is as a text alone
        fewer = {pid for pid, count in as_texts.items() if count > as_json.get(pid, 0)}
        beside = {*as_json} - fewer - (self._textless & {*as_texts})
        notes_of_both = [NO_EXCEPTIONS_OF_ALL] if fewer & {*as_json} else []
        alike = self._alike[FORMATTED].with_those_of(self._alike[AS_JSON], beside)
        notes = () if alike.count else (NO_EVENTS,)
        if self._messages.has_others:
            notes = (NO_TEXTS,)
        rows = self._rows_of(beside)
        notes = (*notes, *others_told("loggers and events", [self._names]))
        notes = (*notes, *cut_told("messages", self._messages), *cut_told("exceptions", self._exceptions.texts))
        if self._exceptions.texts.has_others:
            notes = (*notes, NO_EXCEPTIONS)
        notes = (*notes, *notes_of_both)
        if alike.count and self._has_rows and not rows.in_requests:
            notes = (*notes, NO_REQUESTS)
        if self._templates.has_others:
            notes = (*notes, NO_TEMPLATES)
        by_event = alike.table(self._names.names, self._messages.names, self._exceptions.names, self._templates)
        return LogReport(
            messages=rows.table(
                self._names.names,
                self._messages.names,
                self._exceptions,
                [*self._spans.labels],
                notes,
                self._losses.told,
            ),
            by_event=answer_table("messages by event", by_event, notes, self._losses.told),
            totals=LogTotals(
                count=alike.count,
                by_level=alike.by_level(),
                in_requests=rows.in_requests,
            ),
            notes=notes,
        )

    def _has_texts(self, beside: Set[int]) -> bool:
        """Whether there are processes whose messages are those as texts."""
        return bool(self._alike[FORMATTED].by_process().keys() - beside)

    def _parts(self, beside: Set[int]) -> Iterator[Kept]:
        """The messages: of processes ``beside`` those as JSON, of others those as texts."""
        as_json = np.array(sorted(beside), np.int64)
        for part in self._told[FORMATTED].parts() if self._has_texts(beside) or not beside else ():
            own = ~is_among(part.pid, as_json)
            yield part if own.all() else part.of(np.flatnonzero(own))
        for part in self._told[AS_JSON].parts() if beside else ():
            own = is_among(part.pid, as_json)
            yield part if own.all() else part.of(np.flatnonzero(own))

    def _rows_of(self, beside: Set[int]) -> LogRows:
        """The rows of the table, some messages after the others: of all at once a report on 300,000 took 190 MB, and on 3.5 million 250."""
        spans = self._spans
        of_spans = MappedArrays(len(spans), each=8)
        number_of, label_of = spans.shown_places(of_spans), of_spans.zeros(np.int32)
        for first, rows in spans.rows.slices():
            label_of[first : first + len(rows)] = rows["label"]
            of_spans.release()

        def told(values: Array, of: Array) -> Array:
            found = np.full(len(of), -1, np.int32)
            found[of >= 0] = values[of[of >= 0]]
            return found

        made = LogRows()
        for part in self._parts(beside):
            of = part["request"]
            made.add({
                "ms": part.ms,
                "pid": part.pid,
                "tid": part.tid,
                "level": _level(part),
                "logger": part["LoggerName"],
                "event_id": part["EventId"],
                "event": part["EventName"],
                "message": part[_TEXT],
                "exception": part[_EXCEPTION],
                "request": told(label_of, of),
                "request_row": told(number_of, of),
            })  # fmt: skip
            of_spans.release()
        if beside and self._has_texts(beside):
            made.sort()
        return made


class _Alike:
    """Messages of one logger, event (its id and its name), template, where that is what tells them apart, and level: the first, and how many there
    are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._found: dict[tuple[int, int, int, int, int, int], _Event] = {}

    def by_process(self) -> dict[int, int]:
        """How many there are of each."""
        made = Counter[int]()
        for (pid, *_), one in self._found.items():
            made[pid] += one.count
        return dict(made)

    def with_those_of(self, other: _Alike, processes: Set[int]) -> _Alike:
        """Of some processes the others, and these of all that are left."""
        made = _Alike()
        made._found = {key: one for key, one in self._found.items() if key[0] not in processes}
        made._found |= {key: one for key, one in other._found.items() if key[0] in processes}
        made.count = sum(one.count for one in made._found.values())
        return made

    def add(self, kept: Kept, templates: Array, messages: EventTable | None) -> None:
        """Take the next messages. Where they are given, the text of each first is kept, else its number."""
        keys = [kept.pid, kept["LoggerName"], kept["EventId"], kept["EventName"], templates, _level(kept)]
        first, which = combined(keys, len(kept))
        counts = np.bincount(which, minlength=len(first)).tolist()
        alike = [*zip(*(column[first].tolist() for column in keys), strict=True)]
        fresh = [row for key, row in zip(alike, first.tolist(), strict=True) if key not in self._found]
        example, thrown = (_texts_of(messages, name, fresh) for name in (_TEXT, FIELD))
        lacking = [row for row in fresh if example[row] is None]  # as of .NET Core 3
        example |= {row: filled(one or "") or None for row, one in _texts_of(messages, ARGUMENTS, lacking).items()}
        for key, row, count in zip(alike, first.tolist(), counts, strict=True):
            one = self._found.get(key)
            if one is None:
                if messages is None:
                    said: tuple[str | int | None, str | int | None] = int(kept[_TEXT][row]), int(kept[_EXCEPTION][row])
                else:
                    exception = text_of(thrown[row] or "")
                    said = _cut(example[row]), _cut(exception and exception[1])
                one = self._found[key] = _Event(float(kept.ms[row]), *said)
            one.count += count
        self.count += len(kept)

    def by_level(self) -> dict[str, int]:
        """How many of each."""
        counts = Counter[int]()
        for (*_, level), one in self._found.items():
            counts[level] += one.count
        return {LEVELS[level]: counts[level] for level in sorted(counts) if level >= 0}

    def table(
        self, names: Sequence[str], messages: Sequence[str], exceptions: Sequence[str], templates: LogTemplates
    ) -> dict[str, Column]:
        """The columns, the most frequent first."""
        together: dict[tuple[int, ...], _Event] = {}
        for (_, *key), one in sorted(self._found.items(), key=lambda one: one[1].first):
            alike = together.setdefault(tuple(key), replace(one, count=0))
            alike.count += one.count
        rows = sorted(together.items(), key=lambda one: (-one[1].count, one[1].first))
        is_of_many = [templates.is_others(key[3]) for key, _ in rows]
        examples = [
            OTHERS if several else _text(one.example, messages)
            for several, (_, one) in zip(is_of_many, rows, strict=True)
        ]
        thrown = [
            None if several else _text(one.exception, exceptions)
            for several, (_, one) in zip(is_of_many, rows, strict=True)
        ]
        logger, event, level = (np.array([key[at] for key, _ in rows], np.int64) for at in (0, 2, 4))
        return {
            "level": levels_of(level),
            "logger": texts(names, logger),
            "event_id": ids_of_events(np.array([key[1] for key, _ in rows], np.int64)),
            "event": texts(names, event),
            "count": whole(np.array([one.count for _, one in rows], np.int64)),
            "example": Text.from_pylist(examples),
            "exception": Text.from_pylist(thrown),
        }


@dataclass(slots=True)
class _Event:
    """``first``: when the first came (ms), with this ``example`` and this ``exception``: their texts, or the numbers of these."""

    first: float
    example: str | int | None
    exception: str | int | None
    count: int = 0


def _texts_of(messages: EventTable | None, name: str, rows: Sequence[int]) -> dict[int, str | None]:
    """Of some rows what a field says."""
    column = messages.get(f"payload.{name}") if messages is not None and rows else None
    told = [None] * len(rows) if column is None else [str(text or "") for text in column.take(rows).to_pylist()]
    return dict(zip(rows, told, strict=True))


def _cut(text: str | None) -> str | None:
    return None if text is None else cut_at(text, MOST_CHARACTERS)


def _text(one: str | int | None, names: Sequence[str]) -> str | None:
    """A text, or that of a number."""
    return one if not isinstance(one, int) else names[one] if one >= 0 else None


def _with_ids(kept: Kept, messages: EventTable) -> Kept:
    """With ids of events that are told from those that are not."""
    ids = number_of(messages.get("payload.EventId"), len(messages), missing=NO_ID)
    return Kept(kept.ms, kept.pid, kept.tid, {**kept.fields, "EventId": ids})


def _level(part: Kept) -> Array:
    level = part["Level"]
    return np.where((level >= 0) & (level < len(LEVELS)), level, -1).astype(np.int8)


def _message(event: str) -> Any:
    return lambda schema: schema.provider == PROVIDER and schema.name == event
