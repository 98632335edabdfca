"""Values of counters as lines of JSON, of many processes in each second: those of :mod:`~dotnetdiag.export.json_lines`, in a third of the time.

What a line says of its series is the same each time, and is kept; the numbers alone are written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any, NamedTuple

import numpy as np

from dotnetdiag.analysis.counters import Counters
from dotnetdiag.analysis.series import Series
from dotnetdiag.table.texts import map_text, value_texts

_BEFORE, _BEHIND = ("ms", "utc"), ("value", "rate", "interval_s", "count", "sum", "quantiles")
_TEMPLATE = "{{{}, %s, {}, %s}}\n".format(
    *(", ".join(f'"{name}": %s' for name in names) for names in (_BEFORE, _BEHIND))
)
_SPARE = 1000
"""So many series more than there are values may be kept."""


class Whose(NamedTuple):
    """The process of a series: its id, and its name; None: not known."""

    pid: int | None
    name: str | None


class _Kept(NamedTuple):
    series: Series
    whose: Whose
    middle: str
    end: str


class CounterLines:
    """``clean`` is applied to all that programs call something, as JSON. For the values of one fold."""

    def __init__(self, clean: Callable[[str], str] = str) -> None:
        self._clean = clean
        self._kept: dict[int, _Kept] = {}

    def text(self, counters: Counters, processes: Mapping[int, Whose]) -> str:
        """A line for each value, in time order. ``processes`` are by the process id that series have."""
        if not len(counters):
            return ""
        unknown = Whose(None, None)
        kept = {}
        for one in counters.series:
            pid = one.instrument.key.pid
            kept[one.number] = self._of(one, unknown if pid is None else processes.get(pid, unknown))
        if len(self._kept) > len(kept) + _SPARE:
            self._kept = {}
        self._kept |= kept
        rows = counters.rows
        of_row = [kept[number] for number in rows.numpy("series").tolist()]
        columns = [_texts(rows[name]) for name in (*_BEFORE, *_BEHIND)]
        columns.insert(len(_BEFORE), [one.middle for one in of_row])
        return "".join(map(_TEMPLATE.__mod__, zip(*columns, [one.end for one in of_row], strict=True)))

    def _of(self, one: Series, whose: Whose) -> _Kept:
        known = self._kept.get(one.number)
        if known is not None and known.series is one and known.whose == whose:
            return known
        texts = {"provider": one.provider, "instrument": one.name, "kind": one.kind.value, "unit": one.unit}
        said = [f'"{name}": {encode_basestring(text)}' for name, text in texts.items()]
        name = "null" if whose.name is None else encode_basestring(whose.name)
        pid = "null" if whose.pid is None else str(whose.pid)
        return _Kept(
            series=one,
            whose=whose,
            middle=self._clean(_as_utf8(f'{", ".join(said)}, "tags": {map_text(one.tags)}')),
            end=self._clean(_as_utf8(f'"pid": {pid}, "process": {name}')),
        )


def _texts(column: Any) -> list[Any]:
    """Of a column that few rows have: most are of counters, and have no quantiles."""
    if column.valid is None:
        return value_texts(column)
    texts: list[Any] = ["null"] * len(column)
    there = np.flatnonzero(column.valid)
    for row, text in zip(there.tolist(), value_texts(column.take(there)), strict=True):
        texts[row] = text
    return texts


def _as_utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
