"""Methods without names, as of a recording that has no rundown: they are left out, and a note says so.

Without names the runtime's own throw, wait and queue helpers cannot be told from what called them: the first frame of every stack is one address of
.NET, which has done nothing of what it would be blamed for.

Rule: of a recording of several processes each is looked at by itself, for some may have names and others none. Whose a frame is only the thread
tells in whose stack it is: an address of which nothing is known is one frame, whatever the processes that have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.lacking import Lacking, processes_text
from dotnetdiag.table import Losses
from dotnetdiag.trace.distinct import distinct, is_among, ranked
from dotnetdiag.trace.stack_tree import NO_FRAME

if TYPE_CHECKING:
    from dotnetdiag.analysis.profile import Profile

Array: TypeAlias = "np.ndarray[Any, Any]"

LARGE_SHARE = 0.5
"""Of the stacks. Recordings with names have a frame or two without one, of code that was freed; those without names have nothing else."""
NEARLY_ALL = 0.8
"""Of all frames of the stacks: where few events have stacks, those frames or two may be half of what is shown."""
NO_NAMES = (
    "methods have no names, and are left out: the recording lacks them, as with --rundown false and --profile gc-collect, or where the "
    "runtime ended before it told them (record with --rundown true)"
)
CUT = (
    "methods have no names, and are left out: the recording breaks off before the names, which come at its end "
    "(end a recording with Ctrl+C, or let it end, for them to be in it)"
)
NOT_TOLD = "methods have no names, and are left out: the runtime was gone before it told them, as one that is killed is"
"""The same of a process that was asked itself."""
ALL = (NO_NAMES, CUT, NOT_TOLD)
"""Of recordings of several processes they say of which: see :func:`tells_of_names`."""
_SUBJECT, _PREDICATE = "methods", " have no names"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shown:
    """Of each sample of a profile ``frame``: what is shown of its stack, -1 for none; and ``has_names``: whether its process has names, without which
    a frame that has none is not shown. ``notes``: that some have none, and of several processes which. ``stackless``: those without any stack.
    """

    frame: Array
    has_names: Array
    notes: tuple[str, ...]
    stackless: Lacking


def without_nameless(shown: Array, profile: Profile, losses: Losses, *, is_of_several: bool) -> Shown:
    """What is left of ``shown``, a frame of each sample of a profile (-1: none), without those of processes whose names are missing that have no name
    themselves. ``is_of_several``: the recording is one of several processes.
    """
    nameless = are_nameless(shown, profile.frames)
    pids, of = _processes(profile) if is_of_several else (np.zeros(1, np.int64), np.zeros(len(shown), np.uint8))
    count, bare = (np.bincount(of[some], minlength=len(pids)) for some in (shown >= 0, nameless))
    lacks = (bare > 0) & (bare >= LARGE_SHARE * count)
    if lacks.any():
        are_bare = are_nameless(np.arange(len(profile.frames)), profile.frames)
        for number in np.flatnonzero(lacks).tolist():
            own = are_bare[profile.take(of == number).used_frames()] if is_of_several else are_bare
            lacks[number] = own.sum() >= NEARLY_ALL * len(own)
    has_names, stackless = ~lacks[of], Lacking.counted(pids, np.bincount(of, minlength=len(pids)), count)
    if not lacks.any():
        return Shown(frame=shown, has_names=has_names, notes=(), stackless=stackless)
    note = NO_NAMES if losses.damage is None else CUT
    return Shown(
        frame=np.where(nameless & ~has_names, NO_FRAME, shown),
        has_names=has_names,
        notes=(_of_processes(note, pids[lacks].tolist()) if is_of_several else note,),
        stackless=stackless,
    )


def _processes(profile: Profile) -> tuple[Array, Array]:
    """The different processes of a profile, as columns of reports have them, and which of them each sample is of."""
    pids, of_thread = ranked(np.array([thread.key[0] for thread in profile.threads], np.int64))
    return pids, of_thread[profile.thread]


def are_nameless(frame: Array, frames: Frames) -> Array:
    """Of each id whether it is of an address of which nothing is known, not even the module (bool); -1 is of none."""
    shown = distinct(frame[frame >= 0])
    unresolved = frames.unresolved()[shown]
    unnamed = [one for one in shown[unresolved].tolist() if not frames[one].module]
    # not numpy.isin: where nothing is looked for it loads numpy.ma, which was 14 of the 200 ms of most reports
    return is_among(frame, np.array(unnamed, np.int64))


# notes ----------------------------------------------------------------------------------------------------------------


def tells_of_names(note: str) -> bool:
    """Whether a note is one of :data:`ALL`, of whatever processes."""
    return _of_all(note) in ALL


def of_process_asked(notes: Iterable[str]) -> Mapping[str, str]:
    """What a process that was asked itself says in the place of those of the notes that tell of names."""
    return {
        note: NOT_TOLD.replace(_SUBJECT, note.partition(_PREDICATE)[0], 1) for note in notes if tells_of_names(note)
    }


def _of_processes(note: str, pids: Sequence[int]) -> str:
    """One of :data:`ALL`, of some of several processes."""
    return note.replace(_SUBJECT, f"{_SUBJECT} of {processes_text(pids)}", 1)


def _of_all(note: str) -> str:
    """The same, whatever processes it tells of."""
    subject, predicate, rest = note.partition(_PREDICATE)
    return f"{_SUBJECT}{predicate}{rest}" if subject.startswith(f"{_SUBJECT} of process") else note
