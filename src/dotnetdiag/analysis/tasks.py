"""What awaited what: the chains of asynchronous calls, as the TPL tells them (TaskWaitBegin and -End, keywords 0x3 of its source).

An await is of a task, and by the task that goes on when that is done (of one that blocks its thread, by the task that it blocks, if any). So the
awaits of a program are trees: who awaits the task by which another awaits is its caller. The logical stack of an await is the methods that await on
the way to it, whatever threads they ran on. What an await took counts for it but for the awaits that its own task had meanwhile. Of several that
await one task the first is the caller of what that awaits. What a task of several (Task.WhenAll) waits for is not told: nothing is below it.

A method is known by the stack of its await, else (NativeAOT, and where names of methods are missing) by the name of its task, which the TPL tells
with keyword 0x8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis.answers import answer_sliced, answer_table, compact, mask, number, texts, whole
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.frames import pseudo
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, Texts, narrow, of_source, others_told
from dotnetdiag.analysis.kind_rows import Values, columns_of
from dotnetdiag.analysis.lasting import Lasting, LastingEvents
from dotnetdiag.analysis.nameless import are_nameless
from dotnetdiag.analysis.pairs import first_rows, latest_rows
from dotnetdiag.analysis.profile import MILLISECONDS, State
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.running_groups import RunningGroups
from dotnetdiag.analysis.spread import Spread
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.thread_pool import TPL
from dotnetdiag.analysis.trees import levels, summed_by_parent
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import distinct, is_among
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
"""Awaits in each other; those below are a chain of their own."""
TOO_DEEP = f"of more than {DEEPEST:,} awaits in each other the rest is told as chains of their own"
CHAINS = 1000
"""The longest, of which it is told who awaited what."""
_SLICE = 1 << 16
"""Rows that are looked at at once."""
SEPARATOR = " > "
UNKNOWN = "?"
OF_OTHERS = ("Task.WhenAll", "Task.WhenAny", "Task.Unwrap")
"""Names of tasks that are done when others are; the last is that of Task.Run with an asynchronous method."""
NO_MEMBERS = (
    "which tasks Task.WhenAll, Task.WhenAny and Task.Run of an asynchronous method wait for is not told: "
    "own ms counts what those awaited too, and their chains begin anew"
)
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
    """``awaits``: a row for each, in the order of their begins; ``by_method``: the methods that awaited, and how often that was ``blocking``
    their threads; ``chains``: the longest, with who awaited
    what in them; where the begin has no end, without a duration, and last. ``profile``: the logical stacks, in ms, which ``stacks`` makes when
    somebody asks. ``notes``: what the recording lacks.
    """

    KIND = "tasks"
    MAIN = "awaits"

    awaits: Table
    by_method: Table
    chains: Table
    stacks: Callable[[], StackProfile] = field(repr=False, compare=False)
    totals: TaskTotals

    @cached_property
    def profile(self) -> StackProfile:
        """The logical stacks."""
        return self.stacks()


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
        """The answer, of what came until now; more may come, and another be asked for."""
        made = self._awaits.result(
            "Awaits", state=State.NONE, of_program=False
        )  # .NET's own awaits lead from one to another
        texts = self._operations.texts
        return _Answer(made, self._operations.all(), texts.names).report(others_told("tasks", [texts]))


class _Answer:
    """Awaits, and who is whose caller."""

    def __init__(self, made: Lasting, operation: Kept, names: Sequence[str]) -> None:
        self._made, self._texts = made, names
        self._pid, self._duration = compact(made.column("pid")), made.column("duration_ms")
        task, by = narrow(made.column("TaskID")), made.column("ContinueWithTaskID")
        is_blocking = self._is_blocking = made.column("Behavior") == BLOCKING
        by[is_blocking] = made.column("OriginatingTaskID")[is_blocking]
        by = narrow(by)
        del is_blocking
        self._first = first_rows(self._pid, task, self._pid, task)
        none = np.flatnonzero(self._first < 0)
        self._first[none] = none
        caller = first_rows(self._pid, task, self._pid, by)
        caller[caller == np.arange(len(caller), dtype=caller.dtype)] = -1
        has = caller >= 0
        caller, depth = levels(caller, DEEPEST)
        self._is_cut = int(depth.max(initial=0)) == DEEPEST and bool((has & (caller < 0)).any())
        del has
        self._caller, self._depth = narrow(caller), depth
        del caller, depth
        of = _names_of(operation)
        self._name = compact(of[first_rows(operation.pid, operation["TaskID"], self._pid, task)])
        del task
        # rows whose awaits have no stack, or no name in it, get the name of the task that awaits
        frames = made.stacks
        stack = narrow(made.which_stack())
        frame = narrow(frames.frame)[stack]
        awaiting = of[first_rows(operation.pid, operation["TaskID"], self._pid, by)]
        del by
        is_nameless = are_nameless(frames.frame, frames.frames)[stack]
        del stack
        rows = np.flatnonzero(((frame < 0) | is_nameless) & (awaiting >= 0))
        frame[rows] = len(frames.frames) + awaiting[rows]
        self._frames = frames.frames.extended([pseudo(one) for one in names]) if len(rows) else frames.frames
        self._method_ids = distinct(frame)
        for some in _slices(len(frame)):
            frame[some] = np.searchsorted(self._method_ids, frame[some])
        self._method = compact(frame)
        del frame
        shown = ["" if one < 0 else self._frames.name(one) for one in self._method_ids.tolist()]
        self._methods = Text.from_pylist(shown)
        del awaiting, is_nameless, rows
        self._own_ms = _own_ms(lambda: made.column("ms"), self._duration, self._caller, self._first)

    def report(self, more: tuple[str, ...]) -> TaskReport:
        """The tables, with ``more`` notes."""
        made, known = self._made, ~np.isnan(self._duration)
        of_others = [number for number, name in enumerate(self._texts) if name in OF_OTHERS]
        has_members = bool(is_among(self._name, np.array(of_others, np.int64)).any())
        deep = (TOO_DEEP,) if self._is_cut else ()
        notes = (
            (*((NO_MEMBERS,) if has_members else ()), *deep, *made.stacks.unnamed, *more) if len(made) else (NO_EVENTS,)
        )
        begins = _begins(known, self._caller)

        def table(title: str, content: Mapping[str, Column]) -> Table:
            return answer_table(title, content, notes, made.losses)

        durations = Spread()
        durations.add(self._duration[known])
        return TaskReport(
            awaits=answer_sliced("awaits", _COLUMNS, len(made), self._some, notes, made.losses),
            by_method=table("awaits by method", self._by_method()),
            chains=table("chains", self._chains(known, begins)),
            stacks=self._logical,
            totals=TaskTotals(
                count=len(made),
                blocking=int(self._is_blocking.sum()),
                unfinished=int((~known).sum()),
                chains=len(begins),
                deepest=int(self._depth.max(initial=0)),
                awaits_ms=durations.quantiles(),
            ),
            notes=notes,
        )

    def _some(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        here = slice(first, last)

        def column(name: str, values: Values) -> Column:
            return self._column(name, values, here)

        return columns_of(self._made.rows, column, names, first, last)

    def _column(self, name: str, values: Values, here: slice[int, int, None]) -> Column:
        """Of the table of all."""
        if name == "start_ms":
            return Scalar(values("ms"), None, Kind.F8)
        if name == "duration_ms":
            return number(self._duration[here])
        if name == "pid":
            return whole(self._pid[here])
        if name == "tid":
            return whole(self._made.tid[values("kind")])
        if name == "task":
            return whole(values("TaskID"))
        if name == "name":
            return texts(self._texts, self._name[here])
        if name == "depth":
            return whole(self._depth[here])
        if name == "method":
            return self._named(self._method[here])
        is_blocking = values("Behavior") == BLOCKING
        if name == "kind":
            return Coded.naming(Scalar(is_blocking.astype(np.int64), None, Kind.I8), lambda one: KINDS[one])
        by = np.where(is_blocking, values("OriginatingTaskID"), values("ContinueWithTaskID"))
        return whole(by, by > 0)

    def _named(self, which: Array) -> Coded:
        return Coded(self._methods, which, mask(self._method_ids[which] >= 0))

    def _by_method(self) -> dict[str, Column]:
        found, own_ms, blocking = RunningGroups(), np.zeros(0), np.zeros(0, np.int64)
        for some in _slices(len(self._pid)):  # all at once were 25 bytes more for each
            keys = self._pid[some].astype(np.int64) << 32 | self._method[some]  # of each process its own methods
            which = found.add(keys, np.arange(some.start, some.stop), self._duration[some])
            own_ms = np.append(own_ms, np.zeros(len(found) - len(own_ms)))
            np.add.at(own_ms, which, self._own_ms[some])
            blocking = np.append(blocking, np.zeros(len(found) - len(blocking), np.int64))
            np.add.at(blocking, which, self._is_blocking[some])
        order = np.lexsort((found.first, -found.count, -found.total, -own_ms))
        first = found.first[order]
        return {
            "pid": whole(self._pid[first]),
            "method": self._named(self._method[first]),
            "count": whole(found.count[order]),
            "blocking": whole(blocking[order]),
            "total_ms": number(found.total[order]),
            "own_ms": number(own_ms[order]),
            "max_ms": number(found.most[order]),
        }

    def _chains(self, known: Array, begins: Array) -> dict[str, Column]:
        """The longest: in each, what awaits the begin, and the await that took longest of those below."""
        caller, plain = self._caller, np.nan_to_num(self._duration)
        roots = begins[np.lexsort((begins, -plain[begins], ~known[begins]))][:CHAINS]
        longest = np.full(len(caller), -1, np.int32)
        for some in _slices(len(caller)):
            has = some.start + np.flatnonzero(caller[some] >= 0)
            has = has[np.argsort(plain[has], kind="stable")]
            before = longest[caller[has]]
            has = has[(before < 0) | (plain[before] <= plain[has])]
            longest[caller[has]] = has  # the last one stands: the one that took longest
        chains: list[str | None] = []
        depths = []
        for row in roots.tolist():
            chain = [row]
            while caller[chain[0]] >= 0:
                chain.insert(0, int(caller[chain[0]]))
            ways = set[int]()  # tasks of damaged files may await each other
            while (way := int(self._first[chain[-1]])) not in ways and longest[way] >= 0:
                ways.add(way)
                chain.append(int(longest[way]))
            ids = self._method_ids[self._method[chain]].tolist()
            chains.append(SEPARATOR.join(self._frames.name(one, Style.SOURCE) if one >= 0 else UNKNOWN for one in ids))
            depths.append(len(chain))
        return {
            "start_ms": Scalar(self._made.rows.gather("ms", roots), None, Kind.F8),
            "duration_ms": number(self._duration[roots]),
            "pid": whole(self._pid[roots]),
            "task": whole(self._made.rows.gather("TaskID", roots)),
            "depth": whole(np.array(depths, np.int64)),
            "chain": Text.from_pylist(chains),
        }

    def _logical(self) -> StackProfile:
        """The stacks of callers in the place of those of threads: a node for each way of methods, level by level."""
        caller, depth, frame = self._caller, self._depth, self._method_ids[self._method]
        node = np.zeros(len(caller), np.int64)
        parents, frames = [np.full(1, -1, np.int64)], [np.full(1, NO_FRAME, np.int64)]
        count = 1
        for level in range(1, int(depth.max(initial=0)) + 1):
            rows = np.flatnonzero(depth == level)
            above = np.where(caller[rows] >= 0, node[caller[rows]], 0)
            told = frame[rows] >= 0
            node[rows[~told]] = above[~told]
            if not told.any():
                continue
            ways, which = np.unique(np.stack([above[told], frame[rows[told]]]), axis=1, return_inverse=True)
            node[rows[told]] = count + which.reshape(-1)
            parents.append(ways[0])
            frames.append(ways[1])
            count += ways.shape[1]
        made = self._made
        plain = made.stacks.profile(made.name, MILLISECONDS, weight=np.arange(len(caller)), state=made.state)
        row = plain.weight.astype(np.int64)
        return replace(
            plain,
            tree=StackTree(np.concatenate(parents).astype(np.int32), np.concatenate(frames).astype(np.int32)),
            frames=self._frames,
            node=node[row].astype(np.int32),
            weight=self._own_ms[row],
        )


_COLUMNS = ("start_ms", "duration_ms", "pid", "tid", "task", "name", "awaited_by", "kind", "method", "depth")


def _slices(rows: int) -> Iterator[slice[int, int, None]]:
    """So many rows, some of them at a time."""
    return (slice(first, min(first + _SLICE, rows)) for first in range(0, rows, _SLICE))


def _names_of(operation: Kept) -> Array:
    """The name of each row; -1 behind them, for no row."""
    return np.append(operation["OperationName"], -1)


def _own_ms(begun: Callable[[], Array], duration_ms: Array, caller: Array, first: Array) -> Array:
    """What each took, but for what its own awaits took meanwhile. ``first``: of each the first that awaits the same task, which is their caller."""
    plain = np.nan_to_num(duration_ms)
    below = summed_by_parent(caller, plain)
    rows = np.flatnonzero((first != np.arange(len(first), dtype=first.dtype)) & (plain > 0))
    rows = rows[below[first[rows]] > 0]
    if len(rows):
        start_ms = begun()
        has = np.flatnonzero(np.isin(caller, first[rows]))
        has = has[np.lexsort((start_ms[has], caller[has]))]
        begin, end = (
            _taken_until(start_ms[rows] + lasted, first[rows], caller[has], start_ms[has], plain[has])
            for lasted in (0.0, plain[rows])
        )
        below[rows] = end - begin
    np.subtract(plain, below, out=below)
    np.maximum(below, 0.0, out=below)
    below[np.isnan(duration_ms)] = 0.0
    return below


def _taken_until(until_ms: Array, of: Array, caller: Array, start_ms: Array, plain: Array) -> Array:
    """Of each caller what the awaits below took until then, and those of the callers before it; these are in the order of callers and begins."""
    before = np.cumsum(plain) - plain
    latest = latest_rows([caller], start_ms, [of], until_ms)
    taken = before[latest] + np.minimum(until_ms - start_ms[latest], plain[latest])
    return np.where(latest >= 0, taken, before[np.searchsorted(caller, of)])


def _begins(known: Array, caller: Array) -> Array:
    """What begins a chain: awaits that have ended and that nothing awaits, or only what has not ended (as Main has not, of a program that runs);
    and those without an end that await nothing.
    """
    above = caller >= 0
    is_below_end = above & np.append(known, False)[caller]
    awaits = np.zeros(len(caller), np.bool_)
    awaits[caller[above]] = True
    return np.flatnonzero(np.where(known, ~is_below_end, ~awaits))
