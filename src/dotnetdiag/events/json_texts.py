"""Values as texts of JSON, and rows woven of them, compiled or by plain Python, with arrays in and arrays out.

Texts of values are :data:`Cells`: where that of each row starts and ends in some bytes. What is not ``valid`` (None: all is) is ``null``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.events import kernels

Array: TypeAlias = "np.ndarray[Any, Any]"
Cells: TypeAlias = tuple[Array, Array, Array]
"""(starts, ends, bytes); the first two are i64, one for each row."""

LONGEST_NUMBER = 25
"""Bytes of a number, at most."""
_PLAIN_LIMIT = 1e15
"""Whole floats below it may stand without a fraction."""
_NULL = np.frombuffer(b"null", np.uint8)
NO_TIME = -(1 << 63)
"""numpy's NaT."""
_CELLS_SIZE = 32
_SLACK = 16


def _widths(*, ascii_only: bool, controls: bool) -> Array:
    """Bytes that a byte of UTF-8 takes at most; 1 of ASCII that stands for itself alone."""
    made = np.ones(256, np.uint8)
    made[:32] = 6
    made[[*b'"\\\b\t\n\f\r']] = 2
    if controls or ascii_only:
        made[0x7F] = made[0xC2] = 6
    made[0xED] = 6  # a lone surrogate, perhaps
    if ascii_only:
        made[0xC0:0xF0], made[0xF0:] = 6, 12
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Quoting:
    """What stands escaped in a text beside what JSON wants so, and lone surrogates: from U+007F on what is below ``limit``."""

    limit: int
    widths: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        widths = _widths(ascii_only=self.limit > 0xFFFF, controls=self.limit > 0x7F)
        object.__setattr__(self, "widths", widths)

    def text(self, value: str) -> str:
        """A text in quotes."""
        if self.limit > 0xFFFF:
            return encode_basestring_ascii(value)
        made = encode_basestring(value)
        return made if made.isascii() and "\x7f" not in made else _ESCAPED[self.limit].sub(_escape, made)


