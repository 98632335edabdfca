"""Values of one field for many events, as arrays.

==========  ==============================================================================================
column      arrays
Scalar      ``values`` (one number per row; 16 bytes per row for GUID and decimal), ``valid``
Enumerated  the same, of numbers that have names: its values as Python has them are the names
Text        ``offsets`` (i64, rows + 1) into ``data`` (UTF-8; a lone surrogate stays as its three bytes), ``valid``
Bytes       ``offsets`` (i64, rows + 1) into ``data``, ``valid``
ListOf      ``offsets`` (i64, rows + 1) into the rows of ``child``, ``valid``
Maps        the same, of texts by texts; ``maps`` and ``which`` say of each row which of few different ones it has
Struct      ``fields`` (name → column, each of as many rows), ``valid``
==========  ==============================================================================================

``valid`` is None when every row has a value, else one bool per row. ``len()``, ``item(row)`` (a Python value or None),
``to_pylist()``, ``take(rows)`` (numbers or a mask), iteration, ``column[0]`` and ``column[:3]`` work on all of them, ``numpy()`` gives
an array; :func:`concat` joins columns of one kind. What compares columns is numpy, or a filter.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, overload
from uuid import UUID

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.events import kernels
from dotnetdiag.events.layout import Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal
    from typing import Self

Array: TypeAlias = "np.ndarray[Any, Any]"
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

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


def _pick(valid: Mask | None, rows: Array) -> Mask | None:
    return None if valid is None else valid[rows]


def _rows(rows: Array | Sequence[int]) -> Array:
    if isinstance(rows, range):
        return np.arange(rows.start, rows.stop, rows.step, dtype=np.int64)
    picked = np.asarray(rows)
    return np.flatnonzero(picked) if picked.dtype == np.bool_ else picked.astype(np.int64, copy=False)


def _with_nulls(values: list[Any], valid: Mask | None) -> list[Any]:
    if valid is None:
        return values
    return [value if good else None for value, good in zip(values, valid.tolist(), strict=True)]


SHOWN_VALUES, SHOWN_CHARACTERS = 8, 40
"""Of a column's repr: so many values, each of so many characters at most."""
PIECE_ROWS = 1 << 16
"""Rows that become Python's values at once where a column is iterated."""


class NoOperator(UsageError, TypeError):
    """Columns are not compared as numbers are."""


class _Rows:
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


class Scalar(_Rows):
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
        return list(map(str, _with_nulls(texts, self.valid)))

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
        return _Rows.numpy(Scalar(self.values, self.valid, self.kind))

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
        return _with_nulls(self._list(self.values), self.valid)

    def take(self, rows: Array | Sequence[int]) -> Scalar:
        """The column of some rows."""
        rows = _rows(rows)
        return Scalar(self.values[rows], _pick(self.valid, rows), self.kind)


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
        rows = _rows(rows)
        return Scalar(self._narrow[rows].astype(self._type), _pick(self._known, rows), self.kind)

    def piece(self, first: int, last: int) -> Scalar:
        """The same of rows from one to before another."""
        known = None if self._known is None else np.ascontiguousarray(self._known[first:last])
        return Scalar(self._narrow[first:last].astype(self._type), known, self.kind)


class Names(Protocol):
    """Gives names to numbers; ``catalogue.ValueMap`` is one."""

    def text(self, value: int, /) -> str: ...


class EnumValue(int):
    """A number that shows as its name, and equals both: ``event["Reason"] == 1``, ``event["Reason"] == "Induced"``. In a set, or as the key
    of a dict, it is the number.
    """

    name: str

    @classmethod
    def of(cls, number: int, names: Names) -> EnumValue:
        """The value of a number."""
        made = cls(number)
        made.name = names.text(number)
        return made

    def __eq__(self, other: object) -> bool:
        return self.name == other if isinstance(other, str) else int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __format__(self, form: str) -> str:
        return format(int(self) if form and form[-1] in "bcdeEfFgGnoxX%" else self.name, form)


