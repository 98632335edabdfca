"""Traces packed by hand (nettrace 6), because they say what no writer should."""

from __future__ import annotations

import struct

FORGET_THREADS, FORGET_METADATA = 1, 2


def trace(*blocks: bytes, end: bytes = bytes(4)) -> bytes:
    clock = struct.pack("<8h", 2024, 1, 1, 1, 0, 0, 0, 0) + struct.pack("<qqii", 0, 10**9, 8, 0)
    return b"Nettrace" + struct.pack("<III", 0, 6, 0) + block(1, clock) + b"".join(blocks) + end


def block(kind: int, content: bytes) -> bytes:
    return struct.pack("<I", kind << 24 | len(content)) + content


def events(*blobs: bytes) -> bytes:
    return block(2, struct.pack("<hhqq", 20, 1, 0, 0) + b"".join(blobs))


def uncompressed(*blobs: bytes) -> bytes:
    return block(2, struct.pack("<hhqq", 20, 0, 0, 0) + b"".join(blobs))


def metadata(*rows: bytes) -> bytes:
    return block(3, b"\0\0" + b"".join(rows))


def sequence_point(*threads: tuple[int, int], forgets: int = 0, time: int = 0) -> bytes:
    rows = b"".join(varuint(index) + varuint(number) for index, number in threads)
    return block(4, struct.pack("<qII", time, forgets, len(threads)) + rows)


def stacks(first: int, *addresses: int) -> bytes:
    """Stacks of one frame each, with ids that count up from ``first``."""
    rows = b"".join(struct.pack("<IQ", 8, address) for address in addresses)
    return block(5, struct.pack("<II", first, len(addresses)) + rows)


def threads(*rows: bytes) -> bytes:
    return block(6, b"".join(rows))


def removed(*threads: tuple[int, int]) -> bytes:
    return block(7, b"".join(varuint(index) + varuint(number) for index, number in threads))


def labels(first: int, *lists: bytes) -> bytes:
    return block(8, struct.pack("<II", first, len(lists)) + b"".join(lists))


def level(value: int) -> bytes:
    """A label list that says one thing."""
    return bytes([0x89, value])


def event_type(number: int, name: str = "E", fields: bytes = b"\0\0") -> bytes:
    row = varuint(number) + text("P") + varuint(1) + text(name) + fields
    return struct.pack("<H", len(row)) + row


def thread(index: int, name: str = "") -> bytes:
    row = varuint(index) + (b"\x01" + text(name) if name else b"")
    return struct.pack("<H", len(row)) + row


def event(type_number: int, *, thread: int = 1, sequence: int = 0, stack: int = 0, labels: int = 0) -> bytes:
    """An event without payload. ``sequence``: how many more numbers than one were taken since the event before."""
    fields = (type_number, sequence, thread, 0, thread, stack, 1, labels, 0)
    return bytes([0xDF]) + b"".join(map(varuint, fields))


def text(value: str) -> bytes:
    raw = value.encode()
    return varuint(len(raw)) + raw


def varuint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
