"""One number for each event, and what columns of all kinds share."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, overload
from uuid import UUID

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.events.layout import Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal
    from typing import Self

Array: TypeAlias = "np.ndarray[Any, Any]"
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

SHOWN_VALUES, SHOWN_CHARACTERS = 8, 40
"""Of a column's repr: so many values, each of so many characters at most."""
PIECE_ROWS = 1 << 16
"""Rows that become Python's values at once where a column is iterated."""


class NoOperator(UsageError, TypeError):
    """Columns are not compared as numbers are."""


class Rows:
    """What all columns share."""

    __slots__ = ()
    valid: Mask | None

    if TYPE_CHECKING:

        def __len__(self) -> int: ...
        def item(self, row: int) -> Any: ...
        def to_pylist(self) -> list[Any]: ...
        def take(self, rows: Array | Sequence[int]) -> Self: ...

    @overload
    def __getitem__(self, rows: int) -> Any: ...
    @overload
    def __getitem__(self, rows: slice[Any, Any, Any]) -> Self: ...

    def __getitem__(self, rows: int | slice[Any, Any, Any]) -> Any:
        """The value of a row, or the column of some."""
        if isinstance(rows, slice):
            return self.take(range(len(self))[rows])
        try:
            number = operator.index(rows)
        except TypeError:
            raise NoOperator(
                f"column[{rows!r}]: a row as column[0], some as column[:3], any as column.take(rows)"
            ) from None
        return self.item(range(len(self))[number])

    def __iter__(self) -> Iterator[Any]:
        for first in range(0, len(self), PIECE_ROWS):
            yield from self[first : first + PIECE_ROWS].to_pylist()

    def _refuse(self, _: object) -> NoReturn:
        raise NoOperator(
            "a column is not compared as it is: write column.numpy() == 1, or ask for events with a filter, "
            'as in trace.events(where="Depth > 1")'
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        shown = [_cut(text) for text in self[:SHOWN_VALUES]._value_texts()]
        if len(self) > SHOWN_VALUES:
            shown.append("...")
        return f"<{self._kind_text()}, {len(self):,} rows: {', '.join(shown)}>"

    def _kind_text(self) -> str:
        return type(self).__name__

    def _value_texts(self) -> list[str]:
        return list(map(repr, self.to_pylist()))

    def numpy(self) -> Array:
        """The numbers as they lie in memory, not to be written (times: ns since 1970); texts and the rest as objects.

        Rows without a value hold 0 in numbers.
        """
        objects = np.empty(len(self), object)
        objects[:] = self.to_pylist()
        return objects

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """As :meth:`numpy`; where values are missing, floats are NaN, and all else is objects with None."""
        made = self._array()
        if dtype is not None:
            made = made.astype(dtype, copy=False)
        return made.copy() if copy else made

    def _array(self) -> Array:
        return self.numpy()


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."


def picked(valid: Mask | None, rows: Array) -> Mask | None:
    """``valid`` of some rows."""
    return None if valid is None else valid[rows]


def rows_of(rows: Array | Sequence[int]) -> Array:
    """The numbers of rows, for which there may be a mask."""
    if isinstance(rows, range):
        return np.arange(rows.start, rows.stop, rows.step, dtype=np.int64)
    picked = np.asarray(rows)
    return np.flatnonzero(picked) if picked.dtype == np.bool_ else picked.astype(np.int64, copy=False)


def with_nulls(values: list[Any], valid: Mask | None) -> list[Any]:
    """None in the place of those that are no values."""
    if valid is None:
        return values
    return [value if good else None for value, good in zip(values, valid.tolist(), strict=True)]


_EPOCH_1601 = datetime(1601, 1, 1, tzinfo=UTC)


def datetime_text(ticks: int) -> str | int:
    """100 ns steps since 1601 UTC as ISO 8601 with seven decimals and ``Z``; as they are where no such date exists."""
    seconds, fraction = divmod(ticks, 10_000_000)
    try:
        moment = _EPOCH_1601 + timedelta(seconds=seconds)
    except OverflowError:
        return ticks
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:07d}Z" if moment.year >= 1000 else ticks


def _decimal(raw: bytes) -> Decimal:
    """A .NET decimal as it lies in memory: u32 flags (scale in bits 16-23, sign in 31), u32 high, u64 low."""
    flags, high = int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:8], "little")
    number = high << 64 | int.from_bytes(raw[8:], "little")
    digits = tuple(int(digit) for digit in str(number))
    from decimal import Decimal  # which few traces have, and takes 2 ms

    return Decimal((flags >> 31, digits, -(flags >> 16 & 0xFF)))


