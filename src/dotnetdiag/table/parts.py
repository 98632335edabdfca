"""Some columns of tables that may have millions of rows, which then are in memory a part at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dotnetdiag.events.columns import concat
from dotnetdiag.table.sliced import SlicedTable

if TYPE_CHECKING:
    import numpy.typing as npt

    from dotnetdiag.events import Column
    from dotnetdiag.table.table import Table

PART_ROWS = 1 << 14
"""As Python's values a megabyte for each column."""
FEW = 64
"""Of so many rows each is made alone, and not the part that it is in."""


def parts(rows: Table, names: Sequence[str], since: int = 0) -> Iterator[Mapping[str, Column]]:
    """The columns of these names of rows that follow each other, until all were given, from row ``since`` on; one part at least."""
    if not isinstance(rows, SlicedTable):
        yield {name: rows[name].take(range(since, len(rows))) if since else rows[name] for name in names}
        return
    for first in range(since, max(len(rows), since + 1), PART_ROWS):
        yield rows.made(names, first, min(first + PART_ROWS, len(rows)))


def part(rows: Table, name: str, first: int, last: int) -> Column:
    """One column of the rows from one to before another."""
    if isinstance(rows, SlicedTable):
        return rows.made([name], first, last)[name]
    return rows[name].take(np.arange(first, last))


def rows_at(rows: Table, places: npt.NDArray[np.int64], names: Sequence[str] | None = None) -> dict[str, Column]:
    """All columns of the rows at some places, or those of these ``names``."""
    names = rows.columns if names is None else names
    if not isinstance(rows, SlicedTable):
        return {name: rows[name].take(places) for name in names}
    gathered = rows.gathered(names, places.tolist())
    if gathered is not None:
        return dict(gathered)
    order = np.argsort(places, kind="stable")
    found: list[Mapping[str, Column]] = []
    ascending = places[order]
    each = PART_ROWS if len(places) > FEW else 1
    for first in sorted({place - place % each for place in ascending.tolist()}):
        last = min(first + each, len(rows))
        own = ascending[np.searchsorted(ascending, first) : np.searchsorted(ascending, last)]
        made = rows.made(names, first, last)
        found.append({name: column.take(own - first) for name, column in made.items()})
    if not found:
        return dict(rows.made(names, 0, 0))
    back = np.argsort(order, kind="stable")
    return {name: concat([one[name] for one in found]).take(back) for name in names}


def counts(rows: Table, name: str) -> Counter[Any]:
    """How often each value of a column comes."""
    made = Counter[Any]()
    for some in parts(rows, [name]):
        made.update(some[name].to_pylist())
    return made


def is_told(rows: Table, name: str) -> bool:
    """Whether a column of numbers has any."""
    return any(
        len(column := some[name]) > 0 and (column.valid is None or bool(column.valid.any()))
        for some in parts(rows, [name])
    )
