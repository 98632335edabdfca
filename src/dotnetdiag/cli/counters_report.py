"""``counters report``: the values of counters of a recording."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.files import FilePath, RecordingPath, shown_path
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.losses import say_losses_of
from dotnetdiag.cli.output import TABLE, format_option, show
from dotnetdiag.cli.render import echo, table
from dotnetdiag.tui.counter_values import amount

if TYPE_CHECKING:
    from dotnetdiag.analysis.counters import Counters

_COLUMNS = ("instrument", "unit", "rows", "least", "mean", "most", "last", "tags")


@click.command("report", cls=Command)
@click.argument("file", type=RecordingPath())
@click.option(
    "--plot",
    type=FilePath(),
    metavar="FILE",
    help="Draw each series over time too: a page (FILE.html), or a picture (FILE.png; extra `plot`).",
)
@click.option("--force", is_flag=True, help="Overwrite the picture if it is there.")
@format_option
def report(file: Path, plot: Path | None, force: bool, form: str) -> None:
    """Show the values of counters of a trace FILE: EventCounters, and the meters of System.Diagnostics.Metrics.

    A line for each series, counters as rates per second; the formats for programs have every value, in time order, at the time of its event.

    \b
    dotnetdiag counters report app.nettrace
    dotnetdiag counters report app.nettrace --format jsonl
    dotnetdiag counters report app.nettrace --plot app.html
    """
    be_lean()
    from dotnetdiag.analysis.counters import counters
    from dotnetdiag.recipes.counters import check_plot, write_plot
    from dotnetdiag.recipes.trace_files import open_trace

    if plot is not None:
        check_plot(plot, force=force, sources=[file])
    trace = open_trace(file)
    made = counters(trace)
    if plot is not None:
        write_plot(made, plot, name=trace.name, force=force)
        echo(f"{shown_path(plot)} written", err=True)
    show(form, made.table, people=lambda: _show(made), digits=3)
    if form != TABLE:
        for note in made.notes:
            echo(f"note: {note}", err=True)
    say_losses_of(trace)


def _show(made: Counters) -> None:
    echo(f"{len(made):,} values of {len(made.series):,} series")
    for provider, rows in groupby(made.summary(), key=lambda row: row["provider"]):
        echo()
        echo(f"[{provider}]")
        cells = [
            (
                row["instrument"],
                row["unit"],
                f"{row['rows']:,}",
                *(amount(row[name], most=1e15) for name in ("least", "mean", "most", "last")),
                row["tags"],
            )
            for row in rows
        ]
        table(_COLUMNS, cells, right=_COLUMNS[2:7])
    for note in made.notes:
        echo(f"note: {note}")
