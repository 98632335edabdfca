"""What stands out of waits that are no contention of a monitor: locks of other kinds that many threads want, and a deadlock that began before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.filters import focus
from dotnetdiag.analysis.finding import DEADLOCK, SOME, WAITED_MS, Finding, share_of, times
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.pool_threads import THREAD_POOL
from dotnetdiag.analysis.sample_sums import Sampled
from dotnetdiag.analysis.stack_profile import StackProfile
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
_NAMED = r"^(?!([^!]*!)?0x)"
_WAITS_FOR_TASK = r"!System\.Threading\.Tasks\.Task\.(SpinThenBlockingWait|InternalWait|Wait)"
_WORKERS = r"!System\.Threading\.(ThreadPoolWorkQueue\.Dispatch|PortableThreadPool\+WorkerThread\.WorkerThreadStart)"
"""Their threads are the pool's, which else those tell that begin or end work."""
STUCK = 50.0
"""The severity of a pool of whose threads none is free, as far as samples tell."""
STANDS_MS, LEAST_SEEN = 1000.0, 20
"""A thread that is seen at nothing else for so long, and so often."""
MOST_BLANK = 2
"""So many samples of a thread may have no name in their stack: they do not tell that it went on."""
END_SAMPLES = 5
"""A thread that is missing from so many samples of its process at the end has ended."""
PASSED_OVER, LEFT_BEHIND = 4.0, 10.0
"""Where threads take turns at a lock one may wait so many times longer than the longest wait that ended in that method; and so many times, if some
ended since it came: but the method may take several locks, of which one is stuck.
"""
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
    """That threads stand before a lock in every sample from some time on until the end. Where contention is recorded, only those that did so before
    it was: of a wait that began later there would be events.
    """
    samples = sampled.profile
    if contention.totals.unfinished or not len(samples) or samples.unit != "ms":
        return
    locked = _inside(samples, _ENTERS)
    if not locked.any():
        return
    standing = _Standing(sampled, locked)
    stands = standing.since_ever if contention.totals.count else standing.since_ever | standing.since_late
    if not stands.any():
        return
    count = int(stands.sum())
    text = "a thread stands" if count == 1 else f"{count:,} threads stand"
    rows = standing.rows & stands[samples.thread]
    yield Finding(
        severity=DEADLOCK,
        question="topN",
        text=f"{text} before a lock in every sample of {_told(standing.stood_ms[stands].max(), samples.take(rows))}: "
        "`stack report` shows where each stands",
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
    return _told(stood_ms, profile)


def _told(stood_ms: float, profile: StackProfile) -> str:
    names = [profile.frames.name(one) for one in np.unique(own_frames(profile)).tolist() if one >= 0]
    told = [short(name) for name in names if is_named(name)][:MOST_METHODS]
    return f"{stood_ms / 1000:,.1f} s" + (f", in {', '.join(told)}" if told else "")


def _inside(samples: StackProfile, frame: str) -> Array:
    """Which samples have such a frame (bool)."""
    numbered = replace(samples, weight=np.arange(len(samples), dtype=np.float64))
    inside = np.zeros(len(samples), np.bool_)
    inside[focus(numbered, frame).weight.astype(np.int64)] = True
    return inside


class _Standing:
    """Which threads stand before a lock, in one method, from some time on until the end of their process's samples, :data:`STANDS_MS` and longer.

    What a thread did before says nothing. A sample of it at anything else tells that it went on, a lock of another method too; one without a name in
    its stack does not, if there are no more than :data:`MOST_BLANK`. Where a row stands for several samples, it is taken to be of all the time from
    the first to the last: so a thread may be missed, but none is told that went on.
    """

    def __init__(self, sampled: Sampled, locked: Array) -> None:
        self._sampled, self._locked = sampled, locked
        samples, thread = sampled.profile, sampled.profile.thread
        start_ns, last_ns, count = samples.start_ns, sampled.last_ns, sampled.count
        threads = len(samples.threads)
        self._method = np.full(len(samples), -1, np.int64)
        self._method[locked] = own_frames(samples.take(locked))
        blank = ~_inside(samples, _NAMED)
        at_ns = self._last_of(locked)
        is_last = locked & (last_ns == at_ns[thread])
        stands_in = np.full(threads, -1, np.int64)
        stands_in[thread[is_last]] = self._method[is_last]
        here = locked & (self._method == stands_in[thread])
        self._left_ns = self._last_of(~here & ~blank)
        """When each thread was seen at something else for the last time, -1 where never."""
        self.rows: Array = here & (last_ns > self._left_ns[thread]) & (at_ns > self._left_ns)[thread]
        """Which samples are of threads that stand there, for however long (bool)."""
        since_ns = np.full(threads, np.iinfo(np.int64).max)
        np.minimum.at(since_ns, thread[self.rows], np.maximum(start_ns, self._left_ns[thread])[self.rows])
        self.stood_ms: Array = np.maximum(at_ns - since_ns.astype(np.float64), 0.0) / 1e6
        """Of each thread for how long."""
        seen = np.bincount(thread[self.rows], count[self.rows], threads)
        blank &= last_ns > since_ns[thread]
        blanks = np.bincount(thread[blank], count[blank], threads)
        long = (self.stood_ms >= STANDS_MS) & (seen >= LEAST_SEEN) & (blanks <= MOST_BLANK) & self._until_the_end(at_ns)
        self.since_ever: Array = long & (self._left_ns < 0)
        """Threads that were seen at nothing else (bool)."""
        self.since_late: Array = long & (self._left_ns >= 0) & ~self._takes_turns(since_ns, stands_in)
        """Threads that came to the lock later, and wait for no turn (bool)."""

    def _last_of(self, rows: Array) -> Array:
        """Of each thread when the last of these rows was, -1 where it has none."""
        last_ns = np.full(len(self._sampled.profile.threads), -1, np.int64)
        np.maximum.at(last_ns, self._sampled.profile.thread[rows], self._sampled.last_ns[rows])
        return last_ns

    def _until_the_end(self, at_ns: Array) -> Array:
        samples = self._sampled.profile
        last_ns, threads = self._last_of(np.ones(len(samples), np.bool_)), len(samples.threads)
        process = np.unique([one.process_id for one in samples.threads], return_inverse=True)[1]
        end_ns = np.zeros(threads, np.int64)
        np.maximum.at(end_ns, process, last_ns)
        first_ns = np.full(threads, np.iinfo(np.int64).max)
        np.minimum.at(first_ns, samples.thread, samples.start_ns)
        apart_ns = (last_ns - first_ns) / np.maximum(np.bincount(samples.thread, self._sampled.count, threads) - 1, 1)
        until_end: Array = end_ns[process] - at_ns <= END_SAMPLES * apart_ns
        return until_end

    def _takes_turns(self, since_ns: Array, stands_in: Array) -> Array:
        """Which threads wait not much longer than others did in the same method (bool)."""
        samples, rows = self._sampled.profile, np.flatnonzero(self._locked)
        thread, method = samples.thread[rows], self._method[rows]
        # samples of a thread in one method without others in between are one wait
        differs = np.zeros(len(rows), np.bool_)
        differs[:1] = True
        for column in (rows - np.arange(len(rows)), thread, method, self.rows[rows]):
            differs[1:] |= column[1:] != column[:-1]
        cut = np.flatnonzero(differs)
        first_ns, last_ns = samples.start_ns[rows[cut]], np.maximum.reduceat(self._sampled.last_ns[rows], cut)
        length_ms, stands = np.add.reduceat(samples.weight[rows], cut), self.rows[rows[cut]]
        thread, method, left_ns = thread[cut], method[cut], self._left_ns[thread[cut]]
        # of a row that stands for samples of before and of now, what was before has ended
        length_ms = np.where(stands, length_ms - (last_ns - left_ns) / 1e6, length_ms)
        last_ns = np.where(stands, left_ns, last_ns)
        process = np.array([one.process_id for one in samples.threads], np.int64)
        ended = first_ns <= last_ns
        keys = combined(
            [np.append(process[thread[ended]], process), np.append(method[ended], stands_in)],
            int(ended.sum()) + len(process),
        )[1]
        of_wait, of_thread = keys[: len(keys) - len(process)], keys[len(keys) - len(process) :]
        longest_ms, latest_ns = np.zeros(int(keys.max()) + 1), np.full(int(keys.max()) + 1, -1, np.int64)
        np.maximum.at(longest_ms, of_wait, length_ms[ended])
        np.maximum.at(latest_ns, of_wait, last_ns[ended])
        often = np.where(latest_ns[of_thread] > since_ns, LEFT_BEHIND, PASSED_OVER)
        takes_turns: Array = self.stood_ms <= often * longest_ms[of_thread]
        return takes_turns
