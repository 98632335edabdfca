"""The chart of each kind of report, which answers at a glance: what a page draws, as values of JSON.

``{"kind": "time", "areas": [series], "bars": [series], "end": ms}``, a series being ``{"label", "unit", "ms": [...], "values": [...]}``;
``"step": true`` where a value holds until the next one comes, ``"width"`` where one is of so many ms; ``"shades": [{"label", "start", "length",
"hint"}]`` are times that stand out. Without ``end`` it spans what there is.
``{"kind": "treemap"|"bars", "unit": …, "items": [{"label", "value", "hint"}]}``, ``"methods": true`` where labels are names of methods, and
``"others": true`` in the item that stands for all beyond these.
``{"kind": "waterfall", "rows": [{"label", "start", "length", "depth", "hint", "bad"}]}``, in ms; a length may be null, and
``"wait"`` is how much of it went by until there was a connection.
``"method"`` is where the name of a method begins in a label. With ``"since"`` starts are those since it, not since that of the recording. With
``"end"`` (ms) bars are cut there, and ``"note"`` says what part is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dotnetdiag.analysis.distinct import rows_with
from dotnetdiag.analysis.log_entries import WORSE
from dotnetdiag.analysis.profile import Array
from dotnetdiag.analysis.request_spans import DEEPEST
from dotnetdiag.analysis.slow_requests import answers
from dotnetdiag.export.texts import plain
from dotnetdiag.table import Table
from dotnetdiag.table.parts import parts, rows_at
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.scratch import MappedArrays

Chart = dict[str, Any]

MOST_POINTS = 4000
"""Of a series over time: more than a screen has pixels. What is beyond is left out where another within the same time is greater; of one that goes
up and down, where it is neither the greatest nor the least."""
MOST_ITEMS = 60
MOST_SPANS = 400
MOST_WITHIN = 100
"""Spans of one request that are drawn, those of the one that answered it among them."""
MOST_FAILED = MOST_SPANS // 4
"""Spans that are drawn of requests that failed, however slow others are."""
MOST_HEAPS = 2
"""Of several processes those with the largest are drawn: areas have two colours."""
MOST_BEHIND = 3
"""Of a start the last phase, which lasts as long as was looked at, is drawn for so many times the length of all before it: of 5 s these were a few
pixels."""
QUEUED_TOGETHER = 1 << 16
"""Pieces of work whose waiting is counted at a time."""
CONNECTION = "connection"
FAILED = 500
"""Of a status: from here on it is the fault of who answers."""
LONGEST_LABEL = 400
DRAWN_WAIT_MS = 1.0
"""Of a wait for a connection: it is drawn from there on."""


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


def _series(label: str, unit: str, ms: Array, values: Array, *, is_saw: bool = False) -> Chart | None:
    rows = _thinned(ms, values, is_saw=is_saw)
    if not len(rows):
        return None
    return {"label": label, "unit": unit, "ms": _rounded(ms[rows]), "values": _rounded(values[rows])}


def _thinned(ms: Array, values: Array, *, is_saw: bool = False) -> Array:
    """The rows that are drawn, in the order of time: of many the greatest of some that follow each other, of a saw the least of them too."""
    rows = np.flatnonzero(np.isfinite(ms) & np.isfinite(values))
    rows = rows[np.argsort(ms[rows], kind="stable")]
    if len(rows) > MOST_POINTS:
        signs = (-1, 1) if is_saw else (-1,)
        place = np.arange(len(rows)) * (MOST_POINTS // len(signs)) // len(rows)
        orders = [np.lexsort((sign * values[rows], place)) for sign in signs]
        rows = rows[np.unique([order[np.flatnonzero(np.diff(place[order], prepend=-1))] for order in orders])]
    return rows


def _series_of(label: str, unit: str, table: Table, time: str, value: str) -> Chart | None:
    """A column over that of a time. Of a million rows those of a part that are drawn are thinned once more together."""
    found = []
    for part in parts(table, [time, value]):
        ms, values = _floats(part[time]), _floats(part[value])
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
        items.append({"label": f"{count - len(rows):,} others", "value": rest, "hint": "", "others": True})
    return made


def text(value: str) -> str:
    """A text as a chart has it: a label, not a book."""
    return plain(value if len(value) <= LONGEST_LABEL else f"{value[:LONGEST_LABEL]}…")


def _gc(made: Any) -> Chart | None:
    table = made.collections
    return _time(_heaps(table), [_series_of("pause", "ms", table, "pause_start_ms", "pause_ms")])


def _heaps(table: Table) -> list[Chart | None]:
    """How large the heap was over time, a saw: at the begin of each collection what was there before it, at its end what it left. One in the
    background ends behind younger ones that began after it: all points are in the order of time. Of several processes each has its own.
    """
    names = [one for one in ("pid", "start_ms", "duration_ms", "before_bytes", "after_bytes") if one in table]
    found: dict[int, list[tuple[Array, Array]]] = {}
    for columns in parts(table, names):
        part = Table(columns)
        begin, length = numbers(part, "start_ms"), numbers(part, "duration_ms")
        ms = np.column_stack([begin, begin + length])
        values = np.column_stack([numbers(part, "before_bytes"), numbers(part, "after_bytes")])
        pid = np.nan_to_num(numbers(part, "pid"))
        for one in distinct(pid).tolist():
            own_ms, own = ms[pid == one].reshape(-1), values[pid == one].reshape(-1)
            rows = _thinned(own_ms, own, is_saw=True)
            if len(rows):
                found.setdefault(int(one), []).append((own_ms[rows], own[rows]))
    largest = sorted(found, key=lambda one: -max(float(own.max()) for _, own in found[one]))[:MOST_HEAPS]
    return [
        _series(
            "heap" if len(found) == 1 else f"heap of process {one}",
            "bytes",
            *(np.concatenate(both) for both in zip(*found[one], strict=True)),
            is_saw=True,
        )
        for one in largest
    ]


def _lengths(made: Any) -> Chart | None:
    """How long each took, over time."""
    return _time([], [_series_of("duration", "ms", made.rows, "start_ms", "duration_ms")])


def _allocations(made: Any) -> Chart | None:
    return _items(made.by_type, "bytes", ("type",), kind="treemap", hints=("count", "percent"))


def _exceptions(made: Any, end_ms: float | None) -> Chart | None:
    return _over_time(made.thrown, "start_ms", {"exceptions": None}, end_ms)


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
    """How much work waited, as it was queued and begun; what was not begun waits until the end. Of millions of pieces some at a time: with all at
    once the page of 1.5 million took 350 MB.
    """
    told = [(_floats(part["queued_ms"]), _floats(part["queue_ms"])) for part in parts(work, ("queued_ms", "queue_ms"))]
    queued, begun = (_finite([ms for ms, _ in told]), _finite([ms + took for ms, took in told]))
    found, waited = list[tuple[Array, Array]](), 0
    for first, last in pairwise([-np.inf, *queued[QUEUED_TOGETHER::QUEUED_TOGETHER].tolist(), np.inf]):
        comes, goes = (ms[slice(*np.searchsorted(ms, (first, last)))] for ms in (queued, begun))
        ms, which = np.unique(np.concatenate([comes, goes]), return_inverse=True)
        change = np.repeat([1.0, -1.0], [len(comes), len(goes)])
        waiting = waited + np.cumsum(np.bincount(which.reshape(-1), change, minlength=len(ms)))
        rows = _thinned(ms, waiting)
        if len(ms) and rows[-1] < len(ms) - 1:  # how many are left
            rows = np.append(rows, len(ms) - 1)
        found.append((ms[rows], waiting[rows]))
        waited += len(comes) - len(goes)
    ms, waiting = (np.concatenate(both) for both in zip(*found, strict=True))
    return _steps("waiting in the queue", "pieces of work", ms, waiting, end_ms)


def _finite(parts: Sequence[Array]) -> Array:
    made: Array = np.concatenate(parts)
    made = made[np.isfinite(made)]
    made.sort()
    return made


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
    """The slowest, and the slowest that failed, each from its own begin, with what was within it, and within the one request of the same process that
    answered it, which is no bar of its own then. A connection holds requests and is none: it is told under the pointer.
    """
    table = made.requests
    tops = _tops(table)
    if not len(tops):
        return None
    places, groups, seeds = _within(table, tops, answers(table, tops.tolist()))
    rows = Table(rows_at(table, places)).to_pylist()
    row_of = {place: at for at, place in enumerate(places.tolist())}
    start = np.array([row["start_ms"] or 0.0 for row in rows])
    order = np.lexsort((start, places != tops[groups], groups))
    told = ("failure", "exception", "status", "queue_ms", "cpu_ms", "gc_ms", "lock_ms", "allocated_bytes")
    connections: dict[int | None, str] = {None: ""}
    drawn = []
    for at in order.tolist():
        span, seed = _span(rows[at], ("kind", "name"), told), rows[row_of[int(seeds[at])]]
        if seed["parent"] not in connections:
            above = table[int(seed["parent"])]
            connections[seed["parent"]] = f"connection: {above['name']}" if above["kind"] == CONNECTION else ""
        hints = (f"at {span['start']:,.3f} ms", span["hint"], connections[seed["parent"]])
        is_answer = bool(seeds[at] != tops[groups[at]])
        depth = int(rows[at].get("depth") or 1) - int(seed.get("depth") or 1) + is_answer
        since = round(max(float(start[at] - start[row_of[int(tops[groups[at]])]]), 0.0), 3)
        hint = text(", ".join(one for one in hints if one))
        made_of = {**span, "start": since, "depth": max(depth, 0), "hint": hint}
        wait = rows[at].get("queue_ms") or 0.0
        drawn.append({**made_of, "wait": round(wait, 3)} if wait >= DRAWN_WAIT_MS else made_of)
    return {"kind": "waterfall", "rows": drawn, "since": "the begin of each"}


def held(requests: Table) -> Array:
    """Of rows of requests: whether they are connections, which hold many."""
    return with_text(requests, "kind", lambda kind: kind == CONNECTION)


def with_text(table: Table, name: str, wanted: Callable[[str], bool]) -> Array:
    """Of each row whether its text in a column is one that is wanted; none where there is no such column."""
    column = table.get(name)
    return np.zeros(len(table), np.bool_) if column is None else rows_with(column, wanted)


def _failed(table: Table) -> Array:
    """Of each row whether it failed itself."""
    status = np.nan_to_num(numbers(table, "status"))
    return np.asarray((status >= FAILED) | with_text(table, "failure", bool))


def _some(table: Table, *names: str) -> Iterator[tuple[int, Table]]:
    """Those of some columns that there are, of rows that follow each other, and where each part begins: there may be a million."""
    first = 0
    for part in parts(table, [name for name in names if name in table]):
        made = Table(part)
        yield first, made
        first += len(made)


def _spread(
    part: Table, first: int, of: Array, is_held: Array, *, before: Array | int = 0, last: Array | int = 0
) -> Array:
    """Give each row of a part, which begins at ``first``, its number in ``of``: that ``before`` all, else that of what it is within, else the
    ``last``; none to those that are held. What a row is within stands before it; 0 is for nothing, as the last of ``of`` is.
    """
    parent = np.nan_to_num(numbers(part, "parent"), nan=-1).astype(np.int64)
    here = slice(first, first + len(part))
    for _ in range(DEEPEST + 1):
        above = of[parent]
        made = np.where(is_held, 0, np.where(before, before, np.where(above, above, last)))
        if np.array_equal(of[here], made):
            break
        of[here] = made
    return made


def _tops(table: Table) -> Array:
    """The rows of the slowest requests that are within nothing but a connection, and of the slowest that failed, or within which something did; the
    longest first. They are as many as could be drawn if nothing was within them.
    """
    room = MappedArrays(len(table) + 1, each=5)
    top, failed = room.zeros("i4"), room.zeros("i1")
    for first, part in _some(table, "parent", "kind", "status", "failure"):
        is_held, own = held(part), np.arange(first + 1, first + len(part) + 1)
        of = _spread(part, first, top, is_held, last=own)
        failed[of[_failed(part) & ~is_held] - 1] = 1
        room.release()
    best, worst = (np.zeros(0, np.int64), np.zeros(0)), (np.zeros(0, np.int64), np.zeros(0))
    for first, part in _some(table, "duration_ms"):
        here = slice(first, first + len(part))
        is_top = top[here] == np.arange(first + 1, first + len(part) + 1)
        length = np.nan_to_num(numbers(part, "duration_ms"))
        best = _longest(*best, first + np.flatnonzero(is_top), length[is_top], MOST_SPANS)
        is_top &= failed[here] > 0
        worst = _longest(*worst, first + np.flatnonzero(is_top), length[is_top], MOST_FAILED)
        room.release()
    places, which = np.unique(np.append(best[0], worst[0]), return_index=True)
    return places[np.argsort(-np.append(best[1], worst[1])[which], kind="stable")]


def _longest(rows: Array, length: Array, more: Array, lengths: Array, most: int) -> tuple[Array, Array]:
    """Of rows, and of more of them, the longest, and how long they are."""
    rows, length = np.append(rows, more), np.append(length, lengths)
    order = np.argsort(-length, kind="stable")[:most]
    return rows[order], length[order]


def _within(table: Table, tops: Array, answers: Mapping[int, int]) -> tuple[Array, Array, Array]:
    """What is drawn: rows, ascending; of each the number of the one of ``tops`` that it is drawn below, and the row that it is within, which is that
    one or what answered it. Of the slowest, and of those that failed, as many as there is room for with all within them; of one that has more than a
    share of the room, the longest within it.
    """
    number = {at: number for number, at in enumerate(tops.tolist())}
    of = number | {answer: number[at] for at, answer in answers.items()}  # what answered is no bar of its own
    seeds = np.array(sorted(of), np.int64)
    group_of = np.array([of[seed] for seed in seeds.tolist()], np.int64)
    room = MappedArrays(len(table) + 1, each=4)
    behind, failed = room.zeros("i4"), np.zeros(len(tops), np.bool_)
    rows, which, length = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    for first, part in _some(table, "parent", "kind", "duration_ms", "status", "failure"):
        is_held, seed = held(part), np.zeros(len(part), np.int64)
        since, to = np.searchsorted(seeds, [first, first + len(part)])
        seed[seeds[since:to] - first] = np.arange(since, to) + 1
        inside = _spread(part, first, behind, is_held, before=seed)
        room.release()
        failed[group_of[inside[(inside > 0) & _failed(part)] - 1]] = True
        own = np.flatnonzero(inside)
        rows, which = np.append(rows, first + own), np.append(which, inside[own] - 1)
        length = np.append(length, np.nan_to_num(numbers(part, "duration_ms")[own], nan=np.inf))
        kept = _share(group_of[which], seeds[which] != rows, length)
        rows, which, length = rows[kept], which[kept], length[kept]
    group = group_of[which]
    numbers_of, size = np.unique(group, return_counts=True)  # the longest first, as they are numbered
    bad = np.flatnonzero(failed[numbers_of])
    bad = bad[np.cumsum(size[bad]) <= MOST_FAILED]
    others = np.setdiff1d(np.arange(len(numbers_of)), bad)
    others = others[np.cumsum(size[others]) <= MOST_SPANS - size[bad].sum()]
    drawn = np.isin(group, numbers_of[np.append(bad, others)])
    return rows[drawn], group[drawn], seeds[which[drawn]]


def _share(group: Array, is_inner: Array, length: Array) -> Array:
    """The places of those of each group that have room, ascending: first what is not ``is_inner``, then the longest."""
    order = np.lexsort((-length, is_inner, group))
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    size = np.diff(np.append(first, len(order)))
    kept: Array = np.sort(order[np.arange(len(order)) - np.repeat(first, size) < MOST_WITHIN])
    return kept


def _startup(made: Any) -> Chart | None:
    """The phases, and below each what took longest of what began in it; of the last its begin, where it is long."""
    hints = ("assemblies", "methods", "compile_ms", "collections", "pause_ms", "exceptions", "cpu_ms")
    phases = [_span(row, ("phase",), hints) for row in made.phases]
    part = _begin_of_start(phases)
    longest = []
    for row in made.longest[:MOST_SPANS]:
        if row["start_ms"] >= part.get("end", np.inf):
            continue
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
    drawn = _spans([rows[at] for at in sorted(range(len(rows)), key=places.__getitem__)])
    return {**drawn, **part} if drawn else None


def _begin_of_start(phases: Sequence[Chart]) -> Chart:
    """Up to where a start is drawn, with what says so; nothing where that is all of it."""
    if len(phases) < 2:
        return {}
    first, last = phases[0], phases[-1]
    begin, whole = first["start"], last["start"] + last["length"] - first["start"]
    length = (1 + MOST_BEHIND) * (last["start"] - begin)
    if not 0 < length < whole:
        return {}
    note = f"drawn are the first {length:,.0f} ms of the {whole:,.0f} that were looked at; what began later is in the tables"
    return {"end": round(begin + length, 3), "note": note}


def _span(row: Mapping[str, Any], labels: tuple[str, ...], hints: tuple[str, ...]) -> Chart:
    label = " ".join(str(row[name]) for name in labels if row.get(name) not in (None, ""))
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


def _logs(made: Any, end_ms: float | None) -> Chart | None:
    """How many messages there were over time, and how many of them were warnings or worse."""
    return _over_time(made.messages, "ms", {"messages": None, "warnings and worse": WORSE}, end_ms)


def _over_time(
    table: Table, name: str, drawn: Mapping[str, Sequence[str] | None], end_ms: float | None
) -> Chart | None:
    """How often something happened, of which ``name`` tells when, in steps that are as wide as the time asks for: 1, 2, 5, 10, ... ms. ``drawn``: all
    of it, or what is of some levels.
    """
    if not len(table):
        return None
    last = max(float(np.nanmax(numbers(part, name), initial=0.0)) for _, part in _some(table, name))
    last = max(last, end_ms or 0.0)
    width = next(step * 10**power for power in range(20) for step in (1, 2, 5) if step * 10**power * _BINS > last)
    sums = {label: Counter[int]() for label in drawn}
    for _, part in _some(table, name, "level"):
        ms = numbers(part, name)
        for label, levels in drawn.items():
            own = ms if levels is None else ms[with_text(part, "level", levels.__contains__)]
            place, count = np.unique((own[np.isfinite(own)] // width).astype(np.int64), return_counts=True)
            sums[label].update(dict(zip(place.tolist(), count.tolist(), strict=True)))
    unit = f"per {width / 1000:g} s" if width >= 1000 else f"per {width} ms"
    series = []
    for label, found in sums.items():
        places = sorted(found)
        drawn_ms = np.array(places, np.float64) * width
        one = _series(label, unit, drawn_ms, np.array([found[at] for at in places], np.float64))
        series.append(one and {**one, "width": width})
    return _time([], series)


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
