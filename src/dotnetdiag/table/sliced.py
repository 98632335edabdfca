"""A table whose rows lie elsewhere: a column, or some rows, are made when somebody asks, and nothing of them is kept here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag.table.losses import NONE, Losses
from dotnetdiag.table.table import Table

if TYPE_CHECKING:
    from dotnetdiag.events import Column

Made: TypeAlias = "Callable[[Sequence[str], int, int], Mapping[str, Column]]"
"""What makes the columns of these names, of the rows from one to before another."""
SLICE_ROWS = 1 << 12
"""Rows of a piece. As JSON, 400,000 rows of a dozen columns are written in the same time as in pieces of 16,384, and in 121 MB and not 143."""


class SlicedTable(Table):
    """So many ``rows`` with these columns, which ``made`` makes. A column that is asked for is of all rows; who goes through all columns of many
    rows takes :meth:`pieces`.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: int,
        made: Made,
        *,
        title: str = "",
        units: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        losses: Losses = NONE,
    ) -> None:
        super().__init__({}, title=title, units=units, notes=notes, losses=losses)
        self._columns = dict.fromkeys(columns)
        self._rows, self._make = rows, made

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._columns

    def _found(self, name: str) -> Column | None:
        return self._make([name], 0, self._rows)[name] if name in self._columns else None

    def _given(self, name: str) -> None:
        """Nothing: all columns are arrays."""

    def _some(self, rows: slice[Any, Any, Any]) -> Table:
        first, last, step = rows.indices(self._rows)
        if step != 1:
            return self._of(0, self._rows)[rows]
        return self._of(first, max(first, last))

    def _of(self, first: int, last: int) -> Table:
        columns = self._make(self.columns, first, last)
        return Table(columns, title=self.title, units=self.units, notes=self.notes, losses=self.losses)

    def pieces(self) -> Iterator[Table]:
        """The same rows in tables of a size that may become Python's values at once."""
        for first in range(0, max(self._rows, 1), SLICE_ROWS):
            yield self._of(first, min(first + SLICE_ROWS, self._rows))
