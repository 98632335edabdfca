"""A table as lines of JSON: an object for each row."""

from __future__ import annotations

from typing import IO

from dotnetdiag.export.tables import only_table
from dotnetdiag.table.json_rows import lines
from dotnetdiag.trace.method_names import Style


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a table."""
    for some in lines(only_table(result, "jsonl", style), b"\n"):
        file.write(some)
