"""What ``trace report loader`` shows to people: what was loaded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dotnetdiag.cli.render import counted, echo, say_more, table
from dotnetdiag.table.largest import largest
from dotnetdiag.tui.widths import cut, shortened

if TYPE_CHECKING:
    from dotnetdiag.analysis.loader import LoaderReport

ROWS = 10
"""Of each table, where nobody says how many."""

_NO_CULTURE = re.compile(r", Culture=neutral|, PublicKeyToken=\w+")


def show(made: LoaderReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not (totals.assemblies or totals.binds or totals.types):
        return
    parts = [f"{counted(totals.assemblies, 'assembly', 'assemblies')} loaded"]
    if totals.bind_ms is not None:
        parts.append(f"{counted(totals.binds, 'bind')} in {totals.bind_ms:,.3f} ms, {totals.failed:,} failed")
    if totals.type_ms is not None:
        parts.append(f"{counted(totals.types, 'load of a type', 'loads of types')} in {totals.type_ms:,.3f} ms")
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
        say_more(len(places) - number)
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
        say_more(sum(one is not None for one in made.binds.values("duration_ms")) - len(slow))
    types = made.types[:number].to_pylist()
    if types:
        echo()
        named = [(f"{row['total_ms']:,.3f}", f"{row['count']:,}", row["type"] or "") for row in types]
        table(("ms", "count", "type"), named, right=("ms", "count"), shorten=cut)
        say_more(len(made.types) - number)


def _assembly(name: str | None) -> str:
    """What tells it from others: most have no culture, and all of a name one token."""
    return _NO_CULTURE.sub("", name or "")
