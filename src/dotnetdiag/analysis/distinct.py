"""What is alike in columns: different texts, different rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dotnetdiag.events import Column, Text
from dotnetdiag.events.columns import Coded
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.text_ids import TextIds

Array: TypeAlias = "np.ndarray[Any, Any]"
V = TypeVar("V")

FEW_ROWS = 200
"""Of so few rows, as windows of a running session have, arrays would take longer than Python does."""


def distinct_texts(column: Text) -> tuple[list[str], Array]:
    """The different texts of a column in the order in which they come, and which of them each row has."""
    ids = TextIds()
    which = ids.of(column)
    return ids.texts(), which


def _by_first(begins: Array) -> tuple[Array, Array]:
    """Things in the order of their first rows, and the place of each there: so it is told however many rows come at once."""
    order = np.argsort(begins)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return order, rank


def rows_with(column: Column, wanted: Callable[[str], bool]) -> Array:
    """Of each row whether its text is one that is wanted (bool); a row without a text is not. Each text of a coded column is looked at once."""
    if isinstance(column, Coded):
        is_wanted = np.array([*(wanted(one or "") for one in column.texts.to_pylist()), False], np.bool_)
        found: Array = is_wanted[np.asarray(column.which, np.int64)]
        return found if column.valid is None else found & column.valid
    return np.array([one is not None and wanted(str(one)) for one in column.to_pylist()], np.bool_)


def combined(codes: Sequence[Array], rows: int) -> tuple[Array, Array]:
    """Rows with the same codes in all columns together: the first row of each kind, ascending, and which kind each row is of."""
    if rows <= FEW_ROWS:
        kinds, which = numbered(list(zip(*(column.tolist() for column in codes), strict=True)))
        return np.array([which.tolist().index(number) for number in range(len(kinds))], np.int64), which
    which = np.zeros(rows, np.int64)
    for column in codes:
        if (column == column[0]).all():  # of one process, or one thread, as columns often are
            continue
        numbers = ranked(column)[1]
        which = ranked(which * (int(numbers.max(initial=0)) + 1) + numbers)[1]
    begins = first_of_each(which, int(which.max(initial=-1)) + 1)
    order, rank = _by_first(begins)
    return begins[order], rank[which]


def first_of_each(which: Array, count: int) -> Array:
    """The first row of each of so many values, of which rows have ``which``."""
    first = np.empty(count, np.int64)
    first[which[::-1]] = np.arange(len(which) - 1, -1, -1)  # of several rows of a value the first is written last
    return first


def places_of(values: Array) -> Iterator[tuple[int, Array]]:
    """Each different whole number, ascending, and where it is, ascending."""
    kinds, which = ranked(values)
    order, ends = np.argsort(which, kind="stable"), np.cumsum(np.bincount(which, minlength=len(kinds)))
    for kind, first, last in zip(kinds.tolist(), [0, *ends[:-1].tolist()], ends.tolist(), strict=False):
        yield kind, order[first:last]


def numbered(values: list[V]) -> tuple[list[V], Array]:
    """The different values, and which of them each is."""
    known: dict[V, int] = {}
    which = np.array([known.setdefault(value, len(known)) for value in values], np.int64)
    return list(known), which
