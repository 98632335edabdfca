"""What ``trace report tasks`` shows to people: what awaited what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import counted, echo, say_more, table
from dotnetdiag.cli.shown_rows import figures
from dotnetdiag.tui.widths import cut

if TYPE_CHECKING:
    from dotnetdiag.analysis.tasks import TaskReport

ROWS = 5
"""Of each table, where nobody says how many."""


def _blocking(made: TaskReport, number: int) -> None:
    """Who blocks threads, where the table before does not have all of them: what awaits that took the time is told there."""
    blocking = made.by_method.values("blocking")
    at = sorted((row for row, count in enumerate(blocking) if count), key=lambda row: -(blocking[row] or 0))
    if all(row < number for row in at):
        return
    rows = [made.by_method[row] for row in at[:number]]
    echo()
    columns = [(f"{row['blocking']:,}", f"{row['total_ms']:,.3f}", row["method"]) for row in rows]
    table(("blocking", "total ms", "where threads are blocked"), columns, right=("blocking", "total ms"), shorten=cut)
    say_more(len(at) - number)


def show(made: TaskReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    more = [
        *([counted(totals.blocking, "blocks its thread", "block their threads")] if totals.blocking else []),
        *([f"{totals.unfinished:,} without an end"] if totals.unfinished else []),
    ]
    echo(
        ", ".join(
            [
                f"{counted(totals.count, 'await')} in {counted(totals.chains, 'chain')}, at most {totals.deepest:,} deep",
                *more,
            ]
        )
    )
    parts = ", ".join(f"{name} {value:,.3f}" for name, value in totals.awaits_ms.items())
    echo(f"ms: {parts}" if parts else "how long they took is not told")
    of = ("own_ms", "total_ms", "max_ms", *(("blocking",) if totals.blocking else ()))
    figures(made.by_method, ("method",), number, of=of)
    if totals.blocking and number:
        _blocking(made, number)
    chains = [
        ("" if row["duration_ms"] is None else f"{row['duration_ms']:,.3f}", row["chain"])
        for row in made.chains[:number].to_pylist()
    ]
    if chains:
        echo()
        table(("ms", "chain"), chains, right=("ms",), shorten=cut)
        say_more(len(made.chains) - number)
