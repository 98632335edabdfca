"""The values of System.Diagnostics.Metrics (.NET 6 and later): events of the provider of that name (nettrace.md §10.4).

Fields are read by name, so that every version of an event is: what a version has not is missing in its rows. Numbers are texts for
everybody (``InvariantCulture``), an empty one is none. ``rate`` of an event is what was added in the interval, which the events around it tell
(``CollectionStart``); ``value`` of a counter is the sum since the runtime began to report it.

One session at a time is served by a runtime, or any number that share one (``SHARED``): whoever listens gets the values of all, and
``sessionId`` tells whose they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis.counter_rows import (
    FIGURES,
    QUANTILES,
    QUANTILES_LIMIT,
    Array,
    CounterRows,
    number_field,
    parsed_numbers,
    parsed_quantiles,
    text_field,
    whole_rows,
)
from dotnetdiag.analysis.distinct import combined, distinct_texts
from dotnetdiag.analysis.known_series import UNMET, KnownSeries, code_of, numbers_of, slots_of
from dotnetdiag.analysis.series import (
    REFUSED,
    CounterKind,
    Instrument,
    InstrumentKey,
    SeriesKey,
    SeriesRegistry,
)
from dotnetdiag.events import EventSchema, Scalar, Text
from dotnetdiag.events import Table as Payloads
from dotnetdiag.events.columns import Spans
from dotnetdiag.events.layout import Kind
from dotnetdiag.trace.table import EventTable

METRICS = "System.Diagnostics.Metrics"
COLLECTION_START, BEGIN_REPORTING, END_REPORTING, INSTRUMENT_PUBLISHED = 2, 7, 8, 11
VALUES: Mapping[int, CounterKind] = {
    4: CounterKind.COUNTER,
    5: CounterKind.GAUGE,
    6: CounterKind.HISTOGRAM,
    16: CounterKind.UP_DOWN_COUNTER,
    19: CounterKind.HISTOGRAM,
}
"""Events that bring values, by id. 19 is a histogram of .NET 10 that tells buckets in the place of quantiles."""
_TEXTS: Mapping[int, Mapping[str, str]] = {
    4: {"rate": "delta", "value": "value"},
    5: {"lastValue": "value"},
    16: {"rate": "delta", "value": "value"},
}
"""Their fields that are numbers as texts, and what these are."""
_NUMBERS: Mapping[int, Mapping[str, str]] = {
    6: {"count": "count", "sum": "sum"},
    19: {"count": "count", "sum": "sum", "minimum": "min", "maximum": "max"},
}
"""Their fields that are numbers."""
_IDENTITY = ("sessionId", "meterName", "instrumentName", "unit", "tags", "meterVersion")
"""Texts that tell a series; the last was not always there."""
_FOREIGN = -3
"""In the place of the number of a series: of sessions that do not count."""
_REQUIRED: Mapping[int, str] = {4: "rate", 5: "lastValue", 6: "quantiles", 16: "rate", 19: "count"}
NOTICES: Mapping[int, str] = {
    9: "Error",
    12: "TimeSeriesLimitReached",
    13: "HistogramLimitReached",
    14: "ObservableInstrumentCallbackError",
    15: "MultipleSessionsNotSupportedError",
    17: "MultipleSessionsConfiguredIncorrectlyError",
}
"""Events that say what a session does not get, by id."""
_WANTED = frozenset({COLLECTION_START, BEGIN_REPORTING, END_REPORTING, INSTRUMENT_PUBLISHED, *VALUES, *NOTICES})
_DIGITS = 18
NOTICES_LIMIT = 1000
"""Different ones of one fold, of those that have a text of the program, and of the others."""
NOTICES_EACH = 50
"""Of one process, where processes have limits of their own."""
_FREE_TEXTS = (9, 14)
_TICKS_S = 10_000_000


def is_of_metrics(schema: EventSchema) -> bool:
    """Whether events of this type bring values, or say something of them."""
    return schema.provider == METRICS and schema.event_id in _WANTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What the runtime said of a session, ``count`` times since ``ms``: ``event`` is the name of the event, ``text`` the rest of it."""

    ms: float
    pid: int | None
    session: str
    event: str
    text: str
    count: int


class MetricsReader:
    """Reads windows of events in their order. ``sessions``: the ids of those whose values count (None: all). ``only_usual``: histograms with other
    quantiles than runtimes tell cannot be read; where one process lies, those of others can then.
    """

    def __init__(
        self, registry: SeriesRegistry, sessions: Collection[str] | None = None, *, only_usual: bool = False
    ) -> None:
        self._registry = registry
        self._sessions = None if sessions is None else frozenset(sessions)
        self._known = KnownSeries()
        self._quantiles: set[str] = set(QUANTILES) if only_usual else set()
        self._most_quantiles = len(QUANTILES) if only_usual else QUANTILES_LIMIT
        self._notices: dict[tuple[int, str, str, str], Notice] = {}
        self._most_notices = NOTICES_EACH if only_usual else NOTICES_LIMIT
        self._noted: Counter[tuple[int, bool]] = Counter()
        self._is_shared = only_usual
        self.beats: Counter[int] = Counter()
        """By process (-1: none is told): how often a collection of a session that counts has begun, with values or without."""
        self.foreign = self.damaged = 0
        """Values of sessions that do not count; events that could not be read."""

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What the runtime said, in the order in which it did so first."""
        return tuple(self._notices.values())

    def forget(self, pid: int) -> None:
        """What is of a process that has ended."""
        self._known.forget(pid)
        self._notices = {key: notice for key, notice in self._notices.items() if key[0] != pid}
        self.beats.pop(pid, None)
        for is_free in (False, True):
            self._noted.pop((pid, is_free), None)

    def read(self, window: EventTable, pids: Array) -> list[CounterRows]:
        """The values of a window. ``pids`` are of all its rows, -1 where none is told."""
        numbers = [number for number, schema in window.schemas.items() if is_of_metrics(schema)]
        by_id: dict[int, list[int]] = {}
        for number in numbers:
            by_id.setdefault(window.schemas[number].event_id, []).append(number)
        starts = [start for number in by_id.get(COLLECTION_START, ()) for start in self._starts(window, number, pids)]
        for event in (INSTRUMENT_PUBLISHED, BEGIN_REPORTING, END_REPORTING):
            for number in by_id.get(event, ()):
                self._announce(window, number, pids, event)
        for event in NOTICES:
            for number in by_id.get(event, ()):
                self._note(window, number, pids, event)
        times = _Times(window, starts, self._known.seconds)
        made = []
        for event in VALUES:
            for number in by_id.get(event, ()):
                rows = self._values(window, number, pids, event, times)
                if rows is not None:
                    made.append(rows)
        times.remember(self._known.seconds)
        return made

    def _starts(self, window: EventTable, number: int, pids: Array) -> list[tuple[int, int, float]]:
        """(session, place, seconds) of each interval of sessions that count: few, for there is one for many values."""
        places, payloads = window.rows_of(number), window.part(number)
        session = text_field(payloads, "sessionId")
        begin, end = (number_field(payloads, name) for name in ("intervalStartTime", "intervalEndTime"))
        if session is None or begin is None or end is None or {begin.kind, end.kind} != {Kind.DATETIME}:
            self.damaged += len(places)
            return []
        rows = self._whole(payloads)
        seconds = (end.values.astype(np.int64) - begin.values.astype(np.int64)) / _TICKS_S
        sessions, which = distinct_texts(session)
        counts = np.array([self._sessions is None or one in self._sessions for one in sessions], np.bool_)
        rows = rows[counts[which[rows]]]
        at = places[rows]
        whose = pids[at].tolist()
        self.beats.update(whose)
        return [
            (self._known.slot(pid, sessions[code]), place, length)
            for pid, code, place, length in zip(
                whose, which[rows].tolist(), at.tolist(), seconds[rows].tolist(), strict=True
            )
        ]

    def _whole(self, payloads: Payloads) -> Array:
        """The rows that are whole; the others are counted."""
        rows = whole_rows(payloads)
        self.damaged += len(payloads) - len(rows)
        return rows

    def _announce(self, window: EventTable, number: int, pids: Array, event: int) -> None:
        """Instruments: each is told once or twice in a session."""
        places, payloads = window.rows_of(number), window.part(number)
        if not all(name in payloads for name in ("sessionId", "meterName", "instrumentName")):
            self.damaged += len(places)
            return
        rows = self._whole(payloads)
        ms = window.trace.meaning.ms(window.headers[places])
        for row in rows.tolist():
            said = {name: str(value or "") for name, value in payloads.row(row).items()}
            pid = int(pids[places[row]])
            of = None if pid < 0 else pid
            key = InstrumentKey(
                of,
                said["sessionId"],
                said["meterName"],
                said.get("meterVersion", ""),
                said["instrumentName"],
                _number(said.get("instrumentId", "")),
            )
            if event == INSTRUMENT_PUBLISHED and key in self._registry.instruments:
                continue
            made = Instrument(
                key=key,
                type=said.get("instrumentType", ""),
                unit=said.get("unit", ""),
                description=said.get("description", ""),
                tags=self._registry.meter_tags(of, key.provider, said.get("instrumentTags", "")),
                meter_tags=self._registry.meter_tags(of, key.provider, said.get("meterTags", "")),
                scope=said.get("meterScopeHash", ""),
                schema_url=said.get("meterTelemetrySchemaUrl", ""),
                ended_ms=float(ms[row]) if event == END_REPORTING else None,
            )
            known = self._registry.instruments.get(key)
            if (
                event == BEGIN_REPORTING
                and known is not None
                and known.ended_ms is not None
                and known.ended_ms > ms[row]
            ):
                made = replace(made, ended_ms=known.ended_ms)
            is_new_meter = not self._registry.has_meter(of, key.provider)
            self._registry.announce(made)
            if is_new_meter:
                self._registry.reconsider(of, key.provider, float(ms[row]))

    def _note(self, window: EventTable, number: int, pids: Array, event: int) -> None:
        places, payloads = window.rows_of(number), window.part(number)
        rows = self._whole(payloads)
        ms = window.trace.meaning.ms(window.headers[places])
        for row in rows.tolist():
            session, *rest = list(payloads.row(row).items()) or [("", "")]
            pid = int(pids[places[row]])
            parts = [str(value) if name == "errorMessage" else f"{name}={value}" for name, value in rest]
            key = (pid, str(session[1] or ""), NOTICES[event], " ".join(parts))
            known = self._notices.get(key)
            if known is not None:
                self._notices[key] = replace(known, count=known.count + 1)
            elif self._noted[own := (pid if self._is_shared else 0, event in _FREE_TEXTS)] < self._most_notices:
                self._noted[own] += 1
                self._notices[key] = Notice(
                    ms=float(ms[row]), pid=None if pid < 0 else pid, session=key[1], event=key[2], text=key[3], count=1
                )

    def _values(self, window: EventTable, number: int, pids: Array, event: int, times: _Times) -> CounterRows | None:
        places, payloads = window.rows_of(number), window.spans_part(number)
        texts = [text_field(payloads, name) for name in _IDENTITY]
        if any(column is None for column in texts[: len(_IDENTITY) - 1]) or _REQUIRED[event] not in payloads:
            self.damaged += len(places)
            return None
        rows = self._whole(payloads)
        figures, quantiles, wrong = self._figures(payloads, event)
        if wrong.any():
            self.damaged += int(np.count_nonzero(wrong[rows]))
            rows = rows[~wrong[rows]]
        ids = number_field(payloads, "instrumentId")
        own = np.zeros(len(places), np.int64) if ids is None else ids.values.astype(np.int64)
        codes = self._codes(payloads, [one for one in texts if one is not None], event, pids[places], own, rows)
        series = numbers_of(codes)
        self.foreign += int(np.count_nonzero(series == _FOREIGN))
        self._registry.refused += int(np.count_nonzero(series == REFUSED))
        kept = series >= 0
        rows, series, slots = rows[kept], series[kept], slots_of(codes[kept])
        at_place = places[rows]
        return CounterRows(
            place=at_place,
            time=window.headers.time[at_place],
            ms=times.ms[at_place],
            utc_ns=times.utc_ns[at_place],
            series=series,
            figures={
                **{name: column.take(rows) for name, column in figures.items()},
                "interval_s": times.intervals(at_place, slots),
            },
            quantiles={name: column.take(rows) for name, column in quantiles.items()},
        )

    def _figures(self, payloads: Payloads, event: int) -> tuple[dict[str, Scalar], dict[str, Scalar], Array]:
        """Figures and quantiles of all rows, and a mask of those whose texts are no numbers."""
        figures: dict[str, Scalar] = {}
        quantiles: dict[str, Scalar] = {}
        wrong = np.zeros(len(payloads), np.bool_)
        for name, figure in _TEXTS.get(event, {}).items():
            text = text_field(payloads, name)
            if text is not None:
                figures[figure], bad = parsed_numbers(text)
                wrong |= bad
        for name, figure in _NUMBERS.get(event, {}).items():
            numbers = number_field(payloads, name)
            if numbers is not None:
                dtype = np.int64 if FIGURES[figure] is Kind.I8 else np.float64
                figures[figure] = Scalar(numbers.values.astype(dtype), None, FIGURES[figure])
        text = text_field(payloads, "quantiles")
        if text is not None:
            quantiles, bad = parsed_quantiles(text, self._quantiles, self._most_quantiles)
            wrong |= bad
        return figures, quantiles, wrong

    def _codes(
        self, payloads: Payloads, texts: list[Text], event: int, pids: Array, instruments: Array, rows: Array
    ) -> Array:
        """Session and series of each of some rows (``pids`` and ``instruments`` are of all): known by their bytes, or looked up now."""
        form, spans = _leading(payloads, texts)
        if not spans:
            return self._looked_up(texts, event, pids[rows], instruments[rows], rows)
        pids, instruments, spans = pids[rows], instruments[rows], [one.take(rows) for one in spans]
        codes = self._known.find((event, form), pids, instruments, spans)
        new = np.flatnonzero(codes == UNMET)
        if len(new):
            pids, instruments, spans = pids[new], instruments[new], [one.take(new) for one in spans]
            codes[new] = found = self._looked_up(texts, event, pids, instruments, rows[new])
            lasting = np.where(numbers_of(found) == REFUSED, UNMET, found)  # there may be room another time
            self._known.learn((event, form), pids, instruments, spans, lasting)
        return codes

    def _looked_up(self, texts: list[Text], event: int, pids: Array, instruments: Array, rows: Array) -> Array:
        """The same of rows that were not met: ``pids`` and ``instruments`` are of these, ``texts`` of all."""
        words = [distinct_texts(column.take(rows)) for column in texts]
        firsts, which = combined([pids, instruments, *(codes for _, codes in words)], len(rows))
        codes = np.zeros(len(firsts), np.int64)
        for at, first in enumerate(firsts.tolist()):
            session, meter, name, unit, tags, *more = (known[int(which_text[first])] for known, which_text in words)
            pid = int(pids[first])
            if self._sessions is not None and session not in self._sessions:
                codes[at] = code_of(0, _FOREIGN)
                continue
            version = more[0] if more else ""
            key = InstrumentKey(None if pid < 0 else pid, session, meter, version, name, int(instruments[first]))
            series = self._registry.number(SeriesKey(key, VALUES[event], unit, tags))
            codes[at] = code_of(self._known.slot(pid, session) if series >= 0 else 0, series)
        return codes[which]


def _leading(payloads: Payloads, texts: list[Text]) -> tuple[tuple[tuple[str, str], ...], list[Spans]]:
    """What texts a payload begins with, and where they lie, if they are those that are given, so that their bytes are as one; none if not."""
    form, spans = [], []
    for name, column in list(payloads.columns.items())[: len(texts)]:
        span = column.spans if isinstance(column, Text) and any(column is text for text in texts) else None
        if span is None:
            return (), []
        form.append((name, span.encoding))
        spans.append(span)
    return tuple(form), spans


class _Times:
    """When the events of a window were, and how long the intervals that their values are of: as the last start of their session says, in the window
    or before it. ``starts`` are (session, place, seconds), ``before`` the seconds by session.
    """

    def __init__(self, window: EventTable, starts: list[tuple[int, int, float]], before: list[float]) -> None:
        self.ms, self.utc_ns = window.trace.meaning.ms(window.headers), window.trace.meaning.utc_ns(window.headers)
        self._starts = sorted(starts)
        self._before = before
        self._rows = len(window)
        self._keys = np.array([slot * self._rows + place for slot, place, _ in self._starts], np.int64)
        self._seconds = np.array([seconds for *_, seconds in self._starts], np.float64)

    def intervals(self, places: Array, slots: Array) -> Scalar:
        """Of some rows of the window, each of a session."""
        seconds = np.array(self._before, np.float64)[slots] if len(slots) else np.zeros(0)
        if len(self._keys):
            at = np.searchsorted(self._keys, slots * self._rows + places, side="right") - 1
            told = (at >= 0) & (self._keys[at] >= slots * self._rows)
            seconds[told] = self._seconds[at[told]]
        return Scalar(seconds, seconds > 0, Kind.F8)

    def remember(self, into: list[float]) -> None:
        """Keep the last of each session for the next window."""
        for slot, _, seconds in self._starts:
            into[slot] = seconds


def _number(text: str) -> int:
    """0 for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else 0
