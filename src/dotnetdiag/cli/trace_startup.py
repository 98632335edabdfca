"""``trace report startup``: what a start went into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, report_options
from dotnetdiag.cli.render import echo, table
from dotnetdiag.tui.widths import shortened_method

if TYPE_CHECKING:
    from dotnetdiag.analysis.startup import StartupReport


_LESS = ("thrown", "pause ms", "GCs", "bind ms", "start ms", "assemblies", "methods")
"""Columns that a narrow terminal does without, the first first."""
_PHASE_CELLS = 40


@click.command("startup", cls=EachFile)
@files_argument()
@click.option("--first", "first", metavar="TIME", help="Look at so much of the recording: 800ms, 3s.  [default: 5s]")
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="How many of the longest."
)
@report_options
def startup(file: Path, first: str | None, number: int, form: str) -> None:
    """Show what the start of the program of a trace FILE went into, by phase, and what took longest.

    The formats for programs have a row for each phase. It needs a recording from the first instruction on, with the loader and
    the compiler.

    \b
    dotnetdiag trace collect --clrevents loader+assemblyloader+jit --clreventlevel verbose -o app.nettrace -- dotnet app.dll
    dotnetdiag trace report app.nettrace startup
    dotnetdiag trace report app.nettrace startup --first 800ms --json | jq .phases
    """
    be_lean()
    from dotnetdiag.recipes.questions import startup as ask

    answer(
        "startup",
        file,
        form,
        lambda trace: ask(trace, first=first),
        people=lambda made: _show(made, number),
    )


def _show(made: StartupReport, number: int) -> None:
    for note in made.notes:
        echo(f"note: {note}")
    if not len(made.phases):
        return
    totals = made.totals
    began = "" if totals.main_ms is None else f"; {totals.program} began after {totals.main_ms:,.1f}"
    echo(f"the first {totals.end_ms:,.0f} ms{began}")
    has_cpu = totals.cpu_ms is not None
    heads: tuple[str, ...] = (
        "start ms",
        "ms",
        "assemblies",
        "bind ms",
        "methods",
        "compile ms",
        "GCs",
        "pause ms",
        "thrown",
    )
    cells = [
        (
            *(f"{row[name]:,.1f}" for name in ("start_ms", "duration_ms")),
            f"{row['assemblies']:,}",
            f"{row['bind_ms']:,.1f}",
            f"{row['methods']:,}",
            f"{row['compile_ms']:,.1f}",
            f"{row['collections']:,}",
            f"{row['pause_ms']:,.1f}",
            f"{row['exceptions']:,}",
            *([f"{row['cpu_ms']:,.1f}"] if has_cpu else []),
            row["phase"],
        )
        for row in made.phases.to_pylist()
    ]
    heads = (*heads, *(["CPU ms"] if has_cpu else []))
    echo()
    table((*heads, "phase"), cells, right=heads, drop=_LESS, room=_PHASE_CELLS)
    rows = [
        (f"{row['duration_ms']:,.3f}", f"{row['start_ms']:,.3f}", row["kind"], row["name"])
        for row in made.longest[:number].to_pylist()
    ]
    if rows:
        echo()
        table(("ms", "start ms", "what", "name"), rows, right=("ms", "start ms"), shorten=shortened_method)
