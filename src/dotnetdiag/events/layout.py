"""The shape of a payload: one tree for what a file declares, what the catalogue knows and what was inferred.

A :class:`Layout` says what bytes a value takes; a :class:`SchemaField` gives it a name. Layouts come from the
metadata of a file (:func:`from_metadata`), or from a text (:func:`parse_fields`)::

    fields := field ("," field)*          field := name ":" type ["*" count] ["#"] ["=" map]
    type   := u1 u2 u4 u8 i1 … f4 f8 bool bool8 ptr guid date z16 z8 s8 vu vi bin padN | "{" fields "}"
    count  := number | name of a field in front, of the same structure | "u16" | "u32" (in front of the elements)

``#`` marks numbers that people read in hexadecimal; ``=`` names the map of the provider that gives the values names.
"""

from __future__ import annotations

from enum import IntEnum

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.metadata import Field, FieldType, TypeCode

MAX_DEPTH = 32
"""Nesting of types that is followed; what is deeper stays bytes (nettrace.md §13)."""
MAX_LISTS = 4
"""Lists in lists that are followed: each is decoded by a program of its own, which has those inside of it again. EventSource
refuses a list in a list."""
MAX_FIELDS, LIST_FIELDS = 4096, 8
"""Fields of one event, nested ones counted, and a list with elements for so many; what is behind stays bytes. EventSource
itself allows far fewer."""
MAX_LOCATIONS = 64
"""RelLoc and DataLoc fields of one event: each may point to the same bytes again."""
MAX_FIXED_SIZE = 1 << 20
"""Bytes of one fixed-size value; payloads are at most 64 KiB as a rule."""


class Kind(IntEnum):
    """What a value is. Up to ``POINTER`` of a fixed size."""

    BOOL = 1
    BOOL32 = 2
    CHAR = 3
    CHAR8 = 4
    I1 = 5
    U1 = 6
    I2 = 7
    U2 = 8
    I4 = 9
    U4 = 10
    I8 = 11
    U8 = 12
    F4 = 13
    F8 = 14
    DECIMAL = 15
    DATETIME = 16
    GUID = 17
    POINTER = 18
    """As wide as a pointer of the traced machine."""
    PAD = 19
    """``count`` bytes that mean nothing."""
    VARINT = 20
    VARUINT = 21
    Z16 = 22
    """UTF-16LE, ended by a zero unit."""
    Z8 = 23
    """UTF-8, ended by a zero byte."""
    TEXT16 = 24
    """Counted UTF-16LE units."""
    TEXT8 = 25
    """Counted UTF-8 bytes."""
    BYTES = 26
    """Counted bytes."""
    LIST = 27
    """Counted elements."""
    STRUCT = 28
    OPAQUE = 29
    """All that is left of the payload, as bytes: the type is not known."""
    TIMESTAMP = 30
    """ns since 1970, UTC: of columns alone, no payload has it."""


class Count(IntEnum):
    """Where the count of a counted value stands."""

    FIXED = 0
    U16 = 1
    U32 = 2
    FIELD = 3
    """In a field of the same structure, in front."""
    REL = 4
    """u32: bytes in the high half, offset from behind this u32 in the low half."""
    DATA = 5
    """u32: bytes in the high half, offset from the start of the payload in the low half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The bytes of one value. ``count``: the fixed count, or the size of a pad; ``count_field``: a sibling's name."""

    kind: Kind
    element: Layout | None = None
    fields: tuple[SchemaField, ...] = ()
    count: int = 0
    count_at: Count = Count.FIXED
    count_field: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaField:
    """A named value. ``map`` names a value map of the provider, ``hexadecimal`` says how people read it."""

    name: str
    layout: Layout
    map: str = ""
    hexadecimal: bool = False


SIZES: dict[Kind, int] = {
    Kind.BOOL: 1,
    Kind.BOOL32: 4,
    Kind.CHAR: 2,
    Kind.CHAR8: 1,
    Kind.I1: 1,
    Kind.U1: 1,
    Kind.I2: 2,
    Kind.U2: 2,
    Kind.I4: 4,
    Kind.U4: 4,
    Kind.I8: 8,
    Kind.U8: 8,
    Kind.F4: 4,
    Kind.F8: 8,
    Kind.DECIMAL: 16,
    Kind.DATETIME: 8,
    Kind.GUID: 16,
}


def fixed_size(layout: Layout, pointer_size: int) -> int | None:
    """Bytes of every value of this layout, or None when they vary."""
    kind = layout.kind
    if kind in SIZES:
        return SIZES[kind]
    if kind == Kind.POINTER:
        return pointer_size
    if kind == Kind.PAD:
        return layout.count
    if kind == Kind.STRUCT:
        total = 0
        for field in layout.fields:
            size = fixed_size(field.layout, pointer_size)
            if size is None:
                return None
            total += size
        return total
    if kind in (Kind.TEXT16, Kind.TEXT8, Kind.BYTES, Kind.LIST) and layout.count_at == Count.FIXED:
        unit = unit_size(layout, pointer_size) if layout.count else 0
        return None if unit is None else unit * layout.count
    return None


