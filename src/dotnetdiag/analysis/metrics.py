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
from dataclasses import dataclass, replace

import numpy as np

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
from dotnetdiag.analysis.series import (
    REFUSED,
    UNWANTED,
    CounterKind,
    Instrument,
    InstrumentKey,
    SeriesKey,
    SeriesRegistry,
)
from dotnetdiag.events import EventSchema, Scalar
from dotnetdiag.events import Table as Payloads
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
        self._intervals: dict[tuple[int, str], float] = {}
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
        self._intervals = {key: seconds for key, seconds in self._intervals.items() if key[0] != pid}
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
        starts = [self._starts(window, number, pids) for number in by_id.get(COLLECTION_START, ())]
        for event in (INSTRUMENT_PUBLISHED, BEGIN_REPORTING, END_REPORTING):
            for number in by_id.get(event, ()):
                self._announce(window, number, pids, event)
        for event in NOTICES:
            for number in by_id.get(event, ()):
                self._note(window, number, pids, event)
        intervals = _Intervals(starts, self._intervals)
        made = []
        for event in VALUES:
            for number in by_id.get(event, ()):
                rows = self._values(window, number, pids, event, intervals)
                if rows is not None:
                    made.append(rows)
        intervals.remember(self._intervals)
        return made

    def _starts(self, window: EventTable, number: int, pids: Array) -> list[tuple[int, int, str, float]]:
        """(place, pid, session, seconds) of each interval: few, for there is one for many values."""
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
        self.beats.update(pids[places[rows[counts[which[rows]]]]].tolist())
        return [(int(places[row]), int(pids[places[row]]), sessions[which[row]], float(seconds[row])) for row in rows.tolist()]  # fmt: skip

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

    def _values(
        self, window: EventTable, number: int, pids: Array, event: int, intervals: _Intervals
    ) -> CounterRows | None:
        places, payloads = window.rows_of(number), window.part(number)
        names = ("sessionId", "meterName", "instrumentName", "unit", "tags")
        texts = [text_field(payloads, name) for name in (*names, "meterVersion")]
        if any(column is None for column in texts[: len(names)]) or _REQUIRED[event] not in payloads:
            self.damaged += len(places)
            return None
        rows = self._whole(payloads)
        figures: dict[str, Scalar] = {}
        quantiles: dict[str, Scalar] = {}
        wrong = np.zeros(len(places), np.bool_)
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
        self.damaged += int(np.count_nonzero(wrong[rows]))
        rows = rows[~wrong[rows]]
        known = [distinct_texts(column) if column is not None else ([""], np.zeros(len(places), np.int64)) for column in texts]  # fmt: skip
        ids = number_field(payloads, "instrumentId")
        own = np.zeros(len(places), np.int64) if ids is None else ids.values.astype(np.int64)
        firsts, which = combined([pids[places[rows]], own[rows], *(codes[rows] for _, codes in known)], len(rows))
        series, sessions = np.full(len(firsts), UNWANTED, np.int64), []
        counts, refused = np.bincount(which, minlength=len(firsts)).tolist(), 0
        first = rows[firsts]
        of_first = [[words[code] for code in codes[first].tolist()] for words, codes in known]
        whose, which_of = pids[places[first]].tolist(), own[first].tolist()
        for at, (pid, instrument, session, meter, name, unit, tags, version) in enumerate(
            zip(whose, which_of, *of_first, strict=True)
        ):
            sessions.append((pid, session))
            if self._sessions is not None and session not in self._sessions:
                self.foreign += counts[at]
                continue
            key = InstrumentKey(None if pid < 0 else pid, session, meter, version, name, instrument)
            series[at] = number = self._registry.number(SeriesKey(key, VALUES[event], unit, tags))
            refused += counts[at] if number == REFUSED else 0
        self._registry.refused += refused
        figures["interval_s"] = Scalar(np.zeros(len(places)), np.zeros(len(places), np.bool_), Kind.F8)
        intervals.fill(figures["interval_s"], rows, places, which, sessions)
        of_row = series[which]
        rows, of_row = rows[of_row >= 0], of_row[of_row >= 0]
        at_place = places[rows]
        headers = window.headers[at_place]
        return CounterRows(
            place=at_place,
            time=headers.time,
            ms=window.trace.meaning.ms(headers),
            utc_ns=window.trace.meaning.utc_ns(headers),
            series=of_row,
            figures={name: column.take(rows) for name, column in figures.items()},
            quantiles={name: column.take(rows) for name, column in quantiles.items()},
        )


class _Intervals:
    """How long the intervals were that values are of: as the last start of their session says, in the window or before it."""

    def __init__(
        self, starts: list[list[tuple[int, int, str, float]]], before: Mapping[tuple[int, str], float]
    ) -> None:
        self._before = before
        self._starts: dict[tuple[int, str], list[tuple[int, float]]] = {}
        for place, pid, session, seconds in sorted(start for some in starts for start in some):
            self._starts.setdefault((pid, session), []).append((place, seconds))

    def fill(self, column: Scalar, rows: Array, places: Array, which: Array, sessions: list[tuple[int, str]]) -> None:
        """Set the intervals of some rows: ``which`` of the kinds each is, of which ``sessions`` each kind is."""
        assert column.valid is not None
        keys = {key: number for number, key in enumerate(dict.fromkeys(sessions))}
        of_row = np.array([keys[key] for key in sessions], np.int64)[which] if sessions else which
        for key, number in keys.items():
            own = rows[of_row == number]
            started = self._starts.get(key, [])
            before = self._before.get(key, 0.0)
            seconds = np.array([before, *(length for _, length in started)])
            at = np.searchsorted(np.array([place for place, _ in started], np.int64), places[own], side="right")
            column.values[own] = seconds[at]
            column.valid[own] = seconds[at] > 0

    def remember(self, into: dict[tuple[int, str], float]) -> None:
        """Keep the last of each session for the next window."""
        for key, started in self._starts.items():
            into[key] = started[-1][1]


def _number(text: str) -> int:
    """0 for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else 0
