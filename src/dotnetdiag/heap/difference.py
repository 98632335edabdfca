"""What has grown from one heap to another, and what only grows over several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.events import ListOf, Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.kernels import sums
from dotnetdiag.heap.paths import BETWEEN, MOST_STEPS
from dotnetdiag.heap.tree import Branches
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"
_Key: TypeAlias = "tuple[str | None, ...]"
NumbersByType: TypeAlias = "dict[tuple[str | None, ...], tuple[int, int, int]]"

DEPTH = 6
"""Steps of a way of dominators that are compared."""


@dataclass(frozen=True, kw_only=True)
class HeapDiff:
    """``types`` and ``dominators``, what has grown most first; bytes before and after of all objects together."""

    types: Table
    dominators: Table
    before_bytes: int
    after_bytes: int
    before_nodes: int
    after_nodes: int

    @property
    def grown_bytes(self) -> int:
        """How many more there are; below 0: fewer."""
        return self.after_bytes - self.before_bytes


def diff(before: Graph, after: Graph) -> HeapDiff:
    """From one heap to another."""
    return HeapDiff(
        types=_types(before, after),
        dominators=_dominators(before, after),
        before_bytes=before.bytes,
        after_bytes=after.bytes,
        before_nodes=before.nodes,
        after_nodes=after.nodes,
    )


def numbers_by_type(graph: Graph) -> NumbersByType:
    """(count, bytes, retained) by (name, module): what is left to compare when a heap is gone."""
    count, size = sums(graph.node_type, graph.node_size, len(graph.type_name))
    columns = (graph.type_name.to_pylist(), graph.type_module.to_pylist(), count.tolist(), size.tolist())
    rows = zip(*columns, graph.retained_by_type.tolist(), strict=True)
    return {(name, module): (n, b, r) for place, (name, module, n, b, r) in enumerate(rows) if n and place}


def _joined(
    before: dict[_Key, tuple[int, int, int]], after: dict[_Key, tuple[int, int, int]], by: int
) -> list[tuple[_Key, list[int]]]:
    """(key, before and after of each number), what differs, in the order of growth of the number at ``by``."""
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    nothing = (0, 0, 0)
    rows = [(key, [*before.get(key, nothing), *after.get(key, nothing)]) for key in keys]
    return sorted(rows, key=lambda row: (row[1][by] - row[1][by + 3], row[1][0] - row[1][3]))


def _columns(rows: Sequence[tuple[_Key, list[int]]]) -> dict[str, Scalar]:
    values = np.array([numbers for _, numbers in rows], np.int64).reshape(-1, 6)
    made: dict[str, Scalar] = {}
    for place, name in enumerate(("count", "bytes", "retained_bytes")):
        made[f"{name}_before"] = Scalar(values[:, place].copy(), None, Kind.I8)
        made[f"{name}_after"] = Scalar(values[:, place + 3].copy(), None, Kind.I8)
        made[f"{name}_grown"] = Scalar(values[:, place + 3] - values[:, place], None, Kind.I8)
    return made


_UNITS = {f"{name}_{when}": "bytes" for name in ("bytes", "retained_bytes") for when in ("before", "after", "grown")}


def _types(before: Graph, after: Graph) -> Table:
    rows = _joined(numbers_by_type(before), numbers_by_type(after), 1)
    return Table(
        {
            "type": Text.from_pylist([key[0] for key, _ in rows]),
            "module": Text.from_pylist([key[1] for key, _ in rows]),
            **_columns(rows),
        },
        title="types that changed",
        units=_UNITS,
    )


def _numbers_by_way(graph: Graph) -> dict[_Key, tuple[int, int, int]]:
    found = Branches.of(graph, DEPTH)
    names = graph.type_name.to_pylist()
    rows = zip(found.count.tolist(), found.bytes.tolist(), found.retained.tolist(), strict=True)
    made: dict[_Key, tuple[int, int, int]] = {}
    for way, numbers in enumerate(rows):
        types = found.ways.types_of(way, MOST_STEPS)
        key = tuple(BETWEEN if number < 0 else names[number] for number in types)
        known = made.get(key, (0, 0, 0))  # types of one name in several modules
        made[key] = (known[0] + numbers[0], known[1] + numbers[1], known[2] + numbers[2])
    return made


def _dominators(before: Graph, after: Graph) -> Table:
    rows = _joined(_numbers_by_way(before), _numbers_by_way(after), 2)
    texts = [text for key, _ in rows for text in key]
    offsets = np.concatenate([[0], np.cumsum([len(key) for key, _ in rows])]).astype(np.int64)
    return Table(
        {"path": ListOf(offsets, Text.from_pylist(texts)), **_columns(rows)},
        title="dominators that changed",
        units=_UNITS,
    )


def growing_types(heaps: Sequence[Graph]) -> Table:
    """Types of which there are more in each heap than in the one before, in number or in bytes, and never fewer: what grew most first.

    ``retained_bytes_grown`` is what they keep alive besides. UsageError for fewer than two heaps.
    """
    return growing_table([numbers_by_type(heap) for heap in heaps])


def growing_table(tables: Sequence[NumbersByType]) -> Table:
    """The same of what :func:`numbers_by_type` told of each heap."""
    if len(tables) < 2:
        raise UsageError(f"{len(tables)} heaps: what grows is seen in two or more")
    rows: list[tuple[_Key, list[int]]] = []
    for key in tables[-1]:
        counts, sizes, _ = zip(*(table.get(key, (0, 0, 0)) for table in tables), strict=True)
        if _only_grows(counts) and _only_grows(sizes) and sizes[-1] > sizes[0]:
            rows.append((key, [*tables[0].get(key, (0, 0, 0)), *tables[-1][key]]))
    rows.sort(key=lambda row: (row[1][1] - row[1][4], row[1][0] - row[1][3]))
    steps = [
        sum(later.get(key, (0, 0, 0))[1] > earlier.get(key, (0, 0, 0))[1] for earlier, later in pairwise(tables))
        for key, _ in rows
    ]
    return Table(
        {
            "type": Text.from_pylist([key[0] for key, _ in rows]),
            "module": Text.from_pylist([key[1] for key, _ in rows]),
            "steps": Scalar(np.array(steps, np.int64), None, Kind.I8),
            **_columns(rows),
        },
        title="types that only grow",
        units=_UNITS,
        notes=(f"of {len(tables)} heaps",),
    )


def _only_grows(values: Sequence[int]) -> bool:
    return all(earlier <= later for earlier, later in pairwise(values))
