"""Pairs of events that begin and end something: a collection, a request, a compilation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.answers import number
from dotnetdiag.analysis.pairs import combined_codes, nested
from dotnetdiag.errors import UnknownName, UsageError, near
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded, concat, nulls
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.events import passing
from dotnetdiag.trace.lost_between import LostBetween
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace
from dotnetdiag.trace.where import Where

Array: TypeAlias = "np.ndarray[Any, Any]"

ACTIVITY, THREAD = "activity", "tid"
CROSSING = (
    "ends came on other threads than begins: of those above some may have the end of another "
    "(record with System.Threading.Tasks.TplEventSource:0x80:4 too, for ids of activities)"
)


def spans(
    trace: Trace, start: str, stop: str, *, by: str | Sequence[str] | None = None, where: str | None = None
) -> Table:
    """What begins with an event ``start`` and ends with an event ``stop``, by the time of the start.

    ``by`` names the columns that both have and that say which belong together; the start that came last and is still open is the one
    that ends. What happened in one tick is in the order of the thread; of several threads, the starts are before the stops. None: the
    ids of activities if all of both have one, else a field that numbers both (``Count`` of ``GC/Start``), else the thread, with a note where
    both begins and ends are left over. Always within a process.

    ``where`` is a filter of the starts, as ``trace.events`` takes it: which belong together is found out of all, and those that pass are told.

    Columns: ``start_ms``, ``stop_ms``, ``duration_ms`` (None where the recording has no stop), ``pid``, ``tid``, ``stop_tid``, the fields
    of the start, and those of the stop, as ``stop_Name`` (``payload.Name`` where a column of ours is called so). Stops without a start
    are counted in the notes; one of a thread that has lost events since the start is none. Raises UnknownName for events or columns that are not
    there, UsageError where an event is both, GrammarError for a filter that does not parse.
    """
    first, last = trace[start], trace[stop]
    if first.schemas.keys() & last.schemas.keys():
        raise UsageError(f"an event begins and ends there: {start} to {stop}")
    keys = _chosen(first, last) if by is None else [by] if isinstance(by, str) else list(by)
    if not keys or not all(isinstance(key, str) for key in keys):
        raise UsageError("spans by no column: name one")
    codes = _codes(first, last, [*keys, "pid"])
    opened, closed = _paired(first, last, codes)
    begin, end = first.numpy("ms"), np.append(last.numpy("ms"), 0.0)
    if (by is not None or keys == [THREAD]) and (lost := LostBetween(trace.raw)):
        # an end may be that of another that the thread began; numbers and activities that were found to be of one each tell
        pid, tid = (first.numpy(name)[opened] for name in ("pid", "tid"))
        is_own = tid == np.append(last.numpy("tid"), 0)[closed]
        is_lost = is_own & lost.of(pid, tid, begin[opened], end[closed])
        closed = np.where((closed < len(last)) & is_lost, len(last), closed)
    loose = len(last) - np.count_nonzero(closed < len(last))
    if where is not None:
        is_meant = _passing(trace, start, first, where)[opened]
        opened, closed = opened[is_meant], closed[is_meant]
    ended = closed < len(last)
    columns: dict[str, Column] = {
        "start_ms": Scalar(begin[opened], None, Kind.F8),
        "stop_ms": Scalar(end[closed], ended, Kind.F8),
        "duration_ms": number(np.where(ended, end[closed] - begin[opened], 0.0), ended),
        "pid": first["pid"].take(opened),
        "tid": first["tid"].take(opened),
        "stop_tid": _or_none(last["tid"], closed),
    }
    for table, prefix in ((first, ""), (last, "stop_")):
        for field in table.fields:
            name, column = prefix + field, _named(table, field)
            shown = f"payload.{field}" if f"payload.{field}" in table.columns else field
            if not (prefix and shown in keys):
                name = f"{prefix}payload.{field}" if name in columns else name
                columns[name] = column.take(opened) if table is first else _or_none(column, closed)
    open_still = len(opened) - int(ended.sum())
    notes = [f"by {', '.join(keys)}"]
    notes += [f"where {where}"] if where is not None else []
    notes += [f"{open_still:,} without {stop}"] if open_still else []
    notes += [f"{loose:,} {stop} without {start}"] if loose else []
    notes += [CROSSING] if by is None and keys == [THREAD] and open_still and loose else []
    return Table(
        columns,
        title=f"{start} to {stop}",
        units={"start_ms": "ms", "stop_ms": "ms", "duration_ms": "ms"},
        notes=notes,
        losses=trace.raw.losses,
    )


def _passing(trace: Trace, start: str, first: EventTable, where: str) -> Array:
    """Which of the starts pass a filter."""
    trace.events(start, where=where)  # which says what is wrong with a name in it
    return passing(first, Where(where))


def _chosen(first: EventTable, last: EventTable) -> list[str]:
    if len(first) and len(last) and first.headers.activity.all() and last.headers.activity.all():
        return [ACTIVITY]
    for name in first.fields:
        if name in last.fields and _numbers(first, last, name):
            return [name]
    return [THREAD]


def _numbers(first: EventTable, last: EventTable, name: str) -> bool:
    """Whether each event of both has another value there, and most of the fewer have one that the others have too."""
    numbers: list[Any] = []
    for table in (first, last):
        column = table[f"payload.{name}"]
        if not isinstance(column, Scalar) or column.values.dtype.kind not in "iu" or column.valid is not None:
            return False
        pairs = np.empty(len(column), [("number", np.int64), ("pid", np.uint64)])
        pairs["number"], pairs["pid"] = column.values.astype(np.int64), table.numpy("pid")
        numbers.append(pairs)
        if len(distinct(pairs)) < len(column):
            return False
    ours, theirs = numbers
    return 2 * len(np.intersect1d(ours, theirs, assume_unique=True)) > min(len(ours), len(theirs))


def _codes(first: EventTable, last: EventTable, names: Sequence[str]) -> Array:
    """A number for each combination of values, of the events of both tables, one behind the other."""
    codes = np.zeros(len(first) + len(last), np.int64)
    for name in names:
        columns = []
        for table in (first, last):
            column = table.get(name)
            if column is None:
                raise UnknownName("column", name, near(name, table.columns), where=f"of {table.title}")
            columns.append(column)
        parts = [_plain(column) for column in columns]
        values = (
            np.concatenate(parts) if parts[0].dtype.kind != "O" and parts[1].dtype.kind != "O" else _objects(columns)
        )
        codes = combined_codes(codes, values)
    return codes


def _plain(column: Column) -> Array:
    if isinstance(column, Scalar) and column.values.dtype.kind in "iub" and column.valid is None:
        return column.values.astype(np.int64)
    return np.empty(len(column), object)


def _objects(columns: Sequence[Column]) -> Array:
    """A number for each text, id, and what is missing: what prints alike has the same."""
    known: dict[str | None, int] = {}
    values = (None if value is None else str(value) for column in columns for value in column.to_pylist())
    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)


def _paired(first: EventTable, last: EventTable, codes: Array) -> tuple[Array, Array]:
    """The rows of the starts, and of each the row of its stop (the number of stops where there is none)."""
    time, thread, place = (
        np.concatenate([getattr(table.headers, name) for table in (first, last)])
        for name in ("time", "thread", "payload_offset")
    )
    is_stop = np.arange(len(time)) >= len(first)
    crossing = np.bincount(codes, thread != thread[np.unique(codes, return_index=True)[1]][codes])[codes] > 0
    stop_of = nested(codes, np.lexsort((place, is_stop & crossing, time, codes)), len(first))
    opened = np.argsort(first.headers.time, kind="stable")
    closed = stop_of[opened]
    return opened, np.where(closed >= 0, closed, len(last))


def _named(table: EventTable, field: str) -> Column:
    """The field's column, with names for what the runtime numbers."""
    column, enumeration = table[f"payload.{field}"], table.enumeration(field)
    return Coded.naming(column, enumeration.text) if enumeration and isinstance(column, Scalar) else column


def _or_none(column: Column, rows: Array) -> Column:
    """The values of some rows; none where the row is the number of rows."""
    return concat([column, nulls(column, 1)]).take(rows)
