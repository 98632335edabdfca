"""All payloads of a trace as tables, by event type: batch by batch (``EventBatch.tables``), or what stands together in a
file (:func:`tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.events import kernels
from dotnetdiag.events.decoding import decode
from dotnetdiag.events.inferring import infer, is_contradicted
from dotnetdiag.events.layout import count_values
from dotnetdiag.events.resolving import resolve
from dotnetdiag.events.schema import EventSchema, Source
from dotnetdiag.events.table import Table
from dotnetdiag.nettrace import EventBatch, Metadata
from dotnetdiag.nettrace.parallel import Executor, in_order

SLICE_ROWS = 300_000
"""Events that are sorted by their types together, unless all are of one: a call for each type has to pay."""
SLICE_BYTES = 32 << 20
"""Of the file, or one batch of it: a table has as many bytes as its payloads."""
CALL_ROWS = 1 << 15
"""Rows of one type decoded by one call, so that what it touches fits the cache."""
PROOF_ROWS = 1 << 16
"""Events without a declared layout that are looked at for one: what they do not prove is not looked for again in each slice."""
FEW_COLUMNS, FIRST_TABLES, COLUMNS_FOR_EACH = 64, 8, 16
"""A table may have so many columns in any case. So many tables of a type may have more, and then its events have to account for
them: each, and each byte of payload, for so many. A column takes time even where a payload has ended before it."""
AHEAD_ROWS = 3 << 14
"""Of the size of pieces taken ahead: less lets threads wait while the next slice is read, more leaves the cache."""
_ROW_BYTES, _LEAST_AHEAD = 64, 2048
"""So many bytes of payload count as a row there, and a small piece as so many rows: it may hold a whole batch in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTable:
    """The events of one type in a batch.

    ``rows`` are their places in ``batch.headers``, ascending: ``batch.headers.time[rows]`` are the times of the table's
    rows.
    """

    batch: EventBatch
    metadata_id: int
    rows: npt.NDArray[np.int64]
    table: Table

    @property
    def schema(self) -> EventSchema:
        """What the event is called, and its fields."""
        return self.table.schema

    @property
    def file_offsets(self) -> npt.NDArray[np.int64]:
        """Where in the file, or the stream, each payload begins."""
        return self.batch.offset + self.batch.headers.payload_offset[self.rows]


def batch_tables(batch: EventBatch) -> Iterator[BatchTable]:
    """The payloads of a batch, one table for each event type, in ascending order of metadata ids: ``batch.tables()``.

    All that decoding needs comes with the batch: metadata, the size of pointers, where its buffer stands in the file,
    and the schemas that were made for earlier batches of its trace. Events of which the trace has no metadata are left
    out.
    """
    headers, schemas = batch.headers, _Schemas(batch.schemas)
    order = np.argsort(headers.metadata_id, kind="stable")
    ids, firsts = np.unique(headers.metadata_id[order], return_index=True)
    lasts = [*firsts[1:].tolist(), len(order)]
    for number, first, last in zip(ids.tolist(), firsts.tolist(), lasts, strict=True):
        rows = order[first:last]
        offsets, lengths = headers.payload_offset[rows], headers.payload_length[rows]
        known = schemas.of(batch, number, offsets, lengths)
        if known is not None:
            payloads = batch.buffer, offsets, lengths
            if known.affords_table(lengths):
                table = decode(known.schema, *payloads, infer_layout=False)
            else:
                table = _undecoded(known.schema, *payloads)
            if is_contradicted(table, known.seen):
                known.forget()
                table = decode(known.schema, *payloads, infer_layout=False)
            yield BatchTable(batch=batch, metadata_id=number, rows=rows, table=table)


def tables(
    batches: Iterable[EventBatch], *, executor: Executor | None = None, pointer_size: int | None = None
) -> Iterator[tuple[int, Table]]:
    """(metadata id, all its columns) for every event type of every slice of the batches of one trace, in file order.

    The fast way to all values, where it does not matter which event of the file a row is: batches that share a buffer
    (those of ``Scan.iter_batches``) are decoded together. They are read by the caller's thread; with an executor its
    threads make the tables. ``pointer_size`` is the trace's unless another is given. Events of which the trace has no
    metadata are left out.
    """
    pieces = _Slices(pointer_size).pieces(batches)
    for piece, table in in_order(pieces, _Piece.table, executor, size=_Piece.weight, usual=AHEAD_ROWS):
        yield piece.metadata_id, table


@dataclass(slots=True)
class _Known:
    """What is known of an event type: its schema, and how many events there were to make it of."""

    metadata: Metadata
    schema: EventSchema
    seen: int = 0
    _values: int = field(init=False)
    _columns: int = field(init=False)
    """That its tables may still have."""

    def __post_init__(self) -> None:
        self._values = count_values(self.schema.fields)
        self._columns = FIRST_TABLES * self._values

    def affords_table(self, lengths: npt.NDArray[np.uint32]) -> bool:
        """Whether these events may have one with all columns, and from now on they have it."""
        if self._values <= FEW_COLUMNS:
            return True
        self._columns += COLUMNS_FOR_EACH * (len(lengths) + int(lengths.sum(dtype=np.int64)))
        affords = self._values <= self._columns
        self._columns -= self._values * affords
        return affords

    def forget(self) -> None:
        """What was inferred is not so, and nothing is from now on."""
        self.schema, self.seen = _without_layout(self.schema), PROOF_ROWS


