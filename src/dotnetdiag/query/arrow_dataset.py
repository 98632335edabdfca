"""A scan as a data set of pyarrow: DuckDB, polars and others say to it which columns and rows they want."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dotnetdiag.query.batches import arrow

if TYPE_CHECKING:
    import pyarrow

    from dotnetdiag.query.scan import Scan


def dataset_of(scan: Scan) -> Any:
    """The data set. It can be read any number of times. Raises MissingDependency."""
    arrow()
    import pyarrow.dataset

    class ScanDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
        """What libraries ask of ``pyarrow.dataset.Dataset``, with a scan behind it."""

        def __init__(self) -> None:
            """Its base is made by none but pyarrow itself."""

        @property
        def schema(self) -> pyarrow.Schema:
            """Of all columns."""
            return scan.schema

        def scanner(self, columns: Any = None, filter: Any = None, **_: Any) -> Any:
            """What reads some columns of the rows that fulfil the filter."""
            return _Scanner(scan, columns, filter)

        def to_batches(self, columns: Any = None, filter: Any = None, **_: Any) -> Any:
            """The rows of some columns."""
            return scan.batches(columns, filter)

        def to_table(self, columns: Any = None, filter: Any = None, **_: Any) -> Any:
            """All of them at once."""
            return _Scanner(scan, columns, filter).to_reader().read_all()

        def count_rows(self, filter: Any = None, **_: Any) -> int:
            """How many fulfil the filter."""
            return sum(batch.num_rows for batch in scan.batches((), filter))

        def head(self, num_rows: int, columns: Any = None, filter: Any = None, **_: Any) -> Any:
            """The first of them."""
            found, left = [], num_rows
            for batch in scan.batches(columns, filter):
                found.append(batch.slice(0, left))
                left -= found[-1].num_rows
                if left <= 0:
                    break
            return arrow().Table.from_batches(found, _Scanner(scan, columns, filter).schema)

    return ScanDataset()


class _Scanner:
    def __init__(self, scan: Scan, columns: Sequence[str] | None, where: Any) -> None:
        self._scan, self._columns, self._where = scan, columns, where

    @property
    def schema(self) -> Any:
        whole = self._scan.schema
        return whole if self._columns is None else arrow().schema([whole.field(name) for name in self._columns])

    def to_reader(self) -> Any:
        batches = self._scan.batches(self._columns, self._where)
        return arrow().RecordBatchReader.from_batches(self.schema, batches)
