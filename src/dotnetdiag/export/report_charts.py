"""The chart of each kind of report, which answers at a glance: what a page draws, as values of JSON.

``{"kind": "time", "areas": [series], "bars": [series]}``, a series being ``{"label", "unit", "ms": [...], "values": [...]}``;
``"step": true`` where a value holds until the next one comes
``{"kind": "treemap"|"bars", "unit": …, "items": [{"label", "value", "hint"}]}``
``{"kind": "waterfall", "rows": [{"label", "start", "length", "depth", "hint", "bad"}]}``, in ms; a length may be null
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dotnetdiag.analysis.profile import Array
from dotnetdiag.export.texts import clean
from dotnetdiag.table import Table

Chart = dict[str, Any]

MOST_POINTS = 4000
"""Of a series over time: more than a screen has pixels. What is beyond is left out where another within the same time is greater."""
MOST_ITEMS = 60
MOST_SPANS = 400
LONGEST_LABEL = 400


def chart_of(kind: str, made: Any) -> Chart | None:
    """The chart of a report by the name of its kind; None where there is nothing to draw, or nothing is known of the kind."""
    draw = _CHARTS.get(kind)
    return None if draw is None else draw(made)


def _numbers(table: Table, name: str) -> Array:
    """A column as f64, NaN where it has no value."""
    column = table.get(name)
    if column is None:
        return np.full(len(table), np.nan)
    values: Array = column.numpy().astype(np.float64)
    return values if column.valid is None else np.where(column.valid, values, np.nan)


def _series(label: str, unit: str, ms: Array, values: Array) -> Chart | None:
    rows = np.flatnonzero(np.isfinite(ms) & np.isfinite(values))
    rows = rows[np.argsort(ms[rows], kind="stable")]
    if len(rows) > MOST_POINTS:
        place = np.arange(len(rows)) * MOST_POINTS // len(rows)
        order = np.lexsort((-values[rows], place))
        rows = rows[np.sort(order[np.flatnonzero(np.diff(place[order], prepend=-1))])]
    if not len(rows):
        return None
    return {"label": label, "unit": unit, "ms": _rounded(ms[rows]), "values": _rounded(values[rows])}


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
) -> Chart | None:
    """The rows with the greatest values, those beyond together."""
    values = np.nan_to_num(_numbers(table, value))
    rows = np.flatnonzero(values > 0)
    rows = rows[np.argsort(-values[rows], kind="stable")]
    items = []
    for at in rows[:MOST_ITEMS].tolist():
        row = table[at]
        label = " ".join(str(row[name]) for name in labels if row.get(name) not in (None, ""))
        hint = [f"{name.replace('_', ' ')}: {row[name]}" for name in hints if row.get(name) is not None]
        items.append({"label": text(label) or "(no name)", "value": float(values[at]), "hint": text(", ".join(hint))})
    if not items:
        return None
    made: Chart = {"kind": kind, "unit": unit or table.units.get(value, ""), "items": items, "value": value}
    rest = rows[MOST_ITEMS:]
    if len(rest):
        items.append({"label": f"{len(rest):,} others", "value": float(values[rest].sum()), "hint": ""})
    return made


def text(value: str) -> str:
    """A text as a chart has it: a label, not a book."""
    return clean(value if len(value) <= LONGEST_LABEL else f"{value[:LONGEST_LABEL]}…")


def _gc(made: Any) -> Chart | None:
    table = made.collections
    start, stop = _numbers(table, "start_ms"), _numbers(table, "start_ms") + _numbers(table, "duration_ms")
    pause = _numbers(table, "pause_ms")
    before = _series("heap before", "bytes", start, _numbers(table, "before_bytes"))
    after = _series("heap after", "bytes", stop, _numbers(table, "after_bytes"))
    return _time([before, after], [_series("pause", "ms", _numbers(table, "pause_start_ms"), pause)])


def _allocations(made: Any) -> Chart | None:
    return _items(made.by_type, "bytes", ("type",), kind="treemap", hints=("count", "percent"))


def _exceptions(made: Any) -> Chart | None:
    return _over_time({"exceptions": _numbers(made.thrown, "start_ms")})


def _waits(made: Any) -> Chart | None:
    return _items(made.by_method, "total_ms", ("method",), hints=("count", "max_ms"))


def _thread_pool(made: Any) -> Chart | None:
    active = _series("active threads", "threads", _numbers(made.threads, "ms"), _numbers(made.threads, "active"))
    wanted = made.adjustments
    aimed = _series("threads aimed at", "threads", _numbers(wanted, "ms"), _numbers(wanted, "threads"))
    late = made.work
    queued = _series("waited in the queue", "ms", _numbers(late, "queued_ms"), _numbers(late, "queue_ms"))
    return _time([{**one, "step": True} for one in (active, aimed) if one], [queued])


def _tasks(made: Any) -> Chart | None:
    return _items(made.by_method, "own_ms", ("method",), hints=("count", "total_ms", "max_ms"))


def _jit(made: Any) -> Chart | None:
    return _items(made.by_method, "compile_ms", ("method",), hints=("count", "il_bytes", "native_bytes"))


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
    """The slowest with all that is within them, in the order of their begins."""
    table = made.requests
    length = np.nan_to_num(_numbers(table, "duration_ms"))
    parent = np.nan_to_num(_numbers(table, "parent"), nan=-1).astype(np.int64)
    root = np.where(parent >= 0, parent, np.arange(len(table)))
    while not (root[root] == root).all():
        root = root[root]
    size = np.bincount(root, minlength=len(table))
    tops = np.flatnonzero(size)
    tops = tops[np.argsort(-length[tops], kind="stable")]
    wanted = np.zeros(len(table), np.bool_)
    wanted[tops[np.cumsum(size[tops]) <= MOST_SPANS]] = True
    rows = np.flatnonzero(wanted[root])
    if not len(rows):
        rows = np.sort(tops[:1])
    start = _numbers(table, "start_ms")
    rows = rows[np.lexsort((start[rows], root[rows], start[root[rows]]))]
    told = ("failure", "status", "queue_ms", "cpu_ms", "gc_ms", "lock_ms", "allocated_bytes")
    return _spans([_span(table[at], ("kind", "name"), told) for at in rows.tolist()])


def _startup(made: Any) -> Chart | None:
    hints = ("assemblies", "methods", "compile_ms", "collections", "pause_ms", "exceptions", "cpu_ms")
    rows = [_span(row, ("phase",), hints) for row in made.phases]
    longest = [{**_span(row, ("kind", "name"), ()), "depth": 1} for row in made.longest[:MOST_SPANS]]
    return _spans([*rows, *sorted(longest, key=lambda one: one["start"])])


def _span(row: Mapping[str, Any], labels: tuple[str, ...], hints: tuple[str, ...]) -> Chart:
    label = " ".join(str(row[name]) for name in labels if row.get(name) is not None)
    told = [f"{name.replace('_', ' ')}: {row[name]}" for name in hints if row.get(name) not in (None, "")]
    return {
        "label": text(label),
        "start": round(row["start_ms"] or 0.0, 3),
        "length": None if row["duration_ms"] is None else round(row["duration_ms"], 3),
        "depth": max(int(row.get("depth") or 0) - 1, 0),
        "hint": text(", ".join(told)),
        "bad": bool(row.get("failure")),
    }


def _spans(rows: list[Chart]) -> Chart | None:
    return {"kind": "waterfall", "rows": rows} if rows else None


_BINS = 200
_WORSE = ("Warning", "Error", "Critical")


def _logs(made: Any) -> Chart | None:
    """How many messages there were over time, and how many of them were warnings or worse."""
    ms = _numbers(made.messages, "ms")
    if not len(ms):
        return None
    worse = np.isin(np.array([str(one) for one in made.messages.values("level")]), _WORSE)
    return _over_time({"messages": ms, "warnings and worse": ms[worse]})


def _over_time(times: Mapping[str, Array]) -> Chart | None:
    """How often something happened, in steps that are as wide as the time asks for: 1, 2, 5, 10, ... ms."""
    last = max((float(np.nanmax(ms)) for ms in times.values() if len(ms)), default=0.0)
    width = next(step * 10**power for power in range(20) for step in (1, 2, 5) if step * 10**power * _BINS > last)
    drawn = []
    for label, ms in times.items():
        place, counts = np.unique((ms[np.isfinite(ms)] // width).astype(np.int64), return_counts=True)
        unit = f"per {width / 1000:g} s" if width >= 1000 else f"per {width} ms"
        drawn.append(_series(label, unit, (place * width).astype(np.float64), counts.astype(np.float64)))
    return _time([], drawn)


def _advice(made: Any) -> Chart | None:
    return _items(made.findings, "severity", ("question",), unit="%", hints=("text",))


def _top(made: Any) -> Chart | None:
    """Of a profile, or of its report: the methods that took most themselves."""
    return _items(made.table(), "exclusive", ("method",) if hasattr(made, "tree") else ("name",), hints=("inclusive",))


_CHARTS: Mapping[str, Callable[[Any], Chart | None]] = {
    "advice": _advice,
    "gc": _gc,
    "allocations": _allocations,
    "exceptions": _exceptions,
    "requests": _requests,
    "contention": _waits,
    "waits": _waits,
    "threadpool": _thread_pool,
    "tasks": _tasks,
    "jit": _jit,
    "loader": _loader,
    "threads": _threads,
    "logs": _logs,
    "startup": _startup,
    "topN": _top,
}
