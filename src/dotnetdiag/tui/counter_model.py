"""What is kept of counters for a screen: processes, and the last values of each of their series.

Rule 1: who takes the updates need not wait for who looks at them. Of a row each figure is written whole, and the history of a row grows at its
end alone, so that it may be drawn while it is written.
Rule 2: memory is bounded: :data:`HISTORY` values of a row, :data:`ROWS_LIMIT` rows (others are counted), :data:`LOG_LIMIT` lines.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis.meant_kinds import meant_kind
from dotnetdiag.tui.counter_changes import change_text, missing_text, process_text, silence_text
from dotnetdiag.tui.counter_values import instrument_text, shown_figure, tag_texts
from dotnetdiag.tui.plain import clean

if TYPE_CHECKING:
    from dotnetdiag.analysis.counters import Counters
    from dotnetdiag.analysis.series import InstrumentKey, Series
    from dotnetdiag.recipes.counter_watch import CounterChange, CounterProcess, CounterSilence, CounterUpdate

HISTORY = 300
"""Values of a row: five minutes of seconds."""
ROWS_LIMIT = 20_000
"""Ten times what 50 processes of 40 series have."""
LOG_LIMIT = 100
STAYS_S = 60.0
"""So long one that has gone stays."""
COUNT = "count/s"
"""The figure of a histogram that says how often it was recorded."""
_FIGURES = ("value", "rate", "count", "sum")
"""Columns of the values, as thresholds call them too."""


def percentile(quantile: str) -> str:
    """``p95`` for ``0.95``."""
    return f"p{float(quantile) * 100:g}"


class Threshold(Protocol):
    """A limit on one figure of some series."""

    def concerns(self, series: Series) -> bool:
        """Whether it is about this series."""

    def figure_of(self, kind: str) -> str:
        """Which figure of a series of this kind: ``value``, ``rate``, ``count``, ``sum``, ``p95``."""

    def is_crossed(self, value: float) -> bool:
        """Whether a value is beyond it."""


@dataclass(slots=True, kw_only=True)
class CounterRow:
    """One figure of a series: what people look at of its kind, a quantile, or :data:`COUNT`. Its texts are clean.

    ``change`` is that since the interval before; ``history`` has NaN for an interval that had no value.
    """

    key: tuple[int, str]
    """The number of the series, and the figure: empty, the quantile, or :data:`COUNT`."""
    process: int
    of_process: str
    provider: str
    name: str
    tags: str
    brief_tags: str
    """Their values alone, for where there is no room for more; of a quantile ``p95``."""
    order: tuple[str, str, str, float]
    instrument: InstrumentKey
    limits: tuple[tuple[str, Threshold], ...] = ()
    """Figures that may be beyond a threshold: what is shown, or another one of the same events."""
    value: float | None = None
    change: float | None = None
    is_crossed: bool = False
    has_ended: bool = False
    """The runtime reports the instrument no longer."""
    is_stale: bool = False
    """Its process is gone, or has given no values for some intervals: what is shown is of before."""
    history: array[float] = field(default_factory=lambda: array("d"))

    def add(self, value: float | None, figures: Mapping[str, float | None] = MappingProxyType({})) -> None:
        """The value of the next interval; None: there was none. ``figures`` are all that its event has, as thresholds call them."""
        before = self.value
        self.change = None if value is None or before is None else value - before
        self.value = value
        self.is_crossed = any(
            (figure := figures.get(name)) is not None and one.is_crossed(figure) for name, one in self.limits
        )
        self.has_ended = self.is_stale = False
        self.history.append(nan if value is None else value)
        if len(self.history) > HISTORY:
            del self.history[0]

    def copy(self) -> CounterRow:
        """As it is now, and stays."""
        return replace(self, history=self.history[:])

    def words(self) -> str:
        """What a filter looks at."""
        return f"{self.provider} {self.name} {self.tags} {self.of_process}".casefold()


@dataclass(slots=True, kw_only=True)
class WatchedProcess:
    """One that is watched, or was: ``gone`` is the time of day when it went, ``why`` is clean, and empty where nobody knows."""

    number: int
    name: str
    """Clean, with the process id."""
    heard_s: float
    """When it had a value the last time, or was joined; ``clock`` of the model."""
    gone: str = ""
    gone_s: float | None = None
    why: str = ""
    silence: CounterSilence | None = None
    """What was told of it, while it gives no values."""

    @property
    def is_gone(self) -> bool:
        """Whether it is watched no longer."""
        return self.gone_s is not None


class CounterModel:
    """Takes updates; see the rules above. ``clock`` counts seconds, ``time_of_day`` stands before the lines of the log."""

    def __init__(
        self,
        thresholds: Sequence[Threshold] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._thresholds = tuple(thresholds)
        self._clock, self._time_of_day = clock, time_of_day
        self.processes: dict[int, WatchedProcess] = {}
        """In the order in which they came, with those that have gone of late."""
        self.log: deque[str] = deque(maxlen=LOG_LIMIT)
        """What has happened, a clean line each."""
        self.departures: deque[CounterChange] = deque(maxlen=LOG_LIMIT)
        """Those that went, or could not be watched, for a reason."""
        self.version = 0
        """Another one where rows have come or gone; their values may be others in any case."""
        self.updates = 0
        self._rows: dict[int, dict[int, dict[str, CounterRow]]] = {}
        """By process, series and figure."""
        self._count = 0
        self._refused: dict[int, set[int]] = {}
        self._ended: frozenset[InstrumentKey] = frozenset()

    @property
    def has_thresholds(self) -> bool:
        """Whether rows may be beyond one."""
        return bool(self._thresholds)

    @property
    def refused(self) -> int:
        """Series that have no rows, for there are too many."""
        return sum(map(len, self._refused.values()))

    def rows(self, process: int | None = None) -> Iterator[CounterRow]:
        """Of one process, or of all."""
        for number in self._rows if process is None else (process,):
            for figures in self._rows.get(number, {}).values():
                yield from figures.values()

    def silent_s(self, process: WatchedProcess) -> float:
        """So long it has had no values."""
        return self._clock() - process.heard_s

    def take(self, update: CounterUpdate) -> list[str]:
        """An interval. Returns what has happened in it: the lines that the log has more."""
        self.updates += 1
        said = []
        for change in update.changes:
            if change.joined:
                self._join(change.process)
        if update.counters is not None:
            self._take_values(update.counters)
        said += [clean(f"{process_text(notice.process)}: {notice.text}") for notice in update.notices]
        for silence in update.silences:
            said.append(clean(silence_text(silence)))
            if (silent := self.processes.get(silence.process.number)) is not None:
                silent.silence = None if silence.is_over else silence
                if not silence.is_over:
                    self._make_stale(silent.number)
        if update.missing:
            said.append(clean(missing_text(update.missing)))
        for change in update.changes:
            said.append(clean(change_text(change)))
            if not change.joined:
                self._part(change)
        now = f"{self._time_of_day():%H:%M:%S}"
        self.log += [f"{now}  {line}" for line in said]
        return said

    def forget_gone(self) -> None:
        """Those that went :data:`STAYS_S` ago."""
        now_s = self._clock()
        for one in list(self.processes.values()):
            if one.gone_s is not None and now_s - one.gone_s >= STAYS_S:
                self.forget(one.number)

    def forget(self, number: int) -> None:
        """One process, and what is of it."""
        self.processes.pop(number, None)
        self._refused.pop(number, None)
        self._count -= sum(map(len, self._rows.pop(number, {}).values()))
        self.version += 1

    def _join(self, process: CounterProcess) -> None:
        self.processes[process.number] = WatchedProcess(
            number=process.number, name=clean(process_text(process)), heard_s=self._clock()
        )
        self.version += 1

    def _part(self, change: CounterChange) -> None:
        if change.why:
            self.departures.append(change)
        process = self.processes.get(change.process.number)
        if process is not None:
            process.why = clean(change.why)
            process.gone = f"{self._time_of_day():%H:%M:%S}"
            process.gone_s = self._clock()
            self._make_stale(process.number)

    def _make_stale(self, process: int) -> None:
        """What a process has shown last is not so any more."""
        for row in self.rows(process):
            row.is_stale, row.is_crossed = True, False
        self.version += 1

    def _take_values(self, counters: Counters) -> None:
        now_s = self._clock()
        series = {one.number: one for one in counters.series}
        rows = counters.rows
        columns = (rows.values(name) for name in ("series", "interval_s", "quantiles", *_FIGURES))
        for number, interval_s, quantiles, *some in zip(*columns, strict=True):
            one = series[number]
            process = self.processes.get(one.pid or 0)
            if process is None:
                continue
            process.heard_s = now_s
            figures: dict[str, float | None] = dict(zip(_FIGURES, some, strict=True))
            if one.kind == "histogram":
                count = figures["count"]
                self._add_histogram(
                    one, count / interval_s if count is not None and interval_s else None, figures, quantiles
                )
            else:
                self._add(one, "", figures[shown_figure(one)], figures)
        ended = frozenset(one.key for one in counters.instruments if one.ended_ms is not None)
        if ended != self._ended:
            self._ended = ended
            for row in self.rows():
                row.has_ended = row.instrument in ended

    def _add_histogram(
        self,
        series: Series,
        count_per_s: float | None,
        figures: Mapping[str, float | None],
        quantiles: Mapping[str, float | None] | None,
    ) -> None:
        """All rows of one; where nothing was recorded there are no quantiles, and their rows have no value."""
        known = self._rows.get(series.pid or 0, {}).get(series.number, {})
        values = {**dict.fromkeys(known), **(quantiles or {})}
        values.pop(COUNT, None)
        if count_per_s is not None or COUNT in known:
            self._add(series, COUNT, count_per_s, figures)
        for quantile, value in values.items():
            self._add(series, quantile, value, {percentile(quantile): value})

    def _add(self, series: Series, figure: str, value: float | None, figures: Mapping[str, float | None]) -> None:
        known = self._rows.setdefault(series.pid or 0, {}).setdefault(series.number, {})
        row = known.get(figure)
        if row is None:
            row = self._begin(series, figure)
            if row is None:
                return
            known[figure] = row
        row.add(value, figures)

    def _begin(self, series: Series, figure: str) -> CounterRow | None:
        """A row of its own; None where there are too many."""
        process = series.pid or 0
        if self._count >= ROWS_LIMIT:
            self._refused.setdefault(process, set()).add(series.number)
            return None
        self._refused.get(process, set()).discard(series.number)
        self._count += 1
        self.version += 1
        tags, brief = tag_texts(series), list(series.tags.values())
        name = instrument_text(series)
        if figure == COUNT:
            name = f"{series.name} ({COUNT})"
        elif figure:
            tags.append(f"quantile {figure}")
            brief.append(percentile(figure))
        of_process = self.processes[process].name
        return CounterRow(
            key=(series.number, figure),
            process=process,
            of_process=of_process,
            provider=clean(series.provider),
            name=clean(name),
            tags=clean(", ".join(tags)),
            brief_tags=clean(", ".join(brief)),
            order=(
                clean(series.name).casefold(),
                clean(", ".join(tag_texts(series))),
                of_process,
                float(figure) if figure not in ("", COUNT) else -1.0,
            ),
            instrument=series.instrument.key,
            limits=self._limits(series, figure),
        )

    def _limits(self, series: Series, figure: str) -> tuple[tuple[str, Threshold], ...]:
        """Those of a row: a threshold of a quantile is that quantile's, any other one of a histogram is that of :data:`COUNT`."""
        named = ((one.figure_of(meant_kind(series)), one) for one in self._thresholds if one.concerns(series))
        own = percentile(figure) if figure not in ("", COUNT) else ""
        return tuple((name, one) for name, one in named if (name == own if own else name in _FIGURES))
