"""When the collector had a program stopped: which restart is of which suspension."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.kept_events import Kept
from dotnetdiag.analysis.pairs import picked
from dotnetdiag.trace.lost_between import LostBetween

Array: TypeAlias = "np.ndarray[Any, Any]"

FOR_GC, PREPARATION = 1, 6
"""Reasons of suspensions that are the collector's; 6 are those that it asks for behind the first of one in the background."""


def are_for_gc(suspending: Kept) -> Array:
    """Whether the collector asked for each suspension (bool), by its ``Reason``."""
    return np.asarray((suspending["Reason"] == FOR_GC) | (suspending["Reason"] == PREPARATION))


def next_in_order(events: Kept, since: Kept) -> Array:
    """Of each of ``since`` the row of the event of the same thread that came next, by their places; -1 where none did, or another of ``since``
    before it.
    """
    columns = [np.append(since.pid, events.pid), np.append(since.tid, events.tid)]
    return next_of_same(events, since, combined(columns, len(since) + len(events))[1])


def next_of_same(events: Kept, since: Kept, key: Array) -> Array:
    """The same of what has the same ``key``: those of ``since``, and then those of the events."""
    order = np.lexsort((np.append(since.place, events.place), key))
    is_event, own = order >= len(since), key[order]
    at = np.flatnonzero(~is_event[:-1] & is_event[1:] & (own[1:] == own[:-1]))
    made = np.full(len(since), -1)
    made[order[at]] = order[at + 1] - len(since)
    return made


def are_last_of_threads(events: Kept) -> Array:
    """Whether no other of these events of the same thread has come since (bool)."""
    first, _ = combined([events.pid[::-1], events.tid[::-1]], len(events))
    made = np.zeros(len(events), np.bool_)
    made[len(events) - 1 - first] = True
    return made


def paused(suspending: Kept, restarted: Kept, lost: LostBetween | None) -> tuple[Array, Array]:
    """The rows of suspensions for the collector that ended, in the order of their begins, and when each did. Those of other reasons end with a
    restart too: one that was lost is not that of a later suspension. What would end before it began, for a file goes back in time within it, is none;
    nor is one whose thread has ``lost`` events meanwhile, which may be of two.
    """
    end = picked(restarted.ms, next_in_order(restarted, suspending), np.nan)
    own = np.flatnonzero((end >= suspending.ms) & are_for_gc(suspending))
    if lost:
        own = own[~lost.of(suspending.pid[own], suspending.tid[own], suspending.ms[own], end[own])]
    own = own[np.argsort(suspending.ms[own], kind="stable")]
    return own, end[own]
