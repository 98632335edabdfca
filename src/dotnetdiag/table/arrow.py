"""Columns as a stream of Arrow's C interface, which pyarrow, polars, DuckDB and others take as it is, and as Parquet.

Needs nanoarrow (of the extras ``arrow`` and ``polars``), the tables and files of pyarrow that too. Numbers keep their width, texts are
``large_string``, bytes ``large_binary``, GUIDs text, lists, maps and structures nested; a structure without members is null. Lone
surrogates, which UTF-8 cannot say, become ``?``. Times are timestamps in ns, dates of payloads in µs: DateTime reaches beyond what ns
can say. Nothing is copied that lies in an array already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.errors import MissingDependency
from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Text
from dotnetdiag.events.columns import Enumerated, Maps
from dotnetdiag.events.layout import Kind

if TYPE_CHECKING:
    import polars
    import pyarrow

Array: TypeAlias = "np.ndarray[Any, Any]"

AS_TEXT = frozenset({Kind.GUID, Kind.DECIMAL, Kind.CHAR, Kind.CHAR8})
"""Scalars that no library has a type for, or none that is better than text."""
_MAP_LIMIT = 1 << 31
"""Pairs that a map of Arrow holds; of more, it is a list."""
FILETIME_EPOCH_US = 11_644_473_600_000_000
"""µs from 1601 to 1970."""


def valid_text(text: str) -> str:
    """The text with ``?`` for lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def valid_names(names: Iterable[str]) -> list[str]:
    """Names that libraries take, all of them different."""
    made: dict[str, None] = {}
    for name in names:
        text = valid_text(name).replace("\0", "?")  # names of Arrow's C interface end at a NUL
        while text in made:
            text += "?"
        made[text] = None
    return list(made)


def texts(column: Scalar | Text) -> list[str | None]:
    """Every value as a text that libraries take."""
    return [None if value is None else valid_text(str(value)) for value in column.to_pylist()]


def _library(module: str, purpose: str, extra: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependency(module, extra=extra, purpose=purpose) from error


def stream(columns: Mapping[str, Column], extra: str = "arrow") -> Any:
    """The rows of these columns as one batch of a stream, to be taken once."""
    na = _library("nanoarrow", "an Arrow stream", extra)
    made = [_array(na, column) for column in columns.values()]
    kind = na.struct(dict(zip(valid_names(columns), (kind for kind, _ in made), strict=True)))
    rows = len(next(iter(columns.values()), ()))
    return na.c_array_stream(na.c_array_from_buffers(kind, rows, [None], children=[array for _, array in made]))


def arrow_table(columns: Mapping[str, Column]) -> pyarrow.Table:
    """The table of these columns."""
    pa = _library("pyarrow", "an Arrow table", "arrow")
    return pa.table(stream(columns))


def polars_frame(columns: Mapping[str, Column]) -> polars.DataFrame:
    """The data frame of these columns."""
    pl = _library("polars", "a polars data frame", "polars")
    frame: polars.DataFrame = pl.DataFrame(stream(columns, "polars"))
    return frame


def _array(na: Any, column: Column) -> tuple[Any, Any]:
    """Arrow's type of a column, and its array."""
    if isinstance(column, Enumerated):
        column = column.coded()
    valid = None if column.valid is None else np.packbits(column.valid, bitorder="little")
    rows, buffers, children = len(column), [valid], list[tuple[Any, Any]]()
    if isinstance(column, Scalar) and column.kind not in AS_TEXT:
        kind, values = _scalars(na, column)
        buffers.append(values)
    elif isinstance(column, (Scalar, Text, Bytes)):
        if isinstance(column, Scalar) or (isinstance(column, Text) and not _is_utf8(column.data)):
            column = _as_text(column)
        kind = na.large_string() if isinstance(column, Text) else na.large_binary()
        buffers += [column.offsets, column.data]
    elif isinstance(column, Maps) and len(column.child) < _MAP_LIMIT:
        children = [_array(na, column.child)]
        kind = na.map_(na.large_string(), na.large_string())
        buffers.append(column.offsets.astype(np.int32))
    elif isinstance(column, ListOf):
        children = [_array(na, column.child)]
        kind = na.large_list(children[0][0])
        buffers.append(column.offsets)
    elif column.fields:
        children = [_array(na, member) for member in column.fields.values()]
        kind = na.struct(dict(zip(valid_names(column.fields), (kind for kind, _ in children), strict=True)))
    else:
        kind, buffers = na.null(), []  # Parquet knows no empty structure
    lie = [None if buffer is None else np.ascontiguousarray(buffer).view(np.uint8) for buffer in buffers]
    return kind, na.c_array_from_buffers(kind, rows, lie, children=[array for _, array in children])


_DASHED = np.array([3, 2, 1, 0, -1, 5, 4, -1, 7, 6, -1, 8, 9, -1, 10, 11, 12, 13, 14, 15])
"""Where the bytes of a GUID stand in its text; -1: a dash."""
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def _as_text(column: Scalar | Text) -> Text:
    """Values that no library has a type for, and texts that UTF-8 cannot say: millions of GUIDs, or none, without an object for each."""
    rows = len(column)
    if column.valid is not None and not column.valid.any():
        return Text(np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8), column.valid)
    if isinstance(column, Text) or column.kind != Kind.GUID:
        return Text.from_pylist(texts(column))
    raw = np.ascontiguousarray(column.values).view(np.uint8).reshape(rows, 16)
    digits = np.empty((rows, 36), np.uint8)
    at = 0
    for place in _DASHED.tolist():
        if place < 0:
            digits[:, at] = ord("-")
            at += 1
        else:
            digits[:, at], digits[:, at + 1] = _HEX[raw[:, place] >> 4], _HEX[raw[:, place] & 15]
            at += 2
    return Text(np.arange(0, 36 * (rows + 1), 36, dtype=np.int64), digits.reshape(-1), column.valid)


def _scalars(na: Any, column: Scalar) -> tuple[Any, Array]:
    if column.kind == Kind.TIMESTAMP:
        return na.timestamp("ns", "UTC"), column.values
    if column.kind == Kind.DATETIME:
        return na.timestamp("us", "UTC"), column.values // 10 - FILETIME_EPOCH_US
    if column.values.dtype.kind == "b":
        return na.bool_(), np.packbits(column.values, bitorder="little")
    return getattr(na, column.values.dtype.name)(), column.values


def _is_utf8(data: Array) -> bool:
    if not len(data) or int(data.max()) < 0x80:
        return True
    try:
        data.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def parquet_writer(schema: pyarrow.Schema, file: IO[bytes]) -> Any:
    """What writes tables of one schema, a row group or more each, and has to be closed. Raises MissingDependency."""
    _library("pyarrow", "the format parquet", "arrow")
    from pyarrow import parquet

    return parquet.ParquetWriter(file, schema, compression="zstd")


def write_parquet(tables: Iterable[Callable[[], pyarrow.Table]], file: IO[bytes]) -> int:
    """Tables of one schema into a Parquet file, one row group or more each. Returns the rows written."""
    _library("pyarrow", "the format parquet", "arrow")
    writer: Any = None
    rows = 0
    try:
        for make in tables:
            table = make()
            if writer is None:
                writer = parquet_writer(table.schema, file)
            if table.num_rows:
                writer.write_table(table)
            rows += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows
