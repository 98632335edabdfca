"""Values of one field for many events, as arrays.

==========  ==============================================================================================
column      arrays
Scalar      ``values`` (one number per row; 16 bytes per row for GUID and decimal), ``valid``
Text        ``offsets`` (i64, rows + 1) into ``data`` (UTF-8; a lone surrogate stays as its three bytes), ``valid``
Bytes       ``offsets`` (i64, rows + 1) into ``data``, ``valid``
ListOf      ``offsets`` (i64, rows + 1) into the rows of ``child``, ``valid``
Struct      ``fields`` (name → column, each of as many rows), ``valid``
==========  ==============================================================================================

``valid`` is None when every row has a value, else one bool per row. ``len()``, ``item(row)`` (a Python value or None),
``to_pylist()``, ``take(rows)`` (numbers or a mask) work on all of them; :func:`concat` joins columns of one kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.events import kernels
from dotnetdiag.events.layout import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

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
    picked = np.asarray(rows)
    return np.flatnonzero(picked) if picked.dtype == np.bool_ else picked.astype(np.int64, copy=False)


def _with_nulls(values: list[Any], valid: Mask | None) -> list[Any]:
    if valid is None:
        return values
    return [value if good else None for value, good in zip(values, valid.tolist(), strict=True)]


class Scalar:
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


class _Variable:
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
            picked = Spans(spans.buffer, spans.starts[rows], spans.lengths[rows], spans.encoding, spans.ascii)
            return Text.from_spans(picked, _pick(self.valid, rows))
        return Text(*self._taken(rows), _pick(self.valid, rows))


class Coded(Text):
    """A column of few different texts: ``which`` says of each row which of ``texts`` it has. Written out when its bytes are asked for."""

    __slots__ = ("texts", "which")

    def __init__(self, texts: Text, which: Array, valid: Mask | None = None) -> None:
        self._offsets = self._data = None
        self._spans, self.valid = None, valid
        self.texts, self.which = texts, which

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
        known = self.texts.to_pylist()
        return _with_nulls([known[number] for number in self.which.tolist()], self.valid)

    def take(self, rows: Array | Sequence[int]) -> Coded:
        """The column of some rows."""
        rows = _rows(rows)
        return Coded(self.texts, self.which[rows], _pick(self.valid, rows))


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


class ListOf:
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


class Struct:
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
    if len({Text if isinstance(column, Text) else type(column) for column in columns}) > 1:
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


def json_value(value: Any) -> Any:
    """The value in the forms of JSON: bytes as ``hex:…``, GUIDs as text, NaN and infinities by name."""
    if isinstance(value, bytes):
        return "hex:" + value.hex()
    if isinstance(value, float) and value * 0 != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {name: json_value(item) for name, item in value.items()}
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    return value
