"""``trace report FILE``: what stands out."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from dotnetdiag.cli.each_file import EachFile, files_argument, named
from dotnetdiag.cli.files import STDIN
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, lines_options, report_options
from dotnetdiag.cli.shown_advice import show


@click.command("advice", cls=EachFile)
@files_argument()
@lines_options
@report_options
def advice(file: Path, form: str) -> None:
    """Show what stands out in a trace FILE, most important first, and the command for more of it.

    Everything that was recorded is looked at: collections, locks, the thread pool, requests, exceptions, the compiler, processors. Of what
    is well nothing is said; what the recording lacks is named.

    \b
    dotnetdiag trace report app.nettrace
    dotnetdiag trace report app.nettrace --json | jq '.findings[0].text'
    """
    be_lean()
    from dotnetdiag.recipes.questions import advice as ask

    name = named(file)
    is_dashed = name.startswith("-") and file != STDIN  # which has to come once more
    more = f"dotnetdiag trace report {shlex.quote(f'./{name}' if is_dashed else name)}"
    answer("advice", file, form, ask, people=lambda made: show(made, more))
