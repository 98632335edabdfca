"""What has arrived, made into tables that stand by themselves: in time order, holding nothing of the stream.

A runtime empties its buffers about every 100 ms, and writes what it has thread by thread. What came together is one
window, sorted by time, as long as it is not too large for that: a flood is cut where it must be, and then the events of
one thread may stand before older ones of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from dotnetdiag.events import EventSchema, ListOf, Source, Text, as_bytes, infer
from dotnetdiag.events.kernels import gather
from dotnetdiag.nettrace import (
    EventBatch,
    GuidTable,
    HeaderColumns,
    LabelList,
    StackTable,
    ThreadInfo,
    TraceInfo,
    sort_order,
)
from dotnetdiag.table import Losses
from dotnetdiag.trace.header import HeaderMeaning, overrides
from dotnetdiag.trace.table import EventTable

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Recording
    from dotnetdiag.trace.symbols import Symbols

Array: TypeAlias = "np.ndarray[Any, Any]"
Names: TypeAlias = Callable[[StackTable, HeaderColumns], list[tuple[str, ...]]]
"""Gives the frames of each event's stack."""

SORTED_ROWS = 1 << 16
SORTED_BYTES = 8 << 20
"""So many events, or bytes of payload, are sorted together at most, and given out whatever follows."""
_MOST = 8
"""All of a buffer but one part in so many is most of it."""
WINDOW_ROWS = 1 << 13
"""Windows of more are cut: lines of text take many times the memory of their events."""


def no_symbols() -> Symbols:
    """Of a session that keeps none: an address is an address."""
    from dotnetdiag.live.symbols import LiveSymbols

    return LiveSymbols().now()


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveContext:
    """What a window knows beside its events: see ``trace.context``. ``stacks`` is empty when none were asked for."""

    buffer: Array
    meaning: HeaderMeaning
    guids: GuidTable
    overrides: Mapping[int, LabelList]
    stacks: StackTable
    recording: object
    names: Names | None = None
    symbols_now: Callable[[], Symbols] = no_symbols
    losses_now: Callable[[], Losses] = Losses
    keeps_stacks: bool = True

    @property
    def losses(self) -> Losses:
        """What the session has lost until now."""
        return self.losses_now()

    @property
    def symbols(self) -> Symbols:
        """What addresses stand for, by all that has been said until now."""
        return self.symbols_now()

    @property
    def format(self) -> str:
        """That of sessions: one process."""
        return "nettrace 4"

    def frames_of(self, headers: HeaderColumns) -> list[tuple[str, ...]]:
        """Call stacks, leaf first."""
        if self.names is not None:
            return self.names(self.stacks, headers)
        from dotnetdiag.trace.stack_names import StackNames

        return StackNames(cast("Recording", self)).frames_of(headers)

    def frames_column(self, headers: HeaderColumns) -> ListOf:
        """The same as a column; none where there is no stack."""
        stacks = self.frames_of(headers)
        offsets = np.zeros(len(stacks) + 1, np.int64)
        np.cumsum([len(frames) for frames in stacks], out=offsets[1:])
        return ListOf(offsets, Text.from_pylist([frame for frames in stacks for frame in frames]), headers.stack != 0)

    def leaves_of(self, headers: HeaderColumns) -> Text:
        """The method of each event that it happened in."""
        return Text.from_pylist([frames[0] if frames else None for frames in self.frames_of(headers)])


