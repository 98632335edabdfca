"""What awaited what: the chains of asynchronous calls, as the TPL tells them (TaskWaitBegin and -End, keywords 0x3 of its source).

An await is of a task, and by the task that goes on when that is done (of one that blocks its thread, by the task that it blocks, if any). So the
awaits of a program are trees: who awaits the task by which another awaits is its caller. The logical stack of an await is the methods that await on
the way to it, whatever threads they ran on. What an await took counts for it but for the awaits that its own task had meanwhile.

A method is known by the stack of its await, else (NativeAOT) by the name of its task, which the TPL tells with keyword 0x8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis.answers import answer_table, number, whole
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.frames import pseudo
from dotnetdiag.analysis.groups import groups
from dotnetdiag.analysis.kept_events import KeptEvents, Texts, of_source
from dotnetdiag.analysis.lasting import Lasting, LastingEvents
from dotnetdiag.analysis.pairs import first_rows
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.quantiles import quantiles_of
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import method_column
from dotnetdiag.analysis.thread_pool import TPL
from dotnetdiag.analysis.trees import levels, summed_by_parent
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.stack_tree import NO_FRAME, StackTree
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

WAIT_BEGUN, WAIT_ENDED, OPERATION = 10, 11, 14
"""Of the TPL: TaskWaitBegin, TaskWaitEnd, TraceOperationBegin."""
BLOCKING = 1
KINDS = ("Asynchronous", "Synchronous")
DEEPEST = 1000
"""Awaits in each other; those below are chains of their own."""
CHAINS = 1000
"""The longest, of which it is told who awaited what."""
SEPARATOR = " > "
UNKNOWN = "?"
NO_EVENTS = (
    "no tasks: none was awaited, or the recording lacks their events "
    "(record with --providers System.Threading.Tasks.TplEventSource:0xB:5)"
)


@dataclass(frozen=True, kw_only=True)
class TaskTotals:
    """Of all awaits. ``blocking`` ones held their thread; ``unfinished`` have no end in the recording and count in no time; ``chains`` begin with
    an await that nothing awaits, or only what has not ended; ``deepest``: so many in each other. ``awaits_ms``: quantiles by name.
    """

    count: int
    blocking: int
    unfinished: int
    chains: int
    deepest: int
    awaits_ms: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class TaskReport(Report):
    """``awaits``: a row for each, in the order of their begins; ``by_method``: the methods that awaited; ``chains``: the longest, with who awaited
    what in them; where the begin has no end, without a duration, and last. ``profile``: the logical stacks, in ms. ``notes``: what the
    recording lacks.
    """

    MAIN = "awaits"

    awaits: Table
    by_method: Table
    chains: Table
    profile: StackProfile
    totals: TaskTotals


def tasks(trace: Trace) -> TaskReport:
    """What the tasks of a recording awaited."""
    (made,) = fold(trace, TasksFold())
    return made


class TasksFold:
    """What :func:`tasks` asks, window by window."""

    needs_activities = False

    def __init__(self) -> None:
        self._awaits = LastingEvents(
            KeptEvents(of_source(TPL, WAIT_BEGUN), ("TaskID", "ContinueWithTaskID", "OriginatingTaskID", "Behavior")),
            KeptEvents(of_source(TPL, WAIT_ENDED), ("TaskID",)),
            by="TaskID",
        )
        self._operations = KeptEvents(of_source(TPL, OPERATION), ("TaskID",), names=("OperationName",), texts=Texts())

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends of awaits, and names of tasks."""
        return self._awaits.wants(schema) or self._operations.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._awaits.feed(window)
        self._operations.feed(window)

    def result(self) -> TaskReport:
        """The answer."""
        made = self._awaits.result("Awaits", state=State.NONE)
        starts, known = made.starts, made.known
        is_blocking = starts["Behavior"] == BLOCKING
        by = np.where(is_blocking, starts["OriginatingTaskID"], starts["ContinueWithTaskID"])
        caller = first_rows(starts.pid, starts["TaskID"], starts.pid, by)
        caller[caller == np.arange(len(caller))] = -1
        caller, depth = levels(caller, DEEPEST)
        operation = self._operations.all()
        named = first_rows(operation.pid, operation["TaskID"], starts.pid, starts["TaskID"])
        names = np.append(operation["OperationName"], -1)[named]
        awaiting = first_rows(operation.pid, operation["TaskID"], starts.pid, by)
        made = _with_names(made, np.append(operation["OperationName"], -1)[awaiting], self._operations.texts.names)
        notes = () if len(starts) else (NO_EVENTS,)
        ended = made.duration_ms[known]
        columns: dict[str, Column] = {
            "start_ms": Scalar(starts.ms, None, Kind.F8),
            "duration_ms": Scalar(np.nan_to_num(made.duration_ms), None if known.all() else known, Kind.F8),
            "pid": whole(starts.pid),
            "tid": whole(starts.tid),
            "task": whole(starts["TaskID"]),
            "name": Coded.naming(
                Scalar(names, None if (names >= 0).all() else names >= 0, Kind.I8), self._operations.texts.__getitem__
            ),
            "awaited_by": whole(by, by > 0),
            "kind": Coded.naming(Scalar(is_blocking.astype(np.int64), None, Kind.I8), lambda one: KINDS[one]),
            "method": made.method,
            "depth": whole(depth),
        }

        def table(title: str, content: Mapping[str, Column]) -> Table:
            return answer_table(title, content, notes, made.losses)

        own = _own_ms(made.duration_ms, caller)
        begins = _begins(known, caller)
        # of each process its own methods
        which = np.unique(np.stack([starts.pid, made.method.which]), axis=1, return_inverse=True)[1].reshape(-1)
        found = groups([which], made.duration_ms)
        of_own = np.bincount(which, own) if len(own) else np.zeros(0)
        found = found.by(of_own[which[found.first]])
        return TaskReport(
            awaits=table("awaits", columns),
            by_method=table(
                "awaits by method",
                {
                    "pid": columns["pid"].take(found.first),
                    "method": made.method.take(found.first),
                    "count": whole(found.count),
                    "total_ms": Scalar(found.total, None, Kind.F8),
                    "own_ms": Scalar(of_own[which[found.first]], None, Kind.F8),
                    "max_ms": number(found.most),
                },
            ),
            chains=table("chains", _chains(made, caller, begins)),
            profile=_logical(made, caller, depth, own),
            totals=TaskTotals(
                count=len(starts),
                blocking=int(is_blocking.sum()),
                unfinished=int((~known).sum()),
                chains=len(begins),
                deepest=int(depth.max(initial=0)),
                awaits_ms=quantiles_of(ended),
            ),
            notes=notes,
        )


