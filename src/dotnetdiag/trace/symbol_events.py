"""The events that say something of addresses (nettrace.md §11, §12), decoded: those of one role as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import repeat
from typing import Any, Protocol, TypeAlias

import numpy as np

from dotnetdiag import events
from dotnetdiag._dataclasses import dataclass
from dotnetdiag.events import Scalar, Table, Text
from dotnetdiag.events.well_known import UNIVERSAL_SYSTEM
from dotnetdiag.nettrace import HeaderColumns, Metadata, ThreadInfo, TraceInfo
from dotnetdiag.trace.bounds import ANY_PROCESS, process_ids
from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"

RUNTIME = "Microsoft-Windows-DotNETRuntime"
RUNDOWN = "Microsoft-Windows-DotNETRuntimeRundown"


class Role(Enum):
    """What an event says."""

    LOAD = 0
    UNLOAD = 1
    RUNDOWN = 2
    ENTRY_POINT = 3
    MODULE = 4
    MAPPING = 5
    SYMBOL = 6
    START = 7


METHOD_ROLES = (Role.LOAD, Role.UNLOAD, Role.RUNDOWN)

# nettrace.md §11: the two providers use the same ids with different meaning
_ROLES: dict[tuple[str, int], Role] = {
    **{(RUNTIME, number): Role.LOAD for number in (141, 143)},
    **{(RUNTIME, number): Role.UNLOAD for number in (142, 144)},
    **{(RUNDOWN, number): Role.RUNDOWN for number in (141, 142, 143, 144)},
    **{(RUNTIME, number): Role.MODULE for number in (151, 152, 153)},
    **{(RUNDOWN, number): Role.MODULE for number in (151, 152, 153, 154)},
    (RUNTIME, 159): Role.ENTRY_POINT,
    (RUNTIME, 187): Role.START,
}
_IDS = frozenset(number for _, number in _ROLES)
_UNIVERSAL_ROLES = {"ProcessMapping": Role.MAPPING, "ProcessSymbol": Role.SYMBOL}

_METHOD_FIELDS = ("MethodID", "ModuleID", "MethodStartAddress", "MethodSize", "MethodToken", "ReJITID")
_TEXT_FIELDS = ("MethodNamespace", "MethodName", "MethodSignature")
_FIELDS: dict[Role, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Role.LOAD: (_METHOD_FIELDS, _TEXT_FIELDS),
    Role.UNLOAD: (_METHOD_FIELDS, _TEXT_FIELDS),
    Role.RUNDOWN: (_METHOD_FIELDS, _TEXT_FIELDS),
    Role.ENTRY_POINT: (("MethodID", "EntryPoint"), _TEXT_FIELDS),
    Role.MODULE: (("ModuleID",), ("ModuleILPath", "ModuleNativePath")),
    Role.MAPPING: (("Id", "StartAddress", "EndAddress", "FileOffset"), ("FileName", "SymbolMetadata")),
    Role.SYMBOL: (("MappingId", "StartAddress", "EndAddress"), ("Name",)),
}
_OPTIONAL = frozenset({"ModuleNativePath", "SymbolMetadata", "MethodToken", "ReJITID"})
"""What symbols need not have. One-collect has versions that do not write SymbolMetadata (nettrace.md §14), older runtimes and first tiers no
ReJITID.
"""


@dataclass(slots=True, eq=False, repr=False, kw_only=True)  # quick to import
class SymbolHeaders:
    """The events that say something of addresses, and what their columns mean: what symbols are built from."""

    headers: HeaderColumns
    metadata: Mapping[int, Metadata]
    threads: Mapping[int, ThreadInfo]
    info: TraceInfo | None


class SymbolSource(Protocol):
    """What symbols are built from, such as :class:`nettrace.Contents`: the headers of all events, or at least of those
    that :func:`symbol_events` names. Payload offsets are those in the buffer given beside it.
    """

    @property
    def headers(self) -> HeaderColumns: ...
    @property
    def metadata(self) -> Mapping[int, Metadata]: ...
    @property
    def threads(self) -> Mapping[int, ThreadInfo]: ...
    @property
    def info(self) -> TraceInfo | None: ...


def symbol_events(metadata: Mapping[int, Metadata]) -> frozenset[int]:
    """The metadata ids of the events that say something of addresses."""
    return frozenset(wanted_events(metadata, 8)[0])


class Texts:
    """The text columns of many tables under one numbering of their rows. A text is decoded when its row is asked for."""

    def __init__(self, tables: Sequence[Sequence[Text | None]]) -> None:
        """The columns of each table; None in the place of one that it lacks."""
        self._tables = tables
        lengths = [next((len(column) for column in table if column is not None), 0) for table in tables]
        self._firsts = np.cumsum([0, *lengths])

    def numbers(self, table: int) -> Array:
        """The numbers of a table's rows."""
        return np.arange(self._firsts[table], self._firsts[table + 1])

    def take(self, numbers: Array) -> Iterator[tuple[str, ...]]:
        """The texts of some rows, in the order given; empty where there is none."""
        which = np.searchsorted(self._firsts, numbers, side="right") - 1
        found: list[tuple[str, ...]] = [()] * len(numbers)
        for table in distinct(which).tolist():
            places = np.flatnonzero(which == table)
            local = numbers[places] - self._firsts[table]
            columns = [
                repeat("", len(local)) if column is None else [text or "" for text in column.take(local).to_pylist()]
                for column in self._tables[table]
            ]
            for place, texts in zip(places.tolist(), zip(*columns, strict=True), strict=True):
                found[place] = texts
        return iter(found)


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class _Table:
    """The whole rows of one event type: their numbers among the events, and the fields asked for."""

    role: Role
    rows: Array
    payloads: Table

    @property
    def texts(self) -> tuple[Text | None, ...]:
        """The role's text columns, None for an optional one that is missing; empty where another is."""
        names = _FIELDS[self.role][1]
        found = [self.payloads.columns.get(name) for name in names]
        texts = tuple(column if isinstance(column, Text) else None for column in found)
        return texts if {name for name, text in zip(names, texts, strict=True) if text is None} <= _OPTIONAL else ()


