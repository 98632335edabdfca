"""A data set: the tables of many recordings, file by file and window by window, for engines that run on one machine or on many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UnknownName, UsageError, near
from dotnetdiag.query.arrow_dataset import dataset_of
from dotnetdiag.query.file_task import FileTask, Mapper
from dotnetdiag.query.recordings import Recording, Shelf
from dotnetdiag.query.scan import Scan, joined
from dotnetdiag.query.tables import contents, find_table, unknown
from dotnetdiag.query.unreadable import Unreadable
from dotnetdiag.table import Table

if TYPE_CHECKING:
    import dask.dataframe
    import polars
    import pyarrow
    import pyarrow.dataset
    import ray.data

Names: TypeAlias = "str | Sequence[str] | None"


class Dataset:
    """Recordings as tables, made by ``dd.dataset``. Nothing is opened before it is asked for, and no more of a recording is in memory than a
    window of its events (and what its stacks are called).

    Tables have the names that SQL has for them: events by name, ``events``, and the reports; ``tables()`` lists them. ``columns`` are their
    names, in their order there; None: all. A report is computed for a recording as a whole.
    """

    def __init__(self, recordings: Sequence[Recording], *, skip_unreadable: bool = False) -> None:
        """``skip_unreadable``: those that cannot be opened are passed over, and are in ``skipped``."""
        self._recordings = tuple(recordings)
        self._unreadable = Unreadable(len(self._recordings), skip_unreadable)
        self._schemas: dict[str, Any] = {}

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the recordings: paths, and URLs."""
        return tuple(one.name for one in self._recordings)

    @property
    def skipped(self) -> Mapping[str, str]:
        """What was wrong with each recording that was passed over so far, by its name: empty until something has opened them. One that only another
        process could not read, after ``schema``, is not among them.
        """
        return dict(self._unreadable.skipped)

    def __len__(self) -> int:
        return len(self._recordings)

    def __repr__(self) -> str:
        shown = ", ".join(self.files[:3]) + (", …" if len(self) > 3 else "")
        return f"<Dataset of {len(self):,} recordings: {shown}>"

    def tables(self) -> Table:
        """What there is to ask: ``name``, ``kind`` (``events``, ``event``, ``report``), ``rows`` (of events, in all recordings) and ``about``.
        Opens every recording.
        """
        shelf = Shelf(self._unreadable)
        try:
            return contents(self._recordings, shelf)
        finally:
            shelf.close()

    def sql(self, query: str, *, external_access: bool = False) -> Table:
        """What a query of SQL answers: see ``dd.sql``."""
        from dotnetdiag.query.duckdb_engine import sql

        return sql(self._recordings, query, external_access=external_access, unreadable=self._unreadable)

    def schema(self, table: str, *, map: Mapper = map) -> pyarrow.Schema:
        """The columns of a table in all recordings together: ``file``, and then each by its name, numbers as wide as the widest.

        Opens every recording once; ``map`` may do that elsewhere, as that of an executor. Raises UnknownName where no recording has the
        table, UsageError where a column has kinds that do not go together.
        """
        tasks = self._tasks(table)
        key = table.lower()
        if key not in self._schemas:
            found = self._unreadable.answers(map(FileTask.own_schema, tasks))
            if all(one is None for one in found):
                raise unknown(table, self.tables().values("name"))
            self._schemas[key] = joined(found, table)
        return self._schemas[key]

    def batches(
        self, table: str, columns: Names = None, *, where: pyarrow.dataset.Expression | None = None
    ) -> Iterator[pyarrow.RecordBatch]:
        """The rows of a table, recording by recording and window by window, in time order within each; all batches have the same columns.

        ``where`` is an expression of Arrow (``pyarrow.dataset.field("ms") > 5``); the columns that it looks at need not be among
        ``columns``. Only what is asked for is decoded. Raises as ``schema``.
        """
        for task in self.tasks(table, columns, where=where):
            yield from task.batches()

    def tasks(
        self,
        table: str,
        columns: Names = None,
        *,
        where: pyarrow.dataset.Expression | None = None,
        map: Mapper = map,
    ) -> list[FileTask]:
        """A task for each recording, without those that are ``skipped``, which any engine can run anywhere: ``task.batches()`` are its windows,
        ``task.read()`` a table.

        All of them give the same columns. Raises as ``schema``.
        """
        whole = self.schema(table, map=map)
        names = None if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)
        known = set(whole.names)
        for name in names or ():
            if name not in known:
                raise UnknownName("column", name, near(name, known), where=f"in {table}")
        return [replace(one, columns=names, where=where, schema=whole) for one in self._tasks(table)]

    def _tasks(self, table: str) -> list[FileTask]:
        if not isinstance(table, str):
            raise UsageError(f"{table!r}: tables have names, as 'GC/Start'")
        self._unreadable.require_some()
        left = [one for one in self._recordings if one.name not in self._unreadable.skipped]
        return [FileTask(one, find_table(table), unreadable=self._unreadable) for one in left]

    # engines ----------------------------------------------------------------------------------------------------------

    def to_arrow(self, table: str) -> pyarrow.dataset.Dataset:
        """A data set of pyarrow, for all that read one: they say which columns and rows they want. Raises as ``schema``."""
        shelf = Shelf(self._unreadable)
        return dataset_of(Scan(find_table(table), self._recordings, shelf, schema=self.schema(table)))

    def to_polars(self, table: str) -> polars.LazyFrame:
        """A lazy frame of polars, which reads window by window, and only the columns that it needs.

        Raises as ``schema``, and MissingDependency without the extra ``polars``.
        """
        from dotnetdiag.query.to_polars import lazy_frame

        return lazy_frame(self.schema(table), lambda columns: self.batches(table, columns))

    def to_dask(self, table: str, columns: Names = None) -> dask.dataframe.DataFrame:
        """A data frame of Dask with a partition for each recording, which workers open where they are; types are Arrow's. Columns that are
        not used are not read.

        Raises as ``schema``, whose work Dask does, and MissingDependency without the extra ``dask``.
        """
        from dotnetdiag.query.to_dask import dask_frame, dask_map

        return dask_frame(self.tasks(table, columns, map=dask_map()))

    def to_ray(self, table: str, columns: Names = None) -> ray.data.Dataset:
        """A data set of Ray, whose tasks read a recording each, window by window.

        Raises as ``schema``, whose work Ray does, and MissingDependency without the extra ``ray``.
        """
        from dotnetdiag.query.to_ray import ray_dataset, ray_map

        return ray_dataset(self.tasks(table, columns, map=ray_map()))
