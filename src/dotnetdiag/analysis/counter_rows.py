"""Values of counters as columns: one row for each event that brings one, whatever kind of counter it is of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.distinct import distinct_texts
from dotnetdiag.events import Scalar, Struct, Text
from dotnetdiag.events import Table as Payloads
from dotnetdiag.events.columns import concat, nulls
from dotnetdiag.events.layout import Kind

Array: TypeAlias = "np.ndarray[Any, Any]"

FIGURES: Mapping[str, Kind] = {
    "value": Kind.F8,
    "delta": Kind.F8,
    "interval_s": Kind.F8,
    "count": Kind.I8,
    "sum": Kind.F8,
    "min": Kind.F8,
    "max": Kind.F8,
    "stddev": Kind.F8,
}
"""What a row may have, and of what kind."""
QUANTILES_LIMIT = 16
"""Different quantiles of one fold: each is a column."""
QUANTILES = ("0.5", "0.95", "0.99")
"""Those that runtimes tell."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?(E[+-]?\d+)?|-?Infinity|NaN", re.ASCII)
"""How .NET writes a double for everybody (``InvariantCulture``, format ``R``)."""
_NUMBERS = re.compile(rf"(?:{_NUMBER.pattern})?(?:\n(?:{_NUMBER.pattern})?)*+", re.ASCII)
"""Some of them, or nothings, with line feeds between them: to match each by itself took most of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRows:
    """``place`` is the row in a window, ``time`` the clock's ticks, ``series`` a number. ``figures`` are by :data:`FIGURES`, ``quantiles`` by
    their texts; what is not in them no row has.
    """

    place: Array
    time: Array
    ms: Array
    utc_ns: Array
    series: Array
    figures: Mapping[str, Scalar]
    quantiles: Mapping[str, Scalar]

    def __len__(self) -> int:
        return len(self.place)

    def figure(self, name: str) -> Scalar:
        """One column; without any value where no row has one."""
        return self.figures.get(name) or _none(FIGURES[name], len(self))

    def quantile(self, name: str) -> Scalar:
        """One column."""
        return self.quantiles.get(name) or _none(Kind.F8, len(self))

    def take(self, rows: Array) -> CounterRows:
        """Some of them, by number or mask."""
        picked = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return CounterRows(
            place=self.place[picked],
            time=self.time[picked],
            ms=self.ms[picked],
            utc_ns=self.utc_ns[picked],
            series=self.series[picked],
            figures={name: column.take(picked) for name, column in self.figures.items()},
            quantiles={name: column.take(picked) for name, column in self.quantiles.items()},
        )

    @classmethod
    def concatenate(cls, parts: Sequence[CounterRows]) -> CounterRows:
        """One after another."""
        if not parts:
            none = np.zeros(0, np.int64)
            return cls(place=none, time=none, ms=none.astype(np.float64), utc_ns=none, series=none, figures={}, quantiles={})  # fmt: skip
        if len(parts) == 1:
            return parts[0]
        figures = dict.fromkeys(name for part in parts for name in part.figures)
        quantiles = dict.fromkeys(name for part in parts for name in part.quantiles)
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("place", "time", "ms", "utc_ns", "series")
        }
        return cls(
            **arrays,
            figures={name: _joined([part.figure(name) for part in parts]) for name in figures},
            quantiles={name: _joined([part.quantile(name) for part in parts]) for name in quantiles},
        )


def _none(kind: Kind, rows: int) -> Scalar:
    made = nulls(Scalar(np.zeros(0, np.int64 if kind is Kind.I8 else np.float64), None, kind), rows)
    assert isinstance(made, Scalar)
    return made


def _joined(columns: list[Scalar]) -> Scalar:
    made = concat(columns)
    assert isinstance(made, Scalar)
    return made


def parsed_numbers(column: Text) -> tuple[Scalar, Array]:
    """The numbers that texts are, none where a text is empty; and a mask of the rows whose text is no number."""
    texts = [text or "" for text in column.to_pylist()]
    wrong = np.zeros(len(texts), np.bool_)
    joined = "\n".join(texts)
    if not _NUMBERS.fullmatch(joined) or joined.count("\n") != max(len(texts) - 1, 0):
        wrong[:] = [bool(text) and not _NUMBER.fullmatch(text) for text in texts]
        texts = ["" if bad else text for text, bad in zip(texts, wrong.tolist(), strict=True)]
    values = np.array([float(text) if text else 0.0 for text in texts], np.float64)
    return Scalar(values, np.array([bool(text) for text in texts], np.bool_), Kind.F8), wrong


def parsed_quantiles(column: Text, names: set[str], most: int = QUANTILES_LIMIT) -> tuple[dict[str, Scalar], Array]:
    """Columns by quantile of texts such as ``0.5=34;0.95=64``; and a mask of the rows whose text is none. ``names`` are the quantiles met so
    far, to which those of the column are added; a text with one beyond ``most`` of them is none.
    """
    texts, which = distinct_texts(column)
    found: dict[str, dict[int, float]] = {}
    wrong = np.zeros(len(texts), np.bool_)
    for number, text in enumerate(texts):
        pairs = [part.partition("=") for part in text.split(";")] if text else []
        more = {name for name, *_ in pairs} - names
        if len(names) + len(more) > most or not all(
            _NUMBER.fullmatch(name) and _NUMBER.fullmatch(value) for name, _, value in pairs
        ):
            wrong[number] = True
            continue
        names |= more
        for name, _, value in pairs:
            found.setdefault(name, {})[number] = float(value)
    made = {}
    for name, by_text in found.items():
        values, valid = np.zeros(len(texts)), np.zeros(len(texts), np.bool_)
        values[list(by_text)], valid[list(by_text)] = list(by_text.values()), True
        made[name] = Scalar(values[which], valid[which], Kind.F8)
    return made, wrong[which]


def as_floats(column: Scalar) -> Array:
    """Doubles; of singles those that print alike, as .NET prints them."""
    if column.values.dtype != np.float32:
        return column.values.astype(np.float64)
    known, which = np.unique(column.values, return_inverse=True)
    made: Array = np.array([float(str(value)) for value in known], np.float64)[which.ravel()]
    return made


def whole_rows(payloads: Payloads) -> Array:
    """The rows with all fields that their type declares: a payload that ends between two fields has no values for those behind."""
    whole = np.ones(len(payloads), np.bool_) if payloads.undecodable is None else ~payloads.undecodable
    waiting = list(payloads.columns.values())
    while waiting:
        column = waiting.pop()
        if column.valid is not None:
            whole &= column.valid
        if isinstance(column, Struct):
            waiting += column.fields.values()
    return np.flatnonzero(whole)


def text_field(payloads: Payloads, name: str) -> Text | None:
    """The column of a field, if it is there, and of texts."""
    found = payloads[name] if name in payloads else None  # noqa: SIM401 - it has no get
    return found if isinstance(found, Text) else None


def number_field(payloads: Payloads, name: str) -> Scalar | None:
    """The column of a field, if it is there, and of numbers."""
    found = payloads[name] if name in payloads else None  # noqa: SIM401
    if not isinstance(found, Scalar) or found.values.ndim != 1 or found.values.dtype.kind not in "iuf":
        return None
    return found
