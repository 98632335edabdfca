"""A trace read as a stream, pushed in piece by piece; :mod:`.scanning` reads whole files. Both give the same events.

Damage is recorded, not raised: what is whole is delivered, and ``broke`` says what was found first. With
``tolerant=False`` it is raised as FormatError when everything before it was delivered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.blocks import PLAIN, Block, Framer
from dotnetdiag.nettrace.columns import EventBatch
from dotnetdiag.nettrace.constants import GUIDS_LIMIT, STACK_BYTES_LIMIT, STREAM_BLOCK_LIMIT, BlockKind
from dotnetdiag.nettrace.findings import Findings
from dotnetdiag.nettrace.group import (
    Arenas,
    EventRun,
    decode_group,
    settle_group,
)
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.stacks import StackTable
from dotnetdiag.nettrace.state import TraceState

BARRIERS = (BlockKind.SEQUENCE_POINT, BlockKind.REMOVE_THREAD, BlockKind.TRACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a trace ended. ``complete``: nothing was damaged and the end marker was there.

    ``broke`` is one line that says what was wrong first, ``offset`` where; both None when nothing was. ``batches``
    are the events that only the end of the data made available.
    """

    complete: bool
    broke: str | None
    offset: int | None
    batches: list[EventBatch]


class Reader(Findings):
    """Reads a stream of any format: ``feed`` bytes as they come, get batches of events; ``close`` gives the verdict.

    Memory is bounded: it holds one unfinished block (64 MB at most) and the tables of metadata and stacks, and the
    latter are replaced when they grow (:attr:`EventBatch.stacks` and :attr:`EventBatch.guids` are those its ids
    belong to).
    """

    def __init__(self, *, tolerant: bool = True, block_limit: int = STREAM_BLOCK_LIMIT) -> None:
        self._tolerant = tolerant
        self._state = TraceState(keep=False)
        self._framer = Framer(limit=block_limit)
        self._data = bytearray()
        self._base = 0
        self._need = 1
        self._closed = False
        self._arenas = Arenas()

    def _found(self) -> TraceState:
        return self._state

    @property
    def segment(self) -> int:
        """Sequence points seen."""
        return self._state.segment

    @property
    def position(self) -> int:
        """Bytes taken so far that belong to finished blocks."""
        return self._framer.position

    @property
    def complete(self) -> bool:
        """True once the end marker was seen and nothing was damaged before it."""
        return self._framer.done and self._state.broke is None

    def feed(self, data: bytes | bytearray | memoryview) -> list[EventBatch]:
        """Take more bytes, of any length; returns the batches of all blocks they completed (perhaps none).

        Behind the end marker, or behind what broke the framing, bytes are dropped.
        """
        if self._closed:
            raise UsageError("the reader is closed")
        if self._framer.done or self._framer.broke is not None:
            return []
        self._data += data
        if len(self._data) < self._need:
            return []
        return self._drain(final=False)

    def close(self) -> Verdict:
        """No more bytes come. Delivers what is whole in a cut block; the reader's attributes stay readable."""
        batches = [] if self._closed else self._drain(final=True)
        self._closed = True
        self._data = bytearray()
        return Verdict(complete=self.complete, broke=self.broke, offset=self.broke_offset, batches=batches)

    def _drain(self, *, final: bool) -> list[EventBatch]:
        batches: list[EventBatch] = []
        group: list[EventRun] = []
        framer, state, limit = self._framer, self._state, self._arenas.group_bytes
        with memoryview(self._data) as view:
            while True:
                block = framer.next(view, self._base, final=final)
                if framer.format and not state.format:
                    state.opened(framer.format, framer.container, framer.major)
                if group and (
                    isinstance(block, int) or block.kind in BARRIERS or block.end - group[0].blocks[0].start > limit
                ):
                    batches += self._decode(group, view)
                    group = []
                if isinstance(block, int):
                    break
                if block.kind is BlockKind.EVENT:
                    job = state.event_job(block, view, self._base)
                    if job is not None:
                        group.append(EventRun.single(block, job, state.segment, state.moved_threads()))
                else:
                    self._take(block, view)
        if framer.broke is not None:
            state.stopped(framer.broke)
        if framer.done or framer.broke is not None:
            self._data = bytearray()
        else:
            del self._data[: framer.position - self._base]
        self._base = framer.position
        self._need = max(block, 1)
        if not self._tolerant and state.broke is not None and not batches:
            raise state.broke
        return batches

    def _take(self, block: Block, view: memoryview) -> None:
        state, before = self._state, self._state.segment
        start = block.start - self._base
        with memoryview(bytes(view[start : start + block.present])) as content:
            state.take(block, content, block.start)
        if state.segment != before and state.stacks.size_bytes > STACK_BYTES_LIMIT:
            state.stacks = StackTable(state.stacks.pointer_size)

    def _decode(self, group: list[EventRun], view: memoryview) -> list[EventBatch]:
        """One batch of blocks between which nothing happened that counts."""
        state = self._state
        if len(state.guids) > GUIDS_LIMIT and state.container != PLAIN:
            state.guids = GuidTable()
        first, last = group[0].blocks[0], group[-1].blocks[0]
        content = bytes(view[first.start - self._base : last.start + last.present - self._base])
        data = memoryview(content)
        made = decode_group(group, data, first.start, self._arenas)
        headers, runs, _ = settle_group(state, group, made, data, first.start)
        state.account(headers, runs, state.segment)
        if not len(headers):
            return []
        batch = EventBatch(
            buffer=np.frombuffer(content, np.uint8),
            offset=first.start,
            headers=headers,
            segment=state.segment,
            metadata=state.metadata,
            stacks=state.stacks,
            guids=state.guids,
            labels=state.labels,
        )
        return [batch]
