"""Many protobuf messages of one shape as a matrix of bytes, a row for each: nothing is made of a message in interpreted Python.

Rule 1: all numbers of a column have as many bytes as the largest needs, the others padded with empty groups of seven bits, which the
encoding allows: https://protobuf.dev/programming-guides/encoding/#varints
Rule 2: so all messages are equally long, and a message within another has a length that is known.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

_VARINT, _FIXED64, _BYTES = 0, 1, 2


class Rows:
    """``count`` messages while they get their fields, in order."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._parts: list[Array] = []

    def number(self, field: int, values: Array | int) -> Rows:
        """A field of varints, none of them negative; one value for all, or one for each."""
        self._add(varint(field << 3 | _VARINT))
        return self._add(varint(values) if isinstance(values, int) else varints(values))

    def fixed(self, field: int, values: Array) -> Rows:
        """A field of eight bytes: u64 or f64."""
        self._add(varint(field << 3 | _FIXED64))
        return self._add(
            np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).view(np.uint8).reshape(-1, 8)
        )

    def message(self, field: int, inner: Rows) -> Rows:
        """A field of messages."""
        self._add(varint(field << 3 | _BYTES))
        self._add(varint(inner.length))
        self._parts += inner._parts
        return self

    @property
    def length(self) -> int:
        """Of each message, in bytes."""
        return sum(part.shape[1] for part in self._parts)

    def packets(self, field: int) -> bytes:
        """All of them, one behind the other, as so many values of a field of what holds them."""
        whole = Rows(self.count).message(field, self)
        made = np.empty((self.count, whole.length), np.uint8)
        at = 0
        for part in whole._parts:
            made[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        return made.tobytes()

    def _add(self, part: Array) -> Rows:
        self._parts.append(part)
        return self


def varint(value: int) -> Array:
    """One number: a row."""
    return varints(np.array([value], np.uint64))


def varints(values: Array) -> Array:
    """A row for each number, as many bytes in each."""
    numbers = np.asarray(values).astype(np.uint64)
    width = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    made = np.empty((len(numbers), width), np.uint8)
    for at in range(width):
        made[:, at] = (numbers >> np.uint64(7 * at)).astype(np.uint8) & 0x7F
    made[:, :-1] |= 0x80
    return made


def number(field: int, value: int) -> bytes:
    """One field with a number."""
    return varint(field << 3 | _VARINT).tobytes() + varint(value).tobytes()


def data(field: int, value: bytes) -> bytes:
    """One field with a text in UTF-8, or with a message."""
    return varint(field << 3 | _BYTES).tobytes() + varint(len(value)).tobytes() + value
