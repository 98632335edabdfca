"""Which rows of counters are looked at, and in what order: filtered, sorted, and in groups by their providers, which may be folded."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from math import isnan
from typing import TypeAlias

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.tui.counter_model import CounterRow


class SortBy(Enum):
    """What rows of a provider are sorted by. By name they ascend, by figures those that are greatest (a change: in either direction) come first."""

    NAME = "name"
    VALUE = "value"
    CHANGE = "change"

    @property
    def next(self) -> SortBy:
        """The one after it, and the first after the last."""
        all_of_them = list(SortBy)
        return all_of_them[(all_of_them.index(self) + 1) % len(all_of_them)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterView:
    """``words``: rows are shown that have all of them somewhere, in any case."""

    words: str = ""
    sort: SortBy = SortBy.NAME
    is_reversed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterGroup:
    """The head of a provider's rows. ``crossed`` of its ``rows`` are beyond a threshold."""

    provider: str
    rows: int
    crossed: int
    is_folded: bool


Line: TypeAlias = "CounterGroup | CounterRow"


def arranged(rows: Iterable[CounterRow], view: CounterView, folded: Collection[str] = ()) -> list[Line]:
    """The lines to show: each provider's group, in alphabetical order, and its rows, but for those of ``folded`` providers."""
    words = view.words.casefold().split()
    by_provider: dict[str, list[CounterRow]] = {}
    for row in rows:
        if not words or _has(row, words):
            by_provider.setdefault(row.provider, []).append(row)
    lines: list[Line] = []
    for provider in sorted(by_provider, key=lambda name: (name.casefold(), name)):
        some = by_provider[provider]
        is_folded = provider in folded
        crossed = sum(row.is_crossed for row in some)
        lines.append(CounterGroup(provider=provider, rows=len(some), crossed=crossed, is_folded=is_folded))
        if not is_folded:
            lines += _sorted(some, view)
    return lines


def _has(row: CounterRow, words: list[str]) -> bool:
    text = row.words()
    return all(word in text for word in words)


def _sorted(rows: list[CounterRow], view: CounterView) -> list[CounterRow]:
    if view.sort is SortBy.NAME:
        return sorted(rows, key=lambda row: row.order, reverse=view.is_reversed)
    rows = sorted(rows, key=lambda row: row.order)
    figures = {row.key: row.value if view.sort is SortBy.VALUE else row.change for row in rows}
    known = {key: abs(one) if view.sort is SortBy.CHANGE else one for key, one in figures.items() if one is not None}
    some = [row for row in rows if row.key in known and not isnan(known[row.key])]
    some.sort(key=lambda row: known[row.key], reverse=not view.is_reversed)
    keys = {row.key for row in some}
    return [*some, *(row for row in rows if row.key not in keys)]
