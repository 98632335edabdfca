"""The loops over payloads, compiled or by numpy, with arrays in and arrays out.

Everything takes ``buffer`` as a contiguous u8 array; starts and lengths as i64.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.events import fallback
from dotnetdiag.events.operations import State

Array: TypeAlias = "np.ndarray[Any, Any]"


def _compiled() -> ModuleType | None:
    try:
        from dotnetdiag.events import _kernels
    except ImportError:
        return None
    return _kernels if sys.byteorder == "little" else None


KERNELS: ModuleType | None = _compiled()
"""The compiled loops; None where there are none, and numpy does all."""

# Allocated and freed once. The C library of Linux gives freed memory back to the system and asks for it again page by page,
# unless it has seen a larger block freed (mallopt(3), M_TRIM_THRESHOLD): a tenth of the time of decoding.
np.empty(16 << 20, np.uint8)

_BATCH = 1024
_IDS = 4096
"""More event types than traces have; with larger ids rows are sorted by numpy."""


@dataclass(slots=True, eq=False, repr=False, kw_only=True)  # quick to import
class Walked:
    """What a program made of some rows. ``slots`` are arrays into one allocation; ``ascii`` says so of text slots."""

    slots: list[Array]
    ascii: list[bool]
    """False also where it is not known."""
    positions: Array
    present: Array
    state: Array
    least: int
    """The least of ``present``. When it is all there may be, nothing is missing, and the two above hold anything."""
    broken: bool
    """Whether any row ended within a value."""
    left: bool
    """Whether any row stopped before its end."""


def bound(buffer: Array, starts: Array, lengths: Array) -> tuple[Array, int] | None:
    """(ends of rows, their bytes together); None when a row is not inside of ``buffer``. ``lengths`` are u32."""
    ends = np.empty(len(starts), np.int64)
    if KERNELS is None:
        inside = (starts >= 0) & (starts <= len(buffer)) & (lengths <= len(buffer) - np.maximum(starts, 0))
        np.add(starts, lengths, out=ends)
        return (ends, int(lengths.sum(dtype=np.int64))) if inside.all() else None
    bad, total = KERNELS.bound(starts, lengths, len(buffer), ends)
    return None if bad else (ends, total)


def walk(
    buffer: Array,
    origins: Array,
    starts: Array,
    ends: Array,
    ops: Array,
    widths: list[int],
    *,
    registers: int,
    values: int,
) -> Walked:
    """Run the program ``ops`` (of type ``operations.OPERATION``) over rows ``starts[r]`` to ``ends[r]`` of ``buffer``.

    ``origins`` are where their payloads start, ``widths`` the bytes per row and slot, ``values`` how many values a row has.
    """
    rows = len(starts)
    if not len(ops):
        nothing, left = np.empty(rows, np.int64), not np.array_equal(starts, ends)
        return Walked(
            slots=[],
            ascii=[],
            positions=starts,
            present=nothing,
            state=nothing,
            least=values,
            broken=False,
            left=left,
        )
    at, total = [], 0
    for width in widths:
        at.append(total)
        total += (width * rows + 15) // 16 * 16
    arena = np.empty(total // 8 + 2, np.uint64)
    positions, present, state = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.uint8)
    raw = arena.view(np.uint8)
    slots = [raw[first : first + width * rows] for first, width in zip(at, widths, strict=True)]
    if KERNELS is None:
        positions[:] = starts
        fallback.walk(buffer, origins, positions, ends, ops, slots, registers, present, state, values)
        return Walked(
            slots=slots,
            ascii=[False] * len(widths),
            positions=positions,
            present=present,
            state=state,
            least=int(present.min()) if rows else values,
            broken=bool((state == State.BROKEN).any()),
            left=not np.array_equal(positions, ends),
        )
    wide = np.zeros(len(widths), np.uint8)
    least, broken, left = KERNELS.walk(
        buffer,
        origins,
        starts,
        positions,
        ends,
        ops,
        np.array(at, np.int64),
        arena,
        np.zeros((registers, min(_BATCH, max(rows, 1))), np.int64),
        np.zeros(registers, np.int64),
        wide,
        present,
        state,
        values,
    )
    return Walked(
        slots=slots,
        ascii=[not flag for flag in wide.tolist()],
        positions=positions,
        present=present,
        state=state,
        least=least,
        broken=broken > 0,
        left=left > 0,
    )


def elements(
    buffer: Array, firsts: Array, numbers: Array, ends: Array, ops: Array, first: int, last: int, registers: int
) -> Array:
    """Where each element of some lists begins; the lists have been passed by :func:`walk`."""
    out = np.empty(int(numbers.sum()), np.int64)
    if KERNELS is None:
        fallback.elements(buffer, firsts, numbers, ends, ops, first, last, registers, out)
    else:
        KERNELS.elements(buffer, firsts, numbers, ends, ops, first, last, np.zeros(registers, np.int64), out)
    return out


def only(ids: Array) -> int | None:
    """The one id of all rows; None when there are several, or no row."""
    if not len(ids):
        return None
    same = bool((ids == ids[0]).all()) if KERNELS is None else KERNELS.same(ids)
    return int(ids[0]) if same else None


def bucket(ids: Array, offsets: Array, lengths: Array) -> tuple[list[tuple[int, int]], Array, Array]:
    """([(id, where its rows end)], ascending; offsets and lengths of rows sorted by id, otherwise in their order)."""
    if KERNELS is not None:
        counts = np.zeros(_IDS, np.int64)
        sorted_offsets, sorted_lengths = np.empty(len(ids), np.int64), np.empty(len(ids), np.uint32)
        if KERNELS.bucket(ids, offsets, lengths, counts, sorted_offsets, sorted_lengths):
            found = np.flatnonzero(np.diff(counts, prepend=0))
            return list(zip(found.tolist(), counts[found].tolist(), strict=True)), sorted_offsets, sorted_lengths
    order = np.argsort(ids, kind="stable")
    values, numbers = np.unique(ids, return_counts=True)
    return list(zip(values.tolist(), np.cumsum(numbers).tolist(), strict=True)), offsets[order], lengths[order]


def grouped(ids: Array) -> dict[int, Array]:
    """The rows of each id, ascending."""
    if KERNELS is not None:
        counts, rows = np.zeros(_IDS, np.int64), np.empty(len(ids), np.int64)
        if KERNELS.group(ids, counts, rows):
            numbers = np.flatnonzero(np.diff(counts, prepend=0))
            return dict(zip(numbers.tolist(), _cut(rows, counts[numbers]), strict=True))
    order = np.argsort(ids, kind="stable")
    values = np.unique(ids)
    return dict(zip(values.tolist(), _cut(order, np.searchsorted(ids[order], values, "right")), strict=True))


def _cut(rows: Array, ends: Array) -> list[Array]:
    begins = [0, *ends.tolist()]
    return [rows[begin:end] for begin, end in pairwise(begins)]


def select(ids: Array, wanted: Array) -> Array:
    """Rows whose id (u32) is wanted, which a mask by id says; those beyond it are not."""
    if KERNELS is None:
        return np.flatnonzero(np.append(wanted, False)[np.minimum(ids, len(wanted))])
    rows = np.empty(len(ids), np.int64)
    return rows[: KERNELS.select(ids, wanted.view(np.uint8), rows)]


class Fronts:
    """What spans may begin with: up to 255 (none of them empty), and how long a span of each is, -1 for any."""

    def __init__(self, fronts: Sequence[tuple[bytes, int]]) -> None:
        self.bytes = np.frombuffer(b"".join(front for front, _ in fronts), np.uint8)
        ends = np.cumsum([len(front) for front, _ in fronts], dtype=np.int64)
        self.bounds = np.array([ends, [length for _, length in fronts]], np.int64).reshape(2, len(fronts))

    def __len__(self) -> int:
        return self.bounds.shape[1]

    def of(self, buffer: Array, offsets: Array, lengths: Array) -> Array:
        """The first with which each span (of 64-bit offsets and lengths) begins, by number (u8); as many as there are where none does."""
        found = np.empty(len(offsets), np.uint8)
        if KERNELS is not None:
            KERNELS.which_front(buffer, offsets, lengths, self.bytes, self.bounds, found)
            return found
        found[:] = len(self)
        begins = [0, *self.bounds[0].tolist()]
        for number, (begin, (end, length)) in reversed([*enumerate(zip(begins, self.bounds.T.tolist(), strict=False))]):
            alike = (lengths >= end - begin) & (offsets >= 0) & (offsets <= len(buffer) - (end - begin))
            alike &= (lengths == length) | (length < 0)
            places = offsets[alike][:, None] + np.arange(end - begin)
            alike[alike] = (buffer[places] == self.bytes[begin:end]).all(axis=1)
            found[alike] = number
        return found


def _offsets(lengths: Array, *, shift: int = 0) -> Array:
    offsets = np.empty(len(lengths) + 1, np.int64)
    if KERNELS is None:
        offsets[0] = 0
        np.cumsum(lengths >> shift, out=offsets[1:])
    else:
        KERNELS.add_up(np.ascontiguousarray(lengths, np.int64), shift, offsets)
    return offsets


def gather(buffer: Array, starts: Array, lengths: Array) -> tuple[Array, Array]:
    """Offsets and bytes of spans, copied one behind another."""
    offsets = _offsets(lengths)
    out = np.empty(int(offsets[-1]), np.uint8)
    if len(out):
        starts = np.ascontiguousarray(starts, np.int64)
        if KERNELS is not None:
            KERNELS.copy(buffer, starts, offsets, out)
        else:
            index = np.arange(len(out), dtype=np.int64) + np.repeat(starts - offsets[:-1], lengths)
            np.take(buffer, index, out=out)
    return offsets, out


def transcode(buffer: Array, starts: Array, lengths: Array, ascii_only: bool) -> tuple[Array, Array]:
    """Offsets and UTF-8 of UTF-16 spans (``lengths`` in bytes). Lone surrogates stay, as three bytes each."""
    starts = np.ascontiguousarray(starts, np.int64)
    lengths = np.ascontiguousarray(lengths, np.int64)
    if KERNELS is None:
        return fallback.transcode(*gather(buffer, starts, lengths // 2 * 2))
    if ascii_only:
        offsets = _offsets(lengths, shift=1)
        out = np.empty(int(offsets[-1]), np.uint8)
        KERNELS.narrow(buffer, starts, offsets, out)
        return offsets, out
    sizes = np.empty(len(starts), np.int64)
    KERNELS.utf8_sizes(buffer, starts, lengths, sizes)
    offsets = _offsets(sizes)
    out = np.empty(int(offsets[-1]), np.uint8)
    KERNELS.utf8_write(buffer, starts, lengths, offsets, out)
    return offsets, out
