"""What stands out of a thread pool: work that waited in its queue, threads that were blocked."""

from __future__ import annotations

from collections.abc import Iterator

from dotnetdiag.analysis.finding import SOME, Finding, share_of, times
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.thread_pool import ThreadPoolReport

STARVED_MS = 100.0
BLOCKED_TIMES = 4
"""So often a pool has taken threads because its own waited for tasks: once or twice is a start."""


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
        text += f"; it took more threads {times(starving)} because nothing went on"
    if blocked:
        text += f"; it took more threads {times(blocked)} because its threads waited for tasks (Task.Wait, Task.Result)"
    if totals.max_threads:
        text += f" (at most {totals.max_threads:,} threads)"
    yield Finding(severity=max(share_of(totals.starved_ms, seconds), SOME), question="threadpool", text=text)


def _added_for_blocked(made: ThreadPoolReport) -> int:
    """How often the pool took more threads because its own waited for tasks; it says the same of taking them back."""
    threads: dict[int, int] = {}
    added = 0
    for row in made.adjustments.to_pylist():
        before, threads[row["pid"]] = threads.get(row["pid"], row["threads"]), row["threads"]
        added += row["reason"] == "CooperativeBlocking" and row["threads"] > before
    return added
