"""The kernels with arrays in and arrays out: allocates, calls :mod:`._kernels`, compiled or not.

Everything takes ``buffer`` as a contiguous u8 array; starts and lengths as i64.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events import _kernels, plain
from dotnetdiag.events.memory import empty

Array: TypeAlias = "np.ndarray[Any, Any]"

COMPILED: bool = _kernels.compiled and sys.byteorder == "little"
"""Whether the loops are machine code."""

NUMPY: bool = not COMPILED
"""Whether numpy does what it can; else the loops run as they stand (tests run them uncompiled too)."""

_BATCH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What a program made of some rows. ``slots`` are arrays into one allocation; ``ascii`` says so of text slots."""

    slots: list[Array]
    ascii: list[bool]
    positions: Array
    present: Array
    state: Array


def _view(array: Array) -> Any:
    """A view whose items are plain ints when the kernels are not compiled."""
    return array if COMPILED else memoryview(array)  # type: ignore[arg-type]


def walk(
    buffer: Array,
    origins: Array,
    positions: Array,
    ends: Array,
    ops: Array,
    widths: list[int],
    *,
    registers: int,
    values: int,
) -> Walked:
    """Run the program ``ops`` over rows. ``widths`` are the bytes per row and slot. See ``_kernels.walk``."""
    rows = len(positions)
    at, total = [], 0
    for width in widths:
        at.append(total)
        total += (width * rows + 15) // 16 * 16
    arena = empty(total // 8 + 2, np.uint64)
    before, positions = positions, empty(rows, np.int64)
    positions[:] = before
    wide, present, state = np.zeros(len(widths) + 1, np.uint8), empty(rows, np.int64), empty(rows, np.uint8)
    raw = arena.view(np.uint8)
    slots = [raw[start : start + width * rows] for start, width in zip(at, widths, strict=True)]
    if NUMPY:
        plain.walk(buffer, origins, positions, ends, ops, slots, registers, present, state, values, _kernels._skip)
        unknown = [False] * len(widths)
        return Walked(slots=slots, ascii=unknown, positions=positions, present=present, state=state)
    batch = min(_BATCH, max(rows, 1))
    _kernels.walk(
        _view(buffer),
        _view(origins),
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
    )
    return Walked(
        slots=slots, ascii=[not flag for flag in wide[:-1]], positions=positions, present=present, state=state
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


def _offsets(lengths: Array) -> Array:
    offsets = empty(len(lengths) + 1, np.int64)
    offsets[0] = 0
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def gather(buffer: Array, starts: Array, lengths: Array) -> tuple[Array, Array]:
    """Offsets and bytes of spans, copied one behind another."""
    offsets = _offsets(lengths)
    out = empty(int(offsets[-1]), np.uint8)
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
        offsets = _offsets(lengths // 2)
        out = empty(int(offsets[-1]), np.uint8)
        _kernels.narrow(_view(buffer), _view(starts), _view(offsets), _view(out))
        return offsets, out
    sizes = empty(len(starts), np.int64)
    _kernels.utf8_sizes(_view(buffer), _view(starts), _view(lengths), _view(sizes))
    offsets = _offsets(sizes)
    out = empty(int(offsets[-1]), np.uint8)
    _kernels.utf8_write(_view(buffer), _view(starts), _view(lengths), _view(offsets), _view(out))
    return offsets, out