def count_values(fields: tuple[SchemaField, ...]) -> int:
    """How many there are of them, those inside of others counted."""
    count, layouts = 0, [field.layout for field in fields]
    while layouts:
        layout = layouts.pop()
        count += 1
        layouts.extend(field.layout for field in layout.fields)
        if layout.element is not None:
            layouts.append(layout.element)
    return count


def unit_size(layout: Layout, pointer_size: int) -> int | None:
    """Bytes of one element of a counted layout, or None when they vary."""
    if layout.kind == Kind.LIST:
        assert layout.element is not None
        return fixed_size(layout.element, pointer_size)
    return 2 if layout.kind == Kind.TEXT16 else 1


def least_size(layout: Layout, pointer_size: int) -> int:
    """Bytes that an element of this layout takes at least."""
    size = fixed_size(layout, pointer_size)
    if size is not None:
        return size
    if layout.kind == Kind.STRUCT:
        return sum(least_size(field.layout, pointer_size) for field in layout.fields)
    if layout.element is not None and layout.count_at == Count.FIXED:
        return layout.count * least_size(layout.element, pointer_size)
    if layout.kind in (Kind.VARINT, Kind.VARUINT, Kind.Z8):
        return 1
    if layout.kind == Kind.Z16:
        return 2
    return {Count.U16: 2, Count.U32: 4}.get(layout.count_at, 0)  # elements have no locations


_SCALARS: dict[int, Kind] = {
    TypeCode.BOOLEAN: Kind.BOOL32,
    TypeCode.CHAR: Kind.CHAR,
    TypeCode.SBYTE: Kind.I1,
    TypeCode.BYTE: Kind.U1,
    TypeCode.INT16: Kind.I2,
    TypeCode.UINT16: Kind.U2,
    TypeCode.INT32: Kind.I4,
    TypeCode.UINT32: Kind.U4,
    TypeCode.INT64: Kind.I8,
    TypeCode.UINT64: Kind.U8,
    TypeCode.SINGLE: Kind.F4,
    TypeCode.DOUBLE: Kind.F8,
    TypeCode.DECIMAL: Kind.DECIMAL,
    TypeCode.DATETIME: Kind.DATETIME,
    TypeCode.GUID: Kind.GUID,
    TypeCode.STRING: Kind.Z16,
    TypeCode.VARINT: Kind.VARINT,
    TypeCode.VARUINT: Kind.VARUINT,
    TypeCode.UTF8_CODE_UNIT: Kind.CHAR8,
    TypeCode.BOOLEAN8: Kind.BOOL,
}
_ARRAYS: dict[int, Count] = {
    TypeCode.ARRAY: Count.U16,
    TypeCode.FIXED_ARRAY: Count.FIXED,
    TypeCode.REL_LOC: Count.REL,
    TypeCode.DATA_LOC: Count.DATA,
}
_ARRAY_KINDS = {TypeCode.CHAR: Kind.TEXT16, TypeCode.UTF8_CODE_UNIT: Kind.TEXT8, TypeCode.BYTE: Kind.BYTES}
_ONCE = {kind: Layout(kind=kind) for kind in {*_SCALARS.values(), Kind.BOOL, Kind.OPAQUE}}
"""Of each kind that needs no more to be said."""


class _Reader:
    """One translation of a metadata tree; counts what has to stay bounded."""

    def __init__(self, self_describing: bool) -> None:
        self.self_describing = self_describing
        self.left = MAX_FIELDS
        self.locations = MAX_LOCATIONS
        self.lists: dict[tuple[Kind, int, int, Count], Layout] = {}
        """By what they are made of, the ``id`` of the element's layout included: each is made once."""

    def fields(self, fields: tuple[Field, ...], depth: int, lists: int) -> tuple[SchemaField, ...] | None:
        """``lists``: how many of them the fields are in."""
        made = []
        for field in fields:
            self.left -= 1
            layout = self.layout(field.type, depth, lists) if self.left >= 0 else None
            if layout is None:
                if depth or lists:
                    return None
                made.append(SchemaField(name=field.name, layout=_ONCE[Kind.OPAQUE]))
                break
            made.append(SchemaField(name=field.name, layout=layout))
        return tuple(made)

    def layout(self, type_: FieldType, depth: int, lists: int) -> Layout | None:
        """The layout, or None where the type cannot be followed."""
        if depth > MAX_DEPTH:
            return None
        code = type_.code
        if code in _SCALARS:
            kind = _SCALARS[code]
            if self.self_describing:  # nettrace.md §7: one byte, and a double
                kind = {Kind.BOOL32: Kind.BOOL, Kind.DECIMAL: Kind.F8}.get(kind, kind)
            return _ONCE[kind]
        if code == TypeCode.OBJECT:
            fields = self.fields(type_.fields, depth + 1, lists)
            return None if fields is None else Layout(kind=Kind.STRUCT, fields=fields)
        if code not in _ARRAYS or type_.element is None:
            return None
        at = _ARRAYS[TypeCode(code)]
        if at in (Count.REL, Count.DATA):
            self.locations -= 1
            if lists or self.locations < 0:
                return None
        kind = Kind.LIST
        element: Layout | None = None
        if type_.element.code in _ARRAY_KINDS:
            kind = _ARRAY_KINDS[TypeCode(type_.element.code)]
        else:
            self.left -= LIST_FIELDS
            if self.left < 0 or lists == MAX_LISTS:
                return None
            element = self.layout(type_.element, depth + 1, lists + 1)
            if element is None:
                return None
        count = type_.count if at == Count.FIXED else 0
        made = self.lists.setdefault(
            (kind, id(element), count, at), Layout(kind=kind, element=element, count=count, count_at=at)
        )
        if made.count < 0 or (fixed_size(made, 8) or 0) > MAX_FIXED_SIZE:
            return None
        if at in (Count.REL, Count.DATA) and not unit_size(made, 8):
            return None
        return made


