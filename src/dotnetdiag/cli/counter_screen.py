"""What ``counters monitor`` shows of an interval: a screen in the place of the one before, or a line for each value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from dotnetdiag.tui.counter_changes import process_text
from dotnetdiag.tui.counter_values import ShownValue, amount
from dotnetdiag.tui.plain import clean
from dotnetdiag.tui.widths import cells, cut, padded

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_watch import CounterProcess

_VALUE_CELLS = 15
_LEAST_LINES = 4
"""Of a process: its name, a provider, a value, and how many there are more."""


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
    """At most ``height`` lines of at most ``width`` cells: processes, their providers, and the values of each. Where there is no room for all,
    processes share what there is.
    """
    names = {one.number: process_text(one) for one in processes}
    room = max(width - _VALUE_CELLS - 2, 10)
    parts = [
        [cut(clean(names.get(number, "")), width), *_part(of_process, width, room)]
        for number, of_process in groupby(values, key=lambda one: one.process)
    ]
    left = height - 2
    if sum(len(part) + 1 for part in parts) <= left:
        return [cut(status, width), "", *(line for part in parts for line in (*part, ""))]
    most = max(left // _LEAST_LINES, 1)
    hidden = 0 if len(parts) <= most else len(parts) - max((left - 1) // _LEAST_LINES, 1)
    shown = parts[: len(parts) - hidden]
    rooms = _shares([len(part) for part in shown], left - bool(hidden))
    lines = [cut(status, width), ""]
    for part, lent in zip(shown, rooms, strict=True):
        over = len(part) - lent
        lines += part if over <= 0 else [*part[: lent - 1], cut(f"… {over + 1} lines more: choose counters", width)]
    if hidden:
        lines.append(cut(f"… {hidden} {'process' if hidden == 1 else 'processes'} more", width))
    return lines[: max(height, 1)]


def _part(values: Iterable[ShownValue], width: int, room: int) -> Iterator[str]:
    """The lines of a process behind its name."""
    for provider, of_provider in groupby(values, key=lambda one: one.provider):
        yield cut(clean(f"[{provider}]"), width)
        for name, of_name in groupby(of_provider, key=lambda one: one.name):
            some = list(of_name)
            if len(some) == 1 and not some[0].tags:
                yield _line(f"    {name}", some[0].value, room)
                continue
            yield cut(clean(f"    {name}"), width)
            for one in some:
                yield _line(f"        {one.tags or '(no tags)'}", one.value, room)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """How many of ``room`` lines each gets: who wants few leaves the rest to the others."""
    shares = [0] * len(wanted)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for place, index in enumerate(order):
        shares[index] = max(min(wanted[index], room // (len(order) - place)), 1)
        room -= shares[index]
    return shares


def _line(text: str, value: float | None, room: int) -> str:
    shown = cut(clean(text), room)
    return f"{padded(shown, room)}  {amount(value).rjust(_VALUE_CELLS)}" if cells(shown) <= room else shown
