"""A heap as tables: a SQLite database of nodes, edges and types, or a Parquet file of one of them.

Numbers of SQLite have a sign: an address of 2^63 and more is below 0 there, as SQLite takes it in ``address = 0xffff…``. All sizes fit. A
heap that is not complete has a table ``problems`` besides.
"""

from __future__ import annotations

from typing import IO

from dotnetdiag.export import parquet, sqlite
from dotnetdiag.heap.heap import Heap
from dotnetdiag.heap.tables import with_signed_addresses
from dotnetdiag.table import Table

PARTS = ("nodes", "edges", "types")


def write(heap: Heap, file: IO[bytes]) -> None:
    """Write the database."""
    nodes, *others = heap.tables
    tables = [with_signed_addresses(nodes), *others]
    if not heap.completeness.complete:
        tables.append(Table({"problem": list(heap.completeness.problems)}, title="problems"))
    sqlite.write(tables, file)


def write_part(heap: Heap, file: IO[bytes], part: str) -> None:
    """Write one of :data:`PARTS` as Parquet."""
    parquet.write(heap.tables[PARTS.index(part)], file)