_ITEMS: dict[Kind, Callable[[Any], Any]] = {
    Kind.CHAR: chr,
    Kind.CHAR8: chr,
    Kind.DATETIME: datetime_text,
    Kind.GUID: lambda raw: UUID(bytes_le=raw),
    Kind.DECIMAL: _decimal,
}


class Scalar(Rows):
    """One number, bool, character, date, GUID or decimal per row. ``kind`` says which."""

    __slots__ = ("kind", "valid", "values")

    def __init__(self, values: Array, valid: Mask | None = None, kind: Kind = Kind.U8) -> None:
        self.values, self.valid, self.kind = values, valid, kind

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.values.nbytes

    def _kind_text(self) -> str:
        return f"{type(self).__name__} {self.kind.name}"

    def _value_texts(self) -> list[str]:
        if self.kind != Kind.TIMESTAMP:
            return super()._value_texts()
        texts = np.datetime_as_string(self.values.view("datetime64[ns]"), unit="us").tolist()
        return list(map(str, with_nulls(texts, self.valid)))

    def numpy(self) -> Array:
        """The numbers as they lie in memory, not to be written (times: ns since 1970); ids and decimals as objects.

        Rows without a value hold 0.
        """
        if self.values.dtype.kind == "V":
            return super().numpy()
        numbers = self.values.view()
        numbers.flags.writeable = False
        return numbers

    def _array(self) -> Array:
        numbers = self.numpy()
        if self.kind == Kind.TIMESTAMP:
            numbers = numbers.view("datetime64[ns]")
        if self.valid is None or self.valid.all():
            return numbers
        if numbers.dtype.kind in "fM":
            return np.where(
                self.valid, numbers, np.array(np.nan if numbers.dtype.kind == "f" else "NaT", numbers.dtype)
            )
        return Rows.numpy(Scalar(self.values, self.valid, self.kind))

    def _list(self, values: Array) -> list[Any]:
        if values.dtype == np.float32:  # the shortest text that gives the same single, as .NET prints it
            return [float(str(value)) for value in values]
        items = values.tolist()
        convert = _ITEMS.get(self.kind)
        return items if convert is None else [convert(value) for value in items]

    def item(self, row: int) -> Any:
        """The value of one row."""
        if self.valid is not None and not self.valid[row]:
            return None
        row = range(len(self))[row]
        return self._list(self.values[row : row + 1])[0]

    def to_pylist(self) -> list[Any]:
        """All values."""
        if self.valid is not None and not self.valid.any():
            return [None] * len(self)
        return with_nulls(self._list(self.values), self.valid)

    def take(self, rows: Array | Sequence[int]) -> Scalar:
        """The column of some rows."""
        rows = rows_of(rows)
        return Scalar(self.values[rows], picked(self.valid, rows), self.kind)


class Narrow(Scalar):
    """Numbers in fewer bytes than their column has: written out, all or some rows, each time when they are asked for. Of a table with a row for each
    event most columns have few bytes, or one value, and most rows nobody looks at.
    """

    __slots__ = ("_known", "_narrow", "_type")

    def __init__(self, narrow: Array, known: Mask | None, kind: Kind, dtype: Any) -> None:
        self._narrow, self._known, self._type, self.kind = narrow, known, np.dtype(dtype), kind

    def __reduce__(self) -> tuple[Any, ...]:
        """Also how it is copied: its numbers are its own."""
        return Narrow, (np.array(self._narrow), self.valid, self.kind, self._type)

    def __repr__(self) -> str:
        return repr(self.take(np.arange(len(self))))

    @property
    def values(self) -> Array:  # type: ignore[override]  # nobody writes to it
        """One number per row."""
        return self._narrow.astype(self._type)

    @property
    def valid(self) -> Mask | None:  # type: ignore[override]  # likewise
        """Whether there is one."""
        return None if self._known is None else np.ascontiguousarray(self._known)

    def __len__(self) -> int:
        return len(self._narrow)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, written out."""
        return len(self) * int(self._type.itemsize)

    def item(self, row: int) -> Any:
        """The value of one row."""
        return self.take([range(len(self))[row]]).item(0)

    def take(self, rows: Array | Sequence[int]) -> Scalar:  # type: ignore[override]  # no column of many rows
        """The column of some rows, written out."""
        rows = rows_of(rows)
        return Scalar(self._narrow[rows].astype(self._type), picked(self._known, rows), self.kind)

    def piece(self, first: int, last: int) -> Scalar:
        """The same of rows from one to before another."""
        known = None if self._known is None else np.ascontiguousarray(self._known[first:last])
        return Scalar(self._narrow[first:last].astype(self._type), known, self.kind)
