"""The values of EventCounters: events of that name, of any EventSource (nettrace.md §10.3).

The payload is a structure ``Payload``, read by the names of its members: a mean (``EventCounter``, ``PollingCounter``) has ``Mean``, an
increment (``IncrementingEventCounter``, ``IncrementingPollingCounter``) has ``Increment``, which is that of the interval, whatever
``DisplayRateTimeScale`` says. 2.x has neither display names nor units. A source that several sessions listen to
ticks for all of them as often as one of them wants: each event has its own interval.
"""

from __future__ import annotations

import numpy as np

from dotnetdiag.analysis.counter_rows import (
    FIGURES,
    Array,
    CounterRows,
    as_floats,
    number_field,
    text_field,
    whole_rows,
)
from dotnetdiag.analysis.distinct import combined, distinct_texts
from dotnetdiag.analysis.series import REFUSED, CounterKind, Instrument, InstrumentKey, SeriesKey, SeriesRegistry
from dotnetdiag.events import EventSchema, Scalar
from dotnetdiag.events import Table as Payloads
from dotnetdiag.trace.table import EventTable

EVENT_COUNTERS = "EventCounters"
_FIGURES = {"interval_s": "IntervalSec", "count": "Count", "min": "Min", "max": "Max", "stddev": "StandardDeviation"}


def is_event_counters(schema: EventSchema) -> bool:
    """Whether events of this type are values of EventCounters."""
    return schema.name == EVENT_COUNTERS


def read_event_counters(
    window: EventTable, number: int, pids: Array, registry: SeriesRegistry
) -> tuple[CounterRows | None, int]:
    """The values of one type in a window, and how many of its events could not be read. ``pids`` are of all rows, -1 where none is told."""
    places, payloads = window.rows_of(number), window.part(number)
    name = text_field(payloads, "Payload.Name")
    kind = CounterKind.RATE if "Payload.Increment" in payloads else CounterKind.MEAN
    value = number_field(payloads, "Payload.Increment" if kind is CounterKind.RATE else "Payload.Mean")
    if name is None or value is None:
        return None, len(places)
    rows = whole_rows(payloads)
    damaged = len(places) - len(rows)
    series = _series(window.schemas[number].provider, kind, payloads, rows, pids[places], registry)
    kept = series >= 0
    registry.refused += int(np.count_nonzero(series == REFUSED))
    rows, series = rows[kept], series[kept]
    figures = {"value": Scalar(as_floats(value)[rows], None, FIGURES["value"])}
    if kind is CounterKind.RATE:
        figures["delta"] = figures["value"]
    for figure, member in _FIGURES.items():
        field = number_field(payloads, f"Payload.{member}")
        if field is not None:
            values = field.values.astype(np.int64) if figure == "count" else as_floats(field)
            figures[figure] = Scalar(values[rows], None, FIGURES[figure])
    if "count" in figures:  # of no values, there is no least
        some = figures["count"].values > 0
        for figure in ("min", "max"):
            if figure in figures:
                figures[figure] = Scalar(np.where(some, figures[figure].values, 0.0), some, FIGURES[figure])
    at = places[rows]
    headers = window.headers[at]
    made = CounterRows(
        place=at,
        time=headers.time,
        ms=window.trace.meaning.ms(headers),
        utc_ns=window.trace.meaning.utc_ns(headers),
        series=series,
        figures=figures,
        quantiles={},
    )
    return made, damaged


def _series(
    provider: str, kind: CounterKind, payloads: Payloads, rows: Array, pids: Array, registry: SeriesRegistry
) -> Array:
    """The number of the series of each of some rows, or what stands in its place."""
    texts, codes = [], [pids[rows]]
    for name in ("Name", "DisplayUnits", "Metadata", "DisplayName", "DisplayRateTimeScale"):
        column = text_field(payloads, f"Payload.{name}")
        known, which = (
            distinct_texts(column.take(rows)) if column is not None else ([""], np.zeros(len(rows), np.int64))
        )
        texts.append(known)
        codes.append(which)
    firsts, which = combined(codes, len(rows))
    numbers = []
    for first in firsts.tolist():
        name, unit, tags, title, scale = (known[int(code[first])] for known, code in zip(texts, codes[1:], strict=True))
        pid = int(pids[rows[first]])
        key = InstrumentKey(None if pid < 0 else pid, "", provider, "", name, 0)
        number = registry.number(SeriesKey(key, kind, unit, tags))
        numbers.append(number)
        if number != REFUSED and key not in registry.instruments:
            registry.announce(Instrument(key=key, unit=unit, description=title, rate_s=_seconds(scale)))
    return np.array(numbers, np.int64)[which] if numbers else np.zeros(0, np.int64)


def _seconds(text: str) -> float | None:
    """Of a TimeSpan as ``[d.]hh:mm:ss[.fffffff]``; None for what is none."""
    days, _, rest = text.rpartition(".") if text.count(":") == 2 and "." in text.partition(":")[0] else ("", "", text)
    if days:
        days, _, rest = text.partition(".")
    try:
        hours, minutes, seconds = (float(part) for part in rest.split(":"))
        return float(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds
    except ValueError:
        return None
