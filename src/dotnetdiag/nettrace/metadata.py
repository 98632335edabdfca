"""What a file says about an event type: the metadata record and its tree of field types.

The same values come out of every format version (nettrace.md §3, §5.6, §6.3) and go into the writer.
"""

from __future__ import annotations

from enum import IntEnum
from uuid import UUID

from dotnetdiag._dataclasses import dataclass


class TypeCode(IntEnum):
    """Type codes of metadata fields (nettrace.md §7). An unknown code stays a plain number."""

    OBJECT = 1
    BOOLEAN = 3
    """Four bytes; one byte inside of a self-describing event."""
    CHAR = 4
    SBYTE = 5
    BYTE = 6
    INT16 = 7
    UINT16 = 8
    INT32 = 9
    UINT32 = 10
    INT64 = 11
    UINT64 = 12
    SINGLE = 13
    DOUBLE = 14
    DECIMAL = 15
    DATETIME = 16
    GUID = 17
    STRING = 18
    """UTF-16LE, ended by a zero unit."""
    ARRAY = 19
    """u16 element count, then the elements."""
    VARINT = 20
    VARUINT = 21
    FIXED_ARRAY = 22
    UTF8_CODE_UNIT = 23
    REL_LOC = 24
    DATA_LOC = 25
    BOOLEAN8 = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """A type: its code, the element type of arrays and locations, the count of fixed arrays, the fields of objects."""

    code: int
    element: FieldType | None = None
    count: int = 0
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One named field. The single unnamed Object of a self-describing event has the name ``""``."""

    name: str
    type: FieldType


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """One metadata record. ``metadata_id`` is unique in its file (until a V6 sequence point drops it).

    ``opcode`` is None when the file states none. ``level`` and ``keywords`` are 0 where the format has none (V1, V2
    native events). ``declared`` is False where the record carries no usable field list: the payload may still have
    bytes.
    """

    metadata_id: int
    provider: str
    event_id: int
    name: str = ""
    keywords: int = 0
    version: int = 0
    level: int = 0
    opcode: int | None = None
    fields: tuple[Field, ...] = ()
    declared: bool = True
    provider_guid: UUID | None = None
    message_template: str = ""
    description: str = ""
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def self_describing(self) -> bool:
        """True when the only top-level field is an unnamed Object: Booleans in it take one byte (nettrace.md §7)."""
        return len(self.fields) == 1 and self.fields[0].name == "" and self.fields[0].type.code == TypeCode.OBJECT


def count_nested_types(fields: tuple[Field, ...]) -> int:
    """How many types in them have an element type; what is one object counts once."""
    types, seen = [field.type for field in fields], set[int]()
    while types:
        kind = types.pop()
        types.extend(field.type for field in kind.fields)
        if kind.element is not None and id(kind) not in seen:
            seen.add(id(kind))
            types.append(kind.element)
    return len(seen)
