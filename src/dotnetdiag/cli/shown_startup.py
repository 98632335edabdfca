"""What ``trace report startup`` shows to people: what a start went into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import echo, table
from dotnetdiag.tui.widths import shortened_method

if TYPE_CHECKING:
    from dotnetdiag.analysis.startup import StartupReport

ROWS = 10
"""Of what took longest, where nobody says how many."""

_LESS = ("thrown", "pause ms", "GCs", "bind ms", "start ms", "assemblies", "methods")
"""Columns that a narrow terminal does without, the first first."""
_PHASE_CELLS = 40


def show(made: StartupReport, number: int) -> None:
    """Print it for people: ``number`` of what took longest."""
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
