"""``trace report exceptions``: what was thrown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.files import RecordingPath
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.output import format_option
from dotnetdiag.cli.questions import answer
from dotnetdiag.cli.render import echo, table
from dotnetdiag.tui.widths import cut

if TYPE_CHECKING:
    from dotnetdiag.analysis.exceptions import ExceptionReport


@click.command("exceptions", cls=Command)
@click.argument("file", type=RecordingPath())
@click.option("-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="How many messages.")
@format_option
def exceptions(file: Path, number: int, form: str) -> None:
    """Show the exceptions that were thrown in a trace FILE, caught or not: by type, and the most frequent messages.

    The formats for programs have the types; --json has messages and how many there were in each second too. It needs
    a recording with exceptions: --clrevents exception, or the profile dotnet-common. Where they are thrown, as a profile
    of stacks, is told in Python: dd.stacks(FILE, "Exception/Start").

    \b
    dotnetdiag trace report app.nettrace exceptions
    dotnetdiag trace report app.nettrace exceptions --json | jq '.by_type[0]'
    """
    lean_numpy()
    from dotnetdiag.recipes.verbs import exceptions as ask

    answer(file, form, ask, rows=lambda made: made.by_type, people=lambda made: _show(made, number))


def _show(made: ExceptionReport, number: int) -> None:
    for note in made.notes:
        echo(f"note: {note}")
    if not made.count:
        return
    most = max(made.by_second.values("count"))
    echo(f"{made.count:,} exceptions of {len(made.by_type):,} types, {most:,} in the worst second")
    echo()
    rows = [
        (f"{row['count']:,}", f"{row['threads']:,}", f"{row['first_ms']:,.3f}", f"{row['last_ms']:,.3f}", row["type"])
        for row in made.by_type.to_pylist()
    ]
    table(("count", "threads", "first ms", "last ms", "type"), rows, right=("count", "threads", "first ms", "last ms"))
    if number:
        echo()
        said = [(f"{row['count']:,}", row["type"], row["message"]) for row in made.by_message.to_pylist()[:number]]
        table(("count", "type", "message"), said, right=("count",), shorten=cut)
