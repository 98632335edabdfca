"""What an assembly must hold to be a startup hook, read from its own metadata.

.NET 9 and 10 die of a hook that cannot be used (ipc-protocol.md §21.1), so it is looked at before it is named to them:
a managed PE file with a type ``StartupHook`` outside of any namespace, with a static method ``Initialize`` that takes nothing and
returns nothing. Facts: ECMA-335 II.22-25.
"""

from __future__ import annotations

from dotnetdiag.errors import FormatError
from dotnetdiag.wire import Cursor

# Tables with rows in front of or at MethodDef, in order of their numbers.
_MODULE, _TYPE_REF, _TYPE_DEF, _FIELD_PTR, _FIELD, _METHOD_PTR, _METHOD_DEF = range(7)
_STATIC = 0x10
_VOID_NO_PARAMETERS = b"\x00\x00\x01"  # default calling convention, 0 parameters, void
_MAX_SECTIONS = 96


def startup_hook_problem(data: bytes | memoryview) -> str:
    """Why the file cannot be a startup hook, in a sentence; ``""`` when it can."""
    try:
        return _problem(memoryview(data))
    except FormatError as error:
        return f"it is no .NET assembly ({error})"


def _problem(data: memoryview) -> str:
    metadata = _metadata_root(data)
    tables, strings, blobs = _streams(metadata)
    heap_sizes, counts = _table_header(tables)
    string_size, guid_size, blob_size = (4 if heap_sizes & bit else 2 for bit in (1, 2, 4))

    def index(table: int) -> int:
        return 4 if counts.get(table, 0) > 0xFFFF else 2

    def coded(bits: int, *tables_: int) -> int:
        return 4 if max(counts.get(table, 0) for table in tables_) >= 1 << (16 - bits) else 2

    widths = {
        _MODULE: 2 + string_size + 3 * guid_size,
        _TYPE_REF: coded(2, 0x00, 0x1A, 0x23, 0x01) + 2 * string_size,
        _TYPE_DEF: 4 + 2 * string_size + coded(2, 0x02, 0x01, 0x1B) + index(_FIELD) + index(_METHOD_DEF),
        _FIELD_PTR: index(_FIELD),
        _FIELD: 2 + string_size + blob_size,
        _METHOD_PTR: index(_METHOD_DEF),
        _METHOD_DEF: 8 + string_size + blob_size + index(0x08),
    }
    starts: dict[int, int] = {}
    position = tables.position
    for table in range(_METHOD_DEF + 1):
        starts[table] = position
        position += widths[table] * counts.get(table, 0)
    if position > tables.end:
        raise tables.fail("the tables are longer than their stream")

    def number(at: int, size: int) -> int:
        return int.from_bytes(tables.data[at : at + size], "little")

    def text(at: int) -> bytes:
        offset = number(at, string_size)
        if offset >= len(strings):
            raise tables.fail(f"string {offset} is outside of its heap")
        return bytes(strings[offset : offset + 64]).partition(b"\0")[0]

    count = counts.get(_TYPE_DEF, 0)
    method_size = index(_METHOD_DEF)
    for row in range(count):
        at = starts[_TYPE_DEF] + row * widths[_TYPE_DEF]
        if text(at + 4) != b"StartupHook" or text(at + 4 + string_size):
            continue
        first = number(at + widths[_TYPE_DEF] - method_size, method_size)
        following = at + 2 * widths[_TYPE_DEF]
        methods = counts.get(_METHOD_DEF, 0)
        last = number(following - method_size, method_size) if row + 1 < count else methods + 1
        for method in range(max(first, 1), min(last, methods + 1)):
            place = starts[_METHOD_DEF] + (method - 1) * widths[_METHOD_DEF]
            if text(place + 8) != b"Initialize":
                continue
            blob = number(place + 8 + string_size, blob_size)
            static = number(place + 6, 2) & _STATIC
            if static and _blob(blobs, blob) == _VOID_NO_PARAMETERS:
                return ""
            return "its StartupHook.Initialize is not `static void Initialize()`"
        return "its type StartupHook has no method Initialize"
    return "it has no type StartupHook outside of a namespace"