class Enumerated(Scalar):
    """Numbers that have names: ``values`` and ``numpy()`` are the numbers, what they are as texts and as values of Python is the names;
    numbers without a name are texts too.

    ``names`` are those of all rows; of several kinds of them, and None for numbers that have none, ``which`` says by row which it has.
    """

    __slots__ = ("names", "which")

    def __init__(self, numbers: Scalar, names: Sequence[Names | None], which: Array | None = None) -> None:
        super().__init__(numbers.values, numbers.valid, numbers.kind)
        self.names, self.which = tuple(names), which

    @property
    def numbers(self) -> Scalar:
        """The column without the names."""
        return Scalar(self.values, self.valid, self.kind)

    def coded(self) -> Coded:
        """The names as a column of texts."""
        texts: list[str] = []
        codes = np.zeros(len(self), np.int64)
        for at, names in enumerate(self.names):
            rows: Any = slice(None) if self.which is None else np.flatnonzero(self.which == at)
            distinct, which = np.unique(self.values[rows], return_inverse=True)
            codes[rows] = which + len(texts)
            texts += map(str if names is None else names.text, distinct.tolist())
        return Coded(Text.from_pylist(texts), codes, self.valid)

    def item(self, row: int) -> Any:
        """The name of one row's value."""
        row = range(len(self))[row]
        return self.take([row]).coded().item(0)

    def to_pylist(self) -> list[Any]:
        """All names; equal ones are one object."""
        return list(self.coded().to_pylist())

    def enum_values(self) -> list[EnumValue | None]:
        """Numbers that show as their names, where all rows have the same names; equal ones are one object."""
        (names,) = self.names
        assert names is not None
        distinct, which = np.unique(self.values, return_inverse=True)
        made = np.empty(len(distinct), object)
        made[:] = [EnumValue.of(number, names) for number in distinct.tolist()]
        return _with_nulls(made[which].tolist(), self.valid)

    def take(self, rows: Array | Sequence[int]) -> Enumerated:
        """The column of some rows."""
        rows = _rows(rows)
        return Enumerated(super().take(rows), self.names, None if self.which is None else self.which[rows])


class _Variable(_Rows):
    """What Text and Bytes share: offsets into a pool of bytes."""

    __slots__ = ("_data", "_offsets", "_spans", "valid")

    def __init__(self, offsets: Array, data: Array, valid: Mask | None = None) -> None:
        self._offsets: Array | None = offsets
        self._data: Array | None = data
        self._spans: Spans | None = None
        self.valid = valid

    @property
    def spans(self) -> Spans | None:
        """Where the values lie in the payloads, as long as they were not copied out (``decode`` with ``lazy_text``)."""
        return self._spans

    def load(self) -> None:
        """Copy the values out of the payloads, when they still lie there."""
        if self._data is None:
            assert self._spans is not None
            self._offsets, self._data = self._spans.pool()
            self._spans = None

    @property
    def offsets(self) -> Array:
        """Row → first byte, i64, one more than rows."""
        self.load()
        assert self._offsets is not None
        return self._offsets

    @property
    def data(self) -> Array:
        """The bytes of all rows."""
        self.load()
        assert self._data is not None
        return self._data

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.offsets.nbytes + self.data.nbytes

    def __len__(self) -> int:
        return len(self._spans.starts) if self._spans is not None else len(self.offsets) - 1

    def _raw(self, row: int) -> bytes:
        row = range(len(self))[row]
        raw: bytes = self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()
        return raw

    def _parts(self) -> list[bytes]:
        raw, bounds = self.data.tobytes(), self.offsets.tolist()
        return [raw[start:end] for start, end in pairwise(bounds)]

    def _taken(self, rows: Array) -> tuple[Array, Array]:
        starts = self.offsets[:-1][rows]
        lengths = self.offsets[1:][rows] - starts
        return kernels.gather(self.data, starts, lengths)


