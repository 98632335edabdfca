"""``trace watch --top``: the methods that a process spends its time in, again and again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag._dataclasses import as_dict
from dotnetdiag.cli.output import TABLE
from dotnetdiag.cli.render import clean_json, counted, is_screen
from dotnetdiag.errors import UsageError
from dotnetdiag.tui.plain import clean
from dotnetdiag.tui.widths import cut, shortened_method

if TYPE_CHECKING:
    from dotnetdiag.recipes.top import LiveTop, Top, TopOptions
    from dotnetdiag.recipes.watching import WatchOptions

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_ROWS = 10
_HEAD = ("self %", "total %", "all self", "all total", "method")
_CSV = (
    "elapsed_s",
    "interval_s",
    "name",
    "exclusive_percent",
    "inclusive_percent",
    "exclusive_percent_since_start",
    "inclusive_percent_since_start",
)
_WIDTHS = tuple(map(len, _HEAD[:-1]))
_STATES = {"cpu": "managed", "unmanaged": "native or waiting", "blocked": "blocked"}


def top_options(function: F) -> F:
    """``--top`` and what goes with it."""
    for option in (
        click.option("--short", is_flag=True, help="With --top: names as in C#, without module and parameters."),
        click.option(
            "--state",
            type=click.Choice(["all", "cpu", "waiting"]),
            help="With --top: time running managed code, or in native code and waiting.  [default: all]",
        ),
        click.option("--inclusive", is_flag=True, help="With --top: sort by a method and all that it called."),
        click.option("--interval", help="With --top: how long one is, as in 500ms, 5s.  [default: 1s]"),
        click.option(
            "--top",
            is_flag=False,
            flag_value=DEFAULT_ROWS,
            type=click.IntRange(min=1),
            metavar="[N]",
            help=f"The N methods with the most time, instead of events; {DEFAULT_ROWS} without N. With --event: those where these happen.",
        ),
    ):
        function = option(function)
    return function


def top_of(
    watch: WatchOptions,
    *,
    top: int | None,
    interval: str | None,
    inclusive: bool,
    state: str | None,
    short: bool,
) -> TopOptions | None:
    """What ``--top`` and its companions mean; None without it. Raises UsageError for what does not go together."""
    if top is None:
        given = {"interval": interval, "inclusive": inclusive, "state": state, "short": short}
        alone = [f"--{name}" for name, value in given.items() if value]
        if alone:
            raise UsageError(f"{alone[0]} goes with --top")
        return None
    if watch.fields or watch.limit is not None:
        raise UsageError(f"{'--fields' if watch.fields else '--limit'} is of events, and --top shows methods")
    from dotnetdiag.recipes.top import TopOptions
    from dotnetdiag.trace.method_names import Style

    return TopOptions(
        number=top,
        inclusive=inclusive,
        interval=interval or 1.0,
        state=state or "all",
        style=Style.SHORT if short else Style.FULL,
        watch=watch,
    )


def blocks(top: LiveTop, form: str) -> Iterator[bytes]:
    """What to write for each interval: a line of JSON, a row of CSV for each method, a block of text, or on a terminal one in the place of
    the block before; that stays where the end has cut the next one short.
    """
    draws, drawn = is_screen() and form == TABLE, 0
    whole_s = 0.0
    if form == "csv":
        yield _lines_of([_CSV])
    for one in top.intervals():
        if form == "csv":
            yield _lines_of([(one.elapsed_s, one.interval_s, *as_dict(row).values()) for row in one.rows])
            continue
        if form == "jsonl":
            text = clean_json(json.dumps(one.to_json()))
        else:
            if draws and one.interval_s < whole_s / 2:
                continue
            whole_s = one.interval_s
            size = shutil.get_terminal_size()
            lines = block(one, size.columns - 1 if draws else None, size.lines - 1 if draws else None)
            text = "\n".join(lines)
            if draws:
                text, drawn = (f"\x1b[{drawn}A\r\x1b[J" if drawn else "") + text, len(lines)
            else:
                text += "\n"
        yield f"{text}\n".encode("utf-8", "backslashreplace")


def _lines_of(rows: Sequence[Sequence[object]]) -> bytes:
    from dotnetdiag.cli.live_lines import csv_rows

    return "".join(f"{line}\n" for line in csv_rows(rows)).encode("utf-8", "backslashreplace")


def block(top: Top, width: int | None = None, height: int | None = None) -> list[str]:
    """One interval as lines of at most ``width`` characters, and at most ``height`` of them."""
    lines = [*heading(top, width), _line(_HEAD) if width is None else cut(_line(_HEAD), width)]
    least = len(lines) + 1
    room = None if width is None else max(width - sum(_WIDTHS) - 2 * len(_WIDTHS), 8)
    for row in top.rows:
        numbers = (
            row.exclusive_percent,
            row.inclusive_percent,
            row.exclusive_percent_since_start,
            row.inclusive_percent_since_start,
        )
        name = clean(row.name)
        lines.append(
            _line((*(f"{one:.1f}" for one in numbers), name if room is None else shortened_method(name, room)))
        )
    return lines if height is None else lines[: max(height, least)]


def heading(top: Top, width: int | None = None) -> list[str]:
    """When, of how much, and what is missing; what does not fit the width follows on more lines."""
    parts = [
        f"{top.elapsed_s:.1f} s: {counted(top.samples, 'sample')} of {counted(top.threads, 'thread')} in {top.interval_s:.1f} s"
    ]
    parts += [f"{weight:,.0f} {top.unit} {_STATES.get(state, state)}" for state, weight in top.states.items()]
    parts += [f"{top.unresolved:.1f} % without a name"] if top.unresolved else []
    parts += ["losses not known" if top.missed is None else f"{top.missed:,} events missed"] if top.missed != 0 else []
    text = ", ".join(parts)
    return [text] if width is None else wrap(text, width, subsequent_indent="  ")


def _line(cells: tuple[str, ...]) -> str:
    return "  ".join([*(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=False)), cells[-1]])
