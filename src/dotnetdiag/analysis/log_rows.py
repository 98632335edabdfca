"""The rows of the table of messages, of which there may be millions: beyond some megabytes they lie in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.answers import answer_sliced, mask, number, whole
from dotnetdiag.analysis.kind_rows import Values, columns_of
from dotnetdiag.analysis.log_entries import LEVELS
from dotnetdiag.analysis.log_exceptions import LoggedExceptions
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.spilled import SLICE_ROWS, SpilledRows

Array: TypeAlias = "np.ndarray[Any, Any]"

_ROW = np.dtype([
    ("ms", "f8"), *((name, "i8") for name in ("pid", "tid", "event_id")),
    *((name, "i4") for name in ("logger", "event", "message", "exception", "request", "request_row")), ("level", "i1")
])  # fmt: skip
"""Texts by their numbers; -1 for none, as of what is within no request."""
_COLUMNS = (
    *("ms", "pid", "tid", "level", "logger", "event_id", "event"),
    *("message", "exception_type", "exception", "request", "request_row"),
)


NO_ID = 1 << 40
"""The id of an event of a message that lacks it, as in a damaged block: ids are numbers of 32 bits, of either sign."""


class LogRows:
    """Rows in the order in which they are added. ``in_requests``: how many are within a request."""

    def __init__(self) -> None:
        self._rows = SpilledRows(_ROW)
        self.in_requests = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, columns: Mapping[str, Array]) -> None:
        """Rows behind all others."""
        rows = np.empty(len(columns["ms"]), _ROW)
        for name, values in columns.items():
            rows[name] = values
        self.in_requests += int((rows["request_row"] >= 0).sum())
        self._rows.append(rows)

    def sort(self) -> None:
        """In the order of their times: two kinds of events came one after the other, of each all."""
        order = np.argsort(self._rows.column("ms", 0, len(self)), kind="stable")
        before, self._rows = self._rows, SpilledRows(_ROW)
        for first in range(0, len(order), SLICE_ROWS):
            self._rows.append(before.gather(None, order[first : first + SLICE_ROWS]))

    def table(
        self,
        names: Sequence[str],
        messages: Sequence[str],
        exceptions: LoggedExceptions,
        labels: Sequence[str],
        notes: Sequence[str],
        losses: Losses,
    ) -> Table:
        """All of them. ``names`` are of loggers and events, ``labels`` of requests."""
        texts = {
            "logger": names,
            "event": names,
            "message": messages,
            "exception": exceptions.names,
            "exception_type": exceptions.types,
            "request": labels,
        }
        made = _Columns(self._rows, {name: Text.from_pylist([*given, ""]) for name, given in texts.items()})
        return answer_sliced("messages", _COLUMNS, len(self), made, notes, losses)


class _Columns:
    """Makes columns of the table, here or where it was sent to."""

    def __init__(self, rows: SpilledRows, texts: Mapping[str, Text]) -> None:
        self._rows, self._texts = rows, texts

    def __call__(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        return columns_of(self._rows, self._column, names, first, last)

    def _column(self, name: str, values: Values) -> Column:
        own = values("exception" if name == "exception_type" else name)
        if name == "level":
            return levels_of(own)
        if name in self._texts:
            return Coded(self._texts[name], own, mask(own >= 0))
        if name == "event_id":
            return ids_of_events(own)
        return number(own) if name == "ms" else whole(own, own >= 0 if name == "request_row" else None)


def levels_of(level: Array) -> Coded:
    """A column of them by number; -1 where none is told."""
    return Coded(Text.from_pylist([*LEVELS, ""]), level, mask(level >= 0))


def ids_of_events(values: Array) -> Scalar:
    """A column of them."""
    return whole(values, values != NO_ID)
