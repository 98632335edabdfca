"""Texts that others should not read, replaced where they lie in the file.

A text becomes ``redacted`` and stars, of the same number of bytes: no length, count or offset of the file changes, and
every other byte of it stays as it was, in every format. The length of what was there can still be seen.

Redacted are texts of fields whose name speaks of a command line or an environment, in any event (ProcessInfo and the
runtime's description have the command line), key-value pairs of version 6 of such names, and the fields asked for. In
events that have such a field, damaged payloads and bytes that no field describes are blanked: they may hold it as well.
Payloads of event types that nothing describes stay as they are.

What was not understood cannot be redacted: what stands behind a damaged place or behind the end marker, blocks of
unknown kinds, events of unknown types. A file with any of these is refused, or all of it is blanked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import FormatError, NotUnderstood, UnknownName, UsageError, near
from dotnetdiag.events import Bytes, Column, EventSchema, ListOf, Struct, Text, decode
from dotnetdiag.events.layout import Kind
from dotnetdiag.events.without_rows import columns_without_rows
from dotnetdiag.nettrace import Block, BlockKind, Field
from dotnetdiag.nettrace.labels import LAST
from dotnetdiag.trace.payloads import Payloads
from dotnetdiag.trace.source import wanted_of
from dotnetdiag.trace.trace import Trace

SECRET_NAMES = re.compile(r"command[ _-]?line|cmd[ _-]?line|environment", re.IGNORECASE)
MARK = b"redacted"
BLANK = b"\xff"
"""Stands where something was not understood; no reader finds events or texts in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """The bytes of the redacted file; how many texts were replaced, by what they were the value of; and how many bytes
    were blanked, by what they were.
    """

    data: bytearray
    replaced: Mapping[str, int]
    blanked: Mapping[str, int]


def redact(trace: Trace, fields: Iterable[str] = (), *, force_partial: bool = False) -> Redacted:
    """A copy of the trace's bytes with texts replaced. ``fields``: ``Provider/Event.Field``, also ``Event.Field.Member``.

    Raises UnknownName for fields that the trace does not have, UsageError for what is no text, NotUnderstood for a file
    that is not understood as a whole; with ``force_partial`` what was not understood is blanked instead.
    """
    wanted: dict[int, set[str]] = {}
    for text in fields:
        for number, path in _find_field(trace, text):
            wanted.setdefault(number, set()).add(path)
    for number in trace.raw.source.counts():
        schema = trace.raw.types.name_of(number)
        for path in _text_paths(columns_without_rows(schema)):
            if SECRET_NAMES.search(path):
                wanted.setdefault(number, set()).add(path)
        if (
            _ends_in_bytes(schema)
            and number in trace.raw.metadata
            and _speaks_of_secrets(trace.raw.metadata[number].fields)
        ):
            wanted.setdefault(number, set())
    copy = _Copy(trace)
    gaps = [*_pairs(trace, copy), *_gaps(trace)]
    if gaps and not force_partial:
        what, first, _ = min(gaps, key=lambda gap: gap[1])
        problem = f"not understood, so it cannot be redacted: {what}" + (
            f", and {len(gaps) - 1} places more" if len(gaps) > 1 else ""
        )
        raise NotUnderstood(problem, offset=first, where=trace.name or "the trace")
    for number, payloads in trace.raw.source.payloads(wanted_of(wanted)):
        _redact_payloads(trace, number, wanted[number], payloads, copy)
    for what, start, size in gaps:
        copy.blank(what, start, size)
    return Redacted(data=copy.data, replaced=copy.replaced, blanked=copy.blanked)


