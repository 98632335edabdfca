"""Typed fields of events: what Python types are in metadata, and how values become payloads (nettrace.md §7).

============================  ==================================================================================
type                          in the stream
============================  ==================================================================================
``bool``                      Boolean, 4 bytes
``int``                       Int64; another size by its code: ``TypeCode.INT32``, ``UINT8`` is ``BYTE``
``float``                     Double; ``TypeCode.SINGLE``
``str``                       UTF-16; a zero in it is replaced by U+FFFD
``bytes``                     Array of Byte, at most 65,535; of an array (``memoryview``, numpy's) the bytes in memory
``UUID``, ``datetime``        Guid; DateTime (a datetime without a zone is UTC)
``list[X]``                   Array of X, which is no array itself
a dataclass                   Object with its fields; ``Annotated[int, TypeCode.INT32]`` for a code
============================  ==================================================================================
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from uuid import UUID

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import Field, FieldType, TypeCode
from dotnetdiag.nettrace.constants import FIELD_DEPTH_LIMIT
from dotnetdiag.server.signal_errors import is_of_signal
from dotnetdiag.server.value_text import text_of

Pack = Callable[..., bytes]
"""One argument for each field. A value that does not fit raises, whatever it is that its own code raises."""
_FORMATS = {
    TypeCode.BOOLEAN: "i",
    TypeCode.CHAR: "H",
    TypeCode.SBYTE: "b",
    TypeCode.BYTE: "B",
    TypeCode.INT16: "h",
    TypeCode.UINT16: "H",
    TypeCode.INT32: "i",
    TypeCode.UINT32: "I",
    TypeCode.INT64: "q",
    TypeCode.UINT64: "Q",
    TypeCode.SINGLE: "f",
    TypeCode.DOUBLE: "d",
}
_CODES: dict[object, TypeCode] = {
    bool: TypeCode.BOOLEAN,
    int: TypeCode.INT64,
    float: TypeCode.DOUBLE,
    str: TypeCode.STRING,
    UUID: TypeCode.GUID,
    datetime: TypeCode.DATETIME,
}
_pack_count = struct.Struct("<H").pack
_GUID_BYTES = 16
_FILETIME_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EventFields:
    """The fields of one event type."""

    names: tuple[str, ...]
    types: tuple[Field, ...]
    pack: Pack

    @classmethod
    def of(cls, fields: Mapping[str, object] | type | None) -> EventFields:
        """From names and types, or from a dataclass. UsageError for a type that events cannot have."""
        declared = _declared(fields)
        for name in declared:
            if not isinstance(name, str) or not name or "\0" in name:
                raise UsageError(f"{name!r} cannot be the name of a field")
        types = tuple(Field(name=name, type=_type_of(name, kind, 0)) for name, kind in declared.items())
        return cls(names=tuple(declared), types=types, pack=_packer([field.type for field in types]))

    def __str__(self) -> str:
        """``id (INT64), customer (STRING)``."""
        return ", ".join(f"{field.name} ({_type_name(field.type)})" for field in self.types) or "nothing"

    def problem(self, values: Sequence[Any]) -> str:
        """Which of the values does not fit, or that they are lacking or too many; ``""`` where each fits by itself."""
        if len(values) != len(self.types):
            return f"{len(values)} of {len(self.types)} values are given"
        for field, value in zip(self.types, values, strict=True):
            try:
                _packer([field.type])(value)
            except Exception as error:  # of whatever kind: the value's own code runs
                if is_of_signal(error):
                    raise
                return f"{field.name} is of type {type(value).__name__} ({text_of(error)})"
        return ""


def _type_name(kind: FieldType) -> str:
    name = TypeCode(kind.code).name
    return name if kind.element is None else f"{name} of {_type_name(kind.element)}"


def z16(text: str) -> bytes:
    """UTF-16 with a zero at its end. A zero inside would end it too early, and is replaced."""
    if type(text) is not str:
        text = str.__str__(text)  # of a subclass what it is, whatever its methods say; TypeError for what is no text
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text.encode("utf-16-le", "surrogatepass") + b"\0\0"


def _declared(fields: object) -> Mapping[str, object]:
    if fields is None:
        return {}
    if isinstance(fields, Mapping):
        return fields
    if isinstance(fields, type) and dataclasses.is_dataclass(fields):
        hints = get_type_hints(fields, include_extras=True)
        return {field.name: hints[field.name] for field in dataclasses.fields(fields)}
    raise UsageError(f"fields are names with types, or a dataclass, not {fields!r}")


def _type_of(name: str, kind: Any, depth: int) -> FieldType:
    if depth > FIELD_DEPTH_LIMIT:
        raise UsageError(f"field {name}: nested deeper than {FIELD_DEPTH_LIMIT}")
    if get_origin(kind) is Annotated:
        codes = [one for one in get_args(kind)[1:] if isinstance(one, TypeCode)]
        kind = codes[0] if codes else get_args(kind)[0]
    if isinstance(kind, TypeCode):
        if kind not in _FORMATS and kind not in _CODES.values():
            raise UsageError(f"field {name}: {kind.name} cannot be written of a value")
        return FieldType(code=kind)
    if kind is bytes:
        return FieldType(code=TypeCode.ARRAY, element=FieldType(code=TypeCode.BYTE))
    if (
        get_origin(kind) in (list, Sequence, tuple)
        and len(get_args(kind)) in (1, 2)
        and get_args(kind)[1:] in ((), (...,))
    ):
        element = _type_of(name, get_args(kind)[0], depth + 1)
        if element.code == TypeCode.ARRAY:
            raise UsageError(
                f"field {name}: TraceEvent does not read arrays of arrays; put the inner one into a dataclass"
            )
        return FieldType(code=TypeCode.ARRAY, element=element)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        members = [
            Field(name=member, type=_type_of(f"{name}.{member}", inner, depth + 1))
            for member, inner in _declared(kind).items()
        ]
        return FieldType(code=TypeCode.OBJECT, fields=tuple(members))
    code = _CODES.get(kind)
    if code is None:
        raise UsageError(
            f"field {name}: no event can have {kind!r}; bool, int, float, str, bytes, UUID, datetime, a TypeCode, list[…] of them "
            "or a dataclass can be"
        )
    return FieldType(code=code)


# values ---------------------------------------------------------------------------------------------------------------


def _packer(types: Sequence[FieldType]) -> Pack:
    """Numbers that stand side by side are packed by one call; all of them by that of the struct itself."""
    parts: list[tuple[int, int, Callable[..., bytes]]] = []
    formats = ""
    for at, kind in enumerate(types):
        code = _FORMATS.get(TypeCode(kind.code))
        if code is not None:
            formats += code
            continue
        if formats:
            parts.append((at - len(formats), at, struct.Struct("<" + formats).pack))
            formats = ""
        parts.append((at, at + 1, _one(kind)))
    if formats:
        parts.append((len(types) - len(formats), len(types), struct.Struct("<" + formats).pack))
    return _joined(parts, len(types))


def _joined(parts: list[tuple[int, int, Callable[..., bytes]]], count: int) -> Pack:
    if not parts:
        parts = [(0, 0, struct.Struct("").pack)]
    if len(parts) == 1:
        return parts[0][2]
    singles = [pack for first, behind, pack in parts if behind - first == 1]
    if len(singles) == count == 2:
        one, two = singles
        return lambda first, second: one(first) + two(second)
    if len(singles) == count == 3:
        one, two, three = singles
        return lambda first, second, third: one(first) + two(second) + three(third)

    def pack(*values: Any) -> bytes:
        if len(values) != count:
            raise TypeError(f"{count} values are needed, not {len(values)}")
        return b"".join([one(*values[first:behind]) for first, behind, one in parts])

    return pack


def _one(kind: FieldType) -> Callable[[Any], bytes]:
    """What packs one value that is no number."""
    if kind.code == TypeCode.STRING:
        return z16
    if kind.code == TypeCode.GUID:
        return _pack_guid
    if kind.code == TypeCode.DATETIME:
        return _pack_datetime
    if kind.code == TypeCode.OBJECT:
        return _object(kind)
    assert kind.element is not None
    return _array(kind.element)


def _pack_guid(value: UUID) -> bytes:
    raw = bytes(value.bytes_le)
    if len(raw) != _GUID_BYTES:
        raise ValueError(f"{len(raw)} bytes are no Guid")
    return raw


def _pack_datetime(value: datetime) -> bytes:
    """As FILETIME: 100 ns since 1601."""
    since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _FILETIME_EPOCH
    return struct.pack("<q", (since.days * 86_400 + since.seconds) * 10_000_000 + since.microseconds * 10)


def _object(kind: FieldType) -> Callable[[Any], bytes]:
    names = [field.name for field in kind.fields]
    pack = _packer([field.type for field in kind.fields])
    return lambda value: pack(*[getattr(value, name) for name in names])


def _pack_bytes(value: Any) -> bytes:
    len(value)  # raises for a number, of which bytes() would make as many zeros
    raw = bytes(value)  # its length is not that of an array of larger items
    return _pack_count(len(raw)) + raw


def _array(element: FieldType) -> Callable[[Any], bytes]:
    """The count is of what was packed: a value may have more items than it says, or get some meanwhile."""
    if element.code == TypeCode.BYTE:
        return _pack_bytes
    code = _FORMATS.get(TypeCode(element.code))
    if code is not None:
        return lambda value: struct.pack(f"<H{len(value)}{code}", len(value), *value)
    one = _one(element)

    def pack(value: Any) -> bytes:
        len(value)  # raises for what may never end
        items = [one(item) for item in value]
        return _pack_count(len(items)) + b"".join(items)

    return pack
