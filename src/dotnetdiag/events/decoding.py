"""Payloads of one event type → a table of typed columns.

A bad payload marks its row and nothing else: its values from the first bad one on are None, its bytes are in ``remainder``.
So does one whose values would take memory out of all proportion to its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.errors import FormatError, UnknownName, UsageError
from dotnetdiag.events import kernels, program
from dotnetdiag.events.columns import Bytes, Mask
from dotnetdiag.events.inferring import infer
from dotnetdiag.events.layout import SchemaField
from dotnetdiag.events.operations import State
from dotnetdiag.events.schema import EventSchema, Source
from dotnetdiag.events.table import Table

Array: TypeAlias = "np.ndarray[Any, Any]"

OUTPUT_LIMIT, ROW_LIMIT = 16 << 20, 256
"""Bytes of output of one call, and of each row, that need no reason; more must stand in proportion to the payloads."""
NESTED_LIMIT = 64 << 20
"""The same, of the elements of lists."""
OUTPUT_RATIO = 64
"""A byte of payload may become so many. What runtimes and EventSources write becomes 10 at most."""
_ATTEMPTS = 8


@lru_cache(maxsize=128)  # of ``layout.MAX_FIELDS`` fields each in the worst case, which take 2.5 MB
def _program(fields: tuple[SchemaField, ...], pointer_size: int, selection: tuple[str, ...] | None) -> program.Program:
    for name in selection or ():
        if not program.has_field(fields, name):
            raise UnknownName("field", name, where="in these payloads")
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
    Raises :class:`UnknownName` for fields that there are none of, :class:`FormatError` only for rows outside of ``buffer``.
    """
    if isinstance(fields, str) or not all(isinstance(name, str) for name in fields or ()):
        raise UsageError(f"fields are a sequence of names, not {fields!r}")
    if pointer_size not in (None, 4, 8):
        raise UsageError(f"pointers have 4 or 8 bytes, not {pointer_size}")
    # two threads that decode take turns at the interpreter with every call that leaves it, and waking one costs more
    # than numpy's work on a few ten thousand rows: so the kernels answer what else would be asked of whole columns
    starts = np.ascontiguousarray(_column(offsets, "offsets", "iu"), np.int64)
    buffer = np.ascontiguousarray(_column(buffer, "a buffer of bytes", "u"))
    if buffer.dtype != np.uint8:
        raise UsageError(f"payloads in an array of {buffer.dtype}, not of bytes")
    lengths = _column(lengths, "lengths", "iu")
    rows = len(starts)
    if rows != len(lengths):
        raise UsageError(f"{rows} offsets and {len(lengths)} lengths of payloads")
    bounded = kernels.bound(buffer, starts, _unsigned(lengths, schema.name))
    if bounded is None:
        raise FormatError(f"payloads outside of the {len(buffer)} bytes at hand", where=schema.name)
    ends, payload_bytes = bounded
    if infer_layout and schema.source == Source.NONE and not schema.fields:
        schema = infer(schema, buffer, starts, ends - starts) or schema
    selection = None if fields is None else tuple(fields)
    made = _program(schema.fields, pointer_size or schema.pointer_size, selection)
    if (
        made.row_bytes * rows > OUTPUT_LIMIT + ROW_LIMIT * rows + OUTPUT_RATIO * payload_bytes
    ):  # a hostile field list (nettrace.md §13)
        payloads = Bytes(*kernels.gather(buffer, starts, ends - starts))
        return Table(schema=schema, columns={}, rows=rows, undecodable=np.ones(rows, np.bool_), remainder=payloads)
    done, refused = _run(made, buffer, starts, ends, NESTED_LIMIT + OUTPUT_RATIO * payload_bytes, lazy_text)
    walked = done.walked
    broken: Mask | None = walked.state == State.BROKEN if walked.broken else None
    if refused is not None:
        broken = refused if broken is None else broken | refused
    remainder: Bytes | None = None
    if made.complete and (broken is not None or (walked.left and not made.locations)):
        remainder_from = ends if made.locations else walked.positions
        if broken is not None:
            remainder_from = np.where(broken, starts, remainder_from)
        if not np.array_equal(ends, remainder_from):
            remainder = Bytes(*kernels.gather(buffer, remainder_from, ends - remainder_from))
    return Table(
        schema=schema,
        columns=done.columns,
        rows=rows,
        undecodable=broken,
        remainder=remainder,
        inferred=schema.source == Source.INFERRED,
    )


def _run(
    made: program.Program, buffer: Array, starts: Array, ends: Array, room: int, lazy_text: bool
) -> tuple[program.Decoded, Mask | None]:
    """The columns, and which rows are left empty because their values would take more than their share of ``room``."""
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


def _column(values: Array, what: str, kinds: str) -> Array:
    column = np.asarray(values)
    if column.ndim != 1 or (column.dtype.kind not in kinds and column.size):
        raise UsageError(f"{what} in an array of {column.dtype} with {column.ndim} dimensions")
    return column


def _unsigned(lengths: Array, name: str) -> Array:
    if lengths.dtype != np.uint32:
        if len(lengths) and not 0 <= int(lengths.min()) <= int(lengths.max()) <= 0xFFFFFFFF:
            raise FormatError("payloads of lengths that are none", where=name)
        lengths = lengths.astype(np.uint32)
    return np.ascontiguousarray(lengths)
