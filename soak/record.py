"""The tables of ``RESULTS.md``: a row is added to the end of its own."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
_TITLE = "# Results of soaking\n"


def record(about: str, columns: tuple[str, ...], row: list[str]) -> None:
    """Append a row to the table with these columns, which is begun with the paragraph ``about`` when it is not there."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else _TITLE
    head = _line(columns)
    if head not in text:
        text = f"{text.rstrip()}\n\n{about.strip()}\n\n{head}{'|' + '---|' * len(columns)}\n"
    lines = text.splitlines(keepends=True)
    at = lines.index(head)
    while at < len(lines) and lines[at].startswith("|"):
        at += 1
    RESULTS.write_text("".join([*lines[:at], _line(row), *lines[at:]]), encoding="utf-8")


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"
