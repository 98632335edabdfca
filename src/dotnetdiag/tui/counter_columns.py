"""How a line of a counter shares the width of a screen, and the texts in its columns."""

from __future__ import annotations

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.tui.counter_model import CounterRow
from dotnetdiag.tui.counter_values import amount
from dotnetdiag.tui.widths import cells, cut, padded, shortened

VALUE, CHANGE = 11, 10
"""``12,345,678`` with a sign, ``1.23457e+08``."""
LEAST_SPARKLINE = 10
ROOM_FOR_CHANGE, ROOM_FOR_SPARKLINE, ROOM_FOR_ALL = 48, 64, 100
"""Narrower screens go without; the last is for a sparkline where each row names its process too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterColumns:
    """Cells of each column, 0 for one that is not shown; a blank stands before each but the first."""

    label: int
    value: int
    change: int
    sparkline: int

    @classmethod
    def of_width(cls, width: int, *, with_process: bool = False) -> CounterColumns:
        """What fits. Of what is more than 80 cells names take two thirds, and the sparkline one."""
        is_wide = width >= (ROOM_FOR_ALL if with_process else ROOM_FOR_SPARKLINE)
        sparkline = LEAST_SPARKLINE + max(width - 80, 0) // 3 if is_wide else 0
        change = CHANGE if width >= ROOM_FOR_CHANGE else 0
        value = min(VALUE, max(width // 2, 1))
        taken = value + 1 + (change + 1 if change else 0) + (sparkline + 1 if sparkline else 0)
        return cls(label=max(width - taken, 0), value=value, change=change, sparkline=sparkline)


def amount_in(value: float | None, width: int, *, sign: bool = False) -> str:
    """A figure in ``width`` cells, right-aligned: with fewer digits where it has too many."""
    if value is None:
        return " " * width
    mark = "+" if sign and value > 0 else ""
    for text in (amount(value), f"{value:,.0f}", f"{value:.4g}", f"{value:.1g}"):
        if len(mark + text) <= width:
            break
    return (mark + text)[:width].rjust(width)


def label_parts(row: CounterRow, width: int, *, with_process: bool) -> list[tuple[str, str]]:
    """The instrument, its process, and its tags, in ``width`` cells together: (``name`` … ``tags``, text). Where they do not fit, tags are said by
    their values; where that is too much still, all are shortened, and half of the room is the name's at least.
    """
    others = _others(row, row.tags, with_process=with_process)
    if cells(row.name) + _wanted(others) > width:
        others = _others(row, row.brief_tags, with_process=with_process)
    of_name = min(cells(row.name), max(width - _wanted(others), (width + 1) // 2))
    parts = [("name", shortened(row.name, of_name))]
    left = width - cells(parts[0][1])
    for number, (kind, text) in enumerate(others, 1):
        # the last one gets what is left, the one before as much as that does not need, or half
        room = left - 2 if number == len(others) else max((left - 2) // 2, left - 4 - cells(others[-1][1]))
        if room < 2:
            break
        shown = f"  {shortened(text, room)}"
        parts.append((kind, shown))
        left -= cells(shown)
    return [*parts, ("tags", " " * left)] if left > 0 else parts


def _others(row: CounterRow, tags: str, *, with_process: bool) -> list[tuple[str, str]]:
    """What stands behind the name."""
    return [*([("process", row.of_process)] if with_process else []), *([("tags", tags)] if tags else [])]


def _wanted(others: list[tuple[str, str]]) -> int:
    return sum(cells(text) + 2 for _, text in others)


def heading(columns: CounterColumns, *, sort: str, is_reversed: bool, every_s: float) -> str:
    """The line above the rows; an arrow stands at what they are sorted by."""
    arrow = "▲" if is_reversed != (sort == "name") else "▼"

    def title(name: str) -> str:
        return f"{name}{arrow}" if name == sort else name

    texts = [padded(cut(f"  {title('name')}", columns.label), columns.label)]
    texts.append(title("value")[: columns.value].rjust(columns.value))
    if columns.change:
        texts.append(title("change").rjust(columns.change))
    if columns.sparkline:
        texts.append(cut(f"last {_span(columns.sparkline * every_s)}", columns.sparkline).ljust(columns.sparkline))
    return " ".join(texts)


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
