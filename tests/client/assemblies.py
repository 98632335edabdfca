"""Small .NET assemblies, made without a compiler: a PE file with one section that holds a CLI header, metadata and bodies (ECMA-335 II.25).

Real runtimes load them (``tests/live/test_hooks.py``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

RVA, RAW = 0x2000, 0x200
PUBLIC, PRIVATE, STATIC, ABSTRACT, VIRTUAL, PINVOKE = 0x6, 0x1, 0x10, 0x400, 0x40, 0x2000
VOID_NO_PARAMETERS = b"\x00\x00\x01"
X86, X64, ARM64 = 0x14C, 0x8664, 0xAA64
IL_ONLY, ONLY_32_BIT = 0x1, 0x2
_TOKEN = bytes.fromhex("b03f5f7f11d50a3a")  # of System.Runtime


@dataclass(frozen=True, kw_only=True)
class Method:
    """``has_body``: nothing but ``ret``."""

    name: str = "Initialize"
    flags: int = PUBLIC | STATIC
    signature: bytes = VOID_NO_PARAMETERS
    has_body: bool = True


@dataclass(frozen=True, kw_only=True)
class Type:
    """``inside``: number of the type (1 is the first) that this one is nested in."""

    name: str = "StartupHook"
    namespace: str = ""
    inside: int = 0
    methods: tuple[Method, ...] = (Method(),)


HOOK = Type()


def assembly(
    *types: Type,
    machine: int = X86,
    flags: int = IL_ONLY,
    built_for: tuple[int, int] = (8, 0),
    is_module: bool = False,
    is_reference: bool = False,
    has_reference_type: bool = False,
    wide_heaps: bool = False,
) -> bytes:
    """The file. ``is_reference`` gives it the attribute of reference assemblies, ``has_reference_type`` its first type (which has no
    meaning), ``wide_heaps`` indexes of 4 bytes.
    """
    strings, blobs = bytearray(b"\0"), bytearray(b"\0")
    index = "<I" if wide_heaps else "<H"

    def text(value: str) -> bytes:
        strings.extend(value.encode() + b"\0")
        return struct.pack(index, len(strings) - len(value.encode()) - 1 if value else 0)

    def numbers(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}H", *values)

    def blob(value: bytes) -> bytes:
        blobs.extend(bytes([len(value)]) + value)
        return struct.pack(index, len(blobs) - len(value) - 1)

    guid = struct.pack(index, 1)
    none = struct.pack(index, 0)
    body_rva = RVA + 72  # behind the CLI header
    rows: dict[int, list[bytes]] = {0x00: [numbers(0) + text("x.dll") + guid + none + none]}
    rows[0x01] = [
        numbers(1 << 2 | 2) + text(name) + text(namespace)
        for name, namespace in (("Object", "System"), ("ReferenceAssemblyAttribute", "System.Runtime.CompilerServices"))
    ]
    rows[0x02] = [struct.pack("<I", 0) + text("<Module>") + none + numbers(0, 1, 1)]
    rows[0x06], rows[0x29] = [], []
    for number, kind in enumerate(types, 2):
        visibility = 0x2 if kind.inside else 0x1
        rows[0x02].append(
            struct.pack("<I", 0x100000 | visibility | (0x80 if any(m.flags & ABSTRACT for m in kind.methods) else 0))
            + text(kind.name)
            + text(kind.namespace)
            + numbers(1 << 2 | 1, 1, len(rows[0x06]) + 1)
        )
        for method in kind.methods:
            address = struct.pack("<IHH", body_rva if method.has_body else 0, 0, method.flags)
            rows[0x06].append(address + text(method.name) + blob(method.signature) + numbers(1))
        if kind.inside:
            rows[0x29].append(numbers(number, kind.inside + 1))
    if is_reference or has_reference_type:
        marked = 1 << 5 | 14 if is_reference else 2 << 5 | 3
        rows[0x0A] = [numbers(2 << 3 | 1) + text(".ctor") + blob(b"\x20\x00\x01")]
        rows[0x0C] = [numbers(marked, 1 << 3 | 3) + blob(b"\x01\0\0\0")]
    if not is_module:
        rows[0x20] = [struct.pack("<I4HI", 0x8004, 1, 0, 0, 0, 0) + none + text("x") + none]
    rows[0x23] = [struct.pack("<4HI", *built_for, 0, 0, 0) + blob(_TOKEN) + text("System.Runtime") + none + none]

    there = sorted(table for table, found in rows.items() if found)
    tables = struct.pack("<IBBBBQQ", 0, 2, 0, 7 if wide_heaps else 0, 1, sum(1 << table for table in there), 0)
    tables += b"".join(struct.pack("<I", len(rows[table])) for table in there)
    tables += b"".join(row for table in there for row in rows[table])
    return _file(_metadata(_padded(tables), _padded(bytes(strings)), _padded(bytes(blobs))), machine, flags)


def _padded(data: bytes, to: int = 4) -> bytes:
    return data + bytes(-len(data) % to)


def _metadata(tables: bytes, strings: bytes, blobs: bytes) -> bytes:
    streams = {b"#~": tables, b"#Strings": strings, b"#GUID": bytes(range(16)), b"#Blob": blobs}
    root = b"BSJB" + struct.pack("<HHII", 1, 1, 0, 12) + b"v4.0.30319\0\0" + struct.pack("<HH", 0, len(streams))
    position = len(root) + sum(8 + len(_padded(name + b"\0")) for name in streams)
    for name, data in streams.items():
        root += struct.pack("<II", position, len(data)) + _padded(name + b"\0")
        position += len(data)
    return root + b"".join(streams.values())


def _file(metadata: bytes, machine: int, flags: int) -> bytes:
    is_64_bit = machine in (X64, ARM64)
    start = RVA + 72 + 8
    cli = struct.pack("<IHHIIII", 72, 2, 5, start, len(metadata), flags, 0) + bytes(48)
    section = _padded(cli + b"\x06\x2a".ljust(8, b"\0") + metadata, 0x200)  # the body: a tiny header, ret
    dos = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40)
    optional = struct.pack("<HBBIIIII", 0x20B if is_64_bit else 0x10B, 11, 0, len(section), 0, 0, 0, RVA)
    optional += struct.pack("<Q", 0x180000000) if is_64_bit else struct.pack("<II", 0, 0x10000000)
    optional += struct.pack(
        "<II6HIIIIHH", 0x2000, 0x200, 4, 0, 0, 0, 4, 0, 0, RVA + _up(len(section)), RAW, 0, 3, 0x8540
    )
    optional += struct.pack("<4Q" if is_64_bit else "<4I", 1 << 20, 1 << 12, 1 << 20, 1 << 12) + struct.pack(
        "<II", 0, 16
    )
    optional += b"".join(struct.pack("<II", *((RVA, 72) if number == 14 else (0, 0))) for number in range(16))
    coff = b"PE\0\0" + struct.pack("<HHIIIHH", machine, 1, 0, 0, 0, len(optional), 0x2022)
    header = b".text\0\0\0" + struct.pack("<IIIIIIHHI", len(section), RVA, len(section), RAW, 0, 0, 0, 0, 0x60000020)
    return (dos + coff + optional + header).ljust(RAW, b"\0") + section


def _up(size: int) -> int:
    return (size + 0x1FFF) // 0x2000 * 0x2000
