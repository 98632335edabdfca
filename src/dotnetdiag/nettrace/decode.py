"""Event blobs of blocks to header columns, in whichever form they are written (nettrace.md §3-§6).

A block is decoded knowing nothing of other blocks but the :class:`Translation` of its ids, so blocks may be decoded
in any order and by several threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from dotnetdiag.nettrace.arena import LEAST_EVENT, Arena, Lent
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import BATCH_ROWS, UNKNOWN_PROCESSOR
from dotnetdiag.nettrace.ids import Snapshot
from dotnetdiag.nettrace.kernels import (
    BAD_SIZE,
    BROKEN_HEADER,
    CUT_PAYLOAD,
    KERNELS,
    PLACES_WIDTH,
    ROWS,
    STATE_WIDTH,
    STOP,
    TABLE_WIDTH,
)


class Form(Enum):
    """How events are written."""

    COMPRESSED = "compressed, nettrace 4 and 5"
    COMPRESSED_V6 = "compressed, nettrace 6"
    UNCOMPRESSED = "uncompressed, nettrace 4 and 5"
    UNCOMPRESSED_V6 = "uncompressed, nettrace 6"
    NETPERF = "NetPerf"


COMPRESSED_FORMS = (Form.COMPRESSED, Form.COMPRESSED_V6)


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Translation:
    """What the ids of a block stand for, at the place where it stands in the file."""

    stacks: Snapshot | None = None
    labels: Snapshot | None = None
    metadata: Snapshot | None = None


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Job:
    """One event block to decode: its blobs lie from ``start`` to ``end``, absolute offsets."""

    form: Form
    start: int
    end: int
    translation: Translation


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Decoded:
    """One block's events, or as many as fit a batch: ``rest`` says where to go on.

    ``runs``: rows, ascending, where sequence numbers may jump. ``guids``: positions in the data of 16-byte ids;
    ``activity`` and ``related`` of ``headers`` are 1 + index into them. ``unresolved``: events with an undefined metadata
    id, stack id, label list. ``frames`` (NetPerf): position and size in bytes of each event's own stack.
    """

    headers: HeaderColumns
    runs: npt.NDArray[np.int64]
    guids: npt.NDArray[np.int64]
    stop: int
    problem: int
    detail: int
    unresolved: tuple[int, int, int]
    rest: Place | None = None
    frames: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
    positions: npt.NDArray[np.int64] | None = None


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Place:
    """Between two events: in which block of several, behind how many events of it, and what the kernels know there."""

    block: int = 0
    rows: int = 0
    state: Any = None


def decode(data: memoryview, job: Job, base: int = 0, place: Place | None = None) -> Decoded:
    """Header columns of one block, or of as much of it as fits a batch, from ``place`` on.

    Payload offsets are positions in ``data``, whose first byte stands at ``base``.
    """
    if job.form not in COMPRESSED_FORMS:
        return _decode_rows(data, job, base, place)
    v6 = job.form is Form.COMPRESSED_V6
    if KERNELS is not None:
        return decode_with(KERNELS, data, job, base, place)
    from dotnetdiag.nettrace import plain  # many programs never need it

    state = None if place is None else place.state
    columns, runs, guids, stop, problem, detail, state = plain.decode(
        data, job.start - base, job.end - base, v6=v6, most_rows=BATCH_ROWS, state=state
    )
    headers, unresolved = _translate(columns, job.translation)
    return Decoded(
        headers,
        runs,
        guids,
        stop,
        problem,
        detail,
        unresolved,
        None if state is None else Place(0, len(headers), state),
    )


def decode_all(data: memoryview, job: Job, base: int = 0) -> Iterator[Decoded]:
    """All of a block, in pieces."""
    place: Place | None = Place()
    while place is not None:
        piece = decode(data, job, base, place)
        yield piece
        place = piece.rest


def decode_with(kernels: Any, data: memoryview, job: Job, base: int = 0, place: Place | None = None) -> Decoded:
    """Like :func:`decode` for the compressed forms, with the given kernels (compiled or not)."""
    starts, ends = np.array([job.start - base], np.int64), np.array([job.end - base], np.int64)
    translated = translate([(1, job.translation)])
    lent = Arena(min(BATCH_ROWS, (job.end - job.start) // LEAST_EVENT + 1)).lend()
    filled = fill(kernels, data, starts, ends, job.form is Form.COMPRESSED_V6, translated, lent, place or Place())
    stop, problem, _, detail, first, second, third = filled.table[0, STOP:].tolist()
    unresolved = (first, second, third)
    return Decoded(filled.headers, filled.runs, filled.guids, stop, problem, detail, unresolved, filled.rest)


# many blocks into one set of columns ----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Translated:
    """Translation tables of many blocks: ``places`` says for each block (with one row: for all) what of the three
    tables is its own.
    """

    places: npt.NDArray[np.int64]
    stacks: npt.NDArray[np.uint32]
    labels: npt.NDArray[np.uint32]
    metadata: npt.NDArray[np.uint32]


class _Tables:
    """Translation tables one after another, each once."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        self._tables: list[npt.NDArray[np.uint32]] = []
        self._size = 0

    def place(self, snapshot: Snapshot | None) -> tuple[int, int, int, int, int]:
        if snapshot is None:
            return 0, 0, 0, 0, 0
        table = snapshot.table
        start = self._starts.get(id(table))
        if start is None:
            start = self._starts[id(table)] = self._size
            self._tables.append(table)
            self._size += table.size
        return start, snapshot.base, snapshot.near, snapshot.bits, snapshot.defined

    def joined(self) -> npt.NDArray[np.uint32]:
        if len(self._tables) == 1:
            return self._tables[0]
        return np.concatenate(self._tables) if self._tables else np.zeros(0, np.uint32)


