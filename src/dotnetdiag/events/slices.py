"""All payloads of a stream of events as tables: what stands together in the file, by event type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import UsageError
from dotnetdiag.events import kernels
from dotnetdiag.events.decoding import Table, decode, infer
from dotnetdiag.events.memory import empty
from dotnetdiag.events.resolving import resolve
from dotnetdiag.events.schema import EventSchema, Source
from dotnetdiag.nettrace import EventBatch
from dotnetdiag.nettrace.parallel import Executor, in_order

SLICE_ROWS = 300_000
"""Events that are sorted by their types together, unless all are of one: a call for each type has to pay."""
CALL_ROWS = 1 << 15
"""Rows of one type decoded by one call, so that what it touches fits the cache."""
AHEAD_ROWS = 3 << 14
"""Of the size of pieces taken ahead: less lets threads wait while the next slice is read, more leaves the cache."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Events of one type: where their payloads stand in ``buffer``."""

    metadata_id: int
    schema: EventSchema
    buffer: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.offsets)

    def table(self) -> Table:
        """All columns."""
        return decode(self.schema, self.buffer, self.offsets, self.lengths, infer_layout=False)


def tables(
    batches: Iterable[EventBatch], *, executor: Executor | None = None, pointer_size: int = 8
) -> Iterator[tuple[int, Table]]:
    """(metadata id, all its columns) for every event type of every slice of the batches of one buffer, in file order.

    The batches are read by the caller's thread; with an executor its threads make the tables. Memory is used again: hold a table
    only as long as it is wanted. Events of which the trace has no metadata are left out.
    """
    pieces = _Slices(pointer_size).pieces(batches)
    for piece, table in in_order(pieces, Piece.table, executor, size=len, usual=AHEAD_ROWS):
        yield piece.metadata_id, table


class _Slices:
    def __init__(self, pointer_size: int) -> None:
        self._pointer_size = pointer_size
        self._schemas: dict[int, EventSchema] = {}
        self._rows = 0
        self._only: int | None = None
        self._columns: tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.uint32]] | None = None

    def pieces(self, batches: Iterable[EventBatch]) -> Iterator[Piece]:
        batch, buffer = None, None
        for batch in batches:
            if buffer is not None and batch.buffer is not buffer:
                raise UsageError("batches of several buffers: read the file by nettrace.scan")
            buffer = batch.buffer
            if self._rows + len(batch) > SLICE_ROWS and self._rows:
                yield from self._sorted(batch)
            self._take(batch)
            if self._rows >= CALL_ROWS and self._only is not None:
                yield from self._sorted(batch)
        if batch is not None:
            yield from self._sorted(batch)

    def _take(self, batch: EventBatch) -> None:
        """Copied: a batch that is held keeps the memory of all its columns."""
        if self._columns is None:
            room = max(SLICE_ROWS, len(batch))
            self._columns = (empty(room, np.uint32), empty(room, np.int64), empty(room, np.uint32))
        headers, rows = batch.headers, slice(self._rows, self._rows + len(batch))
        only = kernels.only(headers.metadata_id)
        self._only = only if not self._rows or only == self._only else None
        ids, offsets, lengths = self._columns
        ids[rows], offsets[rows], lengths[rows] = headers.metadata_id, headers.payload_offset, headers.payload_length
        self._rows = rows.stop

    def _sorted(self, batch: EventBatch) -> Iterator[Piece]:
        if self._columns is None:
            return
        ids, offsets, lengths = self._columns
        rows = slice(self._rows)
        self._columns, self._rows = None, 0
        if self._only is not None:
            yield from self._cut(batch, self._only, offsets[rows], lengths[rows])
            return
        ends, offsets, lengths = kernels.bucket(ids[rows], offsets[rows], lengths[rows])
        first = 0
        for metadata_id, last in ends:
            yield from self._cut(batch, metadata_id, offsets[first:last], lengths[first:last])
            first = last

    def _cut(
        self, batch: EventBatch, number: int, offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.uint32]
    ) -> Iterator[Piece]:
        schema = self._schemas.get(number)
        if schema is None:
            known = batch.metadata.get(number)
            if known is None:
                return
            schema = resolve(known, self._pointer_size)
            if schema.source == Source.NONE:
                schema = infer(schema, batch.buffer, offsets, lengths.astype(np.int64)) or schema
            self._schemas[number] = schema
        for start in range(0, len(offsets), CALL_ROWS):
            rows = slice(start, start + CALL_ROWS)
            yield Piece(number, schema, batch.buffer, offsets[rows], lengths[rows])
