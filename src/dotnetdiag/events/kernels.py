"""The kernels with arrays in and arrays out: allocates, calls :mod:`._kernels`, compiled or not.

Everything takes ``buffer`` as a contiguous u8 array; starts and lengths as i64.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events import _kernels, plain

Array: TypeAlias = "np.ndarray[Any, Any]"

COMPILED: bool = _kernels.compiled and sys.byteorder == "little"
"""Whether the loops are machine code."""

NUMPY: bool = not COMPILED
"""Whether numpy does what it can; else the loops run as they stand (tests run them uncompiled too)."""

_BATCH = 1024
_IDS = 4096
"""More event types than traces have; with larger ids rows are sorted by numpy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What a program made of some rows. ``slots`` are arrays into one allocation; ``ascii`` says so of text slots."""

    slots: list[Array]
    ascii: list[bool]
    positions: Array
    present: Array
    state: Array
    least: int
    """The least of ``present``. When it is all there may be, nothing is missing, and the two above hold anything."""
    broken: bool
    """Whether any ``state`` is 2."""
    left: bool
    """Whether any row stopped before its end."""


def _view(array: Array) -> Any:
    """A view whose items are plain ints when the kernels are not compiled."""
    return array if COMPILED else memoryview(array)  # type: ignore[arg-type]


def bound(buffer: Array, starts: Array, lengths: Array) -> tuple[Array, int] | None:
    """(ends of rows, their bytes together); None when a row is not inside of ``buffer``. ``lengths`` are u32."""
    ends, found = np.empty(len(starts), np.int64), np.zeros(2, np.int64)
    if NUMPY:
        inside = (starts >= 0) & (starts <= len(buffer)) & (lengths <= len(buffer) - np.maximum(starts, 0))
        np.add(starts, lengths, out=ends)
        return (ends, int(lengths.sum(dtype=np.int64))) if inside.all() else None
    _kernels.bound(_view(starts), _view(lengths), len(buffer), _view(ends), _view(found))
    bad, total = found.tolist()
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
    """Run the program ``ops`` over rows. ``widths`` are the bytes per row and slot. See ``_kernels.walk``."""
    rows = len(starts)
    at, total = [], 0
    for width in widths:
        at.append(total)
        total += (width * rows + 15) // 16 * 16
    arena = np.empty(total // 8 + 2, np.uint64)
    positions, present, state = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.uint8)
    wide, totals = np.zeros(len(widths) + 1, np.uint8), np.zeros(3, np.int64)
    raw = arena.view(np.uint8)
    slots = [raw[first : first + width * rows] for first, width in zip(at, widths, strict=True)]
    if NUMPY:
        positions[:] = starts
        plain.walk(buffer, origins, positions, ends, ops, slots, registers, present, state, values, _kernels._skip)
        return Walked(
            slots=slots,
            ascii=[False] * len(widths),
            positions=positions,
            present=present,
            state=state,
            least=int(present.min()) if rows else values,
            broken=bool((state == 2).any()),
            left=not np.array_equal(positions, ends),
        )
    batch = min(_BATCH, max(rows, 1))
    _kernels.walk(
        _view(buffer),
        _view(origins),
        _view(starts),
        _view(positions),
        _view(ends),
        _view(ops),
        _view(np.array([*at, 0], np.int64)),
        _view(raw),
        _view(arena.view(np.uint16)),
        _view(arena.view(np.uint32)),
        _view(arena),
        _view(np.zeros((registers + 1, batch), np.int64)),
        _view(np.zeros(registers + 1, np.int64)),
        _view(wide),
        _view(present),
        _view(state),
        values,
        _view(totals),
    )
    least, broken, left = totals.tolist()
    return Walked(
        slots=slots,
        ascii=[not flag for flag in wide[:-1].tolist()],
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
    scratch = np.zeros(registers + 1, np.int64)
    _kernels.elements(
        _view(buffer),
        _view(firsts),
        _view(numbers),
        _view(ends),
        _view(ops),
        first,
        last,
        _view(scratch),
        _view(out),
    )
    return out


def only(ids: Array) -> int | None:
    """The one id of all rows; None when there are several, or no row."""
    if not len(ids):
        return None
    same = bool((ids == ids[0]).all()) if NUMPY else _kernels.same(_view(ids))
    return int(ids[0]) if same else None


def bucket(ids: Array, offsets: Array, lengths: Array) -> tuple[list[tuple[int, int]], Array, Array]:
    """([(id, where its rows end)], ascending; offsets and lengths of rows sorted by id, otherwise in their order)."""
    if not NUMPY:
        counts = np.zeros(_IDS, np.int64)
        sorted_offsets, sorted_lengths = np.empty(len(ids), np.int64), np.empty(len(ids), np.uint32)
        given = (ids, offsets, lengths, counts, sorted_offsets, sorted_lengths)
        if _kernels.bucket(*map(_view, given)):
            found = np.flatnonzero(np.diff(counts, prepend=0))
            return list(zip(found.tolist(), counts[found].tolist(), strict=True)), sorted_offsets, sorted_lengths
    order = np.argsort(ids, kind="stable")
    values, numbers = np.unique(ids, return_counts=True)
    return list(zip(values.tolist(), np.cumsum(numbers).tolist(), strict=True)), offsets[order], lengths[order]


def _offsets(lengths: Array, divisor: int = 1) -> Array:
    offsets = np.empty(len(lengths) + 1, np.int64)
    if NUMPY:
        offsets[0] = 0
        np.cumsum(lengths // divisor, out=offsets[1:])
    else:
        _kernels.add_up(_view(np.ascontiguousarray(lengths, np.int64)), divisor, _view(offsets))
    return offsets


def gather(buffer: Array, starts: Array, lengths: Array) -> tuple[Array, Array]:
    """Offsets and bytes of spans, copied one behind another."""
    offsets = _offsets(lengths)
    out = np.empty(int(offsets[-1]), np.uint8)
    if len(out):
        starts = np.ascontiguousarray(starts, np.int64)
        if not NUMPY:
            _kernels.copy(_view(buffer), _view(starts), _view(offsets), _view(out))
        else:
            index = np.arange(len(out), dtype=np.int64) + np.repeat(starts - offsets[:-1], lengths)
            np.take(buffer, index, out=out)
    return offsets, out


def transcode(buffer: Array, starts: Array, lengths: Array, ascii_only: bool) -> tuple[Array, Array]:
    """Offsets and UTF-8 of UTF-16 spans (``lengths`` in bytes). Lone surrogates stay, as three bytes each."""
    starts = np.ascontiguousarray(starts, np.int64)
    lengths = np.ascontiguousarray(lengths, np.int64)
    if NUMPY:
        return plain.transcode(*gather(buffer, starts, lengths // 2 * 2))
    if ascii_only:
        offsets = _offsets(lengths, 2)
        out = np.empty(int(offsets[-1]), np.uint8)
        _kernels.narrow(_view(buffer), _view(starts), _view(offsets), _view(out))
        return offsets, out
    sizes = np.empty(len(starts), np.int64)
    _kernels.utf8_sizes(_view(buffer), _view(starts), _view(lengths), _view(sizes))
    offsets = _offsets(sizes)
    out = np.empty(int(offsets[-1]), np.uint8)
    _kernels.utf8_write(_view(buffer), _view(starts), _view(lengths), _view(offsets), _view(out))
    return offsets, out
