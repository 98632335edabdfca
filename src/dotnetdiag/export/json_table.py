"""Tables as one JSON document: a list of objects, or with several tables an object of such lists by their titles
(``events``, ``events_2``)."""

from __future__ import annotations

import json
from typing import IO

from dotnetdiag.export.tables import fresh_name, tables_of
from dotnetdiag.table.html import Tabular
from dotnetdiag.table.json_rows import lines
from dotnetdiag.trace.method_names import Style


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write tables."""
    tables = tables_of(result, "json", style)
    if len(tables) == 1:
        _write(tables[0], file)
        file.write(b"\n")
        return
    used: set[str] = set()
    for number, table in enumerate(tables):
        file.write(b",\n" if number else b"{\n")
        file.write(f"{json.dumps(fresh_name(table.title or str(number), used))}: ".encode())
        _write(table, file)
    file.write(b"\n}\n")


def _write(table: Tabular, file: IO[bytes]) -> None:
    before = b"[\n"
    for some in lines(table, b",\n"):
        file.write(before + some[:-2])
        before = b",\n"
    file.write(b"[]" if before == b"[\n" else b"\n]")
