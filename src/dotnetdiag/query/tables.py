"""What can be asked: events of a name, all events, reports. Each has columns, and rows window by window, per recording."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UnknownName, UsageError, near
from dotnetdiag.events import Column, EventSchema, Scalar, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.events.names import matches, spellings
from dotnetdiag.query.batches import FILE, arrow, distinct_names, schema_of
from dotnetdiag.query.reports import REPORTS, Report
from dotnetdiag.table import Table
from dotnetdiag.table.arrow import valid_text
from dotnetdiag.table.parts import part, parts
from dotnetdiag.trace import header
from dotnetdiag.trace.events import Events
from dotnetdiag.trace.fields import FieldSource
from dotnetdiag.trace.header import PAYLOAD
from dotnetdiag.trace.source import WINDOW_ROWS, wanted_of
from dotnetdiag.trace.table import EventTable

if TYPE_CHECKING:
    import pyarrow

    from dotnetdiag.query.recordings import Recording, Shelf
    from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

EVENTS = "events"
FRAMES = "frames"
ROW = "row"
"""Of a report whose rows are named elsewhere (``parent``, ``request_row``): the number of each in its recording, from 0."""
TIME = "time"
"""Of a report when each row began, in UTC."""
_SINCE_START = ("start_ms", "ms", "queued_ms")
"""Columns of reports that say when a row began, in ms since the start of the recording."""
_MOST_MS = 7e12
"""Beyond it 64 bits hold no time of ours."""
ALL_EVENTS = (
    "time", "ms", "pid", "tid", "provider", "event", "id", "version", "level", "opcode", "keywords", "activity", "related",
    "bytes", "stack_id", "leaf", FRAMES,
)  # fmt: skip
"""The columns of the table of all events."""
TABLES = "tables"
"""What there is to ask."""
_TAKEN = {EVENTS, TABLES, *REPORTS}
CALLED = re.compile(
    rf"called (?P<name>{'|'.join(name for name, one in REPORTS.items() if one.arguments)})(?P<texts>( (?:[0-9A-F]{{2}})*)+)",
    re.IGNORECASE,
)
"""The name of the table that a report's function gives: its texts in hexadecimal digits, for a name of any characters would be taken apart."""
CODED = frozenset({"provider", "event", "leaf"})
"""Of events: texts of which there are few different ones."""


class Window(Protocol):
    """Some rows, whose columns are made when they are asked for."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> Column:
        """One of the table's columns."""

    def take(self, rows: Array) -> Window:
        """Some of them, by number."""


class QueryTable(Protocol):
    """A table of each recording, by a ``name``. Its columns are without ``file``, which who reads it adds. ``coded`` are those that are texts, few
    different ones.
    """

    @property
    def name(self) -> str: ...
    @property
    def coded(self) -> frozenset[str]: ...

    def schema(self, trace: Trace) -> pyarrow.Schema | None:
        """The columns that a recording has; None where it has no such table."""

    def count(self, trace: Trace) -> int:
        """Rows, without reading them."""

    def windows(self, trace: Trace) -> Iterator[Window]:
        """The rows, of a recording that has the table."""

    def notes(self, trace: Trace) -> Sequence[str]:
        """What is to be said of the rows, of a recording that was read."""


class _EventWindow:
    """Events of some types, whose columns have the names that SQL takes."""

    def __init__(self, table: EventTable, fields: tuple[FieldSource, ...], keys: Mapping[str, str]) -> None:
        self._table, self.fields, self._keys = table, fields, keys

    @property
    def columns(self) -> list[str]:
        return list(self._keys)

    def filled(self, table: EventTable) -> _EventWindow:
        return _EventWindow(table, self.fields, self._keys)

    def __len__(self) -> int:
        return len(self._table)

    def column(self, name: str) -> Column:
        key = self._keys[name]
        return self._table[key] if key.startswith(PAYLOAD) else self._table.header_column(key)

    def take(self, rows: Array) -> _EventWindow:
        old = self._table
        return self.filled(EventTable(old.trace, old.schemas, old.headers[rows], fields=self.fields))


