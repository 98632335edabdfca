"""Rows of numbers in a few bytes each, where a file says how many there are."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast, overload

Row = TypeVar("Row", bound=tuple[int, ...])


class Rows(Sequence[Row]):
    """Tuples, made when somebody looks at them. ``types`` are those of ``array``, one for each place of a tuple."""

    __slots__ = ("_columns",)

    def __init__(self, types: str) -> None:
        self._columns: tuple[array[Any], ...] = tuple(map(array, types))

    def append(self, row: Row) -> None:
        """Add a tuple."""
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        return cast("Row", tuple(column[index] for column in self._columns))

    def __iter__(self) -> Iterator[Row]:
        return cast("Iterator[Row]", zip(*self._columns, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(tuple.__eq__, self, other))

    def __repr__(self) -> str:
        return repr(list(self))
