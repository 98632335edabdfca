"""The thread pool: how long work waited in its queue, how many threads it had, and why it took more or fewer of them.

What is queued is told by FrameworkEventSource (ThreadPoolEnqueueWork and -DequeueWork, keyword threadpool), on all runtimes; where a recording has
no such events, by the tasks of the TPL (TaskScheduled, TaskStarted), which are most of it. The pool starves while some work has been waiting for
longer than :data:`LATE_MS`: it has too few threads that are free, whatever they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import number, whole
from dotnetdiag.analysis.fold import Seconds, fold, in_seconds, seconds_of
from dotnetdiag.analysis.groups import groups
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, having, of_source, words_of
from dotnetdiag.analysis.lasting import Lasting, LastingEvents
from dotnetdiag.analysis.quantiles import quantiles_of
from dotnetdiag.analysis.report import Report
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

TPL, FRAMEWORK = "System.Threading.Tasks.TplEventSource", "System.Diagnostics.Eventing.FrameworkEventSource"
SCHEDULED, EXECUTED = 7, 8
"""Of the TPL: TaskScheduled, TaskStarted."""
ENQUEUED, DEQUEUED = 30, 31
"""Of FrameworkEventSource: ThreadPoolEnqueueWork, ThreadPoolDequeueWork."""
WORKERS = (50, 51, 57)
"""Start, Stop and Wait of a worker: each tells how many are active."""
ADJUSTED = 55
STARVATION = "Starvation"
LATE_MS = 100.0
NO_EVENTS = (
    "no thread pool: it did nothing, or the recording lacks its events (record with --clrevents threading, and with "
    "--providers System.Diagnostics.Eventing.FrameworkEventSource:0x2:5 for how long work waited)"
)
NO_QUEUE = (
    "how long work waited is not told: record with --clrevents threading "
    "--providers System.Diagnostics.Eventing.FrameworkEventSource:0x2:5"
)
ONLY_TASKS = "of what was queued the recording has the tasks alone"


@dataclass(frozen=True, kw_only=True)
class ThreadPoolTotals:
    """Of all. ``count`` pieces of work were queued, ``unfinished`` of them not begun in the recording; ``queue_ms``: quantiles by name;
    ``starved_ms``: for how long some work had waited for more than 100 ms. ``reasons``: how often the pool changed its size, by why.
    """

    count: int
    unfinished: int
    queue_ms: Mapping[str, float]
    starved_ms: float
    max_threads: int | None
    reasons: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class ThreadPoolReport(Report):
    """``work``: a row for each piece that was queued; ``by_method``: who queued it; ``starvation``: the times in which some waited too long;
    ``adjustments``: each change of the number of threads; ``threads``: how many were active, when that changed. ``profile``: the stacks of
    who queued, by how long it waited, in ms. ``notes``: what the recording lacks.
    """

    MAIN = "work"

    work: Table
    by_method: Table
    starvation: Table
    adjustments: Table
    threads: Table
    profile: StackProfile
    totals: ThreadPoolTotals


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
        )
        self._tasks = LastingEvents(
            KeptEvents(of_source(TPL, SCHEDULED), ("TaskID",)),
            KeptEvents(of_source(TPL, EXECUTED), ("TaskID",)),
            by="TaskID",
        )
        self._workers = KeptEvents(having(*WORKERS), ("ActiveWorkerThreadCount",))
        self._adjusted = KeptEvents(having(ADJUSTED), ("AverageThroughput", "NewWorkerThreadCount", "Reason"))
        self._reasons: Callable[[int], str] | None = None

    def wants(self, schema: EventSchema) -> bool:
        """What is queued and begun, workers, and changes of their number."""
        return any(one.wants(schema) for one in (self._work, self._tasks, self._workers, self._adjusted))

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        for one in (self._work, self._tasks, self._workers):
            one.feed(window)
        if len(self._adjusted.feed(window)):
            self._reasons = words_of(window, self._adjusted.wants, "Reason")

    def result(self) -> ThreadPoolReport:
        """The answer."""
        work, tasks = (one.result("Queued work") for one in (self._work, self._tasks))
        made = work if len(work.starts) else tasks
        workers, adjusted = self._workers.all(), self._adjusted.all()
        notes = []
        if not len(made.starts):
            notes.append(NO_QUEUE if len(workers) or len(adjusted) else NO_EVENTS)
        elif made is tasks:
            notes.append(ONLY_TASKS)

        def table(title: str, content: Mapping[str, Column]) -> Table:
            units = {name: "ms" for name in content if name.endswith("_ms") or name == "ms"}
            return Table(dict(content), title=title, units=units, notes=notes, losses=made.losses)

        reasons = Coded.naming(Scalar(adjusted["Reason"].astype(np.int64), None, Kind.I8), self._reasons or str)
        ended = made.duration_ms[made.known]
        starved = _starved(made, in_seconds(self._seconds))
        said = reasons.to_pylist()
        counts = {str(name): said.count(name) for name in dict.fromkeys(said)}
        sizes = (workers["ActiveWorkerThreadCount"], adjusted["NewWorkerThreadCount"])
        most = max(int(kept.max(initial=-1)) for kept in sizes)
        found = groups([made.starts.pid, made.method.which], made.duration_ms)
        return ThreadPoolReport(
            work=table("work", _rows(made)),
            by_method=table(
                "work by method",
                {
                    "pid": whole(made.starts.pid[found.first]),
                    "method": made.method.take(found.first),
                    "count": whole(found.count),
                    "total_ms": number(found.total),
                    "max_ms": number(found.most),
                },
            ),
            starvation=table("starvation", starved),
            adjustments=table(
                "adjustments",
                {
                    "ms": number(adjusted.ms),
                    "pid": whole(adjusted.pid),
                    "threads": whole(adjusted["NewWorkerThreadCount"]),
                    "reason": reasons,
                    "throughput": number(adjusted["AverageThroughput"].astype(np.float64)),
                },
            ),
            threads=table("threads", _active(workers)),
            profile=made.profile,
            totals=ThreadPoolTotals(
                count=len(made.starts),
                unfinished=int((~made.known).sum()),
                queue_ms=quantiles_of(ended),
                starved_ms=float(np.sum(starved["duration_ms"].values)),
                max_threads=most if most >= 0 else None,
                reasons=counts,
            ),
            notes=tuple(notes),
        )


def _rows(made: Lasting) -> dict[str, Column]:
    known = made.known
    worker = np.zeros(len(known), np.int64)
    worker[known] = made.stops.tid[made.stop[known]]
    return {
        "queued_ms": number(made.starts.ms),
        "queue_ms": number(made.duration_ms, known),
        "pid": whole(made.starts.pid),
        "tid": whole(made.starts.tid),
        "worker_tid": whole(worker, known),
        "method": made.method,
    }


def _starved(made: Lasting, seconds: float | None) -> dict[str, Scalar]:
    """The times in which some work of a process had been waiting for too long: those of different pieces that overlap are one. What nobody has begun
    waits until the end of a recording that has lost nothing.
    """
    waited_ms = made.duration_ms
    if seconds is not None and made.losses.lost == 0:
        waited_ms = np.where(made.known, waited_ms, 1000.0 * seconds - made.starts.ms)
    late = np.flatnonzero(waited_ms > LATE_MS)
    pid, begin = made.starts.pid[late], made.starts.ms[late] + LATE_MS
    end = made.starts.ms[late] + waited_ms[late]
    order = np.lexsort((begin, pid))
    late, pid, begin, end = late[order], pid[order], begin[order], end[order]
    first = np.ones(len(late), np.bool_)
    if len(late):
        # the latest end so far, process by process: ends of later ones are lifted above all of those before
        _, which = np.unique(pid, return_inverse=True)
        span = float(end.max() - begin.min()) + 1.0
        reached = np.maximum.accumulate(end + which * span) - which * span
        first[1:] = (pid[1:] != pid[:-1]) | (begin[1:] > reached[:-1])
    at = np.flatnonzero(first)
    empty = np.zeros(0)
    until = np.maximum.reduceat(end, at) if len(at) else empty
    longest = np.maximum.reduceat(waited_ms[late], at) if len(at) else empty
    return {
        "start_ms": number(begin[at]),
        "duration_ms": number(until - begin[at]),
        "pid": whole(pid[at]),
        "late": whole(np.diff(np.append(at, len(late)))),
        "longest_ms": number(longest),
    }


def _active(workers: Kept) -> dict[str, Column]:
    """How many threads were active, where that changed."""
    active = workers["ActiveWorkerThreadCount"]
    order = np.lexsort((workers.ms, workers.pid))
    changed = np.ones(len(order), np.bool_)
    pid, count = workers.pid[order], active[order]
    changed[1:] = (pid[1:] != pid[:-1]) | (count[1:] != count[:-1])
    rows = order[changed]
    return {"ms": number(workers.ms[rows]), "pid": whole(workers.pid[rows]), "active": whole(active[rows])}
