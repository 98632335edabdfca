"""``trace report logs``: what was logged, and within which request."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, report_options
from dotnetdiag.cli.shown_logs import ROWS, show


@click.command("logs", cls=EachFile)
@files_argument()
@click.option("-n", "--number", type=click.IntRange(min=0), default=ROWS, show_default=True, help="How many rows.")
@report_options
def logs(file: Path, number: int, form: str) -> None:
    """Show what the program of a trace FILE logged with ILogger: how much of what, and warnings and errors with their requests.

    The formats for programs have a row for each message. It needs a recording with --profile logs.

    \b
    dotnetdiag trace report web.nettrace logs
    dotnetdiag trace report web.nettrace logs --format jsonl | grep '"level": "Error"'
    """
    be_lean()
    from dotnetdiag.recipes.questions import logs as ask

    answer("logs", file, form, ask, people=lambda made: show(made, number))
