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

    class ScanDataset(_ScanRows, pyarrow.dataset.Dataset):  # type: ignore[misc]
        """Its base is made by none but pyarrow itself: nothing that it has may be asked of it, which would end the process."""

    return ScanDataset(scan)


class _ScanRows:
    """What libraries ask of ``pyarrow.dataset.Dataset``, of the rows of a scan that fulfil ``where``."""

    def __init__(self, scan: Scan, where: Any = None) -> None:
        self._scan, self._where = scan, where

    def _both(self, filter: Any) -> Any:
        if self._where is None or filter is None:
            return filter if self._where is None else self._where
        return self._where & filter

    @property
    def schema(self) -> pyarrow.Schema:
        """Of all columns."""
        return self._scan.schema

    def scanner(self, columns: Any = None, filter: Any = None, **_: Any) -> Any:
        """What reads some columns of the rows that fulfil the filter."""
        made = _Scanner(self._scan, columns, self._both(filter)).to_reader()
        return arrow().dataset.Scanner.from_batches(made)

    def to_batches(self, columns: Any = None, filter: Any = None, **_: Any) -> Any:
        """The rows of some columns."""
        return self._scan.batches(columns, self._both(filter))

    def to_table(self, columns: Any = None, filter: Any = None, **_: Any) -> Any:
        """All of them at once."""
        return _Scanner(self._scan, columns, self._both(filter)).to_reader().read_all()

    def count_rows(self, filter: Any = None, **_: Any) -> int:
        """How many fulfil the filter."""
        return sum(batch.num_rows for batch in self._scan.batches((), self._both(filter)))

    def head(self, num_rows: int, columns: Any = None, filter: Any = None, **_: Any) -> Any:
        """The first of them."""
        found, left = [], num_rows
        filter = self._both(filter)
        for batch in self._scan.batches(columns, filter):
            found.append(batch.slice(0, left))
            left -= found[-1].num_rows
            if left <= 0:
                break
        return arrow().Table.from_batches(found, _Scanner(self._scan, columns, filter).schema)

    def filter(self, expression: Any) -> Any:
        """The rows that fulfil it too."""
        return type(self)(self._scan, self._both(expression))

    def take(self, indices: Any, columns: Any = None, filter: Any = None, **_: Any) -> Any:
        """Some rows, by their places."""
        return self.to_table(columns, filter).take(indices)

    @property
    def partition_expression(self) -> Any:
        """That of one with no parts."""
        return arrow().dataset.scalar(True)

    def _in_memory(self) -> Any:
        return arrow().dataset.dataset(self.to_table())

    def sort_by(self, sorting: Any, **named: Any) -> Any:
        """All rows in memory, sorted."""
        return self._in_memory().sort_by(sorting, **named)

    def join(self, right_dataset: Any, *given: Any, **named: Any) -> Any:
        """With the rows of another, in memory."""
        return self._in_memory().join(_in_memory(right_dataset), *given, **named)

    def join_asof(self, right_dataset: Any, *given: Any, **named: Any) -> Any:
        """With those of another that are nearest, in memory."""
        return self._in_memory().join_asof(_in_memory(right_dataset), *given, **named)

    def get_fragments(self, filter: Any = None) -> Any:
        """A scan has none, and what its base would give ends the process."""
        raise NotImplementedError("a scan of recordings has no fragments: read it with to_batches")

    def replace_schema(self, schema: Any) -> Any:
        """A scan has the schema of its events, and what its base would give ends the process."""
        raise NotImplementedError("a scan of recordings has the schema of its events: cast what to_table gives")


def _in_memory(other: Any) -> Any:
    return other._in_memory() if isinstance(other, _ScanRows) else other


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
