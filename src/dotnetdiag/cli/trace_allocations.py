"""``trace report allocations``: what was allocated, and by whom."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.questions import answer, figures, report_options
from dotnetdiag.cli.render import echo

if TYPE_CHECKING:
    from dotnetdiag.analysis.allocations import AllocationReport


@click.command("allocations", cls=EachFile)
@files_argument()
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="How many rows of each table."
)
@report_options
def allocations(file: Path, number: int, form: str) -> None:
    """Show what the program of a trace FILE allocated: the types, the methods and threads that asked, and large objects apart.

    The formats for programs have a row for each type and method; --json has all tables. It needs a recording with
    allocations: --profile gc-verbose has ticks, one for about 100 KB; .NET 10 has samples, which are right on average and
    tell their error: --providers Microsoft-Windows-DotNETRuntime:0x80000000000:4

    \b
    dotnetdiag trace report app.nettrace allocations
    dotnetdiag trace report app.nettrace allocations --json | jq '.by_type[0]'
    """
    lean_numpy()
    from dotnetdiag.recipes.questions import allocations as ask

    answer(
        "allocations",
        file,
        form,
        ask,
        people=lambda made: show(made, number),
    )


def show(made: AllocationReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    totals = made.totals
    if not totals.count:
        for note in made.notes:
            echo(f"note: {note}")
        return
    error = "" if totals.error_bytes is None else f" ± {totals.error_bytes / 1e6:,.3f}"
    rate = "" if totals.bytes_per_second is None else f", {totals.bytes_per_second / 1e6:,.1f} MB a second"
    objects = "" if totals.objects is None else f", about {totals.objects:,} objects"
    echo(f"{totals.bytes / 1e6:,.3f}{error} MB allocated{rate}{objects}; of {totals.count:,} {totals.source}")
    echo(f"large objects {totals.large_bytes / 1e6:,.3f} MB, pinned ones {totals.pinned_bytes / 1e6:,.3f} MB")
    for note in made.notes:
        echo(f"note: {note}")
    of = ("bytes", *(("error_bytes",) if totals.error_bytes is not None else ()), "percent")
    figures(made.by_type, ("type",), number, of=of)
    figures(made.by_method, ("method",), number, of=of)
    figures(made.by_thread, ("tid",), number, of=of, called={"tid": "thread"})
    if len(made.large):
        echo()
        echo("large objects")
        figures(made.large, ("type", "method"), number, of=of)
