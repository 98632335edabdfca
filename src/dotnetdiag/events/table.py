"""The payloads of one event type as named columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.events.columns import Bytes, Column, Mask, Struct, concat
from dotnetdiag.events.schema import EventSchema

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The columns of one event type, one row per event.

    ``columns`` are by field name, in the order of the schema; only the selected ones. ``undecodable`` is None or a
    mask of the rows whose payload is damaged. ``remainder`` is None or the bytes behind the fields, per row (of a broken row,
    and where nothing is known of the payload, all of it); it is known only when all fields were asked for.
    ``inferred`` says that the layout is a conclusion from the payloads' lengths, and nobody's declaration.
    """

    schema: EventSchema
    columns: Mapping[str, Column]
    rows: int
    undecodable: Mask | None = None
    remainder: Bytes | None = None
    inferred: bool = False

    def __len__(self) -> int:
        return self.rows

    @property
    def undecodable_count(self) -> int:
        """Rows whose payload is damaged."""
        return 0 if self.undecodable is None else int(self.undecodable.sum())

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def __getitem__(self, name: str) -> Column:
        """A column; ``a.b`` is member ``b`` of structure ``a``, members of an unnamed structure need no ``a``."""
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return found

    def _find(self, name: str) -> Column | None:
        return _member(self.columns, name)

    @property
    def flat(self) -> Mapping[str, Column]:
        """The columns, with the members of an unnamed structure in its place."""
        only = self.columns.get("")
        return only.fields if len(self.columns) == 1 and isinstance(only, Struct) else self.columns

    def row(self, index: int) -> dict[str, Any]:
        """The values of one row by field name."""
        return {name: column.item(index) for name, column in self.columns.items()}

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows."""
        names = list(self.columns)
        if not names:
            return [{} for _ in range(self.rows)]
        columns = [column.to_pylist() for column in self.columns.values()]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def take(self, rows: Array | Sequence[int]) -> Table:
        """Some rows, by number or mask."""
        picked = np.asarray(rows)
        picked = np.flatnonzero(picked) if picked.dtype == np.bool_ else picked.astype(np.int64)
        return replace(
            self,
            columns={name: column.take(picked) for name, column in self.columns.items()},
            rows=len(picked),
            undecodable=None if self.undecodable is None else self.undecodable[picked],
            remainder=None if self.remainder is None else self.remainder.take(picked),
        )


def _member(columns: Mapping[str, Column], name: str) -> Column | None:
    if name in columns:
        return columns[name]
    for key, column in columns.items():
        if isinstance(column, Struct):
            inner = name if key == "" else name[len(key) + 1 :] if name.startswith(key + ".") else None
            found = None if inner is None else _member(column.fields, inner)
            if found is not None:
                return found
    return None


def concat_tables(tables: Sequence[Table]) -> Table:
    """The rows of tables of one schema, one after another."""
    first = tables[0]
    undecodable: Mask | None = None
    remainder: Bytes | None = None
    if any(table.undecodable is not None for table in tables):
        undecodable = np.concatenate(
            [table.undecodable if table.undecodable is not None else np.zeros(table.rows, np.bool_) for table in tables]
        )
    if any(table.remainder is not None for table in tables):
        empty = np.zeros(0, np.uint8)
        joined = concat([table.remainder or Bytes(np.zeros(table.rows + 1, np.int64), empty) for table in tables])
        assert isinstance(joined, Bytes)
        remainder = joined
    return replace(
        first,
        columns={name: concat([table.columns[name] for table in tables]) for name in first.columns},
        rows=sum(table.rows for table in tables),
        undecodable=undecodable,
        remainder=remainder,
    )
