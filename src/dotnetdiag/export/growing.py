"""Rows that come while a file is written: CSV, JSON lines, JSON and Parquet, piece by piece.

Rule 1: what stands in a file is whole after each write. A write that fails is taken back: the rows that are whole stay, and the error is raised.
Rule 2: a process that is killed within a write leaves what the system had taken of it, which is all that lies in one page of the file, or
nothing of that. So a write stays within a page where it can. What has to cross the border of two pages (a row of CSV or of JSON lines, a row
longer than a page, the end of a JSON list that goes to the next page) is written alone: one who is killed just between those two pages leaves
half of it. That is rare, and no order of writes excludes it. Nothing is promised for a machine that goes down.
Rule 3: Parquet has its directory at the end, and is no file without it.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any

from dotnetdiag.export import csv_table, json_lines
from dotnetdiag.table import Table, json_rows
from dotnetdiag.table.arrow import parquet_writer

FORMS = ("csv", "json", "jsonl", "parquet")
PAGE_BYTES = 4096
"""The smallest page of any system: borders of larger ones are borders of these too."""


class Growing(ABC):
    """A file that takes tables of the same columns one after another. Nothing is written after :meth:`close`.

    ``file`` has no buffer of its own, or what failed might be written when it is closed. It is at its begin, or nobody can go back in it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._goes_back = file.seekable()
        self._end = 0
        """Where the next rows go: behind those that are whole."""

    @abstractmethod
    def add(self, rows: Table) -> None:
        """Write these too. Raises OSError; the file is whole then, with the first of these rows or none."""

    def close(self) -> None:
        """The last rows have come. The file stays open: it is the caller's."""
        self._file.flush()

    def _write_lines(self, lines: Iterable[bytes]) -> None:
        """Lines that are whole one by one."""
        for piece in self._pieces(lines) if self._goes_back else (b"".join(lines),):
            self._write(piece)

    def _pieces(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """As many as lie in one page; one that does not, alone. :meth:`_write` comes after each."""
        some: list[bytes] = []
        room = PAGE_BYTES - self._end % PAGE_BYTES
        for line in lines:
            if some and len(line) > room:
                yield b"".join(some)
                some, room = [], PAGE_BYTES - self._end % PAGE_BYTES
            some.append(line)
            room -= len(line)
        if some:
            yield b"".join(some)

    def _write(self, data: bytes, tail: bytes = b"") -> None:
        """Data behind what there is, and what ends it, over what had ended it before."""
        try:
            if self._goes_back:
                self._file.seek(self._end)
            self._put(data + tail)
        except OSError:
            if self._goes_back:
                with suppress(OSError):
                    self._take_back()
            raise
        self._end += len(data)

    def _put(self, data: bytes) -> None:
        """All of it, in one call where the system takes it so. Raises OSError."""
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) or 0 :]
        self._file.flush()

    def _take_back(self) -> None:
        self._file.truncate(self._end)


class GrowingCsv(Growing):
    """The heading is there before the first row."""

    def __init__(self, file: IO[bytes], columns: tuple[str, ...]) -> None:
        super().__init__(file)
        self._write(_csv(Table({name: [] for name in columns}), heading=True))

    def add(self, rows: Table) -> None:
        self._write_lines(_csv_rows(_csv(rows, heading=False)))


class GrowingLines(Growing):
    """JSON lines."""

    def add(self, rows: Table) -> None:
        buffer = io.BytesIO()
        json_lines.write(rows, buffer)
        buffer.seek(0)
        self._write_lines(buffer)


class GrowingJson(Growing):
    """A list of objects between ``head`` and ``tail``, which is valid all the time in a file; where nobody can go back, only at its end.

    There are spaces before a row that lies in the next page as a whole.
    """

    def __init__(self, file: IO[bytes], head: bytes = b"[", tail: bytes = b"\n]\n") -> None:
        super().__init__(file)
        self._tail, self._separator = tail, b"\n"
        self._has_tail = False
        self._write(head, tail if self._goes_back else b"")
        self._has_tail = self._goes_back

    def add(self, rows: Table) -> None:
        lines = (line for some in json_rows.lines(rows, b"\n") for line in some.splitlines())
        if not self._goes_back:
            for line in lines:
                self._write(self._separator + line)
                self._separator = b",\n"
            return
        some = b""
        room = self._room()
        for line in lines:
            size = len(self._separator) + len(line)
            if size > room:
                if some:
                    self._write(some, self._tail)
                    some = b""
                if size <= PAGE_BYTES - len(self._tail):
                    self._turn_page()
                room = self._room()
            some += self._separator + line
            room -= size
            self._separator = b",\n"
        if some:
            self._write(some, self._tail)

    def close(self) -> None:
        if not self._goes_back:
            self._write(self._tail)
        super().close()

    def _room(self) -> int:
        """What this page takes before the tail."""
        return PAGE_BYTES - self._end % PAGE_BYTES - len(self._tail)

    def _turn_page(self) -> None:
        """Lead the tail to the next page. Spaces are there before it: that page is in the file, and the border is crossed at once."""
        spaces = b" " * (-self._end % PAGE_BYTES)
        if spaces:
            self._write(b"", self._tail + spaces)
            self._write(spaces, self._tail)

    def _take_back(self) -> None:
        """The tail had its place already: a full disk takes it."""
        if self._has_tail:
            self._file.seek(self._end)
            self._put(self._tail)
            self._file.truncate(self._end + len(self._tail))
        else:
            super()._take_back()


class GrowingParquet(Growing):
    """A row group for each piece, with the columns of the first. Raises MissingDependency without pyarrow."""

    def __init__(self, file: IO[bytes], example: Table) -> None:
        super().__init__(file)
        self._example = example.to_arrow()
        self._writer: Any = None

    def add(self, rows: Table) -> None:
        if len(rows):
            self._take(rows.to_arrow())

    def _take(self, rows: Any) -> None:
        if self._writer is None:
            self._writer = parquet_writer(rows.schema, self._file)
        self._writer.write_table(rows.cast(self._writer.schema))

    def close(self) -> None:
        if self._writer is None:
            self._take(self._example)
        self._writer.close()
        super().close()


def growing(form: str, file: IO[bytes], example: Table) -> Growing:
    """One of :data:`FORMS`, for tables with the columns of ``example``, whose rows are not written."""
    makers: Mapping[str, Callable[[], Growing]] = {
        "csv": lambda: GrowingCsv(file, example.columns),
        "json": lambda: GrowingJson(file),
        "jsonl": lambda: GrowingLines(file),
        "parquet": lambda: GrowingParquet(file, example),
    }
    return makers[form]()


def _csv(rows: Table, *, heading: bool) -> bytes:
    buffer = io.BytesIO()
    csv_table.write(rows, buffer, heading=heading)
    return buffer.getvalue()


def _csv_rows(data: bytes) -> Iterator[bytes]:
    """Line feeds within quotes end no row."""
    row = b""
    for line in io.BytesIO(data):
        row += line
        if row.count(b'"') % 2 == 0:
            yield row
            row = b""
