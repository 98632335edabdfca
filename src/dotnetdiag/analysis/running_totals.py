"""What each series has come to since it was first seen: for systems that keep totals, and do not want an event for each interval.

Who asks gets, of each series, the last value, and of what is added up the total since the first interval that was seen. Where the runtime tells
a total of its own (:mod:`dotnetdiag.analysis.counters` says where) the difference to that of the first value counts, so that an event that was lost
costs nothing. A total that is smaller than the one before is of a runtime that began anew, and adds to what there was, unless the interval's own
difference is below zero too: then the program took something away, and nothing is added. Elsewhere what the intervals brought is added, as far as
it is more than nothing.

=============  ===============  ==================================  =====================================================
kind           value            total                               count, sum, quantiles
=============  ===============  ==================================  =====================================================
counter        the runtime's    added since the begin
rate                            added since the begin
updowncounter  the last value
gauge          the last value
mean           the last value
histogram                                                           since the begin (8+); quantiles: of the last interval
=============  ===============  ==================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis.counters import Counters
from dotnetdiag.analysis.series import CounterKind, InstrumentKey, Series
from dotnetdiag.events import Scalar, Struct

_NANO = 1_000_000_000


@dataclass(slots=True)  # to make a frozen one, by keywords, takes three times as long, and each value makes one
class RunningSeries:
    """One series by now: nobody changes it.

    ``begin_ns`` is the begin of the first interval, ``utc_ns`` the time of the last value (both since 1970; 0 where the recording does not tell
    it). ``rate`` is that of the last interval, per second, which was ``interval_s`` long. What the module's table does not tell for the kind is
    None, and so is what the runtime has not said yet. ``total`` and ``count`` never fall. ``ended``: the runtime has said that it reports the
    instrument no more.
    """

    series: Series
    begin_ns: int
    utc_ns: int
    value: float | None
    rate: float | None
    interval_s: float | None
    total: float | None
    count: int | None
    sum: float | None
    quantiles: Mapping[str, float]
    ended: bool = False


class _Sum:
    """Adds up: ``total`` is :attr:`offset` more than what the runtime tells."""

    __slots__ = ("offset", "told", "total")

    def __init__(self) -> None:
        self.total: float = 0
        self.offset: float = 0
        self.told: float | None = None

    def add(self, delta: float | None, told: float | None) -> float:
        """The total after an interval: ``delta`` was added in it, and the runtime tells ``told`` as its total."""
        if delta is not None and not isfinite(delta):
            delta = None
        if told is not None and isfinite(told):
            if self.told is None or told < self.told:  # the first, or it began anew, or something was taken away
                if delta is None:
                    added = 0 if self.told is None else max(told, 0)
                else:
                    added = max(delta, 0)
                self.offset = self.total + added - told
            self.told = told
            self.total = max(self.total, self.offset + told)
        elif delta is not None and delta > 0:
            self.total += delta
        return self.total


class _Histogram:
    """Adds up counts and sums: of intervals, or what the runtime tells as its own."""

    __slots__ = ("counted", "own_count", "own_sum", "summed")

    def __init__(self) -> None:
        self.counted: int = 0
        self.summed: float = 0
        self.own_count: int = 0
        self.own_sum: float = 0

    def add(self, count: int, total: float, *, is_cumulative: bool) -> tuple[int, float]:
        """The count and the sum after an interval."""
        total = total if isfinite(total) else 0
        if is_cumulative:
            if count < self.own_count:  # it began anew
                self.own_count, self.own_sum = 0, 0
            self.counted += count - self.own_count
            self.summed += total - self.own_sum
            self.own_count, self.own_sum = count, total
        else:
            self.counted += max(count, 0)
            self.summed += total
        return self.counted, self.summed


_ADDED_UP = (CounterKind.COUNTER, CounterKind.RATE)


class RunningTotals:
    """Feed it what ``CountersFold.take`` gives, or the counters of a file; the same fold's each time, for series are told by their numbers."""

    def __init__(self) -> None:
        self._latest: dict[int, RunningSeries] = {}
        self._sums: dict[int, _Sum | _Histogram] = {}
        self._ended: frozenset[InstrumentKey] = frozenset()

    def __len__(self) -> int:
        return len(self._latest)

    def feed(self, counters: Counters) -> None:
        """Take the values that are new, in their order."""
        self._ended = frozenset(one.key for one in counters.instruments if one.ended_ms is not None)
        rows = counters.rows
        if not len(rows):
            return
        series = {one.number: one for one in counters.series}
        quantiles = rows["quantiles"]
        assert isinstance(quantiles, Struct)
        texts = tuple(quantiles.fields)
        columns = [
            _listed(rows[name])
            for name in ("time", "value", "delta", "rate", "interval_s", "count", "sum", "min")
        ]  # fmt: skip
        by_quantile = list(zip(*map(_listed, quantiles.fields.values()), strict=True)) if texts else [()] * len(rows)
        for number, time, value, delta, rate, interval_s, count, total, least, of_quantiles in zip(
            _listed(rows["series"]), *columns, by_quantile, strict=True
        ):
            one, before = series[number], self._latest.get(number)
            utc_ns = time or 0
            begin_ns = (utc_ns - int((interval_s or 0) * _NANO)) if before is None else before.begin_ns
            shown, added = value, None
            counted, summed = (None, None) if before is None else (before.count, before.sum)
            found: Mapping[str, float] = {}
            if one.kind in _ADDED_UP:
                sums = self._sums.get(number)
                if not isinstance(sums, _Sum):
                    sums = self._sums[number] = _Sum()
                # an EventCounter tells as its value what was added
                shown = value if one.kind is CounterKind.COUNTER else None
                added = sums.add(delta, shown)
            elif one.kind is CounterKind.HISTOGRAM:
                if count is not None:
                    both = self._sums.get(number)
                    if not isinstance(both, _Histogram):
                        both = self._sums[number] = _Histogram()
                    # only one with buckets tells the least, and that one adds up itself
                    counted, summed = both.add(count, total or 0.0, is_cumulative=least is not None)
                found = {text: figure for text, figure in zip(texts, of_quantiles, strict=True) if figure is not None}
            else:
                counted = summed = None
                if value is None and one.kind is CounterKind.UP_DOWN_COUNTER and delta is not None:
                    shown = delta + ((before.value or 0.0) if before is not None else 0.0)  # .NET 7 tells no sum
            self._latest[number] = RunningSeries(
                one, begin_ns, utc_ns, shown, rate, interval_s, added, counted, summed, found
            )

    def forget(self, pid: int) -> None:
        """What is of a process that has ended."""
        for number in [number for number, one in self._latest.items() if one.series.pid == pid]:
            del self._latest[number]
            self._sums.pop(number, None)

    def latest(self) -> list[RunningSeries]:
        """All series that were seen, and not forgotten, in the order in which they came first."""
        if not self._ended:
            return list(self._latest.values())
        return [
            replace(one, ended=True) if one.series.instrument.key in self._ended else one
            for one in self._latest.values()
        ]


def _listed(column: Any) -> list[Any]:
    """The numbers of a column, None where there is none: times as integers."""
    assert isinstance(column, Scalar)
    values = column.values.tolist()
    if column.valid is None:
        return values  # type: ignore[no-any-return]
    return [value if valid else None for value, valid in zip(values, column.valid.tolist(), strict=True)]
