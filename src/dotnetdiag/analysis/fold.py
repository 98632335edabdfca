"""Every question is a fold over windows of events; the windows are those of a recording, or of a session that runs.

    ``for window in trace.windows(question.wants): question.feed(window)``, and then ``question.result()``

A fold keeps what it needs of a window, and not the window. Several share one pass over a file: :func:`fold`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from dotnetdiag.events import EventSchema
from dotnetdiag.table import Losses
from dotnetdiag.table.losses import NONE as NO_LOSSES
from dotnetdiag.trace.fields import FieldSource, join_fields
from dotnetdiag.trace.freed import give_back_freed
from dotnetdiag.trace.lost_between import LostBetween, lost_by
from dotnetdiag.trace.met import windows_as_met
from dotnetdiag.trace.recorded import Recorded, recorded_of
from dotnetdiag.trace.source import lookup, wanted_of
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.tally import Tally
from dotnetdiag.trace.trace import Trace

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Context

Array: TypeAlias = "np.ndarray[Any, Any]"
R = TypeVar("R", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


FOLDED_ROWS = 1 << 16
"""Events of a window that folds share: each asks each window for its types and fields, which with windows of 16,384 was a third of the time of the
report on collections of a million events (0.38 s, now 0.25). Windows of twice as many are no quicker there, a quarter slower in the report on
allocations, for they leave the processor's cache, and take 20 to 40 MB more.
"""
Seconds: TypeAlias = float | Recorded | Callable[[], float | Recorded] | None
"""How long was recorded, or which part of the time; or a function that tells it once all windows were fed, which spares a pass to find it out.
None: not known.
"""


def seconds_of(trace: Trace) -> Callable[[], Recorded]:
    """As :data:`Seconds`: which part of the time a trace tells of, found out once for all that ask."""
    return cache(lambda: recorded_of(trace))


def recorded_in(seconds: Seconds) -> Recorded | None:
    """What was given, told."""
    told = seconds() if callable(seconds) else seconds
    return Recorded(0.0, told) if isinstance(told, float | int) else told


def in_seconds(seconds: Seconds, pids: Array) -> float | None:
    """How long that is of some processes: a rate is of the time in which they could have done it."""
    told = recorded_in(seconds)
    return None if told is None else told.seconds_of(pids)


class Fold(Protocol[R]):
    """One question to the events of one recording or session. One that reads no ids of activities says so by a ``needs_activities`` of False: they
    are 0 then where all folds of a pass say so, which takes a third less time and memory where there are many. One that has a ``tally``
    (:class:`~dotnetdiag.trace.tally.Tally`) finds what it has added up there, of events that no window has then.
    """

    def wants(self, schema: EventSchema) -> bool:
        """Whether the answer depends on events of this type, by provider, name and id: its fields need not be known yet."""

    def feed(self, window: EventTable) -> None:
        """Take the next window in time; events of other types in it are passed over."""

    def result(self) -> R:
        """The answer, to be asked for once: what was kept goes into it. Raises UsageError before the first window."""


@overload
def fold(trace: Trace, one: Fold[A], /, *, rows: int = ...) -> tuple[A]: ...
@overload
def fold(trace: Trace, one: Fold[A], two: Fold[B], /) -> tuple[A, B]: ...
@overload
def fold(trace: Trace, one: Fold[A], two: Fold[B], three: Fold[C], /) -> tuple[A, B, C]: ...
@overload
def fold(trace: Trace, /, *folds: Fold[Any], rows: int = ...) -> tuple[Any, ...]: ...
def fold(trace: Trace, /, *folds: Fold[Any], rows: int = FOLDED_ROWS) -> tuple[Any, ...]:
    """The results of several folds, in their order, in one pass over the events of a trace, in windows of so many ``rows``. Raises what the folds
    raise.
    """
    activities = any(getattr(one, "needs_activities", True) for one in folds)
    asked = list(folds)
    tallying = next((one for one in asked if isinstance(getattr(one, "tally", None), Tally)), None)
    windows = windows_as_met(
        trace,
        lambda schema: any(one.wants(schema) for one in asked),
        size=rows,
        activities=activities,
        tally=getattr(tallying, "tally", None),
        light=lambda schema: not any(one.wants(schema) for one in asked if one is not tallying),
    )
    for window in windows:
        for one in folds:
            one.feed(window)
        del window  # while the next is made
    waiting = list(folds)
    asked.clear()
    tallying, folds = None, ()  # what a fold keeps goes with it, where the caller has no use for it either
    return tuple(results_of(waiting))


def results_of(folds: list[Fold[Any]]) -> Iterator[Any]:
    """Their results one after another. They are taken off the list, and what each has kept is given back before the next is asked: the peak of
    several is that of the largest.
    """
    while folds:
        yield folds.pop(0).result()
        give_back_freed()


class LossesToTell:
    """What the recording or session lacks whose windows a fold takes: told with its result. Before all windows were fed a recording would be read
    once more to find it out, and a session has not lost yet what it will.
    """

    def __init__(self) -> None:
        self._trace: Context | None = None

    def of(self, window: EventTable) -> None:
        """Take note of a window."""
        self._trace = window.trace

    @property
    def told(self) -> Losses:
        """They; none where there was no window."""
        return NO_LOSSES if self._trace is None else self._trace.losses

    def between(self) -> LostBetween | None:
        """When that was; None without a window."""
        return None if self._trace is None else LostBetween(self._trace)

    @property
    def is_of_several(self) -> bool:
        """Whether these are windows of several processes."""
        return self._trace is not None and self._trace.meaning.is_of_several

    def lost_by(self, pid: int) -> int | None:
        """How many events a process has lost at most; None where that is not known."""
        return 0 if self._trace is None else lost_by(self._trace, pid)


class OfTypes:
    """The events of some types in windows that have others too."""

    def __init__(self, wants: Callable[[EventSchema], bool]) -> None:
        self.wants = wants
        self._seen: Mapping[int, EventSchema] | None = None  # few windows of a recording have others than that before
        self._own: dict[int, EventSchema] = {}
        self._ids: Array = np.zeros(0, np.uint32)
        self._fields: tuple[FieldSource, ...] = ()

    def mask(self, window: EventTable) -> Array:
        """Which events these are."""
        self._look_at(window.schemas)
        if len(self._own) in (0, len(window.schemas)):
            return np.full(len(window), bool(self._own), np.bool_)
        return lookup(self._ids, window.headers.metadata_id)

    def rows(self, window: EventTable) -> Array:
        """Places of these events in the window, ascending."""
        self._look_at(window.schemas)
        return np.arange(len(window)) if len(self._own) == len(window.schemas) else window.rows_of_types(self._own)

    def of(self, window: EventTable) -> EventTable:
        """The window of these events alone."""
        self._look_at(window.schemas)
        if len(self._own) == len(window.schemas):
            return window
        return window.of_types(self._own, self._fields)

    def _look_at(self, schemas: Mapping[int, EventSchema]) -> None:
        if schemas is self._seen:
            return
        self._seen = schemas
        self._own = {number: schema for number, schema in schemas.items() if self.wants(schema)}
        self._ids = wanted_of(self._own)
        self._fields = join_fields(self._own) if len(self._own) < len(schemas) else ()
