"""Event blobs of blocks to header columns, in whichever form they are written (nettrace.md §3-§6).

A block is decoded knowing nothing of other blocks but the :class:`Translation` of its ids, so blocks may be decoded
in any order and by several threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace import plain
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import UNKNOWN_PROCESSOR
from dotnetdiag.nettrace.kernels import (
    BAD_SIZE,
    BROKEN_HEADER,
    CUT_PAYLOAD,
    DETAIL,
    GUIDS,
    KERNELS,
    PLACES_WIDTH,
    PROBLEM,
    ROWS,
    RUNS,
    STOP,
    TABLE_WIDTH,
)

Snapshot = tuple[npt.NDArray[np.uint32], int, int]
"""(table, first id, length): see ``IdMap.snapshot``."""

EMPTY: Snapshot = (np.zeros(0, np.uint32), 0, 0)
NO_TALLY = np.zeros((2, 0), np.int64)


class Form(Enum):
    """How events are written."""

    COMPRESSED = "compressed, nettrace 4 and 5"
    COMPRESSED_V6 = "compressed, nettrace 6"
    UNCOMPRESSED = "uncompressed, nettrace 4 and 5"
    UNCOMPRESSED_V6 = "uncompressed, nettrace 6"
    NETPERF = "NetPerf"


COMPRESSED_FORMS = (Form.COMPRESSED, Form.COMPRESSED_V6)


@dataclass(frozen=True, slots=True)
class Translation:
    """What the ids of a block stand for, at the place where it stands in the file."""

    stacks: Snapshot = EMPTY
    labels: Snapshot = EMPTY
    metadata: Snapshot = EMPTY
    far_metadata: frozenset[int] = frozenset()
    """defined metadata ids that are not in the table"""


@dataclass(frozen=True, slots=True)
class Job:
    """One event block to decode: its blobs lie from ``start`` to ``end``, absolute offsets."""

    form: Form
    start: int
    end: int
    translation: Translation


@dataclass(frozen=True, slots=True)
class Decoded:
    """One block's events.

    ``runs``: rows (ascending, from 0) where sequence numbers may jump. ``guids``: positions in the data of 16-byte ids;
    ``activity`` and ``related`` of ``headers`` are 1 + index into them. ``strays``: events with an undefined metadata
    id, stack id, label list. ``frames`` (NetPerf): position and size in bytes of each event's own stack.
    """

    headers: HeaderColumns
    runs: npt.NDArray[np.int64]
    guids: npt.NDArray[np.int64]
    stop: int
    problem: int
    detail: int
    strays: tuple[int, int, int]
    frames: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
    positions: npt.NDArray[np.int64] | None = None


def decode(data: memoryview, job: Job, base: int = 0) -> Decoded:
    """Header columns of one block; payload offsets are positions in ``data``, whose first byte stands at ``base``."""
    if job.form not in COMPRESSED_FORMS:
        return _decode_plain_rows(data, job, base)
    v6 = job.form is Form.COMPRESSED_V6
    if KERNELS is None:
        columns, runs, guids, stop, problem, detail = plain.decode(data, job.start - base, job.end - base, v6=v6)
        headers, strays = _translate(columns, job.translation)
        return Decoded(headers, runs, guids, stop, problem, detail, strays)
    return decode_with(KERNELS, data, job, base)


def decode_with(kernels: Any, data: memoryview, job: Job, base: int = 0) -> Decoded:
    """Like :func:`decode` for the compressed forms, with the given kernels (compiled or not)."""
    v6 = job.form is Form.COMPRESSED_V6
    table = np.zeros((1, TABLE_WIDTH), np.int64)
    starts = np.array([job.start - base], np.int64)
    kernels.count(data, starts, np.array([job.end - base], np.int64), 0, 1, v6, table, NO_TALLY)
    rows, runs_count, guids_count, stop, problem, _, detail = table[0].tolist()
    places = np.zeros((1, PLACES_WIDTH), np.int64)
    translation = job.translation
    for at, (_, base, length) in zip(
        (3, 6, 9), (translation.stacks, translation.labels, translation.metadata), strict=True
    ):
        places[0, at + 1] = length
        places[0, at + 2] = base
    headers = HeaderColumns.allocate(rows)
    runs, guids = np.empty(runs_count, np.int64), np.empty(guids_count, np.int64)
    strays = np.zeros((1, 3), np.int64)
    fill(
        kernels, data, starts, 0, 1, v6, table, places, translation.stacks[0], translation.labels[0],
        translation.metadata[0], strays, headers, runs, guids,
    )  # fmt: skip
    first, second, third = strays[0].tolist()
    return Decoded(headers, runs, guids, stop, problem, detail, (first, second, third))


def fill(
    kernels: Any,
    data: memoryview,
    starts: npt.NDArray[np.int64],
    first: int,
    last: int,
    v6: bool,
    table: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    stacks: npt.NDArray[np.uint32],
    labels: npt.NDArray[np.uint32],
    metadata: npt.NDArray[np.uint32],
    strays: npt.NDArray[np.int64],
    headers: HeaderColumns,
    runs: npt.NDArray[np.int64],
    guids: npt.NDArray[np.int64],
) -> None:
    """Call the fill kernel over checked blocks: ``headers``, ``runs`` and ``guids`` are written at ``places``."""
    kernels.fill(
        data, starts, first, last, v6, table, places, 0, stacks, labels, metadata, strays,
        headers.metadata_id, headers.sequence, headers.capture_thread, headers.thread, headers.processor, headers.stack,
        headers.time.view(np.uint64), headers.activity, headers.related, headers.payload_offset, headers.payload_length,
        headers.is_sorted.view(np.uint8), headers.label_list, runs, guids,
    )  # fmt: skip


def _look_up(ids: npt.NDArray[np.uint32], snapshot: Snapshot) -> npt.NDArray[np.uint32]:
    table, base, length = snapshot
    if not length:
        return np.zeros(len(ids), np.uint32)
    at = ids.astype(np.int64) - base
    inside = (at >= 0) & (at < length)
    return np.where(inside, table[np.where(inside, at, 0)], np.uint32(0))


def _translate(columns: HeaderColumns, translation: Translation) -> tuple[HeaderColumns, tuple[int, int, int]]:
    shown = _look_up(columns.metadata_id, translation.metadata)
    stack = _look_up(columns.stack, translation.stacks)
    label = _look_up(columns.label_list, translation.labels)
    strays = (
        int(np.count_nonzero(shown == 0)),
        int(np.count_nonzero((stack == 0) & (columns.stack != 0))),
        int(np.count_nonzero((label == 0) & (columns.label_list != 0))),
    )
    shown = np.where(shown == 0, columns.metadata_id, shown)
    return replace(columns, metadata_id=shown, stack=stack, label_list=label), strays


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


def _walk(data: memoryview, job: Job, base: int, layout: np.dtype[Any]) -> tuple[npt.NDArray[np.int64], int, int]:
    header, size_at, trailing = layout.itemsize, layout.itemsize - 4, job.form is Form.NETPERF
    if KERNELS is None:
        return plain.walk(data, job.start - base, job.end - base, header=header, size_at=size_at, trailing=trailing)
    result = np.zeros(3, np.int64)
    positions = np.zeros(0, np.int64)
    KERNELS.walk(data, job.start - base, job.end - base, header, size_at, trailing, positions, result)
    positions = np.empty(int(result[0]), np.int64)
    KERNELS.walk(data, job.start - base, job.end - base, header, size_at, trailing, positions, result)
    return positions, int(result[1]), int(result[2])


def _decode_plain_rows(data: memoryview, job: Job, base: int) -> Decoded:
    """Rows of fixed headers: find where they are, gather them, read the fields by strides."""
    layout = _LAYOUTS[job.form]
    positions, stop, problem = _walk(data, job, base, layout)
    rows = len(positions)
    raw = np.frombuffer(data, np.uint8)
    fields = np.zeros(rows, layout)
    if rows:
        fields = raw[positions[:, None] + np.arange(layout.itemsize)].view(layout).reshape(rows)
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
            frames_size = raw[frames_at[:, None] + np.arange(4)].view(_WORD).reshape(rows).astype(np.int64)
        else:
            frames_size = np.zeros(0, np.int64)
        return Decoded(
            columns, runs, guids, stop, problem, 0, (0, 0, 0), frames=(frames_at + 4, frames_size), positions=positions
        )
    if rows:
        jumps = (np.diff(columns.sequence) != 1) | (np.diff(columns.capture_thread) != 0)
        runs = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(jumps) + 1])
    headers, strays = _translate(columns, job.translation)
    return Decoded(headers, runs, guids, stop, problem, 0, strays)


PROBLEMS = {
    BROKEN_HEADER: "an event header is broken or cut",
    CUT_PAYLOAD: "an event reaches beyond the block",
    BAD_SIZE: "the sizes of an event disagree",
}


# many blocks into one table -------------------------------------------------------------------------------------------


class _Arena:
    """Translation tables of all blocks, one after another, each once."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        self._tables: list[npt.NDArray[np.uint32]] = []
        self._size = 0

    def place(self, snapshot: Snapshot) -> tuple[int, int, int]:
        table, base, length = snapshot
        start = self._starts.get(id(table))
        if start is None:
            start = self._starts[id(table)] = self._size
            self._tables.append(table)
            self._size += len(table)
        return start, length, base

    def joined(self) -> npt.NDArray[np.uint32]:
        return np.concatenate(self._tables) if self._tables else np.zeros(0, np.uint32)


