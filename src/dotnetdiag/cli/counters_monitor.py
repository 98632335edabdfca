"""``counters monitor``: values of counters as they come."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import LaunchingCommand
from dotnetdiag.cli.counter_options import say_changes, say_waiting, waiting_text, watch_options
from dotnetdiag.cli.counter_screen import screen, value_lines
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.output import TABLE, to_stdout
from dotnetdiag.cli.render import clean_json, echo, is_screen, write_raw
from dotnetdiag.cli.signals import pressed, stopping
from dotnetdiag.tui.counter_values import shown_values

if TYPE_CHECKING:
    from dotnetdiag.export.counter_lines import CounterLines
    from dotnetdiag.recipes.counter_watch import CounterOptions, CounterTargets, CounterUpdate, CounterWatch
    from dotnetdiag.recipes.thresholds import Threshold


@click.command("monitor", cls=LaunchingCommand)
@watch_options
@click.option("--json", "form", flag_value="jsonl", help="The same as --format jsonl.")
@click.option(
    "--format",
    "form",
    type=click.Choice([TABLE, "jsonl", "csv"], case_sensitive=False),
    default=TABLE,
    show_default=True,
    help="How to print it.",
)
@click.option(
    "--plain", is_flag=True, help="No full screen: on a terminal the last values, drawn anew in each interval."
)
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="THRESHOLD",
    help="Colour what crosses it on the full screen, as in 'MyApp[queue] > 100': see `counters watch`. May be repeated.",
)
@click.option("--showDeltas", "shows_deltas", type=click.BOOL, default=False, hidden=True)
@click.option("--abbreviateLargeNumbers", "abbreviates", type=click.BOOL, default=None, hidden=True)
def monitor(
    targets: CounterTargets,
    options: CounterOptions,
    duration: str | None,
    form: str,
    plain: bool,
    thresholds: tuple[str, ...],
    shows_deltas: bool,
    abbreviates: bool | None,
) -> None:
    """Show the counters of one process or of many as they change: on a terminal as a full screen, else a line for each value as it comes.

    Counters are shown as rates per second. Ends with Ctrl-C, after --duration, or with the last of the processes; those that come and go are told.
    On the screen ? shows the keys, q ends it. It needs the extra tui (pip install 'dotnetdiag[tui]'); without it the last values are drawn.

    \b
    dotnetdiag counters monitor -p 1234
    dotnetdiag counters monitor -n MyApp --counters 'System.Runtime[dotnet.gc.pause.time],MyApp.Orders'
    dotnetdiag counters monitor --all --plain --duration 1m
    dotnetdiag counters monitor --threshold 'System.Runtime[dotnet.process.cpu.time] > 0.8' -- dotnet MyApp.dll
    dotnetdiag counters monitor --all --refresh-interval 5 --json | jq .value
    """
    be_lean()
    from dotnetdiag.durations import seconds_of
    from dotnetdiag.recipes.counter_watch import CounterWatch
    from dotnetdiag.recipes.thresholds import parse_threshold

    seconds = seconds_of(duration)
    limits = [parse_threshold(text) for text in thresholds]
    fills = form == TABLE and not plain and _may_fill_screen()
    if shows_deltas and not fills:
        echo("--showDeltas changes nothing here: only the full screen shows changes", err=True)
    if abbreviates is not None:
        echo("--abbreviateLargeNumbers changes nothing: large numbers are shown as they always are", err=True)
    with CounterWatch(targets, options) as watch:
        until_s = None if seconds is None else time.monotonic() + seconds
        if fills:
            _fill_screen(watch, until_s, limits, waiting_text(targets))
            return
        say_waiting(targets)
        with stopping(lambda _: watch.stop()):
            if form == TABLE and is_screen():
                _draw(watch, until_s)
                return
            with to_stdout(form) as stream:
                for piece in _pieces(watch, form, until_s):
                    stream.write(piece)
                    stream.flush()


def _may_fill_screen() -> bool:
    """Whether there is a terminal to be filled (keys are read from stdin, and Textual writes to stderr), and what fills it. Where that alone
    is missing, it is said.
    """
    if not (is_screen() and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    if find_spec("textual") is not None:
        return True
    echo("there is a full screen with tabs, sparklines and a filter: pip install 'dotnetdiag[tui]'", err=True)
    return False


def _fill_screen(watch: CounterWatch, until_s: float | None, limits: Sequence[Threshold], waiting: str) -> None:
    """Until it ends; who has left for a reason is told when the screen has gone. Stderr is made for terminals that take nothing any more."""
    from dotnetdiag.tui.counter_changes import change_text
    from dotnetdiag.tui.counters import show_counters

    with pressed(lambda *_, **__: watch.stop()):
        departures = show_counters(watch, until_s, thresholds=limits, waiting=waiting, terminal=sys.stderr)
    for change in departures:
        echo(change_text(change), err=True)


def _draw(watch: CounterWatch, until_s: float | None) -> None:
    """The last values of all, in each interval in the place of those before; what is to be told stands above them, and stays."""
    drawn = 0
    for update in watch.updates(until_s):
        size = shutil.get_terminal_size()
        values = [] if update.counters is None else shown_values(watch.fold.latest())
        lines = screen(values, update.everyone, _status(watch, update), width=size.columns - 1, height=size.lines - 1)
        if drawn:
            write_raw(f"\x1b[{drawn}A\r\x1b[J")
        if (
            any(not change.joined and change.why for change in update.changes)
            or update.silences
            or update.notices
            or update.missing
        ):
            say_changes(update)
        write_raw("".join(f"{line}\n" for line in lines))
        drawn = len(lines)


def _status(watch: CounterWatch, update: CounterUpdate) -> str:
    count = len(update.processes)
    return f"{count} {'process' if count == 1 else 'processes'}, every {watch.options.interval_s:g} s; Ctrl+C ends it"


def _pieces(watch: CounterWatch, form: str, until_s: float | None) -> Iterator[bytes]:
    """What to write for each interval."""
    from dotnetdiag.export.counter_lines import CounterLines

    lines, started = CounterLines(clean_json), False
    for update in watch.updates(until_s):
        say_changes(update)
        if update.counters is None or not len(update.counters):
            continue
        if form == TABLE:
            text = "".join(f"{line}\n" for line in value_lines(shown_values(update.counters), update.everyone))
        elif form == "csv":
            text = _csv(update, heading=not started)
            started = True
        else:
            text = _lines(update, lines)
        yield text.encode("utf-8", "backslashreplace")


def _csv(update: CounterUpdate, *, heading: bool) -> str:
    from dotnetdiag.export import csv_table
    from dotnetdiag.recipes.counter_files import rows_of

    assert update.counters is not None
    buffer = io.BytesIO()
    csv_table.write(rows_of(update.counters, update.everyone), buffer, heading=heading)
    return buffer.getvalue().decode()


def _lines(update: CounterUpdate, lines: CounterLines) -> str:
    from dotnetdiag.recipes.counter_files import whose

    assert update.counters is not None
    return lines.text(update.counters, whose(update.everyone))
