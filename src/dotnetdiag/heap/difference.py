"""What has grown from one heap to another, and what only grows over several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.errors import UsageError
from dotnetdiag.events import ListOf, Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.facts import Completeness
from dotnetdiag.heap.holders import DIAGNOSTICS, ROOTS, STATICS
from dotnetdiag.heap.kernels import retained_by_type, sums
from dotnetdiag.heap.paths import BETWEEN, MOST_STEPS
from dotnetdiag.heap.tree import Branches
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"
_Key: TypeAlias = "tuple[str | None, ...]"
_Numbers: TypeAlias = "dict[_Key, tuple[int, int, int]]"

_NOTHING = (0, 0, 0)
DEPTH = 6
"""Steps of a way of dominators that are compared."""


@dataclass(frozen=True, kw_only=True)
class HeapDiff:
    """``types`` and ``dominators``, what has grown most first; bytes before and after of all objects together, and how many there are.

    Types are the same whose names are, and the names of their modules' files: in whichever folder these are; where one heap does not tell the
    module of a type, the names alone. ``completeness`` has what is missing of either heap: what is said of growth is certain without it alone.
    """

    types: Table
    dominators: Table
    before_bytes: int
    after_bytes: int
    before_nodes: int
    after_nodes: int
    before_objects: int = 0
    after_objects: int = 0
    completeness: Completeness = field(default_factory=Completeness)

    @property
    def grown_bytes(self) -> int:
        """How many more there are; below 0: fewer."""
        return self.after_bytes - self.before_bytes

    @property
    def diagnostics_bytes(self) -> int:
        """How many more bytes are alive by what the runtime keeps for sessions of events. The first session of a process, of which the first heap
        comes, leaves that behind: it is in the second heap, and no leak.
        """
        path = [ROOTS, STATICS, DIAGNOSTICS]
        paths = self.dominators.values("path")
        rows = (row for row, steps in enumerate(paths) if list(steps) == path)
        return sum(self.dominators.values("retained_bytes_grown")[row] for row in rows)


def diff(before: Graph, after: Graph) -> HeapDiff:
    """From one heap to another."""
    return HeapDiff(
        types=_types(before, after),
        dominators=_dominators(before, after),
        before_bytes=before.bytes,
        after_bytes=after.bytes,
        before_nodes=before.nodes,
        after_nodes=after.nodes,
        before_objects=before.objects,
        after_objects=after.objects,
        completeness=Completeness(problems=(*_said("before", before), *_said("after", after))),
    )


def _said(which: str, graph: Graph) -> list[str]:
    sample = graph.facts.sample
    return [f"{which}: {text}" for text in (*graph.completeness.problems, *(() if sample is None else (sample,)))]


@dataclass(frozen=True, slots=True)
class NumbersByType:
    """(count, bytes, retained) by (type, name of the module's file), and the path of each module."""

    numbers: _Numbers
    modules: dict[_Key, str | None]


def numbers_by_type(graph: Graph, alike: frozenset[str | None] = frozenset()) -> NumbersByType:
    """What is left to compare when a heap is gone. ``alike`` are names that are one type each, whatever their modules."""
    names, paths = graph.type_name.to_pylist(), graph.type_module.to_pylist()
    groups: dict[_Key, int] = {}
    modules: dict[_Key, str | None] = {}
    group_of = [0]  # of what nothing is known of
    for name, path in zip(names[1:], paths[1:], strict=True):
        key = (name, None if name in alike else module_file(path))
        group_of.append(groups.setdefault(key, len(groups) + 1))
        if key not in modules or module_file(modules[key]) is None:
            modules[key] = path
    which, kept = graph.node_type, graph.retained_by_type
    if len(groups) + 1 < len(group_of):
        which = np.array(group_of, np.uint32)[which]
        kept = retained_by_type(graph.dominators, which, graph.retained, len(groups) + 1)
    count, size = sums(which, graph.node_size, len(groups) + 1)
    rows = list(zip(count.tolist(), size.tolist(), kept.tolist(), strict=True))
    return NumbersByType({key: rows[group] for key, group in groups.items() if rows[group][0]}, modules)


def module_file(path: str | None) -> str | None:
    """Of a module; None of one whose path is not known, which has its address for a name."""
    if path is None or path.startswith("Module(0x"):
        return None
    return path.replace("\\", "/").rpartition("/")[2]


def alike_names(tables: Sequence[NumbersByType]) -> frozenset[str | None]:
    """Names of types that are taken for one type each, whatever their modules: those of which a heap, as one that was cut, does not tell a module
    that another tells.
    """
    files: dict[str | None, list[set[str | None]]] = {}
    for table in tables:
        own: dict[str | None, set[str | None]] = {}
        for name, file, *_ in table.numbers:
            own.setdefault(name, set()).add(file)
        for name, of in own.items():
            files.setdefault(name, []).append(of)
    return frozenset(
        name for name, each in files.items() if any(None in of for of in each) and any(of != each[0] for of in each)
    )


def _without_modules(table: NumbersByType, names: frozenset[str | None]) -> NumbersByType:
    """The same with one row for all types of each of these names. What they keep alive is added up: what is within each other counts twice."""
    numbers: _Numbers = {}
    modules = dict(table.modules)
    for key, row in table.numbers.items():
        one = (key[0], None) if key[0] in names else key
        known = numbers.get(one, (0, 0, 0))
        numbers[one] = (known[0] + row[0], known[1] + row[1], known[2] + row[2])
        if module_file(modules.get(one)) is None:
            modules[one] = table.modules[key]
    return NumbersByType(numbers, modules)


def _joined(before: _Numbers, after: _Numbers, by: int) -> list[tuple[_Key, list[int]]]:
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
    earlier, later = numbers_by_type(before), numbers_by_type(after)
    if alike := alike_names((earlier, later)):
        earlier, later = numbers_by_type(before, alike), numbers_by_type(after, alike)
    modules = {**earlier.modules, **later.modules}
    modules |= {key: path for key, path in earlier.modules.items() if module_file(modules[key]) is None}
    rows = _joined(earlier.numbers, later.numbers, 1)
    return Table(
        {
            "type": Text.from_pylist([key[0] for key, _ in rows]),
            "module": Text.from_pylist([modules[key] for key, _ in rows]),
            **_columns(rows),
        },
        title="types that changed",
        units=_UNITS,
    )


def _numbers_by_way(graph: Graph) -> _Numbers:
    found = Branches.of(graph, DEPTH)
    names = graph.type_name.to_pylist()
    rows = zip(found.count.tolist(), found.bytes.tolist(), found.retained.tolist(), strict=True)
    made: _Numbers = {}
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
    """Types that only grow: from no heap to the next are there fewer of them, or fewer bytes, and in the last there are more bytes than in the
    first; of three heaps or more also more than in the second, for the first session of a process leaves objects behind. What grew most
    comes first.

    ``steps`` is how many times the bytes went up, ``retained_bytes_grown`` what they keep alive besides. Types are the same as for
    :class:`HeapDiff`. UsageError for fewer than two heaps.
    """
    if len(heaps) < 2:
        raise UsageError(f"{len(heaps)} heaps: what grows is seen in two or more")
    seen = Growth()
    for heap in heaps:
        seen.take(numbers_by_type(heap))
    return seen.table()


def no_growing_types() -> Table:
    """The columns of :func:`growing_types`, and no row."""
    return Growth().table()


class Growth:
    """What :func:`growing_types` tells, heap by heap, each by what :func:`numbers_by_type` told of it. Three of them are held, however many there
    were: the first, the second and the last.
    """

    def __init__(self) -> None:
        self.heaps = 0
        self._tables: list[NumbersByType] = []
        self._shrunk: set[_Key] = set()
        """Types of which there were fewer, or fewer bytes, once."""
        self._steps: Counter[_Key] = Counter()

    def take(self, table: NumbersByType) -> None:
        """The next heap."""
        if self._tables:
            pair = self._tables[-1], table
            earlier, later = (one.numbers for one in _by_the_same(pair, alike_names(pair)))
            for key in {**earlier, **later}:
                before, after = (numbers.get(key, _NOTHING) for numbers in (earlier, later))
                if after[0] < before[0] or after[1] < before[1]:
                    self._shrunk.add(key)
                self._steps[key] += after[1] > before[1]
        self._tables[2:] = []
        self._tables.append(table)
        self.heaps += 1

    def table(self) -> Table:
        """The types that only grew."""
        alike = alike_names(self._tables)
        tables = _by_the_same(self._tables, alike)
        rows: list[tuple[_Key, list[int]]] = []
        for key, last in tables[-1].numbers.items() if tables else ():
            first = tables[0].numbers.get(key, _NOTHING)
            before = tables[0 if len(tables) < 3 else 1].numbers.get(key, _NOTHING)
            if last[1] > before[1] and self._known_as(key).isdisjoint(self._shrunk):
                rows.append((key, [*first, *last]))
        rows.sort(key=lambda row: (row[1][1] - row[1][4], row[1][0] - row[1][3]))
        steps = [min(sum(self._steps[one] for one in self._known_as(key)), self.heaps - 1) for key, _ in rows]
        return Table(
            {
                "type": Text.from_pylist([key[0] for key, _ in rows]),
                "module": Text.from_pylist([tables[-1].modules[key] for key, _ in rows]),
                "steps": Scalar(np.array(steps, np.int64), None, Kind.I8),
                **_columns(rows),
            },
            title="types that only grow",
            units=_UNITS,
            notes=(f"of {self.heaps} heaps",) if tables else (),
        )

    def _known_as(self, key: _Key) -> set[_Key]:
        """The keys that a type had: where heaps do not tell its module it has none, and is one with all of its name."""
        if key[1] is not None:
            return {key, (key[0], None)}
        return {key, *(one for one in self._steps if one[0] == key[0])}


def _by_the_same(tables: Sequence[NumbersByType], alike: frozenset[str | None]) -> Sequence[NumbersByType]:
    return [_without_modules(table, alike) for table in tables] if alike else tables