def _with_names(made: Lasting, name: Array, names: Sequence[str]) -> Lasting:
    """Rows whose awaits have no stack get the name of the task that awaits."""
    rows = np.flatnonzero((made.frame < 0) & (name >= 0))
    if not len(rows):
        return made
    first = len(made.profile.frames)
    profile = replace(made.profile, frames=made.profile.frames.extended([pseudo(one) for one in names]))
    frame = made.frame.copy()
    frame[rows] = first + name[rows]
    return replace(made, frame=frame, method=method_column(profile, frame), profile=profile)


def _own_ms(duration_ms: Array, caller: Array) -> Array:
    """What each took, but for what its own awaits took meanwhile."""
    plain = np.nan_to_num(duration_ms)
    below = summed_by_parent(caller, plain)
    return np.where(np.isnan(duration_ms), 0.0, np.maximum(plain - below, 0.0))


def _begins(known: Array, caller: Array) -> Array:
    """What begins a chain: awaits that have ended and that nothing awaits, or only what has not ended (as Main has not, of a program that runs);
    and those without an end that await nothing.
    """
    above = caller >= 0
    is_below_end = above & np.append(known, False)[caller]
    awaits = np.bincount(caller[above], minlength=len(caller)) > 0
    return np.flatnonzero(np.where(known, ~is_below_end, ~awaits))


def _chains(made: Lasting, caller: Array, begins: Array) -> dict[str, Column]:
    """The longest: in each, what awaits the begin, and the await that took longest of those below."""
    plain = np.nan_to_num(made.duration_ms)
    roots = begins[np.lexsort((begins, -plain[begins], ~made.known[begins]))][:CHAINS]
    longest = np.full(len(caller), -1)
    has = np.flatnonzero(caller >= 0)
    has = has[np.argsort(plain[has], kind="stable")]
    longest[caller[has]] = has  # the last one stands: the one that took longest
    frames = made.profile.frames
    texts: list[str | None] = []
    depths = []
    for row in roots.tolist():
        chain = [row]
        while caller[chain[0]] >= 0:
            chain.insert(0, int(caller[chain[0]]))
        while longest[chain[-1]] >= 0:
            chain.append(int(longest[chain[-1]]))
        ids = made.frame[chain].tolist()
        texts.append(SEPARATOR.join(frames.name(one, Style.SOURCE) if one >= 0 else UNKNOWN for one in ids))
        depths.append(len(chain))
    return {
        "start_ms": Scalar(made.starts.ms[roots], None, Kind.F8),
        "duration_ms": number(made.duration_ms[roots]),
        "pid": whole(made.starts.pid[roots]),
        "task": whole(made.starts["TaskID"][roots]),
        "depth": whole(np.array(depths, np.int64)),
        "chain": Text.from_pylist(texts),
    }


def _logical(made: Lasting, caller: Array, depth: Array, own_ms: Array) -> StackProfile:
    """The stacks of callers in the place of those of threads: a node for each way of methods, level by level."""
    node = np.zeros(len(caller), np.int64)
    parents, frames = [np.full(1, -1, np.int64)], [np.full(1, NO_FRAME, np.int64)]
    count = 1
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        above = np.where(caller[rows] >= 0, node[caller[rows]], 0)
        told = made.frame[rows] >= 0
        node[rows[~told]] = above[~told]
        if not told.any():
            continue
        pairs, which = np.unique(np.stack([above[told], made.frame[rows[told]]]), axis=1, return_inverse=True)
        node[rows[told]] = count + which.reshape(-1)
        parents.append(pairs[0])
        frames.append(pairs[1])
        count += pairs.shape[1]
    tree = StackTree(np.concatenate(parents).astype(np.int32), np.concatenate(frames).astype(np.int32))
    row = made.row
    return replace(
        made.profile,
        tree=tree,
        node=node[row].astype(np.int32),
        weight=own_ms[row],
        length_ns=np.zeros(len(row), np.int64),
    )
