"""What stands out of waits that are no contention of a monitor: locks of other kinds that many threads want, and a deadlock that began before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.filters import focus
from dotnetdiag.analysis.finding import DEADLOCK, WAITED_MS, Finding, share_of, times
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.sample_sums import Sampled
from dotnetdiag.analysis.stacked import most_of, own_frames
from dotnetdiag.analysis.waits import WaitReport

OFTEN_A_SECOND, AT_A_TIME = 10.0, 0.5
"""So often, and on the whole so many threads at a time: fewer wait for a lock in a program that is well. A lock taken a few times is told of by
``waits``.
"""
LOCKS = {
    "ReaderWriterLockSlim": r"!System\.Threading\.ReaderWriterLockSlim\.",
    "SemaphoreSlim": r"!System\.Threading\.SemaphoreSlim\.Wait",
}
"""Kinds of locks by a frame of theirs; consumers of collections wait for a semaphore too, and have to."""
_CONSUMERS = r"!System\.Collections\.Concurrent\.|!System\.Threading\.Channels\."
_ENTERS = r"!System\.Threading\.(Monitor\.(Enter|ReliableEnter)|Lock\.(Enter|TryEnter))"
STANDS_MS, LEAST_SEEN = 1000.0, 20
"""A thread that is seen at nothing else for so long, and so often."""
MOST_METHODS = 3


def of_waits(made: WaitReport, seconds: float) -> Iterator[Finding]:
    """That several threads want one lock which is no monitor."""
    if made.totals.count < OFTEN_A_SECOND * seconds:
        return
    for what, frame in LOCKS.items():
        profile = focus(made.profile, frame)
        if what == "SemaphoreSlim" and len(profile):
            profile = profile.ignore(_CONSUMERS)
        total, count = float(profile.weight.sum()), len(profile)
        if total < max(WAITED_MS, 1000.0 * AT_A_TIME * seconds) or count < OFTEN_A_SECOND * seconds:
            continue
        threads, (name, most) = len(np.unique(profile.thread)), most_of(profile)
        if threads > 1 and name is not None:
            yield Finding(
                severity=share_of(total, seconds),
                question="waits",
                text=f"{threads} threads waited {total:,.0f} ms for a {what}, {times(count)}; {most:,.0f} ms of it in {short(name)}",
            )


def of_deadlock(sampled: Sampled, contention: WaitReport) -> Iterator[Finding]:
    """That threads stand before a lock in every sample: their waits began before the recording, which has no events of them then."""
    samples = sampled.profile
    if contention.totals.unfinished or not len(samples) or samples.unit != "ms":
        return
    entering = focus(replace(samples, weight=sampled.count.astype(np.float64)), _ENTERS)
    if not len(entering):
        return
    key = {(thread.process_id, thread.thread_id): number for number, thread in enumerate(samples.threads)}
    own = np.zeros(len(samples.threads))
    for thread, count in zip(entering.threads, entering.thread_weights().tolist(), strict=True):
        own[key[thread.process_id, thread.thread_id]] = count
    stands = (own == np.bincount(samples.thread, sampled.count, minlength=len(own))) & (own >= LEAST_SEEN)
    rows = stands[samples.thread]
    if not rows.any():
        return
    profile = samples.take(rows)
    stood_ms = float(sampled.last_ns[rows].max() - profile.start_ns.min()) / 1e6
    if stood_ms < STANDS_MS:
        return
    names = [profile.frames.name(one) for one in np.unique(own_frames(profile)).tolist() if one >= 0]
    told = [short(name) for name in names if is_named(name)][:MOST_METHODS]
    count = int(stands.sum())
    text = "a thread stands" if count == 1 else f"{count:,} threads stand"
    yield Finding(
        severity=DEADLOCK,
        question="topN",
        text=f"{text} before a lock in every sample of {stood_ms / 1000:,.1f} s"
        + (f", in {', '.join(told)}" if told else "")
        + ": `stack report` shows who has it",
    )
