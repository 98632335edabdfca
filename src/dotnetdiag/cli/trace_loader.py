"""``trace report loader``: what was loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.questions import answer, largest, report_options
from dotnetdiag.cli.render import echo, table
from dotnetdiag.tui.widths import cut, shortened

if TYPE_CHECKING:
    from dotnetdiag.analysis.loader import LoaderReport


_NO_CULTURE = re.compile(r", Culture=neutral|, PublicKeyToken=\w+")


@click.command("loader", cls=EachFile)
@files_argument()
@click.option("-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="How many rows.")
@report_options
def loader(file: Path, number: int, form: str) -> None:
    """Show what was loaded in a trace FILE: assemblies, the binds that took longest, those that failed and why, and types.

    The formats for programs have a row for each bind; --json has assemblies and types too. It needs a recording from the
    start of a program: --clrevents loader+assemblyloader, and typediagnostic for types.

    \b
    dotnetdiag trace collect --clrevents loader+assemblyloader -o app.nettrace -- dotnet app.dll
    dotnetdiag trace report app.nettrace loader
    dotnetdiag trace report app.nettrace loader --json | jq '.binds[] | select(.success == 0)'
    """
    lean_numpy()
    from dotnetdiag.recipes.questions import loader as ask

    answer("loader", file, form, ask, people=lambda made: show(made, number))


def show(made: LoaderReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not (totals.assemblies or totals.binds or totals.types):
        return
    parts = [f"{totals.assemblies:,} assemblies loaded"]
    if totals.bind_ms is not None:
        parts.append(f"{totals.binds:,} binds in {totals.bind_ms:,.3f} ms, {totals.failed:,} failed")
    if totals.type_ms is not None:
        parts.append(f"{totals.types:,} loads of types in {totals.type_ms:,.3f} ms")
    echo("; ".join(parts))
    places = [place for place, success in enumerate(made.binds.values("success")) if success == 0]
    failed = [made.binds.row(place) for place in places[:number]]
    if failed:
        echo()
        cells = [
            (f"{row['start_ms']:,.3f}", _assembly(row["assembly"]), _assembly(row["requested_by"]), row["error"] or "")
            for row in failed
        ]
        heads = ("start ms", "not found", "wanted by", "why")
        table(heads, cells, right=("start ms",), shorten=cut, drop=("start ms", "wanted by"), room=30)
    slow = largest(made.binds, "duration_ms", number)
    if slow:
        echo()
        cells = [
            (f"{row['duration_ms']:,.3f}", f"{row['start_ms']:,.3f}", _assembly(row["assembly"]), row["path"] or "")
            for row in slow
        ]
        table(
            ("ms", "start ms", "bind", "file"),
            cells,
            right=("ms", "start ms"),
            shorten=shortened,
            drop=("start ms", "file"),
            room=40,
        )
    types = made.types[:number].to_pylist()
    if types:
        echo()
        named = [(f"{row['total_ms']:,.3f}", f"{row['count']:,}", row["type"] or "") for row in types]
        table(("ms", "count", "type"), named, right=("ms", "count"), shorten=cut)


def _assembly(name: str | None) -> str:
    """What tells it from others: most have no culture, and all of a name one token."""
    return _NO_CULTURE.sub("", name or "")
