"""What ``trace report allocations`` shows to people: what was allocated, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import counted, echo
from dotnetdiag.cli.shown_rows import figures

if TYPE_CHECKING:
    from dotnetdiag.analysis.allocations import AllocationReport

ROWS = 10
"""Of each table, where nobody says how many."""


def show(made: AllocationReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    totals = made.totals
    if not totals.count:
        for note in made.notes:
            echo(f"note: {note}")
        return
    error = "" if totals.error_bytes is None else f" ± {totals.error_bytes / 1e6:,.3f}"
    rate = "" if totals.bytes_per_second is None else f", {totals.bytes_per_second / 1e6:,.1f} MB a second"
    is_estimated = totals.objects is not None and totals.error_bytes is not None  # by ticks it may be several times off
    objects = f", about {counted(totals.objects or 0, 'object')}" if is_estimated else ""
    echo(f"{totals.bytes / 1e6:,.3f}{error} MB allocated{rate}{objects}; of {totals.count:,} {totals.source}")
    echo(f"large objects {totals.large_bytes / 1e6:,.3f} MB, pinned ones {totals.pinned_bytes / 1e6:,.3f} MB")
    for note in made.notes:
        echo(f"note: {note}")
    of = ("bytes", *(("error_bytes",) if totals.error_bytes is not None else ()), "percent")
    figures(made.by_type, ("type",), number, of=of)
    figures(made.by_method, ("method",), number, of=of)
    figures(made.by_thread, ("tid",), number, of=of, called={"tid": "thread"})
    if len(made.large):
        echo()
        echo("large objects")
        figures(made.large, ("type", "method"), number, of=of)
