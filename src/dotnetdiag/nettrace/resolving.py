"""Second phase of decoding: what was decoded is brought into the state of the trace, in file order."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace.batch import Passed
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.group import Group
from dotnetdiag.nettrace.kernel_types import BLOCK, FINDINGS, UNKNOWN
from dotnetdiag.nettrace.netperf import take_events
from dotnetdiag.nettrace.piece import Piece, Sifted
from dotnetdiag.nettrace.state import TraceState

_WORDS = BLOCK.names or ()


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Resolved:
    """Events of a group whose ids are those of the trace. ``jumps``: rows where sequence numbers may jump.

    ``firsts``: the row where each run of the group begins, and the number of rows; ``complete``: runs with nothing left. ``events``: as
    ``firsts``, of all events, where the headers have some of them.
    """

    headers: HeaderColumns
    jumps: npt.NDArray[np.int64]
    firsts: list[int]
    complete: int
    events: list[int]
    passed: Passing | None = None


def resolve(state: TraceState, group: Group, piece: Piece, data: memoryview, base: int) -> Resolved:
    """The piece's events, with what was wrong in it recorded in ``state``."""
    _record_problems(state, group, piece, base)
    headers, rows, passing = piece.headers, piece.blocks["rows"], None
    if piece.frames is not None:
        run, at = group.run_of(piece.place.block)
        headers = take_events(state, run.blocks[at], data, base, piece)
        rows = np.array([len(headers)], np.int64)
    state.intern_guids(data, headers, piece.guids)
    if piece.sifted is not None:
        passing = Passing(group, piece, piece.sifted)
        firsts, events, complete = passing.edges[0].tolist(), passing.edges[1].tolist(), passing.complete
        return Resolved(headers, piece.jumps, firsts, complete, events, passing)
    if len(group.runs) == 1:  # most have one, and this is done between two others
        firsts, complete = [0, len(headers)], int(piece.remainder is None)
    else:
        edges, complete = _edges(group, piece)
        firsts = np.append(0, np.cumsum(rows))[edges].tolist()
    for run, first, last in zip(group.runs, firsts, firsts[1:], strict=False):
        if last > first:
            state.threads.moves.advance(run.moves)
            state.threads.moves.apply(headers[first:last])
    return Resolved(headers, piece.jumps, firsts, complete, firsts)


def _edges(group: Group, piece: Piece) -> tuple[npt.NDArray[np.int64], int]:
    """Which of the piece's blocks begins each run of the group, and how many runs have nothing left."""
    at = np.clip(np.array(group.edges) - piece.place.block, 0, len(piece.blocks))
    block = group.edges[-1] if piece.remainder is None else piece.remainder.block
    return at, bisect_right(group.edges, block) - 1


class Passing:
    """What a sieve has told of a piece, by the runs of the group."""

    def __init__(self, group: Group, piece: Piece, sifted: Sifted) -> None:
        self._group, self._piece, self._sifted = group, piece, sifted
        self._at, self.complete = _edges(group, piece)
        counts = [piece.blocks[name] for name in ("kept", "rows", "runs", "amounts", "marks")]
        begun = np.zeros((len(counts), len(piece.blocks) + 1), np.int64)
        np.cumsum(counts, axis=1, out=begun[:, 1:])
        self.edges = begun[:, self._at]
        """Where each run begins among the rows, the events, the runs of threads, the amounts, the marks; and where the last ends."""

    def part(self, first: int, last: int) -> Passed:
        """Of the events of runs ``first`` to ``last`` (exclusive), of which there is one at least."""
        (event, end), (run, run_end), (amount, amount_end), (mark, mark_end) = self.edges[1:, [first, last]].tolist()
        blocks = self._piece.blocks[self._at[first] : self._at[last]]
        own, at = self._group.run_of(self._piece.place.block + int(self._at[first]))
        return Passed(
            events=end - event,
            earliest=int(blocks["earliest"].min()),
            latest=int(blocks["latest"].max()),
            until=int(blocks["until"].max()),
            start=int(own.starts[at]),
            runs=self._sifted.runs[:, run:run_end],
            amounts=self._sifted.amounts[:, amount:amount_end],
            sums=(self._sifted.sums, amount),
            marks=self._sifted.marks[:, mark:mark_end],
            before=(run, event),
        )


def _record_problems(state: TraceState, group: Group, piece: Piece, base: int) -> None:
    words = piece.blocks.view(np.int64).reshape(len(piece.blocks), len(_WORDS))
    if not words[:, FINDINGS].any():
        return
    is_damaged = piece.blocks["problem"] != 0
    for name in UNKNOWN:
        is_damaged |= piece.blocks[name] != 0
    for row in np.flatnonzero(is_damaged).tolist():
        run, at = group.run_of(piece.place.block + row)
        state.check(run.blocks[at], piece.blocks[row], base, 0 if row else piece.place.rows)
