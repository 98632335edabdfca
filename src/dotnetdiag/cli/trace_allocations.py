"""``trace report allocations``: what was allocated, and by whom."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, lines_options, report_options
from dotnetdiag.cli.shown_allocations import ROWS, show


@click.command("allocations", cls=EachFile)
@files_argument()
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=ROWS, show_default=True, help="How many rows of each table."
)
@lines_options
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
    be_lean()
    from dotnetdiag.recipes.questions import allocations as ask

    answer(
        "allocations",
        file,
        form,
        ask,
        people=lambda made: show(made, number),
    )
