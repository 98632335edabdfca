"""Results that have rows, and more to say: they are shown, and handed on, as their table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from dotnetdiag.table.table import Table

__all__ = ["HasTable"]


class HasTable:
    """What has a :meth:`table`: notebooks show it, and polars, pyarrow and DuckDB take the result itself for it."""

    __slots__ = ()

    def table(self) -> Table:
        """Its rows."""
        raise NotImplementedError

    def to_pandas(self, columns: str | Sequence[str] | None = None) -> pandas.DataFrame:
        """The table as a pandas data frame. Raises MissingDependency, UnknownName."""
        return self.table().to_pandas(columns)

    def to_polars(self, columns: str | Sequence[str] | None = None) -> polars.DataFrame:
        """The table as a polars data frame. Raises MissingDependency, UnknownName."""
        return self.table().to_polars(columns)

    def to_arrow(self, columns: str | Sequence[str] | None = None) -> pyarrow.Table:
        """The table as a pyarrow table. Raises MissingDependency, UnknownName."""
        return self.table().to_arrow(columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.table().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"{type(self).__name__} with {self.table()!r}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
