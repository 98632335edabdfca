"""A trace read as a stream, pushed in piece by piece; :mod:`.scanning` reads whole files. Both give the same events.

Damage is recorded, not raised: what is whole is delivered, and ``damage`` says what was found first. With
``tolerant=False`` it is raised as FormatError when everything before it was delivered.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace.batch import EventBatch
from dotnetdiag.nettrace.block import BlockRun
from dotnetdiag.nettrace.buffers import Buffer, flat_view
from dotnetdiag.nettrace.constants import STREAM_BLOCK_LIMIT, BlockKind
from dotnetdiag.nettrace.decode import Lender, decode
from dotnetdiag.nettrace.findings import Findings
from dotnetdiag.nettrace.framing import Framer
from dotnetdiag.nettrace.group import Gathering, Group
from dotnetdiag.nettrace.piece import Place
from dotnetdiag.nettrace.resolving import resolve
from dotnetdiag.nettrace.state import TraceState

BARRIERS = (BlockKind.SEQUENCE_POINT, BlockKind.THREAD, BlockKind.REMOVE_THREAD, BlockKind.TRACE)


class Batches:
    """The batches of one call of a reader, decoded when they are asked for. Those that nobody asks for are passed over."""

    __slots__ = ("__weakref__", "_decoded", "_source")

    def __init__(self, source: Iterator[EventBatch]) -> None:
        self._source, self._decoded = source, deque[EventBatch]()

    def decode(self, count: int | None = None) -> None:
        """Decode so many more, or all, before they are asked for."""
        while count is None or len(self._decoded) < count:
            batch = next(self._source, None)
            if batch is None:
                break
            self._decoded.append(batch)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> EventBatch:
        return self._decoded.popleft() if self._decoded else next(self._source)


class Reader(Findings):
    """Reads a stream of any format: ``feed`` bytes as they come and iterate over the batches of events; ``close`` in the end.

    Memory is bounded: it holds one unfinished block (64 MB at most) and the tables of metadata and stacks, and the
    latter are replaced when they grow (:attr:`EventBatch.stacks` and :attr:`EventBatch.guids` are those its ids
    belong to). With ``tolerant=False`` the first damage is raised as FormatError when what
    is whole before it was delivered: by the iteration that comes to it, or by the next ``feed`` or ``close`` when nobody iterates, and again
    by each call that reads on. What it has found (``lost``, ``damage``, ``complete`` …) is that of the batches given so far, and when
    nobody iterates any more, of all.
    """

    def __init__(self, *, tolerant: bool = True, block_limit: int = STREAM_BLOCK_LIMIT) -> None:
        if not isinstance(block_limit, int) or block_limit < 1:
            raise UsageError(f"a limit of {block_limit!r} bytes for a block")
        self._tolerant = tolerant
        self._state = TraceState(keep=False)
        self._framer = Framer(limit=block_limit)
        self._data = bytearray()
        self._base = 0
        self._need = 1
        self._closed = False
        self._lender = Lender()
        self._source: Iterator[EventBatch] = iter(())
        self._latest: weakref.ref[Batches] | None = None

    def _found(self) -> TraceState:
        if self._latest is not None and self._latest() is None:
            with suppress(FormatError):  # of a strict reader: raised by the next `feed` or `close`
                self._finish()
        return self._state

    @property
    def segment(self) -> int:
        """Sequence points seen."""
        return self._found().segment

    @property
    def position(self) -> int:
        """Bytes taken so far that belong to finished blocks."""
        self._found()
        return self._framer.position

    @property
    def complete(self) -> bool:
        """True once the end marker was seen and nothing was damaged before it."""
        return self.damage is None and self._framer.done

    def feed(self, data: Buffer) -> Batches:
        """Take more bytes, of any length; gives the batches of all blocks they completed (perhaps none).

        Behind the end marker, which is damage, or behind damage to the framing, bytes are dropped. Anything that supports the buffer
        protocol is read as its bytes.
        """
        view = flat_view(data)
        if self._closed:
            raise UsageError("the reader is closed")
        self._finish()
        if self._framer.done or self._framer.error is not None:
            return self._batches(self._go_on(len(view)))
        self._data += view
        return self._batches(self._read() if len(self._data) >= self._need else iter(()))

    def borrow(self, memory: memoryview, start: int, end: int) -> Batches:
        """As :meth:`feed` of ``memory[start:end]``, without a copy of it: the batches, all of which are to be taken, are good until somebody writes
        there. What stands before ``start`` is overwritten, by what is left of the bytes before.
        """
        if not self._closed:
            self._finish()
        begin = start - len(self._data)
        is_over = self._closed or self._framer.done or self._framer.error is not None
        if is_over or begin < 0 or end - begin < self._need:
            return self.feed(memory[start:end])
        memory[begin:start] = self._data
        self._data = bytearray()
        return self._batches(self._read(memory[begin:end]))

    def close(self) -> Batches:
        """No more bytes come. Gives what is whole in a cut block; the reader's attributes stay readable."""
        self._finish()
        source: Iterator[EventBatch] = iter(()) if self._closed else self._read(final=True)
        self._closed = True
        return self._batches(source)

    def _batches(self, source: Iterator[EventBatch]) -> Batches:
        """The first is decoded at once: who expects none need not iterate."""
        self._source = self._checked(source)
        batches = Batches(self._source)
        self._latest = weakref.ref(batches)
        batches.decode(1)
        return batches

    def _checked(self, source: Iterator[EventBatch]) -> Iterator[EventBatch]:
        yield from source
        if not self._tolerant and self._state.remarks.error is not None:
            raise self._state.remarks.error

    def _finish(self) -> None:
        """What the call before has left is read; its batches are kept for who still holds them."""
        batches = None if self._latest is None else self._latest()
        self._latest = None
        if batches is not None:
            batches.decode()
        for _ in self._source:
            pass

    def _read(self, borrowed: memoryview | None = None, *, final: bool = False) -> Iterator[EventBatch]:
        """The batches of the bytes that are held, or of those that are ``borrowed``."""
        framer, state = self._framer, self._state
        gathering = Gathering(lambda: self._lender.group_bytes)
        with memoryview(self._data if borrowed is None else borrowed) as view:
            whole = None if borrowed is None else np.frombuffer(borrowed, np.uint8)
            decode = partial(self._decode, view=view, whole=whole)
            while True:
                part = framer.usual_run(view, self._base) or framer.next(view, self._base, final=final)
                if framer.container is not None and not state.format:
                    state.opened(framer.format, framer.container.kind, framer.container.major)
                if isinstance(part, int):
                    break
                if isinstance(part, BlockRun) or part.kind is BlockKind.EVENT:
                    for run in state.event_runs(part, view, self._base):
                        for runs in gathering.add(run):
                            yield from decode(Group(runs))
                    continue
                if part.kind in BARRIERS:
                    yield from decode(Group(gathering.take()))
                state.take(part, view, self._base)
                if not gathering.runs:
                    state.threads.moves.advance(state.threads.moves.position)
            yield from decode(Group(gathering.take()))
            framer.ended_at(self._base + len(view))
            left = bytearray() if borrowed is None else bytearray(view[framer.position - self._base :])
        if framer.error is not None:
            state.remarks.stopped(framer.error)
        if final or framer.done or framer.error is not None:
            self._data = bytearray()
        elif borrowed is None:
            del self._data[: framer.position - self._base]
        else:
            self._data = left
        self._base = framer.position
        self._need = max(part, 1)

    def _go_on(self, count: int) -> Iterator[EventBatch]:
        """Bytes came that nobody reads."""
        self._framer.ended_at(self._framer.position + count)
        if self._framer.error is not None:
            self._state.remarks.stopped(self._framer.error)
        yield from ()

    def _decode(self, group: Group, *, view: memoryview, whole: npt.NDArray[np.uint8] | None) -> Iterator[EventBatch]:
        """Batches of blocks between which nothing happened that counts; with copies of their payloads, or in the ``whole`` that is borrowed."""
        state, lender = self._state, self._lender
        place = Place() if group.runs else None
        while place is not None:
            state.renew_guids()
            piece = decode(group, view, self._base, lender, place)
            resolved = resolve(state, group, piece, view, self._base)
            headers, place = resolved.headers, piece.remainder
            state.account(headers, resolved.jumps, state.segment)
            if len(headers):
                start, content = 0, whole
                if content is None:
                    start = int(headers.payload_offset[0])
                    end = int(headers.payload_offset[-1]) + int(headers.payload_length[-1])
                    content = np.frombuffer(bytes(view[start:end]), np.uint8)
                    headers.payload_offset[:] -= start
                yield EventBatch(
                    buffer=content,
                    offset=start + self._base,
                    headers=headers,
                    segment=state.segment,
                    metadata=state.metadata.records,
                    schemas=state.metadata.schemas,
                    stacks=state.stacks,
                    guids=state.guids,
                    labels=state.labels.lists,
                )
            del piece, resolved, headers
