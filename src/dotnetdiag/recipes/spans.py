"""What begins with one event of a trace and ends with another, summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.quantiles import quantiles
from dotnetdiag.analysis.spans import spans
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.table import Table
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
        same = " ".join(_said(name, self.rows[name][0]) for name in self._fields if name not in self.telling)
        return (*self.rows.notes, f"all with {same}") if same else self.rows.notes

    @property
    def _fields(self) -> list[str]:
        return [name for name in self.rows.columns if name not in OWN]

    @cached_property
    def telling(self) -> tuple[str, ...]:
        """The fields that are not the same in all spans; of one span, or none, all."""
        return tuple(name for name in self._fields if len(self.rows) < 2 or _differs(self.rows[name]))

    @cached_property
    def groups(self) -> Mapping[str, Mapping[str, tuple[int, float]]]:
        """By the fields of the start whose values have names, where these differ: for each name how many ended and how many ms these took, those
        that took most first. Fields with more than :data:`MOST_GROUPS` are left out.
        """
        found = {}
        for name in self.telling:
            column = self.rows[name]
            if isinstance(column, Coded) and not name.startswith(STOP):
                found[name] = self._by(column)
        return {name: groups for name, groups in found.items() if 1 < len(groups) <= MOST_GROUPS}

    def _by(self, column: Coded) -> dict[str, tuple[int, float]]:
        took = self.rows["duration_ms"]
        assert isinstance(took, Scalar)
        ended = np.ones(len(took), np.bool_) if took.valid is None else took.valid
        counts = np.bincount(column.which[ended], minlength=len(column.texts)).tolist()
        sums = np.bincount(column.which[ended], took.values[ended], len(column.texts)).tolist()
        rows = zip(column.texts.to_pylist(), counts, sums, strict=True)
        ordered = sorted(rows, key=lambda row: -row[2])
        return {str(text): (count, total) for text, count, total in ordered if count}

    def table(self) -> Table:
        """All of them."""
        return self.rows

    def longest(self, number: int) -> list[tuple[dict[str, Any], str]]:
        """Rows of the longest that ended, and as a text their fields that are not the same in all."""
        order = np.argsort(-self.rows.numpy("duration_ms"), kind="stable")
        valid = self.rows["duration_ms"].valid
        order = order if valid is None else order[valid[order]]
        found = []
        for place in order[:number].tolist():
            row = self.rows[place]
            fields = " ".join(_said(name, row[name]) for name in self.telling)
            found.append((row, fields))
        return found


def _said(name: str, value: Any) -> str:
    """A field and its value, of which both ends say something, in so many characters that others have room beside it."""
    text = str(value)
    if len(text) > LONGEST_VALUE:
        text = f"{text[: LONGEST_VALUE // 2]}…{text[1 - LONGEST_VALUE // 2 :]}"
    return f"{name}={text}"


def _differs(column: Column) -> bool:
    values = iter(column)
    first = next(values, None)
    return any(value != first for value in values)


def spans_of(trace: Trace, start: str, stop: str, *, by: Sequence[str] = (), where: str | None = None) -> Spans:
    """Those of a trace; ``by`` and ``where`` as ``dd.spans`` has them, nothing: found out, and all. Raises UnknownName, GrammarError."""
    rows = spans(trace, start, stop, by=by or None, where=where)
    column = rows["duration_ms"]
    assert isinstance(column, Scalar)
    known = column.values if column.valid is None else column.values[column.valid]
    said: dict[str, float] = {}
    if len(known):
        found = quantiles(known, [0, 0.5, 0.95, 1])
        said = dict(zip(("least", "median", "95 %", "most"), found, strict=True)) | {"sum": float(known.sum())}
    return Spans(start=start, stop=stop, rows=rows, ended=len(known), durations_ms=said)
