"""``trace report exceptions``: what was thrown."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, lines_options, report_options
from dotnetdiag.cli.shown_exceptions import ROWS, show


@click.command("exceptions", cls=EachFile)
@files_argument()
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=ROWS, show_default=True, help="How many rows of each table."
)
@lines_options
@report_options
def exceptions(file: Path, number: int, form: str) -> None:
    """Show the exceptions that were thrown in a trace FILE, caught or not: by type, the most frequent messages, who threw and who caught.

    The formats for programs have the types; --json has the rest, and a row for each throw. It needs a recording with
    exceptions: --clrevents exception, or the profile dotnet-common.

    \b
    dotnetdiag trace report app.nettrace exceptions
    dotnetdiag trace report app.nettrace exceptions --json | jq '.by_type[0]'
    """
    be_lean()
    from dotnetdiag.recipes.questions import exceptions as ask

    answer("exceptions", file, form, ask, people=lambda made: show(made, number))
