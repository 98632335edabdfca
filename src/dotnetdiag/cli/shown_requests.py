"""What ``trace report requests`` shows to people: what was slow, what failed, and what it spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag.cli.render import echo, table
from dotnetdiag.tui.widths import cut, shortened

if TYPE_CHECKING:
    from dotnetdiag.analysis.requests import RequestReport

ROWS = 8
"""Of each table, where nobody says how many."""

Row: TypeAlias = Mapping[str, Any]

_SPENT = ("cpu_ms", "gc_ms", "lock_ms")

_LESS = ("lock ms", "gc ms", "95 % ms", "cpu ms", "median ms")
"""Columns that a narrow terminal does without, the first first."""

_ROUTE_CELLS = 25


def show(made: RequestReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    more = [
        *([f"{totals.failed:,} failed ({_failed(made)})"] if totals.failed else []),
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
            *("" if row[name] is None else f"{row[name]:,.3f}" for name in ("median_ms", "p95_ms", "max_ms")),
            *(f"{row[name]:,.1f}" for name in spent),
            row["kind"],
            row["route"],
        )
        for row in routes[:number]
    ]
    table((*heads, "kind", "route"), cells, right=heads, shorten=shortened, drop=_LESS, room=_ROUTE_CELLS)
    if len(routes) > number:
        echo(f"{len(routes) - number:,} more")
    rows = made.requests.to_pylist()
    slowest = _slowest(rows, set(totals.by_kind))
    _list(rows, slowest[:number])
    if len(slowest) > number:
        echo(f"{len(slowest) - number:,} more")
    if slowest:
        _waterfall(rows, slowest[0])


def _is_part(kind: str, there: set[str]) -> bool:
    """Whether rows of a kind say the same as those of another, or are of a connection."""
    return kind == "connection" or kind.startswith("client ") or (kind == "kestrel" and "server" in there)


def _failed(made: RequestReport) -> str:
    """How many of each kind did."""
    rows = made.by_route.to_pylist()
    counts = Counter[str]()
    for row in rows:
        counts[row["kind"]] += row["failed"]
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)


_STEPS = ("dns", "connect", "tls")
"""Kinds of what a request does before it is sent."""


def _slowest(rows: Sequence[Row], there: set[str]) -> list[int]:
    """The places of requests that have ended, the longest first."""
    ended = [
        at
        for at, row in enumerate(rows)
        if row["duration_ms"] is not None and row["kind"] not in _STEPS and not _is_part(row["kind"], there)
    ]
    return sorted(ended, key=lambda at: -rows[at]["duration_ms"])


def _list(rows: Sequence[Row], places: Sequence[int]) -> None:
    """Requests, and the time of what was within each, by kind."""
    if not places:
        return
    within: dict[int, Counter[str]] = {at: Counter() for at in places}
    for row in rows:
        above = None if row["kind"] in _AROUND or row["duration_ms"] is None else row["parent"]
        while above is not None:
            if above in within:
                within[above][row["kind"]] += row["duration_ms"]
            above = rows[above]["parent"]
    cells = [
        (
            f"{rows[at]['start_ms']:,.3f}",
            f"{rows[at]['duration_ms']:,.3f}",
            "" if rows[at]["status"] is None else str(rows[at]["status"]),
            rows[at]["kind"],
            rows[at]["name"],
            ", ".join(f"{kind} {ms:,.3f}" for kind, ms in within[at].most_common(_MOST_KINDS)),
        )
        for at in places
    ]
    echo()
    table(
        ("start ms", "ms", "status", "kind", "the slowest", "within it (ms)"),
        cells,
        right=("start ms", "ms", "status"),
        shorten=cut,
    )


_AROUND = ("connection", "kestrel")
"""Kinds that say the same as the request."""

_MOST_KINDS = 3
"""Of what was within a request, so many kinds are named."""


def _waterfall(rows: Sequence[Row], slowest: int) -> None:
    """One request, and what was within it; of one that went out to its own process also that which came in."""
    first = rows[slowest]
    answering = _answering(rows, slowest)
    roots = (
        {slowest: first["depth"]}
        if answering is None
        else {slowest: first["depth"], answering: rows[answering]["depth"] - 1}
    )
    depths = dict(roots)
    for at, row in enumerate(rows):
        if at not in depths and row["parent"] in depths:
            depths[at] = depths[row["parent"]]
    cells = [
        (
            f"{row['start_ms'] - first['start_ms']:,.3f}",
            "" if row["duration_ms"] is None else f"{row['duration_ms']:,.3f}",
            "" if row["status"] is None else str(row["status"]),
            "  " * (row["depth"] - depths[at]) + f"{row['kind']} {row['name']}".rstrip(),
        )
        for at, row in ((at, rows[at]) for at in sorted(depths))
    ]
    echo()
    table(
        ("after ms", "ms", "status", "what was within the slowest"),
        cells,
        right=("after ms", "ms", "status"),
        shorten=cut,
    )


def _answering(rows: Sequence[Row], place: int) -> int | None:
    """The one request that came in while one to its path went out, in the same process; None where there is none, or several."""
    asked = rows[place]
    if asked["kind"] != "client":
        return None
    path, end = _path(asked["name"].partition("://")[2].partition("/")[2]), asked["start_ms"] + asked["duration_ms"]
    found = [
        at
        for at, row in enumerate(rows)
        if row["kind"] == "server"
        and row["duration_ms"] is not None
        and row["pid"] == asked["pid"]
        and asked["start_ms"] <= row["start_ms"]
        and row["start_ms"] + row["duration_ms"] <= end
        and _path(row["name"].partition(" /")[2]) == path
    ]
    return found[0] if len(found) == 1 else None


def _path(text: str) -> str:
    return text.partition("?")[0]
