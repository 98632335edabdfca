"""The samples of a profile added up: one row per thread, state and stack."""

from __future__ import annotations

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.profile import Array, State
from dotnetdiag.analysis.stack_profile import StackProfile

_DENSE_LIMIT = 1 << 22
"""Possible rows up to which they are counted in a table of all of them; beyond, they are sorted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """Columns sorted by ``thread``, ``state`` and ``node``; ``count`` is the number of samples (i64)."""

    thread: Array
    state: Array
    node: Array
    weight: Array
    count: Array

    def __len__(self) -> int:
        return len(self.node)


def sums_of(profile: StackProfile) -> Sums:
    """Every combination that occurs."""
    nodes = len(profile.tree)
    keys = (profile.thread.astype(np.int64) * len(State) + profile.state) * nodes + profile.node
    possible = len(profile.threads) * len(State) * nodes
    if possible <= _DENSE_LIMIT:
        counts = np.bincount(keys, minlength=possible)
        found = np.flatnonzero(counts)
        count, weight = counts[found], np.bincount(keys, profile.weight, minlength=possible)[found]
    else:
        found, which, count = np.unique(keys, return_inverse=True, return_counts=True)
        weight = np.bincount(which.reshape(-1), profile.weight, minlength=len(found))
    rest, node = np.divmod(found, nodes)
    thread, state = np.divmod(rest, len(State))
    return Sums(thread=thread, state=state, node=node, weight=weight.astype(np.float64), count=count)