@dataclass(frozen=True, slots=True)
class NamedEvents:
    """The events that ``trace[name]`` has: columns of the header, fields of the payload, and ``frames``."""

    name: str

    @property
    def coded(self) -> frozenset[str]:
        """Names of types and methods."""
        return CODED

    def _numbers(self, trace: Trace) -> list[int]:
        types, asked = trace.raw.types, printable(self.name)
        return [
            number for number in trace.raw.type_ids if matches(asked, *map(printable, _names_in(types.name_of(number))))
        ]

    def _empty(self, trace: Trace, numbers: Sequence[int]) -> _EventWindow:
        events = Events(trace.raw, numbers)
        fields = events.joined
        names = [field.name for field in fields]
        keys = dict(zip(header.COLUMNS, header.COLUMNS, strict=True))
        taken = [FILE, *header.COLUMNS, FRAMES]
        keys |= zip(distinct_names(names, taken), (PAYLOAD + name for name in names), strict=True)
        return _EventWindow(events.nothing(), fields, keys | {FRAMES: FRAMES})

    def schema(self, trace: Trace) -> pyarrow.Schema | None:
        """As a recording declares them; None where it has no such event."""
        numbers = self._numbers(trace)
        if not numbers:
            return None
        window = self._empty(trace, numbers)
        return schema_of(window.columns, window.column)

    def count(self, trace: Trace) -> int:
        """Events, as the file counts them."""
        counts = trace.raw.source.counts()
        return sum(counts[number][0] for number in self._numbers(trace) if number in counts)

    def windows(self, trace: Trace) -> Iterator[Window]:
        """The events in time order."""
        numbers = self._numbers(trace)
        empty, schemas = self._empty(trace, numbers), {number: trace.raw.schema(number) for number in numbers}
        for headers in trace.raw.source.windows(wanted_of(numbers)):
            yield empty.filled(EventTable(trace.raw, schemas, headers, fields=empty.fields))

    def notes(self, trace: Trace) -> Sequence[str]:  # noqa: ARG002
        """None."""
        return ()


@dataclass(frozen=True, slots=True)
class AllEvents:
    """All events, without their payloads."""

    name: str = EVENTS

    @property
    def coded(self) -> frozenset[str]:
        """Names of types and methods."""
        return CODED

    def schema(self, trace: Trace) -> pyarrow.Schema | None:
        """The same for all."""
        return schema_of(ALL_EVENTS, Events(trace.raw, ()).nothing().header_column)

    def count(self, trace: Trace) -> int:
        """Events, as the file counts them."""
        return sum(events for events, _ in trace.raw.source.counts().values())

    def windows(self, trace: Trace) -> Iterator[Window]:
        """The events in time order."""
        keys = dict(zip(ALL_EVENTS, ALL_EVENTS, strict=True))
        for headers in trace.raw.source.windows():
            types = {number: trace.raw.types.name_of(number) for number in np.unique(headers.metadata_id).tolist()}
            yield _EventWindow(EventTable(trace.raw, types, headers, fields=()), (), keys)

    def notes(self, trace: Trace) -> Sequence[str]:  # noqa: ARG002
        """None."""
        return ()


Made: TypeAlias = "str | Callable[[Table, int, int], Column]"
"""A column of a table by its name, or what makes one of the rows from one to before another."""


def _row_numbers(_: Table, first: int, last: int) -> Column:
    return Scalar(np.arange(first, last), None, Kind.I8)


def _times(since: str, start_ns: int) -> Callable[[Table, int, int], Column]:
    """When rows began, in UTC, of a column that says so in ms since the start."""

    def made(table: Table, first: int, last: int) -> Column:
        column = part(table, since, first, last)
        ms = column.numpy().astype(np.float64)
        known = np.abs(ms) < _MOST_MS
        if column.valid is not None:
            known &= column.valid
        utc = start_ns + np.round(np.where(known, ms, 0.0) * 1e6).astype(np.int64)
        return Scalar(utc, None if known.all() else known, Kind.TIMESTAMP)

    return made


