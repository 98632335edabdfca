"""What stands out of a thread pool: work that waited in its queue, threads that were blocked, and where they are meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dotnetdiag.analysis import filters
from dotnetdiag.analysis.finding import SOME, Finding, of_all, share_of, times
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.pool_threads import THREAD_POOL
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import most_of, with_work
from dotnetdiag.analysis.thread_pool import ThreadPoolReport

STARVED_MS = 100.0
MOST_OF_POOL = 0.5
"""Of what the threads of a pool were seen at: from there on one method is named."""
MOST_LOOKED_AT = 100
TOLD_MS = 0.5
"""Of the median of how long work waited: what is less says nothing of that which waited long."""
QUEUED_SHARE = 0.25
"""Of the time that all work waited: who queued less of it is not named."""
BLOCKED_TIMES = 4
"""So often a pool has taken threads because its own waited for tasks: once or twice is a start."""


def of_pool(
    made: ThreadPoolReport,
    seconds: float,
    samples: Callable[[], StackProfile] | None = None,
    waits: Callable[[], StackProfile] | None = None,
) -> Iterator[Finding]:
    """That work waited in the queue of the thread pool, or that it took more threads because nothing went on, or its own were blocked. ``samples``
    tell where the pool's threads are; where there are none of these, ``waits`` tell what they waited in, if that took half of the time.
    """
    totals = made.totals
    starving, blocked = totals.reasons.get("Starvation", 0), _added_for_blocked(made)
    if totals.starved_ms < STARVED_MS and not starving and blocked < BLOCKED_TIMES:
        return
    text = "the thread pool starves" if totals.starved_ms or starving else "threads of the pool are blocked"
    if totals.starved_ms:
        queue = totals.queue_ms
        least = "at least " if totals.waiting else ""
        has_begun = totals.unfinished < totals.count
        told = has_begun and queue["median"] >= TOLD_MS
        median = f"in the median {least}{queue['median']:,.0f} ms, " if told else ""
        longest = max(queue.get("most", 0.0), *made.starvation.values("longest_ms"))
        text += f": for {totals.starved_ms:,.0f} ms some work had waited for more than 100 ms, {median}{longest:,.0f} ms at most"
        if not has_begun:
            text += "; none of it was begun"
        elif totals.waiting:
            text += f"; {totals.waiting:,} of {totals.count:,} wait still"
        first = _first_of_program(made)
        if first is not None and of_all(made.by_method, first, "total_ms") >= QUEUED_SHARE * sum(
            made.by_method.values("total_ms")
        ):
            queued = round(of_all(made.by_method, first, "count"))
            text += f"; {queued:,} of {totals.count:,} were queued by {short(first)}"
    if starving:
        text += f"; it took more threads {times(starving)} because nothing went on"
    if blocked:
        text += f"; it took more threads {times(blocked)} because its threads waited for tasks (Task.Wait, Task.Result; --profile tasks tells where)"
    if totals.max_threads:
        text += f" (at most {totals.max_threads:,} threads)"
    text += _seen(samples) or _waited(waits, max(totals.starved_ms, STARVED_MS))
    yield Finding(severity=max(share_of(totals.starved_ms, seconds), SOME), question="threadpool", text=text)


def _first_of_program(made: ThreadPoolReport) -> str | None:
    """The method of the program whose work waited most; .NET's own, as its timers, queues what others have asked for."""
    methods = (row["method"] for row in made.by_method[:MOST_LOOKED_AT].to_pylist())
    return next((one for one in methods if is_named(one) and not filters.is_of_framework(one.partition("!")[0])), None)


def _seen(samples: Callable[[], StackProfile] | None) -> str:
    """The method that most threads of the pool are in, as a part of a sentence; nothing where there is none such."""
    name, most, total = _most_of_pool(samples)
    if name is None or most < MOST_OF_POOL * total:
        return ""
    return f"; for {100 * most / total:.0f} % of the time that its threads have work they are in {short(name)}"


def _waited(waits: Callable[[], StackProfile] | None, starved_ms: float) -> str:
    """The same of waits: they say nothing of the time between them, so what they come to counts by itself."""
    name, most, total = _most_of_pool(waits)
    if name is None or most < MOST_OF_POOL * max(total, starved_ms):
        return ""
    return f"; its threads waited for {most:,.0f} ms together in {short(name)}"


def _most_of_pool(asked: Callable[[], StackProfile] | None) -> tuple[str | None, float, float]:
    """The method that threads of the pool are in most, its weight, and that of all; None where none of them is seen."""
    profile = None if asked is None else asked()
    of_pool = np.array([one.name == THREAD_POOL for one in profile.threads] if profile else [], np.bool_)
    if profile is None or not of_pool.any():
        return None, 0.0, 0.0
    profile = profile.take(of_pool[profile.thread], "is of the pool")
    profile = with_work(profile)
    name, most = most_of(profile)
    total = float(profile.weight.sum())
    return name if total else None, most, total


def _added_for_blocked(made: ThreadPoolReport) -> int:
    """How often the pool took more threads because its own waited for tasks; it says the same of taking them back."""
    threads: dict[int, int] = {}
    added = 0
    for row in made.adjustments.to_pylist():
        before, threads[row["pid"]] = threads.get(row["pid"], row["threads"]), row["threads"]
        added += row["reason"] == "CooperativeBlocking" and row["threads"] > before
    return added
