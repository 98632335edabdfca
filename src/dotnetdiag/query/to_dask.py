"""A table of a data set as a data frame of Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import MissingDependency

if TYPE_CHECKING:
    import dask.dataframe
    import pandas
    import pyarrow

    from dotnetdiag.query.file_task import FileTask, Mapper


def _dask() -> Any:
    try:
        import dask
        import dask.dataframe
    except ImportError as error:
        raise MissingDependency("dask", extra="dask", purpose="a data frame of Dask") from error
    return dask


def dask_map() -> Mapper:
    """``map`` by the scheduler that Dask has."""
    dask = _dask()

    def mapped(call: Callable[[FileTask], Any], tasks: Iterable[FileTask]) -> Iterable[Any]:
        made: Iterable[Any] = dask.compute(*[dask.delayed(call)(task) for task in tasks])
        return made

    return mapped


def dask_frame(tasks: Sequence[FileTask]) -> dask.dataframe.DataFrame:
    """A partition for each task."""
    first = tasks[0]
    schema = first.schema
    names = schema.names if first.columns is None else list(first.columns)
    made: dask.dataframe.DataFrame = _dask().dataframe.from_map(
        read, list(tasks), meta=_pandas(schema.empty_table().select(names))
    )
    return made


def read(task: FileTask, columns: Sequence[str] | None = None) -> pandas.DataFrame:
    """The rows of one recording; of some columns, where Dask finds that it needs no others."""
    return _pandas((task if columns is None else replace(task, columns=tuple(columns))).read())


def _pandas(table: pyarrow.Table) -> pandas.DataFrame:
    import pandas

    frame: pandas.DataFrame = table.to_pandas(types_mapper=pandas.ArrowDtype)
    return frame
