"""A table of several recordings, read as Arrow record batches: who reads says which columns and rows are wanted, and only these are decoded.

Where rows are chosen, the columns that the choice looks at are decoded first, and all others only of the rows that are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.query.batches import FILE, arrays_of, arrow, fitted, same, united
from dotnetdiag.query.recordings import Recording, Shelf
from dotnetdiag.query.tables import QueryTable, Window

if TYPE_CHECKING:
    import pyarrow

    from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

COUNTED_ROWS = 1 << 20
"""Rows of a batch that has nothing but the name of the file."""
_ROW = "\1row"


def joined(schemas: Sequence[pyarrow.Schema | None], name: str) -> pyarrow.Schema:
    """``file``, and then the columns of all recordings that have a table of that name, by their names."""
    pa = arrow()
    whole = united([one for one in schemas if one is not None], name)
    return pa.schema([pa.field(FILE, pa.large_string()), *whole])


class Scan:
    """A table of some recordings. ``coded``: the name of the file, and texts of which there are few different ones, are dictionaries.

    An error that ends the reading is kept as ``error``: what reads on our behalf may pass on only its text.
    """

    def __init__(
        self,
        table: QueryTable,
        recordings: Sequence[Recording],
        shelf: Shelf,
        *,
        coded: bool = False,
        schema: pyarrow.Schema | None = None,
    ) -> None:
        """``schema`` is that of more recordings than these, where it is known."""
        self.table, self._recordings, self._shelf = table, tuple(recordings), shelf
        self._coded = table.coded if coded else frozenset()
        self._file_coded = coded
        self.error: BaseException | None = None
        self._schema: Any = schema

    @property
    def exists(self) -> bool:
        """Whether one of the recordings has it."""
        return len(self.schema) > 1

    @property
    def schema(self) -> pyarrow.Schema:
        """``file``, and then the columns of all recordings by their names. Raises what opening them raises."""
        if self._schema is None:
            pa = arrow()
            schemas = list(self._shelf.each(self._recordings, lambda _, trace: [self.table.schema(trace)]))
            whole = joined(schemas, self.table.name)
            few = pa.dictionary(pa.int32(), pa.large_string())
            coded = {FILE, *self._coded} if self._file_coded else set()
            self._schema = pa.schema([one.with_type(few) if one.name in coded else one for one in whole])
        return self._schema

    def batches(self, columns: Sequence[str] | None = None, where: Any = None) -> Iterator[pyarrow.RecordBatch]:
        """The rows of some columns, recording by recording, in the order that the table has in each. ``where``: an expression of Arrow that
        they fulfil.
        """
        wanted = self.schema.names if columns is None else list(columns)
        try:
            yield from self._shelf.each(self._recordings, lambda name, trace: self._rows_of(name, trace, wanted, where))
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise

    def _rows_of(self, name: str, trace: Trace, wanted: list[str], where: Any) -> Iterator[pyarrow.RecordBatch]:
        own = self.table.schema(trace)
        if own is None:
            return
        looked_at = [] if where is None else self._looked_at(where)
        there = {one.lower(): one for one in own.names}
        if not any(one.lower() in there for one in (*wanted, *looked_at)):
            if where is None or len(self._passing(self._batch(name, looked_at, {}, 1), where)):
                yield from self._counted(name, wanted, self.table.count(trace))
            self._shelf.read(name, trace, self.table.notes(trace))
            return
        for window in self.table.windows(trace):
            if where is not None:
                batch = self._batch(name, looked_at, self._arrays(window, looked_at, there), len(window))
                rows = self._passing(batch, where)
                if not len(rows):
                    continue
                if len(rows) < len(window):
                    window = window.take(rows)
            yield self._batch(name, wanted, self._arrays(window, wanted, there), len(window))
        self._shelf.read(name, trace, self.table.notes(trace))

    def _arrays(self, window: Window, columns: Sequence[str], there: dict[str, str]) -> dict[str, Any]:
        own = {there[one.lower()]: one for one in columns if one.lower() in there}
        arrays = arrays_of(list(own), window.column, self._coded)
        return {own[name]: array for name, array in arrays.items()}

    def _batch(self, name: str, columns: Sequence[str], arrays: dict[str, Any], rows: int) -> pyarrow.RecordBatch:
        pa = arrow()
        schema = pa.schema([self.schema.field(one) for one in columns])
        if not columns:
            nothing = pa.array([{}], pa.struct([])).take(pa.repeat(pa.scalar(0), rows))
            return pa.RecordBatch.from_struct_array(nothing)
        made = [
            same(name, rows, field.type) if field.name == FILE else fitted(arrays.get(field.name), field.type, rows)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(made, schema=schema)

    def _counted(self, name: str, wanted: list[str], rows: int) -> Iterator[pyarrow.RecordBatch]:
        for first in range(0, rows, COUNTED_ROWS):
            yield self._batch(name, wanted, {}, min(COUNTED_ROWS, rows - first))

    def _looked_at(self, where: Any) -> list[str]:
        """The columns that an expression may look at: those whose name is in its text. One too many costs only its time."""
        text = str(where)
        return [name for name in self.schema.names if name in text]

    def _passing(self, batch: pyarrow.RecordBatch, where: Any) -> Array:
        numbers, name = arrow().array(np.arange(batch.num_rows)), _ROW
        while name in batch.schema.names:  # a field may be called so
            name += _ROW
        passing: Array = batch.append_column(name, numbers).filter(where).column(name).to_numpy()
        return passing
