"""Traces read: pushed in piece by piece (:class:`Reader`), or from a buffer that holds the whole file (:func:`read`).

Both give the same events. Damage is recorded, not raised: what is whole is delivered, and ``broke`` says what was
found first. With ``tolerant=False`` it is raised as FormatError when everything before it was delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.blocks import Block, Framer
from dotnetdiag.nettrace.columns import EventBatch, HeaderColumns
from dotnetdiag.nettrace.constants import GUIDS_LIMIT, STACK_BYTES_LIMIT, STREAM_BLOCK_LIMIT, BlockKind
from dotnetdiag.nettrace.decode import COMPRESSED_FORMS, NO_TALLY, Checked, Form, Job, decode, fill, split
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.info import TraceInfo
from dotnetdiag.nettrace.kernels import DETAIL, GUIDS, KERNELS, PROBLEM, ROWS, RUNS, STOP, TABLE_WIDTH, WIDE
from dotnetdiag.nettrace.labels import LabelList
from dotnetdiag.nettrace.loss import LossAccount
from dotnetdiag.nettrace.metadata import Metadata
from dotnetdiag.nettrace.order import sort_order
from dotnetdiag.nettrace.stacks import StackTable
from dotnetdiag.nettrace.state import TraceState, move_threads
from dotnetdiag.nettrace.threads import ThreadInfo
from dotnetdiag.wire import Cursor

Buffer = bytes | bytearray | memoryview | npt.NDArray[np.uint8]
_T = TypeVar("_T")
_R = TypeVar("_R")
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""``map`` itself, or the ``map`` of a thread pool: kernels release the GIL."""
SMALLEST_SHARE = 1 << 20
"""Bytes of blocks below which a second thread does not pay."""


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


class Reader:
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

    @property
    def format(self) -> str:
        """``NetPerf 3``, ``nettrace 4`` (which includes 5), ``nettrace 6.0``; empty until it is known."""
        return self._state.format

    @property
    def info(self) -> TraceInfo | None:
        """The Trace object, once it was seen."""
        return self._state.info

    @property
    def metadata(self) -> Mapping[int, Metadata]:
        """Metadata valid now, by id."""
        return self._state.metadata

    @property
    def stacks(self) -> StackTable:
        """The table of the latest batch."""
        return self._state.stacks

    @property
    def guids(self) -> GuidTable:
        """The table of the latest batch."""
        return self._state.guids

    @property
    def labels(self) -> Sequence[LabelList]:
        """Label lists of version 6; index 0 is the empty one."""
        return self._state.labels

    @property
    def threads(self) -> Mapping[int, ThreadInfo]:
        """Thread rows of version 6 by index, removed ones too (until a sequence point drops all)."""
        return self._state.threads

    @property
    def lost(self) -> LossAccount:
        """Lost events so far."""
        return self._state.lost

    @property
    def skipped(self) -> Counter[str]:
        """Blocks of unknown kinds, by name."""
        return self._state.skipped

    @property
    def warnings(self) -> list[str]:
        """Oddities, one line each."""
        return self._state.warnings

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

    @property
    def broke(self) -> str | None:
        """What was wrong first, with its offset."""
        return None if self._state.broke is None else str(self._state.broke)

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
        error = self._state.broke
        return Verdict(
            complete=self.complete, broke=self.broke, offset=None if error is None else error.offset, batches=batches
        )

    def _drain(self, *, final: bool) -> list[EventBatch]:
        batches: list[EventBatch] = []
        framer, state = self._framer, self._state
        with memoryview(self._data) as view:
            while True:
                found = framer.next(view, self._base, final=final)
                if framer.format and not state.format:
                    state.opened(framer.format, framer.container, framer.major)
                if isinstance(found, int):
                    break
                start = found.start - self._base
                content = bytes(view[start : start + found.present])
                batch = self._block(found, memoryview(content))
                if batch is not None and len(batch):
                    batches.append(batch)
        if framer.broke is not None:
            state.stopped(framer.broke)
        if framer.done or framer.broke is not None:
            self._data = bytearray()
        else:
            del self._data[: framer.position - self._base]
        self._base = framer.position
        self._need = max(found, 1)
        if not self._tolerant and state.broke is not None and not batches:
            raise state.broke
        return batches

    def _block(self, block: Block, content: memoryview) -> EventBatch | None:
        state = self._state
        if block.kind is not BlockKind.EVENT:
            before = state.segment
            state.take(block, content, block.start)
            if state.segment != before and state.stacks.size_bytes > STACK_BYTES_LIMIT:
                state.stacks = StackTable(state.stacks.pointer_size)
            return None
        if len(state.guids) > GUIDS_LIMIT:
            state.guids = GuidTable()
        cursor = Cursor(content, base=block.start, where=block.name)
        job = state.event_job(block, cursor)
        if job is None:
            return None
        headers = _decode_one(state, block, job, content, block.start, state.moved_threads())
        return EventBatch(
            buffer=np.frombuffer(content, np.uint8),
            offset=block.start,
            headers=headers,
            segment=state.segment,
            metadata=state.metadata,
            stacks=state.stacks,
            guids=state.guids,
            labels=state.labels,
        )


