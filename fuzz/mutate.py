"""Inputs made of inputs: the mutations of a fuzzer, from one random generator, so that a seed repeats a run."""

from __future__ import annotations

import random
from collections.abc import Sequence

ODD = (0, 1, 2, 3, 4, 7, 8, 16, 20, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
LONGEST = 1 << 16


def mutated(source: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with a few changes; at most 64 KB."""
    data = bytearray(source.choice(seeds))
    for _ in range(1 << source.randrange(4)):
        source.choice(_MUTATIONS)(source, data, seeds)
    return bytes(data[:LONGEST])


def _place(source: random.Random, data: bytearray) -> int:
    return source.randrange(len(data) + 1)


def _flip(source: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)


def _byte(source: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[source.randrange(len(data))] = source.randrange(256)


def _number(source: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    size = source.choice((1, 2, 4, 8))
    if len(data) >= size:
        at = source.randrange(len(data) - size + 1)
        old = int.from_bytes(data[at : at + size], "little")
        value = source.choice((source.choice(ODD), old + 1, old - 1, old * 2, -source.choice(ODD)))
        data[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _cut(source: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[_place(source, data) :]


def _remove(source: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(source, data)
    del data[at : at + source.randrange(1, 64)]


def _repeat(source: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(source, data)
    piece = bytes(data[at : at + source.randrange(1, 256)])
    data[at:at] = piece * source.randrange(1, 4)


def _insert(source: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(source, data)
    data[at:at] = source.randbytes(source.randrange(1, 16))


def _splice(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = source.choice(seeds)
    at, start = _place(source, data), source.randrange(len(other) + 1)
    piece = other[start : start + source.randrange(1, 1024)]
    if source.random() < 0.5:
        data[at : at + len(piece)] = piece
    else:
        data[at:at] = piece


def _swap(source: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    size = source.randrange(1, 64)
    if len(data) >= 2 * size:
        one, other = (source.randrange(len(data) - size + 1) for _ in range(2))
        data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]


_MUTATIONS = (_flip, _flip, _byte, _byte, _number, _number, _number, _cut, _remove, _repeat, _insert, _splice, _swap)
