"""Columns as an Arrow table, and as Parquet. Needs pyarrow (extra ``arrow``).

Numbers keep their width, texts are ``large_string``, bytes ``large_binary``, GUIDs text, lists and structures nested; a
structure without members is null. Lone surrogates, which UTF-8 cannot say, become ``?``.
``time`` is a timestamp in ns, dates of payloads in µs: DateTime reaches beyond what ns can say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.errors import MissingDependency
from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Text
from dotnetdiag.events.layout import Kind

if TYPE_CHECKING:
    import pyarrow

Array: TypeAlias = "np.ndarray[Any, Any]"

TIME = "time"
"""The header's column of that name is ns since 1970."""
AS_TEXT = frozenset({Kind.GUID, Kind.DECIMAL, Kind.CHAR, Kind.CHAR8})
"""Scalars that no library has a type for, or none that is better than text."""
FILETIME_EPOCH_US = 11_644_473_600_000_000
"""µs from 1601 to 1970."""


def valid_text(text: str) -> str:
    """The text with ``?`` for lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def valid_names(names: Iterable[str]) -> list[str]:
    """Names that libraries take, all of them different."""
    made: dict[str, None] = {}
    for name in names:
        text = valid_text(name)
        while text in made:
            text += "?"
        made[text] = None
    return list(made)


def texts(column: Scalar | Text) -> list[str | None]:
    """Every value as a text that libraries take."""
    return [None if value is None else valid_text(str(value)) for value in column.to_pylist()]


def _library() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependency("pyarrow", extra="arrow", purpose="an Arrow table") from error
    return pyarrow


def arrow_table(columns: Mapping[str, Column]) -> pyarrow.Table:
    """The table of these columns."""
    pa = _library()
    made = [_array(pa, column, is_time=name == TIME) for name, column in columns.items()]
    return pa.table(made, names=valid_names(columns))


def _array(pa: Any, column: Column, *, is_time: bool = False) -> Any:
    if isinstance(column, Scalar):
        return _scalars(pa, column, None if column.valid is None else ~column.valid, is_time=is_time)
    bitmap = None if column.valid is None else pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    if isinstance(column, (Text, Bytes)):
        if isinstance(column, Text) and not _is_utf8(column.data):
            return pa.array(texts(column), pa.large_string())
        kind = pa.large_string() if isinstance(column, Text) else pa.large_binary()
        return pa.Array.from_buffers(kind, len(column), [bitmap, _buffer(pa, column.offsets), _buffer(pa, column.data)])
    if isinstance(column, ListOf):
        child = _array(pa, column.child)
        kind = pa.large_list(child.type)
        return pa.Array.from_buffers(kind, len(column), [bitmap, _buffer(pa, column.offsets)], children=[child])
    if not column.fields:
        return pa.nulls(len(column))  # Parquet knows no empty structure
    children = [_array(pa, member) for member in column.fields.values()]
    names = valid_names(column.fields)
    kind = pa.struct([pa.field(name, child.type) for name, child in zip(names, children, strict=True)])
    return pa.Array.from_buffers(kind, len(column), [bitmap], children=children)


def _scalars(pa: Any, column: Scalar, missing: Array | None, *, is_time: bool) -> Any:
    if is_time:
        return pa.array(column.values, pa.timestamp("ns", tz="UTC"), mask=missing)
    if column.kind == Kind.DATETIME:
        return pa.array(column.values // 10 - FILETIME_EPOCH_US, pa.timestamp("us", tz="UTC"), mask=missing)
    if column.kind in AS_TEXT:
        return pa.array(texts(column), pa.large_string())
    return pa.array(column.values, mask=missing)


def _buffer(pa: Any, values: Array) -> Any:
    return pa.py_buffer(np.ascontiguousarray(values))


def _is_utf8(data: Array) -> bool:
    if not len(data) or int(data.max()) < 0x80:
        return True
    try:
        data.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def write_parquet(tables: Iterable[Callable[[], pyarrow.Table]], file: IO[bytes]) -> int:
    """Tables of one schema into a Parquet file, one row group or more each. Returns the rows written."""
    _library()
    from pyarrow import parquet

    writer: Any = None
    rows = 0
    try:
        for make in tables:
            table = make()
            if writer is None:
                writer = parquet.ParquetWriter(file, table.schema, compression="zstd")
            if table.num_rows:
                writer.write_table(table)
            rows += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows
