"""Payloads of one event type → a table of typed columns.

A bad payload marks its row and nothing else: its values from the first bad one on are None, its bytes are in ``rest``.
So does one whose lists would take memory out of all proportion to its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.errors import FormatError
from dotnetdiag.events import kernels, program
from dotnetdiag.events.columns import Bytes, Column, Mask, Struct, concat
from dotnetdiag.events.layout import Count, Kind, Layout, SchemaField
from dotnetdiag.events.operations import State
from dotnetdiag.events.schema import EventSchema, Source

Array: TypeAlias = "np.ndarray[Any, Any]"

OUTPUT_LIMIT = 256 << 20
"""Bytes of output of one call that need no reason; more must stand in proportion to the payloads."""
NESTED_LIMIT = 64 << 20
"""The same, of the elements of lists."""
OUTPUT_RATIO = 64
"""A byte of payload may become so many. What runtimes and EventSources write becomes 10 at most."""
_ATTEMPTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The columns of one event type, one row per event.

    ``columns`` are by field name, in the order of the schema; only the selected ones. ``undecodable`` is None or a
    mask of the rows whose payload broke. ``rest`` is None or the bytes behind the fields, per row (of a broken row,
    and where nothing is known of the payload, all of it); it is known only when all fields were asked for.
    ``inferred`` says that the layout is a conclusion from the payloads' lengths, and nobody's declaration.
    """

    schema: EventSchema
    columns: Mapping[str, Column]
    rows: int
    undecodable: Mask | None = None
    rest: Bytes | None = None
    inferred: bool = False

    def __len__(self) -> int:
        return self.rows

    @property
    def undecodable_count(self) -> int:
        """Rows whose payload broke."""
        return 0 if self.undecodable is None else int(self.undecodable.sum())

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def __getitem__(self, name: str) -> Column:
        """A column; ``a.b`` is member ``b`` of structure ``a``, members of an unnamed structure need no ``a``."""
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return found

    def _find(self, name: str) -> Column | None:
        return _member(self.columns, name)

    @property
    def flat(self) -> Mapping[str, Column]:
        """The columns, with the members of an unnamed structure in its place."""
        only = self.columns.get("")
        return only.fields if len(self.columns) == 1 and isinstance(only, Struct) else self.columns

    def row(self, index: int) -> dict[str, Any]:
        """The values of one row by field name."""
        return {name: column.item(index) for name, column in self.columns.items()}

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows."""
        names = list(self.columns)
        if not names:
            return [{} for _ in range(self.rows)]
        columns = [column.to_pylist() for column in self.columns.values()]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def take(self, rows: Array | Sequence[int]) -> Table:
        """Some rows, by number or mask."""
        picked = np.asarray(rows)
        picked = np.flatnonzero(picked) if picked.dtype == np.bool_ else picked.astype(np.int64)
        return replace(
            self,
            columns={name: column.take(picked) for name, column in self.columns.items()},
            rows=len(picked),
            undecodable=None if self.undecodable is None else self.undecodable[picked],
            rest=None if self.rest is None else self.rest.take(picked),
        )


def _member(columns: Mapping[str, Column], name: str) -> Column | None:
    if name in columns:
        return columns[name]
    for key, column in columns.items():
        if isinstance(column, Struct):
            inner = name if key == "" else name[len(key) + 1 :] if name.startswith(key + ".") else None
            found = None if inner is None else _member(column.fields, inner)
            if found is not None:
                return found
    return None


def concat_tables(tables: Sequence[Table]) -> Table:
    """The rows of tables of one schema, one after another."""
    first = tables[0]
    undecodable: Mask | None = None
    rest: Bytes | None = None
    if any(table.undecodable is not None for table in tables):
        undecodable = np.concatenate(
            [table.undecodable if table.undecodable is not None else np.zeros(table.rows, np.bool_) for table in tables]
        )
    if any(table.rest is not None for table in tables):
        empty = np.zeros(0, np.uint8)
        joined = concat([table.rest or Bytes(np.zeros(table.rows + 1, np.int64), empty) for table in tables])
        assert isinstance(joined, Bytes)
        rest = joined
    return replace(
        first,
        columns={name: concat([table.columns[name] for table in tables]) for name in first.columns},
        rows=sum(table.rows for table in tables),
        undecodable=undecodable,
        rest=rest,
    )


@lru_cache(maxsize=128)  # of ``layout.MAX_FIELDS`` fields each in the worst case, which take about 1 MB
def _program(fields: tuple[SchemaField, ...], pointer_size: int, selection: tuple[str, ...] | None) -> program.Program:
    return program.build(fields, pointer_size, selection)


def decode(
    schema: EventSchema,
    buffer: Array,
    offsets: Array,
    lengths: Array,
    *,
    fields: Sequence[str] | None = None,
    pointer_size: int | None = None,
    lazy_text: bool = False,
    infer_layout: bool = True,
) -> Table:
    """Decode payloads ``buffer[offsets[r]:offsets[r] + lengths[r]]`` of one event type.

    ``fields`` selects columns by name (``a.b``: a member only); None means all. With ``lazy_text`` texts stay spans of
    ``buffer``, which must then live and not change, until they are asked for. Runs without the GIL where it matters.
    Raises :class:`FormatError` only for rows outside of ``buffer``.
    """
    # two threads that decode take turns at the interpreter with every call that leaves it, and waking one costs more
    # than numpy's work on a few ten thousand rows: so the kernels answer what else would be asked of whole columns
    starts = np.ascontiguousarray(offsets, np.int64)
    buffer = np.ascontiguousarray(buffer, np.uint8)
    rows = len(starts)
    bounded = kernels.bound(buffer, starts, _unsigned(lengths, schema.name))
    if bounded is None:
        raise FormatError(f"payloads outside of the {len(buffer)} bytes at hand", where=schema.name)
    ends, payload_bytes = bounded
    if infer_layout and schema.source == Source.NONE and not schema.fields:
        schema = infer(schema, buffer, starts, ends - starts) or schema
    selection = None if fields is None else tuple(fields)
    made = _program(schema.fields, pointer_size or schema.pointer_size, selection)
    if made.row_bytes * rows > OUTPUT_LIMIT + OUTPUT_RATIO * payload_bytes:  # a hostile field list (nettrace.md §13)
        rest = Bytes(*kernels.gather(buffer, starts, ends - starts))
        return Table(schema=schema, columns={}, rows=rows, undecodable=np.ones(rows, np.bool_), rest=rest)
    done, refused = _run(made, buffer, starts, ends, NESTED_LIMIT + OUTPUT_RATIO * payload_bytes, lazy_text)
    walked = done.walked
    broken: Mask | None = walked.state == State.BROKEN if walked.broken else None
    if refused is not None:
        broken = refused if broken is None else broken | refused
    rest_column: Bytes | None = None
    if made.complete and (broken is not None or (walked.left and not made.locations)):
        rest_from = ends if made.locations else walked.positions
        if broken is not None:
            rest_from = np.where(broken, starts, rest_from)
        if not np.array_equal(ends, rest_from):
            rest_column = Bytes(*kernels.gather(buffer, rest_from, ends - rest_from))
    return Table(
        schema=schema,
        columns=done.columns,
        rows=rows,
        undecodable=broken,
        rest=rest_column,
        inferred=schema.source == Source.INFERRED,
    )


def _run(
    made: program.Program, buffer: Array, starts: Array, ends: Array, room: int, lazy_text: bool
) -> tuple[program.Decoded, Mask | None]:
    """The columns, and which rows are left empty because their lists would take more than their share of ``room``."""
    stops, refused = ends, np.zeros(len(starts), np.bool_)
    for attempt in range(_ATTEMPTS):
        try:
            done = program.run(made, buffer, starts, stops, room=program.Room(room), lazy_text=lazy_text)
            return done, refused if attempt else None
        except program.NoRoom as full:
            weights = (ends - starts + 1).astype(np.float64)  # half of the room by bytes, half by heads
            refused |= full.costs > full.left / 2 * (weights / weights.sum() + 1 / len(starts))
            stops = np.where(refused, starts, ends)
    refused[:] = True
    return program.run(made, buffer, starts, starts, room=program.Room(room), lazy_text=lazy_text), refused


def _unsigned(lengths: Array, name: str) -> Array:
    if lengths.dtype != np.uint32:
        if len(lengths) and not 0 <= int(lengths.min()) <= int(lengths.max()) <= 0xFFFFFFFF:
            raise FormatError("payloads of lengths that are none", where=name)
        lengths = lengths.astype(np.uint32)
    return np.ascontiguousarray(lengths)


_SAMPLE = 64
_LONGEST_PREFIX = 256
_ALIKE, _ALIKE_BYTES = 16, 8
"""Payloads of one length prove less: so many of them, with so many bytes, are asked for."""


def infer(schema: EventSchema, buffer: Array, offsets: Array, lengths: Array) -> EventSchema | None:
    """A layout that the payloads' lengths prove, for an event that nobody describes; None when there is none.

    An EventSource method with a ``byte[]`` at the end writes fixed-size arguments, a u32 count and the bytes, and
    declares nothing (nettrace.md §7). It is proved when one offset, and only one, holds the count of exactly the
    bytes behind it in every payload, and the bytes are not always none. What stands in front is shown as numbers by
    their offset, ``u32@4``: their declared types are not to be had.
    """
    if len(offsets) < 2:
        return None
    shortest = int(lengths.min())
    if shortest < 4:
        return None
    longest = int(lengths.max())
    candidates = [
        size
        for size in range(min(shortest - 4, longest - 5, _LONGEST_PREFIX) + 1)
        if _counts_rest(buffer, offsets[:_SAMPLE], lengths[:_SAMPLE], size)
        and _counts_rest(buffer, offsets, lengths, size)
    ]
    if len(candidates) != 1:
        return None
    (size,) = candidates
    if shortest == longest and (len(offsets) < _ALIKE or longest - size - 4 < _ALIKE_BYTES):
        return None
    fields = [SchemaField(name=f"u32@{at}", layout=Layout(kind=Kind.U4)) for at in range(0, size - 3, 4)]
    fields += [SchemaField(name=f"u8@{at}", layout=Layout(kind=Kind.U1)) for at in range(size // 4 * 4, size)]
    fields.append(SchemaField(name=f"bytes@{size + 4}", layout=Layout(kind=Kind.BYTES, count_at=Count.U32)))
    return replace(schema, fields=tuple(fields), source=Source.INFERRED)


def _counts_rest(buffer: Array, offsets: Array, lengths: Array, size: int) -> bool:
    at = offsets + size
    count = buffer[at].astype(np.int64)
    for byte in (1, 2, 3):
        count |= buffer[at + byte].astype(np.int64) << 8 * byte
    return bool((count == lengths - size - 4).all())
