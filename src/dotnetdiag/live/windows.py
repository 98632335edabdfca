"""What has arrived, made into tables that stand by themselves: in time order, holding nothing of the stream.

A runtime empties its buffers about every 100 ms, and writes what it has thread by thread. What came together is one
window, sorted by time, as long as it is not too large for that: a flood is cut where it must be, and then the events of
one thread may stand before older ones of another.

Who needs all windows in the order of time has them settled: events are held until nothing older can follow, by the rule that is that of
files (``trace.settling``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
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
from dotnetdiag.trace.gaps import Gaps
from dotnetdiag.trace.header import HeaderMeaning, overrides
from dotnetdiag.trace.settling import Settling
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
HELD_ROWS = 1 << 18
HELD_BYTES = 64 << 20
"""Of events that are not settled no more are held: a stream that never says so is given out as it comes, about."""
HELD_S = 5
"""So much older than the latest, events are given out whatever the stream says: a runtime empties its buffers every 100 ms."""


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
    gaps_now: Callable[[], Gaps] = Gaps
    keeps_stacks: bool = True

    @property
    def stacks_read(self) -> StackTable:
        """All of them."""
        return self.stacks

    @property
    def losses(self) -> Losses:
        """What the session has lost until now."""
        return self.losses_now()

    @property
    def gaps(self) -> Gaps:
        """When that was, as far as it is known."""
        return self.gaps_now()

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
    their addresses stand for, ``losses_now`` what the session has lost, and ``gaps_now`` when. ``settled``: windows follow each other in time, and
    ids of activities mean the same in all; each batch is to be given to :meth:`see` then.
    """

    def __init__(
        self,
        *,
        stacks: bool = False,
        names: Names | None = None,
        symbols_now: Callable[[], Symbols] = no_symbols,
        losses_now: Callable[[], Losses] = Losses,
        gaps_now: Callable[[], Gaps] = Gaps,
        settled: bool = False,
    ) -> None:
        self._stacks_wanted, self._names, self._symbols_now = stacks, names, symbols_now
        self._losses_now, self._gaps_now = losses_now, gaps_now
        self._meaning: HeaderMeaning | None = None
        self._settling = Settling() if settled else None
        self._guids = GuidTable()
        self._clear()

    def _clear(self) -> None:
        self._headers: list[HeaderColumns] = []
        self._payloads: list[Array] = []
        self._schemas: dict[int, EventSchema] = {}
        if self._settling is None:
            self._guids = GuidTable()
        self._labels: list[LabelList] = [LabelList()]
        self._stacks = StackTable()
        self._rows = self._size = 0
        self._held = self._held_bytes = 0
        self._has_new = False

    def __len__(self) -> int:
        """Rows that wait."""
        return self._rows

    @property
    def has_new(self) -> bool:
        """Whether rows were added since windows were made."""
        return self._has_new

    @property
    def full(self) -> bool:
        """Whether it is time to make windows."""
        return self._rows >= max(SORTED_ROWS, 2 * self._held) or self._size >= max(SORTED_BYTES, 2 * self._held_bytes)

    def see(self, batch: EventBatch) -> bool:
        """Take note of what a batch, whole, says of the order of time, before rows of it are added. Whether all that waits is to be made
        windows first.
        """
        return self._settling is not None and self._settling.see(batch) is not None and self._rows > 0

    def add(
        self,
        batch: EventBatch,
        rows: HeaderColumns,
        schemas: Mapping[int, EventSchema],
        info: TraceInfo | None,
        threads: Mapping[int, ThreadInfo] | None,
        *,
        shares: bool = False,
    ) -> None:
        """Keep rows of a batch, whose metadata ids are keys of ``schemas``; of the batch at most its bytes are held afterwards, where
        these rows have most of them, or it ``shares`` them until windows are made.

        ``threads`` are the thread rows of version 6, None in other formats.
        """
        if self._meaning is None or threads is not None:
            self._meaning = HeaderMeaning(info, dict(threads or {}), thread_rows=threads is not None)
        self._append(batch.buffer, rows, batch.guids, batch.labels, batch.stacks, shares=shares)
        self._schemas.update(schemas)

    def _append(
        self,
        buffer: Array,
        rows: HeaderColumns,
        guids: GuidTable,
        labels: Sequence[LabelList],
        stacks: StackTable,
        *,
        shares: bool = False,
    ) -> None:
        offsets, data, at = rows.payload_offset, buffer, self._size
        if self._payloads and buffer is self._payloads[-1]:
            at -= len(buffer)  # rows of the same bytes as those before
        elif not shares:
            offsets, data = _payloads(buffer, rows)
        own = replace(
            rows[:],
            payload_offset=offsets + at,
            activity=self._guid_ids(guids, rows.activity),
            related=self._guid_ids(guids, rows.related),
            label_list=self._label_ids(labels, rows.label_list),
            stack=self._stack_ids(stacks, rows.stack),
        )
        self._headers.append(HeaderColumns(*(np.array(getattr(own, name)) for name in _COLUMNS)))
        if at == self._size:
            self._payloads.append(data)
            self._size += len(data)
        self._rows += len(rows)
        self._has_new = True

    def _guid_ids(self, guids: GuidTable, ids: Array) -> Array:
        if guids is self._guids:
            return ids
        return self._guids.intern_many(guids.bytes().reshape(-1, 16)[ids]) if ids.any() else ids

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
        return self._stacks.intern_those(stacks, ids)

    def make_settled(self) -> list[tuple[EventTable, int]]:
        """As :meth:`make`; of a maker of settled windows, what is settled by now. The others wait on."""
        if self._settling is None:
            return self.make()
        if not self._has_new:
            return []
        assert self._meaning is not None
        headers = HeaderColumns.concatenate(self._headers)
        self._headers = [headers]
        most = min(HELD_ROWS, HELD_BYTES * self._rows // max(self._size, 1))
        too_old = int(headers.time.max()) - HELD_S * self._meaning.info.frequency
        count = int(np.count_nonzero(headers.time < max(self._settling.until, too_old)))
        made = self.make(max(count, self._rows - most // 2 if self._rows - count > most else 0))
        self._held, self._held_bytes, self._has_new = self._rows, self._size, False
        return made

    def make(self, count: int | None = None) -> list[tuple[EventTable, int]]:
        """All rows, or the first ``count`` of them in time, in windows of at most ``WINDOW_ROWS``, and about how many bytes each holds. The
        others wait on, and otherwise it begins anew.
        """
        count = self._rows if count is None else count
        if not count:
            return []
        headers = HeaderColumns.concatenate(self._headers)
        headers = headers[sort_order(headers) if self._settling is None else self._settling.order(headers)]
        context, schemas, labels = self._context(), self._schemas, self._labels
        row_bytes = _ROW_BYTES + (self._size + self._stacks.size_bytes) / self._rows
        rest = headers[count:]
        self._clear()
        if len(rest):
            there = np.unique(rest.metadata_id).tolist()
            self._schemas = {number: schemas[number] for number in there}
            self._append(context.buffer, rest, context.guids, labels, context.stacks)
        elif count <= WINDOW_ROWS:
            return [(EventTable(context, schemas, headers), int(count * row_bytes))]
        made = []
        for first in range(0, count, WINDOW_ROWS):
            piece = _piece(context, schemas, headers[first : min(first + WINDOW_ROWS, count)])
            made.append((piece, int(len(piece) * row_bytes)))
        return made

    def nothing(self) -> EventTable:
        """A window without events."""
        return EventTable(self._context(), {}, HeaderColumns.allocate(0))

    def _context(self) -> LiveContext:
        """That of all rows that wait."""
        payloads = self._payloads
        return LiveContext(
            buffer=payloads[0] if len(payloads) == 1 else np.concatenate([np.zeros(0, np.uint8), *payloads]),
            meaning=self._meaning or HeaderMeaning(None, {}, thread_rows=False),
            guids=self._guids,
            overrides=overrides(self._labels) if len(self._labels) > 1 else {},
            stacks=self._stacks,
            names=self._names,
            symbols_now=self._symbols_now,
            losses_now=self._losses_now,
            gaps_now=self._gaps_now,
            keeps_stacks=self._stacks_wanted,
            recording=self,
        )


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
