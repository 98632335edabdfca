"""``trace report threadpool``: how long work waited for a thread of the pool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.questions import answer, figures, report_options
from dotnetdiag.cli.render import echo, table

if TYPE_CHECKING:
    from dotnetdiag.analysis.thread_pool import ThreadPoolReport


@click.command("threadpool", cls=EachFile)
@files_argument()
@click.option("-n", "--number", type=click.IntRange(min=0), default=5, show_default=True, help="How many rows.")
@report_options
def threadpool(file: Path, number: int, form: str) -> None:
    """Show what the thread pool did in a trace FILE: how long work waited in its queue, when it starved, and why it changed its size.

    The formats for programs have a row for each piece of work; --json has all tables. It needs a recording with what is
    queued: --providers Microsoft-Windows-DotNETRuntime:0x10000:4,System.Diagnostics.Eventing.FrameworkEventSource:0x2:5

    \b
    dotnetdiag trace report app.nettrace threadpool
    dotnetdiag trace report app.nettrace threadpool --json | jq .totals
    """
    lean_numpy()
    from dotnetdiag.recipes.questions import threadpool as ask

    answer("threadpool", file, form, ask, people=lambda made: show(made, number))


def show(made: ThreadPoolReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if totals.count:
        unfinished = f", {totals.unfinished:,} not begun" if totals.unfinished else ""
        parts = ", ".join(f"{name} {value:,.3f}" for name, value in totals.queue_ms.items())
        echo(f"{totals.count:,} pieces of work{unfinished}; ms in the queue: {parts or 'not known'}")
        if totals.starved_ms:
            echo(f"starved: for {totals.starved_ms:,.3f} ms some work had waited for more than 100 ms")
    if totals.max_threads is not None:
        reasons = ", ".join(f"{count:,} {name}" for name, count in totals.reasons.items())
        changes = f"; changes of their number: {reasons}" if reasons else ""
        echo(f"at most {totals.max_threads:,} threads{changes}")
    if not number:
        return
    starved = [
        (
            f"{row['start_ms']:,.3f}",
            f"{row['duration_ms']:,.3f}",
            f"{row['late']:,}",
            f"{row['longest_ms']:,.3f}",
        )
        for row in made.starvation[:number].to_pylist()
    ]
    if starved:
        echo()
        columns = ("starved at ms", "for ms", "pieces", "longest ms")
        table(columns, starved, right=columns)
    figures(made.by_method, ("method",), number, called={"method": "queued by"})
    changed = [
        (f"{row['ms']:,.3f}", f"{row['threads']:,}", row["reason"]) for row in made.adjustments[:number].to_pylist()
    ]
    if changed:
        echo()
        table(("ms", "threads", "reason"), changed, right=("ms", "threads"))