class _RowWindow:
    """The rows of a table from one to before another, or ``some`` of these. ``names`` are its columns by those of ours, or make them."""

    def __init__(
        self, table: Table, names: Mapping[str, Made], first: int, last: int, some: Array | None = None
    ) -> None:
        self._table, self._names, self._first, self._last, self._some = table, names, first, last, some

    def __len__(self) -> int:
        return self._last - self._first if self._some is None else len(self._some)

    def column(self, name: str) -> Column:
        own, bounds = self._names[name], (self._first, self._last)
        made = part(self._table, own, *bounds) if isinstance(own, str) else own(self._table, *bounds)
        return made if self._some is None else made.take(self._some)

    def take(self, rows: Array) -> _RowWindow:
        some = rows if self._some is None else self._some[rows]
        return _RowWindow(self._table, self._names, self._first, self._last, some)


class ReportRows:
    """The rows of a report, which is computed when its columns or rows are asked for, and kept for the recording that was asked last."""

    coded: frozenset[str] = frozenset()

    def __init__(self, report: Report, arguments: tuple[str, ...] = ()) -> None:
        self._report, self._arguments = report, arguments
        self.name = " ".join([report.name, *arguments])
        self._of: tuple[Trace, Table] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return ReportRows, (self._report, self._arguments)

    def _has(self, trace: Trace) -> bool:
        return all(name in trace for name in self._arguments)

    def _table(self, trace: Trace) -> Table:
        if self._of is None or self._of[0] is not trace:
            self._of = trace, self._report.of(trace, self._arguments)
        return self._of[1]

    def _names(self, trace: Trace, table: Table) -> dict[str, Made]:
        ours: dict[str, Made] = {ROW: _row_numbers} if self._report.numbered else {}
        since = next((name for name in _SINCE_START if name in table), None)
        start_ns = trace.raw.meaning.info.start_ns
        if since is not None and start_ns is not None and TIME not in table:
            ours[TIME] = _times(since, start_ns)
        names = zip(distinct_names(table.columns, [FILE, *ours]), table.columns, strict=True)
        return {**ours, **dict(names)}

    def schema(self, trace: Trace) -> pyarrow.Schema | None:
        """The report's columns, of no kind where no row has a value; None where the recording lacks events that are named."""
        pa = arrow()
        if not self._has(trace):
            return None
        table = self._table(trace)
        names = self._names(trace, table)
        found = schema_of(list(names), _RowWindow(table, names, 0, 0).column)
        nothing = {name for name, own in names.items() if isinstance(own, str) and _says_nothing(table, own)}
        return pa.schema([one.with_type(pa.null()) if one.name in nothing else one for one in found])

    def count(self, trace: Trace) -> int:
        """Rows."""
        return len(self._table(trace)) if self._has(trace) else 0

    def windows(self, trace: Trace) -> Iterator[Window]:
        """The rows in the report's order."""
        table = self._table(trace)
        names = self._names(trace, table)
        for first in range(0, len(table), WINDOW_ROWS):
            yield _RowWindow(table, names, first, min(first + WINDOW_ROWS, len(table)))

    def notes(self, trace: Trace) -> Sequence[str]:
        """Those of the report: what the recording lacks, and how the figures came to be."""
        return self._table(trace).notes


def _says_nothing(table: Table, name: str) -> bool:
    """Whether a column of texts has none."""
    return all(
        isinstance(column, Text) and column.valid is not None and not column.valid.any()
        for column in (some[name] for some in parts(table, [name]))
    )


