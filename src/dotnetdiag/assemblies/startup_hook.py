"""What an assembly must hold to be a startup hook, read from its own metadata.

.NET 9 and 10 die of a hook that cannot be used (ipc-protocol.md §21.1), so it is looked at before it is named to them. Measured on 8.0.33,
9.0.22 and 10.0.14 with hooks of our own, one for each sentence below. Layout: ECMA-335 II.22 to II.25.

Why not dnfile (0.18.0, with pefile 2024.8.26): of 2,700 damaged copies of a small hook, 54 end in AttributeError, AssertionError, TypeError
or struct.error; it takes 30 times as long as this file, and pefile has no types.
"""

from __future__ import annotations

from collections.abc import Iterator

# Real hooks have some tens of types; more rows than this are not gone through.
MAX_ROWS = 1 << 16
_MAX_SECTIONS = 96
_MAX_STREAMS = 16

# Machine numbers of PE files: of the processors that .NET runs on.
X86, ARM, X64, ARM64 = 0x14C, 0x1C4, 0x8664, 0xAA64
_PROCESSORS = {X86: "x86", ARM: "arm", X64: "x64", ARM64: "arm64"}

_TYPE_REF, _TYPE_DEF, _METHOD_DEF, _MEMBER_REF = 0x01, 0x02, 0x06, 0x0A
_CUSTOM_ATTRIBUTE, _ASSEMBLY, _ASSEMBLY_REF = 0x0C, 0x20, 0x23
# Columns of the tables up to AssemblyRef (II.22): bytes, S(tring), G(uid) or B(lob) heap, tNN: index into table NN, or a coded index.
_TABLES: dict[int, str] = {
    0x00: "2 S G G G",
    _TYPE_REF: "ResolutionScope S S",
    _TYPE_DEF: "4 S S TypeDefOrRef t04 t06",
    0x04: "2 S B",
    _METHOD_DEF: "4 2 2 S B t08",
    0x08: "2 2 S",
    0x09: "t02 TypeDefOrRef",
    _MEMBER_REF: "MemberRefParent S B",
    0x0B: "2 HasConstant B",
    _CUSTOM_ATTRIBUTE: "HasCustomAttribute CustomAttributeType B",
    0x0D: "HasFieldMarshal B",
    0x0E: "2 HasDeclSecurity B",
    0x0F: "2 4 t02",
    0x10: "4 t04",
    0x11: "B",
    0x12: "t02 t14",
    0x14: "2 S TypeDefOrRef",
    0x15: "t02 t17",
    0x17: "2 S B",
    0x18: "2 t06 HasSemantics",
    0x19: "t02 MethodDefOrRef MethodDefOrRef",
    0x1A: "S",
    0x1B: "B",
    0x1C: "2 MemberForwarded S t1a",
    0x1D: "4 t04",
    _ASSEMBLY: "4 8 4 B S S",
    0x21: "4",
    0x22: "4 4 4",
    _ASSEMBLY_REF: "2 2 4 4 B S S B",
}
# Coded indexes (II.24.2.6): bits of the tag, and the tables that it tells apart.
_CODED: dict[str, tuple[int, bytes]] = {
    "ResolutionScope": (2, b"\x00\x1a\x23\x01"),
    "TypeDefOrRef": (2, b"\x02\x01\x1b"),
    "MemberRefParent": (3, b"\x02\x01\x1a\x06\x1b"),
    "HasConstant": (2, b"\x04\x08\x17"),
    "HasCustomAttribute": (
        5,
        b"\x06\x04\x01\x02\x08\x09\x0a\x00\x0e\x17\x14\x11\x1a\x1b\x20\x23\x26\x27\x28\x2a\x2c\x2b",
    ),
    "CustomAttributeType": (3, b"\x06\x0a"),
    "HasFieldMarshal": (1, b"\x04\x08"),
    "HasDeclSecurity": (2, b"\x02\x06\x20"),
    "HasSemantics": (1, b"\x14\x17"),
    "MethodDefOrRef": (1, b"\x06\x0a"),
    "MemberForwarded": (1, b"\x04\x06"),
}
_OF_THE_ASSEMBLY = 1 << 5 | 14  # HasCustomAttribute: row 1 of Assembly
_NESTED = range(2, 8)  # visibilities of nested types
_STATIC, _PINVOKE = 0x0010, 0x2000
_32_BIT_REQUIRED = 0x2
_GENERIC = 0x10
_VOID_NO_PARAMETERS = b"\x00\x00\x01"  # default calling convention, 0 parameters, void


def startup_hook_problem(data: bytes | memoryview, *, machine: int | None = None, runtime_version: str = "") -> str:
    """Why a file with these bytes cannot be a startup hook, in a sentence; ``""`` when it can.

    ``machine`` is the target's processor as PE files number it, ``runtime_version`` what its runtime says (``9.0.22``); what is not given
    is not compared.
    """
    try:
        assembly = _Assembly(memoryview(data).cast("B"))
        return (
            assembly.load_problem(machine) or assembly.version_problem(runtime_version) or assembly.initialize_problem()
        )
    except _Broken as error:
        return f"it is no .NET assembly ({error})"


