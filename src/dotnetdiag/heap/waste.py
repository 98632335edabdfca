"""Collections that are mostly empty: arrays of references with many empty places, and tables of dictionaries in which certainly nothing is.

Of an array of values a heap does not tell which places are used. The table of a dictionary or a set is one: where its keys are references, which
are never null in a dictionary, and at most one is in a set, a table without any reference is empty, or has that null alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.heap.findings import Finding, holders_of, reached_nodes, type_names
from dotnetdiag.heap.kernels import sums
from dotnetdiag.heap.static_places import array_places

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_COLLECTIONS = 10
WASTE_SHARE, WASTE_BYTES = 0.005, 64 << 10
"""What the empty places of a kind of collection take at least, of all bytes and in bytes."""
_ARRAY = re.compile(r"(?P<element>.+)(?:\[\]|<(?P<commas>,+)>)")
"""Of one dimension, or of several: ``System.String<,>``."""
_TABLE = re.compile(r"(?:Entry|Slot)<(?P<of>.+)>\[\]")
"""A set of .NET Core 3.1 has slots."""
_DICTIONARY, _SET = "System.Collections.Generic.Dictionary", "System.Collections.Generic.HashSet"
_BOUNDS_BYTES = 8
"""Of each dimension where there are several: its length and where it begins."""
_REFERENCES = frozenset({"System.Object", "System.String", "System.Type"})
_VALUES = frozenset(
    f"System.{name}"
    for name in (
        "Boolean", "Byte", "SByte", "Char", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "IntPtr", "UIntPtr", "Single",
        "Double", "Decimal", "DateTime", "DateTimeOffset", "TimeSpan", "Guid", "Half", "Int128", "UInt128",
    )
)  # fmt: skip


def waste_findings(graph: Graph) -> Iterator[Finding]:
    """By what holds the collections: what wastes most first."""
    names = type_names(graph)
    parts = zip(_of_references(graph, names), _of_tables(graph, names), strict=True)
    rows, wasted, filled = (np.concatenate(part) for part in parts)
    holder = holders_of(graph, rows)
    holder = np.where(holder >= 0, graph.node_type[np.maximum(holder, 0)], 0).astype(np.int64)
    keys, which = np.unique(holder << 32 | graph.node_type[rows].astype(np.int64), return_inverse=True)
    wasted = np.bincount(which, wasted, len(keys)).astype(np.int64)
    number = np.bincount(which, minlength=len(keys))
    none = np.bincount(which, filled == 0, len(keys)).astype(np.int64)
    least = max(WASTE_BYTES, WASTE_SHARE * graph.bytes)
    for row in np.argsort(-wasted, kind="stable")[:MOST_COLLECTIONS].tolist():
        if wasted[row] < least:
            return
        above, array = names[int(keys[row]) >> 32], names[int(keys[row]) & 0xFFFFFFFF]
        subject = f"{array} in {above}" if above else array
        yield Finding(
            "collection", subject, int(number[row]), int(wasted[row]),
            f"{number[row]:,} {array} of {above or 'several'} {_fullness(int(number[row]), int(none[row]), _is_set(array, above))}: "
            f"{wasted[row]:,} bytes for nothing; give a capacity, or make them when something is to be kept",
        )  # fmt: skip


def _fullness(number: int, none: int, is_set: bool) -> str:
    if is_set:  # of all of them the same is known
        return f"{'is' if number == 1 else 'are all'} empty, or {'has' if number == 1 else 'have'} a null alone"
    if number == 1:
        return "is empty" if none else "is less than half full"
    return f"are less than half full, {none:,} of them empty"


def _is_set(array: str, above: str) -> bool:
    """Whether it is the table of a set."""
    return above.startswith(f"{_SET}<") and _TABLE.fullmatch(array) is not None


def _of_references(graph: Graph, names: list[str]) -> tuple[Array, Array, Array]:
    """(arrays of references that are less than half full, bytes of empty places, how many places are filled)."""
    bounds = _bounds_of_arrays(graph, names)
    rows = np.flatnonzero((bounds >= 0)[graph.node_type] & reached_nodes(graph))
    pointer = graph.facts.pointer_size
    places = array_places(graph.node_size[rows], pointer) - bounds[graph.node_type[rows]] // pointer
    filled = _references(graph, rows)
    empty = np.maximum(places - filled, 0)
    mostly = np.flatnonzero(2 * empty > places)
    return rows[mostly], empty[mostly] * pointer, filled[mostly]


def _references(graph: Graph, nodes: Array) -> Array:
    """How many each has."""
    count: Array = graph.edge_start[nodes + 1].astype(np.int64) - graph.edge_start[nodes].astype(np.int64)
    return count


def _bounds_of_arrays(graph: Graph, names: list[str]) -> Array:
    """By type the bytes that the bounds of such an array take, -1 of what is no array of references: elements of such types are there, and those of
    no known value type.
    """
    there, _ = sums(graph.node_type, graph.node_size, len(names))
    known = {name: number for number, name in enumerate(names)}
    bounds = np.full(len(names), -1, np.int64)
    for number, name in enumerate(names):
        found = _ARRAY.fullmatch(name)
        if found is None or found["element"] in _VALUES:
            continue
        own = known.get(found["element"])
        if _is_reference(found["element"]) or (own is not None and there[own]):
            bounds[number] = _BOUNDS_BYTES * (len(found["commas"]) + 1) if found["commas"] else 0
    return bounds


def _is_reference(name: str) -> bool:
    """Whether a type is one of references for certain."""
    return name in _REFERENCES or _ARRAY.fullmatch(name) is not None


def _of_tables(graph: Graph, names: list[str]) -> tuple[Array, Array, Array]:
    """(tables without any reference whose keys are references, bytes of their places, how many of these may be filled): none of a heap of which
    references may be missing.
    """
    keyed = {number: found["of"] for number, name in enumerate(names) if (found := _TABLE.fullmatch(name)) is not None}
    if not graph.completeness.complete or graph.facts.sample is not None:
        keyed = {}
    kinds = [number for number, of in keyed.items() if _is_reference(_first_of(of))]
    rows = np.flatnonzero(np.isin(graph.node_type, kinds) & reached_nodes(graph)) if kinds else np.zeros(0, np.int64)
    rows = rows[_references(graph, rows) == 0]
    above = holders_of(graph, rows)
    filled = np.full(len(rows), -1, np.int64)
    for row, (node, holder) in enumerate(zip(rows.tolist(), above.tolist(), strict=True)):
        of = keyed[int(graph.node_type[node])]
        name = names[int(graph.node_type[holder])] if holder >= 0 else ""
        filled[row] = {f"{_DICTIONARY}<{of}>": 0, f"{_SET}<{of}>": 1}.get(name, -1)
    rows, filled = rows[filled >= 0], filled[filled >= 0]
    pointer = graph.facts.pointer_size
    return rows, array_places(graph.node_size[rows], pointer) * pointer, filled


def _first_of(arguments: str) -> str:
    """The first of the types that a generic one has between its brackets."""
    depth = 0
    for place, letter in enumerate(arguments):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            return arguments[:place]
    return arguments
