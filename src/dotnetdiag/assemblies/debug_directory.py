"""What the file of an assembly says of its PDB: the id that it must have, and the PDB itself where it is embedded.

Layout: the PE/COFF Debug Directory Specification of dotnet/runtime (CodeView, Embedded Portable PDB); ECMA-335 II.25 for what holds it.
"""

from __future__ import annotations

import zlib
from uuid import UUID

from dotnetdiag.assemblies.startup_hook import _Broken, _Bytes, _offset, _sections

_CODEVIEW, _EMBEDDED = 2, 17
_DEBUG = 6
"""The place of the debug directory among the data directories."""
_ENTRY_BYTES = 28
MAX_ENTRIES = 64
MAX_EMBEDDED_BYTES = 256 << 20
"""Of an embedded PDB when it is unpacked; real ones have some megabytes."""


class DebugDirectory:
    """The bytes of a ``.dll`` or ``.exe``. ``pdb_id`` is the GUID of the PDB that belongs to it, None where it names none.

    Raises ValueError for what is no PE file.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self.pdb_id: UUID | None = None
        self._embedded: memoryview | None = None
        try:
            self._read(_Bytes(memoryview(data).cast("B"), "file"))
        except _Broken as error:
            raise ValueError(f"it is no assembly ({error})") from error

    def embedded_pdb(self) -> bytes | None:
        """The bytes of the embedded PDB, None where there is none. Raises ValueError for one that is damaged or too large."""
        if self._embedded is None:
            return None
        packed = _Bytes(self._embedded, "embedded PDB")
        try:
            if bytes(packed.take(0, 4)) != b"MPDB":
                raise _Broken("it does not begin with MPDB")
            size = packed.number(4, 4)
            if size > MAX_EMBEDDED_BYTES:
                raise _Broken(f"it says that it has {size} bytes unpacked")
            made = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed.data[8:], size + 1)
        except (_Broken, zlib.error) as error:
            raise ValueError(f"its embedded PDB is damaged ({error})") from error
        if len(made) != size:
            raise ValueError(f"its embedded PDB is damaged ({size} bytes announced, another number there)")
        return made

    def _read(self, file: _Bytes) -> None:
        if bytes(file.take(0, 2)) != b"MZ":
            raise _Broken("it does not begin with MZ")
        header = file.number(0x3C, 4)
        if bytes(file.take(header, 4)) != b"PE\0\0":
            raise _Broken("the PE signature is missing")
        optional = file.part(header + 24, file.number(header + 20, 2), "optional header")
        magic = optional.number(0, 2)
        if magic not in (0x10B, 0x20B):
            raise _Broken(f"magic 0x{magic:x} is neither PE32 nor PE32+")
        place = (96 if magic == 0x10B else 112) + 8 * _DEBUG
        address, size = optional.number(place, 4), optional.number(place + 4, 4)
        if not address:
            return
        count = size // _ENTRY_BYTES
        if count > MAX_ENTRIES:
            raise _Broken(f"{count} entries of the debug directory are too many")
        sections = _sections(file, header + 24 + len(optional.data), file.number(header + 6, 2))
        entries = file.part(_offset(sections, address), count * _ENTRY_BYTES, "debug directory")
        for number in range(count):
            entry = entries.part(number * _ENTRY_BYTES, _ENTRY_BYTES, "entry")
            kind, size, start = entry.number(12, 4), entry.number(16, 4), entry.number(24, 4)
            if kind == _CODEVIEW and size >= 24:
                data = file.part(start, size, "CodeView entry")
                if bytes(data.take(0, 4)) == b"RSDS" and self.pdb_id is None:
                    self.pdb_id = UUID(bytes_le=bytes(data.take(4, 16)))
            elif kind == _EMBEDDED:
                self._embedded = file.take(start, size)
