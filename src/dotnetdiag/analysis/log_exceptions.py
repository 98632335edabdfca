"""Exceptions that messages were logged with, which the events ``MessageJson`` tell: type, message and stack as one text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.distinct import numbered
from dotnetdiag.analysis.kept_events import NONE, OTHERS, Texts, cut_at
from dotnetdiag.analysis.log_entries import logged_exception
from dotnetdiag.events import Column
from dotnetdiag.events.columns import Text

Array: TypeAlias = "np.ndarray[Any, Any]"

FIELD = "ExceptionJson"
MOST_EXCEPTIONS, MOST_CHARACTERS, ALL_CHARACTERS, OF_TYPE = 1 << 13, 2000, 1 << 22, 300
"""Different ones, and characters of each, of all and of the name of a type, that are kept."""
_NOTHING = len("{}")
"""Bytes of the text of a message that was logged without one."""


class LoggedExceptions:
    """Different ones, each once; those beyond :data:`MOST_EXCEPTIONS` are one that says so."""

    def __init__(self) -> None:
        self.texts = Texts(MOST_EXCEPTIONS, longest=MOST_CHARACTERS, room=ALL_CHARACTERS)
        self._types, self._numbers = list[str](), dict[int, int]()

    @property
    def names(self) -> Sequence[str]:
        """Of each number what the exception says of itself, with its stack."""
        return self.texts.names

    @property
    def types(self) -> Sequence[str]:
        """Of each number its type."""
        return self._types

    def numbers(self, column: Column | None, count: int) -> Array:
        """Of each row the number of its exception; :data:`NONE` where it has none. Texts are read that are not told alike."""
        made = np.full(count, NONE, np.int32)
        if column is None:
            return made
        if isinstance(column, Text):
            rows = np.flatnonzero(np.diff(column.offsets) > _NOTHING)
            column = column.take(rows)
        else:
            rows = np.arange(count)
        texts, which = numbered([str(told or "") for told in column.to_pylist()])
        made[rows] = np.array([self._number(text) for text in texts], np.int32)[which]
        return made

    def _number(self, json_text: str) -> int:
        """Of so many that each is another only those are read that there is room for: 400,000 took 2.4 s."""
        key = hash(json_text)
        number = self._numbers.get(key)
        if number is None:
            said = (OTHERS, OTHERS) if self.texts.has_others else text_of(json_text)
            number = NONE if said is None else self._number_of(*said)
            if number != NONE and not self.texts.has_others:
                self._numbers[key] = number
        return number

    def _number_of(self, type_: str, text: str) -> int:
        number = self.texts.number(text)
        if number == len(self._types):
            self._types.append(OTHERS if self.texts.has_others else cut_at(type_, OF_TYPE))
        return number


def text_of(json_text: str) -> tuple[str, str] | None:
    """The type of an exception, and what it says of itself; None where the field tells of none."""
    told = logged_exception(json_text)
    if told is None or not (told.type or told.text):
        return None
    return told.type, told.text or f"{told.type}: {told.message}"


def first_line(text: str) -> str:
    """Type and message of the outermost, of what an exception says of itself."""
    return text.partition("\n")[0].strip()
