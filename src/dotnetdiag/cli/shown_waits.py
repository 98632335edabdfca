"""What ``trace report contention`` and ``waits`` shows to people: who waited for whom, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import counted, echo
from dotnetdiag.cli.shown_rows import figures

if TYPE_CHECKING:
    from dotnetdiag.analysis.waits import WaitReport

ROWS = 5
"""Of each table, where nobody says how many."""


def show(made: WaitReport, what: str, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    unfinished = f", {totals.unfinished:,} without an end" if totals.unfinished else ""
    echo(f"{counted(totals.count, what)} of {counted(totals.threads, 'thread')}, {totals.total_ms:,.3f} ms{unfinished}")
    parts = ", ".join(f"{name} {value:,.3f}" for name, value in totals.waits_ms.items())
    echo(f"ms: {parts}" if parts else "none has ended: how long they take is in no figure")
    of = ("total_ms", "max_ms", *(("unfinished",) if totals.unfinished else ()))
    several = len(set(made.by_method.values("pid"))) > 1
    figures(made.by_method, ("method",), number, several=several, of=of)
    figures(made.by_lock, ("source", "lock", "object"), number, several=several, of=of)
    figures(made.by_owner, ("tid", "owner_tid"), number, several=several, of=of)
