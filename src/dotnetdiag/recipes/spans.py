"""What begins with one event of a trace and ends with another, summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.spans import spans
from dotnetdiag.analysis.spread import Spread
from dotnetdiag.events import Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.table import Table
from dotnetdiag.table.largest import largest
from dotnetdiag.table.parts import parts, rows_at
from dotnetdiag.trace.trace import Trace

STOP = "stop_"
OWN = ("start_ms", "stop_ms", "duration_ms", "pid", "tid", "stop_tid")
"""Columns that are no fields of the events."""
LONGEST_VALUE = 60
"""Characters of a field's value in a line that has others too."""
MOST_GROUPS = 10
"""Values of a field that are told one by one."""


@dataclass(frozen=True, kw_only=True)
class Spans:
    """All of them, ``ended`` of them with an end; ``durations_ms`` are the least, the middle, ... and the sum of these."""

    start: str
    stop: str
    rows: Table
    ended: int
    durations_ms: Mapping[str, float]

    @property
    def count(self) -> int:
        """How many began."""
        return len(self.rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """By what they belong together, what has no other side, and the fields that are the same in all."""
        names = [name for name in self._fields if name not in self.telling]
        first = rows_at(self.rows, np.zeros(min(self.count, 1), np.int64), names)
        same = " ".join(_said(name, column[0]) for name, column in first.items())
        return (*self.rows.notes, f"all with {same}") if same else self.rows.notes

    @property
    def _fields(self) -> list[str]:
        return [name for name in self.rows.columns if name not in OWN]

    @cached_property
    def telling(self) -> tuple[str, ...]:
        """The fields that are not the same in all spans; of one span, or none, all."""
        fields = self._fields
        if self.count < 2:
            return tuple(fields)
        first = {name: column[0] for name, column in rows_at(self.rows, np.zeros(1, np.int64), fields).items()}
        same, place = fields, 0
        while same and place < self.count:  # a part of the fields that are the same until then
            part = next(parts(self.rows, same, place))
            place += len(part[same[0]])
            same = [name for name in same if all(value == first[name] for value in part[name])]
        return tuple(name for name in fields if name not in same)

    @cached_property
    def groups(self) -> Mapping[str, Mapping[str, tuple[int, float]]]:
        """By the fields of the start whose values have names, where these differ: for each name how many ended and how many ms these took, those
        that took most first. Fields with more than :data:`MOST_GROUPS` are left out.
        """
        nothing = rows_at(self.rows, np.zeros(0, np.int64), self.telling)
        names = [name for name, one in nothing.items() if isinstance(one, Coded) and not name.startswith(STOP)]
        found = {name: dict[str, tuple[int, float]]() for name in names}
        for part in parts(self.rows, [*names, "duration_ms"]) if names else ():
            took = part["duration_ms"]
            assert isinstance(took, Scalar)
            for name in [*found]:
                column = part[name]
                assert isinstance(column, Coded)
                _add(found[name], column, took)
                if len(found[name]) > MOST_GROUPS:
                    del found[name]
        ordered = {name: dict(sorted(one.items(), key=lambda row: -row[1][1])) for name, one in found.items()}
        return {name: groups for name, groups in ordered.items() if len(groups) > 1}

    def table(self) -> Table:
        """All of them."""
        return self.rows

    def longest(self, number: int) -> list[tuple[dict[str, Any], str]]:
        """Rows of the longest that ended, and as a text their fields that are not the same in all."""
        shown = {*OWN, *self.telling}
        rows = largest(self.rows, "duration_ms", number, [name for name in self.rows.columns if name in shown])
        return [(row, " ".join(_said(name, row[name]) for name in self.telling)) for row in rows]


def _add(found: dict[str, tuple[int, float]], column: Coded, took: Scalar) -> None:
    """Of each name how many ended, and how long they took."""
    ended = np.ones(len(took), np.bool_) if took.valid is None else took.valid
    counts = np.bincount(column.which[ended], minlength=len(column.texts)).tolist()
    sums = np.bincount(column.which[ended], took.values[ended], len(column.texts)).tolist()
    for text, count, total in zip(column.texts.to_pylist(), counts, sums, strict=True):
        if count:
            before = found.get(str(text), (0, 0.0))
            found[str(text)] = before[0] + count, before[1] + total


def _said(name: str, value: Any) -> str:
    """A field and its value, of which both ends say something, in so many characters that others have room beside it."""
    text = str(value)
    if len(text) > LONGEST_VALUE:
        text = f"{text[: LONGEST_VALUE // 2]}…{text[1 - LONGEST_VALUE // 2 :]}"
    return f"{name}={text}"


def spans_of(trace: Trace, start: str, stop: str, *, by: Sequence[str] = (), where: str | None = None) -> Spans:
    """Those of a trace; ``by`` and ``where`` as ``dd.spans`` has them, nothing: found out, and all. Raises UnknownName, GrammarError."""
    rows = spans(trace, start, stop, by=by or None, where=where)
    spread = Spread()
    for part in parts(rows, ["duration_ms"]):
        column = part["duration_ms"]
        assert isinstance(column, Scalar)
        spread.add(column.values if column.valid is None else column.values[column.valid])
    said: dict[str, float] = {}
    if len(spread):
        found = spread.at([0, 0.5, 0.95, 1])
        said = dict(zip(("least", "median", "95 %", "most"), found, strict=True)) | {"sum": spread.total}
    return Spans(start=start, stop=stop, rows=rows, ended=len(spread), durations_ms=said)
