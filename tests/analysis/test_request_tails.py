"""Requests that take far longer than most of their route, against the same by rows."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from dotnetdiag.analysis import open_spans, request_spans
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.request_kinds import HOSTING
from dotnetdiag.analysis.requests import RequestsFold
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.trace import scratch, spilled
from dotnetdiag.trace.trace import Trace

SQL = "Microsoft.Data.SqlClient.EventSource"
EVENTS = ((HOSTING, "RequestStart", 1), (HOSTING, "RequestStop", 2), (SQL, "BeginExecute", 1), (SQL, "EndExecute", 2))
NAMES = {"server": "path", "sql": "commandText"}
Span = tuple[str, str, int, int, int | None]
"""(kind, name, start, how long, the number of the one around it)"""


def by_route(spans: Sequence[Span], rows: int = 1 << 16) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Of each route what is told of it, and rows of all requests."""
    events: list[tuple[int, int, int]] = []
    for number, (kind, _, start, length, _) in enumerate(spans):
        first = 1 if kind == "server" else 3
        events += [(start, first, number), (start + length, first + 1, number)]
    file = io.BytesIO()
    with Writer(file, frequency=1000) as writer:
        for at, (provider, name, opcode) in enumerate(EVENTS, 1):
            field = {"RequestStart": "path", "BeginExecute": "commandText"}.get(name)
            fields = (Field(name=field, type=FieldType(code=TypeCode.STRING)),) if field else ()
            writer.add_metadata(
                Metadata(metadata_id=at, provider=provider, event_id=at, name=name, opcode=opcode, fields=fields)
            )
        for ms, at, number in sorted(events):
            around = spans[number][4]
            ids: dict[str, Any] = {"activity": UUID(int=number + 1)}
            if at in (1, 3) and around is not None:
                ids["related"] = UUID(int=around + 1)
            payload = f"{spans[number][1]}\0".encode("utf-16-le") if at in (1, 3) else b""
            writer.write_event(at, ms, payload, thread=1, **ids)
    (made,) = fold(Trace(file.getvalue()), RequestsFold(), rows=rows)
    return {row["route"]: row for row in made.by_route.to_pylist()}, made.requests.to_pylist()


def one_by_one(*lengths: int, name: str = "/a") -> list[Span]:
    return [("server", name, 1000 * at, length, None) for at, length in enumerate(lengths)]


@pytest.mark.parametrize(
    ("lengths", "slow"),
    [
        ([2, *[2] * 35, *[50] * 4], 4),
        ([50, *[2] * 35, *[50] * 4], 4),  # the first waits for the compiler
        ([2, *[2] * 35, *[39] * 4], 0),
        ([10, *[10] * 35, *[49] * 4], 0),
        ([10, *[10] * 35, *[50] * 4], 4),
        ([2, *[2] * 96, *[50] * 3], 0),
    ],
)
def test_those_are_slow_that_take_long_and_far_longer_than_the_median(lengths: list[int], slow: int) -> None:
    route = by_route(one_by_one(*lengths))[0]["/a"]
    assert (route["slow"], route["slow_ms"]) == (slow, float(sum(lengths[-slow:]) if slow else 0))
    assert (route["slow_by"], route["slow_by_ms"]) == (None, None)


def test_what_begins_while_the_first_of_a_route_is_under_way_is_not_slow() -> None:
    at_once: list[Span] = [("server", "/a", at, 200, None) for at in range(4)]
    later: list[Span] = [("server", "/a", 1000 * at, 2, None) for at in range(1, 30)]
    assert by_route([*at_once, *later])[0]["/a"]["slow"] == 0


def test_what_took_most_of_their_time_is_named_and_not_that_of_the_others() -> None:
    requests = one_by_one(*[2] * 36, *[100] * 4)
    within: list[Span] = [("sql", "often", 1000 * at, 2, at) for at in range(36)]
    within += [("sql", "seldom", 1000 * at + 5, 60 + at, at) for at in range(36, 40)]
    told, _ = by_route([*requests, *within])
    assert (told["/a"]["slow_by"], told["/a"]["slow_by_ms"]) == ("sql seldom", 240.0 + 36 + 37 + 38 + 39)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_found_by_columns_is_what_is_found_by_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    spans: list[Span] = []
    for at in range(random.randrange(20, 120)):
        number = len(spans)
        length = random.choice([3, 3, 3, 3, 4, 90, 70])
        spans.append(("server", random.choice(["/a", "/b"]), 40 * at, length, None))
        if random.random() < 0.8:
            spans.append(
                ("sql", f"select c{random.randrange(2)}", 40 * at + 1, random.choice([1, 1, length - 2]), number)
            )
            if random.random() < 0.3:
                spans.append(("sql", "inner", 40 * at + 1, 1, number + 1))
    told, rows = by_route(spans)
    for route, row in told.items():
        own = [one for one in rows if one["name"] == route]
        lengths = np.array([one["duration_ms"] for one in own])
        least = max(40.0, 5 * float(np.median(lengths)))
        warm = own[0]["start_ms"] + own[0]["duration_ms"]
        slow = [one for one in own if one["duration_ms"] >= least and one["start_ms"] > warm]
        if np.quantile(lengths, 0.95) < least:
            slow = []
        assert (row["slow"], row["slow_ms"]) == (len(slow), sum(one["duration_ms"] for one in slow))
        if row["kind"] == "server":
            assert (row["slow_by_ms"], row["slow_by"]) == largest(rows, slow)
    monkeypatch.setattr(spilled, "SLICE_ROWS", 7)
    monkeypatch.setattr(request_spans, "_FOLLOWED", 1)
    monkeypatch.setattr(open_spans, "_HELD", 0)
    monkeypatch.setattr(scratch, "MAPPED_ROWS", 1)
    assert by_route(spans, rows=3)[0] == told


def largest(rows: list[dict[str, Any]], slow: list[dict[str, Any]]) -> tuple[float | None, str | None]:
    sums: Counter[str] = Counter()
    places = {at for at, row in enumerate(rows) if row in slow}
    for row in rows:
        if row["parent"] in places:
            sums[f"{row['kind']} {row['name']}"] += row["duration_ms"]
    found = sums.most_common(1)
    total = sum(one["duration_ms"] for one in slow)
    return (found[0][1], found[0][0]) if found and found[0][1] >= 0.1 * total else (None, None)
