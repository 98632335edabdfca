"""Passes over files in which few events are wanted: the others leave no row, and are counted all the same.

Of a recording of five million events the report on collections wants 60,000, and of the others one number each: thirteen columns of all, and the
looks through them, were half of its time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.decode import Lender
from dotnetdiag.nettrace.group import Group
from dotnetdiag.nettrace.kernel_types import BLOCK, SIFTED
from dotnetdiag.nettrace.piece import AMOUNTS_TOGETHER, Piece, Place, Sifted

DROP, KEEP, AMOUNT, MARK = range(4)
"""What becomes of an event: nothing; a row; a number out of its payload; a row, and its place among those numbers."""
MOST_ID = 1 << 20
"""Events of types with higher ids are kept."""
_WORDS = 10
"""Of memory for each event, beside its columns: five of a run of a thread, three of an amount, two of a mark."""
_ROW_WORDS = 8
"""Of memory for a row."""
_NONE = np.zeros(0, np.int64)
_NOTHING = Sifted(*(np.zeros((rows, 0), np.int64) for rows in (5, 3, 3, 2)))


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Sieve:
    """``actions``: what becomes of events, by metadata id; what is behind is kept. ``places`` (two rows, by id): where in the payload the number
    stands that has 8 bytes, and that of 4 where it is not there or has more than 63 bits; -1 for none.
    """

    actions: npt.NDArray[np.uint8]
    places: npt.NDArray[np.int64]


def sift(group: Group, data: memoryview, base: int, lender: Lender, place: Place, sieve: Sieve) -> Piece:
    """As ``decode`` of compressed events of nettrace 4 and 5, by the compiled kernels."""
    assert kernels.KERNELS is not None
    if not group.runs:  # behind the last that was full
        return Piece(place, None, HeaderColumns.allocate(0), _NONE, _NONE, np.zeros(0, BLOCK), sifted=_NOTHING)
    starts, ends = group.bounds(base)
    first, tables = place.block, lender.tables(group.runs)
    lent = lender.take(int((ends[first:] - starts[first:]).sum()), _WORDS)
    to, rows = lent.headers, len(lent.spare) // _WORDS
    runs, amounts, marks = _rooms(lent.spare, (5, rows), (3, rows), (2, rows))
    blocks = np.zeros(len(starts), BLOCK)
    state = np.zeros(kernels.KERNELS.STATE_WORDS, np.uint64) if place.state is None else place.state.copy()
    progress = np.array([(0, 0, 0, 0, len(to), rows, rows, rows, lent.zeroed)], SIFTED)
    done: int = kernels.KERNELS.sift(
        data, starts, ends, first, len(starts), blocks,
        tables.meanings, tables.stacks, tables.metadata, sieve.actions, sieve.places, progress, state,
        to.metadata_id, to.sequence, to.capture_thread, to.thread, to.processor, to.stack, to.time, to.activity, to.related,
        to.payload_offset, to.payload_length, to.is_sorted.view(np.uint8), to.label_list, runs, amounts, marks,
    )  # fmt: skip
    assert done >= 0, "arrays that do not fit each other"
    kept, run, amount, mark, *_ = progress[0].tolist()
    last, remainder = first + done, None
    if last < len(starts):
        remainder = Place(last, int(blocks["rows"][last]) + (place.rows if last == first else 0), state)
    touched = blocks[first : last + (remainder is not None)]
    seen = int((touched["stop"] - starts[first : first + len(touched)]).sum())
    lender.expect(int(touched["rows"].sum()), seen)
    lender.expect_rows(kept + (5 * run + 3 * amount) // _ROW_WORDS, seen)
    sums = np.empty((3, -(-amount // AMOUNTS_TOGETHER)), np.int64)
    kernels.KERNELS.sum_up(amounts[:, :amount], sums)
    sifted = Sifted(runs[:, :run], amounts[:, :amount], sums, marks[:, :mark])
    return Piece(place, remainder, lent.first(kept), _NONE, _NONE, touched, sifted=sifted)


def _rooms(words: npt.NDArray[np.int64], *shapes: tuple[int, int]) -> Iterator[npt.NDArray[np.int64]]:
    at = 0
    for rows, columns in shapes:
        yield words[at : at + rows * columns].reshape(rows, columns)
        at += rows * columns
