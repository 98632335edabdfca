"""Which generation an address is in, by the ranges that the runtime tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.heap.facts import Segment
from dotnetdiag.heap.kernels import steps

Array: TypeAlias = "np.ndarray[Any, Any]"

UNKNOWN = -1
NAMES = {0: "gen0", 1: "gen1", 2: "gen2", 3: "large objects", 4: "pinned objects", UNKNOWN: "unknown"}


def generations(address: Array, segments: Sequence[Segment]) -> Array:
    """Of each address 0, 1, 2, 3 (large objects), 4 (pinned ones), or -1 where no range says it: i8."""
    if not segments:
        return np.broadcast_to(np.int8(UNKNOWN), (len(address),))
    bounds, values = _steps(segments)
    return steps(address, bounds, values)


def _steps(segments: Sequence[Segment]) -> tuple[Array, Array]:
    """Bounds, ascending, and the generation below the first, between each two, and from the last on. Where segments overlap, the first in the
    order of their starts has what both have.
    """
    bounds: list[int] = []
    values = [UNKNOWN]
    behind = 0
    for segment in sorted(segments, key=lambda one: (one.start, one.end)):
        at = max(segment.start, behind)
        if at >= segment.end:
            continue
        if bounds and bounds[-1] == at:
            values.pop()
            bounds.pop()
        # the first of pinned, large, gen2, gen1, gen0 whose end is above an address
        for generation in (4, 3, 2, 1, 0):
            end = min(segment.ends[generation], segment.end)
            if end > at:
                bounds.append(at)
                values.append(generation)
                at = end
        bounds.append(at)
        values.append(UNKNOWN)
        behind = segment.end
    return np.array(bounds, np.uint64), np.array(values, np.int8)
