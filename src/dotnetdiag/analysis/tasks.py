"""What awaited what: the chains of asynchronous calls, as the TPL tells them (TaskWaitBegin and -End, keywords 0x3 of its source).

An await is of a task, and by the task that goes on when that is done (of one that blocks its thread, by the task that it blocks, if any:
``await_calls`` says how that is known). So the awaits of a program are trees: who awaits the task by which another awaits is its caller. The
logical stack of an await is the methods that await on the way to it, whatever threads they ran on. What an await took counts for it but for the
awaits that its own task had meanwhile. Of several that await one task the first is the caller of what that awaits. What a task of several
(Task.WhenAll) waits for is not told: nothing is below it.

A method is known by the stack of its await, else (NativeAOT, and where names of methods are missing) by the name of its task, which the TPL tells
with keyword 0x8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial

import numpy as np

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.analysis.answers import answer_sliced, answer_table
from dotnetdiag.analysis.await_calls import find_calls
from dotnetdiag.analysis.await_chains import chain_begins, chain_columns, logical_stacks
from dotnetdiag.analysis.await_rows import DEEPEST, AwaitRows
from dotnetdiag.analysis.await_tables import COLUMNS, AwaitTables
from dotnetdiag.analysis.await_times import own_times
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, Texts, of_source, others_told
from dotnetdiag.analysis.kind_rows import KindRows
from dotnetdiag.analysis.lasting import LastingEvents
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.spread import Spread
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.thread_pool import TPL
from dotnetdiag.events import EventSchema
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import is_among
from dotnetdiag.trace.scratch import Scratch
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

WAIT_BEGUN, WAIT_ENDED, OPERATION = 10, 11, 14
"""Of the TPL: TaskWaitBegin, TaskWaitEnd, TraceOperationBegin."""
TOO_DEEP = f"of more than {DEEPEST:,} awaits in each other the rest is told as chains of their own"
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
NO_EVENTS = "no tasks: none was awaited, or the recording lacks their events (record with --profile tasks)"


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
        return _report(AwaitRows(made, self._operations, texts.names), others_told("tasks", [texts]))


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


def _report(awaits: AwaitRows, more: tuple[str, ...]) -> TaskReport:
    """The answer, with ``more`` notes."""
    without_call = find_calls(awaits)
    is_cut = awaits.settle()
    own_ms = own_times(awaits)
    of_others = np.array([number for number, name in enumerate(awaits.texts) if name in OF_OTHERS], np.int64)
    durations, has_members, blocking, deepest, unfinished = Spread(), False, 0, 0, 0
    for some in awaits.held.slices():
        is_known = ~np.isnan(awaits.duration[some])
        durations.add(awaits.duration[some][is_known])
        unfinished += int((~is_known).sum())
        blocking += int(awaits.is_blocking[some].sum())
        deepest = max(deepest, int(awaits.depth[some].max()))
        has_members = has_members or bool(is_among(awaits.name[some], of_others).any())
    made = awaits.made
    notes: tuple[str, ...] = (NO_EVENTS,)
    if len(made):
        members = (NO_MEMBERS,) if has_members else ()
        calls = (NO_CALL.format(count=f"{without_call:,}"),) if without_call else ()
        deep = (TOO_DEEP,) if is_cut else ()
        notes = (*members, *calls, *deep, *made.stacks.unnamed, *more)
    chains, longest = chain_begins(awaits)
    tables = AwaitTables(awaits, own_ms)
    return TaskReport(
        awaits=answer_sliced("awaits", COLUMNS, len(made), tables.columns, notes, made.losses),
        by_method=answer_table("awaits by method", tables.by_method(), notes, made.losses),
        chains=answer_table("chains", chain_columns(awaits, longest), notes, made.losses),
        stacks=partial(logical_stacks, awaits, own_ms),
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
