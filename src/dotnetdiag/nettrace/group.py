"""Several event blocks decoded together: one call of the kernels, one set of columns.

Two phases: :func:`decode_group` needs nothing but the bytes and may run in any thread; :func:`settle_group` brings
the result into the state of the trace and must be called in file order.

The memory of a group's columns is used again (:class:`Arenas`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.blocks import Block
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.decode import (
    COMPRESSED_FORMS,
    LEAST_EVENT,
    NO_TALLY,
    Arena,
    Decoded,
    Form,
    Job,
    Translated,
    Translation,
    decode,
    fill,
    fill_part,
    split,
    translate,
)
from dotnetdiag.nettrace.kernels import DETAIL, GUIDS, KERNELS, PROBLEM, ROWS, RUNS, STOP, STRAYS, TABLE_WIDTH, WIDE
from dotnetdiag.nettrace.parallel import Executor, in_order
from dotnetdiag.nettrace.state import TraceState, move_threads

SHARE_BYTES = 8 << 20
"""Bytes of blocks that one call of an executor takes on."""
GROUP_BYTES, GROUP_EVENTS = 8 << 20, 1 << 16
"""Event blocks are decoded together up to about this size: few calls, and columns that fit the cache."""
FIRST_GROUP_BYTES = 1 << 20
"""The first group, of which nothing is known."""
SPARE = 0.8
"""Events are expected to be smaller by this than any group had them: too little room costs a second pass."""


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class EventRun:
    """Event blocks of one form between which nothing else stands: where the blobs of each begin and end, absolute.

    ``moved``: see ``TraceState.moved_threads``.
    """

    blocks: Sequence[Block]
    form: Form
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    translation: Translation
    segment: int
    moved: dict[int, int] | None

    @classmethod
    def single(cls, block: Block, job: Job, segment: int, moved: dict[int, int] | None) -> EventRun:
        """One block."""
        starts, ends = np.array([job.start], np.int64), np.array([job.end], np.int64)
        return cls((block,), job.form, starts, ends, job.translation, segment, moved)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def size_bytes(self) -> int:
        """From the first blob to the last."""
        return int(self.ends[-1] - self.starts[0])

    def jobs(self) -> Iterator[tuple[Block, Job]]:
        """Block by block."""
        for block, start, end in zip(self.blocks, self.starts.tolist(), self.ends.tolist(), strict=True):
            yield block, Job(self.form, start, end, self.translation)

    def cut(self, size_bytes: int) -> tuple[EventRun, EventRun | None]:
        """As many blocks as fit into that size, one at least, and those that are left."""
        count = max(1, int(np.searchsorted(self.ends, self.starts[0] + size_bytes, side="right")))
        if count >= len(self):
            return self, None
        return self._part(slice(0, count)), self._part(slice(count, None))

    def _part(self, part: slice) -> EventRun:
        starts, ends = self.starts[part], self.ends[part]
        return EventRun(self.blocks[part], self.form, starts, ends, self.translation, self.segment, self.moved)


_ARENAS: list[Arena] = []
"""Memory of this process for columns, whoever reads what: fresh pages cost more than all decoding."""
MOST_ARENAS, MOST_ARENA_BYTES = 16, 48 << 20


class Arenas:
    """Lends memory for columns, and lends it again when nobody holds a view of it any more. Threads may share one."""

    def __init__(self) -> None:
        self._bytes_per_event = 0.0
        self._translated: tuple[Translation, Translated] | None = None

    @property
    def group_bytes(self) -> int:
        """How large groups should be: neither many bytes nor many events."""
        return min(GROUP_BYTES, max(FIRST_GROUP_BYTES, int(GROUP_EVENTS * self._bytes_per_event)))

    def take(self, size_bytes: int) -> Arena:
        """Room for the events of blocks of that size, as far as can be told from those before.

        It is the caller's alone until he gives it back, which he may do as soon as he holds views.
        """
        rows = min(int(size_bytes / self._bytes_per_event) + 64, size_bytes // LEAST_EVENT + 1)
        while fitting := [arena for arena in reversed(_ARENAS) if arena.rows >= rows and arena.idle]:
            # the smallest that will do, or the large ones are gone when they are needed; of equals the latest, still cached
            found = min(fitting, key=lambda arena: arena.rows)
            try:
                _ARENAS.remove(found)
            except ValueError:  # another thread was quicker
                continue
            return found
        return Arena(rows + rows // 8)

    def give(self, arena: Arena) -> None:
        """Lend it out again as soon as nobody has a view of it."""
        _ARENAS.append(arena)
        size = 0
        for at, one in enumerate(reversed(_ARENAS)):
            size += one.size_bytes
            if at >= MOST_ARENAS or (size > MOST_ARENA_BYTES and at):
                del _ARENAS[: len(_ARENAS) - at]
                break

    def translated(self, runs: Sequence[EventRun]) -> Translated:
        """The translation of the runs' ids; the last one is kept, for many pieces of one run."""
        if len(runs) > 1:
            return translate([(len(run), run.translation) for run in runs])
        last, (run,) = self._translated, runs
        if last is None or last[0] is not run.translation:
            last = self._translated = (run.translation, translate([(1, run.translation)]))
        return last[1]

    def expect(self, rows: int, size_bytes: int) -> None:
        """Blocks of that size were seen to hold so many events."""
        seen = max(float(LEAST_EVENT), SPARE * size_bytes / max(rows, 1))
        self._bytes_per_event = min(self._bytes_per_event or seen, seen)

    @property
    def is_new(self) -> bool:
        """True before :meth:`expect`."""
        return not self._bytes_per_event


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Group:
    """What the first phase made: joined columns (``headers`` and the rest), or ``parts``, one for each block.

    ``table`` has a row for each block (see ``_kernels.py``); in ``odd`` of them something is wrong.
    """

    headers: HeaderColumns
    runs: npt.NDArray[np.int64]
    guids: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]
    odd: int
    parts: list[Decoded] = field(default_factory=list)

    def firsts(self) -> npt.NDArray[np.int64]:
        """The rows where blocks begin, and the number of rows."""
        firsts = np.zeros(len(self.table) + 1, np.int64)
        np.cumsum(self.table[:, ROWS], out=firsts[1:])
        return firsts


def one_form(runs: Iterable[EventRun]) -> Form | None:
    """The form of all blocks when it is one and compressed."""
    forms = {run.form for run in runs}
    form = forms.pop() if len(forms) == 1 else None
    return form if form in COMPRESSED_FORMS else None


def _bounds(runs: Sequence[EventRun], base: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if len(runs) == 1:
        return runs[0].starts - base, runs[0].ends - base
    return np.concatenate([run.starts for run in runs]) - base, np.concatenate([run.ends for run in runs]) - base


def check(
    view: memoryview, base: int, runs: Sequence[EventRun], form: Form, executor: Executor | None, ids: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """(row per block, see ``_kernels.py``; events and bytes by metadata id, None when ids are too large) of compressed
    blocks.
    """
    assert KERNELS is not None
    kernels = KERNELS
    starts, ends = _bounds(runs, base)
    table = np.zeros((len(starts), TABLE_WIDTH), np.int64)
    v6 = form is Form.COMPRESSED_V6
    if ids > 1 << 20:
        return table, None

    def share(bounds: tuple[int, int]) -> npt.NDArray[np.int64]:
        tally = np.zeros((2, ids + 1), np.int64) if ids else NO_TALLY
        kernels.count(view, starts, ends, bounds[0], bounds[1], v6, table, tally)
        return tally

    tallies = [tally for _, tally in in_order(_shares(ends - starts), share, executor)]
    tally: npt.NDArray[np.int64] | None = sum(tallies[1:], tallies[0]) if tallies else NO_TALLY
    if ids and table[:, WIDE].any():
        tally = None
    return table, tally


def _shares(sizes: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    return split(sizes + 1, int(sizes.sum()) // SHARE_BYTES + 1)


def decode_group(runs: Sequence[EventRun], view: memoryview, base: int, arenas: Arenas | None = None) -> Group:
    """First phase. ``view[0]`` stands at ``base``; payload offsets are positions in ``view``.

    With ``arenas`` the columns stand in memory that is used again when nobody holds them.
    """
    form = one_form(runs)
    if KERNELS is None or form is None:
        return _decode_slowly(runs, view, base)
    starts, ends = _bounds(runs, base)
    lender = arenas or Arenas()
    translated = lender.translated(runs)
    size_bytes = int((ends - starts).sum())
    if lender.is_new:
        lender.expect(int(check(view, base, runs, form, None, 0)[0][:, ROWS].sum()), size_bytes)
    while True:
        arena = lender.take(size_bytes)
        found = fill(KERNELS, view, starts, ends, form is Form.COMPRESSED_V6, translated, arena)
        if found is not None:
            lender.give(arena)
            lender.expect(len(found.headers), size_bytes)
            break
        lender.expect(int(check(view, base, runs, form, None, 0)[0][:, ROWS].sum()), size_bytes)
    return Group(found.headers, found.runs, found.guids, found.table, found.odd)


def decode_whole(runs: Sequence[EventRun], view: memoryview, base: int, executor: Executor | None = None) -> Group:
    """First phase of a whole file: counted first, so that the columns are as long as they must be."""
    form = one_form(runs)
    if KERNELS is None or form is None:
        return _decode_slowly(runs, view, base)
    v6 = form is Form.COMPRESSED_V6
    table, _ = check(view, base, runs, form, executor, 0)
    starts, stops = _bounds(runs, base)[0], np.ascontiguousarray(table[:, STOP])
    translated = translate([(len(run), run.translation) for run in runs])
    rows, runs_count, guids_count = (int(table[:, column].sum()) for column in (ROWS, RUNS, GUIDS))
    arena = Arena(rows, runs=runs_count, guids=guids_count)
    again = np.empty_like(table)

    def share(bounds: tuple[int, int]) -> int:
        one, two, three = table[: bounds[0], [ROWS, RUNS, GUIDS]].sum(axis=0).tolist()
        before = (one, two, three)
        return fill_part(KERNELS, view, starts, stops, bounds, v6, again, translated, arena, before)[2]

    odd = sum(odd for _, odd in in_order(_shares(stops - starts), share, executor))
    table[:, STRAYS:] = again[:, STRAYS:]
    odd += int(np.count_nonzero(table[:, PROBLEM]))
    return Group(*arena.views(rows, runs_count, guids_count), table, odd)


def _findings(table: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int, int, tuple[int, int, int]]]:
    """(block, problem, position, bytes missing, strays) of the blocks with something wrong."""
    for row in np.flatnonzero(table[:, PROBLEM].astype(np.bool_) | table[:, STRAYS:].any(axis=1)).tolist():
        problem, stop, detail = (int(table[row, column]) for column in (PROBLEM, STOP, DETAIL))
        one, two, three = table[row, STRAYS:].tolist()
        yield row, problem, stop, detail, (one, two, three)


def _decode_slowly(runs: Sequence[EventRun], view: memoryview, base: int) -> Group:
    parts = [decode(view, job, base) for run in runs for _, job in run.jobs()]
    nothing = np.zeros(0, np.int64)
    return Group(HeaderColumns.allocate(0), nothing, nothing, np.zeros((0, TABLE_WIDTH), np.int64), 0, parts)


def settle_group(
    state: TraceState, runs: Sequence[EventRun], group: Group, view: memoryview, base: int
) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Second phase: (columns, rows where sequence numbers may jump, rows where each run begins and the last ends)."""
    edges = list(accumulate((len(run) for run in runs), initial=0))
    if group.parts:
        headers, jumps, firsts = _settle_parts(state, runs, group.parts, view, base)
        return headers, jumps, firsts[edges]
    headers, firsts = group.headers, group.firsts()
    for row, problem, stop, detail, strays in _findings(group.table) if group.odd else ():
        run, at = _run_of(runs, row)
        found = headers[int(firsts[row]) : int(firsts[row + 1])]
        left = state.strays(found, run.translation, strays)
        state.check_counts(run.blocks[at], problem, stop + base, detail, len(found), left)
    state.settle(view, headers, group.guids)
    firsts = firsts[edges]
    for run, first, last in zip(runs, firsts.tolist(), firsts[1:].tolist(), strict=False):
        if run.moved:
            move_threads(headers[first:last], run.moved)
    return headers, group.runs, firsts


def _run_of(runs: Sequence[EventRun], row: int) -> tuple[EventRun, int]:
    for run in runs:
        if row < len(run):
            return run, row
        row -= len(run)
    raise AssertionError("no such block")


def _settle_parts(
    state: TraceState, runs: Sequence[EventRun], parts: Sequence[Decoded], view: memoryview, base: int
) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    made, all_runs, firsts = [], [], [0]
    blocks = chain.from_iterable(((run, block) for block in run.blocks) for run in runs)
    for (run, block), found in zip(blocks, parts, strict=True):
        headers = found.headers
        if found.frames is not None:
            headers = state.netperf(block, view, base, found)
        strays = state.strays(headers, run.translation, found.strays)
        state.check_counts(block, found.problem, found.stop + base, found.detail, len(found.headers), strays)
        headers = state.settle(view, headers, found.guids)
        move_threads(headers, run.moved)
        all_runs.append(found.runs + firsts[-1])
        firsts.append(firsts[-1] + len(headers))
        made.append(headers)
    jumps = np.concatenate(all_runs) if all_runs else np.zeros(0, np.int64)
    return HeaderColumns.concatenate(made), jumps, np.array(firsts, np.int64)
