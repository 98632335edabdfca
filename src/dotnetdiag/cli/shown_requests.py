"""What ``trace report requests`` shows to people: what was slow, what failed, and what it spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dotnetdiag.analysis.slow_requests import SlowRequests, is_part
from dotnetdiag.cli.render import echo, say_more, table
from dotnetdiag.cli.shown_rows import whole_parts
from dotnetdiag.tui.widths import cut, shortened

if TYPE_CHECKING:
    from dotnetdiag.analysis.requests import RequestReport
    from dotnetdiag.table import Table

ROWS = 8
"""Of each table, where nobody says how many."""

_SPENT = {
    "queue_ms": "queue ms",
    "cpu_ms": "cpu ms",
    "gc_ms": "gc ms",
    "lock_ms": "lock ms",
    "allocated_bytes": "alloc MB",
    "exceptions": "thrown",
}

_LESS = ("thrown", "alloc MB", "lock ms", "gc ms", "95 % ms", "cpu ms", "queue ms", "median ms")
"""Columns that a narrow terminal does without, the first first."""

_ROUTE_CELLS = 25
_WHY_CELLS = 30
_WITHIN_CELLS = 80
"""Of what was within a request: most of them have that in less."""


def show(made: RequestReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.by_kind:
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
    routes = [row for row in made.by_route.to_pylist() if not is_part(row["kind"], kinds_there)]
    spent = [name for name in _SPENT if any(row[name] for row in routes)]
    has_open = any(row["unfinished"] for row in routes)
    heads = (
        *("count", "failed", *(("no end",) if has_open else ()), "median ms", "95 % ms", "longest ms"),
        *(_SPENT[name] for name in spent),
    )
    cells = [
        (
            f"{row['count']:,}",
            f"{row['failed']:,}" if row["failed"] else "",
            *((f"{row['unfinished']:,}" if row["unfinished"] else "",) if has_open else ()),
            *("" if row[name] is None else f"{row[name]:,.3f}" for name in ("median_ms", "p95_ms", "max_ms")),
            *(_amount(name, row[name]) for name in spent),
            row["kind"],
            row["route"],
        )
        for row in routes[:number]
    ]
    table((*heads, "kind", "route"), cells, right=heads, shorten=shortened, drop=_LESS, room=_ROUTE_CELLS)
    say_more(len(routes) - number)
    _why(routes, number)
    slow = SlowRequests(made.requests, kinds_there)
    places, count = slow.places(number)
    _list(made.requests, slow, places.tolist())
    say_more(count - number)
    if len(places):
        _waterfall(made.requests, slow, int(places[0]))


def _amount(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name == "exceptions":
        return f"{value:,}"
    return f"{value / (1e6 if name.endswith('bytes') else 1):,.1f}"


def _why(routes: Sequence[Mapping[str, Any]], number: int) -> None:
    """Of routes that failed the reason of most, and what was thrown in most."""
    failed = sorted((row for row in routes if row["failed"]), key=lambda row: -row["failed"])
    if not failed:
        return
    cells = [(f"{row['failed']:,}", row["kind"], row["route"], why_of(row)) for row in failed[:number]]
    echo()
    table(
        ("failed", "kind", "route", "most often with"),
        cells,
        right=("failed",),
        shorten=cut,
        drop=("kind",),
        room=_WHY_CELLS,
        squeeze={"route": _ROUTE_CELLS},
    )
    say_more(len(failed) - number)


def why_of(row: Mapping[str, Any]) -> str:
    """Why most of a route failed."""
    return ", ".join(filter(None, (row["failure"], row["exception"])))


def _failed(made: RequestReport) -> str:
    """How many of each kind did."""
    rows = made.by_route.to_pylist()
    counts = Counter[str]()
    for row in rows:
        counts[row["kind"]] += row["failed"] or 0
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)


_QUEUE = "waiting for a connection"
_SLOWEST = "the slowest"
_MOST_KINDS = 3
"""Of what was within a request, so many kinds are named."""


def _list(requests: Table, slow: SlowRequests, places: Sequence[int]) -> None:
    """Requests, and the time of what was within each, by kind."""
    if not places:
        return
    cells = []
    for at, within in zip(places, slow.within(places), strict=True):
        row = requests.row(at)
        if row["queue_ms"]:
            within[_QUEUE] = row["queue_ms"]
        cells.append((
            f"{row['start_ms']:,.3f}",
            f"{row['duration_ms']:,.3f}",
            "" if row["status"] is None else str(row["status"]),
            row["kind"],
            row["name"],
            ", ".join(f"{kind} {ms:,.3f}" for kind, ms in within.most_common(_MOST_KINDS)),
        ))  # fmt: skip
    echo()
    table(
        ("start ms", "ms", "status", "kind", _SLOWEST, "within it (ms)"),
        cells,
        right=("start ms", "ms", "status"),
        shorten=lambda text, width: whole_parts(text, width, ", "),
        drop=("start ms", "status", "kind"),
        room=_WITHIN_CELLS,
        squeeze={_SLOWEST: _ROUTE_CELLS},
    )


def _waterfall(requests: Table, slow: SlowRequests, slowest: int) -> None:
    """One request, and what was within it; of one that went out to its own process also that which came in."""
    first = requests.row(slowest)
    cells = []
    for at, depth in slow.inside(slowest):
        row = requests.row(at)
        cells.append((
            f"{row['start_ms'] - first['start_ms']:,.3f}",
            "" if row["duration_ms"] is None else f"{row['duration_ms']:,.3f}",
            "" if row["status"] is None else str(row["status"]),
            "  " * depth + _named(row),
        ))  # fmt: skip
    echo()
    table(
        ("after ms", "ms", "status", "what was within the slowest"),
        cells,
        right=("after ms", "ms", "status"),
        shorten=cut,
    )


def _named(row: Mapping[str, Any]) -> str:
    """A request, or what is within one, and how long it waited."""
    named = f"{row['kind']} {row['name']}".rstrip()
    return f"{named} ({row['queue_ms']:,.3f} ms {_QUEUE})" if row["queue_ms"] else named
