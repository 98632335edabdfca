"""A table as Parquet, compressed with zstd. Needs pyarrow (extra ``arrow``)."""

from __future__ import annotations

from typing import IO

from dotnetdiag.export.tables import only_table
from dotnetdiag.table.arrow import write_parquet
from dotnetdiag.trace.method_names import Style


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a table, a row group or more for each piece of it."""
    table = only_table(result, "parquet", style)
    write_parquet((piece.to_arrow for piece in table.pieces()), file)
