"""Counters as charts: one for each instrument of a process, with a line for each series and figure. What the page and the picture draw."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.counters import CounterLine, Counters
from dotnetdiag.analysis.profile import Array
from dotnetdiag.errors import UsageError
from dotnetdiag.export.texts import plain

MOST_POINTS = 1 << 18
"""Of all charts together: some megabytes of a page."""
_MOST = 1e300
"""The greatest value of a point: an axis must have room for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One instrument: ``lines`` have the same unit. ``ms`` and ``values`` of a line are of the points that are drawn; values may be NaN."""

    title: str
    unit: str
    description: str
    lines: Sequence[ChartLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """A line of a chart; its label is empty where the title says it all."""

    label: str
    ms: Array
    values: Array


def counters_only(result: object, format_name: str) -> Counters:
    """The result, if it is of counters. Raises UsageError for anything else."""
    if not isinstance(result, Counters):
        raise UsageError(f"{format_name} shows counters, not a {type(result).__name__}")
    return result


def charts_of(counters: Counters) -> tuple[list[Chart], int]:
    """The charts, by provider, instrument and process, and how many points were left out of them: of long series every second, or third, ...
    is drawn, so that all together are :data:`MOST_POINTS` at most.
    """
    lines = list(counters.lines())
    step = max(1, -(-sum(len(line.ms) for line in lines) // MOST_POINTS))
    several = len({line.series.pid for line in lines}) > 1
    charts = []
    for _, group in groupby(lines, key=_chart):
        some = list(group)
        first = some[0].series
        process = f" of process {first.pid}" if several and first.pid is not None else ""
        charts.append(
            Chart(
                title=plain(f"{first.provider}: {first.name}{process}"),
                unit=plain(some[0].unit),
                description=plain(first.instrument.description),
                lines=[_drawn(line, step) for line in some],
            )
        )
    return charts, sum(len(line.ms) - len(line.ms[::step]) for line in lines)


def _chart(line: CounterLine) -> tuple[str, str, int | None, str, str]:
    one = line.series
    return one.provider, one.name, one.pid, one.kind, line.unit


def _drawn(line: CounterLine, step: int) -> ChartLine:
    values = line.values[::step]
    values = np.where(np.isfinite(values), np.clip(values, -_MOST, _MOST), np.nan)
    return ChartLine(label=plain(line.label), ms=line.ms[::step], values=values)
