"""What ran, of samples that say so: a stack lasts until the next sample of its thread, but a thread that was passed over did not run all that while.

The runtime's sampler takes all threads that have managed code on their stacks, tick by tick. The finalizer's thread has some when it is woken, and
none while it waits: its last sample would last until the next time, 400 ms later, on a processor. So a sample of a thread that ran lasts no longer
than until another thread of the process was sampled twice since. Where nobody was, nobody knows, and it lasts as the reference tool has it.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.profile import Profile, State
from dotnetdiag.trace.distinct import ranked

Array: TypeAlias = "np.ndarray[Any, Any]"
P = TypeVar("P", bound=Profile)

NO_LIMIT = np.iinfo(np.int64).max
"""Of a sample after which nobody was sampled twice."""


def without_idle(profile: P) -> P:
    """The same, where samples of what ran last so long as it may have; as it is where not all samples are of the runtime's sampler."""
    if not profile.is_ticked or not (profile.state == State.CPU).any():
        return profile
    process = np.array([one.key[0] for one in profile.threads], np.int64)[profile.thread]
    limit = limits(process, profile.start_ns, profile.thread)
    length = np.where(profile.state == State.CPU, np.minimum(profile.length_ns, limit), profile.length_ns)
    if (length == profile.length_ns).all():
        return profile
    share = length / np.maximum(profile.length_ns, 1)
    return replace(
        profile, length_ns=length, weight=np.where(length < profile.length_ns, profile.weight * share, profile.weight)
    )


def limits(process: Array, start_ns: Array, thread: Array) -> Array:
    """How long each sample lasts at most (ns): until a thread of its process has been sampled twice since. They come by thread and then by time."""
    count = len(start_ns)
    process = ranked(process)[1]
    order = np.lexsort((start_ns, process))
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    start, process = start_ns[order], process[order]
    again = np.full(count + 1, count)  # of each sample in that order, the place of the next of its thread
    same = np.flatnonzero(thread[1:] == thread[:-1])
    again[place[same]] = place[same + 1]
    earliest = np.minimum.accumulate(again[::-1])[::-1]
    # those of one time are of one tick: what comes since is behind them; and what is behind a process is of another
    is_end = np.append((start[1:] != start[:-1]) | (process[1:] != process[:-1]), True)[:count]
    since = np.minimum.accumulate(np.where(is_end, np.arange(1, count + 1), count)[::-1])[::-1]
    found = earliest[since]
    is_own = np.append(process, -1)[found] == process
    lasts = np.where(is_own, np.append(start, 0)[found] - start, NO_LIMIT)
    return lasts[place]
