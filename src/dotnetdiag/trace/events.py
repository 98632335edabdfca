"""Events of several types in time order, selected by provider, name, time and what is in them.

Read in windows: memory stays bounded, whatever the size of the file. What is not selected is not decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dotnetdiag.errors import UnknownName, UsageError, near
from dotnetdiag.events import Column
from dotnetdiag.events.catalogue import ValueMap
from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.trace import header
from dotnetdiag.trace.event import Event
from dotnetdiag.trace.fields import FieldSource, fields_named, join_fields
from dotnetdiag.trace.header import PAYLOAD
from dotnetdiag.trace.source import wanted_of
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.where import Named, Where

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Recording


KEPT_ROWS = 1 << 18
"""Header columns of so many events (55 bytes each) are kept when their number was asked for."""


class Events:
    """A selection, made by ``Trace.events``. Iterate it for :class:`Event` rows, or take :meth:`windows` of columns.

    ``fields`` are the payload fields asked for (None: all). Reading a time after the end of the trace raises UsageError.
    """

    def __init__(
        self,
        trace: Recording,
        metadata_ids: Sequence[int],
        *,
        ticks: tuple[int, int] | None = None,
        where: Where | None = None,
        fields: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> None:
        self.trace = trace
        self.metadata_ids = tuple(metadata_ids)
        fields = (fields,) if isinstance(fields, str) else fields
        self.fields = None if fields is None else tuple(fields)
        self.limit = limit
        self._ticks, self._where = ticks, where
        self._join: tuple[FieldSource, ...] | None = None
        self._found: list[HeaderColumns] | None = None
        if where is not None:
            names = [name for name in where.names if not self._is_value(name, where)]
            for name in names:
                self._check_value(name, where.compared.get(name, ()))
            self._check_names(names)
            for name, texts in where.texts.items():
                self._check_texts(name, texts)
        if fields is not None:
            self._check_names(fields)
            wanted = {source.name for name in fields for source in self._fields_named(_bare(name))}
            self._join = tuple(source for source in self.joined if source.name in wanted)

    def _check_names(self, names: Iterable[str]) -> None:
        """Every name means something in one of the selected types."""
        for name in names:
            bare = _bare(name)
            if header.key_meant(name.lower(), is_field=False) is not None:
                continue
            if not self._fields_named(bare):
                known = [source.name for source in self.joined]
                raise UnknownName("field", name, near(bare, [*known, *header.ALL]), where="in these events")

    def _is_value(self, name: str, where: Where) -> bool:
        """Whether it is no field, and the name of a value of one that it is compared with."""
        if self._fields_named(_bare(name)):
            return False
        known = (self._enumerations(other) for other in where.compared.get(name, ()))
        return any(one.number(name) is not None for found in known for one in found)

    def _check_value(self, name: str, others: Iterable[str]) -> None:
        """What is no name of anything may be meant as a value of what it is compared with."""
        if header.key_meant(name.lower(), is_field=False) is not None or self._fields_named(_bare(name)):
            return
        fields = [source.name for source in self.joined]
        for other in others:
            enumerations = self._enumerations(other)
            if enumerations and (_near_values(name, enumerations) or not near(_bare(name), [*fields, *header.ALL])):
                raise _unknown_value(name, enumerations, other)

    def _check_texts(self, name: str, texts: Iterable[str]) -> None:
        """A text in quotes is a value's name where all values have some."""
        enumerations = self._enumerations(name)
        sources = self._fields_named(_bare(name)) if enumerations else ()
        if not enumerations or any(
            number not in source.enumerations for source in sources for number in source.by_type
        ):
            return
        for text in texts:
            if all(one.number(text) is None for one in enumerations):
                raise _unknown_value(text, enumerations, name)

    def _enumerations(self, name: str) -> list[ValueMap]:
        """The names of a field's values."""
        if header.key_meant(name.lower(), is_field=bool(self._fields_named(_bare(name)))) is not None:
            return []
        return [one for source in self._fields_named(_bare(name)) for one in source.enumerations.values()]

    def _fields_named(self, bare: str) -> list[FieldSource]:
        """Those of a field, or of the structure that has it."""
        return fields_named(self.joined, bare) or fields_named(self.joined, bare.partition(".")[0])

    @property
    def joined(self) -> tuple[FieldSource, ...]:
        """The payload columns of all selected types together, by name."""
        if self._join is None:
            counts = self.trace.source.counts()
            self._join = join_fields({n: self.trace.schema(n) for n in self.metadata_ids if n in counts})
        return self._join

    def windows(self) -> Iterator[EventTable]:
        """The selected events in tables that follow each other in time; their columns are the same in all."""
        for headers in self._selected() if self._found is None else self._found:
            schemas = {number: self.trace.schema(number) for number in np.unique(headers.metadata_id).tolist()}
            yield EventTable(self.trace, schemas, headers, fields=self._join, limited=self.fields is not None)

    def _selected(self) -> Iterator[HeaderColumns]:
        left, is_empty = self.limit, True
        limit = self.limit if self._where is None else None
        whole = len(self.metadata_ids) == len(self.trace.type_ids)
        wanted = None if whole else wanted_of(self.metadata_ids)
        for headers in self.trace.source.windows(wanted, self._ticks, limit=limit):
            is_empty = False
            if self._where is not None:
                schemas = {number: self.trace.schema(number) for number in np.unique(headers.metadata_id).tolist()}
                headers = headers[passing(EventTable(self.trace, schemas, headers, fields=()), self._where)]
            if left is not None:
                headers = headers[:left]
                left -= len(headers)
            if len(headers):
                yield headers
            if left is not None and left <= 0:
                return
        if is_empty and self._ticks is not None:
            self.trace.require_within(self._ticks)

    def nothing(self) -> EventTable:
        """A table of all columns that windows have, without rows."""
        return EventTable(
            self.trace, {}, HeaderColumns.allocate(0), fields=self.joined, limited=self.fields is not None
        )

    def table(self) -> EventTable:
        """All of it as one table, with the columns of the types that occur in it."""
        headers = HeaderColumns.concatenate([window.headers for window in self.windows()])
        schemas = {number: self.trace.schema(number) for number in np.unique(headers.metadata_id).tolist()}
        fields = None if self.fields is None else self.joined
        return EventTable(self.trace, schemas, headers, fields=fields, limited=fields is not None)

    def __iter__(self) -> Iterator[Event]:
        for window in self.windows():
            yield from window

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray[tuple[int], np.dtype[Any]]:
        """UsageError that says what to write: pandas.DataFrame(events) would have a column of objects."""
        raise UsageError("events are not an array: write events.table().to_pandas() for a data frame")

    def __len__(self) -> int:
        if self._where is None and self._ticks is None:
            counts = self.trace.source.counts()
            total = sum(counts.get(number, (0, 0))[0] for number in self.metadata_ids)
            return total if self.limit is None else min(total, self.limit)
        return self._count()

    def _count(self) -> int:
        """``list`` asks for the length, and then for the events: what was found is kept for that, when it is not too much."""
        if self._found is not None:
            return sum(map(len, self._found))
        found: list[HeaderColumns] | None = []
        total = 0
        for headers in self._selected():
            total += len(headers)
            if found is not None:
                found.append(headers)
            if total > KEPT_ROWS:
                found = None
        self._found = found
        return total

    def __repr__(self) -> str:
        parts = [f"{len(self.metadata_ids)} event types of {self.trace!r}"]
        if self._where is not None:
            parts.append(f"where {self._where.text}")
        return f"<Events: {', '.join(parts)}>"


