"""Values of counters as people look at them: which figure of each kind, and how it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.meant_kinds import meant_kind

if TYPE_CHECKING:
    from dotnetdiag.analysis.counters import Counters
    from dotnetdiag.analysis.series import Series

_RATES = ("counter", "rate")
"""Kinds that are added up: people look at how much of it there is in a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownValue:
    """One figure of a series: what people look at of its kind, and a histogram's quantiles."""

    process: int
    provider: str
    name: str
    tags: str
    value: float | None
    time: str


def shown_values(counters: Counters) -> list[ShownValue]:
    """By process, provider, instrument and tags."""
    series = {one.number: one for one in counters.series}
    rows = counters.rows
    made = [
        one
        for number, utc, row in zip(rows.values("series"), rows.values("utc"), rows.to_pylist(), strict=True)
        for one in _figures(series[number], utc or "", row)
    ]
    return sorted(made, key=lambda one: (one.process, one.provider, one.name, one.tags))


def instrument_text(series: Series) -> str:
    """The name, and the unit of what is shown of it: ``orders ({order}/s)``."""
    unit = f"{series.unit or 'count'}/s" if meant_kind(series) in _RATES else series.unit
    return f"{series.name} ({unit})" if unit else series.name


def tag_texts(series: Series) -> list[str]:
    """``key=value`` of each tag."""
    return [f"{key}={value}" for key, value in series.tags.items()]


def shown_figure(series: Series) -> Literal["rate", "value"]:
    """The column of a row that people look at; of histograms it is none, but the quantiles."""
    return "rate" if meant_kind(series) in _RATES else "value"


def _figures(series: Series, utc: str, row: dict[str, Any]) -> Iterator[ShownValue]:
    tags = tag_texts(series)
    name = instrument_text(series)
    if series.kind == "histogram":
        figures = [([*tags, f"quantile {quantile}"], value) for quantile, value in (row["quantiles"] or {}).items()]
    else:
        figures = [(tags, row[shown_figure(series)])]
    for parts, value in figures:
        if value is not None:
            yield ShownValue(
                process=series.pid or 0,
                provider=series.provider,
                name=name,
                tags=", ".join(parts),
                value=value,
                time=f"{utc[11:23]}Z",
            )


def amount(value: float | None, *, most: float = 1e8) -> str:
    """At most three decimals, without zeros at the end; from ``most`` on as a power of ten."""
    if value is None:
        return ""
    if value * 0 != 0 or abs(value) >= most:
        return f"{value:g}"
    text = f"{value:,.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
