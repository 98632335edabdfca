"""The thread pool: how long work waited in its queue, how many threads it had, and why it took more or fewer of them.

What is queued is told by FrameworkEventSource (ThreadPoolEnqueueWork and -DequeueWork, keyword threadpool), on all runtimes; where a recording has
no such events, by the tasks of the TPL (TaskScheduled, TaskStarted), which are most of it. The pool starves while some work has been waiting for
longer than :data:`LATE_MS`: it has too few threads that are free, whatever they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.analysis.answers import answer_sliced, answer_table, number, told_number, whole
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.fold import LossesToTell, OfTypes, Seconds, fold, recorded_in, seconds_of
from dotnetdiag.analysis.kept_events import NONE, Kept, KeptEvents, having, of_source, words_of
from dotnetdiag.analysis.kind_rows import Values, columns_of
from dotnetdiag.analysis.lacking import Lacking
from dotnetdiag.analysis.lasting import Lasting, LastingEvents
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.running_groups import KeyedGroups
from dotnetdiag.analysis.spread import Spread
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import distinct, is_among, ranked
from dotnetdiag.trace.lost_between import LostBy
from dotnetdiag.trace.recorded import Recorded
from dotnetdiag.trace.source import lookup, wanted_of
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

TPL, FRAMEWORK = "System.Threading.Tasks.TplEventSource", "System.Diagnostics.Eventing.FrameworkEventSource"
SCHEDULED, EXECUTED = 7, 8
"""Of the TPL: TaskScheduled, TaskStarted."""
ENQUEUED, DEQUEUED = 30, 31
"""Of FrameworkEventSource: ThreadPoolEnqueueWork, ThreadPoolDequeueWork."""
IDLE = 57
WORKERS = (50, 51, IDLE)
"""Start, Stop and Wait of a worker: each tells how many are active."""
ADJUSTED = 55
_SCHEDULER, _OPTIONS = "OriginatingTaskSchedulerID", "TaskCreationOptions"
_POOL, _LONG_RUNNING = 1, 2
"""The scheduler that queues in the pool is made first, and so has the first of their ids; and a flag of tasks (TaskCreationOptions)."""
STARVATION = "Starvation"
LATE_MS = 100.0
TAKEN_BACK_MS = 50.0
NO_EVENTS = "no thread pool: no work of it began, or the recording lacks its events (record with --profile threadpool)"
NO_QUEUE = "how long work waited is not told: record with --profile threadpool"
UNQUEUED = (
    "how long work waited is not told: of what was begun the runtime did not tell when it was queued, as of all that is queued before one of its "
    "threads works for the first time in a session"
)
BESIDE = "work of other processes is left out, of which the recording has {1} alone: {0} (ask of the recording of each)"
ONLY_TASKS = "of what was queued the recording has the tasks alone"


@dataclass(frozen=True, kw_only=True)
class ThreadPoolTotals:
    """Of all. ``count`` pieces of work were queued, of ``unfinished`` of them no begin is told: ``waiting`` wait still, of others who
    waited for them ran them; ``queue_ms``: quantiles by name, of what has begun, and of what waits still how long it has until now;
    ``starved_ms``: for how long some work had waited for more than 100 ms. ``reasons``: how often the pool changed its size, by why.
    """

    count: int
    unfinished: int
    waiting: int
    queue_ms: Mapping[str, float]
    starved_ms: float
    max_threads: int | None
    reasons: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class ThreadPoolReport(Report):
    """``work``: a row for each piece that was queued; ``by_method``: who queued it, ``waiting`` of which nobody has begun when the recording ends
    (until then they count); ``starvation``: the times in which some waited too long;
    ``adjustments``: each change of the number of threads; ``threads``: how many were active, when that changed. ``profile``: the stacks of
    who queued, by how long it waited, in ms, which ``stacks`` makes when somebody asks. ``notes``: what the recording lacks.
    """

    KIND = "threadpool"
    MAIN = "work"

    work: Table
    by_method: Table
    starvation: Table
    adjustments: Table
    threads: Table
    stacks: Callable[[], StackProfile] = field(repr=False, compare=False)
    totals: ThreadPoolTotals

    @cached_property
    def profile(self) -> StackProfile:
        """The stacks of who queued work."""
        return self.stacks()


def threadpool(trace: Trace) -> ThreadPoolReport:
    """What the thread pool of a recording did."""
    (made,) = fold(trace, ThreadPoolFold(seconds=seconds_of(trace)))
    return made


class ThreadPoolFold:
    """What :func:`threadpool` asks, window by window. ``seconds``: how long was recorded, for work that still waits then."""

    needs_activities = False

    def __init__(self, *, seconds: Seconds = None) -> None:
        self._seconds = seconds
        self._work = LastingEvents(
            KeptEvents(of_source(FRAMEWORK, ENQUEUED), ("workID",)),
            KeptEvents(of_source(FRAMEWORK, DEQUEUED), ("workID",)),
            by="workID",
            told=("tid",),
            comes_again=True,
        )
        self._tasks = LastingEvents(
            KeptEvents(of_source(TPL, SCHEDULED), ("TaskID", _SCHEDULER, _OPTIONS)),
            KeptEvents(of_source(TPL, EXECUTED), ("TaskID",)),
            by="TaskID",
            told=("tid",),
            asked=(_SCHEDULER, _OPTIONS),
            are_meant=_are_of_pool,
        )
        self._losses = LossesToTell()
        self._begun, self._has_begun = OfTypes(of_source(FRAMEWORK, DEQUEUED)), set[int]()
        self._workers = KeptEvents(having(*WORKERS), ("ActiveWorkerThreadCount",))
        self._adjusted = KeptEvents(having(ADJUSTED), ("AverageThroughput", "NewWorkerThreadCount", "Reason"))
        self._reasons: Callable[[int], str] | None = None

    def wants(self, schema: EventSchema) -> bool:
        """What is queued and begun, workers, and changes of their number."""
        return any(one.wants(schema) for one in (self._work, self._tasks, self._workers, self._adjusted))

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        for one in (self._work, self._tasks):
            one.feed(window)
        begun = self._begun.rows(window)
        if len(begun):
            self._has_begun |= set(distinct(window.numpy("pid")[begun]).tolist())
        found = self._workers.events_of(window)
        if len(found):
            kept = self._workers.of(found)
            idle = wanted_of([number for number, one in found.schemas.items() if one.event_id == IDLE])
            is_idle = lookup(idle, found.headers.metadata_id)
            self._workers.add(Kept(kept.ms, kept.pid, kept.tid, {**kept.fields, "is_idle": is_idle.astype(np.int8)}))
        if len(self._adjusted.feed(window)):
            self._reasons = words_of(window, self._adjusted.wants, "Reason")

    def result(self) -> ThreadPoolReport:
        """The answer, of what came until now; more may come, and another be asked for."""
        work, tasks = (one.result("Queued work") for one in (self._work, self._tasks))
        made = tasks if _tells_more(tasks, work) else work
        workers, adjusted = self._workers.all(), self._adjusted.all()
        notes = []
        beside = _beside(work if made is tasks else tasks, made)
        queued = {*made.pid.tolist(), *beside}
        worked = {*distinct(workers.pid).tolist(), *distinct(adjusted.pid).tolist(), *self._has_begun}
        if not len(made) and not worked:
            notes.append(NO_EVENTS)
        for pids, note in ((worked - self._has_begun, NO_QUEUE), (worked & self._has_begun, UNQUEUED)):
            notes += Lacking.among(worked | queued, pids - queued).notes(note)
        if len(made) and made is tasks:
            notes.append(ONLY_TASKS)
        if beside:
            notes.append(BESIDE.format(", ".join(map(str, beside)), "tasks" if made is work else "queued work"))
        notes += made.stacks.unnamed if len(made) else ()
        recorded = recorded_in(self._seconds)
        queue = _Queue(made, _found_nothing(workers, adjusted), recorded, self._losses.lost_by)

        def table(title: str, content: Mapping[str, Column]) -> Table:
            return answer_table(title, content, notes, made.losses)

        reasons = Coded.naming(Scalar(adjusted["Reason"].astype(np.int64), None, Kind.I8), self._reasons or str)
        said = reasons.to_pylist()
        counts = {str(name): said.count(name) for name in dict.fromkeys(said)}
        sizes = (workers["ActiveWorkerThreadCount"], adjusted["NewWorkerThreadCount"])
        most = max(int(kept.max(initial=-1)) for kept in sizes)
        throughput = adjusted["AverageThroughput"].astype(np.float64)
        starved = queue.starved.told()
        return ThreadPoolReport(
            work=answer_sliced("work", _OF_WORK, len(made), queue.columns, notes, made.losses),
            by_method=table("work by method", queue.by_method()),
            starvation=table("starvation", starved),
            adjustments=table(
                "adjustments",
                {
                    "ms": number(adjusted.ms),
                    "pid": whole(adjusted.pid),
                    "threads": told_number(adjusted["NewWorkerThreadCount"]),
                    "reason": reasons,
                    "throughput": number(throughput, throughput >= 0),
                },
            ),
            threads=table("threads", _active(workers)),
            stacks=made.profile,
            totals=ThreadPoolTotals(
                count=len(made),
                unfinished=len(made) - queue.begun,
                waiting=len(queue.waited) - queue.begun,
                queue_ms=queue.waited.quantiles(),
                starved_ms=float(np.sum(starved["duration_ms"].values)),
                max_threads=most if most >= 0 else None,
                reasons=counts,
            ),
            notes=tuple(notes),
        )


def _are_of_pool(tasks: Kept) -> Array:
    """Which tasks are queued in the pool: not those of another scheduler, which may have threads of its own, nor those that get a thread each."""
    scheduler, options = tasks[_SCHEDULER], tasks[_OPTIONS]
    is_long = (options != NONE) & (options.astype(np.int64) & _LONG_RUNNING != 0)
    made: Array = ((scheduler == _POOL) | (scheduler == NONE)) & ~is_long
    return made


def _found_nothing(workers: Kept, adjusted: Kept) -> dict[int, float]:
    """By process when a worker had nothing to do for the last time; -inf: none ever had. One that goes right behind a change to fewer threads, which
    the pool makes when those that were blocked go on, leaves work behind.
    """
    made: dict[int, float] = dict.fromkeys(distinct(workers.pid.astype(np.int64)).tolist(), -np.inf)
    for pid in made:
        own = np.flatnonzero(adjusted.pid == pid)
        own = own[np.argsort(adjusted.ms[own], kind="stable")]
        fewer = adjusted.ms[own[1:]][np.diff(adjusted["NewWorkerThreadCount"][own].astype(np.int64)) < 0]
        idle = workers.ms[(workers.pid == pid) & (workers["is_idle"] > 0)]
        before = np.append(fewer, -np.inf)[np.searchsorted(fewer, idle, "right") - 1]
        proves = idle - before > TAKEN_BACK_MS
        made[pid] = float(idle[proves].max(initial=-np.inf))
    return made


def _tells_more(tasks: Lasting, work: Lasting) -> bool:
    """Whether of more tasks than of queued work the begin is told. Tasks are a part of that work; but the id of work is an address on 3.1, and no
    longer the same when a collection has moved what is there.
    """
    if not len(tasks) or not len(work):
        return not len(work)
    begun = [sum(int((~np.isnan(rows["duration_ms"])).sum()) for _, rows in one.slices()) for one in (tasks, work)]
    return begun[0] > begun[1]


def _beside(others: Lasting, made: Lasting) -> list[int]:
    """Processes of which those tell, and not what is looked at."""
    return sorted({*others.pid.tolist()} - {*made.pid.tolist()})


_OF_WORK = ("queued_ms", "queue_ms", "pid", "tid", "worker_tid", "method")


class _Queue:
    """Work that was queued, looked at slice by slice. What nobody has begun waits until its process was recorded no more, if that has lost nothing:
    who waits for a task (``Task.Wait``) may run it where it stands, and then no begin is told. It does not where work that the same method queued
    later has begun (timers and sockets overtake others), nor where a worker found nothing to do since; and where no worker is told of nobody knows.
    """

    def __init__(
        self, made: Lasting, found_nothing: Mapping[int, float], recorded: Recorded | None, lost_by: LostBy
    ) -> None:
        self._made = made
        self.waited, self.starved, self._by_method, self._waiting = (
            Spread(),
            Starvation(),
            KeyedGroups(2),
            KeyedGroups(2),
        )
        self.begun = 0
        left = [np.zeros(0, _LEFT)]
        latest = KeyedGroups(2)  # when work was queued that has begun, by process and method
        for first, rows in made.slices():
            pid, waited_ms = made.pid[rows["kind"]], rows["duration_ms"]
            known = ~np.isnan(waited_ms)
            self.waited.add(waited_ms[known])
            self.begun += int(known.sum())
            method = made.stacks.method[made.stacks.of(rows["kind"], rows["time"])]
            numbers = first + np.arange(len(rows))
            self._by_method.add([pid, method], numbers, waited_ms)
            self.starved.add(pid, rows["ms"], waited_ms)
            latest.add([pid[known], method[known]], numbers[known], rows["ms"][known])
            some = np.empty(int((~known).sum()), _LEFT)
            some["pid"], some["method"], some["ms"] = pid[~known], method[~known], rows["ms"][~known]
            left.append(some)
        if recorded is not None:
            waits = np.concatenate(left)
            whole_pids = [pid for pid in distinct(waits["pid"]).tolist() if lost_by(pid) == 0]
            waits = waits[is_among(waits["pid"], np.array(whole_pids, np.int64))]
            self._add_left(waits, latest, found_nothing, recorded)

    def _add_left(
        self, left: Array, latest: KeyedGroups, found_nothing: Mapping[int, float], recorded: Recorded
    ) -> None:
        pids, at = ranked(left["pid"])
        left = (
            left[left["ms"] > np.array([found_nothing.get(pid, np.inf) for pid in pids.tolist()])[at]]
            if len(left)
            else left
        )
        first, which = combined([left["pid"], left["method"]], len(left))
        (begun, by), found, _ = latest.told()
        overtaken = dict(zip(zip(begun.tolist(), by.tolist(), strict=True), found.most.tolist(), strict=True))
        since = np.array([overtaken.get((pid, method), -np.inf) for pid, method, _ in left[first].tolist()])
        left = left[left["ms"] > since[which]] if len(left) else left
        waited_ms = recorded.ends_ms(left["pid"]) - left["ms"]
        self.waited.add(waited_ms)  # without these those that wait longest did not count
        self.starved.add(left["pid"], left["ms"], waited_ms)
        self._waiting.add([left["pid"], left["method"]], np.arange(len(left)), waited_ms)

    def by_method(self) -> dict[str, Column]:
        """Who queued it; what waits still when the recording ends has waited until then."""
        (pid, method), found, _ = self._by_method.told()
        (begun, by), left, _ = self._waiting.told()
        keys = zip(begun.tolist(), by.tolist(), strict=True)
        waiting = dict(zip(keys, zip(left.count.tolist(), left.total, left.most, strict=True), strict=True))
        more = [waiting.get(key, (0, 0.0, np.nan)) for key in zip(pid.tolist(), method.tolist(), strict=True)]
        still, total, most = np.array(more, np.float64).reshape(-1, 3).T
        total, most = found.total + total, np.fmax(found.most, most)
        order = np.lexsort((found.first, -found.count, -total))
        return {
            "pid": whole(pid[order]),
            "method": self._made.stacks.named(method[order]),
            "count": whole(found.count[order]),
            "waiting": whole(still[order]),
            "total_ms": number(total[order]),
            "max_ms": number(most[order]),
        }

    def columns(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        """Of the table of all: columns of some rows."""
        return columns_of(self._made.rows, self._column, names, first, last)

    def _column(self, name: str, values: Values) -> Column:
        made = self._made
        if name == "queued_ms":
            return number(values("ms"))
        if name == "queue_ms":
            return number(values("duration_ms"))
        if name == "worker_tid":
            known = ~np.isnan(values("duration_ms"))
            return whole(np.where(known, values("stop_tid"), 0), known)
        if name == "method":
            return made.stacks.methods(made.stacks.of(values("kind"), values("time")))
        return whole((made.pid if name == "pid" else made.tid)[values("kind")])


_LEFT = np.dtype([("pid", "i8"), ("method", "i8"), ("ms", "f8")])
_INTERVAL = np.dtype([("pid", "i8"), ("begin", "f8"), ("end", "f8"), ("late", "i8"), ("longest", "f8")])


class Starvation:
    """The times in which some work of a process had been waiting for too long: those of different pieces that overlap are one."""

    def __init__(self) -> None:
        self._over: list[Array] = []
        self._last = np.zeros(0, _INTERVAL)

    def add(self, pid: Array, ms: Array, waited_ms: Array) -> None:
        """Work in the order in which it was queued: its process, when that was, and how long it waited (NaN: not told)."""
        rows = np.flatnonzero(waited_ms > LATE_MS)
        late = np.empty(len(rows), _INTERVAL)
        late["pid"], late["begin"], late["end"] = pid[rows], ms[rows] + LATE_MS, ms[rows] + waited_ms[rows]
        late["late"], late["longest"] = 1, waited_ms[rows]
        made = _joined(np.concatenate([self._last, late]))
        is_last = np.append(made["pid"][1:] != made["pid"][:-1], True)[: len(made)]
        self._over.append(made[~is_last])
        self._last = made[is_last]

    def told(self) -> dict[str, Scalar]:
        """Columns of a table, by process and then by time."""
        found = _joined(np.concatenate([*self._over, self._last]))
        return {
            "start_ms": number(found["begin"]),
            "duration_ms": number(found["end"] - found["begin"]),
            "pid": whole(found["pid"]),
            "late": whole(found["late"]),
            "longest_ms": number(found["longest"]),
        }


def _joined(intervals: Array) -> Array:
    """Those of a process that overlap together, by process and then by time."""
    if not len(intervals):
        return intervals
    found = intervals[np.lexsort((intervals["begin"], intervals["pid"]))]
    pid, begin, end = found["pid"], found["begin"], found["end"]
    # the latest end so far, process by process: ends of later ones are lifted above all of those before
    which = ranked(pid)[1]
    span = float(end.max() - begin.min()) + 1.0
    reached = np.maximum.accumulate(end + which * span) - which * span
    first = np.ones(len(found), np.bool_)
    first[1:] = (pid[1:] != pid[:-1]) | (begin[1:] > reached[:-1])
    at = np.flatnonzero(first)
    made = found[at]
    made["end"], made["longest"] = np.maximum.reduceat(end, at), np.maximum.reduceat(found["longest"], at)
    made["late"] = np.add.reduceat(found["late"], at)
    return made


def _active(workers: Kept) -> dict[str, Column]:
    """How many threads were active, where that changed."""
    workers = workers.of(
        np.flatnonzero(workers["ActiveWorkerThreadCount"] >= 0)
    )  # one of a damaged block does not tell
    active = workers["ActiveWorkerThreadCount"]
    order = np.lexsort((workers.ms, workers.pid))
    changed = np.ones(len(order), np.bool_)
    pid, count = workers.pid[order], active[order]
    changed[1:] = (pid[1:] != pid[:-1]) | (count[1:] != count[:-1])
    rows = order[changed]
    return {"ms": number(workers.ms[rows]), "pid": whole(workers.pid[rows]), "active": whole(active[rows])}
