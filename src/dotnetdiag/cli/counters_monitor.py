"""``counters monitor``: values of counters as they come."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.counter_options import say_changes, watch_options
from dotnetdiag.cli.counter_screen import screen, shown_values, value_lines
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.output import TABLE, to_stdout
from dotnetdiag.cli.render import clean_json, is_terminal
from dotnetdiag.cli.signals import handled

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_watch import CounterOptions, CounterTargets, CounterUpdate, CounterWatch


@click.command("monitor", cls=Command)
@watch_options
@click.option("--json", "form", flag_value="jsonl", help="The same as --format jsonl.")
@click.option(
    "--format",
    "form",
    type=click.Choice([TABLE, "jsonl", "csv"]),
    default=TABLE,
    show_default=True,
    help="How to print it.",
)
def monitor(targets: CounterTargets, options: CounterOptions, duration: str | None, form: str) -> None:
    """Show the counters of one process or of many as they change: on a terminal the last of all, else a line for each value as it comes.

    Counters are shown as rates per second. Ends with Ctrl-C, after --duration, or with the last of the processes; those that come and go are told.

    \b
    dotnetdiag counters monitor -p 1234
    dotnetdiag counters monitor -n MyApp --counters 'System.Runtime[dotnet.gc.pause.time],MyApp.Orders'
    dotnetdiag counters monitor --all --refresh-interval 5 --json | jq .value
    """
    lean_numpy()
    from dotnetdiag.durations import seconds_of
    from dotnetdiag.recipes.counter_watch import CounterWatch

    seconds = seconds_of(duration)
    with (
        CounterWatch(targets, options) as watch,
        handled(("SIGINT", "SIGTERM", "SIGHUP"), lambda *_: watch.stop()),
        to_stdout(form) as stream,
    ):
        for piece in _pieces(watch, form, None if seconds is None else time.monotonic() + seconds):
            stream.write(piece)
            stream.flush()


def _pieces(watch: CounterWatch, form: str, until_s: float | None) -> Iterator[bytes]:
    """What to write for each interval."""
    draws, drawn = is_terminal() and form == TABLE, 0
    started = False
    for update in watch.updates(until_s):
        if not draws:
            say_changes(update)
        if draws:
            size = shutil.get_terminal_size()
            lines = _screen(watch, update, size.columns - 1, size.lines - 1)
            text = (f"\x1b[{drawn}A\r\x1b[J" if drawn else "") + "\n".join(lines) + "\n"
            drawn = len(lines)
        elif update.counters is None or not len(update.counters):
            continue
        elif form == TABLE:
            text = "".join(f"{line}\n" for line in value_lines(shown_values(update.counters), update.processes))
        else:
            text = _rows(update, form, heading=not started)
            started = True
        yield text.encode("utf-8", "backslashreplace")


def _screen(watch: CounterWatch, update: CounterUpdate, width: int, height: int) -> list[str]:
    for change in update.changes:
        if not change.joined and change.why:
            say_changes(update)
            break
    count = len(update.processes)
    status = f"{count} {'process' if count == 1 else 'processes'}, every {watch.options.interval_s:g} s; Ctrl+C ends it"
    values = [] if update.counters is None else shown_values(watch.fold.latest())
    return screen(values, update.processes, status, width=width, height=height)


def _rows(update: CounterUpdate, form: str, *, heading: bool) -> str:
    from dotnetdiag.export import csv_table, json_lines
    from dotnetdiag.recipes.counter_files import rows_of

    assert update.counters is not None
    buffer = io.BytesIO()
    table = rows_of(update.counters, update.processes)
    if form == "csv":
        csv_table.write(table, buffer, heading=heading)
        return buffer.getvalue().decode()
    json_lines.write(table, buffer)
    return clean_json(buffer.getvalue().decode("utf-8", "surrogatepass"))