def translate(parts: Sequence[tuple[int, Translation]]) -> Translated:
    """(number of blocks, what their ids stand for) of parts that follow each other, for the kernels."""
    stacks, labels, metadata = _Tables(), _Tables(), _Tables()
    rows = [(*stacks.place(one.stacks), *labels.place(one.labels), *metadata.place(one.metadata)) for _, one in parts]
    places = np.array(rows, np.int64).reshape(len(rows), PLACES_WIDTH)
    if len(parts) != 1:
        places = np.repeat(places, [count for count, _ in parts], axis=0)
    return Translated(places, stacks.joined(), labels.joined(), metadata.joined())


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Filled:
    """Columns of many blocks; a row of ``table`` for each block that was touched (see ``_kernels.py``).

    ``odd``: blocks in which something is wrong. ``rest``: where to go on when the columns are full.
    """

    headers: HeaderColumns
    runs: npt.NDArray[np.int64]
    guids: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]
    odd: int
    rest: Place | None


def fill(
    kernels: Any,
    data: memoryview,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    v6: bool,
    translated: Translated,
    lent: Lent,
    place: Place,
) -> Filled:
    """The events of compressed blocks from ``place`` on, as many as fit the arena."""
    first = place.block
    table = np.zeros((len(starts), TABLE_WIDTH), np.int64)
    state = np.zeros(STATE_WIDTH, np.uint64) if place.state is None else place.state.copy()
    most_rows, most_runs, most_guids = lent.limits
    cursor = np.array([0, 0, 0, most_rows, lent.zeroed, 0, *lent.starts, most_runs, most_guids], np.int64)
    done: int = kernels.fill(
        data, starts, ends, first, len(starts), v6, table, translated.places, cursor, state,
        translated.stacks, translated.labels, translated.metadata, *lent.outs,
    )  # fmt: skip
    assert done >= 0, "arrays that do not fit each other"
    rows, runs, guids, _, zeroed, odd = cursor[:6].tolist()
    if zeroed != 1:
        lent.zeroed = lent.arena.zeroed = False
    last = first + done
    rest = None
    if last < len(starts):
        rest = Place(last, int(table[last, ROWS]) + (place.rows if last == first else 0), state)
    return Filled(*lent.views(rows, runs, guids), table[first : last + (rest is not None)], odd, rest)


def _look_up(ids: npt.NDArray[np.uint32], snapshot: Snapshot | None) -> npt.NDArray[np.uint32]:
    return np.zeros(len(ids), np.uint32) if snapshot is None else snapshot.look_up(ids)


def _translate(columns: HeaderColumns, translation: Translation) -> tuple[HeaderColumns, tuple[int, int, int]]:
    shown = _look_up(columns.metadata_id, translation.metadata)
    stack = _look_up(columns.stack, translation.stacks)
    label = _look_up(columns.label_list, translation.labels)
    unresolved = (
        int(np.count_nonzero(shown == 0)),
        int(np.count_nonzero((stack == 0) & (columns.stack != 0))),
        int(np.count_nonzero((label == 0) & (columns.label_list != 0))),
    )
    shown = np.where(shown == 0, columns.metadata_id, shown)
    return replace(columns, metadata_id=shown, stack=stack, label_list=label), unresolved


# uncompressed forms ---------------------------------------------------------------------------------------------------

_WORD, _LONG = "<u4", "<u8"
_GUIDS = [("activity", "u1", 16), ("related", "u1", 16)]
_OPENING: list[Any] = [("size", _WORD), ("metadata", _WORD)]
_MIDDLE: list[Any] = [
    ("sequence", _WORD),
    ("thread", _LONG),
    ("capture", _LONG),
    ("processor", _WORD),
    ("stack", _WORD),
]
_TIME, _PAYLOAD = ("time", "<i8"), ("payload", _WORD)
_NETPERF = np.dtype([*_OPENING, ("thread", _WORD), _TIME, *_GUIDS, _PAYLOAD])
_V4 = np.dtype([*_OPENING, *_MIDDLE, _TIME, *_GUIDS, _PAYLOAD])
_V6 = np.dtype([*_OPENING, *_MIDDLE, _TIME, ("label", _WORD), _PAYLOAD])
_LAYOUTS = {Form.NETPERF: _NETPERF, Form.UNCOMPRESSED: _V4, Form.UNCOMPRESSED_V6: _V6}
_UNSORTED = np.uint32(0x80000000)