class _Broken(Exception):
    """The bytes are not laid out as those of an assembly."""


class _Bytes:
    """A part of the file; what lies outside of it is _Broken."""

    def __init__(self, data: memoryview, what: str) -> None:
        self.data, self.what = data, what

    def number(self, position: int, size: int) -> int:
        return int.from_bytes(self.take(position, size), "little")

    def take(self, position: int, size: int) -> memoryview:
        if not 0 <= position <= len(self.data) - size:
            raise _Broken(f"{size} bytes at 0x{position:x} are outside of the {self.what}")
        return self.data[position : position + size]

    def part(self, position: int, size: int, what: str) -> _Bytes:
        return _Bytes(self.take(position, size), what)


class _Assembly:
    def __init__(self, data: memoryview) -> None:
        file = _Bytes(data, "file")
        if bytes(data[:2]) != b"MZ":
            raise _Broken("it does not begin with MZ")
        header = file.number(0x3C, 4)
        if bytes(file.take(header, 4)) != b"PE\0\0":
            raise _Broken("the PE signature is missing")
        self.machine = file.number(header + 4, 2)
        optional = file.part(header + 24, file.number(header + 20, 2), "optional header")
        magic = optional.number(0, 2)
        if magic not in (0x10B, 0x20B):
            raise _Broken(f"magic 0x{magic:x} is neither PE32 nor PE32+")
        cli_rva = optional.number(208 if magic == 0x10B else 224, 4)
        if not cli_rva:
            raise _Broken("it has no CLI header")
        sections = _sections(file, header + 24 + len(optional.data), file.number(header + 6, 2))
        cli = file.part(_offset(sections, cli_rva), 20, "CLI header")
        self.flags = cli.number(16, 4)
        metadata = file.part(_offset(sections, cli.number(8, 4)), cli.number(12, 4), "metadata")
        streams = _streams(metadata)
        if b"#~" not in streams:
            raise _Broken("the table stream is missing")
        empty = _Bytes(memoryview(b""), "heap")
        self.strings, self.blobs = streams.get(b"#Strings", empty), streams.get(b"#Blob", empty)
        self._lay_out(streams[b"#~"])

    def _lay_out(self, tables: _Bytes) -> None:
        """Where each table begins and how wide its columns are."""
        self.tables, heap_sizes, valid = tables, tables.number(6, 1), tables.number(8, 8)
        position = 24
        self.counts: dict[int, int] = {}
        for table in range(64):
            if valid >> table & 1:
                self.counts[table] = tables.number(position, 4)
                position += 4
        position += 4 if heap_sizes & 0x40 else 0
        heaps = {name: 4 if heap_sizes & bit else 2 for name, bit in (("S", 1), ("G", 2), ("B", 4))}
        self.starts: dict[int, int] = {}
        self.widths: dict[int, tuple[int, ...]] = {}
        for table, count in self.counts.items():
            if table > _ASSEMBLY_REF:
                break
            if table not in _TABLES:
                raise _Broken(f"it has table 0x{table:02x}, which only files in the making have")
            widths = tuple(heaps.get(column) or self._width(column) for column in _TABLES[table].split())
            self.starts[table], self.widths[table] = position, widths
            position += sum(widths) * count
        tables.take(0, position)

    def _width(self, column: str) -> int:
        if column.isdigit():
            return int(column)
        bits, tables = _CODED.get(column) or (0, bytes([int(column[1:], 16)]))
        return 4 if max(self.counts.get(table, 0) for table in tables) >= 1 << (16 - bits) else 2

    def rows(self, table: int, first: int = 1, end: int | None = None) -> Iterator[list[int]]:
        """Rows by their number, which begins at 1; those that are not there are left out."""
        count = self.counts.get(table, 0)
        numbers = range(max(first, 1), min(count + 1 if end is None else end, count + 1))
        if len(numbers) > MAX_ROWS:
            raise _Broken(f"table 0x{table:02x} has more than {MAX_ROWS} rows")
        widths = self.widths.get(table, ())
        position = self.starts.get(table, 0) + (numbers.start - 1) * sum(widths)
        for _ in numbers:
            row = []
            for width in widths:
                row.append(self.tables.number(position, width))
                position += width
            yield row

    def row(self, table: int, number: int) -> list[int]:
        for found in self.rows(table, number, number + 1):
            return found
        raise _Broken(f"table 0x{table:02x} has no row {number}")

    def text(self, offset: int) -> bytes:
        """A name, or the beginning of a long one."""
        self.strings.take(offset, 1)
        return bytes(self.strings.data[offset : offset + 64]).partition(b"\0")[0]

    def blob(self, offset: int) -> bytes:
        """Blobs of more than 127 bytes are cut to nothing: none that is looked for is so long."""
        size = self.blobs.number(offset, 1)
        return bytes(self.blobs.take(offset + 1, size)) if size < 0x80 else b""

    # what is wrong with it --------------------------------------------------------------------------------------------

    def load_problem(self, machine: int | None) -> str:
        if not self.counts.get(_ASSEMBLY):
            return "it is a module, not an assembly"
        wanted = self.machine if self.machine != X86 or self.flags & _32_BIT_REQUIRED else None  # None: any
        if wanted != machine and wanted in _PROCESSORS and machine in _PROCESSORS:
            return f"it is built for {_PROCESSORS[wanted]}, and the target runs on {_PROCESSORS[machine]}"
        for parent, kind, _ in self.rows(_CUSTOM_ATTRIBUTE):
            if parent == _OF_THE_ASSEMBLY and self._attribute(kind) == b"ReferenceAssemblyAttribute":
                return "it is a reference assembly, without the code"
        return ""

    def _attribute(self, kind: int) -> bytes:
        """The name of an attribute's type, when it is one of another assembly."""
        if kind & 7 != 3:
            return b""
        parent = self.row(_MEMBER_REF, kind >> 3)[0]
        return self.text(self.row(_TYPE_REF, parent >> 3)[1]) if parent & 7 == 1 else b""

    def version_problem(self, runtime_version: str) -> str:
        parts = runtime_version.split(".")[:2]
        if len(parts) < 2 or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
            return ""
        runtime = tuple(map(int, parts))
        for major, minor, _, _, _, name, _, _ in self.rows(_ASSEMBLY_REF):
            if self.text(name) == b"System.Runtime" and (major, minor) > runtime:
                return f"it is built for .NET {major}.{minor}, and the target runs {runtime_version}"
        return ""

    def initialize_problem(self) -> str:
        """As the runtime looks: a type outside of namespaces and types, a method by name, then the method's form."""
        for number, (flags, name, namespace, *_, first) in enumerate(self.rows(_TYPE_DEF), 1):
            if flags & 7 in _NESTED or self.text(name) != b"StartupHook" or self.text(namespace):
                continue
            end = self.row(_TYPE_DEF, number + 1)[-1] if number < self.counts[_TYPE_DEF] else None
            methods = [row for row in self.rows(_METHOD_DEF, first, end) if self.text(row[3]) == b"Initialize"]
            if not methods:
                return "its type StartupHook has no method Initialize"
            candidates = [row for row in methods if row[2] & _STATIC and self._takes_nothing(row[4])]
            if len(candidates) != 1 or self.blob(candidates[0][4]) != _VOID_NO_PARAMETERS:
                return "its StartupHook.Initialize is not `static void Initialize()`"
            address, _, method_flags, *_ = candidates[0]
            if not (address or method_flags & _PINVOKE):  # abstract, or supplied by the runtime
                return "its StartupHook.Initialize has no body"
            return ""
        return "it has no type StartupHook outside of a namespace"

    def _takes_nothing(self, signature: int) -> bool:
        """A generic method has the number of its type parameters in between."""
        blob = self.blob(signature)
        place = 2 if blob and blob[0] & _GENERIC else 1
        return len(blob) > place and blob[place] == 0


