"""What DuckDB answers with, in kinds that the columns of this package have. All that they have not leaves it as text, as it writes that itself:
only DuckDB knows how, and Arrow has not all of it (the zone of a time, numbers without end, dates of which Python knows none).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from dotnetdiag.errors import MissingDependency
from dotnetdiag.query.batches import arrow

Kind: TypeAlias = Any
"""A type of DuckDB's: ``id`` is its name, ``children`` are the types within it."""

_TEXT = "VARCHAR"
_NUMBERS = (
    "boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "float", "double",
    "decimal",
)  # fmt: skip
_TIMES = (
    "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone", "timestamptz_ns",
)  # fmt: skip
_AS_THEY_ARE = frozenset({*_NUMBERS, *_TIMES, "blob"})
_TEXTS = frozenset({"varchar", "enum", "uuid", "null"})
"""Those whose arrays are texts without our doing."""


def import_duckdb() -> Any:
    """The library. Raises MissingDependency."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependency("duckdb", extra="sql", purpose="SQL") from error
    return duckdb


def answer_of(relation: Any) -> Any:
    """All rows, as a table of Arrow, of columns that ``table_of`` takes. The query runs once, and what is to be text is cast within it."""
    kinds = [_kept(kind) for kind in relation.types]
    if all(is_same for _, is_same in kinds):
        return relation.to_arrow_table()
    columns = [  # by their places: several may have one name
        f"#{at}{'' if is_same else f'::{kind}'} as {_quoted(name)}"
        for at, (name, (kind, is_same)) in enumerate(zip(relation.columns, kinds, strict=True), 1)
    ]
    return relation.project(", ".join(columns)).to_arrow_table()


def _kept(kind: Kind) -> tuple[str, bool]:
    """The type that a column has of it, as SQL writes that, and whether that is the type itself."""
    if kind.id in _AS_THEY_ARE:
        return str(kind), True
    if kind.id in _TEXTS:
        return _TEXT, True
    if kind.id in ("list", "array"):
        inner, is_same = _kept(kind.children[0][1])
        return f"{inner}[]", is_same and kind.id == "list"
    if kind.id == "map":
        (key, first), (value, second) = (_kept(inner) for _, inner in kind.children)
        return f"MAP({key}, {value})", first and second
    if kind.id == "struct" and all(name for name, _ in kind.children):
        members = [(name, *_kept(inner)) for name, inner in kind.children]
        return (
            f"STRUCT({', '.join(f'{_quoted(name)} {inner}' for name, inner, _ in members)})",
            all(is_same for *_, is_same in members),
        )
    return _TEXT, False


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def times_as_text(times: Any) -> Any:
    """An array of times as texts, in UTC where they have a zone: ``9999-01-01 00:00:00+00``, ``0044-03-15 (BC) 10:00:00``, ``infinity``."""
    pa = arrow()
    zone = "" if times.type.tz is None else " || case when t::varchar like '%infinity' then '' else '+00' end"
    connection = import_duckdb().connect(":memory:")
    try:
        table = pa.table({"t": times.cast(pa.int64()).cast(pa.timestamp(times.type.unit))})
        made = connection.from_arrow(table).project(f"t::varchar{zone} as t").to_arrow_table().column(0)
        return made.chunk(0) if made.num_chunks == 1 else pa.concat_arrays(made.chunks or [pa.array([], pa.string())])
    finally:
        connection.close()
