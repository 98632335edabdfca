"""What a wait blocks that holds its thread: the call of an asynchronous method that it is in, which is its caller.

Its event tells the task that the thread *executes*, as Task.Run's. An asynchronous method that goes on after an await is none of
these, though it has a task, which its callers await. So of a wait in such a method

1. the stack tells the method: what ``TaskAwaiter.<OutputWaitEtwEvents>`` calls, which writes the TaskWaitEnd of the await and then goes on there;
2. of the ends on this thread that were written at this place in the stack the last one tells the await, and so the task: what came there before
   has returned, and what went on within it stands elsewhere.

It is not told where the method went on otherwise, as after Task.Yield and a ValueTask that is no task; where there are no stacks; and where several
awaited the task of 2., for each has an end then, and none says whose. Such waits begin chains, and a note counts those that stacks tell of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.await_rows import AwaitRows
from dotnetdiag.analysis.resumed_calls import Places, latest_at, resumed
from dotnetdiag.trace.distinct import distinct

Array: TypeAlias = "np.ndarray[Any, Any]"

_PAIRED = 1 << 16
"""Waits, and ends of awaits, that are looked at at once: for each there are 100 bytes meanwhile."""
_SAMPLED = 1 << 15
"""Begins and ends of which it is known when so many of them come, at least."""


def find_calls(awaits: AwaitRows) -> int:
    """Have waits in asynchronous methods that went on after an await by the task of that call; of how many it is not told which one it is."""
    told = _resumed(awaits)
    if told is None:
        return 0
    made, held, stacks = awaits.made, awaits.held, awaits.made.stacks
    places, place, method, without_call = Places(), held.zeros("i4"), held.zeros("i4"), 0
    for first, rows in made.slices():
        here = slice(first, first + len(rows))
        own = np.flatnonzero(awaits.is_blocking[here])
        kind = rows["kind"][own]
        of = told[stacks.of(kind, rows["time"][own])]
        is_call = of["is_resumed"] & ~(of["in_task"] & (awaits.caller[here][own] >= 0))
        without_call += int(is_call.sum())
        is_call &= (of["end"] > 0) & (of["method"] >= 0)
        own, kind, of = own[is_call], kind[is_call], of[is_call]
        place[here][own] = places.of(awaits.process[here][own], made.tid[kind], of["end"])
        method[here][own] = of["method"]
        held.release()
    is_asked = np.append(np.ones(1 + len(places), np.bool_), False)
    for first, rows in made.slices():
        here = slice(first, first + len(rows))
        own = np.flatnonzero(~awaits.is_blocking[here] & (rows["stop_kind"] >= 0))
        kind = rows["stop_kind"][own].astype(np.int64)
        node = told["end"][kind]
        own, kind, node = own[node > 0], kind[node > 0], node[node > 0]
        of_end = places.of(awaits.process[here][own], made.tid[kind], node)
        place[here][own] = np.where(is_asked[np.minimum(of_end, len(is_asked) - 1)], of_end, 0)
        held.release()
    return without_call - _pair(awaits, place, method, len(places))


def _resumed(awaits: AwaitRows) -> Array | None:
    """What :func:`~.resumed_calls.resumed` tells of the stacks of waits that block, and of ends; None where there are no such waits."""
    made, stacks = awaits.made, awaits.made.stacks
    is_asked, are_ends_told = np.zeros(len(stacks.frame), np.bool_), True
    for first, rows in made.slices():
        own = np.flatnonzero(awaits.is_blocking[first : first + len(rows)])
        is_asked[stacks.of(rows["kind"][own], rows["time"][own])] = True
        kinds = rows["kind"]
        # where code moved stacks are of kinds and times, and those of ends are not told
        are_ends_told &= stacks.of(kinds, rows["time"]) is kinds
        awaits.held.release()
    if not is_asked.any():
        return None
    for _, rows in made.slices() if are_ends_told else ():
        kinds = rows["stop_kind"]
        is_asked[kinds[kinds >= 0].astype(np.int64)] = True
    sample = stacks.told(lambda profile: np.arange(len(profile.node)))
    found = stacks.told(lambda profile: resumed(profile, sample[is_asked]))
    if not are_ends_told:
        found["end"] = 0
    return found


def _pair(awaits: AwaitRows, place: Array, method: Array, places: int) -> int:
    """Find the calls in which waits are, a time after the other; how many it found. ``place``: where each await ended, and each wait began that
    is in a call of this ``method``.
    """
    held, count = awaits.held, 0
    several = held.zeros("?")
    for some in held.slices():
        first = awaits.first[some]
        shared = np.flatnonzero(first != np.arange(some.start, some.stop))
        several[first[shared]] = several[some][shared] = True
    last = np.full(places + 1, -1)
    for ends, waits in _in_time(awaits, place):
        call = latest_at(
            place[ends], ends, awaits.ms[ends] + awaits.duration[ends], place[waits], awaits.ms[waits], last
        )
        waits, call = waits[call >= 0], call[call >= 0]
        caller, task = awaits.caller[call], awaits.by[call]
        over = awaits.ms[caller] + awaits.duration[caller]
        is_over = (caller >= 0) & ((over <= awaits.ms[waits]) | (caller == waits))
        is_call = (awaits.method_ids[awaits.method[call]] == method[waits]) & (task > 0) & ~several[call] & ~is_over
        waits, caller, task = waits[is_call], caller[is_call], task[is_call]
        awaits.by[waits], awaits.caller[waits] = task, caller
        count += len(waits)
        held.release()
    return count


def _in_time(awaits: AwaitRows, place: Array) -> Iterator[tuple[Array, Array]]:
    """Awaits with a place that end at some time, and waits that block, with one, and begin then; one time after the other."""
    every = 1 + len(place) // _SAMPLED
    spans, sampled = [], [np.zeros(0)]
    for some in awaits.held.slices():
        rows = np.flatnonzero(place[some] > 0)
        if len(rows):
            when = _placed_at(awaits, some, rows)
            spans.append((some, float(when.min()), float(when.max())))
            sampled.append(when[::every])
    edges = distinct(np.concatenate(sampled))[:: max(_PAIRED // every, 1)][1:].tolist()
    for since, until in zip([-np.inf, *edges], [*edges, np.inf], strict=True):
        found = [np.zeros(0, np.int64)]
        for some, low, high in spans:
            if high >= since and low < until:
                rows = np.flatnonzero(place[some] > 0)
                when = _placed_at(awaits, some, rows)
                found.append(rows[(when >= since) & (when < until)] + some.start)
                awaits.held.release()
        rows = np.concatenate(found)
        is_wait = awaits.is_blocking[rows]
        yield rows[~is_wait], rows[is_wait]


def _placed_at(awaits: AwaitRows, some: slice[int, int, None], rows: Array) -> Array:
    """When these of some rows are where they are told to be: waits that block as they begin, and others as they end."""
    ms: Array = awaits.ms[some][rows]
    return np.where(awaits.is_blocking[some][rows], ms, ms + awaits.duration[some][rows])
