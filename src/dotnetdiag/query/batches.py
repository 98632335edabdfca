"""Columns of events and reports as Arrow record batches, and the types that several recordings have in common.

Names of columns differ without regard to case, as SQL wants it: a payload's field that is called as a column before it is
``payload.Name``, as everywhere in this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dotnetdiag.errors import MissingDependency, UsageError
from dotnetdiag.events import Column
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.table.arrow import stream, valid_names, valid_text
from dotnetdiag.trace.header import PAYLOAD

if TYPE_CHECKING:
    import pyarrow

FILE = "file"
"""The first column of every table: who counts rows reads no other."""


def arrow() -> Any:
    """pyarrow. Raises MissingDependency."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependency("pyarrow", extra="sql", purpose="SQL and datasets") from error
    return pyarrow


def distinct_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """The same names, with ``payload.`` before those that are there already in any case, and a number behind what still is."""
    seen = {one.lower() for one in taken}
    made = []
    for name in valid_names(names):
        free = name if name.lower() not in seen else PAYLOAD + name
        number = 2
        while free.lower() in seen:
            free, number = f"{PAYLOAD}{name}_{number}", number + 1
        seen.add(free.lower())
        made.append(free)
    return made


def schema_of(columns: Sequence[str], column: Callable[[str], Column]) -> pyarrow.Schema:
    """The types of columns."""
    pa = arrow()
    schema: pyarrow.Schema = pa.table(stream({name: column(name) for name in columns})).schema if columns else None
    return pa.schema([]) if schema is None else schema


def arrays_of(columns: Sequence[str], column: Callable[[str], Column], coded: frozenset[str]) -> dict[str, Any]:
    """The columns as arrays by name; those that are ``coded`` as dictionaries."""
    pa = arrow()
    whole = [name for name in columns if name not in coded]
    made: dict[str, Any] = {}
    if whole:
        table = pa.table(stream({name: column(name) for name in whole}))
        made = {name: _one(table.column(at)) for at, name in enumerate(whole)}
    return made | {name: _dictionary(column(name)) for name in columns if name in coded}


def _one(chunked: Any) -> Any:
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()


def _dictionary(column: Column) -> Any:
    pa = arrow()
    if not isinstance(column, Coded):  # of no rows, or none of which has a text
        assert isinstance(column, Text)
        return _one(pa.table(stream({"": column})).column(0).dictionary_encode())
    missing = None if column.valid is None else ~column.valid
    codes = pa.array(column.which.astype("int32"), mask=missing)
    return pa.DictionaryArray.from_arrays(codes, _one(pa.table(stream({"": column.texts})).column(0)))


def same(text: str, rows: int, kind: Any) -> Any:
    """One text in all rows: of a file's name that is no UTF-8 what can be told."""
    pa = arrow()
    codes = pa.repeat(pa.scalar(0, pa.int32()), rows)
    made = pa.DictionaryArray.from_arrays(codes, pa.array([valid_text(text)], pa.large_string()))
    return made if pa.types.is_dictionary(kind) else made.cast(kind)


def united(schemas: Sequence[pyarrow.Schema], name: str) -> pyarrow.Schema:
    """The columns of all by their names: numbers as wide as the widest, texts where they have nothing else in common.

    Raises UsageError where one file has a list or a structure in a column, and another has something else.
    """
    pa = arrow()
    kinds: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for schema in schemas:
        if schema is not schemas[0] and schema.equals(schemas[0]):
            continue
        for field in schema:
            key = spelled.setdefault(field.name.lower(), field.name)
            kinds[key] = field.type if key not in kinds else _common(kinds[key], field.type, f"{name}.{key}")
    return pa.schema([pa.field(key, kind) for key, kind in kinds.items()])


def _common(one: Any, other: Any, name: str) -> Any:
    pa = arrow()
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    widest = pa.decimal128(20)  # what holds numbers of 64 bits with a sign and without
    if all(kind == widest or pa.types.is_integer(kind) for kind in (one, other)) and (
        widest in (one, other) or (pa.uint64() in (one, other) and any(map(pa.types.is_signed_integer, (one, other))))
    ):
        return widest
    pair = [pa.schema([("x", kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(pair, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if pa.types.is_nested(one) or pa.types.is_nested(other):
            raise UsageError(f"column {name} is {one} in one file and {other} in another: ask one at a time") from None
        return pa.large_string()


def fitted(array: Any, kind: Any, rows: int) -> Any:
    """The array as that type; nulls where there is none."""
    pa = arrow()
    if array is None or pa.types.is_null(kind):
        return pa.nulls(rows, kind)
    # what a float rounds is meant: numbers are as wide as the widest
    return array if array.type.equals(kind) else array.cast(kind, safe=not pa.types.is_floating(kind))
