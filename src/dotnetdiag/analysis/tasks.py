"""What awaited what: the chains of asynchronous calls, as the TPL tells them (TaskWaitBegin and -End, keywords 0x3 of its source).

An await is of a task, and by the task that goes on when that is done (of one that blocks its thread, by the task that it blocks, if any: see below).
So the awaits of a program are trees: who awaits the task by which another awaits is its caller. The logical stack of an await is the methods that
await on the way to it, whatever threads they ran on. What an await took counts for it but for the awaits that its own task had meanwhile. Of several
that await one task the first is the caller of what that awaits. What a task of several (Task.WhenAll) waits for is not told: nothing is below it.

What a wait blocks. Its event tells the task that the thread *executes*, as Task.Run's. An asynchronous method that goes on after an await is none of
these, though it has a task, which its callers await. So of a wait in such a method

1. the stack tells the method: what ``TaskAwaiter.<OutputWaitEtwEvents>`` calls, which writes the TaskWaitEnd of the await and then goes on there;
2. of the ends on this thread that were written at this place in the stack the last one tells the await, and so the task: what came there before
   has returned, and what went on within it stands elsewhere.

It is not told where the method went on otherwise, as after Task.Yield and a ValueTask that is no task; where there are no stacks; and where several
awaited the task of 2., for each has an end then, and none says whose. Such waits begin chains, and a note counts those that stacks tell of.

A method is known by the stack of its await, else (NativeAOT, and where names of methods are missing) by the name of its task, which the TPL tells
with keyword 0x8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis.answers import answer_sliced, answer_table, mask, number, texts, whole
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.frames import Frames, pseudo
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, Texts, of_source, others_told
from dotnetdiag.analysis.kind_rows import KindRows, Values, columns_of
from dotnetdiag.analysis.lasting import Lasting, LastingEvents
from dotnetdiag.analysis.nameless import are_nameless
from dotnetdiag.analysis.pairs import FirstRows
from dotnetdiag.analysis.profile import MILLISECONDS, State
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.resumed_calls import Places, latest_at, resumed
from dotnetdiag.analysis.running_groups import Numbering, RunningGroups
from dotnetdiag.analysis.spread import Spread
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.thread_pool import TPL
from dotnetdiag.analysis.trees import cut_levels, sum_by_parent
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import distinct, is_among, ranked
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.scratch import MappedArrays, Scratch
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
_EACH = 87
"""Bytes of what is told of each."""
_LOOKED_UP = 1 << 20
"""Rows that are looked up by their tasks at once."""
_PAIRED = 1 << 16
"""Waits, and ends of awaits, that are looked at at once: for each there are 100 bytes meanwhile."""
_SAMPLED = 1 << 15
"""Begins and ends of which it is known when so many of them come, at least."""
NAMED = 64
"""Awaits of a chain that are named: of longer ones the first and the last."""
SEPARATOR = " > "
UNKNOWN = "?"
OF_OTHERS = ("Task.WhenAll", "Task.WhenAny", "Task.Unwrap")
"""Names of tasks that are done when others are; the last is that of Task.Run with an asynchronous method."""
NO_MEMBERS = (
    "which tasks Task.WhenAll, Task.WhenAny and Task.Run of an asynchronous method wait for is not told: "
    "own ms counts what those awaited too, and their chains begin anew"
)
NO_CALL = (
    "of {count} of the waits that block a thread in an asynchronous method it is not told in which call of it they are: "
    "own ms of what awaits that counts their time too, and their chains begin anew"
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
        ends = _Ends(of_source(TPL, WAIT_ENDED), ("TaskID",))
        self._awaits = LastingEvents(
            KeptEvents(of_source(TPL, WAIT_BEGUN), ("TaskID", "ContinueWithTaskID", "OriginatingTaskID", "Behavior")),
            ends,
            by="TaskID",
            told=("kind",),
        )
        ends.rows = self._awaits.rows  # so that both have the stacks of one tree
        self._operations = KeptEvents(
            of_source(TPL, OPERATION), ("TaskID",), names=("OperationName",), texts=Texts(), scratch=Scratch()
        )

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
        return _Answer(made, self._operations, texts.names).report(others_told("tasks", [texts]))


class _Ends(KeptEvents):
    """Ends of awaits, with their stacks: ``kind``, as rows have of their begins."""

    rows: KindRows

    def of(self, events: EventTable) -> Kept:
        """What would be kept of events of the type."""
        kept = super().of(events)
        kind = self.rows.kind_of(events, self.rows.threads.of(events, kept))
        return Kept(kept.ms, kept.pid, kept.tid, {**kept.fields, "kind": kind})

    @property
    def names(self) -> tuple[str, ...]:
        """Of the fields."""
        return (*super().names, "kind")


class _Answer:
    """Awaits, and who is whose caller. What is told of each lies in mapped arrays: of ten million awaits 0.8 GB."""

    def __init__(self, made: Lasting, operations: KeptEvents, names: Sequence[str]) -> None:
        self._made, self._texts = made, names
        self._held = held = MappedArrays(len(made), _EACH)
        self._pids, process = ranked(made.pid)
        self._process, self._is_blocking, self._duration = held.zeros("i4"), held.zeros("?"), held.zeros("f8")
        self._ms, self._awaits = held.zeros("f8"), held.zeros("?")
        task, self._by = held.zeros("i8"), held.zeros("i8")
        self._first, self._caller, self._depth = held.zeros("i4"), held.zeros("i4"), held.zeros("i4")
        self._name, awaiting, self._method = held.zeros("i4"), held.zeros("i4"), held.zeros("i4")
        for first, rows in made.slices():
            here = slice(first, first + len(rows))
            is_blocking = rows["Behavior"] == BLOCKING
            self._process[here], self._duration[here] = process[rows["kind"]], rows["duration_ms"]
            self._ms[here] = rows["ms"]
            self._is_blocking[here], task[here] = is_blocking, rows["TaskID"]
            self._by[here] = np.where(is_blocking, rows["OriginatingTaskID"], rows["ContinueWithTaskID"])
            self._first[here] = np.arange(here.start, here.stop)
            self._caller[here] = self._name[here] = awaiting[here] = -1
            held.release()
        self._look_up(operations, task, self._by, awaiting)
        self._frames, self._method_ids = self._find_methods(awaiting)
        self._without_call = self._find_blocked()
        self._is_cut = cut_levels(self._caller, self._depth, DEEPEST, held)
        shown = ["" if one < 0 else self._frames.name(one) for one in self._method_ids.tolist()]
        self._methods = Text.from_pylist(shown)
        self._own_ms = self._find_own_ms()

    def _look_up(self, operations: KeptEvents, task: Array, by: Array, awaiting: Array) -> None:
        """Who is whose caller, and the names of both tasks: some tasks at a time, for to look them up takes 8 bytes for each in memory."""
        held, pids, count = self._held, self._pids, len(operations)
        names = MappedArrays(count, each=4).zeros("i4")
        first = 0
        for kept in operations.parts():
            names[first : first + len(kept)] = kept["OperationName"]
            first += len(kept)
        parts = -(-max(len(task), count) // _LOOKED_UP)
        for part in range(parts):
            awaits = FirstRows(
                pids, len(task), ((pids[self._process[one]], task[one]) for one in held.slices()), part, parts
            )
            named = FirstRows(pids, count, ((one.pid, one["TaskID"]) for one in operations.parts()), part, parts)
            for some in held.slices():
                pid = pids[self._process[some]]
                for ids, first_of, name_of in ((task, self._first, self._name), (by, self._caller, awaiting)):
                    for known, found_of, told in ((awaits, first_of, None), (named, name_of, names)):
                        found = known.of(pid, ids[some])
                        has = np.flatnonzero(found >= 0)
                        found_of[some][has] = found[has] if told is None else told[found[has]]
        for some in held.slices():
            caller = self._caller[some]
            caller[caller == np.arange(some.start, some.stop)] = -1

    def _find_methods(self, awaiting: Array) -> tuple[Frames, Array]:
        """The number of each one's method; gives the frames that there are, and which of them each number is. Rows whose awaits have no stack, or no
        name in it, get the name of the task that awaits.
        """
        stacks, numbers, is_any = self._made.stacks, Numbering(), False
        is_nameless = are_nameless(stacks.frame, stacks.frames)
        for first, rows in self._made.slices():
            here = slice(first, first + len(rows))
            stack, named = stacks.of(rows["kind"], rows["time"]), awaiting[here]
            frame = stacks.frame[stack]
            places = np.flatnonzero(((frame < 0) | is_nameless[stack]) & (named >= 0))
            frame[places] = len(stacks.frames) + named[places]
            self._method[here] = numbers.of(frame)
            is_any = is_any or bool(len(places))
            self._held.release()
        frames = stacks.frames.extended([pseudo(one) for one in self._texts]) if is_any else stacks.frames
        return frames, numbers.keys()

    def _find_blocked(self) -> int:
        """Waits in asynchronous methods that went on after an await are by the task of that call; of how many it is not told which one it is."""
        told = self._find_resumed()
        if told is None:
            return 0
        made, held, stacks = self._made, self._held, self._made.stacks
        places, place, method, without_call = Places(), held.zeros("i4"), held.zeros("i4"), 0
        for first, rows in made.slices():
            here = slice(first, first + len(rows))
            own = np.flatnonzero(self._is_blocking[here])
            kind = rows["kind"][own]
            of = told[stacks.of(kind, rows["time"][own])]
            is_call = of["is_resumed"] & ~(of["in_task"] & (self._caller[here][own] >= 0))
            without_call += int(is_call.sum())
            is_call &= (of["end"] > 0) & (of["method"] >= 0)
            own, kind, of = own[is_call], kind[is_call], of[is_call]
            place[here][own] = places.of(self._process[here][own], made.tid[kind], of["end"])
            method[here][own] = of["method"]
            held.release()
        is_asked = np.append(np.ones(1 + len(places), np.bool_), False)
        for first, rows in made.slices():
            here = slice(first, first + len(rows))
            own = np.flatnonzero(~self._is_blocking[here] & (rows["stop_kind"] >= 0))
            kind = rows["stop_kind"][own].astype(np.int64)
            node = told["end"][kind]
            own, kind, node = own[node > 0], kind[node > 0], node[node > 0]
            of_end = places.of(self._process[here][own], made.tid[kind], node)
            place[here][own] = np.where(is_asked[np.minimum(of_end, len(is_asked) - 1)], of_end, 0)
            held.release()
        return without_call - self._pair(place, method, len(places))

    def _find_resumed(self) -> Array | None:
        """What :func:`~.resumed_calls.resumed` tells of the stacks of waits that block, and of ends; None where there are no such waits."""
        made, stacks = self._made, self._made.stacks
        is_asked, are_ends_told = np.zeros(len(stacks.frame), np.bool_), True
        for first, rows in made.slices():
            own = np.flatnonzero(self._is_blocking[first : first + len(rows)])
            is_asked[stacks.of(rows["kind"][own], rows["time"][own])] = True
            kinds = rows["kind"]
            # where code moved stacks are of kinds and times, and those of ends are not told
            are_ends_told &= stacks.of(kinds, rows["time"]) is kinds
            self._held.release()
        if not is_asked.any():
            return None
        for _, rows in made.slices() if are_ends_told else ():
            kinds = rows["stop_kind"]
            is_asked[kinds[kinds >= 0].astype(np.int64)] = True
        sample = stacks.told(lambda profile: np.arange(len(profile.node)))
        found = stacks.told(lambda profile: resumed(profile, sample[is_asked]))
        if not are_ends_told:
            found["end"] = 0
        return found

    def _pair(self, place: Array, method: Array, places: int) -> int:
        """Find the calls in which waits are, a time after the other; how many it found. ``place``: where each await ended, and each wait began that
        is in a call of this ``method``.
        """
        held, count = self._held, 0
        several = held.zeros("?")
        for some in held.slices():
            first = self._first[some]
            shared = np.flatnonzero(first != np.arange(some.start, some.stop))
            several[first[shared]] = several[some][shared] = True
        last = np.full(places + 1, -1)
        for ends, waits in self._in_time(place):
            call = latest_at(
                place[ends], ends, self._ms[ends] + self._duration[ends], place[waits], self._ms[waits], last
            )
            waits, call = waits[call >= 0], call[call >= 0]
            caller, task = self._caller[call], self._by[call]
            over = self._ms[caller] + self._duration[caller]
            is_over = (caller >= 0) & ((over <= self._ms[waits]) | (caller == waits))
            is_call = (self._method_ids[self._method[call]] == method[waits]) & (task > 0) & ~several[call] & ~is_over
            waits, caller, task = waits[is_call], caller[is_call], task[is_call]
            self._by[waits], self._caller[waits] = task, caller
            count += len(waits)
            held.release()
        return count

    def _in_time(self, place: Array) -> Iterator[tuple[Array, Array]]:
        """Awaits with a place that end at some time, and waits that block, with one, and begin then; one time after the other."""
        every = 1 + len(place) // _SAMPLED
        spans, sampled = [], [np.zeros(0)]
        for some in self._held.slices():
            rows = np.flatnonzero(place[some] > 0)
            if len(rows):
                when = self._placed_at(some, rows)
                spans.append((some, float(when.min()), float(when.max())))
                sampled.append(when[::every])
        edges = distinct(np.concatenate(sampled))[:: max(_PAIRED // every, 1)][1:].tolist()
        for since, until in zip([-np.inf, *edges], [*edges, np.inf], strict=True):
            found = [np.zeros(0, np.int64)]
            for some, low, high in spans:
                if high >= since and low < until:
                    rows = np.flatnonzero(place[some] > 0)
                    when = self._placed_at(some, rows)
                    found.append(rows[(when >= since) & (when < until)] + some.start)
                    self._held.release()
            rows = np.concatenate(found)
            is_wait = self._is_blocking[rows]
            yield rows[~is_wait], rows[is_wait]

    def _placed_at(self, some: slice[int, int, None], rows: Array) -> Array:
        """When these of some rows are where they are told to be: waits that block as they begin, and others as they end."""
        ms: Array = self._ms[some][rows]
        return np.where(self._is_blocking[some][rows], ms, ms + self._duration[some][rows])

    def _plain(self, rows: Array | slice[int, int, None]) -> Array:
        """How long these took, nothing for those without an end."""
        return np.nan_to_num(self._duration[rows])

    def _within_caller(self, some: slice[int, int, None]) -> Array:
        """How much of each is within what its caller took: that task may have begun before it was awaited."""
        taken, caller = self._plain(some), self._caller[some]
        has = np.flatnonzero((caller >= 0) & (taken > 0))
        begin, above = self._ms[some][has], self._ms[caller[has]]
        end, last = begin + taken[has], above + self._plain(caller[has])
        inside = np.minimum(end, last) - np.maximum(begin, above)
        taken[has] = np.where((begin >= above) & (end <= last), taken[has], np.maximum(inside, 0.0))
        return taken

    def of_callers(self, callers: Array) -> Array:
        """The rows whose callers are these, which ascend, by their callers and begins."""
        held = [np.zeros(0, np.int32)]
        for some in self._held.slices():
            held.append((np.flatnonzero(is_among(self._caller[some], callers)) + some.start).astype(np.int32))
        rows = np.concatenate(held)
        del held
        ms = self._ms[rows]
        if (ms[1:] < ms[:-1]).any():
            rows = rows[np.argsort(ms, kind="stable")]
        del ms
        caller = self._caller[rows]
        if len(callers) > 1:
            rows = rows[np.argsort(caller, kind="stable")]
        self._held.release()
        return rows

    def told_of(self, rows: Array) -> tuple[Array, Array, Array]:
        """The callers, begins and durations of some."""
        made = self._caller[rows], self._ms[rows], self._plain(rows)
        self._held.release()
        return made

    def _find_own_ms(self) -> Array:
        """What each took, but for what its own awaits took meanwhile."""
        for some in self._held.slices():
            caller = self._caller[some]
            self._awaits[caller[caller >= 0]] = True
        made = self._held.zeros("f8")  # first what is below
        sum_by_parent(self._caller, self._within_caller, made, self._held)
        for shared in self._shared():
            below = _Below(self, distinct(self._first[shared]))
            for begin in range(0, len(shared), _SLICE):
                rows = shared[begin : begin + _SLICE]
                since, first = self._ms[rows], self._first[rows]
                made[rows] = below.taken_until(since + self._plain(rows), first) - below.taken_until(since, first)
                self._held.release()
        for some in self._held.slices():
            own = np.maximum(self._plain(some) - made[some], 0.0)
            own[np.isnan(self._duration[some])] = 0.0
            made[some] = own
        return made

    def _shared(self) -> Iterator[Array]:
        """Those that await a task that another awaited first, which is the caller of what this one awaits; some at a time."""
        is_any = False
        for some in self._held.slices():
            is_any = is_any or bool((self._first[some] != np.arange(some.start, some.stop)).any())
        parts = -(-len(self._first) // _LOOKED_UP) if is_any else 0
        for part in range(parts):
            held = [np.zeros(0, np.int32)]
            for some in self._held.slices():
                first = self._first[some]
                rows = np.flatnonzero((first != np.arange(some.start, some.stop)) & (first % parts == part))
                rows = rows[(self._duration[some][rows] > 0) & self._awaits[first[rows]]]
                held.append(rows.astype(np.int32) + some.start)
            rows = np.concatenate(held)
            if len(rows):
                yield rows

    def report(self, more: tuple[str, ...]) -> TaskReport:
        """The tables, with ``more`` notes."""
        made, held = self._made, self._held
        of_others = np.array([number for number, name in enumerate(self._texts) if name in OF_OTHERS], np.int64)
        durations, has_members, blocking, deepest, unfinished = Spread(), False, 0, 0, 0
        for some in held.slices():
            is_known = ~np.isnan(self._duration[some])
            durations.add(self._duration[some][is_known])
            unfinished += int((~is_known).sum())
            blocking += int(self._is_blocking[some].sum())
            deepest = max(deepest, int(self._depth[some].max()))
            has_members = has_members or bool(is_among(self._name[some], of_others).any())
        deep = (TOO_DEEP,) if self._is_cut else ()
        without_call = (NO_CALL.format(count=f"{self._without_call:,}"),) if self._without_call else ()
        notes = (
            (*((NO_MEMBERS,) if has_members else ()), *without_call, *deep, *made.stacks.unnamed, *more)
            if len(made)
            else (NO_EVENTS,)
        )
        chains, longest = self._begins()

        def table(title: str, content: Mapping[str, Column]) -> Table:
            return answer_table(title, content, notes, made.losses)

        return TaskReport(
            awaits=answer_sliced("awaits", _COLUMNS, len(made), self._some, notes, made.losses),
            by_method=table("awaits by method", self._by_method()),
            chains=table("chains", self._chains(longest)),
            stacks=self._logical,
            totals=TaskTotals(
                count=len(made),
                blocking=blocking,
                unfinished=unfinished,
                chains=chains,
                deepest=deepest,
                awaits_ms=durations.quantiles(),
            ),
            notes=notes,
        )

    def _begins(self) -> tuple[int, Array]:
        """How many chains there are, and where the longest begin, that first. What begins one: awaits that have ended and that nothing awaits,
        or only what has not ended (as Main has not, of a program that runs); and those without an end that await nothing.
        """
        count, longest = 0, np.zeros(0, np.int64)
        for some in self._held.slices():
            caller, is_known = self._caller[some], ~np.isnan(self._duration[some])
            is_below_end = caller >= 0
            is_below_end[is_below_end] = ~np.isnan(self._duration[caller[is_below_end]])
            begins = some.start + np.flatnonzero(np.where(is_known, ~is_below_end, ~self._awaits[some]))
            count += len(begins)
            longest = np.append(longest, begins)
            taken = self._duration[longest]
            order = np.lexsort((longest, -np.nan_to_num(taken), np.isnan(taken)))
            longest = longest[order[:CHAINS]]
        return count, longest

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
            return number(self._taken(self._duration, here))
        if name == "pid":
            return whole(self._pids[self._taken(self._process, here)])
        if name == "tid":
            return whole(self._made.tid[values("kind")])
        if name == "task":
            return whole(values("TaskID"))
        if name == "name":
            return texts(self._texts, self._taken(self._name, here))
        if name == "depth":
            return whole(self._taken(self._depth, here))
        if name == "method":
            return self._named(self._taken(self._method, here))
        is_blocking = values("Behavior") == BLOCKING
        if name == "kind":
            return Coded.naming(Scalar(is_blocking.astype(np.int64), None, Kind.I8), lambda one: KINDS[one])
        by = self._taken(self._by, here)
        return whole(by, by > 0)

    def _taken(self, values: Array, rows: slice[int, int, None] | Array) -> Array:
        """These, in memory."""
        made = np.array(values[rows])
        self._held.release()
        return made

    def _named(self, which: Array) -> Coded:
        return Coded(self._methods, which, mask(self._method_ids[which] >= 0))

    def _by_method(self) -> dict[str, Column]:
        found, own_ms, blocking = RunningGroups(), np.zeros(0), np.zeros(0, np.int64)
        for some in self._held.slices():
            keys = self._process[some].astype(np.int64) << 32 | self._method[some]  # of each process its own methods
            which = found.add(keys, np.arange(some.start, some.stop), self._duration[some])
            own_ms = np.append(own_ms, np.zeros(len(found) - len(own_ms)))
            np.add.at(own_ms, which, self._own_ms[some])
            blocking = np.append(blocking, np.zeros(len(found) - len(blocking), np.int64))
            np.add.at(blocking, which, self._is_blocking[some])
        order = np.lexsort((found.first, -found.count, -found.total, -own_ms))
        first = found.first[order]
        return {
            "pid": whole(self._pids[self._taken(self._process, first)]),
            "method": self._named(self._taken(self._method, first)),
            "count": whole(found.count[order]),
            "blocking": whole(blocking[order]),
            "total_ms": number(found.total[order]),
            "own_ms": number(own_ms[order]),
            "max_ms": number(found.most[order]),
        }

    def _chains(self, roots: Array) -> dict[str, Column]:
        """In each, what awaits the begin, and the await that took longest of those below."""
        caller, longest = (
            self._caller,
            self._held.zeros("i4"),
        )  # of each the row behind the one that took longest, 0 for none
        for some in self._held.slices():
            has = some.start + np.flatnonzero(caller[some] >= 0)
            plain = self._plain(has)
            order = np.argsort(plain, kind="stable")
            has, plain = has[order], plain[order]
            before = longest[caller[has]]
            is_longer = before == 0
            is_longer[~is_longer] = self._plain(before[~is_longer] - 1) <= plain[~is_longer]
            longest[caller[has[is_longer]]] = has[is_longer] + 1  # the last one stands: the one that took longest
        chains: list[str | None] = []
        depths = []
        for row in roots.tolist():
            chain = [row]
            while caller[chain[0]] >= 0:
                chain.insert(0, int(caller[chain[0]]))
            ways = set[int]()  # tasks of damaged files may await each other
            while (way := int(self._first[chain[-1]])) not in ways and longest[way]:
                ways.add(way)
                chain.append(int(longest[way]) - 1)
            depths.append(len(chain))
            more = len(chain) - NAMED
            named = chain if more <= 0 else chain[: NAMED // 2] + chain[-(NAMED // 2) :]
            ids = self._method_ids[self._method[named]].tolist()
            names = [self._frames.name(one, Style.SOURCE) if one >= 0 else UNKNOWN for one in ids]
            if more > 0:
                names.insert(NAMED // 2, f"{more:,} more")
            chains.append(SEPARATOR.join(names))
        return {
            "start_ms": Scalar(self._made.rows.gather("ms", roots), None, Kind.F8),
            "duration_ms": number(self._taken(self._duration, roots)),
            "pid": whole(self._pids[self._taken(self._process, roots)]),
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
        self._held.release()
        return replace(
            plain,
            tree=StackTree(np.concatenate(parents).astype(np.int32), np.concatenate(frames).astype(np.int32)),
            frames=self._frames,
            node=node[row].astype(np.int32),
            weight=self._own_ms[row],
        )


_COLUMNS = ("start_ms", "duration_ms", "pid", "tid", "task", "name", "awaited_by", "kind", "method", "depth")


class _Below:
    """What some tasks awaited, for those that await them too: how much of that had been taken by some time."""

    def __init__(self, answer: _Answer, callers: Array) -> None:
        caller, self._ms, self._plain = answer.told_of(answer.of_callers(callers))
        self._callers, self._edges = callers, np.searchsorted(caller, np.append(callers, np.iinfo(np.int32).max))
        self._before = np.cumsum(self._plain)
        self._before -= self._plain

    def taken_until(self, until_ms: Array, caller: Array) -> Array:
        """By each of these callers until these times, and all that those before it took."""
        of = np.searchsorted(self._callers, caller)
        first, last = self._edges[of], self._edges[of + 1]
        low, high = first.copy(), last.copy()
        while (open_ := low < high).any():  # the first that begins later
            middle = (low + high) // 2
            is_before = open_ & (self._ms[np.minimum(middle, len(self._ms) - 1)] <= until_ms)
            low[is_before] = middle[is_before] + 1
            is_behind = open_ & ~is_before
            high[is_behind] = middle[is_behind]
        at = np.maximum(low - 1, 0)
        taken = self._before[at] + np.minimum(until_ms - self._ms[at], self._plain[at])
        return np.where(low > first, taken, np.append(self._before, 0.0)[first])