READABLE, CLEAN, ASCII = Quoting(0x7F), Quoting(0xA0), Quoting(0x110000)
"""As little as JSON wants; what drives no terminal; all that is not ASCII."""
_ESCAPED = {READABLE.limit: re.compile(r"[\ud800-\udfff]"), CLEAN.limit: re.compile(r"[\x7f-\x9f\ud800-\udfff]")}


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def cells_of(texts: Sequence[bytes]) -> Cells:
    """Texts that are JSON."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=offsets[1:])
    return offsets[:-1], offsets[1:], np.frombuffer(b"".join(texts), np.uint8)


def _flags(valid: Array | None) -> Array | None:
    return None if valid is None else np.ascontiguousarray(valid).view(np.uint8)


def _with_nulls(texts: list[bytes], valid: Array | None) -> Cells:
    if valid is None:
        return cells_of(texts)
    return cells_of([text if good else b"null" for text, good in zip(texts, valid.tolist(), strict=True)])


def whole_numbers(values: Array, valid: Array | None = None) -> Cells:
    """Numbers of any whole type."""
    if kernels.KERNELS is None:
        return _with_nulls([b"%d" % value for value in values.tolist()], valid)
    offsets, out = _room(len(values), len(values) * LONGEST_NUMBER)
    signed = values.dtype.kind != "u"
    numbers = np.ascontiguousarray(values, np.int64 if signed else np.uint64).view(np.int64)
    kernels.KERNELS.whole_texts(numbers, signed, _flags(valid), offsets, out)
    return offsets[:-1], offsets[1:], out


def floats(values: Array, valid: Array | None = None, *, plain: bool = False) -> Cells:
    """Floats as ``repr`` has them, null for what is no number; or ``plain``: whole ones without a fraction, and no numbers by name."""
    values = np.ascontiguousarray(values, np.float64)
    if kernels.KERNELS is None:
        return _with_nulls([_float_text(value, plain=plain).encode() for value in values.tolist()], valid)
    offsets, out = _room(len(values), len(values) * LONGEST_NUMBER)
    kernels.KERNELS.double_texts(values, plain, _flags(valid), offsets, out)
    return offsets[:-1], offsets[1:], out


def _float_text(value: float, *, plain: bool) -> str:
    if value * 0 != 0:
        return ('"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"') if plain else "null"
    text = repr(value)
    return text[:-2] if plain and text[-2:] == ".0" and abs(value) < _PLAIN_LIMIT else text


def times(values: Array, valid: Array | None = None, *, decimals: int = 9) -> Cells:
    """ns since 1970 as ISO 8601, in quotes, with so many decimals (cut off) and ``Z``. Raises ValueError for NaT."""
    if (values == NO_TIME).any():
        raise ValueError("no time")
    numbers = np.ascontiguousarray(values, np.int64)
    made = np.empty((len(numbers), decimals + 23), np.uint8)
    if kernels.KERNELS is not None:
        kernels.KERNELS.time_texts(numbers, decimals, made)
    else:
        texts = np.datetime_as_string(numbers.view("datetime64[ns]"), unit="ns").astype("S29")
        made[:, 1:-2] = texts.view(np.uint8).reshape(len(texts), 29)[:, : 20 + decimals]
        made[:, [0, -2, -1]] = [*b'"Z"']
    ends = np.arange(1, len(made) + 1, dtype=np.int64) * made.shape[1]
    return masked((ends - made.shape[1], ends, made.reshape(-1)), valid)


def masked(cells: Cells, valid: Array | None) -> Cells:
    """The same, ``null`` where they are not valid."""
    if valid is None or valid.all():
        return cells
    starts, ends, pool = cells
    return (
        np.where(valid, starts, len(pool)),
        np.where(valid, ends, len(pool) + len(_NULL)),
        np.concatenate([pool, _NULL]),
    )


def taken(cells: Cells, rows: Array) -> Cells:
    """Those of some rows."""
    return cells[0][rows], cells[1][rows], cells[2]


def truths(values: Array, valid: Array | None = None) -> Cells:
    """``true`` and ``false``."""
    which = values.astype(np.intp)
    if valid is not None:
        which[~valid] = 2
    return np.array([0, 5, 9])[which], np.array([5, 9, 13])[which], np.frombuffer(b"falsetruenull", np.uint8)


def texts(offsets: Array, data: Array, valid: Array | None, quoting: Quoting) -> Cells:
    """Texts of UTF-8, in which a lone surrogate has three bytes. Raises UnicodeDecodeError."""
    first, last = int(offsets[0]), int(offsets[-1])
    if kernels.KERNELS is not None:
        rows = len(offsets) - 1
        made, out = _room(rows, int(quoting.widths[data[first:last]].sum(dtype=np.int64)) + 4 * rows + _SLACK)
        bounds = np.ascontiguousarray(offsets, np.int64)
        data = np.ascontiguousarray(data)
        if kernels.KERNELS.quoted_texts(data, bounds, _flags(valid), quoting.widths, quoting.limit, made, out):
            return made[:-1], made[1:], out
    raw = data.tobytes()
    strings = (raw[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(offsets.tolist()))
    return _with_nulls([quoting.text(one).encode() for one in strings], valid)


def _room(rows: int, size: int) -> tuple[Array, Array]:
    return np.empty(rows + 1, np.int64), np.empty(size, np.uint8)


def woven(columns: Sequence[Cells], words: Sequence[bytes], rows: int) -> tuple[Array, Array]:
    """(bytes of each row, all of them): of each row, a word and a cell by turns, and the last word."""
    if kernels.KERNELS is None:
        template = b"%b".join(word.replace(b"%", b"%%") for word in words)
        parts = zip(*(_parts(cells, rows) for cells in columns), strict=True) if columns else [()] * rows
        texts = list(map(template.__mod__, parts))
        return np.fromiter(map(len, texts), np.int64, rows), np.frombuffer(b"".join(texts), np.uint8)
    whole: list[Any] = [tuple(map(np.ascontiguousarray, cells)) for cells in columns]
    scratch = np.empty(_CELLS_SIZE * max(len(columns), 1), np.uint8)
    bounds = np.array([0, *accumulate(map(len, words))], np.int64)
    sizes = np.empty(rows, np.int64)
    out = np.empty(kernels.KERNELS.row_sizes(whole, int(bounds[-1]), scratch, sizes), np.uint8)
    _, sound = kernels.KERNELS.weave(whole, rows, np.frombuffer(b"".join(words), np.uint8), bounds, scratch, out)
    assert sound
    return sizes, out


def _parts(cells: Cells, rows: int) -> list[bytes]:
    starts, ends, pool = cells
    raw = pool.tobytes()
    return [raw[start:end] for start, end in zip(starts[:rows].tolist(), ends[:rows].tolist(), strict=True)]