class WindowMaker:
    """Collects rows of batches, and makes windows of them. ``stacks``: keep call stacks, which cost memory; ``symbols_now`` tells what
    their addresses stand for, and ``losses_now`` what the session has lost.
    """

    def __init__(
        self,
        *,
        stacks: bool = False,
        names: Names | None = None,
        symbols_now: Callable[[], Symbols] = no_symbols,
        losses_now: Callable[[], Losses] = Losses,
    ) -> None:
        self._stacks_wanted, self._names, self._symbols_now, self._losses_now = stacks, names, symbols_now, losses_now
        self._meaning: HeaderMeaning | None = None
        self._clear()

    def _clear(self) -> None:
        self._headers: list[HeaderColumns] = []
        self._payloads: list[Array] = []
        self._schemas: dict[int, EventSchema] = {}
        self._guids = GuidTable()
        self._labels: list[LabelList] = [LabelList()]
        self._stacks = StackTable()
        self._rows = self._size = 0

    def __len__(self) -> int:
        """Rows that wait."""
        return self._rows

    @property
    def full(self) -> bool:
        """Whether it is time to make windows."""
        return self._rows >= SORTED_ROWS or self._size >= SORTED_BYTES

    def add(
        self,
        batch: EventBatch,
        rows: HeaderColumns,
        schemas: Mapping[int, EventSchema],
        info: TraceInfo | None,
        threads: Mapping[int, ThreadInfo] | None,
    ) -> None:
        """Keep rows of a batch, whose metadata ids are keys of ``schemas``; of the batch at most its bytes are held afterwards, where
        these rows have most of them.

        ``threads`` are the thread rows of version 6, None in other formats.
        """
        if self._meaning is None or threads is not None:
            self._meaning = HeaderMeaning(info, dict(threads or {}), thread_rows=threads is not None)
        offsets, data = _payloads(batch.buffer, rows)
        own = replace(
            rows[:],
            payload_offset=offsets + self._size,
            activity=self._guid_ids(batch.guids, rows.activity),
            related=self._guid_ids(batch.guids, rows.related),
            label_list=self._label_ids(batch.labels, rows.label_list),
            stack=self._stack_ids(batch.stacks, rows.stack),
        )
        self._headers.append(HeaderColumns(*(np.array(getattr(own, name)) for name in _COLUMNS)))
        self._payloads.append(data)
        self._schemas.update(schemas)
        self._rows += len(rows)
        self._size += len(data)

    def _guid_ids(self, guids: GuidTable, ids: Array) -> Array:
        return _mapped(ids, lambda number: self._guids.intern(guids[number].bytes_le))

    def _label_ids(self, labels: Sequence[LabelList], ids: Array) -> Array:
        first = len(self._labels)

        def add(number: int) -> int:
            self._labels.append(labels[number])
            return len(self._labels) - 1

        made = _mapped(ids, add)
        return made if len(self._labels) > first else ids

    def _stack_ids(self, stacks: StackTable, ids: Array) -> Array:
        if not self._stacks_wanted:
            return np.zeros(len(ids), np.uint32)
        if not self._rows:
            self._stacks = StackTable(stacks.pointer_size)
        return _mapped(ids, lambda number: self._stacks.intern(stacks.raw(number)))

    def make(self) -> list[tuple[EventTable, int]]:
        """All rows in windows of at most ``WINDOW_ROWS``, and about how many bytes each holds. Begins anew."""
        if not self._rows:
            return []
        assert self._meaning is not None
        headers = HeaderColumns.concatenate(self._headers)
        headers = headers[sort_order(headers)]
        payloads = self._payloads
        context = LiveContext(
            buffer=payloads[0] if len(payloads) == 1 else np.concatenate(payloads),
            meaning=self._meaning,
            guids=self._guids,
            overrides=overrides(self._labels) if len(self._labels) > 1 else {},
            stacks=self._stacks,
            names=self._names,
            symbols_now=self._symbols_now,
            losses_now=self._losses_now,
            keeps_stacks=self._stacks_wanted,
            recording=self,
        )
        rows = self._rows
        row_bytes = _ROW_BYTES + (self._size + self._stacks.size_bytes) / rows
        whole = EventTable(context, self._schemas, headers)
        self._clear()
        if rows <= WINDOW_ROWS:
            return [(whole, int(rows * row_bytes))]
        made = []
        for first in range(0, rows, WINDOW_ROWS):
            piece = _piece(context, whole.schemas, headers[first : first + WINDOW_ROWS])
            made.append((piece, int(len(piece) * row_bytes)))
        return made


def _payloads(buffer: Array, rows: HeaderColumns) -> tuple[Array, Array]:
    """(where the payload of each row begins, bytes): the buffer itself where most of it is wanted, a fifth of the time of a flood."""
    lengths = rows.payload_length.astype(np.int64)
    if int(lengths.sum()) * _MOST >= len(buffer) * (_MOST - 1):
        return rows.payload_offset, buffer
    offsets, data = gather(buffer, rows.payload_offset, lengths)
    return offsets[:-1], data


def _piece(context: LiveContext, schemas: Mapping[int, EventSchema], rows: HeaderColumns) -> EventTable:
    """Some rows with copies of what they need: a piece that waits must not hold the others."""
    offsets, data = gather(context.buffer, rows.payload_offset, rows.payload_length.astype(np.int64))
    own = HeaderColumns(*(np.array(getattr(rows, name)) for name in _COLUMNS))
    there = np.unique(rows.metadata_id).tolist()
    return EventTable(
        replace(context, buffer=data),
        {number: schemas[number] for number in there},
        replace(own, payload_offset=offsets[:-1]),
    )


def selection(window: EventTable, rows: Any) -> EventTable:
    """Some rows of a window, with the types that occur among them."""
    headers = window.headers[rows]
    there = np.unique(headers.metadata_id).tolist()
    return EventTable(window.trace, {number: window.schemas[number] for number in there}, headers)


def with_inferred(schema: EventSchema, batch: EventBatch, rows: HeaderColumns) -> EventSchema | None:
    """A layout for a type that nobody describes, from the payloads that have come (``events.infer``); where they have none, all is bytes."""
    if schema.source is not Source.NONE or not rows.payload_length.any():
        return None
    return infer(schema, batch.buffer, rows.payload_offset, rows.payload_length.astype(np.int64)) or as_bytes(schema)


def _mapped(ids: Array, new: Callable[[int], int]) -> Array:
    """Ids of one table as those of another; 0 stays 0."""
    if not ids.any():
        return ids
    distinct, which = np.unique(ids, return_inverse=True)
    made: Array = np.array([new(number) if number else 0 for number in distinct.tolist()], np.uint32)[which]
    return made


_COLUMNS = tuple(HeaderColumns.__dataclass_fields__)
_ROW_BYTES = 70
