"""How results look: tables on a terminal, plain aligned text elsewhere, JSON where it is asked for."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_JSON_CONTROLS = {code: f"\\u{code:04x}" for code in range(127, 160)}  # JSON itself escapes the others


def clean(text: str) -> str:
    """``text`` as one line that does not drive a terminal: names, paths and values come from elsewhere."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode()


def echo(text: object = "", *, err: bool = False) -> None:
    """One line, cleaned, on stdout or stderr. Every verb writes with this, :func:`table` and :func:`json_text`, and nothing else."""
    print(clean(str(text)), file=sys.stderr if err else sys.stdout, flush=True)


def write_raw(text: str, *, err: bool = False) -> None:
    """A text of our own making as it is: with line ends, colours, movements of the cursor."""
    print(text, end="", file=sys.stderr if err else sys.stdout, flush=True)


def json_text(value: Any, *, indent: int | None = 2, err: bool = False) -> None:
    """One JSON document on stdout (or stderr); on one line without ``indent``."""
    import json

    file = sys.stderr if err else sys.stdout
    # what UTF-8 cannot say (a lone surrogate) becomes \uDC80 as it is written, which is JSON; other encodings would not make JSON of theirs
    is_utf8 = (file.encoding or "").lower().replace("-", "") == "utf8"
    print(
        json.dumps(value, indent=indent, ensure_ascii=not is_utf8, default=str).translate(_JSON_CONTROLS),
        file=file,
        flush=True,
    )


def clean_json(text: str) -> str:
    """Lines of JSON that do not drive a terminal, and say the same."""
    return text if text.isascii() else text.translate(_JSON_CONTROLS)


class _TerminalBytes(io.BufferedWriter):
    """Lines of text that are cleaned; each call has whole ones."""

    is_json = False

    def write(self, data: Any) -> int:
        text = bytes(data).decode("utf-8", "backslashreplace")
        super().write((clean_json(text) if self.is_json else "\n".join(map(clean, text.split("\n")))).encode())
        return len(data)


def stdout_bytes(*, is_json: bool = False) -> IO[bytes]:
    """Standard output for bytes; to be flushed. With PYTHONUNBUFFERED it is a bare file, whose writes a signal may cut short. A
    terminal gets them cleaned, and what is JSON stays JSON.
    """
    stream = sys.stdout.buffer
    if sys.stdout.isatty():
        cleaned = _TerminalBytes(io.FileIO(stream.fileno(), "wb", closefd=False))
        cleaned.is_json = is_json
        return cleaned
    return open(stream.fileno(), "wb", closefd=False) if isinstance(stream, io.RawIOBase) else stream


def is_terminal() -> bool:
    """Whether stdout is a terminal that takes colours and boxes."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


LEAST_WIDTH = 8
"""What is left of a last column that is cut, on the narrowest terminal: such lines are then longer than it."""


def shortened(text: str, width: int) -> str:
    """``text`` in ``width`` characters: both ends say something, and the last more."""
    head = (width - 1) // 3
    return text if len(text) <= width else f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def shortened_method(text: str, width: int) -> str:
    """A method's name in ``width`` characters: its parameters give way first, then its beginning."""
    if len(text) <= width:
        return text
    bare = text.partition("(")[0] or text
    if bare != text and len(bare) + 3 <= width:
        return f"{bare}(…)"
    return bare if len(bare) <= width else f"…{bare[len(bare) - (width - 1) :]}"


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    last_fills: bool = True,
    shorten: Callable[[str, int], str] = shortened,
) -> None:
    """A table of cleaned cells. ``right`` names the columns that are aligned to the right.

    Where a terminal is too narrow, the last column is shortened, as ``shorten`` has it; without ``last_fills``, those that are aligned
    to the left are folded. Nothing else gives way.
    """
    cleaned = [tuple(map(clean, row)) for row in rows]
    if is_terminal():
        _rich(columns, cleaned, right, last_fills, shorten)
        return
    widths = [max(map(len, cells)) for cells in zip(columns, *cleaned, strict=True)]
    if sys.stdout.isatty() and last_fills:
        room = max(_terminal_width() - sum(widths[:-1]) - 2 * (len(widths) - 1), LEAST_WIDTH)
        cleaned = [(*row[:-1], shorten(row[-1], room)) for row in cleaned]
        widths[-1] = min(widths[-1], room)
    for row in (columns, *cleaned):
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _rich(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[str],
    last_fills: bool,
    shorten: Callable[[str, int], str],
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    widths = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
    gives = [index == len(columns) - 1 if last_fills else name not in right for index, name in enumerate(columns)]
    rest = sum(LEAST_WIDTH if give else width for give, width in zip(gives, widths, strict=True)) + 3 * len(columns)
    room = max(_terminal_width(), rest)  # all that gives way has its least width then
    if last_fills:
        widths[-1] = min(widths[-1], room - rest + LEAST_WIDTH)
        rows = [(*row[:-1], shorten(row[-1], widths[-1])) for row in rows]
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name, most in zip(columns, widths, strict=True):
        if last_fills or name in right:
            justify: Any = "right" if name in right else "left"
            made.add_column(name, justify=justify, width=most, no_wrap=True, overflow="ellipsis")
        else:
            made.add_column(name, max_width=most, overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    Console(width=room).print(made)


def _terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def seconds_text(seconds: float) -> str:
    """``42s``, ``3m05s``, ``2h10m``, ``4d03h``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def timespan_text(seconds: float) -> str:
    """``dd:hh:mm:ss``, as dotnet-trace writes a duration; parts of a second where there are any."""
    whole = int(seconds)
    rest = f"{seconds - whole:.3f}"[1:].rstrip("0").rstrip(".")
    return f"{whole // 86400:02}:{whole // 3600 % 24:02}:{whole // 60 % 60:02}:{whole % 60:02}{rest}"


def size_text(size_bytes: float) -> str:
    """Decimal units, as dotnet-trace shows them: ``12.34 MB``."""
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size_bytes >= step:
            return f"{size_bytes / step:.2f} {unit}"
    return f"{size_bytes:.0f} B"
