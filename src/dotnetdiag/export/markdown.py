"""Tables as Markdown, for issues and pull requests: numbers to the right, nothing in a cell that would end it, or be more than text."""

from __future__ import annotations

import re
from typing import IO

from dotnetdiag.export.tables import tables_of
from dotnetdiag.table.html import Tabular, heading
from dotnetdiag.table.texts import cell_texts, is_number
from dotnetdiag.trace.method_names import Style

_CELL = {
    ord("|"): "\\|",
    ord("\n"): " ",
    ord("\r"): " ",
    ord("<"): "&lt;",
    ord("&"): "&amp;",
    ord("\\"): "\\\\",
    ord("`"): "\\`",
    ord("*"): "\\*",
    ord("~"): "\\~",
    ord("["): "\\[",
    ord("]"): "\\]",
}
_CELL |= {code: f"\\\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in _CELL}
_UNDERLINE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
"""One within a word means nothing."""


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write tables, each under its title."""
    for number, table in enumerate(tables_of(result, "markdown", style)):
        _write(table, file, is_first=not number)


def _write(table: Tabular, file: IO[bytes], *, is_first: bool) -> None:
    def line(text: str) -> None:
        file.write((text + "\n").encode("utf-8", "backslashreplace"))

    if not is_first:
        line("")
    if table.title:
        line(f"### {_cell(table.title)}\n")
    line(f"| {' | '.join(_cell(heading(table, name)) for name in table.columns)} |")
    ruled = False
    for piece in table.pieces():
        if not ruled:
            line(f"|{'|'.join('--:' if is_number(piece[name]) else '---' for name in piece.columns)}|")
            ruled = True
        for row in zip(*(cell_texts(piece[name]) for name in piece.columns), strict=True):
            line(f"| {' | '.join(map(_cell, row))} |")
    said = [text for text in (*table.notes, str(table.losses)) if text]
    if said:
        line("\n" + "  \n".join(map(_cell, said)))


def _cell(text: str) -> str:
    text = text.translate(_CELL)
    return _UNDERLINE.sub(r"\\_", text) if "_" in text else text