class RoleEvents:
    """The events of some roles, those of one type behind those of another.

    ``row`` is the number of each among the events given, ``text`` that of its texts in :class:`Texts`, -1 where it has
    none.
    """

    def __init__(self, tables: Sequence[_Table], text: Array, times: Array, processes: Array | None) -> None:
        self._tables = tables
        self.text = text
        self.row: Array = np.concatenate([table.rows for table in tables])
        self.role: Array = np.repeat([table.role.value for table in tables], [len(table.rows) for table in tables])
        self.time: Array = times[self.row]
        self.process: Array = (
            np.full(len(self.row), ANY_PROCESS, np.int64) if processes is None else processes[self.row]
        )

    def column(self, name: str) -> Array:
        """The values of a field that all of them have."""
        columns = [table.payloads[name] for table in self._tables]
        return np.concatenate([column.values for column in columns if isinstance(column, Scalar)])

    def optional_column(self, name: str) -> Array:
        """The values (u64) of a field, 0 for events that have none."""
        return np.concatenate([_or_zeros(table, name) for table in self._tables])


def _or_zeros(table: _Table, name: str) -> Array:
    column = table.payloads.columns.get(name)
    if not isinstance(column, Scalar):
        return np.zeros(len(table.rows), np.uint64)
    values = column.values.astype(np.uint64)
    return values if column.valid is None else np.where(column.valid, values, np.uint64(0))


class SymbolEvents:
    """The events of a trace that say something of addresses. ``from_start``: the session saw the runtime start."""

    def __init__(self, source: SymbolSource, buffer: Array) -> None:
        wanted, self.from_start = wanted_events(
            source.metadata, source.info.pointer_size if source.info is not None else 8
        )
        self._tables = _decode(wanted, source.headers, buffer) if wanted else []
        self.texts = Texts([table.texts for table in self._tables])
        self._times = source.headers.time
        self._processes = process_ids(source.threads, source.headers.thread)

    def of(self, *roles: Role) -> RoleEvents | None:
        """The events of some roles, None where there are none."""
        places = [place for place, table in enumerate(self._tables) if table.role in roles]
        if not places:
            return None
        tables = [self._tables[place] for place in places]
        text = [
            self.texts.numbers(place) if table.texts else np.full(len(table.rows), -1, np.int64)
            for place, table in zip(places, tables, strict=True)
        ]
        return RoleEvents(tables, np.concatenate(text), self._times, self._processes)


def _role(provider: str, event_id: int, name: str) -> Role | None:
    return _UNIVERSAL_ROLES.get(name) if provider == UNIVERSAL_SYSTEM else _ROLES.get((provider, event_id))


def wanted_events(
    metadata: Mapping[int, Metadata], pointer_size: int
) -> tuple[dict[int, tuple[Role, events.EventSchema]], bool]:
    """(role and schema by metadata id, whether the runtime said that it starts)."""
    wanted: dict[int, tuple[Role, events.EventSchema]] = {}
    from_start = False
    for number, record in metadata.items():
        if record.event_id in _IDS or record.name in _UNIVERSAL_ROLES:
            schema = events.resolve(record, pointer_size)
            role = _role(schema.provider, schema.event_id, record.name)
            if role is Role.START:
                from_start = True
            elif role is not None:
                wanted[number] = role, schema
    return wanted, from_start


def _decode(
    wanted: Mapping[int, tuple[Role, events.EventSchema]], headers: HeaderColumns, buffer: Array
) -> list[_Table]:
    # one pass over all events, and the passes for each type over what that leaves
    every = np.flatnonzero(np.isin(headers.metadata_id, np.array(list(wanted), np.uint32)))
    ids = headers.metadata_id[every]
    tables = []
    for number, (role, schema) in wanted.items():
        rows = every[ids == number]
        table = _decode_one(schema, role, rows, headers, buffer) if len(rows) else None
        if table is not None:
            tables.append(table)
    return tables


def _decode_one(
    schema: events.EventSchema, role: Role, rows: Array, headers: HeaderColumns, buffer: Array
) -> _Table | None:
    scalars, texts = _FIELDS[role]
    there = {field.name for field in schema.fields}
    scalars = tuple(name for name in scalars if name in there or name not in _OPTIONAL)
    if not there.issuperset(scalars):
        return None
    names = [name for name in (*scalars, *texts) if name in there]
    table = events.decode(
        schema, buffer, headers.payload_offset[rows], headers.payload_length[rows], fields=names, lazy_text=True
    )
    if table.undecodable is not None:  # what breaks off behind the fields that count is good enough
        valid = [table[name].valid for name in names if name not in _OPTIONAL]
        whole = np.flatnonzero(np.all([mask for mask in valid if mask is not None] or [~table.undecodable], axis=0))
        table, rows = table.take(whole), rows[whole]
    if any(not isinstance(table[name], Scalar) for name in scalars if name not in _OPTIONAL) or not len(rows):
        return None
    return _Table(role, rows, table)
