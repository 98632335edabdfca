"""A heap as tables: a SQLite database of nodes, edges and types, or a Parquet file of one of them."""

from __future__ import annotations

from typing import IO

from dotnetdiag.export import parquet, sqlite
from dotnetdiag.heap.heap import Heap

PARTS = ("nodes", "edges", "types")


def write(heap: Heap, file: IO[bytes]) -> None:
    """Write the database."""
    sqlite.write(heap.tables, file)


def write_part(heap: Heap, file: IO[bytes], part: str) -> None:
    """Write one of :data:`PARTS` as Parquet."""
    parquet.write(heap.tables[PARTS.index(part)], file)
