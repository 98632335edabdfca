"""What ran, of samples that say so: a stack lasts until the next sample of its thread, but a thread that was passed over did not run all that while.

The runtime's sampler takes all threads that have managed code on their stacks, tick by tick. The finalizer's thread has some when it is woken, and
none while it waits: its last sample would last until the next time, 400 ms later, on a processor. So a sample of a thread that ran lasts no longer
than until another thread of the process was sampled twice since. Where nobody was, nobody knows, and it lasts as the reference tool has it.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.profile import MILLISECONDS, Profile, State
from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"
P = TypeVar("P", bound=Profile)


def without_idle(profile: P) -> P:
    """The same, where samples of what ran last so long as it may have; of a profile that is not of time, as it is."""
    if profile.unit != MILLISECONDS or not (profile.state == State.CPU).any():
        return profile
    length = np.where(profile.state == State.CPU, np.minimum(profile.length_ns, _limits(profile)), profile.length_ns)
    if (length == profile.length_ns).all():
        return profile
    share = length / np.maximum(profile.length_ns, 1)
    return replace(
        profile, length_ns=length, weight=np.where(length < profile.length_ns, profile.weight * share, profile.weight)
    )


def _limits(profile: Profile) -> Array:
    """How long each sample lasts at most (ns)."""
    made = np.full(len(profile), np.iinfo(np.int64).max)
    process = np.array([one.process_id or 0 for one in profile.threads], np.int64)[profile.thread]
    for one in distinct(process).tolist():
        rows = np.flatnonzero(process == one)
        made[rows] = _until_passed_over(profile.start_ns[rows], profile.thread[rows])
    return made


def _until_passed_over(start: Array, thread: Array) -> Array:
    """Of samples by thread and then by time: how long until a thread has been sampled twice since."""
    count = len(start)
    order = np.argsort(start, kind="stable")
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    again = np.full(count, count)  # of each sample in the order of time, the place of the next of its thread
    same = np.flatnonzero(thread[1:] == thread[:-1])
    again[place[same]] = place[same + 1]
    earliest = np.append(np.minimum.accumulate(again[::-1])[::-1], count)[1:]
    until = np.append(start[order], np.iinfo(np.int64).max)[earliest]
    lasts: Array = until - start[order]
    return lasts[place]
