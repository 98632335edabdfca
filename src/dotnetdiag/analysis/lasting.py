"""What begins with an event that has a stack and ends with another: waits, exceptions on their way. Rows, and a profile weighted by how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.filters import hide_framework
from dotnetdiag.analysis.kept_events import Kept, KeptEvents
from dotnetdiag.analysis.pairs import pairs
from dotnetdiag.analysis.profile import MILLISECONDS, State
from dotnetdiag.analysis.rows import SampleColumns, is_worker, profile_of
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import EventSchema
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.table import Losses
from dotnetdiag.trace.stack_tree import NO_FRAME
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lasting:
    """``starts`` in the order in which they came. Of each, ``stop`` is the row of its stop in ``stops`` (-1: none was recorded), ``duration_ms`` how
    long it took (NaN then), and ``method`` which did it: the first of the program in its stack, else the leaf (``frame``: its id in ``profile``, -1
    without a stack). ``profile``: their stacks, in ms, of which ``row`` tells whose each is.
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
        self._starts, self._stops, self._by = starts, stops, by
        self._columns = SampleColumns()
        self._count = 0

    def wants(self, schema: EventSchema) -> bool:
        """Starts, stops, and what names the threads of the pool."""
        return self._starts.wants(schema) or self._stops.wants(schema) or is_worker(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._columns.look_at(window)
        begun = self._starts.feed(window)
        self._stops.feed(window)
        if len(begun):
            self._columns.add(begun, State.NONE, np.arange(self._count, self._count + len(begun), dtype=np.float64))
            self._count += len(begun)

    def result(
        self, name: str, lasted: Callable[[Kept, Array], Array] | None = None, *, state: State = State.BLOCKED
    ) -> Lasting:
        """``lasted`` says of rows of the stops how long it took, in ms, NaN for those that do not tell; without it the times of the events do."""
        self._columns.end()
        starts, stops = self._starts.all(), self._stops.all()
        keys = [[kept.pid, kept.tid if self._by is None else kept[self._by]] for kept in (starts, stops)]
        stop = pairs(starts.ms, keys[0], stops.ms, keys[1])
        known = np.flatnonzero(stop >= 0)
        duration = np.full(len(starts), np.nan)
        duration[known] = np.maximum(stops.ms[stop[known]] - starts.ms[known], 0.0)
        if lasted is not None and len(known):
            told = lasted(stops, stop[known])
            duration[known] = np.where(np.isnan(told), duration[known], told)
        samples = self._columns.take()
        row = samples.values.astype(np.int64)
        weight = np.nan_to_num(duration)[row]
        # what a thread has begun that others end may overlap: it is not drawn along time
        lengths = weight * _NS if self._by is None else np.zeros(len(weight))
        profile = profile_of(
            self._columns,
            samples,
            name=name,
            unit=MILLISECONDS,
            length_ns=lengths.astype(np.int64),
            weight=weight,
        )
        profile = replace(profile, state=np.full(len(profile), state, np.uint8))
        frame = np.full(len(starts), NO_FRAME, np.int64)
        frame[row] = _own_frames(profile)
        return Lasting(
            starts=starts,
            stops=stops,
            stop=stop,
            duration_ms=duration,
            frame=frame,
            method=method_column(profile, frame),
            profile=profile,
            row=row,
            losses=self._columns.context.losses,
        )


def method_column(profile: StackProfile, frame: Array) -> Coded:
    """The names of frames; None for -1."""
    distinct, which = np.unique(frame, return_inverse=True)
    names = [None if one < 0 else profile.frames.name(one) for one in distinct.tolist()]
    return Coded(Text.from_pylist(names), which.reshape(-1))


def _own_frames(profile: StackProfile) -> Array:
    """Of each sample the first frame of the program, else the leaf; -1 without a stack."""
    own = hide_framework(profile)
    frame = own.tree.frame[own.node]
    return np.where(frame >= 0, frame, profile.tree.frame[profile.node])
