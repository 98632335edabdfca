"""``trace report logs``: what was logged, and within which request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.questions import answer, report_options
from dotnetdiag.cli.render import counted, echo, table
from dotnetdiag.tui.widths import cut

if TYPE_CHECKING:
    from dotnetdiag.analysis.logs import LogReport


@click.command("logs", cls=EachFile)
@files_argument()
@click.option("-n", "--number", type=click.IntRange(min=0), default=20, show_default=True, help="How many rows.")
@report_options
def logs(file: Path, number: int, form: str) -> None:
    """Show what the program of a trace FILE logged with ILogger: how much of what, and warnings and errors with their requests.

    The formats for programs have a row for each message. It needs a recording with --providers
    Microsoft-Extensions-Logging:0x4:5 and, to know the requests, those of `trace report requests`.

    \b
    dotnetdiag trace report web.nettrace logs
    dotnetdiag trace report web.nettrace logs --format jsonl | grep '"level": "Error"'
    """
    lean_numpy()
    from dotnetdiag.recipes.questions import logs as ask

    answer("logs", file, form, ask, people=lambda made: show(made, number))


def show(made: LogReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    levels = ", ".join(f"{count:,} {name}" for name, count in totals.by_level.items())
    echo(f"{counted(totals.count, 'message')}: {levels}; {totals.in_requests:,} within requests")
    events = [
        (f"{row['count']:,}", row["level"] or "", row["logger"] or "", row["example"] or "")
        for row in made.by_event[:number].to_pylist()
    ]
    if events:
        echo()
        table(
            ("count", "level", "logger", "one of them"),
            events,
            right=("count",),
            shorten=cut,
            drop=("logger",),
            room=30,
        )
    levels_of = enumerate(made.messages.values("level"))
    places = [place for place, level in levels_of if level in ("Warning", "Error", "Critical")]
    wrong = [made.messages.row(place) for place in places[:number]]
    if wrong:
        echo()
        cells = [(f"{row['ms']:,.3f}", row["level"], row["request"] or "", row["message"] or "") for row in wrong]
        table(("ms", "level", "request", "message"), cells, right=("ms",), shorten=cut)
