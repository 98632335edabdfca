"""Tables as one JSON document: a list of objects, or with several tables an object of such lists by their titles
(``events``, ``events_2``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO

from dotnetdiag.export.tables import fresh_name, tables_of
from dotnetdiag.table.html import Tabular
from dotnetdiag.table.texts import escaped, value_texts
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
    for lines in pieces_of_lines(table):
        file.write(before + ",\n".join(lines).encode("utf-8", "backslashreplace"))
        before = b",\n"
    file.write(b"[]" if before == b"[\n" else b"\n]")


def pieces_of_lines(table: Tabular) -> Iterator[list[str]]:
    """An object for each row on a line, some rows at a time."""
    for piece in table.pieces():
        if len(piece):
            template = "{" + ", ".join(f"{escaped(name)}: %s" for name in piece.columns) + "}"
            columns = (value_texts(piece[name]) for name in piece.columns)
            yield list(map(template.__mod__, zip(*columns, strict=True)))
