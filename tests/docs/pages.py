"""What a page of the documentation lets its reader type, and what it says comes then.

In a ``console`` block a line that begins with ``$`` is a command, and what follows is its output. Of the output, numbers and the width
of blanks and rules may differ; ``…`` stands for any text of a line, and alone for any lines. Rows of a table, lines that begin with a number, may
come in another order: which method took most differs from run to run. A command that ends with ``&`` runs until the page ends.
``{ .console runtime=10 }`` is a block that needs .NET 10; the blocks of a page that need the same runtime are walked in one go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PYPI = "3.1"
"""The runtime of blocks that ask for none: that of ``pip install 'dotnetdiag[demo]'``."""

_BLOCK = re.compile(r"^( *)```+ *(console|\{ *\.console\b[^}]*\})\n(.*?)^\1```+ *$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|[-+]?\d[\d,.%]*")

_RULE = re.compile(r"[─═-]{3,}")
"""Drawn as wide as a table is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of a page."""

    line: int
    """The command's, counted from 1."""
    end: int
    """The last line of the output; without output the last of the command."""
    runtime: str
    command: str
    output: str

    @property
    def in_background(self) -> bool:
        return self.command.endswith("&")

    def matches(self, output: str) -> bool:
        """Whether ``output`` is what the page says."""
        page, came = normal(self.output), normal(output)
        pattern = _pattern(page)
        return any(
            re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) for lines in (came, _as_on(page, came))
        )


def normal(text: str) -> list[str]:
    """Its lines without what may differ."""
    return [_NUMBER.sub("0", _RULE.sub("─", " ".join(line.split()))) for line in text.strip().splitlines()]


def _pattern(page: list[str]) -> str:
    return "".join(r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in page)


def _as_on(page: list[str], came: list[str]) -> list[str]:
    """Each table's rows in the page's order, those that the page doesn't have at the table's end."""
    place = {line: number for number, line in reversed(list(enumerate(page)))}
    lines: list[str] = []
    for are_rows, group in groupby(came, lambda line: line.startswith("0")):
        rows = list(group)
        lines += sorted(rows, key=lambda row: place.get(row, len(page))) if are_rows else rows
    return lines


def pages() -> list[Path]:
    """Those with something to type."""
    return sorted(page for page in DOCS.rglob("*.md") if _BLOCK.search(page.read_text("utf-8")))


def steps(page: Path) -> list[Step]:
    """In the order in which they are typed."""
    text = page.read_text("utf-8")
    found = []
    for block in _BLOCK.finditer(text):
        runtime = re.search(r"runtime=(\S+?)[ }]", block[2])
        start = text.count("\n", 0, block.start(3)) + 1
        lines = [line.removeprefix(block[1]) for line in block[3].splitlines()]
        at = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        assert at[:1] == [0], f"{page}:{start}: a console block begins with a command"
        for first, end in zip(at, [*at[1:], len(lines)], strict=True):
            last = first
            while lines[last].endswith("\\"):
                last += 1
            found.append(
                Step(
                    line=start + first,
                    end=start + end - 1,
                    runtime=runtime[1] if runtime else PYPI,
                    command="\n".join(lines[first : last + 1]).removeprefix("$ "),
                    output="\n".join(lines[last + 1 : end]).strip("\n"),
                )
            )
    return found
