"""Metadata records in bytes: five layouts, one value (nettrace.md §3, §4, §5.6, §6.3).

What cannot be understood in a *field list* costs the fields, not the record: ``declared`` becomes False, as TraceEvent
does. What cannot be understood before it (ids, names) is a :class:`~dotnetdiag.errors.FormatError`.
"""

from __future__ import annotations

from uuid import UUID

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace.constants import FIELD_DEPTH_LIMIT
from dotnetdiag.nettrace.metadata import Field, FieldType, Metadata, TypeCode
from dotnetdiag.wire import Cursor, Packer

TAG_OPCODE = 1
TAG_V2_PARAMS = 2
V5_LAST_CODE = TypeCode.ARRAY
_NESTED_V6 = {TypeCode.ARRAY, TypeCode.FIXED_ARRAY, TypeCode.REL_LOC, TypeCode.DATA_LOC}


_SIMPLE = {code: FieldType(code=code) for code in range(max(TypeCode) + 1)}
"""Each type that is nothing but its code, once."""


def _as_word(value: int) -> int:
    return value & 0xFFFFFFFF


def _simple(code: int) -> FieldType:
    return _SIMPLE.get(code) or FieldType(code=code)


# V1-style field lists (all of NetPerf, nettrace 4 and 5) --------------------------------------------------------------


def _fields_v1(cursor: Cursor, depth: int = 0) -> tuple[Field, ...]:
    if depth > FIELD_DEPTH_LIMIT:
        raise cursor.fail("fields nested too deep")
    count = cursor.i32("field count")
    if not 0 <= count <= cursor.left // 6:
        raise cursor.fail(f"{count} fields in {cursor.left} bytes")
    fields = []
    for _ in range(count):
        code = cursor.i32("type code")
        if code == TypeCode.ARRAY:
            raise cursor.fail("an array in a V1 field list")
        is_object = code == TypeCode.OBJECT
        kind = FieldType(code=code, fields=_fields_v1(cursor, depth + 1)) if is_object else _simple(code)
        fields.append(Field(name=cursor.z16("field name"), type=kind))
    return tuple(fields)


def _type_v2(cursor: Cursor, depth: int) -> FieldType:
    if depth > FIELD_DEPTH_LIMIT:
        raise cursor.fail("types nested too deep")
    code = cursor.i32("type code")
    if code == TypeCode.OBJECT:
        return FieldType(code=code, fields=_fields_v2(cursor, depth + 1))
    if code == TypeCode.ARRAY:
        return FieldType(code=code, element=_type_v2(cursor, depth + 1))
    return _simple(code)


def _fields_v2(cursor: Cursor, depth: int = 0) -> tuple[Field, ...]:
    count = cursor.i32("field count")
    if not 0 <= count <= cursor.left // 10:
        raise cursor.fail(f"{count} fields in {cursor.left} bytes")
    fields = []
    for _ in range(count):
        size = cursor.i32("field size")
        if size < 4:
            raise cursor.fail(f"field of {size} bytes")
        inner = cursor.child(size - 4, "field")
        name = inner.z16("field name")
        fields.append(Field(name=name, type=_type_v2(inner, depth)))
    return tuple(fields)


def parse_record(cursor: Cursor) -> Metadata:
    """Payload of a metadata event of NetPerf 3 and nettrace 4, 5 (nettrace.md §5.6)."""
    metadata_id = _as_word(cursor.i32("metadata id"))
    provider = cursor.z16("provider name")
    event_id = _as_word(cursor.i32("event id"))
    name = cursor.z16("event name")
    keywords = cursor.u64("keywords")
    version, level = _as_word(cursor.i32("version")), _as_word(cursor.i32("level"))
    fields: tuple[Field, ...] = ()
    opcode: int | None = None
    declared = True
    try:
        if cursor.left:
            fields = _fields_v1(cursor)
        while cursor.left >= 5:
            size = cursor.i32("tag size")
            kind = cursor.u8("tag kind")
            tag = cursor.child(size, "tag")
            if kind == TAG_OPCODE:
                opcode = tag.u8("opcode")
            elif kind == TAG_V2_PARAMS:
                if fields:
                    raise tag.fail("V2 parameters after V1 fields")
                fields = _fields_v2(tag)
    except FormatError:
        fields, declared = (), False
    return Metadata(
        metadata_id=metadata_id,
        provider=provider,
        event_id=event_id,
        name=name,
        keywords=keywords,
        version=version,
        level=level,
        opcode=opcode,
        fields=fields,
        declared=declared and bool(fields),
    )


