"""What a program counts and measures: EventCounters and System.Diagnostics.Metrics, of a recording or of a session that runs.

One row for each event that brings a value, at the time of that event. What a row says depends on its kind:

=============  ==============================================  ====================================  ===============================
kind           value                                           rate, delta                           count, sum, quantiles
=============  ==============================================  ====================================  ===============================
counter        sum since the runtime began to report (8+)      added in the interval
updowncounter  sum since the runtime began to report (8+)      added in the interval
gauge          the last value
histogram                                                                                            of the interval; count, sum: 8+
mean           mean of the interval; 0 where there was none                                          count
rate           added in the interval                           added in the interval
=============  ==============================================  ====================================  ===============================

A histogram that tells buckets in the place of quantiles (.NET 10, when asked) has count and sum since the runtime began to report, unless it was
asked for differences; the buckets are not read.

``delta`` is what was added, ``rate`` that per second: over ``interval_s``, which the event of an EventCounter says itself, and the runtime
says of all metrics together before their events. What the runtime does not say is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis.counter_rows import FIGURES, QUANTILES, Array, CounterRows
from dotnetdiag.analysis.distinct import places_of
from dotnetdiag.analysis.event_counters import is_event_counters, read_event_counters
from dotnetdiag.analysis.fold import OfTypes, fold
from dotnetdiag.analysis.metrics import MetricsReader, Notice, is_of_metrics
from dotnetdiag.analysis.series import CounterKind, Instrument, Series, SeriesKey, SeriesRegistry
from dotnetdiag.errors import UsageError
from dotnetdiag.events import Column, EventSchema, Scalar, Struct, Text
from dotnetdiag.events.columns import Coded, Maps
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import HasTable, Losses, Table
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

FIXED = (
    "ms", "utc", "provider", "instrument", "kind", "unit", "tags", "value", "rate", "interval_s", "count", "sum", "quantiles",
)  # fmt: skip
"""The columns of :meth:`Counters.table`, which programs may rely on."""
LONGEST_INTERVAL_S = 1e8
"""Three years: a program that lies may say any."""
MORE = ("time", "delta", "min", "max", "stddev", "pid", "series")
"""Those that ``rows`` has besides."""
UNITS = {"ms": "ms", "interval_s": "s"}
NO_COUNTERS = (
    "there are no values of counters: record with --providers System.Runtime:0:4:EventCounterIntervalSec=1, or with the arguments of "
    "System.Diagnostics.Metrics"
)
IN_THE_WAY = frozenset({"MultipleSessionsNotSupportedError", "MultipleSessionsConfiguredIncorrectlyError"})
"""Notices for which a session has no values of meters: somebody else has the only one, or one with other limits."""
_EXPECTED = re.compile(r"expected(\w+)=(\S+)", re.ASCII)

_SHOWN = {
    CounterKind.COUNTER: "rate",
    CounterKind.RATE: "rate",
    CounterKind.GAUGE: "value",
    CounterKind.MEAN: "value",
    CounterKind.UP_DOWN_COUNTER: "value",
}
"""The figure of a kind that people look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterLine:
    """One figure of a series over time: the rate of what is added up, a quantile (``figure``: ``0.95``), else the value. NaN where there is
    none. ``unit`` is that of the values.
    """

    series: Series
    figure: str
    unit: str
    ms: Array
    values: Array

    @property
    def label(self) -> str:
        """The tags, and the quantile, in one line."""
        tags = [f"{key}={value}" for key, value in self.series.tags.items()]
        return ", ".join([*tags, *([f"quantile {self.figure}"] if self.figure else [])])


def _order(series: Series) -> tuple[str, str, int, list[tuple[str, str]], int]:
    return series.provider, series.name, series.pid or 0, list(series.tags.items()), series.number


