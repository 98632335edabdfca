"""What OpenTelemetry calls a series: what stays the same from one value to the next is found once, and kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.alike_series import AlikeNumbers
from dotnetdiag.analysis.meant_kinds import meant_kind
from dotnetdiag.analysis.series import CounterKind, Instrument, Series

if TYPE_CHECKING:
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

AGAIN = "duplicate"
"""The attribute of a series that has everything in common with another: a program may create an instrument twice. It stays with its series."""
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, eq=False)
class MetricName:
    """What tells a metric from all others of its process. There is one of it: told by identity."""

    scope: InstrumentationScope
    name: str
    unit: str
    description: str
    kind: CounterKind


@dataclass(frozen=True, slots=True)
class SeriesName:
    """Of which metric a series is, and which of it."""

    instrument: Instrument
    metric: MetricName
    attributes: Mapping[str, str]


class SeriesNames:
    """The names of series. For one thread."""

    def __init__(self) -> None:
        self._known: dict[int, SeriesName] = {}
        """By the number of the series."""
        self._metrics: dict[tuple[InstrumentationScope, str, str, str, CounterKind], MetricName] = {}
        self._alike = AlikeNumbers()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, series: Series) -> SeriesName:
        """That of a series: another one when more is known of its instrument."""
        instrument = series.instrument
        known = self._known.get(series.number)
        if known is None or (known.instrument is not instrument and known.instrument != instrument):
            metric = self._metric(series)
            attributes = texts({**instrument.tags, **series.tags})
            number = self._alike.number(series.number, (series.pid, metric), attributes)
            if number > 1:
                attributes = {**attributes, AGAIN: str(number)}
            known = self._known[series.number] = SeriesName(instrument, metric, attributes)
        return known

    def keep(self, living: Iterable[int]) -> None:
        """Forget all series but those with these numbers."""
        living = set(living)
        if self._known.keys() <= living:
            return
        self._alike.keep(living)
        self._known = {number: one for number, one in self._known.items() if number in living}
        used = {one.metric for one in self._known.values()}
        self._metrics = {key: metric for key, metric in self._metrics.items() if metric in used}

    def _metric(self, series: Series) -> MetricName:
        instrument = series.instrument
        key = (
            _scope_of(instrument),
            utf8(series.name),
            utf8(series.unit),
            utf8(instrument.description),
            meant_kind(series),
        )
        metric = self._metrics.get(key)
        if metric is None:
            metric = self._metrics[key] = MetricName(*key)
        return metric


def utf8(text: str) -> str:
    """What UTF-8 can say of it."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def texts(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags as attributes."""
    return {utf8(key): utf8(value) for key, value in tags.items()}


def _scope_of(instrument: Instrument) -> InstrumentationScope:
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    return InstrumentationScope(
        utf8(instrument.key.provider),
        utf8(instrument.key.version) or None,
        utf8(instrument.schema_url) or None,
        texts(instrument.meter_tags),
    )
