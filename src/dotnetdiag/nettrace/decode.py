"""First phase of decoding: event blocks to header columns, in whichever form they are written (nettrace.md §3-§6).

Nothing is known here but the bytes and the :class:`Translation` of their ids, so pieces of a file may be decoded in any
order and by several threads. ``resolve`` is the second phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.arena import Arenas, Lent
from dotnetdiag.nettrace.constants import BATCH_ROWS
from dotnetdiag.nettrace.group import COMPRESSED_FORMS, EventRun, Form, Group, one_form
from dotnetdiag.nettrace.kernel_types import BLOCK, PROGRESS
from dotnetdiag.nettrace.piece import Piece, Place, join
from dotnetdiag.nettrace.translation import Tables, Translation

GROUP_BYTES, GROUP_EVENTS = 4 << 20, 1 << 17
"""Event blocks are decoded together up to about this size: few calls, and columns that fit the cache. Some are decoded ahead, and the pages of all
are this program's meanwhile: with 8 MB a pass over a file of 170 MB took 116 MB at its peak, with 4 it takes 90, in the same time.
"""
SIFTED_GROUP_BYTES = 6 << 20
"""Where few of them have columns, however many they are: a report on collections of 336 MB took 4 % less than with 4 MB and 7 MB more at its peak;
with 8 MB another 4 %, and 20 MB. Where many have, as in a file of nothing but waits, there are half as many of them as in other groups, beside which
lies what was passed over: 3.2 million of 13 bytes took 70 MB more, and of 20 bytes 25.
"""
FIRST_GROUP_BYTES = 1 << 20
"""The first group, of which nothing is known."""


class Lender(Arenas):
    """What the groups of one pass share: memory, the size of their events, and their translation."""

    def __init__(self, *, sifts: bool = False) -> None:
        """``sifts``: rows are made of few events."""
        super().__init__()
        self._sifts = sifts
        self._latest: tuple[Translation, Tables] | None = None
        self._bytes_per_row = 0.0
        """As few as any piece had that became rows; 0 before the first: three of 4 MB that did were 65 MB of rows."""

    def expect_rows(self, rows: int, size_bytes: int) -> None:
        """Of the events in so many bytes these have columns, or take as much memory as columns of so many."""
        if size_bytes:
            self._bytes_per_row = min(self._bytes_per_row or np.inf, size_bytes / rows if rows else np.inf)

    @property
    def group_bytes(self) -> int:
        """How large groups should be: neither many bytes nor many events."""
        if self._sifts:
            return int(min(SIFTED_GROUP_BYTES, max(FIRST_GROUP_BYTES, GROUP_EVENTS // 2 * self._bytes_per_row)))
        return min(GROUP_BYTES, max(FIRST_GROUP_BYTES, int(GROUP_EVENTS * self.bytes_per_event)))

    def tables(self, runs: Sequence[EventRun]) -> Tables:
        """What the runs' ids stand for; the last answer is kept, for many pieces of one run."""
        if len(runs) > 1:
            return Tables.of([(len(run), run.translation) for run in runs])
        latest, (run,) = self._latest, runs
        if latest is None or latest[0] is not run.translation:
            latest = self._latest = (run.translation, Tables.of([(1, run.translation)]))
        return latest[1]


def decode(group: Group, data: memoryview, base: int, lender: Lender, place: Place) -> Piece:
    """Events of a group from ``place`` on. ``data[0]`` stands at ``base``; payload offsets are positions in ``data``."""
    form = one_form(group.runs)
    starts, ends = group.bounds(base)
    if kernels.KERNELS is None or form is None:
        piece = _decode_blocks(group, data, base, place)
        done = slice(place.block, None if piece.remainder is None else piece.remainder.block)
        if size_bytes := int((ends[done] - starts[done]).sum()):
            lender.expect(len(piece.headers), size_bytes)
        return piece
    size_bytes = int((ends[place.block :] - starts[place.block :]).sum())
    lent = lender.take(size_bytes) if group.window is None else group.window
    piece = _fill(
        kernels.KERNELS, data, starts, ends, form is Form.COMPRESSED_V6, lender.tables(group.runs), lent, place
    )
    if group.window is not None:
        piece.remainder = None  # there are more events now than were counted: somebody has changed them
    if piece.remainder is not None:  # there were more than anybody thought
        size_bytes = int((piece.blocks["stop"] - starts[place.block : place.block + len(piece.blocks)]).sum())
    lender.expect(len(piece.headers), size_bytes)
    return piece


