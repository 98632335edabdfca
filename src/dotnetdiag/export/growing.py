"""Rows that come while a file is written: CSV, JSON lines, JSON and Parquet, piece by piece.

What stands in the file is whole after each piece: a process that is killed leaves all the rows that it had written. Parquet alone has its
directory at the end, and is no file without it.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import IO, Any

from dotnetdiag.export import csv_table, json_lines
from dotnetdiag.export.json_table import pieces_of_lines
from dotnetdiag.table import Table
from dotnetdiag.table.arrow import parquet_writer

FORMS = ("csv", "json", "jsonl", "parquet")


class Growing(ABC):
    """A file that takes tables of the same columns one after another. Nothing is written after :meth:`close`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    @abstractmethod
    def add(self, rows: Table) -> None:
        """Write these too, all at once."""

    def close(self) -> None:
        """The last rows have come. The file stays open: it is the caller's."""
        self._file.flush()

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()


class GrowingCsv(Growing):
    """The heading is there before the first row."""

    def __init__(self, file: IO[bytes], columns: tuple[str, ...]) -> None:
        super().__init__(file)
        self._write(_csv(Table({name: [] for name in columns}), heading=True))

    def add(self, rows: Table) -> None:
        self._write(_csv(rows, heading=False))


class GrowingLines(Growing):
    """JSON lines."""

    def add(self, rows: Table) -> None:
        buffer = io.BytesIO()
        json_lines.write(rows, buffer)
        self._write(buffer.getvalue())


class GrowingJson(Growing):
    """A list of objects between ``head`` and ``tail``, which is valid all the time in a file; where nobody can go back, only at its end."""

    def __init__(self, file: IO[bytes], head: bytes = b"[", tail: bytes = b"\n]\n") -> None:
        super().__init__(file)
        self._tail, self._goes_back, self._is_empty = tail, file.seekable(), True
        self._write(head + (tail if self._goes_back else b""))
        self._end = len(head)

    def add(self, rows: Table) -> None:
        lines = [line for piece in pieces_of_lines(rows) for line in piece]
        if not lines:
            return
        data = (b"\n" if self._is_empty else b",\n") + ",\n".join(lines).encode("utf-8", "backslashreplace")
        self._is_empty = False
        if self._goes_back:
            self._file.seek(self._end)
            self._end += len(data)
            data += self._tail
        self._write(data)

    def close(self) -> None:
        if not self._goes_back:
            self._write(self._tail)
        super().close()


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
