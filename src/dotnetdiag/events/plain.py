"""The loops over every payload without a compiler: each operation of a program over all rows at once, by numpy.

Gives what ``_kernels.walk`` and the others give, which the tests hold against each other. Only lists whose elements
vary in size are stepped through in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Skip: TypeAlias = Callable[..., int]

_LARGEST_COUNT = 0x7FFFFFFF
_EMPTY_ELEMENTS = 16


class _Walk:
    def __init__(self, buffer: Array, positions: Array, ends: Array, present: Array, state: Array) -> None:
        self.buffer = buffer if len(buffer) else np.zeros(1, np.uint8)
        self.positions, self.ends, self.present, self.state = positions, ends, present, state
        self.zeros: dict[int, tuple[Array, ...]] = {}

    def load(self, at: Array, ok: Array, size: int) -> Array:
        """``size`` bytes at each position, zeros where not ``ok``: an array of rows x size."""
        index = np.where(ok, at, 0)[:, None] + np.arange(size, dtype=np.int64)
        if not ok.all():
            index[~ok] = 0
        raw = self.buffer[index]
        raw[~ok] = 0
        return raw

    def number(self, at: Array, ok: Array, size: int) -> Array:
        """Unsigned numbers of 2 or 4 bytes, as i64."""
        return self.load(at, ok, size).view(f"<u{size}").ravel().astype(np.int64)

    def stop(self, ok: Array, ordinal: int) -> None:
        """Rows that are not ``ok`` end here."""
        if ok.all():
            return
        now = ~ok & (self.state == 0)
        self.present[now] = ordinal
        self.state[now] = np.where(self.positions[now] == self.ends[now], 1, 2)
        self.positions[~ok] = self.ends[~ok]

    def next_zero(self, unit: int) -> Array:
        """Where the next zero unit stands, in steps of ``unit`` from the position; the row's end or more if none."""
        low, high = int(self.positions.min()), int(self.ends.max())
        if unit not in self.zeros:
            window = self.buffer[low:high]
            if unit == 1:
                self.zeros[unit] = (np.flatnonzero(window == 0) + low,)
            else:
                found = np.flatnonzero((window[:-1] | window[1:]) == 0) + low
                self.zeros[unit] = (found[found % 2 == 0], found[found % 2 == 1])
        made = self.ends.copy()
        for parity, found in enumerate(self.zeros[unit]):
            mine = self.positions % unit == parity
            if len(found) and mine.any():
                places = np.searchsorted(found, self.positions[mine])
                inside = places < len(found)
                made[mine] = np.where(inside, found[np.minimum(places, len(found) - 1)], made[mine])
        return made


def walk(
    buffer: Array,
    origins: Array,
    positions: Array,
    ends: Array,
    ops: Array,
    slots: list[Array],
    registers: int,
    present: Array,
    state: Array,
    values: int,
    skip: Skip,
) -> None:
    """Run a program over rows; see ``_kernels.walk``. ``slots`` are u8 arrays, of rows times the slot's width."""
    rows = len(positions)
    present[:], state[:] = values, 0
    if not rows:
        return
    self = _Walk(buffer, positions, ends, present, state)
    counts: dict[int, Array] = {}
    data = memoryview(buffer)  # type: ignore[arg-type]
    step = 0
    while step < len(ops):
        code, slot, size, keep, mode, param, jump, ordinal = ops[step].tolist()
        out = slots[slot] if slot >= 0 else None
        step += 1
        if code == 8:
            continue
        at = self.positions.copy()
        if code == 1:
            ok = ends - at >= size
            if out is not None or keep >= 0:
                raw = self.load(at, ok, size)
                if out is not None:
                    out[:] = raw.ravel()
                if keep >= 0:
                    number = raw.view(f"<u{size}").ravel().astype(np.uint64)
                    counts[keep] = np.minimum(number, _LARGEST_COUNT).astype(np.int64)
            positions += np.where(ok, size, 0)
            self.stop(ok, ordinal)
        elif code in (2, 3):
            value, ok, length = _varuints(self, at)
            if keep >= 0:
                counts[keep] = np.minimum(value, _LARGEST_COUNT).astype(np.int64)
            if out is not None:
                signed = value >> np.uint64(1) ^ (np.uint64(0) - (value & np.uint64(1)))
                out[:] = (signed if code == 3 else value).astype("<u8").view(np.uint8)
            positions += np.where(ok, length, 0)
            self.stop(ok, ordinal)
        elif code in (4, 5):
            unit = 6 - code
            found = self.next_zero(unit)
            ok = found + unit <= ends
            _span(out, rows, at, np.where(ok, found - at, 0))
            positions[:] = np.where(ok, found + unit, at)
            self.stop(ok, ordinal)
        elif code == 9:
            _span(out, rows, at, ends - at)
            self.stop(at < ends, ordinal)
            positions[:] = ends
        else:
            start, count, ok = _counted(self, origins, at, mode, param, size, counts)
            behind = np.where(ok, at + 4 if mode >= 4 else start + count * size, at)
            if code == 7:
                scratch = [0] * (registers + 1)
                table = memoryview(ops)  # type: ignore[arg-type]
                for row in np.flatnonzero(ok).tolist():
                    position = int(start[row])
                    for _ in range(int(count[row])):
                        position = skip(data, position, int(ends[row]), table, step, jump, scratch)
                        if position < 0:
                            ok[row] = False
                            break
                    behind[row] = position if ok[row] else at[row]
                step = jump
            units = count if code == 7 or size == 0 else count * size
            _span(out, rows, np.where(ok, start, at), np.where(ok, units, 0))
            positions[:] = behind
            self.stop(ok, ordinal)


