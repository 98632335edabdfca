"""Rows of a table as objects of JSON, made column by column and woven together.

Two forms: what a command line answers with (:func:`answer`), which is what ``json.dumps`` makes of ``to_pylist``; and what other programs read
(:func:`lines`), which has the values of :mod:`~dotnetdiag.table.texts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Text
from dotnetdiag.events import json_texts as made
from dotnetdiag.events.columns import Coded, Enumerated, Narrow
from dotnetdiag.events.json_texts import ASCII, CLEAN, READABLE, Cells, Quoting
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import sliced
from dotnetdiag.table.sliced import SlicedTable
from dotnetdiag.table.table import Table, is_json
from dotnetdiag.table.texts import json_values, time_texts, value_texts

if TYPE_CHECKING:
    from dotnetdiag.table.html import Tabular

Given: TypeAlias = Column | Sequence[Any]
Part: TypeAlias = Callable[[int, int], Cells]
"""Cells of the rows from one to before another."""

PIECE_CELLS, PIECE_BYTES, PIECE_ROWS = 1 << 16, 1 << 21, 1 << 12
"""What is woven at once has so many cells at most, about so many bytes of texts, and so many rows."""
_AS_TEXT = frozenset({Kind.CHAR, Kind.CHAR8, Kind.GUID, Kind.DECIMAL})


@dataclass(frozen=True, slots=True)
class _Form:
    quoting: Quoting
    plain: bool
    """Whole floats without a fraction, and what is no number by name; else null."""
    is_number: Callable[[Scalar], bool]
    """Whether whole numbers of a column stand as they are."""
    others: Callable[[Any], list[str]]
    """JSON of values, or of the rows of a column, that have no loop."""
    quotes_bytes: bool


def answer(table: Table, text_of: Callable[[Any], str], *, ascii_only: bool, margin: int = 0) -> Iterator[str]:
    """A list of objects, as ``json.dumps(table.to_pylist(), indent=2, default=str)`` has it, in pieces; ``null`` for what is no number.

    What drives a terminal is escaped, and with ``ascii_only`` all that is not ASCII. ``text_of`` makes the JSON of all values that are no numbers,
    texts or truths, with that indentation and those escapes. Lines but the first begin with ``margin`` blanks.
    """
    if not len(table):
        yield "[]"
        return
    line = "\n" + " " * margin
    inner = f"{line}    "

    def others(values: Any) -> list[str]:
        listed = values if isinstance(values, tuple | list | range) else values.to_pylist()
        return [text_of(value).replace("\n", inner) for value in listed]

    form = _Form(ASCII if ascii_only else CLEAN, False, lambda column: column.kind != Kind.DATETIME, others, True)
    words = _words(f"{line}  {{", [f"{inner}{text_of(name)}: " for name in table.columns], ",", f"{line}  }},")
    before = "["
    for part in table.pieces(sliced.SLICE_ROWS) if isinstance(table, SlicedTable) else [table]:
        for piece in _woven(part, [_given(part, name) for name in part.columns], form, words):
            yield before + str(piece[:-1].data, "utf-8")
            before = ","
    yield f"{line}]"


def in_json_forms(table: Table) -> Table:
    """The table whose ``to_pylist`` is the ``to_json`` of this one."""
    return Table({name: _in_json_forms(table, name) for name in table.columns})


def _in_json_forms(table: Table, name: str) -> Given:
    given = table._given(name)
    if given is not None and is_json(given):
        return given
    column = table[name]
    if isinstance(column, Scalar) and column.kind == Kind.TIMESTAMP:
        return Text.from_pylist(time_texts(column))
    if isinstance(column, Bytes):
        return Text.from_pylist(json_values(column))
    is_plain = isinstance(column, Text) or (
        isinstance(column, Scalar) and (column.values.dtype.kind != "f" or bool(np.isfinite(column.values).all()))
    )
    return column if is_plain else json_values(column)


def lines(table: Tabular, end: bytes) -> Iterator[bytes]:
    """An object for each row on a line, which ``end`` follows; some rows at a time."""
    words_of = READABLE.text
    for piece in table.pieces(sliced.SLICE_ROWS) if isinstance(table, SlicedTable) else table.pieces():
        if len(piece):
            words = _words("{", [f"{words_of(name)}: " for name in piece.columns], ", ", "}" + end.decode())
            for some in _woven(piece, [piece[name] for name in piece.columns], _LINES, words):
                yield some.tobytes()


def cells_of(column: Column) -> Cells:
    """The values of a column as :func:`lines` has them."""
    return _part(column, _LINES)(0, len(column))


_LINES = _Form(
    quoting=READABLE,
    plain=True,
    is_number=lambda column: column.kind not in (Kind.DATETIME, Kind.TIMESTAMP),
    others=lambda column: list(map(str, value_texts(column))),
    quotes_bytes=False,
)


def _given(table: Table, name: str) -> Given:
    given = table._given(name)
    return table[name] if given is None else given


def _words(begin: str, names: Sequence[str], between: str, end: str) -> list[bytes]:
    """What stands before, between and behind the cells of a row."""
    before = [f"{between if number else begin}{name}" for number, name in enumerate(names)]
    return [word.encode("utf-8", "backslashreplace") for word in ((*before, end) if names else (begin + end,))]


def _woven(
    table: Tabular, columns: Sequence[Given], form: _Form, words: Sequence[bytes]
) -> Iterator[np.ndarray[Any, Any]]:
    parts = [_part(column, form) for column in columns]
    rows, most = len(table), max(1, min(PIECE_CELLS // max(len(columns), 1), PIECE_ROWS))
    ends = np.zeros(rows + 1, np.int64)  # of the rows' texts, if they stood behind each other
    for column in columns:
        _add_text_bytes(column, ends[1:])
    np.cumsum(ends, out=ends)
    first = 0
    while first < rows:
        full = int(np.searchsorted(ends, ends[first] + PIECE_BYTES, "right")) - 1
        last = min(rows, first + most, max(full, first + 1))
        yield made.woven([part(first, last) for part in parts], words, last - first)[1]
        first = last


def _add_text_bytes(column: Given, to: np.ndarray[Any, Any]) -> None:
    """Of each row: of few texts, one that is long may be that of many rows."""
    if isinstance(column, Coded):
        if len(column.texts):
            to += np.diff(column.texts.offsets)[column.which]
    elif isinstance(column, Text | Bytes | ListOf):
        to += np.diff(column.offsets)


def _part(column: Given, form: _Form) -> Part:
    if isinstance(column, tuple | list | range):
        values: Sequence[Any] = column
        return lambda first, last: _of_values(values[first:last], form)
    if isinstance(column, Enumerated):
        column = column.coded()
    if isinstance(column, Coded):
        return _coded(column, form)
    if isinstance(column, Text):
        return lambda first, last: made.texts(
            column.offsets[first : last + 1], column.data, _cut(column.valid, first, last), form.quoting
        )
    if isinstance(column, Scalar):
        return _scalar(column, form)
    if isinstance(column, Bytes) and form.quotes_bytes:
        return lambda first, last: _quoted(column[first:last].to_pylist(), form)
    return _others(column, form)


def _others(column: Given, form: _Form) -> Part:
    return lambda first, last: _of_texts(form.others(column[first:last]))


def _scalar(column: Scalar, form: _Form) -> Part:
    """Numbers, truths, and what shows as a text."""
    if isinstance(column, Narrow):  # written out they would be the size of all of the table
        return lambda first, last: _scalar(column.piece(first, last), form)(0, last - first)
    values, valid = column.values, column.valid
    kind, size = values.dtype.kind, values.dtype.itemsize
    if column.kind == Kind.TIMESTAMP and not form.is_number(column) and not (values == made.NO_TIME).any():
        return lambda first, last: made.times(values[first:last], _cut(valid, first, last))
    if column.kind in _AS_TEXT:
        return lambda first, last: _quoted(column[first:last].to_pylist(), form)
    if kind == "b":
        return lambda first, last: made.truths(values[first:last], _cut(valid, first, last))
    if kind in "iu" and form.is_number(column):
        return lambda first, last: made.whole_numbers(values[first:last], _cut(valid, first, last))
    if kind == "f" and size <= 8:
        return lambda first, last: made.floats(
            _doubles(column, first, last), _cut(valid, first, last), plain=form.plain
        )
    return _others(column, form)


def _doubles(column: Scalar, first: int, last: int) -> np.ndarray[Any, Any]:
    """Singles print shorter than doubles of the same value."""
    values = column.values[first:last]
    return np.array(Scalar(values, None, column.kind).to_pylist(), np.float64) if values.itemsize == 4 else values


def _cut(valid: np.ndarray[Any, Any] | None, first: int, last: int) -> np.ndarray[Any, Any] | None:
    return None if valid is None else valid[first:last]


def _coded(column: Coded, form: _Form) -> Part:
    """Each different text is quoted once, where there are fewer than rows."""
    which, known, valid = column.which, column.texts, column.valid
    if len(known) > len(which):
        used, which = np.unique(which, return_inverse=True)
        known = known.take(used)
    cells = made.texts(known.offsets, known.data, known.valid, form.quoting)
    return lambda first, last: made.masked(made.taken(cells, which[first:last]), _cut(valid, first, last))


def _of_texts(texts: Sequence[str]) -> Cells:
    """Texts that are JSON but for lone surrogates."""
    return made.cells_of([text.encode("utf-8", "backslashreplace") for text in texts])


def _quoted(values: Sequence[Any], form: _Form) -> Cells:
    """What shows as a text, or None."""
    texts = Text.from_pylist([None if value is None else str(value) for value in values])
    return made.texts(texts.offsets, texts.data, texts.valid, form.quoting)


def _of_values(values: Sequence[Any], form: _Form) -> Cells:
    """Values of Python that are of one kind, beside None; else one by one."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) > 1:
        return _of_texts(form.others(values))
    kind = next(iter(kinds), bool)
    if kind is str:
        return _quoted(values, form)
    dtype = _DTYPES.get(kind)
    if dtype is None:
        return _of_texts(form.others(values))
    valid = None if None not in values else np.array([value is not None for value in values], np.bool_)
    try:
        numbers = np.array([0 if value is None else value for value in values], dtype)
    except OverflowError:
        return _of_texts(form.others(values))
    if kind is bool:
        return made.truths(numbers, valid)
    return made.whole_numbers(numbers, valid) if kind is int else made.floats(numbers, valid, plain=form.plain)


_DTYPES: dict[type, Any] = {bool: np.bool_, int: np.int64, float: np.float64}
