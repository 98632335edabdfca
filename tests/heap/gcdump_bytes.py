"""Files of heaps, byte for byte as gcdump.md §1 to §3 have them, for what no writer would say."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

Type: TypeAlias = tuple[str | None, int]
"""(name, size)"""
Node: TypeAlias = tuple[int, int | None, Sequence[int]]
"""(type, size where it is not that of its type, children)"""
Insert: TypeAlias = Callable[[bytearray, list[int]], None]
"""Adds bytes behind those that are there, and places of regions."""
NULL, REFERENCE, BEGIN, END, FORWARD_BYTE, BLOB = b"\1", b"\2", b"\4", b"\6", b"\x0c", b"\x0e"
ROOTS = ("[.NET Roots]", 0)


def number(value: int, size: int = 4) -> bytes:
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def text(value: str | None) -> bytes:
    return number(-1) if value is None else number(len(value)) + value.encode("ascii")


def kind(name: str, version: int = 0, least: int = 0) -> bytes:
    return BEGIN + NULL + number(version) + number(least) + text(name) + END


def short(value: int) -> bytes:
    assert -64 <= value < 64
    return bytes([value & 0x7F])


def file_of(
    types: Sequence[Type],
    nodes: Sequence[Node],
    *,
    multipliers: Sequence[float] = (),
    heap_info: Callable[[int], bytes] = lambda _: NULL,
    deferred: Insert | None = None,
) -> bytes:
    """A dump whose types have numbers and children below 32. ``heap_info`` is given where it stands."""
    out, places = bytearray(number(20) + b"!FastSerialization.1" + BEGIN + kind("GCHeapDump", 10, 8)), list[int]()
    records, offsets = bytearray(2), []
    for place, (one, size, children) in enumerate(nodes):
        offsets.append(len(records))
        records += short(one * 2 + (size is not None)) + (b"" if size is None else short(size))
        records += short(len(children)) + b"".join(short(child - place) for child in children)
    sizes = [types[one][1] if size is None else size for one, size, _ in nodes]
    out += BEGIN + kind("Graphs.MemoryGraph", 1, 1 if deferred else 0) + number(sum(sizes), 8) + number(0)
    out += number(len(types)) + b"".join(text(name) + number(size) + text(None) for name, size in types)
    out += number(len(nodes)) + struct.pack(f"<{len(nodes)}I", *offsets) + number(len(records)) + records
    if deferred is not None:
        deferred(out, places)
    out += number(len(nodes)) + b"".join(number(16 * (size > 0) * place, 8) for place, size in enumerate(sizes))
    out += b"\x08\1" + END + b"\1" + struct.pack("<ff", 1, 1) + NULL
    out += heap_info(len(out))
    out += text(None) + number(0, 8) + text(None) * 2 + number(0) + number(0, 16)
    out += number(len(multipliers)) + struct.pack(f"<{len(multipliers)}f", *multipliers)
    out += FORWARD_BYTE + number(len(places)) + NULL
    places.append(len(out))
    out += END + END
    table = len(out)
    out += number(len(places)) + b"".join(map(number, places))
    return bytes(out + number(table) + number(len(out)))
