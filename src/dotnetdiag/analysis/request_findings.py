"""What stands out of requests: those that failed, waited for a connection, or took long."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.finding import LEAST, SOME, WAITED_MS, Finding, begin_of, share_of
from dotnetdiag.analysis.quantiles import quantiles
from dotnetdiag.analysis.request_events import NO_REASON, STATUS
from dotnetdiag.analysis.request_tails import LEAST_SHARE, ONE_IN
from dotnetdiag.analysis.requests import RequestReport
from dotnetdiag.trace.lost_between import LostBy
from dotnetdiag.trace.recorded import Recorded

SLOW_MS, SLOWER = 20.0, 5.0
"""A route is slow whose median is that long, and so many times that of all."""
FEW_REQUESTS = 2
CALLS = {
    "server": "requests that came in",
    "grpc server": "gRPC calls that came in",
    "client": "requests that went out",
    "grpc client": "gRPC calls that went out",
    "sql": "SQL commands",
}
"""What may fail, by the kinds of requests."""
SERVED, ASKED = ("server", "grpc server"), ("client", "grpc client")
NOUNS = {"grpc server": "calls", "grpc client": "calls", "sql": "commands"}
SPENT = {
    "queue_ms": "in the queue for a connection",
    "cpu_ms": "on processors",
    "gc_ms": "in pauses",
    "lock_ms": "for locks",
}
FEW_SLOW = 3
"""Of a route that has a tail: fewer are not told."""
ROUTES = 3
"""So many are named."""
OPEN_MS, OPEN_LONGER = 1000.0, 10.0
"""Of a request that has no end: it is told when it has been under way for that long, and so many times as long as its route takes."""
WITHOUT_ENDS = ("sql",)
"""Kinds that are not asked for that: commands that fail have no end in a recording of ADO.NET's own EventSource."""
QUEUED_SHARE = 0.5
"""Of the time of requests that went out: from here on it is told that they waited for a connection."""
MANY_QUEUED = 3
"""So many that waited tell that connections may be too few."""


def of_requests(
    made: RequestReport, recorded: Recorded, lost_by: LostBy | None = None, *, slow_most: float = math.inf
) -> Iterator[Finding]:
    """That requests failed, waited for a connection, or took far longer than others. ``slow_most``: that some took longer is no more severe than
    this, where something is known that may be why.
    """
    by_route, seconds = made.by_route.to_pylist(), recorded.seconds
    for kind, what in CALLS.items():
        unknown = made.totals.unknown_failures.get(kind, 0)
        yield from _of_failures([row for row in by_route if row["kind"] == kind], what, unknown)
    lost = made.by_route.losses.lost
    still = [row for row in by_route if row["kind"] in CALLS and row["unfinished"]]
    is_whole = {pid: (lost if lost_by is None else lost_by(pid)) == 0 for pid in {row["open_pid"] for row in still}}
    # elsewhere the ends may be among what was lost
    yield from _under_way([row for row in still if is_whole[row["open_pid"]]], recorded)
    yield from _of_queues([row for row in by_route if row["queue_ms"]], seconds)
    kinds = {row["kind"] for row in by_route}
    sides = SERVED if kinds & {*SERVED} else ASKED  # what went out took the time of what came in
    told, named = list[tuple[str, str]](), set[str]()
    for kind in (*sides, "sql"):
        routes = [row for row in by_route if row["kind"] == kind and not _is_told(row, told)]
        for one in _slow_routes(routes, kind, seconds, told):
            yield replace(one, severity=min(one.severity, slow_most))
        for row in routes:
            if _has_tail(row) and (kind, row["route"]) not in told and f"{kind} {row['route']}" not in named:
                told.append((kind, row["route"]))
                named.add(row["slow_by"] or "")
                slow = _of_tail(row, kind, seconds)
                yield replace(slow, severity=min(slow.severity, slow_most))