def _span(out: Array | None, rows: int, starts: Array, lengths: Array) -> None:
    if out is not None:
        pairs = out.view(np.int64)
        pairs[:rows], pairs[rows:] = starts, lengths


def _varuints(self: _Walk, at: Array) -> tuple[Array, Array, Array]:
    """Values, which rows have one, and its bytes."""
    value = np.zeros(len(at), np.uint64)
    length = np.zeros(len(at), np.int64)
    ok = np.zeros(len(at), np.bool_)
    going = np.ones(len(at), np.bool_)
    for group in range(10):
        going &= at + group < self.ends
        if not going.any():
            break
        byte = self.load(at + group, going, 1).ravel()
        value |= np.where(going, (byte & 0x7F).astype(np.uint64) << np.uint64(7 * group), np.uint64(0))
        last = going & (byte < 0x80)
        if group == 9:
            last &= byte <= 1
        ok |= last
        length[last] = group + 1
        going &= byte >= 0x80
    value[~ok] = 0
    return value, ok, length


def _counted(
    self: _Walk, origins: Array, at: Array, mode: int, param: int, size: int, counts: dict[int, Array]
) -> tuple[Array, Array, Array]:
    """First byte and number of the elements, and whether they fit (of elements that vary: at least may)."""
    left = self.ends - at
    if mode == 0:
        start, count, ok = at, np.full(len(at), param, np.int64), np.ones(len(at), np.bool_)
    elif mode == 3:
        start, count, ok = at, counts[param], np.ones(len(at), np.bool_)
    else:
        width = 2 if mode == 1 else 4
        ok = left >= width
        count = self.number(at, ok, width)
        start = at + width
        if mode >= 4:
            start = (count & 0xFFFF) + (start if mode == 4 else origins)
            count = count >> 16
            ok = ok & (start + count <= self.ends) & (count % max(size, 1) == 0) & (size != 0)
            count = count // max(size, 1)
    fits = count <= (self.ends - start) // size if size else count <= _EMPTY_ELEMENTS
    return start, count, ok & fits


def transcode(offsets: Array, raw: Array) -> tuple[Array, Array]:
    """Offsets and UTF-8 of UTF-16 texts that stand in ``raw`` one behind another; ``offsets`` are even numbers of
    bytes.
    """
    units = raw[: len(raw) // 2 * 2].view("<u2")
    if not len(units) or int(units.max()) < 0x80:
        return offsets // 2, units.astype(np.uint8)
    data, bounds = raw.tobytes(), offsets.tolist()
    parts = [
        data[start:end].decode("utf-16-le", "surrogatepass").encode("utf-8", "surrogatepass")
        for start, end in pairwise(bounds)
    ]
    made = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=made[1:])
    return made, np.frombuffer(b"".join(parts), np.uint8)