def _decode_one(
    state: TraceState, block: Block, job: Job, data: memoryview, base: int, moved: dict[int, int] | None
) -> HeaderColumns:
    found = decode(data, job)
    headers = found.headers
    if found.frames is not None:
        headers = state.netperf(block, data, base, found)
    strays = state.strays(headers, job, found.strays)
    state.check_counts(block, found.problem, found.stop + base, found.detail, len(found.headers), strays)
    headers = state.settle(data, headers, found.guids)
    move_threads(headers, moved)
    state.account(headers, found.runs, state.segment)
    return headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """A whole file read. ``headers`` has a row per event in file order; payload offsets are absolute in ``buffer``.

    ``segment_starts`` are the rows where segments begin (one for each sequence point, and 0). ``blocks`` lists every
    block; see :class:`Reader` for the rest.
    """

    buffer: npt.NDArray[np.uint8]
    format: str
    info: TraceInfo | None
    headers: HeaderColumns
    segment_starts: npt.NDArray[np.int64]
    metadata: Mapping[int, Metadata]
    stacks: StackTable
    threads: Mapping[int, ThreadInfo]
    guids: GuidTable
    labels: Sequence[LabelList]
    lost: LossAccount
    skipped: Counter[str]
    warnings: list[str]
    complete: bool
    broke: str | None
    broke_offset: int | None
    blocks: Sequence[Block]
    sequence_points: Sequence[tuple[int, bool, Sequence[tuple[int, int]]]]
    """(time in ticks, all threads forgotten, (thread, last attempted number) ...) of each sequence point"""

    def __len__(self) -> int:
        return len(self.headers)

    def payload(self, row: int) -> bytes:
        """The payload of one event, copied."""
        start = int(self.headers.payload_offset[row])
        return self.buffer[start : start + int(self.headers.payload_length[row])].tobytes()

    def order(self) -> npt.NDArray[np.int64]:
        """Rows in the order in which the events happened (nettrace.md §8)."""
        return sort_order(self.headers, self.segment_starts, in_file_order=self.format.startswith("NetPerf"))


@dataclass(frozen=True, slots=True)
class _EventBlock:
    block: Block
    job: Job
    segment: int
    moved: dict[int, int] | None


