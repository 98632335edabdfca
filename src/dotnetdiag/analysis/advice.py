"""What is wrong, most important first: all questions at once, and of each answer what stands out.

A finding says how much of the time it costs, as far as that is known, in per cent of what was recorded: that is its ``severity``, and the order. What
costs less than :data:`LEAST` is not told, nor what a program that is well does too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis import nameless
from dotnetdiag.analysis.advice_report import AdviceReport, Said, report_of
from dotnetdiag.analysis.allocations import AllocationReport, AllocationsFold
from dotnetdiag.analysis.cpu_findings import of_cpu
from dotnetdiag.analysis.distinct import rows_with
from dotnetdiag.analysis.exceptions import NO_MESSAGE, ExceptionReport, ExceptionsFold
from dotnetdiag.analysis.finding import DEADLOCK, LEAST, SOME, WAITED_MS, Finding, begin_of, of_all, share_of, times
from dotnetdiag.analysis.fold import FOLDED_ROWS, Fold, LossesToTell, Seconds, fold, recorded_in, results_of, seconds_of
from dotnetdiag.analysis.gc_collections import GcFold, GcReport
from dotnetdiag.analysis.gc_findings import of_finalizers, of_gc, of_heaps
from dotnetdiag.analysis.jit import FOREGROUND, JitFold, JitReport
from dotnetdiag.analysis.kept_events import OTHERS
from dotnetdiag.analysis.log_exceptions import first_line
from dotnetdiag.analysis.logs import LogReport, LogsFold
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.native import NO_SAMPLER, NO_STATES, RuntimeFacts, are_states_told, facts_of
from dotnetdiag.analysis.pairs import rest_of_overlaps
from dotnetdiag.analysis.pool_findings import of_pool
from dotnetdiag.analysis.request_findings import of_requests
from dotnetdiag.analysis.requests import RequestReport, RequestsFold
from dotnetdiag.analysis.sample_sums import Sampled, SampledFold
from dotnetdiag.analysis.stuck import Stuck
from dotnetdiag.analysis.thread_pool import ThreadPoolFold, ThreadPoolReport
from dotnetdiag.analysis.wait_findings import of_deadlock, of_stuck_pool, of_waits
from dotnetdiag.analysis.waits import ContentionFold, WaitReport, WaitsFold
from dotnetdiag.events import EventSchema
from dotnetdiag.table import Losses
from dotnetdiag.table.parts import parts
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.lost_between import LostBy
from dotnetdiag.trace.recorded import Recorded
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_APART = 32
"""Processes that are asked by themselves; those that come behind them are asked together."""
MANY, MANY_A_SECOND, THROW_MS = 20, 10.0, 0.02
"""Exceptions, and what one costs about."""
QUOTED_OF = 20
"""Of so many exceptions of a type one has to have a message that is quoted."""
LAST_MS, DEATH = 1000.0, 100.0
"""So long before the end an exception that nobody caught may be it, and how much that weighs."""
JIT_MS, JIT_PERCENT = 100.0, 20.0
MOST_MESSAGES = 1 << 13
"""Of exceptions, that are told apart: the most frequent is quoted where it is that of many."""
ERRORS = ("Error", "Critical")
"""Levels of messages."""
_NOT_KNOWN = Recorded(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What each question has found."""

    gc: GcReport
    allocations: AllocationReport
    exceptions: ExceptionReport
    contention: WaitReport
    waits: WaitReport
    threadpool: ThreadPoolReport
    requests: RequestReport
    jit: JitReport
    logs: LogReport
    cpu: Sampled
    losses: Losses
    lost_by: LostBy
    """How many events a process has lost; None where that is not known."""
    recorded: Recorded
    runtime: RuntimeFacts = field(default_factory=RuntimeFacts)


