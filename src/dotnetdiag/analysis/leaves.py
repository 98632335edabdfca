"""Stacks that end in what was done there: the type that was allocated, the exception that was thrown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.frames import pseudo
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.stack_tree import StackTree

Array: TypeAlias = "np.ndarray[Any, Any]"


def with_leaves(profile: StackProfile, which: Array, names: Sequence[str]) -> StackProfile:
    """Below the stack of each sample a frame with the name that ``which`` tells of it, -1 for none."""
    rows = np.flatnonzero(which >= 0)
    if not len(rows):
        return profile
    used, number = ranked(which[rows])
    parents, parent = ranked(profile.node[rows])
    first = len(profile.frames)
    pairs, place = ranked(parent * len(used) + number)
    node = profile.node.copy()
    node[rows] = len(profile.tree.frame) + place
    tree = StackTree(
        np.concatenate([profile.tree.parent, parents[pairs // len(used)]]).astype(np.int32),
        np.concatenate([profile.tree.frame, first + pairs % len(used)]).astype(np.int32),
    )
    frames = profile.frames.extended([pseudo(names[one]) for one in used.tolist()])
    return replace(profile, tree=tree, frames=frames, node=node)
