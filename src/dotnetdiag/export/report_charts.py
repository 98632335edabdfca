"""The chart of each kind of report, which answers at a glance: what a page draws, as values of JSON.

``{"kind": "time", "areas": [series], "bars": [series], "end": ms}``, a series being ``{"label", "unit", "ms": [...], "values": [...]}``;
``"step": true`` where a value holds until the next one comes, ``"width"`` where one is of so many ms; ``"shades": [{"label", "start", "length",
"hint"}]`` are times that stand out. Without ``end`` it spans what there is.
``{"kind": "treemap"|"bars", "unit": …, "items": [{"label", "value", "hint"}]}``, ``"methods": true`` where labels are names of methods
``{"kind": "waterfall", "rows": [{"label", "start", "length", "depth", "hint", "bad"}]}``, in ms; a length may be null.
``"method"`` is where the name of a method begins in a label. With ``"since"`` starts are those since it, not since that of the recording
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dotnetdiag.analysis.distinct import rows_with
from dotnetdiag.analysis.profile import Array
from dotnetdiag.export.texts import clean
from dotnetdiag.table import Table
from dotnetdiag.table.parts import parts

Chart = dict[str, Any]

MOST_POINTS = 4000
"""Of a series over time: more than a screen has pixels. What is beyond is left out where another within the same time is greater."""
MOST_ITEMS = 60
MOST_SPANS = 400
MOST_WITHIN = 100
"""Spans of one request that are drawn."""
CONNECTION = "connection"
FAILED = 500
"""Of a status: from here on it is the fault of who answers."""
LONGEST_LABEL = 400


def chart_of(kind: str, made: Any, end_ms: float | None = None) -> Chart | None:
    """The chart of a report by the name of its kind; None where there is nothing to draw, or nothing is known of the kind. ``end_ms``: how long was
    recorded, all of which a chart over time spans.
    """
    if kind in _OVER_TIME:
        drawn = _OVER_TIME[kind](made, end_ms)
    else:
        drawn = _CHARTS[kind](made) if kind in _CHARTS else None
    if drawn and drawn["kind"] == "time" and end_ms is not None:
        drawn["end"] = round(end_ms, 3)
    return drawn


def numbers(table: Table, name: str) -> Array:
    """A column as f64, NaN where it has no value."""
    column = table.get(name)
    return np.full(len(table), np.nan) if column is None else _floats(column)


def _floats(column: Any) -> Array:
    values: Array = column.numpy().astype(np.float64)
    return values if column.valid is None else np.where(column.valid, values, np.nan)


def _series(label: str, unit: str, ms: Array, values: Array) -> Chart | None:
    rows = _thinned(ms, values)
    if not len(rows):
        return None
    return {"label": label, "unit": unit, "ms": _rounded(ms[rows]), "values": _rounded(values[rows])}


def _thinned(ms: Array, values: Array) -> Array:
    """The rows that are drawn, in the order of time."""
    rows = np.flatnonzero(np.isfinite(ms) & np.isfinite(values))
    rows = rows[np.argsort(ms[rows], kind="stable")]
    if len(rows) > MOST_POINTS:
        place = np.arange(len(rows)) * MOST_POINTS // len(rows)
        order = np.lexsort((-values[rows], place))
        rows = rows[np.sort(order[np.flatnonzero(np.diff(place[order], prepend=-1))])]
    return rows


def _series_of(label: str, unit: str, table: Table, times: Sequence[str], value: str) -> Chart | None:
    """A column over the sum of these times. Of a million rows those of a part that are drawn are thinned once more together."""
    found = []
    for part in parts(table, [*times, value]):
        ms, values = np.sum([_floats(part[one]) for one in times], axis=0), _floats(part[value])
        rows = _thinned(ms, values)
        found.append((ms[rows], values[rows]))
    return _series(label, unit, *(np.concatenate(both) for both in zip(*found, strict=True)))


def _rounded(values: Array) -> list[float]:
    return np.round(np.clip(values, -1e300, 1e300), 3).tolist()  # type: ignore[no-any-return]


def _time(areas: Sequence[Chart | None], bars: Sequence[Chart | None]) -> Chart | None:
    made = {"areas": [one for one in areas if one], "bars": [one for one in bars if one]}
    return {"kind": "time", **made} if made["areas"] or made["bars"] else None


def _items(
    table: Table,
    value: str,
    labels: tuple[str, ...],
    *,
    kind: str = "bars",
    unit: str = "",
    hints: tuple[str, ...] = (),
    methods: bool = False,
) -> Chart | None:
    """The rows with the greatest values, those beyond together. ``methods``: that is what labels are."""
    values = np.nan_to_num(numbers(table, value))
    count, total = int((values > 0).sum()), float(values[values > 0].sum())
    least = np.partition(values, -MOST_ITEMS)[-MOST_ITEMS] if count > MOST_ITEMS else 0.0
    rows = np.flatnonzero((values > 0) & (values >= least))
    rows = rows[np.argsort(-values[rows], kind="stable")][:MOST_ITEMS]
    items = []
    for at in rows.tolist():
        row = table[at]
        label = " ".join(str(row[name]) for name in labels if row.get(name) not in (None, ""))
        hint = [f"{name.replace('_', ' ')}: {row[name]}" for name in hints if row.get(name) is not None]
        items.append({"label": text(label) or "(no name)", "value": float(values[at]), "hint": text(", ".join(hint))})
    if not items:
        return None
    made: Chart = {"kind": kind, "unit": unit or table.units.get(value, ""), "items": items, "value": value}
    if methods:
        made["methods"] = True
    if count > len(rows):
        rest = max(total - float(values[rows].sum()), 0.0)
        items.append({"label": f"{count - len(rows):,} others", "value": rest, "hint": ""})
    return made


def text(value: str) -> str:
    """A text as a chart has it: a label, not a book."""
    return clean(value if len(value) <= LONGEST_LABEL else f"{value[:LONGEST_LABEL]}…")


def _gc(made: Any) -> Chart | None:
    table = made.collections
    before = _series_of("heap before", "bytes", table, ["start_ms"], "before_bytes")
    after = _series_of("heap after", "bytes", table, ["start_ms", "duration_ms"], "after_bytes")
    return _time([before, after], [_series_of("pause", "ms", table, ["pause_start_ms"], "pause_ms")])


def _lengths(made: Any) -> Chart | None:
    """How long each took, over time."""
    return _time([], [_series_of("duration", "ms", made.rows, ["start_ms"], "duration_ms")])


def _allocations(made: Any) -> Chart | None:
    return _items(made.by_type, "bytes", ("type",), kind="treemap", hints=("count", "percent"))


def _exceptions(made: Any, end_ms: float | None) -> Chart | None:
    return _over_time({"exceptions": numbers(made.thrown, "start_ms")}, end_ms)


def _waits(made: Any) -> Chart | None:
    return _items(made.by_method, "total_ms", ("method",), hints=("count", "max_ms"), methods=True)


def _thread_pool(made: Any, end_ms: float | None) -> Chart | None:
    active = _steps("active threads", "threads", numbers(made.threads, "ms"), numbers(made.threads, "active"), end_ms)
    wanted = made.adjustments
    aimed = _steps("threads aimed at", "threads", numbers(wanted, "ms"), numbers(wanted, "threads"), end_ms)
    drawn = _time([active, aimed], [_queued(made.work, end_ms)])
    return drawn and {**drawn, "shades": [_starved(row) for row in made.starvation[:MOST_SPANS]]}


def _steps(label: str, unit: str, ms: Array, values: Array, end_ms: float | None) -> Chart | None:
    """Values that hold until the next one comes, the last until the end."""
    one = _series(label, unit, ms, values)
    if one is None:
        return None
    if end_ms is not None and one["ms"][-1] < end_ms:
        last = np.flatnonzero(np.isfinite(ms) & np.isfinite(values))
        value = values[last[np.lexsort((last, ms[last]))[-1]]]
        one["ms"].append(round(end_ms, 3))
        one["values"] += _rounded(np.array([value]))
    return {**one, "step": True}


def _queued(work: Table, end_ms: float | None) -> Chart | None:
    """How much work waited, as it was queued and begun; what was not begun waits until the end."""
    queued, took = numbers(work, "queued_ms"), numbers(work, "queue_ms")
    begun = (queued + took)[np.isfinite(took)]
    ms = np.concatenate([queued, begun])
    change = np.concatenate([np.ones(len(queued)), np.full(len(begun), -1.0)])
    ms, which = np.unique(ms[np.isfinite(ms)], return_inverse=True)
    if not len(ms):
        return None
    waiting = np.cumsum(np.bincount(which.reshape(-1), change, minlength=len(ms)))
    return _steps("waiting in the queue", "pieces of work", ms, waiting, end_ms)


def _starved(row: Mapping[str, Any]) -> Chart:
    start, length = row["start_ms"], row["duration_ms"]
    hint = f"{row['late']:,} pieces of work waited for more than 100 ms, {row['longest_ms']:,.3f} ms at most"
    return {"label": "starved", "start": round(start, 3), "length": round(length, 3), "hint": hint}


def _tasks(made: Any) -> Chart | None:
    return _items(made.by_method, "own_ms", ("method",), hints=("count", "total_ms", "max_ms"), methods=True)


def _jit(made: Any) -> Chart | None:
    return _items(made.by_method, "compile_ms", ("method",), hints=("count", "il_bytes", "native_bytes"), methods=True)


def _loader(made: Any) -> Chart | None:
    types = _items(made.types, "total_ms", ("type",), kind="treemap", hints=("count", "max_ms"))
    hints = ("assembly", "start_ms", "error")
    binds = _items(made.binds, "duration_ms", ("assembly",), kind="treemap", hints=hints)
    for one in binds["items"] if binds else ():
        one["label"] = one["label"].partition(",")[0]  # without version and key
    return types or binds


def _threads(made: Any) -> Chart | None:
    hints = ("waiting_ms", "samples", "lock_ms", "allocated_bytes", "exceptions")
    for value in ("cpu_ms", "waiting_ms"):
        drawn = _items(made.threads, value, ("tid", "name", "kind"), unit="ms", hints=hints)
        if drawn:
            return drawn
    return None


def _requests(made: Any) -> Chart | None:
    """The slowest, and the slowest that failed, each from its own begin, with what was within it. A connection holds requests and is none: it is
    told under the pointer.
    """
    table = made.requests
    length = np.nan_to_num(numbers(table, "duration_ms"))
    is_held = held(table)
    root, connection = _roots(table, is_held)
    rows = np.flatnonzero(~is_held)
    if not len(rows):
        return None
    rows = _slowest(rows, root, np.where(np.isnan(numbers(table, "duration_ms")), np.inf, length), _failed(table))
    start = numbers(table, "start_ms")
    rows = rows[np.lexsort((start[rows], rows != root[rows], root[rows], -length[root[rows]]))]
    told = ("failure", "status", "queue_ms", "cpu_ms", "gc_ms", "lock_ms", "allocated_bytes")
    drawn = []
    for at in rows.tolist():
        span = _span(table[at], ("kind", "name"), told)
        hints = [f"at {span['start']:,.3f} ms", span["hint"]]
        if connection[at] >= 0:
            hints.append(f"connection: {table[int(connection[at])]['name']}")
        hint = text(", ".join(one for one in hints if one))
        depth = span["depth"] - int(max(table[int(root[at])].get("depth") or 0, 1)) + 1
        since = round(max(float(start[at] - start[root[at]]), 0.0), 3)
        drawn.append({**span, "start": since, "depth": max(depth, 0), "hint": hint})
    return {"kind": "waterfall", "rows": drawn, "since": "the begin of each"}


def held(requests: Table) -> Array:
    """Of rows of requests: whether they are connections, which hold many."""
    return with_text(requests, "kind", lambda kind: kind == CONNECTION)


def with_text(table: Table, name: str, wanted: Callable[[str], bool]) -> Array:
    """Of each row whether its text in a column is one that is wanted; none where there is no such column."""
    column = table.get(name)
    return np.zeros(len(table), np.bool_) if column is None else rows_with(column, wanted)


def _failed(table: Table) -> Array:
    status = np.nan_to_num(numbers(table, "status"))
    return np.asarray((status >= FAILED) | with_text(table, "failure", bool))


def _roots(table: Table, is_held: Array) -> tuple[Array, Array]:
    """Of each row the outermost that is no connection, and the connection that this lies within: -1 for none."""
    parent = np.nan_to_num(numbers(table, "parent"), nan=-1).astype(np.int64)
    own = np.arange(len(table))
    holds = (parent >= 0) & np.append(is_held, False)[parent]
    root = np.where((parent >= 0) & ~holds, parent, own)
    while not (root[root] == root).all():
        root = root[root]
    return root, np.where(holds, parent, -1)[root]


def _slowest(rows: Array, root: Array, length: Array, is_bad: Array) -> Array:
    """Of the slowest roots, and of the slowest that failed, as many as there is room for with all within them; of one that has more than a share of
    the room, the longest within it.
    """
    order = rows[np.lexsort((-length[rows], rows != root[rows], root[rows]))]
    first = np.flatnonzero(np.diff(root[order], prepend=-1))
    size = np.diff(np.append(first, len(order)))
    failed = np.logical_or.reduceat(is_bad[order], first)
    order = order[np.arange(len(order)) - np.repeat(first, size) < MOST_WITHIN]
    tops, size = np.unique(root[order], return_counts=True)
    by_length = np.argsort(-np.where(np.isinf(length[tops]), 0.0, length[tops]), kind="stable")
    bad = by_length[failed[by_length]]
    bad = bad[np.cumsum(size[bad]) <= MOST_SPANS // 4]
    others = by_length[~np.isin(by_length, bad)]
    others = others[np.cumsum(size[others]) <= MOST_SPANS - size[bad].sum()]
    return order[np.isin(root[order], tops[np.append(bad, others)])]


def _startup(made: Any) -> Chart | None:
    """The phases, and below each what took longest of what began in it."""
    hints = ("assemblies", "methods", "compile_ms", "collections", "pause_ms", "exceptions", "cpu_ms")
    phases = [_span(row, ("phase",), hints) for row in made.phases]
    longest = []
    for row in made.longest[:MOST_SPANS]:
        span = {**_span(row, ("kind", "name"), ()), "depth": 1}
        longest.append({**span, "method": len("method ")} if row["kind"] == "method" else span)
    # each lies behind the last phase that began before it did
    begins = np.array([one["start"] for one in phases])
    of = np.searchsorted(begins, [one["start"] for one in longest], "right") - 1
    places = [
        *((at, 0, 0.0) for at in range(len(phases))),
        *((at, 1, one["start"]) for at, one in zip(of.tolist(), longest, strict=True)),
    ]
    rows = [*phases, *longest]
    return _spans([rows[at] for at in sorted(range(len(rows)), key=places.__getitem__)])


def _span(row: Mapping[str, Any], labels: tuple[str, ...], hints: tuple[str, ...]) -> Chart:
    label = " ".join(str(row[name]) for name in labels if row.get(name) is not None)
    told = [f"{name.replace('_', ' ')}: {row[name]}" for name in hints if row.get(name) not in (None, "")]
    return {
        "label": text(label),
        "start": round(row["start_ms"] or 0.0, 3),
        "length": None if row["duration_ms"] is None else round(row["duration_ms"], 3),
        "depth": max(int(row.get("depth") or 0) - 1, 0),
        "hint": text(", ".join(told)),
        "bad": bool(row.get("failure")) or (row.get("status") or 0) >= FAILED,
    }


def _spans(rows: list[Chart]) -> Chart | None:
    return {"kind": "waterfall", "rows": rows} if rows else None


_BINS = 200
_WORSE = ("Warning", "Error", "Critical")


def _logs(made: Any, end_ms: float | None) -> Chart | None:
    """How many messages there were over time, and how many of them were warnings or worse."""
    ms = numbers(made.messages, "ms")
    if not len(ms):
        return None
    worse = with_text(made.messages, "level", lambda level: level in _WORSE)
    return _over_time({"messages": ms, "warnings and worse": ms[worse]}, end_ms)


def _over_time(times: Mapping[str, Array], end_ms: float | None) -> Chart | None:
    """How often something happened, in steps that are as wide as the time asks for: 1, 2, 5, 10, ... ms."""
    last = max((float(np.nanmax(ms)) for ms in times.values() if len(ms)), default=0.0)
    last = max(last, end_ms or 0.0)
    width = next(step * 10**power for power in range(20) for step in (1, 2, 5) if step * 10**power * _BINS > last)
    drawn = []
    for label, ms in times.items():
        place, counts = np.unique((ms[np.isfinite(ms)] // width).astype(np.int64), return_counts=True)
        unit = f"per {width / 1000:g} s" if width >= 1000 else f"per {width} ms"
        one = _series(label, unit, (place * width).astype(np.float64), counts.astype(np.float64))
        drawn.append(one and {**one, "width": width})
    return _time([], drawn)


def _advice(made: Any) -> Chart | None:
    return _items(made.findings, "severity", ("question", "text"), unit="%")


def _top(made: Any) -> Chart | None:
    """Of a profile, or of its report: the methods that took most themselves."""
    labels = ("method",) if hasattr(made, "tree") else ("name",)
    return _items(made.table(), "exclusive", labels, hints=("inclusive",), methods=True)


_CHARTS: Mapping[str, Callable[[Any], Chart | None]] = {
    "advice": _advice,
    "gc": _gc,
    "allocations": _allocations,
    "requests": _requests,
    "contention": _waits,
    "waits": _waits,
    "tasks": _tasks,
    "jit": _jit,
    "loader": _loader,
    "threads": _threads,
    "spans": _lengths,
    "startup": _startup,
    "topN": _top,
}
_OVER_TIME: Mapping[str, Callable[[Any, float | None], Chart | None]] = {
    "exceptions": _exceptions,
    "threadpool": _thread_pool,
    "logs": _logs,
}
