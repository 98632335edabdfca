"""A text, or some bytes, for each event; and numbers that have names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from dotnetdiag.events import kernels
from dotnetdiag.events.number_columns import Mask, Rows, Scalar, picked, rows_of, with_nulls

if TYPE_CHECKING:
    from collections.abc import Callable

Array: TypeAlias = "np.ndarray[Any, Any]"


class _Variable(Rows):
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
        return with_nulls(texts, self.valid)

    def take(self, rows: Array | Sequence[int]) -> Text:
        """The column of some rows."""
        rows = rows_of(rows)
        if self._spans is not None:
            spans = self._spans
            return Text.from_spans(spans.take(rows), picked(self.valid, rows))
        return Text(*self._taken(rows), picked(self.valid, rows))


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
        return with_nulls([known[number] for number in which.tolist()], self.valid)

    def take(self, rows: Array | Sequence[int]) -> Coded:
        """The column of some rows."""
        rows = rows_of(rows)
        return Coded(self._texts, self.which[rows], picked(self.valid, rows))


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
        return with_nulls(list(self._parts()), self.valid)

    def take(self, rows: Array | Sequence[int]) -> Bytes:
        """The column of some rows."""
        rows = rows_of(rows)
        return Bytes(*self._taken(rows), picked(self.valid, rows))


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
        return with_nulls(made[which].tolist(), self.valid)

    def take(self, rows: Array | Sequence[int]) -> Enumerated:
        """The column of some rows."""
        rows = rows_of(rows)
        return Enumerated(super().take(rows), self.names, None if self.which is None else self.which[rows])
