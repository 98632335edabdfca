"""A table of a data set as a lazy frame of polars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dotnetdiag.errors import MissingDependency

if TYPE_CHECKING:
    import polars
    import pyarrow


def lazy_frame(
    schema: pyarrow.Schema, batches: Callable[[list[str] | None], Iterator[pyarrow.RecordBatch]]
) -> polars.LazyFrame:
    """The rows that ``batches`` gives of some columns (None: all)."""
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise MissingDependency("polars", extra="polars", purpose="a lazy frame of polars") from error

    def source(
        with_columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None, _: int | None
    ) -> Iterator[polars.DataFrame]:
        left = n_rows
        for batch in batches(with_columns):
            frame: Any = pl.from_arrow(batch)
            if left is not None:
                frame = frame.head(left)
                left -= len(frame)
            yield frame if predicate is None else frame.filter(predicate)
            if left is not None and left <= 0:
                return

    empty: Any = pl.from_arrow(schema.empty_table())
    return register_io_source(source, schema=empty.schema)
