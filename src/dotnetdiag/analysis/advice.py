"""What is wrong, most important first: all questions at once, and of each answer what stands out.

A finding says how much of the time it costs, as far as that is known, in per cent of what was recorded: that is its ``severity``, and the order. What
costs less than :data:`LEAST` is not told, nor what a program that is well does too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis.allocations import AllocationReport, AllocationsFold
from dotnetdiag.analysis.cpu import CpuFold
from dotnetdiag.analysis.exceptions import ExceptionReport, ExceptionsFold
from dotnetdiag.analysis.fold import FOLDED_ROWS, Fold, LossesToTell, fold, results_of, seconds_of
from dotnetdiag.analysis.gc_collections import GcFold, GcReport
from dotnetdiag.analysis.jit import JitFold, JitReport
from dotnetdiag.analysis.logs import LogReport, LogsFold
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.native import NO_SAMPLER, NO_STATES, RuntimeFacts, facts_of
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.request_events import NO_REASON
from dotnetdiag.analysis.requests import RequestReport, RequestsFold
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stuck import Stuck
from dotnetdiag.analysis.thread_pool import ThreadPoolFold, ThreadPoolReport
from dotnetdiag.analysis.waits import ContentionFold, WaitReport
from dotnetdiag.events import EventSchema
from dotnetdiag.table import Losses, Table
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

LEAST = 1.0
"""Per cent of the time."""
SOME = 5.0
FEW_RAN = 0.01
"""A sampler that tells no states says of as few that they ran."""
"""The severity of what costs no time that can be told, and is wrong all the same."""
PAUSED_PERCENT, LONG_PAUSE_MS = 10.0, 200.0
INDUCED, INDUCED_SHARE = 3, 0.2
WAITED_MS, STARVED_MS = 20.0, 100.0
BLOCKED_TIMES = 4
"""So often a pool has taken threads because its own waited for tasks: once or twice is a start."""
MANY, MANY_A_SECOND, THROW_MS = 20, 10.0, 0.02
"""Exceptions, and what one costs about."""
SLOW_MS, SLOWER = 20.0, 5.0
"""A route is slow whose median is that long, and so many times that of all."""
FEW_REQUESTS = 2
CALLS = {
    "server": "requests that came in",
    "grpc server": "gRPC calls that came in",
    "client": "requests that went out",
    "grpc client": "gRPC calls that went out",
    "sql": "SQL commands",
}
"""What may fail, by the kinds of requests."""
ROUTES = 3
"""So many are named."""
QUEUED_SHARE = 0.5
"""Of the time of requests that went out: from here on it is told that they waited for a connection."""
JIT_MS, JIT_PERCENT = 100.0, 20.0
HOT_SHARE, BUSY_SHARE = 0.3, 0.1
"""Of a method: how much of what ran is its own, and how much of the time that is on one processor."""
ERRORS = ("Error", "Critical")
"""Levels of messages."""
LONGEST_TEXT = 80
NOTHING = "nothing stands out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that stands out. ``severity``: per cent of the time of the recording that it costs, about; ``question``: the kind of report that has
    more of it; ``text``: a sentence.
    """

    severity: float
    question: str
    text: str


