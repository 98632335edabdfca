"""``trace report contention`` and ``trace report waits``: who waited for whom, and where."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, lines_options, report_options
from dotnetdiag.cli.shown_waits import ROWS, show

_number = click.option(
    "-n", "--number", type=click.IntRange(min=0), default=ROWS, show_default=True, help="How many rows of each table."
)


@click.command("contention", cls=EachFile)
@files_argument()
@_number
@lines_options
@report_options
def contention(file: Path, number: int, form: str) -> None:
    """Show where threads of a trace FILE wanted a lock that another thread had: the methods, the locks, and who waited for whom.

    The formats for programs have a row for each time. It needs a recording with contention: --clrevents contention. Which
    lock it was and who had it is told by .NET 7 and later.

    \b
    dotnetdiag trace report app.nettrace contention
    dotnetdiag trace report app.nettrace contention --json | jq '.by_lock[0]'
    """
    be_lean()
    from dotnetdiag.recipes.questions import contention as ask

    answer(
        "contention",
        file,
        form,
        ask,
        people=lambda made: show(made, "contention", number),
    )


@click.command("waits", cls=EachFile)
@files_argument()
@_number
@lines_options
@report_options
def waits(file: Path, number: int, form: str) -> None:
    """Show where threads of a trace FILE waited in the runtime: for handles, for other threads, on monitors, and for locks.

    The formats for programs have a row for each wait. It needs a recording of .NET 9 or later with waits: --clrevents waithandle
    --clreventlevel verbose.

    \b
    dotnetdiag trace report app.nettrace waits
    dotnetdiag trace report app.nettrace waits --format csv > waits.csv
    """
    be_lean()
    from dotnetdiag.recipes.questions import waits as ask

    answer("waits", file, form, ask, people=lambda made: show(made, "wait", number))
