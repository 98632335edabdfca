"""Label lists of version 6: what is said once for many events (nettrace.md §6.8)."""

from __future__ import annotations

from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace.records import pack_string8, string8
from dotnetdiag.wire import Cursor, Packer

LAST = 0x80
ACTIVITY, RELATED = 1, 2
OVERRIDING = (7, 8, 9, 10)
"""Opcode, keywords, level, version."""
VALUES_LIMIT = 10_000
"""Most values of one list that are read; nobody writes more than a few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelList:
    """One list.

    ``opcode``, ``keywords``, ``level``, ``version`` override the metadata for the event; None = not stated.
    TraceEvent 3.1.23 knows none of these four and refuses files that have them.
    """

    activity: UUID | None = None
    related: UUID | None = None
    trace_id: bytes | None = None
    span_id: int | None = None
    values: tuple[tuple[str, str | int], ...] = ()
    opcode: int | None = None
    keywords: int | None = None
    level: int | None = None
    version: int | None = None


def parse_label_list(cursor: Cursor) -> LabelList:
    """One list, up to the label that says it is the last.

    FormatError when the block ends before, on an unknown kind, and beyond so many values that a list may have.
    """
    found: dict[str, object] = {}
    values: list[tuple[str, str | int]] = []
    while True:
        kind = cursor.u8("label kind")
        code = kind & ~LAST
        if code == 1:
            found["activity"] = UUID(bytes_le=cursor.take(16, "activity id"))
        elif code == 2:
            found["related"] = UUID(bytes_le=cursor.take(16, "related activity id"))
        elif code == 3:
            found["trace_id"] = cursor.take(16, "trace id")
        elif code == 4:
            found["span_id"] = cursor.u64("span id")
        elif code == 5:
            values.append((string8(cursor), string8(cursor)))
        elif code == 6:
            values.append((string8(cursor), cursor.varint(64, "label value")))
        elif code == 7:
            found["opcode"] = cursor.u8("opcode")
        elif code == 8:
            found["keywords"] = cursor.u64("keywords")
        elif code == 9:
            found["level"] = cursor.u8("level")
        elif code == 10:
            found["version"] = cursor.u8("version")
        else:
            raise cursor.fail(f"label of unknown kind {code}")
        if len(values) > VALUES_LIMIT:
            raise cursor.fail(f"a label list of more than {VALUES_LIMIT} values")
        if kind & LAST:
            return LabelList(values=tuple(values), **found)  # type: ignore[arg-type]


def pack_label_list(labels: LabelList) -> bytes:
    """The bytes of one list; it must say something (index 0 is the empty list)."""
    parts: list[Packer] = []
    if labels.activity is not None:
        parts.append(Packer().u8(1).raw(labels.activity.bytes_le))
    if labels.related is not None:
        parts.append(Packer().u8(2).raw(labels.related.bytes_le))
    if labels.trace_id is not None:
        parts.append(Packer().u8(3).raw(labels.trace_id))
    if labels.span_id is not None:
        parts.append(Packer().u8(4).u64(labels.span_id))
    for key, value in labels.values:
        part = Packer().u8(5 if isinstance(value, str) else 6)
        pack_string8(part, key)
        if isinstance(value, str):
            pack_string8(part, value)
        else:
            part.varint(value)
        parts.append(part)
    if labels.opcode is not None:
        parts.append(Packer().u8(7).u8(labels.opcode))
    if labels.keywords is not None:
        parts.append(Packer().u8(8).u64(labels.keywords))
    if labels.level is not None:
        parts.append(Packer().u8(9).u8(labels.level))
    if labels.version is not None:
        parts.append(Packer().u8(10).u8(labels.version))
    if not parts:
        raise ValueError("an empty label list has index 0 and is not written")
    parts[-1].buffer[0] |= LAST
    return b"".join(bytes(part) for part in parts)
