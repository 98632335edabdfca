"""A trace read from a buffer that holds the whole file: indexed first, then decoded in steps, by the threads of an executor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.blocks import Block, BlockRun, Blocks, Framer
from dotnetdiag.nettrace.columns import EventBatch, HeaderColumns
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.decode import Form, decode
from dotnetdiag.nettrace.findings import Findings
from dotnetdiag.nettrace.group import (
    Arenas,
    EventRun,
    Group,
    check,
    decode_group,
    decode_whole,
    one_form,
    settle_group,
)
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.info import TraceInfo
from dotnetdiag.nettrace.kernels import KERNELS
from dotnetdiag.nettrace.labels import LabelList
from dotnetdiag.nettrace.loss import LossAccount
from dotnetdiag.nettrace.metadata import Metadata
from dotnetdiag.nettrace.order import sort_order
from dotnetdiag.nettrace.parallel import Executor, in_order
from dotnetdiag.nettrace.stacks import StackTable
from dotnetdiag.nettrace.state import TraceState
from dotnetdiag.nettrace.threads import ThreadInfo

Buffer = bytes | bytearray | memoryview | npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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


class Scan(Findings):
    """A whole file, indexed: blocks are known, events are decoded when asked for. Made by :func:`scan`.

    The buffer is not copied and must stay as it is. Metadata, threads and labels are those of the whole file; stacks and
    GUIDs those that the latest pass over the events has seen (a pass gives the same ids as any other); losses, warnings
    and what broke in events are known once a pass has come to its end.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._view = _flat_view(buffer)
        self._indexed: TraceState | None = None
        self._runs: list[EventRun] = []
        self._arenas = Arenas()
        self._framer = framer = Framer()
        self._blocks = blocks = Blocks()
        while True:
            while (run := framer.maybe_run(self._view, 0)) is not None:
                blocks.append(run)
            block = framer.next(self._view, 0, final=True)
            if not isinstance(block, Block):
                break
            blocks.append(block)

    @property
    def blocks(self) -> Sequence[Block]:
        """Every block in file order, unknown kinds included."""
        return self._blocks

    def _found(self) -> TraceState:
        return self._index(stacks=False) if self._indexed is None else self._indexed

    def _index(self, *, stacks: bool) -> TraceState:
        """Read all blocks but the events; the stacks only when events are to be decoded."""
        framer = self._framer
        state = self._indexed = TraceState(keep=True)
        state.postponed = []
        self._runs = []
        if framer.format:
            state.opened(framer.format, framer.container, framer.major)
        for part in self._blocks.parts:
            if not isinstance(part, Block) and state.info is not None:
                self._add(_usual_run(part, state))
                continue
            for block in (part,) if isinstance(part, Block) else part:
                if block.kind is BlockKind.EVENT:
                    job = state.event_job(block, self._view, 0)
                    if job is not None:
                        self._add(EventRun.single(block, job, state.segment, state.moved_threads()))
                elif stacks or block.kind is not BlockKind.STACK:
                    state.take(block, self._view, 0)
        if framer.broke is not None:
            state.stopped(framer.broke)
        return state

    def _add(self, run: EventRun) -> None:
        state = self._indexed
        assert state is not None
        assert state.postponed is not None
        state.postponed.append(_mark)
        self._runs.append(run)

    @property
    def complete(self) -> bool:
        """As :attr:`Contents.complete`, once a pass over the events has come to its end."""
        return self._framer.done and self._found().broke is None

    def counts(self, *, executor: Executor | None = None) -> dict[int, tuple[int, int]]:
        """(events, payload bytes) by metadata id, without making columns."""
        self._found()  # there is an index now, and nothing of it will change
        form = one_form(self._runs)
        if KERNELS is None or form is None:
            self._index(stacks=False)
            return self._count_slowly()
        totals: dict[int, tuple[int, int]] = {}
        for part in _epochs(self._runs):
            table, base, length = part[-1].translation.metadata
            tallies = check(self._view, 0, part, form, executor, max(base + length, 1))[1]
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
        for block, job in chain.from_iterable(run.jobs() for run in self._runs):
            found = decode(self._view, job)
            headers = found.headers
            if found.frames is not None:
                headers = self._found().netperf(block, self._view, 0, found)
            ids, rows = np.unique(headers.metadata_id, return_inverse=True)
            numbers = np.bincount(rows, minlength=len(ids)).tolist()
            sizes = np.bincount(rows, weights=headers.payload_length, minlength=len(ids)).tolist()
            for stays, number, size in zip(ids.tolist(), numbers, sizes, strict=True):
                events, total = totals.get(stays, (0, 0))
                totals[stays] = (events + number, total + int(size))
        return totals

    def iter_batches(self, *, executor: Executor | None = None) -> Iterator[EventBatch]:
        """The events in pieces of a few megabytes, in file order; payload offsets are absolute in the whole buffer.

        Losses are counted on the way. An ``executor`` decodes a few pieces ahead; an iteration that is left cancels
        what it has not begun. Columns that nobody holds any more become those of a later piece: keep a
        batch (or any of its columns) and they stay, at the price of new memory for the next.
        """
        state = self._index(stacks=True)
        view, buffer = self._view, np.frombuffer(self._view, np.uint8)
        acts, state.postponed = state.postponed or [], None
        arenas = self._arenas
        steps = _steps(acts, self._runs, arenas)

        def act_on(step: _Step) -> Group:
            return decode_group(step.runs, view, 0, arenas)

        for step, group in in_order(steps, act_on, executor):
            whole, jumps, firsts = settle_group(state, step.runs, group, view, 0)
            del group
            for runs, after in step.stretches():
                rows = (int(firsts[runs.start]), int(firsts[runs.stop]))
                headers = _accounted(state, whole, jumps, rows, step.runs[runs.start].segment) if runs else whole[:0]
                for act in after:
                    act()
                if len(headers):
                    batch = EventBatch(
                        buffer=buffer,
                        offset=0,
                        headers=headers,
                        segment=step.runs[runs.start].segment,
                        metadata=state.metadata,
                        stacks=state.stacks,
                        guids=state.guids,
                        labels=state.labels,
                    )
                    del headers
                    yield batch
                    del batch
            del whole, jumps

    def decode(self, *, executor: Executor | None = None) -> Contents:
        """All header columns; with an executor by its threads, with the same result."""
        state = self._index(stacks=True)
        runs, view = self._runs, self._view
        group = decode_whole(runs, view, 0, executor)
        headers, jumps, firsts = settle_group(state, runs, group, view, 0)
        self._replay(headers, jumps, firsts)
        segments = np.array([run.segment for run in runs], np.int64)
        starts = firsts[np.searchsorted(segments, np.arange(state.segment + 1))]
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
            complete=self.complete,
            broke=self.broke,
            broke_offset=self.broke_offset,
            blocks=self.blocks,
            sequence_points=state.sequence_points,
        )

    def _replay(self, headers: HeaderColumns, runs: npt.NDArray[np.int64], firsts: npt.NDArray[np.int64]) -> None:
        """Count losses: blocks and sequence points in file order; blocks that follow each other at once."""
        state = self._found()
        acts, state.postponed = state.postponed or [], None
        done = at = 0
        for act in [*acts, None]:
            if act is _mark:
                at += 1
                continue
            if at > done:
                _accounted(state, headers, runs, (int(firsts[done]), int(firsts[at])), self._runs[done].segment)
                done = at
            if act is not None:
                act()


