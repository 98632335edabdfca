"""The slowest requests and what was within them, against the same by rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from dotnetdiag.analysis import slow_requests
from dotnetdiag.analysis.slow_requests import SlowRequests, is_part
from dotnetdiag.events import Column
from dotnetdiag.events.columns import Coded
from dotnetdiag.table import Table, parts
from dotnetdiag.table.sliced import SlicedTable

KINDS = ["server", "kestrel", "client", "client headers", "dns", "connection", "sql"]


def made(seed: int) -> Table:
    random = Random(seed)
    rows: list[dict[str, Any]] = []
    for at in range(random.randrange(60)):
        parent = random.choice([None, *range(at)]) if random.random() < 0.7 else None
        kind = random.choice(KINDS)
        name = {"server": "GET /{}", "client": "http://x/{}?y"}.get(kind, "{}").format(random.randrange(2))
        rows.append({
            "start_ms": float(at),
            "duration_ms": random.choice([None, float(random.randrange(40)), random.random() * 9]),
            "pid": random.randrange(2),
            "kind": kind,
            "name": name,
            "parent": parent,
            "depth": 0 if parent is None else rows[parent]["depth"] + 1,
        })  # fmt: skip
    found = {
        name: [row[name] for row in rows] for name in ("start_ms", "duration_ms", "pid", "name", "parent", "depth")
    }
    typed = Table.of_rows([{"duration_ms": 0.5, "start_ms": 0.5, "pid": 0, "parent": 0, "depth": 0, "name": ""}] + [
        {name: values[at] for name, values in found.items()} for at in range(len(rows))
    ])[1:]  # fmt: skip
    which = [KINDS.index(row["kind"]) for row in rows]
    return Table({**{name: typed[name] for name in typed.columns}, "kind": Coded(KINDS, np.array(which, np.int64))})


def slowest_by_rows(rows: list[dict[str, Any]], there: set[str]) -> list[int]:
    ended = [
        at
        for at, row in enumerate(rows)
        if row["duration_ms"] is not None and row["kind"] != "dns" and not is_part(row["kind"], there)
    ]
    return sorted(ended, key=lambda at: -rows[at]["duration_ms"])


def within_by_rows(rows: list[dict[str, Any]], place: int) -> Counter[str]:
    made: Counter[str] = Counter()
    for row in rows:
        if row["kind"] in ("connection", "kestrel") or row["duration_ms"] is None:
            continue
        above = row["parent"]
        while above is not None:
            if above == place:
                made[row["kind"]] += row["duration_ms"]
            above = rows[above]["parent"]
    return made


def inside_by_rows(rows: list[dict[str, Any]], place: int) -> list[tuple[int, int]]:
    first = rows[place]
    depths = {place: first["depth"]}
    if first["kind"] == "client":
        path, end = first["name"].split("/")[-1].split("?")[0], first["start_ms"] + first["duration_ms"]
        answering = [
            at
            for at, row in enumerate(rows)
            if row["kind"] == "server"
            and row["duration_ms"] is not None
            and row["pid"] == first["pid"]
            and first["start_ms"] <= row["start_ms"]
            and row["start_ms"] + row["duration_ms"] <= end
            and row["name"] == f"GET /{path}"
        ]
        if len(answering) == 1:
            depths[answering[0]] = rows[answering[0]]["depth"] - 1
    for at, row in enumerate(rows):
        if at not in depths and row["parent"] in depths:
            depths[at] = depths[row["parent"]]
    return [(at, rows[at]["depth"] - depths[at]) for at in sorted(depths)]


def sliced(table: Table) -> Table:
    """The same rows, which are made when somebody asks."""

    def some(names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        return {name: table[name].take(range(first, last)) for name in names}

    return SlicedTable(table.columns, len(table), some)


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("seed", range(200))
def test_what_is_found_by_columns_is_what_is_found_by_rows(
    seed: int, in_parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 7)
    monkeypatch.setattr(slow_requests, "_SOME", 5)
    table = sliced(made(seed)) if in_parts else made(seed)
    rows, there = table.to_pylist(), {KINDS[seed % 3], "client"}
    slow = SlowRequests(table, there)
    places = slow.places(1 << 20)[0].tolist()
    for number in (0, 1, 3):
        assert (slow.places(number)[0].tolist(), slow.places(number)[1]) == (places[:number], len(places))
    assert places == slowest_by_rows(rows, there)
    for place, within in zip(places, slow.within(places), strict=True):
        assert dict(within) == pytest.approx({kind: ms for kind, ms in within_by_rows(rows, place).items() if ms})
        assert slow.inside(place) == inside_by_rows(rows, place)
