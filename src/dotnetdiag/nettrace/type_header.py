"""How objects of NetPerf and nettrace 4, 5 open: with their type (nettrace.md §2)."""

from __future__ import annotations

import struct

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.constants import SUPPORTED_VERSIONS, TAG_BEGIN, TAG_END, TAG_NULL, TYPE_NAME_LIMIT

TYPE = struct.Struct("<3Biii")
"""Three tags, version, minReaderVersion, length of the name."""


@dataclass(frozen=True, slots=True)
class TypeHeader:
    """``size`` in bytes, with the tags."""

    name: str
    version: int
    min_reader: int
    size: int


def read_type(data: memoryview, base: int, offset: int) -> TypeHeader | int:
    """That of the object opening at ``offset``, or the number of bytes needed from there. Raises FormatError."""
    at = offset - base
    have = len(data) - at
    if have >= 1 and data[at] not in TAG_BEGIN:
        raise FormatError(f"expected the begin of an object, found tag {data[at]}", offset=offset, where="object")
    if have < 15:
        return 15
    tag, second, null, version, min_reader, length = TYPE.unpack_from(data, at)
    if second != tag or null != TAG_NULL:
        raise FormatError(f"expected a type, found tags {second} {null}", offset=offset + 1, where="object")
    if not 0 <= length <= TYPE_NAME_LIMIT:
        raise FormatError(f"type name of {length} bytes", offset=offset + 11, where="object")
    if have < 16 + length:
        return 16 + int(length)
    name = bytes(data[at + 15 : at + 15 + length]).decode("utf-8", "replace")
    if data[at + 15 + length] != TAG_END:
        raise FormatError("the type does not end", offset=offset + 15 + length, where=name)
    if min_reader > SUPPORTED_VERSIONS.get(name, min_reader):
        raise FormatError(f"needs a reader of version {min_reader}", offset=offset, where=name)
    return TypeHeader(name, int(version), int(min_reader), 16 + int(length))
