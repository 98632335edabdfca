"""Tables as a page of HTML that loads nothing."""

from __future__ import annotations

from typing import IO

from dotnetdiag.export.tables import tables_of
from dotnetdiag.table.html import lines, page
from dotnetdiag.trace.method_names import Style


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write tables, each under its title."""
    tables = tables_of(result, "html", style)
    head, foot = page(tables[0].title or "dotnetdiag")
    file.write(head.encode())
    for table in tables:
        for line in lines(table):
            file.write(line.encode())
    file.write(foot.encode())
