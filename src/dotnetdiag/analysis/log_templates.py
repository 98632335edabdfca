"""What tells messages of a program's own apart, which mostly have no event: their template, the text with holes that they are made of. Only the
events ``MessageJson`` have it, as the last of their arguments.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.kept_events import NONE, Texts
from dotnetdiag.analysis.log_entries import FORMAT
from dotnetdiag.events import Column
from dotnetdiag.events.columns import Text
from dotnetdiag.events.text_columns import Spans

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_TEMPLATES, ALL_CHARACTERS = 1 << 11, 1 << 20
"""Different ones, and characters of all, that are told apart: of a program that writes each message into a template of its own the others are one."""
_BEGIN, _END = f'"{FORMAT}":"'.encode(), b'"}'


class LogTemplates:
    """Templates of messages, each once."""

    def __init__(self) -> None:
        self._texts = Texts(MOST_TEMPLATES, room=ALL_CHARACTERS)

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
    begins, ends = at + len(_BEGIN), offsets[row + 1] - len(_END)
    fits = begins <= ends
    row, begins, ends = row[fits], begins[fits], ends[fits]
    for place, byte in enumerate(_END):
        is_end = data[ends + place] == byte
        row, begins, ends = row[is_end], begins[is_end], ends[is_end]
    latest = np.append(row[1:] != row[:-1], np.ones(min(len(row), 1), np.bool_))
    row, begins, ends = row[latest], begins[latest], ends[latest]
    return row, Text.from_spans(Spans(data, begins, ends - begins, "utf8", False), None)
