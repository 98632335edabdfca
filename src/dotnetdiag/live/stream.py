"""Windows of events out of a session's bytes, in the caller's own thread: none is dropped, and a slow caller has the target's buffer fill.

:class:`live.events.LiveEvents` is for those who look at what happens; this is for those who need all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.events import EventSchema, resolve
from dotnetdiag.live.windows import WindowMaker
from dotnetdiag.nettrace import EventBatch, Metadata, Reader
from dotnetdiag.table import Losses
from dotnetdiag.trace.table import EventTable

MOST_BYTES = 2 << 20
"""Of payload that are made one window while more keeps coming. Each window costs about as much as half of this."""


class WindowStream:
    """Fed with bytes it gives windows of the events whose type ``wants`` accepts. What came together is in the order of time."""

    def __init__(self, wants: Callable[[EventSchema], bool]) -> None:
        self._wants = wants
        self._reader = Reader()
        self._maker = WindowMaker(losses_now=lambda: self.losses)
        self._numbers: dict[Metadata, int] = {}
        self._schemas: dict[int, EventSchema | None] = {}
        self._waiting_bytes = 0

    @property
    def losses(self) -> Losses:
        """What the session has lost so far, and what of its stream was damaged."""
        lost = self._reader.lost
        return Losses(lost=lost.total if lost.known else None, damage=self._reader.damage)

    @property
    def complete(self) -> bool:
        """Whether the stream has come to its end."""
        return self._reader.complete

    @property
    def has_begun(self) -> bool:
        """Whether the head of the stream has come: the session runs."""
        return self._reader.info is not None

    def feed(self, data: bytes | memoryview) -> Iterator[EventTable]:
        """Windows of what has come, once there is enough for one; they must all be taken."""
        for batch in self._reader.feed(data):
            self._take(batch)
            if self._maker.full or self._waiting_bytes > MOST_BYTES:
                yield from self.flush()

    def borrow(self, memory: memoryview, start: int, end: int) -> Iterator[EventTable]:
        """As :meth:`feed` of ``memory[start:end]``, without a copy of it: windows of all of it, good until somebody writes there. What stands before
        ``start`` is overwritten.
        """
        yield from self.flush()  # what waits is of other bytes
        for batch in self._reader.borrow(memory, start, end):
            self._take(batch, shares=True)
            if self._maker.full:
                yield from self.flush()
        yield from self.flush()

    @property
    def waiting(self) -> int:
        """Events that wait for :meth:`flush`, to be called when nothing has come for a moment."""
        return len(self._maker)

    def close(self) -> Iterator[EventTable]:
        """What is left when the stream has ended."""
        for batch in self._reader.close():
            self._take(batch)
        yield from self.flush()

    def flush(self) -> Iterator[EventTable]:
        """Windows of what waits."""
        self._waiting_bytes = 0
        for window, _ in self._maker.make():
            yield window

    def _take(self, batch: EventBatch, *, shares: bool = False) -> None:
        """Rows of the types asked for, under numbers that stay the same for the whole session."""
        distinct, which = np.unique(batch.headers.metadata_id, return_inverse=True)
        numbers, schemas = [], {}
        for metadata_id in distinct.tolist():
            known = batch.metadata.get(metadata_id)
            if known is None:  # a damaged stream: events of a record that is gone
                numbers.append(0)
                continue
            number = self._numbers.setdefault(known, len(self._numbers) + 1)
            schema = self._schema(number, known)
            numbers.append(0 if schema is None else number)
            if schema is not None:
                schemas[number] = schema
        own = np.array(numbers, np.uint32)[which]
        wanted = own != 0
        if not wanted.any():
            return
        rows = replace(batch.headers[wanted], metadata_id=own[wanted])
        self._waiting_bytes += int(rows.payload_length.sum(dtype=np.int64))
        version_6 = self._reader.format.startswith("nettrace 6")
        threads = self._reader.threads if version_6 else None
        self._maker.add(batch, rows, schemas, self._reader.info, threads, shares=shares)

    def _schema(self, number: int, known: Metadata) -> EventSchema | None:
        if number not in self._schemas:
            info = self._reader.info
            schema = resolve(known, 8 if info is None else info.pointer_size)
            self._schemas[number] = schema if self._wants(schema) else None
        return self._schemas[number]
