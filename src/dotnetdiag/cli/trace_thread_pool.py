"""``trace report threadpool``: how long work waited for a thread of the pool."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, lines_options, report_options
from dotnetdiag.cli.shown_thread_pool import ROWS, show


@click.command("threadpool", cls=EachFile)
@files_argument()
@click.option("-n", "--number", type=click.IntRange(min=0), default=ROWS, show_default=True, help="How many rows.")
@lines_options
@report_options
def threadpool(file: Path, number: int, form: str) -> None:
    """Show what the thread pool did in a trace FILE: how long work waited in its queue, when it starved, and why it changed its size.

    The formats for programs have a row for each piece of work; --json has all tables. It needs a recording with
    --profile threadpool.

    \b
    dotnetdiag trace report app.nettrace threadpool
    dotnetdiag trace report app.nettrace threadpool --json | jq .totals
    """
    be_lean()
    from dotnetdiag.recipes.questions import threadpool as ask

    answer("threadpool", file, form, ask, people=lambda made: show(made, number))
