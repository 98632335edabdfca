"""Stacks that end in what was done there: the type that was allocated, the exception that was thrown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.frames import pseudo
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.trace.stack_tree import StackTree

Array: TypeAlias = "np.ndarray[Any, Any]"


def with_leaves(profile: StackProfile, which: Array, names: Sequence[str]) -> StackProfile:
    """Below the stack of each sample a frame with the name that ``which`` tells of it, -1 for none."""
    rows = np.flatnonzero(which >= 0)
    if not len(rows):
        return profile
    used, number = np.unique(which[rows], return_inverse=True)
    first = len(profile.frames)
    pairs, place = np.unique(np.stack([profile.node[rows], number.reshape(-1)]), axis=1, return_inverse=True)
    node = profile.node.copy()
    node[rows] = len(profile.tree.frame) + place.reshape(-1)
    tree = StackTree(
        np.concatenate([profile.tree.parent, pairs[0]]).astype(np.int32),
        np.concatenate([profile.tree.frame, first + pairs[1]]).astype(np.int32),
    )
    frames = profile.frames.extended([pseudo(names[one]) for one in used.tolist()])
    return replace(profile, tree=tree, frames=frames, node=node)
