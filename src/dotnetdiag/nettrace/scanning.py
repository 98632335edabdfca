"""A trace read from a buffer that holds the whole file: indexed first, then decoded in steps, by the threads of an executor."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.batch import EventBatch
from dotnetdiag.nettrace.block import Block, BlockRun
from dotnetdiag.nettrace.buffers import Buffer as Buffer
from dotnetdiag.nettrace.buffers import MappedFile, flat_view
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.decode import Lender, decode
from dotnetdiag.nettrace.findings import Findings
from dotnetdiag.nettrace.framing import Framer
from dotnetdiag.nettrace.group import EventRun, Form, Gathering, Group, one_form
from dotnetdiag.nettrace.joined import Joined
from dotnetdiag.nettrace.order import sort_order
from dotnetdiag.nettrace.parallel import Executor, checked, in_order
from dotnetdiag.nettrace.piece import Piece, Place
from dotnetdiag.nettrace.resolving import Resolved, resolve
from dotnetdiag.nettrace.sieve import Sieve, sift
from dotnetdiag.nettrace.state import TraceState
from dotnetdiag.nettrace.step import Part, Step
from dotnetdiag.nettrace.whole import Release, Whole, count_by_type

RELEASE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contents(Findings):
    """A whole file read. ``headers`` has a row per event in file order; payload offsets are absolute in ``buffer``.

    ``segment_starts`` are the rows where segments begin (one for each sequence point, and 0).
    """

    buffer: npt.NDArray[np.uint8]
    headers: HeaderColumns
    segment_starts: npt.NDArray[np.int64]
    complete: bool
    parts: Sequence[Block | BlockRun]
    state: TraceState

    def _found(self) -> TraceState:
        return self.state

    @property
    def blocks(self) -> list[Block]:
        """Every block in file order, unknown kinds included."""
        return blocks_of(self.parts)

    @property
    def sequence_points(self) -> Sequence[tuple[int, bool, Sequence[tuple[int, int]]]]:
        """(time in ticks, all threads forgotten, (thread, last attempted number) ...) of each."""
        return self.state.sequence_points

    @property
    def removals(self) -> Sequence[tuple[int, int, int]]:
        """(sequence points before, thread, last attempted number) of each thread that a version 6 file removes."""
        return self.state.removals

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
    and the damage in events are known once a pass has come to its end. Several threads may pass over one scan at a time:
    then what it tells of itself is that of the pass that began last.
    """

    def __init__(self, buffer: Buffer, release: Release | None = None) -> None:
        self._view = flat_view(buffer)
        self._release = release
        self._latest: _Index | None = None
        self._unused: list[_Index] = []
        """One that was made to know what there is, for the first pass."""
        self._framer = framer = Framer()
        self._parts: list[Block | BlockRun] = []
        passed = _Passed(release)
        while isinstance(
            part := framer.usual_run(self._view, 0) or framer.next(self._view, 0, final=True), Block | BlockRun
        ):
            self._parts.append(part)
            passed.by(part)
        framer.ended_at(len(self._view))
        if isinstance(self._view.obj, MappedFile):
            self._view.obj.looked_through()

    @property
    def blocks(self) -> list[Block]:
        """Every block in file order, unknown kinds included."""
        return blocks_of(self._parts)

    def _found(self) -> TraceState:
        return self._indexed().state

    def _indexed(self) -> _Index:
        if self._latest is None:
            self._unused.append(self._index())
        assert self._latest is not None
        return self._latest

    def _begin(self, *, activities: bool = True) -> _Index:
        """What a pass begins with, which it changes."""
        try:
            index = self._latest = self._unused.pop()
        except IndexError:
            index = self._index()
        index.state.has_activities = activities
        return index

    def _index(self) -> _Index:
        """Read all blocks but the events."""
        framer, state, runs = self._framer, TraceState(keep=True), list[EventRun]()
        state.postponed = []
        if framer.container is not None:
            state.opened(framer.format, framer.container.kind, framer.container.major)
        passed = _Passed(self._release)
        for part in self._parts:
            passed.by(part)
            if isinstance(part, BlockRun) or part.kind is BlockKind.EVENT:
                for run in state.event_runs(part, self._view, 0):
                    state.postponed.append(_run_of_events)
                    runs.append(run)
            else:
                state.take(part, self._view, 0)
        if framer.error is not None:
            state.remarks.stopped(framer.error)
        index = self._latest = _Index(state, runs)
        return index

    @property
    def complete(self) -> bool:
        """As :attr:`Contents.complete`, once a pass over the events has come to its end."""
        return self._is_complete(self._found())

    def _is_complete(self, state: TraceState) -> bool:
        return self._framer.done and state.remarks.error is None

    def counts(self, *, executor: Executor | None = None) -> dict[int, tuple[int, int]]:
        """(events, payload bytes) by metadata id, without making columns where the blocks are in their usual form."""
        checked(executor)
        all_runs = self._indexed().runs
        form = one_form(all_runs)
        if kernels.KERNELS is None or form is None:
            return self._count_batches(executor)
        totals: dict[int, tuple[int, int]] = {}
        for _, part in groupby(all_runs, key=lambda run: id(run.translation.metadata and run.translation.metadata.ids)):
            runs = list(part)
            tally = count_by_type(self._view, runs, form, executor, self._release)
            if tally is None:
                return self._count_batches(executor)
            numbers = runs[-1].translation.metadata
            for order, number in enumerate(numbers.ids.meanings if numbers else (), 1):
                if order < tally.shape[1] and tally[0, order]:
                    _add(totals, number, int(tally[0, order]), int(tally[1, order]))
        return totals

    def _count_batches(self, executor: Executor | None) -> dict[int, tuple[int, int]]:
        totals: dict[int, tuple[int, int]] = {}
        for batch in self.iter_batches(executor=executor):
            ids, rows = np.unique(batch.headers.metadata_id, return_inverse=True)
            numbers = np.bincount(rows, minlength=len(ids)).tolist()
            sizes = np.bincount(rows, weights=batch.headers.payload_length, minlength=len(ids)).tolist()
            for number, events, size in zip(ids.tolist(), numbers, sizes, strict=True):
                _add(totals, number, events, int(size))
        return totals

    def iter_batches(
        self,
        *,
        executor: Executor | None = None,
        ended: Callable[[Scan], object] | None = None,
        activities: bool = True,
        sieve: Sieve | None = None,
    ) -> Iterator[EventBatch]:
        """The events in pieces of a few megabytes, in file order; payload offsets are absolute in the whole buffer.

        Losses are counted on the way. An ``executor`` decodes a few pieces ahead; an iteration that is left cancels
        what it has not begun. The memory of columns that nobody holds any more becomes that of later ones: keep a batch
        (or any of its columns) and they stay, at the price of new memory for the next. ``ended`` is given the scan as this pass has seen it, when
        it has come to its end.

        Without ``activities`` all ids of activities are 0 in columns, also those that stand in label lists: who needs none is spared a table of them,
        40 bytes for each, of which a recording of requests has some for each. With a ``sieve`` (where :attr:`sifts`, and without activities) batches
        have rows of the events that it keeps, perhaps none, and tell of the others what ``EventBatch.passed`` says; sequence points may be among
        them (``EventBatch.points``).
        """
        if sieve is not None and (activities or not self.sifts):
            raise UsageError("a sieve is for compressed events of nettrace 4 and 5, without activities")
        index = self._begin(activities=activities)
        return self._pass(index, checked(executor), ended, sieve)

    @property
    def sifts(self) -> bool:
        """Whether a pass can leave events without rows: those of files of nettrace 4 and 5 in their usual form, with compiled kernels."""
        return kernels.KERNELS is not None and one_form(self._indexed().runs) is Form.COMPRESSED

    def _pass(
        self, index: _Index, executor: Executor | None, ended: Callable[[Scan], object] | None, sieve: Sieve | None
    ) -> Iterator[EventBatch]:
        yield from self._batches(index, executor, None, sieve)
        if ended is not None:
            ended(self._seen(index))

    def _seen(self, index: _Index) -> Scan:
        """The scan as it is after the pass that began with ``index``, whatever others begin."""
        made = copy(self)
        made._latest, made._unused = index, []
        return made

    def _batches(
        self, index: _Index, executor: Executor | None, whole: Whole | None, sieve: Sieve | None = None
    ) -> Iterator[EventBatch]:
        view, buffer = self._view, np.frombuffer(self._view, np.uint8)
        state = index.state
        postponed, state.postponed = state.postponed or [], None
        lender, schemas = Lender(sifts=sieve is not None), dict[int, Any]()

        def decode_step(step: Step, place: Place | None = None) -> Piece:
            place = Place() if place is None else place
            if sieve is None:
                return decode(step.group, view, 0, lender, place)
            return sift(step.group, view, 0, lender, place, sieve)

        joined = Joined()
        for step, piece in in_order(_steps(postponed, index.runs, lender, whole), decode_step, executor):
            while True:
                resolved = resolve(state, step.group, piece, view, 0)
                parts = _accounted(state, step, resolved) if sieve is None else joined.parts(state, step, resolved)
                for part in parts:
                    yield EventBatch(
                        buffer=buffer,
                        offset=0,
                        headers=part.headers,
                        segment=part.segment,
                        metadata=state.metadata.records,
                        schemas=schemas,
                        stacks=state.stacks,
                        guids=state.guids,
                        labels=state.labels.lists,
                        passed=part.passed,
                        points=part.points,
                        ended=part.ended,
                    )
                    del part
                del resolved, parts
                remainder = piece.remainder
                del piece
                if remainder is None:
                    break
                piece = decode_step(step, remainder)

    def decode(self, *, executor: Executor | None = None, ended: Callable[[Scan], object] | None = None) -> Contents:
        """All header columns; with an executor by its threads, with the same result. ``ended`` as for :meth:`iter_batches`."""
        checked(executor)
        index = self._begin()
        state, form = index.state, one_form(index.runs)
        whole = None if kernels.KERNELS is None or form is None else Whole(self._view, index.runs, form, executor)
        parts: list[HeaderColumns] = []
        starts, rows = [0], 0
        for batch in self._batches(index, executor, whole):
            starts += [rows] * (batch.segment + 1 - len(starts))
            rows += len(batch)
            if whole is None:
                parts.append(batch.headers)
        starts += [rows] * (state.segment + 1 - len(starts))
        headers = HeaderColumns.concatenate(parts) if whole is None else whole.headers
        if ended is not None:
            ended(self._seen(index))
        return Contents(
            buffer=np.frombuffer(self._view, np.uint8),
            headers=headers,
            segment_starts=np.array(starts, np.int64),
            complete=self._is_complete(state),
            parts=self._parts,
            state=state,
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # quick to import
class _Index:
    """What one pass over a file begins with: its state, and where the events are."""

    state: TraceState
    runs: list[EventRun]


class _Passed:
    """Where indexing stands: what it has left behind is given back, :data:`RELEASE_BYTES` at a time."""

    def __init__(self, release: Release | None) -> None:
        self._release, self._left = release, 0

    def by(self, part: Block | BlockRun) -> None:
        """Up to the last block of this part."""
        here = part.offset if isinstance(part, Block) else int(part.rows[-1, 0])
        if self._release is not None and here - self._left >= RELEASE_BYTES:
            self._release(self._left, here)
            self._left = here


def blocks_of(parts: Iterable[Block | BlockRun]) -> list[Block]:
    """Each block by itself."""
    return [block for part in parts for block in ((part,) if isinstance(part, Block) else part)]


def _add(totals: dict[int, tuple[int, int]], number: int, events: int, size: int) -> None:
    before = totals.get(number, (0, 0))
    totals[number] = (before[0] + events, before[1] + size)


def _run_of_events() -> None:
    """Stands for a run of event blocks among what was postponed."""


def _steps(
    postponed: Iterable[Callable[[], None]], runs: Iterable[EventRun], lender: Lender, whole: Whole | None
) -> Iterator[Step]:
    """All event blocks, in steps that fit a batch: a call of the kernels and a thread that is woken have to pay."""

    waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def step(runs: list[EventRun]) -> Step:
        nonlocal waiting
        window = None if whole is None else whole.window(sum(map(len, runs)))
        made, waiting = Step(Group(runs, window), waiting), deque()
        return made

    gathering = Gathering(lambda: lender.group_bytes if whole is None else whole.group_bytes)
    source = iter(runs)
    for action in postponed:
        if action is _run_of_events:
            for full in gathering.add(next(source)):
                yield step(full)
        else:
            waiting.append((len(gathering.runs), action))
    yield step(gathering.take())


def _accounted(state: TraceState, step: Step, resolved: Resolved) -> Iterator[Part]:
    """The events between which nothing is to be done, their losses counted."""
    firsts, run = resolved.firsts, 0
    while True:
        end, action = step.due(resolved)
        first, last, headers = firsts[run], firsts[end], resolved.headers
        if last > first:
            if last - first < len(headers):
                headers = headers[first:last]
            segment = step.segment(resolved, run)
            low, high = np.searchsorted(resolved.jumps, (first, last))
            state.account(headers, resolved.jumps[low:high] - first, segment)
            yield Part(headers, segment)
        if action is None:
            return
        run = end
        action()


def scan(buffer: Buffer, *, release: Release | None = None) -> Scan:
    """Index a whole file: its blocks, metadata, threads. Fast: no event is looked at.

    ``buffer`` may be a memory map; then ``release`` is told (start, end) of bytes that indexing has left behind: the system has more of them in
    memory than are looked at.
    """
    return Scan(buffer, release)


def read(buffer: Buffer, *, executor: Executor | None = None) -> Contents:
    """Read a whole file into columns. Never raises for what is in it: see ``damage`` and ``warnings``."""
    return scan(buffer).decode(executor=executor)
