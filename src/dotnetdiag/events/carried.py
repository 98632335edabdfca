"""Events that carry others: the runtime's GCDynamicEvent names in its payload what it holds (nettrace.md §10.5).

``Name: z16, DataSize: u32, Data, ClrInstanceID: u16``. Each thing that is carried is a type of its own, with a metadata
record as a file would define it; all that comes after sees types only. Names are those of the runtime, but come out of
a file: what is no name, and what comes after the first ``TYPES_LIMIT``, stays a GCDynamicEvent.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events import well_known
from dotnetdiag.events.titles import is_carrier
from dotnetdiag.nettrace import EventBatch, HeaderColumns, Metadata

Array: TypeAlias = "np.ndarray[Any, Any]"

TYPES_LIMIT = 64
"""Names that are told apart; the runtimes up to 10 know six."""
_NAME = re.compile(r"[A-Za-z]\w{0,62}", re.ASCII)
_NAME_BYTES = 2 * 64
_SIZE_BYTES = 4
_INSTANCE_BYTES = 2


class CarriedTypes:
    """The types that events carry: ``records`` by the ids that they are given, from ``first_id()`` on, which is asked once."""

    def __init__(self, first_id: Callable[[], int]) -> None:
        self.records: dict[int, Metadata] = {}
        self._first_id = first_id
        self._next = 0
        self._ids: dict[tuple[Metadata, str, bool], int] = {}
        self._carriers: tuple[int, frozenset[int]] = (0, frozenset())

    def carriers(self, metadata: Mapping[int, Metadata]) -> frozenset[int]:
        """The ids of the types that carry others, of records that only become more."""
        if len(metadata) != self._carriers[0]:
            found = frozenset(number for number, record in metadata.items() if is_carrier(record))
            self._carriers = len(metadata), found
        return self._carriers[1]

    def typed_batch(self, batch: EventBatch) -> EventBatch:
        """The batch with the types that its events carry."""
        headers = self.typed(batch.headers, batch.buffer, batch.metadata)
        if headers is batch.headers:
            return batch
        return replace(batch, headers=headers, metadata=ChainMap(self.records, batch.metadata))  # type: ignore[arg-type]

    def typed(self, headers: HeaderColumns, buffer: Array, metadata: Mapping[int, Metadata]) -> HeaderColumns:
        """The headers with the ids of what is carried in the place of the carriers' own."""
        carriers = self.carriers(metadata)
        ids = headers.metadata_id
        rows = np.flatnonzero(np.isin(ids, list(carriers))) if carriers else ()
        if not len(rows):
            return headers
        made = ids.copy()
        for carrier in set(ids[rows].tolist()):  # np.unique imports more of numpy, for 10 ms
            some = rows[ids[rows] == carrier]
            made[some] = self._types(metadata[carrier], buffer, headers[some])
        return replace(headers, metadata_id=made)

    def _types(self, carrier: Metadata, buffer: Array, headers: HeaderColumns) -> Array:
        ids, lengths = headers.metadata_id.copy(), headers.payload_length.astype(np.int64)
        left, done = np.arange(len(ids)), np.zeros(len(ids), np.bool_)
        for _ in range(TYPES_LIMIT):
            if not len(left):
                break
            offset, length = int(headers.payload_offset[left[0]]), int(lengths[left[0]])
            name = _name_in(buffer[offset : offset + min(length, _NAME_BYTES)].tobytes())
            if name is None:
                left = left[1:]
                continue
            front = np.frombuffer(f"{name}\0".encode("utf-16-le"), np.uint8)
            head = len(front) + _SIZE_BYTES
            rows = left[lengths[left] >= head]
            places = headers.payload_offset[rows]
            alike = (buffer[places[:, None] + np.arange(len(front))] == front).all(axis=1)
            if not alike.any():  # its size is cut off
                left = left[1:]
                continue
            rows, places = rows[alike], places[alike]
            size = well_known.carried_size(name)
            sizes = buffer[places[:, None] + np.arange(len(front), head)].copy().view("<u4")[:, 0]
            whole = (sizes == size) & (lengths[rows] == head + size + _INSTANCE_BYTES)
            for known, some in ((True, rows[whole]), (False, rows[~whole])):
                if len(some):
                    ids[some] = self._id_of(carrier, name, known=known)
            done[rows] = True
            left = left[~done[left]]
        return ids

    def _id_of(self, carrier: Metadata, name: str, *, known: bool) -> int:
        """The id of a type; that of the carrier when there are too many."""
        found = self._ids.get((carrier, name, known))
        if found is None:
            self._next = self._next or self._first_id()
            if len(self.records) >= TYPES_LIMIT or self._next > 0xFFFFFFFF:
                return carrier.metadata_id
            found = self._ids[carrier, name, known] = self._next
            self._next += 1
            record = replace(carrier, metadata_id=found, name=well_known.carried_name(name), declared=known, fields=())
            self.records[found] = record
        return found


def _name_in(payload: bytes) -> str | None:
    text, end, _ = payload[: len(payload) & ~1].decode("utf-16-le", "replace").partition("\0")
    return text if end and _NAME.fullmatch(text) else None
