"""``trace report requests``: what was slow, what failed, and what it spent."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, report_options
from dotnetdiag.cli.shown_requests import ROWS, show


@click.command("requests", cls=EachFile)
@files_argument()
@click.option(
    "-n",
    "--number",
    type=click.IntRange(min=0),
    default=ROWS,
    show_default=True,
    help="How many rows, of routes and of the slowest.",
)
@report_options
def requests(file: Path, number: int, form: str) -> None:
    """Show the requests of a trace FILE that came in and went out: by route, how long they took and what they spent, and the slowest with
    what was within them.

    The formats for programs have a row for each request and each part of it. It needs a recording with --profile requests, or
    requests,database for commands of databases too.

    \b
    dotnetdiag trace report web.nettrace requests
    dotnetdiag trace report web.nettrace requests --json | jq '.by_route[] | select(.failed > 0)'
    """
    be_lean()
    from dotnetdiag.recipes.questions import requests as ask

    answer("requests", file, form, ask, people=lambda made: show(made, number))
