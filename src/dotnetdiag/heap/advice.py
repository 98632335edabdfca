"""What is likely to be wrong with a heap, as far as its graph can tell: statics that hold much, collections that are mostly empty, events with
many handlers, many timers. What no root reaches is garbage, of which is said how much it is, where it is much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.events import Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.holders import DIAGNOSTICS, STATIC
from dotnetdiag.heap.kernels import NONE, reference_places, retained_by_type, sums
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

STATIC_SHARE = 0.01
"""Of all bytes: what a static variable keeps alive at least to be told of."""
MOST_STATICS, MOST_COLLECTIONS, MOST_EVENTS = 10, 10, 10
WASTE_SHARE, WASTE_BYTES = 0.005, 64 << 10
"""What the empty places of a kind of collection take at least, of all bytes and in bytes."""
MANY_HANDLERS, MANY_TIMERS = 100, 100
UNREACHED_SHARE = 0.1
"""Of all bytes: what no root reaches at least to be told of."""
_OF_DIAGNOSTICS = "descriptions of the runtime's own events, which the first session of diagnostics leaves: no leak"
_OF_FRAMEWORK = "by its name it is one of the framework's own"
_OF_PROGRAM = "if it only grows, it is a leak"
_TYPE = re.compile(r"[^<>,\[\]]+")
_TIMER, _QUEUE = "System.Threading.TimerQueueTimer", "System.Threading.TimerQueue"
_HANDLER = re.compile(r"EventHandler(<|$)|^System\.(Action|Func)(<|$)|(Callback|Handler|Delegate)(<|$)")
_LISTS = "System.Object[]"
"""What a delegate of several keeps them in."""
_VALUES = frozenset(
    f"System.{name}"
    for name in (
        "Boolean", "Byte", "SByte", "Char", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "IntPtr", "UIntPtr", "Single",
        "Double", "Decimal", "DateTime", "DateTimeOffset", "TimeSpan", "Guid", "Half", "Int128", "UInt128",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Advice:
    kind: str
    subject: str
    count: int
    bytes: int
    text: str


def advice_table(graph: Graph) -> Table:
    """Rows of one kind together, each kind's largest first."""
    rows = [*_unreached(graph), *_statics(graph), *_collections(graph), *_events(graph), *_timers(graph)]
    return Table(
        {
            "kind": Text.from_pylist([row.kind for row in rows]),
            "subject": Text.from_pylist([row.subject for row in rows]),
            "count": Scalar(np.array([row.count for row in rows], np.int64), None, Kind.I8),
            "bytes": Scalar(np.array([row.bytes for row in rows], np.int64), None, Kind.I8),
            "advice": Text.from_pylist([row.text for row in rows]),
        },
        title="advice",
        units={"bytes": "bytes"},
    )


def _share(size: int, graph: Graph) -> str:
    return f"{100 * size / max(graph.bytes, 1):.1f} %"


def _names(graph: Graph) -> list[str]:
    return [name or "" for name in graph.type_name.to_pylist()]


def _reached(graph: Graph) -> Array:
    """Of each node, whether it is alive."""
    reached: Array = graph.dominators >= 0
    reached[graph.root] = True
    return reached


def unreached_bytes(graph: Graph) -> int:
    """Bytes of objects that no root reaches."""
    return graph.bytes - int(graph.retained[graph.root])


def _unreached(graph: Graph) -> Iterator[_Advice]:
    size = unreached_bytes(graph)
    if size and size >= UNREACHED_SHARE * graph.bytes:
        is_whole = graph.has_roots and graph.completeness.complete
        means = "garbage, or roots that the dump lacks" if is_whole else graph.means_unreached
        yield _Advice(
            "unreached", "", graph.nodes - len(graph.breadth_first[0]), size,
            f"{_share(size, graph)} of the bytes are reached from no root: {means}",
        )  # fmt: skip


def _statics(graph: Graph) -> Iterator[_Advice]:
    """What static variables keep alive, each by itself."""
    names = _names(graph)
    kinds = [number for number, name in enumerate(names) if name.startswith(STATIC)]
    nodes = np.flatnonzero(np.isin(graph.node_type, kinds) & _reached(graph))
    held = [np.unique(graph.references(node)) for node in nodes.tolist()]
    # not what the variable's own node dominates: the runtime keeps statics in arrays of its own too
    retained = np.array([int(graph.retained[one].sum(dtype=np.uint64)) for one in held], np.int64)
    for row in np.argsort(-retained, kind="stable")[:MOST_STATICS].tolist():
        size = int(retained[row])
        if size < STATIC_SHARE * graph.bytes:
            return
        holder = names[int(graph.node_type[nodes[row]])]
        name = holder[len(STATIC) : -1]
        means = _OF_DIAGNOSTICS if holder == DIAGNOSTICS else _OF_FRAMEWORK if _is_of_framework(name) else _OF_PROGRAM
        yield _Advice(
            "static", name, len(held[row]), size,
            f"what the static variable {name} refers to keeps {size:,} bytes alive, {_share(size, graph)} of the heap: {means}",
        )  # fmt: skip


def _is_of_framework(variable: str) -> bool:
    """Whether a static variable is likely to be the framework's: named as its own are (``s_``), and of its own types alone. The runtime does not
    tell which class declares it.
    """
    kind, _, field = variable.rpartition(".")
    types = _TYPE.findall(kind)
    return field.startswith("s_") and bool(types) and all(name.startswith(("System.", "Microsoft.")) for name in types)


