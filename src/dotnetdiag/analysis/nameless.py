"""Methods without names, as of a recording that has no rundown: they are left out, and a note says so.

Without names the runtime's own throw, wait and queue helpers cannot be told from what called them: the first frame of every stack is one address of
.NET, which has done nothing of what it would be blamed for.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.frames import Frames
from dotnetdiag.table import Losses
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.stack_tree import NO_FRAME

Array: TypeAlias = "np.ndarray[Any, Any]"

LARGE_SHARE = 0.5
"""Of the stacks. Recordings with names have a frame or two without one, of code that was freed; those without names have nothing else."""
NEARLY_ALL = 0.8
"""Of all frames of the stacks: where few events have stacks, those frames or two may be half of what is shown."""
NO_NAMES = (
    "methods have no names, and are left out: the recording lacks them, as with --rundown false and --profile gc-collect "
    "(record with --rundown true)"
)
CUT = (
    "methods have no names, and are left out: the recording breaks off before the names, which come at its end "
    "(end a recording with Ctrl+C, or let it end, for them to be in it)"
)
NOT_TOLD = "methods have no names, and are left out: the runtime was gone before it told them, as one that is killed is"
"""The same of a process that was asked itself."""
ALL = (NO_NAMES, CUT, NOT_TOLD)


def are_nameless(frame: Array, frames: Frames) -> Array:
    """Of each id whether it is of an address of which nothing is known, not even the module (bool); -1 is of none."""
    shown = distinct(frame[frame >= 0])
    unresolved = frames.unresolved()[shown]
    unnamed = [one for one in shown[unresolved].tolist() if not frames[one].module]
    # not numpy.isin: where nothing is looked for it loads numpy.ma, which was 14 of the 200 ms of most reports
    return is_among(frame, np.array(unnamed, np.int64))


def without_nameless(frame: Array, frames: Frames, losses: Losses) -> tuple[Array, tuple[str, ...]]:
    """The frame that is shown of each stack, and the note on names that are missing. Where there is one, frames without a name are none (-1)."""
    nameless = are_nameless(frame, frames)
    if not nameless.any() or nameless.sum() < LARGE_SHARE * (frame >= 0).sum():
        return frame, ()
    everything = np.arange(len(frames))
    if are_nameless(everything, frames).sum() < NEARLY_ALL * len(everything):
        return frame, ()
    return np.where(nameless, NO_FRAME, frame), (NO_NAMES if losses.damage is None else CUT,)