def _mark() -> None:
    """Stands for a run of event blocks among postponed acts."""


LEAST_FULL = 0.95
"""Of a step's size: less room than the rest is not worth a run of its own."""


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class _Step:
    """Event blocks that are decoded together. ``acts``: what is to be done, and how many of the runs stand before it."""

    runs: list[EventRun] = field(default_factory=list)
    acts: list[tuple[int, Callable[[], None]]] = field(default_factory=list)

    def stretches(self) -> Iterator[tuple[range, list[Callable[[], None]]]]:
        """(runs between which nothing is to be done, what is to be done then)."""
        done = 0
        for at, group in groupby(self.acts, key=itemgetter(0)):
            yield range(done, at), [act for _, act in group]
            done = at
        if done < len(self.runs):
            yield range(done, len(self.runs)), []


def _steps(acts: Iterable[Callable[[], None]], runs: Iterable[EventRun], arenas: Arenas) -> Iterator[_Step]:
    """All event blocks, in steps that fit an arena: a call of the kernels and a thread that is woken have to pay."""
    step, size = _Step(), 0
    source = iter(runs)
    for act in acts:
        if act is not _mark:
            step.acts.append((len(step.runs), act))
            continue
        rest: EventRun | None = next(source)
        while rest is not None:
            limit = arenas.group_bytes
            run, rest = rest.cut(limit - size)
            step.runs.append(run)
            size += run.size_bytes
            if size >= LEAST_FULL * limit:
                yield step
                step, size = _Step(), 0
    yield step


def _accounted(
    state: TraceState,
    headers: HeaderColumns,
    jumps: npt.NDArray[np.int64],
    rows: tuple[int, int],
    segment: int,
) -> HeaderColumns:
    """The rows of one segment, their losses counted."""
    first, last = rows
    if last - first < len(headers):
        headers = headers[first:last]
        jumps = jumps[np.searchsorted(jumps, first) : np.searchsorted(jumps, last)] - first
    state.account(headers, jumps, segment)
    return headers


def _usual_run(blocks: BlockRun, state: TraceState) -> EventRun:
    form = Form.COMPRESSED_V6 if blocks.plain else Form.COMPRESSED
    starts, sizes, headers = blocks.rows[:, 1], blocks.rows[:, 2], blocks.rows[:, 3]
    return EventRun(
        blocks, form, starts + headers, starts + sizes, state.translation(), state.segment, state.moved_threads()
    )


def _flat_view(buffer: Buffer) -> memoryview:
    view: memoryview = memoryview(buffer)  # type: ignore[arg-type]  # numpy does not say that arrays are buffers
    return view if view.format == "B" and view.ndim == 1 and view.contiguous else view.cast("B")


def _epochs(runs: Sequence[EventRun]) -> Iterator[list[EventRun]]:
    """Runs that share one set of metadata ids: it only grows within an epoch."""
    part: list[EventRun] = []
    for run in runs:
        if part:
            old, new = part[-1].translation.metadata, run.translation.metadata
            shared = min(old[2], new[2])
            if (
                old[1] != new[1]
                or new[2] < old[2]
                or (old[0] is not new[0] and not np.array_equal(old[0][:shared], new[0][:shared]))
            ):
                yield part
                part = []
        part.append(run)
    if part:
        yield part


def scan(buffer: Buffer) -> Scan:
    """Index a whole file: its blocks, metadata, threads. Fast: no event is looked at.

    ``buffer`` may be a memory map.
    """
    return Scan(buffer)


def read(buffer: Buffer, *, executor: Executor | None = None) -> Contents:
    """Read a whole file into columns. Never raises for what is in it: see ``broke`` and ``warnings``."""
    return scan(buffer).decode(executor=executor)
