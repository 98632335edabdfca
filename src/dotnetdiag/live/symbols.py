"""What addresses stand for in a session that runs: from its own events, and from the rundown of another session.

A runtime announces the methods that it compiles from now on (``Method/LoadVerbose``), and tells of those that are there at the end of a
session only, in its rundown. Of precompiled code that is first called later it tells in no other way.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.events import EventSchema
from dotnetdiag.events.kernels import gather
from dotnetdiag.nettrace import HeaderColumns, Metadata, TraceInfo
from dotnetdiag.trace.symbol_events import SymbolHeaders, symbol_events
from dotnetdiag.trace.symbols import Symbols, build_symbols
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

LIMIT_BYTES = 64 << 20
"""Of events that tell of methods: some 300,000. The oldest are forgotten."""
_PART_BYTES = 1 << 20
_ROW_BYTES = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Events of methods and modules, with copies of their payloads."""

    headers: HeaderColumns
    payload: Array

    @property
    def size_bytes(self) -> int:
        return len(self.payload) + _ROW_BYTES * len(self.headers)


class LiveSymbols:
    """Grows while one thread adds windows, and another asks. Symbols that were given out stay as they are."""

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._types: dict[tuple[str, int, int], int] = {}
        self._metadata: dict[int, Metadata] = {}
        self._rundown: _Part | None = None
        self._parts: deque[_Part] = deque()
        self._size = 0
        self._info: TraceInfo | None = None
        self._symbols: Symbols | None = None
        self.forgotten = 0
        """Events that there was no room for."""

    def add(self, window: EventTable) -> None:
        """Take what a window of the session says of methods; nothing of the window is held."""
        part = self._part(window)
        if part is None:
            return
        with self._lock:
            self._symbols = None
            self._size += part.size_bytes
            if self._parts and self._parts[-1].size_bytes < _PART_BYTES:
                part = _joined([self._parts.pop(), part])
            self._parts.append(part)
            while self._size > self._limit and len(self._parts) > 1:
                old = self._parts.popleft()
                self._size -= old.size_bytes
                self.forgotten += len(old.headers)

    def add_rundown(self, recording: Trace) -> None:
        """Take what a short session told at its end, in the place of an earlier one. What the session itself said before that began is
        in it, as far as it is still true.
        """
        parts = [part for part in map(self._part, recording.windows(tells_of_methods)) if part is not None]
        if not parts:
            return
        begin = min(int(part.headers.time.min()) for part in parts)
        with self._lock:
            self._symbols = None
            self._rundown = _joined(parts)
            while self._parts and int(self._parts[0].headers.time.max()) < begin:
                self._size -= self._parts.popleft().size_bytes

    def _part(self, window: EventTable) -> _Part | None:
        """The events of a window that tell of methods, under type numbers of our own."""
        number_of = {number: own for number, schema in window.schemas.items() if (own := self._number(schema))}
        headers = window.headers
        rows = np.flatnonzero(np.isin(headers.metadata_id, list(number_of)))
        if not len(rows):
            return None
        some = headers[rows]
        offsets, payload = gather(window.trace.buffer, some.payload_offset, some.payload_length.astype(np.int64))
        ids = np.array([number_of[number] for number in some.metadata_id.tolist()], np.uint32)
        self._info = window.trace.meaning.info
        return _Part(headers=replace(some, metadata_id=ids, payload_offset=offsets[:-1]), payload=payload)

    def _number(self, schema: EventSchema) -> int:
        """The number of a type whose events tell of methods; 0 for others."""
        key = schema.provider, schema.event_id, schema.version
        with self._lock:
            number = self._types.get(key)
            if number is None:
                number = len(self._metadata) + 1 if tells_of_methods(schema) else 0
                self._types[key] = number
                if number:
                    self._metadata[number] = _metadata(number, schema)
        return number

    def now(self) -> Symbols:
        """By all that was added so far; the same as before when nothing was."""
        with self._lock:
            if self._symbols is None:
                whole = _joined([*([self._rundown] if self._rundown else []), *self._parts])
                self._symbols = build_symbols(
                    SymbolHeaders(headers=whole.headers, metadata=dict(self._metadata), threads={}, info=self._info),
                    whole.payload,
                )
            return self._symbols


def _metadata(number: int, schema: EventSchema) -> Metadata:
    return Metadata(
        metadata_id=number,
        provider=schema.provider,
        event_id=schema.event_id,
        name=schema.manifest_name,
        version=schema.version,
    )


def tells_of_methods(schema: EventSchema) -> bool:
    """Whether events of this type say something of addresses."""
    return bool(symbol_events({1: _metadata(1, schema)}))


def _joined(parts: list[_Part]) -> _Part:
    starts = np.cumsum([0, *(len(part.payload) for part in parts)])[: len(parts)]
    headers = [
        replace(part.headers, payload_offset=part.headers.payload_offset + start)
        for part, start in zip(parts, starts.tolist(), strict=True)
    ]
    return _Part(
        headers=HeaderColumns.concatenate(headers),
        payload=np.concatenate([np.zeros(0, np.uint8), *(part.payload for part in parts)]),
    )
