"""``trace report requests``: what was slow, what failed, and what it spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.lean import lean_numpy
from dotnetdiag.cli.questions import answer, report_options
from dotnetdiag.cli.render import echo, table
from dotnetdiag.tui.widths import cut, shortened

if TYPE_CHECKING:
    from dotnetdiag.analysis.requests import RequestReport

_SPENT = ("cpu_ms", "gc_ms", "lock_ms")
_LESS = ("lock ms", "gc ms", "95 % ms", "cpu ms", "median ms")
"""Columns that a narrow terminal does without, the first first."""
_ROUTE_CELLS = 25


@click.command("requests", cls=EachFile)
@files_argument()
@click.option("-n", "--number", type=click.IntRange(min=0), default=8, show_default=True, help="How many rows.")
@report_options
def requests(file: Path, number: int, form: str) -> None:
    """Show the requests of a trace FILE that came in and went out: by route, how long they took and what they spent, and what the slowest did.

    The formats for programs have a row for each request and each part of it. It needs a recording with --providers
    Microsoft.AspNetCore.Hosting,System.Net.Http,System.Net.NameResolution,System.Net.Sockets,System.Threading.Tasks.TplEventSource:0x80:4
    and, for what they spent, the sampler and allocations.

    \b
    dotnetdiag trace report web.nettrace requests
    dotnetdiag trace report web.nettrace requests --json | jq '.by_route[] | select(.failed > 0)'
    """
    lean_numpy()
    from dotnetdiag.recipes.questions import requests as ask

    answer("requests", file, form, ask, rows=lambda made: made.requests, people=lambda made: show(made, number))


def show(made: RequestReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    more = [
        *([f"{totals.failed:,} failed"] if totals.failed else []),
        *([f"{totals.unfinished:,} without an end"] if totals.unfinished else []),
    ]
    kinds = ", ".join(f"{count:,} {name}" for name, count in totals.by_kind.items())
    echo("; ".join([kinds, *more]))
    if not number:
        return
    echo()
    kinds_there = set(totals.by_kind)
    routes = [row for row in made.by_route.to_pylist() if not _is_part(row["kind"], kinds_there)]
    spent = [name for name in _SPENT if any(row[name] for row in routes)]
    heads = ("count", "failed", "median ms", "95 % ms", "longest ms", *(name.replace("_", " ") for name in spent))
    cells = [
        (
            f"{row['count']:,}",
            f"{row['failed']:,}" if row["failed"] else "",
            *(f"{row[name]:,.3f}" for name in ("median_ms", "p95_ms", "max_ms")),
            *(f"{row[name]:,.1f}" for name in spent),
            row["kind"],
            row["route"],
        )
        for row in routes[:number]
    ]
    table((*heads, "kind", "route"), cells, right=heads, shorten=shortened, drop=_LESS, room=_ROUTE_CELLS)
    if len(routes) > number:
        echo(f"{len(routes) - number:,} more")
    _waterfall(made.requests.to_pylist())


def _is_part(kind: str, there: set[str]) -> bool:
    """Whether rows of a kind say the same as those of another, or are of a connection."""
    return kind == "connection" or kind.startswith("client ") or (kind == "kestrel" and "server" in there)


def _waterfall(rows: list[dict[str, Any]]) -> None:
    """The slowest request, and what was within it."""
    ended = [
        at for at, row in enumerate(rows) if row["duration_ms"] is not None and row["kind"] in ("server", "client")
    ]
    if not ended:
        return
    slowest = max(ended, key=lambda at: rows[at]["duration_ms"])
    within = {slowest}
    for at, row in enumerate(rows[slowest + 1 :], slowest + 1):
        if row["parent"] in within:
            within.add(at)
    began = rows[slowest]["start_ms"]
    cells = [
        (
            f"{row['start_ms'] - began:,.3f}",
            "" if row["duration_ms"] is None else f"{row['duration_ms']:,.3f}",
            "" if row["status"] is None else str(row["status"]),
            "  " * (row["depth"] - rows[slowest]["depth"]) + f"{row['kind']} {row['name']}".rstrip(),
        )
        for row in (rows[at] for at in sorted(within))
    ]
    echo()
    table(("after ms", "ms", "status", "the slowest"), cells, right=("after ms", "ms", "status"), shorten=cut)
