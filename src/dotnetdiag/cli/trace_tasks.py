"""``trace report tasks``: what awaited what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.questions import answer, figures, report_options
from dotnetdiag.cli.render import counted, echo, table
from dotnetdiag.tui.widths import cut

if TYPE_CHECKING:
    from dotnetdiag.analysis.tasks import TaskReport


@click.command("tasks", cls=EachFile)
@files_argument()
@click.option("-n", "--number", type=click.IntRange(min=0), default=5, show_default=True, help="How many rows.")
@report_options
def tasks(file: Path, number: int, form: str) -> None:
    """Show what awaited what in a trace FILE: the methods that awaited, and the longest chains of awaits, whatever threads they ran on.

    The formats for programs have a row for each await. It needs a recording with the awaits of tasks: --providers
    System.Threading.Tasks.TplEventSource:0xB:5

    \b
    dotnetdiag trace report app.nettrace tasks
    dotnetdiag trace report app.nettrace tasks --json | jq '.chains[0].chain'
    """
    lean_numpy()
    from dotnetdiag.recipes.questions import tasks as ask

    answer("tasks", file, form, ask, people=lambda made: show(made, number))


def show(made: TaskReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    more = [
        *([f"{totals.blocking:,} block their threads"] if totals.blocking else []),
        *([f"{totals.unfinished:,} without an end"] if totals.unfinished else []),
    ]
    echo(
        ", ".join(
            [
                f"{counted(totals.count, 'await')} in {counted(totals.chains, 'chain')}, at most {totals.deepest:,} deep",
                *more,
            ]
        )
    )
    parts = ", ".join(f"{name} {value:,.3f}" for name, value in totals.awaits_ms.items())
    echo(f"ms: {parts}" if parts else "how long they took is not told")
    figures(made.by_method, ("method",), number, of=("own_ms", "total_ms", "max_ms"))
    chains = [
        ("" if row["duration_ms"] is None else f"{row['duration_ms']:,.3f}", row["chain"])
        for row in made.chains[:number].to_pylist()
    ]
    if chains:
        echo()
        table(("ms", "chain"), chains, right=("ms",), shorten=cut)
