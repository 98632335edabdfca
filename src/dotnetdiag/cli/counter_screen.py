"""What ``counters monitor`` shows of an interval: a screen in the place of the one before, or a line for each value."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from dotnetdiag.tui.counter_changes import process_text
from dotnetdiag.tui.counter_values import ShownValue, amount
from dotnetdiag.tui.plain import clean
from dotnetdiag.tui.widths import cells, cut, padded

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_watch import CounterProcess

_VALUE_CELLS = 15


def value_lines(values: Sequence[ShownValue], processes: Sequence[CounterProcess]) -> list[str]:
    """``12:30:01.123  process  provider  instrument {tags}  value``."""
    names = {one.number: process_text(one) for one in processes}
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
    names = {one.number: process_text(one) for one in processes}
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
