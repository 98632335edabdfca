"""Rows of reports as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dotnetdiag.cli.render import echo, table
from dotnetdiag.tui.widths import cut, shortened_method

if TYPE_CHECKING:
    from dotnetdiag.table import Table

_HEADS = {"pid": "process", "tid": "waited", "owner_tid": "for", "max_ms": "longest ms"}


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
    cells = [
        (f"{row['count']:,}", *(_figure(one, row[one]) for one in of), *(_text(row, name) for name in names))
        for row in rows[:number].to_pylist()
    ]
    heads = ["count", *(_HEADS.get(one, one.replace("_", " ")).replace("bytes", "MB") for one in of)]
    shorten = shortened_method if names[-1] in _METHODS else cut
    echo()
    known = {**_HEADS, **called}
    table((*heads, *(known.get(name, name) for name in names)), cells, right=heads, shorten=shorten)
    if len(rows) > number:
        echo(f"{len(rows) - number:,} more")


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name in ("unfinished", "waiting"):
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
