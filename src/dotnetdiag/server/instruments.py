"""Instruments of meters, and what is read from them: the same for the process's own and for OpenTelemetry's."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.server.distribution import Distribution
from dotnetdiag.server.value_text import text_of


class InstrumentKind(StrEnum):
    """As the types are called in .NET."""

    COUNTER = "Counter`1"
    UP_DOWN_COUNTER = "UpDownCounter`1"
    HISTOGRAM = "Histogram`1"
    GAUGE = "Gauge`1"
    OBSERVABLE_COUNTER = "ObservableCounter`1"
    OBSERVABLE_UP_DOWN_COUNTER = "ObservableUpDownCounter`1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One instrument. ``unit`` as UCUM has it (``By``, ``s``, ``{thread}``); ``meter_tags`` as :func:`format_tags` gives them."""

    meter: str
    name: str
    kind: InstrumentKind
    unit: str = ""
    description: str = ""
    meter_version: str = ""
    meter_tags: str = ""
    schema_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one series of an instrument says now. ``value`` is by how much it grew since it was read last where ``is_increment``, what a
    histogram took since then, or else what it stands at.
    """

    instrument: Instrument
    tags: str
    value: float | Distribution
    is_increment: bool = False


def plain_number(value: Any) -> int | float:
    """A number of any kind (numpy's, a Decimal) as one of Python's own: a whole one exactly. NaN for what is no number."""
    conversions: tuple[Callable[[Any], int | float], ...] = (operator.index, float)
    for convert in conversions:
        with suppress(Exception):  # of the value's own code, too
            return convert(value)
    return math.nan


def format_tags(tags: Mapping[str, object] | Iterable[tuple[str, object]] | None) -> str:
    """``key=value,key=value`` by key, as runtimes write them: without quotes, whatever a value has in it. What has no text is its type."""
    pairs = tags.items() if isinstance(tags, Mapping) else tags or ()
    return ",".join(f"{key}={value}" for key, value in sorted((text_of(key), text_of(value)) for key, value in pairs))
