"""In which call of an asynchronous method a thread blocks, that has gone on after an await: what its stack tells, and the ends of awaits before it.

``await_calls`` says how these are put together.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.pairs import latest_rows
from dotnetdiag.analysis.running_groups import Numbering
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.frame import Frame
from dotnetdiag.trace.stack_tree import NO_FRAME

Array: TypeAlias = "np.ndarray[Any, Any]"

RESUMED = np.dtype([("method", "i4"), ("end", "i4"), ("is_resumed", "?"), ("in_task", "?"), ("is_next", "?")])
_OTHER, _END_WRITTEN, _BOX, _CONTEXT, _EXECUTED = range(5)


def latest_at(place: Array, rows: Array, ms: Array, of_place: Array, of_ms: Array, carried: Array) -> Array:
    """Of each of these places and times the latest of the rows there, which ``carried`` has of what came before, by places; -1 for none."""
    at = latest_rows([place], ms, [of_place], of_ms)
    found: Array = np.where(at >= 0, np.append(rows, -1)[at], carried[of_place])
    order = np.lexsort((ms, place))
    last = order[np.append(place[order][1:] != place[order][:-1], True)[: len(order)]]
    carried[place[last]] = rows[last]
    return found


class Places:
    """Threads and nodes of their stacks together, numbered from 1 on."""

    def __init__(self) -> None:
        self._tids, self._threads, self._places = Numbering(), Numbering(), Numbering()

    def __len__(self) -> int:
        return len(self._places)

    def of(self, process: Array, tid: Array, node: Array) -> Array:
        """The number of each."""
        thread = self._threads.of(process.astype(np.int64) << 32 | self._tids.of(tid.astype(np.int64)))
        return self._places.of(thread << 32 | node) + 1


def resumed(profile: StackProfile, asked: Array) -> Array:
    """Of each sample, but only of those that are ``asked`` for: whether it is in an asynchronous method that went on, and the innermost such
    ``method``; ``end``: the node that wrote the end of its await before, 0 for none; ``in_task``: it is in a task that the thread executes in there.
    """
    tree = profile.tree
    is_used = tree.inclusive(tree.exclusive(profile.node[asked])) > 0
    kind = np.zeros(len(profile.frames), np.int8)
    for one in distinct(tree.frame[is_used]).tolist():
        if one >= 0:
            kind[one] = _kind_of(profile.frames[one])
    made = np.zeros(len(tree), RESUMED)
    made["method"] = NO_FRAME
    nodes = np.flatnonzero(is_used & (tree.parent >= 0))
    nodes = nodes[np.argsort(tree.depth[nodes], kind="stable")]
    depth = tree.depth[nodes]
    for some in np.split(nodes, np.flatnonzero(depth[1:] != depth[:-1]) + 1):
        of, what = made[tree.parent[some]], kind[tree.frame[some]]
        is_end = what == _END_WRITTEN
        begins = is_end | ((what == _BOX) & ~of["is_next"])
        is_method = of["is_next"] & (what == _OTHER)
        of["method"][begins] = NO_FRAME
        of["method"][is_method] = tree.frame[some][is_method]
        of["is_resumed"] |= begins
        of["end"] = np.where(begins, np.where(is_end, some, 0), of["end"])
        of["is_next"] = (of["is_next"] | begins) & ~is_method
        of["in_task"] = ~begins & (of["in_task"] | (of["is_resumed"] & (what == _EXECUTED)))
        made[some] = of
    found: Array = made[profile.node]
    return found


def _kind_of(frame: Frame) -> int:
    """What a method of .NET does for asynchronous ones. From the root: that which writes the end of an await, if one is written; the box of the
    method's state, and the context it runs in, some times; the method.
    """
    if "<OutputWaitEtwEvents>" in frame.method:
        return _END_WRITTEN
    if "StateMachineBox`1" in frame.type_name:
        return _BOX
    if frame.type_name == "System.Threading.ExecutionContext":
        return _CONTEXT
    is_executed = frame.type_name == "System.Threading.Tasks.Task" and frame.method == "ExecuteWithThreadLocal"
    return _EXECUTED if is_executed else _OTHER