class Scan:
    """A whole file, indexed: blocks are known, events are decoded when asked for. Made by :func:`scan`.

    The buffer is not copied and must stay as it is.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._view = _flat_view(buffer)
        self._state = TraceState(keep=True)
        self._events: list[_EventBlock] = []
        self._stacks_read = False
        self.blocks: list[Block] = []
        """Every block in file order, unknown kinds included."""
        self._framer = Framer()
        while isinstance(block := self._framer.next(self._view, 0, final=True), Block):
            self.blocks.append(block)
        self._index(stacks=False)

    def _index(self, *, stacks: bool) -> None:
        """Read all blocks but the events."""
        framer = self._framer
        state = self._state = TraceState(keep=True)
        state.postponed = []
        self._events = []
        if framer.format:
            state.opened(framer.format, framer.container, framer.major)
        for block in self.blocks:
            if block.kind is BlockKind.EVENT:
                end = block.start + block.present
                cursor = Cursor(self._view, position=block.start, end=end, where=block.name)
                job = state.event_job(block, cursor)
                if job is not None:
                    state.postponed.append(_mark)
                    self._events.append(_EventBlock(block, job, state.segment, state.moved_threads()))
            elif stacks or block.kind is not BlockKind.STACK:
                state.take(block, self._view, 0)
        if framer.broke is not None:
            state.stopped(framer.broke)
        self._stacks_read = stacks

    @property
    def format(self) -> str:
        """As :attr:`Reader.format`."""
        return self._state.format

    @property
    def info(self) -> TraceInfo | None:
        """The Trace object."""
        return self._state.info

    @property
    def metadata(self) -> Mapping[int, Metadata]:
        """All metadata of the file by id (NetPerf: what was decoded so far)."""
        return self._state.metadata

    @property
    def threads(self) -> Mapping[int, ThreadInfo]:
        """All thread rows of the file."""
        return self._state.threads

    def counts(self, *, threads: int = 1, map: Map = map) -> dict[int, tuple[int, int]]:
        """(events, payload bytes) by metadata id, without making columns."""
        jobs = [event.job for event in self._events]
        form = _one_form(jobs)
        if KERNELS is None or form is None:
            return self._count_slowly()
        totals: dict[int, tuple[int, int]] = {}
        for part in _epochs(jobs):
            table, base, length = part[-1].translation.metadata
            tallies = _check(self._view, part, form, threads, map, base + length)[1]
            if tallies is None:
                return self._count_slowly()
            for number in np.flatnonzero(tallies[0]).tolist():
                at = number - base
                stays = (int(table[at]) if 0 <= at < length else 0) or number
                events, size = totals.get(stays, (0, 0))
                totals[stays] = (events + int(tallies[0, number]), size + int(tallies[1, number]))
        return totals

    def _count_slowly(self) -> dict[int, tuple[int, int]]:
        totals: dict[int, tuple[int, int]] = {}
        for event in self._events:
            found = decode(self._view, event.job)
            headers = found.headers
            if found.frames is not None:
                headers = self._state.netperf(event.block, self._view, 0, found)
            ids, rows = np.unique(headers.metadata_id, return_inverse=True)
            numbers = np.bincount(rows, minlength=len(ids)).tolist()
            sizes = np.bincount(rows, weights=headers.payload_length, minlength=len(ids)).tolist()
            for stays, number, size in zip(ids.tolist(), numbers, sizes, strict=True):
                events, total = totals.get(stays, (0, 0))
                totals[stays] = (events + number, total + int(size))
        return totals

    def iter_batches(self) -> Iterator[EventBatch]:
        """The events block by block, in file order, with absolute payload offsets into the whole buffer.

        Use it once per scan; losses are counted on the way.
        """
        self._index(stacks=True)
        state = self._state
        buffer = np.frombuffer(self._view, np.uint8)
        events = iter(self._events)
        acts, state.postponed = state.postponed or [], None
        for act in acts:
            if act is not _mark:
                act()
                continue
            event = next(events)
            yield EventBatch(
                buffer=buffer,
                offset=0,
                headers=_decode_one_at(state, event, self._view),
                segment=event.segment,
                metadata=state.metadata,
                stacks=state.stacks,
                guids=state.guids,
                labels=state.labels,
            )

    def decode(self) -> Contents:
        """All header columns."""
        return self.decode_parallel(threads=1)

    def decode_parallel(self, *, threads: int = 2, map: Map = map) -> Contents:
        """All header columns, with the work cut into ``threads`` shares that go through ``map``.

        Give the ``map`` of a thread pool to use several cores; the result is the same.
        """
        self._index(stacks=True)
        state = self._state
        jobs = [event.job for event in self._events]
        form = _one_form(jobs)
        if KERNELS is not None and form is not None:
            headers, runs, firsts = self._decode_together(jobs, form, threads, map)
        else:
            headers, runs, firsts = self._decode_apart()
        self._replay(headers, runs, firsts)
        segments = np.array([event.segment for event in self._events], np.int64)
        starts = firsts[np.searchsorted(segments, np.arange(state.segment + 1))]
        error = state.broke
        return Contents(
            buffer=np.frombuffer(self._view, np.uint8),
            format=state.format,
            info=state.info,
            headers=headers,
            segment_starts=starts,
            metadata=state.metadata,
            stacks=state.stacks,
            threads=state.threads,
            guids=state.guids,
            labels=state.labels,
            lost=state.lost,
            skipped=state.skipped,
            warnings=state.warnings,
            complete=self._framer.done and error is None,
            broke=None if error is None else str(error),
            broke_offset=None if error is None else error.offset,
            blocks=self.blocks,
            sequence_points=state.sequence_points,
        )

    def _decode_together(
        self, jobs: list[Job], form: Form, threads: int, map: Map
    ) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Compressed blocks: check all, then fill one set of columns."""
        state, view = self._state, self._view
        v6 = form is Form.COMPRESSED_V6
        checked, _ = _check(view, jobs, form, threads, map, 0)
        table, starts = checked.table, checked.starts
        places, (stacks, labels, metadata) = checked.places()
        rows, runs_count, guids_count = (int(table[:, column].sum()) for column in (ROWS, RUNS, GUIDS))
        headers = HeaderColumns.allocate(rows)
        runs, guids = np.empty(runs_count, np.int64), np.empty(guids_count, np.int64)
        strays = np.zeros((len(jobs), 3), np.int64)

        def share(bounds: tuple[int, int]) -> None:
            first, last = bounds
            fill(
                KERNELS, view, starts, first, last, v6, table, places, stacks, labels, metadata, strays, headers, runs,
                guids,
            )  # fmt: skip

        for _ in map(share, split(table[:, ROWS] + 1, threads)):
            pass
        firsts = np.append(places[:, 0], rows) if len(jobs) else np.zeros(1, np.int64)
        for row in np.flatnonzero(table[:, PROBLEM] | strays.any(axis=1)).tolist():
            event = self._events[row]
            problem, stop, detail = (int(table[row, column]) for column in (PROBLEM, STOP, DETAIL))
            one, two, three = strays[row].tolist()
            found = headers[int(firsts[row]) : int(firsts[row + 1])]
            left = state.strays(found, event.job, (one, two, three))
            state.check_counts(event.block, problem, stop, detail, len(found), left)
        state.settle(view, headers, guids)
        for row, event in enumerate(self._events):
            if event.moved:
                move_threads(headers[int(firsts[row]) : int(firsts[row + 1])], event.moved)
        return headers, runs, firsts

    def _decode_apart(self) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Any forms: block by block, then joined."""
        parts, all_runs, firsts = [], [], [0]
        for event in self._events:
            found = decode(self._view, event.job)
            headers = _finish(self._state, event, found, self._view)
            all_runs.append(found.runs + firsts[-1])
            firsts.append(firsts[-1] + len(headers))
            parts.append(headers)
        runs = np.concatenate(all_runs) if all_runs else np.zeros(0, np.int64)
        return HeaderColumns.concatenate(parts), runs, np.array(firsts, np.int64)

    def _replay(self, headers: HeaderColumns, runs: npt.NDArray[np.int64], firsts: npt.NDArray[np.int64]) -> None:
        """Count losses: blocks and sequence points in file order; blocks that follow each other at once."""
        state = self._state
        acts, state.postponed = state.postponed or [], None
        done = at = 0
        for act in [*acts, None]:
            if act is _mark:
                at += 1
                continue
            if at > done:
                first, last = int(firsts[done]), int(firsts[at])
                some = runs[np.searchsorted(runs, first) : np.searchsorted(runs, last)] - first
                state.account(headers[first:last], some, self._events[done].segment)
                done = at
            if act is not None:
                act()


def _mark() -> None:
    """Stands for an event block among postponed acts."""


def _finish(state: TraceState, event: _EventBlock, found: Any, data: memoryview) -> HeaderColumns:
    headers: HeaderColumns = found.headers
    if found.frames is not None:
        headers = state.netperf(event.block, data, 0, found)
    strays = state.strays(headers, event.job, found.strays)
    state.check_counts(event.block, found.problem, found.stop, found.detail, len(found.headers), strays)
    headers = state.settle(data, headers, found.guids)
    move_threads(headers, event.moved)
    return headers


def _decode_one_at(state: TraceState, event: _EventBlock, data: memoryview) -> HeaderColumns:
    found = decode(data, event.job)
    headers = _finish(state, event, found, data)
    state.account(headers, found.runs, event.segment)
    return headers


def _flat_view(buffer: Buffer) -> memoryview:
    view: memoryview = memoryview(buffer)  # type: ignore[arg-type]
    return view if view.format == "B" and view.ndim == 1 and view.contiguous else view.cast("B")


def _one_form(jobs: Sequence[Job]) -> Form | None:
    """The form of all jobs when it is one and compressed."""
    forms = {job.form for job in jobs}
    form = forms.pop() if len(forms) == 1 else None
    return form if form in COMPRESSED_FORMS else None


def _epochs(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs that share one set of metadata ids: it only grows within an epoch."""
    part: list[Job] = []
    for job in jobs:
        if part:
            old, new = part[-1].translation.metadata, job.translation.metadata
            shared = min(old[2], new[2])
            if (
                old[1] != new[1]
                or new[2] < old[2]
                or (old[0] is not new[0] and not np.array_equal(old[0][:shared], new[0][:shared]))
            ):
                yield part
                part = []
        part.append(job)
    if part:
        yield part


