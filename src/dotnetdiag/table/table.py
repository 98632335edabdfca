"""Named columns of as many rows: what every question is answered with, and what every exporter takes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, overload

from dotnetdiag.errors import UnknownName, UsageError, near
from dotnetdiag.table.losses import NONE, Losses

if TYPE_CHECKING:
    import numpy as np
    import pandas
    import polars
    import pyarrow

    from dotnetdiag.events import Column

SHOWN_ROWS = 10
_GIVEN = (tuple, list, range)
"""Python's values, as a column may be given."""
PIECE_ROWS = 1 << 16
"""Rows of a table that become Python's values at once where a file is written of all."""


class Table:
    """``table["name"]`` is a column, ``table[0]`` a row, ``table[:3]`` the table of some rows; iteration gives rows.

    ``columns`` are given by name: columns of ``events``, or sequences of Python's values, which become columns when one is asked for.
    ``units`` say in what the numbers of a column count (``ms``, ``bytes``, ``%``); ``title`` what the rows are; ``notes`` what was done
    or is odd; ``losses`` what the recording lacks that they are made of.
    """

    _MADE_ANEW: ClassVar[frozenset[str]] = frozenset()
    """Columns that :meth:`_chosen` makes each time."""

    def __init__(
        self,
        columns: Mapping[str, Column | Sequence[Any]],
        *,
        title: str = "",
        units: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        losses: Losses = NONE,
    ) -> None:
        for name, column in columns.items():
            if not isinstance(name, str):
                raise UsageError(f"a column is named {name!r}: names are texts")
            if not isinstance(column, _GIVEN) and not (hasattr(column, "to_pylist") and hasattr(column, "valid")):
                raise UsageError(f"column {name!r} is a {type(column).__name__}: give a list, such as list(values)")
        sizes = {name: len(column) for name, column in columns.items()}
        if len(set(sizes.values())) > 1:
            raise UsageError(
                f"columns of different lengths: {', '.join(f'{n} has {size}' for n, size in sizes.items())}"
            )
        self._columns: dict[str, Any] = {name: tuple(c) if isinstance(c, list) else c for name, c in columns.items()}
        self._made: dict[str, Column] = {}
        self._rows = next(iter(sizes.values()), 0)
        self._title, self._units, self._notes, self._losses = title, dict(units or {}), tuple(notes), losses

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]], *, columns: Sequence[str] | None = None, **about: Any) -> Table:
        """The table of these rows, with the columns of the first, or those named; what a row lacks is None. ``about``: as for the class."""
        names = list(columns if columns is not None else (rows[0] if rows else ()))
        return cls({name: [row.get(name) for row in rows] for name in names}, **about)

    # what it is -------------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """What the rows are."""
        return self._title

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    @property
    def units(self) -> Mapping[str, str]:
        """In what the numbers of a column count, by its name; columns that count nothing have none."""
        return self._units

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done, or is odd."""
        return self._notes

    @property
    def losses(self) -> Losses:
        """What the recording lacks."""
        return self._losses

    def __len__(self) -> int:
        return self._rows

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._found(name) is not None

    def __repr__(self) -> str:
        rows = [f"  {row!r}" for row in self[:SHOWN_ROWS]]
        lines = [self._head(), *rows, *(["  ..."] if len(self) > SHOWN_ROWS else []), *self.notes, str(self.losses)]
        from dotnetdiag.table.html import visible

        return visible("\n".join(line for line in lines if line))

    def _head(self) -> str:
        title = f" {self.title}" if self.title else ""
        return f"<{type(self).__name__}{title}: {len(self):,} rows, columns {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        from dotnetdiag.table.html import fragment

        return fragment(self, SHOWN_ROWS)

    if not TYPE_CHECKING:  # where types are checked, this says that every attribute is there

        def __getattr__(self, name: str) -> object:
            hint = f"; the column is table[{name!r}]" if not name.startswith("_") and name in self else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def with_notes(self, notes: Sequence[str]) -> Table:
        """The same table with other notes."""
        made = copy.copy(self)
        made._notes = tuple(notes)
        return made

    def with_title(self, title: str) -> Table:
        """The same table under another title."""
        made = copy.copy(self)
        made._title = title
        return made

    # columns ----------------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, name: str) -> Column: ...
    @overload
    def __getitem__(self, name: int) -> Any: ...
    @overload
    def __getitem__(self, name: slice[Any, Any, Any]) -> Table: ...

    def __getitem__(self, name: str | int | slice[Any, Any, Any]) -> Any:
        """A column, a row, or the table of some rows. UnknownName (a KeyError) that lists names that are alike."""
        if isinstance(name, str):
            found = self._found(name)
            if found is None:
                raise UnknownName("column", name, near(name, self.columns), where="in the table")
            return found
        if isinstance(name, slice):
            return self._some(name)
        if isinstance(name, (list, tuple)):
            raise UsageError(f"table[{name!r}]: one column, as table['name']; several: table.to_pandas({list(name)!r})")
        return self.row(name)

    def get(self, name: str) -> Column | None:
        """The column, or None."""
        return self._found(name)

    def values(self, name: str) -> list[Any]:
        """The values of a column as Python has them, None where there is none."""
        given = self._given(name)
        return self[name].to_pylist() if given is None else list(given)

    def numpy(self, name: str) -> np.ndarray[Any, Any]:
        """The numbers of a column as they lie in memory, not to be written (times: ns since 1970), also where they have names; texts and the
        rest as objects. Rows without a value hold 0 in numbers.
        """
        return self[name].numpy()

    def _found(self, name: str) -> Column | None:
        given = self._given(name)
        if given is None:
            return self._columns.get(name)
        if name not in self._made:
            from dotnetdiag.table.values import column_of

            self._made[name] = column_of(given)
        return self._made[name]

    def _given(self, name: str) -> Sequence[Any] | None:
        """The values that a column was given as; None where it was given as a column."""
        column = self._columns.get(name)
        return column if isinstance(column, _GIVEN) else None

    # rows -------------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        for piece in self.pieces():
            names = piece.columns
            for row in zip(*map(piece.values, names), strict=True):
                yield dict(zip(names, row, strict=True))

    def row(self, index: int) -> Any:
        """One row: its values by the names of the columns. IndexError for one that is not there."""
        place = self._place(index)
        (row,) = self._some(slice(place, place + 1))
        return row

    def _place(self, index: int) -> int:
        """Of a row, which may be counted from the end."""
        try:
            return range(len(self))[index]
        except IndexError:
            raise IndexError(f"no row {index}: the table has {len(self):,}") from None

    def _some(self, rows: slice[Any, Any, Any]) -> Table:
        def cut(column: Any) -> Any:
            return column[rows] if isinstance(column, _GIVEN) else column.take(range(len(self))[rows])

        columns = {name: cut(column) for name, column in self._columns.items()}
        part = Table(columns, title=self.title, units=self.units, notes=self.notes, losses=self.losses)
        part._made = {name: cut(column) for name, column in self._made.items()}
        return part

    def pieces(self) -> Iterator[Table]:
        """The same rows in tables of a size that may become Python's values at once."""
        if len(self) <= PIECE_ROWS:
            yield self
        else:
            for name in self.columns:  # of what kind a column is depends on all of its values
                self._found(name)
            yield from (self[first : first + PIECE_ROWS] for first in range(0, len(self), PIECE_ROWS))

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows, as :meth:`to_json` has them but with Python's values."""
        columns = [self.values(name) for name in self.columns]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_json(self) -> list[dict[str, Any]]:
        """All rows in the forms of JSON: bytes as ``hex:…``, ids and times as text, NaN and infinities by name."""
        columns = [self._json_values(name) for name in self.columns]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def _json_values(self, name: str) -> list[Any]:
        given = self._given(name)
        if given is not None and is_json(given):
            return list(given)  # a short list need not become an array
        from dotnetdiag.table.texts import json_values

        return json_values(self[name])

    # elsewhere --------------------------------------------------------------------------------------------------------

    def to_pandas(self, columns: str | Sequence[str] | None = None, *, names: bool = True) -> pandas.DataFrame:
        """A data frame, of all columns or some. What the runtime numbers (``GC/Start.Reason``) has its names, as categories, or numbers.

        MissingDependency without the extra ``pandas``.
        """
        from dotnetdiag.table.to_pandas import data_frame

        return data_frame(self._chosen(_names(columns), names=names), self._MADE_ANEW)

    def to_arrow(self, columns: str | Sequence[str] | None = None, *, names: bool = True) -> pyarrow.Table:
        """An Arrow table; as ``to_pandas``, MissingDependency without the extra ``arrow``."""
        from dotnetdiag.table.arrow import arrow_table

        return arrow_table(self._chosen(_names(columns), names=names))

    def to_polars(self, columns: str | Sequence[str] | None = None, *, names: bool = True) -> polars.DataFrame:
        """A data frame of polars; as ``to_pandas``, MissingDependency without the extra ``polars``."""
        from dotnetdiag.table.arrow import polars_frame

        return polars_frame(self._chosen(_names(columns), names=names))

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """UsageError that says what to write: pandas.DataFrame(table) would take rows, and ids of 64 bits become floats on that way."""
        raise UsageError(
            "a table is not an array: write table.to_pandas() for a data frame, or table.numpy(name) for a column"
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """For ``polars.DataFrame(table)``, ``pyarrow.table(table)``, DuckDB and all others that speak Arrow: without a copy of what lies
        in columns. MissingDependency without nanoarrow, which the extras ``arrow`` and ``polars`` bring.
        """
        from dotnetdiag.table.arrow import stream

        return stream(self._chosen(None, names=True)).__arrow_c_stream__()

    def _chosen(self, wanted: Sequence[str] | None, *, names: bool) -> dict[str, Column]:
        """Columns by name, with ``names`` for numbers that have some."""
        chosen = {name: self[name] for name in (self.columns if wanted is None else wanted)}
        if names:
            return chosen
        from dotnetdiag.events.columns import numbers_of

        return {name: numbers_of(column) for name, column in chosen.items()}


def _names(columns: str | Sequence[str] | None) -> Sequence[str] | None:
    return [columns] if isinstance(columns, str) else columns


def is_json(values: Sequence[Any]) -> bool:
    """Whether JSON has them as they are: texts, or truths, or numbers that a column holds."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int}:
        return all(value is None or value.bit_length() < 64 for value in values)
    return len(kinds) < 2 and kinds <= {str, bool}
