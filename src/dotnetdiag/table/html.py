"""A table as HTML: what a notebook shows, and a page of its own. All texts are escaped; a page loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from dotnetdiag.table.losses import Losses


class Tabular(Protocol):
    """What is asked of a table; ``Table`` is one."""

    @property
    def title(self) -> str: ...
    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def units(self) -> Mapping[str, str]: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def losses(self) -> Losses: ...
    def pieces(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: Any) -> Any: ...


_STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; color-scheme: light dark }
table { border-collapse: collapse; margin: 1em 0 }
caption { text-align: left; font-weight: bold; padding: .3em 0 }
th, td { padding: .2em .7em; text-align: left; border-bottom: 1px solid #8884; overflow-wrap: anywhere }
th { position: sticky; top: 0; background: Canvas }
.n { text-align: right; font-variant-numeric: tabular-nums }
"""


def fragment(table: Tabular, rows: int) -> str:
    """The first rows."""
    shown = table[:rows]
    rest = f"<p>and {len(table) - rows:,} more rows</p>" if len(table) > rows else ""
    return "".join(lines(shown)) + rest


def paragraph(text: str) -> str:
    """A line of text; nothing of none."""
    return f"<p>{_text(text)}</p>\n" if text else ""


def lines(table: Tabular, *, titled: bool = True) -> Iterator[str]:
    """The element ``table`` and what is said below it, in pieces."""
    from dotnetdiag.table.texts import is_number

    right = [is_number(table[name]) for name in table.columns]
    yield "<table>"
    if titled and table.title:
        yield f"<caption>{_text(table.title)}</caption>"
    heads = (_cell("th", heading(table, name), number) for name, number in zip(table.columns, right, strict=True))
    yield f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n"
    for piece in table.pieces():
        yield from rows(piece, right)
    yield "</tbody></table>\n"
    yield from (f"<p>{_text(line)}</p>\n" for line in (*table.notes, str(table.losses)) if line)


def rows(piece: Tabular, right: list[bool]) -> Iterator[str]:
    """A row of texts after the other."""
    from dotnetdiag.table.texts import cell_texts

    for texts in zip(*(cell_texts(piece[name]) for name in piece.columns), strict=True):
        yield f"<tr>{''.join(_cell('td', text, number) for text, number in zip(texts, right, strict=True))}</tr>\n"


def heading(table: Tabular, name: str) -> str:
    """The name of a column and its unit, where the name does not say it."""
    unit = table.units.get(name, "")
    said = not unit or name == unit or name.endswith(f"_{unit}") or name.endswith(f"_{_WORDS.get(unit, unit)}")
    return name if said else f"{name} [{unit}]"


_WORDS = {"%": "percent"}


def page(title: str) -> tuple[str, str]:
    """What stands before and behind the tables of a page."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>\n'
    head += f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{_STYLE}</style></head><body>\n'
    return head, "</body></html>\n"


def _cell(element: str, text: str, is_number: bool) -> str:
    return f"<{element}{' class=n' if is_number else ''}>{_text(text)}</{element}>"


def _text(text: str) -> str:
    from html import escape  # a regular expression of all its entities: 2 ms, which events that are printed do not need

    return escape(visible(text))


def visible(text: str) -> str:
    """The text without what drives a terminal, or what UTF-8 cannot say; its lines and tabs stay."""
    return text.encode("utf-8", "backslashreplace").decode().translate(_CONTROLS)


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}
