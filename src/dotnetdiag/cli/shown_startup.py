"""What ``trace report startup`` shows to people: what a start went into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import echo, say_more, table
from dotnetdiag.tui.widths import shortened_method

if TYPE_CHECKING:
    from dotnetdiag.analysis.startup import StartupReport

ROWS = 10
"""Of what took longest, where nobody says how many."""

_LESS = ("thrown", "pause ms", "GCs", "bind ms", "start ms", "assemblies", "methods")
"""Columns that a narrow terminal does without, the first first."""
_PHASE_CELLS = 40
_COLUMNS = (
    ("start ms", "start_ms", ",.1f"),
    ("ms", "duration_ms", ",.1f"),
    ("assemblies", "assemblies", ","),
    ("bind ms", "bind_ms", ",.1f"),
    ("methods", "methods", ","),
    ("compile ms", "compile_ms", ",.1f"),
    ("GCs", "collections", ","),
    ("pause ms", "pause_ms", ",.1f"),
    ("thrown", "exceptions", ","),
    ("CPU ms", "cpu_ms", ",.1f"),
)
"""Those that nothing is told of are not shown."""


def show(made: StartupReport, number: int) -> None:
    """Print it for people: ``number`` of what took longest."""
    for note in made.notes:
        echo(f"note: {note}")
    if made.totals.others:
        echo("note: --process PID shows another")
    if not len(made.phases):
        return
    phases, totals = made.phases.to_pylist(), made.totals
    begin_ms = phases[0]["start_ms"]
    from_ms = f" from {begin_ms:,.1f} ms on" if begin_ms else ""
    began = "" if totals.main_ms is None else f"; {totals.program} began after {totals.main_ms - begin_ms:,.1f}"
    echo(f"the first {totals.end_ms - begin_ms:,.0f} ms{from_ms}{began}")
    told = [one for one in _COLUMNS if any(row[one[1]] is not None for row in phases)]
    heads = tuple(head for head, _, _ in told)
    cells = [(*(f"{row[name]:{form}}" for _, name, form in told), row["phase"]) for row in phases]
    echo()
    table((*heads, "phase"), cells, right=heads, drop=_LESS, room=_PHASE_CELLS)
    rows = [
        (f"{row['duration_ms']:,.3f}", f"{row['start_ms']:,.3f}", row["kind"], row["name"])
        for row in made.longest[:number].to_pylist()
    ]
    if rows:
        echo()
        table(("ms", "start ms", "what", "name"), rows, right=("ms", "start ms"), shorten=shortened_method)
        say_more(len(made.longest) - number)
