"""What one call of a decoder makes of event blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.kernel_types import BLOCK


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Place:
    """Between two events: in which block of several, behind how many events of it, and what the decoder knows there."""

    block: int = 0
    rows: int = 0
    state: Any = None


AMOUNTS_TOGETHER = 32
"""Few of them lie around a mark, where each counts."""


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Sifted:
    """What is known of all events of a piece whose headers have some of them. ``runs``: a column for each place where the thread may change, or
    numbers may jump: thread, first and last number, first and last time. ``amounts``: time, order and number of those of which a number is wanted.
    ``sums``: of each :data:`AMOUNTS_TOGETHER` amounts the earliest time, the latest, and their sum: nobody has to look at all, which another thread
    has written. ``marks``: time and order of some that have rows. An order is 1 + the run in the high 32 bits, 0 there where the event is sorted,
    and its place among the events.
    """

    runs: npt.NDArray[np.int64]
    amounts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.int64]
    marks: npt.NDArray[np.int64]


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Piece:
    """Events of a group from ``place`` on, as many as fit a batch; ``remainder``: where to go on, None when that was all.

    ``jumps``: rows, ascending, where sequence numbers may jump. ``guids``: positions in the data of 16-byte ids; ``activity``
    and ``related`` of ``headers`` are 1 + index into them. ``blocks``: a row of ``kernel_types.BLOCK`` for each block that was
    touched. ``sifted``: of a piece that has rows of some events (``sieve``). ``frames`` and ``positions`` (NetPerf, of one block): where each
    event's own stack is, its size in bytes; the event.
    """

    place: Place
    remainder: Place | None
    headers: HeaderColumns
    jumps: npt.NDArray[np.int64]
    guids: npt.NDArray[np.int64]
    blocks: npt.NDArray[np.void]
    frames: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
    positions: npt.NDArray[np.int64] | None = None
    sifted: Sifted | None = None


def join(parts: Sequence[Piece], place: Place, remainder: Place | None) -> Piece:
    """Pieces of blocks that follow each other as one."""
    if not parts:
        none = np.zeros(0, np.int64)
        return Piece(place, remainder, HeaderColumns.allocate(0), none, none, np.zeros(0, BLOCK))
    if len(parts) == 1:
        return replace(parts[0], place=place, remainder=remainder)
    rows = guids = 0
    jumps = []
    for part in parts:
        for column in (part.headers.activity, part.headers.related):
            column[column != 0] += np.uint32(guids)
        jumps.append(part.jumps + rows)
        rows, guids = rows + len(part.headers), guids + len(part.guids)
    return Piece(
        place,
        remainder,
        HeaderColumns.concatenate([part.headers for part in parts]),
        np.concatenate(jumps),
        np.concatenate([part.guids for part in parts]),
        np.concatenate([part.blocks for part in parts]),
    )