@dataclass(slots=True)
class Checked:
    """Compressed blocks of one form that the check pass has gone through: ``table`` has a row for each."""

    jobs: Sequence[Job]
    v6: bool
    starts: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]

    def places(self) -> tuple[npt.NDArray[np.int64], tuple[npt.NDArray[np.uint32], ...]]:
        """Where the fill pass puts each block, and the translation tables."""
        arenas = (_Arena(), _Arena(), _Arena())
        places = np.zeros((len(self.jobs), PLACES_WIDTH), np.int64)
        for at, column in enumerate((ROWS, RUNS, GUIDS)):
            np.cumsum(self.table[:-1, column], out=places[1:, at])
        known: dict[int, list[int]] = {}
        for row, job in enumerate(self.jobs):
            found = known.get(id(job.translation))
            if found is None:
                found = known[id(job.translation)] = [
                    *arenas[0].place(job.translation.stacks),
                    *arenas[1].place(job.translation.labels),
                    *arenas[2].place(job.translation.metadata),
                ]
            places[row, 3:] = found
        return places, tuple(arena.joined() for arena in arenas)


def split(weights: npt.NDArray[np.int64], parts: int) -> list[tuple[int, int]]:
    """Contiguous ranges of about equal weight."""
    total = np.cumsum(weights)
    if not len(total):
        return []
    marks = np.searchsorted(total, np.arange(1, parts) * (int(total[-1]) / parts), side="left") + 1
    edges = sorted({0, *np.minimum(marks, len(total)).tolist(), len(total)})
    return list(pairwise(edges))


__all__ = [
    "COMPRESSED_FORMS",
    "DETAIL",
    "PROBLEM",
    "PROBLEMS",
    "STOP",
    "Checked",
    "Decoded",
    "Form",
    "Job",
    "Translation",
    "decode",
    "decode_with",
    "fill",
    "split",
]
