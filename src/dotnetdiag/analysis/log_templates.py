"""What tells messages of a program's own apart, which mostly have no event: their template, the text with holes that they are made of. Only the
events ``MessageJson`` have it, among their arguments, mostly as the last.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.kept_events import NONE, OTHERS, Texts
from dotnetdiag.analysis.log_entries import FORMAT
from dotnetdiag.events import Column
from dotnetdiag.events.columns import Text
from dotnetdiag.events.text_columns import Spans

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_TEMPLATES, ALL_CHARACTERS = 1 << 13, 1 << 22
"""Different ones, and characters of all, that are told apart: of a program that writes each message into a template of its own the others are one."""
_BEGIN, _QUOTE, _SLASH = f'"{FORMAT}":"'.encode(), *b'"\\'
_MOST_SLASHES = 64
"""Before a quote, that are counted."""


class LogTemplates:
    """Templates of messages, each once."""

    def __init__(self) -> None:
        self._texts = Texts(MOST_TEMPLATES, room=ALL_CHARACTERS)

    @property
    def has_others(self) -> bool:
        """Whether some were too many."""
        return self._texts.has_others

    def is_others(self, number: int) -> bool:
        """Whether that is the number of those."""
        return number >= 0 and self._texts[number] == OTHERS

    def numbers(self, arguments: Column | None, count: int) -> Array:
        """Of so many messages the number of their template (i64); :data:`NONE` where they tell none."""
        made = np.full(count, NONE, np.int64)
        if isinstance(arguments, Text) and count:
            rows, templates = templates_of(arguments)
            made[rows] = self._texts.numbers(templates, len(rows))
        return made


def templates_of(arguments: Text) -> tuple[Array, Text]:
    """The rows that tell a template, and what these are, as JSON writes them. Nothing is made of a row: bytes are compared, column by column."""
    data, offsets = arguments.data, arguments.offsets
    at = np.flatnonzero(data[: max(len(data) - len(_BEGIN) + 1, 0)] == _BEGIN[0])
    # the rarest bytes first: quotes are every tenth, and the brace behind them is not
    for place in sorted(range(1, len(_BEGIN)), key=lambda place: _BEGIN[place] == _BEGIN[0]):
        at = at[data[at + place] == _BEGIN[place]]
    row = np.searchsorted(offsets, at, "right") - 1
    latest = np.append(row[1:] != row[:-1], np.ones(min(len(row), 1), np.bool_))
    row, begins = row[latest], at[latest] + len(_BEGIN)
    quotes = _quotes(data) if len(row) else row
    place = np.searchsorted(quotes, begins)
    ends = np.append(quotes, len(data))[place]
    fits = ends < offsets[row + 1]
    row, begins, ends = row[fits], begins[fits], ends[fits]
    return row, Text.from_spans(Spans(data, begins, ends - begins, "utf8", False), None)


def _quotes(data: Array) -> Array:
    """Where texts of JSON begin and end: at quotes before which no backslash stands, or an even number of them."""
    quotes = np.flatnonzero(data == _QUOTE)
    slashes, open_ = np.zeros(len(quotes), np.int64), np.arange(len(quotes))
    for back in range(1, _MOST_SLASHES + 1):
        open_ = open_[quotes[open_] >= back]
        open_ = open_[data[quotes[open_] - back] == _SLASH]
        if not len(open_):
            break
        slashes[open_] += 1
    found: Array = quotes[slashes % 2 == 0]
    return found
