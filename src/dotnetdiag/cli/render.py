"""How results look: tables on a terminal, plain aligned text elsewhere, JSON where it is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import IO, Any


def json_text(value: Any) -> None:
    """One JSON document on stdout."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def stdout_bytes() -> IO[bytes]:
    """Standard output for bytes; to be flushed. With PYTHONUNBUFFERED it is a bare file, whose writes a signal may cut short."""
    import io

    stream = sys.stdout.buffer
    return open(stream.fileno(), "wb", closefd=False) if isinstance(stream, io.RawIOBase) else stream


def is_terminal() -> bool:
    """Whether stdout is a terminal that takes colours and boxes."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), last_fills: bool = True
) -> None:
    """A table. ``right`` names the columns that are aligned to the right; the last column is cut to the terminal's width."""
    if is_terminal():
        _rich(columns, rows, right)
        return
    widths = [
        max(len(columns[i]), *(len(row[i]) for row in rows), 0) if rows else len(columns[i])
        for i in range(len(columns))
    ]
    limit = None
    if sys.stdout.isatty() and last_fills:
        import shutil

        limit = shutil.get_terminal_size().columns
    for row in (columns, *rows):
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        print("  ".join(cells).rstrip()[:limit])


def _rich(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        last = index == len(columns) - 1
        width = None if last else max(len(name), *(len(row[index]) for row in rows), 0)
        made.add_column(
            name,
            justify="right" if name in right else "left",
            min_width=width,  # only the last column gives way
            no_wrap=True,
            overflow="ellipsis" if last else "fold",
        )
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    Console().print(made)


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


def size_text(size_bytes: float) -> str:
    """Decimal units, as dotnet-trace shows them: ``12.34 MB``."""
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size_bytes >= step:
            return f"{size_bytes / step:.2f} {unit}"
    return f"{size_bytes:.0f} B"