def _near_values(name: str, enumerations: Iterable[ValueMap]) -> tuple[str, ...]:
    return near(name, list(dict.fromkeys(word for one in enumerations for word in one.values.values())))


def _unknown_value(name: str, enumerations: Sequence[ValueMap], field: str) -> UnknownName:
    """The error that lists near values, or all."""
    every = tuple(dict.fromkeys(word for one in enumerations for word in one.values.values()))
    return UnknownName("value", name, _near_values(name, enumerations) or every, where=f"of {_bare(field)}")


def passing(window: EventTable, where: Where) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows pass a filter. Evaluated type by type: a name means the type's own field."""
    made = np.zeros(len(window), np.bool_)
    for number, schema in window.schemas.items():
        rows = window.rows_of(number)
        own = EventTable(window.trace, {number: schema}, window.headers[rows], names=False)
        names = {name.lower(): name for name in own.fields}

        def column(name: str, own: EventTable = own, names: dict[str, str] = names) -> Column | Named | None:
            bare = _bare(name)
            field = bare if bare in own.fields else names.get(bare.lower())
            key = header.key_meant(name if bare in own.fields else name.lower(), is_field=field is not None)
            if key is not None:
                return own.header_column(key)
            if field is not None:
                found, enumeration = own[PAYLOAD + field], own.enumeration(field)
                return found if enumeration is None else Named(found, enumeration)
            whole, _, member = bare.partition(".")
            whole = whole if whole in own.fields else names.get(whole.lower(), "")
            return own.get(f"{PAYLOAD}{whole}.{member}") if whole else None

        made[rows] = where.mask(column, len(rows))
    return made


def _bare(name: str) -> str:
    return name[len(PAYLOAD) :] if name.lower().startswith(PAYLOAD) else name
