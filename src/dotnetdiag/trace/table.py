"""The events of one name as a table: header columns and payload columns, one row per event, in time order.

An event may occur in several versions, and a name in several providers: their fields are joined by name, in the order
of the newest version; what a version has not is null, and structures have the members of all. The columns ``provider``,
``event`` and ``version`` tell which a row is of. Where one field has types that cannot be joined, the later one is named
``Field (provider/event vN)``.

What the runtime numbers (``GC/Start.Reason``) has its names; :meth:`EventTable.with_numbers` has the numbers.

Nothing is decoded before it is asked for: a column costs its own bytes only.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from dotnetdiag.events import Column, EventSchema, Scalar, Struct, decode
from dotnetdiag.events import Table as Payloads
from dotnetdiag.events.catalogue import ValueMap
from dotnetdiag.events.columns import Enumerated, concat, nulls, numbers_of
from dotnetdiag.events.kernels import grouped
from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace import header
from dotnetdiag.trace.event import Event
from dotnetdiag.trace.fields import FieldSource, cast, join_fields
from dotnetdiag.trace.header import PAYLOAD
from dotnetdiag.trace.header_columns import header_column

if TYPE_CHECKING:
    import pandas

    from dotnetdiag.table.to_pandas import Objects
    from dotnetdiag.trace.context import Context

Array: TypeAlias = "np.ndarray[Any, Any]"

CHUNK_ROWS = 4096
PIECE_BYTES = 32 << 20
"""Of a table that becomes texts or objects at once, as :meth:`EventTable.pieces` counts: ten times as much in memory at most.
A window of usual events has less.
"""
_ROW_BYTES, _VALUE_BYTES = 64, 16
_NO_NAMES: frozenset[str] = frozenset()
_NO_ROWS = np.zeros(0, np.int64)


class EventTable(Table):
    """Events of some types in time order. ``table["Count"]`` is a column, iteration gives :class:`Event` rows.

    ``headers`` are the raw header columns; ``schemas`` the types by metadata id.
    """

    _MADE_ANEW = frozenset({"time", "ms", "pid", "id", "version", "level", "opcode", "keywords"})

    def __init__(
        self,
        trace: Context,
        schemas: Mapping[int, EventSchema],
        headers: HeaderColumns,
        *,
        fields: tuple[FieldSource, ...] | None = None,
        limited: bool = False,
        names: bool = True,
    ) -> None:
        self._limited, self._names = limited, names
        self.trace = trace
        self.schemas = schemas
        self.headers = headers
        self._fields = {field.name: field for field in (join_fields(schemas) if fields is None else fields)}
        self._places: dict[int, Array] = {}
        self._grouped: dict[int, Array] | None = None
        self._decoded: dict[int, Payloads] = {}
        self._ahead: dict[int, tuple[frozenset[str], Payloads]] = {}
        self._cache: dict[str, Column] = {}

    # shape --------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.headers)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns: those of the header, then the payload's."""
        return (*header.COLUMNS, *(self._shown(name) for name in self._fields))

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the payload's columns."""
        return tuple(self._fields)

    @staticmethod
    def _shown(name: str) -> str:
        return PAYLOAD + name if name in header.COLUMNS else name

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._fields or header.key_of(name) is not None)

    @property
    def title(self) -> str:
        """The event types."""
        return ", ".join(dict.fromkeys(f"{s.provider}/{s.name} v{s.version}" for s in self.schemas.values()))

    @property
    def units(self) -> Mapping[str, str]:
        """Of the header's columns; those of a payload are not told."""
        return {"ms": "ms", "bytes": "bytes"}

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing: events are what they are."""
        return ()

    @property
    def losses(self) -> Losses:
        """What the recording lacks, by all that was read so far."""
        return self.trace.losses

    # columns ------------------------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, name: str) -> Column: ...
        @overload
        def __getitem__(self, name: int) -> Event: ...
        @overload
        def __getitem__(self, name: builtins.slice[Any, Any, Any]) -> EventTable: ...

        def __getitem__(self, name: str | int | builtins.slice[Any, Any, Any]) -> Any:
            """One column: a header column, a payload field, or another key of the header, whichever is first. With a number one row, with a
            slice a table of some.

            ``payload.x`` is the field's always, ``header.x`` the header's, ``a.b`` a member of a structure.
            """

    def _some(self, rows: builtins.slice[Any, Any, Any]) -> EventTable:
        picked = np.arange(len(self))[rows] if rows.step not in (None, 1) else rows
        return self._with(self.headers[picked])

    def _given(self, name: str) -> None:
        """Nothing: all columns are arrays."""

    def enumeration(self, name: str) -> ValueMap | None:
        """The names that the runtime gives to a payload field's values, where all events of the table have the same; otherwise None."""
        source = self._fields.get(name)
        if source is None or not source.enumerations:
            return None
        found = [source.enumerations.get(number) for number in source.by_type if number in self.schemas]
        return found[0] if found and all(one == found[0] for one in found) else None

    def enumerations_of(self, number: int) -> Mapping[str, ValueMap]:
        """The names of values by field, of one type."""
        sources = (source for source in self._fields.values() if number in source.enumerations)
        return {source.by_type[number]: source.enumerations[number] for source in sources}

    def _named(self, source: FieldSource, column: Column) -> Column:
        """The column with the names of its values, where they have some."""
        if not self._names or not source.enumerations or not isinstance(column, Scalar):
            return column
        names = source.names
        if len(names) == 1:
            return Enumerated(column, names)
        ids, of_row = np.unique(self.headers.metadata_id, return_inverse=True)
        which = [
            names.index(source.enumerations.get(number)) if number in source.by_type else 0 for number in ids.tolist()
        ]
        return Enumerated(column, names, np.array(which, np.int64)[of_row])

    def with_numbers(self) -> EventTable:
        """The same rows, with numbers where the runtime has names for them."""
        return self._with(self.headers, names=False)

    def _found(self, name: str) -> Column | None:
        if name in self._cache:
            return self._cache[name]
        key = header.key_meant(name, is_field=name in self._fields)
        found = self.header_column(key) if key is not None else self._payload_column(name.removeprefix(PAYLOAD))
        if found is not None:
            self._cache[name] = found
        return found

    def _payload_column(self, name: str) -> Column | None:
        source = self._fields.get(name)
        if source is not None:
            return self._named(source, self._join(source))
        whole, _, member = name.partition(".")
        source = self._fields.get(whole)
        if source is None or not member:
            return None
        column: Column | None = self._found(PAYLOAD + whole)
        for part in member.split("."):
            column = column.fields.get(part) if isinstance(column, Struct) else None
        return column

    def rows_of(self, number: int) -> Array:
        """Places of one type's events in the table."""
        if self._grouped is not None:
            return self._grouped.get(number, _NO_ROWS)
        if number not in self._places:
            self._places[number] = np.flatnonzero(self.headers.metadata_id == number)
        return self._places[number]

    def rows_of_types(self, numbers: Iterable[int]) -> Array:
        """Places of the events of some types, ascending. For who asks for one type after the other: all rows are looked at once."""
        if self._grouped is None:
            self._grouped = grouped(self.headers.metadata_id)
        found = [rows for rows in map(self._grouped.get, numbers) if rows is not None]
        return found[0] if len(found) == 1 else np.sort(np.concatenate([_NO_ROWS, *found]))

    def of_types(self, schemas: Mapping[int, EventSchema], fields: tuple[FieldSource, ...]) -> EventTable:
        """The events of some of the types, which have these fields."""
        rows = self.rows_of_types(schemas)
        own = self.headers if len(rows) == len(self) else self.headers.later(rows)
        return EventTable(self.trace, schemas, own, fields=fields)

    def part(self, number: int, fields: Sequence[str] | None = None) -> Payloads:
        """The decoded payloads of one type, in table order; all of them, or some top-level fields."""
        whole = self._decoded.get(number)
        if whole is not None:
            return whole
        names, some = self._ahead.get(number, (_NO_NAMES, None))
        if some is not None and fields is not None and names.issuperset(fields):
            return some
        schema = self.schemas[number]
        if schema.self_describing:
            fields = None
        made = decode(
            schema,
            self.trace.buffer,
            *self._spans_of(number),
            fields=fields,
            infer_layout=False,
        )
        if fields is None:
            self._decoded[number] = made
        return made

    def ahead(self, names: Iterable[str]) -> None:
        """Decode payload fields together, for who will ask for each: a call for each took three times as long. Names that there are none of are
        passed over.
        """
        sources = [source for source in map(self._fields.get, names) if source is not None]
        for number in self.schemas:
            own = dict.fromkeys(source.by_type[number] for source in sources if number in source.by_type)
            if len(own) > 1 and number not in self._decoded:
                self._ahead[number] = frozenset(own), self.part(number, tuple(own))

    def spans_part(self, number: int) -> Payloads:
        """The same of all fields, with texts that still lie in the payloads, where most of them may not be needed. It is not kept."""
        schema, (offsets, lengths) = self.schemas[number], self._spans_of(number)
        return decode(schema, self.trace.buffer, offsets, lengths, lazy_text=True, infer_layout=False)

    def _spans_of(self, number: int) -> tuple[Array, Array]:
        """Where the payloads of one type lie."""
        rows: Any = slice(None) if len(self.schemas) == 1 else self.rows_of(number)
        return self.headers.payload_offset[rows], self.headers.payload_length[rows]

    def load(self) -> None:
        """Decode everything at once: cheaper than column by column when all are wanted."""
        for number in self.schemas:
            self.part(number)

    def own_columns(self, number: int) -> Mapping[str, Column]:
        """The payload columns of one type alone, by its own names; only those of the table."""
        if not self._limited:
            columns = self.part(number).flat
        else:
            names = [source.by_type[number] for source in self._fields.values() if number in source.by_type]
            flat = self.part(number, names).flat
            columns = {name: flat[name] for name in names if name in flat}
        return with_names(columns, self.enumerations_of(number)) if self._names else columns

    def _join(self, source: FieldSource) -> Column:
        if len(self.schemas) == 1:
            (number,) = self.schemas
            return self._part_column(source, number)
        numbers = [number for number in source.by_type if number in self.schemas]
        parts: list[Column] = [self._part_column(source, number) for number in numbers]
        back = np.full(len(self), sum(map(len, parts)), np.int64)  # what no type has is the row behind all others
        if numbers:
            order = np.concatenate([self.rows_of(number) for number in numbers])
            back[order] = np.arange(len(order))
        return concat([*parts, nulls(source.like, 1)]).take(back) if len(back) else source.like

    def _part_column(self, source: FieldSource, number: int) -> Column:
        """One type's share of a joined column."""
        field = source.by_type.get(number)
        found = None if field is None else self.part(number, [field]).flat.get(field)
        if found is not None:
            return cast(found, source.like)
        return nulls(source.like, len(self) if len(self.schemas) == 1 else len(self.rows_of(number)))

    def header_column(self, key: str) -> Column:
        """A column of the header by its key."""
        return header_column(self.trace, self.schemas, self.headers, key)

    # rows ---------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Event]:
        for first in range(0, len(self), CHUNK_ROWS):
            for piece in self.slice(first, first + CHUNK_ROWS).pieces():
                yield from piece._events()

    def row(self, index: int) -> Event:
        """One row. IndexError for one that is not there."""
        index = self._place(index)
        (event,) = self.slice(index, index + 1)._events()
        return event

    def slice(self, first: int, last: int) -> EventTable:
        """Some rows as a table of their own."""
        return self._with(self.headers[first:last])

    def some(self, rows: Array) -> EventTable:
        """The events at some places, ascending, as a table of their own."""
        return self._with(self.headers.later(rows))

    def _with(self, headers: HeaderColumns, *, names: bool | None = None) -> EventTable:
        schemas = self.schemas
        if len(schemas) > len(headers):
            schemas = {number: schemas[number] for number in dict.fromkeys(headers.metadata_id.tolist())}
        return EventTable(
            self.trace,
            schemas,
            headers,
            fields=tuple(self._fields.values()),
            limited=self._limited,
            names=self._names if names is None else names,
        )

    def pieces(self, *, columns: int = 0, extra: Array | int = 0, size: int | None = None) -> Iterator[EventTable]:
        """The same rows in tables of ``size`` (None: ``PIECE_BYTES``) at most, or of one row: for what is made of many at once.

        Counted are the names and the number of the values of each row, the bytes of its payload (each may be a value), as
        many ``columns`` of every row besides, and ``extra`` bytes by row.
        """
        ids, which = np.unique(self.headers.metadata_id, return_inverse=True)
        costs = np.array([_text_costs(self.schemas[number]) for number in ids.tolist()], np.int64).reshape(-1, 2)[which]
        weights = costs[:, 0] + costs[:, 1] * self.headers.payload_length + _VALUE_BYTES * columns + extra
        ends = np.cumsum(weights)
        most = PIECE_BYTES if size is None else size
        if not len(ends) or ends[-1] <= most:
            yield self
            return
        first = 0
        while first < len(self):
            before = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
            yield self.slice(first, last)
            first = last

    def _events(self) -> list[Event]:
        """All rows as objects; each has the fields of its own type only."""
        header_values = [self.header_column(key).to_pylist() for key in Event.COLUMNS]
        if len(self.schemas) == 1:
            (number,) = self.schemas
            return self._events_of(number, header_values)
        made: list[Event | None] = [None] * len(self)
        for number in self.schemas:
            places = self.rows_of(number).tolist()
            for place, event in zip(
                places, self._events_of(number, [_picked(one, places) for one in header_values]), strict=True
            ):
                made[place] = event
        return [event for event in made if event is not None]

    def _events_of(self, number: int, header_values: list[list[Any]]) -> list[Event]:
        columns = self.own_columns(number)
        values = zip(*map(_event_values, columns.values()), strict=True) if columns else repeat(())
        return list(map(Event, repeat(self.schemas[number]), repeat(tuple(columns)), values, *header_values))

    def to_pandas(self, columns: Sequence[str] | None = None, *, names: bool = True) -> pandas.DataFrame:
        """A data frame, of all columns or some. What the runtime numbers (``GC/Start.Reason``) has its names, as categories, or numbers.

        A large table is decoded piece by piece: neither the texts nor the bytes of all events are there beside what becomes of them.
        MissingDependency without the extra ``pandas``.
        """
        from dotnetdiag.table.to_pandas import CHUNK_ROWS, Gathered, data_frame

        if len(self) <= CHUNK_ROWS:
            return super().to_pandas(columns, names=names)
        wanted = list(self.columns if columns is None else columns)
        fields = [name for name in wanted if name in self._fields or name.startswith(PAYLOAD)]
        fields = [name for name in fields if header.key_meant(name, is_field=True) is None]
        gathered = {name: Gathered(len(self)) for name in fields}
        for first in range(0, len(self), CHUNK_ROWS) if fields else ():
            piece = self.slice(first, first + CHUNK_ROWS)
            if columns is None:
                piece.load()
            for name, column in gathered.items():
                column.add(first, piece[name])
        made: dict[str, Column | Objects] = dict(
            self._chosen([one for one in wanted if one not in gathered], names=names)
        )
        for name, one in gathered.items():
            whole = one.column()
            source = self._fields.get(name.removeprefix(PAYLOAD))
            made[name] = self._named(source, whole) if names and source and isinstance(whole, Scalar) else whole
        return data_frame({name: made[name] for name in wanted}, self._MADE_ANEW | gathered.keys())

    def _chosen(self, wanted: Sequence[str] | None, *, names: bool) -> dict[str, Column]:
        if wanted is None and self._fields:
            self.load()
        made: dict[str, Column] = {}
        for name in self.columns if wanted is None else wanted:
            field = name.removeprefix(PAYLOAD)
            key = header.key_meant(name, is_field=field in self._fields)
            column = self.header_column(key) if key in self._MADE_ANEW else self[name]
            made[name] = column if names else numbers_of(column)
        return made


def with_names(columns: Mapping[str, Column], enumerations: Mapping[str, ValueMap]) -> Mapping[str, Column]:
    """The columns, with names for the values of those that have some."""
    return {
        name: Enumerated(column, [enumerations[name]])
        if name in enumerations and isinstance(column, Scalar)
        else column
        for name, column in columns.items()
    }


def _event_values(column: Column) -> list[Any]:
    return column.enum_values() if isinstance(column, Enumerated) else column.to_pylist()


def _picked(values: list[Any], places: list[int]) -> list[Any]:
    return [values[place] for place in places]


def _text_costs(schema: EventSchema) -> tuple[int, int]:
    """What a row as text takes at least: for its names and values, and for each byte of payload, which may be an element."""
    row, byte = _ROW_BYTES + len(schema.provider) + len(schema.name), _VALUE_BYTES
    waiting = [(field, False) for field in schema.fields]
    while waiting:
        field, inside = waiting.pop()
        layout, cost = field.layout, _VALUE_BYTES + len(field.name)
        row, byte = (row, byte + cost) if inside else (row + cost, byte)
        while layout.element is not None:
            layout, inside = layout.element, True
        waiting += [(member, inside) for member in layout.fields]
    return row, byte
