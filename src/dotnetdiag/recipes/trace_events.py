"""Events of a trace file: written as lines of JSON and CSV, as rows for people, and as a table for every other format."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import IO, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UnknownName, near
from dotnetdiag.events import Column, Struct
from dotnetdiag.export.csv_table import row_writer
from dotnetdiag.table import Losses, Table
from dotnetdiag.table.texts import cell_texts, is_number
from dotnetdiag.trace.events import Events
from dotnetdiag.trace.fields import fields_named
from dotnetdiag.trace.header import ALL, KEYS, PAYLOAD, key_meant
from dotnetdiag.trace.json_lines import JsonLines
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

_FRAME_BYTES = 64
"""The text of a frame, as a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsOptions:
    """Which events, and what of them. Empty and None: all. Times in seconds since the start, half-open.

    What the runtime numbers (``GC/Start.Reason``) is said by name, in lines of JSON by number; ``value_names`` says which.
    """

    providers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    where: str | None = None
    fields: tuple[str, ...] = ()
    limit: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    stacks: bool = False
    value_names: bool | None = None


def select(trace: Trace, options: EventsOptions) -> Events:
    """The events of the options. Raises UnknownName and GrammarError before anything is read out."""
    return trace.events(
        providers=options.providers or None,
        names=options.names or None,
        time=None if options.start_s is None and options.end_s is None else (options.start_s, options.end_s),
        fields=options.fields or None,
        where=options.where,
        limit=options.limit,
    )


def write_jsonl(trace: Trace, options: EventsOptions, file: IO[bytes]) -> int:
    """One line of JSON per event (see ``trace.json_lines``); ``fields`` limits the payload. Returns the lines."""
    events = select(trace, options)
    fields = None if events.fields is None else frozenset(source.name.lower() for source in events.joined)
    maker = JsonLines(trace.raw, fields=fields, frames=options.stacks, names=bool(options.value_names))
    count = 0
    for piece in _pieces(events, frames=options.stacks):
        count += len(piece)
        file.write(maker.text(piece))
    return count


def write_csv(trace: Trace, options: EventsOptions, file: IO[bytes]) -> int:
    """CSV with a header line: the fields asked for in their order, else every key and field. Returns the rows.

    What has no value is empty; bytes are ``hex:…``; lists and structures are JSON.
    """
    events = select(trace, options)
    names = column_names(events, [*KEYS])
    text = io.StringIO()
    writer = row_writer(text)
    writer.writerow(names)
    count = 0
    for rows in text_rows(events, names, options):
        writer.writerows(rows)
        count += len(rows)
        file.write(text.getvalue().encode("utf-8", "backslashreplace"))
        text.seek(0)
        text.truncate()
    file.write(text.getvalue().encode())
    return count


class SelectedEvents:
    """The events of a selection as a table that is read window by window: the columns asked for in their order, else those of the header,
    then the payload's. A field whose kinds cannot be joined is a column for each of them.
    """

    units: ClassVar[Mapping[str, str]] = {"ms": "ms"}
    notes: ClassVar[Sequence[str]] = ()

    def __init__(self, trace: Trace, options: EventsOptions) -> None:
        self._trace, self._events, self._options = trace, select(trace, options), options
        self._cells = {name: _Cell(self._events, name) for name in self._events.fields or ()}
        self._none = self._shown(self._events.nothing())
        self.title, self.columns = "events", self._none.columns

    @property
    def losses(self) -> Losses:
        """What the recording lacks."""
        return self._trace.raw.losses

    def __len__(self) -> int:
        return sum(map(len, self._events.windows()))

    def __getitem__(self, name: str) -> Column:
        """A column without rows: its kind."""
        return self._none[name]

    def pieces(self) -> Iterator[Table]:
        """One without events first: there are columns also where nothing else is."""
        yield self._none
        frames = any(cell.key == "frames" for cell in self._cells.values())
        for piece in _pieces(self._events, len(self._events.joined), frames=frames):
            yield self._shown(piece)

    def _shown(self, window: EventTable) -> Table:
        piece = _in_form(window, self._options)
        if not self._cells:
            return piece
        columns: dict[str, Column] = {}
        for name, cell in self._cells.items():
            columns |= cell.columns(name, piece)
        return Table(columns, units={name: unit for name, unit in self.units.items() if name in columns})


def _in_form(piece: EventTable, options: EventsOptions) -> EventTable:
    """With names of values, or numbers."""
    return piece.with_numbers() if options.value_names is False else piece


def _pieces(events: Events, columns: int = 0, *, frames: bool = False) -> Iterator[EventTable]:
    """The windows of a selection, cut where all of one at once would take too much memory; with ``frames`` of its stacks."""
    for window in events.windows():
        extra: npt.NDArray[np.int64] | int = 0
        if frames:
            stacks, which = np.unique(window.headers.stack, return_inverse=True)
            known = events.trace.stacks
            depths = [len(known.frames(stack)) if stack else 0 for stack in stacks.tolist()]
            extra = np.array(depths, np.int64)[which] * _FRAME_BYTES
        yield from window.pieces(columns=columns, extra=extra)