def _is_told(row: Mapping[str, Any], told: Sequence[tuple[str, str]]) -> bool:
    """Whether a call of gRPC is the request of HTTP that something is said of."""
    return row["kind"].startswith("grpc") and any(route.endswith(row["route"]) for _, route in told)


def _slow_routes(
    routes: Sequence[Mapping[str, Any]], kind: str, seconds: float, told: list[tuple[str, str]]
) -> Iterator[Finding]:
    """Of one kind those whose median is far beyond that of all; they are ``told`` then."""
    count = sum(row["count"] for row in routes)
    routes = [row for row in routes if row["median_ms"] is not None]
    if count < FEW_REQUESTS or len(routes) < FEW_REQUESTS:
        return
    medians = np.repeat([row["median_ms"] for row in routes], [row["count"] for row in routes])
    (usual,) = quantiles(medians, [0.5])
    for row in routes:
        if row["count"] >= FEW_REQUESTS and row["median_ms"] >= SLOW_MS and row["median_ms"] >= SLOWER * usual:
            told.append((kind, row["route"]))
            spent = {
                what: row[name]
                for name, what in SPENT.items()
                if row[name] and row[name] >= LEAST_SHARE * row["total_ms"]
            }
            parts = ", ".join(f"{value:,.0f} ms {what}" for what, value in spent.items())
            yield Finding(
                severity=max(SOME, share_of(row["total_ms"], seconds)),
                question="requests",
                text=f"{row['route']} takes {row['median_ms']:,.1f} ms in the median, where that of all {CALLS[kind]} is {usual:,.1f} ms; "
                f"it is {row['count']:,} of {count:,} {NOUNS.get(kind, 'requests')}"
                + (f", and spent {parts}" if parts else ""),
            )


def _has_tail(row: Mapping[str, Any]) -> bool:
    """Whether more than a few of a route took far longer than most."""
    return bool(row["slow"] >= FEW_SLOW and ONE_IN * row["slow"] >= row["count"])


def _of_tail(row: Mapping[str, Any], kind: str, seconds: float) -> Finding:
    """That some of a route took far longer than most, and what took their time."""
    text = (
        f"{row['route']} took {row['slow_ms'] / row['slow']:,.0f} ms on average in {row['slow']:,} of {row['count']:,} "
        f"{NOUNS.get(kind, 'requests')}, where its median is {row['median_ms']:,.1f} ms"
    )
    if (by := row["slow_by"]) is not None:
        text += f"; {row['slow_by_ms']:,.0f} of these {row['slow_ms']:,.0f} ms {SPENT.get(f'{by}_ms', f'in {by}')}"
    return Finding(severity=max(SOME, share_of(row["slow_ms"], seconds)), question="requests", text=text)


def _of_failures(routes: Sequence[Mapping[str, Any]], what: str, unknown: int) -> Iterator[Finding]:
    """Of one kind, those that failed, the most first; of so many which ones is ``unknown``."""
    count, number = (sum(row[name] or 0 for row in routes) for name in ("count", "failed"))
    unknown = min(unknown, count - number)  # one may be told of twice
    number += unknown
    if not number or 100.0 * number < LEAST * count:
        return
    failed = sorted((row for row in routes if row["failed"]), key=lambda row: -row["failed"])
    least = "at least " if any(row["failed"] is None for row in routes) else ""
    text = f"{least}{number:,} of {count:,} {what} failed: "
    text += ", ".join(f"{row['route']} ({row['failed']:,})" for row in failed[:ROUTES])
    if len(failed) > ROUTES:
        text += f" and {len(failed) - ROUTES:,} more"
    if unknown:
        text += f"{', and ' if failed else ''}{unknown:,} that the recording does not tell from others"
    why, is_thrown = _why(failed[0]) if failed and not unknown else (NO_REASON, False)
    if why != NO_REASON:
        of, most = ("; ", "most of the first") if len(failed) > 1 else (", ", "most of them")
        text += f'{of}with "{begin_of(why)}" in {most}' if is_thrown else f'{of}{most}: "{begin_of(why)}"'
    yield Finding(severity=100.0 * number / count, question="requests", text=text)


