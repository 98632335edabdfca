"""Texts that others should not read, replaced where they lie in the file.

A text becomes ``redacted`` and stars, of the same number of bytes: no length, count or offset of the file changes, and
every other byte of it stays as it was, in every format, whole or cut. The length of what was there can still be seen.

Redacted are texts of fields whose name speaks of a command line or an environment, in any event (ProcessInfo and the
runtime's description have the command line), key-value pairs of version 6 of such names, and the fields asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.events import Column, EventSchema, ListOf, Struct, Text, decode
from dotnetdiag.nettrace import BlockKind
from dotnetdiag.trace.event_types import near
from dotnetdiag.trace.source import wanted_of
from dotnetdiag.trace.trace import Trace

SECRET_NAMES = re.compile(r"command[ _-]?line|cmd[ _-]?line|environment", re.IGNORECASE)
MARK = "redacted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """The bytes of the redacted file, and how many texts were replaced by what they were the value of."""

    data: bytearray
    replaced: Mapping[str, int]


def redact(trace: Trace, fields: Iterable[str] = ()) -> Redacted:
    """A copy of the trace's bytes with texts replaced. ``fields``: ``Provider/Event.Field``, also ``Event.Field.Member``.

    Raises UnknownName for fields that the trace does not have, UsageError for what is no text.
    """
    wanted: dict[int, set[str]] = {}
    for text in fields:
        for number, path in _find_field(trace, text):
            wanted.setdefault(number, set()).add(path)
    for number in trace.source.counts():
        for path in _text_paths(_empty(trace.schema(number))):
            if SECRET_NAMES.search(path):
                wanted.setdefault(number, set()).add(path)
    data = bytearray(trace.buffer)
    replaced: dict[str, int] = {}
    for number, paths in wanted.items():
        schema = trace.schema(number)
        for path, spans in _spans(trace, number, schema, paths):
            done = sum(_overwrite(data, start, size, encoding) for start, size, encoding in spans)
            name = f"{schema.provider}/{schema.name}.{path}"
            replaced[name] = replaced.get(name, 0) + done
    for name, count in _pairs(trace, data):
        replaced[name] = replaced.get(name, 0) + count
    return Redacted(data=data, replaced={name: count for name, count in replaced.items() if count})


def _overwrite(data: bytearray, start: int, size: int, encoding: str) -> bool:
    if not size:
        return False
    if encoding == "utf16":
        data[start : start + size] = (MARK + "*" * (size // 2))[: size // 2].encode("utf-16-le")
    else:
        data[start : start + size] = (MARK + "*" * size)[:size].encode()
    return True


# fields -----------------------------------------------------------------------------------------------------------


def _empty(schema: EventSchema) -> Mapping[str, Column]:
    nothing = np.zeros(0, np.int64)
    return decode(schema, np.zeros(0, np.uint8), nothing, nothing, infer_layout=False, lazy_text=True).flat


def _members(column: Column) -> Mapping[str, Column]:
    if isinstance(column, ListOf):
        return _members(column.child)
    return column.fields if isinstance(column, Struct) else {}


def _text_paths(columns: Mapping[str, Column], front: str = "") -> Iterator[str]:
    for name, column in columns.items():
        path = front + name
        if _is_text(column):
            yield path
        yield from _text_paths(_members(column), f"{path}.")


def _is_text(column: Column) -> bool:
    return isinstance(column, Text) or (isinstance(column, ListOf) and _is_text(column.child))


def _find_field(trace: Trace, text: str) -> list[tuple[int, str]]:
    """Metadata ids and the path in each; the longest front of the text that names an event counts."""
    dots = [at for at, letter in enumerate(text) if letter == "."]
    for dot in reversed(dots):
        event, path = text[:dot], text[dot + 1 :]
        if not trace.types.has(event):
            continue
        found: list[tuple[int, str]] = []
        others: set[str] = set()
        for number in trace.types.find(event):
            columns = _empty(trace.schema(number))
            known = {known.lower(): known for known in _text_paths(columns)}
            others.update(known.values())
            if path.lower() in known:
                found.append((number, known[path.lower()]))
            elif any(path.lower() == name.lower() for name in columns):
                raise UsageError(f"{text} is no text: only texts can be redacted")
        if found:
            return found
        raise UnknownName("text field", path, near(path, others), where=f"in {event}")
    event = text.rpartition(".")[0] or text
    trace.types.find(event)
    raise UsageError(f"{text}: write Provider/Event.Field")


Span = tuple[int, int, str]


def _spans(
    trace: Trace, number: int, schema: EventSchema, paths: Iterable[str]
) -> Iterator[tuple[str, Iterator[Span]]]:
    for headers in trace.source.windows(wanted_of([number])):
        table = decode(
            schema, trace.buffer, headers.payload_offset, headers.payload_length, lazy_text=True, infer_layout=False
        )
        for path in paths:
            column: Column | None = None
            columns: Mapping[str, Column] = table.flat
            for part in _parts(path, columns):
                column = columns.get(part)
                columns = {} if column is None else _members(column)
            if column is not None:
                yield path, _spans_of(column)


def _parts(path: str, columns: Mapping[str, Column]) -> Iterator[str]:
    """The names along a path; a name may have dots in it."""
    while path:
        name = next((name for name in columns if path == name or path.startswith(f"{name}.")), path)
        yield name
        path = path[len(name) + 1 :]
        columns = _members(columns[name]) if name in columns else {}


def _spans_of(column: Column) -> Iterator[Span]:
    if isinstance(column, ListOf):
        yield from _spans_of(column.child)
    elif isinstance(column, Text):
        spans = column.spans
        if spans is None:
            if len(column.data):
                raise UsageError("the places of these texts are not known")
            return
        valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
        starts: npt.NDArray[np.int64] = spans.starts[valid]
        for start, size in zip(starts.tolist(), spans.lengths[valid].tolist(), strict=True):
            yield start, size, spans.encoding


# key-value pairs of version 6 -------------------------------------------------------------------------------------


def _pairs(trace: Trace, data: bytearray) -> Iterator[tuple[str, int]]:
    if not trace.format.startswith("nettrace 6"):
        return
    pairs = {} if trace.info is None else dict.fromkeys(trace.info.key_values)
    for thread in trace.source.scan.threads.values():
        pairs.update(dict.fromkeys(thread.key_values))
    for labels in trace.labels:
        pairs.update(dict.fromkeys((key, value) for key, value in labels.values if isinstance(value, str)))
    kinds = (BlockKind.TRACE, BlockKind.THREAD, BlockKind.LABEL_LIST)
    blocks = [block for block in trace.blocks if block.kind in kinds]
    for key, value in pairs:
        if not SECRET_NAMES.search(key) or not value:
            continue
        packed = _string8(key) + _string8(value)
        size = len(value.encode())
        for block in blocks:
            at = data.find(packed, block.start, block.start + block.present)
            while at >= 0:
                _overwrite(data, at + len(packed) - size, size, "utf8")
                yield f"{block.name} {key}", 1
                at = data.find(packed, at + len(packed), block.start + block.present)


def _string8(text: str) -> bytes:
    raw = text.encode()
    size, head = len(raw), bytearray()
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + raw
