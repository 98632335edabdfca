"""Event blobs of blocks to header columns, in whichever form they are written (nettrace.md §3-§6).

A block is decoded knowing nothing of other blocks but the :class:`Translation` of its ids, so blocks may be decoded
in any order and by several threads.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.columns import COLUMN_TYPES, SPARSE_COLUMNS, HeaderColumns
from dotnetdiag.nettrace.constants import UNKNOWN_PROCESSOR
from dotnetdiag.nettrace.kernels import (
    BAD_SIZE,
    BROKEN_HEADER,
    CUT_PAYLOAD,
    KERNELS,
    PLACES_WIDTH,
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


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Translation:
    """What the ids of a block stand for, at the place where it stands in the file."""

    stacks: Snapshot = EMPTY
    labels: Snapshot = EMPTY
    metadata: Snapshot = EMPTY
    far_metadata: frozenset[int] = frozenset()
    """defined metadata ids that are not in the table"""


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Job:
    """One event block to decode: its blobs lie from ``start`` to ``end``, absolute offsets."""

    form: Form
    start: int
    end: int
    translation: Translation


@dataclass(slots=True, eq=False, repr=False)  # quick to import
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
        from dotnetdiag.nettrace import plain  # many programs never need it

        columns, runs, guids, stop, problem, detail = plain.decode(data, job.start - base, job.end - base, v6=v6)
        headers, strays = _translate(columns, job.translation)
        return Decoded(headers, runs, guids, stop, problem, detail, strays)
    return decode_with(KERNELS, data, job, base)


def decode_with(kernels: Any, data: memoryview, job: Job, base: int = 0) -> Decoded:
    """Like :func:`decode` for the compressed forms, with the given kernels (compiled or not)."""
    arena = Arena(max(1, (job.end - job.start) // LEAST_EVENT + 1))
    starts, ends = np.array([job.start - base], np.int64), np.array([job.end - base], np.int64)
    translated = translate([(1, job.translation)])
    found = fill(kernels, data, starts, ends, job.form is Form.COMPRESSED_V6, translated, arena)
    assert found is not None
    stop, problem, _, detail, first, second, third = found.table[0, STOP:].tolist()
    return Decoded(found.headers, found.runs, found.guids, stop, problem, detail, (first, second, third))


# many blocks into one set of columns ----------------------------------------------------------------------------------

LEAST_EVENT = 2
"""Bytes of the smallest event: flags and time."""


# columns in the order in which the kernel is told where they begin
_ORDER: tuple[str, ...] = (
    "metadata_id",
    "sequence",
    "processor",
    "stack",
    "activity",
    "related",
    "payload_length",
    "label_list",
)
_ORDER += ("capture_thread", "thread", "time", "payload_offset", "is_sorted")


class Arena:
    """Memory for the columns of so many events, their runs and their GUIDs' places: touched only where it is used."""

    __slots__ = ("_bare", "_guids", "_headers", "_idle", "_memory", "_runs", "outs", "places", "rows", "zeroed")

    def __init__(self, rows: int, *, runs: int | None = None, guids: int | None = None) -> None:
        """``runs`` and ``guids``: room for those, where their number is known."""
        self.rows = rows
        self.zeroed = True
        """Whether the columns that are nearly always zero are so in every row."""
        kinds: list[tuple[int, Any]] = [(rows, COLUMN_TYPES[name]) for name in _ORDER]
        kinds += [(rows if runs is None else runs, np.int64), (2 * rows + 2 if guids is None else guids, np.int64)]
        at, starts = 0, []
        for count, kind in kinds:
            starts.append(at)
            at += -(-count * np.dtype(kind).itemsize // 64) * 64
        # an array of whole words, for the kernel; all views hold it and nothing else
        memory = np.zeros(at // 8 + 1, np.uint64)
        self._memory = memory
        raw = memory.view(np.uint8)
        self.outs = (raw, memory.view(np.uint32), memory)
        self.places = [start // np.dtype(kind).itemsize for start, (_, kind) in zip(starts, kinds, strict=True)]
        views = [
            raw[start : start + count * np.dtype(kind).itemsize].view(kind)
            for start, (count, kind) in zip(starts, kinds, strict=True)
        ]
        named = dict(zip(_ORDER, views, strict=False))
        self._headers = HeaderColumns(**named)
        for name in SPARSE_COLUMNS:  # nobody may write to what is taken to be zero the next time
            named[name] = named[name].view()
            named[name].flags.writeable = False
        self._bare = HeaderColumns(**named)
        self._runs, self._guids = views[-2:]
        del raw, views, named
        self._idle = sys.getrefcount(memory)  # counts the local name, which `idle` has not, but an argument as well

    @property
    def size_bytes(self) -> int:
        """All of it."""
        return self._memory.nbytes

    @property
    def idle(self) -> bool:
        """True when nobody holds a view of the columns."""
        return sys.getrefcount(self._memory) < self._idle

    def views(
        self, rows: int, runs: int, guids: int
    ) -> tuple[HeaderColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(headers, runs, guids): the first so many of each."""
        return (self._bare if self.zeroed else self._headers)[:rows], self._runs[:runs], self._guids[:guids]


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

    def place(self, snapshot: Snapshot) -> tuple[int, int, int]:
        table, base, length = snapshot
        start = self._starts.get(id(table))
        if start is None:
            start = self._starts[id(table)] = self._size
            self._tables.append(table)
            self._size += len(table)
        return start, length, base

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
    """Columns of many blocks; a row of ``table`` for each block (see ``_kernels.py``). ``odd``: blocks in which
    something is wrong.
    """

    headers: HeaderColumns
    runs: npt.NDArray[np.int64]
    guids: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]
    odd: int


def fill(
    kernels: Any,
    data: memoryview,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    v6: bool,
    translated: Translated,
    arena: Arena,
) -> Filled | None:
    """All events of compressed blocks in one pass, in the memory of ``arena``; None when it is too small."""
    table = np.empty((len(starts), TABLE_WIDTH), np.int64)
    done, (rows, runs, guids), odd = fill_part(
        kernels, data, starts, ends, (0, len(starts)), v6, table, translated, arena, (0, 0, 0)
    )
    return Filled(*arena.views(rows, runs, guids), table, odd) if done == len(starts) else None


def fill_part(
    kernels: Any,
    data: memoryview,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    blocks: tuple[int, int],
    v6: bool,
    table: npt.NDArray[np.int64],
    translated: Translated,
    arena: Arena,
    before: tuple[int, int, int],
) -> tuple[int, tuple[int, int, int], int]:
    """Call the fill kernel for blocks from one to below another; ``before``: rows, runs and guids that stand before.

    Returns how many were done, rows, runs and guids with them, and in how many something is wrong.
    """
    cursor = np.array([*before, arena.rows, arena.zeroed, 0, *arena.places], np.int64)
    done: int = kernels.fill(
        data, starts, ends, *blocks, v6, table, translated.places, cursor,
        translated.stacks, translated.labels, translated.metadata, *arena.outs,
    )  # fmt: skip
    rows, runs, guids, _, zeroed, odd = cursor[:6].tolist()
    if zeroed != 1:
        arena.zeroed = False
    return done, (rows, runs, guids), odd


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
        from dotnetdiag.nettrace import plain

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


def split(weights: npt.NDArray[np.int64], parts: int) -> list[tuple[int, int]]:
    """Contiguous ranges of about equal weight."""
    total = np.cumsum(weights)
    if not len(total):
        return []
    marks = np.searchsorted(total, np.arange(1, parts) * (int(total[-1]) / parts), side="left") + 1
    edges = sorted({0, *np.minimum(marks, len(total)).tolist(), len(total)})
    return list(pairwise(edges))
