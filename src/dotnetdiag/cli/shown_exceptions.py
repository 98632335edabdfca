"""What ``trace report exceptions`` shows to people: what was thrown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import counted, echo, table
from dotnetdiag.cli.shown_rows import figures

if TYPE_CHECKING:
    from dotnetdiag.analysis.exceptions import ExceptionReport

ROWS = 10
"""Of each table, where nobody says how many."""


def show(made: ExceptionReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    if not made.count:
        return
    totals, most = made.totals, max(made.by_second.values("count"))
    rate = "" if totals.per_second is None else f", {totals.per_second:,.1f} a second"
    more = [
        *([f"{totals.again:,} of them thrown again"] if totals.again else []),
        *([f"{totals.caught:,} caught, after {totals.catch_ms:,.3f} ms together"] if totals.caught else []),
        *([f"{totals.nested:,} while another was handled"] if totals.nested else []),
    ]
    echo(
        f"{counted(totals.count, 'exception')} of {counted(len(made.by_type), 'type')}{rate}, {most:,} in the worst second"
    )
    if more:
        echo("; ".join(more))
    echo()
    rows = [
        (
            f"{row['count']:,}",
            "" if row["caught"] is None else f"{row['caught']:,}",
            "" if row["catch_ms"] is None else f"{row['catch_ms']:,.3f}",
            f"{row['threads']:,}",
            f"{row['first_ms']:,.3f}",
            f"{row['last_ms']:,.3f}",
            row["type"],
        )
        for row in made.by_type.to_pylist()
    ]
    heads = ("count", "caught", "catch ms", "threads", "first ms", "last ms")
    table((*heads, "type"), rows, right=heads, drop=("last ms", "first ms", "threads"), room=40)
    figures(made.by_message, ("type", "message"), number, of=("catch_ms",))
    figures(made.by_method, ("type", "method"), number, of=("catch_ms",))
    figures(made.by_catch, ("type", "caught_by"), number, of=("catch_ms",))
