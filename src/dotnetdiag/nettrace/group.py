"""Several event blocks decoded together: one call of the kernels, one set of columns, as long as they fit a batch.

Two phases: :func:`decode_piece` needs nothing but the bytes and may run in any thread; :func:`resolve` brings the result
into the state of the trace and must be called in file order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.arena import Arena, Arenas, Lent
from dotnetdiag.nettrace.blocks import Block
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import BATCH_ROWS
from dotnetdiag.nettrace.decode import (
    COMPRESSED_FORMS,
    Decoded,
    Filled,
    Form,
    Job,
    Place,
    Translated,
    Translation,
    decode,
    fill,
    translate,
)
from dotnetdiag.nettrace.ids import Snapshot
from dotnetdiag.nettrace.kernels import (
    DETAIL,
    GUIDS,
    KERNELS,
    PROBLEM,
    ROWS,
    RUNS,
    STOP,
    TABLE_WIDTH,
    UNDEFINED,
    UNRESOLVED,
)
from dotnetdiag.nettrace.parallel import Executor, in_order
from dotnetdiag.nettrace.state import TraceState

SHARE_BYTES = 8 << 20
"""Bytes of blocks that one call of an executor counts."""
GROUP_BYTES, GROUP_EVENTS = 8 << 20, 1 << 16
"""Event blocks are decoded together up to about this size: few calls, and columns that fit the cache."""
WHOLE_GROUP_BYTES = 32 << 20
"""Groups of a whole file that one thread decodes."""
FIRST_GROUP_BYTES = 1 << 20
"""The first group, of which nothing is known."""


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class EventRun:
    """Event blocks of one form between which nothing else stands: where the blobs of each begin and end, absolute.

    ``moves``: how many of ``ThreadMoves`` stand before them.
    """

    blocks: Sequence[Block]
    form: Form
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    translation: Translation
    segment: int
    moves: int

    @classmethod
    def single(cls, block: Block, job: Job, segment: int, moves: int) -> EventRun:
        """One block."""
        starts, ends = np.array([job.start], np.int64), np.array([job.end], np.int64)
        return cls((block,), job.form, starts, ends, job.translation, segment, moves)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def size_bytes(self) -> int:
        """From the first blob to the last."""
        return int(self.ends[-1] - self.starts[0])

    def job(self, at: int) -> Job:
        """What to decode in one block."""
        return Job(self.form, int(self.starts[at]), int(self.ends[at]), self.translation)

    def cut(self, size_bytes: int) -> tuple[EventRun, EventRun | None]:
        """As many blocks as fit into that size, one at least, and those that are left."""
        count = max(1, int(np.searchsorted(self.ends, self.starts[0] + size_bytes, side="right")))
        if count >= len(self):
            return self, None
        return self._part(slice(0, count)), self._part(slice(count, None))

    def _part(self, part: slice) -> EventRun:
        starts, ends = self.starts[part], self.ends[part]
        return EventRun(self.blocks[part], self.form, starts, ends, self.translation, self.segment, self.moves)


class Lender(Arenas):
    """What the groups of one pass share: the size of their events, and their translation."""

    def __init__(self) -> None:
        super().__init__()
        self._translated: tuple[Translation, Translated] | None = None

    @property
    def group_bytes(self) -> int:
        """How large groups should be: neither many bytes nor many events."""
        return min(GROUP_BYTES, max(FIRST_GROUP_BYTES, int(GROUP_EVENTS * self.bytes_per_event)))

    def translated(self, runs: Sequence[EventRun]) -> Translated:
        """The translation of the runs' ids; the last one is kept, for many pieces of one run."""
        if len(runs) > 1:
            return translate([(len(run), run.translation) for run in runs])
        last, (run,) = self._translated, runs
        if last is None or last[0] is not run.translation:
            last = self._translated = (run.translation, translate([(1, run.translation)]))
        return last[1]


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Group:
    """Event blocks to be decoded together."""

    runs: list[EventRun]
    window: Lent | None = None
    """Memory for all their events, where that was counted."""
    edges: list[int] = field(init=False)
    """The number of the block that begins each run, and that of all."""

    def __post_init__(self) -> None:
        self.edges = list(accumulate(map(len, self.runs), initial=0))

    def run_of(self, block: int) -> tuple[EventRun, int]:
        """The run of a block, and its place there."""
        run = int(np.searchsorted(self.edges, block, side="right")) - 1
        return self.runs[run], block - self.edges[run]

    def bounds(self, base: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the blobs of each block begin and end, from ``base``."""
        return _joined([run.starts for run in self.runs]) - base, _joined([run.ends for run in self.runs]) - base


def _joined(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Piece:
    """What the first phase made of a group from ``place`` on: in one set of columns, or block by block.

    ``rest``: where to go on; None when that was all.
    """

    place: Place
    rest: Place | None
    filled: Filled | None = None
    decoded: list[Decoded] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Resolved:
    """Events of a group whose ids are those of the trace. ``jumps``: rows where sequence numbers may jump.

    ``firsts``: the row where each run of the group begins, and the number of rows; ``complete``: runs with nothing left.
    """

    headers: HeaderColumns
    jumps: npt.NDArray[np.int64]
    firsts: list[int]
    complete: int


def one_form(runs: Iterable[EventRun]) -> Form | None:
    """The form of all blocks when it is one and compressed."""
    forms = {run.form for run in runs}
    form = forms.pop() if len(forms) == 1 else None
    return form if form in COMPRESSED_FORMS else None


_SPARE = np.array([1, 1, 2])
"""Of rows, runs and GUIDs: a kernel stops where an event might not fit, before it looks at it."""


class Whole:
    """Memory for all events of a file, counted first, given out group by group in file order."""

    def __init__(self, view: memoryview, runs: Sequence[EventRun], form: Form, executor: Executor | None) -> None:
        table, _ = _count(view, runs, form, executor, 0)
        self._ends = np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(table[:, [ROWS, RUNS, GUIDS]], axis=0)])
        self._arena = Arena(*(self._ends[-1] + _SPARE).tolist())
        self._block = 0
        self.group_bytes = GROUP_BYTES if executor else WHOLE_GROUP_BYTES
        """How large groups should be: the columns do not stay in the cache anyway."""

    def window(self, blocks: int) -> Lent:
        """That of the next blocks."""
        before, self._block = self._block, self._block + blocks
        ends = (self._ends[self._block] + _SPARE).tolist()
        rows, runs, guids = zip(self._ends[before].tolist(), ends, strict=True)
        return self._arena.lend((rows, runs, guids))

    @property
    def headers(self) -> HeaderColumns:
        """All of them."""
        return self._arena.lend().views(int(self._ends[-1][0]), 0, 0)[0]


def count_by_type(
    view: memoryview, runs: Sequence[EventRun], form: Form, executor: Executor | None
) -> npt.NDArray[np.int64] | None:
    """(events, payload bytes) for each metadata id in the order of their definitions, from 1 on, of compressed blocks that
    share one map of them; None when some events have an undefined one.
    """
    snapshot: Snapshot | None = runs[-1].translation.metadata
    table, tally = _count(view, runs, form, executor, 1 + (snapshot.defined if snapshot else 0))
    return None if table[:, UNDEFINED].any() else tally


def _count(
    view: memoryview, runs: Sequence[EventRun], form: Form, executor: Executor | None, columns: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    assert KERNELS is not None
    kernels, group = KERNELS, Group(list(runs))
    starts, ends = group.bounds(0)
    table = np.zeros((len(starts), TABLE_WIDTH), np.int64)
    translated = translate([(len(run), run.translation) for run in runs])

    def share(bounds: tuple[int, int]) -> npt.NDArray[np.int64]:
        tally = np.zeros((2, columns), np.int64)
        kernels.count(
            view,
            starts,
            ends,
            *bounds,
            form is Form.COMPRESSED_V6,
            table,
            translated.places,
            translated.metadata,
            tally,
        )
        return tally

    tallies = [tally for _, tally in in_order(_shares(ends - starts), share, executor)]
    return table, sum(tallies[1:], tallies[0]) if tallies else np.zeros((2, columns), np.int64)


def _shares(sizes: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Contiguous ranges of about equal weight."""
    total = np.cumsum(sizes + 1)
    if not len(total):
        return []
    marks = np.searchsorted(total, np.arange(SHARE_BYTES, int(total[-1]), SHARE_BYTES)) + 1
    edges = sorted({0, *marks.tolist(), len(total)})
    return list(pairwise(edges))


def decode_piece(group: Group, view: memoryview, base: int, lender: Lender, place: Place) -> Piece:
    """First phase, from ``place`` on as far as a batch goes. ``view[0]`` stands at ``base``; payload offsets are positions
    in ``view``.
    """
    form = one_form(group.runs)
    if KERNELS is None or form is None:
        return _decode_slowly(group, view, base, place)
    starts, ends = group.bounds(base)
    size_bytes = int((ends[place.block :] - starts[place.block :]).sum())
    lent = lender.take(size_bytes) if group.window is None else group.window
    filled = fill(KERNELS, view, starts, ends, form is Form.COMPRESSED_V6, lender.translated(group.runs), lent, place)
    if group.window is not None:
        filled.rest = None  # there are more events now than were counted: somebody has changed them
    if filled.rest is None:
        lender.expect(len(filled.headers), size_bytes)
    else:  # there were more than anybody thought
        done = int((filled.table[:, STOP] - starts[place.block : place.block + len(filled.table)]).sum())
        lender.expect(len(filled.headers), done)
    return Piece(place, filled.rest, filled)


def _decode_slowly(group: Group, view: memoryview, base: int, place: Place) -> Piece:
    piece, rows, block = Piece(place, None), 0, place.block
    here: Place | None = Place(0, place.rows, place.state)
    while block < group.edges[-1] and rows < BATCH_ROWS:
        run, at = group.run_of(block)
        found = decode(view, run.job(at), base, here)
        piece.decoded.append(found)
        rows += len(found.headers)
        here = found.rest
        if here is not None:
            break
        block += 1
    if block < group.edges[-1]:
        before = place.rows if block == place.block else 0
        piece.rest = Place(block) if here is None else Place(block, here.rows + before, here.state)
    return piece


def resolve(state: TraceState, group: Group, piece: Piece, view: memoryview, base: int) -> Resolved:
    """Second phase."""
    made = (
        _resolve_blocks(state, group, piece, view, base)
        if piece.filled is None
        else _resolve(state, group, piece, view, base)
    )
    headers, jumps, rows = made
    complete = group.edges[-1] if piece.rest is None else piece.rest.block
    begun = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(rows, out=begun[1:])
    firsts = begun[np.clip(np.array(group.edges) - piece.place.block, 0, len(rows))].tolist()
    for run, first, last in zip(group.runs, firsts, firsts[1:], strict=False):
        if last > first:
            state.thread_moves.advance(run.moves)
            state.thread_moves.apply(headers[first:last])
    return Resolved(headers, jumps, firsts, int(np.searchsorted(group.edges, complete, side="right")) - 1)


def _resolve(
    state: TraceState, group: Group, piece: Piece, view: memoryview, base: int
) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    filled = piece.filled
    assert filled is not None
    table = filled.table
    if filled.odd or filled.rest is not None:
        for row in np.flatnonzero(table[:, PROBLEM].astype(np.bool_) | table[:, UNRESOLVED:].any(axis=1)).tolist():
            run, at = group.run_of(piece.place.block + row)
            problem, stop, detail = (int(table[row, column]) for column in (PROBLEM, STOP, DETAIL))
            one, two, three = table[row, UNRESOLVED:].tolist()
            rows = int(table[row, ROWS]) + (0 if row else piece.place.rows)
            state.check_counts(run.blocks[at], problem, stop + base, detail, rows, (one, two, three))
    state.intern_guids(view, filled.headers, filled.guids)
    return filled.headers, filled.runs, table[:, ROWS]


def _resolve_blocks(
    state: TraceState, group: Group, piece: Piece, view: memoryview, base: int
) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    made, jumps, rows, before = [], [np.zeros(0, np.int64)], [], 0
    for block, found in enumerate(piece.decoded, piece.place.block):
        run, at = group.run_of(block)
        headers = found.headers
        if found.frames is not None:
            headers = state.netperf(run.blocks[at], view, base, found)
        state.check(run.blocks[at], found, base, piece.place.rows if block == piece.place.block else 0)
        state.intern_guids(view, headers, found.guids)
        jumps.append(found.runs + before)
        rows.append(len(headers))
        before += len(headers)
        made.append(headers)
    return HeaderColumns.concatenate(made), np.concatenate(jumps), np.array(rows, np.int64)
