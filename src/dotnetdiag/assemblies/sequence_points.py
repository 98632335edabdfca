"""Lines of source from a portable PDB: which one an IL offset of a method is of.

Layout: the Portable PDB Format Specification v1.0 of dotnet/runtime, for the tables and blobs; ECMA-335 II.24 for what holds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.assemblies.startup_hook import _Broken, _Bytes, _streams

_DOCUMENT, _METHOD_DEBUG_INFORMATION = 0x30, 0x31
_METHOD_DEF_TOKEN = 0x06
MAX_NAME_BYTES = 1 << 12
"""Of the name of a document: parts may stand in it again and again."""
MAX_POINTS = 1 << 16
"""Sequence points of one method, which many methods may share; more than these are damage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A document as the compiler named it, and a line that begins with 1."""

    document: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencePoint:
    """From this IL offset on, up to the next one, code is of this line of the document (a number for :meth:`PortablePdb.document`)."""

    il_offset: int
    document: int
    line: int


class PortablePdb:
    """The bytes of a ``.pdb`` file. ``id`` is the GUID that its assembly has too. Raises ValueError for what is none (a Windows PDB)."""

    def __init__(self, data: bytes | memoryview) -> None:
        try:
            streams = _streams(_Bytes(memoryview(data).cast("B"), "file"))
            if not {b"#~", b"#Pdb", b"#Blob"} <= streams.keys():
                raise _Broken("a stream is missing")
            self._tables, self._blobs = streams[b"#~"], streams[b"#Blob"]
            self.id = UUID(bytes_le=bytes(streams[b"#Pdb"].take(0, 16)))
            self._lay_out()
        except _Broken as error:
            raise ValueError(f"it is no portable PDB ({error})") from error

    def line(self, token: int, il_offset: int) -> SourceLine | None:
        """The line of a method's (``0x06000001``) instruction: that of the last sequence point up to it which is not hidden."""
        found = None
        try:
            for point in self._points(token):
                if point.il_offset > il_offset:
                    break
                found = point
            return None if found is None else SourceLine(document=self._name(found.document), line=found.line)
        except _Broken as error:
            raise ValueError(f"it is damaged ({error})") from error

    def points(self, token: int) -> list[SequencePoint]:
        """The sequence points of a method that are not hidden, by ascending IL offset; none where the PDB has nothing of it."""
        try:
            return list(self._points(token))
        except _Broken as error:
            raise ValueError(f"it is damaged ({error})") from error

    def document(self, number: int) -> str:
        """The name of a document, as the compiler was given it."""
        try:
            return self._name(number)
        except _Broken as error:
            raise ValueError(f"it is damaged ({error})") from error

    def _lay_out(self) -> None:
        """The two tables come first: what a PDB says of the assembly's own tables is in another stream."""
        tables, valid = self._tables, self._tables.number(8, 8)
        position, counts = 24, dict[int, int]()
        for table in range(64):
            if valid >> table & 1:
                counts[table] = tables.number(position, 4)
                position += 4
        if any(table < _DOCUMENT for table in counts):
            raise _Broken("it has tables of an assembly")
        sizes = tables.number(6, 1)
        self._guid, self._blob = (4 if sizes & bit else 2 for bit in (2, 4))
        self._documents, self._methods = position, position + counts.get(_DOCUMENT, 0) * 2 * (self._guid + self._blob)
        self._document = 4 if counts.get(_DOCUMENT, 0) >= 1 << 16 else 2
        self._document_count = counts.get(_DOCUMENT, 0)
        self._count = counts.get(_METHOD_DEBUG_INFORMATION, 0)

    def _points(self, token: int) -> Iterator[SequencePoint]:
        row = token & 0xFFFFFF
        if token >> 24 != _METHOD_DEF_TOKEN or not 1 <= row <= self._count:
            return
        place = self._methods + (row - 1) * (self._document + self._blob)
        document = self._tables.number(place, self._document)
        blob = self._tables.number(place + self._document, self._blob)
        if not blob:
            return
        points = _Numbers(*self._blob_at(blob))
        points.unsigned()  # the signature of its locals
        document = document or points.unsigned()
        offset = line = count = 0
        is_first, is_first_shown = True, True
        while not points.is_over:
            delta = points.unsigned()
            if not delta and not is_first:
                document = points.unsigned()
                continue
            offset, is_first = offset + delta, False
            if (count := count + 1) > MAX_POINTS:
                raise _Broken(f"method 0x{token:08x} has more than {MAX_POINTS} sequence points")
            lines = points.unsigned()
            columns = points.signed() if lines else points.unsigned()
            if lines or columns:
                line += points.unsigned() if is_first_shown else points.signed()
                if is_first_shown:
                    points.unsigned()
                else:
                    points.signed()
                is_first_shown = False
                yield SequencePoint(il_offset=offset, document=document, line=line)

    def _name(self, document: int) -> str:
        """A separator, then the parts: each a blob of its own."""
        if not 1 <= document <= self._document_count:
            raise _Broken(f"there is no document {document}")
        place = self._documents + (document - 1) * 2 * (self._guid + self._blob)
        data, start, end = self._blob_at(self._tables.number(place, self._blob))
        separator = "" if not data.number(start, 1) else chr(data.number(start, 1))
        parts, numbers, size = list[str](), _Numbers(data, start + 1, end), 0
        while not numbers.is_over:
            blob, first, last = self._blob_at(numbers.unsigned())
            parts.append(bytes(blob.take(first, last - first)).decode("utf-8", "replace"))
            if (size := size + last - first) > MAX_NAME_BYTES:
                raise _Broken(f"the name of document {document} is longer than {MAX_NAME_BYTES} bytes")
        return separator.join(parts)

    def _blob_at(self, offset: int) -> tuple[_Bytes, int, int]:
        head = _Numbers(self._blobs, offset, len(self._blobs.data))
        size = head.unsigned()
        self._blobs.take(head.position, size)
        return self._blobs, head.position, head.position + size


class _Numbers:
    """Compressed integers (ECMA-335 II.23.2) one after the other."""

    def __init__(self, data: _Bytes, position: int, end: int) -> None:
        self._data, self.position, self._end = data, position, end
        self._bits = 0

    @property
    def is_over(self) -> bool:
        return self.position >= self._end

    def unsigned(self) -> int:
        first = self._data.number(self.position, 1)
        size, self._bits = (1, 7) if first < 0x80 else (2, 14) if first < 0xC0 else (4, 29)
        if self.position + size > self._end or first >= 0xE0:
            raise _Broken(f"no number at 0x{self.position:x} of a blob")
        number = int.from_bytes(self._data.take(self.position, size), "big") & (1 << self._bits) - 1
        self.position += size
        return number

    def signed(self) -> int:
        """The sign is the lowest bit."""
        number = self.unsigned()
        return number >> 1 if not number & 1 else (number >> 1) - (1 << (self._bits - 1))
