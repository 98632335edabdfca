"""``counters collect``: values of counters into a file, while they come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import LaunchingCommand
from dotnetdiag.cli.counter_options import say_changes, say_waiting, watch_options
from dotnetdiag.cli.files import FilePath, shown_path
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.render import echo
from dotnetdiag.cli.signals import stopping
from dotnetdiag.cli.standard_streams import lead_stdout_nowhere
from dotnetdiag.errors import OutputError, UsageError

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_watch import CounterOptions, CounterTargets, CounterUpdate, CounterWatch

_SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".parquet": "parquet"}


@click.command("collect", cls=LaunchingCommand)
@watch_options
@click.option(
    "-o", "--output", "path", type=FilePath(), help="The file, or - for stdout.  [default: counter and the suffix]"
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "json", "jsonl", "parquet"], case_sensitive=False),
    help="Of the file; without it its suffix says, or csv.",
)
@click.option("--compat", is_flag=True, help="The columns of dotnet-counters (csv, json), of one process.")
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
def collect(
    targets: CounterTargets,
    options: CounterOptions,
    duration: str | None,
    path: Path | None,
    form: str | None,
    compat: bool,
    force: bool,
) -> None:
    """Write the values of counters of one process or of many into a file, until Ctrl-C, --duration, or the last of them has ended.

    The file is made with the first process, and has whole rows from then on. Its columns are those of `counters report`, and pid and process.

    \b
    dotnetdiag counters collect -p 1234 --duration 1m
    dotnetdiag counters collect -n MyApp --counters System.Runtime,MyApp.Orders -o orders.parquet
    dotnetdiag counters collect --all --refresh-interval 0.5 -o - --format jsonl | jq .value
    """
    be_lean()
    if compat:
        _require_one(targets)
    from dotnetdiag.recipes.counter_files import collect_counters
    from dotnetdiag.recipes.outputs import is_stdout, is_stream

    chosen = form or (_SUFFIXES.get(path.suffix.lower()) if path is not None else None) or "csv"
    place = path if path is not None else Path(f"counter.{chosen}")
    if not place.suffix and not is_stream(place):  # a FIFO or a device has the name that it has
        place = place.with_suffix(f".{chosen}")
    watches: list[CounterWatch] = []
    joined: set[int] = set()
    mixed: list[bool] = []

    def begun(watch: CounterWatch) -> None:
        watches.append(watch)
        echo("Starting a counter session. Press Ctrl+C to end.", err=True)
        say_waiting(targets)

    def end(_: int) -> None:
        for watch in watches:
            watch.stop()

    def said(update: CounterUpdate) -> None:
        say_changes(update)
        joined.update(change.process.number for change in update.changes if change.joined)
        if compat and len(joined) > 1 and not mixed:
            mixed.append(True)
            echo("--compat: several processes have come, and the file does not tell them apart", err=True)

    with stopping(end), _nobody_reads(is_stdout(place)):
        totals = collect_counters(
            targets,
            place,
            options,
            form=chosen,
            compatible=compat,
            force=force,
            duration=duration,
            on_begin=begun,
            on_update=said,
        )
    if not totals.watched and not is_stream(place):
        echo(f"nobody was watched: {shown_path(place)} was not written", err=True)
        return
    where = "" if is_stdout(place) else f" in {shown_path(place)}"
    plural = "process" if totals.watched == 1 else "processes"
    echo(f"{totals.values:,} values of {totals.watched} {plural}{where}", err=True)


def _require_one(targets: CounterTargets) -> None:
    """Raises UsageError where several processes are named."""
    named = (*targets.pids, *targets.names, *targets.ports)
    if targets.everyone or len(named) > 1:
        raise UsageError(
            "--compat: the columns of dotnet-counters do not tell processes apart: name one, or leave --compat out"
        )


@contextmanager
def _nobody_reads(on_stdout: bool) -> Iterator[None]:
    """Ends the verb with 0 where the reader of stdout has gone (``| head``)."""
    try:
        yield
    except OutputError as error:
        if not (on_stdout and isinstance(error.__cause__, BrokenPipeError)):
            raise
        lead_stdout_nowhere()
        raise click.exceptions.Exit(0) from error