@dataclass(frozen=True, kw_only=True, repr=False)
class Counters(HasTable):
    """Values of counters, in time order.

    ``rows`` has, for each, ``ms`` since the start, ``utc`` (text, seven decimals) and ``time``, ``provider`` (the meter, or the EventSource),
    ``instrument``, ``kind``, ``unit``, ``tags`` (a dict), the figures that the module's table tells, ``quantiles`` (by ``0.5``, ``0.95``,
    ``0.99``), ``min``, ``max`` and ``stddev`` (of means; of histograms with buckets the first two), ``pid``, and the number of its series.

    ``series`` are what the rows are of, ``instruments`` what the runtime announced, with a value or without; ``notices`` what it said of
    limits and errors. ``damaged`` events could not be read, ``foreign`` values are of sessions that were not asked for, ``refused`` are
    those of series beyond the limit of a fold.
    """

    rows: Table
    series: tuple[Series, ...]
    instruments: tuple[Instrument, ...]
    notices: tuple[Notice, ...]
    damaged: int
    foreign: int
    refused: int

    def __len__(self) -> int:
        return len(self.rows)

    def table(self) -> Table:
        """The rows with the columns of :data:`FIXED`."""
        rows = self.rows
        return Table(
            {name: rows[name] for name in FIXED},
            title=rows.title,
            units=UNITS,
            notes=rows.notes,
            losses=rows.losses,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd, or missing, in lines."""
        return self.rows.notes

    def lines(self) -> Iterator[CounterLine]:
        """What a picture of the rows shows: series by provider, instrument and tags, each over time."""
        ms, rows = self.rows.numpy("ms"), self.rows
        quantiles = rows["quantiles"]
        assert isinstance(quantiles, Struct)
        for one in sorted(self.series, key=_order):
            places = self.of_series(one.number)
            shown = quantiles.fields if one.kind is CounterKind.HISTOGRAM else {"": rows[_SHOWN[one.kind]]}
            for figure, column in shown.items():
                assert isinstance(column, Scalar)
                values = np.where(_valid(column)[places], column.values[places].astype(np.float64), np.nan)
                if not figure or not np.isnan(values).all():
                    unit = f"{one.unit}/s" if one.kind in (CounterKind.COUNTER, CounterKind.RATE) else one.unit
                    yield CounterLine(series=one, figure=figure, unit=unit, ms=ms[places], values=values)

    def summary(self) -> Table:
        """A row for each of the :meth:`lines`: how many values it has, the least, the mean, the most and the last of them; None where it
        has none.
        """
        names = ("least", "mean", "most", "last")
        rows = []
        for line in self.lines():
            some = line.values[~np.isnan(line.values)]
            of_all: tuple[Any, ...] = (None,) * len(names)
            if len(some):
                with np.errstate(all="ignore"):  # values may be endless
                    of_all = (some.min(), some.mean(), some.max(), some[-1])
            rows.append(
                {
                    "provider": line.series.provider,
                    "instrument": line.series.name,
                    "kind": line.series.kind.value,
                    "unit": line.unit,
                    "tags": line.label,
                    "rows": len(line.values),
                    **{name: None if one is None else float(one) for name, one in zip(names, of_all, strict=True)},
                }
            )
        columns = ["provider", "instrument", "kind", "unit", "tags", "rows", *names]
        return Table.of_rows(
            rows, columns=columns, title="series of counters", notes=self.notes, losses=self.rows.losses
        )

    @cached_property
    def _by_series(self) -> dict[int, Array]:
        return dict(places_of(self.rows.numpy("series")))

    def of_series(self, number: int) -> Array:
        """The places of one series' rows, in time order; none for a number that is not there."""
        return self._by_series.get(number, np.zeros(0, np.int64))


def counters(trace: Trace, *, sessions: Collection[str] | None = None) -> Counters:
    """The values of counters of a trace. ``sessions`` are ids of sessions of System.Diagnostics.Metrics whose values count (None: all)."""
    (made,) = fold(trace, CountersFold(sessions=sessions))
    return made


class CountersFold:
    """What :func:`counters` asks, window by window.

    Of a session that has no end: :meth:`take` after a window has the rows since the last time, :meth:`latest` the last of each series. Series
    keep their numbers. The tags of a series are what could be known of them when they were first given out.
    """

    needs_activities = False

    def __init__(
        self,
        *,
        sessions: Collection[str] | None = None,
        series: Callable[[SeriesKey], bool] | None = None,
        per_process: int | None = None,
    ) -> None:
        """``sessions`` as of :func:`counters`; ``series`` says of each when it comes first whether its values count (None: all do).
        ``per_process``: of many processes, so many series of each at most, so that one that lies takes nothing from the others.
        """
        if isinstance(sessions, str):
            raise UsageError(f"sessions={sessions!r}: give a list, as [{sessions!r}]")
        self._registry = SeriesRegistry(series, per_process)
        self._metrics = MetricsReader(self._registry, sessions, only_usual=per_process is not None)
        self._counted = OfTypes(self.wants)
        self._rows: list[CounterRows] = []
        self._latest: CounterRows | None = None
        self._damaged = 0
        self._losses: Callable[[], Losses] | None = None
        self._ended = False

    def wants(self, schema: EventSchema) -> bool:
        """Events of EventCounters, and of System.Diagnostics.Metrics."""
        return is_event_counters(schema) or is_of_metrics(schema)

    @np.errstate(all="ignore")  # the numbers of a damaged file may be any
    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        context = window.trace
        self._losses = lambda: context.losses
        window = self._counted.of(window)
        if not len(window):
            return
        pids, known = context.meaning.pid(window.headers)
        pids = np.where(known, pids.astype(np.int64), -1)
        made = self._metrics.read(window, pids)
        for number, schema in window.schemas.items():
            if is_event_counters(schema):
                rows, damaged = read_event_counters(window, number, pids, self._registry)
                self._damaged += damaged
                made += [] if rows is None else [rows]
        whole = CounterRows.concatenate(made)
        interval = whole.figures.get("interval_s")
        if interval is not None:  # what is none is not told
            known = (interval.values > 0) & (interval.values < LONGEST_INTERVAL_S)
            valid = known if interval.valid is None else interval.valid & known
            whole = replace(
                whole, figures={**whole.figures, "interval_s": Scalar(interval.values, valid, interval.kind)}
            )
        if len(whole):
            self._rows.append(whole.take(np.argsort(whole.place, kind="stable")))

    def take(self) -> Counters:
        """The rows of what was fed since the last time. Raises UsageError before the first window, and after :meth:`result`."""
        rows = self._pending()
        self._latest = self._last_of(rows)
        self._rows = []
        return self._made(rows)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What runtimes have said of their sessions so far."""
        return self._metrics.notices

    def beats(self, pid: int) -> int:
        """How often the runtime of a process has begun to collect values of meters: once in an interval, also where there are none."""
        return self._metrics.beats[pid]

    def has_meter(self, pid: int | None, provider: str) -> bool:
        """Whether a process has announced instruments of a meter of this name. (EventCounters of the same name say the same.)"""
        return self._registry.has_meter(pid, provider)

    def forget(self, pid: int) -> None:
        """What is of a process that has ended, and values of it that were not taken."""
        gone = [number for number, key in self._registry.keys.items() if key.instrument.pid == pid]
        self._rows = [rows.take(~np.isin(rows.series, gone)) for rows in self._rows]
        if self._latest is not None:
            self._latest = self._latest.take(~np.isin(self._latest.series, gone))
        self._registry.forget(pid)
        self._metrics.forget(pid)

    def latest(self) -> Counters:
        """The last row of each series that the runtime still reports, in time order, of all that was fed."""
        last = self._last_of(self._pending())
        over = {key for key, one in self._registry.instruments.items() if one.ended_ms is not None}
        if over:
            keys = self._registry.keys
            last = last.take(
                np.array([keys[number].instrument not in over for number in last.series.tolist()], np.bool_)
            )
        return self._made(last)

    def result(self) -> Counters:
        """All rows that were not taken. Raises UsageError before the first window, and when it was given already."""
        rows = self._pending()
        self._ended = True
        self._rows = []
        return self._made(rows)

    def _pending(self) -> CounterRows:
        if self._losses is None:
            raise UsageError("no window was fed")
        if self._ended:
            raise UsageError("the result was given already")
        rows = CounterRows.concatenate(self._rows)
        return rows if _is_ascending(rows.time) else rows.take(np.argsort(rows.time, kind="stable"))

    def _last_of(self, rows: CounterRows) -> CounterRows:
        """The last row of each series, of these and the ones before them."""
        whole = rows if self._latest is None else CounterRows.concatenate([self._latest, rows])
        order = np.argsort(whole.series, kind="stable")
        ordered = whole.series[order]
        last = whole.take(np.sort(order[np.append(ordered[1:] != ordered[:-1], True)]) if len(order) else order)
        return last if _is_ascending(last.time) else last.take(np.argsort(last.time, kind="stable"))

    def _made(self, rows: CounterRows) -> Counters:
        assert self._losses is not None
        numbers, which = np.unique(rows.series, return_inverse=True)
        series = tuple(map(self._registry.series, numbers.tolist()))
        damaged = self._damaged + self._metrics.damaged
        return Counters(
            rows=Table(
                _columns(rows, series, which.ravel()),
                title="values of counters",
                units=UNITS,
                notes=self._notes(damaged),
                losses=self._losses(),
            ),
            series=series,
            instruments=tuple(self._registry.instruments.values()),
            notices=self._metrics.notices,
            damaged=damaged,
            foreign=self._metrics.foreign,
            refused=self._registry.refused,
        )

    def _notes(self, damaged: int) -> tuple[str, ...]:
        notes = []
        if not self._registry.has_given and not damaged:
            notes.append(NO_COUNTERS)
        if damaged:
            notes.append(f"{damaged:,} events of counters could not be read, and are left out")
        if self._metrics.foreign:
            notes.append(f"{self._metrics.foreign:,} values of other sessions are left out")
        if self._registry.refused:
            notes.append(f"{self._registry.refused:,} values of series beyond the limit are left out")
        if self._registry.undescribed:
            notes.append(f"{self._registry.undescribed:,} instruments beyond the limit are not described")
        sessions = self._registry.sessions
        if len(sessions) > 1:
            notes.append(f"values of {len(sessions)} sessions: {', '.join(sessions)}")
        notes += map(notice_text, self._metrics.notices)
        return tuple(notes)


def notice_text(notice: Notice) -> str:
    """A line for people."""
    times = f" ({notice.count:,} times)" if notice.count > 1 else ""
    first = notice.text.partition("\n")[0].strip()
    said = {
        "TimeSeriesLimitReached": "the limit of time series was reached: the runtime reports no others (MaxTimeSeries)",
        "HistogramLimitReached": "the limit of histograms was reached: the runtime reports no others (MaxHistograms)",
        "ObservableInstrumentCallbackError": f"an instrument failed when it was asked for its value: {first}",
        "MultipleSessionsNotSupportedError": f"the runtime serves one session of its own at a time: {notice.session}",
        "MultipleSessionsConfiguredIncorrectlyError": f"another tool has the session of meters, and its limits count: {_limits_text(first)}",
    }.get(notice.event, f"the runtime reports an error: {first}")
    return f"{said}{times}"


def _limits_text(text: str) -> str:
    """``MaxTimeSeries 500, …``, of what the runtime says that it expects."""
    return ", ".join(f"{name} {value}" for name, value in _EXPECTED.findall(text)) or text


def _is_ascending(values: Array) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _columns(rows: CounterRows, series: tuple[Series, ...], which: Array) -> dict[str, Column]:
    def coded(texts: list[str]) -> Coded:
        return Coded(texts, which)

    delta, interval = rows.figure("delta"), rows.figure("interval_s")
    both = _valid(delta) & _valid(interval) & (interval.values > 0)
    with np.errstate(all="ignore"):
        rate = np.divide(delta.values, interval.values, out=np.zeros(len(rows)), where=both)
    known = ~np.isnat(rows.utc_ns.view("datetime64[ns]"))
    of_series = [one.instrument.key.pid for one in series]
    pids = np.array([pid or 0 for pid in of_series], np.int64)[which]
    told = np.array([pid is not None for pid in of_series], np.bool_)[which]
    names = dict.fromkeys((*QUANTILES, *rows.quantiles))
    quantiles = {name: rows.quantile(name) for name in names}
    some = np.zeros(len(rows), np.bool_)
    for column in quantiles.values():
        some |= _valid(column)
    return {
        "ms": Scalar(rows.ms, None, Kind.F8),
        "utc": _utc_texts(rows.utc_ns, known),
        "provider": coded([one.provider for one in series]),
        "instrument": coded([one.name for one in series]),
        "kind": coded([one.kind.value for one in series]),
        "unit": coded([one.unit for one in series]),
        "tags": Maps([one.tags for one in series], which),
        "value": rows.figure("value"),
        "rate": Scalar(rate, both, Kind.F8),
        "interval_s": interval,
        "count": rows.figure("count"),
        "sum": rows.figure("sum"),
        "quantiles": Struct(quantiles, len(rows), some),
        "time": Scalar(np.where(known, rows.utc_ns, 0), None if known.all() else known, Kind.TIMESTAMP),
        **{name: rows.figure(name) for name in FIGURES if name in MORE},
        "pid": Scalar(pids, None if told.all() else told, Kind.I8),
        "series": Scalar(rows.series, None, Kind.I8),
    }


def _valid(column: Any) -> Array:
    return np.ones(len(column), np.bool_) if column.valid is None else column.valid


def _utc_texts(utc_ns: Array, known: Array) -> Text:
    """ISO 8601 with seven decimals (cut off) and ``Z``, as everywhere; none where 64 bits do not hold the time."""
    stamps = np.where(known, utc_ns, 0).view("datetime64[ns]")
    raw = np.datetime_as_string(stamps, unit="ns").astype("S27") if len(stamps) else np.zeros(0, "S27")
    data = np.full((len(raw), 28), ord("Z"), np.uint8)
    data[:, :27] = raw.view(np.uint8).reshape(-1, 27)
    return Text(np.arange(len(raw) + 1, dtype=np.int64) * 28, data.ravel(), None if known.all() else known)
