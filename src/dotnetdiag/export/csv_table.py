"""A table as CSV with a heading, for spreadsheets: UTF-8, quoted as RFC 4180 has it. What has no value is empty."""

from __future__ import annotations

import csv
import io
from typing import IO, Any

from dotnetdiag.export.tables import only_table
from dotnetdiag.export.texts import clean
from dotnetdiag.table.texts import cell_texts
from dotnetdiag.trace.method_names import Style


def write(result: object, file: IO[bytes], *, style: Style | None = None, heading: bool = True) -> None:
    """Write a table, or the methods of a profile or of a difference."""
    table = only_table(result, "csv", style)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        writer = row_writer(text)
        if heading:
            writer.writerow(map(clean, table.columns))
        for piece in table.pieces():
            writer.writerows(zip(*(map(clean, cell_texts(piece[name])) for name in piece.columns), strict=True))
        text.flush()
    finally:
        text.detach()


class _Rows:
    """Ends rows with a line feed. Given to ``csv`` as what ends them, a carriage return within a cell would not be quoted before Python 3.13."""

    def __init__(self, text: IO[str]) -> None:
        self._write = text.write

    def write(self, row: str) -> int:
        return self._write(row[:-2] + "\n")


def row_writer(text: IO[str]) -> Any:
    """A ``csv.writer`` of rows that any reader takes apart again."""
    return csv.writer(_Rows(text), lineterminator="\r\n")
