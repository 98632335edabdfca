"""What ``trace report threadpool`` shows to people: how long work waited for a thread of the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import counted, echo, say_more, table
from dotnetdiag.cli.shown_rows import figures

if TYPE_CHECKING:
    from dotnetdiag.analysis.thread_pool import ThreadPoolReport

ROWS = 5
"""Of each table, where nobody says how many."""


def show(made: ThreadPoolReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if totals.count:
        untold = totals.unfinished - totals.waiting
        unfinished = (
            f", {totals.waiting:,} of them wait{'s' if totals.waiting == 1 else ''} still" if totals.waiting else ""
        )
        unfinished += f", the begin of {untold:,} is not told" if untold else ""
        parts = ", ".join(f"{name} {value:,.3f}" for name, value in totals.queue_ms.items())
        echo(f"{counted(totals.count, 'piece', 'pieces')} of work{unfinished}; ms in the queue: {parts or 'not known'}")
        if totals.starved_ms:
            echo(f"starved: for {totals.starved_ms:,.3f} ms some work had waited for more than 100 ms")
    if totals.max_threads is not None:
        reasons = ", ".join(f"{count:,} {name}" for name, count in totals.reasons.items())
        changes = f"; changes of their number: {reasons}" if reasons else ""
        echo(f"at most {counted(totals.max_threads, 'thread')}{changes}")
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
        say_more(len(made.starvation) - number)
    of = ("total_ms", "max_ms", *(("waiting",) if any(made.by_method.values("waiting")) else ()))
    figures(made.by_method, ("method",), number, of=of, called={"method": "queued by"})
    changed = [
        (f"{row['ms']:,.3f}", f"{row['threads']:,}", row["reason"]) for row in made.adjustments[:number].to_pylist()
    ]
    if changed:
        echo()
        table(("ms", "threads", "reason"), changed, right=("ms", "threads"))
        say_more(len(made.adjustments) - number)