def parse_flat_record(cursor: Cursor, metadata_id: int, *, major: int) -> Metadata:
    """Payload of a metadata event of NetPerf 1 (provider as GUID) or 2 (as name) (nettrace.md §3)."""
    guid: UUID | None = None
    provider = ""
    if major == 1:
        guid = UUID(bytes_le=cursor.take(16, "provider id"))
    else:
        provider = cursor.z16("provider name")
    event_id, version = _as_word(cursor.i32("event id")), _as_word(cursor.i32("version"))
    made = Metadata(
        metadata_id=metadata_id,
        provider=provider,
        event_id=event_id,
        version=version,
        declared=False,
        provider_guid=guid,
    )
    try:
        block = cursor.child(cursor.i32("metadata length"), "metadata")
        block.skip(4, "event id")
        name = block.z16("event name")
        keywords = block.u64("keywords")
        block.skip(4, "version")
        level = _as_word(block.i32("level"))
        made = replace(made, name=name, keywords=keywords, level=level)
        fields = _fields_v1(block) if block.left else ()
    except FormatError:
        return made
    return replace(made, fields=fields, declared=bool(fields))


# version 6 ------------------------------------------------------------------------------------------------------------


_Types = dict[tuple[int, int, int], FieldType]
"""Types of a row by their code, the ``id`` of the element type, and the count: each is made once."""


def _type_v6(cursor: Cursor, depth: int, types: _Types) -> FieldType:
    if depth > FIELD_DEPTH_LIMIT:
        raise cursor.fail("types nested too deep")
    code = cursor.u8("type code")
    if code == TypeCode.OBJECT:
        return FieldType(code=code, fields=_fields_v6(cursor, depth + 1, types))
    if code in _SIMPLE and code not in _NESTED_V6:
        return _SIMPLE[code]
    element = _type_v6(cursor, depth + 1, types) if code in _NESTED_V6 else None
    count = cursor.u16("element count") if code == TypeCode.FIXED_ARRAY else 0
    key = code, id(element), count
    if key not in types:
        types[key] = FieldType(code=code, element=element, count=count)
    return types[key]


def _fields_v6(cursor: Cursor, depth: int, types: _Types) -> tuple[Field, ...]:
    if depth > FIELD_DEPTH_LIMIT:
        raise cursor.fail("fields nested too deep")
    count = cursor.u16("field count")
    if count > cursor.left // 4:
        raise cursor.fail(f"{count} fields in {cursor.left} bytes")
    fields = []
    for _ in range(count):
        inner = cursor.child(cursor.u16("field size"), "field")
        name = string8(inner)
        fields.append(Field(name=name, type=_type_v6(inner, depth, types)))
    return tuple(fields)


def parse_row(cursor: Cursor) -> Metadata:
    """One row of a version 6 MetadataBlock, behind its size (nettrace.md §6.3)."""
    metadata_id = cursor.varuint(32, "metadata id")
    provider = string8(cursor)
    event_id = cursor.varuint(32, "event id")
    made = Metadata(metadata_id=metadata_id, provider=provider, event_id=event_id, name=string8(cursor), declared=False)
    try:
        fields = _fields_v6(cursor, 0, {})
    except FormatError:
        return made
    made = replace(made, fields=fields, declared=bool(fields))
    if cursor.left < 2:
        return made
    found: dict[str, object] = {}
    attributes: list[tuple[str, str]] = []
    try:
        items = cursor.child(cursor.u16("size of optional items"), "optional items")
        while items.left:
            kind = items.u8("item kind")
            if kind == 1:
                found["opcode"] = items.u8("opcode")
            elif kind == 3:
                found["keywords"] = items.u64("keywords")
            elif kind == 4:
                found["message_template"] = string8(items)
            elif kind == 5:
                found["description"] = string8(items)
            elif kind == 6:
                attributes.append((string8(items), string8(items)))
            elif kind == 7:
                found["provider_guid"] = UUID(bytes_le=items.take(16, "provider id"))
            elif kind == 8:
                found["level"] = items.u8("level")
            elif kind == 9:
                found["version"] = items.u8("version")
            else:
                break  # its length is not known, so the rest of the list cannot be read (nettrace.md §6.3)
    except FormatError:
        pass
    return replace(made, attributes=tuple(attributes), **found)  # type: ignore[arg-type]


# packing --------------------------------------------------------------------------------------------------------------


def _v1_expresses(fields: tuple[Field, ...]) -> bool:
    return all(
        field.type.code < V5_LAST_CODE and (field.type.code != TypeCode.OBJECT or _v1_expresses(field.type.fields))
        for field in fields
    )


def _v5_expresses(kind: FieldType) -> bool:
    if kind.code == TypeCode.OBJECT:
        return all(_v5_expresses(field.type) for field in kind.fields)
    if kind.code == TypeCode.ARRAY:
        return kind.element is not None and _v5_expresses(kind.element)
    return kind.code < V5_LAST_CODE


def _pack_fields_v1(out: Packer, fields: tuple[Field, ...]) -> None:
    out.i32(len(fields))
    for field in fields:
        out.i32(field.type.code)
        if field.type.code == TypeCode.OBJECT:
            _pack_fields_v1(out, field.type.fields)
        out.z16(field.name)


