"""What stands out of samples: a method that took much of what ran."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dotnetdiag.analysis import filters
from dotnetdiag.analysis.finding import LEAST, Finding
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.profile import MethodWeight, State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import own_frames, with_work

HOT_SHARE, BUSY_SHARE = 0.3, 0.1
"""Of a method: how much of what ran is its own, and how much of the time that is on one processor."""
FEW_SAMPLES = 10
"""Of a method that say nothing of it: between two there may be seconds in which the program would not stop for the sampler."""
MORE_THAN_ALL = 1.05
"""Of the time that all processors have: samples are not quite a millisecond apart."""
POLLED = ": threads stop for the sampler where they come back from the system, and not where they work"
TRACED = ": that is the recording itself; with fewer events, as those that one question needs (--profile gc), the program has it back"
"""What is said behind a method where that is so."""


def of_cpu(profile: StackProfile, seconds: float, processors: int = 0) -> Iterator[Finding]:
    """That one method took much of what ran. The runtime's sampler does not tell what runs from what waits for one of the ``processors`` (0: not
    known): that it counts both is said where it is more than these could run.
    """
    if not len(profile) or profile.unit != "ms":
        return
    running = profile.in_states(State.CPU)
    worked = with_work(running)
    rows = [row for row in worked.top(3) if not filters.is_start(row.frame) and not filters.is_sleep(row.frame)]
    if not rows or rows[0].exclusive < max(HOT_SHARE * running.total, BUSY_SHARE * seconds * 1000):
        return
    first, own_ms, text, asked, where = rows[0], rows[0].exclusive, "", "", ""
    is_leaf = worked.tree.frame[worked.node] == first.frame_id
    if is_leaf.sum() < FEW_SAMPLES:
        return
    if filters.is_poll(first.frame):  # where threads stood still for the sampler is not what took the time
        found = _before_polls(running)
        if found is None:
            return
        (first, caller), where = found, POLLED
        own_ms, text = (
            first.inclusive,
            " and what it calls" if caller is None else f", or {short(caller)} that calls it,",
        )
    elif filters.is_tracing(first.frame):
        where = TRACED
    elif filters.is_framework(first.frame):
        asked = _asked_by(worked.take(is_leaf, "is one of these"))
    if not is_named(first.name()):
        return
    is_more = 0 < processors * seconds * 1000 * MORE_THAN_ALL < running.total
    what = f"in which threads ran, or waited for one of the {processors} processors" if is_more else "on processors"
    share = f"{100 * own_ms / running.total:.0f} % of the time {what}, {own_ms:,.0f} of {running.total:,.0f} ms"
    yield Finding(severity=LEAST, question="topN", text=f"{short(first.name())}{text} took {share}{asked}{where}")


def _asked_by(profile: StackProfile) -> str:
    """The method of the program for which .NET did most of this, as a part of a sentence; nothing where none has half of it."""
    frame = own_frames(profile)
    weights = np.bincount(frame[frame >= 0], profile.weight[frame >= 0])
    if not len(weights) or weights.max() < profile.total / 2:
        return ""
    most = profile.frames[int(weights.argmax())]
    share = "" if weights.max() >= profile.total else f"{weights.max():,.0f} ms of it "
    return "" if filters.is_framework(most) or not is_named(most.name()) else f", {share}for {short(most.name())}"


def _before_polls(running: StackProfile) -> tuple[MethodWeight, str | None] | None:
    """Of the methods of the program (else of .NET) that threads were in when they stood still for the sampler that with the most of that time, and
    which of the program most of that called it, if any did: a loop that asks for the time between two pieces of work stands still there, and not in
    the work.
    """
    behind = filters.hide_polls(running)
    polled = behind.take(running.tree.frame[running.node] != behind.tree.frame[behind.node], "stood still")
    most = _most_of(polled)
    if most is None:
        return None
    first = next(row for row in running.top(len(running.frames), inclusive=True) if row.frame_id == most)
    own = polled.take(own_frames(polled) == most, "is of it")
    caller = _most_of(filters.hide_frame(own, most))
    if caller is None or filters.is_framework(own.frames[caller]):
        return first, None
    name = own.frames[caller].name()
    return first, name if name and is_named(name) else None


def _most_of(profile: StackProfile) -> int | None:
    """The frame that most of it is of (``own_frames``); None without any."""
    frame = own_frames(profile)
    weights = np.bincount(frame[frame >= 0], profile.weight[frame >= 0])
    return int(weights.argmax()) if len(weights) else None