def column_names(events: Events, usual: Sequence[str]) -> list[str]:
    """Names of the columns to show: those asked for as they were asked, else ``usual`` and every field."""
    if events.fields is not None:
        return list(events.fields)
    keys = {key.lower() for key in ALL}
    return [*usual, *(PAYLOAD + field.name if field.name.lower() in keys else field.name for field in events.joined)]


def text_rows(events: Events, names: Sequence[str], options: EventsOptions) -> Iterator[list[tuple[str, ...]]]:
    """Windows of rows as texts, a text per name."""
    cells = [_Cell(events, name) for name in names]
    for piece in _pieces(events, len(names), frames=any(cell.key == "frames" for cell in cells)):
        window = _in_form(piece, options)
        headers = {cell.key: _header_texts(window, cell.key) for cell in cells if cell.key is not None}
        rows: list[tuple[str, ...]] = [()] * len(window)
        for number in window.schemas:
            at = window.rows_of(number).tolist()
            own = window.own_columns(number)
            parts: list[Iterable[str]] = []
            for cell in cells:
                if cell.key is not None:
                    source = headers[cell.key]
                    parts.append([source[row] for row in at])
                else:
                    column = cell.column(number, own)
                    parts.append(repeat("") if column is None else cell_texts(column))
            for row, *texts in zip(at, *parts, strict=False):
                rows[row] = tuple(texts)
        yield rows


def right_aligned(events: Events, names: Sequence[str]) -> list[bool]:
    """Which columns are numbers."""
    kinds = events.nothing()
    found = (kinds.get(name) for name in names)
    return [column is not None and is_number(column) for column in found]


class _Cell:
    """What a name means: a key of the header, a payload field in all its kinds, or a member of one. A column that nobody has asked for by
    name is the header's or the one field that is called so.
    """

    def __init__(self, events: Events, name: str) -> None:
        bare = name[len(PAYLOAD) :] if name.lower().startswith(PAYLOAD) else name
        self._members = list[str]()
        if events.fields is None:
            self._sources = [one for one in events.joined if one.name == bare]
            self.key = key_meant(name, is_field=False)
        else:
            self._sources = fields_named(events.joined, bare)
            exact = any(source.name == bare for source in self._sources)
            self.key = key_meant(name if exact else name.lower(), is_field=bool(self._sources))
        if self.key is not None or self._sources:
            return
        whole, _, member = bare.partition(".")
        self._sources, self._members = fields_named(events.joined, whole), member.split(".")
        if not self._sources:
            raise UnknownName("field", name, near(bare, [one.name for one in events.joined]), where="in these events")

    def columns(self, name: str, window: EventTable) -> dict[str, Column]:
        """The columns of a window, of all its types: the first is called as was asked."""
        if self.key is not None:
            return {name: window.header_column(self.key)}
        found: dict[str, Column] = {}
        for source in self._sources:
            column = window.get(PAYLOAD + ".".join([source.name, *self._members]))
            if column is not None:
                found[source.name if found else name] = column
        return found

    def column(self, number: int, own: Mapping[str, Column]) -> Column | None:
        """The column of one type, None where it has none."""
        fields = [source.by_type[number] for source in self._sources if number in source.by_type]
        column = own.get(fields[0]) if fields else None
        for member in self._members:
            column = column.fields.get(member) if isinstance(column, Struct) else None
        return column


def _header_texts(window: EventTable, key: str) -> list[str]:
    if key == "keywords":
        numbers: list[Any] = window.header_column(key).to_pylist()
        return [f"0x{number:x}" for number in numbers]
    return cell_texts(window.header_column("utc" if key == "time" else key))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvent:
    """One event for a line on a screen."""

    ms: float
    tid: int
    provider: str
    event: str
    payload: tuple[tuple[str, str], ...]


def iter_shown(events: Events, options: EventsOptions) -> Iterator[ShownEvent]:
    """Events with their payload as texts."""
    for piece in _pieces(events):
        window = _in_form(piece, options)
        texts: dict[int, tuple[list[str], list[list[str]]]] = {}
        place_of: dict[int, int] = {}
        for number in window.schemas:
            columns = window.own_columns(number)
            texts[number] = (list(columns), [cell_texts(one) for one in columns.values()])
            place_of[number] = 0
        ms: list[Any] = window.header_column("ms").to_pylist()
        tid: list[Any] = window.header_column("tid").to_pylist()
        for row, number in enumerate(window.headers.metadata_id.tolist()):
            schema, place = window.schemas[number], place_of[number]
            place_of[number] += 1
            names, values = texts[number]
            payload = tuple((name, value[place]) for name, value in zip(names, values, strict=True))
            yield ShownEvent(ms=ms[row], tid=tid[row], provider=schema.provider, event=schema.name, payload=payload)
