"""Values of counters as columns: one row for each event that brings one, whatever kind of counter it is of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dotnetdiag.events import Scalar, Struct, Text, kernels
from dotnetdiag.events import Table as Payloads
from dotnetdiag.events.columns import concat, nulls
from dotnetdiag.events.layout import Kind

Array: TypeAlias = "np.ndarray[Any, Any]"
V = TypeVar("V")

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
FEW_ROWS = 200
"""Of so few rows, as windows of a running session have, arrays would take longer than Python does."""
QUANTILES = ("0.5", "0.95", "0.99")
"""Those that runtimes tell."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?(E[+-]?\d+)?|-?Infinity|NaN", re.ASCII)
"""How .NET writes a double for everybody (``InvariantCulture``, format ``R``)."""


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


def distinct_texts(column: Text) -> tuple[list[str], Array]:
    """The different texts of a column, and which of them each row has. Nothing is made of a row: those of one length are sorted together."""
    if len(column) <= FEW_ROWS:
        known, which = _numbered(column.to_pylist())
        return [text or "" for text in known], which
    offsets, data = column.offsets, column.data
    lengths = np.diff(offsets)
    texts: list[str] = []
    which = np.zeros(len(column), np.int64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        if not length:
            which[rows] = len(texts)
            texts.append("")
            continue
        raw = kernels.gather(data, offsets[rows], lengths[rows])[1].view(f"V{length}")
        found, codes = np.unique(raw, return_inverse=True)
        which[rows] = codes.ravel() + len(texts)
        texts += [one.tobytes().decode("utf-8", "surrogatepass") for one in found]
    return texts, which


def combined(codes: Sequence[Array], rows: int) -> tuple[Array, Array]:
    """Rows with the same codes in all columns together: the first row of each kind, and which kind each row is of."""
    if rows <= FEW_ROWS:
        kinds, which = _numbered(list(zip(*(column.tolist() for column in codes), strict=True)))
        return np.array([which.tolist().index(number) for number in range(len(kinds))], np.int64), which
    which = np.zeros(rows, np.int64)
    for column in codes:
        numbers = np.unique(column, return_inverse=True)[1].ravel()
        which = np.unique(which * (int(numbers.max(initial=0)) + 1) + numbers, return_inverse=True)[1].ravel()
    return np.unique(which, return_index=True)[1], which


def _numbered(values: list[V]) -> tuple[list[V], Array]:
    """The different values, and which of them each is."""
    known: dict[V, int] = {}
    which = np.array([known.setdefault(value, len(known)) for value in values], np.int64)
    return list(known), which


def parsed_numbers(column: Text) -> tuple[Scalar, Array]:
    """The numbers that texts are, none where a text is empty; and a mask of the rows whose text is no number."""
    texts, which = distinct_texts(column)
    wrong = np.array([bool(text) and not _NUMBER.fullmatch(text) for text in texts], np.bool_)
    values = [float(text) if text and not bad else 0.0 for text, bad in zip(texts, wrong.tolist(), strict=True)]
    valid = np.array([bool(text) for text in texts], np.bool_) & ~wrong
    return Scalar(np.array(values, np.float64)[which], valid[which], Kind.F8), wrong[which]


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
