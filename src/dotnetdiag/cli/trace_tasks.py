"""``trace report tasks``: what awaited what."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, lines_options, report_options
from dotnetdiag.cli.shown_tasks import ROWS, show


@click.command("tasks", cls=EachFile)
@files_argument()
@click.option("-n", "--number", type=click.IntRange(min=0), default=ROWS, show_default=True, help="How many rows.")
@lines_options
@report_options
def tasks(file: Path, number: int, form: str) -> None:
    """Show what awaited what in a trace FILE: the methods that awaited, and the longest chains of awaits, whatever threads they ran on.

    The formats for programs have a row for each await. It needs a recording with --profile tasks.

    \b
    dotnetdiag trace report app.nettrace tasks
    dotnetdiag trace report app.nettrace tasks --json | jq '.chains[0].chain'
    """
    be_lean()
    from dotnetdiag.recipes.questions import tasks as ask

    answer("tasks", file, form, ask, people=lambda made: show(made, number))
