"""``trace report startup``: what a start went into."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, lines_options, report_options
from dotnetdiag.cli.shown_startup import ROWS, show


@click.command("startup", cls=EachFile)
@files_argument()
@click.option("--first", "first", metavar="TIME", help="Look at so much of the recording: 800ms, 3s.  [default: 5s]")
@click.option(
    "--process",
    type=int,
    metavar="PID",
    help="Of a recording of several processes.  [default: that which started first]",
)
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=ROWS, show_default=True, help="How many of the longest."
)
@lines_options
@report_options
def startup(file: Path, first: str | None, process: int | None, number: int, form: str) -> None:
    """Show what the start of the program of a trace FILE went into, by phase, and what took longest.

    The formats for programs have a row for each phase. It needs a recording from the first instruction on, with the loader and
    the compiler.

    \b
    dotnetdiag trace collect --clrevents loader+assemblyloader+jit --clreventlevel verbose -o app.nettrace -- dotnet app.dll
    dotnetdiag trace report app.nettrace startup
    dotnetdiag trace report app.nettrace startup --first 800ms --json | jq .phases
    dotnetdiag trace report all.nettrace startup --process 1234
    """
    be_lean()
    from dotnetdiag.recipes.questions import startup as ask

    answer(
        "startup",
        file,
        form,
        lambda trace: ask(trace, first=first, process=process),
        people=lambda made: show(made, number),
    )
