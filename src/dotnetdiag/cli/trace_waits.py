"""``trace report contention`` and ``trace report waits``: who waited for whom, and where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.questions import answer, figures, report_options
from dotnetdiag.cli.render import counted, echo

if TYPE_CHECKING:
    from dotnetdiag.analysis.waits import WaitReport

_number = click.option(
    "-n", "--number", type=click.IntRange(min=0), default=5, show_default=True, help="How many rows of each table."
)


@click.command("contention", cls=EachFile)
@files_argument()
@_number
@report_options
def contention(file: Path, number: int, form: str) -> None:
    """Show where threads of a trace FILE wanted a lock that another thread had: the methods, the locks, and who waited for whom.

    The formats for programs have a row for each time. It needs a recording with contention: --clrevents contention. Which
    lock it was and who had it is told by .NET 7 and later.

    \b
    dotnetdiag trace report app.nettrace contention
    dotnetdiag trace report app.nettrace contention --json | jq '.by_lock[0]'
    """
    lean_numpy()
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
@report_options
def waits(file: Path, number: int, form: str) -> None:
    """Show where threads of a trace FILE waited in the runtime: for handles, for other threads, on monitors, and for locks.

    The formats for programs have a row for each wait. It needs a recording of .NET 9 or later with waits: --clrevents waithandle
    --clreventlevel verbose.

    \b
    dotnetdiag trace report app.nettrace waits
    dotnetdiag trace report app.nettrace waits --format csv > waits.csv
    """
    lean_numpy()
    from dotnetdiag.recipes.questions import waits as ask

    answer("waits", file, form, ask, people=lambda made: show(made, "wait", number))


def show(made: WaitReport, what: str, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    unfinished = f", {totals.unfinished:,} without an end" if totals.unfinished else ""
    echo(f"{counted(totals.count, what)} of {counted(totals.threads, 'thread')}, {totals.total_ms:,.3f} ms{unfinished}")
    parts = ", ".join(f"{name} {value:,.3f}" for name, value in totals.waits_ms.items())
    echo(f"ms: {parts}" if parts else "how long they took is not told")
    several = len(set(made.waits.values("pid"))) > 1
    figures(made.by_method, ("method",), number, several=several)
    figures(made.by_lock, ("source", "lock", "object"), number, several=several)
    figures(made.by_owner, ("tid", "owner_tid"), number, several=several)