def _pack_type_v2(out: Packer, kind: FieldType) -> None:
    out.i32(kind.code)
    if kind.code == TypeCode.OBJECT:
        _pack_fields_v2(out, kind.fields)
    elif kind.code == TypeCode.ARRAY and kind.element is not None:
        _pack_type_v2(out, kind.element)


def _pack_fields_v2(out: Packer, fields: tuple[Field, ...]) -> None:
    out.i32(len(fields))
    for field in fields:
        inner = Packer().z16(field.name)
        _pack_type_v2(inner, field.type)
        out.i32(4 + len(inner)).raw(inner.buffer)


def pack_record(metadata: Metadata, *, version: int) -> bytes:
    """Payload of a metadata event of nettrace 4 or 5.

    UsageError when the version has no way to say it: version 4 knows no opcode and no arrays; neither knows what
    only version 6 has (varints, locations, templates, attributes).
    """
    what = f"nettrace {version} cannot say this of event {metadata.event_id} of {metadata.provider}"
    if metadata.message_template or metadata.description or metadata.attributes:
        raise UsageError(f"{what}: message template, description or attributes")
    if not all(_v5_expresses(field.type) for field in metadata.fields):
        raise UsageError(f"{what}: a field type of version 6")
    is_simple = _v1_expresses(metadata.fields)
    opcode = metadata.opcode
    if version == 4 and (not is_simple or opcode is not None):
        raise UsageError(f"{what}: {'an opcode' if is_simple else 'an array'}, which version 5 can")
    out = Packer().i32(_signed(metadata.metadata_id)).z16(metadata.provider).i32(_signed(metadata.event_id))
    out.z16(metadata.name).u64(metadata.keywords).i32(_signed(metadata.version)).i32(_signed(metadata.level))
    _pack_fields_v1(out, metadata.fields if is_simple else ())
    if opcode is not None:
        out.i32(1).u8(TAG_OPCODE).u8(opcode)
    if not is_simple:
        params = Packer()
        _pack_fields_v2(params, metadata.fields)
        out.i32(len(params)).u8(TAG_V2_PARAMS).raw(params.buffer)
    return bytes(out)


def _signed(value: int) -> int:
    return (value & 0xFFFFFFFF) - (1 << 32 if value & 0x80000000 else 0)


def string8(cursor: Cursor) -> str:
    """A string of version 6: varuint32 byte length, UTF-8."""
    return str(cursor.view(cursor.varuint(32, "string length"), "string"), "utf-8", "replace")


def pack_string8(out: Packer, text: str) -> None:
    """A string of version 6."""
    data = text.encode("utf-8", "replace")
    out.varuint(len(data)).raw(data)


def _pack_fields_v6(out: Packer, fields: tuple[Field, ...]) -> None:
    out.u16(len(fields))
    for field in fields:
        inner = Packer()
        pack_string8(inner, field.name)
        _pack_type_v6(inner, field.type)
        out.u16(len(inner)).raw(inner.buffer)


def _pack_type_v6(out: Packer, kind: FieldType) -> None:
    out.u8(kind.code)
    if kind.code in _NESTED_V6 and kind.element is not None:
        _pack_type_v6(out, kind.element)
    if kind.code == TypeCode.FIXED_ARRAY:
        out.u16(kind.count)
    if kind.code == TypeCode.OBJECT:
        _pack_fields_v6(out, kind.fields)


def pack_row(metadata: Metadata) -> bytes:
    """One row of a version 6 MetadataBlock with its size.

    UsageError when it does not fit (64 KB, level and version 255).
    """
    if metadata.version > 0xFF or metadata.level > 0xFF:
        raise UsageError(f"nettrace 6 holds event versions and levels up to 255: {metadata.version}, {metadata.level}")
    out = Packer().varuint(metadata.metadata_id)
    pack_string8(out, metadata.provider)
    out.varuint(metadata.event_id)
    pack_string8(out, metadata.name)
    _pack_fields_v6(out, metadata.fields)
    items = Packer()
    if metadata.opcode is not None:
        items.u8(1).u8(metadata.opcode)
    if metadata.keywords:
        items.u8(3).u64(metadata.keywords)
    for kind, text in ((4, metadata.message_template), (5, metadata.description)):
        if text:
            items.u8(kind)
            pack_string8(items, text)
    for key, value in metadata.attributes:
        items.u8(6)
        pack_string8(items, key)
        pack_string8(items, value)
    if metadata.provider_guid is not None:
        items.u8(7).raw(metadata.provider_guid.bytes_le)
    if metadata.level:
        items.u8(8).u8(metadata.level)
    if metadata.version:
        items.u8(9).u8(metadata.version)
    if max(len(items), len(out) + 2 + len(items)) > 0xFFFF:
        raise UsageError(f"event {metadata.event_id} of {metadata.provider}: its metadata does not fit 64 KB")
    out.u16(len(items)).raw(items.buffer)
    return bytes(Packer().u16(len(out)).raw(out.buffer))
