"""Pairs of events that begin and end something: a collection, a request, a compilation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.answers import number
from dotnetdiag.analysis.span_keys import THREAD, Choice, Keys
from dotnetdiag.analysis.span_pairs import Pairs, Side, windows_of
from dotnetdiag.errors import UsageError
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded, concat, nulls
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.table.sliced import SlicedTable
from dotnetdiag.trace.events import passing
from dotnetdiag.trace.lost_between import LostBetween
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace
from dotnetdiag.trace.where import Where

Array: TypeAlias = "np.ndarray[Any, Any]"

CROSSING = (
    "ends came on other threads than begins: of those above some may have the end of another "
    "(record with System.Threading.Tasks.TplEventSource:0x80:4 too, for ids of activities)"
)
WINDOW_ROWS = 1 << 15
MANY = 1 << 16
"""So many have their columns made when somebody asks."""
_UNITS = {"start_ms": "ms", "stop_ms": "ms", "duration_ms": "ms"}
_OF_IDS = frozenset({"activity", "related"})


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
    raw = trace.raw
    first, last = Side.of(raw, start), Side.of(raw, stop)
    if first.schemas.keys() & last.schemas.keys():
        raise UsageError(f"an event begins and ends there: {start} to {stop}")
    begins, ends = first.nothing(), last.nothing()
    names = [] if by is None else [by] if isinstance(by, str) else list(by)
    if by is not None and (not names or not all(isinstance(name, str) for name in names)):
        raise UsageError("spans by no column: name one")
    if where is not None:
        trace.events(start, where=where)  # which says what is wrong with a name in it
    if by is None:
        choice = Choice(begins, ends)
        for window in windows_of(raw, (first, last), WINDOW_ROWS, activities=True):
            choice.feed([first.among(window), last.among(window)])
        names = [choice.name()]
    # an end may be that of another that the thread began; numbers and activities that were found to be of one each tell
    lost = (LostBetween(raw) or None) if by is not None or names == [THREAD] else None
    meant = None if where is None else Where(where)
    pairs = Pairs(
        first,
        last,
        Keys(begins, ends, names),
        lost=lost,
        is_meant=None if meant is None else lambda table: passing(table, meant),
    )
    for window in windows_of(
        raw, (first, last), WINDOW_ROWS, activities=meant is not None or not _OF_IDS.isdisjoint(names)
    ):
        pairs.feed(window)
    pairs.end()
    open_still = len(pairs.started) - pairs.ended
    notes = [f"by {', '.join(names)}"]
    notes += [f"where {where}"] if where is not None else []
    notes += [f"{open_still:,} without {stop}"] if open_still else []
    notes += [f"{pairs.loose:,} {stop} without {start}"] if pairs.loose else []
    notes += [CROSSING] if by is None and names == [THREAD] and open_still and pairs.loose else []
    return _Columns(first, last, pairs, names).table(f"{start} to {stop}", notes)


class _Columns:
    """Makes columns of spans."""

    def __init__(self, first: Side, last: Side, pairs: Pairs, keys: Sequence[str]) -> None:
        self._sides, self._started, self._stopped = (first, last), pairs.started, pairs.stopped
        # of a damaged file, or behind a sequence point, what comes later may be older
        self._order = None if pairs.is_in_order else np.argsort(pairs.started.values["time"], kind="stable")
        self._fields: dict[str, tuple[int, str]] = {}
        own = ("start_ms", "stop_ms", "duration_ms", "pid", "tid", "stop_tid")
        for place, (side, prefix) in enumerate(zip(self._sides, ("", "stop_"), strict=True)):
            table = side.nothing()
            for field in table.fields:
                shown = f"payload.{field}" if f"payload.{field}" in table.columns else field
                if not (prefix and shown in keys):
                    name = prefix + field
                    taken = name in own or name in self._fields
                    self._fields[f"{prefix}payload.{field}" if taken else name] = place, field
        self.names = (*own, *self._fields)

    def __reduce__(self) -> tuple[Any, ...]:
        """All of them go elsewhere: what they are made of is a file that is open here."""
        return _Given, (self(self.names, 0, len(self._started)),)

    def table(self, title: str, notes: Sequence[str]) -> Table:
        """All of them."""
        count, losses = len(self._started), self._sides[0].raw.losses
        if count <= MANY:
            made = dict(self(self.names, 0, count))
            return Table(made, title=title, units=_UNITS, notes=notes, losses=losses)
        return SlicedTable(
            self.names, count, self, gathered=self.gathered, title=title, units=_UNITS, notes=notes, losses=losses
        )

    def __call__(self, names: Sequence[str], first: int, last: int) -> Mapping[str, Column]:
        """Of rows that follow each other."""
        return self._of(names, slice(first, last) if self._order is None else self._order[first:last])

    def gathered(self, names: Sequence[str], rows: Sequence[int]) -> Mapping[str, Column]:
        """Of rows anywhere."""
        places = np.array(rows, np.int64)
        return self._of(names, places if self._order is None else self._order[places])

    def _of(self, names: Sequence[str], rows: Any) -> Mapping[str, Column]:
        begun, ended = self._started.values[rows].copy(), self._stopped.values[rows].copy()
        is_there = ended["is_there"] > 0
        tables = self._sides[0].rows(begun), self._sides[1].rows(ended[is_there])
        at = np.where(is_there, np.cumsum(is_there) - 1, len(tables[1]))
        made = {name: self._made(name, tables, at, is_there) for name in names}
        self._started.release()
        self._stopped.release()
        self._sides[0].raw.source.let_go()
        return made

    def _made(self, name: str, tables: tuple[EventTable, EventTable], at: Array, is_there: Array) -> Column:
        first, last = tables
        if name in ("pid", "tid"):
            return first[name]
        if name == "stop_tid":
            return _or_none(last["tid"], at)
        if name in self._fields:
            place, field = self._fields[name]
            column = _named(tables[place], field)
            return _or_none(column, at) if place else column
        begin, end = first.numpy("ms"), np.append(last.numpy("ms"), 0.0)[at]
        if name == "start_ms":
            return Scalar(begin, None, Kind.F8)
        if name == "stop_ms":
            return Scalar(end, is_there, Kind.F8)
        return number(np.where(is_there, end - begin, 0.0), is_there)


class _Given:
    """Columns that came from elsewhere."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    def __call__(self, names: Sequence[str], first: int, last: int) -> Mapping[str, Column]:
        """Of rows that follow each other."""
        return self.gathered(names, range(first, last))

    def gathered(self, names: Sequence[str], rows: Sequence[int]) -> Mapping[str, Column]:
        """Of rows anywhere."""
        return {name: self._columns[name].take(np.array(rows, np.int64)) for name in names}


def _named(table: EventTable, field: str) -> Column:
    """The field's column, with names for what the runtime numbers."""
    column, enumeration = table[f"payload.{field}"], table.enumeration(field)
    return Coded.naming(column, enumeration.text) if enumeration and isinstance(column, Scalar) else column


def _or_none(column: Column, rows: Array) -> Column:
    """The values of some rows; none where the row is the number of rows."""
    return concat([column, nulls(column, 1)]).take(rows)