def advice(trace: Trace) -> AdviceReport:
    """What stands out in a recording."""
    # windows of half as many events are no slower here, and of a million requests take 27 MB less
    (made,) = fold(trace, AdviceFold(seconds=seconds_of(trace), runtime=facts_of(trace)), rows=FOLDED_ROWS // 2)
    return made


class AdviceFold:
    """What :func:`advice` asks, window by window. ``seconds``: how long was recorded; ``runtime``: what is known of it; both are asked in
    the end. Of a recording of several processes each is asked by itself, the first :data:`MOST_APART` of them: what is much, slow or usual in
    one is not so in another, whose recording may have been longer besides.
    """

    def __init__(self, *, seconds: Seconds, runtime: Callable[[], RuntimeFacts] = RuntimeFacts) -> None:
        self._seconds, self._runtime = seconds, runtime
        self._others = _Questions(seconds, runtime)
        """Of a recording that tells no processes apart, and of those that are too many."""
        self._apart: dict[int, _Questions] = {}
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Whatever one of the questions does."""
        return self._others.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        if not window.trace.meaning.has_processes:
            self._others.feed(window)
            return
        pids, which = ranked(window.trace.meaning.pid(window.headers)[0])
        left = np.zeros(len(window), np.bool_)
        for at, pid in enumerate(pids.tolist()):
            is_own = which == at
            if pid not in self._apart and len(self._apart) == MOST_APART:
                left |= is_own
            else:
                self._of(pid).feed(window if len(pids) == 1 else window.some(np.flatnonzero(is_own)))
        if left.any():
            self._others.feed(window.some(np.flatnonzero(left)))
        elif not len(window):
            self._others.feed(window)

    def _of(self, pid: int) -> _Questions:
        if pid not in self._apart:
            self._apart[pid] = _Questions(
                lambda: (recorded_in(self._seconds) or _NOT_KNOWN).of(pid), lambda: self._runtime().of(pid)
            )
        return self._apart[pid]

    def result(self) -> AdviceReport:
        """The answer, once."""
        apart, self._apart = self._apart, {}
        others, self._others = self._others, _Questions(self._seconds, self._runtime)
        said, losses = list[Said](), self._losses
        for pid in sorted(apart):
            one = apart.pop(pid)
            said.append(_said_of(one.answers(losses), pid))
            del one  # what it kept is given back before the next is asked
        if others.has_some or not said:
            said.append(_said_of(others.answers(losses)))
        seconds = (recorded_in(self._seconds) or _NOT_KNOWN).seconds
        return report_of(said, losses.told, seconds, is_of_several=losses.is_of_several)


class _Questions:
    """All of them, to one process, or to a recording that tells of none."""

    def __init__(self, seconds: Seconds, runtime: Callable[[], RuntimeFacts]) -> None:
        self._seconds, self._runtime = seconds, runtime
        self._folds: dict[str, Fold[Any]] = {
            "gc": GcFold(seconds=seconds),
            "allocations": AllocationsFold(seconds=seconds),
            "exceptions": ExceptionsFold(messages=MOST_MESSAGES),
            "contention": ContentionFold(),
            "waits": WaitsFold(),
            "threadpool": ThreadPoolFold(seconds=seconds),
            "requests": RequestsFold(runtime=runtime),
            "jit": JitFold(is_native=lambda: runtime().is_native),
            "logs": LogsFold(rows=False),
            "cpu": SampledFold(),
        }
        self.has_some = False
        """Whether there was a window."""

    def wants(self, schema: EventSchema) -> bool:
        """Whatever one of them does."""
        return any(one.wants(schema) for one in self._folds.values())

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self.has_some = True
        for one in self._folds.values():
            one.feed(window)

    def answers(self, losses: LossesToTell) -> Answers:
        """What each has found, once."""
        names, folds = tuple(self._folds), list(self._folds.values())
        self._folds = {}
        made = dict(zip(names, map(_brief, results_of(folds)), strict=True))
        return Answers(
            **made,
            losses=losses.told,
            lost_by=losses.lost_by,
            recorded=recorded_in(self._seconds) or _NOT_KNOWN,
            runtime=self._runtime(),
        )


def _brief(answer: Any) -> Any:
    """An answer without the table that nobody looks at here, which has a row for each event."""
    return replace(answer, requests=answer.requests[:0]) if isinstance(answer, RequestReport) else answer


def advice_of(answers: Answers) -> AdviceReport:
    """What stands out in answers that are there."""
    return report_of([_said_of(answers)], answers.losses, answers.recorded.seconds)


def _said_of(answers: Answers, pid: int | None = None) -> Said:
    found = list(_findings(answers))
    looked: Mapping[str, tuple[bool, Sequence[str]]] = {
        "gc": (answers.gc.totals.count > 0, answers.gc.notes),
        "allocations": (answers.allocations.totals.count > 0, answers.allocations.notes),
        "exceptions": (answers.exceptions.count > 0, answers.exceptions.notes),
        "contention": (answers.contention.totals.count > 0, answers.contention.notes),
        "threadpool": (
            answers.threadpool.totals.count > 0 or any(one.question == "threadpool" for one in found),
            answers.threadpool.notes,
        ),
        "requests": (bool(answers.requests.totals.by_kind), answers.requests.notes),
        "jit": (answers.jit.totals.count > 0, answers.jit.notes),
        "logs": (answers.logs.totals.count > 0, answers.logs.notes),
        "topN": _looked_at_cpu(answers),
    }
    told = {one.text for one in found}
    notes = [
        note for one in found for note in getattr(getattr(answers, one.question, None), "notes", ()) if note not in told
    ]
    return Said(
        found=found,
        lacking={name: None if has_some else notes for name, (has_some, notes) in looked.items()},
        unnamed=[note for note in notes if nameless.tells_of_names(note)],
        pid=pid,
    )


def _findings(answers: Answers) -> Iterator[Finding]:
    seconds = answers.recorded.seconds
    yield from of_gc(answers.gc, answers.allocations, answers.recorded)
    yield from of_heaps(answers.gc)
    yield from of_finalizers(answers.gc, seconds)
    yield from _of_contention(answers.contention, answers.recorded, answers.lost_by)
    pool = [*of_pool(answers.threadpool, seconds, lambda: answers.cpu.profile, lambda: answers.waits.profile)]
    yield from pool
    yield from of_waits(answers.waits, seconds)
    yield from of_deadlock(answers.cpu, answers.contention)
    yield from of_stuck_pool(answers.cpu, answers.threadpool)
    # those that wait for threads of the pool take long because of that, all of them at once: their sum is more than the time
    most = min((one.severity for one in pool), default=math.inf) if answers.threadpool.totals.starved_ms else math.inf
    yield from of_requests(answers.requests, answers.recorded, answers.lost_by, slow_most=most)
    if answers.losses.damage:
        yield from of_death(answers.exceptions, answers.recorded, answers.lost_by)
    yield from of_exceptions(answers.exceptions, seconds)
    yield from of_jit(answers.jit, seconds)
    yield from _of_logs(answers.logs)
    yield from of_cpu(answers.cpu.ran, seconds, answers.runtime.processors)


def _of_contention(made: WaitReport, recorded: Recorded, lost_by: LostBy) -> Iterator[Finding]:
    totals, seconds = made.totals, recorded.seconds
    if totals.unfinished:
        stuck = Stuck(made.waits, recorded, lost_by, given_up=made.given_up, woken=made.woken)
        severity = DEADLOCK if stuck.circle else share_of(stuck.longest_ms, seconds)
        # of threads that take turns at a lock one always waits: for no longer than others have, that is no more than what is told below
        is_usual = not stuck.circle and stuck.longest_ms <= totals.max_ms
        if stuck.threads and severity >= LEAST and not is_usual:
            yield Finding(severity=severity, question="contention", text=stuck.text())
    share = share_of(totals.total_ms, seconds)
    if totals.total_ms < WAITED_MS or share < LEAST:
        return
    text = f"threads waited {totals.total_ms:,.0f} ms for locks, {times(totals.count)}, {totals.max_ms:,.1f} ms at most"
    if len(made.by_method) and is_named(first := made.by_method[0]["method"]):
        text += f"; {of_all(made.by_method, first, 'total_ms'):,.0f} ms of it in {short(first)}"
    if len(made.by_lock) and made.by_lock[0]["lock"]:
        lock = made.by_lock[0]
        text += f", {lock['total_ms']:,.0f} ms for one lock ({lock['lock']})"
    yield Finding(severity=share, question="contention", text=text)


def of_exceptions(made: ExceptionReport, seconds: float) -> Iterator[Finding]:
    """That many were thrown."""
    if made.count < max(MANY, MANY_A_SECOND * seconds):
        return
    first = made.by_type[0]
    again = f", {made.totals.again:,} of them again" if made.totals.again else ""
    rate = f"{made.count / max(seconds, 1e-3):,.0f} a second"
    text = f"{made.count:,} exceptions were thrown{again}, {rate}; {first['count']:,} are {first['type']}"
    messages = [row for row in made.by_message.to_pylist() if row["type"] == first["type"] and row["message"] != OTHERS]
    if messages and QUOTED_OF * messages[0]["count"] >= first["count"] and (said := _quoted(messages[0]["message"])):
        text += said if messages[0]["count"] == first["count"] else f"{said[:-1]} in {messages[0]['count']:,})"
    by = next((row for row in made.by_method.to_pylist() if row["type"] == first["type"]), None)
    if by is not None and is_named(by["method"]):
        text += f"; {by['count']:,} of these thrown by {short(by['method'])}"
    yield Finding(severity=max(SOME, share_of(made.count * THROW_MS, seconds)), question="exceptions", text=text)


def _quoted(message: str | None) -> str:
    """The begin of what an exception says; nothing of one that was given no message."""
    said = begin_of(message or "")
    return f' ("{said}")' if said not in ("", NO_MESSAGE, OTHERS) else ""


def of_death(made: ExceptionReport, recorded: Recorded, lost_by: LostBy = lambda _: 0) -> Iterator[Finding]:
    """Of a recording that breaks off: that its last exception was not caught, as of a program that dies of one; not where the catch may be lost."""
    if not len(made.thrown) or made.count >= max(MANY, MANY_A_SECOND * recorded.seconds):
        return  # of many the last is seldom caught by then
    last = made.thrown.row(len(made.thrown) - 1)
    if (
        last["caught_by"] is not None
        or lost_by(last["pid"]) != 0
        or last["catch_ms"] is not None
        or 1000 * recorded.of(last["pid"]).end_s - last["start_ms"] > LAST_MS
        or _is_outlived(made, last)
    ):
        return
    said = _quoted(last["message"])
    by = f"; thrown by {short(last['method'])}" if is_named(last["method"]) else ""
    yield Finding(
        severity=DEATH,
        question="exceptions",
        text=f"{last['type']}{said} was not caught when the recording breaks off: the program may have died of it{by}",
    )


def _is_outlived(made: ExceptionReport, last: Mapping[str, Any]) -> bool:
    """Whether a thread caught one behind the last that it threw: that left a filter, and was over."""
    for part in parts(made.thrown, ("pid", "tid", "start_ms", "catch_ms")):
        is_own = (part["pid"].numpy() == last["pid"]) & (part["tid"].numpy() == last["tid"])
        if (is_own & (part["start_ms"].numpy() + part["catch_ms"].numpy() > last["start_ms"])).any():
            return True
    return False


def of_jit(made: JitReport, seconds: float) -> Iterator[Finding]:
    """That threads waited for the compiler."""
    totals = made.totals
    if totals.foreground is None or totals.foreground_ms is None or totals.foreground_ms < JIT_MS:
        return
    share = share_of(_waited_ms(made), seconds)
    if share < JIT_PERCENT:
        return
    for_what = "1 method" if totals.foreground == 1 else f"{totals.foreground:,} methods"
    number, took_ms = _made_at_run_time(made)
    what = "code that is compiled ahead (ReadyToRun) would spare most of it"
    if took_ms >= totals.foreground_ms / 2:
        by = "as by Expression.Compile or Reflection.Emit"
        what = f"{number:,} of them are made as the program runs, {by}: keep what was compiled, to spare most of it"
    yield Finding(
        severity=share / 2,  # at a start it has to be
        question="jit",
        text=f"threads waited {totals.foreground_ms:,.0f} ms for the compiler, in {share:.0f} % of the time, for {for_what}: {what}",
    )


def _made_at_run_time(made: JitReport) -> tuple[int, float]:
    """How many that a thread waited for were made by the program, and how long they took."""
    number, took_ms = 0, 0.0
    for part in parts(made.methods, ("kind", "compile_ms", "dynamic")):
        own = rows_with(part["kind"], lambda kind: kind == FOREGROUND) & (part["dynamic"].numpy() > 0)
        took = part["compile_ms"].numpy()[own]
        number, took_ms = number + int((~np.isnan(took)).sum()), took_ms + float(np.nansum(took))
    return number, took_ms


def _waited_ms(made: JitReport) -> float:
    """For how long any thread waited for the compiler: what several did at once counts once. A million compilations are looked at some at a time."""
    reached = total = 0.0
    for part in parts(made.methods, ("kind", "start_ms", "compile_ms")):  # in the order of their begins
        rows = np.flatnonzero(rows_with(part["kind"], lambda kind: kind == FOREGROUND))
        start, lasted = part["start_ms"].numpy()[rows], np.nan_to_num(part["compile_ms"].numpy()[rows])
        order = np.argsort(start, kind="stable")
        begin, end = rest_of_overlaps(start[order], (start + lasted)[order])
        total += float(np.maximum(end - np.maximum(begin, reached), 0.0).sum())
        reached = max(reached, float(end.max(initial=0.0)))
    return total


def _of_logs(made: LogReport) -> Iterator[Finding]:
    number = sum(made.totals.by_level.get(level, 0) for level in ERRORS)
    rows = [row for row in made.by_event.to_pylist() if row["level"] in ERRORS]
    if not rows:
        return
    by_logger = Counter[str]()
    for row in rows:  # which a logger may have many of, as one that writes each message into a template of its own
        by_logger[row["logger"]] += row["count"]
    ((logger, count),) = by_logger.most_common(1)
    own = [row for row in rows if row["logger"] == logger]
    first = next((row for row in own if row["example"] != OTHERS), own[0])
    example = "" if first["example"] == OTHERS else begin_of(str(first["example"] or ""))
    told = f'"{example}"' if example else ""
    if first["exception"]:
        told = ", with ".join(filter(None, (told, begin_of(first_line(first["exception"])))))
    of_them = "" if first["count"] in (1, count) else f"{first['count']:,} of these "
    told = f" ({of_them}{told})" if told else ""
    what = (
        "1 message of level Error or worse was" if number == 1 else f"{number:,} messages of level Error or worse were"
    )
    yield Finding(
        severity=SOME,
        question="logs",
        text=f"{what} logged, {count:,} by {logger}{told}",
    )


def _looked_at_cpu(answers: Answers) -> tuple[bool, Sequence[str]]:
    """Whether it could be, and what is said where it could not."""
    cpu, runtime = answers.cpu.profile, answers.runtime
    if runtime.is_native:
        return len(cpu) > 0, (NO_SAMPLER,)
    if len(cpu) and not are_states_told(cpu.state, answers.cpu.count, runtime):
        return False, (NO_STATES,)
    return len(cpu) > 0, cpu.notes