def decode_all(run: EventRun, data: memoryview, base: int) -> Iterator[Piece]:
    """All events of a run."""
    group, lender, place = Group([run]), Lender(), Place()
    while True:
        piece = decode(group, data, base, lender, place)
        yield piece
        if piece.remainder is None:
            return
        place = piece.remainder


def _fill(
    compiled: Any,
    data: memoryview,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    v6: bool,
    tables: Tables,
    lent: Lent,
    place: Place,
) -> Piece:
    """The events of compressed blocks from ``place`` on, as many as there is room for."""
    first, to = place.block, lent.headers
    blocks = np.zeros(len(starts), BLOCK)
    state = np.zeros(compiled.STATE_WORDS, np.uint64) if place.state is None else place.state.copy()
    progress = np.array([(0, 0, 0, len(to), len(lent.runs), len(lent.guids), lent.zeroed)], PROGRESS)
    done: int = compiled.fill(
        data, starts, ends, first, len(starts), v6, blocks,
        tables.meanings, tables.stacks, tables.labels, tables.metadata, progress, state,
        to.metadata_id, to.sequence, to.capture_thread, to.thread, to.processor, to.stack, to.time, to.activity, to.related,
        to.payload_offset, to.payload_length, to.is_sorted.view(np.uint8), to.label_list, lent.runs, lent.guids,
    )  # fmt: skip
    assert done >= 0, "arrays that do not fit each other"
    rows, runs, guids, *_, zeroed = progress[0].tolist()
    if zeroed != 1:
        lent.touched()
    last, remainder = first + done, None
    if last < len(starts):
        remainder = Place(last, int(blocks["rows"][last]) + (place.rows if last == first else 0), state)
    touched = blocks[first : last + (remainder is not None)]
    return Piece(place, remainder, lent.first(rows), lent.runs[:runs], lent.guids[:guids], touched)


def _decode_blocks(group: Group, data: memoryview, base: int, place: Place) -> Piece:
    """The same without kernels, and for the uncompressed forms: block by block. Of NetPerf one block alone."""
    parts: list[Piece] = []
    remainder: Place | None = None
    rows, block, here = 0, place.block, Place(0, place.rows, place.state)
    while block < group.edges[-1]:
        run, at = group.run_of(block)
        part = _decode_block(run, at, data, base, here)
        if parts and rows + len(part.headers) > BATCH_ROWS:
            remainder = Place(block)
            break
        parts.append(part)
        rows += len(part.headers)
        if part.remainder is not None:
            remainder = Place(block, part.remainder.rows + here.rows, part.remainder.state)
            break
        block += 1
        remainder = Place(block) if block < group.edges[-1] else None
        if remainder is None or rows >= BATCH_ROWS or part.frames is not None:
            break
        here = Place()
    return join(parts, place, remainder)


def _decode_block(run: EventRun, at: int, data: memoryview, base: int, place: Place) -> Piece:
    start, end = int(run.starts[at]) - base, int(run.ends[at]) - base
    if run.form not in COMPRESSED_FORMS:
        from dotnetdiag.nettrace.uncompressed import decode
    else:
        from dotnetdiag.nettrace.fallback import decode
    piece = decode(data, start, end, run.form, place)
    if run.form is not Form.NETPERF:
        piece.headers = run.translation.apply(piece.headers, piece.blocks)
    return piece
