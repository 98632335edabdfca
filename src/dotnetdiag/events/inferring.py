"""Layouts that the payloads' lengths prove, for events that nobody describes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.events.layout import Count, Kind, Layout, SchemaField
from dotnetdiag.events.schema import EventSchema, Source
from dotnetdiag.events.table import Table

Array: TypeAlias = "np.ndarray[Any, Any]"

_SAMPLE, _SAMPLE_DAMAGED = 64, 8
"""So many are looked at first, of which so many may be damaged: all are only for what is left then."""
_LONGEST_PREFIX = 256
_ALIKE, _ALIKE_BYTES = 16, 8
"""Payloads of one length prove less: so many of them, with so many bytes, are asked for."""
_ODD_ONE = 1000
"""Of so many payloads one may be damaged: the others prove enough, and it is marked when it is decoded."""


def infer(schema: EventSchema, buffer: Array, offsets: Array, lengths: Array) -> EventSchema | None:
    """A layout that the payloads' lengths prove, for an event that nobody describes; None when there is none.

    An EventSource method with a ``byte[]`` at the end writes fixed-size arguments, a u32 count and the bytes, and
    declares nothing (nettrace.md §7). It is proved when one offset, and only one, holds the count of exactly the
    bytes behind it in every payload (but one in a thousand, which may be damaged), and the bytes are not always none.
    What stands in front is shown as numbers by their offset, ``u32@4``: their declared types are not to be had.
    """
    if not len(offsets):
        return None
    shortest = int(lengths.min())
    if shortest < 4:
        return None
    longest = int(lengths.max())
    damaged = len(offsets) // _ODD_ONE
    candidates = [
        size
        for size in range(min(shortest - 4, longest - 5, _LONGEST_PREFIX) + 1)
        if _misfits(buffer, offsets[:_SAMPLE], lengths[:_SAMPLE], size) <= min(damaged, _SAMPLE_DAMAGED)
        and _misfits(buffer, offsets, lengths, size) <= damaged
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


def as_bytes(schema: EventSchema) -> EventSchema:
    """The event that nobody describes, with all of its payload in one field of bytes: ``bytes@0``, as lines of JSON name it."""
    return replace(schema, fields=(SchemaField(name="bytes@0", layout=Layout(kind=Kind.OPAQUE)),))


def is_contradicted(table: Table, seen: int) -> bool:
    """Whether an inferred layout is none after all: more rows have something else than it says than may be damaged of all that were
    ``seen``.
    """
    if not table.inferred or table.remainder is None:
        return False
    return int(np.count_nonzero(np.diff(table.remainder.offsets))) > seen // _ODD_ONE


def _misfits(buffer: Array, offsets: Array, lengths: Array, size: int) -> int:
    """How many payloads have something else there than the count of the bytes behind it."""
    at = offsets + size
    count = buffer[at].astype(np.int64)
    for byte in (1, 2, 3):
        count |= buffer[at + byte].astype(np.int64) << 8 * byte
    return int(np.count_nonzero(count != lengths - size - 4))
