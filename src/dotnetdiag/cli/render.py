"""How results look: tables on a terminal, plain aligned text elsewhere, JSON where it is asked for."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, TypeGuard

from dotnetdiag._patterns import pattern
from dotnetdiag.errors import OutputError
from dotnetdiag.tui.plain import clean
from dotnetdiag.tui.widths import LEAST_WIDTH, cells, padded, shortened

if TYPE_CHECKING:
    from dotnetdiag.table import Table

_JSON_CONTROLS = pattern("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""JSON itself escapes the others. Twenty times as fast as ``str.translate``, which a monitor of many processes feels."""


@contextmanager
def _to_stdout() -> Iterator[None]:
    """What the system says of a stdout that takes nothing names it; who reads and has gone is nobody's error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError("stdout", error.strerror or str(error)) from error


def echo(text: object = "", *, err: bool = False) -> None:
    """One line, cleaned, on stdout or stderr. Every verb writes with this, :func:`table` and :func:`json_text`, and nothing else."""
    write_raw(f"{clean(str(text))}\n", err=err)


def counted(count: int, noun: str, several: str = "") -> str:
    """``1 thread``, ``2 threads``; ``1 assembly``, ``2 assemblies`` with what ``several`` are called."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def say_more(count: int) -> None:
    """Below a table: how many rows it would have beside those that are shown, if any."""
    if count > 0:
        echo(f"{count:,} more")


def write_raw(text: str, *, err: bool = False) -> None:
    """A text of our own making as it is: with line ends, colours, movements of the cursor."""
    with nullcontext() if err else _to_stdout():
        print(text, end="", file=sys.stderr if err else sys.stdout, flush=True)


def json_text(value: Any, *, indent: int | None = 2, err: bool = False) -> None:
    """One JSON document on stdout (or stderr); on one line without ``indent``. It may be a table, or have some as values, which are lists of
    objects then.
    """
    _write_json(_Former(indent=indent, err=err).pieces(value), err=err)


def json_object(members: Iterable[tuple[str, Any]]) -> None:
    """One JSON object on stdout, of members as :func:`json_text` takes them. None is held when the next is asked for."""
    _write_json(_Former(indent=2, err=False).members(members))


def _write_json(pieces: Iterable[str], *, err: bool = False) -> None:
    last = ""
    for piece in pieces:
        if last:
            write_raw(last, err=err)
        last = piece
    write_raw(f"{last}\n", err=err)  # of one line in one piece, for who follows


def json_pieces(value: Any) -> Iterator[str]:
    """The same document for a file, a part at a time."""
    yield from _Former(indent=2, err=False, ascii_only=False).pieces(value)
    yield "\n"


def json_list(values: Sequence[Any]) -> None:
    """One JSON list on stdout, of documents as :func:`json_text` takes them."""
    former = _Former(indent=2, err=False)
    before = "[\n"
    for value in values:
        write_raw(before)
        before = ",\n"
        for piece in former.pieces(value):
            write_raw(piece)
    write_raw("\n]\n")


class _Former:
    """Makes JSON for a standard stream."""

    def __init__(self, *, indent: int | None, err: bool, ascii_only: bool | None = None) -> None:
        file = sys.stderr if err else sys.stdout
        # what UTF-8 cannot say (a lone surrogate) becomes \uDC80 as it is written, which is JSON; other encodings would not make JSON of theirs
        is_other = (file.encoding or "").lower().replace("-", "") != "utf8"
        self._ascii_only = is_other if ascii_only is None else ascii_only
        self._form: dict[str, Any] = {"indent": indent, "ensure_ascii": self._ascii_only, "default": str}

    def text_of(self, part: Any) -> str:
        """Of what has no tables."""
        import json

        try:
            return clean_json(json.dumps(part, allow_nan=False, **self._form))
        except ValueError:  # JSON has no infinities
            return clean_json(json.dumps(_finite(part), **self._form))

    def pieces(self, document: Any, margin: int = 0) -> Iterator[str]:
        """A document, the rows of tables some at a time: those of 20,000 collections at once were 300 MB. Lines but the first begin with
        ``margin`` blanks.
        """
        if _is_table(document):
            yield from self._rows(document, margin)
        elif isinstance(document, dict) and any(map(_is_table, document.values())):
            yield from self.members(document.items(), margin)
        else:
            yield self.text_of(document).replace("\n", "\n" + " " * margin)

    def members(self, members: Iterable[tuple[str, Any]], margin: int = 0) -> Iterator[str]:
        """An object of some members."""
        line, before = "\n" + " " * margin, "{"
        for name, value in members:
            yield f"{before}{line}  {self.text_of(name)}: "
            before = ","
            yield from self.pieces(value, margin + 2)
            del value  # while the next is made
        yield f"{line}}}"

    def _rows(self, table: Table, margin: int) -> Iterator[str]:
        from dotnetdiag.table.json_rows import answer

        return answer(table, self.text_of, ascii_only=self._ascii_only, margin=margin)