def _sections(file: _Bytes, position: int, count: int) -> list[tuple[int, int, int]]:
    """Address, size and place in the file of each."""
    if count > _MAX_SECTIONS:
        raise _Broken(f"{count} sections are too many")
    headers = [file.part(position + 40 * number, 40, "section header") for number in range(count)]
    return [(h.number(12, 4), max(h.number(8, 4), h.number(16, 4)), h.number(20, 4)) for h in headers]


def _offset(sections: list[tuple[int, int, int]], address: int) -> int:
    for start, size, place in sections:
        if start <= address < start + size:
            return address - start + place
    raise _Broken(f"address 0x{address:x} is in no section")


def _streams(metadata: _Bytes) -> dict[bytes, _Bytes]:
    if bytes(metadata.take(0, 4)) != b"BSJB":
        raise _Broken("the metadata signature is missing")
    position = 16 + metadata.number(12, 4)
    count = metadata.number(position + 2, 2)
    if count > _MAX_STREAMS:
        raise _Broken(f"{count} streams are too many")
    position += 4
    found: dict[bytes, _Bytes] = {}
    for _ in range(count):
        offset, size = metadata.number(position, 4), metadata.number(position + 4, 4)
        name, zero, _ = bytes(metadata.data[position + 8 : position + 40]).partition(b"\0")
        if not zero:
            raise _Broken("a stream's name is too long")
        found[name] = metadata.part(offset, size, f"stream {name.decode('ascii', 'replace')}")
        position += 8 + (len(name) + 4) // 4 * 4
    return found