@dataclass(frozen=True, kw_only=True)
class AdviceReport:
    """``findings``: the most important first. ``lacking``: of kinds of reports that have nothing, why."""

    findings: Table
    lacking: Mapping[str, str]
    seconds: float

    @property
    def kind(self) -> str:
        """What commands and pages call it."""
        return "advice"

    @property
    def rows(self) -> Table:
        """The findings, as other reports have their main table."""
        return self.findings

    @property
    def losses(self) -> Losses:
        """What the recording lacks that was looked at."""
        return self.findings.losses

    @property
    def notes(self) -> tuple[str, ...]:
        """Why there is nothing of what is ``lacking``."""
        return tuple(dict.fromkeys(self.lacking.values()))

    def saying(self, texts: Mapping[str, str]) -> Self:
        """The same with other words in the place of some notes."""
        return replace(self, lacking={name: texts.get(note, note) for name, note in self.lacking.items()})

    def document(self) -> dict[str, Any]:
        """As :meth:`to_json`, with tables in the place of their rows."""
        return {
            "findings": self.findings,
            "lacking": dict(self.lacking),
            "seconds": self.seconds,
            "losses": self.losses.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**self.document(), "findings": self.findings.to_pylist()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What each question has found."""

    gc: GcReport
    allocations: AllocationReport
    exceptions: ExceptionReport
    contention: WaitReport
    threadpool: ThreadPoolReport
    requests: RequestReport
    jit: JitReport
    logs: LogReport
    cpu: StackProfile
    losses: Losses
    seconds: float
    runtime: RuntimeFacts = field(default_factory=RuntimeFacts)


def advice(trace: Trace) -> AdviceReport:
    """What stands out in a recording."""
    # windows of half as many events are no slower here, and of a million requests take 27 MB less
    (made,) = fold(trace, AdviceFold(seconds=seconds_of(trace), runtime=facts_of(trace)), rows=FOLDED_ROWS // 2)
    return made


class AdviceFold:
    """What :func:`advice` asks, window by window. ``seconds``: how long was recorded; ``runtime``: what is known of it; both are asked in
    the end.
    """

    def __init__(self, *, seconds: Callable[[], float], runtime: Callable[[], RuntimeFacts] = RuntimeFacts) -> None:
        self._seconds, self._runtime = seconds, runtime
        self._folds: dict[str, Fold[Any]] = {
            "gc": GcFold(seconds=seconds),
            "allocations": AllocationsFold(seconds=seconds),
            "exceptions": ExceptionsFold(),
            "contention": ContentionFold(),
            "threadpool": ThreadPoolFold(seconds=seconds),
            "requests": RequestsFold(),
            "jit": JitFold(is_native=lambda: runtime().is_native),
            "logs": LogsFold(rows=False),
            "cpu": CpuFold(),
        }
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Whatever one of the questions does."""
        return any(one.wants(schema) for one in self._folds.values())

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        for one in self._folds.values():
            one.feed(window)

    def result(self) -> AdviceReport:
        """The answer, once."""
        names, folds = tuple(self._folds), list(self._folds.values())
        self._folds = {}
        made = dict(zip(names, map(_brief, results_of(folds)), strict=True))
        return advice_of(Answers(**made, losses=self._losses.told, seconds=self._seconds(), runtime=self._runtime()))


def _brief(answer: Any) -> Any:
    """An answer without the table that nobody looks at here, which has a row for each event."""
    return replace(answer, requests=answer.requests[:0]) if isinstance(answer, RequestReport) else answer


def advice_of(answers: Answers) -> AdviceReport:
    """What stands out in answers that are there."""
    found = sorted(_findings(answers), key=lambda one: -one.severity)
    looked: Mapping[str, tuple[bool, Sequence[str]]] = {
        "gc": (answers.gc.totals.count > 0, answers.gc.notes),
        "allocations": (answers.allocations.totals.count > 0, answers.allocations.notes),
        "exceptions": (answers.exceptions.count > 0, answers.exceptions.notes),
        "contention": (answers.contention.totals.count > 0, answers.contention.notes),
        "threadpool": (
            answers.threadpool.totals.count > 0 or len(answers.threadpool.adjustments) > 0,
            answers.threadpool.notes,
        ),
        "requests": (answers.requests.totals.count > 0, answers.requests.notes),
        "jit": (answers.jit.totals.count > 0, answers.jit.notes),
        "logs": (answers.logs.totals.count > 0, answers.logs.notes),
        "topN": _looked_at_cpu(answers),
    }
    lacking = {name: "; ".join(notes) for name, (has_some, notes) in looked.items() if not has_some}
    return AdviceReport(
        findings=Table(
            {
                "severity": [round(one.severity, 1) for one in found],
                "question": [one.question for one in found],
                "text": [one.text for one in found],
            },
            title="what stands out",
            units={"severity": "%"},
            notes=[] if found else [NOTHING],
            losses=answers.losses,
        ),
        lacking=lacking,
        seconds=answers.seconds,
    )


def _findings(answers: Answers) -> Iterator[Finding]:
    yield from _of_gc(answers.gc, answers.allocations)
    yield from _of_contention(answers.contention, answers.seconds)
    yield from of_pool(answers.threadpool, answers.seconds)
    yield from of_requests(answers.requests, answers.seconds)
    yield from _of_exceptions(answers.exceptions, answers.seconds)
    yield from of_jit(answers.jit, answers.seconds)
    yield from _of_logs(answers.logs)
    yield from of_cpu(answers.cpu, answers.seconds)


def _of_gc(made: GcReport, allocated: AllocationReport) -> Iterator[Finding]:
    totals = made.totals
    if not totals.count:
        return
    share = totals.pause_percent or 0.0
    is_long = share >= PAUSED_PERCENT or totals.max_pause_ms >= LONG_PAUSE_MS
    is_induced = totals.induced >= INDUCED and totals.induced >= INDUCED_SHARE * totals.count
    if not (is_long or is_induced):
        return
    text = f"the collector paused the program for {share:.1f} % of the time, {totals.max_pause_ms:,.1f} ms at most"
    if is_induced:
        text += f": {totals.induced:,} of {totals.count:,} collections are induced"
        callers = Counter(made.collections.values("induced_by"))
        if named := [one for one in callers if is_named(one)]:  # few of many
            most = max(named, key=callers.__getitem__)
            text += f", {callers[most]:,} by {short(most)}"
    else:
        oldest = made.collections.values("generation").count(2)
        text += f"; {totals.count:,} collections, {oldest:,} of gen2"
        if totals.allocated_bytes:
            text += f", {totals.allocated_bytes / 1e6:,.0f} MB allocated"
        if len(allocated.by_type_and_method):
            most = allocated.by_type_and_method[0]
            by = f" by {short(most['method'])}" if is_named(most["method"]) else ""
            text += f"; {most['percent']:.0f} % of it as {most['type']}{by}"
    yield Finding(severity=max(share, SOME if is_long else LEAST), question="gc", text=text)


def _of_contention(made: WaitReport, seconds: float) -> Iterator[Finding]:
    totals = made.totals
    stuck = Stuck(made, seconds, least_ms=WAITED_MS)
    if stuck.longest_ms >= WAITED_MS and _share(stuck.longest_ms, seconds) >= LEAST:
        yield Finding(severity=_share(stuck.longest_ms, seconds), question="contention", text=stuck.text())
    share = _share(totals.total_ms, seconds)
    if totals.total_ms < WAITED_MS or share < LEAST:
        return
    text = (
        f"threads waited {totals.total_ms:,.0f} ms for locks, {_times(totals.count)}, {totals.max_ms:,.1f} ms at most"
    )
    if len(made.by_method) and is_named((first := made.by_method[0])["method"]):
        text += f"; {first['total_ms']:,.0f} ms of it in {short(first['method'])}"
    if len(made.by_lock) and made.by_lock[0]["lock"]:
        lock = made.by_lock[0]
        text += f", {lock['total_ms']:,.0f} ms for one lock ({lock['lock']})"
    yield Finding(severity=share, question="contention", text=text)


def of_pool(made: ThreadPoolReport, seconds: float) -> Iterator[Finding]:
    """That work waited in the queue of the thread pool, or that it took more threads because nothing went on, or its own were blocked."""
    totals = made.totals
    starving, blocked = totals.reasons.get("Starvation", 0), _added_for_blocked(made)
    if totals.starved_ms < STARVED_MS and not starving and blocked < BLOCKED_TIMES:
        return
    text = "the thread pool starves" if totals.starved_ms or starving else "threads of the pool are blocked"
    if totals.starved_ms:
        queue = totals.queue_ms
        text += (
            f": for {totals.starved_ms:,.0f} ms some work had waited for more than 100 ms, in the median {queue['median']:,.0f} ms, "
            f"{queue['most']:,.0f} ms at most"
        )
        first = made.by_method[0]
        if is_named(first["method"]):
            text += f"; {first['count']:,} of {totals.count:,} were queued by {short(first['method'])}"
    if starving:
        text += f"; it took more threads {_times(starving)} because nothing went on"
    if blocked:
        text += (
            f"; it took more threads {_times(blocked)} because its threads waited for tasks (Task.Wait, Task.Result)"
        )
    if totals.max_threads:
        text += f" (at most {totals.max_threads:,} threads)"
    yield Finding(severity=max(_share(totals.starved_ms, seconds), SOME), question="threadpool", text=text)


def _added_for_blocked(made: ThreadPoolReport) -> int:
    """How often the pool took more threads because its own waited for tasks; it says the same of taking them back."""
    threads: dict[int, int] = {}
    added = 0
    for row in made.adjustments.to_pylist():
        before, threads[row["pid"]] = threads.get(row["pid"], row["threads"]), row["threads"]
        added += row["reason"] == "CooperativeBlocking" and row["threads"] > before
    return added


def of_requests(made: RequestReport, seconds: float) -> Iterator[Finding]:
    """That requests failed, waited for a connection, or took far longer than others."""
    by_route = made.by_route.to_pylist()
    for kind, what in CALLS.items():
        yield from _of_failures([row for row in by_route if row["kind"] == kind], what)
    yield from _of_queues([row for row in by_route if row["queue_ms"]], seconds)
    kind = "server" if any(row["kind"] == "server" for row in by_route) else "client"
    routes = [row for row in by_route if row["kind"] == kind]
    count = sum(row["count"] for row in routes)
    routes = [row for row in routes if row["median_ms"] is not None]
    if count < FEW_REQUESTS or len(routes) < FEW_REQUESTS:
        return
    medians = np.repeat([row["median_ms"] for row in routes], [row["count"] for row in routes])
    usual = float(np.median(medians))
    for row in routes:
        if row["count"] >= FEW_REQUESTS and row["median_ms"] >= SLOW_MS and row["median_ms"] >= SLOWER * usual:
            spent = {
                what: row[name]
                for name, what in (
                    ("queue_ms", "in the queue for a connection"),
                    ("cpu_ms", "on processors"),
                    ("gc_ms", "in pauses"),
                    ("lock_ms", "for locks"),
                )
                if row[name] and row[name] >= 0.1 * row["total_ms"]
            }
            told = ", ".join(f"{value:,.0f} ms {what}" for what, value in spent.items())
            yield Finding(
                severity=max(SOME, _share(row["total_ms"], seconds)),
                question="requests",
                text=f"{row['route']} takes {row['median_ms']:,.1f} ms in the median, where that of all {CALLS[kind]} is {usual:,.1f} ms; "
                f"it is {row['count']:,} of {count:,} requests" + (f", and spent {told}" if told else ""),
            )


def _of_failures(routes: Sequence[Mapping[str, Any]], what: str) -> Iterator[Finding]:
    """Of one kind, those that failed, the most first."""
    count, number = (sum(row[name] for row in routes) for name in ("count", "failed"))
    if not number or 100.0 * number < LEAST * count:
        return
    failed = sorted((row for row in routes if row["failed"]), key=lambda row: -row["failed"])
    text = f"{number:,} of {count:,} {what} failed: "
    text += ", ".join(f"{row['route']} ({row['failed']:,})" for row in failed[:ROUTES])
    if len(failed) > ROUTES:
        text += f" and {len(failed) - ROUTES:,} more"
    why = failed[0]["failure"]
    if why != NO_REASON:
        text += f'{"; most of the first" if len(failed) > 1 else ", most of them"}: "{why[:LONGEST_TEXT]}"'
    yield Finding(severity=100.0 * number / count, question="requests", text=text)


def _of_queues(routes: Sequence[Mapping[str, Any]], seconds: float) -> Iterator[Finding]:
    """That requests waited for a connection, where that is most of what they took."""
    queued, total = (sum(row[name] for row in routes) for name in ("queue_ms", "total_ms"))
    if queued < WAITED_MS or queued < QUEUED_SHARE * total or _share(queued, seconds) < LEAST:
        return
    most = max(routes, key=lambda row: row["queue_ms"])
    yield Finding(
        severity=_share(queued, seconds),
        question="requests",
        text=f"requests that went out waited {queued:,.0f} of {total:,.0f} ms for a connection, {most['queue_ms']:,.0f} ms of it those to "
        f"{most['route']}: connections are too few (MaxConnectionsPerServer), or take long to open",
    )


def _of_exceptions(made: ExceptionReport, seconds: float) -> Iterator[Finding]:
    if made.count < max(MANY, MANY_A_SECOND * seconds):
        return
    first = made.by_type[0]
    text = f"{made.count:,} exceptions were thrown, {made.count / max(seconds, 1e-3):,.0f} a second; {first['count']:,} are {first['type']}"
    messages = [row for row in made.by_message.to_pylist() if row["type"] == first["type"]]
    if messages and messages[0]["message"]:
        text += f' ("{messages[0]["message"][:LONGEST_TEXT]}")'
    by = made.by_method[0]
    if is_named(by["method"]):
        text += f"; {by['count']:,} of them thrown by {short(by['method'])}"
    yield Finding(severity=max(SOME, _share(made.count * THROW_MS, seconds)), question="exceptions", text=text)


def of_jit(made: JitReport, seconds: float) -> Iterator[Finding]:
    """That threads waited for the compiler."""
    totals = made.totals
    share = _share(totals.foreground_ms, seconds)
    if totals.foreground_ms < JIT_MS or share < JIT_PERCENT:
        return
    yield Finding(
        severity=share / 2,  # at a start it has to be
        question="jit",
        text=f"threads waited {totals.foreground_ms:,.0f} ms for the compiler, {share:.0f} % of the time, for {totals.foreground:,} methods: "
        "code that is compiled ahead (ReadyToRun) would spare most of it",
    )


def _of_logs(made: LogReport) -> Iterator[Finding]:
    number = sum(made.totals.by_level.get(level, 0) for level in ERRORS)
    first = next((row for row in made.by_event.to_pylist() if row["level"] in ERRORS), None)
    if first is None:
        return
    example = " ".join(str(first["example"] or "").split())[:LONGEST_TEXT]
    told = f' ("{example}")' if example else ""
    yield Finding(
        severity=SOME,
        question="logs",
        text=f"{number:,} messages of level Error or worse were logged, {first['count']:,} by {first['logger']}{told}",
    )


def _looked_at_cpu(answers: Answers) -> tuple[bool, Sequence[str]]:
    """Whether it could be, and what is said where it could not."""
    cpu, runtime = answers.cpu, answers.runtime
    if runtime.is_native:
        return len(cpu) > 0, (NO_SAMPLER,)
    ran = int((cpu.state == State.CPU).sum())
    if len(cpu) and not runtime.tells_states and ran < FEW_RAN * len(cpu):
        return False, (NO_STATES,)
    return len(cpu) > 0, cpu.notes


def of_cpu(profile: StackProfile, seconds: float) -> Iterator[Finding]:
    """That one method took much of what ran."""
    if not len(profile) or profile.unit != "ms":
        return
    running = profile.in_states(State.CPU)
    rows = running.top(1)
    if not rows or rows[0].exclusive_percent < 100 * HOT_SHARE or rows[0].exclusive < BUSY_SHARE * seconds * 1000:
        return
    first, share = rows[0], rows[0].exclusive_percent
    yield Finding(
        severity=LEAST,
        question="topN",
        text=f"{short(first.name())} took {share:.0f} % of the time on processors, {first.exclusive:,.0f} of {running.total:,.0f} ms",
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _share(ms: float, seconds: float) -> float:
    """Per cent of what was recorded; at most all of it."""
    return min(100.0, ms / seconds / 10) if seconds else 0.0
