"""Reports as a page, and in a browser: tabs, charts, tables that are sorted and filtered, and names that stay names."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.analysis.reference import opened
from tests.nettrace.recordings import data_of
from tests.shared import needs

from dotnetdiag.analysis.allocations import AllocationTotals
from dotnetdiag.analysis.everything import everything
from dotnetdiag.analysis.gc_collections import gc
from dotnetdiag.analysis.requests import requests
from dotnetdiag.analysis.slow_requests import SlowRequests
from dotnetdiag.analysis.spans import spans
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.export import report_charts, report_page
from dotnetdiag.export.report_charts import MOST_ITEMS, MOST_POINTS, MOST_SPANS, MOST_WITHIN, chart_of
from dotnetdiag.export.report_page import EXACT, LONGEST_CELL, MOST_ROWS
from dotnetdiag.nettrace import Metadata, Writer
from dotnetdiag.table import Table, parts
from dotnetdiag.table.parts import PART_ROWS
from dotnetdiag.table.result import HasTable
from dotnetdiag.table.sliced import SlicedTable
from dotnetdiag.trace.trace import Trace


@dataclass(frozen=True)
class Made:
    """A report with one table, called as any kind has it."""

    by_type: Table
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Summed(Made):
    """One that says what it comes to."""

    totals: Any = None


def written(reports: dict[str, Any], name: str = "made.nettrace", flame: StackProfile | None = None) -> str:
    out = io.BytesIO()
    report_page.write(reports, out, name=name, flame=flame)
    return out.getvalue().decode("utf-8")


def data_in(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    assert found[1].isascii()
    assert "<" not in found[1]
    made: dict[str, Any] = json.loads(found[1])
    return made


def types(names: list[str], values: list[float]) -> Made:
    return Made(by_type=Table({"type": names, "bytes": values}, units={"bytes": "bytes"}))


def table_in(made: Any) -> dict[str, Any]:
    found: dict[str, Any] = data_in(written({"x": made}))["tabs"][0]["tables"][0]
    return found


# the file -------------------------------------------------------------------------------------------------------------


def test_of_long_tables_the_first_rows_are_there_and_the_page_says_so() -> None:
    made = types([f"T{number}" for number in range(MOST_ROWS + 5)], [1.0] * (MOST_ROWS + 5))
    table = table_in(made)
    assert len(table["columns"][0]["values"]) == table["rows"] == MOST_ROWS
    assert table["note"].startswith(f"the first {MOST_ROWS:,} of {MOST_ROWS + 5:,} rows")
    assert table_in(types(["A"], [1.0]))["note"] == ""


def test_of_a_long_table_those_that_took_longest_are_in_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    made = gc(Trace(data_of("gccollect-10.nettrace")))
    monkeypatch.setattr(report_page, "MOST_ROWS", 4)
    pauses, starts = made.collections.values("pause_ms"), made.collections.values("start_ms")
    places = sorted(sorted(range(len(pauses)), key=lambda row: -pauses[row])[:4])
    tables = data_in(written({"gc": made}))["tabs"][0]["tables"]
    (table,) = (one for one in tables if one["title"] == "collections")
    shown = {one["name"].partition(" ")[0]: one["values"] for one in table["columns"]}
    assert shown["start_ms"] == [starts[place] for place in places]
    assert table["note"].startswith(f"the 4 of {len(pauses)} rows with the longest pause_ms; ")


def test_a_message_of_megabytes_is_cut_in_the_page() -> None:
    text = written({"allocations": types(["x" * 10_000_000], [1.0])})
    assert len(text) < 100_000
    table = data_in(text)["tabs"][0]["tables"][0]
    assert table["columns"][0]["values"] == ["x" * LONGEST_CELL + "… (10,000,000 characters)"]


def test_numbers_that_a_browser_would_round_are_texts_and_what_is_no_number_is_a_word() -> None:
    table = table_in(Table({"id": [EXACT, EXACT + 1, -1], "share": [0.5, float("nan"), float("inf")]}))
    assert table["columns"][0]["values"] == [EXACT, str(EXACT + 1), -1]
    assert table["columns"][1]["values"] == [0.5, "NaN", "Infinity"]


def test_columns_without_any_value_are_left_out() -> None:
    assert [one["name"] for one in table_in(Table({"a": [1], "b": [None], "c": ["x"]}))["columns"]] == ["a", "c"]


def test_a_result_that_has_a_table_and_a_list_of_tables_are_reports_too() -> None:
    class One(HasTable):
        def table(self) -> Table:
            return Table({"a": [1]})

    assert table_in(One())["title"] == "rows"
    assert table_in([Table({"a": [1]}, title="first"), Table({"a": [2]})])["title"] == "first"


def test_long_series_keep_their_peaks() -> None:
    count = 10 * MOST_POINTS
    values = np.ones(count)
    values[1234] = 99.0
    nothing: list[Any] = [None] * count
    columns = dict.fromkeys(("start_ms", "duration_ms", "before_bytes", "after_bytes"), nothing)
    columns |= {"pause_start_ms": list(range(count)), "pause_ms": values.tolist()}
    chart = chart_of("gc", SimpleNamespace(collections=Table(columns)))
    assert chart is not None
    (bars,) = chart["bars"]
    assert len(bars["ms"]) == MOST_POINTS
    assert max(bars["values"]) == 99.0
    assert bars["ms"] == sorted(bars["ms"])


@pytest.mark.parametrize(("last_ms", "unit"), [(90.0, "per 1 ms"), (900.0, "per 5 ms"), (3_600_000.0, "per 20 s")])
def test_events_are_counted_in_steps_that_fit_the_time(last_ms: float, unit: str) -> None:
    made = SimpleNamespace(thrown=Table({"start_ms": [0.0, 0.25, last_ms]}))
    chart = chart_of("exceptions", made)
    assert chart is not None
    (bars,) = chart["bars"]
    assert (bars["unit"], bars["values"], bars["ms"]) == (unit, [2, 1], [0, last_ms])


def test_a_burst_in_a_long_recording_is_counted_and_drawn_as_one() -> None:
    made = SimpleNamespace(thrown=Table({"start_ms": [2200.0, 2240.0, 2241.0]}))
    chart = chart_of("exceptions", made, 3900.0)
    assert chart is not None
    (bars,) = chart["bars"]
    assert (chart["end"], bars["unit"], bars["width"]) == (3900.0, "per 20 ms", 20)
    assert (bars["ms"], bars["values"]) == ([2200.0, 2240.0], [1.0, 2.0])


def test_what_is_beyond_the_greatest_is_together() -> None:
    chart = chart_of("allocations", types([f"T{number}" for number in range(MOST_ITEMS + 3)], [2.0] * (MOST_ITEMS + 3)))
    assert chart is not None
    assert len(chart["items"]) == MOST_ITEMS + 1
    assert chart["items"][-1] == {"label": "3 others", "value": 6.0, "hint": "", "others": True}


def test_the_slowest_requests_are_drawn_with_all_that_is_within_them() -> None:
    count = MOST_SPANS
    rows = [
        {
            "start_ms": float(at),
            "duration_ms": float(at % 7 + 1),
            "kind": "server",
            "name": f"/{at}",
            "parent": None,
            "depth": 1,
        }
        for at in range(count)
    ]
    rows[3]["duration_ms"] = 500.0
    rows += [{"start_ms": 4.0, "duration_ms": None, "kind": "sql", "name": "select", "parent": 3, "depth": 2}]
    chart = chart_of("requests", SimpleNamespace(requests=Table.of_rows(rows)))
    assert chart is not None
    assert len(chart["rows"]) <= MOST_SPANS
    assert chart["rows"][0]["label"] == "server /3"
    assert chart["rows"][1] == {
        "label": "sql select", "start": 1.0, "length": None, "depth": 1, "hint": "at 4.000 ms", "bad": False,
    }  # fmt: skip
    lengths = [row["length"] for row in chart["rows"] if not row["depth"]]
    assert lengths == sorted(lengths, reverse=True)


def kept_alive(count: int) -> list[dict[str, Any]]:
    """A connection that lives long, and requests within it, the later the slower; what failed has a status of it."""
    rows: list[dict[str, Any]] = [
        {
            "start_ms": 1.0,
            "duration_ms": 9000.0,
            "kind": "connection",
            "name": "::1",
            "status": None,
            "parent": None,
            "depth": 1,
        }
    ]
    for at in range(count):
        start, row = 10.0 * (at + 1), len(rows)
        status = 500 if at % 2 else 200
        rows.append(
            {
                "start_ms": start,
                "duration_ms": 1.0 + at,
                "kind": "kestrel",
                "name": f"/{at}",
                "status": status,
                "parent": 0,
                "depth": 2,
            }
        )
        rows.append(
            {
                "start_ms": start + 0.5,
                "duration_ms": 0.25,
                "kind": "sql",
                "name": "select",
                "status": None,
                "parent": row,
                "depth": 3,
            }
        )
    return rows


def test_a_connection_that_is_kept_alive_is_no_request() -> None:
    made = SimpleNamespace(requests=Table.of_rows(kept_alive(1000)))
    chart = chart_of("requests", made)
    assert chart is not None
    assert len(chart["rows"]) == MOST_SPANS
    assert [row["label"] for row in chart["rows"][:4]] == ["kestrel /999", "sql select", "kestrel /998", "sql select"]
    assert [row["depth"] for row in chart["rows"][:4]] == [0, 1, 0, 1]
    assert [row["start"] for row in chart["rows"][:4]] == [0.0, 0.5, 0.0, 0.5]
    assert [row["bad"] for row in chart["rows"][:4]] == [True, False, False, False]
    assert chart["rows"][0]["hint"] == "at 10,000.000 ms, status: 500, connection: ::1"


def test_of_a_request_with_much_in_it_the_longest_is_drawn_beside_others() -> None:
    rows: list[dict[str, Any]] = [
        {"start_ms": 0.0, "duration_ms": 900.0, "kind": "server", "name": "/", "parent": None, "depth": 1}
    ]
    rows += [
        {"start_ms": 1.0 + at, "duration_ms": float(at), "kind": "sql", "name": str(at), "parent": 0, "depth": 2}
        for at in range(2 * MOST_SPANS)
    ]
    rows.append({"start_ms": 950.0, "duration_ms": 5.0, "kind": "server", "name": "/b", "parent": None, "depth": 1})
    chart = chart_of("requests", SimpleNamespace(requests=Table.of_rows(rows)))
    assert chart is not None
    labels = [row["label"] for row in chart["rows"]]
    assert (labels[0], labels[-1], len(labels)) == ("server /", "server /b", MOST_WITHIN + 1)
    assert f"sql {2 * MOST_SPANS - 1}" in labels


def test_only_connections_are_no_chart() -> None:
    assert chart_of("requests", SimpleNamespace(requests=Table.of_rows(kept_alive(0)))) is None


@needs("fixtures", "the recording web-10")
def test_tables_of_requests_begin_with_the_slowest_and_end_with_connections() -> None:
    made = requests(opened("web-10"))
    tab = data_in(written({"requests": made}))["tabs"][0]
    tables = [{one["name"]: one["values"] for one in table["columns"]} for table in tab["tables"]]
    by_route, rows = tables
    assert (by_route["kind"][-1], rows["kind"][-1]) == ("connection", "connection")
    lengths = rows["duration_ms"][:-1]
    assert lengths == sorted(lengths, reverse=True)
    starts = made.requests.values("start_ms")
    assert [starts[row] for row in rows["row"]] == pytest.approx(rows["start_ms"])
    failed = [row for row in tab["chart"]["rows"] if row["bad"]]
    assert len(failed) == made.totals.failed


def test_the_slowest_of_many_are_found_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    hosting = "Microsoft.AspNetCore.Hosting"
    with Writer(file, frequency=1000) as writer:
        for number, name in ((1, "RequestStart"), (2, "RequestStop")):
            writer.add_metadata(Metadata(metadata_id=number, provider=hosting, event_id=number, name=name))
        for at in range(40):
            writer.write_event(1, 100 * at, b"", thread=1, activity=UUID(int=at + 1))
            if at % 9:
                writer.write_event(2, 100 * at + at * 7 % 12, b"", thread=1, activity=UUID(int=at + 1))
    made = requests(Trace(file.getvalue()))
    monkeypatch.setattr(report_page, "MOST_ROWS", 20)
    (at_once,) = data_in(written({"requests": made}))["tabs"]
    rows = {one["name"]: one["values"] for one in at_once["tables"][-1]["columns"]}["row"]
    lengths = [-1.0 if one is None else one for one in made.requests.values("duration_ms")]
    assert rows == sorted(range(40), key=lambda at: (-lengths[at], at))[:20]
    monkeypatch.setattr(parts, "PART_ROWS", 7)
    assert data_in(written({"requests": made}))["tabs"] == [at_once]


def test_requests_that_failed_are_there_though_others_are_slower() -> None:
    rows = [
        {
            "start_ms": float(at),
            "duration_ms": float(at + 1),
            "kind": "server",
            "name": f"/{at}",
            "status": 500 if at < 300 else 200,
        }
        for at in range(3 * MOST_SPANS)
    ]
    chart = chart_of(
        "requests", SimpleNamespace(requests=Table.of_rows([{**row, "parent": None, "depth": 1} for row in rows]))
    )
    assert chart is not None
    assert len(chart["rows"]) == MOST_SPANS
    bad = [row["label"] for row in chart["rows"] if row["bad"]]
    assert (bad[0], len(bad)) == ("server /299", MOST_SPANS // 4)


def asking(
    kind: str, name: str, start: float, length: float | None, *, parent: int | None = None, depth: int = 1, pid: int = 7
) -> dict[str, Any]:
    own = {"start_ms": start, "duration_ms": length, "pid": pid, "kind": kind, "name": name}
    return {**own, "status": None, "failure": "", "parent": parent, "depth": depth}


def drawn(rows: list[dict[str, Any]]) -> list[tuple[int, str, float]]:
    chart = chart_of("requests", SimpleNamespace(requests=Table.of_rows(rows)))
    assert chart is not None
    return [(row["depth"], row["label"], row["start"]) for row in chart["rows"]]


def test_a_request_that_came_in_is_drawn_within_the_one_of_the_process_that_sent_it_and_nowhere_else() -> None:
    rows = [
        asking("connection", "::1", 90.0, 900.0),
        asking("client", "http://localhost:80/items/0?a=1", 100.0, 277.0),
        asking("client headers", "", 160.0, 1.0, parent=1, depth=2),
        asking("server", "GET /items/0", 220.0, 127.0, parent=0, depth=2),
        asking("sql", "select", 230.0, 5.0, parent=3, depth=3),
        asking("client answer", "", 350.0, 2.0, parent=1, depth=2),
        asking("server", "GET /other", 400.0, 50.0),
    ]
    assert drawn(rows) == [
        (0, "client http://localhost:80/items/0?a=1", 0.0),
        (1, "client headers", 60.0),
        (1, "server GET /items/0", 120.0),
        (2, "sql select", 130.0),
        (1, "client answer", 250.0),
        (0, "server GET /other", 0.0),
    ]
    chart = chart_of("requests", SimpleNamespace(requests=Table.of_rows(rows)))
    assert chart is not None
    assert [row["label"] for row in chart["rows"] if "connection: ::1" in row["hint"]] == [
        "server GET /items/0",
        "sql select",
    ]


@pytest.mark.parametrize(
    "others",
    [
        [asking("server", "GET /a", 5.0, 3.0), asking("server", "GET /a?b", 6.0, 3.0)],  # either may be
        [asking("server", "GET /b", 5.0, 3.0)],
        [asking("server", "GET /a", 5.0, 3.0, pid=8)],
        [asking("server", "GET /a", 5.0, 300.0)],
        [asking("server", "GET /a", 5.0, None)],
    ],
)
def test_what_may_have_been_asked_for_by_others_is_a_bar_of_its_own(others: list[dict[str, Any]]) -> None:
    found = drawn([asking("client", "http://localhost/a", 0.0, 10.0), *others])
    assert [depth for depth, _, _ in found] == [0] * (1 + len(others))
    assert len(found) == 1 + len(others)


def test_what_two_may_have_asked_for_is_within_the_longest() -> None:
    rows = [asking("client", "http://l/a", 0.0, 10.0), asking("client", "http://l/a", 0.0, 12.0)]
    rows.append(asking("server", "GET /a", 5.0, 3.0))
    assert drawn(rows) == [
        (0, "client http://l/a", 0.0), (1, "server GET /a", 5.0), (0, "client http://l/a", 0.0),
    ]  # fmt: skip


def test_what_failed_is_drawn_within_its_client_where_that_is_drawn_and_else_by_itself() -> None:
    rows = [asking("client", f"http://l/{at}", float(at), 9.0) for at in range(2 * MOST_SPANS)]
    rows += [asking("client", "http://l/x", 1e6, 5.0), {**asking("server", "GET /x", 1e6, 4.0), "failure": "Boom"}]
    found = drawn(rows)
    assert len(found) == MOST_SPANS
    # its client is short, and did not fail
    assert [one for one in found if "/x" in one[1]] == [(0, "server GET /x", 0.0)]
    rows[-2]["status"] = 500
    assert drawn(rows)[-2:] == [(0, "client http://l/x", 0.0), (1, "server GET /x", 0.0)]


def test_the_one_that_answered_is_drawn_though_much_else_was_longer() -> None:
    rows = [asking("client", "http://l/a", 0.0, 9000.0)]
    rows += [asking("client headers", "", 1.0 + at, 50.0, parent=0, depth=2) for at in range(2 * MOST_WITHIN)]
    rows.append(asking("server", "GET /a", 500.0, 1.0))
    found = drawn(rows)
    assert len(found) == MOST_WITHIN
    assert found[-1] == (1, "server GET /a", 500.0)


def sliced(table: Table) -> SlicedTable:
    """The same, of which only some rows may be had at a time."""

    def made(names: Sequence[str], first: int, last: int) -> dict[str, Any]:
        assert last - first <= PART_ROWS
        return {name: table[name].take(range(first, last)) for name in names}

    return SlicedTable(table.columns, len(table), made)


def test_of_a_report_with_very_many_requests_some_are_looked_at_at_a_time() -> None:
    each, count = PART_ROWS // 3, 12
    rows: list[dict[str, Any]] = []
    for at in range(count):  # what is within one of them comes long after it
        rows.append(asking("client", f"http://l/{at}", float(at), 1e6 - at))
    for at in range(count * each):
        rows.append(asking("sql", "select", float(count + at), 1.0 + at % 5, parent=at % count, depth=2))
    for at in range(count):
        rows.append(asking("server", f"GET /{at}", 5e5, 10.0))
        rows.append(asking("kestrel", f"GET /{at}", 5e5, 9.0, parent=len(rows) - 1, depth=2))
    table = Table.of_rows(rows)
    chart = chart_of("requests", SimpleNamespace(requests=sliced(table)))
    assert chart == chart_of("requests", SimpleNamespace(requests=table))
    assert chart is not None
    tops = [row["label"] for row in chart["rows"] if not row["depth"]]
    assert tops == [f"client http://l/{at}" for at in range(MOST_SPANS // MOST_WITHIN)]
    assert [row["depth"] for row in chart["rows"] if row["label"] in ("server GET /0", "kestrel GET /0")] == [1, 2]


@needs("fixtures", "the recording web-10")
def test_what_is_within_a_request_is_what_the_command_line_shows() -> None:
    table = requests(opened("web-10")).requests
    rows = table.to_pylist()
    chart = chart_of("requests", SimpleNamespace(requests=table))
    assert chart is not None
    bars: list[list[tuple[int, str, float]]] = []
    for row in chart["rows"]:
        bars += [] if row["depth"] else [[]]
        bars[-1].append((row["depth"], row["label"], row["start"]))
    slow, shown, expected = SlowRequests(table, {row["kind"] for row in rows}), set[int](), []
    for at in sorted(range(len(rows)), key=lambda at: -(rows[at]["duration_ms"] or 0.0)):
        parent = rows[at]["parent"]
        is_top = parent is None or rows[parent]["kind"] == "connection"
        if not is_top or rows[at]["kind"] == "connection" or rows[at]["duration_ms"] is None or at in shown:
            continue
        inside = slow.inside(at)
        shown |= {place for place, _ in inside}
        expected.append([
            (depth, f"{row['kind']} {row['name']}".rstrip(), round(row["start_ms"] - rows[at]["start_ms"], 3))
            for row, depth in ((rows[place], depth) for place, depth in inside)
        ])  # fmt: skip
    answered = [bar for bar in bars if bar[0][1].startswith("client") and any("server" in one[1] for one in bar)]
    assert answered
    assert sum(map(len, bars)) <= MOST_SPANS
    assert all(sorted(bar) in [sorted(one) for one in expected] for bar in bars)


def pool(threads: list[float], queued: list[float], took: list[float | None]) -> Any:
    size = Table({"ms": threads, "active": list(range(1, len(threads) + 1))})
    starvation = Table.of_rows([{"start_ms": 110.0, "duration_ms": 890.0, "late": 2, "longest_ms": 990.0}])
    return SimpleNamespace(
        threads=size,
        adjustments=Table({"ms": [0.0], "threads": [2]}),
        work=Table({"queued_ms": queued, "queue_ms": took}),
        starvation=starvation,
    )


def test_the_pool_is_drawn_to_the_end_with_how_much_work_waited_when() -> None:
    chart = chart_of("threadpool", pool([5.0, 20.0], [10.0, 10.0, 30.0], [40.0, 990.0, None]), 2000.0)
    assert chart is not None
    active, aimed = chart["areas"]
    assert (active["ms"], active["values"]) == ([5.0, 20.0, 2000.0], [1.0, 2.0, 2.0])
    assert (aimed["ms"], aimed["values"]) == ([0.0, 2000.0], [2.0, 2.0])
    (waiting,) = chart["bars"]
    assert waiting["ms"] == [10.0, 30.0, 50.0, 1000.0, 2000.0]
    assert waiting["values"] == [2.0, 3.0, 2.0, 1.0, 1.0]  # one never began
    assert all(one["step"] for one in (active, aimed, waiting))
    (shade,) = chart["shades"]
    assert (shade["label"], shade["start"], shade["length"]) == ("starved", 110.0, 890.0)
    assert chart["end"] == 2000.0


@pytest.mark.parametrize("together", [1, 2, 3, 1000])
def test_how_much_work_waited_does_not_depend_on_how_much_is_counted_at_a_time(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    queued = np.sort(rng.integers(0, 40, 60)).astype(np.float64)
    took = [None if one > 80 else float(one) for one in rng.integers(0, 100, 60)]
    monkeypatch.setattr(report_charts, "QUEUED_TOGETHER", together)
    chart = chart_of("threadpool", pool([], queued.tolist(), took), 500.0)
    assert chart is not None
    (drawn,) = chart["bars"]
    begun = [ms + one for ms, one in zip(queued.tolist(), took, strict=True) if one is not None]
    times = sorted({*queued.tolist(), *begun})
    waiting = [sum(ms <= at for ms in queued.tolist()) - sum(ms <= at for ms in begun) for at in times]
    assert (drawn["ms"], drawn["values"]) == ([*times, 500.0], [*waiting, waiting[-1]])


def test_methods_of_a_start_are_below_the_phase_in_which_they_were_compiled() -> None:
    phases = [
        {"phase": "the runtime starts", "start_ms": 0.0, "duration_ms": 50.0},
        {"phase": "the program", "start_ms": 50.0, "duration_ms": 50.0},
    ]
    longest = [
        {"kind": "method", "name": "App.Main()", "start_ms": 50.0, "duration_ms": 9.0},
        {"kind": "collection", "name": "Induced", "start_ms": 45.0, "duration_ms": 3.0},
        {"kind": "method", "name": "System.Start()", "start_ms": 2.0, "duration_ms": 1.0},
    ]
    chart = chart_of("startup", SimpleNamespace(phases=Table.of_rows(phases), longest=Table.of_rows(longest)))
    assert chart is not None
    assert [(row["label"], row["depth"], row.get("method")) for row in chart["rows"]] == [
        ("the runtime starts", 0, None),
        ("method System.Start()", 1, 7),
        ("collection Induced", 1, None),
        ("the program", 0, None),
        ("method App.Main()", 1, 7),
    ]


@pytest.mark.parametrize(("length", "is_cut"), [(149.0, False), (151.0, True), (4950.0, True)])
def test_a_start_is_drawn_without_most_of_what_the_program_did_then(length: float, is_cut: bool) -> None:
    """All of 5 s is as wide as the page, and what comes before the program a few pixels of it."""
    phases = [
        {"phase": "the runtime starts", "start_ms": 1000.0, "duration_ms": 50.0},
        {"phase": "the program", "start_ms": 1050.0, "duration_ms": length},
    ]
    longest = [
        {"kind": "method", "name": f"App.M{ms}()", "start_ms": ms, "duration_ms": 1.0}
        for ms in (1060.0, 1199.0, 1200.5)
    ]
    chart = chart_of("startup", SimpleNamespace(phases=Table.of_rows(phases), longest=Table.of_rows(longest)))
    assert chart is not None
    assert [row["label"] for row in chart["rows"]][2:] == [
        f"method App.M{ms}()" for ms in ((1060.0, 1199.0) if is_cut else (1060.0, 1199.0, 1200.5))
    ]
    note = (
        f"drawn are the first 200 ms of the {50 + length:,.0f} that were looked at; what began later is in the tables"
    )
    assert (chart.get("end"), chart.get("note")) == ((1200.0, note) if is_cut else (None, None))


def test_each_bar_of_advice_says_what_it_is_of() -> None:
    findings = Table(
        {"severity": [9.0, 5.0], "question": ["requests", "requests"], "text": ["some failed", "some are slow"]}
    )
    chart = chart_of("advice", SimpleNamespace(findings=findings))
    assert chart is not None
    assert [one["label"] for one in chart["items"]] == ["requests some failed", "requests some are slow"]


@needs("fixtures", "the recording default-10")
def test_collections_are_drawn_as_they_are_in_the_table() -> None:
    made = gc(opened("default-10"))
    chart = chart_of("gc", made)
    assert chart is not None
    pauses = [round(value, 3) for value in made.collections.values("pause_ms") if value is not None]
    assert sorted(chart["bars"][0]["values"]) == sorted(pauses)
    (heap,) = chart["areas"]
    rows = made.collections.to_pylist()
    points = [(row["start_ms"], row["before_bytes"]) for row in rows]
    points += [(row["start_ms"] + row["duration_ms"], row["after_bytes"]) for row in rows]
    assert (heap["label"], heap["unit"]) == ("heap", "bytes")
    assert list(zip(heap["ms"], heap["values"], strict=True)) == [(round(ms, 3), value) for ms, value in sorted(points)]


def collections(rows: list[tuple[float, float | None, int | None, int | None]], pids: list[int] | None = None) -> Any:
    names = ("start_ms", "duration_ms", "before_bytes", "after_bytes")
    columns: dict[str, Any] = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns |= {"pause_start_ms": columns["start_ms"], "pause_ms": columns["duration_ms"]}
    return SimpleNamespace(collections=Table({**columns, **({"pid": pids} if pids else {})}))


def heaps_of(made: Any) -> dict[str, list[tuple[float, float]]]:
    chart = chart_of("gc", made)
    assert chart is not None
    return {one["label"]: list(zip(one["ms"], one["values"], strict=True)) for one in chart["areas"]}


def test_the_heap_grows_up_to_the_begin_of_a_collection_and_falls_until_its_end() -> None:
    made = collections([(870.0, 1.0, 124, 120), (1279.0, 1.0, 400, 24), (1280.0, 0.0, 24, 23)])
    assert heaps_of(made) == {
        "heap": [(870.0, 124), (871.0, 120), (1279.0, 400), (1280.0, 24), (1280.0, 24), (1280.0, 23)]
    }


def test_a_collection_in_the_background_ends_behind_the_young_one_within_it_and_what_is_not_known_is_left_out() -> None:
    made = collections([(10.0, 90.0, 50, 30), (20.0, 5.0, 60, 40), (30.0, None, 70, 60), (200.0, 1.0, None, 20)])
    assert heaps_of(made) == {"heap": [(10.0, 50), (20.0, 60), (25.0, 40), (30.0, 70), (100.0, 30), (201.0, 20)]}


def test_heaps_of_several_processes_are_not_one() -> None:
    rows = [(10.0, 1.0, 50, 30), (20.0, 1.0, 900, 800), (30.0, 1.0, 60, 40), (40.0, 1.0, 9, 8)]
    assert heaps_of(collections(list(rows), [1, 2, 1, 3])) == {
        "heap of process 2": [(20.0, 900), (21.0, 800)],
        "heap of process 1": [(10.0, 50), (11.0, 30), (30.0, 60), (31.0, 40)],
    }


@pytest.mark.parametrize("is_sliced", [False, True])
def test_of_many_collections_the_saw_keeps_its_peaks_and_its_lows(is_sliced: bool) -> None:
    count = 20 * MOST_POINTS
    rows: list[Any] = [(2.0 * at, 1.0, 1000 + at % 7, 500 - at % 7) for at in range(count)]
    rows[12_345] = (2.0 * 12_345, 1.0, 99_999, 500)
    rows[54_321] = (2.0 * 54_321, 1.0, 1000, 1)
    made = collections(rows)
    if is_sliced:
        made = SimpleNamespace(collections=sliced(made.collections))
    (points,) = heaps_of(made).values()
    assert len(points) == MOST_POINTS
    assert {(24_690.0, 99_999.0), (108_643.0, 1.0)} <= set(points)
    assert points == sorted(points)
    values = [value for _, value in points]
    assert sum(value >= 1000 for value in values) == sum(value <= 500 for value in values) == MOST_POINTS // 2


@needs("fixtures", "the recordings")
@pytest.mark.parametrize("name", ["default-10", "web-10", "startup-10", "gcverbose-10", "lossy-10"])
def test_every_kind_has_a_tab_and_those_with_rows_have_a_chart(name: str) -> None:
    made = everything(opened(name))
    data = data_in(written(dict(made.reports), flame=made.cpu))
    kinds = [tab["name"] for tab in data["tabs"]]
    assert kinds == [*made.reports, *(["flame graph"] if len(made.cpu) else [])]
    assert {*made.reports, "spans"} == {*report_charts._CHARTS, *report_charts._OVER_TIME}
    drawn = {tab["name"] for tab in data["tabs"] if tab["chart"]}
    expected = {"default-10": {"gc", "exceptions", "threads", "topN"}, "web-10": {"requests", "logs"}}
    assert expected.get(name, set()) <= drawn
    for tab in data["tabs"]:
        assert tab["facts"] or tab["findings"] or tab["tables"] or tab["flame"], tab["name"]


@needs("fixtures", "the recordings")
def test_every_page_begins_with_what_its_report_comes_to() -> None:
    made = everything(opened("default-10"))
    tabs = {tab["name"]: tab for tab in data_in(written(dict(made.reports)))["tabs"]}
    for name, tab in tabs.items():
        assert bool(tab["totals"]) == bool(tab["tables"] or name == "advice"), name
        names = [one["name"] for one in tab["totals"]]
        assert len(names) == len({*names}), name

    def told(name: str) -> list[str]:
        return [f"{one['name']}: {one['value']}" for one in tabs[name]["totals"]]

    totals = made.reports["gc"].totals
    assert {
        f"count: {totals.count}",
        f"pause: {totals.pause_ms:,.3f} ms",
        f"pause share: {totals.pause_percent:,.3f} %",
        f"max pause: {totals.max_pause_ms:,.3f} ms",
    } <= set(told("gc"))
    (pauses,) = [one for one in told("gc") if one.startswith("pauses: ")]
    assert all(f"{name} {value:,.3f}" in pauses for name, value in totals.pauses_ms.items())
    assert f"count: {made.reports['exceptions'].totals.count}" in told("exceptions")
    assert told("topN")[1] == f"samples: {len(made.cpu):,}"


def test_totals_have_units_and_an_error_says_that_it_is_one() -> None:
    totals = AllocationTotals(
        source="samples",
        count=1234,
        bytes=12_345_678,
        objects=None,
        error_bytes=45_000,
        large_bytes=0,
        pinned_bytes=0,
        bytes_per_second=1_500_000,
    )
    assert report_page.totals_of(Summed(by_type=Table({"a": [1]}), totals=totals)) == [
        ("source", "samples"),
        ("count", "1,234"),
        ("bytes", "12.346 MB"),
        ("error", "± 0.045 MB"),
        ("large", "0.000 MB"),
        ("pinned", "0.000 MB"),
        ("bytes per second", "1.500 MB a second"),
    ]
    assert report_page.totals_of(Summed(by_type=Table({"a": []}), totals=totals)) == []


def test_what_a_recording_lacks_is_said_once_for_all_kinds_that_it_concerns() -> None:
    made = everything(opened("counters-10"))
    (tab,) = data_in(written({"advice": made.reports["advice"]}))["tabs"]
    lacking = made.reports["advice"].lacking
    for kind, why in lacking.items():
        (fact,) = [one for one in tab["facts"] if why in one]
        assert kind in fact.partition(": ")[0].split(", ")


def test_spans_have_a_chart_of_how_long_each_took() -> None:
    made = SimpleNamespace(rows=spans(Trace(data_of("gccollect-10.nettrace")), "GC/Start", "GC/Stop"))
    chart = chart_of("spans", made)
    assert chart is not None
    (bars,) = chart["bars"]
    assert (chart["kind"], bars["unit"], len(bars["ms"])) == ("time", "ms", len(made.rows))
    assert bars["values"] == pytest.approx(made.rows.values("duration_ms"), abs=1e-3)
