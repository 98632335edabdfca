"""``trace report loader``: what was loaded."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, lines_options, report_options
from dotnetdiag.cli.shown_loader import ROWS, show


@click.command("loader", cls=EachFile)
@files_argument()
@click.option("-n", "--number", type=click.IntRange(min=0), default=ROWS, show_default=True, help="How many rows.")
@lines_options
@report_options
def loader(file: Path, number: int, form: str) -> None:
    """Show what was loaded in a trace FILE: assemblies, the binds that took longest, those that failed and why, and types.

    The formats for programs have a row for each assembly; --json has binds and types too. It needs a recording from the
    start of a program: --clrevents loader+assemblyloader, and typediagnostic for types.

    \b
    dotnetdiag trace collect --clrevents loader+assemblyloader -o app.nettrace -- dotnet app.dll
    dotnetdiag trace report app.nettrace loader
    dotnetdiag trace report app.nettrace loader --json | jq '.binds[] | select(.success == 0)'
    """
    be_lean()
    from dotnetdiag.recipes.questions import loader as ask

    answer("loader", file, form, ask, people=lambda made: show(made, number))