def from_metadata(fields: tuple[Field, ...], *, self_describing: bool) -> tuple[SchemaField, ...]:
    """The fields a file declares; from the first type on that cannot be followed, one ``OPAQUE`` field for all."""
    made = _Reader(self_describing).fields(fields, 0, 0)
    assert made is not None
    return made


_WORDS: dict[str, Kind] = {
    "u1": Kind.U1,
    "u2": Kind.U2,
    "u4": Kind.U4,
    "u8": Kind.U8,
    "i1": Kind.I1,
    "i2": Kind.I2,
    "i4": Kind.I4,
    "i8": Kind.I8,
    "f4": Kind.F4,
    "f8": Kind.F8,
    "bool": Kind.BOOL32,
    "bool8": Kind.BOOL,
    "ptr": Kind.POINTER,
    "guid": Kind.GUID,
    "date": Kind.DATETIME,
    "z16": Kind.Z16,
    "z8": Kind.Z8,
    "vi": Kind.VARINT,
    "vu": Kind.VARUINT,
}
_PLAIN = {word: _ONCE.get(kind) or Layout(kind=kind) for word, kind in _WORDS.items()}
"""One layout for all fields of a type that needs no more to be said: a recording's events have two hundred such."""


def parse_fields(text: str) -> tuple[SchemaField, ...]:
    """The fields written in ``text`` (grammar above); :class:`FormatError`, with the position, when it is wrong."""
    fields, position = _fields(text, 0)
    if position != len(text):
        raise FormatError(f"{text[position]!r} not expected", offset=position, where="field list")
    return fields


def _fields(text: str, position: int) -> tuple[tuple[SchemaField, ...], int]:
    made: list[SchemaField] = []
    while position < len(text) and text[position] != "}":
        colon = text.find(":", position)
        if colon < 0:
            raise FormatError("a field without a type", offset=position, where="field list")
        name = text[position:colon]
        layout, position = _layout(text, colon + 1)
        hexadecimal = text[position : position + 1] == "#"
        position += hexadecimal
        map_name = ""
        if text[position : position + 1] == "=":
            map_name, position = _word(text, position + 1)
        made.append(SchemaField(name=name, layout=layout, map=map_name, hexadecimal=hexadecimal))
        if text[position : position + 1] != ",":
            break
        position += 1
    return tuple(made), position


def _word(text: str, position: int) -> tuple[str, int]:
    end = position
    while end < len(text) and text[end] not in ",:*#={}":
        end += 1
    return text[position:end], end


def _layout(text: str, position: int) -> tuple[Layout, int]:
    start = position
    element: Layout | None
    kind = Kind.LIST
    if text[position : position + 1] == "{":
        fields, position = _fields(text, position + 1)
        if text[position : position + 1] != "}":
            raise FormatError("a structure without an end", offset=start, where="field list")
        position += 1
        element = Layout(kind=Kind.STRUCT, fields=fields)
    else:
        word, position = _word(text, position)
        element = None
        if word == "bin":
            kind = Kind.BYTES
        elif word == "s8":  # u16 byte length and UTF-8, nettrace.md §12
            return Layout(kind=Kind.TEXT8, count_at=Count.U16), position
        elif word.startswith("pad") and word[3:].isdigit():
            return Layout(kind=Kind.PAD, count=int(word[3:])), position
        elif word in _PLAIN:
            element = _PLAIN[word]
        else:
            raise FormatError(f"no type {word!r}", offset=start, where="field list")
    if text[position : position + 1] == "*":
        word, position = _word(text, position + 1)
        at = {"u16": Count.U16, "u32": Count.U32}.get(word, Count.FIXED if word.isdigit() else Count.FIELD)
        return Layout(
            kind=kind,
            element=element,
            count=int(word) if at == Count.FIXED else 0,
            count_at=at,
            count_field=word if at == Count.FIELD else "",
        ), position
    if element is None:
        raise FormatError("bytes without a count", offset=start, where="field list")
    return element, position