def find_table(name: str, arguments: Sequence[str] = ()) -> QueryTable:
    """The table of a name, in any case: all events, a report, or else the events of a name, which a recording may have or not.

    Raises UsageError for a report that takes other arguments.
    """
    report = REPORTS.get(name.lower())
    if report is None:
        return AllEvents() if name.lower() == EVENTS else NamedEvents(name)
    if len(arguments) != len(report.arguments):
        raise UsageError(f"{report.name} is written {report.called}")
    return ReportRows(report, tuple(arguments))


Types: TypeAlias = "Mapping[tuple[str, str, str], int]"
"""How many events there are by provider, name and the manifest's name, as they can be printed."""


def printable(name: str) -> str:
    """A name as a query can have it: with ``?`` for what is no text (halves of pairs in UTF-16, NUL), as in names of columns."""
    return valid_text(name).replace("\0", "?")


def has_events(trace: Trace, name: str) -> bool:
    """Whether there are events of a name, which may be one as it can be printed."""
    return name in trace or ("?" in name and NamedEvents(name).schema(trace) is not None)


def _names_in(schema: EventSchema) -> tuple[str, str, str]:
    return schema.provider, schema.name, schema.manifest_name


def _types_of(trace: Trace) -> Types:
    types, found = trace.raw.types, Counter[tuple[str, str, str]]()
    for number, (events, _) in trace.raw.source.counts().items():
        provider, name, manifest_name = map(printable, _names_in(types.name_of(number)))
        found[provider, name, manifest_name] += events
    return found


def names_of(trace: Trace) -> dict[str, int]:
    """The events of a recording by the names that tables have for them, and how many rows a query has of each. Case does not count: names that
    differ in nothing else are one table, as the first of them is spelled. A name that another provider or another table has too is
    ``Provider/Name``; what is no text in it is ``?``.
    """
    return _names_of(_types_of(trace))


def _names_of(types: Types) -> dict[str, int]:
    meant: dict[str, set[tuple[str, str, str]]] = {}
    for one in types:
        for form in spellings(*one):
            meant.setdefault(form, set()).add(one)

    def asked(name: str) -> set[tuple[str, str, str]]:  # as a schema says whether it matches
        return meant.get(name.lower(), set()) | meant.get(name.strip().lower(), set())

    made: dict[str, int] = {}
    seen = set[str]()
    for provider, name, _ in types:
        own = f"{provider}/{name}"
        free = name if not is_taken(name) and asked(name) == asked(own) else own
        if free.lower() not in seen:
            seen.add(free.lower())
            made[free] = sum(types[one] for one in asked(free))
    return made


def is_taken(name: str) -> bool:
    """Whether a name is that of a table which every recording has."""
    return name.lower() in _TAKEN or CALLED.fullmatch(name) is not None


def contents(recordings: Sequence[Recording], shelf: Shelf) -> Table:
    """What there is to ask of recordings: ``name``, ``kind`` (``events``, ``event``, ``report``), ``rows`` (of events) and ``about``. ``rows`` are
    those of a query of the name, in all recordings together (see :func:`names_of`). ``.notes`` tell of recordings that were passed over.
    """
    types = Counter[tuple[str, str, str]]()
    for found in shelf.each(recordings, lambda _, trace: [_types_of(trace)]):
        types.update(found)
    counts = _names_of(types)
    rows: list[dict[str, Any]] = [
        {"name": EVENTS, "kind": "events", "rows": types.total(), "about": "all events, without their payloads"}
    ]
    rows += [{"name": name, "kind": "event", "rows": counts[name]} for name in sorted(counts)]
    rows += [{"name": one.called, "kind": "report", "about": one.about} for one in REPORTS.values()]
    return Table.of_rows(
        rows, columns=("name", "kind", "rows", "about"), title="what there is to ask", notes=shelf.unreadable.notes
    )


def unknown(name: str, known: Sequence[str]) -> UnknownName:
    """The error for a table that is not there, with those that are alike."""
    return UnknownName("table", name, near(name, [*REPORTS, EVENTS, *known]), where="in the recording")