class Spans:
    """Where values lie in the payloads. ``encoding`` is utf8 or utf16; ``ascii`` when known to be no more."""

    __slots__ = ("ascii", "buffer", "encoding", "lengths", "starts")

    def __init__(self, buffer: Array, starts: Array, lengths: Array, encoding: str, ascii_only: bool) -> None:
        self.buffer, self.starts, self.lengths = buffer, starts, lengths
        self.encoding, self.ascii = encoding, ascii_only

    def take(self, rows: Array) -> Spans:
        """Those of some rows."""
        return Spans(self.buffer, self.starts[rows], self.lengths[rows], self.encoding, self.ascii)

    def pool(self) -> tuple[Array, Array]:
        """Offsets and bytes: copied, or made UTF-8."""
        if self.encoding == "utf16":
            return kernels.transcode(self.buffer, self.starts, self.lengths, self.ascii)
        offsets, data = kernels.gather(self.buffer, self.starts, self.lengths)
        if len(data) and int(data.max()) > 0x7F:
            bounds, raw = offsets.tolist(), data.tobytes()
            parts = [raw[start:end].decode("utf-8", "replace").encode() for start, end in pairwise(bounds)]
            offsets = np.zeros(len(parts) + 1, np.int64)
            np.cumsum([len(part) for part in parts], out=offsets[1:])
            data = np.frombuffer(b"".join(parts), np.uint8)
        return offsets, data


class Text(_Variable):
    """One text per row. Made from spans of the payloads, it becomes UTF-8 when first asked."""

    __slots__ = ()

    @classmethod
    def from_spans(cls, spans: Spans, valid: Mask | None) -> Text:
        """A column whose bytes still lie in the payloads; keeps their buffer alive until :meth:`load`."""
        made = cls.__new__(cls)
        made._offsets = made._data = None
        made._spans, made.valid = spans, valid
        return made

    @classmethod
    def from_pylist(cls, values: Sequence[str | None]) -> Text:
        """The column of these texts."""
        parts = [b"" if value is None else value.encode("utf-8", "surrogatepass") for value in values]
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        valid = np.array([value is not None for value in values], np.bool_)
        return cls(offsets, np.frombuffer(b"".join(parts), np.uint8), None if valid.all() else valid)

    def item(self, row: int) -> str | None:
        """The text of one row."""
        if self.valid is not None and not self.valid[row]:
            return None
        return self._raw(row).decode("utf-8", "surrogatepass")

    def to_pylist(self) -> list[str | None]:
        """All texts."""
        if not len(self.data) or int(self.data.max()) < 0x80:  # one decode, then slices
            text, bounds = self.data.tobytes().decode("ascii"), self.offsets.tolist()
            texts = [text[start:end] for start, end in pairwise(bounds)]
        else:
            texts = [part.decode("utf-8", "surrogatepass") for part in self._parts()]
        return _with_nulls(texts, self.valid)

    def take(self, rows: Array | Sequence[int]) -> Text:
        """The column of some rows."""
        rows = _rows(rows)
        if self._spans is not None:
            spans = self._spans
            return Text.from_spans(spans.take(rows), _pick(self.valid, rows))
        return Text(*self._taken(rows), _pick(self.valid, rows))


class Coded(Text):
    """A column of few different texts: ``which`` says of each row which of ``texts`` it has. Written out when its bytes are asked for."""

    __slots__ = ("_texts", "which")

    def __init__(self, texts: Text | Sequence[str], which: Array, valid: Mask | None = None) -> None:
        """``texts`` that are no column become one when somebody asks for it."""
        self._offsets = self._data = None
        self._spans, self.valid = None, valid
        self._texts: Text | Sequence[str] = texts
        self.which = which

    @property
    def texts(self) -> Text:
        """Those that there are."""
        if not isinstance(self._texts, Text):
            self._texts = Text.from_pylist(self._texts)
        return self._texts

    @classmethod
    def naming(cls, numbers: Scalar, name: Callable[[int], str]) -> Coded:
        """The names of numbers."""
        distinct, which = np.unique(numbers.values, return_inverse=True)
        return cls(Text.from_pylist([name(value) for value in distinct.tolist()]), which, numbers.valid)

    def load(self) -> None:
        """Write the texts out."""
        if self._data is None:
            self._offsets, self._data = self.texts._taken(self.which)

    def __len__(self) -> int:
        return len(self.which)

    def item(self, row: int) -> str | None:
        """The text of one row."""
        return self.texts.item(int(self.which[row])) if self.valid is None or self.valid[row] else None

    def to_pylist(self) -> list[str | None]:
        """All texts; equal ones are one object."""
        texts, which = self.texts, self.which
        if len(texts) > len(which):  # as of a few rows of a table: the others need not be decoded
            used, which = np.unique(which, return_inverse=True)
            texts = texts.take(used)
        known = texts.to_pylist()
        return _with_nulls([known[number] for number in which.tolist()], self.valid)

    def take(self, rows: Array | Sequence[int]) -> Coded:
        """The column of some rows."""
        rows = _rows(rows)
        return Coded(self._texts, self.which[rows], _pick(self.valid, rows))