def _walk(
    data: memoryview, job: Job, base: int, start: int, layout: np.dtype[Any]
) -> tuple[npt.NDArray[np.int64], int, int]:
    header, size_at, trailing = layout.itemsize, layout.itemsize - 4, job.form is Form.NETPERF
    if KERNELS is None:
        from dotnetdiag.nettrace import plain

        return plain.walk(
            data, start, job.end - base, header=header, size_at=size_at, trailing=trailing, most_rows=BATCH_ROWS
        )
    result = np.zeros(3, np.int64)
    positions = np.empty(min(BATCH_ROWS, (job.end - start - base) // header + 1), np.int64)
    KERNELS.walk(data, start, job.end - base, header, size_at, trailing, positions, result)
    return positions[: int(result[0])], int(result[1]), int(result[2])


def _decode_rows(data: memoryview, job: Job, base: int, place: Place | None) -> Decoded:
    """Rows of fixed headers: find where they are, gather them, read the fields by strides."""
    layout = _LAYOUTS[job.form]
    start = job.start - base if place is None or place.state is None else place.state
    positions, stop, problem = _walk(data, job, base, start, layout)
    rows = len(positions)
    rest = Place(0, rows, stop) if not problem and stop < job.end - base else None
    raw = np.frombuffer(data, np.uint8)
    fields = np.zeros(rows, layout)
    if rows:
        fields = sliding_window_view(raw, layout.itemsize)[positions].view(layout).reshape(rows)
    payload_offset = positions + layout.itemsize
    guids = np.zeros(0, np.int64)
    activity, related = np.zeros(rows, np.uint32), np.zeros(rows, np.uint32)
    if job.form is not Form.UNCOMPRESSED_V6:
        for name, column in (("activity", activity), ("related", related)):
            stated = np.flatnonzero(fields[name].any(axis=1))
            column[stated] = np.arange(len(stated), dtype=np.uint32) + np.uint32(len(guids) + 1)
            field_at = layout.fields[name][1] if layout.fields else 0
            guids = np.concatenate([guids, positions[stated] + field_at])
    netperf = job.form is Form.NETPERF
    metadata = fields["metadata"].astype(np.uint32)
    thread = fields["thread"].astype(np.uint64)
    columns = HeaderColumns(
        metadata_id=metadata if netperf else metadata & ~_UNSORTED,
        sequence=np.zeros(rows, np.uint32) if netperf else fields["sequence"].astype(np.uint32),
        capture_thread=thread if netperf else fields["capture"].astype(np.uint64),
        thread=thread,
        processor=np.full(rows, UNKNOWN_PROCESSOR, np.uint32) if netperf else fields["processor"].astype(np.uint32),
        stack=np.zeros(rows, np.uint32) if netperf else fields["stack"].astype(np.uint32),
        time=fields["time"].astype(np.int64),
        activity=activity,
        related=related,
        payload_offset=payload_offset,
        payload_length=fields["payload"].astype(np.uint32),
        # NetPerf is in time order over the whole file; else bit 31 *set* means not sorted (nettrace.md §5.4)
        is_sorted=np.ones(rows, np.bool_) if netperf else metadata & _UNSORTED == 0,
        label_list=fields["label"].astype(np.uint32) if job.form is Form.UNCOMPRESSED_V6 else np.zeros(rows, np.uint32),
    )
    runs = np.zeros(0, np.int64)
    if netperf:
        frames_at = payload_offset + columns.payload_length
        if rows:
            frames_size = sliding_window_view(raw, 4)[frames_at].view(_WORD).reshape(rows).astype(np.int64)
        else:
            frames_size = np.zeros(0, np.int64)
        frames = (frames_at + 4, frames_size)
        return Decoded(columns, runs, guids, stop, problem, 0, (0, 0, 0), rest, frames=frames, positions=positions)
    if rows:
        jumps = (np.diff(columns.sequence) != 1) | (np.diff(columns.capture_thread) != 0)
        runs = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(jumps) + 1])
    headers, unresolved = _translate(columns, job.translation)
    return Decoded(headers, runs, guids, stop, problem, 0, unresolved, rest)


PROBLEMS = {
    BROKEN_HEADER: "an event header is broken or cut",
    CUT_PAYLOAD: "an event reaches beyond the block",
    BAD_SIZE: "the sizes of an event disagree",
}