def _why(row: Mapping[str, Any]) -> tuple[str, bool]:
    """Why most of a route failed: what was thrown in it (True) where nothing else is told but that, or its status."""
    says_nothing = row["failure"] == NO_REASON or row["failure"].startswith(STATUS)
    is_thrown = bool(row["exception"]) and says_nothing
    return str(row["exception"] if is_thrown else row["failure"]), is_thrown


def _under_way(by_route: Sequence[Mapping[str, Any]], recorded: Recorded) -> Iterator[Finding]:
    """That requests never ended, far beyond what their routes take: of each kind those that wait longest first."""
    parts, longest, number = list[str](), 0.0, 0
    for kind, what in CALLS.items():
        of_kind = [row for row in by_route if row["kind"] == kind and row["unfinished"] and kind not in WITHOUT_ENDS]
        still = {row["route"]: row for row in of_kind if _is_stuck(row, _open_ms(row, recorded))}
        if not still:
            continue
        rows = sorted(still.values(), key=lambda row: -_open_ms(row, recorded))
        count = sum(row["unfinished"] for row in rows)
        number, told = number + count, f"one of the {what}" if count == 1 else f"{count:,} {what}"
        if parts:
            text = f"so {'is' if count == 1 else 'are'} {told}"
        else:
            longest = _open_ms(rows[0], recorded)
            text = f"{told} {'is' if count == 1 else 'are'} still under way when the recording ends, "
            text += f"{'' if count == 1 else 'the longest '}for {longest / 1000:,.1f} s"
        text += ": " + ", ".join(f"{row['route']} ({row['unfinished']:,})" for row in rows[:ROUTES])
        parts.append(text + (f" and {len(rows) - ROUTES:,} more" if len(rows) > ROUTES else ""))
    if parts:  # one alone may be a stream, or a websocket
        severity = max(SOME, share_of(longest, recorded.seconds)) if number > 1 else SOME
        yield Finding(severity=severity, question="requests", text="; ".join(parts))


def _open_ms(row: Mapping[str, Any], recorded: Recorded) -> float:
    """How long the first of a route that has no end has been under way when the recording ends."""
    return 1000.0 * recorded.of(row["open_pid"]).end_s - float(row["open_since_ms"])


def _is_stuck(row: Mapping[str, Any], open_ms: float) -> bool:
    """Whether that is longer than those take that have ended; of one alone, longer than any did."""
    if open_ms < OPEN_MS or row["median_ms"] is None:
        return open_ms >= OPEN_MS
    usual = row["max_ms"] if row["unfinished"] == 1 else row["p95_ms"]
    return bool(open_ms >= OPEN_LONGER * row["median_ms"] and open_ms > usual)


def _of_queues(routes: Sequence[Mapping[str, Any]], seconds: float) -> Iterator[Finding]:
    """That requests waited for a connection, where that is most of what they took. Of a few, as the first are, nothing is said of how many there may
    be.
    """
    queued, total = (sum(row[name] for row in routes) for name in ("queue_ms", "total_ms"))
    if queued < WAITED_MS or queued < QUEUED_SHARE * total or share_of(queued, seconds) < LEAST:
        return
    most = max(routes, key=lambda row: row["queue_ms"])
    waited = sum(row["queued"] for row in routes)
    few = waited < MANY_QUEUED
    why = "it took long to open" if few else "connections are too few (MaxConnectionsPerServer), or take long to open"
    yield Finding(
        severity=SOME if few else share_of(queued, seconds),
        question="requests",
        text=f"{waited:,} of {sum(row['count'] for row in routes):,} requests that went out waited {queued:,.0f} of {total:,.0f} ms "
        f"for a connection, {most['queue_ms']:,.0f} ms of it those to {most['route']}: {why}",
    )
