"""The loops over every payload without a compiler: each operation of a program over all rows at once, by numpy.

Gives what those of ``_kernels.pyx`` give, which the tests hold against each other. Only lists whose elements vary in size
are stepped through in Python.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events.layout import Count
from dotnetdiag.events.operations import EMPTY_ELEMENTS, LARGEST_COUNT, Op, Operation, State

Array: TypeAlias = "np.ndarray[Any, Any]"


class _Walk:
    def __init__(self, buffer: Array, positions: Array, ends: Array, present: Array, state: Array) -> None:
        self.buffer = buffer if len(buffer) else np.zeros(1, np.uint8)
        self.positions, self.ends, self.present, self.state = positions, ends, present, state
        self.zeros: dict[int, tuple[Array, ...]] = {}

    def load(self, at: Array, ok: Array, size: int) -> Array:
        """``size`` bytes at each position, zeros where not ``ok``: an array of rows x size."""
        raw = self.buffer[np.where(ok[:, None], at[:, None] + np.arange(size, dtype=np.int64), 0)]
        raw[~ok] = 0
        return raw

    def number(self, at: Array, ok: Array, size: int) -> Array:
        """Unsigned numbers of 2 or 4 bytes, as i64."""
        return self.load(at, ok, size).view(f"<u{size}").ravel().astype(np.int64)

    def stop(self, ok: Array, ordinal: int) -> None:
        """Rows that are not ``ok`` end here."""
        if ok.all():
            return
        now = ~ok & (self.state == State.WHOLE)
        self.present[now] = ordinal
        self.state[now] = np.where(self.positions[now] == self.ends[now], State.ENDED, State.BROKEN)
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
) -> None:
    """Run a program over rows; see ``kernels.walk``. ``slots`` are u8 arrays, of rows times the slot's width."""
    rows = len(positions)
    present[:], state[:] = values, State.WHOLE
    if not rows:
        return
    self = _Walk(buffer, positions, ends, present, state)
    counts: dict[int, Array] = {}
    operations = _operations(ops)
    step = 0
    while step < len(operations):
        op = operations[step]
        out = slots[op.slot] if op.slot >= 0 else None
        step += 1
        at = self.positions.copy()
        if op.code == Op.SCALAR:
            ok = ends - at >= op.size
            if out is not None or op.keep >= 0:
                raw = self.load(at, ok, op.size)
                if out is not None:
                    out[:] = raw.ravel()
                if op.keep >= 0:
                    number = raw.view(f"<u{op.size}").ravel().astype(np.uint64)
                    counts[op.keep] = np.minimum(number, LARGEST_COUNT).astype(np.int64)
            positions += np.where(ok, op.size, 0)
            self.stop(ok, op.ordinal)
        elif op.code in (Op.VARUINT, Op.VARINT):
            value, ok, length = _varuints(self, at)
            if op.keep >= 0:
                counts[op.keep] = np.minimum(value, LARGEST_COUNT).astype(np.int64)
            if out is not None:
                signed = value >> np.uint64(1) ^ (np.uint64(0) - (value & np.uint64(1)))
                out[:] = (signed if op.code == Op.VARINT else value).astype("<u8").view(np.uint8)
            positions += np.where(ok, length, 0)
            self.stop(ok, op.ordinal)
        elif op.code in (Op.Z16, Op.Z8):
            unit = 2 if op.code == Op.Z16 else 1
            found = self.next_zero(unit)
            ok = found + unit <= ends
            _span(out, rows, at, np.where(ok, found - at, 0))
            positions[:] = np.where(ok, found + unit, at)
            self.stop(ok, op.ordinal)
        elif op.code == Op.REMAINDER:
            _span(out, rows, at, ends - at)
            self.stop(at < ends, op.ordinal)
            positions[:] = ends
        elif op.code in (Op.SPAN, Op.LIST):
            start, count, ok = _counted(self, origins, at, op, counts)
            behind = np.where(ok, at + 4 if op.count_at >= Count.REL else start + count * op.size, at)
            if op.code == Op.LIST:
                scratch = [0] * registers
                for row in np.flatnonzero(ok).tolist():
                    position = int(start[row])
                    for _ in range(int(count[row])):
                        after = _skip(buffer, position, int(ends[row]), operations, step, op.behind, scratch)
                        if after is None:
                            ok[row] = False
                            break
                        position = after
                    behind[row] = position if ok[row] else at[row]
                step = op.behind
            units = count if op.code == Op.LIST or op.size == 0 else count * op.size
            _span(out, rows, np.where(ok, start, at), np.where(ok, units, 0))
            positions[:] = behind
            self.stop(ok, op.ordinal)
        # the scalars of a block are operations of their own


