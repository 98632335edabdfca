"""One recording's share of a table, which any engine can read anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.query.recordings import Recording, Shelf
from dotnetdiag.query.scan import Scan
from dotnetdiag.query.tables import QueryTable
from dotnetdiag.query.unreadable import Skipped, Unreadable

if TYPE_CHECKING:
    import pyarrow

Mapper: TypeAlias = "Callable[[Callable[[FileTask], Any], Iterable[FileTask]], Iterable[Any]]"
"""As Python's ``map``: who calls a function for each of many tasks, wherever that is."""


@dataclass(frozen=True, slots=True, eq=False)
class FileTask:
    """The rows of one table in one recording, to be read anywhere: it can be pickled, and opens the recording where it is called. That of an open
    trace takes the path of its file along; UsageError of a trace that has none.

    ``columns`` are those that are wanted; ``where`` is an expression of Arrow that the rows fulfil. ``schema`` is that of all recordings
    together, None where nobody has asked for it: then it is this recording's own. ``unreadable`` is what becomes of a recording that cannot be
    opened: of one that is passed over there are no rows.
    """

    recording: Recording
    table: QueryTable
    columns: tuple[str, ...] | None = None
    where: Any = None
    schema: Any = None
    unreadable: Unreadable = field(default_factory=Unreadable, repr=False)

    @property
    def file(self) -> str:
        """The name of the recording."""
        return self.recording.name

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows, a window of events at a time. Raises InputError, FormatError."""
        shelf = Shelf(self.unreadable)
        try:
            yield from Scan(self.table, [self.recording], shelf, schema=self.schema).batches(self.columns, self.where)
        finally:
            shelf.close()

    def read(self) -> pyarrow.Table:
        """All rows at once. Raises InputError, FormatError."""
        import pyarrow

        shelf = Shelf(self.unreadable)
        try:
            scan = Scan(self.table, [self.recording], shelf, schema=self.schema)
            names = scan.schema.names if self.columns is None else self.columns
            schema = pyarrow.schema([scan.schema.field(name) for name in names])
            return pyarrow.Table.from_batches(scan.batches(names, self.where), schema)
        finally:
            shelf.close()

    def own_schema(self) -> pyarrow.Schema | Skipped | None:
        """The columns of this recording, without ``file``; None where it has no such table; where it is passed over, what was wrong with it.
        Raises InputError, FormatError.
        """
        shelf = Shelf(self.unreadable)
        try:
            made = list(shelf.each([self.recording], lambda _, trace: [self.table.schema(trace)]))
            return made[0] if made else Skipped(name=self.file, reason=self.unreadable.skipped[self.file])
        finally:
            shelf.close()