class _Schemas:
    """The schemas of event types, made when the first event of a type is met, and what of them is ``kept``."""

    def __init__(self, kept: dict[int, Any], pointer_size: int | None = None) -> None:
        self._kept, self._pointer_size = kept, pointer_size

    def of(
        self, batch: EventBatch, number: int, offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.uint32]
    ) -> _Known | None:
        """What is known of a type, these events among the seen; None when the trace has no metadata of it."""
        metadata = batch.metadata.get(number)
        if metadata is None:
            return None
        known: _Known | None = self._kept.get(number)
        if known is None or known.metadata is not metadata:
            made = resolve(metadata, self._pointer_size or batch.stacks.pointer_size)
            known = self._kept[number] = _Known(metadata, made)
        if known.schema.source == Source.NONE and known.seen < PROOF_ROWS:
            known.schema = infer(known.schema, batch.buffer, offsets, lengths.astype(np.int64)) or known.schema
        known.seen += len(offsets)
        return known


def _without_layout(schema: EventSchema) -> EventSchema:
    return replace(schema, fields=(), source=Source.NONE)


def _undecoded(
    schema: EventSchema,
    buffer: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.uint32],
) -> Table:
    """Payloads kept as bytes, and counted as undecodable."""
    table = decode(_without_layout(schema), buffer, offsets, lengths, infer_layout=False)
    return replace(table, schema=schema, undecodable=np.ones(len(table), np.bool_))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Events of one type: where their payloads stand in ``buffer``. ``affords``: their table may have all columns."""

    metadata_id: int
    schema: EventSchema
    buffer: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.uint32]
    seen: int
    affords: bool

    def weight(self) -> int:
        """Rows, by what it holds in memory. Of many rows there are a few such pieces in any case."""
        rows = len(self.offsets)
        if rows >= CALL_ROWS // 4:
            return rows
        return max(rows, int(self.lengths.sum(dtype=np.int64)) // _ROW_BYTES, _LEAST_AHEAD)

    def table(self) -> Table:
        if not self.affords:
            return _undecoded(self.schema, self.buffer, self.offsets, self.lengths)
        table = decode(self.schema, self.buffer, self.offsets, self.lengths, infer_layout=False)
        if is_contradicted(table, self.seen):
            bare = _without_layout(self.schema)
            return decode(bare, self.buffer, self.offsets, self.lengths, infer_layout=False)
        return table


class _Slices:
    def __init__(self, pointer_size: int | None) -> None:
        self._schemas = _Schemas({}, pointer_size)
        self._rows = self._start = 0
        self._only: int | None = None
        self._columns: tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.uint32]] | None = None

    def pieces(self, batches: Iterable[EventBatch]) -> Iterator[_Piece]:
        last: EventBatch | None = None
        for batch in batches:
            if last is not None and (
                self._rows + len(batch) > SLICE_ROWS
                or self._size_with(batch) > SLICE_BYTES
                or batch.buffer is not last.buffer
                or batch.metadata is not last.metadata
            ):
                yield from self._sorted(last)
            self._take(batch)
            if self._rows >= CALL_ROWS and self._only is not None:
                yield from self._sorted(batch)
            last = batch
        if last is not None:
            yield from self._sorted(last)

    def _size_with(self, batch: EventBatch) -> int:
        """Bytes of the file from the first payload to the batch's last."""
        offsets = batch.headers.payload_offset
        return int(offsets[-1]) + int(batch.headers.payload_length[-1]) - self._start if len(offsets) else 0

    def _take(self, batch: EventBatch) -> None:
        """Copied: a batch that is held keeps the memory of all its columns."""
        if not self._rows and len(batch):
            self._start = int(batch.headers.payload_offset[0])
        if self._columns is None:
            room = max(SLICE_ROWS, len(batch))
            self._columns = (np.empty(room, np.uint32), np.empty(room, np.int64), np.empty(room, np.uint32))
        headers, rows = batch.headers, slice(self._rows, self._rows + len(batch))
        ids, offsets, lengths = self._columns
        before, only = self._only, kernels.only(headers.metadata_id)
        self._only = only if not self._rows or only == before else None
        if self._only is None:  # as long as all are of one type, nobody asks for their ids
            if before is not None:
                ids[: self._rows] = before
            ids[rows] = headers.metadata_id
        offsets[rows], lengths[rows] = headers.payload_offset, headers.payload_length
        self._rows = rows.stop

    def _sorted(self, batch: EventBatch) -> Iterator[_Piece]:
        if not self._rows or self._columns is None:
            return
        ids, offsets, lengths = self._columns
        rows = slice(self._rows)
        if self._rows < len(ids) // 4:  # used again, rather than kept by a small piece
            offsets, lengths = offsets[rows].copy(), lengths[rows].copy()
        else:
            self._columns = None
        self._rows = 0
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
    ) -> Iterator[_Piece]:
        known = self._schemas.of(batch, number, offsets, lengths)
        if known is None:
            return
        affords = known.affords_table(lengths)
        for start in range(0, len(offsets), CALL_ROWS):
            rows = slice(start, start + CALL_ROWS)
            yield _Piece(number, known.schema, batch.buffer, offsets[rows], lengths[rows], known.seen, affords)
