"""Arrow's tables as tables of this package: what a query answers goes where all results go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Struct, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.query.batches import arrow
from dotnetdiag.query.duckdb_values import times_as_text
from dotnetdiag.table import Losses, Table

if TYPE_CHECKING:
    import pyarrow

Array: TypeAlias = "np.ndarray[Any, Any]"

_KINDS = {
    "int8": Kind.I1, "int16": Kind.I2, "int32": Kind.I4, "int64": Kind.I8,
    "uint8": Kind.U1, "uint16": Kind.U2, "uint32": Kind.U4, "uint64": Kind.U8,
    "float": Kind.F4, "double": Kind.F8,
}  # fmt: skip
_ENDLESS = 2**63 - 1


def table_of(made: pyarrow.Table, title: str, notes: Sequence[str], losses: Losses) -> Table:
    """The same columns and rows. What ``answer_of`` gives has columns here: whole numbers of 128 bits become 64, or floats where these are too few,
    and times that 64 bits of ns do not hold are texts, with all others of their column.
    """
    names: list[str] = []
    for name in made.schema.names:
        free, number = name, 2
        while free in names:
            free, number = f"{name}_{number}", number + 1
        names.append(free)
    columns: dict[str, Column] = {name: _column(_whole(made.column(at))) for at, name in enumerate(names)}
    return Table(columns, title=title, notes=notes, losses=losses)


def _whole(chunked: Any) -> Any:
    pa = arrow()
    if chunked.num_chunks == 1:
        return chunked.chunk(0)
    return pa.concat_arrays(chunked.chunks) if chunked.num_chunks else pa.array([], chunked.type)


def _column(array: Any) -> Column:
    pa = arrow()
    kind, types = array.type, pa.types
    valid = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    if types.is_dictionary(kind):
        return _column(array.dictionary_decode())
    if types.is_decimal(kind):
        return _column(_number(array))
    if str(kind) in _KINDS or types.is_boolean(kind):
        return Scalar(_values(array), valid, _KINDS.get(str(kind), Kind.BOOL))
    if types.is_timestamp(kind):
        ns = _nanoseconds(array)
        return _text(times_as_text(array), valid) if ns is None else Scalar(_values(ns), valid, Kind.TIMESTAMP)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return Bytes(*_pool(array.cast(pa.large_binary())), valid)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        offsets = np.asarray(array.offsets, np.int64)
        inner = array.values if not types.is_map(kind) else _pairs(array)
        first, last = int(offsets[0]), int(offsets[-1])
        return ListOf(offsets - first, _column(inner.slice(first, last - first)), valid)
    if types.is_struct(kind):
        members = dict(zip([kind.field(at).name for at in range(kind.num_fields)], array.flatten(), strict=True))
        return Struct({name: _column(member) for name, member in members.items()}, len(array), valid)
    return _text(array, valid)


def _pairs(array: Any) -> Any:
    pa = arrow()
    return pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])


def _values(array: Any) -> Array:
    filled = array.fill_null(False if array.type == arrow().bool_() else 0) if array.null_count else array
    values: Array = filled.to_numpy(zero_copy_only=False)
    return values


def _number(array: Any) -> Any:
    pa = arrow()
    for whole in (pa.int64(), pa.uint64()) if array.type.scale == 0 else ():
        try:
            return array.cast(whole)
        except pa.ArrowInvalid:
            pass
    # what its digits are: made of its whole number it would often be the float beside that
    return array.cast(pa.string()).cast(pa.float64())


def _nanoseconds(times: Any) -> Any:
    """Since 1970; None where 64 bits hold not all of them. The last and the first of these are the times without end of DuckDB."""
    pa = arrow()
    try:
        ns = times.cast(pa.timestamp("ns", times.type.tz)).cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return None if np.isin(_values(ns), (_ENDLESS, -_ENDLESS)).any() else ns


def _pool(array: Any) -> tuple[Array, Array]:
    """Offsets and bytes of large texts, or of large bytes."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    if not len(bounds):  # of no rows there need be no bytes
        bounds = np.zeros(1, np.int64)
    pool = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return bounds - bounds[0], pool[bounds[0] : bounds[-1]]


def _text(array: Any, valid: Array | None) -> Text:
    pa = arrow()
    if pa.types.is_null(array.type):
        return Text(np.zeros(len(array) + 1, np.int64), np.zeros(0, np.uint8), np.zeros(len(array), np.bool_))
    try:
        array = array.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:  # after settings of Arrow's types were changed
        raise UsageError(f"no column holds {array.type}: cast it to VARCHAR") from error
    return Text(*_pool(array), valid)
