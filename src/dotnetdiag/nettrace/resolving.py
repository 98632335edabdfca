"""Second phase of decoding: what was decoded is brought into the state of the trace, in file order."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.group import Group
from dotnetdiag.nettrace.kernel_types import BLOCK, UNKNOWN
from dotnetdiag.nettrace.netperf import take_events
from dotnetdiag.nettrace.piece import Piece
from dotnetdiag.nettrace.state import TraceState

_WORDS = BLOCK.names or ()
_FINDINGS = _WORDS.index("problem")
"""What stands from there on in a row of ``BLOCK`` is zero when nothing is wrong."""


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Resolved:
    """Events of a group whose ids are those of the trace. ``jumps``: rows where sequence numbers may jump.

    ``firsts``: the row where each run of the group begins, and the number of rows; ``complete``: runs with nothing left.
    """

    headers: HeaderColumns
    jumps: npt.NDArray[np.int64]
    firsts: list[int]
    complete: int


def resolve(state: TraceState, group: Group, piece: Piece, data: memoryview, base: int) -> Resolved:
    """The piece's events, with what was wrong in it recorded in ``state``."""
    _record_problems(state, group, piece, base)
    headers, rows = piece.headers, piece.blocks["rows"]
    if piece.frames is not None:
        run, at = group.run_of(piece.place.block)
        headers = take_events(state, run.blocks[at], data, base, piece)
        rows = np.array([len(headers)], np.int64)
    state.intern_guids(data, headers, piece.guids)
    if len(group.runs) == 1:  # most have one, and this is done between two others
        firsts, complete = [0, len(headers)], int(piece.remainder is None)
    else:
        begun = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(rows, out=begun[1:])
        firsts = begun[np.clip(np.array(group.edges) - piece.place.block, 0, len(rows))].tolist()
        block = group.edges[-1] if piece.remainder is None else piece.remainder.block
        complete = bisect_right(group.edges, block) - 1
    for run, first, last in zip(group.runs, firsts, firsts[1:], strict=False):
        if last > first:
            state.threads.moves.advance(run.moves)
            state.threads.moves.apply(headers[first:last])
    return Resolved(headers, piece.jumps, firsts, complete)


def _record_problems(state: TraceState, group: Group, piece: Piece, base: int) -> None:
    words = piece.blocks.view(np.int64).reshape(len(piece.blocks), len(_WORDS))
    if not words[:, _FINDINGS:].any():
        return
    is_damaged = piece.blocks["problem"] != 0
    for name in UNKNOWN:
        is_damaged |= piece.blocks[name] != 0
    for row in np.flatnonzero(is_damaged).tolist():
        run, at = group.run_of(piece.place.block + row)
        state.check(run.blocks[at], piece.blocks[row], base, 0 if row else piece.place.rows)
