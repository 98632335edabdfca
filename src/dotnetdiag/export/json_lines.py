"""A table as lines of JSON: an object for each row."""

from __future__ import annotations

from typing import IO

from dotnetdiag.export.json_table import pieces_of_lines
from dotnetdiag.export.tables import only_table
from dotnetdiag.trace.method_names import Style


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a table."""
    for lines in pieces_of_lines(only_table(result, "jsonl", style)):
        file.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