def _holders(graph: Graph, nodes: Array) -> Array:
    """What each is held by: its dominator, and where that is the root, what it is reached over from there: a static variable first."""
    above = graph.dominators[nodes].astype(np.int64)
    parent = graph.breadth_first[1][nodes]
    known = np.where(parent == NONE, -1, parent.astype(np.int64))
    return np.where(above == graph.root, known, above)


def _element_pointers(names: list[str], there: Array) -> list[int]:
    """Types of arrays whose elements are objects: elements of such types are there, and those of no known value type."""
    known = {name: number for number, name in enumerate(names)}
    made = []
    for number, name in enumerate(names):
        element = name[:-2]
        if name.endswith("[]") and element not in _VALUES:
            own = known.get(element)
            if element == "System.Object" or (own is not None and there[own]):
                made.append(number)
    return made


def _collections(graph: Graph) -> Iterator[_Advice]:
    """Arrays of objects with many empty places, by what holds them."""
    names = _names(graph)
    count, _ = sums(graph.node_type, graph.node_size, len(names))
    rows = np.flatnonzero(np.isin(graph.node_type, _element_pointers(names, count)) & _reached(graph))
    pointer = graph.facts.pointer_size
    places = graph.node_size[rows].astype(np.int64) // pointer - 3  # the type, the length, and the header before
    filled = graph.edge_start[rows + 1].astype(np.int64) - graph.edge_start[rows].astype(np.int64)
    empty = np.maximum(places - filled, 0)
    mostly = np.flatnonzero(2 * empty > places)
    rows, empty, filled = rows[mostly], empty[mostly], filled[mostly]
    holder = _holders(graph, rows)
    holder = np.where(holder >= 0, graph.node_type[np.maximum(holder, 0)], 0).astype(np.int64)
    keys, which = np.unique(holder << 32 | graph.node_type[rows].astype(np.int64), return_inverse=True)
    wasted = np.bincount(which, empty * pointer, len(keys)).astype(np.int64)
    number = np.bincount(which, minlength=len(keys))
    none = np.bincount(which, filled == 0, len(keys)).astype(np.int64)
    least = max(WASTE_BYTES, WASTE_SHARE * graph.bytes)
    for row in np.argsort(-wasted, kind="stable")[:MOST_COLLECTIONS].tolist():
        if wasted[row] < least:
            return
        above, array = names[int(keys[row]) >> 32], names[int(keys[row]) & 0xFFFFFFFF]
        subject = f"{array} in {above}" if above else array
        yield _Advice(
            "collection", subject, int(number[row]), int(wasted[row]),
            f"{number[row]:,} {array} of {above or 'several'} {_fullness(int(number[row]), int(none[row]))}: "
            f"{wasted[row]:,} bytes for nothing; give a capacity, or make them when something is to be kept",
        )  # fmt: skip


def _fullness(number: int, none: int) -> str:
    if number == 1:
        return "is empty" if none else "is less than half full"
    return f"are less than half full, {none:,} of them empty"


def _events(graph: Graph) -> Iterator[_Advice]:
    """Delegates that call many others: one of those that share a list of them."""
    names = _names(graph)
    kinds = [number for number, name in enumerate(names) if _HANDLER.search(name)]
    lists = [number for number, name in enumerate(names) if name == _LISTS]
    counts = np.diff(graph.edge_start.astype(np.int64))
    long = np.flatnonzero(np.isin(graph.node_type, lists) & (counts >= MANY_HANDLERS))
    of, at = reference_places(graph.edge_start, long)
    others = of[~np.isin(graph.node_type[graph.edge_target[at]], kinds)]
    is_list = np.zeros(graph.nodes, np.bool_)
    is_list[np.setdiff1d(long, others)] = True
    handlers = np.flatnonzero(np.isin(graph.node_type, kinds) & _reached(graph)) if is_list.any() else long[:0]
    of, at = reference_places(graph.edge_start, handlers)
    held = graph.edge_target[at].astype(np.int64)
    of, held = of[is_list[held]], held[is_list[held]]
    held, first = np.unique(held, return_index=True)  # several may share a list
    chosen = np.argsort(-counts[held], kind="stable")[:MOST_EVENTS]
    for node, count in zip(of[first][chosen].tolist(), counts[held][chosen].tolist(), strict=True):
        above = int(_holders(graph, np.array([node]))[0])
        holder = names[int(graph.node_type[above])] if above >= 0 else ""
        size = int(graph.retained[node])
        kind = names[int(graph.node_type[node])]
        yield _Advice(
            "event", f"{kind} of {holder}" if holder else kind, count, size,
            f"{count:,} handlers of one {kind}{f' of {holder}' if holder else ''}: who subscribes and never unsubscribes stays alive",
        )  # fmt: skip


def _timers(graph: Graph) -> Iterator[_Advice]:
    """Timers that are set: these are in a list of their queue's, each of which refers to the next. One that is not set is in none."""
    names = _names(graph)
    timers = np.isin(graph.node_type, [number for number, name in enumerate(names) if name == _TIMER])
    queues = np.isin(graph.node_type, [number for number, name in enumerate(names) if name == _QUEUE])
    of, at = reference_places(graph.edge_start, np.flatnonzero(timers | queues))
    listed = graph.edge_target[at]
    which = np.zeros(graph.nodes, np.uint32)
    which[listed[listed != of]] = 1
    which[~(timers & _reached(graph))] = 0
    count = int(np.count_nonzero(which))
    if count >= MANY_TIMERS:
        size = int(retained_by_type(graph.dominators, which, graph.retained, 2)[1])  # one may hold the next
        yield _Advice(
            "timer", _TIMER, count, size,
            f"{count:,} timers are set, and keep {size:,} bytes alive: one that is no longer needed must be disposed of",
        )  # fmt: skip
