"""What begins with an event that has a stack and ends with another: waits, awaits, work in a queue. Rows, and a profile weighted by how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.kept_events import Kept, KeptEvents
from dotnetdiag.analysis.pairs import pairs
from dotnetdiag.analysis.profile import MILLISECONDS, State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacked import StackedEvents
from dotnetdiag.events import EventSchema
from dotnetdiag.events.columns import Coded
from dotnetdiag.table import Losses
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lasting:
    """``starts`` in the order in which they came. Of each, ``stop`` is the row of its stop in ``stops`` (-1: none was recorded), ``duration_ms`` how
    long it took (NaN then), and ``method`` which did it, as in ``Stacked``. ``profile``: their stacks, in ms, of which ``row`` tells whose each is.
    """

    starts: Kept
    stops: Kept
    stop: Array
    duration_ms: Array
    frame: Array
    method: Coded
    profile: StackProfile
    row: Array
    losses: Losses

    @property
    def known(self) -> Array:
        """A mask of those whose end was recorded."""
        return self.stop >= 0

    def thread_names(self, ids: Array) -> list[str | None]:
        """Of threads by their ids; None where the recording has no name."""
        names = {one.thread_id: one.name or None for one in self.profile.threads}
        return [names.get(one) for one in ids.tolist()]


class LastingEvents:
    """Takes windows; :meth:`result` is what came. A stop is of its start's process, and has the same ``by``: a field of both, or the thread."""

    def __init__(self, starts: KeptEvents, stops: KeptEvents, *, by: str | None = None) -> None:
        self._starts, self._stops, self._by = StackedEvents(starts), stops, by

    def wants(self, schema: EventSchema) -> bool:
        """Starts, stops, and what names the threads of the pool."""
        return self._starts.wants(schema) or self._stops.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._starts.feed(window)
        self._stops.feed(window)

    def result(
        self, name: str, lasted: Callable[[Kept, Array], Array] | None = None, *, state: State = State.BLOCKED
    ) -> Lasting:
        """``lasted`` says of rows of the stops how long it took, in ms, NaN for those that do not tell; without it the times of the events do."""
        starts, stops = self._starts.kept, self._stops.all()
        keys = [[kept.pid, kept.tid if self._by is None else kept[self._by]] for kept in (starts, stops)]
        stop = pairs(starts.ms, keys[0], stops.ms, keys[1])
        known = np.flatnonzero(stop >= 0)
        duration = np.full(len(starts), np.nan)
        duration[known] = np.maximum(stops.ms[stop[known]] - starts.ms[known], 0.0)
        if lasted is not None and len(known):
            told = lasted(stops, stop[known])
            duration[known] = np.where(np.isnan(told), duration[known], told)
        weight = np.nan_to_num(duration)
        # what a thread has begun that others end may overlap: it is not drawn along time
        lengths = (weight * _NS).astype(np.int64) if self._by is None else None
        made = self._starts.result(name, MILLISECONDS, weight, lengths, state=state)
        return Lasting(
            starts=starts,
            stops=stops,
            stop=stop,
            duration_ms=duration,
            frame=made.frame,
            method=made.method,
            profile=made.profile,
            row=made.row,
            losses=made.losses,
        )
