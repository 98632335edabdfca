"""A table of a data set as a data set of Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dotnetdiag.errors import MissingDependency

if TYPE_CHECKING:
    import pyarrow
    import ray.data

    from dotnetdiag.query.file_task import FileTask, Mapper


def _ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingDependency("ray", extra="ray", purpose="a data set of Ray") from error
    return ray


def ray_map() -> Mapper:
    """``map`` by the workers that Ray has."""
    ray = _ray()

    def mapped(call: Callable[[FileTask], Any], tasks: Iterable[FileTask]) -> Iterable[Any]:
        remote = ray.remote(_called)
        made: Iterable[Any] = ray.get([remote.remote(call, task) for task in tasks])
        return made

    return mapped


def _called(call: Callable[[FileTask], Any], task: FileTask) -> Any:
    return call(task)


class _Read:
    """The windows of the recordings whose numbers a batch has."""

    def __init__(self, tasks: Sequence[FileTask]) -> None:
        self._tasks = tuple(tasks)

    def __call__(self, numbers: dict[str, Any]) -> Iterator[pyarrow.Table]:
        import pyarrow

        for number in numbers["id"].tolist():
            task = self._tasks[number]
            names = task.schema.names if task.columns is None else task.columns
            yield pyarrow.schema([task.schema.field(name) for name in names]).empty_table()
            for batch in task.batches():
                yield pyarrow.Table.from_batches([batch])


def ray_dataset(tasks: Sequence[FileTask]) -> ray.data.Dataset:
    """A block of work for each task."""
    read = _Read(tasks)
    numbers = _ray().data.range(len(tasks), override_num_blocks=len(tasks))
    made: ray.data.Dataset = numbers.map_batches(read.__call__, batch_size=1)
    return made
