"""Rows of reports as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dotnetdiag.cli.render import echo, say_more, table
from dotnetdiag.tui.widths import cells, cut, shortened_method

if TYPE_CHECKING:
    from dotnetdiag.table import Table

_HEADS = {"pid": "process", "tid": "waited", "owner_tid": "for", "max_ms": "longest ms"}


_SQUEEZED_CELLS, _LAST_CELLS = 20, 30
"""On a narrow terminal: of texts before the last column, and of the last."""
_METHODS = ("method", "caught_by")
_NAMES = {"tid": "thread", "owner_tid": "owner"}


def figures(
    rows: Table,
    names: Sequence[str],
    number: int,
    *,
    several: bool = False,
    of: Sequence[str] = ("total_ms", "max_ms"),
    called: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """The first rows of a table: how many, the figures ``of`` them (ms; bytes as MB), and what they are of, by the columns that the
    table has of ``names``, ``called`` as told where they are. A
    method is shortened where the line is too long. ``several``: of several processes.
    """
    if not number or not len(rows):
        return
    names = [*(("pid",) if several else ()), *(name for name in names if name in rows.columns)]
    shown = [
        (f"{row['count']:,}", *(_figure(one, row[one]) for one in of), *(_text(row, name) for name in names))
        for row in rows[:number].to_pylist()
    ]
    heads = ["count", *(_HEADS.get(one, one.replace("_", " ")).replace("bytes", "MB") for one in of)]
    shorten = shortened_method if names[-1] in _METHODS else cut
    echo()
    known = {**_HEADS, **called}
    of_what = [known.get(name, name) for name in names]
    squeeze = dict.fromkeys(of_what[:-1], _SQUEEZED_CELLS)
    table((*heads, *of_what), shown, right=heads, shorten=shorten, room=_LAST_CELLS, squeeze=squeeze)
    say_more(len(rows) - number)


def whole_parts(text: str, width: int, between: str) -> str:
    """The first parts of the text, as many as ``width`` cells have room for: those behind give way, and the end of the first at last."""
    if cells(text) <= width:
        return text
    parts = text.split(between)
    while len(parts) > 1 and cells(between.join([*parts, "…"])) > width:
        parts.pop()
    return cut(between.join([*parts, "…"]), width)


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name in ("unfinished", "waiting", "blocking"):
        return f"{value:,}"
    return (
        f"{value / 1e6:,.3f}"
        if name.endswith("bytes")
        else f"{value:,.3f}"
        if name.endswith("_ms")
        else f"{value:,.1f}"
    )


def _text(row: Mapping[str, Any], name: str) -> str:
    said = [row[one] for one in (name, _NAMES.get(name, "")) if row.get(one) is not None]
    return " ".join(map(str, said)) or "-"
