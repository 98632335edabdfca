"""``trace report gc``: what the garbage collector did."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, lines_options, report_options
from dotnetdiag.cli.shown_gc import ROWS, show


@click.command("gc", cls=EachFile)
@files_argument()
@click.option(
    "-n",
    "--number",
    type=click.IntRange(min=0),
    default=ROWS,
    show_default=True,
    help="How many of the longest pauses.",
)
@lines_options
@report_options
def gc(file: Path, number: int, form: str) -> None:
    """Show the collections of a trace FILE: what they come to, and those with the longest pauses.

    The formats for programs have all of them, in the order of their begins, with the sizes of each generation. It
    needs a recording with events of the collector: --profile gc-collect, gc-verbose, or dotnet-common.

    \b
    dotnetdiag trace report app.nettrace gc
    dotnetdiag trace report app.nettrace gc --json | jq .totals
    dotnetdiag trace report app.nettrace gc --format csv > gc.csv
    """
    be_lean()
    from dotnetdiag.recipes.questions import gc as ask

    answer("gc", file, form, ask, people=lambda made: show(made, number))
