"""Collapsed stacks: a line per stack, ``Thread (1);outer;inner 42``, for flamegraph.pl, speedscope and many others.

The weight is a whole number: microseconds for times, otherwise in the unit of the profile; what rounds to 0 is left
out. ``;`` in names becomes ``:``, and what breaks lines a space. Of a difference each line has two numbers, before and
after, as difffolded.pl writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

import numpy as np

from dotnetdiag.analysis.diff import ProfileDiff
from dotnetdiag.analysis.profile import MILLISECONDS, STATE_FRAMES, Array, State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.export.sums import sums_of
from dotnetdiag.export.texts import clean, frame_texts, profile_only
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.stack_tree import StackTree

_FRAMES = 1 << 18
"""Frames of stacks that are looked at together."""
_LETTERS = 1 << 20
"""Letters of lines that are written together."""
_BREAKS = str.maketrans({";": ":", **dict.fromkeys((*range(32), 127, 0x85, 0x2028, 0x2029), " ")})
NO_STACK = "(no stack)"


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a profile or a difference."""
    if isinstance(result, ProfileDiff):
        _write_diff(result, file, style)
        return
    profile = profile_only(result, "collapsed")
    sums = sums_of(profile)
    weight = whole(sums.weight, profile.unit)
    rows = np.flatnonzero(weight > 0)
    labels = [text(thread.label) for thread in profile.threads]
    ends = [f";{STATE_FRAMES[state]}" if state in STATE_FRAMES else "" for state in State]
    _write_lines(
        file,
        profile.tree,
        sums.node[rows],
        _names(profile, profile.tree, style),
        [labels[thread] for thread in sums.thread[rows].tolist()],
        [
            f"{ends[state]} {number}"
            for state, number in zip(sums.state[rows].tolist(), weight[rows].tolist(), strict=True)
        ],
    )


def _write_diff(diff: ProfileDiff, file: IO[bytes], style: Style | None) -> None:
    before, after = whole(diff.before, diff.unit), whole(diff.after, diff.unit)
    rows = np.flatnonzero((before > 0) | (after > 0))
    numbers = zip(before[rows].tolist(), after[rows].tolist(), strict=True)
    _write_lines(
        file, diff.tree, rows, _names(diff, diff.tree, style), None, [f" {one} {other}" for one, other in numbers]
    )


def whole(weight: Array, unit: str) -> Array:
    """Weights as whole numbers (i64)."""
    return np.rint(weight * 1000 if unit == MILLISECONDS else weight).astype(np.int64)


def text(name: str) -> str:
    """A name that stays one frame of one line."""
    return clean(name).translate(_BREAKS).strip() or "?"


def _names(result: StackProfile | ProfileDiff, tree: StackTree, style: Style | None) -> dict[int, str]:
    ids = distinct(tree.frame[1:]).tolist()
    return {number: text(name) for number, name in zip(ids, frame_texts(result, ids, style), strict=True)}


def _write_lines(
    file: IO[bytes],
    tree: StackTree,
    nodes: Array,
    names: dict[int, str],
    roots: Sequence[str] | None,
    ends: Sequence[str],
) -> None:
    """``root;frames`` and the end of each line."""
    total = np.cumsum(tree.depth[nodes].astype(np.int64) + 1)
    low = 0
    while low < len(nodes):
        limit = _FRAMES + (int(total[low - 1]) if low else 0)
        high = max(low + 1, int(np.searchsorted(total, limit, side="right")))
        offsets, frames = tree.paths(nodes[low:high])
        edges, path = offsets.tolist(), [names[number] for number in frames.tolist()]
        lines, size = list[str](), 0
        for row in range(high - low):
            parts = path[edges[row] : edges[row + 1]]
            if roots is not None:
                parts.append(roots[low + row])
            parts.reverse()
            lines.append(";".join(parts or [NO_STACK]) + ends[low + row] + "\n")
            size += len(lines[-1])
            if size > _LETTERS:
                file.write("".join(lines).encode("utf-8"))
                lines, size = [], 0
        file.write("".join(lines).encode("utf-8"))
        low = high
