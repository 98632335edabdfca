"""Values over time in one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last ``width`` values, the newest at the right, a bar each: from the least of them to the greatest. A blank where there was none (NaN)
    or where it is endless.
    """
    shown = values[-width:] if width > 0 else []
    known = [value for value in shown if isfinite(value)]
    if not known:
        return " " * max(width, 0)
    least = min(known)
    # halves, so that the difference of what is very great is not endless
    step = (max(known) / 2 - least / 2) * 2 / len(BARS)
    bars = [_bar(value, least, step) for value in shown]
    return "".join(bars).rjust(width)


def _bar(value: float, least: float, step: float) -> str:
    if not isfinite(value):
        return " "
    if not 0 < step < float("inf"):
        return BARS[0]
    return BARS[min(int((value - least) / step), len(BARS) - 1)]
