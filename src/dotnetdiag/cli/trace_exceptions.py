"""``trace report exceptions``: what was thrown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.questions import answer, figures, report_options
from dotnetdiag.cli.render import counted, echo, table

if TYPE_CHECKING:
    from dotnetdiag.analysis.exceptions import ExceptionReport


@click.command("exceptions", cls=EachFile)
@files_argument()
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="How many rows of each table."
)
@report_options
def exceptions(file: Path, number: int, form: str) -> None:
    """Show the exceptions that were thrown in a trace FILE, caught or not: by type, the most frequent messages, who threw and who caught.

    The formats for programs have the types; --json has the rest, and a row for each throw. It needs a recording with
    exceptions: --clrevents exception, or the profile dotnet-common.

    \b
    dotnetdiag trace report app.nettrace exceptions
    dotnetdiag trace report app.nettrace exceptions --json | jq '.by_type[0]'
    """
    lean_numpy()
    from dotnetdiag.recipes.questions import exceptions as ask

    answer("exceptions", file, form, ask, people=lambda made: show(made, number))


def show(made: ExceptionReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    if not made.count:
        return
    totals, most = made.totals, max(made.by_second.values("count"))
    rate = "" if totals.per_second is None else f", {totals.per_second:,.1f} a second"
    more = [
        *([f"{totals.caught:,} caught, after {totals.catch_ms:,.3f} ms together"] if totals.caught else []),
        *([f"{totals.again:,} thrown again"] if totals.again else []),
        *([f"{totals.nested:,} while another was handled"] if totals.nested else []),
    ]
    echo(
        f"{counted(totals.count, 'exception')} of {counted(len(made.by_type), 'type')}{rate}, {most:,} in the worst second"
    )
    if more:
        echo("; ".join(more))
    echo()
    rows = [
        (
            f"{row['count']:,}",
            f"{row['caught']:,}",
            f"{row['catch_ms']:,.3f}",
            f"{row['threads']:,}",
            f"{row['first_ms']:,.3f}",
            f"{row['last_ms']:,.3f}",
            row["type"],
        )
        for row in made.by_type.to_pylist()
    ]
    heads = ("count", "caught", "catch ms", "threads", "first ms", "last ms")
    table((*heads, "type"), rows, right=heads, drop=("last ms", "first ms", "threads"), room=40)
    figures(made.by_message, ("type", "message"), number, of=("catch_ms",))
    figures(made.by_method, ("type", "method"), number, of=("catch_ms",))
    figures(made.by_catch, ("type", "caught_by"), number, of=("catch_ms",))
