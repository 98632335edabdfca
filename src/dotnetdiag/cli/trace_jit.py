"""``trace report jit``: what was compiled while the program ran."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, report_options
from dotnetdiag.cli.shown_jit import ROWS, show


@click.command("jit", cls=EachFile)
@files_argument()
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=ROWS, show_default=True, help="How many of the longest."
)
@report_options
def jit(file: Path, number: int, form: str) -> None:
    """Show the methods of a trace FILE that were compiled while it was recorded: what they come to, and the longest.

    The formats for programs have all of them, in the order of their begins. It needs a recording with the compiler's
    events: --clrevents jit+compilation --clreventlevel verbose. What was compiled beforehand (ReadyToRun) is not there; with
    compilationdiagnostic too it says which of that was not used, with jittracing why calls were not inlined.

    \b
    dotnetdiag trace report app.nettrace jit
    dotnetdiag trace report app.nettrace jit --json | jq .totals
    """
    be_lean()
    from dotnetdiag.recipes.questions import jit as ask

    answer("jit", file, form, ask, people=lambda made: show(made, number))
