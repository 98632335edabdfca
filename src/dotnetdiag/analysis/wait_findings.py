"""What stands out of waits that are no contention of a monitor: locks of other kinds that many threads want, and a deadlock that began before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.filters import focus
from dotnetdiag.analysis.finding import DEADLOCK, SOME, WAITED_MS, Finding, share_of, times
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.rows import THREAD_POOL
from dotnetdiag.analysis.sample_sums import Sampled
from dotnetdiag.analysis.stacked import most_of, own_frames
from dotnetdiag.analysis.thread_pool import ThreadPoolReport
from dotnetdiag.analysis.waits import WaitReport

Array: TypeAlias = "np.ndarray[Any, Any]"

OFTEN_A_SECOND, AT_A_TIME = 10.0, 0.5
"""So often, and on the whole so many threads at a time: fewer wait for a lock in a program that is well. A lock taken a few times is told of by
``waits``.
"""
LOCKS = {
    "ReaderWriterLockSlim": r"!System\.Threading\.ReaderWriterLockSlim\.",
    "SemaphoreSlim": r"!System\.Threading\.SemaphoreSlim\.Wait",
}
"""Kinds of locks by a frame of theirs; consumers of collections wait for a semaphore too, and have to."""
SIGNAL = "SemaphoreSlim"
"""May be a lock, or the signal that there is work: events tell the one from the other in so far as of a lock somebody has it nearly always."""
SOME_HAVE_IT = 0.3
"""Of the threads that wait for a lock on the whole one does not, but has it."""
_CONSUMERS = r"!System\.Collections\.Concurrent\.|!System\.Threading\.Channels\."
_ENTERS = r"!System\.Threading\.(Monitor\.(Enter|ReliableEnter)|Lock\.(Enter|TryEnter))"
_WAITS_FOR_TASK = r"!System\.Threading\.Tasks\.Task\.(SpinThenBlockingWait|InternalWait|Wait)"
_WORKERS = r"!System\.Threading\.(ThreadPoolWorkQueue\.Dispatch|PortableThreadPool\+WorkerThread\.WorkerThreadStart)"
"""Their threads are the pool's, which else those tell that begin or end work."""
STUCK = 50.0
"""The severity of a pool of whose threads none is free, as far as samples tell."""
STANDS_MS, LEAST_SEEN = 1000.0, 20
"""A thread that is seen at nothing else for so long, and so often."""
MOST_METHODS = 3


def of_waits(made: WaitReport, seconds: float) -> Iterator[Finding]:
    """That several threads want one lock which is no monitor."""
    if made.totals.count < OFTEN_A_SECOND * seconds:
        return
    for what, frame in LOCKS.items():
        profile = focus(made.profile, frame)
        if what == SIGNAL and len(profile):
            profile = profile.ignore(_CONSUMERS)
        total, count = float(profile.weight.sum()), len(profile)
        if total < max(WAITED_MS, 1000.0 * AT_A_TIME * seconds) or count < OFTEN_A_SECOND * seconds:
            continue
        threads, (name, most) = len(np.unique(profile.thread)), most_of(profile)
        if threads < 2 or name is None:
            continue
        text = f"{threads} threads waited {total:,.0f} ms for a {what}, {times(count)}; {most:,.0f} ms of it in {short(name)}"
        severity = share_of(total, seconds)
        if what == SIGNAL:
            begin, end = float(profile.start_ns.min()), float((profile.start_ns + profile.length_ns).max())
            if 1e6 * total > (threads - SOME_HAVE_IT) * (end - begin):
                continue
            text += " (if it is a lock: who waits for work, of which it is the signal, has to)"
            severity = min(severity, SOME)
        yield Finding(severity=severity, question="waits", text=text)


def of_deadlock(sampled: Sampled, contention: WaitReport) -> Iterator[Finding]:
    """That threads stand before a lock in every sample: their waits began before the recording, which has no events of them then."""
    samples = sampled.profile
    if contention.totals.unfinished or not len(samples) or samples.unit != "ms":
        return
    stands = _stand(sampled, _ENTERS)
    seen = _seen(sampled, stands)
    if seen is None:
        return
    count = int(stands.sum())
    text = "a thread stands" if count == 1 else f"{count:,} threads stand"
    yield Finding(
        severity=DEADLOCK,
        question="topN",
        text=f"{text} before a lock in every sample of {seen}: `stack report` shows where each stands",
    )


def of_stuck_pool(sampled: Sampled, pool: ThreadPoolReport) -> Iterator[Finding]:
    """That all threads of the pool wait for tasks in every sample: the runtime tells nothing of a pool that does nothing."""
    samples = sampled.profile
    if pool.totals.count > pool.totals.unfinished or not len(samples) or samples.unit != "ms":
        return
    of_pool = np.array([one.name == THREAD_POOL for one in samples.threads], np.bool_) | (
        _counts(sampled, _WORKERS) > 0
    )
    stands = _stand(sampled, _WAITS_FOR_TASK) & of_pool
    seen = _seen(sampled, stands)
    if seen is None or stands.sum() < 2 or (of_pool & ~stands).any():
        return
    yield Finding(
        severity=STUCK,
        question="topN",
        text=f"all {int(stands.sum()):,} threads of the thread pool wait for tasks in every sample of {seen}: what is queued waits for more of them",
    )


def _stand(sampled: Sampled, frame: str) -> Array:
    """Which threads are in such a frame whenever they are seen, which is often (bool)."""
    own = _counts(sampled, frame)
    stands: Array = (own == np.bincount(sampled.profile.thread, sampled.count, minlength=len(own))) & (
        own >= LEAST_SEEN
    )
    return stands


def _counts(sampled: Sampled, frame: str) -> Array:
    """Of each thread how many samples are in such a frame."""
    samples = sampled.profile
    inside = focus(replace(samples, weight=sampled.count.astype(np.float64)), frame)
    own = np.zeros(len(samples.threads))
    if not len(inside):
        return own
    key = {(thread.process_id, thread.thread_id): number for number, thread in enumerate(samples.threads)}
    for thread, count in zip(inside.threads, inside.thread_weights().tolist(), strict=True):
        own[key[thread.process_id, thread.thread_id]] = count
    return own


def _seen(sampled: Sampled, stands: Array) -> str | None:
    """For how long these threads were seen, and in which methods, as a part of a sentence; None where it was not for long."""
    rows = stands[sampled.profile.thread]
    if not rows.any():
        return None
    profile = sampled.profile.take(rows)
    stood_ms = float(sampled.last_ns[rows].max() - profile.start_ns.min()) / 1e6
    if stood_ms < STANDS_MS:
        return None
    names = [profile.frames.name(one) for one in np.unique(own_frames(profile)).tolist() if one >= 0]
    told = [short(name) for name in names if is_named(name)][:MOST_METHODS]
    return f"{stood_ms / 1000:,.1f} s" + (f", in {', '.join(told)}" if told else "")
