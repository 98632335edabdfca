"""``trace report jit``: what was compiled while the program ran."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.questions import answer, largest, report_options
from dotnetdiag.cli.render import echo, table
from dotnetdiag.tui.widths import shortened_method

if TYPE_CHECKING:
    from dotnetdiag.analysis.jit import JitReport


@click.command("jit", cls=EachFile)
@files_argument()
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="How many of the longest."
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
    lean_numpy()
    from dotnetdiag.recipes.questions import jit as ask

    answer("jit", file, form, ask, people=lambda made: show(made, number))


def show(made: JitReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    echo(
        f"{totals.count:,} methods compiled in {totals.compile_ms:,.3f} ms; threads waited for {totals.foreground:,} of "
        f"them, {totals.foreground_ms:,.3f} ms"
    )
    tiers = ", ".join(f"{count:,} {name}" for name, count in totals.by_tier.items())
    echo(f"{tiers}; {totals.il_bytes:,} bytes of IL, {totals.native_bytes:,} of code")
    if totals.precompiled is not None:
        echo(
            f"compiled ahead: {totals.precompiled:,} found; {totals.rejected:,} not there or rejected, and compiled anew"
        )
    if totals.again:
        echo(f"{totals.again:,} of them had been compiled before")
    if totals.unfinished:
        echo(f"{totals.unfinished:,} without an end")
    columns = ("compile ms", "start ms", "IL", "code", "tier", "method")
    cells = [
        (
            f"{row['compile_ms']:,.3f}",
            f"{row['start_ms']:,.3f}",
            f"{row['il_bytes']:,}",
            f"{row['native_bytes']:,}",
            row["tier"],
            row["method"],
        )
        for row in largest(made.methods, "compile_ms", number)
    ]
    if cells:
        echo()
        table(columns, cells, right=columns[:4], shorten=shortened_method, drop=("IL", "code", "start ms"), room=40)
    if totals.inlining is not None and number:
        echo()
        echo(f"{totals.inlining.inlined:,} calls inlined, {totals.inlining.failed:,} not:")
        reasons = [(f"{row['count']:,}", row["reason"], row["callee"]) for row in made.inlining[:number].to_pylist()]
        table(("count", "reason", "method"), reasons, right=("count",), shorten=shortened_method)
        if len(made.inlining) > number:
            echo(f"{len(made.inlining) - number:,} more")
