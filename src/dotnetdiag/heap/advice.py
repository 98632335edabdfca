"""What is likely to be wrong with a heap, as far as its graph can tell: roots that hold much, collections that are mostly empty, events with
many handlers, many timers. What no root reaches is garbage, of which is said how much it is, where it is much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.events import Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.heap.findings import Finding, holders_of, reached_nodes, share_text, type_names
from dotnetdiag.heap.framework import HANDLER
from dotnetdiag.heap.kernels import reference_places, retained_by_type
from dotnetdiag.heap.root_findings import root_findings
from dotnetdiag.heap.waste import waste_findings
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.heap.graph import Graph

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_EVENTS = 10
MANY_HANDLERS, MANY_TIMERS = 100, 100
UNREACHED_SHARE = 0.1
"""Of all bytes: what no root reaches at least to be told of."""
_TIMER, _QUEUE = "System.Threading.TimerQueueTimer", "System.Threading.TimerQueue"
_LISTS = "System.Object[]"
"""What a delegate of several keeps them in."""


def advice_table(graph: Graph) -> Table:
    """Rows of one kind together, each kind's largest first."""
    rows = [*_unreached(graph), *root_findings(graph), *waste_findings(graph), *_events(graph), *_timers(graph)]
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


def unreached_bytes(graph: Graph) -> int:
    """Bytes of objects that no root reaches."""
    return graph.bytes - int(graph.retained[graph.root])


def _unreached(graph: Graph) -> Iterator[Finding]:
    size = unreached_bytes(graph)
    if size and size >= UNREACHED_SHARE * graph.bytes:
        is_whole = graph.has_roots and graph.completeness.complete
        means = "garbage, or roots that the dump lacks" if is_whole else graph.means_unreached
        yield Finding(
            "unreached", "", graph.nodes - len(graph.breadth_first[0]), size,
            f"{share_text(size, graph)} of the bytes are reached from no root: {means}",
        )  # fmt: skip


def _events(graph: Graph) -> Iterator[Finding]:
    """Delegates that call many others: one of those that share a list of them."""
    names = type_names(graph)
    kinds = [number for number, name in enumerate(names) if HANDLER.search(name)]
    lists = [number for number, name in enumerate(names) if name == _LISTS]
    counts = np.diff(graph.edge_start.astype(np.int64))
    long = np.flatnonzero(np.isin(graph.node_type, lists) & (counts >= MANY_HANDLERS))
    of, at = reference_places(graph.edge_start, long)
    others = of[~np.isin(graph.node_type[graph.edge_target[at]], kinds)]
    is_list = np.zeros(graph.nodes, np.bool_)
    is_list[np.setdiff1d(long, others)] = True
    handlers = np.flatnonzero(np.isin(graph.node_type, kinds) & reached_nodes(graph)) if is_list.any() else long[:0]
    of, at = reference_places(graph.edge_start, handlers)
    held = graph.edge_target[at].astype(np.int64)
    of, held = of[is_list[held]], held[is_list[held]]
    held, first = np.unique(held, return_index=True)  # several may share a list
    chosen = np.argsort(-counts[held], kind="stable")[:MOST_EVENTS]
    for node, count in zip(of[first][chosen].tolist(), counts[held][chosen].tolist(), strict=True):
        above = int(holders_of(graph, np.array([node]))[0])
        holder = names[int(graph.node_type[above])] if above >= 0 else ""
        size = int(graph.retained[node])
        kind = names[int(graph.node_type[node])]
        yield Finding(
            "event", f"{kind} of {holder}" if holder else kind, count, size,
            f"{count:,} handlers of one {kind}{f' of {holder}' if holder else ''}: who subscribes and never unsubscribes stays alive",
        )  # fmt: skip


def _timers(graph: Graph) -> Iterator[Finding]:
    """Timers that are set: these are in a list of their queue's, each of which refers to the next. One that is not set is in none."""
    names = type_names(graph)
    timers = np.isin(graph.node_type, [number for number, name in enumerate(names) if name == _TIMER])
    queues = np.isin(graph.node_type, [number for number, name in enumerate(names) if name == _QUEUE])
    of, at = reference_places(graph.edge_start, np.flatnonzero(timers | queues))
    listed = graph.edge_target[at]
    which = np.zeros(graph.nodes, np.uint32)
    which[listed[listed != of]] = 1
    which[~(timers & reached_nodes(graph))] = 0
    count = int(np.count_nonzero(which))
    if count >= MANY_TIMERS:
        size = int(retained_by_type(graph.dominators, which, graph.retained, 2)[1])  # one may hold the next
        yield Finding(
            "timer", _TIMER, count, size,
            f"{count:,} timers are set, and keep {size:,} bytes alive: one that is no longer needed must be disposed of",
        )  # fmt: skip