def _blob(blobs: memoryview, offset: int) -> bytes:
    if offset >= len(blobs) or blobs[offset] >= 0x80:
        return b""  # longer than 127 bytes: not the signature that is looked for
    return bytes(blobs[offset + 1 : offset + 1 + blobs[offset]])


def _metadata_root(data: memoryview) -> Cursor:
    cursor = Cursor(data, where="PE file")
    if cursor.take(2, "MZ") != b"MZ":
        raise cursor.fail("it does not begin with MZ")
    cursor = _at(data, int.from_bytes(data[0x3C:0x40], "little"))
    if cursor.take(4, "PE signature") != b"PE\0\0":
        raise cursor.fail("the PE signature is missing")
    cursor.skip(2)
    sections = cursor.u16("section count")
    cursor.skip(12)
    optional_size = cursor.u16("optional header size")
    cursor.skip(2)
    optional = cursor.child(optional_size, "optional header")
    magic = optional.u16("magic")
    if magic not in (0x10B, 0x20B):
        raise optional.fail(f"magic 0x{magic:x} is neither PE32 nor PE32+")
    optional.skip((208 if magic == 0x10B else 224) - 2, "data directories")
    cli_rva = optional.u32("CLI header")
    if not cli_rva:
        raise optional.fail("it has no CLI header")
    if sections > _MAX_SECTIONS:
        raise cursor.fail(f"{sections} sections are too many")
    places = []
    for _ in range(sections):
        cursor.skip(8, "section")
        size, rva, raw_size, raw = (cursor.u32("section") for _ in range(4))
        cursor.skip(16, "section")
        places.append((rva, max(size, raw_size), raw))

    def offset(rva: int) -> int:
        for start, size, raw in places:
            if start <= rva < start + size:
                return rva - start + raw
        raise cursor.fail(f"address 0x{rva:x} is in no section")

    header = _at(data, offset(cli_rva))
    header.skip(8)
    rva, size = header.u32("metadata address"), header.u32("metadata size")
    return _at(data, offset(rva)).child(size, "metadata")


def _at(data: memoryview, position: int) -> Cursor:
    if not 0 <= position <= len(data):
        raise FormatError("an offset points outside of the file", offset=position, where="PE file")
    return Cursor(data, position=position, where="PE file")


def _streams(root: Cursor) -> tuple[Cursor, memoryview, memoryview]:
    start = root.position
    if root.take(4, "signature") != b"BSJB":
        raise root.fail("the metadata signature is missing")
    root.skip(8)
    root.skip(root.u32("version length"))
    root.skip(2)
    found: dict[bytes, tuple[int, int]] = {}
    for _ in range(root.u16("stream count")):
        offset, size = root.u32("stream offset"), root.u32("stream size")
        name = b""
        while not name.endswith(b"\0"):
            name += root.take(4, "stream name")
            if len(name) > 32:
                raise root.fail("a stream name is too long")
        found[name.rstrip(b"\0")] = (start + offset, size)
    views = []
    for wanted in (b"#~", b"#Strings", b"#Blob"):
        position, size = found.get(wanted, (start, 0))
        if position + size > root.end:
            raise root.fail(f"stream {wanted.decode()} is outside of the metadata")
        views.append((position, size))
    if not views[0][1]:
        raise root.fail("the table stream is missing")
    tables = Cursor(root.data, position=views[0][0], end=views[0][0] + views[0][1], where="#~")
    strings, blobs = (root.data[position : position + size] for position, size in views[1:])
    return tables, strings, blobs


def _table_header(tables: Cursor) -> tuple[int, dict[int, int]]:
    tables.skip(6)
    heap_sizes = tables.u8("heap sizes")
    tables.skip(1)
    valid = tables.u64("valid tables")
    tables.skip(8)
    counts = {table: tables.u32("row count") for table in range(64) if valid >> table & 1}
    if heap_sizes & 0x40:
        tables.skip(4)
    return heap_sizes, counts
