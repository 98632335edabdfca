"""Awaits, and who is whose caller: what their events, and those of operations, tell of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.frames import Frames, pseudo
from dotnetdiag.analysis.kept_events import KeptEvents
from dotnetdiag.analysis.lasting import Lasting
from dotnetdiag.analysis.nameless import are_nameless
from dotnetdiag.analysis.pairs import FirstRows
from dotnetdiag.analysis.running_groups import Numbering
from dotnetdiag.analysis.trees import cut_levels
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.scratch import MappedArrays

Array: TypeAlias = "np.ndarray[Any, Any]"

BLOCKING = 1
"""Behavior of a wait that holds its thread."""
DEEPEST = 1000
"""Awaits in each other; those below are a chain of their own."""
LOOKED_UP = 1 << 20
"""Rows that are looked up by their tasks at once."""
_EACH = 87
"""Bytes of what is told of each, here and by who finds more of them."""


class AwaitRows:
    """A row for each, as in ``made``. What is told of them lies in mapped arrays of ``held``: of ten million awaits 0.8 GB. Who has looked at some
    rows lets go of them there.

    ``first``: the row that awaited the same task first. ``caller``: the row of who awaits this one, -1 for none, and ``by``: its task.
    ``process`` is which of ``pids``, ``name`` which of ``texts`` (-1: none), ``method`` which of ``method_ids``, and these are of ``frames`` (-1:
    none). ``depth``, and ``has_below``, whether a row is some row's caller, are told once callers are settled.
    """

    def __init__(self, made: Lasting, operations: KeptEvents, names: Sequence[str]) -> None:
        self.made, self.texts = made, names
        self.held = held = MappedArrays(len(made), _EACH)
        self.pids, process = ranked(made.pid)
        self.process, self.is_blocking, self.duration = held.zeros("i4"), held.zeros("?"), held.zeros("f8")
        self.ms, self.has_below = held.zeros("f8"), held.zeros("?")
        task, self.by = held.zeros("i8"), held.zeros("i8")
        self.first, self.caller, self.depth = held.zeros("i4"), held.zeros("i4"), held.zeros("i4")
        self.name, awaiting, self.method = held.zeros("i4"), held.zeros("i4"), held.zeros("i4")
        for first, rows in made.slices():
            here = slice(first, first + len(rows))
            is_blocking = rows["Behavior"] == BLOCKING
            self.process[here], self.duration[here] = process[rows["kind"]], rows["duration_ms"]
            self.ms[here] = rows["ms"]
            self.is_blocking[here], task[here] = is_blocking, rows["TaskID"]
            self.by[here] = np.where(is_blocking, rows["OriginatingTaskID"], rows["ContinueWithTaskID"])
            self.first[here] = np.arange(here.start, here.stop)
            self.caller[here] = self.name[here] = awaiting[here] = -1
            held.release()
        self._look_up(operations, task, awaiting)
        self.frames, self.method_ids = self._find_methods(awaiting)

    def _look_up(self, operations: KeptEvents, task: Array, awaiting: Array) -> None:
        """Who is whose caller, and the names of both tasks: some tasks at a time, for to look them up takes 8 bytes for each in memory."""
        held, pids, count = self.held, self.pids, len(operations)
        names = MappedArrays(count, each=4).zeros("i4")
        first = 0
        for kept in operations.parts():
            names[first : first + len(kept)] = kept["OperationName"]
            first += len(kept)
        parts = -(-max(len(task), count) // LOOKED_UP)
        for part in range(parts):
            awaits = FirstRows(
                pids, len(task), ((pids[self.process[one]], task[one]) for one in held.slices()), part, parts
            )
            named = FirstRows(pids, count, ((one.pid, one["TaskID"]) for one in operations.parts()), part, parts)
            for some in held.slices():
                pid = pids[self.process[some]]
                for ids, first_of, name_of in ((task, self.first, self.name), (self.by, self.caller, awaiting)):
                    for known, found_of, told in ((awaits, first_of, None), (named, name_of, names)):
                        found = known.of(pid, ids[some])
                        has = np.flatnonzero(found >= 0)
                        found_of[some][has] = found[has] if told is None else told[found[has]]
        for some in held.slices():
            caller = self.caller[some]
            caller[caller == np.arange(some.start, some.stop)] = -1

    def _find_methods(self, awaiting: Array) -> tuple[Frames, Array]:
        """The number of each one's method; gives the frames that there are, and which of them each number is. Rows whose awaits have no stack, or no
        name in it, get the name of the task that awaits.
        """
        stacks, numbers, is_any = self.made.stacks, Numbering(), False
        is_nameless = are_nameless(stacks.frame, stacks.frames)
        for first, rows in self.made.slices():
            here = slice(first, first + len(rows))
            stack, named = stacks.of(rows["kind"], rows["time"]), awaiting[here]
            frame = stacks.frame[stack]
            places = np.flatnonzero(((frame < 0) | is_nameless[stack]) & (named >= 0))
            frame[places] = len(stacks.frames) + named[places]
            self.method[here] = numbers.of(frame)
            is_any = is_any or bool(len(places))
            self.held.release()
        frames = stacks.frames.extended([pseudo(one) for one in self.texts]) if is_any else stacks.frames
        return frames, numbers.keys()

    def settle(self) -> bool:
        """Callers are as they will be, but for those of what is too deep, which are cut off; whether there were any."""
        is_cut = cut_levels(self.caller, self.depth, DEEPEST, self.held)
        for some in self.held.slices():
            caller = self.caller[some]
            self.has_below[caller[caller >= 0]] = True
        return is_cut

    def lasted(self, rows: Array | slice[int, int, None]) -> Array:
        """How long these took, nothing for those without an end."""
        return np.nan_to_num(self.duration[rows])

    def taken(self, values: Array, rows: slice[int, int, None] | Array) -> Array:
        """These, in memory."""
        made = np.array(values[rows])
        self.held.release()
        return made
