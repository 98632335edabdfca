"""A table as CSV with a heading, for spreadsheets: UTF-8, quoted as RFC 4180 has it. What has no value is empty."""

from __future__ import annotations

import csv
import io
from typing import IO

from dotnetdiag.export.tables import only_table
from dotnetdiag.export.texts import clean
from dotnetdiag.table.texts import cell_texts
from dotnetdiag.trace.method_names import Style


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a table, or the methods of a profile or of a difference."""
    table = only_table(result, "csv", style)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(clean, table.columns))
        for piece in table.pieces():
            writer.writerows(zip(*(map(clean, cell_texts(piece[name])) for name in piece.columns), strict=True))
        text.flush()
    finally:
        text.detach()