class _Copy:
    """The bytes of the file, of which parts are overwritten, and what was."""

    def __init__(self, trace: Trace) -> None:
        self.data = bytearray(trace.raw.buffer)
        self.replaced: Counter[str] = Counter()
        self.blanked: Counter[str] = Counter()

    def replace(self, what: str, start: int, size: int, *, wide: bool) -> None:
        """Put the mark in the place of a text; ``wide``: in UTF-16."""
        if size:
            text = MARK.ljust(size, b"*")
            if wide:
                text = text.decode().encode("utf-16-le")
            self.data[start : start + size] = text[:size]
            self.replaced[what] += 1

    def blank(self, what: str, start: int, size: int) -> None:
        """Leave nothing of what is there."""
        if size:
            self.data[start : start + size] = BLANK * size
            self.blanked[what] += size


# fields -----------------------------------------------------------------------------------------------------------


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


def _ends_in_bytes(schema: EventSchema) -> bool:
    """Whether its last fields are not followed (``layout.MAX_DEPTH`` and its like)."""
    return bool(schema.fields) and schema.fields[-1].layout.kind is Kind.OPAQUE


def _speaks_of_secrets(fields: Iterable[Field]) -> bool:
    for field in fields:
        inner = field.type
        while inner.element is not None:
            inner = inner.element
        if SECRET_NAMES.search(field.name) or _speaks_of_secrets(inner.fields):
            return True
    return False


def _find_field(trace: Trace, text: str) -> list[tuple[int, str]]:
    """Metadata ids and the path in each; the longest front of the text that names an event counts."""
    dots = [at for at, letter in enumerate(text) if letter == "."]
    for dot in reversed(dots):
        event, path = text[:dot], text[dot + 1 :]
        if not trace.raw.types.has(event):
            continue
        found: list[tuple[int, str]] = []
        others: set[str] = set()
        for number in trace.raw.types.find(event):
            columns = columns_without_rows(trace.raw.schema(number))
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
    trace.raw.types.find(event)
    raise UsageError(f"{text}: write Provider/Event.Field")


def _redact_payloads(trace: Trace, number: int, paths: Iterable[str], payloads: Payloads, copy: _Copy) -> None:
    schema = trace.raw.schema(number)
    event = f"{schema.provider}/{schema.name}"
    offsets, lengths = payloads.offsets, payloads.lengths.astype(np.int64)
    table = decode(schema, trace.raw.buffer, offsets, lengths, lazy_text=True, infer_layout=False)
    for path in paths:
        for column in _columns_of(path, table.flat):
            for start, size, wide in _spans_of(column):
                copy.replace(f"{event}.{path}", start, size, wide=wide)
    bare = list(table.columns.values())[-1] if table.columns and _ends_in_bytes(schema) else None
    for what, part in (("fields that are not followed", bare), ("bytes that no field describes", table.remainder)):
        if isinstance(part, Bytes):  # they reach to the end of the payload
            sizes = np.diff(part.offsets)
            rows = np.flatnonzero(sizes)
            for end, size in zip((offsets + lengths)[rows].tolist(), sizes[rows].tolist(), strict=True):
                copy.blank(f"{event}: {what}", end - size, size)


def _columns_of(path: str, columns: Mapping[str, Column]) -> Iterator[Column]:
    """All that a path may mean: a name may have dots in it, so that several fields have one."""
    for name, column in columns.items():
        if path == name:
            yield column
        elif path.startswith(f"{name}."):
            yield from _columns_of(path[len(name) + 1 :], _members(column))


def _spans_of(column: Column) -> Iterator[tuple[int, int, bool]]:
    """(start, size, is UTF-16) of each text."""
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
            yield start, size, spans.encoding == "utf16"


# key-value pairs of version 6 -------------------------------------------------------------------------------------

Gap = tuple[str, int, int]
"""What was not understood, where it begins, and its bytes."""


