"""What ``counters monitor`` shows of an interval: a screen in the place of the one before, or a line for each value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dotnetdiag.cli.render import clean
from dotnetdiag.cli.widths import cells, cut, padded

if TYPE_CHECKING:
    from dotnetdiag.analysis.counters import Counters
    from dotnetdiag.analysis.series import Series
    from dotnetdiag.recipes.counter_watch import CounterProcess

_VALUE_CELLS = 15


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


def _figures(series: Series, utc: str, row: dict[str, Any]) -> Iterator[ShownValue]:
    tags = [f"{key}={value}" for key, value in series.tags.items()]
    is_rate = series.kind in ("counter", "rate")
    unit = f"{series.unit or 'count'}/s" if is_rate else series.unit
    name = f"{series.name} ({unit})" if unit else series.name
    if series.kind == "histogram":
        figures = [([*tags, f"quantile {quantile}"], value) for quantile, value in (row["quantiles"] or {}).items()]
    else:
        figures = [(tags, row["rate"] if is_rate else row["value"])]
    for parts, value in figures:
        if value is not None:
            yield ShownValue(
                process=series.pid or 0,
                provider=series.provider,
                name=name,
                tags=", ".join(parts),
                value=value,
                time=utc[11:23],
            )


def amount(value: float | None, *, most: float = 1e8) -> str:
    """At most three decimals, without zeros at the end; from ``most`` on as a power of ten."""
    if value is None:
        return ""
    if value * 0 != 0 or abs(value) >= most:
        return f"{value:g}"
    text = f"{value:,.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def value_lines(values: Sequence[ShownValue], processes: Sequence[CounterProcess]) -> list[str]:
    """``12:30:01.123  process  provider  instrument {tags}  value``."""
    names = {one.number: _process_text(one) for one in processes}
    return [
        clean(
            f"{one.time}  {names.get(one.process, '')}  {one.provider}  {one.name}"
            f"{f' {{{one.tags}}}' if one.tags else ''}  {amount(one.value)}"
        )
        for one in values
    ]


def screen(
    values: Sequence[ShownValue], processes: Sequence[CounterProcess], status: str, *, width: int, height: int
) -> list[str]:
    """At most ``height`` lines of at most ``width`` cells: processes, their providers, and the values of each."""
    names = {one.number: _process_text(one) for one in processes}
    lines = [cut(status, width), ""]
    room = max(width - _VALUE_CELLS - 2, 10)
    for number, of_process in groupby(values, key=lambda one: one.process):
        lines.append(cut(clean(names.get(number, "")), width))
        for provider, of_provider in groupby(of_process, key=lambda one: one.provider):
            lines.append(cut(clean(f"[{provider}]"), width))
            for name, of_name in groupby(of_provider, key=lambda one: one.name):
                some = list(of_name)
                if len(some) == 1 and not some[0].tags:
                    lines.append(_line(f"    {name}", some[0].value, room))
                    continue
                lines.append(cut(clean(f"    {name}"), width))
                lines += [_line(f"        {one.tags or '(no tags)'}", one.value, room) for one in some]
        lines.append("")
    left = len(lines) - height
    return lines if left <= 0 else [*lines[: height - 1], cut(f"… {left + 1} lines more: choose counters", width)]


def _line(text: str, value: float | None, room: int) -> str:
    shown = cut(clean(text), room)
    return f"{padded(shown, room)}  {amount(value).rjust(_VALUE_CELLS)}" if cells(shown) <= room else shown


def _process_text(process: CounterProcess) -> str:
    pid = "" if process.pid is None else f" ({process.pid})"
    return f"{process.name or process.target}{pid}"
