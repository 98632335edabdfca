"""When the collector had a program stopped: which restart is of which suspension."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.kept_events import Kept
from dotnetdiag.analysis.pairs import pairs

Array: TypeAlias = "np.ndarray[Any, Any]"

FOR_GC, PREPARATION = 1, 6
"""Reasons of suspensions that are the collector's; 6 are those that it asks for behind the first of one in the background."""


def are_for_gc(suspending: Kept) -> Array:
    """Whether the collector asked for each suspension (bool), by its ``Reason``."""
    return np.asarray((suspending["Reason"] == FOR_GC) | (suspending["Reason"] == PREPARATION))


def paused(suspending: Kept, restarted: Kept) -> Array:
    """Two rows: of each suspension for the collector that ended its place, and the place of its restart. Those of other reasons end with a restart,
    too: that of one may be lost.
    """
    stop = pairs(suspending.ms, [suspending.pid, suspending.tid], restarted.ms, [restarted.pid, restarted.tid])
    own = np.flatnonzero((stop >= 0) & are_for_gc(suspending))
    return np.stack([own, stop[own]])