class Bytes(_Variable):
    """Some bytes per row."""

    __slots__ = ()

    def item(self, row: int) -> bytes | None:
        """The bytes of one row."""
        if self.valid is not None and not self.valid[row]:
            return None
        return self._raw(row)

    def to_pylist(self) -> list[bytes | None]:
        """All of them."""
        return _with_nulls(list(self._parts()), self.valid)

    def take(self, rows: Array | Sequence[int]) -> Bytes:
        """The column of some rows."""
        rows = _rows(rows)
        return Bytes(*self._taken(rows), _pick(self.valid, rows))


class ListOf(_Rows):
    """A list per row: ``child[offsets[row]:offsets[row + 1]]``."""

    __slots__ = ("child", "offsets", "valid")

    def __init__(self, offsets: Array, child: Column, valid: Mask | None = None) -> None:
        self.offsets, self.child, self.valid = offsets, child, valid

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.offsets.nbytes + self.child.nbytes

    def item(self, row: int) -> list[Any] | None:
        """The list of one row."""
        if self.valid is not None and not self.valid[row]:
            return None
        row = range(len(self))[row]
        return self.child.take(np.arange(self.offsets[row], self.offsets[row + 1])).to_pylist()

    def to_pylist(self) -> list[list[Any] | None]:
        """All lists."""
        values, bounds = self.child.to_pylist(), self.offsets.tolist()
        return _with_nulls([values[start:end] for start, end in pairwise(bounds)], self.valid)

    def take(self, rows: Array | Sequence[int]) -> ListOf:
        """The column of some rows."""
        rows = _rows(rows)
        starts = self.offsets[:-1][rows]
        lengths = self.offsets[1:][rows] - starts
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        inner = np.arange(offsets[-1], dtype=np.int64) + np.repeat(starts - offsets[:-1], lengths)
        return ListOf(offsets, self.child.take(inner), _pick(self.valid, rows))