def _check(
    view: memoryview, jobs: Sequence[Job], form: Form, threads: int, map: Map, ids: int
) -> tuple[Checked, npt.NDArray[np.int64] | None]:
    """The check pass over compressed blocks; with ``ids`` also events and bytes by metadata id (None: ids
    are too large).
    """
    assert KERNELS is not None
    kernels = KERNELS
    starts = np.array([job.start for job in jobs], np.int64)
    ends = np.array([job.end for job in jobs], np.int64)
    table = np.zeros((len(jobs), TABLE_WIDTH), np.int64)
    v6 = form is Form.COMPRESSED_V6
    if ids > 1 << 20:
        return Checked(jobs, v6, starts, table), None
    total = int((ends - starts).sum())
    shares = split(ends - starts + 1, max(1, min(threads, total // SMALLEST_SHARE + 1)))

    def share(bounds: tuple[int, int]) -> npt.NDArray[np.int64]:
        tally = np.zeros((2, ids + 1), np.int64) if ids else NO_TALLY
        kernels.count(view, starts, ends, bounds[0], bounds[1], v6, table, tally)
        return tally

    tallies = list(map(share, shares))
    tally: npt.NDArray[np.int64] | None = sum(tallies[1:], tallies[0]) if tallies else NO_TALLY
    if ids and table[:, WIDE].any():
        tally = None
    return Checked(jobs, v6, starts, table), tally


def scan(buffer: Buffer) -> Scan:
    """Index a whole file: its blocks, metadata, threads. Fast: no event is looked at.

    ``buffer`` may be a memory map.
    """
    return Scan(buffer)


def read(buffer: Buffer, *, threads: int = 1, map: Map = map) -> Contents:
    """Read a whole file into columns. Never raises for what is in it: see ``broke`` and ``warnings``."""
    return scan(buffer).decode_parallel(threads=threads, map=map)
