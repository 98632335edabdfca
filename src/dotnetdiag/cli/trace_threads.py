"""``trace report threads``: who the threads are, and what each did."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, report_options
from dotnetdiag.cli.shown_threads import ROWS, show


@click.command("threads", cls=EachFile)
@files_argument()
@click.option("-n", "--number", type=click.IntRange(min=0), default=ROWS, show_default=True, help="How many threads.")
@report_options
def threads(file: Path, number: int, form: str) -> None:
    """Show the threads of a trace FILE: when each came, what it is, how long it ran and waited, what it allocated and threw.

    The formats for programs have all of them. What a recording tells depends on what was recorded: samples for running and
    waiting, --clrevents gc+threading+contention+waithandle+exception --clreventlevel verbose for the rest.

    \b
    dotnetdiag trace report app.nettrace threads
    dotnetdiag trace report app.nettrace threads --format csv > threads.csv
    """
    be_lean()
    from dotnetdiag.recipes.questions import threads as ask

    answer("threads", file, form, ask, people=lambda made: show(made, number))