def elements(
    buffer: Array,
    firsts: Array,
    numbers: Array,
    ends: Array,
    ops: Array,
    first: int,
    last: int,
    registers: int,
    out: Array,
) -> None:
    """Where each element of each list begins; the lists have been passed by :func:`walk`."""
    operations, scratch, at = _operations(ops), [0] * registers, 0
    for start, number, end in zip(firsts.tolist(), numbers.tolist(), ends.tolist(), strict=True):
        position = start
        for _ in range(number):
            out[at] = position
            at += 1
            behind = _skip(buffer, position, end, operations, first, last, scratch)
            position = end if behind is None else behind  # None: the bytes have changed since


def _operations(ops: Array) -> list[Operation]:
    names = ops.dtype.names or ()
    return [Operation(**dict(zip(names, row, strict=True))) for row in ops.tolist()]


def _skip(
    buffer: Array, position: int, end: int, operations: list[Operation], first: int, last: int, registers: list[int]
) -> int | None:
    """Position behind one element, of operations ``first`` to ``last`` (exclusive); None when it does not fit."""
    step = first
    while step < last:
        op = operations[step]
        step += 1
        if op.code == Op.SCALAR:
            if end - position < op.size:
                return None
            if op.keep >= 0:
                registers[op.keep] = int.from_bytes(buffer[position : position + op.size].tobytes(), "little")
            position += op.size
        elif op.code in (Op.VARUINT, Op.VARINT):
            size, number = _varuint(buffer[position : min(end, position + 10)].tobytes())
            if not size:
                return None
            if op.keep >= 0:
                registers[op.keep] = number
            position += size
        elif op.code in (Op.Z16, Op.Z8):
            unit = 2 if op.code == Op.Z16 else 1
            raw = buffer[position:end].tobytes()
            at = raw.find(bytes(unit))
            while at > 0 and at % unit:
                at = raw.find(bytes(unit), at + 1)
            if at < 0:
                return None
            position += at + unit
        elif op.code == Op.REMAINDER:
            position = end
        elif op.code in (Op.SPAN, Op.LIST):
            if op.count_at in (Count.U16, Count.U32):
                width = 2 if op.count_at == Count.U16 else 4
                if end - position < width:
                    return None
                count = int.from_bytes(buffer[position : position + width].tobytes(), "little")
                position += width
            elif op.count_at in (Count.FIXED, Count.FIELD):
                count = op.param if op.count_at == Count.FIXED else registers[op.param]
            else:  # a location, which elements do not have
                return None
            if count * op.size > end - position or (op.size == 0 and count > EMPTY_ELEMENTS):
                return None
            if op.code == Op.SPAN:
                position += count * op.size
                continue
            for _ in range(count):
                behind = _skip(buffer, position, end, operations, step, op.behind, registers)
                if behind is None:
                    return None
                position = behind
            step = op.behind
    return position


def _varuint(raw: bytes) -> tuple[int, int]:
    """Bytes and value of the varuint that ``raw`` begins with; no bytes when it does not end or does not fit 64 bits."""
    value = 0
    for size, byte in enumerate(raw, 1):
        value |= (byte & 0x7F) << 7 * (size - 1)
        if byte < 0x80:
            return (0, 0) if value >> 64 else (size, value)
    return 0, 0


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
    self: _Walk, origins: Array, at: Array, op: Operation, counts: dict[int, Array]
) -> tuple[Array, Array, Array]:
    """First byte and number of the elements, and whether they fit (of elements that vary: at least may)."""
    if op.count_at == Count.FIXED:
        start, count, ok = at, np.full(len(at), op.param, np.int64), np.ones(len(at), np.bool_)
    elif op.count_at == Count.FIELD:
        start, count, ok = at, counts[op.param], np.ones(len(at), np.bool_)
    else:
        width = 2 if op.count_at == Count.U16 else 4
        ok = self.ends - at >= width
        count = self.number(at, ok, width)
        start = at + width
        if op.count_at >= Count.REL:
            size = max(op.size, 1)
            start = (count & 0xFFFF) + (start if op.count_at == Count.REL else origins)
            count = count >> 16
            ok = ok & (start + count <= self.ends) & (count % size == 0) & (op.size != 0)
            count = count // size
    fits = count <= (self.ends - start) // op.size if op.size else count <= EMPTY_ELEMENTS
    return start, count, ok & fits


def transcode(offsets: Array, raw: Array) -> tuple[Array, Array]:
    """Offsets and UTF-8 of UTF-16 texts that stand in ``raw`` one behind another; ``offsets`` are even numbers of
    bytes.
    """
    units = raw.view("<u2")
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
