"""Events that are kept with their stacks: rows, and a profile of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis import filters
from dotnetdiag.analysis.answers import whole
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.kept_events import Kept, KeptEvents
from dotnetdiag.analysis.lacking import Lacking
from dotnetdiag.analysis.method_words import is_named
from dotnetdiag.analysis.nameless import without_nameless
from dotnetdiag.analysis.pool_threads import PoolThreads, is_worker
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.rows import SampleColumns, profile_of
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import Column, EventSchema
from dotnetdiag.events.columns import Coded, ListOf, Text
from dotnetdiag.table import Losses
from dotnetdiag.trace.distinct import distinct, is_among, ranked
from dotnetdiag.trace.stack_tree import NO_FRAME
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_STACKS = 100
"""Of a table of stacks: written out they are many times larger than their tree."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stacked:
    """Of each event ``method``: the first of the program in its stack, else the first of .NET that is no machinery (``own_frames``), and its id in
    ``profile``, ``frame`` (-1 without a stack). ``row`` tells of each sample of ``profile`` whose stack it is.
    ``stackless``: the processes none of whose events has one; ``unnamed``: the note that names of methods are missing, if they are: then those
    without one are left out, of the samples of ``profile`` whose process lacks names, which ``has_names`` tells.
    """

    frame: Array
    method: Coded
    profile: StackProfile
    row: Array
    losses: Losses
    stackless: Lacking
    has_names: Array
    unnamed: tuple[str, ...]


class StackedEvents:
    """Takes windows; :attr:`kept` and :meth:`result` are what came. ``together`` makes fewer rows of the events of a window: of what is kept and
    its stack ids, the rows whose stacks stay, and what is kept of those. ``pool``: where windows were before the first that it takes.
    """

    def __init__(
        self,
        events: KeptEvents,
        together: Callable[[Kept, Array], tuple[Array, Kept]] | None = None,
        pool: PoolThreads | None = None,
    ) -> None:
        self._events, self._together = events, together
        self._columns = SampleColumns(pool)
        self._count = 0

    def wants(self, schema: EventSchema) -> bool:
        """The events, and what names the threads of the pool."""
        return self._events.wants(schema) or is_worker(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._columns.look_at(window)
        found = self._events.feed(window) if self._together is None else self._feed_together(window)
        if len(found):
            self._columns.add(found, State.NONE, np.arange(self._count, self._count + len(found), dtype=np.float64))
            self._count += len(found)

    def _feed_together(self, window: EventTable) -> EventTable:
        found = self._events.events_of(window)
        if self._together is None or not len(found):
            return found
        rows, kept = self._together(self._events.of(found), found.headers.stack)
        self._events.add(kept)
        return EventTable(found.trace, found.schemas, found.headers[rows], fields=())

    @property
    def count(self) -> int:
        """How many were kept."""
        return self._count

    @property
    def kept(self) -> Kept:
        """The events, in the order in which they came."""
        return self._events.all()

    def result(
        self, name: str, unit: str, weight: Array, lengths: Array | None = None, *, state: State = State.NONE
    ) -> Stacked:
        """``weight`` and ``lengths`` (ns; none: 0) of each event. Those whose weight is negative are not in the profile."""
        self._columns.end()
        samples = self._columns.take()
        if (weight < 0).any():
            samples = samples.take(weight[samples.values.astype(np.int64)] >= 0)
        row = samples.values.astype(np.int64)
        profile = profile_of(
            self._columns,
            samples,
            name=name,
            unit=unit,
            length_ns=np.zeros(len(row), np.int64) if lengths is None else lengths[row],
            weight=weight[row].astype(np.float64),
            sampled=False,
        )
        profile = replace(profile, state=np.full(len(profile), state, np.uint8))
        own, context = own_frames(profile), self._columns.context
        shown = without_nameless(own, profile, context.losses, is_of_several=context.meaning.is_of_several)
        frame = np.full(self._count, NO_FRAME, np.int64)
        frame[row] = shown.frame
        return Stacked(
            frame=frame,
            method=method_column(profile, frame),
            profile=profile,
            row=row,
            losses=context.losses,
            stackless=shown.stackless,
            has_names=shown.has_names,
            unnamed=shown.notes,
        )


NO_STACKS = "which methods they are of is not told: the events have no stacks (NativeAOT takes none, and a session with --no-stacks)"


def method_column(profile: StackProfile, frame: Array) -> Coded:
    """The names of frames; None for -1."""
    used, which = ranked(frame)
    names = ["" if one < 0 else profile.frames.name(one) for one in used.tolist()]
    known = frame >= 0
    return Coded(Text.from_pylist([*names]), which, None if known.all() else known)


def most_of(profile: StackProfile) -> tuple[str | None, float]:
    """The method that most of a profile is of (see :func:`own_frames`), and how much that is; None where it has no name."""
    frames, which = np.unique(own_frames(profile), return_inverse=True)
    if not len(frames):
        return None, 0.0
    weights = np.bincount(which, profile.weight, len(frames))
    most = int(weights.argmax())
    name = profile.frames.name(int(frames[most])) if frames[most] >= 0 else None
    return (name if is_named(name) else None), float(weights[most])


def are_idle(frames: Frames, own: Array) -> Array:
    """Whether threads of the pool wait for work in frames, by their numbers (see :func:`own_frames`); -1 is none such."""
    used = distinct(own).tolist()
    idle = [one for one in used if one >= 0 and filters.is_idle_worker(frames[one])]
    return is_among(own, np.array(idle, np.int64))


def with_work(profile: StackProfile) -> StackProfile:
    """Without the threads of the pool that wait for work, or spin for it."""
    is_idle = are_idle(profile.frames, own_frames(profile))
    return profile.take(~is_idle, "has work") if is_idle.any() else profile


def by_stack(profile: StackProfile, number: str) -> dict[str, Column]:
    """The stacks of a profile, those with most of its weight first, :data:`MOST_STACKS` at most: that weight as a column ``number``, and the names of
    their frames, leaf first.
    """
    nodes, which = np.unique(profile.node, return_inverse=True)
    weights = np.bincount(which, profile.weight, len(nodes))
    order = np.argsort(-weights, kind="stable")
    order = order[nodes[order] > 0][:MOST_STACKS]
    offsets, frames = profile.tree.paths(nodes[order])
    return {
        number: whole(weights[order]),
        "stack": ListOf(offsets, method_column(profile, np.asarray(frames, np.int64))),
    }


def own_frames(profile: StackProfile, *, of_program: bool = True) -> Array:
    """Of each sample the first frame of the program, of those that have a name if any has, else the first that does more than queue work, wait, throw
    for others and write events, else the leaf (but for what writes events and waits, where anything else is there); -1 without a stack. With
    ``of_program`` False those of .NET count as those of the program do.
    """
    made = profile.tree.frame[profile.node]
    hidings = (filters.hide_tracing, filters.hide_machinery, filters.hide_plumbing)
    for hide in (*hidings, *((filters.hide_framework,) if of_program else ()), filters.hide_nameless):
        profile = hide(profile)  # each hides what those before did
        frame = profile.tree.frame[profile.node]
        made = np.where(frame >= 0, frame, made)
    return made