class Maps(ListOf):
    """Texts by name in each row, other names in each: ``which`` says which of ``maps`` a row has. As a list it is of structures of ``key``
    and ``value``, written out when it is asked for.
    """

    __slots__ = ("_written", "maps", "which")

    def __init__(self, maps: Sequence[Mapping[str, str]], which: Array, valid: Mask | None = None) -> None:
        self.maps, self.which, self.valid = tuple(maps), which, valid
        self._written: ListOf | None = None

    def _list(self) -> ListOf:
        if self._written is None:
            bounds = np.zeros(len(self.maps) + 1, np.int64)
            np.cumsum([len(one) for one in self.maps], out=bounds[1:])
            pairs = {
                "key": Text.from_pylist([key for one in self.maps for key in one]),
                "value": Text.from_pylist([value for one in self.maps for value in one.values()]),
            }
            self._written = ListOf(bounds, Struct(pairs, int(bounds[-1]))).take(self.which)
        return self._written

    @property
    def offsets(self) -> Array:  # type: ignore[override]
        """Row → first pair, i64, one more than rows."""
        return self._list().offsets

    @property
    def child(self) -> Column:  # type: ignore[override]
        """The pairs of all rows."""
        return self._list().child

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the maps."""
        return int(self.which.nbytes)

    def __len__(self) -> int:
        return len(self.which)

    def item(self, row: int) -> dict[str, str] | None:  # type: ignore[override]
        """The texts of one row by name."""
        if self.valid is not None and not self.valid[row]:
            return None
        return dict(self.maps[int(self.which[row])])

    def to_pylist(self) -> list[dict[str, str] | None]:  # type: ignore[override]
        """All rows; equal ones are one object."""
        known = [dict(one) for one in self.maps]
        return _with_nulls([known[number] for number in self.which.tolist()], self.valid)

    def take(self, rows: Array | Sequence[int]) -> Maps:
        """The column of some rows."""
        rows = _rows(rows)
        return Maps(self.maps, self.which[rows], _pick(self.valid, rows))


class Struct(_Rows):
    """Named columns of as many rows; ``count`` says how many where there is no column."""

    __slots__ = ("count", "fields", "valid")

    def __init__(self, fields: Mapping[str, Column], count: int, valid: Mask | None = None) -> None:
        self.fields, self.count, self.valid = dict(fields), count, valid

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(column.nbytes for column in self.fields.values())

    def item(self, row: int) -> dict[str, Any] | None:
        """The fields of one row."""
        if self.valid is not None and not self.valid[row]:
            return None
        row = range(len(self))[row]
        return {name: column.item(row) for name, column in self.fields.items()}

    def to_pylist(self) -> list[dict[str, Any] | None]:
        """All rows."""
        names = list(self.fields)
        if not names:
            return _with_nulls([{} for _ in range(self.count)], self.valid)
        columns = [column.to_pylist() for column in self.fields.values()]
        return _with_nulls([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)], self.valid)

    def take(self, rows: Array | Sequence[int]) -> Struct:
        """The column of some rows."""
        rows = _rows(rows)
        fields = {name: column.take(rows) for name, column in self.fields.items()}
        return Struct(fields, len(rows), _pick(self.valid, rows))


Column: TypeAlias = Scalar | Text | Bytes | ListOf | Struct


def nulls(like: Column, count: int) -> Column:
    """A column of ``count`` rows without a value, of the kind of ``like``."""
    valid = np.zeros(count, np.bool_)
    offsets = np.zeros(count + 1, np.int64)
    if isinstance(like, Scalar):
        return Scalar(np.zeros(count, like.values.dtype), valid, like.kind)
    if isinstance(like, ListOf):
        return ListOf(offsets, like.child.take(np.zeros(0, np.int64)), valid)
    if isinstance(like, Struct):
        return Struct({name: nulls(column, count) for name, column in like.fields.items()}, count, valid)
    return (Text if isinstance(like, Text) else Bytes)(offsets, np.zeros(0, np.uint8), valid)


def concat(columns: Sequence[Column]) -> Column:
    """The rows of all columns, one after another. :class:`UsageError` when their kinds differ."""
    first = columns[0]
    if len(columns) == 1:
        return first
    if len({next((one for one in (Text, Scalar) if isinstance(column, one)), type(column)) for column in columns}) > 1:
        raise UsageError("columns of different kinds cannot be joined")
    valid: Mask | None = None
    if any(column.valid is not None for column in columns):
        valid = np.concatenate(
            [column.valid if column.valid is not None else np.ones(len(column), np.bool_) for column in columns]
        )
    if isinstance(first, Scalar):
        return Scalar(np.concatenate([column.values for column in columns]), valid, first.kind)  # type: ignore[union-attr]
    if isinstance(first, Struct):
        fields = {name: concat([column.fields[name] for column in columns]) for name in first.fields}  # type: ignore[union-attr]
        return Struct(fields, sum(len(column) for column in columns), valid)
    bounds = [column.offsets for column in columns]  # type: ignore[union-attr]
    bases = np.cumsum([0] + [int(bound[-1] - bound[0]) for bound in bounds])
    parts = [bound[1:] - bound[0] + base for bound, base in zip(bounds, bases, strict=False)]
    offsets = np.concatenate([np.zeros(1, np.int64), *parts])
    if isinstance(first, ListOf):
        return ListOf(offsets, concat([column.child for column in columns]), valid)  # type: ignore[union-attr]
    data = np.concatenate([column.data[bound[0] : bound[-1]] for column, bound in zip(columns, bounds, strict=True)])  # type: ignore[union-attr]
    return (Text if isinstance(first, Text) else Bytes)(offsets, data, valid)


def numbers_of(column: Column) -> Column:
    """The column with numbers, where they have names."""
    return column.numbers if isinstance(column, Enumerated) else column


def json_value(value: Any) -> Any:
    """The value in the forms of JSON: bytes as ``hex:…``, GUIDs as text, NaN and infinities by name."""
    if isinstance(value, bytes):
        return "hex:" + value.hex()
    if isinstance(value, float) and value * 0 != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {name: json_value(item) for name, item in value.items()}
    return value if value is None or isinstance(value, str | int | float) else str(value)
