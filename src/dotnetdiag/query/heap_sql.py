"""SQL over one heap: its nodes, edges and types are tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dotnetdiag.errors import UsageError
from dotnetdiag.query.batches import arrow
from dotnetdiag.query.beside import beside
from dotnetdiag.query.duckdb_engine import CLOSED, database_in_utc
from dotnetdiag.query.duckdb_values import answer_of, import_duckdb
from dotnetdiag.query.from_arrow import table_of
from dotnetdiag.table import Losses, Table

if TYPE_CHECKING:
    from dotnetdiag.heap.heap import Heap


def heap_sql(heap: Heap, query: str) -> Table:
    """What a query answers that knows ``nodes``, ``edges`` and ``types``. It reads nothing else: no files, no network.

    Raises UsageError for what DuckDB refuses, MissingDependency without the extra ``sql``.
    """
    duckdb, _ = import_duckdb(), arrow()
    if not isinstance(query, str) or not query.strip():
        raise UsageError("an empty query: write SQL, such as 'from types order by retained_bytes desc'")
    database = database_in_utc(CLOSED, locked=True)

    def ask() -> Any:
        for table in heap.tables:
            database.register(table.title, table.to_arrow())
        relation = database.sql(query)
        return None if relation is None else answer_of(relation)

    try:
        made = beside(database, ask)
    except RuntimeError as error:
        if "interrupted" in str(error):  # as DuckDB says that somebody has pressed Ctrl-C
            raise KeyboardInterrupt from error
        raise
    except duckdb.Error as error:
        raise UsageError(" ".join(str(error).partition("\n\nLINE ")[0].split())) from error
    finally:
        database.close()
    if made is None:
        return Table({}, title="nothing")
    return table_of(made, " ".join(query.split()), (), Losses())
