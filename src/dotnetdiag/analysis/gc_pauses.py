"""When the collector had a program stopped: which restart is of which suspension."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.kept_events import Kept
from dotnetdiag.analysis.pairs import combined_codes
from dotnetdiag.trace.distinct import ranked

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
    codes = np.zeros(len(since) + len(events), np.int64)
    for columns in ((since.pid, events.pid), (since.tid, events.tid)):
        codes = combined_codes(codes, np.concatenate(columns))
    order = np.lexsort((np.append(since.place, events.place), codes))
    is_event, code = order >= len(since), codes[order]
    at = np.flatnonzero(~is_event[:-1] & is_event[1:] & (code[1:] == code[:-1]))
    made = np.full(len(since), -1)
    made[order[at]] = order[at + 1] - len(since)
    return made


def paused(suspending: Kept, restarted: Kept) -> tuple[Array, Array]:
    """The places of suspensions for the collector that ended, and when each did. Those of other reasons end with a restart too: one that was lost is
    not that of a later suspension.
    """
    end = next_of_thread(restarted, suspending)
    own = np.flatnonzero(~np.isnan(end) & are_for_gc(suspending))
    return own, end[own]


def next_of_thread(events: Kept, since: Kept) -> Array:
    """When the first event of the same thread came behind each of ``since``; NaN where none did, or another of ``since`` before it. Both are in the
    order of time.
    """
    codes = np.zeros(len(since) + len(events), np.int64)
    for columns in ((since.pid, events.pid), (since.tid, events.tid)):
        codes = combined_codes(codes, np.concatenate(columns))
    moments, when = ranked(np.append(since.ms, events.ms))
    keys = codes * max(len(moments), 1) + when
    asked, order = np.argsort(keys[: len(since)], kind="stable"), np.argsort(keys[len(since) :], kind="stable")
    begins, ends = keys[: len(since)][asked], keys[len(since) :][order]
    code, times = codes[: len(since)][asked], np.append(events.ms[order], np.nan)
    place = np.searchsorted(ends, begins, "left")
    is_followed = code[1:] == code[:-1]
    # one at the same tick ends what was stopped before that
    is_open = np.append(False, is_followed & (place[1:] == np.searchsorted(ends, begins[:-1], "right")))[: len(place)]
    place += is_open & (np.append(ends, -1)[place] == begins)
    first = np.where(np.append(codes[len(since) :][order], -1)[place] == code, times[place], np.nan)
    starts = since.ms[asked]
    until = np.append(np.where(is_followed, starts[1:], np.inf), np.inf)[: len(starts)]
    made = np.full(len(since), np.nan)
    made[asked] = np.where(first <= until, first, np.nan)
    return made
