"""A table whose rows lie elsewhere: a column, or some rows, are made when somebody asks, and nothing of them is kept here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag.table.losses import NONE, Losses
from dotnetdiag.table.table import PIECE_ROWS, Table

if TYPE_CHECKING:
    from dotnetdiag.events import Column

Made: TypeAlias = "Callable[[Sequence[str], int, int], Mapping[str, Column]]"
"""What makes the columns of these names, of the rows from one to before another."""
Gathered: TypeAlias = "Callable[[Sequence[str], Sequence[int]], Mapping[str, Column]]"
"""What makes them of rows anywhere."""
SLICE_ROWS = 1 << 12
"""Rows of a piece for JSON: 400,000 rows of a dozen columns are written in the same time as in pieces of 16,384, and in 121 MB and not 143."""

KEPT_ROWS = 1 << 20
"""Of a column that stays, 8 MB: who asks for values one by one asks for the column each time."""


class SlicedTable(Table):
    """So many ``rows`` with these columns, which ``made`` makes, and ``gathered`` those of a few rows anywhere, where it can be had. A column that is
    asked for is of all rows, and the last one stays where it is not large; who goes through all columns of many rows takes :meth:`pieces`.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: int,
        made: Made,
        *,
        gathered: Gathered | None = None,
        title: str = "",
        units: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        losses: Losses = NONE,
    ) -> None:
        super().__init__({}, title=title, units=units, notes=notes, losses=losses)
        self._columns = dict.fromkeys(columns)
        self._rows, self._make, self._gathered = rows, made, gathered
        self._last: tuple[str, Column] | None = None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._columns

    def _found(self, name: str) -> Column | None:
        if name not in self._columns:
            return None
        last = self._last
        if last is not None and last[0] == name:
            return last[1]
        self._last = None  # before there is another
        column = self._make([name], 0, self._rows)[name]
        if self._rows <= KEPT_ROWS:
            self._last = name, column
        return column

    def _given(self, name: str) -> None:
        """Nothing: all columns are arrays."""

    def _some(self, rows: slice[Any, Any, Any]) -> Table:
        first, last, step = rows.indices(self._rows)
        if step != 1:
            return self._of(0, self._rows)[rows]
        return self._of(first, max(first, last))

    def made(self, names: Sequence[str], first: int, last: int) -> Mapping[str, Column]:
        """Some columns of the rows from one to before another."""
        return self._make(names, first, last)

    def gathered(self, names: Sequence[str], rows: Sequence[int]) -> Mapping[str, Column] | None:
        """Some columns of these rows, where they can be had without those between."""
        return None if self._gathered is None else self._gathered(names, rows)

    def _of(self, first: int, last: int) -> Table:
        columns = self._make(self.columns, first, last)
        return Table(columns, title=self.title, units=self.units, notes=self.notes, losses=self.losses)

    def pieces(self, rows: int | None = None) -> Iterator[Table]:
        """The same rows in tables of a size that may become Python's values at once, or of so many ``rows``."""
        size = PIECE_ROWS if rows is None else rows
        for first in range(0, max(self._rows, 1), size):
            yield self._of(first, min(first + size, self._rows))
