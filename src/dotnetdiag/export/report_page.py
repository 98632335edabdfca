"""Reports as one HTML page: a tab for each, with a chart and its tables, drawn by a script of its own; nothing is loaded from anywhere.

See :mod:`dotnetdiag.export.pages` for what keeps it safe. A flame graph is a page within the page::

    {"title": …,
     "tabs": [{"name": …, "totals": [{"name", "value"}], "findings": [{"text", "question"}], "facts": [...], "chart": null|{"kind": …},
               "flame": null|"<!DOCTYPE html>…",
               "tables": [{"title": …, "rows": 12, "note": …, "columns": [{"name", "number": true, "id": false, "values": [...]}]}]}]}

Charts are those of :mod:`dotnetdiag.export.report_charts`. Of long tables the first rows are in it, or those that took longest, and a note says so.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import IO, Any

import numpy as np

from dotnetdiag._dataclasses import as_dict
from dotnetdiag.analysis.answers import whole
from dotnetdiag.analysis.profile import Array
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.export import flamegraph
from dotnetdiag.export.pages import Page
from dotnetdiag.export.report_charts import chart_of, held, numbers
from dotnetdiag.export.texts import plain
from dotnetdiag.table import Table
from dotnetdiag.table.html import heading
from dotnetdiag.table.parts import parts, rows_at
from dotnetdiag.table.texts import is_number, json_values

MOST_ROWS = 2000
"""Of a table: some hundred kilobytes."""
LENGTHS = ("pause_ms", "compile_ms", "duration_ms")
"""Columns of which the largest are looked for: of a table with more rows those are in the page."""
LONGEST_CELL = 2000
"""Characters of a cell: a message may have millions."""
EXACT = 1 << 53
"""Beyond it numbers of JavaScript are not exact: these are texts."""
IDS = frozenset({"pid", "number", "task", "awaited_by", "event_id", "status", "request_row", "parent", "row"})
"""Columns whose numbers count nothing."""
PAGE = Page(
    title="Report",
    body="reports/reports.html",
    styles=["reports/reports.css"],
    scripts=["reports/reports.js"],
    frames=flamegraph.PAGE.scripts,
)
FLAME_GRAPH = "flame graph"


def write(
    reports: Mapping[str, Any],
    file: IO[bytes],
    *,
    name: str = "",
    flame: StackProfile | None = None,
    start: datetime | None = None,
    seconds: float | None = None,
) -> None:
    """Write reports by their kinds, in this order, and a flame graph of ``flame`` behind them. ``name`` is that of the recording, which began at
    ``start`` and took so many ``seconds``.
    """
    end_ms = None if seconds is None else 1000.0 * seconds
    tabs = [_tab(kind, made, end_ms) for kind, made in reports.items()]
    if flame is not None and len(flame):
        empty: dict[str, Any] = {"totals": [], "findings": [], "facts": [], "chart": None, "tables": []}
        tabs.append({"name": FLAME_GRAPH, **empty, "flame": _flame(flame)})
    what = next(iter(reports)) if len(reports) == 1 else "report"
    when = "" if start is None else f"{start:%Y-%m-%d %H:%M:%S} UTC"
    when += f", {seconds:,.1f} s" if when and seconds is not None else ""
    data = {"title": plain(f"{what} of {name}" if name else what), "when": when, "tabs": tabs}
    PAGE.write(data, file)


def tables_in(made: Any) -> dict[str, Table]:
    """The tables of a report by the names of its fields; of a result that has one, that."""
    if is_dataclass(made) and not isinstance(made, type):
        found = {one.name: getattr(made, one.name) for one in fields(made)}
        tables = {name: value for name, value in found.items() if isinstance(value, Table)}
        if tables:
            return tables
    if isinstance(made, Table):
        return {"rows": made}
    if isinstance(made, Sequence):
        return {one.title or f"table {number}": one for number, one in enumerate(made, 1)}
    return {"rows": made.table()}


def _tab(kind: str, made: Any, end_ms: float | None) -> dict[str, Any]:
    tables = tables_in(made)
    losses = dict.fromkeys(str(one.losses) for one in tables.values() if str(one.losses))
    notes: Sequence[str] = getattr(made, "notes", ())
    findings = []
    if kind == "advice":
        findings = [{"text": _cut(row["text"]), "question": row["question"]} for row in made.findings]
        notes = [*made.findings.notes, *made.unnamed, *_lacking(made.lacking)]
    facts = [*notes, *losses]
    return {
        "name": kind,
        "totals": [{"name": plain(name), "value": _cut(value)} for name, value in totals_of(made)],
        "findings": findings,
        "facts": [_cut(one) for one in facts],
        "chart": chart_of(kind, made, end_ms),
        "flame": None,
        "tables": [
            _table(name, tables[name], slowest_first=kind == "requests")
            for name in sorted(tables, key=_order)
            if len(tables[name])
        ],
    }


def totals_of(made: Any) -> list[tuple[str, str]]:
    """What a report comes to, by name, as people read it; what is not known is left out, and all of a report that has nothing."""
    if hasattr(made, "seconds") and not hasattr(made, "totals"):
        return [("recorded", f"{made.seconds:,.1f} s")]
    if not any(map(len, tables_in(made).values())):
        return []
    if isinstance(made, StackProfile):
        return [("in all", _told("", made.total, made.unit)), ("samples", f"{made.sampled:,}")]
    if not hasattr(made, "totals"):
        return []
    totals = as_dict(made.totals)
    return [_total(name, value, totals) for name, value in totals.items() if value not in (None, "", {})]


def _total(name: str, value: Any, names: Container[str]) -> tuple[str, str]:
    ending = next((one for one in _UNITS if name.endswith(one)), "")
    named, (unit, kind) = name.removesuffix(ending).strip("_"), _UNITS.get(ending, ("", ""))
    if ending and named in names:
        kind = kind or _TIME
    text = f"{named or name} {kind if named else ''}".replace("_", " ").rstrip()
    if isinstance(value, Mapping):
        own = ", ".join(f"{one} {_told(one, figure, '')}" for one, figure in value.items() if figure is not None)
        return text, f"{own} {unit}".rstrip()
    return text, _told(name, value, unit)


_UNITS = {
    "bytes_per_second": ("MB a second", "per second"),
    "per_second": ("a second", "per second"),
    "bytes": ("MB", ""),
    "_ms": ("ms", ""),
    "_percent": ("%", "share"),
}
"""By the ends of names: what totals are told in, and what tells them from others of the name."""
_TIME = "time"
"""What tells those in ms from how many there are, where both are told."""


def _told(name: str, value: Any, unit: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if unit.startswith("MB"):
        value = value / 1e6
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
    return f"{'± ' if name.startswith('error') else ''}{text} {unit}".rstrip()


def _lacking(lacking: Mapping[str, str]) -> list[str]:
    """Kinds that there is nothing of, each with why."""
    kinds: dict[str, list[str]] = {}
    for kind, why in lacking.items():  # several have one reason
        kinds.setdefault(why, []).append(kind)
    return [f"{', '.join(names)}: {why}" for why, names in kinds.items()]


def _slowest(table: Table) -> Table:
    """The first requests in the order in which they are looked at, connections last; ``row`` is what ``parent`` names."""
    asked = [name for name in ("kind", "duration_ms") if name in table.columns]
    places = _first_by(table, asked, lambda part: [-_length(part, "duration_ms"), held(part)])
    own = {"row": whole(places)} if "duration_ms" in asked else {}
    return Table({**own, **rows_at(table, places)}, units=table.units)


def _longest(table: Table, name: str) -> Table:
    """Those that took longest, in their order."""
    places = np.sort(_first_by(table, [name], lambda part: [-_length(part, name)]))
    return Table(rows_at(table, places), units=table.units)


def _first_by(table: Table, names: Sequence[str], keys: Callable[[Table], list[Array]]) -> Array:
    """The places of as many rows as a page has: the first by the keys that their columns come to, the last key first."""
    places, found, first = np.zeros(0, np.int64), list[Array](), 0
    for part in map(Table, parts(table, names)):
        own = keys(part)
        places = np.append(places, np.arange(first, first + len(part)))
        found = [np.append(*both) for both in zip(found, own, strict=True)] if found else own
        order = np.lexsort(found)[:MOST_ROWS]
        places, found = places[order], [one[order] for one in found]
        first += len(part)
    return places


def _length(part: Table, name: str) -> Array:
    return np.asarray(np.nan_to_num(numbers(part, name), nan=-1.0))


def _order(name: str) -> bool:
    """What is together stands before what is of each event."""
    return not name.startswith("by_")


def _table(name: str, table: Table, *, slowest_first: bool) -> dict[str, Any]:
    length = next((one for one in LENGTHS if one in table.columns), None) if len(table) > MOST_ROWS else None
    if slowest_first:
        shown = _slowest(table)
    else:
        shown = table[:MOST_ROWS] if length is None else _longest(table, length)
    more = len(table) - len(shown)
    columns = []
    for column in shown.columns:
        numbers = is_number(shown[column])
        values = [_cell(value) for value in json_values(shown[column])]
        if any(value is not None for value in values):
            is_id = column in IDS or column.endswith("tid")
            columns.append({"name": plain(heading(shown, column)), "number": numbers, "id": is_id, "values": values})
    note = f"the first {len(shown):,} of {len(table):,} rows; the formats for programs have all" if more else ""
    if more and length is not None and not slowest_first:
        note = f"the {len(shown):,} of {len(table):,} rows with the longest {length}; the formats for programs have all"
    return {"title": name.replace("_", " "), "rows": len(shown), "note": note, "columns": columns}


def _cell(value: Any) -> Any:
    """What a cell shows: numbers, texts of a length that can be read."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -EXACT <= value <= EXACT else str(value)
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return _cut("\n".join(value))
    return _cut(value if isinstance(value, str) else json.dumps(value))


def _cut(text: str) -> str:
    return plain(text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}… ({len(text):,} characters)")


def _flame(profile: StackProfile) -> str:
    out = io.BytesIO()
    flamegraph.write(profile, out)
    return out.getvalue().decode("utf-8")