def _is_table(value: object) -> TypeGuard[Table]:
    """Without loading what tables are of."""
    return hasattr(type(value), "to_pylist") and hasattr(type(value), "pieces")


def _finite(value: Any) -> Any:
    """The same, None where a number is none or infinite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def clean_json(text: str) -> str:
    """Lines of JSON that do not drive a terminal, and say the same."""
    return _JSON_CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)


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


def is_screen() -> bool:
    """Whether stdout is a terminal where what stands there can be drawn anew."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def is_terminal() -> bool:
    """Whether stdout is a terminal that takes colours and boxes. An empty NO_COLOR means nothing (no-color.org)."""
    return is_screen() and not os.environ.get("NO_COLOR")


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    *,
    right: Sequence[str] = (),
    shorten: Callable[[str, int], str] = shortened,
    drop: Sequence[str] = (),
    room: int = LEAST_WIDTH,
    squeeze: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """A table of cleaned cells; what is not known is a dash. ``right`` names the columns that are aligned to the right.

    Where a terminal is too narrow for ``room`` cells of the last column (all of it, if it is aligned to the right), columns of ``squeeze`` are
    shortened, down to so many cells, and columns of ``drop`` left out, one after the other, and named below. Then the last column is shortened, as
    ``shorten`` has it. Nothing else gives way.
    """
    cleaned, everything = [["-" if cell is None else clean(cell) for cell in row] for row in rows], columns
    if drop and sys.stdout.isatty():
        columns, cleaned = _narrowed(columns, cleaned, right, drop, room, squeeze)
    _write(columns, cleaned, right, shorten, room, squeeze)
    if len(columns) < len(everything):
        from textwrap import wrap

        left_out = ", ".join(name for name in everything if name not in columns)
        for line in wrap(f"Left out, for the terminal is narrow: {left_out}.", max(_terminal_width(), 2 * LEAST_WIDTH)):
            echo(line)


def _write(
    columns: Sequence[str],
    cleaned: list[list[str]],
    right: Sequence[str],
    shorten: Callable[[str, int], str],
    room: int,
    squeeze: Mapping[str, int],
) -> None:
    widths = _widths(columns, cleaned)
    if is_terminal() or sys.stdout.isatty():
        width = _terminal_width() - _frame(widths)
        for at, name in enumerate(columns[:-1]):
            excess = sum(widths[:-1]) + min(widths[-1], room) - width
            if name in squeeze and excess > 0:
                widths[at] = max(widths[at] - excess, min(widths[at], squeeze[name]))
                for row in cleaned:
                    row[at] = shortened(row[at], widths[at])
        widths[-1] = min(widths[-1], max(width - sum(widths[:-1]), LEAST_WIDTH))
        for row in cleaned:
            row[-1] = shorten(row[-1], widths[-1])
    if is_terminal():
        _rich(columns, cleaned, right, widths)
        return
    lines = []
    for row in ([*columns], *cleaned):
        line = [
            padded(cell, width, right=name in right) for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        lines.append("  ".join(line).rstrip())
    write_raw("".join(f"{line}\n" for line in lines))


def _narrowed(
    columns: Sequence[str],
    rows: list[list[str]],
    right: Sequence[str],
    drop: Sequence[str],
    room: int,
    squeeze: Mapping[str, int],
) -> tuple[Sequence[str], list[list[str]]]:
    """The columns that a terminal has room for, and their cells."""
    widest = zip(columns, _widths(columns, rows), strict=True)
    of = {name: min(width, squeeze.get(name, width)) for name, width in widest}
    for name in (one for one in drop if one in of):
        widths = list(of.values())
        if [*of][-1] not in right:
            widths[-1] = min(widths[-1], room)
        if _frame(widths) + sum(widths) <= _terminal_width():
            break
        del of[name]
    places = [at for at, name in enumerate(columns) if name in of]
    return [columns[at] for at in places], [[row[at] for at in places] for row in rows]


def fits(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether nothing has to give way in a table; always so where it is no terminal."""
    widths = _widths(columns, [list(map(clean, row)) for row in rows])
    return not sys.stdout.isatty() or _frame(widths) + sum(widths) <= _terminal_width()


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cells, column)) for column in zip(columns, *rows, strict=True)]


def _frame(widths: Sequence[int]) -> int:
    """What stands beside the cells: three characters for each in a box, else two between them."""
    return 3 * len(widths) if is_terminal() else 2 * (len(widths) - 1)


def _rich(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str], widths: Sequence[int]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name, width in zip(columns, widths, strict=True):
        justify: Any = "right" if name in right else "left"
        made.add_column(name, justify=justify, width=width, no_wrap=True, overflow="ellipsis")
    for row in rows:
        made.add_row(*map(Text, row))
    with _to_stdout():
        Console(width=max(_terminal_width(), _frame(widths) + sum(widths))).print(made)


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
