"""How long finalizers ran, which one thread of a process does, one after the other: who waits in his holds up all others."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.kept_events import Kept, KeptEvents, Places, having, whole_numbers
from dotnetdiag.events import EventSchema
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.recorded import Recorded
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

BEGIN, END = 14, 13
"""GC/FinalizersStart and GC/FinalizersStop, with the ``Count`` of objects: of all that are there when the thread begins."""


class Finalizers:
    """Takes windows, within :meth:`~.kept_events.Places.window`; the others are what came until now."""

    def __init__(self, places: Places) -> None:
        self._begins = KeptEvents(having(BEGIN), places=places)
        self._ends = KeptEvents(having(END), ("Count",), places=places)
        self._open: dict[int, float] = {}
        """Since when (ms) they run in a process."""
        self._ms: dict[int, float] = {}
        self.finalized = 0
        """Objects, of runs that have ended."""

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends."""
        return self._begins.wants(schema) or self._ends.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        begins, ends = (
            keeper.of(events) if len(events := keeper.events_of(window)) else None
            for keeper in (self._begins, self._ends)
        )
        pids = [one.pid for one in (begins, ends) if one is not None]
        for pid in distinct(np.concatenate(pids).astype(np.int64)).tolist() if pids else ():
            self._add(pid, begins and begins.of_process(pid), ends and ends.of_process(pid))

    def _add(self, pid: int, begins: Kept | None, ends: Kept | None) -> None:
        """One begins behind the end of the one before; where an end was lost, of the first nothing is told."""
        of = [one for one in (begins, ends) if one is not None]
        is_end = np.repeat([one is ends for one in of], [len(one) for one in of])
        order = np.argsort(np.concatenate([one.place for one in of]), kind="stable")
        ms, is_end = np.concatenate([one.ms for one in of])[order], is_end[order]
        if pid in self._open:
            ms, is_end = np.append(self._open.pop(pid), ms), np.append(False, is_end)
        whole = np.flatnonzero(~is_end[:-1] & is_end[1:])
        self._ms[pid] = self._ms.get(pid, 0.0) + float(np.maximum(ms[whole + 1] - ms[whole], 0.0).sum())
        self.finalized += 0 if ends is None else int(np.maximum(whole_numbers(ends["Count"]), 0).sum())
        if not is_end[-1]:
            self._open[pid] = float(ms[-1])

    def ms(self, recorded: Recorded, *, lost: bool) -> float | None:
        """How long they ran, those that still do to the end of what is recorded of their process, but where events were ``lost``, their end perhaps
        among them. None where nothing tells of them.
        """
        if not self._ms and not self._open:
            return None
        still = {} if lost else self._open
        running = (max(1000.0 * recorded.of(pid).end_s - since, 0.0) for pid, since in still.items())
        return sum(self._ms.values()) + sum(running)