def _pairs(trace: Trace, copy: _Copy) -> Iterator[Gap]:
    """Redact pairs where they stand, whether a reader would keep them or not. Gives what was not understood."""
    if not trace.format.startswith("nettrace 6"):
        return
    walks = {BlockKind.TRACE: _walk_trace, BlockKind.THREAD: _walk_threads, BlockKind.LABEL_LIST: _walk_labels}
    for block in trace.raw.blocks:
        if block.kind not in walks:
            continue
        cursor = _Cursor(trace.raw.buffer.data, block.start, block.start + block.present)
        try:
            yield from walks[block.kind](cursor, block, copy)
        except FormatError as error:
            yield error.problem, cursor.position, cursor.left
            continue
        if cursor.left:
            yield f"bytes behind the contents of a {block.name}", cursor.position, cursor.left


def _walk_trace(cursor: _Cursor, block: Block, copy: _Copy) -> Iterator[Gap]:
    cursor.take(16 + 8 + 8 + 4)
    for _ in range(cursor.number(4)):
        _pair(cursor, block, copy)
    yield from ()


def _walk_threads(cursor: _Cursor, block: Block, copy: _Copy) -> Iterator[Gap]:
    while cursor.left:
        row = cursor.child(cursor.number(2))
        try:
            row.varuint()
            while row.left:
                kind = row.number(1)
                if kind == 1:
                    _string(row)
                elif kind in (2, 3):
                    row.varuint()
                elif kind == 4:
                    _pair(row, block, copy)
                else:
                    raise FormatError(f"an item of unknown kind {kind}")
        except FormatError as error:
            yield error.problem, row.position, row.left


_LABEL_SIZES = {1: 16, 2: 16, 3: 16, 4: 8, 7: 1, 8: 8, 9: 1, 10: 1}


def _walk_labels(cursor: _Cursor, block: Block, copy: _Copy) -> Iterator[Gap]:
    cursor.take(4)
    for _ in range(cursor.number(4)):
        kind = 0
        while not kind & LAST:
            kind = cursor.number(1)
            code = kind & ~LAST
            if code == 5:
                _pair(cursor, block, copy)
            elif code == 6:
                _string(cursor)
                cursor.varuint()
            elif code in _LABEL_SIZES:
                cursor.take(_LABEL_SIZES[code])
            else:
                raise FormatError(f"label of unknown kind {code}")
    yield from ()


class _Cursor:
    """A position in the file, up to the end of a block or row. What reaches beyond it is a FormatError."""

    def __init__(self, data: memoryview, position: int, end: int) -> None:
        self.data, self.position, self.end = data, position, end

    @property
    def left(self) -> int:
        return self.end - self.position

    def take(self, size: int) -> memoryview:
        if size > self.left:
            raise FormatError(f"{size} bytes needed, {self.left} left")
        self.position += size
        return self.data[self.position - size : self.position]

    def child(self, size: int) -> _Cursor:
        self.take(size)
        return _Cursor(self.data, self.position - size, self.position)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def varuint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise FormatError("a number of more than ten bytes")


def _string(cursor: _Cursor) -> memoryview:
    return cursor.take(cursor.varuint())


def _pair(cursor: _Cursor, block: Block, copy: _Copy) -> None:
    key, value = str(_string(cursor), "utf-8", "replace"), _string(cursor)
    if SECRET_NAMES.search(key):
        copy.replace(f"{block.name} {key}", cursor.position - len(value), len(value), wide=False)


# what was not understood ------------------------------------------------------------------------------------------


def _gaps(trace: Trace) -> Iterator[Gap]:
    size = len(trace.raw.buffer)
    if trace.damage is not None:
        start = trace.raw.damage_offset or 0
        if start < size:
            yield f"what stands behind the first damage ({trace.damage})", start, size - start
    for block in trace.raw.blocks:
        if block.kind is BlockKind.UNKNOWN:
            yield f"a block of unknown kind {block.name!r}", block.start, block.present
    unknown = [number for number in trace.raw.source.counts() if number not in trace.raw.metadata]
    for _, payloads in trace.raw.source.payloads(wanted_of(unknown)):
        for start, length in zip(payloads.offsets.tolist(), payloads.lengths.tolist(), strict=True):
            if length:
                yield "an event of an unknown type", start, length
