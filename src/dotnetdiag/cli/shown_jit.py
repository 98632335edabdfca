"""What ``trace report jit`` shows to people: what was compiled while the program ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import counted, echo, say_more, table
from dotnetdiag.table.largest import largest
from dotnetdiag.tui.widths import shortened_method

if TYPE_CHECKING:
    from dotnetdiag.analysis.jit import JitReport

ROWS = 10
"""Of each table, where nobody says how many."""


def show(made: JitReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    within = f" in {totals.compile_ms:,.3f} ms" if totals.compile_ms is not None else ""
    waited_ms = f", {totals.foreground_ms:,.3f} ms" if totals.foreground_ms is not None else ""
    waited = f"; threads waited for {totals.foreground:,} of them{waited_ms}" if totals.foreground is not None else ""
    ended = totals.count - totals.unfinished
    echo(f"{counted(ended or totals.count, 'method')} compiled{within}{waited}")
    tiers = ", ".join(f"{count:,} {name}" for name, count in totals.by_tier.items())
    code = f", {totals.native_bytes:,} of code" if totals.native_bytes is not None else ""
    echo(f"{tiers}{'; ' if tiers else ''}{totals.il_bytes:,} bytes of IL{code}")
    if totals.precompiled is not None:
        echo(
            f"compiled ahead: {totals.precompiled:,} found; {totals.rejected:,} not there or rejected, and compiled anew"
        )
    if totals.again:
        echo(f"{totals.again:,} of them had been compiled before")
    if totals.unfinished:
        echo(f"{totals.unfinished:,} without an end" + (", which would tell how long it took" if not within else ""))
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
        say_more(totals.count - totals.unfinished - len(cells))
    if totals.inlining is not None and number:
        echo()
        echo(f"{counted(totals.inlining.inlined, 'call')} inlined, {totals.inlining.failed:,} not:")
        reasons = [(f"{row['count']:,}", row["reason"], row["callee"]) for row in made.inlining[:number].to_pylist()]
        table(("count", "reason", "method"), reasons, right=("count",), shorten=shortened_method)
        say_more(len(made.inlining) - number)
